"""Positions of the components of a logical graph: columns from sources to sinks, rows with few crossings.

Columns by longest path, rows by repeated barycentres of the neighbours (Sugiyama, Tagawa and Toda, "Methods for visual
understanding of hierarchical system structures", 1981). Pure; the same graph is always drawn the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import fmean

Edge = tuple[str, str]
_Vertex = str | tuple[str, str, int]  # a component, or the place where an edge passes through a column
_Link = tuple[_Vertex, _Vertex]  # between neighbouring columns
_Columns = list[list[_Vertex]]

_SWEEPS = 8  # in both directions; the best of all orders is kept


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
    column_of = _longest_paths(components, _without_cycles(components, distinct_edges))
    threads: dict[Edge, tuple[_Vertex, ...]] = {}
    columns: _Columns = [[] for _ in range(1 + max(column_of.values(), default=-1))]
    for name in components:
        columns[column_of[name]].append(name)
    for source, target in distinct_edges:
        bends = [(source, target, column) for column in range(column_of[source] + 1, column_of[target])]
        threads[source, target] = (source, *bends, target)
        for bend in bends:
            columns[bend[2]].append(bend)
    links = [
        link
        for (source, target), thread in threads.items()
        if column_of[source] < column_of[target]
        for link in pairwise(thread)
    ]
    cells = _cells(_with_few_crossings(columns, links))
    bent = {
        edge: tuple(cells[vertex] for vertex in thread[1:-1]) for edge, thread in threads.items() if len(thread) > 2
    }
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


def _longest_paths(components: Sequence[str], acyclic: Sequence[Edge]) -> dict[str, int]:
    column_of = dict.fromkeys(components, 0)
    for _ in components:
        for source, target in acyclic:
            column_of[target] = max(column_of[target], column_of[source] + 1)
    return column_of


def _with_few_crossings(columns: _Columns, links: Sequence[_Link]) -> _Columns:
    """Return the best of the orders from sweeps in both directions; the first of equals."""

    def crossings(order: _Columns) -> int:
        cells = _cells(order)
        return _count_crossings([(cells[a].column, cells[a].row, cells[b].row) for a, b in links])

    orders = [columns]
    for sweep in range(_SWEEPS):
        orders.append(_sweep(orders[-1], links, backwards=sweep % 2 == 1))
    return min(orders, key=crossings)


def _sweep(columns: _Columns, links: Sequence[_Link], backwards: bool) -> _Columns:
    """Sort each column by the mean row of its neighbours in the column before it (after it, if backwards)."""
    neighbours: dict[_Vertex, list[_Vertex]] = {}
    for a, b in links:
        neighbours.setdefault(a if backwards else b, []).append(b if backwards else a)
    result = list(columns)
    for column in reversed(range(len(columns) - 1)) if backwards else range(1, len(columns)):
        cells = _cells(result)
        means = {
            vertex: fmean(cells[each].row for each in neighbours.get(vertex, [vertex])) for vertex in result[column]
        }
        result[column] = sorted(result[column], key=means.__getitem__)
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
