"""Latency in a comparison: the same seconds on both sides, and no verdict where tuples have none."""

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.compare.evaluation import compare
from analysis.compare.result import ComparisonResult, MetricRow, Verdict, result_data
from analysis.nights.night_series import build_series
from analysis.nights.settings import Renames
from analysis.record.event_timeline import REST
from analysis.record.files import SeriesPaths
from analysis.record.small_tables import Row, rows
from bench.statistics.synthetic_nights import experiment, night
from tests.support.compared_series import LATENCY, Numbers, SideOf, write
from tests.support.nights_by_hand import STAR, parsed
from tests.support.series_by_hand import write_table

SLOW = (100.0, 102.0, 99.0, 101.0, 100.5, 98.5)
FAST = (50.0, 52.0, 49.0, 51.0, 50.0, 50.5)


def one(tmp_path: Path, a: SideOf, b: SideOf) -> tuple[ComparisonResult, MetricRow]:
    found = compare(write(tmp_path / "x" / "20260101-000000-aa", {"stela": (a, b)}))
    return found, next(row for row in found.rows if row.metric == LATENCY)


def _write_again(root: Path, table: str, found: list[Row]) -> None:
    folder = root / "tables" / f"{table}.parquet"
    (folder / "part-0.parquet").unlink()
    folder.rmdir()
    write_table(root, table, found)


def test_a_run_that_watched_longer_is_cut_to_the_seconds_of_all_others(tmp_path: Path) -> None:
    """B goes on for minutes, and its tuples take 5 s in them: that is no worse than A, which nobody watched then."""
    longer = SideOf({LATENCY: FAST}, watched_s=400, late_from_s=110, late_ms=5000.0)
    found, latency = one(tmp_path, SideOf({LATENCY: FAST}, watched_s=120), longer)
    assert latency.a == latency.b == pytest.approx(50.4, rel=0.01) and latency.verdict is Verdict.NO_DIFFERENCE
    assert latency.note.startswith(
        "what 95 % of all tuples keep to in seconds 0 to 110 after the event, the same in all"
    )
    assert latency.note.endswith("lost 0.0 %, never emitted 0.0 %, waiting at the end 0.0 %")
    assert not found.notes
    alike = SideOf({LATENCY: FAST}, watched_s=400)
    _, latency = one(tmp_path / "both", alike, longer)
    assert latency.b == pytest.approx(5000, rel=0.01) and latency.verdict is Verdict.WORSE, "over 390 s it is"


@pytest.mark.parametrize("watched_s", [20, 50])
def test_one_run_that_was_hardly_watched_leaves_no_seconds_for_a_verdict(tmp_path: Path, watched_s: int) -> None:
    short = SideOf({LATENCY: FAST}, watched_s=watched_s)
    _, latency = one(tmp_path, SideOf({LATENCY: SLOW}, watched_s=400), short)
    assert latency.verdict is (Verdict.NONE if watched_s == 20 else Verdict.BETTER)
    assert latency.why_no_verdict.endswith("and 30 are needed") is (watched_s == 20)


def test_what_an_event_had_begun_is_over_where_the_seconds_begin(tmp_path: Path) -> None:
    """In one run 57 s after the event, so in all of them 60 s after it."""
    root = tmp_path / "x" / "20260101-000000-aa"
    side = SideOf({LATENCY: FAST}, watched_s=120, late_from_s=60, late_ms=5000.0)
    write(root, {"stela": (side, side)})
    spans = rows(SeriesPaths(root), "scale_events")
    _write_again(root, "scale_events", [spans[0] | {"ended_s": spans[0]["zero_s"] + 57.0}, *spans[1:]])
    latency = next(row for row in compare(root).rows if row.metric == LATENCY)
    assert latency.a == latency.b == pytest.approx(5000, rel=0.01)
    assert "in seconds 60 to 110 after the event" in latency.note


@pytest.mark.parametrize("table", ["losses", "emissions"])
@pytest.mark.parametrize("when", ["during", "after"])
def test_what_was_lost_while_an_event_lasted_is_not_of_the_seconds_after_it(
    tmp_path: Path, table: str, when: str
) -> None:
    """A quarter of B's tuples, until 57 s after the event, or later."""
    root = tmp_path / "x" / "20260101-000000-aa"
    part = {"losses": "lost", "emissions": "missed"}[table]
    b = SideOf({LATENCY: FAST}, untimed={part: 0.25})
    write(root, {"stela": (SideOf({LATENCY: SLOW}), b)})
    paths = SeriesPaths(root)
    spans = rows(paths, "scale_events")
    _write_again(root, "scale_events", [span | {"ended_s": span["zero_s"] + 20.0} for span in spans])
    for name in ("losses", "emissions"):
        found = rows(paths, name)
        none = {"losses": {"lost": 0.0}, "emissions": {"missed": 0}}[name] if when == "during" else {}
        rest = [row | {"phase": REST} | none for row in found if row["phase"] == "after"]
        _write_again(root, name, [*found, *rest])
    latency = next(row for row in compare(root).rows if row.metric == LATENCY)
    words = {"losses": "lost", "emissions": "never emitted"}[table]
    if when == "during":
        assert latency.verdict is Verdict.BETTER and f"{words} 0.0 %" in latency.note
    else:
        assert latency.verdict is Verdict.NONE and latency.why_no_verdict


def test_what_may_be_lost_unseen_is_of_the_seconds_after_an_event_that_lasted_too(tmp_path: Path) -> None:
    root = tmp_path / "x" / "20260101-000000-aa"
    write(root, {"stela": (SideOf({LATENCY: SLOW}), SideOf({LATENCY: FAST}, untimed={"unseen": 0.06}))})
    found = rows(SeriesPaths(root), "losses")
    rest = [row | {"phase": REST, "uncertainty": row["uncertainty"] / 10} for row in found if row["phase"] == "after"]
    _write_again(root, "losses", [*found, *rest])
    latency = next(row for row in compare(root).rows if row.metric == LATENCY)
    assert latency.verdict is Verdict.BETTER and "lost unseen up to 0.6 %" in latency.note


@pytest.mark.parametrize("untimed", ["lost", "missed", "never_emitted", "waiting"])
@pytest.mark.parametrize("side", ["a", "b"])
def test_a_side_whose_tuples_have_no_latency_carries_no_verdict(tmp_path: Path, untimed: str, side: str) -> None:
    """The fast side threw away, held back or still keeps what would have been slow."""
    some = {"untimed": {untimed: 0.05}}
    a = SideOf({LATENCY: SLOW, "throughput_after": SLOW}, **(some if side == "a" else {}))
    b = SideOf({LATENCY: FAST, "throughput_after": SLOW}, **(some if side == "b" else {}))
    found, latency = one(tmp_path, a, b)
    assert latency.verdict is Verdict.NONE and latency.p is None and not latency.called
    assert latency.difference == pytest.approx(-49.7, abs=1), "the number is shown"
    words = {"lost": "lost 5.0 %", "missed": "never emitted 5.0 %", "never_emitted": "never emitted 5.0 %",
             "waiting": "waiting at the end 5.0 %"}  # fmt: skip
    assert words[untimed] in latency.note and f"stela_{side}-r" in latency.note
    assert latency.note.count("5.0 %") == 1, "what waits at a spout is not counted twice"
    why = "more than 0.5 % of the tuples were lost, dropped, never emitted, or waiting at the end in 6 of 12 runs"
    assert latency.why_no_verdict == why
    assert f"95 % latency after scale-out: no verdict, for {why}" in found.sentence
    assert found.sentence.startswith("No difference between my-branch and main: no difference in throughput")
    assert found.certain, "more blocks would not help"
    assert found.why == (
        "95 % latency after scale-out: no verdict, however many blocks there are; enough blocks to find a difference "
        "of 5 % in every other primary metric or to rule it out, or it is surely larger"
    )
    assert next(row for row in result_data(found)["rows"] if row["metric"] == LATENCY)["verdict"] == "no verdict"


@pytest.mark.parametrize(
    ("untimed", "verdict", "words"),
    [
        ({"lost": 0.002, "never_emitted": 0.002}, Verdict.BETTER, "lost 0.2 %, never emitted 0.2 %"),
        ({"lost": 0.002, "never_emitted": 0.002, "waiting": 0.002}, Verdict.NONE, "waiting at the end 0.2 %"),
        # Of B's 5000 tuples 60 may be lost beside what is on record: 96.2 % of the others are then 95 % of all.
        ({"unseen": 0.012}, Verdict.BETTER, "waiting at the end 0.0 %, lost unseen up to 1.2 %"),
        ({"unseen": 0.06}, Verdict.NONE, "lost unseen up to"),
        ({"lost": 0.1}, Verdict.NONE, "lost 10.0 %"),
    ],
)
def test_a_few_tuples_that_nobody_timed_leave_a_95th_percentile_what_it_is(
    tmp_path: Path, untimed: dict[str, float], verdict: Verdict, words: str
) -> None:
    found, latency = one(tmp_path, SideOf({LATENCY: SLOW}), SideOf({LATENCY: FAST}, untimed=untimed))
    assert latency.verdict is verdict and words in latency.note
    assert found.sentence.startswith("my-branch cannot be compared with main: ") is (verdict is Verdict.NONE)
    assert found.certain
    if "unseen" in untimed and verdict is Verdict.NONE:
        assert latency.why_no_verdict.startswith("5 % or more of the tuples may be lost unseen")


def test_what_may_be_lost_unseen_leaves_open_what_it_could_make(tmp_path: Path) -> None:
    """3.9 % of B's tuples take 100 ms, as many as A's: with 1.2 % of all lost unseen so does B's 95th percentile."""
    root = write(tmp_path / "20260101-000000-aa", {
        "stela": (SideOf({LATENCY: SLOW}), SideOf({LATENCY: FAST}, untimed={"unseen": 0.012}))
    })  # fmt: skip
    found = rows(SeriesPaths(root), "latency")
    slow = {row["run_id"]: row["buckets"][0] for row in found}
    mixed = [row | {"buckets": [*row["buckets"], slow[row["run_id"].replace("_b", "_a")]], "counts": [961, 39]}
             for row in found if "_b" in row["run_id"]]  # fmt: skip
    _write_again(root, "latency", [row for row in found if "_a" in row["run_id"]] + mixed)
    comparison = compare(root)
    latency = next(row for row in comparison.rows if row.metric == LATENCY)
    assert latency.difference == pytest.approx(-49.7, abs=1) and latency.p == 1
    assert latency.verdict is Verdict.UNDECIDED and latency.low is not None and latency.high is not None
    assert latency.low < -45 and latency.high >= 0
    assert comparison.certain and comparison.why == (
        "95 % latency after scale-out: wider only by what the measurement may be wrong by, which no block narrows"
    )
    assert "; what its measurement may be wrong by makes it wide, however many blocks there are" in comparison.sentence
    assert latency.needed_blocks is None and "more block" not in comparison.sentence


def test_a_difference_within_the_uncertainty_may_be_a_loss_too(tmp_path: Path) -> None:
    """And behind a filter, which lets one in ten through, a lost tuple is a tenth of a timed one."""
    root = write(tmp_path / "20260101-000000-aa", {
        "stela": (SideOf({LATENCY: SLOW}), SideOf({LATENCY: FAST}, untimed={"unseen": 0.01}))
    })  # fmt: skip
    losses = rows(SeriesPaths(root), "losses")
    _write_again(root, "losses", [
        edge for row in losses for edge in (
            row | {"target": "filter", "difference": row["uncertainty"]},
            row | {"source": "filter", "sent": row["executed"] / 10, "executed": row["executed"] / 10},
        )
    ])  # fmt: skip
    latency = next(row for row in compare(root).rows if row.metric == LATENCY)
    assert latency.note.endswith("lost unseen up to 1.2 %"), "two tenths of 1 %, and 1 % behind the filter"


def test_what_was_due_at_a_spout_without_a_process_was_never_emitted(tmp_path: Path) -> None:
    """No line says that it waits: nobody is there to say it."""
    root = write(tmp_path / "20260101-000000-aa", {
        "stela": (SideOf({LATENCY: SLOW}), SideOf({LATENCY: FAST}, untimed={"never_emitted": 0.05}))
    })  # fmt: skip
    _write_again(root, "activity", [row | {"queue": 0.0} for row in rows(SeriesPaths(root), "activity")])
    latency = next(row for row in compare(root).rows if row.metric == LATENCY)
    assert latency.verdict is Verdict.NONE and "never emitted 5.0 %" in latency.note


UNKNOWN: list[tuple[str, Callable[[Row], Row | None], int]] = [
    ("losses", lambda row: row | {"uncertainty": None, "difference": None}, 12),
    ("losses", lambda _: None, 12),
    ("event_throughput", lambda row: row | ({"rate": None} if (row["run_id"], row["scope"], row["window_s"])
                                            == ("stela_b-r1", "due", 20.0) else {}), 1),
    ("emissions", lambda row: row | ({"missed": None} if (row["run_id"], row["phase"])
                                     in (("stela_a-r1", "after"), ("stela_b-r1", "before")) else {}), 1),
]  # fmt: skip


@pytest.mark.parametrize(("table", "change", "runs"), UNKNOWN)
def test_what_nobody_counted_is_not_taken_for_nothing(
    tmp_path: Path, table: str, change: Callable[[Row], Row | None], runs: int
) -> None:
    root = write(tmp_path / "20260101-000000-aa", {"stela": (SideOf({LATENCY: SLOW}), SideOf({LATENCY: FAST}))})
    changed = [each for row in rows(SeriesPaths(root), table) if (each := change(row)) is not None]
    _write_again(root, table, changed)
    latency = next(row for row in compare(root).rows if row.metric == LATENCY)
    assert latency.why_no_verdict == f"how many tuples have no latency is not known of {runs} of 12 runs"


def test_a_loss_is_a_share_of_the_compared_seconds(tmp_path: Path) -> None:
    """0.35 % of all that was due in 590 s of A, and 2.6 % of what was due in the 80 s in which B was watched too."""
    a = SideOf({LATENCY: SLOW}, watched_s=600, untimed={"lost": 0.0035})
    _, latency = one(tmp_path, a, SideOf({LATENCY: FAST}, watched_s=90))
    assert latency.verdict is Verdict.NONE and "lost 2.6 %" in latency.note


def test_behind_a_filter_few_lost_tuples_are_a_larger_share(tmp_path: Path) -> None:
    """One in ten comes to the sink: 0.2 % of what was due is 2 % of what would have been timed."""
    root = write(tmp_path / "20260101-000000-aa", {
        "stela": (SideOf({LATENCY: SLOW}), SideOf({LATENCY: FAST}, untimed={"lost": 0.002}))
    })  # fmt: skip
    filtered = [row | {"counts": [100]} for row in rows(SeriesPaths(root), "latency")]
    _write_again(root, "latency", filtered)
    latency = next(row for row in compare(root).rows if row.metric == LATENCY)
    assert latency.verdict is Verdict.NONE and "lost 2.0 %" in latency.note


def test_a_run_in_which_everything_stands_is_not_left_out(tmp_path: Path) -> None:
    root = write(tmp_path / "20260101-000000-aa", {"stela": (SideOf({LATENCY: SLOW}), SideOf({LATENCY: FAST}))})
    stands = [row for row in rows(SeriesPaths(root), "latency")
              if row["run_id"] != "stela_b-r1" or row["window_s"] < 0]  # fmt: skip
    _write_again(root, "latency", stands)
    latency = next(row for row in compare(root).rows if row.metric == LATENCY)
    assert latency.verdict is Verdict.NONE and "no tuple came to a sink in 1 of 12 runs" in latency.why_no_verdict


def test_percentiles_of_before_the_histograms_are_compared_with_nothing(tmp_path: Path) -> None:
    """Neither with new ones nor among themselves: they are medians of seconds' percentiles."""
    root = write(tmp_path / "20260101-000000-aa", {"stela": (SideOf({LATENCY: SLOW}), SideOf({LATENCY: FAST}))})
    paths = SeriesPaths(root)
    found = rows(paths, "latency")
    older = [row | {"buckets": None, "counts": None} if row["run_id"] == "stela_a-r1" else row for row in found]
    _write_again(root, "latency", older)
    latency = next(row for row in compare(root).rows if row.metric == LATENCY)
    assert [block.number for block in latency.blocks] == [2, 3, 4, 5, 6]


FEW = (0.0, 0.1, 0.5, 0.0, 0.2, 0.0)
SHARE = "untimed_percent_before"


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ({SHARE: FEW}, {SHARE: FEW}, Verdict.BETTER),
        ({SHARE: FEW}, {SHARE: (*FEW[:5], 0.6)}, Verdict.NONE),
        ({SHARE: (0.6, *FEW[1:])}, {SHARE: FEW}, Verdict.NONE),
        ({SHARE: FEW}, {SHARE: (*FEW[:5], None)}, Verdict.NONE),
        ({SHARE: FEW}, {}, Verdict.NONE),
        ({"untimed_percent_after": FEW}, {}, Verdict.NONE),
        ({}, {}, Verdict.BETTER),
    ],
)
def test_latency_before_an_event_has_a_verdict_by_the_rule_of_nights(
    tmp_path: Path, a: Numbers, b: Numbers, verdict: Verdict
) -> None:
    """Sources that are saturated before the event keep what would have been slow. An older analysis has no share at
    all, and its latencies count as they did."""
    latency = "latency_all_p95_ms_before"
    sides = SideOf({latency: SLOW, **a}), SideOf({latency: FAST, **b})
    found = compare(write(tmp_path / "x" / "20260101-000000-aa", {"stela": sides}))
    row = next(row for row in found.rows if row.metric == latency)
    assert row.difference == pytest.approx(-49.7, abs=1), "the number is shown"
    assert row.verdict is verdict and (row.p is None) is (verdict is Verdict.NONE)
    why = "more than 0.5 % of a run's tuples have no latency, or nobody knows"
    assert row.why_no_verdict == (why if verdict is Verdict.NONE else "")
    variants = {"a": at_night({latency: SLOW, **a}), "b": at_night({latency: FAST, **b})}
    nights = parsed([night(0, "quick", [experiment(STAR, variants)])])
    counted = [each for each in build_series(nights, Renames()) if each.key.metric == latency]
    assert (len(counted) == 2) is (verdict is Verdict.BETTER)


def at_night(numbers: Numbers) -> dict[str, dict[str, list[float]]]:
    return {name: {"e1": [each for each in values if each is not None]} for name, values in numbers.items()}
