"""The request for a comparison, and the preparations before a machine is touched.

Two sides, one experiment, and how sure the answer must be, from the command line or a form; then both sides are
resolved to commits and built, and the series of their experiment is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from analysis.compare.question import is_comparison
from barograph.code.git import resolve_code
from barograph.compare import record
from barograph.compare.comparison import (
    DEFAULT_BUDGET,
    ENDINGS,
    FEWEST_BLOCKS,
    LETTERS,
    Comparison,
    Demand,
    derive,
    limit_cost,
    most_blocks,
    parse_budget,
    read_side,
    require_answerable,
    require_topology,
)
from barograph.errors import ExperimentError
from barograph.machines import holdings
from barograph.machines.provision import open_checked
from barograph.plan.experiment import load, with_changes
from barograph.series import hold
from barograph.series.series import newest_series, series_of_dag_run
from barograph.settings import ROOT
from barograph.testbeds.checks import check, testbed_of

SCHEDULERS = ROOT / "dags" / "schedulers"


@dataclass(frozen=True)
class ComparisonRequest:
    """A request. `a` and `b` are git refs or YAML files; `bisecting`: the search that asks, and its metric, if any."""

    a: str
    b: str
    experiment: str
    variants: tuple[str, ...] | None = None  # None: all of them
    blocks: int | None = None  # None: the experiment's repetitions
    testbed: str | None = None
    options: Mapping[str, Any] | None = None  # of the testbed
    demand: Demand = field(default_factory=Demand)
    bisecting: Mapping[str, Any] | None = None


def comparison_request(answers: Mapping[str, Any]) -> ComparisonRequest:
    """Return the request of a form's answers, or of command-line options. Raises ExperimentError for contradictions."""
    variants: Sequence[str] | None = answers["variants"]
    until_certain, budget, blocks = bool(answers["until_certain"]), answers["budget"], answers["blocks"]
    if budget and not until_certain:
        raise ExperimentError(f"budget is {budget!r}, which is for --until-certain; without it give --blocks")
    if until_certain and blocks is not None:
        raise ExperimentError(
            f"blocks is {blocks} with --until-certain, which decides how many blocks are needed;"
            f" limit them with --budget '{blocks} blocks'"
        )
    goal = 5.0 if answers["goal_percent"] is None else float(answers["goal_percent"])
    limit = parse_budget(budget) if budget else DEFAULT_BUDGET
    return ComparisonRequest(
        a=answers["a"],
        b=answers["b"],
        experiment=answers["experiment"],
        variants=tuple(variants) if variants else None,
        blocks=blocks,
        testbed=answers["testbed"],
        options=answers["options"] or None,
        demand=Demand(until_certain, goal, limit, answers.get("topology") or None),
    )


def with_registered_sides(answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers of a form, with the full path of a side that is a file. Raises ExperimentError for another
    file.

    Such a file runs commands: a user of the form can only choose among those in SCHEDULERS.
    """
    files = {path.name: path for path in sorted(SCHEDULERS.glob("*")) if path.name.endswith(ENDINGS)}
    sides: dict[str, str] = {letter: str(answers[letter]) for letter in LETTERS}
    for letter, text in sides.items():
        if not text.strip().endswith(ENDINGS):
            continue
        file = files.get(text.strip())
        if file is None or not file.resolve().is_relative_to(SCHEDULERS.resolve()):
            raise ExperimentError(
                f"{letter} is {text!r}; allowed in a form: a branch, a tag or a commit of this repository, or a file of"
                f" {SCHEDULERS}, by its name: {', '.join(files) or 'none is there yet'}; put the file there, or name it"
                " to `barograph compare`"
            )
        sides[letter] = str(file)
    return {**answers, **sides}


def open_comparison(request: ComparisonRequest, *, new: bool, again: bool = False, rebuild: bool = False) -> Path:
    """Open the comparison's series and return its folder. Nothing is started. Raises errors with `blame`."""
    comparison = plan_comparison(request)
    check(comparison.experiment)
    reopen = partial(reopen_comparison, comparison, new=new, again=again)
    series = open_checked(comparison.experiment, new=new, again=again, rebuild=rebuild, before_open=reopen)
    record.write(series.folder, comparison)
    return series.folder


def plan_comparison(request: ComparisonRequest) -> Comparison:
    """Return the planned comparison: names looked up, refs resolved to commits; nothing is built. Raises
    ExperimentError."""
    demand = request.demand
    changes = {"variants": request.variants, "testbed": request.testbed, "options": request.options}
    source = limit_cost(with_changes(load(request.experiment), changes), demand.budget)
    require_answerable(source, demand)
    require_topology(source, demand.topology)
    testbed_of(source.testbed)  # an unknown name need not wait for a build
    a, b = (replace(side, code=resolve_code(side.code)) for side in map(read_side, (request.a, request.b)))
    if demand.until_certain:
        runs = sum(1 if side.foreign else len(source.variants) for side in (a, b))
        blocks = most_blocks(source, runs, demand.budget, holdings.pricing_of(source))
    else:
        blocks = max(FEWEST_BLOCKS, source.repetitions) if request.blocks is None else request.blocks
    return derive(source, a, b, blocks, demand, request.bisecting)


def reopen_comparison(comparison: Comparison, *, new: bool, again: bool = False) -> None:
    """Reopen a series that sufficed for an easier question and has runs to do for this one; not if `new`."""
    repeated = series_of_dag_run(comparison.experiment) if again else None
    series = repeated or (None if new else newest_series(comparison.experiment))
    if series is not None and series.is_sufficient() and is_comparison(series.folder):
        with hold.held(series.folder):
            record.write(series.folder, comparison)
