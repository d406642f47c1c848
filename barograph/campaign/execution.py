"""The process that carries out a series for a command: the steps that a DAG has as tasks, one after the other.

`python -m barograph.campaign.execution SERIES_DIR PARENT_PID`. Its output belongs in the series' log; its exit codes
are those of the command line. However the runs end, machines are released before anything is analysed. The parent does
the same if this process was killed.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

from analysis.errors import SeriesInUse
from barograph.campaign.simulation import simulate_series
from barograph.campaign.steps import (
    NoRunDue,
    NothingBeforeDeadline,
    analyse,
    announce,
    deploy,
    do_run,
    message_writer,
    require_runs,
    runs_of_execution,
)
from barograph.child_processes import die_with_parent
from barograph.errors import EXIT_CODES, INTERRUPTED_EXIT, Interrupted, NotReleased, RunsFailed, blame_of, message_of
from barograph.machines.provision import provision, release
from barograph.plan.durations import step_limit
from barograph.plan.simulation import is_simulated
from barograph.series import hold
from barograph.series.interruption import interruptible, is_stopped, limited
from barograph.series.progress import ProgressFile, failures_since, lines_since, worst_of
from barograph.series.results import finish, store
from barograph.series.series import Series, read_series
from barograph.settings import hold_by_this_process

log = logging.getLogger(__name__)
LOGGED = ("barograph", "inventory", "playbooks", "analysis", "scheduler_plugins")


def main(arguments: list[str]) -> int:
    """Return the exit code; a log on a full disk does not change it."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for package in LOGGED:
        logging.getLogger(package).setLevel(logging.INFO)
    try:
        return _execute(Path(arguments[0]), int(arguments[1]))
    finally:
        # Python would retry at exit to write what could not be written, and fail with another exit code.
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                with Path(os.devnull).open("wb") as nowhere:
                    os.dup2(nowhere.fileno(), stream.fileno())


def _execute(series_dir: Path, parent_pid: int) -> int:
    hold_by_this_process()
    progress, begun_s = ProgressFile(series_dir), time.time()
    try:
        hold.take(series_dir, parent_pid=parent_pid)
    except SeriesInUse as error:  # the progress file belongs to another execution
        return _refuse(error)
    except Exception as error:  # noqa: BLE001 - the parent releases what it has prepared
        return _tell_failure(progress, error)
    code, release_failure, failure = EXIT_CODES["harness"], None, None
    try:
        with interruptible(one_request_s=0.0):  # only the parent signals this process: a second signal means now
            die_with_parent(parent_pid, signal.SIGINT)
            try:
                is_whole = measure(series_dir)
            finally:
                release_failure = _release(series_dir)
            report(series_dir, is_whole=is_whole)
        code = 0
    except KeyboardInterrupt:
        code = INTERRUPTED_EXIT
    except Exception as error:  # noqa: BLE001 - the top of a process
        failure = error
    if (loss := _loss(series_dir)) is not None:  # the parent releases the rest
        # A report may follow a finished series whose hold has ended.
        return code if code == 0 else _refuse(loss)
    if failure is not None:
        code = _tell_failure(progress, failure)
    elif code == INTERRUPTED_EXIT:
        progress.tell("interrupted")
    is_announced = any(line.get("sent", True) for line in lines_since(series_dir, "report", begun_s))
    try:
        (store if is_announced else finish)(series_dir, message_writer(series_dir))
    except Exception as error:  # noqa: BLE001 - the files stay in the spool
        _log(error)
    if release_failure is not None and code == 0:
        progress.tell("failed", blame=release_failure.blame, message=message_of(release_failure))
        return EXIT_CODES[release_failure.blame]
    if release_failure is not None:
        progress.tell("message", text=message_of(release_failure))
    elif code == 0:
        progress.tell("finished")
    return code


def measure(series_dir: Path) -> bool:
    """Do every run that is left, beginning with taking machines; a run that fails does not stop the others. Returns
    whether every run is complete; the series' progress says why one is not."""
    series = read_series(series_dir)
    if series.lacks_report_alone():
        return True
    try:
        with limited("provision"):
            require_runs(series_dir)
            provision(series_dir)
    except NoRunDue:
        return True
    return simulate_series(series_dir) if is_simulated(series.experiment) else _do_runs(series)


def _do_runs(series: Series) -> bool:
    """Do the runs on machines one after the other, since each run needs the whole cluster."""
    with limited("deploy"):
        deploy(series.folder)
    is_whole = True
    for run_id in runs_of_execution(series.folder):
        try:
            with limited("run", step_limit("run", series.experiment).seconds):
                do_run(series.folder, run_id)
        except NoRunDue as reason:
            log.info("%s is not begun: %s", run_id, message_of(reason))
        except SeriesInUse:
            raise
        except Exception as error:
            log.warning("%s failed", run_id, exc_info=error)
            is_whole = False
    return is_whole


def report(series_dir: Path, *, is_whole: bool) -> None:
    """Analyse the measurements. Raises RunsFailed where a run failed (`is_whole` is false)."""
    series = read_series(series_dir)
    if is_stopped(series):
        raise Interrupted
    try:
        with limited("analyse"):
            page = analyse(series_dir)
        with limited("report"):
            announce(series_dir, page)
    except NothingBeforeDeadline:
        pass
    except Exception as error:
        if is_whole or not failures_since(series.folder, series.opened_s):  # a full disk stores no progress
            raise
        raise _worst_failure(series) from error
    if not is_whole:
        raise _worst_failure(series)


def _worst_failure(series: Series) -> RunsFailed:
    failures = failures_since(series.folder, series.opened_s)
    if not failures:
        return RunsFailed(f"a run failed; see {series.folder / 'harness.log'}", "harness")
    blame, message = worst_of(failures)
    return RunsFailed(message, blame)


def _loss(series_dir: Path) -> SeriesInUse | None:
    """Return an error where another execution has taken the series meanwhile and so writes its progress."""
    try:
        hold.refuse_others(series_dir)
    except SeriesInUse as error:
        return error
    return None


def _refuse(error: SeriesInUse) -> int:
    with suppress(OSError):
        print(message_of(error), file=sys.stderr)
    return EXIT_CODES[blame_of(error)]


def _tell_failure(progress: ProgressFile, error: Exception) -> int:
    """Write the error to the log and the progress file, if there is room, and return its exit code."""
    _log(error)
    progress.tell("failed", blame=blame_of(error), message=message_of(error))
    return EXIT_CODES[blame_of(error)]


def _log(error: Exception) -> None:
    with suppress(OSError):
        traceback.print_exception(error)


def _release(series_dir: Path) -> NotReleased | None:
    """Release the machines, uninterruptibly, and return what could not be released. Do nothing where another execution
    has the series."""
    hold_before = [signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        if _loss(series_dir) is None:
            with limited("release"):
                release(series_dir)
    except NotReleased as left:  # the lease stays on record and is reaped
        _log(left)
        return left
    except Exception as error:  # noqa: BLE001 - the measurements are stored anyway
        _log(error)
        return NotReleased(f"machines may still be up: {message_of(error)}; `barograph reap` ends them")
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), hold_before, strict=True):
            signal.signal(number, handler)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
