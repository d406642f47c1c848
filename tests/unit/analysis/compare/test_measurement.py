"""Verdicts with what the measurement may be wrong by (lost tuples, clocks, utility), and of times not often reached."""

from pathlib import Path

import pytest

from analysis.compare.evaluation import compare
from analysis.compare.result import ComparisonResult, MetricRow, Verdict
from analysis.metrics.uncertainty import utility_error
from analysis.record.files import SeriesPaths
from analysis.record.small_tables import rows
from tests.support.compared_series import LATENCY, SideOf, write
from tests.support.series_by_hand import write_table

SIX = (100.0, 102.0, 99.0, 101.0, 100.5, 98.5)
FAST = tuple(0.9 * value for value in SIX)
LEVELS = {"max_utility": 35.0, "latency_ms": 60.0, "juice": None, "topology": "t", "position": 0,
          "throughput": "sinks"}  # fmt: skip


def row(found: ComparisonResult, metric: str) -> MetricRow:
    return next(row for row in found.rows if row.metric == metric)


def compared(root: Path, metric: str, a: SideOf, b: SideOf) -> MetricRow:
    return row(compare(write(root / "x" / "20260101-000000-aa", {"stela": (a, b)})), metric)


@pytest.mark.parametrize(
    ("ends", "tenth", "effect"),
    [((60.0, 70.0), -600.0, 0.0), ((60.0, 200.0), -600.0, 0.9), ((60.0, 200.0), 200.0, 0.8)],
)
def test_one_block_that_both_sides_never_reached_switches_no_least_difference_off(
    tmp_path: Path, ends: tuple[float, float], tenth: float, effect: float
) -> None:
    """10 s are less than two windows, however many blocks have them: ties, of which the test knows nothing."""
    metric = "convergence_sp_s"
    a, b = ([end] * 9 + [tenth if side else -600.0] for side, end in enumerate(ends))
    found = compared(tmp_path, metric, SideOf({metric: a}, never=[metric]), SideOf({metric: b}, never=[metric]))
    assert found.called is (ends[1] == 200.0) and found.difference is None
    assert found.effect == pytest.approx(effect)


@pytest.mark.parametrize(("metric", "tuples"), [("lost_after", 5000), ("lost_after_percent", 100)])
@pytest.mark.parametrize(("unseen", "verdict"), [(0.002, Verdict.NO_DIFFERENCE), (0.02, Verdict.UNDECIDED)])
def test_lost_tuples_are_as_uncertain_as_their_measurement(
    tmp_path: Path, unseen: float, verdict: Verdict, metric: str, tuples: int
) -> None:
    """None is called lost; within the uncertainty 10 or 100 of 5,000 may be, and 50 is worth naming."""
    side = SideOf({LATENCY: SIX, metric: [0.0] * 6}, untimed={"unseen": unseen})
    found = compared(tmp_path, metric, side, side)
    assert found.verdict is verdict and found.low is not None and found.high is not None
    assert found.low <= -tuples * unseen and found.high >= tuples * unseen


@pytest.mark.parametrize(
    ("error_ms", "verdict"),
    [
        (0.0, Verdict.BETTER),
        (1.0, Verdict.BETTER),
        (6.0, Verdict.UNDECIDED),
        (95.0, Verdict.NONE),
        (None, Verdict.NONE),
    ],
)
@pytest.mark.parametrize("metric", [LATENCY, "latency_all_p95_ms_before"])
def test_a_latency_is_as_uncertain_as_the_clocks(
    tmp_path: Path, metric: str, error_ms: float | None, verdict: Verdict
) -> None:
    """10 ms less on each machine's clock, which may be wrong by so much."""
    a, b = (SideOf({LATENCY: values, "latency_all_p95_ms_before": values}, clock_error_ms=error_ms)
            for values in (SIX, FAST))  # fmt: skip
    found = compared(tmp_path, metric, a, b)
    assert found.verdict is verdict and bool(found.why_no_verdict) is (verdict is Verdict.NONE)
    assert found.difference == pytest.approx(-10.0, abs=1.0), "the number is shown"


def test_tuples_whose_clocks_nobody_knows_have_no_verdict(tmp_path: Path) -> None:
    root = write(tmp_path / "x" / "s", {"stela": (SideOf({LATENCY: SIX}), SideOf({LATENCY: FAST}))})
    assert row(compare(root), LATENCY).called
    latency = [each | {"corrected": 990} for each in rows(SeriesPaths(root), "latency")]
    (file,) = (root / "tables" / "latency.parquet").glob("*.parquet")
    file.unlink()
    file.parent.rmdir()
    write_table(root, "latency", latency)
    found = row(compare(root), LATENCY)
    assert found.verdict is Verdict.NONE and "is not known of 12 of 12 runs" in found.why_no_verdict


@pytest.mark.parametrize(("lost", "verdict"), [(0.0, Verdict.BETTER), (0.3, Verdict.NONE)])
def test_utility_of_a_latency_has_the_guards_of_latency(tmp_path: Path, lost: float, verdict: Verdict) -> None:
    """Who throws 30 % away is quick with the others."""
    numbers = {"utility_before": (10.0,) * 6, "untimed_percent_before": (0.0,) * 6}
    slow = SideOf({LATENCY: [120.0 + each / 100 for each in SIX], **numbers})
    quick = SideOf({LATENCY: [80.0 + each / 100 for each in SIX], "utility_before": (22.0,) * 6,
                    "untimed_percent_before": (100 * lost,) * 6}, untimed={"lost": lost})  # fmt: skip
    root = write(tmp_path / "x" / "s", {"stela": (slow, quick)})
    write_table(root, "topologies", [
        {"run_id": f"stela_{side}-r{n}", **LEVELS} for side in "ab" for n in range(1, 7)
    ])  # fmt: skip
    found = compare(root)
    for metric in ("utility_before", "utility_after"):
        assert row(found, metric).verdict is verdict, metric


@pytest.mark.parametrize(("unseen", "verdict"), [(0.01, Verdict.BETTER), (0.6, Verdict.UNDECIDED)])
def test_a_tuple_that_may_be_lost_unseen_may_be_worth_nothing(tmp_path: Path, unseen: float, verdict: Verdict) -> None:
    """B is worth half as much again, unless the tuples that it may have lost were more than a third."""
    slow, quick = (SideOf({LATENCY: [middle + each / 100 for each in SIX]}, untimed={"unseen": share})
                   for middle, share in ((120.0, 0.0), (80.0, unseen)))  # fmt: skip
    root = write(tmp_path / "x" / "s", {"stela": (slow, quick)})
    write_table(root, "topologies", [
        {"run_id": f"stela_{side}-r{n}", **LEVELS} for side in "ab" for n in range(1, 7)
    ])  # fmt: skip
    assert row(compare(root), "utility_after").verdict is verdict


@pytest.mark.parametrize(
    ("error_ms", "verdict"),
    [(0.0, Verdict.BETTER), (1.0, Verdict.BETTER), (20.0, Verdict.UNDECIDED), (None, Verdict.NONE)],
)
def test_utility_of_a_latency_is_as_uncertain_as_the_clocks(
    tmp_path: Path, error_ms: float | None, verdict: Verdict
) -> None:
    """A takes 120 ms of 60, B 80; with 20 ms on the clocks both may have taken 100."""

    def side(middle: float, worth: float) -> SideOf:
        numbers = {LATENCY: [middle + each / 100 for each in SIX],
                   "utility_before": [worth + each / 1000 for each in SIX],
                   "untimed_percent_before": (0.0,) * 6}  # fmt: skip
        return SideOf(numbers, clock_error_ms=error_ms)

    root = write(tmp_path / "x" / "s", {"stela": (side(120.0, 17.5), side(80.0, 26.25))})
    write_table(root, "topologies", [
        {"run_id": f"stela_{side}-r{n}", **LEVELS} for side in "ab" for n in range(1, 7)
    ])  # fmt: skip
    found = compare(root)
    assert [row(found, metric).verdict for metric in ("utility_before", "utility_after")] == [verdict] * 2


def test_a_utility_of_silence_is_certain_whatever_the_clocks() -> None:
    assert [utility_error(0.0, 0.5, each) for each in (3.0, None)] == [0.0, 0.0]
    assert [utility_error(20.0, 0.5, each) for each in (3.0, None)] == [1.5, None]


def test_utility_after_is_of_the_same_seconds_on_both_sides(tmp_path: Path) -> None:
    """B is watched for 400 s, in most of which it is slow; nobody knows what A did then."""
    longer = SideOf({LATENCY: SIX}, watched_s=400, late_from_s=110, late_ms=5000.0)
    root = write(tmp_path / "x" / "s", {"stela": (SideOf({LATENCY: SIX}, watched_s=120), longer)})
    write_table(root, "topologies", [
        {"run_id": f"stela_{side}-r{n}", **LEVELS} for side in "ab" for n in range(1, 7)
    ])  # fmt: skip
    found = row(compare(root), "utility_after")
    assert found.verdict is Verdict.NO_DIFFERENCE and found.a == found.b
