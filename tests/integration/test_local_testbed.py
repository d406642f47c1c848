"""The local testbed for real: limits, LANs, shaping, and what is left after kill -9."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from barograph.errors import InfrastructureError
from barograph.plan.events.kind import Disturbance
from inventory.leases import processes, registry
from inventory.leases.reaper import reap
from inventory.leases.registry import Lease
from inventory.local import lan
from inventory.local.testbed import LocalTestbed
from inventory.machines import Machine, MachineRequest, MachineType
from inventory.remote.ssh import Remote, connect
from tests.support.short_folder import short_folder

pytestmark = pytest.mark.integration

WORKER = MachineType("worker", cores=0.25, memory_mb=256, bandwidth_mbit=100, slots=4)
WANTED = [MachineRequest(name, WORKER) for name in ("master", "m1", "m2")]
KILLS = 12
KILL_BUDGET_S = 60.0
FEWEST_KILLS = 3
SEED = 20261121

# One whole life of a lease, to be killed somewhere.
LIFE = """
from inventory.leases import registry
from inventory.local.testbed import LocalTestbed
from inventory.machines import MachineRequest, MachineType
worker = MachineType("worker", cores=0.25, memory_mb=256, bandwidth_mbit=100, slots=4)
testbed, lease = LocalTestbed(), registry.take("to be killed", "series", "local", 600)
print("begun", flush=True)
testbed.acquire(lease, [MachineRequest(f"m{n}", worker) for n in range(3)])
print("acquired", flush=True)
testbed.release(lease)
registry.drop(lease)
"""


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with short_folder() as folder:
        monkeypatch.setenv("BAROGRAPH_STATE", str(folder))
        # Ranges of the tests' own, so that a run that is going on is not in the way.
        monkeypatch.setenv(lan.CONTROL[0], "10.215.0.0/24")
        monkeypatch.setenv(lan.EXPERIMENT[0], "10.216.0.0/24")
        yield folder
        reap(now=time.time() + 1e6)


@pytest.fixture
def lease(state: Path) -> Lease:
    return registry.take("integration test", "series", "local", 600)


def _remote(machine: Machine) -> Remote:
    return connect(machine)


def _output(machine: Machine, *argv: str) -> str:
    with _remote(machine) as remote:
        result = remote.run(argv)
    assert result.code == 0, result.stderr
    return result.stdout


def test_machines_are_what_was_asked_for(lease: Lease, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "storm.jar").write_text("jar")
    testbed = LocalTestbed(mounts={tmp_path / "lib": "/opt/barograph/storm/lib"})
    _, first, second = testbed.acquire(lease, WANTED)

    assert _output(first, "hostname").strip() == "m1"
    assert _output(first, "getent", "hosts", "m2").split() == [second.experiment_address, "m2"]
    assert _output(first, "cat", "/opt/barograph/storm/lib/storm.jar") == "jar"
    with _remote(first) as remote:
        assert remote.run(["touch", "/opt/barograph/storm/lib/other"]).code == 1
        assert remote.run(["ping", "-c1", "-W2", "m2"]).code == 0
        assert remote.run(["ip", "route", "get", "192.0.2.1"]).code != 0  # no way out
    assert "sshd" in _output(first, "supervisorctl", "status")
    assert _limits(first) == (0.25, 256 * 2**20)
    assert (first.ssh_key.stat().st_mode & 0o777, first.ssh_key.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    _check_host_key(first, second)


def _limits(machine: Machine) -> tuple[float, int]:
    """Cores and bytes, from inside the machine, as its cgroup has them."""
    if (processes.CGROUPS / "cgroup.controllers").exists():
        quota, period = _output(machine, "cat", "/sys/fs/cgroup/cpu.max").split()
        return int(quota) / int(period), int(_output(machine, "cat", "/sys/fs/cgroup/memory.max"))
    quota = _output(machine, "cat", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
    period = _output(machine, "cat", "/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    return int(quota) / int(period), int(_output(machine, "cat", "/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def _check_host_key(first: Machine, second: Machine) -> None:
    """A machine that shows another key than the one it was given is not spoken to."""
    wrong = (
        first.known_hosts.read_text()
        .replace(first.control_address, "x")
        .replace(second.control_address, first.control_address)
    )
    first.known_hosts.write_text(wrong)
    with pytest.raises(InfrastructureError, match=r"[Hh]ost key"):
        _remote(first)


def test_the_experiment_lan_is_shaped_both_ways(lease: Lease) -> None:
    _, first, second = LocalTestbed().acquire(lease, WANTED)
    for sender, receiver in ((first, second), (second, first)):
        rate = _fastest_mbit(lease, sender.name, receiver.name, receiver.experiment_address)
        assert 85 < rate < 101


def _fastest_mbit(lease: Lease, sender: str, receiver: str, address: str) -> float:
    """Of three attempts, if need be: a busy box makes them slower than the link, and never faster."""
    rate = 0.0
    for _ in range(3):
        rate = max(rate, _rate_mbit(lease, sender, receiver, address))
        if rate > 85:
            break
    return rate


def _rate_mbit(lease: Lease, sender: str, receiver: str, address: str, seconds: int = 2) -> float:
    """Iperf3 between the machines' namespaces, outside their CPU limits."""
    inside = [["ip", "netns", "exec", f"baro-{lease.lease_id}-{name}", "iperf3"] for name in (receiver, sender)]
    serving = [*inside[0], "-s", "-1", "--forceflush"]
    with subprocess.Popen(serving, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            next(line for line in server.stdout if "listening" in line)
            client = [*inside[1], "-c", address, "-t", str(seconds), "-f", "m"]
            report = subprocess.run(client, capture_output=True, text=True, check=True).stdout
        except BaseException:
            server.kill()  # it waits for one client
            raise
    line = next(line for line in report.splitlines() if line.endswith("receiver"))
    return float(line.split()[line.split().index("Mbits/sec") - 1])


def test_a_restarted_machine_has_its_limits_and_shaping(lease: Lease) -> None:
    testbed = LocalTestbed()
    _, first, second = testbed.acquire(lease, WANTED)
    testbed.crash(first)
    testbed.restart(first)
    assert _limits(first) == (0.25, 256 * 2**20)
    assert 85 < _fastest_mbit(lease, "m1", "m2", second.experiment_address) < 101
    assert "sshd" in _output(first, "supervisorctl", "status")


def test_what_disturbances_take_is_there_again_afterwards(lease: Lease) -> None:
    testbed = LocalTestbed()
    master, first, second = testbed.acquire(lease, WANTED)
    slow, small = Disturbance("slow_cpu", 0.5), Disturbance("memory_limit", 200)
    testbed.disturb(first, slow)
    testbed.disturb(first, small)
    assert _limits(first) == (0.125, 200 * 2**20)
    testbed.end_disturbance(first, slow)
    assert _limits(first) == (0.25, 200 * 2**20)
    testbed.end_disturbance(first, small)
    assert _limits(first) == (0.25, 256 * 2**20)

    everywhere = {
        address: True for each in (master, second) for address in (each.control_address, each.experiment_address)
    }
    assert _reached(first, everywhere) == everywhere
    for disturbance, others, lost in (
        (Disturbance("lan_cut"), [], {master.experiment_address, second.experiment_address}),
        (Disturbance("partition"), [second], {second.experiment_address}),
        (Disturbance("sample_loss"), [master], {master.control_address}),
    ):
        testbed.disturb(first, disturbance, others)
        assert _reached(first, everywhere) == {address: address not in lost for address in everywhere}
        testbed.end_disturbance(first, disturbance, others)
        assert _reached(first, everywhere) == everywhere


HOG = "import time; kept = bytearray(120 * 2**20); kept[::4096] = bytes(len(kept[::4096])); time.sleep(600)"


def test_a_limit_below_what_is_in_use_ends_the_largest_process_and_no_other(lease: Lease) -> None:
    testbed, small = LocalTestbed(), Disturbance("memory_limit", 100)
    _, first, _ = testbed.acquire(lease, WANTED)
    with _remote(first) as remote:
        before = _programs(first)
        remote.run(["sh", "-c", f"setsid python3 -c '{HOG}' >/dev/null 2>&1 < /dev/null &"])
        _eventually(lambda: _resident_mb(first, "kept = bytearray") > 110)
        testbed.disturb(first, small)
        assert _limits(first) == (0.25, 100 * 2**20)
        assert _resident_mb(first, "kept = bytearray") == 0
        assert before <= _programs(first), "its own first programs go on"
        testbed.end_disturbance(first, small)


def _programs(machine: Machine) -> set[str]:
    return {line.strip() for line in _output(machine, "ps", "-eo", "pid,comm").splitlines()[:4]}


def _resident_mb(machine: Machine, text: str) -> float:
    lines = _output(machine, "ps", "-eo", "rss,args").splitlines()
    return sum(int(line.split()[0]) for line in lines if text in line and "setsid" not in line) / 1024


def _eventually(holds: Callable[[], bool], limit_s: float = 60.0) -> None:
    end_s = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.5)


def _reached(machine: Machine, addresses: Iterable[str]) -> dict[str, bool]:
    with _remote(machine) as remote:
        return {address: remote.run(["ping", "-c1", "-w3", address]).code == 0 for address in addresses}


def test_a_load_uses_what_it_was_asked_to_and_leaves_nothing(lease: Lease) -> None:
    testbed, load = LocalTestbed(), Disturbance("cpu_load", 0.15)
    _, first, _ = testbed.acquire(lease, WANTED)
    before = _cores_used(first)
    testbed.disturb(first, load)
    testbed.disturb(first, load)
    used = _cores_used(first)
    while used - before < 0.1:  # a busy box slows it: pytest's timeout ends a wait in vain
        used = _cores_used(first)
    assert used - before < 0.2, "of a quarter, and once"
    testbed.end_disturbance(first, load)
    assert _cores_used(first) - before < 0.05
    assert "cpu-load" not in _output(first, "ps", "-eo", "args")


def _cores_used(machine: Machine, seconds: float = 4.0) -> float:
    used, begun = _cpu_s(machine), time.monotonic()
    time.sleep(seconds)
    return (_cpu_s(machine) - used) / (time.monotonic() - begun)


def _cpu_s(machine: Machine) -> float:
    """CPU seconds of the machine so far, as its cgroup counts them."""
    if (processes.CGROUPS / "cgroup.controllers").exists():
        words = _output(machine, "cat", "/sys/fs/cgroup/cpu.stat").split()
        return int(words[words.index("usage_usec") + 1]) / 1e6
    return int(_output(machine, "cat", "/sys/fs/cgroup/cpuacct/cpuacct.usage")) / 1e9


def test_a_late_packet_stays_on_the_box_until_reaped(lease: Lease) -> None:
    testbed = LocalTestbed()
    testbed.acquire(lease, WANTED[:1])
    testbed.release(lease)
    registry.drop(lease)
    for which in (lan.CONTROL, lan.EXPERIMENT):
        route = subprocess.run(
            ["ip", "route", "get", str(lan.network(which)[10])], capture_output=True, text=True, check=False
        )
        assert "unreachable" in route.stderr.lower() or "No route" in route.stderr
    reap()
    assert _guard_routes() == []


def test_a_machine_that_ends_at_once_is_told_with_its_last_words(lease: Lease, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        InfrastructureError, match=r"master .* ended as soon as it was started; its last words: .*failed to exec"
    ):
        LocalTestbed(root=tmp_path / "empty").acquire(lease, WANTED[:1])
    registry.drop(lease)
    reap()
    assert _remains(lease.lease_id) == []


# Shorter: what lost its lease is swept, in test_testbed_contract.py.
@pytest.mark.long
def test_kill_nine_at_any_moment_leaves_nothing_after_reap(state: Path) -> None:
    moments, began = random.Random(SEED), time.monotonic()
    span_s = _measured_life(state)
    killed = 0
    for _ in range(KILLS):
        if killed >= FEWEST_KILLS and time.monotonic() - began > KILL_BUDGET_S:
            break
        lease_id = _killed_after(moments.uniform(0.0, span_s), state)
        assert [one.error for one in reap() if one.error] == []
        assert _remains(lease_id) == []
        assert _files(state) == []
        killed += 1
    assert killed >= FEWEST_KILLS


def _measured_life(state: Path) -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", LIFE], check=True, capture_output=True, cwd=Path(__file__).parents[2])
    reap()
    assert _files(state) == []
    return time.monotonic() - began - 0.3  # without the start of Python


def _killed_after(seconds: float, state: Path) -> str:
    """Start a life, kill it after that time, and return the id of its lease (empty if it had ended)."""
    argv = [sys.executable, "-c", LIFE]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[2]
    ) as life:
        assert life.stdout is not None
        life.stdout.readline()
        lease_id = next((path.stem for path in (state / "leases").glob("*.json")), "")
        time.sleep(seconds)
        life.kill()
    return lease_id


def _remains(lease_id: str) -> list[str]:
    """Whatever on the box still bears the lease's name, or is a guard route. A moment for what is being killed."""
    if not lease_id:
        return _guard_routes()
    deadline = time.monotonic() + 30.0
    while (found := _named(lease_id)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found + _guard_routes()


def _named(lease_id: str) -> list[str]:
    links = [path.name for path in lan.LINKS.iterdir() if lease_id in path.name]
    namespaces = [path.name for path in Path("/run/netns").glob("*") if lease_id in path.name]
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if lease_id in line]
    cgroups = [str(path) for path in processes.cgroup_folders(lease_id)]
    return links + namespaces + mounts + cgroups + _processes(lease_id)


def _processes(lease_id: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "cmdline").read_bytes() + (process / "cgroup").read_bytes()
        except OSError:  # ended meanwhile
            continue
        if lease_id.encode() in text and process.name != str(os.getpid()):
            found.append(text.replace(b"\0", b" ").decode(errors="replace"))
    return found


def _guard_routes() -> list[str]:
    argv = ["ip", "route", "show", "proto", lan.ROUTE_PROTOCOL]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if any(str(lan.network(one)) in line for one in (lan.CONTROL, lan.EXPERIMENT))]


def _files(state: Path) -> list[str]:
    return [str(path) for path in state.rglob("*") if path.is_file() and not path.name.endswith(".lock")]
