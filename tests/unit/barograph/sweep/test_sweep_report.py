"""The report of a sweep, from runs that were simulated, through Spark, to the page."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analysis.record.files import SeriesPaths
from analysis.report import sweep_page
from analysis.report.figures import sweep_curves
from analysis.report.figures.chart import Dot, LineMark, Mark, Whisker
from analysis.report.figures.sweep_curves import SweepAxis, SweepData, SweepRun
from analysis.report.page import Section, Sentence, Warnings
from barograph.cli import main
from barograph.settings import results_root

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_sweep_ends_in_a_page_with_its_curves(
    spark: SparkSession, sweep_file: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Far below what the star's centre can do, what is due comes out, once what waited in the rebalance is done."""
    swept = {"topology.parameters.rate_per_s": [20.0, 40.0], "seed": [1, 2, 3]}
    noisy = {"testbed": {"name": "simulated", "machine_type": "type_1", "scale": 0.3,
                         "options": {"simulated": {"costs": {"noise": 0.1}}}},
             "durations": {"warm_up_floor_s": 45, "warm_up_ceiling_s": 50, "after_floor_s": 90, "horizon_s": 90},
             }  # fmt: skip
    assert main(["sweep", str(sweep_file(swept, **noisy))]) == 0
    said = capsys.readouterr().out
    (folder,) = (results_root() / "small" / "swept").glob("sweep-*")
    assert "analysing 12 runs in one Spark session" in said and f"report: {folder / 'report.html'}" in said
    data = sweep_curves.collect(SeriesPaths(folder))
    by_rate: dict[int, list[float]] = {}
    for run in data.runs:
        if run.metric == "throughput_after":
            by_rate.setdefault(run.steps[0], []).append(run.value)
    # Two spout components, and each of two sinks gets every tuple.
    assert by_rate == {0: [pytest.approx(80, rel=0.03)] * 6, 1: [pytest.approx(160, rel=0.03)] * 6}

    page = (folder / "report.html").read_text()
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=\"(?!data:)", page), "self-contained"
    for what in ("Throughput after", "Gain in throughput", "Convergence time (SP)", "Bytes between machines after",
                 "Spread of CPU after"):  # fmt: skip
        assert f"{what}.</b>" in page
    assert "Simulated, not measured: no machine and no Storm ran." in page
    assert "<summary>What Storm is taken to cost, and settings</summary>What Storm is taken to cost: " in page
    assert "What failed" not in page and "data:text/csv;base64," in page
    rows = list(csv.DictReader(io.StringIO((folder / "figures" / "runs.csv").read_text())))
    assert len(rows) == 12 and {row["seed"] for row in rows} == {"1", "2", "3"}
    assert all(float(row["network_mb_per_s_after"]) > 0 for row in rows)
    points = json.loads(re.findall(r'class="points">(.*?)</script>', page)[0])
    failure = {"point": 2, "values": {"seed": 2}, "run_id": "stela-r1", "blame": "system_under_test", "message": "<b>x"}
    document = json.loads((folder / "sweep.json").read_text())
    code = {"code": "b2", "runs_of_other_code": {"a1": 4}}
    (folder / "sweep.json").write_text(json.dumps({**document, **code, "failures": [failure]}))
    rewritten = sweep_page.write(SeriesPaths(folder)).read_text()
    assert '<td class="wide">&lt;b&gt;x</td>' in rewritten and "of other code" not in page
    assert "<li>4 of 12 runs are of other code (4 of a1) than the latest execution&#39;s (b2), so a curve " in rewritten
    names = {(trace["n"], trace["m"]) for trace in points["traces"]}
    assert {("Stela", "middle of the runs"), ("even + rebalance", "run")} <= names


def made(
    axes: dict[str, list[object]], variants: tuple[str, ...] = ("even", "stela"), metric: str = "throughput_after"
) -> SweepData:
    """One run a point and variant, whose value is the sum of its steps."""
    swept = tuple(SweepAxis((path,), tuple((value,) for value in values)) for path, values in axes.items())
    steps = list(product(*(range(len(axis.steps)) for axis in swept)))
    runs = tuple(
        SweepRun(number, each, "x-r1", variant, "e1", metric, float(sum(each)), False, True)
        for number, each in enumerate(steps, start=1) for variant in variants
    )  # fmt: skip
    return SweepData("a/b", "Title", "sweep-1", swept, len(steps), variants, {"e1": "scale out"}, runs, ())


def middles(data: SweepData, metric: str = "throughput_after") -> list[dict[str, Any]]:
    chart = sweep_curves.chart(data, "e1", metric)
    assert chart is not None
    return [row for row in chart.rows() if row["mark"] == "middle of the runs"]


def test_of_several_fields_one_is_x_and_the_others_are_panels_or_lines() -> None:
    axes: dict[str, list[object]] = {"topology.name": ["star", "linear"], "machines.before": [4, 8, 16], "seed": [1, 2]}
    several = made(axes)
    assert sweep_curves.layout(several) == sweep_curves.CurveLayout(x=1, lines=None, panels=(0,))
    assert sweep_curves.layout(made(axes, ("stela",))) == sweep_curves.CurveLayout(x=1, lines=0, panels=())
    assert sweep_curves.layout(made({"seed": [1, 2]})) == sweep_curves.CurveLayout(x=0, lines=None, panels=())
    rows = middles(several)
    assert [(row["panel"], row["variant"]) for row in rows[::3]] == [
        (f"topology.name = {name}", variant) for name in ("star", "linear") for variant in ("even", "Stela")
    ]
    assert [(row["x"], row["value"]) for row in rows[:3]] == [(4, 0.5), (8, 1.5), (16, 2.5)], "over both seeds"
    assert sweep_curves.chart(several, "e1", "gain_percent") is None
    words = middles(made({"topology.name": ["star", "linear"]}, ("stela",)))
    assert [row["x"] for row in words] == ["star", "linear"]


def test_of_a_search_its_result_comes_first_and_its_field_is_x_with_its_metric() -> None:
    axes: dict[str, list[object]] = {"topology.parameters.rate_per_s": [1, 2, 3], "machines.before": [4, 8]}
    data = made(axes, ("stela",), "attempts")
    search = {"key": "machines.before", "metric": "attempts", "until": "attempts <= 2",
              "results": [{"sentence": "stela: 8 is the smallest"}]}  # fmt: skip
    assert sweep_curves.layout(data).x == 0 and not data.metrics("e1")
    searched = replace(data, search=search)
    assert sweep_curves.layout(searched).x == 1 and searched.metrics("e1") == ("attempts",)
    content = sweep_page.content(searched, "", "at the sinks")
    assert content.title == "a/b, search" and "6 points: a search until attempts <= 2" in content.meta
    assert content.blocks[0] == Section("In short", [Sentence("stela: 8 is the smallest"), Warnings([])])
    assert "simulated" not in content.meta and next(sweep_page.run_rows(searched))["attempts"] == 0.0


def test_runs_of_a_model_have_a_range_and_no_interval() -> None:
    data = made({"machines.before": [4, 8], "seed": [1, 2, 3]}, ("stela",))
    assert [(row["value"], row["low"], row["high"]) for row in middles(data)] == [(1.0, 0.0, 2.0), (2.0, 1.0, 3.0)]
    assert [cells[-1] for cells in sweep_page.table(data, "e1").rows] == ["1 (0 to 2)", "2 (1 to 3)"]


SP = "convergence_sp_s"


def times(*by_step: tuple[float, ...]) -> SweepData:
    """Of a step of machines its times, a run each; what is negative was not reached by then."""
    axis = SweepAxis(("machines.before",), tuple((4 * step,) for step in range(1, len(by_step) + 1)))
    runs = tuple(
        SweepRun(step + 1, (step,), f"stela-r{number}", "stela", "e1", SP, abs(value), value < 0, True)
        for step, values in enumerate(by_step) for number, value in enumerate(values, start=1)
    )  # fmt: skip
    return SweepData("a/b", "Title", "sweep-1", (axis,), len(by_step), ("stela",), {"e1": "scale out"}, runs, ())


@pytest.mark.parametrize(
    ("runs", "expected", "cell"),
    [
        ((40.0, -90.0, -90.0), (90.0, 40.0, None, 90.0, 2, True), "> 90"),
        ((40.0, 50.0, -90.0), (50.0, 40.0, None, 90.0, 1, False), "50 (40 to 90 or longer)"),
        ((-40.0, 50.0), (50.0, None, None, 50.0, 1, False), "50 (to 50 or longer)"),  # the smallest may be either
        ((-90.0,), (90.0, None, None, 90.0, 1, True), "> 90"),
    ],
)
def test_a_time_that_was_not_reached_is_a_bound_and_its_range_is_open(
    runs: tuple[float, ...], expected: tuple[object, ...], cell: str
) -> None:
    data = times(runs)
    (middle,) = middles(data, SP)
    assert tuple(middle[name] for name in ("value", "low", "high", "at_least", "unreached", "longer")) == expected
    assert sweep_page.table(data, "e1").rows[0][-1] == cell


def drawn(data: SweepData) -> dict[type[Mark], list[tuple[float, float | None, bool]]]:
    """Heights, ends and whether they are bounds, by kind of mark; dots are arrows and then runs."""
    panel = sweep_curves.panel(data, sweep_curves.layout(data), data.runs)
    found: dict[type[Mark], list[tuple[float, float | None, bool]]] = {}
    for mark in panel.marks:
        found.setdefault(type(mark), []).extend((spot.y, spot.end, spot.is_bound) for spot in mark.spots)
    return found


def test_an_open_range_ends_in_an_arrow_and_no_horizon_is_drawn_as_a_run() -> None:
    found = drawn(times((100.0, 150.0, -300.0)))
    assert found[Whisker] == [(100.0, 300.0, False)]
    assert found[Dot] == [(300.0, None, False), (100.0, None, False), (150.0, None, False), (300.0, None, True)]
    found = drawn(times((100.0, 150.0, 300.0)))
    assert found[Whisker] == [(100.0, 300.0, False)] and len(found[Dot]) == 3
    found = drawn(times((-300.0, -300.0)))
    assert not found[Whisker] and all(is_bound for _, _, is_bound in found[Dot]), "nothing was reached: no range"


def test_no_line_leads_past_a_median_that_was_not_reached() -> None:
    heights = [y for y, _, _ in drawn(times((100.0,), (-300.0,), (120.0,)))[LineMark]]
    assert [heights[0], heights[2]] == [100.0, 120.0] and isnan(heights[1])


def swept_metis(experiment: str, numbers: dict[str, dict[str, tuple[float, float]]]) -> SweepData:
    """By metric and variant the values at 10 and at 80 machines, with two seeds that are alike."""
    axes = (SweepAxis(("machines.before",), ((10,), (80,))), SweepAxis(("seed",), ((1,), (2,))))
    runs = tuple(
        SweepRun(1 + 2 * size + seed, (size, seed), f"{variant}-r1", variant, "e1", metric, value, False, True)
        for metric, of in numbers.items() for variant, values in of.items()
        for size, value in enumerate(values) for seed in (0, 1)
    )  # fmt: skip
    variants = tuple(dict.fromkeys(run.variant for run in runs))
    return SweepData(experiment, "Title", "sweep-1", axes, 4, variants, {"e1": "reschedule"}, runs, ())


def test_in_short_is_the_change_over_the_default_in_what_claims_are_about() -> None:
    data = swept_metis("metis/payload_machines", {
        "throughput_after": {"even": (1000.0, 8000.0), "metis": (1000.0, 8000.0)},
        "published_network_mb_per_s": {"even": (10.0, 80.0), "metis": (1.0, 72.0)},
        "published_emitted_per_s": {"even": (1000.0, 8000.0), "metis": (1520.0, 8080.0)},
    })  # fmt: skip
    assert [said.replace("\u00a0", " ") for said in sweep_page.answers(data, "e1")] == [
        "METIS over even: byte rate between machines in the 180 s after the event −90.0 % (machines.before = 10) to"
        " −10.0 % (machines.before = 80); throughput at the spouts in the 180 s after the event +1.0 % (machines.before"
        " = 80) to +52.0 % (machines.before = 10)."
    ]


def test_in_short_is_no_offered_rate_where_all_carry_it() -> None:
    paced = {"even": (2000.0, 16000.0), "metis": (2000.0, 16000.0)}
    data = swept_metis("metis/opengov_machines", {"throughput_after": paced, "published_emitted_per_s": paced})
    (said,) = sweep_page.answers(data, "e1")
    assert said.replace("\u00a0", " ").endswith(
        "throughput at the spouts in the 180 s after the event 0.0 % at every point."
    )
    mine = swept_metis("mine/sweep", {"throughput_after": {"even": (100.0, 100.0), "greedy": (110.0, 120.0)}})
    (said,) = sweep_page.answers(mine, "e1")
    assert said.replace("\u00a0", " ") == (
        "greedy over even: throughput after the event +10.0 % (machines.before = 10) to +20.0 % (machines.before = 80)."
    )
    assert sweep_page.answers(made({"machines.before": [4, 8]}, ("stela",)), "e1") == [
        "Stela: the highest throughput after is 1\u00a0tuples/s, with machines.before = 8."
    ]
