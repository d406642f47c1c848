"""Between two runs the master gets the code of the next one, and only where it has another."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from analysis.record.files import RunPaths, read_json
from barograph.campaign.steps import attempt_next_run
from barograph.errors import RunBroken, blame_of
from barograph.plan.experiment import Code, Experiment, Variant
from barograph.run import storm_cluster
from barograph.run.context import SeriesContext
from barograph.series.series import Series, open_series
from playbooks import cluster
from playbooks.runner import MachineUnreachable, StormRefused
from tests.support.fakes.storm import FakeStorm

A, B = Code("main", "a" * 40), Code("better", "b" * 40)
THEIRS = Code("theirs", "c" * 40, "/theirs", ("make",), "t.jar", "t.T")
INVENTORY = Path("inventory.yml")


@dataclass
class Master:
    """What `cluster.switch` was told; `fails` is raised by the next one."""

    told: list[tuple[str, str | None]] = field(default_factory=list)
    fails: Exception | None = None

    def switch(self, _inventory: Path, _directory: Path, home: Path, service: Any) -> None:
        self.told.append((home.name, service.parent.name[:1] if service else None))
        if self.fails is not None:
            error, self.fails = self.fails, None
            raise error


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Master:
    made = Master()
    monkeypatch.setattr(cluster, "switch", made.switch)
    monkeypatch.setattr(storm_cluster, "storm_home_of", lambda code, base, _tell: base.with_name(f"home-{code.label}"))
    storm_cluster.note_deployment(tmp_path, Path("/homes/base"))
    return made


def test_nothing_is_touched_while_runs_share_their_code(master: Master, tmp_path: Path) -> None:
    for code in (None, A, A, replace(A, label="main"), B, None, None):
        storm_cluster.switch_code(INVENTORY, tmp_path, code)
    assert master.told == [("home-main", "a"), ("home-better", "b"), ("base", None)]


def test_commits_with_the_same_bridge_differ_in_the_service(
    master: Master, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storm_cluster, "storm_home_of", lambda _code, base, _tell: base)
    for code in (A, B, None):
        storm_cluster.switch_code(INVENTORY, tmp_path, code)
    assert master.told == [("base", "a"), ("base", "b"), ("base", None)]


def test_a_scheduler_of_others_runs_with_the_harnesss_own_service(master: Master, tmp_path: Path) -> None:
    storm_cluster.switch_code(INVENTORY, tmp_path, THEIRS)
    assert master.told == [("home-theirs", None)]


def test_code_that_does_not_start_is_a_result_and_the_next_code_is_put_in_its_place(
    master: Master, tmp_path: Path
) -> None:
    master.fails = StormRefused("switch: Nimbus does not start with the code of this run; it said: boom")
    with pytest.raises(RunBroken, match=r"main \(aaaaaaaaaaaa\): switch: Nimbus does not start .*boom"):
        storm_cluster.switch_code(INVENTORY, tmp_path, A)
    for code in (A, None):
        storm_cluster.switch_code(INVENTORY, tmp_path, code)
    assert [home for home, _ in master.told] == ["home-main", "home-main", "base"]


def test_a_switch_that_was_cut_short_is_done_again(master: Master, tmp_path: Path) -> None:
    master.fails = MachineUnreachable("gone")
    with pytest.raises(MachineUnreachable):
        storm_cluster.switch_code(INVENTORY, tmp_path, A)
    storm_cluster.switch_code(INVENTORY, tmp_path, None)
    assert master.told == [("home-main", "a"), ("base", None)]


def test_the_base_stays_what_was_deployed(master: Master, tmp_path: Path) -> None:
    assert master.told == []
    assert storm_cluster.base_home(tmp_path) == Path("/homes/base")
    storm_cluster.note_deployment(tmp_path, Path("/homes/newer"))
    storm_cluster.switch_code(INVENTORY, tmp_path, None)
    assert master.told == [] and storm_cluster.base_home(tmp_path) == Path("/homes/newer")
    assert storm_cluster.base_home(tmp_path / "elsewhere") is None


@pytest.fixture
def experiment(experiment: Experiment) -> Experiment:
    variants = (Variant("a", "stela", {}, A), Variant("b", "stela", {}, B), Variant("own", "even"))
    return replace(experiment, variants=variants, repetitions=1)


@pytest.fixture
def series(experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Series:
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(tmp_path / "results"))
    return open_series(experiment, now_s=1_699_999_000.0)


def test_runs_record_their_code(series: Series, bench: SeriesContext, storm: FakeStorm) -> None:
    used = []
    while run := series.next_run():
        attempt_next_run(series, bench)
        used.append((run.variant.name, storm.arguments["reset"]["code"]))
    assert sorted(used) == [("a", A.commit), ("b", B.commit), ("own", None)]
    documents = {name: read_json(RunPaths(series.run_folder(f"{name}-r1")).run_json) for name in ("a", "own")}
    assert documents["a"]["versions"]["code"] == A.commit
    recorded = {name: value for name, value in json.loads(json.dumps(A.__dict__)).items() if name != "files_sha256"}
    assert documents["a"]["variant"]["code"] == recorded
    assert "code" not in documents["own"]["variant"] and "code" not in documents["own"]["versions"]


def test_a_commit_that_does_not_start_fails_its_own_runs_only(
    series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults["broken_code"] = (B.commit,)
    failed = []
    while run := series.next_run():
        try:
            attempt_next_run(series, bench)
        except RunBroken as error:
            failed.append((run.variant.name, blame_of(error)))
    assert failed == [("b", "system_under_test")]
    assert series.complete() == {"a-r1", "own-r1"}


def test_a_foreign_scheduler_is_configured_by_its_class(
    experiment: Experiment, series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    theirs = Variant("theirs", "foreign", {"rebalance": True}, THEIRS)
    alone = open_series(replace(experiment, variants=(theirs,)), now_s=1_699_999_500.0)
    assert alone.folder != series.folder
    attempt_next_run(alone, bench)
    assert storm.arguments["configure"]["parameters"] == {"rebalance": True, "scheduler": "t.T"}
