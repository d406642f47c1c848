"""Points of a sweep: every combination, each an experiment; what is wrong names file, point and field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from barograph.errors import ExperimentError
from barograph.plan import sweep
from barograph.plan.blocks import plan_runs
from barograph.plan.experiment import EXPERIMENTS, parse
from barograph.plan.sweep import Sweep, load, require_simulated, sweep_digest, sweep_of
from barograph.testbeds.checks import check


def star(swept: Any, **changes: Any) -> Sweep:
    data = yaml.safe_load((EXPERIMENTS / "stela" / "star.yaml").read_text())
    data["testbed"]["name"] = "simulated"
    data["repetitions"] = 1
    return sweep_of("stela/x", {**data, "sweep": swept}, changes, folder=EXPERIMENTS / "stela")


def test_points_are_all_combinations_the_last_field_fastest() -> None:
    found = star({"topology.parameters.rate_per_s": [90, 180], "seed": [1, 2, 3]})
    points = found.points()
    assert found.words() == "6 points (2 of topology.parameters.rate_per_s × 3 of seed)"
    chosen = [(p.experiment.every_topology()[0].parameters["rate_per_s"], p.experiment.seed) for p in points]
    assert chosen == [
        (90, 1), (90, 2), (90, 3), (180, 1), (180, 2), (180, 3),
    ]  # fmt: skip
    assert [point.number for point in points] == [1, 2, 3, 4, 5, 6]
    assert sorted(point.point_id for point in points) == [point.point_id for point in points]
    assert points[0].experiment.name == "stela/x" and points[0].runs == 2


def test_machines_after_follow_from_the_events() -> None:
    points = star({"machines.before": [4, 80], "events.0.machines": [1, 20]}).points()
    assert [(p.experiment.machines.before, p.experiment.machines.after) for p in points] == [
        (4, 5), (4, 24), (80, 81), (80, 100),
    ]  # fmt: skip


def test_fields_of_one_key_change_together() -> None:
    points = star({"machines.before, variants.stela.parameters.window_s": [[4, 60], [8, 90]]}).points()
    assert [(p.experiment.machines.before, p.experiment.variants[1].parameters) for p in points] == [
        (4, {"window_s": 60}), (8, {"window_s": 90}),
    ]  # fmt: skip


def test_throughput_is_measured_at_one_place_in_all_points() -> None:
    """Curves would join numbers of spouts and of sinks. Of another place than the sinks the request says so."""
    with pytest.raises(ExperimentError, match=r"point 2 .*throughput is measured at spouts, and in point 1 at sinks"):
        star({"topology.throughput": ["sinks", "spouts"]}).points()
    (spouts,) = star({"topology.throughput": ["spouts"]}).points()
    (sinks,) = star({"topology.throughput": ["sinks"]}).points()
    assert spouts.experiment.as_data()["topology"]["throughput"] == "spouts"
    assert "throughput" not in sinks.experiment.as_data()["topology"] and spouts.point_id != sinks.point_id
    (mistyped,) = star({"topology.throughput": ["centr"]}).points()
    with pytest.raises(
        ExperimentError, match="star: throughput is 'centr'; allowed: sinks, spouts, spout_1, spout_2, centre"
    ):
        check(mistyped.experiment)


def test_a_setting_of_storm_is_one_key_with_its_dots() -> None:
    (point,) = star({"topology.overrides.config.topology.max.spout.pending": [5]}).points()
    assert point.experiment.topology is not None
    assert point.experiment.topology.overrides == {"config": {"topology.max.spout.pending": 5}}


def test_what_the_command_line_changes_is_changed_in_every_point() -> None:
    points = star({"seed": [1, 3]}, variants=["stela"], repetitions=2, horizon_s=90.0).points()
    assert {
        (len(p.experiment.variants), p.experiment.repetitions, p.experiment.durations.horizon_s) for p in points
    } == {(1, 2, 90.0)}


@pytest.mark.parametrize(
    ("path", "changes", "field"),
    [
        ("testbed.options.simulated.costs.noise", {"options": {"costs": {"send_us": 1.0}}}, "options.simulated.costs"),
        ("testbed.options.simulated.seed", {"options": {"seed": 7}}, "testbed.options.simulated.seed"),
        ("testbed.options", {"options": {"seed": 7}}, "testbed.options.simulated.seed"),
        ("durations.horizon_s", {"horizon_s": 90.0}, "durations.horizon_s"),
        ("repetitions", {"repetitions": 2}, "repetitions"),
        ("testbed.name", {"testbed": "simulated"}, "testbed.name"),
    ],
)
def test_what_the_command_line_changes_is_not_swept(path: str, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ExperimentError, match=rf"^stela/x\.yaml: sweep has {path}, and .* sets \S*{field} of every"):
        star({path: [1, 2, 3]}, **changes)


@pytest.mark.parametrize(
    ("swept", "changes", "said"),
    [
        ({"seed": [1, 2, 3]}, {"repetitions": 3}, "point 2 (seed = 2) has runs of point 1 once more: a repetition has"),
        ({"repetitions": [1, 2]}, {}, "point 2 (repetitions = 2) has runs of point 1 once more: in all that is"),
        ({"seed": [5, 2, 8]}, {"repetitions": 4}, "point 1 (seed = 5) has runs of point 2 once more: a repetition has"),
        (
            {"machines.before": [4, 8], "seed": [1, 3]}, {"repetitions": 3},
            "give seeds that are at least 3 apart, or repetitions: 1",
        ),
        (
            {"variants.stela.parameters.window_s": [60, 90]}, {"variants": ("even_rebalance",)},
            "has runs of point 1 once more: in all that is simulated the two are equal; leave one out",
        ),
    ],
)  # fmt: skip
def test_no_run_is_counted_twice(swept: Any, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ExperimentError) as refused:
        star(swept, **changes).points()
    assert said in str(refused.value)


def test_repetitions_beside_seeds_that_lie_apart_are_runs_of_their_own() -> None:
    points = star({"machines.before": [4, 8], "seed": [1, 4], "testbed.options.simulated.seed": [1, 2]}, repetitions=3)
    seeds = [run.seed for point in points.points()[:4:2] for run in plan_runs(point.experiment)]
    assert sorted(seeds) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6], "of two variants"


def test_the_same_request_has_the_same_digest_and_another_has_another() -> None:
    def digest(*seeds: int) -> str:
        return sweep_digest(star({"seed": list(seeds)}).points())

    assert digest(1, 2) == digest(1, 2)
    assert len({digest(1, 2), digest(2, 1), digest(1, 3), digest(1)}) == 4


@pytest.mark.parametrize(
    ("swept", "said"),
    [
        ({}, "stela/x.yaml: sweep is {}; allowed: fields with lists"),
        ({"seed": 3}, "stela/x.yaml: sweep.seed is 3; allowed: a list"),
        ({"seed": []}, "sweep.seed is []; allowed: a list"),
        ({"seed": [1, 2, 1]}, "sweep.seed has 1 twice"),
        ({"seed": [float("inf")]}, "stela/x.yaml: seed is inf; allowed: text, finite numbers"),
        ({"seed": list(range(10_001))}, "10001 points (10001 of seed); allowed: at most 10000 points"),
        ({"name": ["a/b"]}, "sweep has the field name; allowed: the keys of an experiment's file"),
        ({"machines..before": [1]}, "sweep has the field 'machines..before'; allowed: keys with dots"),
        ({"machines": [1], "machines.before": [2]}, "sweep sets machines.before twice"),
        ({"seed, machines.before": [[1, 2], [3]]}, "has [3]; allowed: a list with a value of each of its 2 fields"),
        ({"machines.before, seed": [[4, 1], [8, 1], [4, 2]]}, "has the value 4 of machines.before twice; fields that"),
    ],
)  # fmt: skip
def test_a_wrong_sweep_is_refused_before_there_is_a_point(swept: Any, said: str) -> None:
    with pytest.raises(ExperimentError) as refused:
        star(swept)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("swept", "said"),
    [
        ({"machines.befor": [3]}, "stela/x.yaml, point 1 (machines.befor = 3): unknown key machines.befor"),
        ({"events.0.machines": [1, 0]}, "point 2 (events.0.machines = 0): events.0.machines is 0; allowed"),
        ({"events.1.machines": [1]}, "events has no '1'; allowed: places from 0 to 0"),
        ({"variants.stel.policy": ["even"]}, "variants has no 'stel'; allowed: the names even_rebalance, stela"),
        ({"title.x": [1]}, "which has no fields; allowed: title"),
        ({"seed": [1, -1]}, "point 2 (seed = -1): seed is -1"),
        ({"machines.after": [5, 9]}, "point 2 (machines.after = 9): machines.after is 9, but machines.before (4)"),
    ],
)  # fmt: skip
def test_a_wrong_value_names_its_point_and_field(swept: Any, said: str) -> None:
    with pytest.raises(ExperimentError) as refused:
        star(swept).points()
    assert said in str(refused.value)


def test_points_on_machines_are_refused_with_the_reason() -> None:
    mixed = star({"testbed.name": ["simulated", "local"]})
    with pytest.raises(ExperimentError, match=r"point 2 .*'local' \(1 of 2 points are not simulated\).*side by side"):
        require_simulated(mixed, mixed.points())
    data = yaml.safe_load((EXPERIMENTS / "stela" / "star.yaml").read_text())
    assert data["testbed"]["name"] != "simulated"
    changed = sweep_of(
        "stela/x", {**data, "sweep": {"machines.before": [4, 8]}}, {"testbed": "simulated"}, folder=EXPERIMENTS
    )
    require_simulated(changed, changed.points())


def test_code_of_commits_is_refused_with_what_to_do() -> None:
    coded = star({"variants.stela.code": [{"ref": "main"}], "seed": [1, 2]})
    with pytest.raises(ExperimentError, match=r"point 1 .*: variants\.stela\.code is set; .* barograph compare"):
        require_simulated(coded, coded.points())


def test_an_experiment_is_not_read_from_a_file_with_a_sweep() -> None:
    with pytest.raises(ExperimentError, match="run them with: barograph sweep"):
        parse("a/b", {"sweep": {"seed": [1]}}, source="a/b.yaml")
    with pytest.raises(ExperimentError, match=r"sweep is missing.*barograph run stela/x"):
        sweep_of("stela/x", {"title": "x"}, {}, folder=Path())


def test_a_sweep_that_is_nowhere_lists_those_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=r"no sweep 'stela/nothing'.*stela/star_rates"):
        load("stela/nothing", {})
    with pytest.raises(ExperimentError, match="neither a file"):
        load(str(tmp_path), {})


@pytest.mark.parametrize("name", sweep.names())
def test_every_sweep_that_ships_can_be_simulated(name: str) -> None:
    shipped = load(name, {})
    points = shipped.points()
    require_simulated(shipped, points)
    for point in (points[0], points[-1]):
        check(point.experiment)
