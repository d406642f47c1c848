"""The interruption of a series' execution: SIGTERM as an exception, so that an ended step still writes its record, the
mark that asks for no further run, `step`, which every step of a series runs in, and its time limit.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from analysis.errors import SeriesInUse
from barograph.errors import BarographError, Interrupted, InUse, blame_of, message_of
from barograph.plan.durations import step_limit
from barograph.series import hold
from barograph.series.progress import ProgressFile
from barograph.series.results import results_of
from barograph.series.series import STOP_FILE, Series, read_series, require_spec

# One request may arrive twice: Airflow's worker passes its own signal on to its task. A later request is from
# somebody in a hurry, and may cut a collection short.
ONE_REQUEST_S = 10.0


@contextmanager
def interruptible(one_request_s: float | None = None) -> Iterator[None]:
    """Raise Interrupted on SIGTERM and SIGINT within the block and nested ones, once in `one_request_s` (None:
    ONE_REQUEST_S); off the main thread signals are not handled."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    enclosing = next((handler for handler in handlers if isinstance(handler, _Interruption)), None)
    handle = enclosing or _Interruption(ONE_REQUEST_S if one_request_s is None else one_request_s)
    previous = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class _Interruption:
    """A handler for the signals of a block, and of those within it."""

    def __init__(self, one_request_s: float) -> None:
        self._one_request_s = one_request_s
        self._begun_s: float | None = None

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        now_s = time.monotonic()
        if self._begun_s is None or now_s - self._begun_s >= self._one_request_s:
            self._begun_s = now_s
            raise Interrupted(f"{signal.Signals(number).name} received")


@contextmanager
def step(series_dir: Path, first: Callable[[Path], None] = lambda _: None) -> Iterator[Series]:
    """Run one step of a series: hold the series, end the whole execution on an interruption, and record a failure with
    its blame. Call `first` before the check whether the series was stopped."""
    with interruptible():
        try:
            require_spec(series_dir)
            series = read_series(series_dir)
            with hold.beating(series_dir), results_of(series_dir).kept(series_dir):
                first(series_dir)
                if is_stopped(series):
                    raise Interrupted(f"series {series.series_id} was asked to stop")
                yield series
        except Interrupted:
            request_stop(series_dir)
            raise
        except (SeriesInUse, InUse):  # the progress file belongs to another execution, or the step waits
            raise
        except BaseException as error:
            if not isinstance(error, NO_FAILURES):
                # Airflow's time limit is no `Exception`, and says no more than its process.
                limit = "" if isinstance(error, Exception) else "a step took longer than its limit and was ended: "
                ProgressFile(series_dir).tell(
                    "step_failed", blame=blame_of(error), message=f"{limit}{message_of(error)}"
                )
            raise


NO_FAILURES = (KeyboardInterrupt, SystemExit, GeneratorExit)


def request_stop(series_dir: Path) -> None:
    """Ask that no further run of this execution begins; opening the series again removes the request."""
    (series_dir / STOP_FILE).touch()


def is_stopped(series: Series) -> bool:
    return (series.folder / STOP_FILE).exists()


class StepHung(BarographError):
    """A step took longer than it may, and no limit inside it has reported a reason."""


@contextmanager
def limited(name: str, limit_s: float | None = None) -> Iterator[None]:
    """Raise StepHung where the block takes longer than this step of a series may (`barograph.plan.durations`)."""
    seconds = step_limit(name).seconds if limit_s is None else limit_s
    overruns: list[StepHung] = []

    def hung(_number: int, _frame: FrameType | None) -> None:
        overruns.append(
            StepHung(f"{name} took more than {seconds:g} s, its limit, and was ended; what is on record stays")
        )
        raise overruns[0]

    handler = signal.signal(signal.SIGALRM, hung)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except Exception as error:
        if overruns and error is not overruns[0]:  # Spark's bridge replaces the error that ends its waiting
            raise overruns[0] from error
        raise
    else:
        if overruns:  # somebody handled it like an ordinary error, and went on
            raise overruns[0]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
