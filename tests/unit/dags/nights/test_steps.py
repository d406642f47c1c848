"""The steps of a night as tasks take them: found again by id, and what must be seen is raised at the end."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from nights_by_hand import SUITE, World

from dags.errors import RunsFailed
from dags.nights import hold, night, steps, told, tonight
from dags.nights.steps import RegressionFound
from dags.nights.tonight import NoNight
from dags.series import read_series

LINEAR, STAR = "stela/linear", "stela/star"


@pytest.fixture(autouse=True)
def _suite(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "load", lambda _name: SUITE)


def measured(world: World, night_id: str, experiment: str) -> None:
    folder = steps.begin("try", night_id, experiment)
    assert folder is not None
    world.carry_out(read_series(Path(folder)), None)  # type: ignore[arg-type] # not used
    assert steps.conclude("try", night_id, experiment) == "complete"


def test_a_night_by_its_tasks(world: World) -> None:
    found = steps.open_night("try", 10.0, [])
    measured(world, found, LINEAR)
    measured(world, found, STAR)
    assert steps.close("try", found).endswith("nightly/try/index.html")
    assert [each["status"] for each in told.message("try")["experiments"]] == ["complete", "complete"]
    steps.tell("try")
    steps.judge("try")
    assert world.nights()[0]["status"] == "complete" and hold.on_record("try", "fake", world.now_s) is None


def test_what_is_not_chosen_is_not_of_the_night(world: World) -> None:
    found = steps.open_night("try", 10.0, [STAR])
    assert steps.begin("try", found, LINEAR) is None and steps.conclude("try", found, LINEAR) is None
    measured(world, found, STAR)
    steps.close("try", found)
    assert [each["experiment"] for each in world.nights()[0]["experiments"]] == [STAR]


def test_a_night_that_was_not_opened_has_no_experiments(world: World) -> None:
    assert steps.begin("try", None, STAR) is None and steps.conclude("try", None, STAR) is None
    with pytest.raises(NoNight, match="night n1 of suite try is not under way any more"):
        steps.begin("try", "n1", STAR)


def test_the_deadline_skips_the_rest(world: World) -> None:
    found = steps.open_night("try", 0.01, [])
    assert [steps.begin("try", found, name) for name in (LINEAR, STAR)] == [None, None]
    assert [steps.conclude("try", found, name) for name in (LINEAR, STAR)] == ["deadline", "deadline"]
    steps.close("try", found)
    steps.judge("try")
    assert world.nights()[0]["status"] == "failed", "not a number from any; and nobody's failure"


def test_what_was_measured_and_not_analysed_is_not_complete(world: World) -> None:
    found = steps.open_night("try", 10.0, [STAR])
    measured(world, found, STAR)
    entry = tonight.of_id("try", found).entry(STAR)
    shutil.rmtree(world.results / entry.series / "tables")
    begun = replace(entry, status=tonight.BEGUN)
    tonight.write(tonight.of_id("try", found).with_entry(begun))
    assert steps.conclude("try", found, STAR) == "harness"
    reason = tonight.of_id("try", found).entry(STAR).reason
    assert reason == f"measured, but not analysed; to do that: barograph report {entry.series}"


def test_what_fails_in_the_first_task_is_the_experiments_outcome(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(*_: object, **__: object) -> Path:
        raise RunsFailed("testbed fake is in use", "capacity")

    monkeypatch.setattr("dags.steps.provision.open_requested", taken)
    found = steps.open_night("try", 10.0, [STAR])
    with pytest.raises(RunsFailed):
        steps.begin("try", found, STAR)
    assert steps.conclude("try", found, STAR) == "capacity"
    steps.close("try", found)
    with pytest.raises(RunsFailed, match="stela/star: capacity: testbed fake is in use") as seen:
        steps.judge("try")
    assert seen.value.blame == "capacity"


def test_a_newly_confirmed_regression_is_seen(world: World) -> None:
    told.write_message("try", {"new_regressions": 1, "text": "regression, confirmed", "status": "complete"})
    with pytest.raises(RegressionFound, match="regression, confirmed"):
        steps.judge("try")


def test_a_night_that_somebody_ended_lets_its_testbed_go_and_is_put_on_record_by_the_next(world: World) -> None:
    found = steps.open_night("try", 10.0, [])
    measured(world, found, LINEAR)
    night.let_go("try", found)
    assert hold.on_record("try", "fake", world.now_s) is None and tonight.read("try") is not None
    world.now_s += 86_400
    steps.open_night("try", 10.0, [])
    (ended,) = world.nights()
    assert ended["id"] == found and [each["status"] for each in ended["experiments"]] == ["complete", "interrupted"]
