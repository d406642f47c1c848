import time
from random import Random

from hypothesis import given
from hypothesis import strategies as strategies

from analysis.metrics import convergence
from analysis.metrics.convergence import DEFINITIONS, Convergence, PostScale, Windows, post_scale, script, sp, st

UNIT = {"run_id": "r", "topology": ""}


def windows(*rates: float) -> Windows:
    return Windows(tuple(10.0 * i for i in range(len(rates))), rates)


def test_st_counts_points_within_one_deviation_wherever_they_lie() -> None:
    found = st(windows(0, 101, 150, 102, 98, 40, 99), PostScale(100.0, 5.0))
    assert found == Convergence(70.0, 70.0)


def test_st_does_not_count_a_point_a_deviation_away_and_one_at_the_mean_on_either_side() -> None:
    assert st(windows(101, 105, 105, 95, 95, 101), PostScale(100.0, 5.0)).censored
    assert st(windows(100, 105, 105, 95, 95, 100), PostScale(100.0, 5.0)).censored
    assert st(windows(100, 101, 101, 102, 100), PostScale(100.0, 5.0)) == Convergence(50.0, 50.0)


def test_script_answers_the_start_of_the_first_six_windows_at_the_mean_of_the_last_six() -> None:
    found = script(windows(0, 0, *[100] * 6, 80, *[100] * 6), PostScale(7.0, 0.0))
    assert found == Convergence(20.0, 30.0), "the part that we call steady has no say"


def test_script_does_not_compare_the_late_window_with_itself() -> None:
    """It climbs to the end: only windows that share samples with the last six are like them."""
    climbing = windows(*[100.0 * 1.1**i for i in range(20)])
    assert script(climbing, PostScale(1.0, 0.0)) == Convergence(None, 80.0)


def test_script_says_nothing_without_a_late_window_apart_from_the_first_six() -> None:
    assert script(windows(*[100] * 11), PostScale(100.0, 0.0)) is None
    assert script(windows(*[100] * 12), PostScale(100.0, 0.0)) == Convergence(0.0, 0.0)


def test_nothing_converges_to_a_throughput_of_zero() -> None:
    for definition in DEFINITIONS.values():
        found = definition(windows(*[0.0] * 20), PostScale(0.0, 0.0))
        assert found is not None and found.censored


def test_no_windows_are_censored_at_once() -> None:
    found = {name: definition(windows(), PostScale(1.0, 1.0)) for name, definition in DEFINITIONS.items()}
    assert found == {"sp": Convergence(None, 0.0), "st": Convergence(None, 0.0), "script": None}


def test_post_scale_of_one_window_has_no_deviation() -> None:
    assert post_scale([7.0]) == PostScale(7.0, 0.0)
    assert post_scale([1.0, 3.0]).deviation == 2**0.5


@given(strategies.lists(strategies.floats(0, 1000), max_size=40), strategies.floats(1, 1000))
def test_a_time_lies_within_the_horizon(rates: list[float], mean: float) -> None:
    series = windows(*rates)
    for definition in DEFINITIONS.values():
        found = definition(series, PostScale(mean, mean / 10))
        if definition is script and len(rates) < 12:
            assert found is None
            continue
        watched_s = 10.0 * len(rates) - 120.0 if definition is script else 10.0 * len(rates)
        assert found is not None
        assert found.censored or 0.0 <= (found.time_s or 0.0) <= found.horizon_s
        assert found.horizon_s == watched_s


def test_after_an_event_begins_when_what_it_had_begun_is_over() -> None:
    """Six windows of a slow machine and eleven without it would pass for steady, at a mean of neither."""
    rates = [100.0] * 6 + [96.0] * 6 + [100.0] * 11
    rows = [
        {**UNIT, "event_id": "e1", "window_s": 10.0 * (n - 6), "scope": "total", "rate": rate, "complete": True}
        for n, rate in enumerate(rates)
    ]
    spans = convergence.unmeasured_spans([{**UNIT, "event_id": "e1", "zero_s": 1000.0, "ended_s": 1057.0}])
    mixed, apart = (convergence.interval_rows(convergence.phase_windows(rows, (), each), {}) for each in ({}, spans))
    assert [round(row["mean"], 1) for row in mixed if row["phase"] == "after"] != [100.0]
    (after,) = (row for row in apart if row["phase"] == "after")
    assert (after["start_s"], after["mean"], after["windows"]) == (60.0, 100.0, 11)
    assert [row["mean"] for row in apart if row["phase"] == "before"] == [100.0]


def test_before_the_next_event_it_is_over_too() -> None:
    """The same windows, seen from an event 170 s later: what was after the one is before the other."""
    events = [
        {**UNIT, "event_id": "e1", "zero_s": 1000.0, "ended_s": 1057.0},
        {**UNIT, "event_id": "e2", "zero_s": 1170.0, "ended_s": None},
    ]
    rows = [
        {**UNIT, "event_id": "e2", "window_s": 10.0 * n, "scope": "total", "rate": rate, "complete": True}
        for n, rate in enumerate([90.0] * 6 + [100.0] * 11 + [120.0] * 6, start=-17)
    ]
    spans = convergence.unmeasured_spans(reversed(events))
    found = convergence.interval_rows(convergence.phase_windows(rows, (), spans), {})
    assert {row["phase"]: row["mean"] for row in found} == {"before": 100.0, "after": 120.0}


def literal_sp(series: Windows, after: PostScale) -> Convergence:
    """SP's definition as it reads, one stretch after the other; a window at the mean is on the side that helps."""
    for end in range(4, len(series.rates) + 1):
        for start in range(end - 3):
            stretch = series.rates[start:end]
            excursions, last = 0, None  # None: either side, for one at the mean or the whole chain of them at the begin
            for rate in stretch:
                side = None if abs(rate - after.mean) < 0.1 else rate > after.mean
                if side is None:
                    side = None if last is None else not last
                excursions += excursions == 0 or last is None or side != last
                last = side
            spread = (sum((rate - sum(stretch) / len(stretch)) ** 2 for rate in stretch) / len(stretch)) ** 0.5
            if min(stretch) > 0 and excursions >= 4 and spread <= 0.05 * after.mean:
                return Convergence(series.starts_s[end - 1] + series.width_s, series.horizon_s)
    return Convergence(None, series.horizon_s)


@given(
    strategies.lists(strategies.sampled_from([0.0, 60.0, 95.0, 97.0, 99.0, 100.0, 101.0, 104.0, 140.0]), max_size=30),
    strategies.sampled_from([98.0, 100.0, 100.5]),
)
def test_sp_is_its_definition_whatever_the_series(rates: list[float], mean: float) -> None:
    series = windows(*rates)
    assert sp(series, PostScale(mean, 1.0)) == literal_sp(series, PostScale(mean, 1.0))


def test_two_days_that_never_converge_are_found_so_in_seconds() -> None:
    """17,280 windows of rates that go up and down by the day cross the mean all the time, in stretches too wide."""
    random = Random(1)
    rates = [100.0 + 60.0 * random.choice((-1, 1)) + random.random() for _ in range(17_280)]
    begun_s = time.process_time()
    assert sp(windows(*rates), post_scale(rates)).censored
    assert time.process_time() - begun_s < 30
