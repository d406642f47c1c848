"""A comparison: its budget (blocks, a time, or money), its sides, and its experiment, in which every variant is on both
sides, in the same blocks on the same machines. Pure, but for a scheduler's YAML file and a testbed's price table.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from analysis.compare.question import DEFAULT_BLOCKS, Budget, Pair
from analysis.record.files import COMPARISONS
from barograph.code.git import has_same_folder
from barograph.errors import ExperimentError
from barograph.plan import durations
from barograph.plan.experiment import FOREIGN, WHOLE_CLUSTER, Code, Experiment, Variant, from_data
from barograph.plan.simulation import is_simulated
from barograph.testbeds.checks import testbed_without_options
from barograph.testbeds.costs import cost
from barograph.yaml_files import PathText, Strict, Text, read_yaml, validated
from inventory import TESTBEDS
from inventory.testbed import SupportsPricing

FEWEST_BLOCKS = 3  # fewer have no useful interval
MOST_RUNS = 1000  # the user's own Airflow maps no more than 1024 tasks unless it is set to
ALLOWED_BUDGETS = "`20 blocks`, `2h`, `90min`, or `$5` where machines cost money"
_PATTERN = re.compile(r"(?P<usd>\$)?\s*(?P<number>\d+(\.\d+)?)\s*(?P<unit>blocks?|h|min)?")
_UNIT_S = {"h": 3600.0, "min": 60.0}


DEFAULT_BUDGET = Budget(blocks=DEFAULT_BLOCKS)


def parse_budget(text: str) -> Budget:
    """Parse a budget. Raises ExperimentError with what is allowed."""
    match = _PATTERN.fullmatch(text.strip())
    unit = match["unit"] or "" if match else ""
    if match is None or bool(match["usd"]) == bool(unit) or not float(match["number"]) > 0:
        raise ExperimentError(f"budget is {text!r}; allowed: {ALLOWED_BUDGETS}")
    number = float(match["number"])
    if match["usd"]:
        return Budget(usd=number)
    if unit in _UNIT_S:
        return Budget(seconds=number * _UNIT_S[unit])
    if number != int(number):
        raise ExperimentError(f"budget is {text!r}; blocks are whole: give {int(number) or 1} or {int(number) + 1}")
    return Budget(blocks=int(number))


def limit_cost(experiment: Experiment, budget: Budget) -> Experiment:
    """Return the experiment with the budget of money on its testbed, if that is the budget. Raises ExperimentError."""
    if budget.usd is None:
        return experiment
    name = experiment.testbed.name
    if name in TESTBEDS and not isinstance(testbed_without_options(name), SupportsPricing):
        raise _free_testbed_error(experiment, budget.usd)
    options = {**experiment.testbed.options.get(name, {}), "budget_usd": budget.usd}
    testbed = replace(experiment.testbed, options={**experiment.testbed.options, name: options})
    return replace(experiment, testbed=testbed)


def most_blocks(experiment: Experiment, block: int, budget: Budget, pricing: SupportsPricing | None) -> int:
    """Return the largest number of blocks of `block` runs within the budget; for a time, every run ends at its floors.

    It depends on no measurement: the same request must stay the same series. Raises ExperimentError where not even
    `FEWEST_BLOCKS` fit.
    """
    ceiling = MOST_RUNS // block
    if budget.usd is not None:
        if pricing is None:
            raise _free_testbed_error(experiment, budget.usd)

        def most_usd(blocks: int) -> float:
            return cost(experiment, blocks * block, durations.DEFAULT_OVERHEAD, pricing).longest.total_usd

        blocks = bisect_right(range(1, ceiling + 1), budget.usd, key=most_usd)
        need = f"${most_usd(FEWEST_BLOCKS) + 0.01:.2f}"
    elif budget.seconds is not None:
        block_s = block * durations.run_s(experiment, replace(durations.DEFAULT_OVERHEAD, run_s=0.0, boot_s=0.0))
        blocks, need = int(budget.seconds // block_s), f"at least {FEWEST_BLOCKS * block_s / 60:.0f} min"
    else:
        blocks, need = budget.blocks or 0, f"{FEWEST_BLOCKS} blocks"
    if blocks < FEWEST_BLOCKS:
        raise ExperimentError(
            f"budget is {budget_text(budget)}, which holds {blocks} block{'' if blocks == 1 else 's'} of {block} runs;"
            f" a comparison needs {FEWEST_BLOCKS}: give {need}"
        )
    return min(blocks, ceiling)


def budget_text(budget: Budget) -> str:
    if budget.usd is not None:
        return f"${budget.usd:g}"
    if budget.seconds is not None:
        is_hours = budget.seconds % 3600 == 0
        return f"{budget.seconds / 3600:g} h" if is_hours else f"{budget.seconds / 60:g} min"
    return f"{budget.blocks} block{'s' * (budget.blocks != 1)}"


def _free_testbed_error(experiment: Experiment, usd: float) -> ExperimentError:
    return ExperimentError(
        f"budget is ${usd:g}, but machines of testbed {experiment.testbed.name} cost nothing; give blocks or a time,"
        " such as `20 blocks` or `2h`"
    )


Letter = Literal["a", "b"]
LETTERS: tuple[Letter, Letter] = ("a", "b")
ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True)
class Side:
    """Code that decides; `parameters` only for a foreign scheduler, which replaces every variant."""

    code: Code
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def foreign(self) -> bool:
        return bool(self.code.scheduler)


class _Foreign(Strict):
    label: Annotated[str, StringConstraints(min_length=1, max_length=60, strip_whitespace=True)]
    repository: PathText | None = None
    ref: Text | None = None
    build: list[Text] = Field(default_factory=list)
    jar: PathText
    scheduler: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*$")]
    files: list[PathText] = Field(default_factory=list)
    conf: Annotated[dict[str, Any], Field(default_factory=dict)]
    rebalance: bool = False


def read_side(said: str) -> Side:
    """Return a side as a user names it: a git ref of this repository (`code.commit` is still the ref), or a YAML file
    of a scheduler. Raises ExperimentError."""
    if not said.strip():
        raise ExperimentError("a side of the comparison is empty; give a git ref such as main, or a YAML file")
    if not said.endswith(ENDINGS):
        return Side(Code(said.strip(), said.strip()))
    path = Path(said)
    if not path.is_file():
        raise ExperimentError(
            f"{path}: no such file; a side is a git ref, or a YAML file of a scheduler (docs/comparing.md)"
        )
    model = validated(_Foreign, read_yaml(path), source=said)
    parameters = {"conf": model.conf, "rebalance": model.rebalance}
    if model.repository is not None and model.ref is not None:
        folder = path.parent / Path(model.repository).expanduser()  # relative to the file, or else a URL for git
        is_folder = model.repository.startswith((".", "/", "~")) or folder.is_dir()
        repository = str(folder.resolve()) if is_folder else model.repository
        build, files = tuple(model.build), tuple(model.files)
        return Side(Code(model.label, model.ref, repository, build, model.jar, model.scheduler, files), parameters)
    if model.repository or model.ref or model.build:
        raise ExperimentError(
            f"{path}: repository and ref belong together; a jar without git has neither, and no build"
        )
    jar, *beside = (str(path.parent / Path(each).expanduser()) for each in (model.jar, *model.files))
    return Side(Code(model.label, jar=jar, scheduler=model.scheduler, files=tuple(beside)), parameters)


def labels(a: Side, b: Side) -> dict[Letter, str]:
    """Return names that tell the sides apart, also where somebody compares something with itself."""
    if a.code.label != b.code.label:
        return {"a": a.code.label, "b": b.code.label}
    return {"a": f"{a.code.label} (A)", "b": f"{b.code.label} (B)"}


@dataclass(frozen=True)
class Demand:
    """The required certainty of the answer, its budget, and of several topologies the one asked about."""

    until_certain: bool = False
    goal_percent: float = 5.0
    budget: Budget = DEFAULT_BUDGET
    topology: str | None = None


def require_topology(experiment: Experiment, topology: str | None) -> None:
    """Raise ExperimentError for one that does not run in the experiment; `all` is the cluster, where several run."""
    names = [each.name for each in experiment.every_topology()]
    topologies = [*names, WHOLE_CLUSTER] if len(names) > 1 else names
    if topology is not None and topology not in topologies:
        raise ExperimentError(f"--topology is {topology!r}; {experiment.name} has {', '.join(topologies)}")


def require_answerable(experiment: Experiment, demand: Demand) -> None:
    """Raise ExperimentError for --until-certain of simulated runs."""
    if demand.until_certain and is_simulated(experiment):
        raise ExperimentError(
            "--until-certain is for runs on machines: simulated ones differ by their seeds alone, and enough of them"
            " would make any difference certain; say with --blocks how many seeds there are to be"
        )


@dataclass(frozen=True)
class Comparison:
    """A comparison. `experiment` runs; `bisecting`: the search that asks, and its metric, if any."""

    experiment: Experiment
    source: str  # the experiment from which it is derived
    sides: Mapping[Letter, Side]
    pairs: tuple[Pair, ...]
    demand: Demand
    bisecting: Mapping[str, Any] | None = None


def derive(
    source: Experiment, a: Side, b: Side, blocks: int, demand: Demand, bisecting: Mapping[str, Any] | None = None
) -> Comparison:
    """Derive the comparison. `source` has the requested variants, testbed and durations; the sides are resolved to
    commits.

    Raises ExperimentError where the derived experiment would not be valid.
    """
    sides: dict[Letter, Side] = {"a": a, "b": b}
    if not 0 < demand.goal_percent < inf:
        raise ExperimentError(f"goal is {demand.goal_percent:g}; allowed: percent above 0, such as 5")
    if blocks < FEWEST_BLOCKS:
        raise ExperimentError(f"blocks is {blocks}; a comparison needs at least {FEWEST_BLOCKS} blocks")
    variants: list[Variant] = []
    for letter, side in sides.items():
        if side.foreign:
            sample = _with_common_topology(source)
            own = (sample.topology, sample.topologies)
            variants.append(Variant(f"{FOREIGN}_{letter}", FOREIGN, side.parameters, side.code, *own))
        else:
            variants += [replace(each, name=f"{each.name}_{letter}", code=side.code) for each in source.variants]
    experiment = replace(
        source,
        name=f"{COMPARISONS}/{source.name.replace('/', '_')}",
        title=f"{source.title}: two codes side by side",
        variants=tuple(variants),
        repetitions=blocks,
        claims=(),
    )
    # A foreign scheduler has one run a block, which is in every pair; two of them are one pair.
    names = [FOREIGN] if a.foreign and b.foreign else [each.name for each in source.variants]
    pairs = (Pair(name, *(f"{FOREIGN if sides[letter].foreign else name}_{letter}" for letter in LETTERS))
             for name in names)  # fmt: skip
    derived = from_data(experiment.as_data(), "as asked for")
    return Comparison(derived, source.name, sides, tuple(pairs), demand, bisecting)


def remarks(comparison: Comparison) -> tuple[str, ...]:
    """Return remarks on what is allowed but noteworthy."""
    a, b = comparison.sides["a"], comparison.sides["b"]
    texts = []
    is_model = is_simulated(comparison.experiment)
    if (a.code.repository, a.code.commit, a.parameters) == (b.code.repository, b.code.commit, b.parameters):
        chance = (
            "with one seed the model gives the same of both" if is_model else "a difference that it calls is chance"
        )
        texts.append(f"A and B are the same commit {a.code.commit[:10]}: an A/A comparison; {chance}")
    elif not (a.foreign or b.foreign) and has_same_folder(a.code, b.code, "scheduler_plugins"):
        texts.append(
            f"A and B have the same policies: {a.code.commit[:10]} and {b.code.commit[:10]} do not differ in"
            " scheduler_plugins/, and nothing else of them is compared; run the experiment from each checkout instead"
        )
    if is_model:
        texts.append(
            "of each commit its policies and its policy service decide; bridge, Nimbus and machines are those of the"
            " simulator, and its answer has no verdict"
        )
    texts += [f"{side.code.label} stands for every variant of {comparison.source}" for side in (a, b) if side.foreign]
    if comparison.demand.until_certain:
        limit = f"they are enough to find a difference of {comparison.demand.goal_percent:g} % or to rule it out"
        if (asks := comparison.bisecting) is not None:
            limit = f"the interval of {asks['metric']} ({asks['event']}) is ±{asks['half_width']:.3g} or narrower"
        texts.append(f"blocks are added until {limit}, within {budget_text(comparison.demand.budget)}")
    return tuple(texts)


def _with_common_topology(source: Experiment) -> Variant:
    """Return a variant whose topologies a scheduler has that replaces every variant."""
    sample = source.variants[0]
    for variant in source.variants:
        if (variant.topology, variant.topologies) != (sample.topology, sample.topologies):
            raise ExperimentError(
                f"{source.name}: the topologies of {sample.name} and {variant.name} differ, and a scheduler that is not"
                " ours stands for both; choose variants of one topology"
            )
    return sample
