"""Two days of ten topologies as one experiment, and where the time goes: `python -m bench.speed.long_runs`.

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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from barograph.campaign.steps import attempt_next_run
from barograph.plan.experiment import Experiment, load, only
from barograph.run.context import context_in_memory
from barograph.run.rate_courses import RateCourses
from barograph.run.simulated_cluster import SimulatedCluster
from barograph.run.simulation import InProcessService, SampleFiles, SimulatedClock
from barograph.series.results import avro_jars
from barograph.series.series import open_series
from bench.tables import markdown_table
from inventory.simulated import SimulatedTestbed
from scheduler_plugins.driver.nimbus import Nimbus
from scheduler_plugins.service.state import ServiceState
from scheduler_plugins.simulator.lines import MachineLines, WorkerLines
from scheduler_plugins.simulator.world import World

NAME = "long/ten_jobs"
DAYS_S, AIM_S = 172_800.0, 60.0  # two days, and what they are to take
PARTS: dict[str, tuple[tuple[type, str], ...]] = {
    "world": ((World, "advance"),),
    "lines of workers and machines": ((WorkerLines, "take"), (MachineLines, "take")),
    "files": ((SampleFiles, "add_workers"), (SampleFiles, "add_machines"), (SimulatedCluster, "collect")),
    "samples in the service": ((ServiceState, "take_samples"), (ServiceState, "take_machine_samples")),
    "rounds: service, policy and its log": ((Nimbus, "advance"),),
    "looks": ((InProcessService, "state"),),
    "courses of rates": ((RateCourses, "_send_or_fail"), (ServiceState, "due_seconds")),
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


@dataclass(frozen=True)
class LongRun:
    """`folder`: of its series. `simulated_s`: with its warm-up."""

    folder: Path
    watch: Stopwatch
    simulated_s: float


def simulate(experiment: Experiment, scratch: Path) -> LongRun:
    testbed, watch = SimulatedTestbed(experiment.testbed.options["simulated"]), Stopwatch()
    series, clock = open_series(experiment, new=True), SimulatedClock()
    begin_s = clock.now()
    with watch.running():
        cluster = SimulatedCluster(experiment, testbed, clock, scratch / "cluster")
        context = context_in_memory(experiment, cluster, clock, testbed.options.look_s)
        while attempt_next_run(series, context):
            continue
    return LongRun(series.folder, watch, clock.unshifted() - begin_s)


def analyse(folder: Path) -> float:
    """Seconds."""
    from analysis import pipeline
    from analysis.record.files import SeriesPaths

    begun = time.monotonic()
    pipeline.analyse(folder, jars=avro_jars(SeriesPaths(folder), print))
    return time.monotonic() - begun


def _in_proportion(cpu_s: float, simulated_s: float) -> str:
    """What two days take, if all of them are as what was simulated."""
    said = f"{cpu_s:,.0f} s of CPU, {cpu_s / AIM_S:.0f} times the aim of {AIM_S:.0f} s"
    return f"two days, in proportion to these {simulated_s / 3600:.1f} h: {said}"


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
        run = simulate(experiment_of(given.hours, given.variant), Path(scratch))
        wall_s, analysed = time.monotonic() - begun, list[list[str]]()
        size_mb = sum(path.stat().st_size for path in run.folder.rglob("*") if path.is_file()) / 1e6
        if given.analyse:
            analysed = [["tables, metrics and report, elapsed", f"{analyse(run.folder):.1f}", ""]]
    rows = [[part, f"{run.watch.seconds[part]:.1f}", f"{run.watch.calls[part]:,}"] for part in PARTS]
    rows.append([REST, f"{run.watch.seconds[REST]:.1f}", ""])
    cpu_s = sum(run.watch.seconds.values())
    rows.append(["all", f"{cpu_s:.1f}", ""])
    rows.append([_in_proportion(cpu_s * DAYS_S / run.simulated_s, run.simulated_s), "", ""])
    rows += [["elapsed", f"{wall_s:.1f}", ""], *analysed]
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    title = f"{NAME}, {given.variant}, {given.hours:g} h: {size_mb:,.0f} MB of record, {peak_mb:,.0f} MB of memory"
    print(markdown_table(title, ["", "CPU, s", "calls"], rows))


if __name__ == "__main__":
    main()
