"""The steps between provisioning and release, each found again from the series' folder alone."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dags import duration, money
from dags.errors import DagError, MachineLost
from dags.progress import ProgressFile, told_since
from dags.results import analysed, finish, writing
from dags.series import Series, read_series
from dags.steps.benches import bench_for
from dags.steps.interruption import step
from dags.steps.keeper import kept
from dags.steps.run_next import ATTEMPTS, run_next
from dags.steps.under_way import Bench
from dags.steps.until import too_late

log = logging.getLogger(__name__)


class NothingMeasured(DagError):
    """There is no record to analyse; another task has said why."""


class NothingInTime(NothingMeasured):
    """The deadline came before the first run: no failure."""


def deploy(series_dir: Path) -> None:
    """Storm on the machines, ready for the first run."""
    with step(series_dir) as series:
        ProgressFile(series_dir).tell("phase", phase="deploy", expected_s=45)
        with kept(series, duration.LONGEST_OPENING_S):
            bench_for(series).cluster.deploy()


def runs_left(series_dir: Path) -> list[int]:
    """One number for each run without a complete record; which run a number does is decided when it starts."""
    return list(range(read_series(series_dir).left()))


def do_next_run(series_dir: Path) -> str | None:
    """The id of the run that was done."""
    with step(series_dir) as series, writing(series_dir, _teller(series_dir)):
        _consider(series)  # an analysis that was cut short is made up for before the next block
        if series.next_run() is None or _is_too_late(series):
            return None
        money.require_one_more(series)
        with kept(series, ATTEMPTS * duration.longest_run_s(series.experiment)):
            bench = bench_for(series)
            _require_whole(bench)
            try:
                with _considered(series):
                    return run_next(series, bench)
            finally:
                bench.listener.tell("money", **money.stand(series))


@contextmanager
def _considered(series: Series) -> Iterator[None]:
    """Whatever becomes of the run, if it is not interrupted: it may have ended a block."""
    try:
        yield
    except Exception:
        _consider(series)
        raise
    _consider(series)


def _consider(series: Series) -> None:
    """A comparison may be certain by now."""
    from dags.comparison.stopping import consider

    consider(series)


def _is_too_late(series: Series) -> bool:
    """A night's deadline: what is not begun then is no failure, and is told once."""
    late, progress = too_late(series, time.time()), ProgressFile(series.folder)
    if late and not told_since(series.folder, "deadline", series.opened_s):
        progress.tell("deadline", reason=late)
        progress.tell("message", text=late)
    return bool(late)


def _require_whole(bench: Bench) -> None:
    """Else every run that is left would fail, one after the other, on machines that cost money."""
    if not bench.cluster.make_whole():
        raise MachineLost("a machine is lost and this testbed cannot replace it; run it again to resume on others")


def _teller(series_dir: Path) -> Callable[[str], None]:
    """Notes on the terminal that follows."""
    return lambda text: ProgressFile(series_dir).tell("message", text=text)


def analyse(series_dir: Path) -> Path:
    """The report's path. Raises NothingMeasured where no run left a record."""
    with step(series_dir) as series:
        if not any((series.folder / "runs").glob("*/run.json")):
            late = told_since(series.folder, "deadline", series.opened_s)
            raise (NothingInTime if late else NothingMeasured)(f"series {series.series_id} has no record yet")
        money.write(series)
        ProgressFile(series_dir).tell("phase", phase="analyse", expected_s=40)
        begin_s = time.time()
        path = analysed(series.folder, _teller(series_dir))
        _note_time(series, begin_s, time.time())
        return path


def _note_time(series: Series, begin_s: float, end_s: float) -> None:
    """What a comparison took over its runs is a part of what it says, so its page is written once more."""
    from analysis import comparison
    from dags.comparison import record, timing

    if record.is_comparison(series.folder):
        timing.write(series.folder, timing.wall(series, end_s, end_s - begin_s))
        if comparison.is_written(series.folder):
            comparison.write(series.folder)


def announce(series_dir: Path, report: Path) -> None:
    """Say where the report is, and let it be read elsewhere."""
    finish(series_dir, _teller(series_dir))
    ProgressFile(series_dir).tell("report", path=str(report))
    log.info("report: %s", report)
