import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from inventory.errors import InfrastructureError
from inventory.fake import FakeTestbed
from inventory.leases import registry
from inventory.leases.reaper import ReapResult, reap
from inventory.leases.registry import Lease
from inventory.machines import MACHINE_TYPES, MachineRequest

WANTED = [MachineRequest("m1", MACHINE_TYPES["type_1"])]


class Stubborn(FakeTestbed):
    """A testbed that does not let go."""

    def release(self, lease: Lease) -> None:
        raise InfrastructureError(f"processes of {lease.lease_id} do not die")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path))
    return tmp_path


def _reap(testbed: FakeTestbed, now: float | None = None, dry_run: bool = False) -> Sequence[ReapResult]:
    return reap(now, dry_run, {"fake": lambda: testbed})


def _held_by_the_dead(testbed: FakeTestbed) -> Lease:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as holder:
        lease = registry.take("ann", "s1", "fake", 60, holder_pid=holder.pid)
        testbed.acquire(lease, WANTED)
    return lease


def test_a_lease_whose_holder_died_is_released() -> None:
    testbed = FakeTestbed()
    lease = _held_by_the_dead(testbed)
    machine = testbed.machine("m1")
    (one,) = _reap(testbed)
    assert one.why == f"its holder, process {lease.holder_pid}, is dead" and one.error is None
    assert not machine.alive and registry.read_all() == ()
    assert _reap(testbed) == ()


def test_a_dry_run_only_looks() -> None:
    testbed = FakeTestbed()
    lease = _held_by_the_dead(testbed)
    assert len(_reap(testbed, dry_run=True)) == 1
    assert testbed.machine("m1").alive and registry.read_all() == (lease,)


def test_a_lease_that_was_half_written_goes(state: Path) -> None:
    partial = state / "leases" / "267e7306.partial"
    partial.parent.mkdir()
    partial.write_text('{"lease_id": "267e')
    assert _reap(FakeTestbed(), dry_run=True) == () and partial.exists()
    assert _reap(FakeTestbed()) == () and not partial.exists()


def test_what_is_live_stays() -> None:
    testbed = FakeTestbed()
    lease = registry.take("ann", "s1", "fake", 60)
    testbed.acquire(lease, WANTED)
    assert _reap(testbed) == () and testbed.machine("m1").alive


def test_leftovers_go_beside_a_live_lease() -> None:
    testbed = FakeTestbed()
    lost = registry.take("ann", "s1", "fake", 60)
    testbed.acquire(lost, WANTED)
    registry.drop(lost)
    live = registry.take("bob", "s2", "fake", 60)
    testbed.acquire(live, [MachineRequest("m2", MACHINE_TYPES["type_1"])])
    assert [one.what for one in _reap(testbed)] == [f"machines of {lost.lease_id}"]
    assert testbed.machine("m2").alive


def test_what_cannot_be_released_stays_on_record_with_its_error() -> None:
    testbed = Stubborn()
    lease = _held_by_the_dead(testbed)
    assert [one.error for one in _reap(testbed)] == [f"processes of {lease.lease_id} do not die"]
    assert registry.read_all() == (lease,)


def test_a_lease_on_a_testbed_nobody_knows_is_reported(state: Path) -> None:
    lease = registry.take("ann", "s1", "moon", 60)
    (one,) = _reap(FakeTestbed(), now=lease.expires_s)
    assert one.error == "no testbed 'moon'; known are fake" and registry.read_all() == (lease,)


class Hanging(FakeTestbed):
    """A testbed that does not answer."""

    def sweep(self) -> tuple[str, ...]:
        threading.Event().wait()
        return ()


def test_a_hanging_testbed_does_not_keep_the_others() -> None:
    good = FakeTestbed()
    lease = _held_by_the_dead(good)
    reaped = reap(testbeds={"hanging": Hanging, "fake": lambda: good}, limit_s=0.5)
    assert [(one.testbed, one.error) for one in reaped] == [
        ("hanging", "it did not answer in time; see whether it is reachable, then reap again"),
        ("fake", None),
    ]
    assert good.ends_s(lease) == {} and registry.read_all() == ()


def test_a_testbed_with_a_bug_does_not_keep_the_others() -> None:
    good = FakeTestbed()
    _held_by_the_dead(good)

    def broken() -> FakeTestbed:
        raise RuntimeError("boom")

    assert [one.error for one in reap(testbeds={"bad": broken, "fake": lambda: good})] == ["RuntimeError: boom", None]


class Far(FakeTestbed):
    """Has leftovers only where one is told to look."""

    def __init__(self) -> None:
        super().__init__()
        self.looking = False

    def roam(self) -> tuple[str, ...]:
        self.looking = True
        return ("everywhere",)

    def leftovers(self) -> tuple[str, ...]:
        return ("machines of another place",) if self.looking else ()


def test_everywhere_looks_further() -> None:
    far = Far()
    assert reap(dry_run=True, testbeds={"far": lambda: far}) == ()
    assert [one.what for one in reap(dry_run=True, testbeds={"far": lambda: far}, everywhere=True)] == [
        "machines of another place"
    ]
