import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.errors import InfrastructureError
from inventory.leases import processes, registry
from inventory.leases import reaper as leases_reaper
from inventory.leases.holder import HEARTBEAT_BOUND_S, Holder, process_holder
from inventory.leases.reaper import ReapResult, reap
from inventory.leases.registry import Lease
from inventory.machines import MACHINE_TYPES, MachineRequest
from tests.support.fakes.testbed import FakeTestbed

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
        lease = registry.take("ann", "s1", "fake", 60, holder=process_holder(holder.pid))
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


class Attended(FakeTestbed):
    """A testbed that notes what still runs for a lease as it is released."""

    def release(self, lease: Lease) -> None:
        self.running = [*processes._pids_with_mark(lease.lease_id)]
        super().release(lease)


def test_what_a_dead_harness_started_for_its_lease_ends_before_its_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    testbed, started = Attended(), []
    lease = _held_by_the_dead(testbed)
    kill = processes._kill_once

    def begin() -> None:
        marked = {**os.environ, processes.MARK: lease.lease_id}
        started.append(subprocess.Popen(["sleep", "60"], env=marked, start_new_session=True))

    def kill_and_begin(pids: set[int], find: Callable[[], set[int]]) -> None:
        kill(pids, find)
        if len(started) < 2:
            begin()

    monkeypatch.setattr(processes, "_kill_once", kill_and_begin)
    begin()
    (one,) = _reap(testbed)
    assert one.error is None and testbed.running == [] and registry.read_all() == ()
    assert [each.wait(10) for each in started] == [-signal.SIGKILL] * 2


def test_what_does_not_die_does_not_keep_machines(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """SIGKILL of a process that waits in the kernel: it never does anything again, but it is there."""
    testbed = FakeTestbed()
    lease = _held_by_the_dead(testbed)
    monkeypatch.setattr(processes, "_kill_once", lambda *_: None)
    monkeypatch.setattr(processes, "KILL_LIMIT_S", 0.1)
    with subprocess.Popen(["sleep", "60"], env={**os.environ, processes.MARK: lease.lease_id}) as stubborn:
        (one,) = _reap(testbed)
        assert one.error is None and registry.read_all() == ()
        assert f"processes [{stubborn.pid}] do not end" in caplog.text
        with pytest.raises(InfrastructureError, match=rf"processes \[{stubborn.pid}\] do not die"):
            processes.kill_all(lease.lease_id, [])
        stubborn.kill()


def test_a_number_that_became_anothers_is_not_signalled() -> None:
    looks = [set[int]()]
    with subprocess.Popen(["sleep", "60"]) as bystander:
        processes._kill_once({bystander.pid}, looks.pop)
        assert bystander.poll() is None
        processes._kill_once({bystander.pid}, lambda: {bystander.pid})
        assert bystander.wait(10) == -signal.SIGKILL


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
    assert registry.read_all() == (replace(lease, ending=True),)


def test_a_bug_in_one_release_does_not_keep_the_other_leases() -> None:
    leases = [registry.take("ann", name, "fake", 60, shared=True) for name in "ab"]

    class Buggy(FakeTestbed):
        def release(self, lease: Lease) -> None:
            if lease.lease_id == min(each.lease_id for each in leases):
                raise ValueError("boom")
            super().release(lease)

    reaped = _reap(Buggy(), now=leases[0].expires_s + 1)
    assert [one.error for one in reaped] == ["ValueError: boom", None] and len(registry.read_all()) == 1


def test_a_lease_on_a_testbed_nobody_knows_is_reported(state: Path) -> None:
    lease = registry.take("ann", "s1", "moon", 60)
    (one,) = _reap(FakeTestbed(), now=lease.expires_s)
    assert one.error == "no testbed 'moon'; known are fake" and registry.read_all() == (lease,)


def test_a_lease_that_is_renewed_while_the_reaper_is_at_work_stays() -> None:
    """It was listed as expired; when its turn comes it is read again."""
    first, second = (registry.take("ann", name, "fake", 60, shared=True, clock=lambda: 1000.0) for name in "ab")

    class Slow(FakeTestbed):
        def release(self, lease: Lease) -> None:
            others = [each for each in (first, second) if each.lease_id != lease.lease_id]
            registry.renew(*others, 600, clock=lambda: 1070.0)
            super().release(lease)

    (one,) = _reap(Slow(), now=1070.0)
    assert one.lease is not None and one.error is None
    (kept,) = registry.read_all()
    assert kept.expires_s == 1670.0 and not kept.ending and kept.lease_id != one.lease.lease_id


def test_what_its_holder_could_not_release_is_ended_although_the_holder_lives() -> None:
    testbed = FakeTestbed()
    lease = registry.take("ann", "s1", "fake", 60)
    testbed.acquire(lease, WANTED)
    with registry.ending(lease.lease_id):
        pass  # what its holder tried there did not succeed
    (one,) = _reap(testbed)
    assert one.why == "its release did not succeed yet" and one.error is None
    assert registry.read_all() == () and testbed.leftovers() == ()


def test_after_a_suspension_a_living_holder_is_heard_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its heartbeat is as old as the suspension was long, and comes with the next beat of its keeper."""
    testbed = FakeTestbed()
    silent_s = time.time() - 2 * HEARTBEAT_BOUND_S
    alive, dead = (
        registry.take("ann", name, "fake", 1e5, shared=True, holder=Holder(0, name), clock=lambda: silent_s)
        for name in ("alive", "dead")
    )
    monkeypatch.setattr(leases_reaper, "has_slept", lambda: True)
    monkeypatch.setattr("inventory.leases.reaper.time.sleep", lambda _s: registry.beat(alive.lease_id))
    (one,) = _reap(testbed)
    assert one.lease is not None and one.lease.lease_id == dead.lease_id
    assert [lease.series_id for lease in registry.read_all()] == ["alive"]


class Hanging(FakeTestbed):
    """A testbed that does not answer."""

    def sweep(self) -> tuple[str, ...]:
        threading.Event().wait()
        return ()


def test_a_hanging_testbed_does_not_keep_the_others() -> None:
    good = FakeTestbed()
    lease = _held_by_the_dead(good)
    reaped = reap(testbeds={"hanging": Hanging, "fake": lambda: good}, limit_s=5.0)
    assert [(one.testbed, one.error) for one in reaped] == [
        ("hanging", "it did not answer in time; see whether it is reachable, then reap again"),
        ("fake", None),
    ]
    assert good.ends_s(lease) == {} and registry.read_all() == ()


def test_the_limit_is_of_the_whole_pass() -> None:
    begun_s = time.monotonic()
    late = reap(testbeds={f"hanging {number}": Hanging for number in range(5)}, limit_s=2.0)
    assert len(late) == 5 and all(one.error for one in late)
    assert time.monotonic() - begun_s < 9.0, "five limits, one after the other, are ten seconds"


def test_a_testbed_that_nobody_asks_for_is_not_waited_for() -> None:
    good = FakeTestbed()
    _held_by_the_dead(good)
    (one,) = reap(testbeds={"hanging": Hanging, "fake": lambda: good}, only=("fake",))
    assert (one.testbed, one.error) == ("fake", None)


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
