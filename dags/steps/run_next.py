"""The next run of a series that has no complete record: attempt it, repeat it once if the infrastructure failed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from dags import money
from dags.errors import DiskFull, Interrupted, blame_of, message_of
from dags.plan import PlannedRun
from dags.run_record import Diary, make_way
from dags.series import Series, series_document
from dags.steps.measure import measure
from dags.steps.under_way import Bench
from inventory.errors import CapacityError

log = logging.getLogger(__name__)
ATTEMPTS = 2  # of a run whose machines or network failed


def run_next(series: Series, bench: Bench) -> str | None:
    """The id of the run that was done, None if there was none left. Raises what made the run fail."""
    run = series.next_run()
    if run is None:
        return None
    for attempt in range(1, ATTEMPTS + 1):
        if attempt > 1:
            money.require_one_more(series)
        try:
            status = _attempt(series, bench, run)
        except Interrupted:
            bench.listener.tell("run_ended", run_id=run.run_id, status="incomplete")
            raise
        except Exception as error:
            log.warning("run %s: %s: %s", run.run_id, blame_of(error), message_of(error))
            again = _may_pass(error) and attempt < ATTEMPTS and bench.cluster.make_whole()
            _tell_failure(bench, run, error, again)
            if not again:
                raise
        else:
            log.info("run %s: %s", run.run_id, status)
            bench.listener.tell("run_ended", run_id=run.run_id, status=status)
            return run.run_id
    return None  # pragma: no cover - the last attempt returns or raises


def _may_pass(error: Exception) -> bool:
    """Machines or a network failed, or there were no machines for those that boot at their event."""
    return blame_of(error) == "infrastructure" or isinstance(error, CapacityError)


def _attempt(series: Series, bench: Bench, run: PlannedRun) -> str:
    folder = series.run_folder(run.run_id)
    try:
        number = make_way(folder, series.attempts)
        diary = Diary(folder, bench.clock, bench.listener)
        diary.begin(run, _facts(series, bench, run), number)
        return measure(bench, run, diary, last=series.is_last(run))
    except OSError as error:
        if blame_of(error) == "capacity":
            raise DiskFull(message_of(error)) from error
        raise


def _facts(series: Series, bench: Bench, run: PlannedRun) -> Mapping[str, Any]:
    facts, document = bench.cluster.facts(), series_document(series.folder)
    code = {"code": run.variant.code.commit} if run.variant.code is not None else {}
    return {
        "series_id": series.series_id,
        "experiment": series.experiment.name,
        "spec": series.experiment.as_data(),
        "topology": None,
        "git_commit": document.get("git_commit"),
        "git_dirty": document.get("git_dirty"),
        "git_changes": document.get("git_changes"),
        "versions": {**facts.versions, **code},
        "harness_facts": dict(facts.harness),
        "machines": {name: dict(machine) for name, machine in facts.machines.items()},
        "clock_offset_ms": {},
        "missing": [],
    }


def _tell_failure(bench: Bench, run: PlannedRun, error: Exception, again: bool) -> None:
    facts = {"run_id": run.run_id, "blame": blame_of(error), "message": message_of(error), "again": again}
    bench.listener.tell("run_failed", **facts)
