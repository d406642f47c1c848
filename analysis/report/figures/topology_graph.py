"""The logical graph of a topology (SP figure 5), left to right, with the decisions at the first event."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from analysis.report.figures import renderer, style
from analysis.report.figures.layers import GridCell, Layers, layer_graph
from analysis.report.figures.points import Drawing, PointColumn, PointTrace, Spot
from topologies.catalogue import ComponentSpec, EdgeSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes


WIDEST, NARROWEST = 1000.0, 600.0  # px; the narrowest holds the key
LINE = 15.0
SHUFFLE = "shuffle"
WARM = "#FFF0C2"
PX_PER_INCH, PT_PER_PX = 96.0, 0.75
STROKE = 1.3  # px, of an edge
ARROW = ((-8.0, -3.6), (1.1, 0.0), (-8.0, 3.6))  # around the end of an edge
CHARACTER = 7.3  # of the widest font named, at 12 px


@dataclass(frozen=True)
class Graph:
    """The graph of a run, whose record may have sinks without edges, or of a shipped topology."""

    components: tuple[ComponentSpec, ...]
    edges: tuple[EdgeSpec, ...]
    sinks: tuple[str, ...]


@dataclass(frozen=True)
class Note:
    """A line under a component, in a variant's colour."""

    text: str
    colour: str


@dataclass(frozen=True)
class Notes:
    """Text at components: changes, and by how much the component was congested."""

    changes: Mapping[str, Sequence[Note]] = field(default_factory=dict)
    pressure: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Grid:
    """The positions and sizes of boxes."""

    layers: Layers
    width: float
    pitch: float
    box: float
    height: float
    step: float
    left: float
    top: float

    def corner(self, cell: GridCell) -> tuple[float, float]:
        return self.left + cell.column * self.pitch, self.top + cell.row * self.step


def layout(graph: Graph) -> Layers:
    return layer_graph([node.name for node in graph.components], [(link.source, link.target) for link in graph.edges])


def _rows(layers: Layers) -> list[float]:
    bends = [cell for cells in layers.bends.values() for cell in cells]
    return [cell.row for cell in (*layers.cells.values(), *bends)]


def grid_of(graph: Graph, layers: Layers, notes: Notes) -> Grid:
    columns = max(cell.column for cell in layers.cells.values()) + 1
    pitch = min(195.0, (WIDEST - 10) / columns)
    box = min(148.0, 0.76 * pitch)
    name_lines = max(len(_name_lines(node.name, box)) for node in graph.components)
    height = LINE * (name_lines + 2) + 12
    columns_width = pitch * (columns - 1) + box
    width = max(NARROWEST, columns_width + 10)
    step = height + _notes_height(notes) + 22
    return Grid(layers, width, pitch, box, height, step, (width - columns_width) / 2, 8.0 - min(_rows(layers)) * step)


def _notes_height(notes: Notes) -> float:
    return LINE * max((len(lines) for lines in notes.changes.values()), default=0) + (LINE if notes.pressure else 0)


def _name_lines(name: str, width: float) -> list[str]:
    """Break the name after underscores into pieces that fit."""
    lines = [""]
    for piece in re.findall(r"[^_]*_|[^_]+$", name):
        if lines[-1] and (len(lines[-1]) + len(piece)) * CHARACTER > width - 10:
            lines.append("")
        lines[-1] += piece
    return lines


def _draw_node(axes: Axes, grid: Grid, node: ComponentSpec, notes: Notes, is_sink: bool) -> None:
    x, y = grid.corner(grid.layers.cells[node.name])
    congested = node.name in notes.pressure
    radius = grid.height / 2 if node.kind == "spout" else 3
    _box(axes, x, y, grid.box, grid.height, radius, WARM if congested else "#FFFFFF", 1.8 if congested else 1.1)
    if is_sink:
        _box(axes, x + 3, y + 3, grid.box - 6, grid.height - 6, 1, "none", 0.9)
    middle, names = x + grid.box / 2, _name_lines(node.name, grid.box)
    top = y + (grid.height - LINE * (len(names) + 2)) / 2 - 4
    sizes = [f"{node.executors} executor{'' if node.executors == 1 else 's'}", f"{node.tasks} tasks"]
    for i, name in enumerate(names):
        _text(axes, middle, top + LINE * (i + 1), name, is_bold=True)
    for i, size in enumerate(sizes, start=len(names)):
        _text(axes, middle, top + LINE * (i + 1), size, style.GREY, size_px=11.5)
    note_lines = [*notes.changes.get(node.name, ())]
    if congested:
        pressure = notes.pressure[node.name]
        text = f"input {pressure:.1f} × processed" if pressure < 1000 else "input, none processed"
        note_lines.insert(0, Note(text, style.INK))
    for i, note in enumerate(note_lines):
        _text(axes, middle, y + grid.height + LINE * (i + 1), note.text, note.colour, is_bold=True)


def _box(
    axes: Axes, x: float, y: float, width: float, height: float, radius: float, fill: str, stroke: float
) -> None:  # fmt: skip
    """Draw a spout round, a sink with a double border."""
    from matplotlib.patches import FancyBboxPatch

    corners = f"round,pad=0,rounding_size={min(radius, width / 2, height / 2)}"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=corners, facecolor=fill, lw=stroke * PT_PER_PX,
                                  edgecolor=style.INK))  # fmt: skip


def _text(
    axes: Axes, x: float, y: float, text: str, colour: str = style.INK, *, is_bold: bool = False, size_px: float = 12.0,
    anchor: str = "center",
) -> None:  # fmt: skip
    axes.text(x, y, text, ha=anchor, va="baseline", fontsize=size_px * PT_PER_PX, color=colour,
              fontweight="bold" if is_bold else "normal")  # fmt: skip


def _draw_link(axes: Axes, grid: Grid, link: EdgeSpec) -> None:
    """Draw from right side to left side, straight across the columns that the edge passes."""
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path

    cells = grid.layers.path((link.source, link.target))
    corners = [grid.corner(cell) for cell in cells]
    half = grid.height / 2
    places, codes = [(corners[0][0] + grid.box, corners[0][1] + half)], [Path.MOVETO]
    for (x1, y1), (x2, y2) in pairwise(corners):
        start, end = x1 + grid.box, x2 - (2 if (x2, y2) == corners[-1] else 0)
        bend = (end - start) / 2
        places += [(start, y1 + half), (start + bend, y1 + half), (end - bend, y2 + half), (end, y2 + half)]
        codes += [Path.LINETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    dashes = "-" if link.grouping == SHUFFLE else (0, (5 / STROKE, 3 / STROKE))
    axes.add_patch(PathPatch(Path(places, codes), fill=False, lw=STROKE * PT_PER_PX, edgecolor=style.GREY, ls=dashes))
    tip = places[-1]
    axes.add_patch(Polygon([(tip[0] + x, tip[1] + y) for x, y in ARROW], facecolor=style.GREY, lw=0))


def _draw_key(axes: Axes, graph: Graph, notes: Notes, y: float) -> None:
    """Explain the shapes in one line."""
    entries = [(9.0, "#FFFFFF", False, "spout"), (2.0, "#FFFFFF", True, "sink")]
    entries += [(2.0, WARM, False, "congested at the event")] if notes.pressure else []
    x = 4.0
    for radius, fill, is_double, word in entries:
        _box(axes, x, y - 10, 28, 16, radius, fill, 1.1)
        if is_double:
            _box(axes, x + 2.5, y - 7.5, 23, 11, 1, "none", 0.9)
        _text(axes, x + 34, y + 2, word, style.GREY, anchor="left")
        x += 50 + 6.4 * len(word)
    groups = sorted({link.grouping for link in graph.edges} - {SHUFFLE})
    words = f"dashed: {' or '.join(groups)} grouping, others {SHUFFLE}" if groups else f"all edges: {SHUFFLE} grouping"
    _text(axes, x, y + 2, words, style.GREY, anchor="left")


NO_NOTES = Notes()
COLUMNS = (
    PointColumn("kind", "kind", kind="word"),
    PointColumn("executors", "executors"),
    PointColumn("tasks", "tasks"),
    PointColumn("input_over_processed", "input over processing rate"),
    PointColumn("changes", "at the first event", kind="word"),
    PointColumn("target", "to", kind="word"),
    PointColumn("grouping", "grouping", kind="word"),
)


def graph_drawing(graph: Graph, title: str, notes: Notes = NO_NOTES) -> Drawing:
    """Draw the graph in the size of its boxes: a small one is not enlarged to the width of the page."""
    grid = grid_of(graph, layout(graph), notes)
    height = grid.corner(GridCell(0, max(_rows(grid.layers))))[1] + grid.height + _notes_height(notes) + 40
    kinds = {node.name: "sink" if node.name in graph.sinks else node.kind for node in graph.components}
    traces = [
        *(PointTrace(node.name, kinds[node.name], style.INK, (_node_spot(grid, node,
         notes),)) for node in graph.components),
        *(PointTrace(link.source, "edge", style.GREY, (_link_spot(grid, link),)) for link in graph.edges),
    ]  # fmt: skip
    with renderer.canvas(height / PX_PER_INCH, 1, 1, grid.width / PX_PER_INCH) as (figure, (axes,)):
        axes.set_position((0, 0, 1, 1))
        axes.set(xlim=(0, grid.width), ylim=(height, 0))
        axes.set_axis_off()
        for link in graph.edges:
            _draw_link(axes, grid, link)
        for node in graph.components:
            _draw_node(axes, grid, node, notes, node.name in graph.sinks)
        _draw_key(axes, graph, notes, height - 16)
        return renderer.forms(
            figure, title, COLUMNS,
            lambda: (replace(trace, spots=renderer.on_svg(axes, trace.spots)) for trace in traces),
            "component", width_px=grid.width,
        )  # fmt: skip


def _node_spot(grid: Grid, node: ComponentSpec, notes: Notes) -> Spot:
    x, y = grid.corner(grid.layers.cells[node.name])
    changes = "; ".join(note.text for note in notes.changes.get(node.name, ()))
    return Spot(x + grid.box / 2, y + grid.height / 2, {
        "kind": node.kind, "executors": node.executors, "tasks": node.tasks,
        "input_over_processed": notes.pressure.get(node.name), "changes": changes or None,
    })  # fmt: skip


def _link_spot(grid: Grid, link: EdgeSpec) -> Spot:
    """Return a spot in the middle of the edge's first bend."""
    (x1, y1), (x2, y2) = (grid.corner(cell) for cell in grid.layers.path((link.source, link.target))[:2])
    values = {"target": link.target, "grouping": link.grouping}
    return Spot((x1 + grid.box + x2) / 2, (y1 + y2 + grid.height) / 2, values)
