"""The catalogue: shipped templates, parameters, overrides, and how it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from topologies import catalogue, shape
from topologies.errors import BadOverride, BadParameter, BrokenTemplate, JarMissing, UnknownParameter, UnknownTopology

# Table I of SP: tasks, initial executors and workers
TABLE_I = {"star": (4, 2, 12), "linear": (12, 6, 24), "diamond": (8, 4, 24)}
SHAPES = {
    "star": {("spout_1", "centre"), ("spout_2", "centre"), ("centre", "sink_1"), ("centre", "sink_2")},
    "linear": {("spout", "bolt_1"), ("bolt_1", "bolt_2"), ("bolt_2", "sink")},
    "diamond": {("spout", f"bolt_{i}") for i in range(1, 5)} | {(f"bolt_{i}", "sink") for i in range(1, 5)},
}
COSTLY = {"star": "centre", "linear": "bolt_2", "diamond": "sink"}
MEAN_CHARACTERS = 40.25


def flux(name: str, **more: Any) -> dict[str, Any]:
    rendered: dict[str, Any] = yaml.safe_load(catalogue.render(name, **more))
    return rendered


def test_the_catalogue_has_the_micro_benchmarks() -> None:
    assert set(TABLE_I) <= set(catalogue.names())


@pytest.mark.parametrize("name", TABLE_I)
def test_sizes_are_table_one(name: str) -> None:
    topology = catalogue.read(name)
    tasks, executors, workers = TABLE_I[name]
    assert topology.workers == workers
    assert {(c.tasks, c.executors) for c in topology.components} == {(tasks, executors)}
    assert {(e.source, e.target) for e in topology.edges} == SHAPES[name]
    assert {e.grouping for e in topology.edges} == {"shuffle"}
    assert {e.stream for e in topology.edges} == {"default"}


def test_sinks_emit_to_nobody() -> None:
    assert catalogue.read("star").sinks == ("sink_1", "sink_2")
    assert catalogue.read("linear").sinks == ("sink",)


@pytest.mark.parametrize("name", TABLE_I)
def test_the_costly_component_is_offered_three_times_what_it_can_do(name: str) -> None:
    topology = catalogue.read(name)
    rate, ms = topology.parameters["rate_per_s"], topology.parameters["ms_per_character"]
    assert isinstance(rate, float) and isinstance(ms, float)
    offered = rate * paths(topology, COSTLY[name])
    executors = next(c.executors for c in topology.components if c.name == COSTLY[name])
    assert offered / (executors * 1000 / (MEAN_CHARACTERS * ms)) == pytest.approx(3, rel=0.05)


def paths(topology: catalogue.Topology, component: str) -> int:
    """Copies of each spout tuple that reach the component, summed over spouts: every edge carries every tuple."""
    sources = [edge.source for edge in topology.edges if edge.target == component]
    return sum(paths(topology, source) for source in sources) if sources else 1


@pytest.mark.parametrize("name", TABLE_I)
def test_only_the_costly_component_costs(name: str) -> None:
    arguments = {bolt["id"]: bolt["constructorArgs"] for bolt in flux(name)["bolts"]}
    assert arguments.pop(COSTLY[name]) == ["sleep", catalogue.read(name).parameters["ms_per_character"]]
    assert all(cost == ["none", 0.0] for cost in arguments.values())


@pytest.mark.parametrize("name", catalogue.names())
def test_every_template_measures_and_declares_what_it_uses(name: str) -> None:
    rendered = flux(name)
    config = rendered["config"]
    assert config["topology.acker.executors"] == 0
    assert config["topology.stats.sample.rate"] == 1.0
    assert config["topology.disable.loadaware.messaging"] is True
    assert config["topology.auto.task.hooks"] == ["barograph.topologies.measure.MeasuringHook"]
    assert "${" not in yaml.safe_dump(rendered)
    sources = Path(catalogue.__file__).parent / "src/main/java"
    classes = [c.class_name for c in catalogue.read(name).components]
    classes += config["topology.auto.task.hooks"] + [r["class"] for r in config["topology.metrics.reporters"]]
    for class_name in classes:
        assert (sources / f"{class_name.replace('.', '/')}.java").is_file(), class_name


def test_parameters_reach_the_components() -> None:
    rendered = flux("star", parameters={"rate_per_s": 50, "cost_model": "busy", "ms_per_character": 0.5, "seed": 9})
    assert [spout["constructorArgs"] for spout in rendered["spouts"]] == [[50, 9, False]] * 2
    assert rendered["bolts"][0]["constructorArgs"] == ["busy", 0.5]
    assert rendered["config"]["barograph.parameters"]["rate_per_s"] == 50


def test_overrides_change_sizes_and_configuration() -> None:
    changes = {"workers": 4, "executors": {"centre": 5}, "tasks": {"centre": 6}, "config": {"barograph.traffic": True}}
    topology = catalogue.read_flux(catalogue.render("star", overrides=changes))
    centre = next(c for c in topology.components if c.name == "centre")
    assert (topology.workers, centre.executors, centre.tasks) == (4, 5, 6)
    assert flux("star", overrides=changes)["config"]["barograph.traffic"] is True
    assert catalogue.read("star").workers == 12


def test_an_unknown_topology_lists_the_known_ones() -> None:
    with pytest.raises(UnknownTopology, match=r"'ring'.*diamond, linear, star") as caught:
        catalogue.read("ring")
    assert caught.value.blame == "configuration"


def test_an_unknown_parameter_lists_the_known_ones() -> None:
    with pytest.raises(UnknownParameter, match=r"star: parameter 'rate'.*cost_model, ms_per_character, rate_per_s"):
        catalogue.render("star", {"rate": 1})


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("rate_per_s", 0, "above 0"),
        ("rate_per_s", float("inf"), "a finite number"),
        ("rate_per_s", True, "a finite number"),
        ("rate_per_s", "fast", "a finite number"),
        ("ms_per_character", -0.1, "0 or more"),
        ("cost_model", "spin", "one of none, sleep, busy"),
        ("seed", 1.5, "a whole number"),
        ("seed", False, "a whole number"),
        ("unthrottled", "yes", "true or false"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(key: str, value: Any, allowed: str) -> None:
    with pytest.raises(BadParameter, match=f"star: parameter {key}: .* is not {allowed}"):
        catalogue.render("star", {key: value})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"executors": {"centre": 5}}, r"component centre: executors: 5 are more than its 4 tasks; .*lower executors"),
        ({"tasks": {"centre": 1}}, "component centre: executors: 2 are more than its 1 tasks"),
        ({"executors": {"center": 2}}, r"executors: component 'center' does not exist; there are spout_1, .*sink_2"),
        ({"workers": 0}, "workers: 0 is not a whole number"),
        ({"workers": True}, "workers: True is not a whole number"),
        ({"executors": {"centre": 1.5}}, "component centre: executors: 1.5 is not a whole number"),
        ({"executors": 3}, "executors: 3 does not map components to whole numbers"),
        ({"worker": 3}, "override 'worker' is unknown; known are workers, tasks, executors, config"),
    ],
)
def test_a_bad_override_is_refused(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(BadOverride, match=message) as caught:
        catalogue.render("star", overrides=overrides)
    assert caught.value.blame == "configuration"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"bolts": None}, "cannot be read"),
        ({"streams": [{"from": "a", "to": "spout_1", "grouping": {"type": "ALL"}}]}, "'a' is not a component"),
    ],
)
def test_a_broken_template_is_our_fault(damage: dict[str, Any], message: str) -> None:
    with pytest.raises(BrokenTemplate, match=message) as caught:
        shape.topology("star", {**flux("star"), **damage})
    assert caught.value.blame == "harness"


def test_a_missing_jar_says_how_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_HERE", tmp_path)
    with pytest.raises(JarMissing, match=r"mvn .* package"):
        catalogue.jar()
    (tmp_path / "target").mkdir()
    (tmp_path / "target/barograph-topologies.jar").touch()
    assert catalogue.jar().is_file()
