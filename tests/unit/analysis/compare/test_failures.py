"""Comparisons in which the system under test fails runs: what is said of those that are left, and when it is sure."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from analysis.compare.blocks import SYSTEM_UNDER_TEST
from analysis.compare.evaluation import compare
from analysis.compare.result import RUNS_FAILED, SURVIVORS, ComparisonResult, MetricRow, Verdict, result_data
from analysis.ingest.run_tables import failed_attempts
from analysis.pipeline import analyse_new_runs
from analysis.record.files import SeriesPaths
from bench.statistics.comparisons import FAILING, failing_comparison, headline_call
from tests.support.compared_series import LATENCY, Failed, SideOf, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEVELS = (100.0, 102.0, 99.0, 101.0, 100.5, 98.5, 100.0, 101.5, 99.5, 100.2)
HIGHER = tuple(1.1 * level * (1 + 0.002 * (-1) ** i) for i, level in enumerate(LEVELS))
HALF = [Failed(block) for block in (1, 3, 5, 7, 9)]


def compared(
    root: Path, a: Sequence[float], b: Sequence[float], failed: Sequence[Failed] = (), failed_a: Sequence[Failed] = ()
) -> ComparisonResult:
    """Throughput and a latency that scatters alike."""
    latencies = ([50.0 + step * (i % 7) / 7 for i in range(len(a))] for step in (1.0, -1.0))
    sides = [SideOf({"throughput_after": values, LATENCY: latency}, of)
             for values, latency, of in zip((a, b), latencies, (failed_a, failed), strict=True)]  # fmt: skip
    return compare(write(root / "20260101-000000-aa", {"stela": (sides[0], sides[1])}))


def row(found: ComparisonResult, metric: str) -> MetricRow:
    return next(row for row in found.rows if row.metric == metric)


def test_a_code_that_crashes_in_half_of_its_runs_is_not_better_and_that_is_not_certain(tmp_path: Path) -> None:
    found = compared(tmp_path, LEVELS, HIGHER, HALF)
    assert found.sentence.startswith(
        "In complete runs my-branch is ahead of main in throughput after scale-out, but my-branch failed more often: "
        "my-branch failed in 5 of 10 runs (up to 78 % may fail; main in none of 10): IllegalStateException: no slot for"
        " task 7; in complete runs throughput after scale-out +9.8\u00a0% ["
    )
    assert " in 5 blocks" in found.sentence and "better" not in found.sentence
    assert not found.certain and found.why.startswith("stela, runs that failed: ±")
    data = result_data(found)
    throughput, failures = (next(each for each in data["rows"] if each["metric"] == metric)
                            for metric in ("throughput_after", RUNS_FAILED))  # fmt: skip
    assert throughput["verdict"] == "no verdict" and "failed in more of its runs" in throughput["why_no_verdict"]
    assert (failures["a"], failures["b"], failures["difference"], failures["unit"]) == (0, 5, 50.0, "points")
    assert failures["p"] == pytest.approx(2 * 252 / 15504), "of 20 runs, 5 of which fail: all on one side"
    assert failures["verdict"] == "undecided", "after Holm's correction over three metrics"
    json.dumps(data, allow_nan=False)


def test_no_look_after_a_block_finds_enough_while_half_of_the_runs_crash(tmp_path: Path) -> None:
    """`--until-certain` goes on, up to where so many failures on one side are no chance of any of its 18 looks."""
    looks = {blocks: compared(tmp_path / str(blocks), (LEVELS * 2)[:blocks], (HIGHER * 2)[:blocks],
                              [Failed(block) for block in range(2, blocks + 1, 2)])
             for blocks in (3, 4, 6, 8, 12, 16, 20)}  # fmt: skip
    assert [blocks for blocks, found in looks.items() if found.certain] == [20]
    assert row(looks[12], RUNS_FAILED).verdict is Verdict.WORSE, "called, but one look of many could find that"
    assert all("better" not in found.sentence for found in looks.values())


def test_what_is_ahead_here_and_worse_there_says_both(tmp_path: Path) -> None:
    numbers = ((LEVELS, ()), (HIGHER, HALF[:3]))
    sides = [SideOf({"throughput_after": values, LATENCY: values}, failed) for values, failed in numbers]
    found = compare(write(tmp_path / "20260101-000000-aa", {"stela": (sides[0], sides[1])}))
    assert row(found, LATENCY).verdict is Verdict.WORSE and row(found, "throughput_after").verdict is Verdict.NONE
    assert found.sentence.startswith(
        "In complete runs my-branch is ahead of main in throughput after scale-out and worse than main in 95 % latency "
        "after scale-out, but my-branch failed more often: my-branch failed in 3 of 10 runs ("
    )


@pytest.mark.parametrize(("factor", "word"), [(0.7, "worse"), (1.3, "better")])
def test_failures_of_one_pair_take_nothing_from_the_verdict_of_another(
    tmp_path: Path, factor: float, word: str
) -> None:
    """Of stela the other side failed once, whichever is ahead of metis; stela's numbers are the same."""
    failed = ([Failed(2)], []) if word == "worse" else ([], [Failed(2)])
    pairs = {
        "stela": tuple(SideOf({"throughput_after": LEVELS}, each) for each in failed),
        "metis": (SideOf({"throughput_after": LEVELS}), SideOf({"throughput_after": [factor * x for x in LEVELS]})),
    }
    found = compare(write(tmp_path / "20260101-000000-aa", pairs))
    headline = found.sentence.partition(".")[0]
    assert f"my-branch is {word} than main" in headline and "failed more often" not in headline


@pytest.mark.parametrize("failed", [1, 3])
def test_the_same_is_said_of_sides_that_are_exchanged(tmp_path: Path, failed: int) -> None:
    ahead = SideOf({"throughput_after": HIGHER * 2}, [Failed(20 - i) for i in range(failed)])
    other = SideOf({"throughput_after": LEVELS * 2})
    for name, sides, headline in (
        ("of b", (other, ahead), "ahead of main in throughput after scale-out, but my-branch"),
        ("of a", (ahead, other), "behind main in throughput after scale-out, but main"),
    ):
        found = compare(write(tmp_path / name / "20260101-000000-aa", {"stela": sides}))
        assert found.sentence.startswith(f"In complete runs my-branch is {headline} failed more often: ")
        assert row(found, "throughput_after").verdict is Verdict.NONE and not found.certain


def test_a_side_that_the_other_is_measured_against_may_crash_as_well(tmp_path: Path) -> None:
    """Main crashes, and its other runs are faster: the branch is not worse. Where they are slower it is better."""
    found = compared(tmp_path / "faster", HIGHER, LEVELS, failed_a=HALF)
    assert found.sentence.startswith(
        "In complete runs my-branch is behind main in throughput after scale-out, but main failed more often: main "
    )
    assert row(found, "throughput_after").verdict is Verdict.NONE and not found.certain
    found = compared(tmp_path / "slower", LEVELS, HIGHER, failed_a=HALF)
    assert found.sentence.startswith("my-branch is better than main in complete runs: main failed in 5 of 10 runs (")
    assert found.certain


def test_equal_numbers_of_a_code_that_crashes_are_not_certain_and_of_one_that_failed_once_are(tmp_path: Path) -> None:
    """No difference in complete runs: only failures that are hardly chance may still become one."""
    certain = {
        len(failed): compared(tmp_path / str(len(failed)), LEVELS * 2, LEVELS * 2, failed, [Failed(20)][:only]).certain
        for failed, only in (([*HALF, Failed(11)], 0), ([Failed(20)], 0), ([Failed(19), Failed(20)], 1))
    }
    assert certain == {6: False, 1: True, 2: True}


def test_so_few_failures_that_they_are_within_the_goal_take_nothing_from_the_answer(tmp_path: Path) -> None:
    found = compared(tmp_path, LEVELS * 15, HIGHER * 15, [Failed(20)])
    assert row(found, RUNS_FAILED).verdict is Verdict.NO_DIFFERENCE
    assert found.sentence.startswith("my-branch is better than main in complete runs: my-branch failed in 1 of 150 ")
    assert found.certain


def test_sides_that_fail_alike_are_compared_in_complete_runs(tmp_path: Path) -> None:
    found = compared(tmp_path, LEVELS, HIGHER, HALF, HALF)
    assert found.sentence.startswith("my-branch is better than main in complete runs: main failed in 5 of 10 runs (up ")
    assert row(found, RUNS_FAILED).verdict is Verdict.UNDECIDED and found.certain, "it does not take 150 blocks"


def test_failures_that_are_not_the_codes_do_not_count(tmp_path: Path) -> None:
    lost = [Failed(block, "infrastructure", "m3 died.") for block in (1, 3, 5)]
    found = compared(tmp_path, LEVELS, HIGHER, lost)
    assert found.sentence.startswith("my-branch is better than main: throughput after scale-out +9.9")
    assert found.certain and all(row.metric != RUNS_FAILED for row in found.rows)
    both = compared(tmp_path / "both", LEVELS, HIGHER, [*lost, Failed(2)])
    assert row(both, RUNS_FAILED).b == 1 and "my-branch failed in 1 of 7 runs (" in both.sentence


def set_aside(root: Path, run_id: str, attempt: int, blame: str | None, status: str = "failed") -> None:
    """An attempt of a run that was repeated."""
    variant, _, block = run_id.rpartition("-r")
    folder = root / "attempts" / f"{run_id}.attempt-{attempt}"
    folder.mkdir(parents=True)
    failure = {"blame": blame, "message": "IllegalStateException: no slot for task 7"} if blame else None
    record = {"run_id": run_id, "variant": {"name": variant}, "block": int(block), "status": status, "failure": failure}
    (folder / "run.json").write_text(json.dumps(record))


def test_a_run_that_was_repeated_has_failed_all_the_same(tmp_path: Path) -> None:
    """The same command again measures failed runs anew; a code that crashes now and then gets through in the end."""
    sides = SideOf({"throughput_after": LEVELS}), SideOf({"throughput_after": HIGHER})
    root = write(tmp_path / "20260101-000000-aa", {"stela": sides})
    assert compare(root).sentence.startswith("my-branch is better than main: ") and compare(root).certain
    for run_id, attempt, blame in (("stela_a-r2", 1, "infrastructure"), ("stela_b-r1", 1, SYSTEM_UNDER_TEST),
                                   ("stela_b-r1", 2, SYSTEM_UNDER_TEST), ("stela_b-r4", 1, "infrastructure"),
                                   ("stela_b-r4", 2, SYSTEM_UNDER_TEST)):  # fmt: skip
        set_aside(root, run_id, attempt, blame)
    set_aside(root, "stela_b-r5", 1, None, "incomplete")
    found = compare(root)
    assert (row(found, RUNS_FAILED).a, row(found, RUNS_FAILED).b) == (0, 2) and not found.certain
    assert len(row(found, "throughput_after").blocks) == 10
    assert "but my-branch failed more often: my-branch failed in 2 of 10 runs (up to 51 % may fail" in found.sentence
    assert "stela, block 4: my-branch (stela_b-r4) was lost by the system under test, and repeated: Ill" in str(
        found.notes
    )
    (pair,) = result_data(found)["runs"]
    assert (pair["b"]["complete"], pair["b"]["failed"]) == (10, 2)


def test_between_blocks_the_attempts_are_there_too(tmp_path: Path) -> None:
    record = {"variant": {"name": "stela_b"}, "block": 1, "status": "failed", "failure": None}
    (tmp_path / "runs" / "stela_b-r1").mkdir(parents=True)
    (tmp_path / "runs" / "stela_b-r1" / "run.json").write_text(json.dumps(record))
    set_aside(tmp_path, "stela_b-r1", 1, SYSTEM_UNDER_TEST)

    def never(_bytes: int) -> "SparkSession":
        raise AssertionError("no run is complete")

    (attempt,) = failed_attempts(SeriesPaths(analyse_new_runs(tmp_path, never)))
    assert (attempt["run_id"], attempt["variant"], attempt["repeated"]) == ("stela_b-r1", "stela_b", True)


@pytest.mark.parametrize("name", ["B in half", "A in half", "half of the blocks", "both in half", "none"])
def test_what_is_said_of_drawn_comparisons_whose_runs_fail(name: str) -> None:
    """Ten blocks of codes that differ by 10 % and of equal ones; 200 in which B crashes in half of its runs."""
    rng, number = np.random.default_rng(7), 100 if name == "B in half" else 40
    for gain in (0.1, 0.0):
        found = [failing_comparison(rng, 10, FAILING[name], gain) for _ in range(number)]
        calls = [headline_call(each) for each in found]
        failing = [each for each in found if any(row.metric == RUNS_FAILED for row in each.rows)]
        refused = [each for each in failing if any(row.why_no_verdict == SURVIVORS for row in each.rows)]
        assert not any(each.certain for each in refused)
        if name == "B in half":
            assert "better" not in calls and "both" not in calls
            assert len(refused) > 0.9 * number if gain else len(refused) < 0.1 * number
        elif name == "A in half":
            assert calls.count("worse") <= 2 * (gain == 0.0), "by chance in latency"
        elif name == "half of the blocks":
            assert calls.count("better") > 0.8 * number if gain else calls.count("") > 0.8 * number
            assert not any(row(each, RUNS_FAILED).called for each in failing)
        elif name == "none":
            assert not failing and (number - calls.count("") if gain else calls.count("")) > 0.8 * number


def test_a_failure_counts_also_in_a_block_that_the_other_side_lost(tmp_path: Path) -> None:
    lost = [Failed(block, "infrastructure", "m3 died.") for block in (1, 3, 5)]
    failures = row(compared(tmp_path, LEVELS, HIGHER, HALF, lost), RUNS_FAILED)
    assert (failures.a, failures.b, failures.difference) == (0, 5, 50.0)
