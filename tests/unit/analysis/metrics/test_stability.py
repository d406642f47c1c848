from typing import Any

from analysis.metrics.convergence import PhaseWindows, convergence_rows, interval_rows, live_verdicts, phase_windows

UNIT = {"run_id": "r", "topology": ""}


def after(*rates: float, waiting: tuple[float, ...] = ()) -> PhaseWindows:
    queues = {"filter": waiting} if waiting else {}
    return PhaseWindows(("r", ""), "e1", "after", tuple(10.0 * i for i in range(len(rates))), rates, queues)


def test_what_is_not_shown_to_be_level_is_taken_after_its_ramp_and_is_flagged() -> None:
    """A demo's windows: to take the last 60 s would put the ramp into the mean."""
    row = interval_rows([after(136, 448, 473, 476, 466, 467)], {})[0]
    assert (row["steady"], row["start_s"], row["mean"]) == (False, 10.0, 466.0)
    assert row["reason"].startswith("a trend of +4.0% ± 10.8% of the mean in 60 s")


def test_without_a_steady_tail_the_last_half_counts_and_is_flagged() -> None:
    row = interval_rows([after(10, 20, 30, 40, 50, 60, 70, 80)], {})[0]
    assert (row["steady"], row["start_s"], row["mean"]) == (False, 40.0, 65.0)


def test_what_the_run_step_said_stands_beside_and_decides_nothing() -> None:
    short = after(0, 100, 100, 100, 100)
    row = interval_rows([short], {})[0]
    assert (row["steady"], row["start_s"], row["live_steady"]) == (True, 10.0, None)
    assert not interval_rows([after(0, 100, 100, 100)], {(("r", ""), "e1", "after"): (True, "level")})[0]["steady"]


def test_a_run_that_meets_no_definition_is_censored_in_every_one() -> None:
    part = after(10, 20, 30, 40, 50, 60, 70, 80)
    rows = convergence_rows([part], interval_rows([part], {}))
    assert [(row["definition"], row["time_s"], row["censored"], row["horizon_s"]) for row in rows] == [
        ("sp", None, True, 80.0), ("st", None, True, 80.0),
    ], "eight windows are too few for any start of the script: nothing was measured by it"  # fmt: skip
    longer = after(*[10.0 * 1.2**i for i in range(14)])
    rows = convergence_rows([longer], interval_rows([longer], {}))
    assert ("script", None, 20.0) in [(row["definition"], row["time_s"], row["horizon_s"]) for row in rows]


def test_a_definition_that_was_met_has_its_time_whatever_our_test_of_steadiness_says() -> None:
    """A queue feeds it to the end, and the last half is what there is to compare with."""
    rates = (0.0, *[101.0, 99.0, 102.0, 98.0] * 4)
    drained = after(*rates, waiting=tuple(900.0 - 50.0 * i for i in range(17)))
    (interval,) = interval_rows([drained], {})
    assert interval["steady"] is False
    times = {row["definition"]: row["time_s"] for row in convergence_rows([drained], [interval])}
    assert times["sp"] == 50.0 and times["st"] is not None and times["script"] == 10.0


def test_what_the_run_step_said_goes_to_the_events_on_both_sides() -> None:
    said = [
        {**UNIT, "kind": "steady", "t_s": t_s, "steady": t_s < 25, "reason": f"at {t_s}"} for t_s in (9.0, 20.0, 30.0)
    ]
    spans = [
        {**UNIT, "event_id": "e1", "zero_s": 10.0, "from_s": None, "until_s": 25.0},
        {**UNIT, "event_id": "e2", "zero_s": 25.0, "from_s": 10.0, "until_s": None},
    ]
    assert live_verdicts(said, spans) == {
        (("r", ""), "e1", "before"): (True, "at 9.0"),
        (("r", ""), "e1", "after"): (True, "at 20.0"),
        (("r", ""), "e2", "before"): (True, "at 20.0"),
        (("r", ""), "e2", "after"): (False, "at 30.0"),
    }


def test_windows_that_a_queue_feeds_are_no_part_of_the_steady_tail() -> None:
    """As page_load was seen: the level begins with the end of a drain."""
    part = after(19, 65, 79, 79, 79, 79, 78, 77, 78, waiting=(0, 900, 900, 700, 500, 300, 100, 100, 100))
    row = interval_rows([part], {})[0]
    assert (row["steady"], row["start_s"], row["windows"]) == (True, 60.0, 3)
    assert row["mean"] == sum((78, 77, 78)) / 3
    assert "windows left out: the queue of filter shrinks by 10.0 tuples/s; allowed: 3.9" in row["reason"]


def test_a_level_that_a_queue_feeds_to_the_end_is_not_steady() -> None:
    part = after(*[88.0] * 8, waiting=(900, 900, 900, 800, 700, 600, 500, 400))
    row = interval_rows([part], {(("r", ""), "e1", "after"): (True, "level")})[0]
    assert (row["steady"], row["windows"]) == (False, 3)
    assert row["reason"].startswith("the queue of filter shrinks by 10.0 tuples/s; allowed: 4.4")


def test_a_fallback_begins_after_the_drain_too() -> None:
    rising = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0)
    waiting = (900, 900, 900, 900, 900, 600, 300, 0, 0, 0)
    row = interval_rows([after(*rising, waiting=waiting)], {})[0]
    assert (row["steady"], row["start_s"], row["mean"]) == (False, 70.0, 90.0)


def test_a_queue_that_grows_or_drained_long_ago_changes_nothing() -> None:
    rates = (0, 50, *[100.0] * 8)
    plain = interval_rows([after(*rates)], {})[0]
    for waiting in (tuple(900.0 * i for i in range(10)), (900, *[100.0] * 9), (0.0,) * 10):
        assert interval_rows([after(*rates, waiting=waiting)], {})[0] == plain


def test_parts_pair_windows_with_what_waited_in_them() -> None:
    key: dict[str, Any] = {**UNIT, "event_id": "e1"}
    windows = [
        key | {"scope": scope, "window_s": start, "rate": rate, "complete": complete}
        for scope, start, rate, complete in (
            ("total", 10.0, 7.0, True), ("total", -10.0, 5.0, True), ("sink", 0.0, 1.0, True),
            ("total", 0.0, 6.0, True), ("total", 20.0, 3.0, False), ("total", -20.0, None, True),
        )
    ]  # fmt: skip
    queues = [key | {"component": "filter", "window_s": 10.0, "queue": 4.0}]
    assert phase_windows(windows, queues) == [
        PhaseWindows(("r", ""), "e1", "after", (0.0, 10.0), (6.0, 7.0), {"filter": (0.0, 4.0)}),
        PhaseWindows(("r", ""), "e1", "before", (-10.0,), (5.0,), {"filter": (0.0,)}),
    ]
