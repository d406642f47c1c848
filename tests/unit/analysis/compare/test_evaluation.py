"""Whole comparisons over tables written by hand: verdicts, the sentence, and what is told of runs that say nothing."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.compare.blocks import Block, Value
from analysis.compare.evaluation import compare
from analysis.compare.result import RUNS_FAILED, ComparisonResult, MetricKind, MetricRow, Verdict, result_data
from analysis.compare.sentence import verdict_text
from analysis.compare.verdict import block_order
from analysis.errors import RecordError
from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from tests.support.compared_series import LATENCY, Failed, SideOf, question, same_code, write
from tests.support.series_by_hand import cut_short, drop_column, write_table

SIX_A = (100.0, 102.0, 99.0, 101.0, 100.5, 98.5)
SIX_B = (112.0, 114.0, 111.5, 113.0, 112.0, 111.0)
NOISY = (80.0, 125.0, 95.0, 120.0, 70.0, 110.0)
FIFTY_MS = (50.0, 52.0, 49.0, 51.0, 50.0, 50.5)


def row(found: ComparisonResult, metric: str, pair: str = "stela") -> MetricRow:
    return next(row for row in found.rows if (row.metric, row.pair) == (metric, pair))


def one(tmp_path: Path, a: SideOf, b: SideOf, **asked: object) -> ComparisonResult:
    return compare(write(tmp_path / "x" / "20260101-000000-aa", {"stela": (a, b)}, **asked))


def test_a_gain_is_called_with_its_interval_and_what_is_open_with_the_blocks_that_it_needs(tmp_path: Path) -> None:
    found = one(
        tmp_path,
        SideOf({"throughput_after": SIX_A, LATENCY: SIX_A, "downtime_s": [0.0] * 6}),
        SideOf({"throughput_after": SIX_B, LATENCY: NOISY, "downtime_s": [0.0] * 6}),
    )
    gain, latency = row(found, "throughput_after"), row(found, LATENCY)
    assert gain.verdict is Verdict.BETTER and gain.effect == 1.0 and len(gain.blocks) == 6
    assert gain.difference == pytest.approx(12.05, abs=0.1) and gain.low is not None and gain.high is not None
    assert gain.low < gain.difference_percent < gain.high and gain.floor_percent < gain.low
    assert row(found, "downtime_s").verdict is Verdict.NO_DIFFERENCE and row(found, "downtime_s").p_holm is None
    assert latency.needed_blocks is not None and latency.needed_blocks > 20
    assert found.sentence.startswith(
        "my-branch is better than main: throughput after scale-out +12.1\u00a0% [11.5, 12.6] in 6 blocks; "
        "no difference in downtime after scale-out (the same in every block, within ±2\u00a0s); "
        "95 % latency after scale-out: undecided (−2.1\u00a0% ["
    )
    more = f"about {latency.needed_blocks - 6} more blocks"
    assert f"{more} would show 5\u00a0% or rule it out" in found.sentence
    assert not found.certain and "95 % latency after scale-out: ±" in found.why and f"{more} to find" in found.why


@pytest.mark.parametrize(
    ("unsteady", "verb", "verdict", "note"),
    [
        ((0, 0), "is", "better", ""),
        ((None, None), "is", "better", ""),
        ((2, 4), "is", "better", "6 of 12 runs were not steady"),
        ((1, 6), "seems", "seems better", "7 of 12 runs were not steady"),
    ],
)
def test_runs_that_were_not_steady_count_in_weaker_words(
    tmp_path: Path, unsteady: tuple[int | None, int | None], verb: str, verdict: str, note: str
) -> None:
    a = SideOf({"throughput_after": SIX_A}, unsteady=unsteady[0])
    found = one(tmp_path, a, SideOf({"throughput_after": SIX_B}, unsteady=unsteady[1]))
    gain = row(found, "throughput_after")
    assert gain.verdict is Verdict.BETTER and gain.difference == pytest.approx(12.05, abs=0.1)
    assert (verdict_text(gain), gain.note) == (verdict, note)
    assert found.sentence.startswith(f"my-branch {verb} better than main: throughput after scale-out +12.1")
    assert f"[11.5, 12.6]{f' ({note})' if note else ''} in 6 blocks" in found.sentence
    (data,) = result_data(found)["rows"]
    assert (data["unsteady"], data["note"], data["verdict"]) == (sum(n or 0 for n in unsteady), note, "better")


def test_lower_latency_is_better_and_a_metric_without_a_direction_is_only_different(tmp_path: Path) -> None:
    found = one(
        tmp_path,
        SideOf({LATENCY: SIX_B, "cpu_percent_after": SIX_A}),
        SideOf({LATENCY: SIX_A, "cpu_percent_after": SIX_B}),
    )
    assert row(found, LATENCY).verdict is Verdict.BETTER
    cpu = row(found, "cpu_percent_after")
    assert cpu.verdict is Verdict.DIFFERENT and not cpu.primary and cpu.unit == "points"
    assert cpu.difference_percent is None and cpu.difference == pytest.approx(12.08, abs=0.1)
    assert "−" in found.sentence and "-1" not in found.sentence


def test_a_small_and_steady_difference_stays_uncalled_within_the_floor_on_record(tmp_path: Path) -> None:
    """Noise that moves both runs of a block alike hides in the pairing; comparisons of a code with itself show it."""
    b = [value * 1.004 for value in SIX_A]
    found = one(tmp_path, SideOf({"gain_percent": SIX_A}), SideOf({"gain_percent": b}))
    gain = row(found, "gain_percent")
    assert gain.p is not None and gain.p < 1e-6 and gain.floor == 2.0 and gain.verdict is Verdict.NO_DIFFERENCE
    root = write(tmp_path / "y" / "20260101-000000-aa", {"stela": (SideOf({"throughput_after": SIX_A}),
                                                                  SideOf({"throughput_after": SIX_B}))})  # fmt: skip
    known = compare(root, {("throughput_after", "e1"): [0.4, -0.3, 0.35, -0.4, 0.3, 0.5]})
    assert row(known, "throughput_after").floor_on_record and not row(known, "throughput_after").called
    assert row(compare(root, {}), "throughput_after").called


@pytest.mark.parametrize("factor", [0.81, 1 / 0.81])
def test_the_floor_reaches_as_far_down_as_up(tmp_path: Path, factor: float) -> None:
    """A ratio and its inverse are the same distance, though 19 % less and 23 % more are not the same number."""
    sides = SideOf({"throughput_after": SIX_A}), SideOf({"throughput_after": [value * factor for value in SIX_A]})
    root = write(tmp_path / "x" / "20260101-000000-aa", {"stela": sides})
    found = row(compare(root, {("throughput_after", "e1"): [0.2, -0.2] * 3}), "throughput_after")
    assert found.floor_on_record and found.floor is not None and found.called
    assert found.floor == pytest.approx(22.1 if factor > 1 else 18.1, abs=0.1)
    known = {("throughput_after", "e1"): [0.22, -0.22] * 3}
    assert not row(compare(root, known), "throughput_after").called


def ask(root: Path, change: dict[str, object]) -> None:
    """Change the request that is on record."""
    document = json.loads((root / "series.json").read_text())
    (root / "series.json").write_text(json.dumps(document | {"spec": document["spec"] | change}))


def test_a_a_comparisons_beside_it_count_only_in_the_same_conditions(tmp_path: Path) -> None:
    noise = SideOf({"throughput_after": NOISY}), SideOf({"throughput_after": NOISY[::-1]})
    small = [SideOf({"throughput_after": values}, cores=0.1) for values in (NOISY, NOISY[::-1])]
    root = write(tmp_path / "20260103-000000-aa", {"stela": (SideOf({"throughput_after": SIX_A}),
                                                            SideOf({"throughput_after": SIX_B}))})  # fmt: skip
    write(tmp_path / "20260101-000000-aa", {"stela": (small[0], small[1])}, sides=same_code())
    assert not row(compare(root), "throughput_after").floor_on_record
    write(tmp_path / "20260102-000000-aa", {"stela": noise}, sides=same_code())
    assert row(compare(root), "throughput_after").floor_on_record
    paths = SeriesPaths(tmp_path / "20260102-000000-aa")
    runs = small_tables.rows(paths, "runs")
    small_tables.write(paths, "runs", [run | {"measurement": 2} for run in runs])
    assert not row(compare(root), "throughput_after").floor_on_record, "other samples scatter otherwise"
    small_tables.write(paths, "runs", [run | {"measurement": 1} for run in runs])
    assert row(compare(root), "throughput_after").floor_on_record, "as a record that does not say"
    facts = json.dumps(json.loads(runs[0]["harness_facts"]) | {"simulated": {"costs": {"hop_ms": 1.0}}})
    small_tables.write(paths, "runs", [run | {"harness_facts": facts} for run in runs])
    assert not row(compare(root), "throughput_after").floor_on_record, "a model scatters otherwise"
    small_tables.write(paths, "runs", [run | {"measurement": 1} for run in runs])
    for change in ({"durations": {"horizon_s": 600}}, {"topology": {"name": "linear"}},
                   {"events": [{"kind": "crash"}]}, {"variants": [{"policy": "stela", "parameters": {"window_s": 20}}]},
                   {"variants": [{"topology": {"parameters": {"work_ms": 2}}}]}):  # fmt: skip
        ask(tmp_path / "20260102-000000-aa", change)
        assert not row(compare(root), "throughput_after").floor_on_record, "it scatters otherwise"
        ask(root, change)
        assert row(compare(root), "throughput_after").floor_on_record
    (tmp_path / "20260102-000000-aa" / "comparison.json").write_text("{}")  # a damaged one is no record of anything
    assert not row(compare(root), "throughput_after").floor_on_record


def test_an_a_a_comparison_that_cannot_be_read_is_left_out_and_named(tmp_path: Path) -> None:
    sides = SideOf({"throughput_after": SIX_A}), SideOf({"throughput_after": SIX_B})
    root = write(tmp_path / "20260104-000000-aa", {"stela": sides})
    noise = SideOf({"throughput_after": NOISY}), SideOf({"throughput_after": NOISY[::-1]})
    beside = [write(tmp_path / f"2026010{day}-000000-aa", {"stela": noise}, sides=same_code()) for day in (1, 2, 3)]
    notes = compare(root).notes
    cut_short(beside[0], "losses")
    drop_column(beside[1], "runs", "status")
    found = compare(root)
    assert row(found, "throughput_after").floor_on_record, "by the third"
    *others, newer, older = found.notes
    assert tuple(others) == notes
    assert newer.startswith(f"An A/A comparison on record is left out: {tmp_path.parent.name}/")
    assert f"{beside[1].name}/tables/runs.parquet has no column status; " in newer
    assert f"{beside[0].name}/tables/losses.parquet cannot be read: " in older


def test_three_blocks_are_the_fewest_that_say_anything(tmp_path: Path) -> None:
    for blocks, p_known in ((1, False), (2, False), (3, True)):
        found = one(tmp_path / str(blocks), SideOf({"throughput_after": SIX_A[:blocks]}),
                    SideOf({"throughput_after": SIX_B[:blocks]}))  # fmt: skip
        throughput = row(found, "throughput_after")
        assert (throughput.p is not None) is p_known is (throughput.low is not None)
        assert throughput.difference is not None and throughput.difference > 10
        assert p_known or (throughput.verdict is Verdict.UNDECIDED and "too few to tell" in found.sentence)
        assert p_known or (not found.certain and "fewer than 3 whole blocks" in found.why)


def test_times_that_were_never_reached_are_compared_by_rank(tmp_path: Path) -> None:
    metric = "convergence_sp_s"
    a = SideOf({metric: [-120.0, -120.0, 110.0, -120.0, -120.0, -120.0, -120.0, 100.0]}, never=[metric])
    b = SideOf({metric: [60.0, 70.0, 60.0, 50.0, 60.0, 70.0, 60.0, 60.0]}, never=[metric])
    found = one(tmp_path, a, b)
    converged = row(found, metric)
    assert converged.difference is converged.low is converged.a is None and converged.p == pytest.approx(2 / 256)
    assert converged.verdict is Verdict.BETTER
    assert "shorter (converged in 2 of 8 runs of main and 8 of 8 of my-branch; my-branch first in 8 blocks" in (
        found.sentence
    )


def test_two_horizons_are_a_tie_and_a_horizon_below_the_others_time_says_nothing(tmp_path: Path) -> None:
    metric = "convergence_sp_s"
    a = SideOf({metric: [-120.0, -120.0, -60.0]}, never=[metric])
    b = SideOf({metric: [-120.0, -130.0, 90.0]}, never=[metric])
    found = row(one(tmp_path, a, b), metric)
    assert found.p == 1.0 and found.effect == 0.0 and found.verdict is Verdict.UNDECIDED


times = st.tuples(st.integers(1, 30), st.booleans()).map(lambda it: Value(10.0 * it[0], it[1]))


@given(times, times)
def test_who_is_watched_longer_gains_nothing_by_it(a: Value, b: Value) -> None:
    """The order in a block is that of both times as far as the shorter watch goes."""

    def cut(value: Value) -> Value:
        return value if value.number <= shorter else Value(shorter, censored=True)

    shorter = min([value.number for value in (a, b) if value.censored], default=math.inf)
    assert block_order(Block(1, a, b)) == block_order(Block(1, cut(a), cut(b)))
    assert block_order(Block(1, a, b)) == -block_order(Block(1, b, a))


TEN = [*SIX_A, *SIX_A[:4]]


@pytest.mark.parametrize(
    ("a", "b", "verdict", "sign"),
    [
        (SIX_A, [0.0] * 6, Verdict.WORSE, -1),
        ([0.0] * 6, SIX_B, Verdict.BETTER, 1),
        (SIX_A, [*SIX_B[:5], 0.0], Verdict.UNDECIDED, 1),
        (TEN, [*SIX_A[3:], *SIX_A, 0.0], Verdict.UNDECIDED, -1),  # the nine others are inside their floor
        (TEN, [*(1.08 * each for each in TEN[:9]), 0.0], Verdict.UNDECIDED, 1),  # on average B is lower
        (TEN, [*(1.5 * each for each in TEN[:9]), 0.0], Verdict.BETTER, 1),
        (TEN, [*SIX_A[2:], *[0.0] * 6], Verdict.WORSE, -1),
        ([0.0] * 6, [0.0] * 6, Verdict.UNDECIDED, 0),
    ],
)
def test_a_run_at_0_is_ordered_and_changes_no_scale(
    tmp_path: Path, a: Sequence[float], b: Sequence[float], verdict: Verdict, sign: int
) -> None:
    found = one(tmp_path, SideOf({"throughput_after": a}), SideOf({"throughput_after": b}))
    throughput = row(found, "throughput_after")
    assert (throughput.kind, throughput.unit, throughput.difference) == (MetricKind.RANK, "", None)
    assert (throughput.verdict, throughput.sign) == (verdict, sign)
    zeros = f"at 0 in {list(a).count(0.0)} of {len(a)} runs of main and {list(b).count(0.0)} of {len(b)} of my-branch"
    assert throughput.note.startswith(zeros) and (not throughput.called or zeros in found.sentence)


def test_a_number_that_a_side_lacks_in_some_blocks_says_in_how_many_both_have_it(tmp_path: Path) -> None:
    """A policy that moved nothing has no time until its move has paid."""
    a, b = (SideOf({"payback_s": values, "throughput_after": SIX_A})
            for values in ([40.0] * 6, [20.0, None, 30.0, 20.0, None, 20.0]))  # fmt: skip
    found = one(tmp_path, a, b)
    assert row(found, "payback_s").note == "4 of 6 whole blocks: in the others a side moved nothing"
    assert row(found, "throughput_after").note == "" and len(row(found, "payback_s").blocks) == 4


@pytest.mark.parametrize("topology", [None, "j7"])
@pytest.mark.parametrize("has_levels", [True, False])
def test_of_many_topologies_the_question_is_the_clusters(
    tmp_path: Path, has_levels: bool, topology: str | None
) -> None:
    """Of all 40 a tenth of the throughput is lost, and utility won; one of them is tested where one asks for it."""
    jobs = [f"j{n}" for n in range(40)]
    numbers = {"throughput_after": (SIX_A, [0.9 * each for each in SIX_A]), "utility_after": (SIX_A, SIX_B)}
    root = write(tmp_path / "x" / "s", {"stela": (SideOf({}, blocks=6), SideOf({}, blocks=6))}, topology=topology)
    rows = [
        {"run_id": f"stela_{side}-r{block}", "topology": name, "metric": metric, "value": values[block - 1],
         "censored": False, "steady": True}
        for name in (*jobs, "all") for metric, both in numbers.items() if has_levels or metric != "utility_after"
        for side, values in zip("ab", both, strict=True) for block in range(1, 7)
    ]  # fmt: skip
    write_table(root, "measurements", rows)
    write_table(root, "topologies", [
        {"run_id": f"stela_{side}-r{block}", "topology": name, "position": place, "throughput": "sinks"}
        for place, name in enumerate(jobs, start=1) for side in "ab" for block in range(1, 7)
    ])  # fmt: skip
    found = compare(root)
    primary = {(row.metric, row.topology): row.verdict for row in found.rows if row.primary}
    tested = {row.topology for row in found.rows if row.p is not None}
    if topology:
        assert primary == {("throughput_after", "j7"): Verdict.WORSE} and tested == {"j7"}
    elif has_levels:
        assert primary == {("utility_after", "all"): Verdict.BETTER} and tested == {"all"}
    else:
        assert primary == {("throughput_after", "all"): Verdict.WORSE} and tested == {"all"}
    described = [row for row in found.rows if row.topology == "j3"]
    assert all(row.verdict is Verdict.NONE and row.difference is not None for row in described)
    assert bool(described) is (topology is None)


def test_a_side_that_fails_every_time_is_worse_and_needs_no_more_blocks(tmp_path: Path) -> None:
    broken = SideOf({"throughput_after": SIX_B}, [Failed(n) for n in range(1, 7)])
    found = one(tmp_path, SideOf({"throughput_after": SIX_A}), broken)
    assert found.sentence.startswith("my-branch is worse than main: my-branch failed in every run (main in none of 6)")
    assert found.certain and found.why == "a side failed in every run"
    both = one(tmp_path / "both", broken, broken)
    assert both.certain and both.sentence.startswith("my-branch cannot be compared with main: main failed in every run")


def test_a_side_that_never_ran_says_whose_failure_it_was(tmp_path: Path) -> None:
    dead = SideOf({"throughput_after": SIX_B}, [Failed(n, "infrastructure", "m3 died.") for n in range(1, 7)])
    found = one(tmp_path, SideOf({"throughput_after": SIX_A}), dead)
    assert found.sentence == (
        "my-branch cannot be compared with main: my-branch has no complete run, by failure of infrastructure: m3 died."
    )
    assert not found.certain and all(row.metric != RUNS_FAILED for row in found.rows)


def test_an_invalid_run_leaves_its_block_out_and_says_why(tmp_path: Path) -> None:
    invalid = Failed(3, None, None, "invalid")
    found = one(tmp_path, SideOf({"throughput_after": SIX_A}), SideOf({"throughput_after": SIX_B}, [invalid]))
    assert [block.number for block in row(found, "throughput_after").blocks] == [1, 2, 4, 5, 6]
    assert found.notes == (
        "stela, block 3 is left out: my-branch (stela_b-r3) was invalid: "
        "something else than the variant placed, or the load was not the plan's; see run.json.",
    )


def test_a_value_that_one_side_lacks_takes_the_others_out_of_that_metric_alone(tmp_path: Path) -> None:
    gap = (*SIX_A[:5], None)
    found = one(tmp_path, SideOf({"throughput_after": gap, LATENCY: FIFTY_MS}),
                SideOf({"throughput_after": SIX_B, LATENCY: FIFTY_MS}))  # fmt: skip
    assert len(row(found, "throughput_after").blocks) == 5 and len(row(found, LATENCY).blocks) == 6


def test_holm_is_over_all_pairs_and_primary_metrics_and_apart_for_the_others(tmp_path: Path) -> None:
    quiet = SideOf({"throughput_after": SIX_A, "memory_mb_after": SIX_A})
    shifted = [value * (1.05 + 0.04 * (-1) ** i) for i, value in enumerate(SIX_A)]
    pairs = {f"p{n}": (quiet, SideOf({"throughput_after": shifted, "memory_mb_after": shifted})) for n in range(8)}
    found = compare(write(tmp_path / "s", pairs))
    for primary in (True, False):
        family = [row for row in found.rows if row.primary is primary]
        assert len(family) == 8 and all(0.02 < (row.p or 0) < 0.06 for row in family)
        assert all(row.p_holm == pytest.approx(8 * (row.p or 0)) for row in family)
    assert found.sentence.startswith("6 blocks do not show whether my-branch differs from main. p0: undecided: ")


def one_of(tmp_path: Path, metric: str, a: Sequence[float], b: Sequence[float], **asked: object) -> MetricRow:
    return row(one(tmp_path, SideOf({metric: a}), SideOf({metric: b}), **asked), metric)


@pytest.mark.parametrize(("percent", "verdict"), [(4.9, "no difference"), (-4.7, "no difference"), (-4.9, "undecided")])
def test_the_goal_of_a_ratio_reaches_as_far_down_as_up(tmp_path: Path, percent: float, verdict: str) -> None:
    """4.9 % less is more than 4.9 % more: 5 % up is as far as 4.76 % down. The floor on record calls neither."""
    b = [value * (1 + percent / 100 + 1e-5 * (-1) ** i) for i, value in enumerate(SIX_A)]
    root = write(tmp_path / "x", {"stela": (SideOf({"throughput_after": SIX_A}), SideOf({"throughput_after": b}))})
    found = row(compare(root, {("throughput_after", "e1"): [0.2, -0.2] * 3}), "throughput_after")
    assert found.verdict.value == verdict and (found.goal, found.goal_low) == (5.0, pytest.approx(-4.76, abs=0.01))


@pytest.mark.parametrize("b", [(58.0, 62.0), (22.0, 26.0)])
def test_what_is_not_worth_naming_is_so_in_both_directions(tmp_path: Path, b: tuple[float, float]) -> None:
    """Convergence times of 40 s and 24 s differ by less than the 20 s that are worth naming, though 40 % are more than
    the inverse of 50 %.
    """
    sides = SideOf({"submit_to_loaded_s": [8.0] * 30}), SideOf({"submit_to_loaded_s": [4.0, 5.0] * 15})
    found = row(one(tmp_path / "loaded", *sides), "submit_to_loaded_s")
    assert found.goal_low == pytest.approx(-62.5) and found.verdict is Verdict.NO_DIFFERENCE and found.low is not None
    assert found.low < -100 * 62.5 / 162.5, "the inverse of 5 s of 8 s"
    time = one_of(tmp_path / "time", "convergence_sp_s", [40.0] * 40, [*b] * 20)
    assert (time.goal_low, time.goal) == (pytest.approx(-50.0), pytest.approx(50.0))
    assert time.verdict is (Verdict.NO_DIFFERENCE if b[0] < 40 else Verdict.UNDECIDED)


def test_a_difference_that_is_sure_and_small_is_called_with_both_words(tmp_path: Path) -> None:
    b = [value * (1.02 + 0.001 * (-1) ** i) for i, value in enumerate(SIX_A)]
    found = one(tmp_path, SideOf({"throughput_after": [100.0] * 6}),
                SideOf({"throughput_after": [value / SIX_A[i] * 100 for i, value in enumerate(b)]}))  # fmt: skip
    gain = row(found, "throughput_after")
    assert gain.verdict is Verdict.BETTER and gain.within_goal
    assert found.sentence.startswith(
        "my-branch is better than main by less than the goal: throughput after scale-out +2.0\u00a0% [1.9, 2.1], "
        "less than 5\u00a0% in 6 blocks"
    )
    (data,) = result_data(found)["rows"]
    assert (data["verdict"], data["within_goal"]) == ("better", True)
    assert data["note"] == "better, by less than the goal of 5\u00a0%"


@pytest.mark.parametrize(("blocks", "verdict"), [(3, Verdict.UNDECIDED), (4, Verdict.NO_DIFFERENCE)])
def test_equal_values_are_as_wide_as_their_step(tmp_path: Path, blocks: int, verdict: Verdict) -> None:
    """Three equal counts leave ±1.01 executors open, of which one is worth naming; four leave ±0.65."""
    found = one(tmp_path, SideOf({"executors_moved": [4.0] * blocks}), SideOf({"executors_moved": [4.0] * blocks}))
    assert row(found, "executors_moved").verdict is verdict


def test_certain_once_there_are_blocks_enough_or_a_difference_is_beyond_doubt(tmp_path: Path) -> None:
    narrow = one(tmp_path / "n", SideOf({"throughput_after": SIX_A}), SideOf({"throughput_after": SIX_A[::-1]}))
    assert narrow.certain and row(narrow, "throughput_after").verdict is Verdict.NO_DIFFERENCE
    assert narrow.why.startswith("enough blocks to find a difference of 5 % in every primary metric or to rule it out")
    b = [value * (1 + 0.035 * (-1) ** i) for i, value in enumerate(SIX_A)]
    few = one(tmp_path / "f", SideOf({"throughput_after": SIX_A}), SideOf({"throughput_after": b}))
    throughput = row(few, "throughput_after")
    assert throughput.half_width is not None and throughput.half_width < 5.0 and throughput.needed_blocks == 9
    assert not few.certain, "narrower than the goal, and too few to rule it out"
    double = [value * (2 + 0.1 * (-1) ** i) for i, value in enumerate(SIX_A)]
    doubled = one(tmp_path / "d", SideOf({"throughput_after": SIX_A}), SideOf({"throughput_after": double}))
    throughput = row(doubled, "throughput_after")
    assert doubled.certain and throughput.half_width is not None and throughput.half_width > 5.0
    wide = one(tmp_path / "w", SideOf({"throughput_after": SIX_A}), SideOf({"throughput_after": NOISY}))
    assert not wide.certain


def test_a_difference_beyond_the_goal_must_be_so_in_every_look_that_there_may_be(tmp_path: Path) -> None:
    """What one interval of 95 % says after any of 18 looks would be chance too often."""
    double = [value * (2 + 0.6 * (-1) ** i) for i, value in enumerate(SIX_A)]
    sides = SideOf({"throughput_after": SIX_A}), SideOf({"throughput_after": double})
    looking_once = one(tmp_path / "once", *sides, budget={"blocks": 3})
    often = one(tmp_path / "often", *sides, budget={"blocks": 1000})
    throughput = row(often, "throughput_after")
    assert throughput.low is not None and throughput.low > 5.0 and throughput.half_width is not None
    assert throughput.half_width > 5.0 and looking_once.certain and not often.certain


def test_a_comparison_of_a_code_with_itself_says_so(tmp_path: Path) -> None:
    found = one(tmp_path, SideOf({"throughput_after": SIX_A}), SideOf({"throughput_after": SIX_A[::-1]}),
                sides=same_code())  # fmt: skip
    assert found.question.same_code and "an A/A comparison" in found.notes[0]
    assert found.sentence.startswith("No difference between main (B) and main (A): ")


def test_before_anything_was_measured_there_is_an_answer_all_the_same(tmp_path: Path) -> None:
    found = one(tmp_path, SideOf({}), SideOf({}))
    assert found.sentence == "my-branch cannot be compared with main." and not found.certain and found.rows == ()
    json.dumps(result_data(found), allow_nan=False)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"v": 2}, "v is 2"), ({"level": 5}, "level is 5"), ({"goal_percent": 0}, "goal_percent is 0"),
     ({"pairs": None}, "pairs is "),
     ({"sides": {"a": {"label": "x", "commit": "c"}}}, "sides.b")],
)  # fmt: skip
def test_a_question_that_is_none_names_its_file(tmp_path: Path, change: dict[str, object], words: str) -> None:
    root = write(tmp_path / "s", {"stela": (SideOf({}), SideOf({}))})
    (root / "comparison.json").write_text(json.dumps(question(["stela"]) | change))
    with pytest.raises(RecordError) as raised:
        compare(root)
    assert words in str(raised.value) and str(root / "comparison.json") in str(raised.value)


def test_no_difference_is_said_of_a_whole_interval_and_not_of_its_middle(tmp_path: Path) -> None:
    """−2.5 % [−5.9, +1.0] with a goal of 5 %: narrow, holds 0, and is no evidence for anything."""
    b = [value * (0.975 + 0.03 * (-1) ** i) for i, value in enumerate(SIX_A)]
    narrow = one_of(tmp_path / "narrow", "throughput_after", SIX_A, b)
    assert narrow.low is not None and narrow.high is not None and narrow.half_width is not None
    assert narrow.low < -5 and narrow.high > 0 and narrow.half_width < 5 and narrow.verdict is Verdict.UNDECIDED
    b = [value * (1 + 0.03 * (-1) ** i) for i, value in enumerate(SIX_A)]
    assert one_of(tmp_path / "none", "throughput_after", SIX_A, b).verdict is Verdict.NO_DIFFERENCE
