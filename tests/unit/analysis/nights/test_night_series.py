"""Nights become series: medians with their spread; gaps keep their reason; machines and names are never mixed."""

from __future__ import annotations

from typing import Any

from analysis.nights.night_series import NEVER_SUFFIX, NightSeries, build_series, name_changes
from analysis.nights.settings import Renames
from bench.statistics.synthetic_nights import experiment, night
from tests.support.nights_by_hand import STAR, Differs, parsed, record

NONE = Renames()


def test_a_night_is_the_median_of_its_repetitions_with_their_spread() -> None:
    (series,) = build_series(parsed([record(0, {"values": [9.0, 1.0, 2.0]})]), NONE)
    (point,) = series.points
    assert (point.value, point.low, point.high, point.runs) == (2.0, 1.0, 9.0, 3)


def test_what_is_missing_is_null_and_says_why() -> None:
    records = [
        record(0, 100.0),
        record(1, None),
        night(2, "quick", []),
        night(3, "quick", [experiment(STAR, {}, status="deadline", reason="not begun")]),
        night(4, "quick", [experiment(STAR, {"even": {"downtime_s": {"e1": [0.0]}}})]),
        night(5, "quick", [experiment(STAR, {"stela": {"downtime_s": {"e1": [0.0]}}})]),
        record(6, 100.0, machine="type_2"),
    ]
    series = next(one for one in build_series(parsed(records), NONE)
                  if one.key.metric == "throughput_after" and one.key.machine == "type_1")  # fmt: skip
    assert series.nights == (0,)
    assert [point.why for point in series.points[1:]] == [
        "infrastructure: m3 died", "not in the suite that night", "deadline: not begun", "no complete run of stela",
        "not measured", "other machines",
    ]  # fmt: skip


def test_machines_are_never_mixed_and_an_experiments_own_fingerprint_counts() -> None:
    def ran(i: int, machine: str, own: str) -> Differs:
        made = experiment(STAR, {"stela": {"downtime_s": {"e1": [1.0]}}}, machine=own)
        return night(i, "quick", [made], machine=machine)

    found = build_series(parsed([ran(0, "a", ""), ran(1, "b", ""), ran(2, "c", "x"), ran(3, "d", "x")]), NONE)
    assert {series.key.machine: series.nights for series in found} == {"a": (0,), "b": (1,), "x": (2, 3)}


def converged(*nights: Any) -> tuple[NightSeries, ...]:
    return build_series(parsed([record(i, one, "convergence_sp_s") for i, one in enumerate(nights)]), NONE)


def test_a_horizon_is_no_value_and_how_often_it_was_reached_is_a_series_of_its_own() -> None:
    """Of the second night's runs more than half never got there: it has no number, whatever the horizon."""
    times, never = converged(
        {"values": [60.0, 50.0], "horizons": [600.0]}, {"values": [50.0], "horizons": [590.0, 600.0]}, None
    )
    assert [(point.value, point.low, point.high, point.horizon) for point in times.points] == [
        (60.0, 50.0, None, None), (None, 50.0, None, 600.0), (None, None, None, None),
    ]  # fmt: skip
    assert times.points[1].why == "not within 590 to 600 s: 2 of 3 runs", "one was watched for 590 s only"
    assert (times.nights, times.watched_nights) == ((0,), (0, 1))
    assert never.key.metric == "convergence_sp_s" + NEVER_SUFFIX
    assert [point.value and round(point.value) for point in never.points] == [33, 67, None]
    assert {point.within for point in never.points[:2]} == {590.0}
    assert never.points[2].why == "infrastructure: m3 died"
    assert never.metric.better == "lower"


def test_the_share_that_never_got_there_is_of_the_same_time_in_all_nights() -> None:
    """70 s are beyond the 60 that the second night watched; a night that was watched for less is left out."""
    _, never = converged({"values": [50.0, 70.0], "horizons": []}, {"values": [50.0], "horizons": [60.0]},
                         {"values": [50.0, 60.0], "horizons": []})  # fmt: skip
    assert [point.value for point in never.points] == [50.0, 50.0, 0.0]
    early = {"values": [5.0], "horizons": [20.0]}
    _, never = converged(early, *[{"values": [5.0, 5.0], "horizons": [60.0, 60.0]}] * 25)
    assert (never.points[0].value, never.points[0].why) == (None, "watched for less than 60 s")
    assert {point.value for point in never.points[1:]} == {50.0}


def test_a_utility_of_latencies_needs_the_tuples_that_have_none() -> None:
    """W5: a variant that throws 30 % away is quick with the others. Utility of juice counts what was lost itself."""

    def at_night(of_latency: bool, untimed: float) -> NightSeries:
        metrics = {"utility_after": {"e1": {"values": [30.0], "of_latency": of_latency}},
                   "untimed_percent_after": {"e1": [untimed]}}  # fmt: skip
        nights = parsed([night(0, "quick", [experiment(STAR, {"stela": metrics})])])
        found = build_series(nights, NONE)
        return next((each for each in found if each.key.metric == "utility_after"), found[0])

    assert at_night(True, 0.1).values == at_night(False, 30.0).values == (30.0,)
    assert at_night(True, 30.0).key.metric == "untimed_percent_after", "no night has a value that may be judged"


def test_latencies_by_clocks_that_nobody_knows_are_no_value() -> None:
    unknown, known = ({"values": [50.0], "horizons": [], "error": error} for error in (None, 0.5))
    (times,) = build_series(parsed([record(i, one, "latency_all_p95_ms_after") for i, one in
                                    enumerate((known, unknown))]), NONE)  # fmt: skip
    assert [(point.value, point.error) for point in times.points] == [(50.0, 0.5), (None, 0.0)]
    assert "clocks" in times.points[1].why


def test_a_renaming_joins_old_and_new() -> None:
    old = night(0, "quick", [experiment("stela/stern", {"steal": {"thruput": {"e1": [1.0]}}})])
    new = night(1, "quick", [experiment(STAR, {"stela": {"throughput_after": {"e1": [2.0]}}})])
    renames = Renames({"stela/stern": STAR}, {"steal": "stela"}, {"thruput": "throughput_after"})
    (series,) = build_series(parsed([old, new]), renames)
    assert (series.key.name, series.values) == ("stela/star/stela/throughput_after/e1", (1.0, 2.0))
    assert len(build_series(parsed([old, new]), NONE)) == 2, "without it nothing is guessed"


def test_where_both_names_are_there_the_new_one_counts() -> None:
    both = night(
        0, "quick", [experiment(STAR, {"stela": {"thruput": {"e1": [1.0]}, "throughput_after": {"e1": [2.0]}}})]
    )
    found = build_series(parsed([both]), Renames(metrics={"thruput": "throughput_after"}))
    assert {series.key.metric: series.values for series in found} == {"thruput": (1.0,), "throughput_after": (2.0,)}


def ran(i: int, variants: Differs, name: str = STAR) -> Differs:
    return night(i, "quick", [experiment(name, variants)])


def test_a_metric_that_vanishes_is_told_with_the_one_that_came() -> None:
    old, new = {"stela": {"thruput": {"e1": [1.0]}}}, {"stela": {"throughput_after": {"e1": [1.0]}}}
    records = [ran(i, old if i < 3 else new) for i in range(5)]
    gone, come = name_changes(parsed(records), NONE)
    assert "metric thruput of stela/star/stela is in no night since 20260103-030000 (2 nights)" in gone
    assert "Since then there is throughput_after" in gone
    assert "`renames.metrics`" in gone
    assert "metric throughput_after of stela/star/stela is new since 20260104-030000" in come
    assert name_changes(parsed(records), Renames(metrics={"thruput": "throughput_after"})) == []


def test_variants_and_experiments_that_vanish_are_told_and_failed_nights_are_not_blamed() -> None:
    two = {"stela": {"downtime_s": {"e1": [1.0]}}, "even": {"downtime_s": {"e1": [1.0]}}}
    one = {"stela": {"downtime_s": {"e1": [1.0]}}}
    (line,) = name_changes(parsed([ran(i, two if i < 2 else one) for i in range(4)]), NONE)
    assert line.startswith("variant even of stela/star is in no night since 20260102-030000")
    lines = name_changes(parsed([ran(i, one, STAR if i < 3 else "stela/stern") for i in range(5)]), NONE)
    assert [line.split(" is ")[0] for line in lines] == ["experiment stela/star", "experiment stela/stern"]
    assert name_changes(parsed([ran(0, one), ran(1, one), *(record(i, None) for i in range(2, 9))]), NONE) == []


def test_latency_of_which_too_many_tuples_have_none_is_no_ground_for_a_verdict() -> None:
    """Two of three runs were watched with the tuples waiting; a night that measured the share of none counts."""
    latency = "latency_all_p95_ms_after"
    shares = [[0.0, 0.1, 0.5], [0.0, 0.6, 2.0], [0.0, 0.1], None]
    nights = [
        night(i, "quick", [experiment(STAR, {"stela": {
            latency: {"e1": [10.0, 11.0, 12.0]}, **({"untimed_percent_after": {"e1": share}} if share else {})
        }})]) for i, share in enumerate(shares)
    ]  # fmt: skip
    found = {one.key.metric: one for one in build_series(parsed(nights), NONE)}
    assert found[latency].nights == (0, 3) and found["untimed_percent_after"].nights == (0, 1, 2)
    why = "no verdict: more than 0.5 % of a run's tuples have no latency, or nobody knows"
    assert [point.why for point in found[latency].points] == ["", why, why, ""]
