"""Courses of rates: their steps, and which of them are refused."""

import tracemalloc
from dataclasses import replace
from itertools import islice, pairwise
from math import cos, isclose, pi, tau
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.errors import ExperimentError
from barograph.plan.blocks import digest
from barograph.plan.events import courses
from barograph.plan.events.courses import Step, rows_of
from barograph.plan.events.kind import PlanSoFar
from barograph.plan.events.order import rest_s
from barograph.plan.events.rates import RateChange, Trace
from barograph.plan.experiment import EXPERIMENTS, Experiment, from_data, parse
from barograph.testbeds import checks
from barograph.yaml_files import read_yaml


def tuples(steps: list[Step]) -> float:
    """Of a source of one tuple a second, from the zero to the end."""
    return sum(factor * (end - begin) for (begin, factor), (end, _) in pairwise(steps))


@given(st.floats(0.1, 5), st.floats(0.1, 5), st.floats(0.5, 300))
def test_a_ramp_has_as_many_tuples_as_the_line(before: float, factor: float, over_s: float) -> None:
    steps = list(courses.ramp(before, factor, over_s))
    assert isclose(tuples(steps), (before + factor) / 2 * over_s, rel_tol=1e-6)
    assert steps[0][0] == 0 and steps[-1] == (over_s, factor)
    assert all(end - begin <= courses.STEP_S for (begin, _), (end, _) in pairwise(steps))


def test_a_step_is_one() -> None:
    assert list(courses.ramp(1.0, 2.0, None)) == [(0.0, 2.0)]


@given(st.floats(0.5, 5), st.floats(0, 1), st.floats(2, 200), st.floats(1, 300), st.floats(0, 0.99))
def test_a_sine_has_as_many_tuples_as_the_curve(
    mean: float, height: float, period_s: float, for_s: float, phase: float
) -> None:
    steps = list(courses.sine(mean, mean * height, period_s, for_s, phase))
    risen = cos(tau * phase) - cos(tau * (for_s / period_s + phase))
    wanted = mean * for_s + mean * height * risen * period_s / tau
    assert isclose(tuples(steps), wanted, rel_tol=1e-4, abs_tol=1e-4)
    assert all(0 <= factor <= 2 * mean for _, factor in steps)
    assert steps[-1] == (for_s, mean)


def test_a_sine_without_an_end_goes_on() -> None:
    steps = list(islice(courses.sine(1.0, 0.5, 4.0, None, 0.25), 1000))
    assert [t for t, _ in steps] == [float(n) for n in range(1000)]
    assert isclose(steps[0][1], 1 + 0.5 * 2 / pi, rel_tol=1e-6) and steps[999][1] == steps[3][1]


def test_a_trace_has_as_many_tuples_as_its_rows() -> None:
    rows = [(0.0, 2.0), (15.0, 0.0), (30.0, 1.0), (65.0, 4.0)]
    steps = list(courses.trace(iter(rows), 10.0, None))
    assert steps == [(0.0, 2.0), (1.0, 1.0), (2.0, 0.0), (3.0, 1.0), (4.0, 1.0), (5.0, 1.0), (6.0, 2.5), (7.0, 4.0)]
    assert list(courses.trace(iter(rows), 10.0, 2.5))[-2:] == [(2.0, 0.0), (2.5, 0.0)]


def test_a_long_trace_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("".join(f"{t},{0.5 + t % 7 / 10}\n" for t in range(20_000)))
    tracemalloc.start()
    number = sum(1 for _ in courses.trace(rows_of(path), 1.0, None))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert number == 20_001 and peak < 500_000


def experiment(folder: Path, event: dict[str, Any], **more: Any) -> Experiment:
    data = read_yaml(EXPERIMENTS / "stela" / "star.yaml")
    data |= {"machines": {"before": 4, "after": 4}, "events": [{"at": "steady"} | event], **more}
    return parse("stela/star", data, source="star.yaml", folder=folder)


SINE = {"kind": "sine", "mean": 1.0, "amplitude": 0.5, "period_s": 20.0}


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (SINE | {"amplitude": 1.5}, r"events.0.amplitude is 1.5; allowed: at most mean \(1\), no rate is below 0"),
        (SINE | {"period_s": 1.9}, r"events.0.period_s is 1.9; allowed: .*greater than or equal to 2"),
        (SINE | {"mean": 900.0, "amplitude": 200.0}, r"make 1100; allowed: at most 1000"),
        (SINE | {"mean": 0.0}, r"events.0.mean is 0.0"),
        (SINE | {"phase": 1.0}, r"events.0.phase is 1.0"),
        (SINE | {"amplitude": float("inf")}, r"events.0.amplitude is inf"),
        ({"kind": "rate", "factor": 0.0}, r"events.0.factor is 0.0"),
        ({"kind": "rate", "factor": 2.0, "over_s": 0.0}, r"events.0.over_s is 0.0"),
        ({"kind": "rate", "factor": 2.0, "over_s": 900.0}, r"over_s is 900; .* durations.horizon_s \(370"),
        (SINE | {"for_s": 371.0}, r"events.0.for_s is 371; allowed: at most 370: it would not be over when the run is"),
        (SINE | {"period_s": 700_000.0}, r"events.0.period_s is 700000.0; allowed: .*less than or equal to 604800"),
        ({"kind": "trace", "file": "none.csv"}, r"events.0.file is 'none.csv': there is no .*none.csv .*give a path"),
        ({"kind": "trace", "file": "."}, r"it cannot be read \(Is a directory\); give a CSV file"),
    ],
)  # fmt: skip
def test_a_course_that_cannot_be_is_refused(event: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=said):
        experiment(tmp_path, event)


@pytest.mark.parametrize(
    ("content", "more", "said"),
    [
        ("", {}, "it has no row; allowed: two or more"),
        ("seconds,factor\n0,1\n", {}, "it has one row; allowed: two or more"),
        ("0,1\n5,2\n5,3\n", {}, "line 3 is at 5 s, after 5 s; allowed: times that ascend"),
        ("0,1\n4000,2\n", {}, r"line 2 is at 4000 s, 4000 s after the one before; .* longest_gap_s \(3600"),
        ("0,1\n30,2\n", {"longest_gap_s": 10.0}, r"at most longest_gap_s \(10\)"),
        ("0,1\n1,-2\n", {}, r"line 2 is -2 times the submitted rate; allowed: 0, or 1e-06 to 1000"),
        ("0,1\n1,1e-7\n", {}, "line 2 is 1e-07 times"),
        ("0,100\n1,2000\n", {}, "line 2 is 2000 times the submitted rate.*`scale` makes"),
        ("0,1\n1,nan\n", {}, "line 2 is '1,nan'; allowed: finite numbers, `seconds,factor`"),
        ("0,1\n1,2,3\n", {}, "line 2 is '1,2,3'"),
        ("t,a,b\n0,1,2\n", {}, "line 2 is '0,1,2'.*`columns` says which of several are meant"),
        ("t,a,b\n0,1,2\n", {"columns": ["t", "c"]}, "columns has 'c'; its columns are t, a, b"),
        ("0,1,2\n1,1,2\n", {"columns": ["t", 2]}, "columns has 't'; it has no line of names; give numbers from 1"),
        ("0,1,2\n1,1,2\n", {"columns": [1, 4]}, "line 1 is '0,1,2'"),
        ("0,1\n1,2\n", {"columns": [1]}, "columns has 1; allowed: two, of the times and of the numbers"),
        ("0,1\n1,2\n", {"columns": [0, 1]}, r"columns.0 is 0"),
        ("noon,1\nlate,2\n", {}, "line 1 is 'noon,1'; allowed: .* or a time as 2026-11-28T21:00"),
        ("0,1\n1,2\n", {"for_s": 2.0}, r"for_s is 2; allowed: at most 1, the length of day.csv"),
        ("0,1\n400,2\n", {"for_s": 375.0}, r"for_s is 375; allowed: at most 370: it would not be over when the run is"),
        ("0,1\n400,2\n", {}, r"'day.csv', which lasts 400 s with compression 1; allowed: at most 370: .*give for_s"),
        ("0,1\n1,2\n", {"compression": 0.001}, r"which lasts 1000 s with compression 0.001; allowed: at most 370"),
        ("0,1\n1,2\n", {"sha256": "0" * 64}, "sha256 is 0{64}, but day.csv is .*; it has changed"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_trace_is_refused(content: str, more: dict[str, Any], said: str, tmp_path: Path) -> None:
    (tmp_path / "day.csv").write_text(content)
    with pytest.raises(ExperimentError, match=f"events.0.*{said}"):
        experiment(tmp_path, {"kind": "trace", "file": "day.csv"} | more)


def test_a_trace_may_be_at_zero_and_its_numbers_may_be_of_anything(tmp_path: Path) -> None:
    (tmp_path / "day.csv").write_text("seconds,requests\n1700000000,5000\n1700000060,0\n1700000120,2500\n")
    given = experiment(tmp_path, {"kind": "trace", "file": "day.csv", "scale": 0.0002})
    (event,) = given.events
    assert isinstance(event, Trace) and event.file == str(tmp_path / "day.csv")
    assert list(rows_of(tmp_path / "day.csv", event.scale)) == [(0.0, 1.0), (60.0, 0.0), (120.0, 0.5)]


@pytest.mark.parametrize(
    ("content", "more"),
    [
        ("\ufeffseconds,factor\n0,1\n60,2\n\n", {}),
        ("# published 2026\n0, 1\n# noon\n60, 2\n , \n", {}),
        ("host,time,load\na,0,1\na,60,2\n", {"columns": ["time", "load"]}),
        ("a,0,1\na,60,2\n", {"columns": [2, 3]}),
        ("load,minute\n1,0\n2,1\n", {"columns": ["load", "minute"][::-1], "unit_s": 60}),
        ("2026-11-28T21:00,1\n2026-11-28T21:01,2\n", {}),
        ("time,load\n2026-11-28 21:00:00+01:00,1\n2026-11-28T20:01:00Z,2\n", {}),
        ("load\n1\n2\n", {"period_s": 60}),
        ("a,1\na,2\n", {"period_s": 60, "columns": [2]}),
    ],
)  # fmt: skip
def test_a_trace_as_people_publish_it(content: str, more: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "day.csv").write_text(content)
    given = experiment(tmp_path, {"kind": "trace", "file": "day.csv"} | more)
    (event,) = given.events
    assert isinstance(event, Trace) and from_data(given.as_data()) == given
    assert list(rows_of(tmp_path / "day.csv", form=event.form)) == [(0.0, 1.0), (60.0, 2.0)]


def test_what_a_trace_says_is_a_part_of_the_request_and_where_it_lies_is_not(tmp_path: Path) -> None:
    for name, content in (("a", "0,1\n1,2\n"), ("b", "0,1\n1,2\n"), ("c", "0,1\n1,3\n")):
        (tmp_path / f"{name}.csv").write_text(content)
    a, b, c = (experiment(tmp_path, {"kind": "trace", "file": f"{name}.csv"}) for name in "abc")
    assert digest(a) == digest(b) != digest(c)
    (tmp_path / "a.csv").unlink()
    assert from_data(a.as_data()) == a, "what is on record needs no file"


def test_the_data_of_a_step_are_those_of_before_there_were_courses() -> None:
    event = {"kind": "rate", "at": "steady", "factor": 1.5}
    assert experiment(EXPERIMENTS, event).as_data()["events"] == [event]


def test_topologies_and_sources_are_those_of_the_experiment() -> None:
    plan = PlanSoFar(0, 4, ("m1",), 100.0, "durations.horizon_s", topologies=("a", "b"))
    event = RateChange("steady", 2.0, topology="c", source="s")
    assert list(event.errors(plan)) == ["events.0.topology is 'c'; the experiment has a, b"]
    assert list(replace(event, topology="b").errors(plan)) == []
    (said,) = replace(event, topology=None).errors(plan)
    assert said == "events.0.source is 's' without topology; say which of a, b it is of"
    assert list(event.errors(replace(plan, topologies=()))) == []


def test_a_source_that_is_not_there_is_refused() -> None:
    checks.check(experiment(EXPERIMENTS, SINE | {"source": "spout_1"}))
    with pytest.raises(ExperimentError, match=r"events.0.source is 'centre'; the topology has the spouts spout_1, "):
        checks.check(experiment(EXPERIMENTS, SINE | {"source": "centre"}))


def test_workers_that_post_too_seldom_are_refused_with_a_course_only() -> None:
    slow = {"name": "star", "overrides": {"config": {"barograph.window.s": 10}}}
    checks.check(experiment(EXPERIMENTS, {"kind": "rate", "factor": 2.0}, topology=slow))
    with pytest.raises(ExperimentError, match=r"barograph.window.s is 10; allowed with a course of rates: at most 2"):
        checks.check(experiment(EXPERIMENTS, SINE, topology=slow))


def test_a_course_may_go_on_while_other_events_happen(tmp_path: Path) -> None:
    """It has the time until the run ends, not only until the next event."""
    (tmp_path / "day.csv").write_text("0,1\n400,2\n")
    trace = {"kind": "trace", "at": "steady", "file": "day.csv"}
    later = {"kind": "rate", "at": 40.0, "factor": 2.0, "source": "spout_1"}
    given = experiment(tmp_path, {}, events=[trace, later])
    assert rest_s(given.events, 0, 370.0) == 40 + 370 + given.events[1].longest_s
    assert rest_s(given.events, 1, 370.0) == 370
    with pytest.raises(ExperimentError, match=r"which lasts 4000 s with compression 0.1; allowed: at most 420"):
        experiment(tmp_path, {}, events=[trace | {"compression": 0.1}, later])


def test_what_is_on_record_is_read_without_its_file_however_long_it_was(tmp_path: Path) -> None:
    (tmp_path / "day.csv").write_text("0,1\n100,2\n")
    given = experiment(tmp_path, {"kind": "trace", "file": "day.csv"})
    shorter = replace(given, durations=replace(given.durations, after_floor_s=60.0, horizon_s=60.0))
    assert from_data(shorter.as_data()) == shorter


def test_workers_that_post_too_seldom_are_refused_where_a_policy_decides() -> None:
    hold = {"kind": "hold", "decide_every_s": 20.0}
    for window_s, fits in ((5, True), (6, False)):
        slow = {"name": "star", "overrides": {"config": {"barograph.window.s": window_s}}}
        given = experiment(EXPERIMENTS, hold, topology=slow, claims=[])
        if fits:
            checks.check(given)
        else:
            said = r"window.s is 6; allowed where a policy decides: at most 5, because samples older than 10 s cannot"
            with pytest.raises(ExperimentError, match=said):
                checks.check(given)
        checks.check(replace(given, testbed=replace(given.testbed, name="simulated")))


def test_a_length_may_be_a_week_and_no_longer() -> None:
    durations = read_yaml(EXPERIMENTS / "stela" / "star.yaml")["durations"]
    week = durations | {"after_floor_s": 604_800.0, "horizon_s": 604_800.0}
    assert experiment(EXPERIMENTS, SINE | {"for_s": 604_800.0}, durations=week).durations.horizon_s == 604_800
    with pytest.raises(ExperimentError, match=r"durations.horizon_s is 604801.0; allowed: .*604800"):
        experiment(EXPERIMENTS, SINE, durations=week | {"horizon_s": 604_801.0})
