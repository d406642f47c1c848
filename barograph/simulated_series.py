"""A series simulated once more: the experiment, variants, runs and seeds of a real one, on the testbed `simulated`.

No lease, no DAG and no progress for anybody: a simulated run holds nothing and takes seconds. Its record and its
analysis are those of every other run. Runs are side by side, each in a process of its own with a limit.
"""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from analysis.record.event_timeline import FIRST_EVENT
from analysis.record.files import RunPaths, SeriesPaths, json_lines, write_json_atomic
from barograph.counterfactual.recording import event_times
from barograph.errors import Say, message_of
from barograph.plan.blocks import PlannedRun
from barograph.plan.durations import step_limit
from barograph.plan.experiment import Durations, Experiment, Variant
from barograph.plan.simulation import complaints
from barograph.pool import Death, Pool, cores
from barograph.run.context import SeriesContext, context_in_memory
from barograph.run.recorded_start import recorded_types, supervisor_ids
from barograph.run.simulated_clock import SimulatedClock
from barograph.run.simulated_cluster import CLUSTER, SimulatedCluster, attempt_in_own_process
from barograph.series.run_record import read_run
from barograph.series.series import Series, read_series, series_document
from barograph.series_steps import attempt_next_run
from barograph.testbeds.checks import in_memory
from inventory.simulated import SimulatedTestbed


@dataclass(frozen=True)
class SimulatedSeries:
    """`folder` looks like a series' folder. `missing`: by run, why it could not be simulated with any seed;
    `failed_seeds`: how many of its seeds could not be, and why, where others could."""

    folder: Path
    missing: Mapping[str, str]
    failed_seeds: Mapping[str, str]


def as_simulated(experiment: Experiment, costs: Mapping[str, float]) -> Experiment:
    """The same experiment on the testbed `simulated` with these costs."""
    options = {SimulatedTestbed.name: {"costs": dict(costs)}}
    testbed = replace(in_memory(experiment.testbed), options=options)
    return replace(experiment, testbed=testbed)


def refusals(experiment: Experiment) -> dict[str, str]:
    """By variant: why it cannot be simulated."""

    def why(variant: Variant) -> str:
        if variant.code is not None:  # nobody has built it
            return f"variants.{variant.name}.code: a run is simulated once more with the policies of the work tree only"
        return "; ".join(complaints(replace(experiment, variants=(variant,))))

    return {variant.name: said for variant in experiment.variants if (said := why(variant))}


def simulate(
    real: Path, costs: Mapping[str, float], into: Path, runs: Sequence[str], say: Say, seeds: int = 1
) -> SimulatedSeries:
    """Simulate these runs of the series in the folder `real`, each with so many seeds; `into` becomes a series' folder
    with their records. With several seeds `stela-r1` is `stela-r1`, `stela-r2` …, the next one's follow."""
    series = read_series(real)
    experiment = as_simulated(series.experiment, costs)
    refused = refusals(experiment)
    simulated = Series(into, replace(experiment, repetitions=experiment.repetitions * seeds), series.opened_s)
    _write_document(real, simulated)
    chosen = [run for run in series.plan() if run.run_id in runs]
    missing = {run.run_id: refused[run.variant.name] for run in chosen if run.variant.name in refused}
    limit_s = step_limit("run", experiment).seconds
    jobs = [
        SeedJob(_watched_as(simulated, recorded), _with_seed(run, seed, seeds), seed, recorded, limit_s)
        for run in chosen
        if run.run_id not in missing
        for recorded in [SeriesPaths(real).run(run.run_id)]
        for seed in range(seeds)
    ]
    try:
        failed, failed_seeds = _side_by_side(jobs, say)
    finally:  # also what processes that were ended have left
        shutil.rmtree(simulated.folder / CLUSTER, ignore_errors=True)
    return SimulatedSeries(into, missing | failed, failed_seeds)


def _watched_as(simulated: Series, real: RunPaths) -> Series:
    """Watched as long before and after the only event as the recorded run. How long queues have grown is the input's,
    and no error of the model. Runs of several events or topologies are watched by the file."""
    experiment = simulated.experiment
    if len(experiment.events) != 1 or len(experiment.every_topology()) != 1:
        return simulated
    zeros = event_times(real.root)
    ends: dict[Any, Any] = {
        line.get("phase"): line.get("t") for line in json_lines(real.events) if line.get("kind") == "steady"
    }
    try:
        before_s = ends["before"] - zeros["first_tuple"]
        after_s = ends["after"] - zeros[FIRST_EVENT]
    except (KeyError, TypeError):  # its record does not say
        return simulated
    durations = Durations(before_s, before_s, after_s, after_s)
    return replace(simulated, experiment=replace(experiment, durations=durations))


@dataclass(frozen=True)
class SeedJob:
    """`run`: the simulated one. `real`: the run that it is set beside."""

    simulated: Series
    run: PlannedRun
    seed: int
    real: RunPaths
    limit_s: float


def _side_by_side(jobs: Sequence[SeedJob], say: Say) -> tuple[dict[str, str], dict[str, str]]:
    """By real run of which no seed could be simulated, why; and of which some could not be, how many and why."""
    failures: dict[str, list[str]] = defaultdict(list)
    missing, failed_seeds = dict[str, str](), dict[str, str]()
    seeds = Counter(job.real.root.name for job in jobs)
    left = seeds.copy()
    with Pool(do, min(cores(), len(jobs))) as pool:
        for job, why in filter(None, pool.answers(jobs)):
            name = job.real.root.name
            if why:
                failures[name].append(why.words() if isinstance(why, Death) else why)
            left[name] -= 1
            if left[name]:
                continue
            over = sum(not number for number in left.values())
            say(f"{job.simulated.experiment.name} {name} is simulated, {over} of {len(left)} runs")
            failed = failures[name]
            if len(failed) == seeds[name]:
                missing[name] = failed[-1]
            elif failed:
                said = f"{len(failed)} of {seeds[name]} seeds could not be simulated; the last failed by {failed[-1]}"
                failed_seeds[name] = said
                say(f"{name}: {said}")
    return missing, failed_seeds


def do(job: SeedJob) -> str:
    """In a process of the pool: why the run failed; empty where it did not."""
    work, folder = partial(_simulate_run, job.simulated, job.run, job.seed, job.real), job.simulated.folder
    why = attempt_in_own_process(work, job.limit_s, folder / CLUSTER / job.run.run_id)
    return why.words() if isinstance(why, Death) else why


def _with_seed(run: PlannedRun, seed: int, seeds: int) -> PlannedRun:
    """Its topology and policy have the same seed; what happens by chance in the simulated world is another."""
    number = (run.repetition - 1) * seeds + seed + 1
    order = (run.order - 1) * seeds + seed + 1
    return replace(run, run_id=f"{run.variant.name}-r{number}", repetition=number, block=number, order=order)


def _simulate_run(simulated: Series, run: PlannedRun, seed: int, real: RunPaths) -> str:
    """Why it failed; empty where it did not."""
    try:
        attempt_next_run(simulated, _context(simulated, run, real, seed), run)
    except Exception as error:  # noqa: BLE001 - a run that fails here is missing on that side, and the page says why
        return message_of(error)
    finally:
        shutil.rmtree(simulated.folder / CLUSTER / run.run_id, ignore_errors=True)
    return ""


def _write_document(real: Path, simulated: Series) -> None:
    document = series_document(real)
    changed = {"spec": simulated.experiment.as_data(), "estimates": [], "reported": {}, "simulates": real.name}
    simulated.folder.mkdir(parents=True, exist_ok=True)
    write_json_atomic(SeriesPaths(simulated.folder).series_json, {**document, **changed})


def _context(series: Series, run: PlannedRun, real: RunPaths, seed: int) -> SeriesContext:
    testbed = SimulatedTestbed({**series.experiment.testbed.options[SimulatedTestbed.name], "seed": seed})
    clock = SimulatedClock()
    folder, ids = series.folder / CLUSTER / run.run_id, supervisor_ids(json_lines(real.decisions))
    types = recorded_types(read_run(real.root) or {})
    cluster = SimulatedCluster(series.experiment, testbed, clock, folder, supervisor_ids=ids, types=types)
    return context_in_memory(series.experiment, cluster, clock, testbed.options.look_s)
