"""All that is done before a machine is touched: both sides resolved and built, their experiment's series opened."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from dags import money
from dags.checks import check
from dags.comparison import record
from dags.comparison.asked import Asked
from dags.comparison.budget import FEWEST_BLOCKS, most_blocks, within
from dags.comparison.derive import Comparison, block_size, derive
from dags.comparison.sides import Side, read_side
from dags.costs import lines_of
from dags.experiment import Experiment, load
from dags.request import requested
from dags.series import finished, open_series
from dags.sources.prepare import prepare
from dags.sources.refs import resolved_code
from dags.steps.provision import refuse_if_taken
from dags.testbeds import testbed_of

log = logging.getLogger(__name__)


def open_asked(asked: Asked, *, new: bool, rebuild: bool = False) -> Path:
    """The folder of the comparison's series. Nothing is started. Raises what has `blame`."""
    comparison = planned(asked)
    check(comparison.experiment)
    refuse_if_taken(comparison.experiment)
    prepare(comparison.experiment, log.info, rebuild=rebuild)
    reopen(comparison, new=new)
    cost = money.foreseen(comparison.experiment, new=new)
    for line in lines_of(cost) if cost else ():
        log.info("%s", line)
    series = open_series(comparison.experiment, new=new, estimate=cost.as_data() if cost else None)
    record.write(series.folder, comparison)
    return series.folder


def planned(asked: Asked) -> Comparison:
    """What will be run: names looked up, refs resolved to commits; nothing is built. Raises ExperimentError."""
    changes = {"policies": asked.policies, "testbed": asked.testbed, "options": asked.options}
    source = within(requested(load(asked.experiment), changes), asked.question.budget)
    testbed_of(source.testbed)  # a name that is not known need not wait for a build
    a, b = (_resolved(read_side(said)) for said in (asked.a, asked.b))
    return derive(source, a, b, _blocks(asked, source, a, b), asked.question, asked.bisecting)


def reopen(comparison: Comparison, *, new: bool) -> None:
    """A series that was enough for an easier question has runs to do for this one; not where a `new` one is wanted."""
    series = None if new else finished(comparison.experiment)
    if series is not None and series.enough() and record.is_comparison(series.folder):
        record.write(series.folder, comparison)


def _resolved(side: Side) -> Side:
    return replace(side, code=resolved_code(side.code))


def _blocks(asked: Asked, source: Experiment, a: Side, b: Side) -> int:
    if not asked.question.until_certain:
        return asked.repetitions if asked.repetitions is not None else max(FEWEST_BLOCKS, source.repetitions)
    return most_blocks(source, block_size(source, a, b), asked.question.budget, money.pricing_of(source))
