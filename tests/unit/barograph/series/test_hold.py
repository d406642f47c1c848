"""One execution writes a series: who may take it, for how long, and what another command is told."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from analysis.errors import SeriesInUse
from barograph.campaign import steps
from barograph.cli.bundle import bundle
from barograph.errors import Interrupted
from barograph.machines.provision import provision
from barograph.plan.experiment import load, with_changes
from barograph.series import hold
from barograph.series.interruption import step
from barograph.series.progress import failures_since
from barograph.series.results import analyse_again, finish
from barograph.series.series import Series, open_series
from inventory.leases.holder import HEARTBEAT_BOUND_S, process_start

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def other() -> Iterator[int]:
    """A process that lives as long as the test."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.communicate(b"\n")


@pytest.fixture
def theirs(other: int, monkeypatch: pytest.MonkeyPatch) -> Series:
    """A series that another process holds."""
    with monkeypatch.context() as patch:
        patch.setenv("BAROGRAPH_HOLDER_PID", str(other))
        return open_series(with_changes(load("stela/star"), {"testbed": "fake"}))


def note(series: Series, **facts: object) -> None:
    path = series.folder / hold.FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))


def test_opened_by_one_it_is_refused_to_others_until_its_end(
    theirs: Series, other: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SeriesInUse, match=f"{theirs.series_id} is in use by process {other} on .*end that process"):
        open_series(theirs.experiment)
    assert SeriesInUse.blame == "capacity"
    before = (theirs.folder / "series.json").read_text()
    finish(theirs.folder, pytest.fail)
    assert (theirs.folder / hold.FILE).exists(), "it is not ours to end"
    monkeypatch.setenv("BAROGRAPH_HOLDER_PID", str(other))
    finish(theirs.folder, pytest.fail)
    monkeypatch.delenv("BAROGRAPH_HOLDER_PID")
    assert (theirs.folder / "series.json").read_text() == before
    assert open_series(theirs.experiment).folder == theirs.folder


def test_neither_a_step_nor_a_report_nor_a_bundle_touches_it(theirs: Series, tmp_path: Path) -> None:
    for entered in (lambda: step(theirs.folder), lambda: hold.held(theirs.folder)):
        with pytest.raises(SeriesInUse):
            entered().__enter__()
    with pytest.raises(SeriesInUse):
        analyse_again(theirs.folder, pytest.fail)
    archive = tmp_path / "series.tar.gz"
    with pytest.raises(SeriesInUse):
        bundle(str(theirs.folder), archive, without_raw=False, say=pytest.fail)
    assert not archive.exists()
    assert failures_since(theirs.folder, 0.0) == [], "the other's progress tells of nothing that is not its own"


def test_a_dead_holder_and_one_that_is_not_heard_of_hold_nothing(
    theirs: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(theirs, heartbeat_s=time.time() - HEARTBEAT_BOUND_S - 1)
    hold.take(theirs.folder)
    current = hold.read(theirs.folder)
    assert current is not None and current.pid == os.getpid() and current.counts(time.time())
    note(theirs, pid=2**22 + 1, born="another-boot/7")
    hold.take(theirs.folder)
    assert hold.read(theirs.folder) is not None


def test_of_another_host_the_time_is_said(theirs: Series) -> None:
    note(theirs, system="another-boot/pid:[1]", host="far", heartbeat_s=time.time() - 300)
    with pytest.raises(SeriesInUse, match=r"process \d+ on far, last heard of 5 min ago; .* for 20 min"):
        open_series(theirs.experiment)


def test_a_child_takes_it_from_its_parent(theirs: Series, other: int) -> None:
    with pytest.raises(SeriesInUse):
        hold.take(theirs.folder, parent_pid=os.getpid())
    hold.take(theirs.folder, parent_pid=other)
    current = hold.read(theirs.folder)
    assert current is not None and current.pid == os.getpid()


def test_the_heart_beats_on_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold, "HEARTBEAT_S", 0.02)
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake"}))
    reads, failures = hold.read, [OSError(errno.EIO, "Input/output error")]

    def failing(series_dir: Path) -> hold.SeriesLock | None:
        if failures and threading.current_thread().name == "series hold":
            raise failures.pop()
        return reads(series_dir)

    monkeypatch.setattr(hold, "read", failing)
    with step(series.folder):
        while failures:
            time.sleep(0.01)  # pytest's timeout ends a wait in vain
        note(series, heartbeat_s=1000.0)
        while (current := reads(series.folder)) is not None and current.heartbeat_s == 1000.0:
            time.sleep(0.01)


def test_a_process_that_was_stopped_for_long_keeps_its_series(other: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-Z, or a clock that was set: it lives, and goes on writing."""
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake"}))
    monkeypatch.setenv("BAROGRAPH_HOLDER_PID", str(other))
    for away_s in (-1, 1):
        note(series, heartbeat_s=time.time() + away_s * (HEARTBEAT_BOUND_S + 60))
        with pytest.raises(SeriesInUse, match=f"in use by process {os.getpid()} on .*, or end that process"):
            hold.take(series.folder)
    note(series, born="another-boot/7")
    hold.take(series.folder)


def lose(series: Series) -> None:
    with hold._lock(series.folder):
        note(series, pid=1, born="another-boot/7", system="another-boot/pid:[1]", host="far")


@pytest.mark.parametrize("entered", [step, hold.held])
def test_an_execution_that_has_lost_its_series_ends_and_leaves_no_trace_in_it(
    entered: Callable[[Path], AbstractContextManager[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after it was stopped on another host: what it writes now would stand among what the other measures."""
    monkeypatch.setattr(hold, "HEARTBEAT_S", 0.05)
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake"}))
    before, handled = signal.getsignal(hold.LOSS), list[BaseException]()

    def work() -> None:
        with entered(series.folder):
            lose(series)
            try:
                time.sleep(20)
            except (Exception, Interrupted) as error:  # noqa: BLE001 - as `measure`, which writes into the record
                handled.append(error)

    with pytest.raises(SeriesInUse, match=r"was taken by process 1 on far while .*; it ends"):
        work()
    assert not handled and signal.getsignal(hold.LOSS) == before
    current = hold.read(series.folder)
    assert current is not None and current.host == "far"
    assert not (series.folder / "stop").exists() and failures_since(series.folder, 0.0) == []


def test_a_run_whose_series_is_lost_says_nothing_about_money(monkeypatch: pytest.MonkeyPatch) -> None:
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake"}))
    provision(series.folder)
    before = (series.folder / "progress.jsonl").read_text()

    def attempt(*_: object) -> None:
        lose(series)
        raise hold.HoldLost

    monkeypatch.setattr(steps, "attempt_next_run", attempt)
    with pytest.raises(hold.HoldLost):
        steps.do_run(series.folder)
    assert (series.folder / "progress.jsonl").read_text() == before


def test_off_the_main_thread_a_loss_is_said_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold, "HEARTBEAT_S", 0.02)
    series, lost = open_series(with_changes(load("stela/star"), {"testbed": "fake"})), threading.Event()
    monkeypatch.setattr(hold.log, "warning", lambda *_: lost.set())

    def work() -> None:
        with hold.held(series.folder):
            lose(series)
            lost.wait(20)

    with ThreadPoolExecutor(1) as pool, pytest.raises(SeriesInUse, match="was taken by process 1 on far"):
        pool.submit(work).result()


def test_tasks_of_a_holder_that_was_killed_may_collect(other: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else has taken the series from a `barograph ui` that is gone."""
    monkeypatch.setattr(hold, "HEARTBEAT_S", 0.02)
    monkeypatch.setenv("BAROGRAPH_HOLDER_PID", str(other))
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake"}))
    with step(series.folder):
        os.kill(other, signal.SIGKILL)
        while process_start(other):
            time.sleep(0.01)
        time.sleep(0.3)


def test_a_heartbeat_from_before_the_clock_was_set_back_holds_nothing(theirs: Series) -> None:
    note(theirs, heartbeat_s=time.time() + HEARTBEAT_BOUND_S + 60)
    hold.take(theirs.folder)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_what_cannot_be_written_is_read_unless_another_writes_it(
    theirs: Series, other: int, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(hold, "hold_lock", refused)
    with pytest.raises(SeriesInUse), hold.held(theirs.folder):
        pass
    monkeypatch.setenv("BAROGRAPH_HOLDER_PID", str(other))
    with hold.held(theirs.folder):
        pass
    monkeypatch.setattr(hold, "hold_lock", lambda *_: refused_otherwise())
    with pytest.raises(OSError, match="Input/output"), hold.held(theirs.folder):
        pass


def refused_otherwise() -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_a_folder_that_is_gone_stays_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hold, "HEARTBEAT_S", 0.05)
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake"}))
    with hold.beating(series.folder):
        series.folder.rename(tmp_path / "elsewhere")
        time.sleep(0.3)
        assert not series.folder.exists()
    hold.drop(series.folder)
    assert not series.folder.exists()


def test_a_series_that_cannot_be_opened_is_free_again(other: int, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = with_changes(load("stela/star"), {"testbed": "fake"})
    folder = open_series(experiment).folder

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("barograph.series.series.write_json_atomic", full)
        with pytest.raises(OSError, match="No space"):
            open_series(experiment)
    monkeypatch.setenv("BAROGRAPH_HOLDER_PID", str(other))
    assert open_series(experiment).folder == folder


def test_what_is_only_read_is_held_meanwhile_and_then_as_before() -> None:
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake"}))
    with hold.held(series.folder):
        pass
    assert hold.read(series.folder) is not None, "this execution goes on with it"
    hold.drop(series.folder)
    with hold.held(series.folder):
        assert hold.read(series.folder) is not None
    assert hold.read(series.folder) is None
