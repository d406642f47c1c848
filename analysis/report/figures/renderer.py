"""Draw charts (chart.py) with matplotlib: as SVG for the page, as PDF, and the position of each of their points."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any

from analysis.report.figures.chart import Cells, Chart, ChartAxis, ChartPanel, End, Events, Moment
from analysis.report.figures.points import Drawing, PointColumn, PointTrace, Spot
from analysis.report.figures.style import FAINT, GREY, INK, PALETTE
from analysis.report.page import Figure as PageFigure
from analysis.report.table import Download, row_downloads

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


MARGINS_IN = (0.8, 1.45, 0.5, 0.12)  # of panels with heights: left, right, bottom, top; labels are at the right
GAP_IN, TITLE_IN = 0.14, 0.12  # between them, and for a title
LABEL_IN = 0.145  # a row of events' labels
CHARACTERS_PER_IN = 15.0  # of such a label
POINTS_PER_INCH = 72.0  # the unit of matplotlib's SVG
STYLE: Any = {
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": GREY, "axes.labelcolor": INK,
    "axes.titlesize": 9.5, "axes.labelsize": 9, "xtick.labelsize": 8.5, "ytick.labelsize": 8.5,
    "grid.color": "#ECECEC", "grid.linewidth": 0.8, "font.size": 9, "svg.fonttype": "none",
    "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3
    "font.family": "sans-serif", "font.sans-serif": ["Source Sans 3", "Helvetica", "Arial", "DejaVu Sans"],
    # Stable ids, so that the same series gives the same bytes.
    "svg.hashsalt": "barograph",
}  # fmt: skip


def draw(chart: Chart) -> Drawing:
    """Return the chart in all its formats."""
    chart = replace(chart, panels=[_with_label_room(panel, chart) for panel in chart.panels])
    with _canvas(chart) as (figure, axes_of):
        axes_panels = list(zip(axes_of, chart.panels, strict=False))
        for axes, panel in axes_panels:
            for mark in panel.marks:
                mark.draw(axes, panel.flipped)
        for axes, panel in axes_panels:
            _finish(axes, panel, chart)
        for number, axes in enumerate(axes_of):
            axes.set_visible(number < len(chart.panels) and not chart.panels[number].is_hidden)
        figure.supxlabel(chart.x_label, fontsize=9)
        figure.supylabel(chart.y_label, fontsize=9)
        _scale_of_cells(figure, axes_panels)
        handles: dict[str, Any] = {}
        for axes, _ in axes_panels:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        if chart.legend == "chart" and handles:
            figure.legend(handles.values(), handles, loc="outside upper left", ncols=6, frameon=False, fontsize=8.5)

        def traces() -> Iterator[PointTrace]:
            for number, mark, trace in chart.traces():
                places = [(spot.x - mark.shift, spot.y) for spot in trace.spots]
                if chart.panels[number].flipped:
                    places = [(y, x) for x, y in places]
                spots = [replace(spot, x=x, y=y) for spot, (x, y) in zip(trace.spots, places, strict=True)]
                yield replace(trace, spots=on_svg(axes_of[number], spots, mark.of_height))

        return forms(figure, chart.title, chart.columns, traces, chart.name_column)


def page_figure(name: str, title: str, caption: str, chart: Chart | Drawing) -> PageFigure:
    """Return a figure of the page; `name` is unique on the page and names its files."""
    drawing = draw(chart) if isinstance(chart, Chart) else chart
    # Several figures share one page, so every id gets a prefix.
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", drawing.svg)
    files = (
        *row_downloads(name, drawing.rows(), {column.name: column.kind for column in drawing.data_columns()}),
        Download(f"{name}.svg", f'<?xml version="1.0" encoding="UTF-8"?>\n{svg}\n'.encode()),
        Download(f"{name}.pdf", drawing.pdf),
    )
    return PageFigure(name, title, caption, svg, drawing.points(), files)


def _with_label_room(panel: ChartPanel, chart: Chart) -> ChartPanel:
    """Return the panel; one with an individual height grows by the room for the labels of its events."""
    span = panel.x.low, panel.x.high
    labelled = [mark for mark in panel.marks if isinstance(mark, Events) and mark.is_labelled]
    if not (panel.height_in and labelled) or span[0] is None or span[1] is None:
        return panel
    rows = label_rows(event_labels(labelled[0].moments, span[0], span[1], _size_in(panel, chart)[0]))
    return replace(panel, height_in=panel.height_in + 0.08 + LABEL_IN * rows)


@contextmanager
def _canvas(chart: Chart) -> Iterator[tuple[Canvas, Sequence[Axes]]]:
    """Yield a figure; panels with individual heights have fixed margins, because a layout of every label is slow."""
    heights = [panel.height_in for panel in chart.panels if panel.height_in]
    shares = {f"share{side}": side in chart.shares for side in "xy"}
    if not heights:
        with canvas(chart.height_in, chart.abreast, chart.high, chart.width_in, layout="constrained", **shares) as pair:
            yield pair
        return
    left_in, right, bottom, top = MARGINS_IN
    titled = any(panel.title for panel in chart.panels)
    gap, top = GAP_IN + titled * TITLE_IN, top + 2 * titled * TITLE_IN
    height = sum(heights) + gap * (len(heights) - 1) + bottom + top
    shape = {"height_ratios": heights, "hspace": gap * len(heights) / sum(heights)}
    with canvas(height, 1, len(heights), chart.width_in, gridspec_kw=shape, **shares) as (figure, axes_of):
        figure.subplots_adjust(left_in / chart.width_in, bottom / height, 1 - right / chart.width_in, 1 - top / height)
        yield figure, axes_of


@contextmanager
def canvas(
    height_in: float, columns: int, rows: int, width_in: float, **settings: Any
) -> Iterator[tuple[Canvas, Sequence[Axes]]]:
    """Yield a figure with `rows` x `columns` axes, in reading order, in our style; it is closed at the end."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import seaborn as sns

    with mpl.rc_context(STYLE), sns.axes_style("whitegrid", rc=STYLE):
        figure, axes = plt.subplots(rows, columns, figsize=(width_in, height_in), squeeze=False, **settings)
        try:
            yield figure, list(axes.flat)
        finally:
            plt.close(figure)


def forms(
    figure: Canvas, title: str, columns: Sequence[PointColumn], traces: Callable[[], Iterable[PointTrace]],
    name_column: str, *,
    width_px: float = 0.0,
) -> Drawing:  # fmt: skip
    """Return the figure as SVG, inline and with an accessible title, and as PDF. `traces`: in units of the SVG, called
    after the layout. `width_px`: on the page; 0: the available width."""
    text, pdf = io.StringIO(), io.BytesIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    head, tail = svg[svg.index("<svg") :].split(">", 1)
    head = re.sub(r' (width|height)="[\d.]+pt"', "", head)
    width = f' style="width:{width_px:.0f}px;max-width:100%"' if width_px else ""
    svg = f'{head}{width} role="img"><title>{escape(title, quote=False)}</title>{tail}'
    svg_traces = tuple(traces())
    figure.savefig(pdf, format="pdf", metadata={"Title": title, "CreationDate": None})
    return Drawing(svg, pdf.getvalue(), tuple(columns), svg_traces, name_column)


def on_svg(axes: Axes, spots: Sequence[Spot], of_height: bool = False) -> tuple[Spot, ...]:
    """Convert to matplotlib's SVG, with its zero at the top left and 72 units an inch. `of_height`: y is a fraction of
    the panel's height."""
    if not spots:
        return ()
    figure: Any = axes.figure
    transform = axes.get_xaxis_transform() if of_height else axes.transData
    pixels = transform.transform([(spot.x, spot.y) for spot in spots])
    scale = POINTS_PER_INCH / figure.dpi
    height = figure.get_figheight() * POINTS_PER_INCH
    return tuple(
        replace(spot, x=float(x) * scale, y=float(height - y * scale))
        for spot, (x, y) in zip(spots, pixels, strict=True)
    )


def _scale_of_cells(figure: Canvas, drawn: Sequence[tuple[Axes, ChartPanel]]) -> None:
    """Draw the scale beside a panel with an individual height, or above all panels."""
    maps = [(axes, panel, mark) for axes, panel in drawn for mark in panel.marks if isinstance(mark, Cells)]
    if not maps:
        return
    axes, panel, mark = maps[0]
    if panel.height_in:
        box = axes.get_position()
        scale_axes = figure.add_axes((box.x1 + 0.02, box.y0, 0.016, box.height))
        scale = figure.colorbar(axes.images[0], cax=scale_axes)
    else:
        scale = figure.colorbar(axes.images[0], ax=figure.axes, location="top", shrink=0.5, aspect=50)
    scale.set_label(mark.words, fontsize=8)
    scale.ax.tick_params(labelsize=7.5)


# Axes, events and labels.


def _finish(axes: Axes, panel: ChartPanel, chart: Chart) -> None:
    axes.set_title(panel.title, loc="left", color=panel.title_colour, fontsize=chart.title_size,
                   fontweight="bold" if chart.has_bold_titles else "normal", linespacing=1.2)  # fmt: skip
    if panel.message:
        axes.text(0.5, 0.5, panel.message, ha="center", va="center", transform=axes.transAxes, color=GREY, fontsize=10)
        # The ticks themselves may be shared with panels that have data.
        axes.tick_params(labelbottom=False, labelleft=False, bottom=False, left=False)
        axes.grid(visible=False)
        return
    draw_across, draw_along = (axes.axvline, axes.axhline) if panel.flipped else (axes.axhline, axes.axvline)
    for value in panel.rules:
        draw_across(value, color=INK, lw=0.9, zorder=1.5)
    for value in panel.borders:
        draw_across(value, color=FAINT, lw=0.6)
        draw_along(value, color=FAINT, lw=0.6)
    for start, end in panel.spans:
        axes.axvspan(start, end, color=PALETTE[2], alpha=0.08, lw=0)
    panels = chart.panels if ("x" if panel.flipped else "y") in chart.shares else [panel]
    values = [spot.y for each in panels for mark in each.marks for spot in mark.spots if not mark.of_height]
    _scale(axes, "y" if panel.flipped else "x", panel.x, panel.flipped, ())
    _scale(axes, "x" if panel.flipped else "y", panel.y, False, values)
    size_in = _size_in(panel, chart)
    for mark in panel.marks:
        if isinstance(mark, Events) and mark.is_labelled:
            labels = event_labels(mark.moments, *axes.get_xlim(), size_in[0])
            room = min(0.6, (0.06 + LABEL_IN * label_rows(labels)) / size_in[1])
            axes.set_ylim(min(0.0, panel.y.low or 0.0), axes.get_ylim()[1] / (1 - room))
            for (is_left, tier), moment in zip(labels, mark.moments, strict=True):
                axes.annotate(moment.label, (moment.middle_s, 1), xycoords=("data", "axes fraction"), va="top",
                              fontsize=8, ha="right" if is_left else "left", textcoords="offset points", color=INK,
                              xytext=(-3 if is_left else 3, -2 - 72 * LABEL_IN * tier))  # fmt: skip
    _ends(axes, panel.ends, size_in[1])
    if chart.legend == "panel" and axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", frameon=False, ncols=2, handletextpad=0.2, fontsize=8.5)


def _scale(axes: Axes, side: str, axis: ChartAxis, is_inverted: bool, values: Sequence[float]) -> None:
    axes.set(**{f"{side}label": axis.label})
    if axis.is_log:
        axes.set(**{f"{side}scale": "log"})
    if axis.margin is not None:
        axes.use_sticky_edges = False
        getattr(axes, f"set_{side}margin")(axis.margin)
    low, high = axis.low, axis.high
    if axis.has_zero and low is None:
        lowest = min((value for value in values if isfinite(value)), default=0.0)
        low = 0.0 if lowest >= 0 else None
    if low is not None or high is not None:
        start, end = getattr(axes, f"get_{side}lim")()
        limits = (start if low is None else low, end if high is None else high)
        axes.set(**{f"{side}lim": tuple(reversed(limits)) if is_inverted else limits})
    if axis.ticks is not None:
        places, names = list(axis.ticks), list(axis.ticks.values())
        axes.set(**{f"{side}ticks": places, f"{side}ticklabels": names})
        axes.tick_params(axis=side, labelsize=axis.tick_size)  # type: ignore[arg-type] # x or y
    if not axis.has_grid:
        axes.grid(axis=side, visible=False)  # type: ignore[arg-type]


def _size_in(panel: ChartPanel, chart: Chart) -> tuple[float, float]:
    """Return width and height of a panel, approximately if its labels have no room yet."""
    if panel.height_in:
        return chart.width_in - MARGINS_IN[0] - MARGINS_IN[1], panel.height_in
    return 0.6 * chart.width_in / chart.abreast, 0.8 * chart.height_in / chart.high


def event_labels(moments: Sequence[Moment], first_s: float, last_s: float, width_in: float) -> list[tuple[bool, int]]:
    """Return for each event whether its label is left of its line (if it does not fit at the right and has more room
    there), and its row from the top, in a panel of this width."""
    per_character = (last_s - first_s) / (CHARACTERS_PER_IN * width_in)
    sides, spans = [], []
    for moment in moments:
        at_s, width = moment.middle_s, per_character * (len(moment.label) + 1)
        sides.append(at_s + width > last_s and first_s - at_s + width < at_s + width - last_s)
        spans.append((at_s - width, at_s) if sides[-1] else (at_s, at_s + width))
    return list(zip(sides, label_tiers(spans), strict=True))


def label_rows(labels: Sequence[tuple[bool, int]]) -> int:
    return 1 + max((tier for _, tier in labels), default=-1)


def label_tiers(spans: Sequence[tuple[float, float]]) -> list[int]:
    """Return each label's row from the top: the highest in which it overlaps no other, by its beginning and end."""
    rows: list[list[tuple[float, float]]] = []
    tiers = []
    for start, end in spans:
        tier = next((i for i, row in enumerate(rows) if all(end <= a or b <= start for a, b in row)), len(rows))
        if tier == len(rows):
            rows.append([])
        rows[tier].append((start, end))
        tiers.append(tier)
    return tiers


def _ends(axes: Axes, ends: Sequence[End], height_in: float) -> None:
    lines = max((end.text.count("\n") + 1 for end in ends), default=1)
    low, high = sorted(axes.get_ylim())
    gap = (0.05 + 0.14 * lines) / height_in * (high - low)
    for end, height in zip(ends, spread_labels([end.height for end in ends], gap), strict=True):
        axes.annotate(end.text, (1, height), xycoords=("axes fraction", "data"), xytext=(5, 0), color=end.colour,
                      textcoords="offset points", va="center", fontsize=8.5, annotation_clip=False,
                      linespacing=0.95)  # fmt: skip


def spread_labels(values: Sequence[float], gap: float) -> list[float]:
    """Return heights for labels at `values`, moved apart to at least `gap`, order kept."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    heights: list[float] = list(values)
    for lower, upper in pairwise(order):
        heights[upper] = max(heights[upper], heights[lower] + gap)
    return heights
