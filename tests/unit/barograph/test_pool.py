"""Processes of a pool: all jobs are done, one that dies costs its own job only, and none outlives its parent."""

from __future__ import annotations

import gc
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from barograph.child_processes import descendants
from barograph.pool import Death, ProcessPool, run_isolated


def double(number: int) -> int:
    if number == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


def environment(_job: int) -> str:
    return os.environ["OMP_NUM_THREADS"]


def sleep_for_long(_job: int) -> None:
    time.sleep(600)


def answers(numbers: list[int], processes: int) -> dict[int, int | Death]:
    with ProcessPool(double, processes) as pool:
        return {answer[0]: answer[1] for answer in pool.answers(numbers) if answer is not None}


@pytest.mark.parametrize("processes", [1, 3])
def test_every_job_has_its_answer(processes: int) -> None:
    assert answers([5, 1, 4, 2], processes) == {5: 10, 1: 2, 4: 8, 2: 4}


def test_a_process_that_is_killed_costs_its_job_alone() -> None:
    assert answers([1, 13, 2, 3], 2) == {1: 2, 13: Death(-signal.SIGKILL), 2: 4, 3: 6}


def pid_of_process(_job: int) -> int:
    return os.getpid()


def test_a_process_that_is_killed_while_it_has_no_job_costs_none() -> None:
    with ProcessPool(pid_of_process, 1) as pool:
        ((_, idle),) = filter(None, pool.answers([1]))
        assert not isinstance(idle, Death)
        os.kill(idle, signal.SIGKILL)
        while Path(f"/proc/{idle}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)
        ((_, other),) = filter(None, pool.answers([2]))
    assert not isinstance(other, Death) and other != idle


def test_a_process_has_one_thread_and_leaves_this_one_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with ProcessPool(environment, 1) as pool:
        assert [answer for answer in pool.answers([1]) if answer] == [(1, "1")]
    assert "OMP_NUM_THREADS" not in os.environ


def test_whoever_waits_has_a_turn_and_the_end_is_at_once() -> None:
    before = set(descendants(os.getpid()))
    with ProcessPool(sleep_for_long, 2) as pool:
        assert next(pool.answers([1, 2], 0.1)) is None
        assert set(descendants(os.getpid())) - before
    assert not [pid for pid in set(descendants(os.getpid())) - before if "resource_tracker" not in command_of(pid)]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


PARENT = """
from barograph.pool import ProcessPool
from tests.unit.barograph.test_pool import sleep_for_long

if __name__ == "__main__":
    with ProcessPool(sleep_for_long, 2) as pool:
        for answer in pool.answers([1, 2], 0.1):
            print("waiting", flush=True)
"""


def test_no_process_outlives_a_parent_that_is_killed(tmp_path: Path, repository: Path) -> None:
    program = tmp_path / "parent.py"
    program.write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, env=environment, text=True) as parent:
        assert parent.stdout is not None and parent.stdout.readline() == "waiting\n"
        children = descendants(parent.pid)
        parent.kill()
    assert len(children) >= 2
    deadline_s = time.monotonic() + 60
    while left := [pid for pid in children if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline_s, [command_of(pid) for pid in left]
        time.sleep(0.1)


def double_isolated(number: int) -> tuple[int, int | Death, int]:
    """The process, its answer, and how many threads this process has afterwards."""

    def work() -> int:
        threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()  # never ends
        return double(number)

    return os.getpid(), run_isolated(work, 60.0), threading.active_count()


def test_what_a_job_leaves_running_ends_with_its_own_process() -> None:
    """A thread that computes for ever, as of a policy that hangs, must not slow the jobs after it."""
    with ProcessPool(double_isolated, 1) as pool:
        found = [answer[1] for answer in pool.answers([1, 13, 2]) if answer is not None]
    pids, answers, threads = zip(*[each for each in found if not isinstance(each, Death)], strict=True)
    assert answers == (2, Death(-signal.SIGKILL), 4), "one that dies costs its job alone"
    assert len(set(pids)) == 1 and set(threads) == {1}
    assert not [pid for pid in descendants(pids[0]) if Path(f"/proc/{pid}").exists()]


def begins_an_answer_and_is_killed(_job: int) -> None:
    (connection,) = [each for each in gc.get_objects() if isinstance(each, Connection)]
    os.write(connection.fileno(), struct.pack("!i", 1000) + b"the first of a thousand bytes")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_while_it_answers_costs_its_job_alone() -> None:
    with ProcessPool(begins_an_answer_and_is_killed, 1) as pool:
        assert [answer for answer in pool.answers([1, 2]) if answer is not None] == [
            (job, Death(-signal.SIGKILL)) for job in (1, 2)
        ]


def closes_everything_and_hangs(_job: int) -> Death | None:
    def work() -> None:
        os.closerange(3, 100)
        time.sleep(600)

    return run_isolated(work, 1.0)


def test_the_limit_holds_where_every_file_is_closed() -> None:
    with ProcessPool(closes_everything_and_hangs, 1) as pool:
        assert [answer[1] for answer in pool.answers([1]) if answer] == [Death(-signal.SIGKILL, 1.0)]


def large(size: int) -> bytes | Death:
    return run_isolated(lambda: bytes(size), 60.0)


def test_an_answer_may_be_large() -> None:
    with ProcessPool(large, 1) as pool:
        assert [answer[1] for answer in pool.answers([0, 5_000_000]) if answer] == [b"", bytes(5_000_000)]


def raising(_job: int) -> int | Death:
    return run_isolated(lambda: 1 // 0, 60.0)


def test_work_that_raises_has_no_answer() -> None:
    with ProcessPool(raising, 1) as pool:
        assert [answer[1] for answer in pool.answers([1]) if answer is not None] == [Death(1)]


def keeps_the_interpreter(_job: int) -> bool | Death:
    """No thread has a turn and no signal is heard in Python before this ends."""
    return run_isolated(lambda: bool(re.match(r"(a+)+b", "a" * 40)), 1.0)


def test_work_that_never_lets_the_interpreter_go_is_killed_at_its_limit() -> None:
    with ProcessPool(keeps_the_interpreter, 1) as pool:
        (found,) = [answer[1] for answer in pool.answers([1]) if answer is not None]
    assert found == Death(-signal.SIGKILL, 1.0)
    assert isinstance(found, Death) and found.blame == "system_under_test"
    assert "still busy after 1 s" in found.words()
