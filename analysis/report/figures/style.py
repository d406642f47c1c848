"""How every figure looks: colours that colour-blind readers can tell apart, direct labels, quiet axes."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any

from analysis.report.figures import points
from analysis.report.figures.points import Column, Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


# Okabe and Ito's palette (2008), the strongest contrasts first; the last two are Tol's, for the eighth variant.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#332288")
# The same colour in every experiment of a family, so that figures compare at a glance.
FAMILY_COLOURS = {
    "even_rebalance": PALETTE[0], "stela": PALETTE[1], "least_link_load": PALETTE[2], "even": PALETTE[0],
    "metis": PALETTE[1], "greedy": PALETTE[2], "metis_cut": PALETTE[4],
    "recorded": "#222222",  # beside what was simulated on it
}  # fmt: skip
GREY, FAINT = "#555555", "#D0D0D0"
WIDTH_IN = 7.2
DISPLAY_NAMES = {
    "even_rebalance": "even + rebalance", "stela": "Stela", "metis": "METIS", "metis_cut": "METIS, edge cut",
}  # fmt: skip
HOURS_FROM, MOST_TICKS = 3.0, 10  # of a time axis: from how many hours on it is in hours, and of them its ticks
LEGIBLE_VARIANTS = 4  # lines that one panel carries with a label each


def colours(variants: Sequence[str]) -> dict[str, str]:
    """A colour a variant, the same in every figure of a series. Of two with one family colour the first has it."""
    own: dict[str, str] = {}
    for variant in variants:
        if (colour := FAMILY_COLOURS.get(variant)) and colour not in own.values():
            own[variant] = colour
    free = [colour for colour in PALETTE if colour not in own.values()]
    others = [variant for variant in variants if variant not in own]
    return {variant: own.get(variant) or free[others.index(variant) % len(free)] for variant in variants}


def display_name(variant: str) -> str:
    return DISPLAY_NAMES.get(variant, variant.replace("_", " "))


def multiline_name(variant: str, width: int = 12) -> str:
    """A name on as many lines as it needs, for ticks and narrow margins."""
    return "\n".join(textwrap.wrap(display_name(variant), width, break_long_words=False))


@contextmanager
def canvas(
    height_in: float, columns: int = 1, rows: int = 1, width_in: float = WIDTH_IN, *, room: bool = True, **settings: Any
) -> Iterator[tuple[Canvas, Sequence[Axes]]]:
    """A figure with `rows` x `columns` axes, in reading order, in our style; closed at the end.

    `room`: make room for every label, which costs more than drawing; without it the margins are the caller's.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    import seaborn as sns

    style: Any = {
        "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": GREY, "axes.labelcolor": "#222222",
        "axes.titlesize": 9.5, "axes.labelsize": 9, "xtick.labelsize": 8.5, "ytick.labelsize": 8.5,
        "grid.color": "#ECECEC", "grid.linewidth": 0.8, "font.size": 9, "svg.fonttype": "none",
        "pdf.fonttype": 42,  # TrueType: publishers refuse Type 3
        "font.family": "sans-serif", "font.sans-serif": ["Source Sans 3", "Helvetica", "Arial", "DejaVu Sans"],
        # Stable ids, so that the same series gives the same bytes.
        "svg.hashsalt": "barograph",
    }  # fmt: skip
    with mpl.rc_context(style), sns.axes_style("whitegrid", rc=style):
        figure, axes = plt.subplots(
            rows,
            columns,
            figsize=(width_in, height_in),
            squeeze=False,
            layout="constrained" if room else None,
            **settings,
        )
        try:
            yield figure, list(axes.flat)
        finally:
            plt.close(figure)


def drawing(
    figure: Canvas, title: str, columns: Sequence[Column], *, name_column: str = "variant", panels: bool = False
) -> Drawing:
    """The finished figure in all its forms; `columns` are those of its points (points.add_points).

    `name_column`: what the names of its traces are; `panels`: the data says by their titles which axes it is of.
    """
    text = svg(figure, title)  # lays it out
    traces = points.traces_on_svg(figure, panels)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="pdf", metadata={"Title": title, "CreationDate": None})
    return Drawing(text, buffer.getvalue(), tuple(columns), traces, name_column)


def svg(figure: Canvas, title: str) -> str:
    """The figure as an inline <svg> with an accessible title, without the XML prologue."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    head, tail = text.split(">", 1)
    head = re.sub(r' (width|height)="[\d.]+pt"', "", head)
    return f'{head} role="img"><title>{escape(title, quote=False)}</title>{tail}'


def time_label(axes: Axes, first_s: float, last_s: float, since: str) -> str:
    """The label of a time axis from `first_s` to `last_s`. A long one gets its ticks at whole hours, and says hours;
    what is drawn stays in seconds."""
    hours = (last_s - first_s) / 3600.0
    if hours < HOURS_FROM:
        return f"time since {since} (s)"
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    days = ceil(hours / 24 / MOST_TICKS)
    step = next((step for step in (0.5, 1, 2, 3, 6, 12) if hours <= MOST_TICKS * step), 24 * days)
    axes.xaxis.set_major_locator(MultipleLocator(3600.0 * step))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds / 3600.0:g}"))
    return f"time since {since} (h)"


def spread_labels(values: Sequence[float], gap: float) -> list[float]:
    """Heights for labels at `values`, moved apart to at least `gap`, order kept."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    heights: list[float] = list(values)
    for lower, upper in pairwise(order):
        heights[upper] = max(heights[upper], heights[lower] + gap)
    return heights
