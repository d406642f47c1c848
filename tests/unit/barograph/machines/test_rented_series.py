"""A whole series over the fake testbed with machines that boot at their event, step by step as the DAG does it."""

import json
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from analysis.record.files import write_json_atomic
from barograph.campaign.steps import NoRunDue, deploy, do_run
from barograph.errors import BudgetSpent, ExperimentError, MachineLost
from barograph.machines import holdings, series_lease
from barograph.machines.holdings import read_holdings
from barograph.machines.provision import provision, release
from barograph.plan.events.scaling import AutonomousPhase
from barograph.plan.experiment import MachineCount, from_data, load, with_changes
from barograph.run.storm_cluster import StormCluster, note_deployment
from barograph.series.series import Series, open_series
from barograph.testbeds import checks
from inventory.leases import registry
from playbooks.runner import MachineUnreachable
from tests.support.fakes.testbed import FakeTestbed

HOUR = 3600.0


pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def series() -> Series:
    asked = with_changes(load("stela/star"), {"testbed": "fake", "repetitions": 1}).as_data()
    asked["testbed"]["joining"] = "booted"
    experiment = from_data(asked)
    cost = holdings.estimate_cost(experiment, new=True)
    assert cost is not None
    return open_series(experiment, estimate=cost.as_data())


def fake(series: Series) -> FakeTestbed:
    testbed = checks.testbed_of(series.experiment.testbed)
    assert isinstance(testbed, FakeTestbed)
    return testbed


def test_every_run_rents_its_own_and_nothing_is_left(series: Series) -> None:
    provision(series.folder)
    deploy(series.folder)
    done = [do_run(series.folder) for _ in series.plan()]
    assert done == [run.run_id for run in series.plan()] and do_run(series.folder) is None
    assert "m5" not in {machine.name for machine in series_lease.current_machines(series.folder)}
    release(series.folder)
    counted = Counter(each.request.name for each in read_holdings(series.folder, time.time() + HOUR))
    assert counted == {"master": 1, "m1": 1, "m2": 1, "m3": 1, "m4": 1, "m5": 2}
    holdings.write_money(series)
    document = json.loads((series.folder / holdings.MONEY_FILE).read_text())
    assert 0 < document["used_usd"] < document["executions"][0]["expected_usd"]
    assert registry.read_all() == () and fake(series).leftovers() == ()
    told = [json.loads(line) for line in (series.folder / "progress.jsonl").read_text().splitlines()]
    assert [line["budget_usd"] for line in told if line["kind"] == "money"] == [100.0] * len(done)


def test_a_series_stops_before_the_run_that_its_budget_does_not_cover(
    series: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    provision(series.folder)
    first = do_run(series.folder)
    monkeypatch.setattr(holdings, "spent_usd", lambda _series, _now_s: 99.9999)
    for _ in range(2):
        with pytest.raises(BudgetSpent, match=r"not begun; to go on, run it again"):
            do_run(series.folder)
    assert series.complete() == {first}
    release(series.folder)
    monkeypatch.undo()


def test_machines_of_a_line_that_cannot_be_read_are_not_free(series: Series) -> None:
    """Neither for the next run nor for the estimate of what goes on with the series."""
    provision(series.folder)
    file = series.folder / holdings.HOLDINGS_FILE
    held, *others = file.read_text().splitlines(keepends=True)
    file.write_text("".join([held[: len(held) // 2] + "\n", *others]))
    assert holdings.spent_usd(series, time.time() + HOUR) == 0, "what was wrong: an hour of five machines"
    with pytest.raises(BudgetSpent, match=r"holdings.jsonl: 1 of its lines cannot be read, so that nobody knows"):
        do_run(series.folder)
    with pytest.raises(BudgetSpent, match="begin a new series"):
        holdings.estimate_cost(series.experiment, new=False)
    assert holdings.estimate_cost(series.experiment, new=True) is not None
    file.write_text("".join([held, *others]))
    assert do_run(series.folder)
    release(series.folder)


def test_no_run_begins_on_a_cluster_that_cannot_be_mended(series: Series) -> None:
    provision(series.folder)
    fake(series).recall("m2")
    with pytest.raises(MachineLost, match="cannot replace it; run it again to resume on others"):
        do_run(series.folder)
    with pytest.raises(NoRunDue, match="machines are lost, as the run before says"):  # not each run red, after minutes
        do_run(series.folder)
    assert not any(series.folder.glob("runs/*"))
    release(series.folder)


@pytest.fixture
def real(series: Series, monkeypatch: pytest.MonkeyPatch) -> Iterator[StormCluster]:
    """The cluster of real testbeds over fake machines; what Ansible would do is only counted."""
    provision(series.folder)
    monkeypatch.setattr(StormCluster, "silent_machines", lambda _self: ())
    monkeypatch.setattr("playbooks.cluster.extend", lambda *_args: extended.append(_args[2]))
    monkeypatch.setattr(StormCluster, "deploy", lambda _self: extended.append("all"))
    monkeypatch.setattr("barograph.run.storm_cluster.storm_home", lambda _tell: Path("/nowhere"))
    monkeypatch.setattr(StormCluster, "_ask", lambda self, _argv: {one.name: JAVA for one in self.machines})
    extended.clear()
    yield StormCluster.of(series)
    release(series.folder)


JAVA = "Debian GNU/Linux 12\nLinux 6.1.0-28\nopenjdk-17-jre-headless 17.0.17+10-1~deb12u1\n"
extended: list[object] = []
SILENT_MACHINES, DEPLOY = StormCluster.silent_machines, StormCluster.deploy


def workers(cluster: StormCluster) -> tuple[set[str], set[str]]:
    """Of the inventory: all workers, and those that join."""
    children = yaml.safe_load(cluster.inventory.read_text())["all"]["children"]
    return set(children["workers"]["hosts"]), set(children["joining"]["hosts"])


def test_lost_workers_are_replaced_and_deployed_to(series: Series, real: StormCluster) -> None:
    assert real.make_whole() and extended == []
    fake(series).recall("m2")
    assert real.recalled() == ("m2",)
    assert real.make_whole() and extended == ["all"]
    assert real.recalled() == () and workers(real)[0] == {"m1", "m2", "m3", "m4"}
    fake(series).recall("master")
    assert not real.make_whole()


def test_silent_workers_are_replaced_too(series: Series, real: StormCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StormCluster, "silent_machines", lambda _self: ("m3",))
    assert real.make_whole() and extended == ["all"]


def test_silence_of_all_is_waited_for_and_is_the_network(
    series: Series, real: StormCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody = tuple(machine.name for machine in real.machines)
    looks = [everybody, everybody, ()]
    monkeypatch.setattr(StormCluster, "silent_machines", lambda _self: looks.pop(0) if looks else everybody)
    monkeypatch.setattr("barograph.run.storm_cluster.FIRST_PAUSE_S", 0.01)
    assert real.make_whole() and looks == [] and extended == []
    monkeypatch.setattr("barograph.run.storm_cluster.SILENCE_LIMIT_S", 0.05)
    with pytest.raises(MachineLost, match=r"no machine has answered ssh .* network of this box or of the testbed"):
        real.make_whole()
    assert extended == []


def test_a_silent_worker_that_nothing_replaces_is_waited_for(
    series: Series, real: StormCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barograph.machines.series_lease.can_replace", lambda _series: False)
    monkeypatch.setattr("barograph.run.storm_cluster.FIRST_PAUSE_S", 0.01)
    looks = [("m3",), ()]
    monkeypatch.setattr(StormCluster, "silent_machines", lambda _self: looks.pop(0) if looks else ("m3",))
    assert real.make_whole() and looks == []
    monkeypatch.setattr("barograph.run.storm_cluster.SILENCE_LIMIT_S", 0.05)
    assert not real.make_whole() and extended == []


def test_fifty_dead_machines_are_found_in_the_time_of_one(
    series: Series, real: StormCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StormCluster, "silent_machines", SILENT_MACHINES)
    together = threading.Barrier(len(real.machines), timeout=10)
    monkeypatch.setattr("barograph.run.storm_cluster.answers_ssh", lambda *_: together.wait() < 0)
    assert real.silent_machines() == tuple(machine.name for machine in real.machines)


def test_the_version_on_record_is_that_of_the_deployed_home(real: StormCluster, tmp_path: Path) -> None:
    """Somebody may have pulled another one into the work tree since."""
    (tmp_path / "VERSION").write_text('{"storm": "2.8.77"}')
    note_deployment(real.directory, tmp_path)
    assert real.facts().versions["storm"] == "2.8.77"


def test_a_machine_that_boots_is_in_the_inventory_while_it_is_there(series: Series, real: StormCluster) -> None:
    assert workers(real) == ({"m1", "m2", "m3", "m4"}, set())
    assert real.facts().machines["m5"]["joins_at_scale"] is True
    boots_s = real.grow(["m5"])
    assert extended == [["m5"]] and boots_s["m5"] is not None
    assert workers(real) == ({"m1", "m2", "m3", "m4", "m5"}, {"m5"})
    assert real.give_back(["m5"]) and workers(real)[1] == set() and real.make_whole()


def test_a_machine_with_another_java_is_refused_whenever_it_comes(
    series: Series, real: StormCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    real.grow(["m5"])
    facts = real.facts()
    assert facts.software["m5"] == "Debian GNU/Linux 12, Linux 6.1.0-28, openjdk-17-jre-headless 17.0.17+10-1~deb12u1"
    assert facts.versions["machines"] == facts.software["m1"], "once, where all have the same"
    real.give_back(["m5"])
    newer = JAVA.replace("17.0.17", "17.0.18")
    monkeypatch.setattr(StormCluster, "_ask", lambda self, _argv: {one.name: newer for one in self.machines[-1:]})
    with pytest.raises(ExperimentError, match=r"m5 has .* 17\.0\.18.* in earlier runs .* it had .* 17\.0\.17.*--new"):
        real.grow(["m5"])
    assert "m5" not in workers(real)[0]


def test_a_resumed_series_is_not_measured_with_another_image(
    series: Series, real: StormCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = series.plan()[0].run_id
    document = {"status": "complete", "software": {"m2": f"ami-1, {', '.join(JAVA.splitlines())}"}}
    write_json_atomic(series.run_folder(run) / "run.json", document)
    monkeypatch.setattr(StormCluster, "deploy", DEPLOY)
    monkeypatch.setattr("playbooks.cluster.deploy", lambda *_args, **_more: None)
    monkeypatch.setattr("playbooks.cluster.certificate", lambda *_args: None)
    monkeypatch.setattr("barograph.run.storm_cluster.note_deployment", lambda *_args: None)
    monkeypatch.setattr("barograph.run.storm_cluster.libraries_folder", lambda: None)
    monkeypatch.setattr("playbooks.cluster.reset", lambda *_args: None)
    for step in (real.deploy, lambda: real.reset(series.plan()[1])):  # a replaced machine must stop every later run
        with pytest.raises(ExperimentError, match=r"m2 has Debian .* in earlier runs .* it had ami-1, Debian"):
            step()


LOG = """\
2026-11-28 10:00:00,123 WARN exited: nimbus (terminated by SIGKILL; not expected)
2026-11-28 12:00:01,123 INFO exited: probe (terminated by SIGKILL; not expected)
2026-11-28 12:00:02,123 WARN exited: nimbus (exit status 1; not expected)
2026-11-28 12:00:03,123 INFO stopped: supervisor (exit status 143)
"""


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("", None),
        ("WARN exited: nimbus (terminated by SIGKILL; not expected)", "nimbus ended (terminated by SIGKILL"),
        ("WARN exited: supervisor (exit status 20; not expected)", "supervisor ended (exit status 20; not expected)"),
    ],
)
def test_what_ended_a_daemon_is_asked_of_its_machine(
    real: StormCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, fault: str | None
) -> None:
    """System.exit in Nimbus is the hosted scheduler's own doing; what came before the run is another's."""
    (tmp_path / "supervisord.log").write_text(LOG + (f"2026-11-28 12:00:04,000 {line}\n" if line else ""))
    (tmp_path / "one.avro").touch()
    places = {"/var/log/supervisor/": f"{tmp_path}/", "/var/log/barograph/workers": str(tmp_path)}

    def ask(_self: StormCluster, argv: Sequence[str]) -> dict[str, str]:
        for there, here in places.items():
            argv = [word.replace(there, here) for word in argv]
        done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "TZ": "UTC"}, check=True)
        return {"m1": done.stdout}

    monkeypatch.setattr(StormCluster, "_ask", ask)
    noon_s = datetime(2026, 11, 28, 12, tzinfo=UTC).timestamp()
    faults = real.machine_faults(noon_s, None)
    assert faults.get("m1", "").startswith(fault or "") and len(faults) == (fault is not None)
    assert real.machine_faults(noon_s, 1) == faults
    arriving = real.machine_faults(noon_s, 0)
    assert arriving["master"] == "samples of 0 workers arrive, and 1 write them"


def test_a_machine_that_no_plan_names_is_in_the_inventory_and_in_the_facts(series: Series, real: StormCluster) -> None:
    """A policy had more, one after the other, than the plan has names for."""
    real.grow(["m9"])
    assert workers(real) == ({"m1", "m2", "m3", "m4", "m9"}, {"m9"})
    facts = real.facts().machines["m9"]
    assert facts["joins_at_scale"] is True and facts["cores"] == real.facts().machines["m1"]["cores"]


def test_a_machine_that_storm_cannot_be_put_on_is_given_back(
    series: Series, real: StormCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_args: object) -> None:
        raise MachineUnreachable("m5: ssh broke")

    monkeypatch.setattr("playbooks.cluster.extend", unreachable)
    with pytest.raises(MachineUnreachable):
        real.grow(["m5"])
    assert "m5" not in {machine.name for machine in series_lease.current_machines(series.folder)}
    assert workers(real)[0] == {"m1", "m2", "m3", "m4"}


@pytest.mark.parametrize("limits", [(2, 6), None])
def test_what_a_run_that_was_cut_short_has_left_of_a_policys_machines_goes_before_the_next(
    series: Series, real: StormCluster, monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int] | None
) -> None:
    monkeypatch.setattr("playbooks.cluster.reset", lambda *_args: None)
    bounds = MachineCount(4, 4, *limits) if limits else MachineCount(4, 4)
    elastic = replace(real, series=replace(series, experiment=replace(
        series.experiment, machines=bounds, events=(AutonomousPhase("steady", decide_every_s=5.0),)
    )))  # fmt: skip
    elastic.grow(["m5", "m7"])
    elastic.reset(series.plan()[0])
    left = {machine.name for machine in series_lease.current_machines(series.folder)} - {"master"}
    assert left == {"m1", "m2", "m3", "m4"} | (set() if limits else {"m5", "m7"})
