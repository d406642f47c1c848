"""The catalogue: shipped templates, parameters, overrides, and how it refuses."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from topologies import catalogue
from topologies.errors import BadOverride, BadParameter, BrokenTemplate, JarMissing, UnknownParameter, UnknownTopology

# Table I of SP: tasks, initial executors and workers
TABLE_I = {
    "star": (4, 2, 12),
    "linear": (12, 6, 24),
    "diamond": (8, 4, 24),
    "page_load": (8, 4, 28),
    "processing": (8, 4, 32),
    "network_monitoring": (8, 4, 32),
}
MICRO = ("star", "linear", "diamond")


def chain(*components: str) -> set[tuple[str, str]]:
    return set(pairwise(components))


SHAPES = {
    "star": {("spout_1", "centre"), ("spout_2", "centre"), ("centre", "sink_1"), ("centre", "sink_2")},
    "linear": chain("spout", "bolt_1", "bolt_2", "sink"),
    "diamond": {("spout", f"bolt_{i}") for i in range(1, 5)} | {(f"bolt_{i}", "sink") for i in range(1, 5)},
    "page_load": chain("spout", "transform", "filter", "join", "filter_2", "aggregate", "sink"),
    "processing": chain("spout", "transform", "filter", "join_1", "sink_1")
    | chain("transform", "join_2", "normalize", "sink_2"),
    "network_monitoring": chain("spout", "parse_lines", "filter_failure", "parse_failures", "aggregate", "filter")
    | chain("filter", "functor", "join_output")
    | chain("parse_lines", "filter_success", "parse_success", "join_output"),
}
BY_FIELD = {("aggregate", "id"), ("join_output", "count")}  # in network_monitoring; everything else is shuffled
SHUFFLE = {"type": "SHUFFLE"}
SINKS = {
    "star": ("sink_1", "sink_2"),
    "linear": ("sink",),
    "diamond": ("sink",),
    "page_load": ("sink",),
    "processing": ("sink_1", "sink_2"),
    "network_monitoring": ("join_output",),
}
COSTLY = {"star": "centre", "linear": "bolt_2", "diamond": "sink"}
FIRST = {**COSTLY, "page_load": "transform", "processing": "transform", "network_monitoring": "parse_lines"}
CLASSES = {
    "page_load": ["Transform", "Filter", "Pass", "Filter", "Aggregate", "Sink"],
    "processing": ["Transform", "Filter", "Pass", "Sink", "Transform", "Pass", "Sink"],
    "network_monitoring": [
        *("Transform", "Filter", "Transform", "Aggregate", "Filter", "Transform"),
        *("Filter", "Transform", "Sink"),
    ],
}
ARGUMENTS = {  # after the cost; of a kind that costs
    "Transform": [0.8],
    "Filter": [0.8, 1],
    "Aggregate": [],
}
MEAN_CHARACTERS = 40.25


def flux(name: str, **more: Any) -> dict[str, Any]:
    rendered: dict[str, Any] = yaml.safe_load(catalogue.render(name, **more))
    return rendered


def test_the_catalogue_has_the_topologies_of_table_one() -> None:
    assert set(TABLE_I) <= set(catalogue.names())


@pytest.mark.parametrize("name", TABLE_I)
def test_sizes_are_table_one(name: str) -> None:
    topology = catalogue.read(name)
    tasks, executors, workers = TABLE_I[name]
    assert topology.workers == workers
    assert {(c.tasks, c.executors) for c in topology.components} == {(tasks, executors)}


@pytest.mark.parametrize("name", TABLE_I)
def test_shapes_are_the_papers(name: str) -> None:
    topology = catalogue.read(name)
    assert {(e.source, e.target) for e in topology.edges} == SHAPES[name]
    assert len(topology.edges) == len(SHAPES[name])
    assert {e.stream for e in topology.edges} == {"default"}
    assert topology.sinks == SINKS[name]


@pytest.mark.parametrize("name", TABLE_I)
def test_lines_are_shuffled_but_where_network_monitoring_groups_them(name: str) -> None:
    grouped = {(s["to"], *s["grouping"].get("args", ())) for s in flux(name)["streams"] if s["grouping"] != SHUFFLE}
    assert grouped == (BY_FIELD if name == "network_monitoring" else set())
    assert {e.grouping for e in catalogue.read(name).edges} <= {"shuffle", "fields"}


@pytest.mark.parametrize("name", TABLE_I)
def test_the_first_costly_component_is_offered_three_times_what_it_can_do(name: str) -> None:
    topology = catalogue.read(name)
    rate, ms = topology.parameters["rate_per_s"], topology.parameters["ms_per_character"]
    assert isinstance(rate, float) and isinstance(ms, float)
    offered = rate * paths(topology, FIRST[name])
    executors = next(c.executors for c in topology.components if c.name == FIRST[name])
    assert offered / (executors * 1000 / (MEAN_CHARACTERS * ms)) == pytest.approx(
        3, rel=0.05
    )  # before anything thins it out


def paths(topology: catalogue.TopologySpec, component: str) -> int:
    """Copies of each spout tuple that reach the component, summed over spouts: every edge carries every tuple."""
    sources = [edge.source for edge in topology.edges if edge.target == component]
    return sum(paths(topology, source) for source in sources) if sources else 1


@pytest.mark.parametrize("name", MICRO)
def test_only_the_costly_component_costs(name: str) -> None:
    arguments = {bolt["id"]: bolt["constructorArgs"] for bolt in flux(name)["bolts"]}
    assert arguments.pop(COSTLY[name]) == ["sleep", catalogue.read(name).parameters["ms_per_character"]]
    assert all(cost == ["none", 0.0] for cost in arguments.values())


@pytest.mark.parametrize("name", CLASSES)
def test_components_cost_what_the_authors_cost(name: str) -> None:
    bolts = flux(name, parameters={"cost_model": "busy", "ms_per_character": 0.5})["bolts"]
    kinds = [bolt["className"].removeprefix("barograph.topologies.").removesuffix("Bolt") for bolt in bolts]
    assert kinds == CLASSES[name]
    for kind, bolt in zip(kinds, bolts, strict=True):
        costs = ["busy", 0.5, *ARGUMENTS[kind]] if kind in ARGUMENTS else ["none", 0.0]
        assert bolt["constructorArgs"] == costs, bolt["id"]


@pytest.mark.parametrize("name", CLASSES)
def test_a_filter_draws_by_the_seed(name: str) -> None:
    bolts = flux(name, parameters={"seed": 77})["bolts"]
    assert {b["constructorArgs"][-1] for b in bolts if b["className"].endswith("FilterBolt")} == {77}


@pytest.mark.parametrize("name", catalogue.names())
def test_every_template_measures_and_declares_what_it_uses(name: str) -> None:
    rendered = flux(name)
    config = rendered["config"]
    assert config["topology.acker.executors"] == (1 if catalogue.has_state(rendered) else 0)
    assert config["topology.stats.sample.rate"] == 1.0
    assert config["topology.disable.loadaware.messaging"] is True
    assert config["topology.auto.task.hooks"] == ["barograph.topologies.measure.MeasuringHook"]
    assert "${" not in yaml.safe_dump(rendered)
    sources = Path(catalogue.__file__).parent / "src/main/java"
    classes = [c.class_name for c in catalogue.read(name).components]
    classes += config["topology.auto.task.hooks"] + [r["class"] for r in config["topology.metrics.reporters"]]
    classes.append(config["topology.backpressure.wait.strategy"])
    for class_name in classes:
        assert (sources / f"{class_name.replace('.', '/')}.java").is_file(), class_name


def test_a_template_lays_its_own_settings_over_the_shared_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "storm.yaml"
    shared.write_text("topology.workers: 99\ntopology.acker.executors: 7\n")
    monkeypatch.setattr(catalogue, "_SHARED", shared)
    config = flux("star")["config"]
    assert (config["topology.workers"], config["topology.acker.executors"]) == (12, 7)
    assert "topology.metrics.reporters" not in config


@pytest.mark.parametrize(
    ("text", "message"), [("- 1", r"\[1\] is not a mapping"), ("a: [", "cannot be read"), (None, "cannot be read")]
)
def test_broken_shared_settings_are_named(
    text: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "storm.yaml"
    monkeypatch.setattr(catalogue, "_SHARED", shared)
    if text is not None:
        shared.write_text(text)
    with pytest.raises(BrokenTemplate, match=f"storm.yaml: {message}") as caught:
        catalogue.read("star")
    assert caught.value.blame == "configuration"


def test_parameters_reach_the_components() -> None:
    rendered = flux("star", parameters={"rate_per_s": 50, "cost_model": "busy", "ms_per_character": 0.5, "seed": 9})
    assert [spout["constructorArgs"] for spout in rendered["spouts"]] == [[50, 9, False, "catch_up"]] * 2
    assert rendered["bolts"][0]["constructorArgs"] == ["busy", 0.5]
    assert rendered["config"]["barograph.parameters"]["rate_per_s"] == 50


def test_overrides_change_sizes_and_configuration() -> None:
    changes = {"workers": 4, "executors": {"centre": 5}, "tasks": {"centre": 6}, "config": {"barograph.traffic": True}}
    topology = catalogue.read_flux(catalogue.render("star", overrides=changes))
    centre = next(c for c in topology.components if c.name == "centre")
    assert (topology.workers, centre.executors, centre.tasks) == (4, 5, 6)
    assert flux("star", overrides=changes)["config"]["barograph.traffic"] is True
    assert catalogue.read("star").workers == 12


@pytest.mark.parametrize("text", ["12345e6", "1e1", "0100", "1:30", "yes", "null", "a: b # c"])
def test_text_stays_text_for_every_reader_of_yaml(text: str) -> None:
    """SnakeYAML, which Storm has, takes 1e1 for a number."""
    rendered = catalogue.render("star", overrides={"config": {"some.setting": text, "some.number": 1e-05}})
    assert f'"some.setting": "{text}"' in rendered
    config = yaml.safe_load(rendered)["config"]
    assert (config["some.setting"], config["some.number"]) == (text, 1e-05)


def test_an_unknown_topology_lists_the_known_ones() -> None:
    with pytest.raises(UnknownTopology, match=r"'ring'.*diamond, joins, linear, network_monitoring, opengov") as caught:
        catalogue.read("ring")
    assert caught.value.blame == "configuration"


def test_an_unknown_parameter_lists_the_known_ones() -> None:
    with pytest.raises(
        UnknownParameter, match=r"star: parameter 'rate'.*cost_model, ms_per_character, on_restart, rate_per_s"
    ):
        catalogue.render("star", {"rate": 1})


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("rate_per_s", 0, "above 0"),
        ("rate_per_s", float("inf"), "a number of at most"),
        ("rate_per_s", True, "a number of at most"),
        ("rate_per_s", "fast", "a number of at most"),
        ("ms_per_character", -0.1, "0 or more"),
        ("cost_model", "spin", "one of none, sleep, busy"),
        ("seed", 1.5, "a whole number"),
        ("seed", False, "a whole number"),
        ("unthrottled", "yes", "true or false"),
        ("on_restart", "forget", "one of catch_up, skip"),
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
        ({"spouts": None}, r"star.yaml.spouts is missing; write a list"),
        ({"spouts": [{"id": "a"}]}, r"star.yaml: spouts.0.className is missing; write text"),
        ({"bolts": ["a"]}, r"star.yaml: bolts.0 is 'a'; write a mapping"),
        ({"streams": [{"from": "spout_1", "to": "centre"}]}, r"streams.0.grouping is missing; write a mapping"),
        ({"streams": [{"from": "a", "to": "spout_1", "grouping": SHUFFLE}]}, r"streams.0.from is 'a', not a component"),
        ({"streams": [{"from": "__system", "to": "centre", "grouping": SHUFFLE}]}, "remove this stream, which Storm"),
        ({"includes": [{"file": "more.yaml"}]}, r"includes is .*more.yaml.* is not read here; copy what is in those"),
        ({"topologySource": {"className": "A"}}, "topologySource is .*write spouts and bolts"),
    ],
)
def test_a_template_that_cannot_be_read_is_the_users_to_mend(damage: dict[str, Any], message: str) -> None:
    with pytest.raises(BrokenTemplate, match=message) as caught:
        catalogue.topology_of_flux("star", {**flux("star"), **damage})
    assert caught.value.blame == "configuration"


WORD_COUNT = """
name: "yaml-topology"
config:
  topology.workers: 1
spouts:
  - id: "spout-1"
    className: "org.apache.storm.testing.TestWordSpout"
bolts:
  - id: "bolt-1"
    className: "org.apache.storm.testing.TestWordCounter"
    parallelism: 2
streams:
  - {name: "spout-1 --> bolt-1", from: "spout-1", to: "bolt-1", grouping: {type: FIELDS, args: ["word"]}}
"""


def test_storms_own_example_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_FLUX", tmp_path)
    (tmp_path / "words.yaml").write_text(WORD_COUNT)
    spec = catalogue.read_flux(catalogue.render("words", overrides={"tasks": {"spout-1": 3}, "workers": 2}))
    assert [(each.name, each.executors, each.tasks) for each in spec.components] == [
        ("spout-1", 1, 3),
        ("bolt-1", 2, 2),
    ]
    assert (spec.workers, spec.parameters, spec.sinks) == (2, {}, ("bolt-1",))
    (tmp_path / "words.yaml").write_text(WORD_COUNT.split("bolts:")[0])
    assert [each.name for each in catalogue.read("words").components] == ["spout-1"]


def test_a_missing_jar_says_how_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_HERE", tmp_path)
    with pytest.raises(JarMissing, match=r"mvn .* package"):
        catalogue.jar()
    (tmp_path / "target").mkdir()
    (tmp_path / "target/barograph-topologies.jar").touch()
    assert catalogue.jar().is_file()


def test_the_stateful_form_differs_in_what_counts_and_in_storm_s_settings() -> None:
    plain, stateful = flux("word_count"), flux("word_count_stateful")
    assert not catalogue.has_state(plain) and catalogue.has_state(stateful)
    differences = {key: value for key, value in stateful["config"].items() if plain["config"].get(key) != value}
    assert differences == {
        "topology.acker.executors": 1,
        "topology.state.provider": "barograph.topologies.RedisStateProvider",
        "topology.state.checkpoint.interval.ms": 1000,
        "topology.classpath": "/opt/barograph/storm/lib-redis/*",
        "topology.kryo.register": ["java.util.Collections$EmptyMap", "org.apache.storm.spout.CheckPointState$Action"],
    }
    (count,) = [bolt for bolt in stateful["bolts"] if bolt["id"] == "count"]
    assert count["className"] == "barograph.topologies.StatefulAggregateBolt"
    plain["bolts"][1]["className"] = count["className"]
    assert all(plain[key] == stateful[key] for key in ("spouts", "bolts", "streams"))


def test_state_without_acks_is_refused() -> None:
    with pytest.raises(BadOverride, match=r"topology\.acker\.executors is 0; .* leave it out"):
        catalogue.render("word_count_stateful", overrides={"config": {"topology.acker.executors": 0}})
