from dataclasses import replace
from pathlib import Path

import pytest

from barograph.plan.experiment import Durations, Experiment, load
from barograph.run.context import SeriesContext
from barograph.run.monitor import steady_test
from barograph.run.simulation import SimulatedClock
from barograph.series.series import Series, open_series
from barograph.testbeds import checks
from tests.support import warm_pool
from tests.support.fakes.storm import FakeStorm


class Heard:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.lines: list[dict[str, object]] = []

    def tell(self, kind: str, **facts: object) -> None:
        self.lines.append({"kind": kind, **facts})

    def kinds(self) -> list[object]:
        return [line["kind"] for line in self.lines]


@pytest.fixture(autouse=True)
def _warm_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barograph.campaign.simulation.ProcessPool", warm_pool.pool)


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State, results and Airflow's home of the test's own."""
    for name in ("STATE", "RESULTS", "HOME"):
        monkeypatch.setenv(f"BAROGRAPH_{name}", str(tmp_path / name.lower()))
    checks._cached_testbed.cache_clear()


@pytest.fixture
def experiment() -> Experiment:
    star = load("stela/star")
    short = Durations(warm_up_floor_s=45, warm_up_ceiling_s=100, after_floor_s=50, horizon_s=90)
    return replace(star, repetitions=2, durations=short)


@pytest.fixture
def series(experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Series:
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(tmp_path / "results"))
    return open_series(experiment, now_s=1_699_999_000.0)


@pytest.fixture
def storm(experiment: Experiment) -> FakeStorm:
    return FakeStorm(SimulatedClock(1_700_000_000.0), experiment.starting(), experiment.workers())


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def bench(experiment: Experiment, storm: FakeStorm, heard: Heard) -> SeriesContext:
    return SeriesContext(experiment, storm, storm, storm.clock, heard, steady_test)
