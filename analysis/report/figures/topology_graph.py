"""The logical graph of a topology (SP figure 5), left to right, with the decisions at the first event.

Columns by longest path from the sources, rows by repeated barycentres of the neighbours (Sugiyama, Tagawa and Toda,
"Methods for visual understanding of hierarchical system structures", 1981). The same graph is always drawn the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from analysis.report.figures import renderer, style
from analysis.report.figures.points import Drawing, PointTrace, Spot, point_columns
from topologies.catalogue import ComponentSpec, EdgeSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Edge = tuple[str, str]
_Vertex = str | tuple[str, str, int]  # a component, or the place where an edge passes through a column
_Columns = list[list[_Vertex]]
SWEEPS = 8  # in both directions; the best of all orders is kept
WIDEST, NARROWEST = 1000.0, 600.0  # px; the narrowest holds the key
LINE = 15.0
SHUFFLE = "shuffle"
WARM = "#FFF0C2"
PX_PER_INCH, PT_PER_PX = 96.0, 0.75
STROKE = 1.3  # px, of an edge
ARROW = ((-8.0, -3.6), (1.1, 0.0), (-8.0, 3.6))  # around the end of an edge
CHARACTER = 7.3  # of the widest font named, at 12 px
COLUMNS = point_columns(
    "kind /word; executors; tasks; input_over_processed = input over processing rate;"
    " changes = at the first event /word; target = to /word; grouping /word"
)


@dataclass(frozen=True)
class GridCell:
    """A position; `column` counts from 0 at the sources; `row` is centred: a column of one is at 0, of two at -0.5 and
    0.5."""

    column: int
    row: float


@dataclass(frozen=True)
class Layers:
    cells: Mapping[str, GridCell]  # component → its cell, in the order of the components
    bends: Mapping[Edge, tuple[GridCell, ...]]  # edge over several columns → its cells in the columns between

    def rows(self) -> list[float]:
        return [cell.row for cells in (self.cells.values(), *self.bends.values()) for cell in cells]

    def path(self, edge: Edge) -> tuple[GridCell, ...]:
        """Return the cells to draw an edge through, both ends included."""
        return (self.cells[edge[0]], *self.bends.get(edge, ()), self.cells[edge[1]])

    def crossings(self, edges: Iterable[Edge]) -> int:
        """Count the pairs of edges that cross between neighbouring columns."""
        pieces = [piece for edge in dict.fromkeys(edges) for piece in pairwise(self.path(edge))]
        return _count_crossings([(a.column, a.row, b.row) for a, b in pieces if b.column == a.column + 1])


def layer_graph(components: Sequence[str], edges: Iterable[Edge]) -> Layers:
    """Return a cell for every component. An edge that closes a cycle leads back and has no bends."""
    distinct_edges = list(dict.fromkeys(edges))
    column_of = dict.fromkeys(components, 0)
    acyclic = _without_cycles(components, distinct_edges)
    for _ in components:  # to the longest path
        for source, target in acyclic:
            column_of[target] = max(column_of[target], column_of[source] + 1)
    columns: _Columns = [[] for _ in range(1 + max(column_of.values(), default=-1))]
    for name in components:
        columns[column_of[name]].append(name)
    threads: dict[Edge, list[_Vertex]] = {}
    for source, target in distinct_edges:
        bends = [(source, target, column) for column in range(column_of[source] + 1, column_of[target])]
        threads[source, target] = [source, *bends, target]
        for bend in bends:
            columns[bend[2]].append(bend)
    links = [
        link
        for (source, target), thread in threads.items() if column_of[source] < column_of[target]
        for link in pairwise(thread)
    ]  # fmt: skip
    orders = [columns]
    for sweep in range(SWEEPS):
        orders.append(_sweep(orders[-1], links, backwards=sweep % 2 == 1))

    def crossings(order: _Columns) -> int:
        cells = _cells(order)
        return _count_crossings([(cells[a].column, cells[a].row, cells[b].row) for a, b in links])

    cells = _cells(min(orders, key=crossings))
    bent = {edge: tuple(cells[vertex] for vertex in thread[1:-1]) for edge, thread in threads.items() if thread[2:]}
    return Layers({name: cells[name] for name in components}, bent)


def _without_cycles(components: Sequence[str], edges: Sequence[Edge]) -> list[Edge]:
    """Return the edges without those that close a cycle on a walk from the sources."""
    after = {name: [target for source, target in edges if source == name] for name in components}
    heads = {target for _, target in edges}
    selection: list[Edge] = []
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        if name in done:
            return
        for target in after[name]:
            if target not in (*way, name):
                selection.append((name, target))
                visit(target, (*way, name))
        done.add(name)

    for root in sorted(components, key=lambda name: name in heads):
        visit(root, ())
    return selection


def _sweep(columns: _Columns, links: Sequence[tuple[_Vertex, _Vertex]], backwards: bool) -> _Columns:
    """Sort each column by the mean row of its neighbours in the column before it (after it, if backwards)."""
    neighbours: dict[_Vertex, list[_Vertex]] = {}
    for a, b in links:
        neighbours.setdefault(a if backwards else b, []).append(b if backwards else a)
    result = list(columns)
    for column in reversed(range(len(columns) - 1)) if backwards else range(1, len(columns)):
        cells = _cells(result)
        result[column] = sorted(
            result[column], key=lambda vertex: fmean(cells[each].row for each in neighbours.get(vertex, [vertex]))
        )
    return result


def _cells(columns: _Columns) -> dict[_Vertex, GridCell]:
    return {
        vertex: GridCell(number, row - (len(column) - 1) / 2)
        for number, column in enumerate(columns)
        for row, vertex in enumerate(column)
    }


def _count_crossings(pieces: Sequence[tuple[int, float, float]]) -> int:
    """Count pairs of (column, row there, row in the next column) that change sides."""
    return sum(p == q and (a - c) * (b - d) < 0 for (p, a, b), (q, c, d) in combinations(pieces, 2))


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


def grid_of(graph: Graph, layers: Layers, notes: Notes) -> Grid:
    columns = max(cell.column for cell in layers.cells.values()) + 1
    pitch = min(195.0, (WIDEST - 10) / columns)
    box = min(148.0, 0.76 * pitch)
    name_lines = max(len(_name_lines(node.name, box)) for node in graph.components)
    height = LINE * (name_lines + 2) + 12
    columns_width = pitch * (columns - 1) + box
    width = max(NARROWEST, columns_width + 10)
    step = height + _notes_height(notes) + 22
    return Grid(layers, width, pitch, box, height, step, (width - columns_width) / 2, 8.0 - min(layers.rows()) * step)


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


def _box(
    axes: Axes, x: float, y: float, width: float, height: float, radius: float, fill: str, stroke: float,
    inner: float = 0,
) -> None:  # fmt: skip
    """Draw a spout round, a sink with a second border `inner` px inside."""
    from matplotlib.patches import FancyBboxPatch

    corners = f"round,pad=0,rounding_size={min(radius, width / 2, height / 2)}"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=corners, facecolor=fill, lw=stroke * PT_PER_PX,
                                  edgecolor=style.INK))  # fmt: skip
    if inner:
        _box(axes, x + inner, y + inner, width - 2 * inner, height - 2 * inner, 1, "none", 0.9)


def _text(
    axes: Axes, x: float, y: float, text: str, colour: str = style.INK, *, is_bold: bool = False, size_px: float = 12.0,
    anchor: str = "center",
) -> None:  # fmt: skip
    axes.text(x, y, text, ha=anchor, va="baseline", fontsize=size_px * PT_PER_PX, color=colour,
              fontweight="bold" if is_bold else "normal")  # fmt: skip


def _draw_node(axes: Axes, grid: Grid, node: ComponentSpec, notes: Notes, is_sink: bool) -> Spot:
    """Return the spot in its middle."""
    x, y = grid.corner(grid.layers.cells[node.name])
    pressure, changes = notes.pressure.get(node.name), notes.changes.get(node.name, ())
    fill, stroke = ("#FFFFFF", 1.1) if pressure is None else (WARM, 1.8)
    radius = grid.height / 2 if node.kind == "spout" else 3
    _box(axes, x, y, grid.box, grid.height, radius, fill, stroke, 3 if is_sink else 0)
    middle, names = x + grid.box / 2, _name_lines(node.name, grid.box)
    top = y + (grid.height - LINE * (len(names) + 2)) / 2 - 4
    for i, name in enumerate(names, start=1):
        _text(axes, middle, top + LINE * i, name, is_bold=True)
    sizes = (f"{node.executors} executor{'' if node.executors == 1 else 's'}", f"{node.tasks} tasks")
    for i, size in enumerate(sizes, start=len(names) + 1):
        _text(axes, middle, top + LINE * i, size, style.GREY, size_px=11.5)
    note_lines = [*changes]
    if pressure is not None:
        text = f"input {pressure:.1f} × processed" if pressure < 1000 else "input, none processed"
        note_lines.insert(0, Note(text, style.INK))
    for i, note in enumerate(note_lines, start=1):
        _text(axes, middle, y + grid.height + LINE * i, note.text, note.colour, is_bold=True)
    return Spot(middle, y + grid.height / 2, {
        "kind": node.kind, "executors": node.executors, "tasks": node.tasks, "input_over_processed": pressure,
        "changes": "; ".join(note.text for note in changes) or None,
    })  # fmt: skip


def _draw_link(axes: Axes, grid: Grid, link: EdgeSpec) -> Spot:
    """Draw from right side to left side, straight across the columns that the edge passes; return the spot in the
    middle of its first bend."""
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path

    corners = [grid.corner(cell) for cell in grid.layers.path((link.source, link.target))]
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
    (x1, y1), (x2, y2) = corners[:2]
    values = {"target": link.target, "grouping": link.grouping}
    return Spot((x1 + grid.box + x2) / 2, (y1 + y2 + grid.height) / 2, values)


def _draw_key(axes: Axes, graph: Graph, notes: Notes, y: float) -> None:
    """Explain the shapes in one line."""
    entries = [(9.0, "#FFFFFF", 0.0, "spout"), (2.0, "#FFFFFF", 2.5, "sink")]
    entries += [(2.0, WARM, 0.0, "congested at the event")] if notes.pressure else []
    x = 4.0
    for radius, fill, inner, word in entries:
        _box(axes, x, y - 10, 28, 16, radius, fill, 1.1, inner)
        _text(axes, x + 34, y + 2, word, style.GREY, anchor="left")
        x += 50 + 6.4 * len(word)
    groups = sorted({link.grouping for link in graph.edges} - {SHUFFLE})
    words = f"dashed: {' or '.join(groups)} grouping, others {SHUFFLE}" if groups else f"all edges: {SHUFFLE} grouping"
    _text(axes, x, y + 2, words, style.GREY, anchor="left")


NO_NOTES = Notes()


def graph_drawing(graph: Graph, title: str, notes: Notes = NO_NOTES) -> Drawing:
    """Draw the graph in the size of its boxes: a small one is not enlarged to the width of the page."""
    grid = grid_of(graph, layout(graph), notes)
    height = grid.corner(GridCell(0, max(grid.layers.rows())))[1] + grid.height + _notes_height(notes) + 40
    with renderer.canvas(height / PX_PER_INCH, 1, 1, grid.width / PX_PER_INCH) as (figure, (axes,)):
        axes.set_position((0, 0, 1, 1))
        axes.set(xlim=(0, grid.width), ylim=(height, 0))
        axes.set_axis_off()
        link_spots = [(link.source, "edge", style.GREY, _draw_link(axes, grid, link)) for link in graph.edges]
        spots = [
            (node.name, "sink" if node.name in graph.sinks else node.kind, style.INK,
             _draw_node(axes, grid, node, notes, node.name in graph.sinks))
            for node in graph.components
        ]  # fmt: skip
        _draw_key(axes, graph, notes, height - 16)

        def traces() -> Iterator[PointTrace]:
            for name, mark, colour, spot in (*spots, *link_spots):
                yield PointTrace(name, mark, colour, renderer.on_svg(axes, [spot]))

        return renderer.forms(figure, title, COLUMNS, traces, "component", width_px=grid.width)
