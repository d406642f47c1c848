"""The probe's readings from kernel files as cgroup v1 and v2 write them, and the line it makes of two."""

import http.server
import json
import os
import threading
import time
from pathlib import Path

import pytest

from tests.support.on_machine import load

probe = load("probe", "probe")

V1 = {
    "cpu/cpu.cfs_quota_us": "25000\n",
    "cpu/cpu.cfs_period_us": "100000\n",
    "cpu/cpu.stat": "nr_periods 5128\nnr_throttled 371\nthrottled_time 20911849031\n",
    "cpuacct/cpuacct.usage": "38211904411\n",
    "memory/memory.usage_in_bytes": "412008448\n",
    "memory/memory.limit_in_bytes": "805306368\n",
    "memory/memory.stat": "cache 201326592\nrss 180355072\ntotal_cache 201326592\ntotal_inactive_file 100000000\n",
}
V2 = {
    "cpu.max": "25000 100000\n",
    "cpu.stat": "usage_usec 38211904\nuser_usec 30000000\nnr_throttled 371\nthrottled_usec 20911849\n",
    "memory.current": "412008448\n",
    "memory.max": "max\n",
    "memory.stat": "anon 180355072\nfile 201326592\ninactive_file 100000000\n",
}
NET_DEV = """\
Inter-|   Receive                                   |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:  361190    4191    0    0    0     0   0   0   361190    4191    0    0    0     0   0   0
  exp0: 5200000   81000    0    0    0     0   0   0  5100000   80900    0    0    0     0   0   0
ctl0:1200 10 0 0 0 0 0 0 900 9 0 0 0 0 0 0
"""


def tree(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(root)


def test_cgroup_v1(tmp_path: Path) -> None:
    machine = probe.CgroupV1(tree(tmp_path, V1))
    assert machine.limited()
    assert machine.quota_cores() == 0.25
    assert machine.cpu_s() == pytest.approx(38.211904411)
    assert machine.throttled_s() == pytest.approx(20.911849031)
    assert machine.memory_bytes() == 312008448
    assert machine.memory_limit_bytes() == 805306368


def test_cgroup_v2(tmp_path: Path) -> None:
    machine = probe.CgroupV2(tree(tmp_path, V2))
    assert machine.limited()
    assert machine.quota_cores() == 0.25
    assert machine.cpu_s() == pytest.approx(38.211904)
    assert machine.throttled_s() == pytest.approx(20.911849)
    assert machine.memory_bytes() == 312008448
    assert machine.memory_limit_bytes() is None


@pytest.mark.parametrize(
    ("kind", "files"),
    [("CgroupV1", {"cpu/cpu.cfs_quota_us": "-1\n"}), ("CgroupV2", {"cpu.max": "max 100000\n"}), ("CgroupV1", {})],
)
def test_a_machine_without_a_quota_is_a_real_one(tmp_path: Path, kind: str, files: dict[str, str]) -> None:
    assert not getattr(probe, kind)(tree(tmp_path, files)).limited()


def test_a_real_machine_counts_everything_but_idle_and_waiting(tmp_path: Path) -> None:
    stat = "cpu  100 10 50 9000 400 5 5 77 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"
    meminfo = "MemTotal:        2048 kB\nMemFree:          100 kB\nMemAvailable:    1024 kB\n"
    machine = probe.RealMachine(tree(tmp_path, {"stat": stat, "meminfo": meminfo}))
    assert machine.cpu_s() == pytest.approx(170 / machine.ticks)
    assert machine.throttled_s() is None
    assert machine.memory_bytes() == 1024 * 1024
    assert machine.memory_limit_bytes() == 2048 * 1024


def test_steal_is_of_all_the_time_of_all_cores(tmp_path: Path) -> None:
    """Guests' time, the last two columns, is in the users' already; no time passed between two readings: no share."""
    assert probe.box_time("cpu  100 10 50 9000 400 5 5 77 60 4\ncpu0 1 1 1 1 1 1 1 1 0 0\n") == (77, 9647)
    machine, at = probe.CgroupV1(tree(tmp_path, V1)), {"t": 1.0, "cpu_s": 1.0, "throttled_s": 0.0, "bytes": []}
    frozen = [at | {"t": t, "box": (77, 9647)} for t in (1.0, 2.0)]
    assert probe.line("m2", {}, *frozen, machine)["steal_percent"] is None


def test_traffic_also_where_the_name_touches_the_number() -> None:
    assert probe.traffic(NET_DEV) == {"lo": (361190, 361190), "exp0": (5200000, 5100000), "ctl0": (1200, 900)}


def test_the_line_is_the_contracts_and_a_missing_interface_is_null(tmp_path: Path) -> None:
    machine = probe.CgroupV1(tree(tmp_path, V1))
    before = {"t": 1000.0, "cpu_s": 10.0, "throttled_s": 1.0, "box": (5, 1000), "bytes": [(100, 200), None]}
    now = {"t": 1002.0, "cpu_s": 10.4, "throttled_s": 1.05, "box": (33, 1400), "bytes": [(160, 290), None]}
    line = probe.line("m2", {"ctl0": "eth7", "exp0": None}, before, now, machine, None, 180355072)
    assert line == {
        "v": 1, "t": 1002.0, "dt_s": 2.0, "machine": "m2",
        "cpu_cores": 0.2, "cpu_quota_cores": 0.25, "throttled_ms": 50.0, "steal_percent": 7.0, "runnable": None,
        "memory_bytes": 312008448, "memory_limit_bytes": 805306368, "worker_memory_bytes": 180355072,
        "interfaces": {"name": ["ctl0", "exp0"], "rx_bytes": [60, None], "tx_bytes": [90, None]},
    }  # fmt: skip


def test_memory_of_workers_is_that_of_noted_processes_alone(tmp_path: Path) -> None:
    """Notes are of every daemon; one process has ended, and another user's worker has none."""
    worker = "java\0-cp\0x\0org.apache.storm.daemon.worker.Worker\0star-1-5\0"
    notes, root = tmp_path / "notes", tmp_path / "proc"
    files = {"7": worker, "8": worker, "9": "java\0org.apache.storm.daemon.supervisor.Supervisor\0", "11": worker}
    for number, (pid, command) in enumerate(files.items(), 1):
        tree(root, {f"{pid}/cmdline": command, f"{pid}/statm": f"90000 {number * 100} 50 1 0 2 0\n"})
    tree(notes, dict.fromkeys(("7", "8", "9", "10", "lost+found"), "1234\n"))
    page = os.sysconf("SC_PAGE_SIZE")
    assert probe.worker_memory_bytes(str(notes), str(root)) == (100 + 200) * page
    assert probe.worker_memory_bytes(str(tmp_path / "nothing"), str(root)) is None
    (notes / "7").unlink()
    (notes / "8").unlink()
    assert probe.worker_memory_bytes(str(notes), str(root)) == 0


def threads_of(root: Path, times: dict[str, tuple[int, int]]) -> None:
    """Threads `pid/tid` with their ns run and waited; others end."""
    for old in root.glob("*/task/*/schedstat"):
        old.unlink()
    tree(root, {"loadavg": "2.84 2.36 2.36 3/852 9892\n"})
    for name, (run, wait) in times.items():
        pid, thread = name.split("/")
        tree(root, {f"{pid}/task/{thread}/schedstat": f"{run} {wait} 7\n"})


def test_runnable_threads_are_what_ran_and_waited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In five seconds one ran for 2 s and waited for 1, another waited for 2 s more: 1 on average. What begins counts
    whole, what ends no more, an id that was given again as one that began, and nobody with more than the time that
    passed: one that the reading before has missed has not done everything since."""
    now, s = 100.0, 10**9
    monkeypatch.setattr(probe.time, "monotonic", lambda: now)
    threads_of(tmp_path, {"1/1": (50 * s, 7 * s), "1/2": (0, 0), "9/9": (800 * s, 80 * s), "4/4": (900 * s, 0)})
    threads = probe.ThreadTimes(str(tmp_path))
    now = 102.0
    assert threads.runnable() is None, "too early"
    now = 105.0
    threads_of(tmp_path, {"1/1": (52 * s, 8 * s), "1/2": (0, 2 * s), "9/9": (800 * s, 80 * s)})
    assert threads.runnable() == 1.0
    now = 110.0
    threads_of(tmp_path, {"1/1": (52 * s, 8 * s), "9/9": (s, s // 2), "9/10": (s // 2, 0), "5/5": (300 * s, 60 * s)})
    assert threads.runnable() == pytest.approx((1.5 + 0.5 + 5.0) / 5)


def test_without_waits_of_the_kernel_runnable_threads_are_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(probe.time, "monotonic", lambda: now)
    threads_of(tmp_path, {"1/1": (5, 0)})
    threads = probe.ThreadTimes(str(tmp_path))
    threads_of(tmp_path, {"1/1": (10**9, 0)})
    now = 105.0
    assert threads.runnable() is None


def test_readings_of_many_threads_come_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 40 ms is due again after 20 s: 0.2 % of a core."""
    now, cpu = 100.0, iter([0.0, 0.040, 1.0, 1.001])
    monkeypatch.setattr(probe.time, "monotonic", lambda: now)
    monkeypatch.setattr(probe.time, "thread_time", lambda: next(cpu))
    threads_of(tmp_path, {"1/1": (0, 1)})
    threads = probe.ThreadTimes(str(tmp_path))
    due = []
    for second in (105.0, 110.0, 124.0, 125.0):
        now = second
        due.append(threads.runnable() is not None)
    assert due == [True, False, False, True]


def test_busy_threads_of_this_process_are_seen(tmp_path: Path) -> None:
    """On a real kernel, whose /proc may count no waits."""
    threads = probe.ThreadTimes()
    time.sleep(0.2)
    after = threads.read()
    own = f"/proc/{os.getpid()}/task/{threading.get_native_id()}/schedstat"
    assert own in after and sum(after[own]) >= sum(threads.times[own]) > 0


def test_an_interface_is_found_by_its_address() -> None:
    assert probe.interface_of("127.0.0.1") == "lo"
    assert probe.interface_of("192.0.2.1") is None


def test_lines_reach_the_service_and_wait_while_it_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    got: list[tuple[str, str, list[int]]] = []

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            got.append(
                (self.path, self.headers["Authorization"], [json.loads(line)["n"] for line in body.splitlines()])
            )
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as server:
        silent = probe.SampleSink("http://127.0.0.1:1", "secret")
        for number in range(probe.KEPT_LINES + 30):
            silent.take(json.dumps({"n": number}))
        silent.post()
        silent.post()
        silent.address = f"127.0.0.1:{server.server_port}"
        threading.Thread(target=server.handle_request).start()
        silent.post()
    assert got == [("/machine_samples", "Bearer secret", list(range(30, probe.KEPT_LINES + 30)))]
    assert silent.waiting == []
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert "answers again" in said[1]
