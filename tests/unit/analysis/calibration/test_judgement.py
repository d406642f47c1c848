"""Simulated beside real: errors, what is missing, bounds, and the ranking of variants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.calibration.judgement import (
    ModelError,
    SeriesErrors,
    SideNumber,
    cells_of,
    common_spans,
    complete,
    counterparts,
    kendall_tau,
    latencies,
    machine_cells,
    machine_means,
    over_runs,
    rankings,
    summaries,
    values_of,
)
from analysis.record.files import SeriesPaths
from scheduler_plugins.service.latency_buckets import bucket_of
from tests.support.series_by_hand import write_table


def cell(
    metric: str, real: SideNumber, simulated: SideNumber, variant: str = "stela", repetition: int = 1
) -> ModelError:
    return ModelError("stela/star", "star", variant, f"{variant}-r{repetition}", "e1", metric, real, simulated)


def test_a_ratio_is_off_in_percent_and_a_difference_in_its_own_unit() -> None:
    assert cell("throughput_after", SideNumber(200.0, 1), SideNumber(210.0, 1)).error == pytest.approx(5.0)
    assert cell("downtime_s", SideNumber(0.0, 1), SideNumber(3.0, 1)).error == pytest.approx(3.0)
    assert cell("latency_mean_ms_after", SideNumber(50.0, 1), SideNumber(25.0, 1)).error == pytest.approx(-50.0)


@pytest.mark.parametrize(
    ("real", "simulated"),
    [
        (SideNumber(None, 0), SideNumber(1.0, 1)),
        (SideNumber(1.0, 1), SideNumber(None, 0)),
        (SideNumber(170.0, 1, censored=True), SideNumber(60.0, 1)),
        (SideNumber(60.0, 1), SideNumber(170.0, 1, censored=True)),
        (SideNumber(0.0, 1), SideNumber(60.0, 1)),
    ],
)
def test_what_one_side_does_not_have_and_what_is_a_bound_has_no_error(real: SideNumber, simulated: SideNumber) -> None:
    assert cell("convergence_sp_s", real, simulated).error is None


def rows(*values: tuple[float, bool]) -> list[dict[str, object]]:
    return [{"value": value, "censored": censored} for value, censored in values]


def test_a_time_over_runs_is_the_median_in_which_who_never_got_there_is_last() -> None:
    assert over_runs("convergence_sp_s", rows((40, False), (170, True), (60, False))) == SideNumber(
        60, 3, False, 40, None
    )
    assert over_runs("convergence_sp_s", rows((40, False), (170, True))) == SideNumber(170, 2, True, 40, None)
    assert over_runs("throughput_after", rows((40, False), (60, False))) == SideNumber(50, 2, False, 40, 60)


@pytest.mark.parametrize("metric", ["downtime_s", "request_to_running_s"])
def test_a_time_that_the_end_of_a_run_cut_off_is_no_value(metric: str) -> None:
    """Down to the end of the run, or executors that never ran: longer than that."""
    assert over_runs(metric, rows((5, False), (90, True), (7, False))) == SideNumber(7, 3, False, 5, None)
    cut = over_runs(metric, rows((5, False), (90, True), (90, True)))
    assert cut == SideNumber(90, 3, True, 5, None)
    whole = over_runs(metric, rows((5, False), (7, False), (9, False)))
    assert cell(metric, whole, cut).error is None and cell(metric, cut, whole).error is None
    assert cell(metric, whole, over_runs(metric, rows((8, False)))).error == pytest.approx(1.0)


def test_a_real_value_lies_inside_or_outside_of_what_chance_gives_the_simulated_runs() -> None:
    simulated = SideNumber(50, 5, False, 40, 60)
    assert cell("convergence_sp_s", SideNumber(60, 1), simulated).is_inside is True
    assert cell("convergence_sp_s", SideNumber(70, 1), simulated).is_inside is False
    assert cell("convergence_sp_s", SideNumber(170, 1, censored=True), simulated).is_inside is False
    assert cell("convergence_sp_s", SideNumber(170, 1, censored=True), replace(simulated, high=None)).is_inside is True
    assert cell("convergence_sp_s", SideNumber(60, 1), replace(simulated, runs=2)).is_inside is None
    never = SideNumber(170, 5, True, None, None)
    assert cell("convergence_sp_s", SideNumber(60, 1), never).is_inside is False, "the model never gets there"
    assert cell("convergence_sp_s", SideNumber(170, 1, censored=True), never).is_inside is True


def test_what_could_not_be_simulated_was_not_judged() -> None:
    cells = (
        cell("throughput_after", SideNumber(1.0, 1), SideNumber(2.0, 1)),
        cell("throughput_after", SideNumber(1.0, 1), SideNumber(None, 0), "code"),
    )
    judgement = SeriesErrors("stela/star", "s", cells, (), (), 3, {"code-r1": "it has code"})
    assert judgement.judged_runs == 2


def described(*runs: tuple[str, int], status: str = "complete") -> list[dict[str, object]]:
    return [
        {"run_id": f"{variant}-r{number}", "variant": variant, "repetition": number, "status": status}
        for variant, number in runs
    ]


def test_simulated_runs_stand_for_the_run_whose_seeds_they_are() -> None:
    """Three seeds: of stela-r2 they are 4 to 6. One of them failed; a run without a real one stands for nothing."""
    real = described(("stela", 1), ("stela", 2))
    simulated = [
        *described(("stela", 1), ("stela", 3), ("stela", 4), ("stela", 6), ("even", 1)),
        *described(("stela", 5), status="failed"),
    ]
    assert counterparts(complete(real), simulated, 3) == {
        "stela-r1": "stela-r1", "stela-r3": "stela-r1", "stela-r4": "stela-r2", "stela-r6": "stela-r2",
    }  # fmt: skip


def test_errors_of_two_runs_do_not_cancel_each_other() -> None:
    """Real runs of 80 and 120, simulated ones of 99 to 101: 25 % too high and 17 % too low, and neither is inside."""
    of = {"topology": "star", "event_id": "e1", "metric": "throughput_after", "censored": False, "steady": True}
    real = [{**of, "run_id": f"stela-r{n}", "value": value} for n, value in ((1, 80.0), (2, 120.0))]
    model = [{**of, "run_id": f"stela-r{n}", "value": 99.0 + n % 3} for n in range(1, 7)]
    own = {"stela-r1": "stela-r1", "stela-r2": "stela-r2"}
    stands_for = {f"stela-r{n}": f"stela-r{1 + (n > 3)}" for n in range(1, 7)}
    found = cells_of("stela/star", dict.fromkeys(own, "stela"), values_of(real, own), values_of(model, stands_for))
    assert [each.error for each in found] == [pytest.approx(25.0), pytest.approx(-100 / 6)]
    (summary,) = summaries([SeriesErrors("stela/star", "s", found, (), (), 2, {})])
    assert summary.worst == pytest.approx(25.0)
    assert (summary.inside, summary.ranges, summary.expected) == (0, 2, 1.0), "(3 - 1) / (3 + 1) of each"


def test_a_cell_is_there_for_what_either_side_has() -> None:
    key = ("star", "stela-r1", "e1", "throughput_after")
    other = ("star", "even_rebalance-r1", "e1", "throughput_after")
    variants = {"stela-r1": "stela", "even_rebalance-r1": "even_rebalance"}
    found = cells_of("stela/star", variants, {key: SideNumber(1.0, 1)}, {other: SideNumber(2.0, 1)})
    assert [(each.variant, each.real.value, each.simulated.value) for each in found] == [
        ("even_rebalance", None, 2.0),
        ("stela", 1.0, None),
    ]


def test_latencies_are_of_the_seconds_that_count_on_both_sides() -> None:
    """They grow by a second each second, in reality and in the model; the real run counts from 10 s on, one simulated
    run from 0 s, the other until 50 s."""
    of = {"topology": "star", "event_id": "e1"}
    stands_for = {"stela-r1": "stela-r1", "stela-r2": "stela-r1"}
    windows = [
        {**of, "run_id": run, "window_s": start, "n": 10, "mean_ms": 1000.0 * start}
        for run in stands_for for start in range(0, 60, 10)
    ]  # fmt: skip

    def intervals(*spans: tuple[str, float, float]) -> list[dict[str, object]]:
        return [
            {**of, "run_id": run, "phase": "after", "start_s": a, "end_s": b, "steady": b > 55.0} for run, a, b in spans
        ]

    real = intervals(("stela-r1", 10.0, 60.0))
    simulated = intervals(("stela-r1", 0.0, 60.0), ("stela-r2", 0.0, 50.0))
    spans = common_spans([(real, {"stela-r1": "stela-r1"}), (simulated, stands_for)])
    assert spans == {("stela-r1", "star", "e1", "after"): (10.0, 50.0)}
    found = latencies(windows, simulated, spans, stands_for)
    assert [(row["run_id"], row["metric"], row["value"], row["steady"]) for row in found] == [
        ("stela-r1", "latency_mean_ms_after", 25_000.0, True), ("stela-r2", "latency_mean_ms_after", 25_000.0, False),
    ]  # fmt: skip
    short = intervals(("stela-r1", 35.0, 60.0))
    assert common_spans([(short, stands_for)]) == {}, "less than half a minute"


def test_the_95_percent_are_of_all_tuples_of_these_seconds() -> None:
    of = {"run_id": "stela-r1", "topology": "star", "event_id": "e1"}
    windows = [
        {**of, "window_s": start, "n": 100, "mean_ms": 1.0, "buckets": [bucket_of(int(1000 * ms))], "counts": [100.0]}
        for start, ms in ((0, 1e6), (10, 10.0), (20, 50.0), (30, 90.0))
    ]
    spans = {("stela-r1", "star", "e1", "before"): (10.0, 40.0)}
    found = {row["metric"]: row["value"] for row in latencies(windows, [], spans, {"stela-r1": "stela-r1"})}
    assert found["latency_all_p95_ms_before"] == pytest.approx(90.0, rel=0.05)


@pytest.mark.parametrize("topologies", [["star"], ["linear", "star"]])
def test_machines_that_only_one_side_has_or_that_are_not_in_the_cluster_are_no_pair(
    tmp_path: Path, topologies: list[str]
) -> None:
    """Of several topologies each has its rows of events, and those of machines are of all."""
    of = {"run_id": "stela-r1", "event_id": "e1", "topology": "all" if len(topologies) > 1 else "star"}
    machines = (("master", None, 0.9), ("m1", False, 0.5), ("m5", True, 0.07))
    events = [of["topology"], *(topologies if len(topologies) > 1 else ())]
    described = [{"run_id": "stela-r1", "topology": name, "position": n} for n, name in enumerate(topologies, start=1)]
    for side in ("real", "simulated"):
        write_table(tmp_path / side, "topologies", described)
    write_table(tmp_path / "real", "cpu", [
        {**of, "phase": phase, "machine": name, "joins_at_scale": joins, "utilisation_mean": used}
        for phase in ("before", "after") for name, joins, used in machines
    ])  # fmt: skip
    write_table(tmp_path / "real", "machines", [
        {"run_id": "stela-r1", "machine": name, "joins_at_scale": joins} for name, joins, _ in machines
    ])  # fmt: skip
    write_table(tmp_path / "real", "scale_events", [
        {**of, "topology": name, "zero_s": 100.0, "joined": ["m5"], "released": []} for name in events
    ])  # fmt: skip
    write_table(tmp_path / "simulated", "cpu", [
        {**of, "run_id": run, "phase": "after", "machine": "m2", "joins_at_scale": False, "utilisation_mean": used}
        for run, used in (("stela-r1", 0.25), ("stela-r2", 0.75))
    ])  # fmt: skip
    real = machine_means(SeriesPaths(tmp_path / "real"), {"stela-r1": "stela-r1"})
    simulated = machine_means(SeriesPaths(tmp_path / "simulated"), {"stela-r1": "stela-r1", "stela-r2": "stela-r1"})
    found = machine_cells("stela/star", real, simulated)
    assert [(each.phase, each.machine, each.real, each.simulated) for each in found] == [
        ("before", "m1", 50.0, None), ("after", "m1", 50.0, None), ("after", "m2", None, 50.0),
        ("after", "m5", pytest.approx(7.0), None),
    ]  # fmt: skip


def test_a_ranking_of_one_or_of_equals_has_no_tau_and_a_model_without_an_order_has_none_of_it() -> None:
    assert kendall_tau([1.0], [2.0]) is None and kendall_tau([1.0, 1.0], [1.0, 2.0]) is None
    assert kendall_tau([1.0, 2.0], [3.0, 3.0]) == 0.0
    assert kendall_tau([1.0, 2.0], [3.0, 4.0]) == 1.0 and kendall_tau([1.0, 2.0], [4.0, 3.0]) == -1.0


def test_pairs_that_hardly_differ_in_reality_are_not_counted_as_clear() -> None:
    levels = {"even": (100.0, 104.0), "link": (102.0, 101.0), "stela": (150.0, 140.0)}
    cells = [
        cell("throughput_after", SideNumber(real, 1), SideNumber(sim, 1), name) for name, (real, sim) in levels.items()
    ]
    lone = cell("throughput_after", SideNumber(9.0, 1), SideNumber(None, 0), "greedy")
    (found,) = rankings([*cells, lone])
    assert found.real == ("stela", "link", "even", "greedy") and found.simulated == ("stela", "even", "link")
    assert found.tau == pytest.approx(1 / 3) and (found.clear_pairs, found.same_pairs) == (2, 2)


def test_pairs_that_hardly_differ_in_the_model_are_in_no_order() -> None:
    levels = {"even": (100.0, 399.99), "stela": (150.0, 400.0)}
    cells = [
        cell("throughput_after", SideNumber(real, 1), SideNumber(sim, 1), name) for name, (real, sim) in levels.items()
    ]
    (found,) = rankings(cells)
    assert (found.clear_pairs, found.same_pairs) == (1, 0)


def test_variants_are_ranked_by_the_mean_of_their_runs_that_both_sides_have() -> None:
    """The second run of stela could not be simulated, and none of greedy's."""
    cells = [
        cell("throughput_after", SideNumber(100.0, 1), SideNumber(100.0, 5)),
        cell("throughput_after", SideNumber(900.0, 1), SideNumber(None, 0), repetition=2),
        cell("throughput_after", SideNumber(110.0, 1), SideNumber(120.0, 5), "even"),
        cell("throughput_after", SideNumber(130.0, 1), SideNumber(130.0, 5), "even", 2),
        cell("throughput_after", SideNumber(50.0, 1), SideNumber(None, 0), "greedy"),
    ]
    (found,) = rankings(cells)
    assert found.real == ("even", "stela", "greedy") and found.simulated == ("even", "stela") and found.tau == 1.0


def test_errors_are_summed_up_without_those_that_are_missing() -> None:
    cells = (
        cell("throughput_after", SideNumber(100.0, 1), SideNumber(110.0, 1)),
        cell("throughput_after", SideNumber(100.0, 1), SideNumber(96.0, 1), "even"),
        cell("throughput_after", SideNumber(100.0, 1), SideNumber(None, 0), "link"),
        cell("downtime_s", SideNumber(None, 0), SideNumber(1.0, 1)),
        cell("downtime_s", SideNumber(90.0, 1, censored=True), SideNumber(1.0, 1), "even"),
    )
    (levels, downtime) = summaries([SeriesErrors("stela/star", "s", cells, (), (), 3, {})])
    assert (levels.cells, levels.missing, levels.unit) == (2, 1, "%")
    assert (levels.median, levels.worst, levels.bias) == pytest.approx((7.0, 10.0, 3.0))
    assert (downtime.cells, downtime.median, downtime.missing, downtime.bounds) == (0, None, 2, 1)
