"""One number a run, event and metric, from small tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from analysis.metrics import measurements
from analysis.metrics.measurements import Reader

UNIT = {"run_id": "r", "topology": ""}

KEY: Mapping[str, Any] = {**UNIT, "event_id": "e1"}
PLAIN = {"kind": "scale_out", "until_s": None}
WHOLE: Mapping[str, Any] = {**KEY, "component": "", "complete": True}  # a window


def reading(**tables: Sequence[Mapping[str, Any]]) -> Reader:
    return lambda name: [dict(row) for row in tables.get(name, [])]


def measured(**tables: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    found = measurements.measurements(reading(**tables))
    assert all(isinstance(row["value"], float) for row in found)
    return {(row["event_id"], row["metric"]): row["value"] for row in found}


def interval(phase: str, mean: float, steady: bool = True) -> Mapping[str, Any]:
    return {**KEY, "phase": phase, "mean": mean, "steady": steady, "start_s": 0.0 if phase == "after" else -20.0,
                  "end_s": 20.0 if phase == "after" else 0.0}  # fmt: skip


def test_gain_is_after_over_before() -> None:
    found = measured(intervals=[interval("before", 50.0), interval("after", 80.0)])
    assert found["e1", "gain_percent"] == pytest.approx(60.0)


def test_nothing_is_made_of_what_was_not_measured() -> None:
    assert ("e1", "gain_percent") not in measured(intervals=[interval("before", 0.0), interval("after", 80.0)])
    assert list(measured(intervals=[interval("after", 80.0)])) == [("e1", "throughput_after")]
    assert measurements.measurements(reading()) == []


def test_what_is_offered_is_taken_over_the_part_that_counts() -> None:
    due = {-30.0: 1.0, -20.0: 100.0, -10.0: 120.0, 0.0: None, 10.0: 200.0}
    windows = [{**WHOLE, "scope": "due", "window_s": start, "rate": rate} for start, rate in due.items()]
    found = measured(intervals=[interval("before", 1.0), interval("after", 1.0)], event_throughput=windows)
    assert (found["e1", "due_before"], found["e1", "due_after"]) == (110.0, 200.0)


def untimed(waiting: float, emitted: float | None = 100.0, **more: float | None) -> float | None:
    """In percent, of 100/s due in the 20 s from the event on; queues grow in them to `waiting` tuples."""
    scopes = {"due": 100.0, "spouts": emitted, **more}
    windows = [{**WHOLE, "scope": scope, "window_s": start, "rate": rate}
               for scope, rate in scopes.items() for start in (-10.0, 0.0, 10.0)]  # fmt: skip
    queues = [{**KEY, "component": name, "window_s": start, "queue": queue, "emitted": sent}
              for name, sent, size in (("spout", 1000, 0.0), ("bolt", None, waiting))
              for start, queue in ((-10.0, 50.0), (0.0, 50.0), (10.0, 50.0 + size))]  # fmt: skip
    found = measured(
        intervals=[interval("after", 100.0)], event_throughput=windows, activity=queues,
        interval_latency=[{**KEY, "phase": "after", "n": 2000.0, "p50_ms": 1.0, "p95_ms": 1.0}],
    )  # fmt: skip
    return found.get(("e1", "untimed_percent_after"))


def test_what_never_came_to_a_sink_in_the_part_that_counts_has_no_latency() -> None:
    assert untimed(0.0) == 0.0
    assert untimed(40.0) == pytest.approx(2.0), "waiting at its end"
    assert untimed(40.0, emitted=99.0) == pytest.approx(3.0), "and never emitted"
    assert untimed(0.0, due=None) is None, "nobody knows what was due"


def test_missed_and_late_are_of_all_sources_or_not_known() -> None:
    sources = [{**KEY, "phase": "after", "component": name, "missed": 5, "late": late}
               for name, late in (("spout_1", 3), ("spout_2", None))]  # fmt: skip
    found = measured(emissions=sources)
    assert found["e1", "missed_after"] == 10
    assert ("e1", "late_after") not in found


@pytest.mark.parametrize(("before", "after", "gain"), [(True, True, True), (True, False, False), (False, True, False)])
def test_a_value_is_steady_where_every_side_that_it_rests_on_was(before: bool, after: bool, gain: bool) -> None:
    tables: dict[str, Any] = {
        "intervals": [interval("before", 50.0, before), interval("after", 80.0, after)],
        "event_throughput": [{**WHOLE, "scope": "due", "window_s": start, "rate": 1.0} for start in (-10.0, 10.0)],
        "interval_latency": [{**KEY, "phase": phase, "n": 5.0, "p50_ms": 1.0, "p95_ms": 3.0}
                             for phase in ("before", "after")],
        "convergence": [{**KEY, "definition": "sp", "time_s": 40.0, "censored": False, "horizon_s": 170.0}],
        "downtime": [{**KEY, "downtime_s": 1.0, "longest_s": 1.0, "windows_at_zero_s": 0.0, "lasts": False}],
        "cpu": [{**KEY, "phase": phase, "machine": "m1", "joins_at_scale": False, "utilisation_mean": 0.5,
                 "cores_mean": 1.0, "steal_percent_mean": 1.0, "memory_bytes_mean": 1.0,
                 "memory_share_mean": 0.25}
                for phase in ("before", "after")],
    }  # fmt: skip
    found = {row["metric"]: row["steady"] for row in measurements.measurements(reading(**tables))}
    names = ("throughput", "due", "latency_all_p95_ms", "cpu_percent", "memory_percent", "memory_mb")
    assert {found[f"{name}_before"] for name in names} == {before}
    assert {found[f"{name}_after"] for name in names} == {after}
    assert (found["gain_percent"], found["convergence_sp_s"], found["downtime_s"]) == (gain, after, None)


def test_an_unconverged_time_is_its_horizon_and_censored() -> None:
    times = [{**KEY, "definition": "sp", "time_s": None, "censored": True, "horizon_s": 170.0}]
    (row,) = measurements.measurements(reading(convergence=times))
    assert (row["metric"], row["value"], row["censored"]) == ("convergence_sp_s", 170.0, True)


def test_machines_that_left_do_not_count_after_it_and_the_master_only_in_sums() -> None:
    """m2 leaves at e1 and joins again at e2; it is kept idle and measured throughout."""
    events = [
        {**KEY, "zero_s": 10.0, "joined": [], "released": ["m2"], "given_back": 0, "attempts": 1, **PLAIN},
        {
            **KEY,
            "event_id": "e2",
            "zero_s": 20.0,
            "joined": ["m2"],
            "released": [],
            "given_back": 0,
            "attempts": 1,
            **PLAIN,
        },
    ]
    cpu = [
        {**KEY, "event_id": event, "phase": phase, "machine": machine, "joins_at_scale": joins,
         "utilisation_mean": share, "cores_mean": share, "steal_percent_mean": steal, "memory_bytes_mean": 1e6,
         "memory_share_mean": {"m1": 0.4, "m2": 0.2}.get(machine, 0.9)}
        for event in ("e1", "e2") for phase in ("before", "after")
        for machine, joins, share, steal in (("m1", False, 0.8, 3.0), ("m2", False, 0.2, 9.0),
                                             ("master", None, 0.01, None))
    ]  # fmt: skip
    found = measured(scale_events=events, cpu=cpu)
    levels = {key: found[*key] for key in found if key[1].startswith("cpu_percent")}
    assert levels == {("e1", "cpu_percent_before"): 50, ("e1", "cpu_percent_after"): 80,
                      ("e2", "cpu_percent_before"): 80, ("e2", "cpu_percent_after"): 50}  # fmt: skip
    assert (found["e1", "memory_mb_before"], found["e1", "memory_mb_after"]) == (3, 2)
    assert (found["e1", "memory_percent_before"], found["e1", "memory_percent_after"]) == (30, 40)
    assert (found["e1", "cpu_steal_percent_before"], found["e1", "cpu_steal_percent_after"]) == (9, 3)


def test_what_machines_used_is_of_all_of_them_or_of_none() -> None:
    """m2 was not measured after the event, which is as good as nothing of all, unless it had crashed and used none."""
    events = [{**KEY, "zero_s": 10.0, "joined": [], "released": [], "given_back": 0, "attempts": 1, **PLAIN}]
    cpu = [
        {**KEY, "phase": phase, "machine": machine, "joins_at_scale": False, "utilisation_mean": 0.5,
         "cores_mean": 0.5, "steal_percent_mean": None, "memory_bytes_mean": 1e6,
         "memory_share_mean": 0.25}
        for phase, machine in (("before", "m1"), ("before", "m2"), ("after", "m1"))
    ]  # fmt: skip
    described = [{**KEY, "machine": name, "joins_at_scale": False} for name in ("m1", "m2")]
    found = measured(scale_events=events, cpu=cpu, machines=described)
    assert (found["e1", "cpu_cores_before"], found["e1", "memory_mb_before"]) == (1.0, 2.0)
    assert not {("e1", "cpu_cores_after"), ("e1", "memory_mb_after")} & found.keys()
    shares = {("e1", f"cpu_{name}_after") for name in ("percent", "spread_percent", "imbalance")}
    assert not shares & found.keys() and found["e1", "cpu_imbalance_before"] == 1.0, "m2 may have been the busiest"
    without_quota = [row | ({} if row["machine"] == "m1" else {"utilisation_mean": None}) for row in cpu[:2]]
    unknown = measured(scale_events=events, cpu=without_quota, machines=described)
    without_limit = [row | ({} if row["machine"] == "m1" else {"memory_share_mean": None}) for row in cpu[:2]]
    assert found["e1", "memory_percent_before"] == unknown["e1", "memory_percent_before"] == 25
    assert ("e1", "memory_percent_before") not in measured(scale_events=events, cpu=without_limit, machines=described)
    assert ("e1", "memory_percent_after") not in found
    assert ("e1", "cpu_imbalance_before") not in unknown and unknown["e1", "cpu_cores_before"] == 1.0
    crash = [{**KEY, "t_s": 11.0, "kind": "crashed", "machine": "m2", "decision_id": None, "ok": None}]
    down = measured(scale_events=events, cpu=cpu, machines=described, events=crash)
    assert (down["e1", "cpu_cores_after"], down["e1", "memory_mb_after"]) == (0.5, 1.0)
    assert (down["e1", "cpu_percent_after"], down["e1", "cpu_imbalance_after"]) == (50.0, 1.0)


def test_a_machine_that_has_not_joined_yet_does_not_count_before() -> None:
    """It is up and measured from the run's beginning, idle."""
    events = [{**KEY, "zero_s": 10.0, "joined": ["m2"], "released": [], "given_back": 0, "attempts": 1, **PLAIN}]
    cpu = [
        {**KEY, "phase": phase, "machine": machine, "joins_at_scale": joins, "utilisation_mean": share,
         "cores_mean": share, "steal_percent_mean": None, "memory_bytes_mean": 1e6,
         "memory_share_mean": 0.25}
        for phase in ("before", "after") for machine, joins, share in (("m1", False, 0.8), ("m2", True, 0.2))
    ]  # fmt: skip
    described = [{**KEY, "machine": "m1", "joins_at_scale": False}, {**KEY, "machine": "m2", "joins_at_scale": True}]
    found = measured(scale_events=events, cpu=cpu, machines=described)
    assert (found["e1", "cpu_percent_before"], found["e1", "cpu_percent_after"]) == (80, 50)
    assert (found["e1", "cpu_spread_percent_before"], found["e1", "cpu_spread_percent_after"]) == (0, 60)
    assert ("e1", "cpu_steal_percent_after") not in found  # an older record, which does not say


@pytest.mark.parametrize(
    ("before", "old", "joined", "printed"),
    [(10, 4, 1, 3), (10, 4, 2, 5), (10, 4, 4, 10), (24, 6, 1, 4), (14, 4, 1, 4), (49, 7, 3, 21)],
)
def test_new_machines_are_to_get_as_many_instances_as_the_printed_loop_runs(
    before: int, old: int, joined: int, printed: int
) -> None:
    """SP II-B, algorithm 2: star's 10 on 4 machines are 2.5 a new one, so three; five for two of them, ten for four."""
    moved = {**KEY,
        "executors_before": before, "executors_after": before + printed, "executors_moved": printed,
        "tasks_moved": printed, "tasks_moved_to_old_machines": 0, "instances_on_joined": printed,
        "joined_machines": joined, "old_machines": old,
    }  # fmt: skip
    over = "instances_on_joined_over_expected"
    assert measured(moves=[moved])["e1", over] == 0
    assert measured(moves=[moved | {"instances_on_joined": printed - 1}])["e1", over] == -1
    assert ("e1", over) not in measured(moves=[moved | {"joined_machines": 0}])
    assert ("e1", over) not in measured(moves=[moved | {"old_machines": 0}])


def ramp(
    served: Mapping[float, float], over_s: float = 1000.0, kind: str = "trace", **other: Any
) -> dict[str, dict[str, Any]]:
    """Rows by metric of a load that grows to 10,000/s and stays there, 1200 s in all; two tuples come of each one
    offered. `served`: from which second on which throughput at most; m2 is there for 300 s of it. `other`: tables."""
    windows = []
    for second in range(-100, 1200, 10):
        offered = 100.0 if second < 0 else min(1.0, (second + 5) / over_s) * 10_000
        cap = next((most for since_s, most in reversed(served.items()) if second >= since_s), offered)
        rates = {"due": offered, "total": 2 * min(offered, cap), "sink": 9e9}
        windows += [{**WHOLE, "window_s": float(second), "scope": scope, "rate": rate} for scope, rate in rates.items()]
    event = {**KEY, "kind": kind, "zero_s": 50.0, "joined": [], "released": [], "given_back": 0, "attempts": 0,
             "until_s": None}  # fmt: skip
    shares = {"m1": 0.5, "m2": 0.8}
    tables: dict[str, Any] = {
        "throughput": windows, "scale_events": [event], "intervals": [interval("before", 200.0)],
        "zeros": [{**UNIT, "zero_s": 50.0, "first_s": -50.0, "last_s": 1250.0}],
        "machines": [{"run_id": "r", "machine": name, "joins_at_scale": name == "m2"} for name in shares],
        "events": [{**UNIT, "t_s": t_s, "kind": line, "machines": ["m2"], "event_id": "e1"}
                   for t_s, line in ((250.0, "machines_joined"), (550.0, "machines_left"))],
        "cpu_windows": [{**UNIT, "window_s": float(second), "machine": name, "utilisation_mean": share}
                        for name, share in shares.items() for second in range(-100, 1200, 10)],
    }  # fmt: skip
    tables |= {name: rows(tables.get(name, [])) for name, rows in other.items()}
    return {row["metric"]: row for row in measurements.measurements(reading(**tables))}


def test_a_growing_load_has_the_rate_where_throughput_stops_following_and_machines_over_time() -> None:
    capped = {name: row["value"] for name, row in ramp({0.0: 6_000.0}).items()}
    assert (capped["saturation_rate"], capped["peak"], capped["end_level"]) == (6_000.0, 12_000.0, 12_000.0)
    assert (capped["machine_seconds"], capped["utilisation_percent"]) == (1200 + 300, pytest.approx(56.0))
    fallen = ramp({0.0: 6_000.0, 700.0: 4_000.0})
    assert [fallen[name]["value"] for name in ("saturation_rate", "peak", "end_level")] == [6_000.0, 12_000.0, 8_000.0]
    assert not fallen["saturation_rate"]["censored"]
    pause = ramp({300.0: 0.0, 340.0: 1e9, 800.0: 8_000.0})  # workers restart, and throughput follows again
    assert pause["saturation_rate"]["value"] == 8_000.0


def queue(per_s: float) -> Any:
    """Of a queue that changes by so much."""
    return lambda _: [{**KEY, "window_s": float(at_s), "queue": 900 + per_s * at_s, "emitted": 9.0}
                      for at_s in range(-100, 100, 10)]  # fmt: skip


def windows(scope: str, rate: float) -> Any:
    return lambda rows: [*rows, *({**WHOLE, "window_s": float(at_s), "scope": scope, "rate": rate}
                                  for at_s in range(-100, 0, 10))]  # fmt: skip


@pytest.mark.parametrize(
    ("other", "is_known"),
    [
        ({"activity": queue(0.0)}, True),
        ({"activity": queue(4.0), "throughput": windows("spouts", 97.0)}, True),
        ({"activity": queue(6.0)}, False),
        ({"activity": queue(-6.0)}, False),
        ({"throughput": windows("spouts", 90.0)}, False),
        ({"throughput": windows("dropped", 10.0)}, False),
        ({"intervals": lambda rows: [{**row, "steady": False} for row in rows]}, False),
    ],
)
def test_a_rate_that_throughput_follows_needs_a_time_before_that_kept_up(other: Any, is_known: bool) -> None:
    """100/s are due before: 300 of 400 served would make each later rate look followed."""
    assert ("saturation_rate" in ramp({0.0: 6_000.0}, **other)) == is_known


def test_a_level_at_the_end_and_utilisation_are_of_all_windows_and_machines() -> None:
    def until(last_s: float) -> Any:
        return lambda rows: [{**row, "complete": row["window_s"] <= last_s} for row in rows]

    assert "end_level" not in ramp({}, throughput=until(900.0))
    assert "end_level" in ramp({}, throughput=until(1180.0)), "the last window may be cut"
    gap = ramp({}, throughput=lambda rows: [{**row, "complete": row["window_s"] != 1150.0} for row in rows])
    assert "end_level" not in gap and "peak" in gap

    def silent(rows: Any) -> Any:
        return [row for row in rows if row["machine"] == "m1"]

    crash = {**UNIT, "t_s": 300.0, "kind": "crashed", "machine": "m2", "machines": None}
    assert "utilisation_percent" not in ramp({}, cpu_windows=silent)
    found = ramp({}, cpu_windows=silent, events=lambda rows: [*rows, crash])
    assert found["utilisation_percent"]["value"] == 50.0


def test_a_machine_that_died_in_an_aborted_event_costs_nothing_from_then_on() -> None:
    def aborted(rows: Any) -> Any:
        return [{**row, "kind": "scale_aborted"} if row["kind"] == "machines_left" else row for row in rows]

    assert ramp({}, events=aborted)["machine_seconds"]["value"] == 1200 + 300


def test_throughput_that_follows_to_the_end_gives_a_lower_bound_and_a_step_is_no_ramp() -> None:
    found = ramp({0.0: 1e9})["saturation_rate"]
    assert (found["value"], found["censored"]) == (pytest.approx(10_000.0), True)
    assert "saturation_rate" not in ramp({0.0: 1e9}, kind="scale_out")
    assert "saturation_rate" not in ramp({0.0: 1e9}, over_s=60.0)
