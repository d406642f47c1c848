"""Topologies and experiments as the simulator wants them, and what it refuses in words."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from barograph.errors import ExperimentError
from barograph.plan.events.scaling import AutonomousPhase
from barograph.plan.experiment import Code, Experiment, MachineCount, Variant, load, names
from barograph.plan.simulation import complaints, is_simulated, simulated_topology
from barograph.plan.topologies import TopologyChanges
from barograph.settings import ROOT
from barograph.testbeds.checks import WINDOW_SETTING, check
from scheduler_plugins.simulator.work import Acking, Costs, SimulationError, Waits
from tests.support.worlds import Totals, world_of
from topologies import catalogue, work
from topologies.errors import UnknownWork


def on_simulator(name: str) -> Experiment:
    experiment = load(name)
    return replace(experiment, testbed=replace(experiment.testbed, name="simulated"))


def test_tasks_are_numbered_as_storm_does_it() -> None:
    """Components in the order of their names: centre, sink_1, sink_2, spout_1, spout_2; four tasks each."""
    topology, simulated = simulated_topology(catalogue.render("star"), "star-1-5")
    assert topology.topology_id == "star-1-5" and topology.workers == 12
    tasks = {component.name: component.tasks for component in topology.components}
    assert tasks["centre"] == (1, 2, 3, 4) and tasks["spout_2"] == (17, 18, 19, 20)
    executors = {c.name: [(e.first_task, e.last_task) for e in c.executors] for c in topology.components}
    assert executors["sink_1"] == [(5, 6), (7, 8)]
    assert {component.name: component.tasks for component in simulated.components} == tasks


def test_costs_and_shares_are_those_of_the_classes() -> None:
    _, star = simulated_topology(catalogue.render("star"), "x-1")
    spout, centre, sink = (next(c for c in star.components if c.name == n) for n in ("spout_1", "centre", "sink_1"))
    assert (spout.rate_per_s, spout.on_restart) == (360.0, "catch_up")
    assert centre.sleep_ms == pytest.approx(40.25 * 0.2) and centre.cpu_ms == 0 and centre.buffer == 65536
    assert centre.cost_cv2 == pytest.approx(work.squared_variation(work.SOURCE_LENGTHS))
    assert (sink.sleep_ms, sink.cost_cv2) == (0.0, 0.0)
    given = {"cost_model": "busy", "on_restart": "skip"}
    _, busy = simulated_topology(catalogue.render("star", given), "x-1")
    centre = next(c for c in busy.components if c.name == "centre")
    assert (centre.sleep_ms, centre.cpu_ms) == (0.0, pytest.approx(40.25 * 0.2))
    _, page_load = simulated_topology(catalogue.render("page_load"), "x-1")
    edges = {(edge.source, edge.target): edge for edge in page_load.edges}
    assert edges["filter", "join"].selectivity == 0.8 and edges["transform", "filter"].selectivity == 1.0
    assert edges["spout", "transform"].tuple_bytes == pytest.approx(40.25 + work.LINE_BYTES)
    assert edges["transform", "filter"].tuple_bytes == pytest.approx(32.2 + work.LINE_BYTES, abs=0.5)


def test_a_spout_without_a_rate_is_greedy() -> None:
    _, star = simulated_topology(catalogue.render("star", {"unthrottled": True}), "x-1")
    assert {component.rate_per_s for component in star.components} == {None}


def test_ackers_are_a_component_of_storm_s_own_whose_tasks_come_first() -> None:
    """Its name begins with a character that is before all letters that we use. A policy sees it without its streams."""
    config = {work.ACKERS: 2, work.PENDING: 50, work.TIMEOUT: 40}
    topology, simulated = simulated_topology(catalogue.render("star", {}, {"config": config}), "x-1")
    tasks = {component.name: component.tasks for component in topology.components}
    assert tasks["__acker"] == (1, 2) and tasks["centre"] == (3, 4, 5, 6)
    acker = topology.component("__acker")
    assert acker.kind == "system" and [(e.first_task, e.last_task) for e in acker.executors] == [(1, 1), (2, 2)]
    assert {edge.stream for edge in topology.edges} == {"default"}
    assert simulated.acking == Acking(pending=50, timeout_s=40.0, ack_bytes=work.COMPLETE_BYTES)
    acks = {edge.source: (edge.stream, edge.target, edge.grouping) for edge in simulated.edges if edge.is_system}
    assert acks["spout_1"] == ("__ack_init", "__acker", "fields") and acks["sink_2"] == (
        "__ack_ack",
        "__acker",
        "fields",
    )
    assert len(acks) == 5
    plain = {edge.source: edge.tuple_bytes for edge in simulated_topology(catalogue.render("star"), "x-1")[1].edges}
    with_ids = {edge.source: edge.tuple_bytes for edge in simulated.edges if not edge.is_system}
    assert with_ids == {name: size + 16 for name, size in plain.items()}, "each tuple names its tree and itself"


@pytest.mark.parametrize(("ackers", "tasks"), [(0, ()), (None, tuple(range(1, 13)))])
def test_without_a_number_there_is_an_acker_a_worker(ackers: int | None, tasks: tuple[int, ...]) -> None:
    topology, simulated = simulated_topology(catalogue.render("star", {}, {"config": {work.ACKERS: ackers}}), "x-1")
    found = [component.tasks for component in topology.components if component.kind == "system"]
    assert found == ([tasks] if tasks else []) and (simulated.acking is None) == (ackers == 0)


def test_executors_look_for_tuples_as_the_topology_s_settings_have_it() -> None:
    _, star = simulated_topology(catalogue.render("star"), "x-1")
    assert (star.bolt_waits, star.spout_waits) == (Waits(work.PARK_S, 0.010), Waits(work.PARK_S, 0.010))
    where = "topology.bolt.wait.progressive"
    config = {f"{where}.level2.count": 1000, f"{where}.level3.sleep.millis": 1}
    _, star = simulated_topology(catalogue.render("star", {}, {"config": config}), "x-1")
    assert star.bolt_waits == Waits(pytest.approx(0.060), 0.001)


def test_a_cycle_is_refused_in_the_words_of_storm_s_warning() -> None:
    flux = yaml.safe_load(catalogue.render("star"))
    flux["streams"].append({"from": "sink_1", "to": "centre", "grouping": {"type": "SHUFFLE"}})
    said = 'topology star contains cycles in components "centre,sink_1"; the simulator has no cycles: take the local'
    with pytest.raises(SimulationError, match=said):
        simulated_topology(yaml.safe_dump(flux), "x-1")


def test_a_class_of_others_is_refused() -> None:
    flux = yaml.safe_load(catalogue.render("star"))
    flux["bolts"][1]["className"] = "org.example.Theirs"
    with pytest.raises(UnknownWork, match="component sink_1"):
        simulated_topology(yaml.safe_dump(flux), "x-1")


@pytest.mark.parametrize("name", names())
def test_every_experiment_that_ships_can_be_simulated_or_is_refused_in_words(name: str) -> None:
    said = complaints(on_simulator(name))
    of_storm = [variant for variant in load(name).variants if variant.policy == "storm"]
    stateful = [each for each in said if " has state: what" in each]
    assert bool(stateful) == (name == "henge/stateful")
    said = [each for each in said if each not in stateful]
    stock = [each for each in said if "topology.worker.childopts is not simulated" in each]
    assert len(stock) == (3 if name == "settings/interruption" else 0), "variants whose JVMs differ"
    others = [each for each in said if each not in stock]
    assert all("places in a real Nimbus only" in each for each in others)
    assert len(others) <= len(of_storm)
    assert complaints(load(name)) == [] or is_simulated(load(name))


def test_a_scheduler_of_others_is_refused_and_code_of_ours_is_not() -> None:
    star = on_simulator("stela/star")
    ours = Variant("other", "even", code=Code(commit="main"))
    assert complaints(replace(star, variants=(ours,))) == []
    theirs = replace(ours, code=Code(repository="https://example.org/x.git", jar="x.jar", scheduler="org.example.X"))
    with pytest.raises(ExperimentError, match=r"variants.other.code: org.example.X needs a real Nimbus"):
        check(replace(star, variants=(theirs,)))


def test_schedulers_that_only_nimbus_has_are_refused() -> None:
    star = on_simulator("stela/star")
    aware = Variant("aware", "storm", {"scheduler": "resource_aware"})
    assert complaints(replace(star, variants=(aware,))) == [
        "variants.aware: Storm's resource_aware scheduler places in a real Nimbus only; simulated are default, even"
    ]


@pytest.mark.parametrize(
    ("key", "is_simulated"),
    [
        ("topology.max.spout.pending", True),
        ("topology.bolt.wait.progressive.level3.sleep.millis", True),
        ("barograph.traffic", True),
        ("topology.worker.childopts", False),
        ("topology.transfer.batch.size", False),
    ],
)
def test_settings_without_an_effect_in_the_model_are_refused(key: str, is_simulated: bool) -> None:
    """Of the experiment and of a variant: the answer would be that they make no difference."""
    star = on_simulator("stela/star")
    config = {"config": {key: 5}}
    assert star.topology is not None
    everywhere = replace(star, topology=replace(star.topology, overrides=config))
    own = replace(star, variants=(replace(star.variants[0], topology=TopologyChanges(overrides=config)),))
    for changed in (everywhere, own):
        said = complaints(changed)
        assert bool(said) is not is_simulated
        assert all(f"overrides.config: {key} is not simulated; simulated are topology.acker" in each for each in said)


WRONG = [
    (work.BUFFER, "null", "a whole number of 2 or more; unbounded on the simulated testbed"),
    (work.BUFFER, "large", "a whole number of 2 or more; unbounded on the simulated testbed"),
    (work.BUFFER, "1", "a whole number of 2 or more; unbounded on the simulated testbed"),
    (work.BUFFER, "true", "a whole number of 2 or more; unbounded on the simulated testbed"),
    (work.ACKERS, "some", "a whole number of 0 or more, or null for one a worker"),
    (work.ACKERS, "1.5", "a whole number of 0 or more, or null for one a worker"),
    (work.PENDING, "0", "a whole number of 1 or more, or null for any number"),
    (work.PENDING, "[5]", "a whole number of 1 or more, or null for any number"),
    (work.TIMEOUT, "null", "a whole number of 1 or more"),
    (work.TIMEOUT, "{a: 1}", "a whole number of 1 or more"),
    ("topology.bolt.wait.progressive.level2.count", "null", "a whole number of 0 or more"),
    ("topology.spout.wait.progressive.level3.sleep.millis", "10 ms", "a whole number of 0 or more"),
    (work.TRAFFIC, "'false'", "true or false"),
    (work.QUEUE_LIMIT, "0", "a whole number of 1 or more"),
    (work.QUEUE_LIMIT, "-20000", "a whole number of 1 or more"),
    (work.QUEUE_LIMIT, "20000.5", "a whole number of 1 or more"),
    (work.QUEUE_LIMIT, "20k", "a whole number of 1 or more"),
    (WINDOW_SETTING, "null", "a number from 1 to 3600"),
    (WINDOW_SETTING, "2 s", "a number from 1 to 3600"),
    (WINDOW_SETTING, "true", "a number from 1 to 3600"),
    (WINDOW_SETTING, "0.5", "a number from 1 to 3600"),
]


def star_file(tmp_path: Path, config: str, testbed: str) -> Experiment:
    """The star's file with these settings."""
    text = (ROOT / "dags/experiments/stela/star.yaml").read_text(encoding="utf-8")
    changed = text.replace("overrides: {}", f"overrides: {{config: {config}}}").replace(
        "name: local ", f"name: {testbed} "
    )
    (tmp_path / "stela").mkdir()
    (tmp_path / "stela" / "star.yaml").write_text(changed, encoding="utf-8")
    return load("stela/star", tmp_path)


@pytest.mark.parametrize("testbed", ["simulated", "fake"])
@pytest.mark.parametrize(("key", "value", "allowed"), WRONG)
def test_a_setting_with_a_value_that_it_cannot_have_is_refused_in_words(
    key: str, value: str, allowed: str, testbed: str, tmp_path: Path
) -> None:
    with pytest.raises(ExperimentError) as caught:
        check(star_file(tmp_path, f"{{{key}: {value}}}", testbed))
    said, shown = str(caught.value), json.dumps(yaml.safe_load(value))
    allowed = f"{key} is {shown}; allowed: {allowed}; change it, or leave it out"
    assert said == f"stela/star.yaml: topology star: overrides.config: {allowed}"


@pytest.mark.parametrize("testbed", ["simulated", "fake"])
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{barograph.queue.limit: 32769}", "is 32769; allowed: 1 to 32768, half of the 65536 tuples that topology.ex"),
        ("{barograph.queue.limit: 20000, topology.executor.receive.buffer.size: 16385}", "size to 40000"),
        ("{barograph.queue.limits: 20000}", "limits is unknown; ours are barograph.queue.limit, barograph.traffic, "),
    ],
)
def test_a_limit_beyond_half_of_a_queue_is_refused_in_words(
    config: str, message: str, testbed: str, tmp_path: Path
) -> None:
    with pytest.raises(ExperimentError, match=re.escape(message)):
        check(star_file(tmp_path, config, testbed))


def test_bolts_that_drop_nothing_are_refused_a_limit() -> None:
    flux = yaml.safe_load(catalogue.render("star", overrides={"config": {work.QUEUE_LIMIT: 20000}}))
    assert list(work.queue_limit_errors(yaml.safe_dump(flux))) == []
    flux["bolts"][1]["className"] = "org.example.Theirs"
    (said,) = work.queue_limit_errors(yaml.safe_dump(flux))
    assert "barograph.queue.limit is 20000, and sink_1: bolts that are not ours drop nothing" in said
    (said,) = work.queue_limit_errors(
        catalogue.render("word_count_stateful", overrides={"config": {work.QUEUE_LIMIT: 9}})
    )
    assert "a bolt with state drops nothing; leave it out" in said


def test_a_limit_takes_the_place_of_full_queues_and_needs_a_topology_without_ackers() -> None:
    config = {work.QUEUE_LIMIT: 20000}
    _, star = simulated_topology(catalogue.render("star", overrides={"config": config}), "x-1")
    limits = {each.name: each.limit for each in star.components}
    assert limits == {name: math.inf if name.startswith("spout") else 20000.0 for name in limits}
    assert {each.buffer for each in star.components} == {math.inf}, "nobody is held back"
    with pytest.raises(
        SimulationError, match=r"limit is not simulated with ackers; set topology\.acker\.executors to 0"
    ):
        simulated_topology(catalogue.render("star", overrides={"config": config | {work.ACKERS: 1}}), "x-1")


def test_of_a_variant_it_is_said_which_one(tmp_path: Path) -> None:
    star = on_simulator("stela/star")
    own = replace(star.variants[0], topology=TopologyChanges(overrides={"config": {work.BUFFER: None}}))
    with pytest.raises(
        ExperimentError, match=r"variants\.even_rebalance\.topology: topology star: overrides\.config: "
    ):
        check(replace(star, variants=(own,)))


def test_parameters_are_no_setting(tmp_path: Path) -> None:
    with pytest.raises(
        ExperimentError, match=r"barograph\.parameters is no setting of Storm; give topology\.parameters"
    ):
        check(star_file(tmp_path, "{barograph.parameters: null}", "simulated"))


def test_settings_that_ship_have_values_that_they_may_have() -> None:
    for name in catalogue.names():
        config = yaml.safe_load(catalogue.render(name))["config"]
        assert (
            list(work.setting_errors({key: value for key, value in config.items() if key != catalogue.PARAMETERS}))
            == []
        )


def test_queues_without_a_limit_are_simulated_and_refused_on_machines(tmp_path: Path) -> None:
    """An executor gets 1,800/s and does 124/s: a queue of the usual length is full after 39 s."""
    star = star_file(tmp_path, f"{{{work.BUFFER}: unbounded}}", "simulated")
    check(star)
    with pytest.raises(
        ExperimentError, match=r"is unbounded, and queues of Storm 2 have a length; give one, such as 65536"
    ):
        check(replace(star, testbed=replace(star.testbed, name="fake")))
    chosen = star.topology
    assert chosen is not None
    longest, emitted = dict[str, float](), dict[str, float]()
    for words, overrides in (("unbounded", chosen.overrides), ("bounded", {})):
        flux = catalogue.render(chosen.file, {"rate_per_s": 3600.0}, overrides)
        world, totals = world_of(simulated_topology(flux, "x-1")[1], machines=5, cores=4.0, costs=Costs()), Totals()
        world.advance(world.now + 60, totals.take)
        longest[words] = max(float(sample.queues.waiting.max()) for sample in totals.samples)
        emitted[words] = totals.rate("spout_1", 1050, 1060) + totals.rate("spout_2", 1050, 1060)
    assert longest["bounded"] == pytest.approx(65_536) and emitted["bounded"] < 4 * 124.3
    assert longest["unbounded"] > 90_000 and emitted["unbounded"] == pytest.approx(7200, rel=0.01)


def test_a_topology_in_lines_is_simulated_in_lines() -> None:
    _, parallel = simulated_topology(catalogue.render("parallel", {"parallelism": 4, "depth": 2}), "x-1")
    first, second = parallel.edges
    assert first.routes == (((3, 1.0),), ((0, 1.0),), ((1, 1.0),), ((2, 1.0),)), "31 places further, of four"
    assert second.routes == tuple(((task, 1.0),) for task in range(4))
    assert {edge.tuple_bytes for edge in parallel.edges} == {34.0}
    _, reference = simulated_topology(catalogue.render("reference", {"fan_out": 2}), "x-1")
    selectivity = {edge.source: edge.selectivity for edge in reference.edges}
    assert (selectivity["spout"], selectivity["stage_2"], selectivity["stage_3"]) == (1, 2, 1)
    assert all(edge.routes == () for edge in reference.edges)


@pytest.mark.parametrize(
    "name", [name for name in catalogue.names() if catalogue.STATE not in catalogue.settings(name)]
)
def test_every_shipped_topology_without_state_can_be_simulated(name: str) -> None:
    topology, simulated = simulated_topology(catalogue.render(name), "x-1")
    assert {component.name for component in topology.components} == set(simulated.levels())


def test_a_policy_decides_no_more_often_than_nimbus_makes_a_round() -> None:
    star = on_simulator("stela/star")
    held = replace(
        star, events=(AutonomousPhase("steady", decide_every_s=5.0),), machines=MachineCount(4, 4), claims=()
    )
    rare = replace(held, testbed=replace(held.testbed, options={"simulated": {"round_s": 10.0}}))
    check(held)
    said = r"events\.0\.decide_every_s is 5; allowed: at least 10, the testbed's round_s"
    with pytest.raises(ExperimentError, match=said):
        check(rare)


def test_unthrottled_sources_of_opengov_emit_as_their_tasks_are_and_hardly_anything_leaves_the_join() -> None:
    """On the sweep's ten machines: four tasks of quotes to one of contracts. A company leaves at most once a day."""
    sweep = yaml.safe_load((ROOT / "dags/sweeps/metis/opengov_machines.yaml").read_text(encoding="utf-8"))
    chosen = sweep["topology"]
    _, opengov = simulated_topology(catalogue.render("opengov", chosen["parameters"], chosen["overrides"]), "x-1")
    world = world_of(opengov, machines=10, cores=4.0, costs=Costs(), bandwidth_mbit=1000)
    totals = Totals()
    world.advance(1060.0, totals.take)
    rates = {each.name: totals.rate(each.name, 1030.0, 1060.0) for each in opengov.components}
    assert 3.3 < rates["quotes"] / rates["contracts"] < 4.4
    given = chosen["parameters"]["rate_per_s"]
    assert given / 3.5 < rates["quotes"] < given / 2.5, "expected of 30 machines"
    assert rates["output"] < 18.0
