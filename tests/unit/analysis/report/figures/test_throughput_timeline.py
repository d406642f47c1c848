from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from analysis.record import small_tables
from analysis.record.event_timeline import EventMark
from analysis.record.files import SeriesPaths
from analysis.report.figures import run_timeline, style, throughput_timeline
from analysis.report.figures.catalogue import FIGURES
from analysis.report.figures.series_data import Downtime, Level, Line, SeriesData, Time, collect, order_variants
from tests.support.series_by_hand import write_series
from topologies import catalogue


def line(run_id: str, *rates: float | None) -> Line:
    return Line(run_id, run_id.partition("-")[0], tuple(-10.0 + 10 * i for i in range(len(rates))), rates)


def data(variants: list[str], marks: tuple[EventMark, ...]) -> SeriesData:
    lines = tuple(line(f"{variant}-r{n}", 100.0, 0.0, 150.0 + n) for variant in variants for n in (1, 2))
    return SeriesData(
        order_variants(set(variants)), lines, lines[:1],
        tuple(Time(one.run_id, one.variant, d, 40.0, d == "st") for one in lines for d in ("sp", "st", "script")), (),
        tuple(Level(one.run_id, one.variant, 100.0, 150.0) for one in lines),
        tuple(Downtime(one.run_id, one.variant, 4.0) for one in lines), marks,
    )  # fmt: skip


SCALE_IN = (EventMark(0.0, "e1", "scale_in", "scale in, −4 machines"),)


def test_median_needs_more_than_half_of_the_runs() -> None:
    lines = [line("a-r1", 1.0, 2.0, None), line("a-r2", 3.0, None, None), line("a-r3", 5.0, 4.0, 9.0)]
    assert throughput_timeline.median_line(lines) == [(-10.0, 3.0), (0.0, 3.0)]


def test_an_event_is_shown_at_its_median_with_its_range() -> None:
    marks = [EventMark(t, "e2", "crash", "m3 crashes") for t in (98.0, 100.0, 120.0)] + [
        EventMark(0, "e1", "rate", "rate × 2")
    ]
    first, second = throughput_timeline.moments(marks)
    assert (first.label, second.low_s, second.middle_s, second.high_s) == ("rate × 2", 98.0, 100.0, 120.0)


def test_labels_in_one_tier_never_overlap() -> None:
    spans = [(t, t + 190.0) for t in (0.0, 3.0, 5.0, 200.0, 210.0)]
    tiers = throughput_timeline.label_tiers(spans)
    assert tiers == [0, 1, 2, 0, 1]
    for tier in set(tiers):
        row = [span for span, of in zip(spans, tiers, strict=True) if of == tier]
        assert all(b[0] >= a[1] for a, b in pairwise(row))


def test_a_label_for_which_the_panel_ends_too_soon_stands_left_of_its_line_and_over_no_other() -> None:
    moments = [throughput_timeline.Moment("m3 has 50 % of the CPU for 20 s", t, t, t) for t in (0.0, 100.0, 230.0)]
    labels = throughput_timeline.event_labels(moments, -60.0, 240.0, run_timeline.PANEL_IN)
    assert [(label.at_s, label.is_left) for label in labels] == [(0.0, False), (100.0, False), (230.0, True)]
    assert [label.tier for label in labels] == [0, 1, 2]


def test_a_label_that_is_too_long_for_either_side_stands_where_there_is_more_room() -> None:
    moments = [
        throughput_timeline.Moment("the policy decides by itself, every 5 s for 240 s", t, t, t) for t in (0, 300)
    ]
    labels = throughput_timeline.event_labels(moments, -60.0, 360.0, run_timeline.PANEL_IN)
    assert [label.is_left for label in labels] == [False, True]


def test_colours_are_those_of_the_family_and_never_shared() -> None:
    eight = ["even_rebalance", "stela", "least_link_load", "a", "b", "c", "d", "e"]
    assert len(set(style.colours(eight).values())) == 8
    assert style.colours(["stela"])["stela"] == style.colours(eight)["stela"]
    both = style.colours(["recorded", "even_rebalance", "stela", "metis", "even"])  # of two families
    assert len(set(both.values())) == 5 and both["stela"] == style.FAMILY_COLOURS["stela"]


@pytest.mark.parametrize("variants", [["stela"], ["even_rebalance", "stela"], [f"v{i}" for i in range(8)]])
def test_every_figure_names_every_variant(variants: list[str]) -> None:
    for name, recipe in FIGURES.items():
        drawn = recipe.draw(data(variants, SCALE_IN))
        if name in ("cpu", "traffic"):  # nothing was sampled
            assert drawn is None
            continue
        assert drawn is not None
        for variant in variants:
            assert style.display_name(variant).split(" ")[0] in drawn.svg, (name, variant)
            assert any(trace.name == style.display_name(variant) and trace.spots for trace in drawn.traces), (
                name,
                variant,
            )
        declared = [column.name for column in drawn.data_columns()]
        assert all(list(row) == declared for row in drawn.rows()), name
        told = {key for trace in drawn.traces for spot in trace.spots for key in spot.values}
        assert told == {column.name for column in drawn.columns}, name


def test_downtime_is_drawn_where_machines_leave_or_die_only() -> None:
    out = (EventMark(0.0, "e1", "scale_out", "scale out, +1 machine"),)
    assert FIGURES["downtime"].draw(data(["stela"], out)) is None
    drawn = FIGURES["downtime"].draw(data(["stela"], SCALE_IN))
    assert drawn is not None and "scale in, −4 machines" in drawn.svg


@pytest.mark.parametrize(
    ("downs", "middle", "label"),
    [
        (((12.0, False), (199.0, True), (199.0, True)), (199.0, True), "&gt; 199 s"),
        (((12.0, False), (14.0, False), (199.0, True)), (14.0, False), "14 s"),
    ],
)
def test_a_downtime_that_the_watch_ended_is_no_value(
    downs: tuple[tuple[float, bool], ...], middle: tuple[float, bool], label: str
) -> None:
    runs = tuple(Downtime(f"stela-r{n}", "stela", each, censored=lasts) for n, (each, lasts) in enumerate(downs))
    drawn = FIGURES["downtime"].draw(replace(data(["stela"], SCALE_IN), downtimes=runs))
    assert drawn is not None
    spots = {trace.mark: [(spot.values["downtime_s"], spot.values["censored"]) for spot in trace.spots]
             for trace in drawn.traces}  # fmt: skip
    assert spots == {"run": list(downs), "median (Kaplan-Meier)": [middle]}
    assert f">{label}</text>" in drawn.svg
    assert ("stroke-dasharray" in drawn.svg) == middle[1], "only a bound is an open bar"


def test_what_lasts_to_the_end_of_the_watch_is_censored(tmp_path: Path) -> None:
    paths = SeriesPaths(tmp_path)
    runs = ["stela-r1", "stela-r2"]
    small_tables.write(paths, "runs", [{"run_id": run, "variant": "stela", "status": "complete"} for run in runs])
    small_tables.write(paths, "zeros", [{"run_id": run, "scaled": True} for run in runs])
    small_tables.write(paths, "downtime", [
        {"run_id": run, "event_id": "e1", "downtime_s": 199.0, "lasts": lasts}
        for run, lasts in zip(runs, (True, False), strict=True)
    ])  # fmt: skip
    assert [(down.seconds, down.censored) for down in collect(paths).downtimes] == [(199.0, True), (199.0, False)]


def test_each_event_has_its_own_convergence_panels() -> None:
    base = data(["stela"], (*SCALE_IN, EventMark(90.0, "e2", "crash", "m3 crashes")))
    times = (*base.times, Time("stela-r1", "stela", "sp", 20.0, False, "e2"))
    drawn = FIGURES["convergence"].draw(SeriesData(base.variants, base.totals, base.due, times, (), base.levels,
                                                   base.downtimes, base.marks))  # fmt: skip
    assert drawn is not None and "after scale in, −4 machines" in drawn.svg and "after m3 crashes" in drawn.svg


@pytest.mark.parametrize(
    ("times", "middle"),
    [(((60.0, False), (80.0, False), (50.0, True)), (70.0, False)),  # a horizon of 50 s says nothing of 60 and 80
     (((60.0, False), (600.0, True), (590.0, True)), (600.0, True))],
)  # fmt: skip
def test_the_bar_of_convergence_times_is_no_median_of_horizons(
    times: tuple[tuple[float, bool], ...], middle: tuple[float, bool]
) -> None:
    base = data(["stela"], SCALE_IN)
    runs = tuple(Time(f"stela-r{n}", "stela", "sp", *each) for n, each in enumerate(times))
    drawn = FIGURES["convergence"].draw(replace(base, times=runs))
    assert drawn is not None
    (bar,) = [spot for trace in drawn.traces if trace.mark.startswith("median") for spot in trace.spots]
    assert (bar.values["convergence_s"], bar.values["censored"]) == middle


def test_a_long_axis_is_in_hours_and_what_is_drawn_stays_in_seconds() -> None:
    two_days = Line("stela-r1", "stela", tuple(600.0 * i for i in range(289)), (100.0,) * 289)
    base = replace(data(["stela"], SCALE_IN), totals=(two_days,), due=())
    drawn = FIGURES["throughput"].draw(base)
    assert drawn is not None
    assert "time since the request (h)" in drawn.svg and ">48</text>" in drawn.svg and ">42</text>" in drawn.svg
    assert max(spot.values["time_s"] for trace in drawn.traces for spot in trace.spots if trace.mark == "median") > 1e5
    short = FIGURES["throughput"].draw(data(["stela"], SCALE_IN))
    assert short is not None and "time since the request (s)" in short.svg


def test_the_lines_end_below_the_labels_of_eleven_events() -> None:
    import matplotlib.pyplot as plt

    marks = tuple(EventMark(60.0 * i, f"e{i}", "sine", f"a sine of the input rate in number {i}") for i in range(11))
    base = replace(data(["stela"], marks), axis_s=(-60.0, 172800.0))
    figure, axes = plt.subplots(figsize=(style.WIDTH_IN, throughput_timeline.HEIGHT_IN))
    throughput_timeline.draw_panel(axes, base, ["stela"])
    lowest = min(text.get_window_extent().y0 for text in axes.texts if text.get_text().startswith("a sine"))
    highest = axes.transData.transform((0.0, throughput_timeline.highest(base)))[1]
    plt.close(figure)
    assert highest < lowest


def test_a_topology_has_its_own_events_and_the_axis_of_the_run() -> None:
    marks = (
        EventMark(0.0, "e1", "rate", "rate of star × 2", "star"),
        EventMark(120.0, "e2", "scale_out", "scale out, +1 machine"),
    )
    drawn = FIGURES["throughput"].draw(replace(data(["stela"], marks), topology="other", axis_s=(-60.0, 240.0)))
    assert drawn is not None
    assert "rate of star" not in drawn.svg and "scale out, +1 machine" in drawn.svg
    assert "time since the first event (s)" in drawn.svg
    assert replace(data(["stela"], marks), topology="other").label("e1") == "rate of star × 2"


def test_events_of_small_panels_are_in_their_own_panel() -> None:
    base = data([f"v{i}" for i in range(8)], SCALE_IN)
    drawn = FIGURES["throughput"].draw(base)
    assert drawn is not None
    marks = [spot for trace in drawn.traces if trace.mark == "event" for spot in trace.spots]
    assert len(marks) == 8 and len({round(mark.y) for mark in marks}) == 2, "as high in all panels of a row"


def test_of_spouts_that_are_not_throttled_nothing_is_offered(tmp_path: Path) -> None:
    """The record has what they emitted as what was due."""
    root = write_series(tmp_path / "s", "metis/payload", {"even": 100.0})
    paths = SeriesPaths(root)
    assert len(collect(paths).due) == 3
    (paths.run("even-r2").root / "topology.yaml").write_text(catalogue.render("payload", {"unthrottled": True}))
    (paths.run("even-r3").root / "topology.yaml").write_text(catalogue.render("payload", {}))
    found = collect(paths)
    assert [line.run_id for line in found.due] == ["even-r1", "even-r3"] and len(found.totals) == 3
