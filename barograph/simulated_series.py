"""Simulate a real series again: its experiment, variants, runs and seeds, on the testbed `simulated`.

No lease, no DAG and no progress reports: a simulated run holds nothing and takes seconds. Its record and its analysis
are those of every other run. Runs are parallel, each in a process of its own with a limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from analysis.record.event_timeline import FIRST_EVENT, event_times, read_timeline
from analysis.record.files import RunPaths, SeriesPaths, json_lines
from barograph.campaign.simulation import (
    SimulatedRun,
    SimulationFailure,
    disks_of,
    open_cell,
    simulate_cells,
    simulation_pool,
)
from barograph.errors import Say
from barograph.plan.blocks import PlannedRun
from barograph.plan.durations import step_limit
from barograph.plan.experiment import Durations, Experiment, Variant
from barograph.plan.simulation import complaints
from barograph.pool import cores
from barograph.run.simulated_cluster import SimulatedCluster, recorded_types, supervisor_ids
from barograph.run.simulation import SimulatedClock
from barograph.series.run_record import read_run
from barograph.series.series import Series, read_series, series_document
from barograph.testbeds.checks import in_memory
from inventory.machines import MachineType
from inventory.simulated import SimulatedTestbed


@dataclass(frozen=True)
class SimulatedSeries:
    """A simulated series. `folder` looks like a series' folder. `missing`: by run, why it could not be simulated with
    any seed; `failed_seeds`: how many of its seeds could not be, and why, where others could."""

    folder: Path
    missing: Mapping[str, str]
    failed_seeds: Mapping[str, str]


def as_simulated(experiment: Experiment, costs: Mapping[str, float]) -> Experiment:
    """Return the same experiment on the testbed `simulated` with these costs."""
    options = {SimulatedTestbed.name: {"costs": dict(costs)}}
    testbed = replace(in_memory(experiment.testbed), options=options)
    return replace(experiment, testbed=testbed)


def refusals(experiment: Experiment) -> dict[str, str]:
    """Return, by variant, why it cannot be simulated."""

    def why(variant: Variant) -> str:
        if variant.code is not None:  # nobody has built it
            return f"variants.{variant.name}.code: a run is simulated once more with the policies of the work tree only"
        return "; ".join(complaints(replace(experiment, variants=(variant,))))

    return {variant.name: reason for variant in experiment.variants if (reason := why(variant))}


def simulate(
    real: Path, costs: Mapping[str, float], into: Path, runs: Sequence[str], say: Say, seeds: int = 1
) -> SimulatedSeries:
    """Simulate these runs of the series in the folder `real`, each with so many seeds; `into` becomes a series' folder
    with their records. With several seeds `stela-r1` is `stela-r1`, `stela-r2` …, the next one's follow."""
    series = read_series(real)
    experiment = as_simulated(series.experiment, costs)
    reasons = refusals(experiment)
    longer = replace(experiment, repetitions=experiment.repetitions * seeds)
    facts = {"spec": longer.as_data(), "estimates": [], "reported": {}, "simulates": real.name}
    simulated = open_cell(into, longer, {**series_document(real), **facts}, real)
    planned_runs = [run for run in series.plan() if run.run_id in runs]
    missing = {run.run_id: reasons[run.variant.name] for run in planned_runs if run.variant.name in reasons}
    cells = {
        run.run_id: _with_seeds(simulated, run, SeriesPaths(real).run(run.run_id), seeds)
        for run in planned_runs
        if run.run_id not in missing
    }
    failed_seeds, count = dict[str, str](), 0

    def end(name: str, failures: Sequence[SimulationFailure]) -> None:
        nonlocal count
        count += 1
        say(f"{experiment.name} {name} is simulated, {count} of {len(cells)} runs")
        if len(failures) == seeds:
            missing[name] = failures[-1].message
        elif failures:
            of = f"{len(failures)} of {seeds} seeds could not be simulated; the last failed by {failures[-1].message}"
            failed_seeds[name] = of
            say(f"{name}: {of}")

    with simulation_pool(cores()) as pool:
        simulate_cells(pool, cells, end)
    return SimulatedSeries(into, missing, failed_seeds)


def _with_seeds(simulated: Series, run: PlannedRun, real: RunPaths, seeds: int) -> list[SimulatedRun]:
    """Return runs with the same topology and policy seed, each with another seed for chance in the simulated world."""
    ids, types = supervisor_ids(json_lines(real.decisions)), recorded_types(read_run(real.root) or {})
    series, limit_s = _watched_as(simulated, real), step_limit("run", simulated.experiment).seconds
    runs = []
    for seed in range(seeds):
        number = (run.repetition - 1) * seeds + seed + 1
        name, order = f"{run.variant.name}-r{number}", (run.order - 1) * seeds + seed + 1
        planned_run = replace(run, run_id=name, repetition=number, block=number, order=order)
        cluster = partial(_seeded_cluster, seed=seed, ids=ids, types=types)
        runs.append(SimulatedRun(series, planned_run, disks_of(simulated, name), limit_s, cluster))
    return runs


def _seeded_cluster(
    experiment: Experiment, testbed: SimulatedTestbed, clock: SimulatedClock, folder: Path, *, seed: int,
    ids: Mapping[str, str], types: Mapping[str, MachineType],
) -> SimulatedCluster:  # fmt: skip
    simulated_testbed = SimulatedTestbed({**experiment.testbed.options[testbed.name], "seed": seed})
    return SimulatedCluster(experiment, simulated_testbed, clock, folder, supervisor_ids=ids, types=types)


def _watched_as(simulated: Series, real: RunPaths) -> Series:
    """Return the series, watched as long before and after the only event as the recorded run: how long queues have
    grown depends on the input and is no error of the model. Runs of several events or topologies are watched by the
    file."""
    experiment = simulated.experiment
    if len(experiment.events) != 1 or len(experiment.every_topology()) != 1:
        return simulated
    zeros = event_times(real)
    ends = {line.get("phase"): line["t"] for line in read_timeline(real).events if line["kind"] == "steady"}
    try:
        before_s = ends["before"] - zeros["first_tuple"]
        after_s = ends["after"] - zeros[FIRST_EVENT]
    except (KeyError, TypeError):  # missing in its record
        return simulated
    durations = Durations(before_s, before_s, after_s, after_s)
    return replace(simulated, experiment=replace(experiment, durations=durations))
