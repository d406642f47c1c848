"""Comparisons of simulated runs: what the model gives, the range over seeds, and no verdict."""

import json
import re
from pathlib import Path

import pytest

from analysis import compare
from analysis.calibration import validation
from analysis.calibration.validation import SeriesName, Validation
from analysis.compare import drawings, evaluation
from analysis.compare.result import RESULT, RUNS_FAILED, ComparisonResult, Verdict, result_data
from barograph.plan.experiment import SIMULATED, load
from tests.support import compared_series
from tests.support.compared_series import HIGH, LATENCY, LOW, Failed, Numbers, SideOf, same_code, write

OF_TESTS = ("p", "p_holm", "floor", "floor_percent", "goal", "goal_low", "needed_blocks", "needed_for_seen")


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compared_series, "FACTS", json.dumps({SIMULATED: {"seed": 1, "costs": {}}}))
    monkeypatch.setattr(compared_series, "SPEC", json.dumps(load("stela/star").as_data()))


def one(tmp_path: Path, a: SideOf, b: SideOf, **asked: object) -> ComparisonResult:
    return evaluation.compare(write(tmp_path / "x" / "20260101-000000-aa", {"stela": (a, b)}, **asked))


def test_a_difference_has_its_range_over_seeds_and_no_test(tmp_path: Path) -> None:
    found = one(
        tmp_path,
        SideOf({"throughput_after": LOW, LATENCY: LOW, "downtime_s": [3.0] * 4}),
        SideOf({"throughput_after": HIGH, LATENCY: LOW, "downtime_s": [3.0] * 4}),
    )
    data = result_data(found)
    assert data["simulated"] is True and {row["verdict"] for row in data["rows"]} == {"no verdict"}
    assert {row[name] for row in data["rows"] for name in OF_TESTS} == {None}
    gain = next(row for row in data["rows"] if row["metric"] == "throughput_after")
    ratios = [100 * (b / a - 1) for a, b in zip(LOW, HIGH, strict=True)]
    assert gain["lowest"] == pytest.approx(min(ratios)) and gain["highest"] == pytest.approx(max(ratios))
    assert gain["lowest"] < gain["difference"] < gain["highest"] and gain["low"] is gain["high"] is None
    assert found.sentence == (
        "The model gives of my-branch against main, over 4 seeds: throughput after scale-out +12.1\u00a0% (+11.8 to"
        " +12.6); the same: downtime after scale-out and 95 % latency after scale-out."
    )
    assert found.certain and "more of them say no more about Storm" in found.why
    assert "a different" not in found.sentence and found.notes[0].startswith("Of each commit its policies")


def test_what_is_the_same_with_every_seed_is_said_in_one_sentence(tmp_path: Path) -> None:
    side = SideOf({"throughput_after": LOW, "downtime_s": [0.0] * 4})
    found = one(tmp_path, side, side, sides=same_code())
    assert found.sentence.startswith(
        "The model gives the same of main (B) as of main (A), with all 4 seeds: throughput after scale-out and "
    )
    assert any(note.startswith("Both sides are the same code") and "chance" not in note for note in found.notes)
    assert next(row for row in found.rows if row.metric == "throughput_after").low == 0.0


def unseen(numbers: Numbers) -> SideOf:
    """Of its tuples 2.6 % take 500 ms, and 2.9 % of all may be lost unseen: then its 95th percentile is 500 ms."""
    return SideOf(numbers, watched_s=400, late_from_s=380, late_ms=500.0, untimed={"unseen": 0.03})


def test_of_equal_runs_nothing_that_was_lost_unseen_differs(tmp_path: Path) -> None:
    side = unseen({"throughput_after": LOW, LATENCY: LOW})
    found = one(tmp_path, side, side, sides=same_code())
    (latency,) = (row for row in found.rows if row.metric == LATENCY)
    assert latency.measured is not None and len(latency.measured.extremes) > 1 and not latency.why_no_verdict
    assert (latency.low, latency.high) == (0.0, 0.0)
    assert found.sentence == (
        "The model gives the same of main (B) as of main (A), with all 4 seeds: throughput after scale-out and"
        " 95 % latency after scale-out."
    )


def test_the_range_is_over_each_block_as_what_was_lost_unseen_may_make_it(tmp_path: Path) -> None:
    """100 or 200 ms as measured on both sides, and 500 ms on either: other code may have lost other tuples."""
    values = (100.0, 200.0, 100.0, 200.0)
    sides = unseen({"throughput_after": LOW, LATENCY: values}), unseen({"throughput_after": HIGH, LATENCY: values})
    found = one(tmp_path / "four", *sides)
    (latency,) = (row for row in found.rows if row.metric == LATENCY)
    assert latency.difference == 0.0
    assert latency.low == pytest.approx(-80.0, abs=1) and latency.high == pytest.approx(400.0, abs=10)
    assert "the same" not in found.sentence
    single = one(tmp_path / "one", *(unseen({name: of[:1] for name, of in side.numbers.items()}) for side in sides))
    assert re.search(r"95 % latency after scale-out 0\.0\u00a0% \(−\d+\.\d to \+\d+\.\d\)", single.sentence)


def test_times_that_were_never_reached_are_ordered_and_no_side_is_called_better(tmp_path: Path) -> None:
    metric = "convergence_sp_s"
    found = one(tmp_path, SideOf({metric: [-120.0] * 8}, never=[metric]), SideOf({metric: [60.0] * 8}, never=[metric]))
    (row,) = (row for row in found.rows if row.metric == metric)
    assert row.verdict is Verdict.NONE and row.low is row.p is None and row.effect == -1.0
    assert "by rank (converged in 0 of 8 runs of main and 8 of 8 of my-branch; my-branch first in 8" in found.sentence


def test_failures_are_facts_and_say_no_more(tmp_path: Path) -> None:
    failed = [Failed(number) for number in range(1, 5)]
    found = one(tmp_path, SideOf({"throughput_after": LOW}), SideOf({}, failed, blocks=4))
    assert found.sentence.startswith("my-branch cannot be compared with main: my-branch failed in every run (main in ")
    (row,) = (row for row in found.rows if row.metric == RUNS_FAILED)
    assert row.verdict is Verdict.NONE and row.b == 4.0
    assert not found.certain and found.why == "no block is whole"


def test_page_and_figure_have_nothing_of_tests(tmp_path: Path) -> None:
    fitted = Validation("2026-11-24", {}, (SeriesName("stela/star", "20261124-1", 2),))
    validation.write(tmp_path / validation.FOLDER / "one", fitted)
    root = compared_series.one_pair(tmp_path / "20260101-000000-aa")
    text = compare.write(root).read_text()
    assert json.loads((root / RESULT).read_text())["simulated"] is True
    body = text[text.index("<h1>") : text.index("<script>")]
    for absent in ("95 % interval", "A/A floor", "p (Holm)", "no verdict:", "The level is", "same machines"):
        assert absent not in body, absent
    for there in ("over seeds", "no test, no interval and no verdict", "have the same seed", "Simulated, not measured",
                  "The costs were fitted to stela/star (2 runs) on 2026-11-24"):  # fmt: skip
        assert there in body, there
    assert body.count("<dt>block</dt>") == 1
    forest = drawings.forest(evaluation.compare(root))
    assert forest is not None and {"low_percent", "high_percent"} <= {column.name for column in forest.columns}
    assert not {"p_holm", "floor_percent", "verdict"} & {column.name for column in forest.columns}
