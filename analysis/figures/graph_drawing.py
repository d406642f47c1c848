"""The logical graph in all the forms of a figure: SVG, PDF, and what its boxes and edges say."""

from __future__ import annotations

from analysis.figures import graph, graph_pdf, style
from analysis.figures.graph import Graph, Grid, Link, Node, Notes
from analysis.figures.points import Column, Drawing, Spot, Trace

NOTHING = Notes()
COLUMNS = (
    Column("kind", "kind", kind="word"),
    Column("executors", "executors"),
    Column("tasks", "tasks"),
    Column("input_over_processed", "input over processing rate"),
    Column("changes", "at the first event", kind="word"),
    Column("target", "to", kind="word"),
    Column("grouping", "grouping", kind="word"),
)


def drawing(of: Graph, title: str, notes: Notes = NOTHING) -> Drawing:
    svg = graph.draw(of, title, notes)
    grid = graph.grid_of(of, graph.placed(of), notes)
    traces = (
        *(Trace(node.name, "sink" if node.sink else node.kind, graph.INK, (_node(grid, node, notes),))
          for node in of.nodes),
        *(Trace(link.source, "edge", style.GREY, (_link(grid, link),)) for link in of.links),
    )  # fmt: skip
    return Drawing(svg, graph_pdf.pdf(svg, title), COLUMNS, traces, named="component")


def _node(grid: Grid, node: Node, notes: Notes) -> Spot:
    x, y = grid.corner(grid.placed.cells[node.name])
    changes = "; ".join(note.text for note in notes.changes.get(node.name, ()))
    return Spot(x + grid.box / 2, y + grid.height / 2, {
        "kind": node.kind, "executors": node.executors, "tasks": node.tasks,
        "input_over_processed": notes.pressure.get(node.name), "changes": changes or None,
    })  # fmt: skip


def _link(grid: Grid, link: Link) -> Spot:
    """In the middle of the first bend that it takes."""
    (x1, y1), (x2, y2) = (grid.corner(cell) for cell in grid.placed.path((link.source, link.target))[:2])
    values = {"target": link.target, "grouping": link.grouping}
    return Spot((x1 + grid.box + x2) / 2, (y1 + y2 + grid.height) / 2, values)
