"""Worker lines to rates: one window with one length, and when it is no ground for a decision."""

from collections.abc import Iterable
from typing import Any

import pytest

from scheduler_plugins.model import Observation, ScaleEvent
from scheduler_plugins.policies.scaling import rates_problem
from scheduler_plugins.service.messages import VERSION, observation_of, request_from_json
from scheduler_plugins.service.samples import INCOMPLETE_S, SERIES_LENGTH_S, MachineSamples, Samples

SPOUT, BOLT, SINK = "m1:6700", "m2:6700", "m3:6700"
TASKS = {SPOUT: 1, BOLT: 2, SINK: 3}
COMPONENTS = {1: "source", 2: "middle", 3: "sink"}
BEGIN, NOW = 1000, 1100
SECONDS = range(BEGIN + 1, NOW + 1)


def line(slot: str, t: float, n: int, *, dt_s: float = 1.0, pid: int = 7, **values: Any) -> dict[str, Any]:
    """What the worker of that slot says at `t`: its task emitted and executed `n` tuples in the `dt_s` before."""
    machine, _, port = slot.partition(":")
    task = TASKS[slot]
    tasks = {
        "task": [task], "component": [COMPONENTS[task]], "emitted": [n], "transferred": [n], "executed": [n],
        "execute_ms": [n * 2.0], "process_ms": [None], "queue": [0],
    }  # fmt: skip
    body: dict[str, Any] = {
        "v": 1, "t": float(t), "dt_s": dt_s, "machine": machine, "port": int(port), "pid": pid, "topology": "t-1",
        "seq": 0, "tasks": tasks | {name: [value] for name, value in values.items()},
        "streams": {"task": [task], "stream": ["default"], "emitted": [n]},
    }  # fmt: skip
    if slot == SPOUT:
        body["spouts"] = {"task": [task], "due": [n], "emitted": [n], "behind_ms": [0.0]}
    return body


def observe(lines: Iterable[dict[str, Any]], now: float = NOW, window_s: float = 60.0) -> Observation:
    samples = Samples(window_s=window_s, topology_id="t-1")
    for each in lines:
        samples.add_worker(each)
    parts = [
        {"name": name, "kind": "spout" if task == 1 else "bolt", "tasks": [task], "executors": [[task, task]]}
        for task, name in COMPONENTS.items()
    ]
    edges = [
        {"source": "source", "stream": "default", "target": "middle", "grouping": "shuffle"},
        {"source": "middle", "stream": "default", "target": "sink", "grouping": "shuffle"},
    ]
    topology = {
        "id": "t-1", "name": "star", "workers": 3, "components": parts, "edges": edges,
        "placement": {str(task): slot for slot, task in TASKS.items()},
    }  # fmt: skip
    return observation_of(
        request_from_json({"v": VERSION, "t": now, "machines": [], "topologies": [topology]}),
        {"t-1": samples},
        MachineSamples(),
        ScaleEvent("e1", "scale_out", ("m4",)),
    )


def steady(*, without: range = range(0)) -> list[dict[str, Any]]:
    """The spout emits 125/s, but is silent in the seconds that are left out; the bolts execute 100/s."""
    spout = [line(SPOUT, t, 125) for t in SECONDS if t not in without]
    return [*spout, *(line(slot, t, 100) for slot in (BOLT, SINK) for t in SECONDS)]


def test_an_edge_has_the_rate_of_the_component_that_feeds_it() -> None:
    (topology,) = observe(steady()).topologies
    first, second = topology.edges
    assert topology.component("source").emitted_per_s == first.tuples_per_s == pytest.approx(125)
    assert topology.component("middle").emitted_per_s == second.tuples_per_s == pytest.approx(100)
    assert (topology.window_s, topology.window_fault) == (60.0, None)


def test_a_longer_window_has_the_rates_of_all_that_time() -> None:
    """125/s, but 65/s in its first half: 65 x 40 + 125 x 40 in 80 s. The usual 60 s see 65 x 20 + 125 x 40."""
    begun, half = NOW - INCOMPLETE_S - 80, NOW - INCOMPLETE_S - 40
    lines = [line(slot, t, 125 if t > half else 65) for slot in TASKS for t in range(begun + 1, NOW + 1)]
    (longer,), (usual,) = (observe(lines, window_s=seconds).topologies for seconds in (80.0, 60.0))
    assert longer.component("source").emitted_per_s == pytest.approx(95.0)
    assert usual.component("source").emitted_per_s == pytest.approx(105.0)


@pytest.mark.parametrize(
    ("begin", "fault"), [(1066, ""), (1067, "the topology began 29 s ago; rates need 30 s of work")]
)
def test_a_longer_window_needs_no_more_work_than_the_usual_one(begin: int, fault: str) -> None:
    """It has what there is: 30 s of the 300 are enough."""
    lines = [line(slot, t, 100) for slot in TASKS for t in range(begin + 1, NOW + 1)]
    (topology,) = observe(lines, window_s=300.0).topologies
    assert (topology.window_fault or "", topology.window_s) == (fault, NOW - INCOMPLETE_S - begin)
    assert topology.component("source").emitted_per_s == pytest.approx(100.0)


def test_after_a_silence_rates_are_of_the_time_since_and_agree() -> None:
    """A spout worker that is silent for 20 s of the window: its edge once read 83/s beside 125/s of the spout."""
    observation = observe(steady(without=range(1041, 1061)))
    (topology,) = observation.topologies
    assert topology.window_s == NOW - INCOMPLETE_S - 1060
    assert topology.edges[0].tuples_per_s == topology.component("source").emitted_per_s == pytest.approx(125)
    assert topology.edges[0].executed_per_s is None  # these lines do not say where tuples came from
    assert rates_problem(observation, 30.0) == ""


def test_no_decision_rests_on_a_short_time_since_a_silence() -> None:
    observation = observe(steady(without=range(1061, 1081)))
    (topology,) = observation.topologies
    assert topology.window_fault == "m1:6700 began, or spoke again, 16 s ago; rates need 30 s of work"
    assert rates_problem(observation, 30.0) == topology.window_fault
    assert topology.edges[0].tuples_per_s == topology.component("source").emitted_per_s == pytest.approx(125 * 40 / 60)


def test_another_process_in_a_slot_begins_the_window_anew() -> None:
    lines = steady()
    for each in lines:
        if each["machine"] == "m2" and each["t"] > 1050:
            each["pid"] = 8
    assert observe(lines).topologies[0].window_s == NOW - INCOMPLETE_S - 1050


def test_a_worker_that_is_silent_now_is_named() -> None:
    observation = observe(steady(without=range(1090, 1101)))
    assert observation.topologies[0].window_fault == "m1:6700 has not reported for 11 s"


@pytest.mark.parametrize("silent_s", [5, 6, 8, 10])
def test_the_window_ends_where_the_slowest_worker_has_reported(silent_s: int) -> None:
    """A throttled sampler, or a post that was lost, makes no fault: rates are of a window that ends a bit earlier."""
    observation = observe(steady(without=range(NOW - silent_s + 1, NOW + 1)))
    (topology,) = observation.topologies
    assert (topology.window_fault, topology.window_s) == (None, 60.0)
    assert topology.component("source").emitted_per_s == pytest.approx(125)
    assert topology.component("middle").executed_per_s == pytest.approx(100)


@pytest.mark.parametrize(
    ("lost", "begin"), [((1060, 1061, 1080, 1081), None), ((1045, 1046, 1060, 1061, 1080, 1081), 1046)]
)
def test_a_window_may_lack_five_seconds_of_a_worker_in_all(lost: tuple[int, ...], begin: int | None) -> None:
    """Two posts that were lost are no silence; three begin the window after the first of them."""
    (topology,) = observe([each for each in steady() if each["machine"] != "m1" or each["t"] not in lost]).topologies
    assert topology.window_fault is None
    assert topology.window_s == (60.0 if begin is None else NOW - INCOMPLETE_S - begin)


def test_a_line_counts_with_the_part_of_its_interval_that_is_in_the_window() -> None:
    """A sampler that was throttled writes one line for 8 s, of which 6 are in the window."""
    start = NOW - INCOMPLETE_S - 60
    late = line(BOLT, start + 6, 800, dt_s=8.0)
    lines = [each for each in steady() if not (each["machine"] == "m2" and start - 2 < each["t"] <= start + 6)]
    (topology,) = observe([*lines, late]).topologies
    assert topology.component("middle").executed_per_s == pytest.approx(100)


def test_a_queue_is_that_of_the_newest_line_wherever_the_task_was() -> None:
    samples = Samples(window_s=60.0, topology_id="t-1")
    now_there = line(SINK, 1090, 1, queue=3) | {"machine": "m1", "port": 6701}
    for each in (now_there, line(SINK, 1080, 1, queue=5000)):
        samples.add_worker(each)
    window = samples.window(NOW, ["m1:6701"])
    assert samples.counts(window).tasks[3].queue == 3


def test_a_line_of_several_seconds_counts_in_each_of_them() -> None:
    """Else the steadiness of a run with a throttled sampler is judged by seconds at 0 and one with 500."""
    samples = Samples(window_s=60.0, topology_id="t-1", sinks=frozenset({"sink"}))
    for each in (line(SINK, 1001, 100), line(SINK, 1006, 500, dt_s=5.0, queue=3), line(SINK, 1007, 100)):
        samples.add_worker(each)
    series = samples.series(1007 + INCOMPLETE_S)
    assert dict(zip(series.t, series.sinks, strict=True)) == dict.fromkeys(map(float, range(1001, 1008)), 100)
    assert series.queues["sink"] == (0, 3, 3, 3, 3, 3, 0)


def test_tuples_that_nobody_timed_are_no_idle_time() -> None:
    lines = steady()
    for each in lines:
        if each["machine"] == "m2" and each["t"] % 2:
            each["tasks"]["execute_ms"] = [None]
    middle = observe(lines).topologies[0].component("middle")
    assert (middle.execute_ms, middle.capacity) == (pytest.approx(2.0), pytest.approx(0.2))
    for each in lines:
        each["tasks"]["execute_ms"] = [None]
    middle = observe(lines).topologies[0].component("middle")
    assert middle.execute_ms is None and middle.capacity is None and middle.executors[0].capacity is None


def test_a_policy_sees_how_long_executors_waited_under_back_pressure() -> None:
    lines = [line(SPOUT, t, 125, backpressure_ms=400.0) for t in SECONDS]
    lines += [line(BOLT, t, 100, backpressure_ms=0.0) for t in SECONDS] + [line(SINK, t, 100) for t in SECONDS]
    (topology,) = observe(lines).topologies
    waited = {c.name: c.backpressure_ms_per_s for c in topology.components}
    assert waited == {"source": pytest.approx(400), "middle": 0, "sink": None}  # None: as from older workers
    assert [c.executors[0].backpressure_ms_per_s for c in topology.components] == list(waited.values())


def test_a_policy_sees_the_cpu_time_of_executors_in_cores() -> None:
    lines = [line(SPOUT, t, 125, cpu_ms=250.0) for t in SECONDS]
    lines += [line(BOLT, t, 100, cpu_ms=None if t < NOW - 30 else 40.0) for t in SECONDS]
    lines += [line(SINK, t, 100) for t in SECONDS]
    (topology,) = observe(lines).topologies
    loads = {c.name: c.executors[0].cpu_load for c in topology.components}
    # The bolt used 40 ms in each of the window's last 27 seconds; before, nobody knew. None: as from older workers.
    assert loads == {"source": pytest.approx(0.25), "middle": pytest.approx(0.04 * 27 / 60), "sink": None}


def test_time_that_left_the_window_leaves_nothing_of_itself() -> None:
    """Sums go on from round to round, and 0.1 + 0.2 - 0.1 - 0.2 is not 0."""
    samples = Samples(window_s=10.0, topology_id="t-1")
    for second, waited_ms in enumerate([120.3, 0.7, 310.2, 88.1, 5.4, *[0.0] * 30], start=BEGIN + 1):
        samples.add_worker(line(SPOUT, second, 1, backpressure_ms=waited_ms))
        counts = samples.counts(samples.window(second, [SPOUT]))
    assert counts.tasks[TASKS[SPOUT]].backpressure_ms == 0.0


def test_the_load_of_a_machine_that_is_silent_is_not_known() -> None:
    machines = MachineSamples(60.0)
    for second in range(BEGIN, BEGIN + 20):
        machines.add({"t": float(second), "dt_s": 1.0, "machine": "m1", "cpu_cores": 0.2})
    assert machines.cpu_load("m1", BEGIN + 30) == pytest.approx(0.2)
    assert machines.cpu_load("m1", BEGIN + 35) is None
    assert machines.cpu_load("m2", BEGIN) is None


def test_runnable_threads_are_the_mean_of_readings_in_the_window() -> None:
    """The probe reads them every five seconds; its lines between say nothing."""
    machines = MachineSamples(20.0)
    for second in range(BEGIN, BEGIN + 40):
        read = {"runnable": float(second - BEGIN)} if second % 5 == 0 else {"runnable": None}
        machines.add({"t": float(second), "dt_s": 1.0, "machine": "m1", "cpu_cores": 0.2} | read)
    expected = [n for n in range(40) if (BEGIN + n) % 5 == 0 and n > 19]
    assert machines.runnable("m1", BEGIN + 39) == pytest.approx(sum(expected) / len(expected))
    assert machines.runnable("m2", BEGIN + 39) is None, "of a probe that does not count them"


@pytest.mark.parametrize("cores", [0, -1.0, float("nan"), float("inf")])
def test_a_quota_that_no_machine_has_is_refused(cores: float) -> None:
    with pytest.raises(ValueError, match="cpu_quota_cores"):
        MachineSamples().add({"t": 1.0, "dt_s": 1.0, "machine": "m1", "cpu_cores": 0.2, "cpu_quota_cores": cores})


def long_lines(slot: str, until: int, **values: Any) -> list[dict[str, Any]]:
    """100 tuples/s in lines of ten seconds, from 1000 on."""
    return [line(slot, t, 1000, dt_s=10.0, **values) for t in range(1010, until + 1, 10)]


def long_samples(until: int = 1100, without: Iterable[int] = ()) -> Samples:
    samples = Samples("t-1", sample_s=10, sinks=frozenset({"sink"}), measured=frozenset({"source"}))
    for each in (each for slot in TASKS for each in long_lines(slot, until)):
        if not (each["machine"] == "m1" and each["t"] in without):
            samples.add_worker(each)
    return samples


def test_rates_of_long_lines_are_of_one_window_and_no_worker_is_silent_between_two() -> None:
    for now in (1100.0, 1104.0, 1109.9):
        window = long_samples().window(now, [*TASKS])
        assert (window.fault, window.seconds) == ("", 60.0)
        assert long_samples().counts(window).tasks[2].executed / window.seconds == pytest.approx(100)


@pytest.mark.parametrize(("now", "fault"), [(1118.9, ""), (1119.5, "m3:6700 has not reported for 20 s")])
def test_a_worker_with_long_lines_is_silent_after_a_longer_time(now: float, fault: str) -> None:
    samples = long_samples()
    assert samples.window(now, [*TASKS]).fault == fault
    assert samples.reporting(now) == (0 if fault else 3)


def test_one_long_line_may_be_missing_and_two_are_a_silence() -> None:
    assert long_samples(1110, without=[1070]).window(1110, [*TASKS]).seconds == 60
    assert long_samples(1110, without=[1060, 1070]).window(1110, [*TASKS]).since_s == 1070


def test_the_series_of_long_lines_has_a_row_each_in_tuples_a_second() -> None:
    samples = long_samples(1100)
    series = samples.series(1103.9)
    assert series.t == tuple(range(1010, 1091, 10)), "1100 is not whole before 1104"
    assert series.sinks == series.throughput == series.due == (100.0,) * 9
    assert samples.series(1104).t[-1] == 1100


def test_the_last_line_of_a_worker_and_the_first_of_the_next_make_one_row() -> None:
    """The one ends at 1003.4, the other begins at 1006: of ten seconds three and four were reported."""
    samples = Samples("t-1", sample_s=10, sinks=frozenset({"sink"}))
    for each in (line(SINK, 1003.4, 300, dt_s=3.4, queue=50), line(SINK, 1010, 400, dt_s=4.0, pid=8, queue=10)):
        samples.add_worker(each)
    series = samples.series(1020)
    assert (series.t, series.sinks) == ((1010.0,), (pytest.approx(70.0),))
    assert series.queues["sink"] == (pytest.approx((3 * 50 + 4 * 10) / 10),)


def test_what_fell_due_in_a_gap_lies_in_the_rows_of_that_time() -> None:
    samples = Samples("t-1", sample_s=10)
    back = line(SPOUT, 1030, 0, dt_s=5.0) | {
        "gaps": {"task": [1], "from_s": [1005.0], "until_s": [1025.0], "due": [40]}
    }
    samples.add_worker(back)
    series = samples.series(1034)
    assert dict(zip(series.t, series.due, strict=True)) == {1010: 1.0, 1020: 2.0, 1030: 1.0}


def test_the_series_of_long_lines_goes_as_far_back_in_as_many_rows_fewer() -> None:
    samples = Samples("t-1", sample_s=10, sinks=frozenset({"sink"}))
    for each in long_lines(SINK, 1000 + 2 * SERIES_LENGTH_S):
        samples.add_worker(each)
    times = samples.series(1004 + 2 * SERIES_LENGTH_S).t
    assert len(times) == SERIES_LENGTH_S // 10 and times[0] == 1010 + SERIES_LENGTH_S


def test_a_machine_with_long_lines_is_silent_after_a_longer_time() -> None:
    machines = MachineSamples(60.0, sample_s=10)
    machines.add({"t": 1000.0, "dt_s": 10.0, "machine": "m1", "cpu_cores": 0.2})
    assert machines.cpu_load("m1", 1024.0) == pytest.approx(0.2)
    assert machines.cpu_load("m1", 1024.5) is None
