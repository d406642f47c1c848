"""The steps of a series between provisioning and release, each reconstructed from the series' folder alone: deploy, the
next run that has no complete record (repeated once if the infrastructure failed), analyse, announce.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis.errors import SeriesInUse
from barograph.compare import stopping
from barograph.errors import (
    BarographError,
    CapacityError,
    DiskFull,
    Interrupted,
    MachineLost,
    Say,
    blame_of,
    message_of,
)
from barograph.machines import holdings
from barograph.machines.series_lease import keep_alive, prolong, saved_lease
from barograph.plan import durations
from barograph.plan.blocks import PlannedRun
from barograph.plan.simulation import is_simulated
from barograph.run.context import SeriesContext, context_of
from barograph.run.measure import measure
from barograph.series import hold
from barograph.series.interruption import step
from barograph.series.progress import ProgressFile, lines_since
from barograph.series.provenance import MEASUREMENT
from barograph.series.results import analyse_results, finish, send_afterwards, store
from barograph.series.run_record import RunRecord, set_attempt_aside
from barograph.series.series import Series, read_series, series_document, too_late

log = logging.getLogger(__name__)


def attempt_next_run(series: Series, context: SeriesContext, run: PlannedRun | None = None) -> str | None:
    """Attempt a run and return its id, None if none was left. Raises what made the run fail. `run`: the run to attempt;
    None: the next of the plan."""
    run = run or series.next_run()
    if run is None:
        return None
    for attempt in range(1, durations.RUN_ATTEMPTS + 1):
        if attempt > 1:
            holdings.require_one_more(series)
        try:
            folder = series.run_folder(run.run_id)
            try:
                number = set_attempt_aside(folder, series.attempts)
                context.clock.restart()
                record = RunRecord(folder, context.clock, context.listener)
                record.begin(run, _run_facts(series, context, run), number)
                measure(context, run, record, last=series.is_last(run))
            except OSError as error:
                if blame_of(error) == "capacity":
                    raise DiskFull(message_of(error)) from error
                raise
        except Interrupted:
            context.listener.tell("run_ended", run_id=run.run_id, status="incomplete")
            raise
        except Exception as error:
            log.warning("run %s: %s: %s", run.run_id, blame_of(error), message_of(error))
            is_repeated = (
                (blame_of(error) == "infrastructure" or isinstance(error, CapacityError))
                and attempt < durations.RUN_ATTEMPTS
                and _is_made_whole(context)
            )
            facts = {"run_id": run.run_id, "blame": blame_of(error), "message": message_of(error), "again": is_repeated}
            context.listener.tell("run_failed", **facts)
            if not is_repeated:
                raise
        else:
            log.info("run %s: complete", run.run_id)
            context.listener.tell("run_ended", run_id=run.run_id, status="complete")
            return run.run_id
    return None  # pragma: no cover - the last attempt returns or raises


def _is_made_whole(context: SeriesContext) -> bool:
    """Return whether another attempt can begin; an error in here must not hide what made the run fail."""
    try:
        return context.cluster.make_whole()
    except Exception as error:  # noqa: BLE001 - the run's own is raised
        log.warning("the run is not repeated: %s: %s", blame_of(error), message_of(error))
        return False


def _run_facts(series: Series, context: SeriesContext, run: PlannedRun) -> Mapping[str, Any]:
    facts, document = context.cluster.facts(), series_document(series.folder)
    code = {"code": run.variant.code.commit} if run.variant.code is not None else {}
    return {
        "series_id": series.series_id,
        "experiment": series.experiment.name,
        "opened_s": series.opened_s,
        "spec": series.experiment.as_data(),
        "topology": None,
        "git_commit": document.get("git_commit"),
        "git_dirty": document.get("git_dirty"),
        "git_changes": document.get("git_changes"),
        **({"code_sha256": document["code_sha256"]} if "code_sha256" in document else {}),
        "measurement": MEASUREMENT,
        "versions": {**facts.versions, **code},
        "harness_facts": dict(facts.harness),
        "machines": {name: dict(machine) for name, machine in facts.machines.items()},
        **({"software": dict(facts.software)} if facts.software else {}),
        "clock_offset_ms": {},
        "missing": [],
        **({"date_s": time.time()} if is_simulated(series.experiment) else {}),
    }


class NothingMeasured(BarographError):
    """There is no record to analyse; another task has given the reason."""


class NothingBeforeDeadline(NothingMeasured):
    """The deadline came before the first run, which is no failure."""


def deploy(series_dir: Path) -> None:
    """Install Storm on the machines, ready for the first run."""
    with step(series_dir) as series:
        ProgressFile(series_dir).tell("phase", phase="deploy", expected_s=45)
        with keep_alive(series, durations.LONGEST_OPENING_S):
            prolong(series, series.experiment.lease_minutes)
            context_of(series).cluster.deploy()


def runs_of_execution(series_dir: Path) -> list[str]:
    """Return the runs of this execution of the series in their order, also those already done."""
    series = read_series(series_dir)
    return [run.run_id for run in series.plan() if not series.was_complete(run)]


class NoRunDue(BarographError):
    """A run was not begun, and that is no failure."""


MACHINES_LOST = "machines_lost"  # a line of the progress: no further run begins on this lease


def require_runs(series_dir: Path) -> None:
    """Raise NoRunDue where no machines are needed: no run is left, or none would end before the deadline. A run that
    this execution has begun may have been cleared since: it is repeated."""
    series = read_series(series_dir)
    if not series.missing_runs() and not series.current_attempts():
        raise NoRunDue("everything is measured")
    if is_too_late(series):
        raise NoRunDue("the deadline comes before the end of a run")


def do_run(series_dir: Path, run_id: str | None = None, *, again: bool = False) -> str | None:
    """Do a run and return its id, None where none is left. Raises NoRunDue where one is left and not begun. It is the
    next run of the plan, whatever `run_id`: tasks of runs may come in any order, runs may not (blocks are compared).
    `again`: repeat the run of that id if it had its record before its machines were taken; the old record is stored
    among the attempts."""
    with (
        step(series_dir) as series,
        # Also while a run's records are analysed or sent, which may take longer.
        keep_alive(series, durations.step_limit("run", series.experiment).seconds),
        send_afterwards(series_dir, message_writer(series_dir)),
    ):
        stopping.check_after_run(series)  # complete an analysis that was cut short before the next block
        run = (_repeated_run(series, run_id) if again else None) or _next_run(series, run_id)
        if run is None:
            return None
        lease = saved_lease(series.folder)
        losses = lines_since(series.folder, MACHINES_LOST, series.opened_s)
        if not again and lease is not None and any(line["lease_id"] == lease.lease_id for line in losses):
            raise NoRunDue("machines are lost, as the run before says")
        holdings.require_one_more(series)
        prolong(series, series.experiment.lease_minutes)
        context = context_of(series)
        try:
            if not context.cluster.make_whole():
                raise MachineLost(
                    "a machine is lost and this testbed cannot replace it; run it again to resume on others"
                )
        except MachineLost:  # every remaining run would fail, on machines that cost money: none begins
            if lease is not None:
                context.listener.tell(MACHINES_LOST, lease_id=lease.lease_id)
            raise
        try:
            try:
                name = attempt_next_run(series, context, run)
            except Exception:  # no interruption
                stopping.check_after_run(series)
                raise
            stopping.check_after_run(series)  # the run may have ended a block
            return name
        finally:
            if not hold.is_lost(series.folder):  # else the progress file belongs to another execution
                context.listener.tell("money", **holdings.usage_so_far(series))


def _repeated_run(series: Series, run_id: str | None) -> PlannedRun | None:
    """Return the run to repeat; None where it has no record, or one made on these machines: where many are cleared at
    once, the task of another run may have done this one."""
    lease = saved_lease(series.folder)
    run = next((run for run in series.plan() if run.run_id == run_id), None)
    if run is None or lease is None or not series.was_complete(run, lease.acquired_s):
        return None
    if is_too_late(series):
        raise NoRunDue("the deadline comes before its end")
    return run


def _next_run(series: Series, run_id: str | None) -> PlannedRun | None:
    """Return the next run to do, None where a task of `run_id` (None: any task) has nothing to do."""
    is_late = is_too_late(series)
    run = None if is_late else series.next_run()
    if run is None and run_id is not None and run_id not in series.complete():
        raise NoRunDue("the deadline comes before its end" if is_late else "what is measured answers the question")
    return run


def is_too_late(series: Series) -> bool:
    """Return whether a night's deadline has passed: a run not begun then is no failure, and is reported once."""
    reason, progress = too_late(series, time.time()), ProgressFile(series.folder)
    if reason and not lines_since(series.folder, "deadline", series.opened_s):
        progress.tell("deadline", reason=reason)
        progress.tell("message", text=reason)
    return bool(reason)


def message_writer(series_dir: Path) -> Say:
    """Return a function that shows notes on the terminal that follows."""
    return lambda text: ProgressFile(series_dir).tell("message", text=text)


def analyse(series_dir: Path) -> Path:
    """Analyse the series and return the report's path. Raises NothingMeasured where no run has a record; the execution
    then ends."""
    from analysis import compare
    from analysis.compare.question import is_comparison
    from analysis.record import wall_time

    try:
        with step(series_dir) as series:
            if not any((series.folder / "runs").glob("*/run.json")):
                notices = lines_since(series.folder, "deadline", series.opened_s)
                raise (NothingBeforeDeadline if notices else NothingMeasured)(
                    f"series {series.series_id} has no record yet"
                )
            holdings.write_money(series)
            ProgressFile(series_dir).tell("phase", phase="analyse", expected_s=40)
            begin_s = time.time()
            path = analyse_results(series.folder, message_writer(series_dir))
            end_s = time.time()
            # A comparison's page once more, now with its wall time, which includes this analysis.
            if is_comparison(series.folder) and not is_simulated(series.experiment):
                wall_time.write_wall_time(series.folder, stopping.wall_time(series, end_s, end_s - begin_s))
                if compare.is_written(series.folder):
                    compare.write(series.folder)
            return path
    except SeriesInUse:
        raise
    except Exception:
        store(series_dir, message_writer(series_dir))
        raise


def announce(series_dir: Path, report: Path) -> None:
    """Announce where the report is, and publish it for readers elsewhere."""
    is_sent = finish(series_dir, message_writer(series_dir))
    ProgressFile(series_dir).tell("report", path=str(report), sent=is_sent)
    log.info("report: %s", report)
