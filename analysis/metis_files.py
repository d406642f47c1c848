"""METIS' own files: graphs and partitions (METIS 5 manual, 4.1).

A graph's first line is `vertices edges [fmt [ncon]]`; lines that begin with % are comments, of any
characters; `ncon` 0 is 1. The three digits of fmt say
whether vertices have sizes, whether they have weights (`ncon` of them), and whether edges have weights. Then follows a
line a vertex: its size, its weights, and its neighbours, counted from 1, each with the edge's weight. Every edge stands
in the lines of both its vertices, maybe with different weights. A partition is a line a vertex, the number of its part.
docs/policies.md describes the same for users.

Reading raises ConfigurationError with file and line, the value there, and what is allowed; so does writing if the file
cannot be written, except for a full disk.
"""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from analysis.record.files import write_text_atomic
from barograph.errors import ConfigurationError
from scheduler_plugins.policies.communication import Flags, Integers, Pairs

if TYPE_CHECKING:
    from analysis.metrics.traffic import CommunicationArrays

CUT_SHORT = "is the file cut short?"
WHOLE = re.compile(r"[+-]?[0-9]+")
TOO_LARGE = "is no number of 64 bits; METIS has no larger ones"
MOST_DIGITS = 18  # of a number in the header
SHOWN = 40  # characters of a wrong value


@dataclass(frozen=True, eq=False)
class GraphFile:
    """A graph. `pairs`: from each vertex to each neighbour of its line, by the weight there (1 without weights).

    `vertex_weights`: vertices × constraints; 1 without weights. Vertices are counted from 0.
    """

    vertices: int
    edges: int
    pairs: Pairs
    vertex_weights: Integers
    vertex_sizes: Integers | None


@dataclass(frozen=True)
class _Header:
    vertices: int
    edges: int
    has_sizes: bool
    weights: int  # of a vertex
    has_edge_weights: bool


@dataclass(frozen=True, eq=False)
class _Numbers:
    """The numbers of the vertices' lines: `values` one after the other, `lengths` of each line."""

    path: Path
    lines: Sequence[int]  # number of each vertex's line in the file
    values: Integers
    lengths: Integers

    def refuse(self, is_wrong: Flags, vertices: Integers, what: str, seen: Integers, allowed: str) -> None:
        """Raise for the first wrong value, with the line of its vertex."""
        if is_wrong.any():
            first = int(np.argmax(is_wrong))
            line = self.lines[int(vertices[first])]
            raise ConfigurationError(f"{self.path}, line {line}: {what} {int(seen[first])}; {allowed}")


def read_graph(path: Path) -> GraphFile:
    numbered = [(n, text) for n, text in enumerate(_lines(path), start=1) if not text.lstrip().startswith("%")]
    while numbered and not numbered[0][1].strip():
        numbered.pop(0)
    if not numbered:
        raise ConfigurationError(f"{path} has no header; a graph begins with: vertices edges [fmt [ncon]]")
    header = _header(path, *numbered[0])
    if _is_hypergraph(header, [text.split() for _, text in numbered[1:]]):
        raise ConfigurationError(
            f"{path} is a hypergraph: {header.vertices} hyperedges of {header.edges} vertices, as of hMETIS; "
            "METIS reads graphs, in which a line is a vertex with its neighbours: replace each hyperedge by edges"
        )
    vertex_lines, rest = numbered[1 : 1 + header.vertices], numbered[1 + header.vertices :]
    if len(vertex_lines) < header.vertices:
        problem = f"the header says {header.vertices} vertices, and lines of {len(vertex_lines)} follow"
        raise ConfigurationError(f"{path}: {problem}; {CUT_SHORT}")
    for number, text in rest:
        if text.strip():
            problem = f"line {number}: more than the {header.vertices} vertices of the header"
            raise ConfigurationError(f"{path}, {problem}; is the header of another graph?")
    return _graph(header, _numbers(path, vertex_lines))


def _is_hypergraph(header: _Header, lines: Sequence[Sequence[str]]) -> bool:
    """Return whether lines are sets of vertices and no neighbours: most are the line's own number, or of a line without
    it. hMETIS' header is `hyperedges vertices [fmt]`; weights of vertices come last, a line each."""
    hyperedges, vertices = header.vertices, header.edges
    rows = [row for row in lines if row]
    if len(rows) != hyperedges + vertices * bool(header.weights):
        return False
    pins = [set(row[header.has_edge_weights :]) for row in rows[:hyperedges]]
    names = {str(number) for number in range(1, vertices + 1)}
    entries = [(number, pin) for number, row in enumerate(pins, start=1) for pin in row]
    one_sided = sum(
        pin == str(number) or int(pin) > hyperedges or str(number) not in pins[int(pin) - 1]
        for number, pin in entries
        if pin in names
    )
    return all(pin in names for _, pin in entries) and 2 * one_sided > len(entries)


def read_partition(path: Path, vertices: int, parts: int) -> Integers:
    """Return the part of each vertex, all below `parts`."""
    part_lines = [(number, text.strip()) for number, text in enumerate(_lines(path), start=1) if text.strip()]
    values = _numbers(path, part_lines)
    if (values.lengths != 1).any():
        line = values.lines[int(np.argmax(values.lengths != 1))]
        raise ConfigurationError(f"{path}, line {line}: several numbers; a partition has one a line, the vertex's part")
    if len(part_lines) != vertices:
        raise ConfigurationError(
            f"{path} has {len(part_lines)} parts and the graph {vertices} vertices; give its own partition"
        )
    is_wrong = (values.values < 0) | (values.values >= parts)
    limits = f"allowed are 0 to {parts - 1}, as --parts is {parts}"
    values.refuse(is_wrong, np.arange(vertices), "part", values.values, limits)
    return values.values


def _lines(path: Path) -> list[str]:
    """Return the lines; a character that no number has is refused where a number is wanted."""
    try:
        return [line.decode("ascii", "replace") for line in path.read_bytes().splitlines()]
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}; give a file of METIS") from error


def _header(path: Path, number: int, text: str) -> _Header:
    place, words = f"{path}, line {number}: the header", text.split()
    if not (2 <= len(words) <= 4 and all(word.isdigit() and len(word) <= MOST_DIGITS for word in words)):
        rule = f"vertices edges [fmt [ncon]], whole numbers of at most {MOST_DIGITS} digits"
        raise ConfigurationError(f"{place} is {_shown(text.strip())}; allowed is: {rule}")
    vertices, edges = int(words[0]), int(words[1])
    fmt = words[2].zfill(3) if len(words) > 2 else "000"
    if len(fmt) != 3 or set(fmt) - {"0", "1"}:
        raise ConfigurationError(f"{place} has the fmt {words[2]}; allowed are three digits 0 or 1, such as 011")
    weights = int(words[3]) if len(words) > 3 else 1
    if fmt[1] == "0" and weights > 1:
        rule = f"none, as its fmt {fmt} has no vertex weights"
        raise ConfigurationError(f"{place} has the ncon {weights}; allowed is {rule}")
    if vertices < 1:
        raise ConfigurationError(f"{place} says {vertices} vertices; allowed is 1 or more")
    return _Header(vertices, edges, fmt[0] == "1", (weights or 1) if fmt[1] == "1" else 0, fmt[2] == "1")


def _numbers(path: Path, numbered: Sequence[tuple[int, str]]) -> _Numbers:
    values: list[int] = []
    lengths = []
    for number, text in numbered:
        words = text.split()
        try:
            values += map(int, words)
            if "_" in text:  # int reads 1_0 as 10
                raise ValueError(text)
        except ValueError as error:
            raise _refusal(path, number, words) from error
        lengths.append(len(words))
    lines = [number for number, _ in numbered]
    try:
        return _Numbers(path, lines, np.array(values, dtype=np.int64), np.array(lengths, dtype=np.int64))
    except OverflowError as error:
        place, outlier = next((place, value) for place, value in enumerate(values) if not -(2**63) <= value < 2**63)
        line = lines[int(np.searchsorted(np.cumsum(lengths), place, side="right"))]
        raise ConfigurationError(f"{path}, line {line}: {_shown(str(outlier))} {TOO_LARGE}") from error


def _refusal(path: Path, number: int, words: Sequence[str]) -> ConfigurationError:
    """Return an error about the line's first word that is no whole number, or has more digits than Python reads."""
    most = sys.get_int_max_str_digits()
    culprit = next(word for word in words if not WHOLE.fullmatch(word) or 0 < most < len(word.lstrip("+-")))
    return ConfigurationError(
        f"{path}, line {number}: {_shown(culprit)} {TOO_LARGE if WHOLE.fullmatch(culprit) else 'is no whole number'}"
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")


def _graph(header: _Header, numbers: _Numbers) -> GraphFile:
    head, step = header.has_sizes + header.weights, 2 if header.has_edge_weights else 1
    each = "a neighbour and a weight each" if step == 2 else "neighbours"
    is_wrong = (numbers.lengths < head) | ((numbers.lengths - head) % step != 0)
    every = np.arange(header.vertices)
    numbers.refuse(is_wrong, every, "so many numbers:", numbers.lengths, f"allowed are {head} and then {each}")
    rows = np.repeat(every, numbers.lengths)
    place = np.arange(len(numbers.values)) - (np.cumsum(numbers.lengths) - numbers.lengths)[rows]
    heads = numbers.values[place < head].reshape(header.vertices, head)
    numbers.refuse((heads < 0).ravel(), np.repeat(every, head), "weight or size", heads.ravel(), "allowed is 0 or more")
    sources, entries = rows[place >= head][::step], numbers.values[place >= head]
    targets = entries[::step] - 1
    weights = entries[1::2] if header.has_edge_weights else np.ones(len(targets), np.int64)
    numbers.refuse(weights < 1, sources, "edge weight", weights, "allowed is 1 or more")
    _check_edges(header, numbers, sources, targets)
    vertex_weights = heads[:, header.has_sizes :] if header.weights else np.ones((header.vertices, 1), np.int64)
    sizes = heads[:, 0] if header.has_sizes else None
    pairs = Pairs(sources, targets, weights.astype(np.float64))
    return GraphFile(header.vertices, header.edges, pairs, vertex_weights, sizes)


def _check_edges(header: _Header, numbers: _Numbers, sources: Integers, targets: Integers) -> None:
    count = header.vertices
    is_wrong = (targets < 0) | (targets >= count)
    numbers.refuse(is_wrong, sources, "neighbour", targets + 1, f"allowed are 1 to {count}")
    numbers.refuse(sources == targets, sources, "a vertex is its own neighbour,", targets + 1, "leave that out")
    keys = sources * count + targets
    order = np.argsort(keys, kind="stable")
    repetitions = np.concatenate(([False], keys[order][1:] == keys[order][:-1]))[: len(keys)]
    numbers.refuse(
        repetitions, sources[order], "twice the neighbour", targets[order] + 1, "allowed is once, with all its weight"
    )
    is_alone = ~np.isin(targets * count + sources, keys)
    hint = "whose line does not have this vertex; an edge stands in both lines"
    numbers.refuse(is_alone, sources, "neighbour", targets + 1, hint)
    if len(keys) != 2 * header.edges:
        problem = f"the header says {header.edges} edges, so {2 * header.edges} neighbours; the lines have {len(keys)}"
        raise ConfigurationError(f"{numbers.path}: {problem}; {CUT_SHORT}")


def write_graph(graph: CommunicationArrays, path: Path, what: str) -> None:
    """Write the graph with weights of vertices and edges; the comment in the first line names its subject, `what`."""
    entries = np.stack((graph.neighbours + 1, graph.edge_weights), axis=1)
    of_vertices = zip(graph.vertex_weights.tolist(), pairwise(graph.starts.tolist()), strict=True)
    numbers = ((weight, *entries[first:end].ravel().tolist()) for weight, (first, end) in of_vertices)
    _write(path, [
        f"% {what}: vertices are its {len(graph.tasks)} tasks, ascending from task {graph.tasks[0]} on",
        f"{len(graph.tasks)} {graph.edge_count} 011",
        *(" ".join(map(str, each)) for each in numbers),
    ])  # fmt: skip


def write_partition(parts: Integers, path: Path) -> None:
    _write(path, map(str, parts.tolist()))


def _write(path: Path, lines: Iterable[str]) -> None:
    try:
        write_text_atomic(path, "".join(f"{line}\n" for line in lines))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}; give another file") from error
