from analysis.stability import Part, convergence_rows, interval_rows, live_verdicts


def after(*rates: float) -> Part:
    return Part("r", "e1", "after", tuple(10.0 * i for i in range(len(rates))), rates)


def test_the_steady_tail_is_the_part_that_counts() -> None:
    row = interval_rows([after(0, 50, *[100.0] * 8)], {})[0]
    assert (row["steady"], row["start_s"], row["end_s"], row["mean"]) == (True, 20.0, 100.0, 100.0)


def test_without_a_steady_tail_the_last_half_counts_and_is_flagged() -> None:
    row = interval_rows([after(10, 20, 30, 40, 50, 60, 70, 80)], {})[0]
    assert (row["steady"], row["start_s"], row["mean"]) == (False, 40.0, 65.0)


def test_a_short_run_is_taken_at_the_span_that_the_run_step_tested() -> None:
    short = after(0, 100, 100, 100, 100)
    assert not interval_rows([short], {})[0]["steady"]
    row = interval_rows([short], {("r", "e1", "after"): (True, "level")})[0]
    assert (row["steady"], row["start_s"], row["live_steady"]) == (True, 10.0, True)


def test_an_unsteady_run_is_censored_in_every_definition() -> None:
    part = after(10, 20, 30, 40, 50, 60, 70, 80)
    rows = convergence_rows([part], interval_rows([part], {}))
    assert [(row["time_s"], row["censored"], row["horizon_s"]) for row in rows] == [(None, True, 80.0)] * 3


def test_what_the_run_step_said_goes_to_the_events_on_both_sides() -> None:
    said = [
        {"run_id": "r", "kind": "steady", "t_s": t_s, "steady": t_s < 25, "reason": f"at {t_s}"}
        for t_s in (9.0, 20.0, 30.0)
    ]
    spans = [
        {"run_id": "r", "event_id": "e1", "zero_s": 10.0, "from_s": None, "until_s": 25.0},
        {"run_id": "r", "event_id": "e2", "zero_s": 25.0, "from_s": 10.0, "until_s": None},
    ]
    assert live_verdicts(said, spans) == {
        ("r", "e1", "before"): (True, "at 9.0"),
        ("r", "e1", "after"): (True, "at 20.0"),
        ("r", "e2", "before"): (True, "at 20.0"),
        ("r", "e2", "after"): (False, "at 30.0"),
    }


def test_a_run_without_events_has_levels_but_no_convergence() -> None:
    whole = Part("r", "e0", "after", (0.0, 10.0), (5.0, 5.0))
    assert convergence_rows([whole], interval_rows([whole], {})) == []
