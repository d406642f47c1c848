"""What a run may rely on, of the fake cluster and of Storm on machines alike: one life of a cluster, as a run leads it.

Each side comes to its cluster the way the product does: a series is opened, its machines are acquired, and
`context_of` gives the cluster, its policy service and its clock.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from barograph.machines import provision
from barograph.plan.experiment import Experiment, load
from barograph.policy_service import (
    ScaleOutcome,
    ServiceRefused,
    counts_since,
    first_tuple_s,
    recovery_obstacle,
    scale_outcome,
)
from barograph.run import clocks
from barograph.run.cluster import ClusterFacts, Collection
from barograph.run.context import SeriesContext, context_of
from barograph.series.series import Series, open_series
from barograph.testbeds import checks
from inventory.local import lan
from playbooks.clock import ClockOffset
from scheduler_plugins.service.run_snapshot import RunSnapshot, TupleCounts
from tests.support import worker_lines
from tests.support.short_folder import short_folder

LIMIT_S = 180.0  # for whatever is waited for, in the cluster's own time
FASTER = 1.5
# What every line has; and, of workers, what stands in some line (only spouts and sinks have anything to say there).
LINES = {
    "workers": {"v", "t", "dt_s", "machine", "port", "pid", "seq", "topology"},
    "machines": {"v", "t", "dt_s", "machine", "cpu_cores", "cpu_quota_cores", "throttled_ms", "steal_percent",
                 "runnable", "memory_bytes", "memory_limit_bytes", "worker_memory_bytes", "interfaces"},
}  # fmt: skip
PARTS = {"tasks", "sinks", "spouts"}
DECISION_LINE = {"t", "run_id", "request", "observation", "decision", "duration_ms"}


@dataclass(frozen=True)
class Life:
    """What was seen of a cluster: from its reset to the collection of its files."""

    experiment: Experiment
    run_id: str
    facts: ClusterFacts
    empty: Collection
    running: RunSnapshot
    rates: tuple[float, float]  # due per second, before and after the input rate changed
    faster: RunSnapshot
    second_event: str
    nonsense: str
    joined: RunSnapshot
    outcome: ScaleOutcome
    scaled: RunSnapshot
    silent: tuple[tuple[str, ...], ...]  # before a crash, during it, after the restart
    without: RunSnapshot
    recovered: RunSnapshot
    left: RunSnapshot
    back: RunSnapshot
    collection: Collection
    offsets: Mapping[str, ClockOffset | None]
    folder: Path


def star(testbed: str) -> Experiment:
    """Two machines and one that joins; Storm's default deals everything out again."""
    experiment = load("stela/star")
    even = tuple(variant for variant in experiment.variants if variant.policy == "even")
    return replace(
        experiment,
        testbed=replace(experiment.testbed, name=testbed),
        machines=replace(experiment.machines, before=2, after=3),
        topology=replace(experiment.every_topology()[0], overrides={"workers": 3}),
        variants=even,
        claims=(),
    )


def live(series: Series) -> Life:
    context: SeriesContext = context_of(series)
    cluster, service, clock = context.cluster, context.service, context.clock
    (run, *_) = series.plan()

    def await_state(wanted: Callable[[RunSnapshot], object]) -> RunSnapshot:
        end_s = clock.now() + LIMIT_S
        while not wanted(state := service.state()):
            assert clock.now() < end_s, state
            clock.sleep(1.0)
        return state

    def await_silent(*names: str) -> tuple[str, ...]:
        """One look may take a machine that is slow for a silent one."""
        end_s = clock.now() + LIMIT_S
        while (silent := cluster.silent_machines()) != names and clock.now() < end_s:
            clock.sleep(1.0)
        return silent

    cluster.deploy()
    cluster.reset(run)
    service.configure(run.run_id, run.variant.policy, run.variant.configured(), run.seed, 60.0)
    record, nothing = series.run_folder(run.run_id), series.folder / "before" / run.run_id
    for each in (record, nothing):
        each.mkdir(parents=True)
    empty = cluster.collect(nothing, context.experiment.starting())
    (chosen,) = context.experiment.topologies_of(run.variant)
    cluster.submit(run, chosen)
    running = await_state(
        lambda state: state.all_placed() and state.topologies and first_tuple_s(_series(state)) and _is_even(state)
    )
    before = median(_due(running))
    service.input_rate(FASTER)
    changed_s = clock.now()
    faster = await_state(lambda state: 0.9 < median(_due(state, changed_s) or [0.0]) / before / FASTER < 1.1)
    cluster.join(["m3"])
    joined = await_state(lambda state: "m3" in state.machines)
    service.scale("e1", "scale_out", ["m3"], 0)
    with pytest.raises(ServiceRefused) as second:
        service.scale("e1", "scale_out", ["m3"], 0)
    service.decide_every(10.0, (1, 3))
    with pytest.raises(ServiceRefused) as nonsense:
        service.end_machine_request("q1", "done", ["m3"])
    service.decide_every(None)
    scaled = await_state(lambda state: scale_outcome(state, "e1"))
    outcome = scale_outcome(scaled, "e1")
    assert outcome is not None and outcome.last_t is not None
    applied_s = outcome.last_t
    await_state(lambda state: any(counts_since(_series(state), applied_s + 1)[1]) and state.all_placed())
    silent = [await_silent()]
    cluster.crash("m2")
    crashed_s = clock.now()
    silent.append(await_silent("m2"))
    without = await_state(lambda state: "m2" not in state.machines)
    await_state(lambda state: recovery_obstacle(state, crashed_s) is None)
    cluster.restart("m2")
    silent.append(await_silent())
    recovered = await_state(lambda state: "m2" in state.machines and state.all_placed())
    cluster.leave(["m3"])
    left = await_state(lambda state: "m3" not in state.machines and state.all_placed())
    cluster.join(["m3"])
    back = await_state(lambda state: "m3" in state.machines and state.all_placed())
    cluster.stop()
    cluster.stop()
    everyone = ["master", *context.experiment.workers()]
    collection = cluster.collect(record, everyone)
    offsets = cluster.clock_offsets_ms(everyone, clock.now)
    return Life(
        context.experiment, run.run_id, cluster.facts(), empty, running, (before, median(_due(faster, changed_s))),
        faster, str(second.value), str(nonsense.value), joined, outcome, scaled, tuple(silent), without, recovered,
        left, back, collection, offsets, record,
    )  # fmt: skip


def _due(state: RunSnapshot, since_s: float = 0.0) -> list[float]:
    """Tuples that were due in each of the newest seconds of which every worker has sent its line."""
    series = _series(state)
    return [n for t, n in zip(series.t, series.due, strict=True) if n and t >= since_s][-8:-3]


def _series(state: RunSnapshot) -> TupleCounts:
    (topology,) = state.topologies
    return topology.series


def _is_even(state: RunSnapshot) -> bool:
    """Every worker sends samples, and none has just begun."""
    rates = _due(state)
    fresh = state.samples_age_s is not None and state.samples_age_s < 10
    return fresh and len(rates) == 5 and max(rates) < 1.2 * min(rates)


@pytest.fixture(scope="module", params=["fake", "simulated", pytest.param("local", marks=pytest.mark.integration)])
def life(request: pytest.FixtureRequest) -> Iterator[Life]:
    with short_folder() as folder, pytest.MonkeyPatch.context() as patch:
        for name in ("STATE", "RESULTS", "HOME"):
            patch.setenv(f"BAROGRAPH_{name}", str(folder / name.lower()))
        patch.setenv(lan.CONTROL[0], "10.225.0.0/24")
        patch.setenv(lan.EXPERIMENT[0], "10.226.0.0/24")
        checks._cached_testbed.cache_clear()
        series = open_series(star(request.param))
        provision.provision(series.folder)
        try:
            yield live(series)
        finally:
            provision.release(series.folder)
            checks._cached_testbed.cache_clear()


def test_facts_name_the_workers_and_those_that_join_later(life: Life) -> None:
    assert {name: facts["joins_at_scale"] for name, facts in life.facts.machines.items()} == {
        "m1": False, "m2": False, "m3": True,
    }  # fmt: skip
    assert all({"type", "cores", "memory_mb", "slots"} <= facts.keys() for facts in life.facts.machines.values())


def test_before_a_topology_there_are_no_samples_to_collect(life: Life) -> None:
    assert "workers/*.avro" in life.empty.missing


def test_a_topology_that_was_submitted_is_placed_on_the_machines_of_the_start_and_sends_samples(life: Life) -> None:
    state = life.running
    assert state.run_id == life.run_id and state.policy == "even"
    assert set(state.machines) == set(state.topologies[0].placed_among or ()) == set(life.experiment.starting())
    assert state.all_placed() and state.workers_reporting > 0
    assert state.samples_age_s is not None and state.samples_age_s < 10
    assert state.pending_event is None and state.policy_error is None and state.input_rate_factor == 1.0
    series = _series(state)
    assert len({len(column) for column in (series.t, series.throughput, series.sinks)}) == 1
    assert list(series.t) == sorted(set(series.t))


def test_spouts_offer_more_once_the_input_rate_changed(life: Life) -> None:
    before, after = life.rates
    assert life.faster.input_rate_factor == FASTER
    assert 1.3 < after / before < 1.7


def test_a_machine_that_joined_is_known_before_the_scale_request(life: Life) -> None:
    assert "m3" in life.joined.machines and life.joined.pending_event is None


def test_a_second_scale_request_is_refused(life: Life) -> None:
    assert "409" in life.second_event


def test_a_scale_out_is_decided_applied_and_over(life: Life) -> None:
    assert life.outcome.failed is None and life.outcome.reason and life.outcome.release == ()
    assert life.outcome.decision_ids
    mine = [decision for decision in life.scaled.decisions if decision.event_id == "e1"]
    assert all(decision.applied and (decision.applied_t or 0.0) >= decision.t for decision in mine)
    assert life.scaled.pending_event is None


def test_a_machine_without_power_is_silent_until_it_is_restarted(life: Life) -> None:
    assert life.silent == ((), ("m2",), ())


def test_nimbus_gives_a_silent_machine_up_and_takes_it_back(life: Life) -> None:
    assert set(life.without.machines) == {"m1", "m3"}
    assert set(life.recovered.machines) == {"m1", "m2", "m3"} and life.recovered.all_placed()


def test_a_machine_that_left_may_join_again(life: Life) -> None:
    """As a policy that lets machines go and asks for others needs it."""
    assert "m3" not in life.left.machines and "m3" in life.back.machines


def test_a_policy_that_asked_for_no_machines_is_given_none(life: Life) -> None:
    assert "409" in life.nonsense and "there is no request q1; under way is none" in life.nonsense
    assert life.scaled.machine_requests == () and life.scaled.policy_error is None


def test_every_machine_and_worker_leaves_lines_of_the_contract(life: Life) -> None:
    assert life.collection.missing == ()
    assert {path.stem for path in (life.folder / "machines").glob("*.jsonl")} >= {"m1", "m2", "m3"}
    machines = [line for path in (life.folder / "machines").glob("*.jsonl") for line in read(path)]
    for folder, lines in {"workers": worker_lines.of_run(life.folder), "machines": machines}.items():
        keys = LINES[folder]
        assert lines
        assert [line for line in lines if not keys <= line.keys() or line["dt_s"] <= 0] == []
        assert folder != "workers" or set().union(*lines) >= PARTS


def test_the_clock_of_each_machine_can_be_compared(life: Life) -> None:
    assert life.offsets.keys() == {"master", "m1", "m2", "m3"}
    assert all(offset is not None and abs(offset.ms) < clocks.APART_MS for offset in life.offsets.values())


def test_the_decision_log_is_that_of_the_run(life: Life) -> None:
    lines = read(life.folder / "decisions.jsonl")
    assert lines and {line["run_id"] for line in lines} == {life.run_id}
    assert all(line.keys() >= DECISION_LINE for line in lines)
    # Where the bridge had something to say; on machines it is among the master's logs.
    events = [line for path in life.folder.rglob("bridge.jsonl") for line in read(path)]
    assert all(line.keys() >= {"t", "kind"} for line in events)


def read(path: Path) -> list[dict[str, Any]]:
    """The whole lines: a worker that lost its power may leave half a one."""
    lines = path.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]
