"""Published figures over the size of a cluster or of a tuple, from sweeps: a line a variant, as it is or over the
default.

What the paper states of a variant is a dotted line, from the claims, over the sizes that it states it of; a bound has
arrows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from textwrap import fill
from typing import TYPE_CHECKING

from analysis.claims.ledger_rows import percent_over
from analysis.claims.publications import PublishedFigure
from analysis.claims.statements import RATIOS, Claim, load_claims
from analysis.record.event_timeline import FIRST_EVENT
from analysis.report.figures import points, style, sweep_curves
from analysis.report.figures.measured_panels import BASELINE, stated_mark
from analysis.report.figures.points import Column, Drawing, Spot
from analysis.report.sweep_data import SweepAxis, SweepData, SweepRun, metric_words, short_name

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes


ABREAST, WIDTH_IN, HEIGHT_IN = 2, 10.8, 3.0
LABEL_CHARACTERS = 32  # a line of a label that is as long as its axis
AXIS_WORDS = {"machines.before": "machines", "topology.parameters.size_bytes": "size of a tuple (bytes)"}
COLUMNS = (
    Column("x", "swept field"),
    Column("value", "value"),
    Column("low", "from"),
    Column("high", "to"),
    Column("at_least", "to at least"),
    Column("runs", "runs"),
    Column("unreached", "of these longer than watched"),
    Column("not_steady", "of these not steady"),
    Column("longer", "longer than that", kind="yes_no"),
)


@dataclass(frozen=True)
class _Kind:
    """`is_change`: in percent of the default."""

    metric: str
    is_change: bool = False


PANELS = {
    "sweep_emitted": _Kind("published_emitted_per_s"),
    "sweep_network": _Kind("published_network_mb_per_s"),
    "sweep_emitted_change": _Kind("published_emitted_per_s", is_change=True),
    "sweep_network_change": _Kind("published_network_mb_per_s", is_change=True),
    "sweep_cpu_imbalance": _Kind("cpu_imbalance_after"),
}


def draw(figure: PublishedFigure, swept: Mapping[str, SweepData]) -> Drawing:
    """Draw the panels of a published figure; a sweep that is not there gives an empty panel."""
    columns = min(ABREAST, len(figure.panels))
    rows = ceil(len(figure.panels) / columns)
    with style.canvas(HEIGHT_IN * rows, columns, rows, WIDTH_IN, sharey="all" if figure.share_y else False) as (
        canvas,
        axes_of,
    ):
        for axes, panel in zip(axes_of, figure.panels, strict=False):
            axes.set_title(panel.title, loc="left", fontweight="bold")
            data, kind = swept.get(panel.experiment), PANELS[panel.draw]
            runs = [] if data is None else runs_of(data, kind)
            if data is None or not runs:
                axes.text(0.5, 0.5, f"{panel.experiment}\nnot simulated", ha="center", va="center", color=style.GREY,
                          transform=axes.transAxes, fontsize=10)  # fmt: skip
                continue
            _draw_panel(axes, data, kind, runs)
        for empty in axes_of[len(figure.panels) :]:
            empty.set_visible(False)
        handles, labels = _legend(axes_of)
        if labels:
            canvas.legend(handles, labels, loc="outside upper left", ncols=6, frameon=False, fontsize=8.5)
        return style.drawing(canvas, f"{figure.title} ({figure.source})", COLUMNS, panels=True)


def runs_of(data: SweepData, kind: _Kind) -> list[SweepRun]:
    """Of the first event."""
    return changes(data, FIRST_EVENT, kind.metric) if kind.is_change else _runs(data, FIRST_EVENT, kind.metric)


def _runs(data: SweepData, event_id: str, metric: str) -> list[SweepRun]:
    return [run for run in data.runs if (run.event_id, run.metric) == (event_id, metric)]


def changes(data: SweepData, event_id: str, metric: str) -> list[SweepRun]:
    """In percent over the default: over its run of the same point and repetition."""
    runs = _runs(data, event_id, metric)
    default = {(run.point, _repetition(run)): run.value for run in runs if run.variant == BASELINE}
    return [
        replace(run, value=percent_over(run.value, default[run.point, _repetition(run)]))
        for run in runs
        if run.variant != BASELINE and default.get((run.point, _repetition(run)), 0.0) > 0.0
    ]


def _repetition(run: SweepRun) -> str:
    """Of `<variant>-r<repetition>`."""
    return run.run_id.rpartition("-r")[2]


def _draw_panel(axes: Axes, data: SweepData, kind: _Kind, runs: Sequence[SweepRun]) -> None:
    found = sweep_curves.layout(data)
    sweep_curves.draw_panel(axes, data, found, runs)
    words, unit = metric_words(kind.metric)
    field = data.axes[found.x].paths[0]
    axes.set_xlabel(AXIS_WORDS.get(field, short_name(field)))
    label = fill(f"{words} ({'% over the default' if kind.is_change else unit})", LABEL_CHARACTERS)
    axes.set_ylabel(label, fontsize=8.5)
    if kind.is_change:
        axes.axhline(0, color="#222222", lw=0.9)
        _draw_stated(axes, data, kind, data.axes[found.x])
    else:
        axes.set_ylim(0, 1.08 * max(run.value for run in runs) or 1.0)


def _draw_stated(axes: Axes, data: SweepData, kind: _Kind, x: SweepAxis) -> None:
    colours = style.colours(data.variants)
    for claim in load_claims():
        about = (claim.simulated, claim.experiment, claim.metric, claim.baseline)
        if about == (True, data.experiment, kind.metric, BASELINE) and claim.kind in RATIOS:
            _draw_claim(axes, x, claim, colours.get(claim.variant, style.GREY))


def _draw_claim(axes: Axes, x: SweepAxis, claim: Claim, colour: str) -> None:
    steps = sorted(_steps_of(claim, x), key=lambda step: sweep_curves.place_of(x, step))
    spots = [
        Spot(sweep_curves.place_of(x, step), claim.stated,
             {"x": sweep_curves.value_of(x, step), "value": claim.stated})
        for step in steps
    ]  # fmt: skip
    mark, arrow = stated_mark(claim)
    axes.plot([spot.x for spot in spots], [spot.y for spot in spots], color=colour, lw=1.2, ls=":", marker=arrow or "_")
    points.add_points(axes, style.display_name(claim.variant), mark, colour, spots)


def _steps_of(claim: Claim, x: SweepAxis) -> list[int]:
    """Of the swept field, those that the claim is about."""
    chosen = dict(claim.points)
    return [
        place for place, step in enumerate(x.steps)
        if all(
            json.dumps(value) in chosen[path] for path, value in zip(x.paths, step, strict=True) if path in chosen
        )
    ]  # fmt: skip


def _legend(axes_of: Sequence[Axes]) -> tuple[list[Artist], list[str]]:
    """Each variant once."""
    found: dict[str, Artist] = {}
    for axes in axes_of:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)
