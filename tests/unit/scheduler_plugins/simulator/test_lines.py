"""Worker lines and machine lines of a world: whole tuples, none lost or made, by the contract's rules."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from scheduler_plugins.model import Slot
from scheduler_plugins.service.samples import Samples
from scheduler_plugins.simulator.lines import MachineLines, WorkerLines
from scheduler_plugins.simulator.work import Costs, EdgeWork, SimulatedComponent, SimulatedTopology
from scheduler_plugins.simulator.world import Sample, World
from tests.support.worlds import Totals, chain, dealt, world_of

BEGIN_S = 1000.0
M1, M2 = Slot("m1", 6700), Slot("m2", 6700)


class Written:
    """What a world's workers and probes write."""

    def __init__(self, world: World, sample_s: float = 1.0, traced: Sequence[str] = ()) -> None:
        world.sample_s = sample_s
        self.world, self.totals = world, Totals()
        self.workers, self.machines = WorkerLines(sample_s, set(traced)), MachineLines(sample_s)
        self.lines: list[dict[str, Any]] = []
        self.machine_lines: list[dict[str, Any]] = []

    def take(self, sample: Sample) -> None:
        self.totals.take(sample)
        self.lines += self.workers.take(sample)
        names = [machine.name for machine in self.world.machines]
        cores = {each.name: each.cores for each in self.world.machines if self.world.load(each.name).is_alive}
        self.machine_lines += self.machines.take(sample, cores, names)

    def until(self, t: float) -> "Written":
        self.world.advance(BEGIN_S + t, self.take)
        return self

    def sums(self, group: str, column: str, by: str | None = None) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for line in self.lines:
            columns = line.get(group, {column: []})
            for place, value in enumerate(columns[column]):
                found[columns[by][place] if by else "all"] += value or 0
        return found


@pytest.fixture
def steady() -> Written:
    """A rate that is no whole number of tuples a task and second."""
    return Written(world_of(chain(100.3, [5.0, 3.0], tasks=4), costs=Costs())).until(60.0)


def test_over_a_run_whole_tuples_are_those_of_the_world(steady: Written) -> None:
    executed = steady.sums("tasks", "executed", by="component")
    emitted = steady.sums("tasks", "emitted", by="component")
    assert emitted["spout"] == pytest.approx(steady.totals.executed["spout"], abs=2)
    assert emitted["bolt_1"] == executed["bolt_1"] == pytest.approx(steady.totals.executed["bolt_1"], abs=2)
    assert executed["bolt_2"] == pytest.approx(steady.totals.executed["bolt_2"], abs=2)
    assert steady.sums("sources", "executed", by="component") == {
        "spout": executed["bolt_1"],
        "bolt_1": executed["bolt_2"],
    }
    assert steady.sums("sinks", "n")["all"] == executed["bolt_2"]
    assert steady.sums("streams", "emitted")["all"] == emitted["spout"] + emitted["bolt_1"]
    assert steady.sums("tasks", "transferred", by="component")["spout"] == pytest.approx(emitted["spout"], abs=2)
    assert steady.sums("spouts", "due")["all"] == pytest.approx(steady.totals.due["spout"], abs=2)


def test_drops_are_counted_by_task_and_source_and_unknown_without_a_limit(steady: Written) -> None:
    assert {value for line in steady.lines for value in line["tasks"]["dropped"]} == {None}
    found = Written(world_of(chain(100.3, [50.0, 3.0], tasks=4, limit=20.0))).until(60.0)
    dropped = found.sums("tasks", "dropped", by="component")
    assert dropped == {"spout": 0, "bolt_1": pytest.approx(found.totals.dropped["bolt_1"], abs=2), "bolt_2": 0}
    assert dropped["bolt_1"] > 900 and found.sums("sources", "dropped", by="component")["spout"] == dropped["bolt_1"]
    of_spouts = {line["tasks"]["dropped"][line["tasks"]["component"].index("spout")] for line in found.lines}
    assert of_spouts == {None}


def test_tasks_that_do_the_same_do_not_all_count_one_more_at_once(steady: Written) -> None:
    counts = [sum(line["spouts"]["due"]) for line in steady.lines if line["t"] == BEGIN_S + 30 and "spouts" in line]
    odd = {n for line in steady.lines if line["t"] > BEGIN_S + 10 for n in line["spouts"]["due"]}
    assert sum(counts) == pytest.approx(100, abs=2) and odd == {25, 26}


def test_a_line_has_what_a_line_of_a_worker_has(steady: Written) -> None:
    first, *_, last = [line for line in steady.lines if line["machine"] == "m1"]
    assert (last["t"], last["dt_s"], last["port"], last["topology"]) == (BEGIN_S + 60, 1.0, 6700, "x-1")
    assert first["seq"] == 0 and last["seq"] == last["t"] - first["t"] and first["pid"] == last["pid"]
    for group in ("tasks", "streams", "sources", "sinks", "spouts"):
        assert len({len(column) for column in last[group].values()}) == 1, group
    assert set(first["tasks"]["cpu_ms"]) == {None} and None not in last["tasks"]["cpu_ms"]
    bolts = [place for place, name in enumerate(last["tasks"]["component"]) if name == "bolt_1"]
    for place in bolts:
        cost_ms = last["tasks"]["execute_ms"][place] / last["tasks"]["executed"][place]
        assert cost_ms == pytest.approx(5.0 + Costs().sleep_slack_ms, rel=0.03)
    samples = Samples("x-1", sinks=frozenset({"bolt_2"}))
    for line in steady.lines:
        samples.add_worker(line)
    assert samples.series(BEGIN_S + 60).sinks[-1] == pytest.approx(100, abs=2)


def test_latencies_at_the_sinks_are_those_of_the_world(steady: Written) -> None:
    tuples, mean_ms = steady.sums("sinks", "n")["all"], steady.sums("sinks", "sum_ms")["all"]
    latency_s = sum(float(sample.counters.latency_s.sum()) for sample in steady.totals.samples)
    assert mean_ms / tuples == pytest.approx(1000 * latency_s / steady.totals.executed["bolt_2"], rel=0.01)
    counted = sum(sum(counts) for line in steady.lines for counts in line.get("sinks", {"counts": []})["counts"])
    assert counted == tuples


def test_a_worker_that_ends_writes_its_last_line_and_its_successor_tells_of_the_gap() -> None:
    here = Written(world_of(chain(100.0, [5.0], tasks=2), costs=Costs())).until(30.4)
    here.world.assign("x-1", dealt(here.world.topologies["x-1"].work, [M1, M2, Slot("m2", 6701)]))
    here.until(60.0)
    last = [line for line in here.lines if line["t"] == pytest.approx(BEGIN_S + 30.4)]
    assert {line["machine"] for line in last} == {"m1", "m2"} and all(line["dt_s"] == 0.4 for line in last)
    assert sum(sum(line["spouts"]["due"]) for line in last) == pytest.approx(40, abs=3)
    gaps = [line["gaps"] for line in here.lines if "gaps" in line]
    begun = {from_s for gap in gaps for from_s in gap["from_s"]}
    assert begun == {BEGIN_S + 30.4} and {task for gap in gaps for task in gap["task"]} == {1, 2}
    for gap in gaps:
        for until_s, due in zip(gap["until_s"], gap["due"], strict=True):
            assert due == pytest.approx(50 * (until_s - BEGIN_S - 30.4), abs=1.5)
    counted = here.sums("spouts", "due")["all"] + here.sums("gaps", "due")["all"]
    assert counted == pytest.approx(here.totals.due["spout"], abs=3)


def test_the_first_processes_have_no_gap(steady: Written) -> None:
    assert [line for line in steady.lines if "gaps" in line] == []


def test_what_a_worker_had_counted_when_it_was_killed_nobody_writes() -> None:
    here = Written(world_of(chain(100.0, [5.0], tasks=2), costs=Costs())).until(30.5)
    here.world.kill_worker("x-1", M1)
    here.until(60.0)
    processes = {line["pid"] for line in here.lines if line["machine"] == "m1"}
    assert len(processes) == 2
    assert [line for line in here.lines if line["t"] == BEGIN_S + 31 and line["machine"] == "m1"] == []
    (gap,) = [line["gaps"] for line in here.lines if "gaps" in line]
    assert gap["from_s"] == [BEGIN_S + 30.0]


def test_a_worker_that_is_back_within_a_line_writes_what_it_did_itself() -> None:
    """Killed 3 s into a line of 10 s and back after 6.6 s: 0.4 s of 50 tuples/s a task, and what fell due before."""
    here = Written(world_of(chain(100.0, [2.0], tasks=2), costs=Costs()), sample_s=10.0).until(33.0)
    here.world.kill_worker("x-1", M1)
    here.until(60.0)
    mine = [line for line in here.lines if line["machine"] == "m1"]
    before, first = (line for line in mine if line["t"] in (BEGIN_S + 30, BEGIN_S + 40))
    assert before["pid"] != first["pid"] and 0.3 < first["dt_s"] < 0.5
    bolt = first["tasks"]["component"].index("bolt_1")
    spout = first["tasks"]["component"].index("spout")
    assert 0.9 * first["dt_s"] * 1000 < first["tasks"]["execute_ms"][bolt] <= first["dt_s"] * 1000 + 1
    assert first["tasks"]["emitted"][spout] == pytest.approx(350, abs=2), "what fell due since it was killed"
    assert first["gaps"]["from_s"] == [BEGIN_S + 30.0]
    counted = here.sums("spouts", "due")["all"] + here.sums("gaps", "due")["all"]
    assert counted == pytest.approx(here.totals.due["spout"], abs=3)
    emitted = here.sums("tasks", "emitted", by="component")["spout"]
    assert emitted == pytest.approx(here.totals.executed["spout"] - 150, abs=3), "of 3 s nobody writes"


def test_a_crashed_worker_writes_no_last_line_whatever_is_assigned_then() -> None:
    here = Written(world_of(chain(100.0, [5.0], tasks=2), costs=Costs()), sample_s=10.0).until(33.0)
    here.world.crash("m2")
    here.until(35.0)
    here.world.assign("x-1", dealt(here.world.topologies["x-1"].work, [M1]))
    here.until(70.0)
    assert max(line["t"] for line in here.lines if line["machine"] == "m2") == BEGIN_S + 30
    assert max(line["t"] for line in here.lines if line["machine"] == "m1" and line["t"] < BEGIN_S + 40) == BEGIN_S + 35


def test_a_crashed_machine_is_silent_and_what_it_ran_begins_elsewhere() -> None:
    here = Written(world_of(chain(100.0, [5.0], tasks=2), costs=Costs())).until(30.0)
    here.world.crash("m2")
    here.until(40.0)
    here.world.assign("x-1", dealt(here.world.topologies["x-1"].work, [M1]))
    here.until(70.0)
    assert max(line["t"] for line in here.lines if line["machine"] == "m2") == BEGIN_S + 30
    assert max(line["t"] for line in here.machine_lines if line["machine"] == "m2") == BEGIN_S + 30
    assert here.sums("gaps", "due")["all"] > 400


def test_skipped_tuples_are_missed_in_the_line_that_goes_on() -> None:
    work = chain(100.0, [5.0], tasks=2)
    spout, *others = work.components
    skips = replace(work, components=(replace(spout, on_restart="skip"), *others))
    here = Written(world_of(skips, costs=Costs())).until(30.0)
    here.world.kill_worker("x-1", M1)
    here.until(60.0)
    (resumed,) = [line for line in here.lines if "gaps" in line]
    assert sum(resumed["spouts"]["missed"]) == pytest.approx(sum(resumed["gaps"]["due"]), abs=2)
    assert here.sums("spouts", "missed")["all"] == sum(resumed["spouts"]["missed"])


def test_a_task_gets_what_comes_from_each_of_its_sources() -> None:
    """Three quarters of it from one, while a queue grows."""
    components = (
        SimulatedComponent("a", "spout", (1,), rate_per_s=150.0),
        SimulatedComponent("b", "spout", (2,), rate_per_s=50.0),
        SimulatedComponent("sink", "bolt", (3, 4), sleep_ms=20.0),
    )
    edges = (EdgeWork("a", "default", "sink", "shuffle"), EdgeWork("b", "other", "sink", "shuffle"))
    here = Written(world_of(SimulatedTopology("joined", 1, components, edges))).until(60.0)
    sources = here.sums("sources", "executed", by="component")
    assert sources["a"] / sources["b"] == pytest.approx(3.0, rel=0.02)
    assert here.sums("sources", "executed", by="stream")["other"] == sources["b"]
    last = [line for line in here.lines if line["t"] == BEGIN_S + 60]
    queue = sum(sum(line["tasks"]["queue"]) for line in last)
    assert queue == pytest.approx(here.totals.waiting["sink"], abs=2) and queue > 1000


def test_pairs_of_tasks_are_counted_where_that_is_asked_for() -> None:
    here = Written(world_of(chain(100.0, [5.0, 2.0], tasks=2)), traced=("x-1",)).until(30.0)
    pairs = [(line["traffic"]["from"], line["traffic"]["to"]) for line in here.lines if "traffic" in line]
    assert {pair for sent, to in pairs for pair in zip(sent, to, strict=True)} == {
        (1, 3), (1, 4), (2, 3), (2, 4), (3, 5), (3, 6), (4, 5), (4, 6),
    }  # fmt: skip
    emitted = here.sums("tasks", "emitted")["all"]
    assert here.sums("traffic", "n")["all"] == pytest.approx(emitted, abs=8)


def test_lines_of_ten_seconds_say_the_same() -> None:
    here = Written(world_of(chain(100.3, [5.0], tasks=4), costs=Costs()), sample_s=10.0).until(60.0)
    assert {line["t"] for line in here.lines} == {BEGIN_S + 10.0 * n for n in range(1, 7)}
    first, *rest = [line for line in here.lines if line["machine"] == "m1"]
    assert first["dt_s"] < 10 and {line["dt_s"] for line in rest} == {10.0}
    assert here.sums("tasks", "executed")["all"] == pytest.approx(here.totals.executed["bolt_1"], abs=3)


def test_a_machine_says_its_cores_and_its_traffic() -> None:
    here = Written(world_of(chain(100.0, [5.0], tasks=2, tuple_bytes=940.0), costs=Costs(frame_bytes=60.0))).until(30.0)
    one, two = (line for line in here.machine_lines if line["t"] == BEGIN_S + 30)
    assert (one["machine"], two["machine"], one["dt_s"], one["cpu_quota_cores"]) == ("m1", "m2", 1.0, 8.0)
    assert (
        0.02 < one["cpu_cores"] < 0.2
        and one["memory_bytes"] is one["worker_memory_bytes"] is None
        and one["throttled_ms"] is None
    )
    assert one["runnable"] == pytest.approx(one["cpu_cores"], rel=0.01), "nobody waits"
    assert one["interfaces"]["name"] == ["ctl0", "exp0"]
    # Half of 50 tuples/s goes to the other machine.
    assert one["interfaces"]["tx_bytes"] == [None, pytest.approx(25_000, rel=0.05)]
    assert two["interfaces"]["rx_bytes"] == [None, pytest.approx(25_000, rel=0.05)]
