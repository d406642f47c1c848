"""The logical graph of a topology (SP figure 5), left to right, with what was decided at the first event.

Drawn as SVG by hand: boxes, arrows and text need no plotting library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from analysis.figures import style
from topologies.layers import Cell, Layers, layers

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
    """What is written at components: changes, and how congested they were seen."""

    changes: Mapping[str, Sequence[Note]] = field(default_factory=dict)
    pressure: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Grid:
    """Where boxes go, and their sizes."""

    placed: Layers
    width: float
    pitch: float
    box: float
    height: float
    step: float
    left: float
    top: float

    def corner(self, cell: Cell) -> tuple[float, float]:
        return self.left + cell.column * self.pitch, self.top + cell.row * self.step


def placed(graph: Graph) -> Layers:
    return layers([node.name for node in graph.nodes], [(link.source, link.target) for link in graph.links])


def draw(graph: Graph, title: str, notes: Notes = Notes()) -> str:
    grid = grid_of(graph, placed(graph), notes)
    height = grid.corner(Cell(0, _lowest(grid.placed)))[1] + grid.height + _below(notes) + 40
    parts = [_arrowhead(), *(_link(grid, link) for link in graph.links)]
    parts += [_node(grid, node, notes) for node in graph.nodes]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {grid.width:.0f} {height:.0f}" '
        f'style="width:{grid.width:.0f}px;max-width:100%" '
        f'role="img" {FONT} font-size="12" fill="{INK}">'
        f"<title>{escape(title)}</title>{''.join(parts)}{_key(graph, notes, height - 16)}</svg>"
    )


def _rows(placed: Layers) -> list[float]:
    bends = [cell for cells in placed.bends.values() for cell in cells]
    return [cell.row for cell in (*placed.cells.values(), *bends)]


def _lowest(placed: Layers) -> float:
    return max(_rows(placed))


def grid_of(graph: Graph, placed: Layers, notes: Notes) -> Grid:
    columns = max(cell.column for cell in placed.cells.values()) + 1
    pitch = min(195.0, (WIDEST - 10) / columns)
    box = min(148.0, 0.76 * pitch)
    name_lines = max(len(_folded(node.name, box)) for node in graph.nodes)
    height = LINE * (name_lines + 2) + 12
    used = pitch * (columns - 1) + box
    width = max(NARROWEST, used + 10)
    step = height + _below(notes) + 22
    return Grid(placed, width, pitch, box, height, step, (width - used) / 2, 8.0 - min(_rows(placed)) * step)


def _below(notes: Notes) -> float:
    return LINE * max((len(found) for found in notes.changes.values()), default=0) + (LINE if notes.pressure else 0)


def _folded(name: str, width: float) -> list[str]:
    """The name in pieces that fit, broken after underscores."""
    lines = [""]
    for piece in re.findall(r"[^_]*_|[^_]+$", name):
        if lines[-1] and (len(lines[-1]) + len(piece)) * CHARACTER > width - 10:
            lines.append("")
        lines[-1] += piece
    return lines


def _node(grid: Grid, node: Node, notes: Notes) -> str:
    x, y = grid.corner(grid.placed.cells[node.name])
    congested = node.name in notes.pressure
    parts = [_shape(grid, node, x, y, WARM if congested else "#FFFFFF", 1.8 if congested else 1.1)]
    middle, names = x + grid.box / 2, _folded(node.name, grid.box)
    sizes = [f"{node.executors} executor{'' if node.executors == 1 else 's'}", f"{node.tasks} tasks"]
    top = y + (grid.height - LINE * (len(names) + 2)) / 2 - 4
    for i, text in enumerate([*names, *sizes]):
        weight = ' font-weight="600"' if i < len(names) else f' fill="{style.GREY}" font-size="11.5"'
        parts.append(_text(middle, top + LINE * (i + 1), text, weight))
    at = y + grid.height + LINE
    if congested:
        parts.append(_text(middle, at, _pressed(notes.pressure[node.name]), ' font-weight="600" font-size="11.5"'))
        at += LINE
    for note in notes.changes.get(node.name, ()):
        parts.append(_text(middle, at, note.text, f' fill="{note.colour}" font-weight="600"'))
        at += LINE
    return "".join(parts)


def _pressed(pressure: float) -> str:
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
    cells = grid.placed.path((link.source, link.target))
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


def _key(graph: Graph, notes: Notes, y: float) -> str:
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
