"""The bench of a series: its cluster and policy service, found again from the machines it holds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dags.progress import ProgressFile
from dags.run_record import WallClock
from dags.series import Series
from dags.steadiness import steady_test
from dags.steps import machines, tenure
from dags.steps.under_way import Bench

PACE = "BAROGRAPH_FAKE_PACE"  # real seconds for each second of the fake testbed


def bench_for(series: Series) -> Bench:
    """By the testbed's name: whatever is not in the dict is a testbed with real machines."""
    return BENCHES.get(series.experiment.testbed.name, _on_machines)(series)


def _on_machines(series: Series) -> Bench:
    from dags.service_client import HttpService
    from dags.steps.storm_cluster import StormCluster

    cluster = StormCluster.of(series)
    service = HttpService(cluster.master.control_address, cluster.token_file)
    steady = steady_test(series.experiment.durations)
    return Bench(series.experiment, cluster, service, WallClock(), ProgressFile(series.folder), steady)


@dataclass(frozen=True)
class _Tenancy:
    """The fake testbed's machines come and go as those of a real one do, so that what they cost is counted."""

    series: Series

    def grow(self, names: Sequence[str]) -> object:
        return machines.grow(self.series, names)

    def give_back(self, names: Sequence[str]) -> object:
        return machines.give_back(self.series, names)

    def recalled(self) -> tuple[str, ...]:
        return machines.recalled(self.series)


def _in_memory(series: Series) -> Bench:
    from dags.steps.fake_cluster import FakeClock, FakeStorm

    experiment = series.experiment
    clock = FakeClock(time.time(), pace=float(os.environ.get(PACE) or 0.0))
    storm = FakeStorm(
        clock,
        experiment.starting(),
        experiment.workers(),
        experiment.topology.name,
        experiment.testbed.joining,
        _Tenancy(series) if tenure.saved_lease(series.folder) else None,
    )
    steady = steady_test(experiment.durations)
    return Bench(experiment, storm, storm, clock, ProgressFile(series.folder), steady)


BENCHES: Mapping[str, Callable[[Series], Bench]] = {"fake": _in_memory}
