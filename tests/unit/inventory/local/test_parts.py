"""The pure parts of the local testbed: names, addresses, shaping, flags, apt sources."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from barograph.errors import CapacityError, ConfigurationError, InfrastructureError
from inventory.leases import processes
from inventory.local import lan, podman, rootfs

ROOT = Path(__file__).parents[4]

LEASE = "ab12cd34"


def test_seats_have_an_address_on_each_lan() -> None:
    seat = lan.lan_endpoint(LEASE, "m3", 4, 100)
    assert (seat.netns, seat.control_address, seat.experiment_address) == (
        "baro-ab12cd34-m3",
        "10.213.0.14",
        "10.214.0.14",
    )


def test_interface_names_fit() -> None:
    longest = [f"b{LEASE}{end}" for end in ("ctl", "exp", f"c{lan.MAX_MACHINES}", f"e{lan.MAX_MACHINES}")]
    assert max(map(len, longest)) <= 15


INSIDE = """
import os, socket, subprocess, sys, threading
from pathlib import Path
from inventory.local import lan

os.environ["BAROGRAPH_CONTROL_LAN"], os.environ["BAROGRAPH_EXPERIMENT_LAN"] = "10.91.1.0/24", "10.91.2.0/24"
subprocess.run("mount -t tmpfs none /run && mount -t sysfs none /sys && ip link set lo up", shell=True, check=True)
Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
seats = [lan.lan_endpoint("0a0b0c0d", f"m{n}", n, 100) for n in (0, 1)]
lan.build("0a0b0c0d", seats, Path("/state"))
ANSWER = "import socket; s = socket.create_server(('', 7)); [c.sendall(b'x') for c, _ in iter(s.accept, 0)]"
listener = subprocess.Popen([sys.executable, "-c", ANSWER])
machine = subprocess.Popen(["ip", "netns", "exec", seats[1].netns, sys.executable, "-c", ANSWER])
CALL = "import socket, sys; s = socket.create_connection((sys.argv[1], 7), 1.5); print(s.recv(1))"

def reaches(address, space):
    prefix = ["ip", "netns", "exec", space] if space else []
    for _ in range(10 if address != "10.91.1.1" else 1):  # it may not listen yet
        if subprocess.run([*prefix, sys.executable, "-c", CALL, address], capture_output=True).returncode == 0:
            return True
    return False

try:
    print("the box reaches a machine:", reaches(seats[1].control_address, ""))
    print("machines reach each other:", reaches(seats[1].experiment_address, seats[0].netns))
    print("a machine reaches the box:", reaches("10.91.1.1", seats[0].netns))
finally:
    listener.kill(), machine.kill()
lan.remove("0a0b0c0d")
rules = subprocess.run(["iptables", "-S"], capture_output=True, text=True).stdout.splitlines()
print("left:", [rule for rule in rules if not rule.startswith("-P")])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes networks")
def test_a_machine_reaches_no_program_of_this_box() -> None:
    """In namespaces of the test's own, so that it does without containers and meets no other run."""
    argv = ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, "-c", INSIDE]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == [
        "the box reaches a machine: True",
        "machines reach each other: True",
        "a machine reaches the box: False",
        "left: []",
    ], done.stderr


@pytest.mark.parametrize(("mbit", "least"), [(10, 131072), (100, 131072), (1000, 500_000), (10_000, 5_000_000)])
def test_the_token_bucket_reaches_the_rate(mbit: int, least: int) -> None:
    assert lan.burst_bytes(mbit) == least


@pytest.mark.parametrize("value", ["10.0.0.0/8", "10.1.2.3/24", "near"])
def test_a_range_that_is_none(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("BAROGRAPH_CONTROL_LAN", value)
    with pytest.raises(ConfigurationError, match=f"BAROGRAPH_CONTROL_LAN is '{value}'"):
        lan.network(lan.CONTROL)


def test_limits_and_mounts_in_the_flags() -> None:
    container = podman.Container(
        "baro-x-m1", "m1", Path("/run/netns/baro-x-m1"), 0.25, 768, Path("/rootfs"), Path("/keys/m1"),
        {Path("/storm"): "/opt/barograph/storm"},
    )  # fmt: skip
    flags = podman.run_flags(container, LEASE)
    for flag in (
        "--cpu-quota=25000", "--memory=768m", "--hostname=m1", "--network=ns:/run/netns/baro-x-m1", "--no-hosts",
        "--init", "--mount=type=bind,src=/storm,dst=/opt/barograph/storm,ro=true",
        "--mount=type=bind,src=/keys/m1,dst=/opt/barograph/machine,ro=true", f"--cgroup-parent=/barograph-{LEASE}",
    ):  # fmt: skip
        assert flag in flags


def test_only_the_distributions_own_archives_are_used() -> None:
    lines = [
        "http://example.org/debian/|bookworm|main|Debian",
        "http://example.org/debian/|bookworm|main|Debian",
        "http://example.org/debian/|bookworm|non-free|Debian",
        "https://apt.example.org/|bookworm|main|Example",
        "file:/srv/debian/|bookworm|main|Debian",
        "http://security.example.org/|bookworm-security|main|Debian",
    ]
    assert rootfs.distribution_sources(lines) == (
        ("http://example.org/debian/", "bookworm", "main"),
        ("http://security.example.org/", "bookworm-security", "main"),
    )


def test_no_archive_at_all_says_what_to_do() -> None:
    with pytest.raises(ConfigurationError, match="run `apt-get update`"):
        rootfs.distribution_sources([])


def test_a_program_that_fails_is_infrastructure_with_its_words() -> None:
    with pytest.raises(InfrastructureError, match=r"`cat /nowhere` failed: .*No such file"):
        processes.run(["cat", "/nowhere"], LEASE)
    assert processes.run(["cat"], LEASE, "text") == "text"


def test_a_program_that_is_missing_is_configuration() -> None:
    with pytest.raises(ConfigurationError, match="no-such-program is not installed"):
        processes.run(["no-such-program"], LEASE)


def test_a_full_disk_is_capacity() -> None:
    with pytest.raises(CapacityError, match="the disk is full"):
        processes.run(["dd", "if=/dev/zero", "of=/dev/full", "count=1"], LEASE)


def test_a_program_that_hangs_is_infrastructure() -> None:
    with pytest.raises(InfrastructureError, match=r"`sleep 60` did not end within 0.2 s"):
        processes.run(["sleep", "60"], LEASE, timeout_s=0.2)


def test_what_was_started_for_a_lease_is_found_and_killed() -> None:
    import os
    import subprocess

    with subprocess.Popen(["sleep", "60"], env={**os.environ, processes.MARK: "feedbeef"}) as stray:
        processes.kill_all("feedbeef", [])
        assert stray.wait(timeout=5) == -9


@pytest.mark.parametrize(("hierarchy", "file", "most"), [("cpu/", "cpu.shares", "262144"), ("", "cpu.weight", "10000")])
def test_machines_go_before_other_work_on_the_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hierarchy: str, file: str, most: str
) -> None:
    folder = tmp_path / f"{hierarchy}barograph-{LEASE}"
    folder.mkdir(parents=True)
    (folder / file).write_text("1024")
    monkeypatch.setattr(processes, "CGROUPS", tmp_path)
    processes.put_first(LEASE)
    assert (folder / file).read_text() == most


class FullMachine(podman.Podman):
    """Refuses a limit below what is in use, as cgroup version 1 does; `given_back`: MB that each refusal frees all the
    same. Its first two processes have 10 MB together, each other one `sizes` of its own. `broken`: refuses anything."""

    def __init__(self, folder: Path, sizes: list[int], given_back: int = 0, broken: bool = False) -> None:
        super().__init__(folder, LEASE)
        self.sizes, self.cached, self.given_back, self.broken = (
            dict(enumerate(sizes, 3)),
            given_back,
            given_back,
            broken,
        )
        self.asked = 0

    def _run(self, argv: Sequence[str]) -> str:
        self.asked += 1
        limit_mb = int(argv[1].removeprefix("--memory=").removesuffix("m"))
        if self.broken or self._memory_in_use("") > limit_mb * 2**20:
            self.cached = 0
            raise InfrastructureError("`podman update` failed: device or resource busy")
        return ""

    def _memory_in_use(self, _name: str) -> int:
        return (10 + self.cached + sum(self.sizes.values())) * 2**20

    def pids(self, _name: str) -> list[int]:
        return [1, 2, *self.sizes]


@pytest.fixture
def full_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., FullMachine]:
    def make(*sizes: int, given_back: int = 0, broken: bool = False) -> FullMachine:
        machine = FullMachine(tmp_path, list(sizes), given_back, broken)
        monkeypatch.setattr(podman, "_number_on_machine", lambda pid: pid)
        monkeypatch.setattr(podman, "_resident_pages", lambda pid: machine.sizes[pid])
        monkeypatch.setattr(podman, "kill", lambda pids: [machine.sizes.pop(pid) for pid in pids()])
        return machine

    return make


def test_a_limit_of_memory_whose_refusal_has_freed_enough_is_asked_for_again(
    full_machine: Callable[..., FullMachine],
) -> None:
    machine = full_machine(40, 40, given_back=50)
    machine.limit_memory("m1", 100)
    assert (machine.asked, sorted(machine.sizes.values())) == (2, [40, 40]), "nothing had to end"


def test_for_a_limit_of_memory_the_largest_end_first_and_no_more_than_needed(
    full_machine: Callable[..., FullMachine],
) -> None:
    machine = full_machine(20, 80, 30, 50)
    machine.limit_memory("m1", 70)
    assert sorted(machine.sizes.values()) == [20, 30]
    few = full_machine(*[10] * podman.MOST_ENDED)
    few.limit_memory("m1", 15)
    assert not few.sizes, "the last one that may end is enough"


@pytest.mark.parametrize(
    ("sizes", "limit_mb", "broken", "said", "asked"),
    [
        ((40,), 100, True, "device or resource busy", 2),
        ((40,), 5, False, "device or resource busy", 2),
        ((10,) * 30, 15, False, "m1 does not come below 15 MB", podman.MOST_ENDED + 1),
    ],
)
def test_a_limit_of_memory_that_cannot_be_is_infrastructure(
    full_machine: Callable[..., FullMachine], sizes: tuple[int, ...], limit_mb: int, broken: bool, said: str, asked: int
) -> None:
    machine = full_machine(*sizes, broken=broken)
    with pytest.raises(InfrastructureError, match=said):
        machine.limit_memory("m1", limit_mb)
    assert machine.asked == asked
