"""One night, step by step; the command line and the DAG take the same steps in the same order.

open_night → for each experiment (why_not → begin_entry → … → conclude_entry) → close_night. Between the steps the state
is in `under_way.json`: the next night puts the measurements of one that died on record.

A fingerprint covers everything that must be equal for the numbers of two nights to be compared: machines, topology,
plan, software, never the commit. It is computed from the request, not from the runs, so a night without runs has it
too.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from analysis.record.files import NIGHTS
from barograph.errors import blame_of, message_of
from barograph.nights import night_state, outcome
from barograph.nights.commits import head
from barograph.nights.night_state import BEGUN, WAITING, Night, NightEntry
from barograph.nights.outcome import claims_of, failures_of, numbers_of
from barograph.nights.suite import Choice, Suite
from barograph.plan import durations
from barograph.plan.blocks import request_data, stamp
from barograph.plan.experiment import SIMULATED, Experiment
from barograph.plan.simulation import is_simulated
from barograph.series import run_record
from barograph.series.results import results
from barograph.series.series import Series, read_series, set_deadline
from barograph.settings import holder, results_root
from barograph.testbeds.checks import machine_requests, testbed_of, testbed_without_options
from inventory.simulated import SimulatedTestbed


def facts_of_box(testbed: str) -> dict[str, Any]:
    """Return Storm, Java, the kind of measurement, and for emulated machines the CPU that emulates them."""
    from barograph.series.provenance import MEASUREMENT, box_facts, versions
    from inventory.local.rootfs import JRE

    if testbed == SIMULATED:
        none = f"none: {SIMULATED}"
        return {"testbed": testbed, "storm": none, "java": none, "measurement": MEASUREMENT, "host": {}}
    box = box_facts() if testbed_without_options(testbed).place == "this_box" else {}
    host = {key: box[key] for key in ("cpu_model", "cpus") if key in box}
    return {"testbed": testbed, "storm": versions()["storm"], "java": JRE, "measurement": MEASUREMENT, "host": host}


def facts_of_experiment(experiment: Experiment, box: Mapping[str, Any]) -> dict[str, Any]:
    """Return machines, topology and plan of an experiment; its variants and repetitions are the objects of
    comparison."""
    request_facts = request_data(experiment)
    types = {request.name: asdict(request.type) for request in machine_requests(experiment)}
    distinct = {json.dumps(size, sort_keys=True): size for size in types.values()}
    keys = ("topology", "topologies", "machines", "events", "durations")
    plan: dict[str, Any] = {key: request_facts[key] for key in keys if key in request_facts}
    options = request_facts["testbed"]["options"].get(experiment.testbed.name, {})
    if is_simulated(experiment):  # also the simulator's defaults, which a later version may change
        testbed = testbed_of(experiment.testbed)
        assert isinstance(testbed, SimulatedTestbed), "else it is not simulated"
        options = {**testbed.options.model_dump(), "costs": asdict(testbed.costs)}
    topologies = {
        variant["name"]: variant[key]
        for variant in request_facts["variants"] for key in ("topology", "topologies") if key in variant
    }  # fmt: skip
    choice = request_facts["testbed"] | {"options": options}
    return {**box, "testbed": choice, "types": list(distinct.values()), **plan, "variants": topologies}


def fact_lines(box: Mapping[str, Any], experiments: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the facts for people: a line for the software, the box and each experiment's machines."""
    host = box["host"]
    emulated = {"emulated on": f"{host['cpus']} cores of {host['cpu_model']}"} if host else {}
    software = {key: str(box[key]) for key in ("testbed", "storm", "java", "measurement")}
    machines = {}
    for name, facts in experiments.items():
        sizes = (f"{size['name']} ({size['cores']:g} cores, {size['memory_mb']} MB, {size['bandwidth_mbit']} Mbit/s)"
                 for size in facts["types"])  # fmt: skip
        machines[name] = f"{', '.join(sizes)}; with topology and plan {fingerprint(facts)}"
    return {**software, **emulated, **machines}


def fingerprint(facts: Mapping[str, Any]) -> str:
    """Return twelve hexadecimal digits."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


log = logging.getLogger(__name__)
CLOSING_S = 1800.0  # the analysis of the last series, the history, the pages


@dataclass(frozen=True)
class Forecast:
    """The expected length of an experiment of the suite, with its number of runs."""

    choice: Choice
    runs: int
    seconds: float


def forecasts(suite: Suite) -> tuple[Forecast, ...]:
    return tuple(_forecast(suite, choice) for choice in suite.experiments)


def _forecast(suite: Suite, choice: Choice) -> Forecast:
    experiment = suite.resolved(choice)
    runs = experiment.repetitions * len(experiment.variants)
    return Forecast(choice, runs, durations.series_s(experiment, runs, run_record.median_overhead(experiment.testbed)))


def open_night(suite: Suite, until_s: float, now_s: float) -> Night:
    """Open a night. Raises NightUnderWay (capacity) where another night has the suite or the testbed; then nothing is
    on record."""
    results().require()
    results().fetch(f"{NIGHTS}/{suite.name}/nights", ".json")
    box, commit = facts_of_box(suite.testbed), head()
    facts = {choice.experiment: facts_of_experiment(suite.resolved(choice), box) for choice in suite.experiments}
    night = Night(
        stamp(now_s), suite.name, suite.testbed, now_s, until_s, commit.hash, commit.committed_s, commit.dirty,
        fingerprint(box), fact_lines(box, facts),
        tuple(NightEntry(name, fingerprint(each)) for name, each in facts.items()),
    )  # fmt: skip
    longest_s = max(durations.longest_run_s(suite.resolved(choice)) for choice in suite.experiments)
    night_state.take_reservation(suite.name, suite.testbed, night.id, holder(), until_s + longest_s + CLOSING_S, now_s)
    try:
        if (dead := night_state.read_night(suite.name)) is not None:
            log.warning("night %s of %s ended without its record, which is written now", dead.id, suite.name)
            _record(dead, min(now_s, dead.until_s))
        night_state.write_night(night)
    except BaseException:
        night_state.drop_reservation(suite.name, night.id)
        raise
    log.info("night %s of suite %s: until %.0f", night.id, suite.name, until_s)
    return night


def why_not(suite: Suite, night: Night, choice: Choice, now_s: float) -> str:
    """Return why the experiment is not begun any more; empty: it may be."""
    needed_s, left_s = _forecast(suite, choice).seconds, night.until_s - now_s
    if needed_s <= left_s:
        return ""
    return f"not begun: it takes about {needed_s / 60:.0f} min, the deadline is in {max(0.0, left_s) / 60:.0f} min"


def begin_entry(night: Night, series: Series) -> Night:
    """Mark the experiment as begun, and set its series' deadline."""
    set_deadline(series, night.until_s)
    entry = night.entry(series.experiment.name)
    path = series.folder.relative_to(results_root()).as_posix()
    return _save_entry(night, replace(entry, status=BEGUN, series=path))


def skip_entry(night: Night, experiment: str, reason: str) -> Night:
    return _save_entry(night, replace(night.entry(experiment), status=outcome.DEADLINE, reason=reason))


def fail_entry(night: Night, experiment: str, error: BaseException) -> Night:
    """Record that the experiment could not begin, or that its execution failed."""
    is_interrupted = isinstance(error, KeyboardInterrupt)
    status = outcome.INTERRUPTED if is_interrupted else outcome.STATUS_OF_BLAME[blame_of(error)]
    return _save_entry(night, replace(night.entry(experiment), status=status, reason=message_of(error)))


def end_entry(night: Night, experiment: str, error: BaseException) -> Night:
    """Record the error that ended the execution, unless its series has a more precise one."""
    if not night.entry(experiment).series or isinstance(error, KeyboardInterrupt):
        return fail_entry(night, experiment, error)
    night = conclude_entry(night, experiment)
    is_silent = night.entry(experiment).status in (outcome.COMPLETE, outcome.INTERRUPTED)
    return fail_entry(night, experiment, error) if is_silent else night


def conclude_entry(night: Night, experiment: str) -> Night:
    """Record the outcome that the finished series reports. An entry concluded before stays as it is."""
    entry = night.entry(experiment)
    if entry.status not in (WAITING, BEGUN):
        return night
    if not entry.series:
        return _save_entry(
            night, replace(entry, status=outcome.INTERRUPTED, reason="not begun: the night ended before")
        )
    folder = results_root() / entry.series
    status, reason = outcome.outcome_of(read_series(folder))
    if status == outcome.COMPLETE and not numbers_of(folder):
        status, reason = "harness", f"measured, but not analysed; to do that: barograph report {entry.series}"
    return _save_entry(night, replace(entry, status=status, reason=reason))


def _save_entry(night: Night, entry: NightEntry) -> Night:
    night = night.with_entry(entry)
    night_state.write_night(night)
    log.info("night %s: %s: %s %s", night.id, entry.experiment, entry.status, entry.reason)
    return night


def close_night(suite: str, night: Night, ended_s: float) -> dict[str, Any]:
    """Put the night on record, release its reservation, and return the record."""
    try:
        return _record(night, ended_s)
    finally:
        night_state.drop_reservation(suite, night.id)


def forget_night(suite: str, night: str) -> None:
    """Remove the remains of a night on record whose closing was cut short."""
    night_left = night_state.read_night(suite)
    if night_left is not None and night_left.id == night:
        night_state.remove_night(night_left)
    night_state.drop_reservation(suite, night)


def release_night(suite: str, night: str) -> None:
    """Release a night that did not reach `closed`; the next night puts its measurements on record."""
    night_state.drop_reservation(suite, night)


def _record(night: Night, ended_s: float) -> dict[str, Any]:
    from analysis.nights import night_records

    for entry in night.experiments:
        night = conclude_entry(night, entry.experiment)
    folder = night_state.nights_folder(night.suite)
    record = record_of(night, ended_s)
    if night_state.recorded_night(night.suite, night.id) is None:  # it died between this and the next line
        night_records.append_night(folder, record)
    night_state.remove_night(night)
    return record


def record_of(night: Night, ended_s: float) -> dict[str, Any]:
    """Return the night as stored by `analysis.nights` (docs/contracts.md)."""
    experiments: list[dict[str, Any]] = []
    for entry in night.experiments:
        folder = results_root() / entry.series if entry.series else None
        experiments.append({
            "experiment": entry.experiment, "series": entry.series, "machine": entry.machine, "status": entry.status,
            "reason": entry.reason, "variants": numbers_of(folder) if folder else {},
            "failed": failures_of(folder) if folder else {},
            "claims": claims_of(folder, entry.experiment) if folder else [],
        })  # fmt: skip
    names = [each["experiment"] for each in experiments if each["variants"]]
    return {
        "v": 1,
        "night": night.date,
        "id": night.id,
        "suite": night.suite,
        "testbed": night.testbed,
        "commit": night.commit or "",
        "commit_s": night.commit_s,
        "dirty": night.dirty is not False,  # if unknown, the commit does not identify the code
        "started_s": night.started_s,
        "ended_s": ended_s,
        "machine": night.machine,
        "machine_facts": dict(night.machine_facts),
        "status": outcome.status_of_night(night.experiments, names),
        "experiments": experiments,
    }
