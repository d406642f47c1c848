"""The steps of a night as tasks take them: found again by id, and what must be seen is raised at the end."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.errors import InUse, RunsFailed
from barograph.machines import provision
from barograph.nights import findings, night_state, procedure, tasks
from barograph.nights.night_state import NoNight
from barograph.nights.tasks import NightOver, RegressionAlarm
from barograph.plan.experiment import load, with_changes
from barograph.series.series import read_series
from tests.support.durations import SHORT
from tests.support.measured_nights import SUITE, World

LINEAR, STAR = "stela/linear", "stela/star"


@pytest.fixture(autouse=True)
def _suite(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "load_suite", lambda _name: SUITE)
    monkeypatch.setattr(provision, "load", lambda name: with_changes(load(name), SHORT))


def opened(world: World, hours: float, experiments: list[str]) -> str:
    return tasks.open_night("try", hours, experiments, world.now_s)


def measured(world: World, night_id: str, experiment: str) -> None:
    folder = tasks.begin_experiment("try", night_id, experiment)
    assert folder is not None
    world.carry_out(read_series(Path(folder)), None)  # type: ignore[arg-type] # not used
    assert tasks.conclude_experiment("try", night_id, experiment) == "complete"


def test_a_night_by_its_tasks(world: World) -> None:
    found = opened(world, 10.0, [])
    measured(world, found, LINEAR)
    measured(world, found, STAR)
    assert tasks.close_night("try", found).endswith("nightly/try/index.html")
    assert [each["status"] for each in findings.read_message("try")["experiments"]] == ["complete", "complete"]
    tasks.post_message("try")
    tasks.raise_alarm("try")
    assert (
        world.nights()[0]["status"] == "complete"
        and night_state.current_reservation("try", "fake", world.now_s) is None
    )


def test_a_night_that_was_not_opened_has_no_experiments(world: World) -> None:
    assert tasks.begin_experiment("try", None, STAR) is None and tasks.conclude_experiment("try", None, STAR) is None
    with pytest.raises(NoNight, match="night n1 of suite try is not under way any more"):
        tasks.begin_experiment("try", "n1", STAR)


def test_the_deadline_skips_the_rest(world: World) -> None:
    found = opened(world, 0.01, [])
    assert [tasks.begin_experiment("try", found, name) for name in (LINEAR, STAR)] == [None, None]
    assert [tasks.conclude_experiment("try", found, name) for name in (LINEAR, STAR)] == ["deadline", "deadline"]
    tasks.close_night("try", found)
    tasks.raise_alarm("try")
    assert world.nights()[0]["status"] == "failed", "not a number from any; and nobody's failure"


def test_a_night_waits_for_another_one_until_its_own_deadline(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(*_: object) -> None:
        raise InUse("a night of suite try is being measured")

    monkeypatch.setattr(procedure, "open_night", taken)
    with pytest.raises(InUse):
        opened(world, 1.0, [])
    with pytest.raises(NightOver, match="deadline has come while it waited: a night of suite try is being") as over:
        tasks.open_night("try", 1.0, [], world.now_s - 3601)
    assert not isinstance(over.value, InUse), "what is in use is waited for"


@pytest.mark.parametrize("part", ["publish", "remove_night"])
def test_a_night_whose_closing_was_cut_short_is_closed_when_it_is_tried_again(
    part: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = opened(world, 10.0, [STAR])
    measured(world, found, STAR)

    def dies(*_: object) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as broken:
        broken.setattr(findings if part == "publish" else night_state, part, dies)
        with pytest.raises(RuntimeError):
            tasks.close_night("try", found)
    assert tasks.conclude_experiment("try", found, STAR) == "complete", "its task may come again too"
    assert tasks.close_night("try", found).endswith("nightly/try/index.html")
    assert [each["id"] for each in world.nights()] == [found] and night_state.read_night("try") is None
    assert night_state.current_reservation("try", "fake", world.now_s) is None
    assert [each["status"] for each in findings.read_message("try")["experiments"]] == ["complete"]


def test_what_was_measured_and_not_analysed_is_not_complete(world: World) -> None:
    found = opened(world, 10.0, [STAR])
    measured(world, found, STAR)
    entry = night_state.night_of_id("try", found).entry(STAR)
    shutil.rmtree(world.results / entry.series / "tables")
    begun = replace(entry, status=night_state.BEGUN)
    night_state.write_night(night_state.night_of_id("try", found).with_entry(begun))
    assert tasks.conclude_experiment("try", found, STAR) == "harness"
    reason = night_state.night_of_id("try", found).entry(STAR).reason
    assert reason == f"measured, but not analysed; to do that: barograph report {entry.series}"


def test_what_fails_in_the_first_task_is_the_experiments_outcome(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(*_: object, **__: object) -> Path:
        raise RunsFailed("testbed fake is in use", "capacity")

    monkeypatch.setattr("barograph.machines.provision.open_requested", taken)
    found = opened(world, 10.0, [STAR])
    with pytest.raises(RunsFailed):
        tasks.begin_experiment("try", found, STAR)
    assert tasks.conclude_experiment("try", found, STAR) == "capacity"
    tasks.close_night("try", found)
    with pytest.raises(RunsFailed, match="stela/star: capacity: testbed fake is in use") as seen:
        tasks.raise_alarm("try")
    assert seen.value.blame == "capacity"


def test_a_newly_confirmed_regression_is_seen(world: World) -> None:
    findings.write_message("try", {"new_regressions": 1, "text": "regression, confirmed", "status": "complete"})
    with pytest.raises(RegressionAlarm, match="regression, confirmed"):
        tasks.raise_alarm("try")


def test_a_night_that_somebody_ended_lets_its_testbed_go_and_is_put_on_record_by_the_next(world: World) -> None:
    found = opened(world, 10.0, [])
    measured(world, found, LINEAR)
    procedure.release_night("try", found)
    assert (
        night_state.current_reservation("try", "fake", world.now_s) is None
        and night_state.read_night("try") is not None
    )
    world.now_s += 86_400
    opened(world, 10.0, [])
    (ended,) = world.nights()
    assert ended["id"] == found and [each["status"] for each in ended["experiments"]] == ["complete", "interrupted"]
