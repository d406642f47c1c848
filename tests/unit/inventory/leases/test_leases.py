import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.errors import CapacityError, ConfigurationError, InfrastructureError
from inventory.leases import registry
from inventory.leases.holder import HEARTBEAT_BOUND_S, Holder, process_holder, process_start
from inventory.leases.registry import Lease

NOW = 1000.0
ELSEWHERE = Holder(1, "another-boot/7", "another-boot/pid:[1]")
DAG = Holder(0, "stela.star")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path))
    return tmp_path


def _dead_process() -> tuple[int, str]:
    """A process's id and start, after its end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        return process.pid, process_start(process.pid)


def test_a_lease_is_on_record_until_it_is_dropped(state: Path) -> None:
    lease = registry.take("me", "s1", "local", 60, clock=lambda: 1000.0)
    assert lease.expires_s == 1060.0 and lease.holder_pid == os.getpid()
    assert registry.read_all() == (lease,) == (registry.read(lease.lease_id),)
    registry.key_dir(lease.lease_id).mkdir(parents=True)
    registry.drop(lease)
    registry.drop(lease)
    assert registry.read_all() == () and not registry.key_dir(lease.lease_id).exists()


def test_the_second_run_on_a_testbed_is_told_the_holder() -> None:
    first = registry.take("ann", "s1", "local", 1800)
    with pytest.raises(CapacityError) as refused:
        registry.take("bob", "s2", "local", 60)
    assert str(refused.value) == (
        f"testbed local is in use: lease {first.lease_id} of ann (series s1, process {os.getpid()}), "
        "for at most 30 min more; wait, or stop that run"
    )
    assert registry.take("bob", "s2", "fake", 60).testbed == "fake"


def test_a_dead_runs_lease_is_told_apart_from_a_busy_one() -> None:
    lease = registry.take("ann", "s1", "local", 1800)
    pid, start = _dead_process()
    path = registry.state_dir() / "leases" / f"{lease.lease_id}.json"
    path.write_text(json.dumps(vars(replace(lease, holder_pid=pid, holder_start=start))))
    with pytest.raises(CapacityError, match=f"its holder, process {pid}, is dead; free it with `barograph reap`"):
        registry.take("bob", "s2", "local", 60)


def test_a_lease_is_live_while_its_very_holder_lives_and_time_is_left() -> None:
    lease = registry.take("ann", "s1", "local", 60, clock=lambda: 1000.0)
    pid, start = _dead_process()
    assert registry.is_live(lease, 1059.0)
    assert not registry.is_live(lease, 1060.0)
    assert not registry.is_live(replace(lease, holder_pid=pid, holder_start=start), 1001.0)


def test_a_reused_pid_is_no_holder() -> None:
    lease = registry.take("ann", "s1", "local", 60)
    boot, ticks = lease.holder_start.split("/")
    assert not registry.holder_alive(replace(lease, holder_start=f"{boot}/{int(ticks) - 1}"), NOW)
    assert not registry.holder_alive(replace(lease, holder_start=f"another-boot/{ticks}"), NOW)


def test_a_zombie_holds_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert process_start(process.pid) == ""


def test_a_lease_can_be_held_by_another_process() -> None:
    parent = process_holder(os.getppid())
    assert registry.take("dag", "s1", "local", 60, holder=parent).holder == parent
    pid, _ = _dead_process()
    with pytest.raises(ConfigurationError, match=f"its holder, process {pid}, does not run"):
        registry.take("dag", "s1", "fake", 60, holder=process_holder(pid))


def test_renew_moves_the_end_unless_the_lease_is_gone() -> None:
    lease = registry.take("ann", "s1", "local", 60, clock=lambda: 1000.0)
    later = registry.renew(lease, 60, clock=lambda: 1030.0)
    assert later.expires_s == 1090.0 and registry.read(lease.lease_id) == later
    registry.drop(lease)
    with pytest.raises(InfrastructureError, match="is gone"):
        registry.renew(lease, 60)
    assert registry.read_all() == ()


def test_a_lease_needs_time() -> None:
    with pytest.raises(ConfigurationError, match="ttl_s is 0"):
        registry.take("ann", "s1", "local", 0)


def test_a_damaged_record_is_named_and_stops_no_other(state: Path) -> None:
    (state / "leases").mkdir()
    (state / "leases" / "0badf00d.json").write_text('{"lease_id": "0bad')
    with pytest.raises(InfrastructureError, match=r"0badf00d\.json: not a lease .* remove the file"):
        registry.read("0badf00d")
    lease = registry.take("ann", "s1", "local", 60)
    assert registry.read_all() == (lease,) and list(registry.damaged()) == ["0badf00d"]
    assert registry.ownerless(["0badf00d", "gone", lease.lease_id]) == ["gone"], "its machines may be at work"


def test_a_state_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_STATE", "/proc/nowhere")
    with pytest.raises(ConfigurationError, match="set BAROGRAPH_STATE to a writable folder"):
        registry.take("ann", "s1", "local", 60)


def test_of_many_at_once_one_gets_the_testbed(state: Path) -> None:
    program = (
        "import sys; from inventory.leases import registry; sys.stdin.read()\n"
        "try: registry.take('racer', 's', 'local', 60); print('taken')\n"
        "except registry.CapacityError: print('refused')"
    )
    racers = [
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    answers = [racer.communicate()[0].strip() for racer in racers]
    assert sorted(answers) == ["refused"] * 3 + ["taken"]


def test_what_a_lease_holds_goes_with_it() -> None:
    lease = registry.take("me", "s", "fake", 60)
    assert registry.lease_machines(lease) == ()
    registry.hold(lease, ["master", "m1"])
    assert registry.lease_machines(lease) == ("master", "m1")
    assert registry.read_all() == (lease,)
    registry.drop(lease)
    assert registry.lease_machines(lease) == ()
    with pytest.raises(InfrastructureError, match="is gone, its machines too"):
        registry.hold(lease, ["m1"])
    registry.hold_nothing(lease)


def test_renewing_keeps_what_is_held() -> None:
    lease = registry.take("me", "s", "fake", 60)
    registry.hold(lease, ["m1"])
    assert registry.lease_machines(registry.renew(lease, 600)) == ("m1",)


@pytest.mark.parametrize("holder", [ELSEWHERE, DAG])
def test_who_cannot_be_seen_lives_as_long_as_it_is_heard_of(holder: Holder) -> None:
    lease = registry.take("ann", "s1", "local", 86_400, holder=holder, clock=lambda: NOW)
    assert registry.is_live(lease, NOW + HEARTBEAT_BOUND_S)
    silent_s = NOW + HEARTBEAT_BOUND_S + 1
    assert not registry.is_live(lease, silent_s)
    assert registry.over_reason(lease, silent_s) == f"its holder, {holder}, was last heard of 20 min ago"
    registry.beat(lease.lease_id, clock=lambda: silent_s)
    assert registry.is_live(_on_record(lease), silent_s + HEARTBEAT_BOUND_S)
    renewed = registry.renew(lease, 86_400, clock=lambda: silent_s + 60)
    assert registry.is_live(renewed, silent_s + 60 + HEARTBEAT_BOUND_S)


@pytest.mark.parametrize("holder", [ELSEWHERE, DAG])
def test_a_heartbeat_from_before_the_clock_was_set_back_is_none(holder: Holder) -> None:
    lease = registry.take("ann", "s1", "local", 86_400, holder=holder, clock=lambda: NOW + 7200)
    assert not registry.is_live(lease, NOW)
    assert registry.over_reason(lease, NOW).endswith("120 min after now: the clock was set back")
    registry.beat(lease.lease_id, clock=lambda: NOW)
    assert registry.is_live(_on_record(lease), NOW + 1)


def test_a_process_that_proc_hides_is_judged_by_its_heartbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A /proc that shows a user its own processes only (hidepid): what is not shown need not be dead."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        mine = process_holder(process.pid)
        monkeypatch.setattr("inventory.leases.holder.PROC", tmp_path)
        assert not mine.is_visible and mine.is_alive(NOW, NOW) and not mine.is_alive(0.0, HEARTBEAT_BOUND_S + 1)
    assert mine.is_visible and not mine.is_alive(NOW, NOW), "its end is seen by everybody"


def test_a_run_of_a_dag_does_not_live_as_long_as_its_barograph_ui() -> None:
    mine = replace(process_holder(os.getpid()), run="stela.star manual__1")
    lease = registry.take("ann", "s1", "local", 86_400, holder=mine, clock=lambda: NOW)
    assert mine.dag_run == ("stela.star", "manual__1") and registry.is_live(lease, NOW + HEARTBEAT_BOUND_S)
    assert not registry.is_live(lease, NOW + HEARTBEAT_BOUND_S + 1)
    assert "was last heard of 20 min ago" in registry.over_reason(lease, NOW + HEARTBEAT_BOUND_S + 1)


def test_each_run_of_a_dag_is_a_holder() -> None:
    """A backfill runs beside the schedule."""
    first = registry.take("ann", "s1", "local", 1800, holder=replace(DAG, run="manual__1"))
    assert _on_record(first).holder == replace(DAG, run="manual__1") != replace(DAG, run="manual__2")
    with pytest.raises(CapacityError, match=r"series s1, DAG stela\.star, run manual__1\)"):
        registry.take("bob", "s2", "local", 60)


def test_who_is_seen_to_be_dead_is_dead_however_lately_it_was_heard_of() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        lease = registry.take("ann", "s1", "local", 60, holder=process_holder(process.pid), clock=lambda: NOW)
        assert registry.is_live(lease, NOW)
    assert not registry.is_live(lease, NOW)


def test_a_beat_keeps_what_was_renewed_meanwhile() -> None:
    lease = registry.take("ann", "s1", "local", 60, clock=lambda: NOW)
    longer = registry.renew(lease, 600, clock=lambda: NOW)
    registry.beat(lease.lease_id, clock=lambda: NOW + 5)
    assert _on_record(lease) == replace(longer, heartbeat_s=NOW + 5)
    assert registry.renew(lease, 60, clock=lambda: NOW).holder == lease.holder


def test_what_ends_is_not_renewed_and_what_was_renewed_does_not_end() -> None:
    lease = registry.take("ann", "s1", "fake", 60, clock=lambda: NOW)
    longer = registry.renew(lease, 600, clock=lambda: NOW)
    with registry.ending(lease.lease_id, lambda current: current.expires_s < NOW + 100) as current:
        assert current is None
    assert _on_record(lease) == longer
    with registry.ending(lease.lease_id) as current:
        assert current == replace(longer, ending=True)
        for refused in (
            lambda: registry.renew(lease, 600),
            lambda: registry.beat(lease.lease_id),
            lambda: registry.hold(lease, ["m1"]),
            lambda: registry.require_new(lease, None),
        ):
            with pytest.raises(InfrastructureError, match=r"is being ended|not on record"):
                refused()
    assert not registry.is_live(_on_record(lease), NOW), "whoever could not release it leaves it to the reaper"
    with pytest.raises(CapacityError, match="its release did not succeed yet; free it with `barograph reap`"):
        registry.take("bob", "s2", "fake", 60, clock=lambda: NOW)


def test_of_two_who_end_a_lease_the_second_finds_it_gone() -> None:
    lease = registry.take("ann", "s1", "fake", 60)
    found: list[Lease | None] = []

    def second() -> None:
        with registry.ending(lease.lease_id) as current:
            found.append(current)

    waiting = threading.Thread(target=second)
    with registry.ending(lease.lease_id) as current:
        assert current is not None
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive() and found == []
        registry.drop(current)
    waiting.join()
    assert found == [None]
    registry.tidy()
    assert list((registry.state_dir() / "leases").glob("*.ending")) == []


def _on_record(lease: Lease) -> Lease:
    current = registry.read(lease.lease_id)
    assert current is not None
    return current


def test_a_lease_is_ended_though_the_disk_is_too_full_for_its_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    lease = registry.take("x", "s", "fake", 60)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(registry, "replace_file", full)
    with registry.ending(lease.lease_id) as ended:
        assert ended is not None and ended.lease_id == lease.lease_id
        registry.drop(lease)
    assert registry.read(lease.lease_id) is None
