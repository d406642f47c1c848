"""Two days of ten topologies as one experiment, and where the time goes: `python -m tests.calibration.long_runs`.

Runs `long/ten_jobs` as `barograph run` does, in a folder that goes afterwards: driver, policy service, policy and
record. Seconds of this process by part, each without the parts inside it. `--hours` cuts the last watch, `--variant`
names another variant, `--analyse` also makes tables, metrics and report of the record, which needs Java.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from barograph.plan.experiment import Experiment, load, only
from barograph.run.context import context_in_memory
from barograph.run.rate_courses import RateCourses
from barograph.run.service_in_process import InProcessService
from barograph.run.simulated_cluster import SimulatedClock, SimulatedCluster
from barograph.run.simulation import SampleFiles
from barograph.series.results import avro_jars
from barograph.series.series import open_series
from barograph.series_steps import attempt_next_run
from inventory.simulated import SimulatedTestbed
from scheduler_plugins.driver.nimbus import Nimbus
from scheduler_plugins.service_state import ServiceState
from scheduler_plugins.simulator.lines import MachineLines, WorkerLines
from scheduler_plugins.simulator.world import World
from tests.calibration.comparisons import markdown_table

NAME = "long/ten_jobs"
PARTS: dict[str, tuple[tuple[type, str], ...]] = {
    "world": ((World, "advance"),),
    "lines of workers and machines": ((WorkerLines, "take"), (MachineLines, "take")),
    "files": ((SampleFiles, "add_workers"), (SampleFiles, "add_machines"), (SimulatedCluster, "collect")),
    "samples in the service": ((ServiceState, "take_samples"), (ServiceState, "take_machine_samples")),
    "rounds: service, policy and its log": ((Nimbus, "advance"),),
    "looks": ((InProcessService, "state"),),
    "courses of rates": ((RateCourses, "_send_ahead"), (ServiceState, "due_seconds")),
}
REST = "the rest"


class Stopwatch:
    """CPU seconds of this process by part, each without those inside it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self._inside = [REST]
        self._since_s = time.process_time()

    def _note(self) -> None:
        now = time.process_time()
        self.seconds[self._inside[-1]] += now - self._since_s
        self._since_s = now

    def timed(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._note()
            self._inside.append(part)
            self.calls[part] += 1
            try:
                return call(*args, **kwargs)
            finally:
                self._note()
                self._inside.pop()

        return timed

    @contextmanager
    def running(self) -> Iterator[None]:
        with ExitStack() as stack:
            for part, methods in PARTS.items():
                for owner, name in methods:
                    stack.enter_context(mock.patch.object(owner, name, self.timed(part, getattr(owner, name))))
            yield
            self._note()


def experiment_of(hours: float, variant: str) -> Experiment:
    chosen = only(load(NAME), (variant,))
    watched = replace(chosen.durations, after_floor_s=3600 * hours, horizon_s=3600 * hours)
    return replace(chosen, durations=watched)


def simulate(experiment: Experiment, scratch: Path) -> tuple[Path, Stopwatch]:
    """The series' folder, and where the time went."""
    testbed, watch = SimulatedTestbed(experiment.testbed.options["simulated"]), Stopwatch()
    series, clock = open_series(experiment, new=True), SimulatedClock()
    with watch.running():
        cluster = SimulatedCluster(experiment, testbed, clock, scratch / "cluster")
        context = context_in_memory(experiment, cluster, clock, testbed.options.look_s)
        while attempt_next_run(series, context):
            continue
    return series.folder, watch


def analyse(folder: Path) -> float:
    """Seconds."""
    from analysis import pipeline
    from analysis.record.files import SeriesPaths

    begun = time.monotonic()
    pipeline.analyse(folder, jars=avro_jars(SeriesPaths(folder), print))
    return time.monotonic() - begun


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--hours", type=float, default=48.0)
    options.add_argument("--variant", default="ds2")
    options.add_argument("--analyse", action="store_true")
    given = options.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="blong-") as scratch,
        mock.patch.dict("os.environ", {"BAROGRAPH_RESULTS": f"{scratch}/results"}),
    ):
        begun = time.monotonic()
        folder, watch = simulate(experiment_of(given.hours, given.variant), Path(scratch))
        wall_s, analysed = time.monotonic() - begun, list[list[str]]()
        size_mb = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
        if given.analyse:
            analysed = [["tables, metrics and report, elapsed", f"{analyse(folder):.1f}", ""]]
    rows = [[part, f"{watch.seconds[part]:.1f}", f"{watch.calls[part]:,}"] for part in PARTS]
    rows.append([REST, f"{watch.seconds[REST]:.1f}", ""])
    rows.append(["all", f"{sum(watch.seconds.values()):.1f}", ""])
    rows += [["elapsed", f"{wall_s:.1f}", ""], *analysed]
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    title = f"{NAME}, {given.variant}, {given.hours:g} h: {size_mb:,.0f} MB of record, {peak_mb:,.0f} MB of memory"
    print(markdown_table(title, ["", "CPU, s", "calls"], rows))


if __name__ == "__main__":
    main()
