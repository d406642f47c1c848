"""The logical graph of a topology (SP figure 5), left to right, with what was decided at the first event: as SVG, as
PDF, and with what its boxes and edges say.

The SVG is written by hand: boxes, arrows and text need no plotting library. The PDF is that SVG, which knows only
rectangles, text and edges, drawn again by matplotlib.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from analysis.report.figures import renderer, style
from analysis.report.figures.points import Column, Drawing, Spot, Trace
from topologies.layers import Cell, Layers, layer_graph

if TYPE_CHECKING:
    from matplotlib.axes import Axes


WIDEST, NARROWEST = 1000.0, 540.0  # px; the narrowest holds the key
LINE = 15.0
SHUFFLE = "shuffle"
FONT = "font-family=\"'Source Sans 3', Helvetica, Arial, 'DejaVu Sans', sans-serif\""
INK, WARM = "#222222", "#FFF0C2"
CHARACTER = 7.3  # of the widest font named, at 12 px


@dataclass(frozen=True)
class Node:
    name: str
    kind: str  # spout or bolt
    sink: bool
    tasks: int
    executors: int


@dataclass(frozen=True)
class Link:
    source: str
    target: str
    grouping: str


@dataclass(frozen=True)
class Graph:
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]


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
    """Where boxes go, and their sizes."""

    layers: Layers
    width: float
    pitch: float
    box: float
    height: float
    step: float
    left: float
    top: float

    def corner(self, cell: Cell) -> tuple[float, float]:
        return self.left + cell.column * self.pitch, self.top + cell.row * self.step


def layout(graph: Graph) -> Layers:
    return layer_graph([node.name for node in graph.nodes], [(link.source, link.target) for link in graph.links])


def draw_svg(graph: Graph, title: str, notes: Notes = Notes()) -> str:
    grid = grid_of(graph, layout(graph), notes)
    height = grid.corner(Cell(0, _lowest(grid.layers)))[1] + grid.height + _notes_height(notes) + 40
    parts = [_arrowhead(), *(_link(grid, link) for link in graph.links)]
    parts += [_node(grid, node, notes) for node in graph.nodes]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {grid.width:.0f} {height:.0f}" '
        f'style="width:{grid.width:.0f}px;max-width:100%" '
        f'role="img" {FONT} font-size="12" fill="{INK}">'
        f"<title>{escape(title)}</title>{''.join(parts)}{_legend(graph, notes, height - 16)}</svg>"
    )


def _rows(layers: Layers) -> list[float]:
    bends = [cell for cells in layers.bends.values() for cell in cells]
    return [cell.row for cell in (*layers.cells.values(), *bends)]


def _lowest(layers: Layers) -> float:
    return max(_rows(layers))


def grid_of(graph: Graph, layers: Layers, notes: Notes) -> Grid:
    columns = max(cell.column for cell in layers.cells.values()) + 1
    pitch = min(195.0, (WIDEST - 10) / columns)
    box = min(148.0, 0.76 * pitch)
    name_lines = max(len(_name_lines(node.name, box)) for node in graph.nodes)
    height = LINE * (name_lines + 2) + 12
    used = pitch * (columns - 1) + box
    width = max(NARROWEST, used + 10)
    step = height + _notes_height(notes) + 22
    return Grid(layers, width, pitch, box, height, step, (width - used) / 2, 8.0 - min(_rows(layers)) * step)


def _notes_height(notes: Notes) -> float:
    return LINE * max((len(lines) for lines in notes.changes.values()), default=0) + (LINE if notes.pressure else 0)


def _name_lines(name: str, width: float) -> list[str]:
    """The name in pieces that fit, broken after underscores."""
    lines = [""]
    for piece in re.findall(r"[^_]*_|[^_]+$", name):
        if lines[-1] and (len(lines[-1]) + len(piece)) * CHARACTER > width - 10:
            lines.append("")
        lines[-1] += piece
    return lines


def _node(grid: Grid, node: Node, notes: Notes) -> str:
    x, y = grid.corner(grid.layers.cells[node.name])
    congested = node.name in notes.pressure
    parts = [_shape(grid, node, x, y, WARM if congested else "#FFFFFF", 1.8 if congested else 1.1)]
    middle, names = x + grid.box / 2, _name_lines(node.name, grid.box)
    sizes = [f"{node.executors} executor{'' if node.executors == 1 else 's'}", f"{node.tasks} tasks"]
    top = y + (grid.height - LINE * (len(names) + 2)) / 2 - 4
    for i, text in enumerate([*names, *sizes]):
        weight = ' font-weight="600"' if i < len(names) else f' fill="{style.GREY}" font-size="11.5"'
        parts.append(_text(middle, top + LINE * (i + 1), text, weight))
    at = y + grid.height + LINE
    if congested:
        parts.append(
            _text(middle, at, _pressure_text(notes.pressure[node.name]), ' font-weight="600" font-size="11.5"')
        )
        at += LINE
    for note in notes.changes.get(node.name, ()):
        parts.append(_text(middle, at, note.text, f' fill="{note.colour}" font-weight="600"'))
        at += LINE
    return "".join(parts)


def _pressure_text(pressure: float) -> str:
    return f"input {pressure:.1f} × processed" if pressure < 1000 else "input, none processed"


def _shape(grid: Grid, node: Node, x: float, y: float, fill: str, stroke: float) -> str:
    """A spout is round, a sink has a double border."""
    radius = grid.height / 2 if node.kind == "spout" else 3
    box = _rectangle(x, y, grid.box, grid.height, radius, fill, stroke)
    return box + _rectangle(x + 3, y + 3, grid.box - 6, grid.height - 6, 1, "none", 0.9) if node.sink else box


def _rectangle(x: float, y: float, width: float, height: float, radius: float, fill: str, stroke: float) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:.1f}" fill="{fill}" '
        f'stroke="{INK}" stroke-width="{stroke}"/>'
    )


def _text(x: float, y: float, text: str, more: str = "", anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def _link(grid: Grid, link: Link) -> str:
    """From right side to left side, straight across the columns that the edge passes."""
    cells = grid.layers.path((link.source, link.target))
    corners = [grid.corner(cell) for cell in cells]
    half = grid.height / 2
    path = f"M{corners[0][0] + grid.box:.1f} {corners[0][1] + half:.1f}"
    for (x1, y1), (x2, y2) in pairwise(corners):
        start, end = x1 + grid.box, x2 - (2 if (x2, y2) == corners[-1] else 0)
        bend = (end - start) / 2
        path += f"H{start:.1f}C{start + bend:.1f} {y1 + half:.1f} "
        path += f"{end - bend:.1f} {y2 + half:.1f} {end:.1f} {y2 + half:.1f}"
    dashes = "" if link.grouping == SHUFFLE else ' stroke-dasharray="5 3"'
    return f'<path d="{path}" fill="none" stroke="{style.GREY}" stroke-width="1.3"{dashes} marker-end="url(#arrow)"/>'


def _arrowhead() -> str:
    return (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0.8L8 4L0 7.2Z" fill="{style.GREY}"/></marker></defs>'
    )


def _legend(graph: Graph, notes: Notes, y: float) -> str:
    """What the shapes mean, in one line."""
    entries = [(9.0, "#FFFFFF", False, "spout"), (2.0, "#FFFFFF", True, "sink")]
    entries += [(2.0, WARM, False, "congested at the event")] if notes.pressure else []
    parts, x = [], 4.0
    for radius, fill, double, word in entries:
        parts.append(_rectangle(x, y - 10, 28, 16, radius, fill, 1.1))
        parts.append(_rectangle(x + 2.5, y - 7.5, 23, 11, 1, "none", 0.9) if double else "")
        parts.append(_text(x + 34, y + 2, word, f' fill="{style.GREY}"', "start"))
        x += 50 + 6.4 * len(word)
    others = sorted({link.grouping for link in graph.links} - {SHUFFLE})
    words = f"dashed: {' or '.join(others)} grouping, others {SHUFFLE}" if others else f"all edges: {SHUFFLE} grouping"
    return "".join([*parts, _text(x, y + 2, words, f' fill="{style.GREY}"', "start")])


PX_PER_INCH = 96.0
PT_PER_PX = 0.75
PDF_ANCHORS = {"start": "left", "middle": "center", "end": "right"}
PDF_ARROW = ((-7.0, -3.2), (1.0, 0.0), (-7.0, 3.2))  # graph.draw's marker around the end of its edge, in stroke widths
PDF_ARROW_SCALE = 7.0 / 8.0
PATH_WORD = re.compile(r"[MHC]|-?\d+(?:\.\d+)?")


def draw_pdf(svg: str, title: str) -> bytes:
    """What graph.draw has drawn, at the same place and size."""
    root = ET.fromstring(svg)
    width, height = (float(number) for number in root.attrib["viewBox"].split()[2:])
    inherited = {"font-size": root.attrib["font-size"], "fill": root.attrib["fill"]}
    with renderer.canvas(height / PX_PER_INCH, 1, 1, width / PX_PER_INCH) as (figure, (axes,)):
        axes.set_position((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.set_axis_off()
        for number, element in enumerate(root):
            draw = PDF_ELEMENTS.get(element.tag.rpartition("}")[2])
            if draw is not None:
                draw(axes, inherited | element.attrib | {"text": element.text or ""}, number + 1)
        into = io.BytesIO()
        figure.savefig(into, format="pdf", metadata={"Title": title, "CreationDate": None})
        return into.getvalue()


def _pdf_rectangle(axes: Axes, has: dict[str, str], order: int) -> None:
    from matplotlib.patches import FancyBboxPatch

    x, y, width, height, radius = (float(has[name]) for name in ("x", "y", "width", "height", "rx"))
    radius = min(radius, width / 2, height / 2)
    corners = f"round,pad=0,rounding_size={radius}" if radius else "square,pad=0"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=corners, facecolor=has["fill"], lw=_stroke_pt(has),
                                  edgecolor=has["stroke"], zorder=order))  # fmt: skip


def _pdf_text(axes: Axes, has: dict[str, str], order: int) -> None:
    axes.text(
        float(has["x"]), float(has["y"]), has["text"], ha=PDF_ANCHORS[has["text-anchor"]], va="baseline",
        fontsize=float(has["font-size"]) * PT_PER_PX, color=has["fill"],
        fontweight="bold" if has.get("font-weight") == "600" else "normal", zorder=order,
    )  # fmt: skip


def _pdf_edge(axes: Axes, has: dict[str, str], order: int) -> None:
    """Commands M, H and C, absolute; every edge ends to the right, with an arrowhead."""
    from matplotlib.patches import PathPatch, Polygon

    vertices, codes = _path_vertices(has["d"])
    stroke = float(has["stroke-width"])
    dashes = tuple(float(part) / stroke for part in has.get("stroke-dasharray", "").split())
    axes.add_patch(PathPatch(_pdf_path(vertices, codes), fill=False, lw=_stroke_pt(has), edgecolor=has["stroke"],
                             ls=(0, dashes) if dashes else "-", zorder=order))  # fmt: skip
    end, scale = vertices[-1], stroke * PDF_ARROW_SCALE
    head = [(end[0] + x * scale, end[1] + y * scale) for x, y in PDF_ARROW]
    axes.add_patch(Polygon(head, facecolor=has["stroke"], lw=0, zorder=order))


def _pdf_path(vertices: list[tuple[float, float]], codes: list[int]) -> Any:
    from matplotlib.path import Path as Line

    return Line(vertices, codes)


def _path_vertices(commands: str) -> tuple[list[tuple[float, float]], list[int]]:
    """With matplotlib's codes: 1 go to, 2 line to, 4 a point of a Bézier curve."""
    vertices: list[tuple[float, float]] = []
    codes: list[int] = []
    words = PATH_WORD.findall(commands)
    while words:
        command = words.pop(0)
        if command == "H":
            points, code = [(float(words.pop(0)), vertices[-1][1])], 2
        else:
            number = 1 if command == "M" else 3
            points, code = [(float(words.pop(0)), float(words.pop(0))) for _ in range(number)], 1 if number == 1 else 4
        vertices += points
        codes += [code] * len(points)
    return vertices, codes


def _stroke_pt(has: dict[str, str]) -> float:
    return float(has["stroke-width"]) * PT_PER_PX


PDF_ELEMENTS = {"rect": _pdf_rectangle, "text": _pdf_text, "path": _pdf_edge}


NO_NOTES = Notes()
COLUMNS = (
    Column("kind", "kind", kind="word"),
    Column("executors", "executors"),
    Column("tasks", "tasks"),
    Column("input_over_processed", "input over processing rate"),
    Column("changes", "at the first event", kind="word"),
    Column("target", "to", kind="word"),
    Column("grouping", "grouping", kind="word"),
)


def graph_drawing(of: Graph, title: str, notes: Notes = NO_NOTES) -> Drawing:
    svg = draw_svg(of, title, notes)
    grid = grid_of(of, layout(of), notes)
    traces = (
        *(Trace(node.name, "sink" if node.sink else node.kind, INK, (_node_spot(grid, node, notes),))
          for node in of.nodes),
        *(Trace(link.source, "edge", style.GREY, (_link_spot(grid, link),)) for link in of.links),
    )  # fmt: skip
    return Drawing(svg, draw_pdf(svg, title), COLUMNS, traces, name_column="component")


def _node_spot(grid: Grid, node: Node, notes: Notes) -> Spot:
    x, y = grid.corner(grid.layers.cells[node.name])
    changes = "; ".join(note.text for note in notes.changes.get(node.name, ()))
    return Spot(x + grid.box / 2, y + grid.height / 2, {
        "kind": node.kind, "executors": node.executors, "tasks": node.tasks,
        "input_over_processed": notes.pressure.get(node.name), "changes": changes or None,
    })  # fmt: skip


def _link_spot(grid: Grid, link: Link) -> Spot:
    """In the middle of the first bend that it takes."""
    (x1, y1), (x2, y2) = (grid.corner(cell) for cell in grid.layers.path((link.source, link.target))[:2])
    values = {"target": link.target, "grouping": link.grouping}
    return Spot((x1 + grid.box + x2) / 2, (y1 + y2 + grid.height) / 2, values)
