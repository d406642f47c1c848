"""The shipped experiments, and what a wrong one is told."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis.claims import capacity
from analysis.claims.rows import BLOCKS_OF_A_VERDICT
from analysis.claims.statements import load_claims
from analysis.metrics.definitions import CONVERGENCE
from analysis.metrics.steadiness import WINDOW_S
from barograph.errors import CapacityError, ConfigurationError, ExperimentError
from barograph.plan.blocks import digest, plan_runs
from barograph.plan.experiment import (
    DURATION_NAMES,
    EXPERIMENTS,
    Experiment,
    from_data,
    load,
    names,
    only,
    parse,
    with_changes,
)
from barograph.run.storm_cluster import ansible_groups, render_topology
from barograph.testbeds.checks import check, claim_notes, machine_requests, remarks
from barograph.yaml_files import read_yaml
from inventory.local.preflight import check_cores
from topologies.work import topology_work


@pytest.mark.parametrize("name", names())
def test_every_shipped_experiment_is_whole(name: str) -> None:
    """A dry run: it parses, its topology renders, its policies bind, its claims exist, local machines fit two cores."""
    experiment = load(name)
    is_simulated = experiment.testbed.name == "simulated"  # of more machines than the fake testbed has
    check(experiment if is_simulated else with_changes(experiment, {"testbed": "fake"}))
    assert from_data(experiment.as_data()) == experiment
    if experiment.testbed.name == "local":
        check_cores(machine_requests(experiment), 2.0)
    assert f"{experiment.testbed.bandwidth_mbit:g} Mbit/s" in remarks(experiment)[0]
    for topology in experiment.every_topology():
        assert topology.name == COUNTING or "seed" in render_topology(topology, seed=7)


COUNTING = "reference"  # its spouts count: nothing is drawn


SERVED = 0.96  # of the closed form, at least, where machines had CPU enough: what Storm itself costs
JOINING_S = 30.0  # 9 to 21 s from the last look of the warm-up to the scale request, in the runs of November 2026
LONG_WATCH_S = 600.0
MANY_WORKERS, LONG_START_S = 24, 110.0
WITH_CLAIMS = [name for name in names() if load(name).claims and load(name).testbed.name != "simulated"]
OF_STELA = [name for name in names() if name.startswith(("stela/", "settings/"))]
WITH_TIMES = sorted({
    claim.experiment for claim in load_claims("stela") if claim.metric.startswith(CONVERGENCE) and not claim.of
})  # fmt: skip


def queues_full_s(experiment: Experiment) -> float:
    """From the first tuple until the first queue is full, by the closed form less what Storm costs."""
    found = inf
    for variant in experiment.variants:
        flux = render_topology(*experiment.topologies_of(variant), seed=1)
        closed = capacity.topology_of_flux(flux)
        assert closed is not None
        rates = capacity.component_rates(closed, closed.initial)
        surplus = [(rates[c.name].arriving - SERVED * rates[c.name].served) / c.executors for c in closed.components]
        found = min(found, topology_work(flux).buffer / max(surplus)) if max(surplus) > 0 else found
    return found


@pytest.mark.parametrize("name", WITH_CLAIMS)
def test_what_tests_a_claim_has_blocks_for_a_verdict(name: str) -> None:
    assert load(name).repetitions >= BLOCKS_OF_A_VERDICT


@pytest.mark.parametrize("name", OF_STELA)
def test_queues_outlast_the_longest_run(name: str) -> None:
    """What fills them hides congestion."""
    experiment = load(name)
    assert experiment.watched(None)[1] + JOINING_S + experiment.durations.horizon_s <= queues_full_s(experiment)


@pytest.mark.parametrize("name", WITH_TIMES)
def test_times_of_convergence_are_watched_for_ten_minutes_or_until_queues_would_be_full(name: str) -> None:
    experiment = load(name)
    room_s = queues_full_s(experiment) - experiment.watched(None)[1] - JOINING_S
    assert experiment.durations.is_watch_fixed
    assert experiment.durations.horizon_s > min(LONG_WATCH_S, room_s) - WINDOW_S


@pytest.mark.parametrize("name", OF_STELA)
def test_many_workers_have_time_to_reach_their_level(name: str) -> None:
    """With 24 and more on two cores it rose for 30 to more than 120 s, and a level takes 60 s to be seen."""
    experiment = load(name)
    workers = [yaml.safe_load(render_topology(each, 1))["config"]["topology.workers"]
               for each in experiment.every_topology()]  # fmt: skip
    assert min(workers) < MANY_WORKERS or experiment.watched(None)[0] >= LONG_START_S


def test_one_variant_is_stock_storm() -> None:
    """Its wait and its JVMs together."""
    variants = {variant.name: variant for variant in load("settings/interruption").variants}
    both, waiting, stock = (variants[f"even_{name}"] for name in ("stock_jvm_30", "rebalance_30", "stock_jvm"))
    assert (both.policy, both.parameters, both.topology) == (waiting.policy, waiting.parameters, stock.topology)
    assert both.wait_s == 30 and stock.topology is not None


@pytest.mark.parametrize(("name", "before", "workers"), [("star", 4, 12), ("linear", 6, 24), ("diamond", 6, 24)])
def test_the_sizes_are_those_of_table_1(name: str, before: int, workers: int) -> None:
    experiment = load(f"stela/{name}")
    assert (experiment.machines.before, experiment.machines.after) == (before, before + 1)
    (topology,) = experiment.every_topology()
    assert yaml.safe_load(render_topology(topology, 1))["config"]["topology.workers"] == workers
    assert ansible_groups(experiment)["joining"] == [f"m{before + 1}"]
    assert {variant.name for variant in experiment.variants} == {"even_rebalance", "stela"}


def test_the_blocks_seed_reaches_the_sources() -> None:
    (star,) = load("stela/star").every_topology()
    assert render_topology(star, 5) != render_topology(star, 6)


def test_an_unknown_experiment_lists_the_known_ones() -> None:
    with pytest.raises(ExperimentError, match=r"no experiment 'stela/sun'.*stela/diamond, stela/linear, .*stela/star"):
        load("stela/sun")


def star() -> dict[str, Any]:
    data: dict[str, Any] = read_yaml(EXPERIMENTS / "stela" / "star.yaml")
    return data


def put(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


def drop(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda data: data.pop(key)


def plan(*events: dict[str, Any], before: int = 4, after: int = 4) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        data |= {"events": list(events), "machines": {"before": before, "after": after}}

    return change


def scale_out_and(*events: dict[str, Any], wait_s: int) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        data["events"] += events
        data["variants"][0]["parameters"] = {"rebalance": True, "wait_s": wait_s}

    return change


def several(
    *topologies: dict[str, Any],
    events: Sequence[dict[str, Any]] = (),
    changed: dict[str, Any] | None = None,
    of_each: dict[str, Any] | None = None,
) -> Callable[[dict[str, Any]], None]:
    """These in the place of `topology`, events after the scale-out, and what differs in the first variant."""

    def change(data: dict[str, Any]) -> None:
        del data["topology"]
        data["topologies"] = list(topologies)
        data["events"] += list(events)
        if changed is not None:
            data["variants"][0]["topology"] = changed
        if of_each is not None:
            data["variants"][0]["topologies"] = of_each

    return change


HOLD = {"kind": "hold", "at": "steady", "decide_every_s": 10}
OUT = {"kind": "scale_out", "at": "steady", "machines": 1}


def limits(*events: dict[str, Any], after: int = 4, **bounds: Any) -> Callable[[dict[str, Any]], None]:
    """Four machines at the start, and how many a policy may have."""

    def change(data: dict[str, Any]) -> None:
        plan(*(events or (HOLD,)), after=after)(data)
        data["machines"] |= bounds

    return change


STAR, LATE = {"name": "star"}, {"name": "late", "flux": "linear"}
ARRIVAL = {"kind": "arrival", "at": "steady", "topologies": ["late"]}
DEPARTURE = {"kind": "departure", "at": "steady", "topologies": ["late"]}
JOB = {"name": "job", "flux": "page_load", "count": 3}
LATER = {"kind": "rate", "at": 20, "factor": 2}
WRONG: list[tuple[Callable[[dict[str, Any]], None], list[str]]] = [
    (put("repetition", value=3), ["unknown key repetition", "known here: title,", "did you mean repetitions?"]),
    (put("events", 0, "when", value=3), ["unknown key events.0.when", "kind, at, machines"]),
    (drop("topology"), ["topology and topologies are missing; give one"]),
    (put("topologies", value=[{"name": "star"}]), ["topology and topologies are both given; give one"]),
    (several({"name": "star"}, {"name": "star"}), ["topologies has the name star twice; name each one, and its file"]),
    (several({"name": "star"}, {"name": "all", "flux": "star"}), ["topologies has the name 'all', which is of the"]),
    (several({"name": "star", "service_level": {"max_utility": 2.0}}), ["topologies.0.service_level has neither lat"]),
    (several({"name": "star", "service_level": {"juice": 1.5}}), ["topologies.0.service_level.juice is 1.5"]),
    (several({"name": "star", "service_level": {"juice": 1.0, "max_utility": 0.0}}), ["max_utility is 0.0; allowed"]),
    (several({"name": "star", "service_level": {"juice": 1.0, "max_utility": -5}}), ["max_utility is -5; allowed: "]),
    (several(JOB | {"each": {"service_level.max_utility": [1, 2]}}), ["max_utility has 2 values; allowed: 3, one for"]),
    (
        several(JOB | {"each": {"service_level.max_utility": [1, 2, 0]}, "service_level": {"juice": 1.0}}),
        ["topologies.0 (job_3)", "service_level.max_utility is 0; allowed"],
    ),
    (
        several(JOB | {"each": {"service_level.max_utilty": [1, 2, 3]}, "service_level": {"juice": 1.0}}),
        ["topologies.0 (job_1)", "unknown key service_level.max_utilty", "did you mean max_utility?"],
    ),
    (several(JOB | {"each": {"name": ["a", "b", "c"]}}), ["topologies.0.each has name; allowed: the other fields"]),
    (several(JOB | {"each": {"flux.x": [1, 2, 3]}}), ["topologies.0.each has flux.x, but flux is 'page_load', which"]),
    (several(STAR, {"name": "job", "each": {"overrides.workers": [1]}}), ["topologies.1.each is given without count"]),
    (several(JOB, {"name": "job_2", "flux": "star"}), ["topologies has the name job_2 twice; name each one"]),
    (several(JOB, JOB), ["topologies has the name job twice; name each one"]),
    (several(JOB | {"count": 1001}), ["topologies.0.count is 1001", "less than or equal to 1000"]),
    (several(JOB | {"count": 600}, {"name": "star", "count": 600}), ["topologies are 1200, by their counts; allowed"]),
    (put("topology", "count", value=2), ["topology.count or each is given; allowed in topologies"]),
    (several(STAR, events=[ARRIVAL]), ["events.1.topologies has late; allowed: star"]),
    (several(STAR, LATE, events=[ARRIVAL | {"topologies": []}]), ["events.1.topologies is []; allowed: "]),
    (several(STAR, LATE, events=[ARRIVAL, ARRIVAL]), ["events lets late arrive twice; allowed: once; give the second"]),
    (several(STAR, JOB, events=[ARRIVAL | {"topologies": ["job", "job_2"]}]), ["events lets job_2 arrive twice"]),
    (several(STAR, LATE, events=[DEPARTURE, ARRIVAL]), ["events.1.topologies has late, not running then; running are"]),
    (
        several(STAR, LATE, events=[ARRIVAL, DEPARTURE | {"topologies": ["late", "late"]}]),
        ["has late twice; give e"],
    ),
    (several(LATE, events=[ARRIVAL]), ["events lets every topology arrive; allowed: at least one is there"]),
    (several(STAR, events=[DEPARTURE | {"topologies": ["star"]}]), ["events.1.topologies has star, all that run; all"]),
    (
        several(STAR, LATE, changed={"overrides": {"workers": 2}}),
        ["variants.even_rebalance.topology is given; with"],
    ),
    (
        put("variants", 0, "topologies", value={"star": {}}),
        ["variants.even_rebalance.topologies has star; there is"],
    ),
    (several(STAR, LATE, of_each={"sun": {}}), ["variants.even_rebalance.topologies has sun; allowed: star, late"]),
    (several(STAR, JOB, of_each={"job": {}, "job_1": {}}), ["topologies has job_1 twice, by its name and by that of"]),
    (put("repetitions", value=0), ["repetitions is 0", "greater than or equal to 1"]),
    (put("repetitions", value="3"), ["repetitions is '3'", "valid integer"]),
    (put("durations", "horizon_s", value=float("inf")), ["durations.horizon_s is inf"]),
    (put("durations", "horizon_s", value=10), ["durations.horizon_s is 10", "at least after_floor_s ("]),
    (put("durations", "warm_up_ceiling_s", value=1), ["warm_up_ceiling_s is 1", "at least warm_up_floor_s ("]),
    (put("machines", "after", value=9), ["machines.after is 9", "before (4)", "(1)", "(0), make 5"]),
    (limits(min=6, max=5), ["machines.min is 6; allowed: at most 5, machines.max"]),
    (limits(min=6), ["machines.min is 6; allowed: at most 4, machines.max (machines.before where"]),
    (limits(min=2, max=3), ["machines.before is 4; allowed: machines.min (2) to machines.max (3)"]),
    (limits(groups={"a": 3, "b": 2}), ["machines.groups has 5 machines; allowed: as many as machines.before (4)"]),
    (limits(groups={"a": 4, "b": 0}), ["machines.groups.b is 0"]),
    (limits(max=251), ["machines.max is 251", "less than or equal to 250"]),
    (limits(LATER, max=6), ["machines.min to machines.max are 4 to 6, but events", "leave them out, or add a hold"]),
    (limits(OUT, OUT, HOLD, after=6, max=5), ["events.2 is a hold with 6 machines; allowed: machines.min (4) to"]),
    (limits(HOLD, OUT, after=5, max=6), ["events.1 is a scale_out, but from the hold of", "put it before the hold"]),
    (limits(HOLD, {"kind": "scale_in", "at": "steady", "machines": 1}, after=3, max=6), ["events.1 is a scale_in,"]),
    (put("events", 0, "kind", value="scale_up"), ["events.0.kind is 'scale_up'", "'scale_out'"]),
    (put("events", 0, "at", value="noon"), ["events.0.at is 'noon'", "'steady'"]),
    (put("events", value=[]), ["events is []"]),
    (put("events", 0, value={"at": "steady"}), ["events.0.kind is missing; allowed: 'scale_out', 'scale_in', 'resch"]),
    (
        plan({"kind": "rate", "at": "steady"}),
        ["events.0.factor is missing; keys here: kind, at, topology, source, factor"],
    ),
    (plan({"kind": "rate", "at": "steady", "factor": 0}), ["events.0.factor is 0", "than or equal to 0.000001"]),
    (plan({"kind": "rate", "at": "steady", "factor": 1001}), ["events.0.factor is 1001", "less than or equal to 1000"]),
    (plan({"kind": "scale_in", "at": "steady", "machines": 4}, after=1), ["events.0.machines is 4, but only 4"]),
    (
        plan({"kind": "scale_in", "at": "steady", "machines": 1}, after=4),
        ["machines.after is 4", "before (4)", "join at events (0)", "those that leave (1),"],
    ),
    (plan({"kind": "crash", "at": "steady", "machine": "m5"}), ["events.0.machine is 'm5'", "m1, m2, m3, m4"]),
    (plan(*[{"kind": "crash", "at": "steady", "machine": "m1"}] * 2), ["events.1.machine is 'm1'; at that time there"]),
    (plan({"kind": "crash", "at": "steady", "machine": "m1"}, after=1, before=1), ["events.0 is the crash of the"]),
    (plan({"kind": "crash", "at": "steady", "machine": "m1", "restart_after_s": 400}), ["events.0.restart_after_s is"]),
    (
        plan({"kind": "crash", "at": "steady", "machine": "m1", "restart_after_s": 30}, LATER),
        ["events.0.restart_after_s"],
    ),
    (put("variants", 1, "name", value="even_rebalance"), ["variants has even_rebalance twice"]),
    (
        put("variants", 0, "parameters", value={"rebalance": True, "wait_s": 90_000}),
        ["variants.even_rebalance.parameters.wait_s"],
    ),
    (scale_out_and(LATER, wait_s=20), ["variants.even_rebalance.parameters.wait_s is 20; allowed: below events.1.at"]),
    (put("claims", value=["star"]), ["claims.0 is 'star'"]),
    (put("claims", value=["S01", "S01"]), ["claims has S01 twice; give each claim once"]),
    (put("title", value=""), ["title is ''"]),
    (put("lease_minutes", value=0.01), ["lease_minutes is 0.01", "greater than or equal to 1"]),
    (put("testbed", "bandwidth_mbit", value=0.4), ["testbed.bandwidth_mbit is 0.4", "multiple of 1"]),
    (put("testbed", "bandwidth_mbit", value=10**400), ["testbed.bandwidth_mbit is 1000"]),
    (put("testbed", "scale", value=0.0001), ["testbed.scale is 0.0001", "greater than or equal to 0.01"]),
    (
        put("events", 0, value={"kind": "trace", "at": "steady", "file": "a\0b"}),
        ["events.0.file is 'a\\x00b'", "a path"],
    ),
    (put("events", 0, value={"kind": "trace", "at": "steady", "file": "~nouser/x"}), ["events.0.file is '~nouser/x'"]),
    (
        put("events", 0, value={"kind": "trace", "at": "steady", "file": "a" * 256}),
        ["events.0.file is 'aaa", "names of"],
    ),
]


@pytest.mark.parametrize(("change", "said"), WRONG)
def test_a_wrong_field_is_named_with_what_is_allowed(change: Callable[[dict[str, Any]], None], said: list[str]) -> None:
    data = star()
    change(data)
    with pytest.raises(ExperimentError) as caught:
        parse("stela/star", data, source="star.yaml")
    message = str(caught.value)
    assert message.startswith("star.yaml: ") and "\n" not in message
    assert [words for words in said if words not in message] == []


def test_every_wrong_field_is_said_at_once() -> None:
    data = star() | {"repetitions": 0, "sed": 1}
    with pytest.raises(ExperimentError, match=r"repetitions is 0.*unknown key sed|unknown key sed.*repetitions is 0"):
        parse("stela/star", data, source="star.yaml")


NOT_HERE: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (put("topology", "name", value="sun"), "topology 'sun' does not exist; there are diamond, joins, linear, "),
    (put("topology", "parameters", value={"rate": 3}), "parameter 'rate' is unknown"),
    (put("topology", "overrides", value={"executors": {"centre": 9}}), "component centre: executors: 9 are more than"),
    (put("topology", "overrides", value={"workers": 0}), "workers"),
    (put("variants", 0, "policy", value="stella"), "variants.even_rebalance: policy 'stella' is not known"),
    (put("variants", 1, "parameters", value={"x": 1}), "variants.stela: policy stela has no parameter 'x'"),
    (put("claims", value=["Z99"]), "claims has Z99; known: "),
]


def check_on_fakes(data: dict[str, Any]) -> None:
    check(with_changes(parse("stela/star", data, source="star.yaml"), {"testbed": "fake"}))


def test_henge_needs_a_service_level() -> None:
    data = star() | {"claims": [], "variants": [{"name": "henge", "policy": "henge"}]}
    data["events"], data["machines"]["after"] = [HOLD], 4
    with pytest.raises(ExperimentError, match=r"variants.henge: no topology has a service_level, and henge acts"):
        check_on_fakes(data)
    data["topology"]["service_level"] = {"juice": 1.0}
    check_on_fakes(data)


DODO = {"spout": ["spout_1", "spout_2"], "rest": ["centre", "sink_1", "sink_2"]}


@pytest.mark.parametrize(
    ("groups", "components", "words"),
    [
        ({}, DODO, "dodo is for one topology on groups of machines; write machines.groups"),
        ({"spout": 4}, DODO, "components has the group rest; machines.groups has spout"),
        ({"spout": 1, "rest": 3}, {**DODO, "rest": ["moon"]}, "components has moon; components are centre, sink_1"),
        ({"spout": 1, "rest": 3}, DODO, ""),
    ],
)
def test_dodo_needs_groups_and_components_that_there_are(
    groups: dict[str, int], components: dict[str, list[str]], words: str
) -> None:
    data = star() | {"claims": [], "events": [HOLD], "machines": {"before": 4, "after": 4, "groups": groups}}
    data["variants"] = [{"name": "dodo", "policy": "dodo", "parameters": {"components": components}}]
    if words:
        with pytest.raises(ExperimentError, match=words):
            check_on_fakes(data)
    else:
        check_on_fakes(data)
        groups_of = parse("stela/star", data, source="star.yaml").groups()
        assert groups_of == {"spout": ("m1",), "rest": ("m2", "m3", "m4")}


def test_ds2_needs_sources_with_a_rate() -> None:
    """An unthrottled source is due what it emits: nothing would ever be found to need more."""
    data = star() | {"claims": [], "variants": [{"name": "ds2", "policy": "ds2"}]}
    data["events"], data["machines"]["after"] = [{"kind": "reschedule", "at": "steady"}], 4
    data["topology"]["parameters"] = {"unthrottled": True}
    with pytest.raises(ExperimentError, match=r"variants.ds2: the sources of star are unthrottled, .*; leave that out"):
        check_on_fakes(data)
    data["topology"]["parameters"] = {"unthrottled": False}
    check_on_fakes(data)


def test_isolation_needs_an_executor_for_each_worker() -> None:
    """It throws otherwise: isolationThrowsWhereThereAreMoreWorkersThanExecutors of the bridge's tests."""
    isolation = {"scheduler": "isolation", "conf": {"isolation.scheduler.machines": {"star": 4}}}
    data = star()
    data["variants"] = [{"name": "isolation", "policy": "storm", "parameters": isolation}]
    with pytest.raises(ExperimentError, match=r"isolation: .*star has 12 workers and 10 executors; .* 10 or fewer"):
        check_on_fakes(data)
    data["topology"]["overrides"] = {"workers": 10}
    check_on_fakes(data)


def test_a_policy_that_does_not_answer_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    from scheduler_plugins.policies import POLICIES

    deaf = replace(POLICIES["even"], events=frozenset({"scale_out"}))
    monkeypatch.setattr("scheduler_plugins.policies.POLICIES", {**POLICIES, "even": deaf})
    data = star()
    plan({"kind": "scale_in", "at": "steady", "machines": 1}, after=3)(data)
    with pytest.raises(
        ExperimentError, match=r"even_rebalance: policy even does not answer scale_in; it answers scale"
    ):
        check_on_fakes(data)


def test_nobody_has_to_answer_a_crash_or_a_rate() -> None:
    data = star()
    plan({"kind": "crash", "at": "steady", "machine": "m2"}, LATER)(data)
    check_on_fakes(data)


def test_a_crash_needs_a_testbed_with_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    class Solid:
        name = "fake"

    monkeypatch.setattr("barograph.testbeds.checks.testbed_of", lambda _choice: Solid())
    data = star()
    plan({"kind": "crash", "at": "steady", "machine": "m2"})(data)
    with pytest.raises(ExperimentError, match="machines of testbed fake cannot be crashed and restarted"):
        check_on_fakes(data)


def test_machines_are_asked_for_once_whatever_joins_and_leaves() -> None:
    data = star()
    out, gone = ({"kind": kind, "at": "steady", "machines": 2} for kind in ("scale_out", "scale_in"))
    plan(out, gone, out)(data)
    data["machines"] = {"before": 4, "after": 6}
    experiment = parse("stela/star", data, source="star.yaml")
    asked = [request.name for request in machine_requests(experiment)]
    assert asked == ["master", *(f"m{number}" for number in range(1, 9))]
    assert experiment.joining(0) == ("m5", "m6") and experiment.joining(2) == ("m7", "m8")
    assert ansible_groups(experiment)["joining"] == ["m5", "m6", "m7", "m8"]
    assert from_data(experiment.as_data()) == experiment


@pytest.mark.parametrize(("change", "said"), NOT_HERE)
def test_what_does_not_exist_is_said_before_anything_starts(
    change: Callable[[dict[str, Any]], None], said: str
) -> None:
    data = star()
    change(data)
    with pytest.raises(ExperimentError) as caught:
        check(parse("stela/star", data, source="star.yaml"))
    assert said in str(caught.value)


def test_an_unknown_testbed_lists_the_known_ones() -> None:
    with pytest.raises(ExperimentError, match=r"testbed.name is 'cloud'; known: local"):
        check(with_changes(load("stela/star"), {"testbed": "cloud"}))


def test_an_unknown_machine_type_is_configuration() -> None:
    data = star()
    data["testbed"]["machine_type"] = "type_9"
    with pytest.raises(Exception, match="machine type 'type_9' is not known") as caught:
        check(parse("stela/star", data, source="star.yaml"))
    assert getattr(caught.value, "blame", None) == "configuration"


def test_machines_that_do_not_fit_are_capacity() -> None:
    data = star()
    data["testbed"] |= {"scale": 1.0, "name": "fake"}
    data["machines"] = {"before": 100, "after": 101}
    with pytest.raises(Exception, match="102 machines need") as caught:
        check(parse("stela/star", data, source="star.yaml"))
    assert getattr(caught.value, "blame", None) == "capacity"


def test_fewer_slots_than_workers_is_said_and_allowed() -> None:
    data = star()
    data["topology"]["overrides"] = {"workers": 40}
    experiment = parse("stela/star", data, source="star.yaml")
    assert "40 workers are asked for but 16 slots are there at the start: Storm uses 16" in remarks(experiment)


def test_what_an_experiment_cannot_show_of_its_claims_is_a_note_and_no_error() -> None:
    data = star()
    data["claims"], data["repetitions"] = ["S03", "S09"], 2
    data["durations"] |= {"after_floor_s": 60, "horizon_s": 70}
    experiment = parse("stela/star", data, source="star.yaml")
    notes = claim_notes(experiment)
    assert any(note.startswith("S09/star SP: not testable here: ratios of times") for note in notes)
    assert "S03: 2 blocks: no interval; a verdict needs 6" in notes
    assert claim_notes(replace(experiment, name="mine/star")) == ()  # the ledger judges no claim by its runs
    assert claim_notes(replace(experiment, claims=())) == ()


def test_what_a_variant_says_of_its_topology_lies_over_the_experiments() -> None:
    data = star()
    data["topology"] |= {"parameters": {"seed": 3}, "overrides": {"workers": 10, "executors": {"centre": 1}}}
    data["variants"][0]["topology"] = {
        "parameters": {"cost_model": "busy"},
        "overrides": {"executors": {"sink_1": 1}, "config": {"some.setting": 1}},
    }
    experiment = parse("stela/star", data, source="star.yaml")
    (chosen,) = experiment.topologies_of(experiment.variants[0])
    assert chosen.parameters == {"seed": 3, "cost_model": "busy"}
    assert chosen.overrides == {
        "workers": 10, "executors": {"centre": 1, "sink_1": 1}, "config": {"some.setting": 1},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("title: [", "broken.yaml is not YAML"),
        ("- a\n- b\n", "holds list"),
        ("", "holds NoneType"),
        ("title: !!python/object/apply:os.getcwd []\n", "is not YAML"),
        ("seed: 1\na: {seed: 2}\nseed: 3\n", r"key 'seed' stands twice, first.*line 1.*again.*line 3"),
        ("variants:\n- {parameters: {rebalance: true, rebalance: false}}\n", "key 'rebalance' stands twice"),
        ("seed: 0100\n", r"0100 means 64 \(base 8 or 60\); write a number of base 10, or text in quotes.*line 1"),
        ("horizon_s: 6:10\n", "6:10 means 370"),
        ("horizon_s: 6:10.5\n", "6:10.5 means 370.5"),
    ],
)
def test_a_file_that_is_no_mapping(text: str, said: str, tmp_path: Path) -> None:
    family = tmp_path / "mine"
    family.mkdir()
    (family / "broken.yaml").write_text(text)
    with pytest.raises(ExperimentError, match=said):
        load("mine/broken", tmp_path)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("topology", "overrides"), {"config": {"topology.max.spout.pendng": 5}},
         r"topology.max.spout.pendng is no setting of Storm, and none of topologies/flux/star.yaml; did you mean"
         r" topology.max.spout.pending\?"),
        (("variants", 0, "topology"), {"overrides": {"config": {"mine.key": 5}}}, "mine.key is no setting of S"),
        (("topology", "overrides"), {"config": {"barograph.trafic": True}}, "barograph.trafic is unknown; ours are"),
        (("topology", "overrides"), {"config": {"topology.max.spout.pending": 5}}, None),
        (("testbed", "options"), {"simulated": {"nonsense": 1}}, r"testbed.options.simulated.nonsense is not known"),
        (("testbed", "options"), {"simulated": {"look_s": 10}}, None),
        (("topology", "parameters"), {"rate_per_s": 10**400}, "rate_per_s: 1000.* is not a number of at most 1e"),
        (("topology", "parameters"), {"rate_per_s": 1e300}, r"rate_per_s: 1e\+300 is not a number of at most 1e"),
        (("topology", "overrides"), {"workers": 1_000_000}, "workers: 1000000 is not a whole number from 1 to 10,000"),
    ],
)  # fmt: skip
def test_a_value_without_an_effect_or_beyond_any_cluster(
    place: tuple[str | int, ...], value: object, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    storm = frozenset({"topology.max.spout.pending", "topology.workers"})
    monkeypatch.setattr("playbooks.storm_home.assemble.storm_settings", lambda _cache: storm)
    data = star()
    put(*place, value=value)(data)
    if message is None:
        check_on_fakes(data)
        return
    with pytest.raises(ConfigurationError, match=message):
        check_on_fakes(data)


def test_a_subset_of_the_variants() -> None:
    assert [variant.name for variant in only(load("stela/star"), ("stela",)).variants] == ["stela"]
    with pytest.raises(ExperimentError, match="variants is storm; stela/star has the variants even_rebalance, stela"):
        only(load("stela/star"), ("storm",))


def test_the_demo_is_one_short_repetition() -> None:
    short, whole = with_changes(load("stela/star"), {"demo": True}), load("stela/star")
    assert short.repetitions == 1
    assert short.durations.horizon_s < whole.durations.horizon_s
    assert short.variants == whole.variants


def test_what_a_form_sends_is_validated_as_the_file_is() -> None:
    with pytest.raises(ExperimentError, match=r"durations\.horizon_s"):
        with_changes(load("storm/star"), {"horizon_s": 1})
    with pytest.raises(ExperimentError, match="repetitions is 0"):
        with_changes(load("stela/star"), {"repetitions": 0})
    with pytest.raises(ExperimentError, match="seed is -1"):
        with_changes(load("stela/star"), {"seed": -1})
    with pytest.raises(ExperimentError, match="cannot change title"):
        with_changes(load("stela/star"), {"title": "x"})
    assert {plan_runs(with_changes(load("stela/star"), {"seed": seed}))[0].variant.name for seed in range(8)} == {
        "stela", "even_rebalance",
    }  # fmt: skip
    assert with_changes(load("stela/star"), {"horizon_s": 200, "variants": None}).durations.horizon_s == 200


def test_a_watch_of_fixed_length_stays_one_when_its_length_is_changed() -> None:
    short = with_changes(load("stela/star"), {"horizon_s": 90}).durations
    assert (short.after_floor_s, short.horizon_s, short.is_watch_fixed) == (90, 90, True)
    open_ended = with_changes(load("storm/star"), {"horizon_s": 300}).durations
    assert (open_ended.after_floor_s, open_ended.is_watch_fixed) == (90, False)


def test_a_form_that_sends_every_duration_can_change_either_end_of_a_fixed_watch() -> None:
    star = load("stela/star")
    form = {name: getattr(star.durations, name) for name in DURATION_NAMES}

    def watch(**changes: float) -> tuple[float, float]:
        durations = with_changes(star, form | changes).durations
        return durations.after_floor_s, durations.horizon_s

    assert watch() == (370, 370) and watch(horizon_s=300) == (300, 300)
    assert watch(after_floor_s=60, horizon_s=300) == (60, 300) and watch(after_floor_s=60) == (60, 370)
    with pytest.raises(ExperimentError, match=r"horizon_s is 370; allowed: at least after_floor_s \(700\)"):
        watch(after_floor_s=700)
    assert with_changes(star, {"after_floor_s": 60}).durations.is_watch_fixed is False


def test_a_wait_must_leave_something_to_watch_where_a_policy_is_asked_and_only_there() -> None:
    data = star()
    scale_out_and(LATER, {"kind": "rate", "at": 10, "factor": 1}, wait_s=19)(data)
    assert parse("stela/star", data, source="star.yaml").variants[0].wait_s == 19


def elastic(**bounds: Any) -> Experiment:
    data = star()
    limits(**bounds)(data)
    return parse("stela/star", data, source="star.yaml")


def test_a_policys_machines_take_the_names_after_the_plans() -> None:
    both = elastic(min=2, max=6)
    assert both.machines.limits == (2, 6) and both.workers() == ("m1", "m2", "m3", "m4", "m5", "m6")
    assert both.acquired() == both.workers() and both.spare() == ("m5", "m6")
    booted = replace(both, testbed=replace(both.testbed, joining="booted"))
    assert booted.acquired() == ("m1", "m2", "m3", "m4")
    data = star()
    limits(OUT, HOLD, after=5, max=7)(data)
    planned = parse("stela/star", data, source="star.yaml")
    assert (planned.joining(0), planned.spare()) == (("m5",), ("m6", "m7"))
    assert elastic(min=2).machines.limits == (2, 4) and elastic(min=2).spare() == ()


def test_limits_are_in_the_data_where_there_are_some_only() -> None:
    assert elastic(max=6).as_data()["machines"] == {"before": 4, "after": 4, "max": 6}
    assert from_data(elastic(max=6).as_data()) == elastic(max=6)
    assert load("stela/star").as_data()["machines"] == {"before": 4, "after": 5}
    assert digest(elastic(max=6)) != digest(elastic(max=5))


def test_more_than_the_testbed_can_give_is_refused() -> None:
    asked = elastic(max=250)
    with pytest.raises(CapacityError, match="251 machines are asked for, at most 200"):
        check(replace(asked, testbed=replace(asked.testbed, name="local", scale=1.0)))


def test_machines_that_boot_for_a_policy_need_a_testbed_that_boots_them() -> None:
    asked = elastic(max=6)
    with pytest.raises(ExperimentError, match="machines of testbed local cannot be added during a run"):
        check(replace(asked, testbed=replace(asked.testbed, name="local", joining="booted")))
