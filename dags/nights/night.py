"""What one night does, step by step; the command line and the DAG take the same steps in the same order.

open_night → for each experiment (why_not → begun → … → concluded) → closed. Between the steps everything that is known
is in `under_way.json`: what a night that died has measured is put on record by the next one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dags import duration, overhead
from dags.errors import Interrupted, blame_of, message_of
from dags.nights import hold, machine, outcome, tonight
from dags.nights.commits import head
from dags.nights.numbers import claims_of, numbers_of
from dags.nights.suite import Choice, Suite
from dags.nights.tonight import BEGUN, WAITING, Entry, Tonight
from dags.places import holder_pid, results_root
from dags.results import results
from dags.series import Series, read_series
from dags.steps.until import set_until

log = logging.getLogger(__name__)
CLOSING_S = 1800.0  # the analysis of the last series, the history, the pages


@dataclass(frozen=True)
class Foreseen:
    """How long an experiment of the suite is expected to take, with how many runs."""

    choice: Choice
    runs: int
    seconds: float


def foreseen(suite: Suite) -> tuple[Foreseen, ...]:
    return tuple(_foreseen(suite, choice) for choice in suite.experiments)


def _foreseen(suite: Suite, choice: Choice) -> Foreseen:
    experiment = suite.resolved(choice)
    runs = experiment.repetitions * len(experiment.variants)
    return Foreseen(choice, runs, duration.series_s(experiment, runs, overhead.measured(experiment.testbed)))


def open_night(suite: Suite, until_s: float, now_s: float) -> Tonight:
    """Raises NightUnderWay (capacity) where another night has the suite or the testbed; then nothing is on record."""
    results().require()
    results().fetch(f"nightly/{suite.name}/nights", ".json")
    night = _planned(suite, until_s, now_s)
    longest_s = max(duration.longest_run_s(suite.resolved(choice)) for choice in suite.experiments)
    hold.take(suite.name, suite.testbed, night.id, holder_pid(), until_s + longest_s + CLOSING_S, now_s)
    try:
        _put_on_record(suite.name, now_s)
        tonight.write(night)
    except BaseException:
        hold.drop(suite.name, night.id)
        raise
    log.info("night %s of suite %s: until %.0f", night.id, suite.name, until_s)
    return night


def _planned(suite: Suite, until_s: float, now_s: float) -> Tonight:
    box = machine.facts_of_box(suite.testbed)
    facts = {choice.experiment: machine.facts_of(suite.resolved(choice), box) for choice in suite.experiments}
    commit = head()
    return Tonight(
        tonight.night_id(now_s), suite.name, suite.testbed, now_s, until_s,
        commit.hash, commit.committed_s, commit.dirty,
        machine.fingerprint(box), machine.told(box, facts),
        tuple(Entry(name, machine.fingerprint(each)) for name, each in facts.items()),
    )  # fmt: skip


def why_not(suite: Suite, night: Tonight, choice: Choice, now_s: float) -> str:
    """Why the experiment is not begun any more; empty: it may be."""
    needed_s, left_s = _foreseen(suite, choice).seconds, night.until_s - now_s
    if needed_s <= left_s:
        return ""
    return f"not begun: it takes about {needed_s / 60:.0f} min, the deadline is in {max(0.0, left_s) / 60:.0f} min"


def begun(night: Tonight, series: Series) -> Tonight:
    """Its series is opened and knows the deadline."""
    set_until(series, night.until_s)
    entry = night.entry(series.experiment.name)
    below = series.folder.relative_to(results_root()).as_posix()
    return _noted(night, replace(entry, status=BEGUN, series=below))


def not_begun(night: Tonight, experiment: str, reason: str) -> Tonight:
    return _noted(night, replace(night.entry(experiment), status=outcome.DEADLINE, reason=reason))


def failed(night: Tonight, experiment: str, error: BaseException) -> Tonight:
    """It could not even begin, or its execution itself failed."""
    stopped = isinstance(error, KeyboardInterrupt | Interrupted)
    status = outcome.INTERRUPTED if stopped else outcome.OF_BLAME[blame_of(error)]
    return _noted(night, replace(night.entry(experiment), status=status, reason=message_of(error)))


def ended(night: Tonight, experiment: str, error: BaseException) -> Tonight:
    """Its execution was ended by that; its series says more precisely by what, if it says anything."""
    if not night.entry(experiment).series or isinstance(error, KeyboardInterrupt | Interrupted):
        return failed(night, experiment, error)
    night = concluded(night, experiment)
    silent = night.entry(experiment).status in (outcome.COMPLETE, outcome.INTERRUPTED)
    return failed(night, experiment, error) if silent else night


def concluded(night: Tonight, experiment: str) -> Tonight:
    """Its execution is over; what came of it is what its series says. One that was concluded before stays as it is."""
    entry = night.entry(experiment)
    if entry.status not in (WAITING, BEGUN):
        return night
    if not entry.series:
        return _noted(night, replace(entry, status=outcome.INTERRUPTED, reason="not begun: the night ended before"))
    folder = results_root() / entry.series
    status, reason = outcome.outcome_of(read_series(folder))
    if status == outcome.COMPLETE and not numbers_of(folder):
        status, reason = "harness", f"measured, but not analysed; to do that: barograph report {entry.series}"
    return _noted(night, replace(entry, status=status, reason=reason))


def _noted(night: Tonight, entry: Entry) -> Tonight:
    night = night.with_entry(entry)
    tonight.write(night)
    log.info("night %s: %s: %s %s", night.id, entry.experiment, entry.status, entry.reason)
    return night


def closed(suite: str, night: Tonight, ended_s: float) -> dict[str, Any]:
    """Put the night on record and let the next one come; the record."""
    try:
        return _record(night, ended_s)
    finally:
        hold.drop(suite, night.id)


def let_go(suite: str, night: str) -> None:
    """For the ways out that skip `closed`; the next night puts on record what this one has measured."""
    hold.drop(suite, night)


def _put_on_record(suite: str, now_s: float) -> None:
    """What a night that died has measured is not lost."""
    left = tonight.read(suite)
    if left is None:
        return
    log.warning("night %s of suite %s ended without its record, which is written now", left.id, suite)
    _record(left, min(now_s, left.until_s))


def _record(night: Tonight, ended_s: float) -> dict[str, Any]:
    from analysis import history

    for entry in night.experiments:
        night = concluded(night, entry.experiment)
    folder = tonight.folder_of(night.suite)
    record = record_of(night, ended_s)
    if not (folder / "nights" / f"{night.id}.json").exists():  # it died between this and the next line
        history.append(folder, record)
    tonight.forget(night)
    return record


def record_of(night: Tonight, ended_s: float) -> dict[str, Any]:
    """The night as `analysis.history` keeps it (docs/contracts.md)."""
    experiments = [_experiment(entry) for entry in night.experiments]
    measured = [each["experiment"] for each in experiments if each["variants"]]
    return {
        "v": 1,
        "night": night.date,
        "id": night.id,
        "suite": night.suite,
        "testbed": night.testbed,
        "commit": night.commit or "",
        "commit_s": night.commit_s,
        "dirty": night.dirty is not False,  # where nobody knows, the commit does not say what was measured
        "started_s": night.started_s,
        "ended_s": ended_s,
        "machine": night.machine,
        "machine_facts": dict(night.machine_facts),
        "status": outcome.status_of_night(night.experiments, measured),
        "experiments": experiments,
    }


def _experiment(entry: Entry) -> dict[str, Any]:
    folder: Path | None = results_root() / entry.series if entry.series else None
    return {
        "experiment": entry.experiment,
        "series": entry.series,
        "machine": entry.machine,
        "status": entry.status,
        "reason": entry.reason,
        "variants": numbers_of(folder) if folder else {},
        "claims": claims_of(folder, entry.experiment) if folder else [],
    }
