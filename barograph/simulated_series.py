"""A series simulated once more: the experiment, variants, runs and seeds of a real one, on the testbed `simulated`.

No lease, no DAG and no progress for anybody: a simulated run holds nothing and takes seconds. Its record and its
analysis are those of every other run.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.record.files import RunPaths, SeriesPaths, json_lines, write_json_atomic
from barograph.errors import Say, message_of
from barograph.plan.blocks import PlannedRun
from barograph.plan.experiment import Experiment, Variant
from barograph.plan.simulation import complaints
from barograph.run.context import SeriesContext, context_in_memory
from barograph.run.recorded_start import supervisor_ids
from barograph.run.simulated_cluster import SimulatedClock, SimulatedCluster
from barograph.series.series import Series, read_series, series_document
from barograph.series_steps import attempt_next_run
from inventory.simulated import SimulatedTestbed

CLUSTER = ".cluster"  # what the simulated machines have on their disks; nothing of it is needed afterwards


@dataclass(frozen=True)
class SimulatedSeries:
    """`folder` looks like a series' folder. `missing`: by run, why it could not be simulated with any seed."""

    folder: Path
    missing: Mapping[str, str]


def as_simulated(experiment: Experiment, costs: Mapping[str, float]) -> Experiment:
    """The same experiment on the testbed `simulated` with these costs."""
    options = {SimulatedTestbed.name: {"costs": dict(costs)}}
    testbed = replace(experiment.testbed, name=SimulatedTestbed.name, options=options)
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
    missing: dict[str, str] = {}
    for run in (run for run in series.plan() if run.run_id in runs):
        if run.variant.name in refused:
            missing[run.run_id] = refused[run.variant.name]
            continue
        say(f"simulating {experiment.name} {run.run_id}{f' with {seeds} seeds' if seeds > 1 else ''}")
        recorded = SeriesPaths(real).run(run.run_id)
        whys = [_simulate_run(simulated, _with_seed(run, seed, seeds), seed, recorded) for seed in range(seeds)]
        failed = [why for why in whys if why]
        if len(failed) == seeds:
            missing[run.run_id] = failed[-1]
        elif failed:
            say(f"{run.run_id}: {len(failed)} of {seeds} seeds could not be simulated; the last failed by {failed[-1]}")
    return SimulatedSeries(into, missing)


def _with_seed(run: PlannedRun, seed: int, seeds: int) -> PlannedRun:
    """Its topology and policy have the same seed; what happens by chance in the simulated world is another."""
    number = (run.repetition - 1) * seeds + seed + 1
    order = (run.order - 1) * seeds + seed + 1
    return replace(run, run_id=f"{run.variant.name}-r{number}", repetition=number, block=number, order=order)


def _simulate_run(simulated: Series, run: PlannedRun, seed: int, real: RunPaths) -> str:
    """Why it failed; empty where it did not."""
    try:
        attempt_next_run(simulated, _context(simulated, real, seed), run)
    except Exception as error:  # noqa: BLE001 - a run that fails here is missing on that side, and the page says why
        return message_of(error)
    finally:
        shutil.rmtree(simulated.folder / CLUSTER, ignore_errors=True)
    return ""


def _write_document(real: Path, simulated: Series) -> None:
    document = series_document(real)
    changed = {"spec": simulated.experiment.as_data(), "estimates": [], "reported": {}, "simulates": real.name}
    simulated.folder.mkdir(parents=True, exist_ok=True)
    write_json_atomic(SeriesPaths(simulated.folder).series_json, {**document, **changed})


def _context(series: Series, real: RunPaths, seed: int) -> SeriesContext:
    testbed = SimulatedTestbed({**series.experiment.testbed.options[SimulatedTestbed.name], "seed": seed})
    clock = SimulatedClock()
    folder, ids = series.folder / CLUSTER, supervisor_ids(json_lines(real.decisions))
    cluster = SimulatedCluster(series.experiment, testbed, clock, folder, supervisor_ids=ids)
    return context_in_memory(series.experiment, cluster, clock, testbed.options.look_s)
