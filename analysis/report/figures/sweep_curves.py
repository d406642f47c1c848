"""A sweep: its data (`sweep.json`, and the metrics of every run that its folder links to), and the curves of a metric
over a swept field, a line a variant, with the runs from the lowest to the highest.

With several swept fields one is x (the numeric one with most values); with only one variant, another one makes
the lines; every combination of the others has a panel.

A time that was not reached is no value: the run is a hollow triangle at its horizon, the range is open at its end, and
if the median was not reached the line has a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import ceil, nan
from typing import Any

from analysis.metrics.definitions import CONVERGENCE, SWEPT, metric
from analysis.record import small_tables, sweep_record
from analysis.record.files import SeriesPaths, read_json
from analysis.record.small_tables import Row
from analysis.record.sweep_record import OTHER_CODE, REPLICATES, SWEEP_FILE, is_mixed, point_of
from analysis.report.figures import style
from analysis.report.figures.chart import ARROW_UP, Chart, ChartAxis, ChartPanel, Dot, LineMark, Mark, Whisker
from analysis.report.figures.points import PointColumn, Spot, Value, point_columns
from analysis.stats.effect import Summary, summary
from barograph.errors import ConfigurationError

ABREAST = 3
MOST_PANELS = 24  # more than anybody compares; the files have all
MOST_LINES = 8
WIDE_RATIO = 30.0  # of the largest to the smallest value of x: from there on its axis is logarithmic
SHIFT = 0.12  # between two lines' marks at one place that is not a number
COLUMNS = point_columns(
    "x = swept field; value; low = from; high = to; at_least = to at least; runs;"
    " unreached = of these longer than watched; not_steady = of these not steady; longer = longer than that /yes_no"
)


@dataclass(frozen=True)
class SweepAxis:
    """A swept field; `steps`: for each step the value of every path."""

    paths: tuple[str, ...]
    steps: tuple[tuple[Any, ...], ...]

    @property
    def name(self) -> str:
        return self.paths[0] if len(self.paths) == 1 else f"{self.paths[0]} (with {', '.join(self.paths[1:])})"

    @property
    def is_replicate(self) -> bool:
        return all(path in REPLICATES for path in self.paths)

    @property
    def is_numeric(self) -> bool:
        return all(isinstance(step[0], int | float) and not isinstance(step[0], bool) for step in self.steps)

    def words(self, step: int) -> str:
        """Return `machines.before = 10`, by the last two keys of the field."""
        return f"{short_name(self.paths[0])} = {self.steps[step][0]}"


def short_name(path: str) -> str:
    """Return the end of a path, short enough for a figure."""
    return ".".join(path.split(".")[-2:])


@dataclass(frozen=True)
class SweepRun:
    """A number of one run; `steps`: the place of its point on every axis."""

    point: int
    steps: tuple[int, ...]
    run_id: str
    variant: str
    event_id: str
    metric: str
    value: float
    censored: bool
    steady: bool | None


@dataclass(frozen=True)
class SweepData:
    experiment: str
    title: str
    sweep_id: str
    axes: tuple[SweepAxis, ...]
    points: int
    variants: tuple[str, ...]
    events: Mapping[str, str]  # id → kind of event
    runs: tuple[SweepRun, ...]
    failures: tuple[Row, ...]
    other_code: str = ""  # a sentence about runs of other code than the rest
    search: Row = field(default_factory=dict)  # of a search: its key, metric and results

    def metrics(self, event_id: str) -> tuple[str, ...]:
        names = {run.metric for run in self.runs if run.event_id == event_id}
        return tuple(name for name in self.shown if name in names)

    @property
    def shown(self) -> tuple[str, ...]:
        """Return the metrics of the page; that of a search first."""
        return tuple(dict.fromkeys([*filter(None, [self.search.get("metric")]), *SWEPT]))


def summary_of(runs: Sequence[SweepRun]) -> Summary:
    """Return the summary of runs of one metric that differ by seed and repetition alone."""
    of_times = runs[0].metric.startswith(CONVERGENCE)
    count = sum(run.steady is False for run in runs)
    return summary([run.value for run in runs], [run.censored for run in runs], mean=not of_times, unsteady=count)


def collect(paths: SeriesPaths) -> SweepData:
    """Return the data of a sweep. Raises ConfigurationError if nothing was analysed."""
    document = read_json(paths.root / SWEEP_FILE)
    axes = tuple(SweepAxis(tuple(a["paths"]), tuple(map(tuple, a["steps"]))) for a in document["axes"])
    places = [tuple(axis.steps.index(tuple(point["values"][path] for path in axis.paths)) for axis in axes)
              for point in document["points"]]  # fmt: skip
    search = document.get("search", {})
    descriptions = {row["run_id"]: row for row in small_tables.rows(paths, "runs")}
    if not descriptions:
        raise ConfigurationError(f"{paths.root} has no tables; give the command of the sweep again")
    runs = [
        SweepRun(point_of(row["run_id"]), places[point_of(row["run_id"]) - 1], row["run_id"].partition(".")[2],
                 descriptions[row["run_id"]]["variant"], row["event_id"], row["metric"], row["value"],
                 bool(row["censored"]), row["steady"])
        for row in sweep_record.measurements(paths) if row["metric"] in (*SWEPT, search.get("metric"))
    ]  # fmt: skip
    return SweepData(
        experiment=document["experiment"],
        title=document["title"],
        sweep_id=paths.root.name,
        axes=axes,
        points=len(document["points"]),
        variants=tuple(document["variants"]),
        events=document["events"],
        runs=tuple(sorted(runs, key=lambda run: (run.point, run.variant, run.run_id, run.event_id, run.metric))),
        failures=tuple(document.get("failures", ())),
        other_code=_other_code(document, len(descriptions)),
        search=search,
    )


def _other_code(document: Row, runs: int) -> str:
    counts = document.get(OTHER_CODE, {})
    if not counts:
        return ""
    other, codes = sum(counts.values()), ", ".join(f"{number} of {words}" for words, number in counts.items())
    return (
        f"{other} of {runs} runs are of other code ({codes}) than the latest execution's ({document['code']})"
        f"{', so a curve may be of both' if is_mixed(counts, runs) else ''}; --new begins anew."
    )


@dataclass(frozen=True)
class CurveLayout:
    """The indices of the axes for x, lines and panels; `panels`: none, or several with a panel for each combination."""

    x: int
    lines: int | None
    panels: tuple[int, ...]


def layout(data: SweepData) -> CurveLayout:
    """Choose the axes; seeds are repetitions, unless nothing else is swept. The searched field is x."""
    axes = [place for place, axis in enumerate(data.axes) if not axis.is_replicate] or [0]
    x = max(
        axes,
        key=lambda place: (
            data.axes[place].paths[0] == data.search.get("key"),
            data.axes[place].is_numeric,
            len(data.axes[place].steps),
            -place,
        ),
    )
    rest = [place for place in axes if place != x]
    line_axes = [place for place in rest if len(data.axes[place].steps) <= MOST_LINES]
    lines = line_axes[0] if len(data.variants) == 1 and line_axes else None
    return CurveLayout(x, lines, tuple(place for place in rest if place != lines))


def panels_of(data: SweepData, axes: CurveLayout) -> list[tuple[int, ...]]:
    """Return the steps of the panels' axes for each panel."""
    return list(product(*(range(len(data.axes[place].steps)) for place in axes.panels)))


def chart(data: SweepData, event_id: str, name: str) -> Chart | None:
    """Return the chart; None if no run has the metric."""
    runs = [run for run in data.runs if (run.event_id, run.metric) == (event_id, name)]
    if not runs:
        return None
    axes, words, unit = layout(data), metric(name).words, metric(name).value_unit
    x = data.axes[axes.x]
    panels = []
    for steps in panels_of(data, axes)[:MOST_PANELS]:
        panel_runs = [run for run in runs if tuple(run.steps[axis] for axis in axes.panels) == steps]
        title = "\n".join(data.axes[axis].words(step) for axis, step in zip(axes.panels, steps, strict=True))
        panels.append(replace(panel(data, axes, panel_runs), title=title, y=ChartAxis(has_zero=True)))
    columns = min(ABREAST, len(panels))
    units = {"value": (words, unit), "low": ("from", unit), "high": ("to", unit), "at_least": ("to at least", unit)}
    first = PointColumn("x", x.name, kind="number" if x.is_numeric else "word")
    lines = len(data.variants) if axes.lines is None else len(data.axes[axes.lines].steps)
    return Chart(
        f"{words} in {unit} over {x.name}",
        (first, *(PointColumn(c.name, *units.get(c.name, (c.label, c.unit)), c.kind) for c in COLUMNS[1:])),
        panels, 3.3 if len(panels) == 1 else 2.3 * ceil(len(panels) / columns) + 0.4, columns, shares="xy",
        x_label=x.name, y_label=f"{words} ({unit})", legend="chart" if lines > 1 else "", title_size=8.5,
        tells_panels=len(panels) > 1,
    )  # fmt: skip


def panel(data: SweepData, axes: CurveLayout, runs: Sequence[SweepRun]) -> ChartPanel:
    """Return the lines of these runs over the field x."""
    x = data.axes[axes.x]
    lines = list(_lines(data, axes, runs))
    marks: list[Mark] = []
    for place, (name, colour, line_runs) in enumerate(lines):
        shift = 0.0 if x.is_numeric else SHIFT * (place - (len(lines) - 1) / 2)
        marks += _line(x, name, colour, line_runs, shift)
    if x.is_numeric:
        values: list[float] = [step[0] for step in x.steps]
        return ChartPanel(marks, x=ChartAxis(is_log=min(values) > 0 and max(values) / min(values) >= WIDE_RATIO))
    names = [str(step[0]) for step in x.steps]
    ticks = {float(i): name if len(name) <= 16 else f"{name[:15]}…" for i, name in enumerate(names)}
    return ChartPanel(marks, x=ChartAxis(ticks=ticks))


def _lines(
    data: SweepData, axes: CurveLayout, runs: Sequence[SweepRun]
) -> Iterator[tuple[str, str, dict[int, list[SweepRun]]]]:
    """Yield name, colour and runs by step of x."""
    if axes.lines is None:
        colours = style.colours(data.variants)
        groups = [(style.display_name(name), colours[name], [r for r in runs if r.variant == name])
                  for name in data.variants]  # fmt: skip
    else:
        axis = data.axes[axes.lines]
        groups = [(axis.words(step), style.PALETTE[step % len(style.PALETTE)],
                   [run for run in runs if run.steps[axes.lines] == step])
                  for step in range(len(axis.steps))]  # fmt: skip
    for name, colour, line_runs in groups:
        by_step: dict[int, list[SweepRun]] = {}
        for run in line_runs:
            by_step.setdefault(run.steps[axes.x], []).append(run)
        if by_step:
            yield name, colour, by_step


def _line(x: SweepAxis, name: str, colour: str, by_step: dict[int, list[SweepRun]], shift: float) -> list[Mark]:
    """Return marks; the range goes from the smallest run to the largest, with an arrow if that one is a lower bound."""
    middles, gapped, ranges, arrows, dots = [], [], [], [], []
    for step in sorted(by_step, key=lambda step: place_of(x, step)):
        place, total = place_of(x, step) + shift, summary_of(by_step[step])
        is_bound = total.value is None
        middle = total.largest if total.value is None else total.value
        of_middle: dict[str, Value] = {
            "x": value_of(x, step), "value": middle, "low": total.low, "high": total.high, "at_least": total.at_least,
            "runs": total.runs, "unreached": total.unreached, "not_steady": total.unsteady, "longer": is_bound,
        }  # fmt: skip
        middles.append(Spot(place, middle, of_middle))
        gapped.append(Spot(place, nan if total.value is None else total.value))
        if total.low is not None and total.largest > total.low:
            ranges.append(Spot(place, total.low, end=total.largest))
        if total.unreached:
            arrows.append(Spot(place, total.largest, is_bound=is_bound))
        for run in by_step[step]:
            values: dict[str, Value] = {"x": value_of(x, step), "value": run.value, "longer": run.censored}
            run_id = f"point {run.point}, {run.run_id}"
            dots.append(Spot(place, run.value, values, run_id, is_bound=run.censored))
    return [
        LineMark(gapped, colour, label=name, width=1.8, marker="o"),
        Whisker(ranges, colour, width=1.1, alpha=1.0),
        Dot(arrows, colour, marker=ARROW_UP, size=6),
        Mark(middles, colour, name, "middle of the runs"),
        Dot(dots, colour, name, "run", marker=".", size=3, alpha=0.45),
    ]


def place_of(x: SweepAxis, step: int) -> float:
    """Return the position on the axis: words are at whole numbers."""
    return float(x.steps[step][0] if x.is_numeric else step)


def value_of(x: SweepAxis, step: int) -> Value:
    value: float | str = x.steps[step][0]
    return value if x.is_numeric else str(value)
