"""What a page says beside latencies."""

from analysis.report.latency_sentences import run_sentences, untimed_sentences


def test_latencies_come_with_what_the_clocks_make_of_them() -> None:
    measured = {"run_id": "stela-r1", "clock_offset_ms": {"m1": 9.0}, "clock_error_ms": 0.31}
    older = {"run_id": "stela-r2", "clock_offset_ms": {"m1": -0.5, "m2": 1.0, "m3": None}}
    blind = {"run_id": "stela-r3", "clock_end_offset_ms": {"m1": 0.1, "m2": None}}
    assert run_sentences([measured, older, blind], []) == [
        "Latencies are from one machine to another; by their clocks they may be wrong by 1.50 ms.",
        "Clocks that could not be asked after the run: m2 (stela-r3); it may be more there.",
    ]
    assert run_sentences([{"run_id": "stela-r4"}], []) == []


def test_what_is_left_of_clocks_that_are_taken_out_is_said_apart() -> None:
    record = {"run_id": "stela-r1", "machines": {"m1": {}, "m2": {}, "m5": {}}, "clock_error_ms": 31.0,
              "clock_offset_ms": {"master": 0.0, "m1": 0.0, "m2": 30.0},
              "clock_end_offset_ms": {"master": 0.0, "m1": 4.0, "m2": 34.5},
              "clock_offset_error_ms": {"master": 9.0, "m1": 0.25, "m2": 0.25}}  # fmt: skip
    window = {"run_id": "stela-r1", "n": 10, "corrected": 10, "p95_ms": 5.0}
    taken_out = "Latencies are from one machine to another; what their clocks differed by is taken out; "
    assert run_sentences([record], [window]) == [taken_out + "by their clocks they may be wrong by 1.00 ms."], (
        "both measurements, and by how much they moved against each other; m5 never joined"
    )
    foreign = {**window, "corrected": 9}
    assert run_sentences([record], [foreign]) == [
        "Latencies are from one machine to another; by their clocks they may be wrong by 31.00 ms."
    ]
    older = {**window, "corrected": 0, "p95_ms": None}
    assert run_sentences([record], [older])[1].startswith("No percentile of all tuples can be made")
    measured_as_percentiles_of_seconds = {"run_id": "stela-r1", "n": 10, "p95_ms": 5.0}
    assert run_sentences([record], [measured_as_percentiles_of_seconds])[1].startswith("No percentile of all tuples")


def test_of_tuples_that_never_came_latencies_say_nothing() -> None:
    shares = {"stela-r1": 0.5, "stela-r2": 0.6, "even-r1": 7.0}
    rows = [{"run_id": run_id, "metric": "untimed_percent_after", "value": share} for run_id, share in shares.items()]
    assert untimed_sentences(["stela-r1", "stela-r2"], rows) == [
        "Of stela-r2 more than 0.5 % of the tuples of a part that counts were never emitted, or waited at its end: its "
        "latencies are those of the other tuples only, so they get no verdict."
    ]
    assert untimed_sentences(["stela-r1"], rows) == []
