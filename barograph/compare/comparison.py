"""The experiment of a comparison: every variant on both sides, in the same blocks on the same machines. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from analysis.record.files import COMPARISONS
from barograph.compare.budget import DEFAULT_BUDGET, FEWEST_BLOCKS, Budget, budget_text
from barograph.compare.sides import LETTERS, Letter, Side
from barograph.errors import ExperimentError
from barograph.plan.experiment import FOREIGN, WHOLE_CLUSTER, Experiment, TopologyChanges, Variant, from_data
from barograph.plan.simulation import is_simulated

LEVEL = 0.05


@dataclass(frozen=True)
class Question:
    """The required certainty of the answer, and its budget."""

    until_certain: bool = False
    goal_percent: float = 5.0  # half of the interval's width
    budget: Budget = DEFAULT_BUDGET
    level: float = LEVEL
    topology: str | None = None  # the one topology asked about, of several

    def as_data(self) -> dict[str, Any]:
        of = {} if self.topology is None else {"topology": self.topology}
        return {
            "level": self.level,
            "goal_percent": self.goal_percent,
            "until_certain": self.until_certain,
            **of,
        }


def require_topology(experiment: Experiment, topology: str | None) -> None:
    """Raise ExperimentError for one that does not run in the experiment; `all` is the cluster, where several run."""
    names = [each.name for each in experiment.every_topology()]
    topologies = [*names, WHOLE_CLUSTER] if len(names) > 1 else names
    if topology is not None and topology not in topologies:
        raise ExperimentError(f"--topology is {topology!r}; {experiment.name} has {', '.join(topologies)}")


def require_answerable(experiment: Experiment, question: Question) -> None:
    """Raise ExperimentError for --until-certain of simulated runs."""
    if question.until_certain and is_simulated(experiment):
        raise ExperimentError(
            "--until-certain is for runs on machines: simulated ones differ by their seeds alone, and enough of them"
            " would make any difference certain; say with --blocks how many seeds there are to be"
        )


@dataclass(frozen=True)
class Pair:
    """Two variants of the derived experiment, identified by the name of their common variant."""

    name: str
    a: str
    b: str


@dataclass(frozen=True)
class Comparison:
    """A comparison. `experiment` runs; `bisecting`: the search that asks, and its metric, if any."""

    experiment: Experiment
    source: str  # the experiment from which it is derived
    sides: Mapping[Letter, Side]
    pairs: tuple[Pair, ...]
    question: Question
    bisecting: Mapping[str, Any] | None = None


def comparison_name(experiment: str) -> str:
    """Return `compare/<family>_<name>`."""
    return f"{COMPARISONS}/{experiment.replace('/', '_')}"


def derive(
    source: Experiment,
    a: Side,
    b: Side,
    blocks: int,
    question: Question,
    bisecting: Mapping[str, Any] | None = None,
) -> Comparison:
    """Derive the comparison. `source` has the requested variants, testbed and durations; the sides are resolved to
    commits.

    Raises ExperimentError where the derived experiment would not be valid.
    """
    sides: dict[Letter, Side] = {"a": a, "b": b}
    if not 0 < question.goal_percent < inf:
        raise ExperimentError(f"goal is {question.goal_percent:g}; allowed: percent above 0, such as 5")
    if blocks < FEWEST_BLOCKS:
        raise ExperimentError(f"blocks is {blocks}; a comparison needs at least {FEWEST_BLOCKS} blocks")
    experiment = replace(
        source,
        name=comparison_name(source.name),
        title=f"{source.title}: two codes side by side",
        variants=tuple(variant for letter in LETTERS for variant in _variants(source, letter, sides[letter])),
        repetitions=blocks,
        claims=(),
    )
    return Comparison(
        from_data(experiment.as_data(), "as asked for"), source.name, sides, _pairs(source, a, b), question, bisecting
    )


def block_size(source: Experiment, a: Side, b: Side) -> int:
    """Return the number of runs in a block."""
    return sum(1 if side.foreign else len(source.variants) for side in (a, b))


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
    if is_model:
        texts.append(
            "of each commit its policies and its policy service decide; bridge, Nimbus and machines are those of the"
            " simulator, and its answer has no verdict"
        )
    texts += [f"{side.code.label} stands for every variant of {comparison.source}" for side in (a, b) if side.foreign]
    if comparison.question.until_certain:
        limit = f"they are enough to find a difference of {comparison.question.goal_percent:g} % or to rule it out"
        if (asks := comparison.bisecting) is not None:
            limit = f"the interval of {asks['metric']} ({asks['event']}) is ±{asks['half_width']:.3g} or narrower"
        texts.append(f"blocks are added until {limit}, within {budget_text(comparison.question.budget)}")
    return tuple(texts)


def _variants(source: Experiment, letter: Letter, side: Side) -> tuple[Variant, ...]:
    if side.foreign:
        return (Variant(f"{FOREIGN}_{letter}", FOREIGN, side.parameters, side.code, _common_topology(source)),)
    return tuple(replace(each, name=f"{each.name}_{letter}", code=side.code) for each in source.variants)


def _common_topology(source: Experiment) -> TopologyChanges | None:
    """Return the topology changes for a scheduler that replaces every variant."""
    sample = source.variants[0]
    for variant in source.variants:
        if variant.topology != sample.topology:
            raise ExperimentError(
                f"{source.name}: the topologies of {sample.name} and {variant.name} differ, and a scheduler that is not"
                " ours stands for both; choose variants of one topology"
            )
    return sample.topology


def _pairs(source: Experiment, a: Side, b: Side) -> tuple[Pair, ...]:
    """Return the pairs. A foreign scheduler has one run a block, which is in every pair."""
    if a.foreign and b.foreign:
        return (Pair(FOREIGN, f"{FOREIGN}_a", f"{FOREIGN}_b"),)

    def name(variant: Variant, letter: Letter, side: Side) -> str:
        return f"{FOREIGN if side.foreign else variant.name}_{letter}"

    return tuple(Pair(each.name, name(each, "a", a), name(each, "b", b)) for each in source.variants)
