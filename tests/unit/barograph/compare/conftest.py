"""Comparisons on fakes: sides whose throughput is as a test says, or which fail."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from analysis.compare.question import Budget
from barograph.compare import record
from barograph.compare.comparison import Comparison, Demand, Side, derive
from barograph.errors import RunBroken
from barograph.plan.blocks import PlannedRun
from barograph.plan.experiment import Code, Durations, Experiment, load, with_changes
from barograph.plan.topologies import TopologyChoice
from barograph.run.context import SeriesContext
from barograph.run.monitor import steady_test
from barograph.run.simulation import SimulatedClock
from barograph.series.progress import ProgressFile
from barograph.series.series import Series, open_series
from tests.support.fakes.storm import FakeStorm

MAIN = Side(Code("main", "a" * 40))
BRANCH = Side(Code("my-branch", "b" * 40))
SHORT = Durations(warm_up_floor_s=45, warm_up_ceiling_s=100, after_floor_s=50, horizon_s=90)


@dataclass
class SidedStorm(FakeStorm):
    """`factors`: by variant, how fast it is; None: nothing ever comes out. `noise`: relative, of each run."""

    factors: Mapping[str, float | None] = field(default_factory=dict)
    noise: float = 0.0
    _fast: float | None = 1.0

    def reset(self, run: PlannedRun) -> None:
        super().reset(run)
        factor = self.factors.get(run.variant.name, 1.0)
        self._fast = None if factor is None else factor * (1 + self.noise * Random(run.run_id).gauss(0, 1))

    def submit(self, run: PlannedRun, topology: TopologyChoice) -> None:
        if self._fast is None:
            raise RunBroken("Nimbus: java.lang.IllegalStateException: thrown by the branch")
        super().submit(run, topology)

    def _rate(self, topology: str, t: int) -> float:
        return super()._rate(topology, t) * (self._fast or 0.0)


@pytest.fixture
def source() -> Experiment:
    return replace(with_changes(load("stela/star"), {"testbed": "fake", "variants": ["stela"]}), durations=SHORT)


@pytest.fixture
def compared(source: Experiment) -> Callable[..., Comparison]:
    """A comparison of stela on two commits; options are of the demand, `blocks` of the plan."""

    def make(blocks: int = 3, a: Side = MAIN, b: Side = BRANCH, **question: Any) -> Comparison:
        question.setdefault("budget", Budget(blocks=blocks))
        return derive(source, a, b, blocks, Demand(**question))

    return make


@pytest.fixture
def opened(own_folders: None) -> Callable[..., Series]:
    def open_it(comparison: Comparison, now_s: float | None = None) -> Series:
        series = open_series(comparison.experiment, now_s=now_s)
        record.write(series.folder, comparison)
        return series

    return open_it


@pytest.fixture
def on_fakes(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """From now on runs are done by sides as they are said to be."""

    def install(factors: Mapping[str, float | None], noise: float = 0.0) -> None:
        clocks: dict[Path, SimulatedClock] = {}

        def bench(series: Series) -> SeriesContext:
            experiment = series.experiment
            clock = clocks.setdefault(series.folder, SimulatedClock(series.opened_s))
            storm = SidedStorm(clock, experiment.starting(), experiment.workers(), factors=factors, noise=noise)
            listener = ProgressFile(series.folder)
            return SeriesContext(experiment, storm, storm, clock, listener, steady_test)

        monkeypatch.setattr("barograph.campaign.steps.context_of", bench)

    return install
