"""The child process of `barograph run`: execute the DAG with `dag.test()`. A simulated series holds no machines and is
done in seconds: its steps follow each other here, and nobody waits for an Airflow to start.

The DAG owns the end of an execution: its teardown releases the machines, its report task stores the results and
writes the index. Airflow skips both after an interruption, and a teardown may fail; then, and only then, this process
does it.

`python -m barograph.cli.child SERIES_DIR PARENT_PID`. Its output belongs in the series' log; its exit codes are
those of the command line.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from analysis.errors import SeriesInUse
from barograph.child_processes import die_with_parent
from barograph.errors import EXIT_CODES, INTERRUPTED_EXIT, Interrupted, NotReleased, RunsFailed, blame_of, message_of
from barograph.plan.simulation import is_simulated
from barograph.series import hold
from barograph.series.interruption import interruptible, limited
from barograph.series.progress import ProgressFile, failures_since, lines_since, worst_of
from barograph.series.series import Series, read_series
from barograph.settings import environment_of_children, hold_by_this_process


def main(arguments: list[str]) -> int:
    """The exit code; a log on a full disk does not change it."""
    try:
        return _execute(arguments)
    finally:
        _end_log()


def _execute(arguments: list[str]) -> int:
    series_dir, parent_pid = Path(arguments[0]), int(arguments[1])
    hold_by_this_process()
    progress, begun_s = ProgressFile(series_dir), time.time()
    try:
        hold.take(series_dir, parent_pid=parent_pid)
    except SeriesInUse as error:  # its progress is another's
        return _refuse(error)
    except Exception as error:  # noqa: BLE001 - the parent ends what it has prepared
        return _tell_failure(progress, error)
    code = EXIT_CODES["harness"]
    left: NotReleased | None = None
    lost: SeriesInUse | None = None
    try:
        with interruptible(one_request_s=0.0):  # only the parent signals this process: twice is in a hurry
            # `interruptible` makes an orderly end of it. Airflow takes SIGTERM for itself as each task starts.
            die_with_parent(parent_pid, signal.SIGINT)
            try:
                _run(series_dir)
            finally:
                lost = _loss(series_dir)
        code = 0
    except KeyboardInterrupt:
        code = INTERRUPTED_EXIT
        if lost is None:
            progress.tell("interrupted")
    except Exception as error:  # noqa: BLE001 - the top of a process
        if lost is None:
            code = _tell_failure(progress, error)
    finally:
        if lost is None:
            left = _release(series_dir)
            _store(series_dir, progress, begun_s)
    if lost is not None and code == 0:  # all was done and its hold ended, then another took it, as a report does
        return code
    if lost is not None:  # the parent gives back what the DAG has not
        return _refuse(lost)
    if left is not None and code == 0:
        progress.tell("failed", blame=left.blame, message=message_of(left))
        return EXIT_CODES[left.blame]
    if left is not None:
        progress.tell("message", text=message_of(left))
    elif code == 0:
        progress.tell("finished")
    return code


def _loss(series_dir: Path) -> SeriesInUse | None:
    """That another execution has taken the series meanwhile, whose progress it is then."""
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
    """The exit code of an error, which is in the log and in the progress file then, if they have room for it."""
    _log(error)
    progress.tell("failed", blame=blame_of(error), message=message_of(error))
    return EXIT_CODES[blame_of(error)]


def _log(error: Exception) -> None:
    with suppress(OSError):
        traceback.print_exception(error)


def _end_log() -> None:
    """What could not be written is given up: Python would try again as it ends, and fail with a code of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())


def _run(series_dir: Path) -> None:
    progress, series = ProgressFile(series_dir), read_series(series_dir)
    if series.lacks_report_alone():
        from barograph.series_steps import analyse, announce

        with limited("analyse"):
            report = analyse(series_dir)
        with limited("report"):
            announce(series_dir, report)
        return
    if is_simulated(series.experiment):
        _run_here(series_dir)
        return
    progress.tell("phase", phase="start", expected_s=6)
    from airflow.utils.state import DagRunState

    with _parsing_alone(series):
        dag, answers = _dag_of(series)
        for task in dag.tasks:  # who waits at a terminal hears of a failure at once
            task.retries = 0
        dag_run = dag.test(run_conf={**answers, "opened": str(series_dir)})
    if _stop_requested(series):
        raise Interrupted
    if dag_run.state != DagRunState.SUCCESS:
        raise _worst_failure(series)


def _run_here(series_dir: Path) -> None:
    """The steps of the DAG, each in its time limit. Runs are side by side; one that fails does not keep the others.

    `main` releases what is left after a failure.
    """
    from barograph.machines.provision import provision, release
    from barograph.series_steps import NothingInTime, NotNeeded, analyse, announce, require_runs
    from barograph.simulated_runs import simulate_runs

    series, failed = read_series(series_dir), False
    with suppress(NotNeeded):
        with limited("provision"):
            require_runs(series_dir)
            provision(series_dir)
        failed = not simulate_runs(series_dir)
    if _stop_requested(series):
        raise Interrupted
    with limited("release"):
        release(series_dir)
    try:
        with limited("analyse"):
            report = analyse(series_dir)
    except NothingInTime:
        return
    except Exception as error:
        if failed:
            raise _worst_failure(series) from error
        raise
    with limited("report"):
        announce(series_dir, report)
    if failed:
        raise _worst_failure(series)


@contextmanager
def _parsing_alone(series: Series) -> Iterator[None]:
    """`dag.test` writes every DAG of the folder to the database: half of the start. Here a file has but the series'."""
    from airflow.sdk.definitions.context import _AIRFLOW_PARSING_CONTEXT_DAG_ID

    from barograph.compare import record
    from barograph.web import COMPARISON_DAG, dag_id_of

    dag_id = COMPARISON_DAG if record.is_comparison(series.folder) else dag_id_of(series.experiment.name)
    with environment_of_children({_AIRFLOW_PARSING_CONTEXT_DAG_ID: dag_id}):
        yield


def _dag_of(series: Series) -> tuple[Any, dict[str, Any]]:
    """Its DAG, with what the form wants to have answered: Airflow runs none that is not of a file in its folder."""
    from barograph.compare import record

    if record.is_comparison(series.folder):
        from dags.compare_branches import compare_branches

        return compare_branches, record.form_answers(record.read(series.folder))
    from dags.experiments import build

    return build(series.experiment), {}


def _worst_failure(series: Series) -> RunsFailed:
    """What to say when the DAG is red: a run's own failure, or that of a step."""
    failures = failures_since(series.folder, series.opened_s)
    if not failures:
        return RunsFailed(f"a step failed; see {series.folder / 'harness.log'}", "harness")
    blame, message = worst_of(failures)
    return RunsFailed(message, blame)


def _stop_requested(series: Series) -> bool:
    from barograph.series.interruption import is_stopped

    return is_stopped(series)


def _release(series_dir: Path) -> NotReleased | None:
    """Release what the DAG's teardown has not; nothing happens where it has. Not to be cut short. What is left."""
    from barograph.machines.provision import release

    before = [signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        release(series_dir)
    except NotReleased as left:  # the lease stays on record and is reaped
        _log(left)
        return left
    except Exception as error:  # noqa: BLE001 - what was measured is stored all the same
        _log(error)
        return NotReleased(f"machines may still be up: {message_of(error)}; `barograph reap` ends them")
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)
    return None


def _store(series_dir: Path, progress: ProgressFile, begun_s: float) -> None:
    """Finish what the DAG's report task has not; where it has, only the last lines of the logs are sent."""
    from barograph.series.results import finish, store

    announced = any(line.get("sent", True) for line in lines_since(series_dir, "report", begun_s))
    try:
        (store if announced else finish)(series_dir, lambda text: progress.tell("message", text=text))
    except Exception as error:  # noqa: BLE001 - it waits in the spool
        _log(error)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
