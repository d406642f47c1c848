"""Simulated beside real: errors, what is missing, bounds, and the ranking of variants."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from scipy.stats import kendalltau

from analysis.calibration.judgement import (
    Cell,
    Judgement,
    Value,
    cells_of,
    kendall_tau,
    machine_cells,
    machine_means,
    mean_latencies,
    over_runs,
    rankings,
    summaries,
    values_of,
    with_counterpart,
)


def cell(metric: str, real: Value, simulated: Value, variant: str = "stela") -> Cell:
    return Cell("stela/star", "star", variant, "e1", metric, real, simulated)


def test_a_ratio_is_off_in_percent_and_a_difference_in_its_own_unit() -> None:
    assert cell("throughput_after", Value(200.0, 1), Value(210.0, 1)).error == pytest.approx(5.0)
    assert cell("downtime_s", Value(0.0, 1), Value(3.0, 1)).error == pytest.approx(3.0)
    assert cell("latency_mean_ms_after", Value(50.0, 1), Value(25.0, 1)).error == pytest.approx(-50.0)


@pytest.mark.parametrize(
    ("real", "simulated"),
    [
        (Value(None, 0), Value(1.0, 1)),
        (Value(1.0, 1), Value(None, 0)),
        (Value(170.0, 1, censored=True), Value(60.0, 1)),
        (Value(60.0, 1), Value(170.0, 1, censored=True)),
        (Value(0.0, 1), Value(60.0, 1)),
    ],
)
def test_what_one_side_does_not_have_and_what_is_a_bound_has_no_error(real: Value, simulated: Value) -> None:
    assert cell("convergence_sp_s", real, simulated).error is None


def rows(*values: tuple[float, bool]) -> list[dict[str, object]]:
    return [{"value": value, "censored": censored} for value, censored in values]


def test_a_time_over_runs_is_the_median_in_which_who_never_got_there_is_last() -> None:
    assert over_runs("convergence_sp_s", rows((40, False), (170, True), (60, False))) == Value(60, 3, False, 40, None)
    assert over_runs("convergence_sp_s", rows((40, False), (170, True))) == Value(170, 2, True, 40, None)
    assert over_runs("throughput_after", rows((40, False), (60, False))) == Value(50, 2, False, 40, 60)


@pytest.mark.parametrize("metric", ["downtime_s", "request_to_running_s"])
def test_a_time_that_the_end_of_a_run_cut_off_is_no_value(metric: str) -> None:
    """Down to the end of the run, or executors that never ran: longer than that."""
    assert over_runs(metric, rows((5, False), (90, True), (7, False))) == Value(7, 3, False, 5, None)
    cut = over_runs(metric, rows((5, False), (90, True), (90, True)))
    assert cut == Value(90, 3, True, 5, None)
    whole = over_runs(metric, rows((5, False), (7, False), (9, False)))
    assert cell(metric, whole, cut).error is None and cell(metric, cut, whole).error is None
    assert cell(metric, whole, over_runs(metric, rows((8, False)))).error == pytest.approx(1.0)


def test_a_real_value_lies_inside_or_outside_of_what_chance_gives_the_simulated_runs() -> None:
    simulated = Value(50, 5, False, 40, 60)
    assert cell("convergence_sp_s", Value(60, 1), simulated).is_inside is True
    assert cell("convergence_sp_s", Value(70, 1), simulated).is_inside is False
    assert cell("convergence_sp_s", Value(170, 1, censored=True), simulated).is_inside is False
    assert cell("convergence_sp_s", Value(170, 1, censored=True), replace(simulated, high=None)).is_inside is True
    assert cell("convergence_sp_s", Value(60, 1), replace(simulated, runs=2)).is_inside is None
    never = Value(170, 5, True, None, None)
    assert cell("convergence_sp_s", Value(60, 1), never).is_inside is False, "the model never gets there"
    assert cell("convergence_sp_s", Value(170, 1, censored=True), never).is_inside is True


def test_what_could_not_be_simulated_was_not_judged() -> None:
    cells = (
        cell("throughput_after", Value(1.0, 1), Value(2.0, 1)),
        cell("throughput_after", Value(1.0, 1), Value(None, 0), "code"),
    )
    judgement = Judgement("stela/star", "s", cells, (), (), 3, {"code-r1": "it has code"})
    assert (judgement.judged_runs, judgement.judged_variants) == (2, {"stela"})


def test_a_real_run_counts_only_where_it_was_simulated_or_nothing_of_its_variant_was() -> None:
    runs = {"stela-r1": 100.0, "stela-r2": 130.0, "code-r1": 90.0}
    of = {"topology": "star", "event_id": "e1", "metric": "throughput_after", "censored": False}
    tables = {"measurements": [{**of, "run_id": run, "value": value} for run, value in runs.items()]}
    counted = with_counterpart(
        {run: run.split("-")[0] for run in runs}, {"stela-r2": "it hung", "code-r1": "it has code"}
    )
    real = values_of(lambda name: tables.get(name, []), counted)
    simulated = {("star", "stela", "e1", "throughput_after"): Value(100.0, 5)}
    found = {each.variant: each for each in cells_of("stela/star", real, simulated)}
    assert (found["stela"].real.runs, found["stela"].error) == (1, 0.0)
    assert (found["code"].real.value, found["code"].error) == (90.0, None)


def test_a_cell_is_there_for_what_either_side_has() -> None:
    key = ("star", "stela", "e1", "throughput_after")
    other = ("star", "even_rebalance", "e1", "throughput_after")
    found = cells_of("stela/star", {key: Value(1.0, 1)}, {other: Value(2.0, 1)})
    assert [(each.variant, each.real.value, each.simulated.value) for each in found] == [
        ("even_rebalance", None, 2.0),
        ("stela", 1.0, None),
    ]


def test_a_mean_latency_is_of_all_tuples_of_the_part_that_counts() -> None:
    of = {"run_id": "stela-r1", "topology": "star", "event_id": "e1"}
    windows = [
        {**of, "window_s": start, "n": n, "mean_ms": ms}
        for start, n, ms in ((0, 1, 1e6), (10, 30, 10.0), (20, 10, 50.0))
    ]
    spans = [{**of, "phase": "after", "start_s": 10.0, "end_s": 30.0}]
    assert [(row["metric"], row["value"]) for row in mean_latencies(windows, spans)] == [
        ("latency_mean_ms_after", 20.0)
    ]


def test_machines_that_only_one_side_has_are_missing_on_the_other() -> None:
    of = {"run_id": "stela-r1", "event_id": "e1", "phase": "after"}
    real = [
        {**of, "machine": "master", "joins_at_scale": None, "utilisation_mean": 0.9},
        {**of, "machine": "m1", "joins_at_scale": False, "utilisation_mean": 0.5},
    ]
    simulated = [
        {**of, "machine": "m2", "joins_at_scale": False, "utilisation_mean": 0.25},
        {**of, "run_id": "stela-r2", "machine": "m2", "joins_at_scale": False, "utilisation_mean": 0.75},
    ]
    variants = {"stela-r1": "stela", "stela-r2": "stela"}
    found = machine_cells("stela/star", machine_means(real, variants), machine_means(simulated, variants))
    assert [(each.machine, each.real, each.simulated) for each in found] == [("m1", 50.0, None), ("m2", None, 50.0)]


@pytest.mark.parametrize("seed", range(20))
def test_kendall_s_tau_is_that_of_scipy_ties_included(seed: int) -> None:
    rng = random.Random(seed)
    a, b = ([float(rng.randint(0, 6)) for _ in range(8)] for _ in range(2))
    assert kendall_tau(a, b) == pytest.approx(kendalltau(a, b).statistic)


def test_a_ranking_of_one_or_of_equals_has_no_tau() -> None:
    assert kendall_tau([1.0], [2.0]) is None and kendall_tau([1.0, 1.0], [1.0, 2.0]) is None
    assert kendall_tau([1.0, 2.0], [3.0, 4.0]) == 1.0 and kendall_tau([1.0, 2.0], [4.0, 3.0]) == -1.0


def test_pairs_that_hardly_differ_in_reality_are_not_counted_as_clear() -> None:
    levels = {"even": (100.0, 104.0), "link": (102.0, 101.0), "stela": (150.0, 140.0)}
    cells = [cell("throughput_after", Value(real, 1), Value(sim, 1), name) for name, (real, sim) in levels.items()]
    lone = cell("throughput_after", Value(9.0, 1), Value(None, 0), "greedy")
    (found,) = rankings([*cells, lone])
    assert found.real == ("stela", "link", "even", "greedy") and found.simulated == ("stela", "even", "link")
    assert found.tau == pytest.approx(1 / 3) and (found.clear_pairs, found.same_pairs) == (2, 2)


def test_errors_are_summed_up_without_those_that_are_missing() -> None:
    cells = (
        cell("throughput_after", Value(100.0, 1), Value(110.0, 1)),
        cell("throughput_after", Value(100.0, 1), Value(96.0, 1), "even"),
        cell("throughput_after", Value(100.0, 1), Value(None, 0), "link"),
        cell("downtime_s", Value(None, 0), Value(1.0, 1)),
    )
    (levels, downtime) = summaries([Judgement("stela/star", "s", cells, (), (), 3, {})])
    assert (levels.cells, levels.missing, levels.unit) == (2, 1, "%")
    assert (levels.median, levels.worst, levels.bias) == pytest.approx((7.0, 10.0, 3.0))
    assert (downtime.cells, downtime.median, downtime.missing) == (0, None, 1)
