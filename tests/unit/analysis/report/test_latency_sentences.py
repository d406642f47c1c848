"""Sentences beside latencies: what clocks make of them, and of whom they say nothing."""

from analysis.report.words import clock_sentences, untimed_sentences
from tests.support.sentences import require_known


def test_sentences_beside_latencies() -> None:
    measured = {"run_id": "stela-r1", "clock_offset_ms": {"m1": 9.0}, "clock_error_ms": 0.31}
    older = {"run_id": "stela-r2", "clock_offset_ms": {"m1": -0.5, "m2": 1.0, "m3": None}}
    blind = {"run_id": "stela-r3", "clock_end_offset_ms": {"m1": 0.1, "m2": None}}
    corrected = {"run_id": "stela-r1", "machines": {"m1": {}, "m2": {}, "m5": {}}, "clock_error_ms": 31.0,
                 "clock_offset_ms": {"master": 0.0, "m1": 0.0, "m2": 30.0},
                 "clock_end_offset_ms": {"master": 0.0, "m1": 4.0, "m2": 34.5},
                 "clock_offset_error_ms": {"master": 9.0, "m1": 0.25, "m2": 0.25}}  # fmt: skip
    window = {"run_id": "stela-r1", "n": 10, "corrected": 10, "p95_ms": 5.0}
    shares = {"stela-r1": 0.5, "stela-r2": 0.6, "even-r1": 7.0}
    rows = [{"run_id": run_id, "metric": "untimed_percent_after", "value": share} for run_id, share in shares.items()]
    require_known("latencies", {name: " ".join(of) for name, of in {
        "clocks": clock_sentences([measured, older, blind], []),
        # Both measurements, and by how much they moved against each other; m5 never joined.
        "clocks taken out": clock_sentences([corrected], [window]),
        "some of another's": clock_sentences([corrected], [{**window, "corrected": 9}]),
        "no percentile": clock_sentences([corrected], [{**window, "corrected": 0, "p95_ms": None}]),
        "percentiles of seconds": clock_sentences([corrected], [{"run_id": "stela-r1", "n": 10, "p95_ms": 5.0}]),
        "tuples that never came": untimed_sentences(["stela-r1", "stela-r2"], rows),
    }.items()})  # fmt: skip
    assert clock_sentences([{"run_id": "stela-r4"}], []) == untimed_sentences(["stela-r1"], rows) == []
