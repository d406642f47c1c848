"""`barograph reap`: what is ended and what it cost, how each pass is noted, and who is warned."""

import io
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from barograph.cli import reap as cli_reap
from barograph.errors import InfrastructureError
from barograph.machines import reaper, series_lease
from barograph.machines.holdings import read_holdings
from barograph.machines.provision import provision
from barograph.machines.reaper import NotReaped, reap, sweep
from barograph.plan.experiment import load, with_changes
from barograph.series.series import Series, open_series
from barograph.settings import cluster_dir
from inventory.leases import registry
from inventory.leases.holder import HEARTBEAT_BOUND_S, Holder, process_holder
from inventory.leases.registry import Lease
from tests.support.fakes.testbed import FakeTestbed

HOUR = 3600.0


class Stubborn(FakeTestbed):
    def release(self, lease: Lease) -> None:
        raise InfrastructureError(f"throttled: {lease.lease_id}"[:9])


@pytest.fixture(autouse=True)
def only_the_fake(own_folders: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barograph.machines.reaper.TESTBEDS", {"fake": FakeTestbed})


@pytest.fixture
def forgotten() -> tuple[Series, Lease]:
    """A series whose harness does not come back."""
    asked = with_changes(load("stela/star"), {"testbed": "fake", "options": {"core_hour_usd": 10}})
    series = open_series(asked)
    provision(series.folder)
    lease = series_lease.saved_lease(series.folder)
    assert lease is not None
    return series, lease


def test_a_row_says_why_how_long_and_how_much(forgotten: tuple[Series, Lease]) -> None:
    series, lease = forgotten
    later = lease.expires_s + HOUR
    (row,) = sweep(dry_run=True, now_s=later)
    assert row.why == "expired" and row.held_s == pytest.approx(later - lease.acquired_s)
    cores = sum(each.request.type.cores for each in read_holdings(series.folder, later))
    assert row.cost_usd == pytest.approx(cores * 10 * 1.5, rel=0.01), "until the lease's end, when machines end"
    assert registry.read_all() == (lease,) and not reaper.health_path().exists()


def test_nothing_of_a_reaped_cluster_stays(forgotten: tuple[Series, Lease]) -> None:
    _, lease = forgotten
    token = cluster_dir(lease.lease_id) / "token"
    token.parent.mkdir(parents=True)
    token.write_text("secret")
    sweep(dry_run=True, now_s=lease.expires_s)
    assert token.exists()
    sweep(dry_run=False, now_s=lease.expires_s)
    assert not token.parent.exists()


def test_a_dag_that_waits_for_a_worker_keeps_its_machines(own_folders: None) -> None:
    silent_s = time.time() - HEARTBEAT_BOUND_S - 60
    held = {
        name: registry.take("ann", name, "fake", HOUR * 3, shared=True, holder=Holder(0, name), clock=lambda: silent_s)
        for name in ("stela.star", "stela.linear")
    }
    reaper.beat_for_dags(lambda dag, _run: dag == "stela.star")
    (gone,) = sweep(dry_run=False)
    assert held["stela.linear"].lease_id in gone.what
    assert [lease.series_id for lease in registry.read_all()] == ["stela.star"]


def test_a_later_run_of_the_dag_keeps_no_machines_of_a_dead_one(own_folders: None) -> None:
    silent_s = time.time() - HEARTBEAT_BOUND_S - 60
    ui = process_holder(os.getpid())  # its tasks have its pid
    for run in ("dead", "alive"):
        for name, mine in (("dag", Holder(0, "stela.star", run=run)), ("ui", replace(ui, run=f"stela.star {run}"))):
            series = f"{run} {name}"
            registry.take("ann", series, "fake", HOUR * 3, shared=True, holder=mine, clock=lambda: silent_s)
    reaper.beat_for_dags(lambda dag, run: (dag, run) == ("stela.star", "alive"))
    sweep(dry_run=False)
    assert sorted(lease.series_id for lease in registry.read_all()) == ["alive dag", "alive ui"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("the database is locked")])
def test_one_lease_that_cannot_be_kept_alive_keeps_nothing_from_being_reaped(
    own_folders: None, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    leases = [
        registry.take("ann", str(number), "fake", HOUR, shared=True, holder=Holder(0, "stela.star"))
        for number in range(2)
    ]
    failing = min(lease.lease_id for lease in leases)
    heard: list[str] = []

    def beat(lease_id: str) -> None:
        if lease_id == failing:
            raise error
        heard.append(lease_id)

    monkeypatch.setattr(registry, "beat", beat)
    reaper.beat_for_dags(lambda _dag, _run: True)
    assert heard == [max(lease.lease_id for lease in leases)]
    monkeypatch.setattr(registry, "read_all", lambda: (_ for _ in ()).throw(error))
    reaper.beat_for_dags(lambda _dag, _run: True)


def test_what_was_reaped_does_not_count_any_more(forgotten: tuple[Series, Lease]) -> None:
    series, lease = forgotten
    sweep(dry_run=False, now_s=lease.expires_s)
    assert registry.read_all() == ()
    assert {each.to_s for each in read_holdings(series.folder, lease.expires_s + HOUR)} == {lease.expires_s}


def test_a_series_that_is_lost_costs_nobody_knows_what(forgotten: tuple[Series, Lease]) -> None:
    series, lease = forgotten
    (series.folder / "series.json").unlink()
    (row,) = sweep(dry_run=False, now_s=lease.expires_s)
    assert row.cost_usd is None and row.error is None and registry.read_all() == ()


def test_the_table_names_everything(forgotten: tuple[Series, Lease], monkeypatch: pytest.MonkeyPatch) -> None:
    _, lease = forgotten
    shown = cli_reap.table(sweep(dry_run=True, now_s=lease.expires_s), dry_run=True)
    console = Console(file=(out := io.StringIO()), width=200)
    console.print(shown)
    said = " ".join(out.getvalue().split())
    assert (
        said.startswith("testbed would be ended why held cost of its series fake lease") and "expired 1.5 h $" in said
    )


def test_each_pass_is_noted_and_a_failure_keeps_the_last_success(
    forgotten: tuple[Series, Lease], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, lease = forgotten
    assert reap(dry_run=False, by="dag") == ()
    first = reaper.read_health()["dag"]
    monkeypatch.setattr("barograph.machines.reaper.TESTBEDS", {"fake": Stubborn})
    monkeypatch.setattr("inventory.leases.registry.is_live", lambda _lease, _now: False)
    with pytest.raises(NotReaped, match=r"could not release lease .* on fake: throttled; mend that, then reap again"):
        reap(dry_run=False, by="dag")
    second = reaper.read_health()["dag"]
    assert second["last_success_s"] == first["last_success_s"] and "throttled" in second["errors"][0]
    assert any("FAILED lease" in line for line in reaper.health_lines(time.time()))
    assert replace(lease, ending=True) in registry.read_all()


def test_a_damaged_lease_is_reported_and_the_others_are_ended(own_folders: None, tmp_path: Path) -> None:
    registry.take("ann", "s1", "fake", 60, clock=lambda: time.time() - HOUR)
    (tmp_path / "state" / "leases" / "bad.json").write_text("{")
    with pytest.raises(NotReaped, match=r"could not release lease bad on unknown testbed: .*bad.json: not a lease"):
        reap(dry_run=False, by="dag")
    assert "not a lease" in reaper.read_health()["dag"]["errors"][0] and registry.read_all() == ()


def test_who_rents_is_warned_when_nobody_watches() -> None:
    now = time.time()
    assert "has never succeeded here" in str(reaper.health_warning(now))
    reaper.note_pass("command", now - 1, now, [], [])
    assert reaper.health_warning(now) is not None, "a pass by hand does not come again by itself"
    reaper.note_pass("dag", now - 1, now, ["a lease"], [])
    assert reaper.health_warning(now + 60) is None
    asleep = str(reaper.health_warning(now + 2 * HOUR))
    assert "has not succeeded for 2.0 h" in asleep and "barograph ui" in asleep


def test_a_damaged_note_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    reaper.health_path().write_text('{"dag": {')
    assert "never" in str(reaper.health_warning(time.time()))
    reaper.note_pass("dag", 0.0, 1.0, [], [])
    assert json.loads(reaper.health_path().read_text())["dag"]["last_success_s"] == 1.0
