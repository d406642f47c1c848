"""What a series holds is on record, through its testbed, also when somebody is killed in between."""

import errno
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from filelock import FileLock, Timeout

from analysis.errors import SeriesInUse
from barograph.campaign import steps
from barograph.errors import InfrastructureError, NotReleased, TestbedTaken
from barograph.machines import holdings, series_lease
from barograph.machines import provision as provision_module
from barograph.machines.holdings import read_holdings
from barograph.machines.provision import (
    provision,
    ready_testbed,
    release,
    release_own,
    require_free_testbed,
    reserve_testbed,
)
from barograph.machines.reaper import sweep
from barograph.machines.series_lease import keep_alive
from barograph.plan.experiment import from_data, load, with_changes
from barograph.series import hold
from barograph.series.interruption import request_stop
from barograph.series.progress import failures_since, lines_since
from barograph.series.results import results_of
from barograph.series.series import Series, open_series, series_document
from barograph.settings import holder
from barograph.testbeds import checks
from inventory.leases import registry
from inventory.machines import Machine
from tests.support.fakes.testbed import FakeTestbed

HOUR = 3600.0


pytestmark = pytest.mark.usefixtures("own_folders")


def opened(**changes: Any) -> Series:
    asked = with_changes(load("stela/star"), {"testbed": "fake", "repetitions": 1, **changes})
    data = asked.as_data()
    data["testbed"]["joining"] = "booted"
    return open_series(from_data(data))


@pytest.fixture
def series() -> Series:
    return opened()


@pytest.fixture
def held(series: Series) -> Iterator[Series]:
    """With its machines."""
    provision(series.folder)
    yield series
    release(series.folder)


def fake(series: Series) -> FakeTestbed:
    testbed = checks.testbed_of(series.experiment.testbed)
    assert isinstance(testbed, FakeTestbed)
    return testbed


def lease_of(series: Series) -> registry.Lease:
    lease = series_lease.saved_lease(series.folder)
    assert lease is not None
    return lease


def names(series: Series) -> list[str]:
    return [machine.name for machine in series_lease.current_machines(series.folder)]


def test_only_the_machines_of_the_start_are_acquired_and_others_come_and_go(series: Series) -> None:
    provision(series.folder)
    assert names(series) == ["master", "m1", "m2", "m3", "m4"]
    (new,) = series_lease.grow(series, ["m5"])
    assert new.name == "m5" and new.boot_s is not None and names(series)[-1] == "m5"
    assert series_lease.give_back(series, ["m5"]) and names(series)[-1] == "m4"
    release(series.folder)
    found = read_holdings(series.folder, time.time() + HOUR)
    assert [each.request.name for each in found] == ["master", "m1", "m2", "m3", "m4", "m5"]
    assert all(each.hours < 0.1 for each in found), "nothing counts any more"


def test_what_a_run_cut_short_has_left_of_that_name_goes_first(held: Series) -> None:
    first = series_lease.grow(held, ["m5"])
    assert series_lease.grow(held, ["m5"]) != first and names(held).count("m5") == 1


def test_a_boot_that_fails_leaves_what_was_there(held: Series) -> None:
    fake(held)._fails_at = "m5"
    with pytest.raises(InfrastructureError):
        series_lease.grow(held, ["m5"])
    assert names(held) == ["master", "m1", "m2", "m3", "m4"]
    lease = lease_of(held)
    assert registry.lease_machines(lease) == ("master", "m1", "m2", "m3", "m4")
    assert [each.request.name for each in read_holdings(held.folder, time.time() + HOUR) if each.hours > 0.5] == names(
        held
    )


def test_lost_machines_are_replaced_and_the_master_is_not(held: Series) -> None:
    assert series_lease.replace(held, {"m2"}) and set(names(held)) == {"master", "m1", "m2", "m3", "m4"}
    assert not series_lease.replace(held, {"m2", "master"})


def test_prolonging_reaches_the_machines(held: Series) -> None:
    lease = lease_of(held)
    series_lease.prolong(held, 1000)
    longer = registry.read(lease.lease_id)
    assert longer is not None and longer.expires_s > lease.expires_s + HOUR
    assert set(fake(held).ends_s(lease).values()) == {longer.expires_s}


def test_a_lease_is_prolonged_also_during_one_long_run_but_not_for_ever(held: Series) -> None:
    short = Series(held.folder, _with_lease(held, minutes=0.02), 0.0)  # 1.2 s
    lease = lease_of(held)
    with keep_alive(short, limit_s=2.0):
        (keeper,) = [thread for thread in threading.enumerate() if thread.name == "lease keeper"]
        first = registry.read(lease.lease_id)
        while registry.read(lease.lease_id) == first:
            time.sleep(0.05)
        keeper.join()  # pytest's timeout ends a wait in vain


def test_what_is_left_of_a_lease_is_prolonged_as_the_work_begins(
    series: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series_lease, "HEARTBEAT_S", 0.02)
    lease_id = provision(series.folder)
    first = registry.read(lease_id)
    assert first is not None
    with keep_alive(Series(series.folder, _with_lease(series, minutes=600), 0.0), limit_s=60):
        while _current(first).expires_s < first.expires_s + HOUR:
            time.sleep(0.02)  # pytest's timeout ends a wait in vain
    release(series.folder)


def _with_lease(series: Series, minutes: float) -> Any:
    return replace(series.experiment, lease_minutes=minutes)


def test_machines_of_a_killed_harness_count_to_the_end_of_their_lease(held: Series) -> None:
    lease = lease_of(held)
    (one, *_) = read_holdings(held.folder, lease.expires_s + 10 * HOUR)
    assert one.to_s == lease.expires_s
    (one, *_) = read_holdings(held.folder, lease.acquired_s + HOUR)
    assert one.hours == pytest.approx(1, abs=0.01)


def test_a_half_line_hides_nothing_after_it(series: Series) -> None:
    provision(series.folder)
    with (series.folder / holdings.HOLDINGS_FILE).open("a") as file:
        file.write('{"t": 1, "kind": "go')
    release(series.folder)
    assert all(each.hours < 0.1 for each in read_holdings(series.folder, time.time() + HOUR))


def test_lines_that_say_nothing_whole_are_counted_and_in_no_cost(series: Series) -> None:
    provision(series.folder)
    before = read_holdings(series.folder, time.time())
    with (series.folder / holdings.HOLDINGS_FILE).open("a") as file:
        file.write('{"t": 1, "kind": "gone"}\n{"t": "x", "kind": "until", "lease_id": "l", "expires_s": 1}\n17\n{"t"')
    release(series.folder)
    assert holdings.damaged_holdings(series.folder) == 4
    assert [each.request for each in read_holdings(series.folder, time.time())] == [each.request for each in before]


def test_a_folder_that_is_gone_does_not_keep_machines(series: Series) -> None:
    provision(series.folder)
    lease = lease_of(series)
    shutil.rmtree(series.folder)
    series_lease.release(series.folder, lease, fake(series))
    assert registry.read_all() == () and fake(series).leftovers() == () and fake(series).ends_s(lease) == {}


def test_money_is_counted_from_what_was_held(series: Series) -> None:
    priced = opened(options={"core_hour_usd": 3600.0, "budget_usd": 1e9})
    cost = holdings.estimate_cost(priced.experiment, new=False)
    assert cost is not None
    folder = open_series(priced.experiment, estimate=cost.as_data()).folder
    provision(folder)
    time.sleep(0.2)
    release(folder)
    holdings.write_money(priced)
    document = json.loads((folder / holdings.MONEY_FILE).read_text())
    cores = sum(each.request.type.cores for each in read_holdings(folder, 0))
    seconds = document["machine_hours"] * HOUR / 5
    assert document["used_usd"] == pytest.approx(cores * seconds, rel=0.01) and seconds >= 0.2
    (execution,) = document["executions"]
    assert execution["used_usd"] == pytest.approx(document["used_usd"])
    assert execution["expected_usd"] < execution["longest_usd"] < 1e9
    assert series_document(folder)["estimates"][0]["prices_of"] == "2026-11-21"
    assert [row["type"] for row in document["types"]] == ["master", "type_1"]


def test_an_interface_that_cannot_be_asked_is_no_lost_machine(series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    provision(series.folder)
    fake(series).recall("m2")
    assert series_lease.recalled(series) == ("m2",)

    def throttled(_lease: registry.Lease) -> tuple[str, ...]:
        raise InfrastructureError("RequestLimitExceeded")

    monkeypatch.setattr(fake(series), "recalled", throttled)
    assert series_lease.recalled(series) == ()
    release(series.folder)
    with pytest.raises(series_lease.NoMachines):
        series_lease.recalled(series)


def test_a_cleared_setup_ends_what_it_took_before(series: Series) -> None:
    first = provision(series.folder)
    request_stop(series.folder)  # by the run that clearing has interrupted
    second = provision(series.folder)
    assert [lease.lease_id for lease in registry.read_all()] == [second] and first != second
    assert fake(series).leftovers() == ()
    release(series.folder)


def test_a_lease_that_a_killed_setup_did_not_note_is_ended_by_the_next(series: Series) -> None:
    first = registry.take("ann", series.series_id, "fake", HOUR, holder=holder())
    second = provision(series.folder)
    assert [lease.lease_id for lease in registry.read_all()] == [second] and first.lease_id != second
    (series.folder / series_lease.MACHINES_FILE).write_text('{"lease": ')  # a torn disk, or another version
    release(series.folder)
    assert registry.read_all() == () and fake(series).leftovers() == ()


def test_a_full_disk_of_results_ends_no_machines(held: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(series_lease, "note_expiry", full)
    earlier = fake(held).ends_s(lease_of(held))
    with pytest.raises(OSError, match="No space"):
        series_lease.prolong(held, 6000.0)
    assert all(end_s > earlier[name] + HOUR for name, end_s in fake(held).ends_s(lease_of(held)).items())


def test_a_series_that_another_process_holds_is_left_alone(series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    first = provision(series.folder)
    monkeypatch.setenv("BAROGRAPH_HOLDER_PID", "1")
    with pytest.raises(SeriesInUse, match=f"is in use by process {os.getpid()} on"):
        provision(series.folder)
    (series.folder / hold.FILE).unlink()  # its lease alone
    with pytest.raises(TestbedTaken, match=f"testbed fake is in use: lease {first} .*process {os.getpid()}"):
        provision(series.folder)
    alive = f"lease {first} .*: its holder, process {os.getpid()}, is alive and is not the one releasing it .* 1.; its"
    with pytest.raises(NotReleased, match=alive):
        release(series.folder)
    release_own(series.folder)  # as a DAG whose series a terminal has finished: that one gives its machines back
    copy = shutil.copytree(series.folder, series.folder.with_name("a copy"))
    release(copy)  # which has no machines of its own
    assert [lease.lease_id for lease in registry.read_all()] == [first] and names(series) != []
    monkeypatch.delenv("BAROGRAPH_HOLDER_PID")
    release_own(series.folder)
    assert registry.read_all() == ()


def test_a_shared_testbed_is_refused_only_to_the_same_series(series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeTestbed, "shared", True)
    provision(series.folder)
    monkeypatch.setenv("BAROGRAPH_HOLDER_PID", "1")
    require_free_testbed(series.experiment)
    with pytest.raises(SeriesInUse, match=f"series {series.series_id} is in use"):
        open_series(series.experiment)
    assert open_series(replace(series.experiment, repetitions=2)).folder != series.folder
    monkeypatch.delenv("BAROGRAPH_HOLDER_PID")
    release(series.folder)


def test_what_could_not_be_released_is_said_with_the_command_and_left_to_the_reaper(
    series: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease_id = provision(series.folder)

    def throttled(_self: FakeTestbed, _lease: registry.Lease) -> None:
        raise InfrastructureError("RequestLimitExceeded")

    with monkeypatch.context() as patch:
        patch.setattr(FakeTestbed, "release", throttled)
        for _ in range(2):
            with pytest.raises(NotReleased, match=f"lease {lease_id} on testbed fake could not be released, m") as left:
                release(series.folder)
    assert "RequestLimitExceeded; `barograph reap` ends them" in str(left.value)
    (failure,) = failures_since(series.folder, 0.0)
    assert (failure["blame"], failure["message"]) == ("infrastructure", str(left.value))
    with pytest.raises(series_lease.NoMachines):
        series_lease.current_machines(series.folder)
    (row,) = sweep(dry_run=False, testbeds={"fake": FakeTestbed})
    assert row.why == "its release did not succeed yet" and row.error is None and registry.read_all() == ()


def test_a_failed_setup_that_cannot_clean_up_says_both(series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_self: FakeTestbed, lease: registry.Lease, *_requests: object) -> None:
        raise InfrastructureError("no ssh" if _requests else f"no release of {lease.lease_id}")

    with monkeypatch.context() as patch:
        patch.setattr(FakeTestbed, "acquire", failing)
        patch.setattr(FakeTestbed, "release", failing)
        with pytest.raises(InfrastructureError, match="no ssh"):
            provision(series.folder)
    (lease,) = registry.read_all()
    assert lease.ending, "the reaper's next pass ends it, although its holder lives"
    (message,) = lines_since(series.folder, "message", 0.0)
    assert f"no release of {lease.lease_id}; `barograph reap` ends them" in message["text"]
    assert [line["message"] for line in failures_since(series.folder, 0.0)] == ["no ssh"]
    release(series.folder)
    assert registry.read_all() == ()


def test_a_lease_is_kept_alive_while_machines_boot(series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    short = Series(series.folder, _with_lease(series, minutes=0.02), 0.0)  # 1.2 s
    lease = registry.take("ann", series.series_id, "fake", 1.2)

    class Slow(FakeTestbed):
        def acquire(self, lease: registry.Lease, requests: Any) -> tuple[Machine, ...]:
            while (current := registry.read(lease.lease_id)) is not None and current.expires_s < lease.expires_s + 2:
                time.sleep(0.05)  # pytest's timeout ends a wait in vain
            return super().acquire(lease, requests)

    series_lease.acquire(short, Slow(), lease)
    assert time.time() > lease.expires_s and _current(lease).expires_s >= lease.expires_s + 2
    release(series.folder)


def test_who_works_is_heard_of(series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_lease, "HEARTBEAT_S", 0.05)
    lease_id = provision(series.folder)
    first = registry.read(lease_id)
    assert first is not None
    with keep_alive(series, limit_s=60):
        while _current(first).heartbeat_s < first.heartbeat_s + 0.2:
            time.sleep(0.05)
    release(series.folder)


def test_machines_that_do_not_answer_do_not_silence_the_heart(series: Series, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_lease, "HEARTBEAT_S", 0.02)
    lease_id, waiting, over = provision(series.folder), threading.Event(), threading.Event()

    def hanging(*_: object) -> None:
        waiting.set()
        over.wait()

    monkeypatch.setattr(series_lease, "prolong", hanging)
    short = Series(series.folder, _with_lease(series, minutes=0.005), 0.0)  # 0.3 s
    with keep_alive(short, limit_s=60):
        waiting.wait()
        first = registry.read(lease_id)
        while registry.read(lease_id) == first:
            time.sleep(0.02)  # pytest's timeout ends a wait in vain
        over.set()
    release(series.folder)


@pytest.mark.parametrize("work", ["barograph.compare.stopping.check_after_run", "barograph.series.results.results_of"])
def test_who_analyses_or_sends_between_runs_is_heard_of(
    series: Series, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    monkeypatch.setattr(series_lease, "HEARTBEAT_S", 0.02)
    lease_id = provision(series.folder)
    seen: list[float] = []

    def slow(*_: object) -> Any:
        before = registry.read(lease_id)
        while registry.read(lease_id) == before:
            time.sleep(0.02)  # pytest's timeout ends a wait in vain
        seen.append(time.time())
        return results_of(series.folder)

    monkeypatch.setattr(work, slow)
    steps.do_run(series.folder)
    assert seen
    release(series.folder)


def _current(lease: registry.Lease) -> registry.Lease:
    current = registry.read(lease.lease_id)
    assert current is not None
    return current


def test_a_testbed_that_could_not_be_reserved_is_not_taken_for_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provision_module, "_reserved", {})
    star = with_changes(load("stela/star"), {"testbed": "fake"})
    lock = registry.state_dir() / "leases" / ".fake.lock"
    lock.mkdir(parents=True)  # as a folder that cannot be written: no lock
    for _ in range(2):
        with pytest.raises(IsADirectoryError):
            reserve_testbed(star)
    lock.rmdir()
    reserve_testbed(star)
    with pytest.raises(Timeout):
        FileLock(lock, blocking=False).acquire()
    provision_module._reserved[lock].release()


def test_what_machines_get_is_built_before_they_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    monkeypatch.setattr("barograph.software.build_for_machines", lambda _tell: built.append("software"))
    star = load("stela/star").testbed
    ready_testbed(replace(star, name="fake"))
    assert built == []
    ready_testbed(replace(star, name="ec2"))
    assert built == ["software"]
