"""METIS in a process of its own: what it is asked, and what becomes of one that ends or does not answer."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pymetis  # noqa: F401  # this process's own, before any that a test puts in its place
import pytest

from scheduler_plugins.policies import metis_process, partition
from scheduler_plugins.policies.communication import CommunicationGraph, Pairs, graph_of_pairs
from scheduler_plugins.policies.metis_process import MetisProcess, NoAnswer
from scheduler_plugins.policies.partition import MetisOptions, metis_parts
from scheduler_plugins.service.policy_call import waited_for_cpu_s
from tests.support.fake_metis import put_fake_metis

ROOT = Path(partition.__file__).parents[2]
Fake = Callable[[str], Path]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    monkeypatch.syspath_prepend(tmp_path)
    return lambda action: put_fake_metis(tmp_path, action)


def lines(vertices: int) -> CommunicationGraph:
    """Every second vertex sends to the one after it."""
    sources = np.arange(0, vertices, 2)
    return graph_of_pairs(Pairs(sources, sources + 1, np.ones(len(sources))), np.ones(vertices))


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize("objective", ["cut", "vol"])
@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("os.abort()", "METIS' process was ended by signal 6 (Aborted)"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "METIS' process was ended by signal 11 (Segmentation fault)"),
        ("sys.exit('no memory is left')", "METIS' process ended with 1: no memory is left"),
        ("os._exit(0)", "METIS' process ended before its answer was whole"),
    ],
)
def test_a_process_that_ends_itself_is_told_in_words(
    fake: Fake, action: str, words: str, objective: partition.Objective
) -> None:
    fake(action)
    with pytest.raises(NoAnswer) as caught:
        metis_parts(lines(8), 2, MetisOptions(objective))
    assert str(caught.value).startswith(words)


def test_a_process_over_its_limit_is_ended_and_waited_for(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake("count == 3 and time.sleep(600)")
    with MetisProcess() as metis:
        metis_parts(lines(8), 2, MetisOptions("vol"), metis)  # so that it is there
        monkeypatch.setattr(partition, "LEAST_LIMIT_S", 0.5)
        with pytest.raises(NoAnswer, match=r"METIS has not answered within 0\.5 s and was ended"):
            metis_parts(lines(8), 3, MetisOptions("vol"), metis)
        process = int(calls.read_text().split()[0])
        assert not Path(f"/proc/{process}").exists()


def test_a_process_that_nobody_ends_ends_itself_after_its_limit(fake: Fake) -> None:
    """As where the one that began it is gone before its pipe can say so."""
    calls = fake("count == 3 and time.sleep(600)")
    with MetisProcess() as metis:
        metis_parts(lines(8), 2, MetisOptions("vol"), metis)
        options = {"recursive": False, "seed": 0}
        request = {"lengths": [9, 8, 8, 0], "count": 3, "calls": [options], "limit_s": 0.1}
        assert metis._process is not None
        line = json.dumps(request).encode() + b"\n"
        assert metis_process._exchange(metis._process, line, size=64, limit_s=60.0) == b""
        assert metis._process.wait(60) == -signal.SIGALRM
    assert len(calls.read_text().splitlines()) == 2


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_the_process_that_began_it(tmp_path: Path, end: signal.Signals) -> None:
    """However that ends, and though METIS does not look up."""
    calls = put_fake_metis(tmp_path, "time.sleep(600)")
    program = (
        f"import sys; sys.path[:0] = {[str(tmp_path), str(ROOT)]!r}\n"
        "from tests.unit.scheduler_plugins.policies.test_metis_process import lines\n"
        "from scheduler_plugins.policies.partition import MetisOptions, metis_parts\n"
        "metis_parts(lines(8), 2, MetisOptions('cut'))"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as parent:
        wait_until(lambda: bool(calls.read_text()))
        process = int(calls.read_text().split()[0])
        assert is_running(process)
        parent.send_signal(end)
    wait_until(lambda: not is_running(process))


def wait_until(condition: Callable[[], bool], limit_s: float = 60.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_where_no_process_can_begin_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/python")
    with pytest.raises(NoAnswer, match=r"METIS' process cannot begin: .*No such file"):
        metis_parts(lines(8), 2, MetisOptions("cut"))


def test_what_metis_prints_is_nobodys(fake: Fake, capfd: pytest.CaptureFixture[str]) -> None:
    fake("os.write(1, b'***too many parts')")
    assert metis_parts(lines(8), 2, MetisOptions("cut")).parts.tolist() == [0, 1] * 4
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("vertices", "calls"),
    [
        (8, [f"{way} {seed}" for seed in range(3, 11) for way in ("k-way", "bisection")]),
        (8_000, [f"{way} {seed}" for seed in range(3, 6) for way in ("k-way", "bisection")]),
        (80_000, ["k-way 3", "bisection 3"]),
        (400_000, ["k-way 3"]),
    ],
)
def test_the_larger_a_graph_the_fewer_the_calls(fake: Fake, vertices: int, calls: list[str]) -> None:
    """All in one process; a graph of n vertices in pairs has 2 n vertices and ends of edges."""
    made = fake("pass")
    metis_parts(lines(vertices), 2, MetisOptions("cut", seed=3))
    processes, ways = zip(*(line.split(" ", 1) for line in made.read_text().splitlines()), strict=True)
    assert list(ways) == calls and len(set(processes)) == 1


def test_seeds_after_the_last_begin_anew(fake: Fake) -> None:
    made = fake("pass")
    metis_parts(lines(8), 2, MetisOptions("cut", seed=2**31 - 2))
    assert [int(line.split()[-1]) for line in made.read_text().splitlines()[::2]] == [2**31 - 2, 2**31 - 1, *range(6)]


def test_threads_may_ask_at_the_same_time() -> None:
    graphs = [lines(8 + 2 * step) for step in range(8)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda graph: metis_parts(graph, 3, MetisOptions("cut")).parts.tolist(), graphs))
    assert together == [metis_parts(graph, 3, MetisOptions("cut")).parts.tolist() for graph in graphs]


STARVED = """
import os, subprocess, sys, time
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
spin = "import time; end = time.monotonic() + 60\\nwhile time.monotonic() < end: pass"
with subprocess.Popen([sys.executable, "-c", spin]) as other:
    end = time.monotonic() + 1.0
    while time.monotonic() < end: pass
    other.kill()
print("done", flush=True)
time.sleep(60)
"""


def test_what_its_process_waits_for_a_cpu_counts_as_the_policys_waiting() -> None:
    """Else a busy box would be the policy's fault. The process shares one CPU with another for a second."""
    begun = threading.Event()
    processes: list[subprocess.Popen[bytes]] = []

    def decide() -> None:
        with subprocess.Popen([sys.executable, "-c", STARVED], stdout=subprocess.PIPE) as process:
            processes.append(process)
            assert process.stdout is not None and process.stdout.readline() == b"done\n"
            begun.set()

    thread = threading.Thread(target=decide)
    thread.start()
    try:
        assert begun.wait(60)
        assert waited_for_cpu_s(thread) > 0.2
    finally:
        processes[0].kill()
        thread.join()


def test_one_process_takes_all_graphs_of_a_decision_and_ends_with_it(fake: Fake) -> None:
    calls = fake("pass")
    with MetisProcess() as metis:
        for vertices in (8, 800, 8_000, 10):
            parts = metis_parts(lines(vertices), 2, MetisOptions("vol"), metis).parts
            assert parts.tolist() == [0, 1] * (vertices // 2)
    processes = {int(line.split()[0]) for line in calls.read_text().splitlines()}
    assert len(processes) == 1 and not any(map(is_running, processes))


def test_after_one_that_ended_itself_the_next_graph_has_another(fake: Fake) -> None:
    calls = fake("count == 3 and os.abort()")
    with MetisProcess() as metis:
        with pytest.raises(NoAnswer, match="signal 6"):
            metis_parts(lines(8), 3, MetisOptions("vol"), metis)
        assert metis_parts(lines(8), 2, MetisOptions("vol"), metis).parts.tolist() == [0, 1] * 4
    assert len({line.split()[0] for line in calls.read_text().splitlines()}) == 2
