"""`barograph partition`: a communication graph from elsewhere cut into parts by each method, side by side."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from analysis.metis_files import GraphFile, read_graph, read_partition
from barograph.cli.terminal import line_printer, note, say, stderr_for_libraries, stdout_console
from barograph.errors import ExperimentError
from scheduler_plugins.policies import greedy
from scheduler_plugins.policies.communication import CommunicationGraph, Integers, graph_of_pairs, load_imbalance
from scheduler_plugins.policies.pairwise import NoRoom
from scheduler_plugins.policies.partition import OBJECTIVES, MetisOptions, PymetisMissing, metis_parts

VERSION = 1
IMBALANCES = (1.001, 100.0)


@dataclass(frozen=True)
class Line:
    """What a partition lets through. `seconds`: of the computation, None of one that was read."""

    method: str
    crossing_percent: float  # of all messages
    volume: int
    imbalance: float
    seconds: float | None


def add_arguments(partition: argparse.ArgumentParser) -> None:
    partition.add_argument("graph", type=Path, metavar="GRAPH", help="a graph file of METIS")
    partition.add_argument("--parts", type=int, required=True, metavar="K", help="into how many parts")
    partition.add_argument(
        "--partition",
        type=Path,
        metavar="FILE",
        help="somebody's partition of this graph, a part a line, to compare with",
    )
    partition.add_argument(
        "--objective", choices=sorted(OBJECTIVES), help="only this objective of METIS, of vol and cut (default: both)"
    )
    partition.add_argument(
        "--imbalance", type=float, default=1.03, metavar="X", help="METIS' heaviest part over the mean, at most"
    )
    partition.add_argument("--seed", type=int, default=0, metavar="N", help="of METIS")
    partition.add_argument("--json", action="store_true", help="print JSON, for other programs")


def execute(options: argparse.Namespace) -> int:
    file = read_graph(options.graph)
    if not 2 <= options.parts <= file.vertices:
        allowed = (
            f"allowed are 2 to {file.vertices}, the number of vertices" if file.vertices > 1 else "it has one vertex"
        )
        raise ExperimentError(f"--parts is {options.parts} of {options.graph}; {allowed}")
    if not IMBALANCES[0] <= options.imbalance <= IMBALANCES[1]:
        raise ExperimentError(f"--imbalance is {options.imbalance:g}; allowed are {IMBALANCES[0]} to {IMBALANCES[1]:g}")
    if not 0 <= options.seed < 2**31:
        raise ExperimentError(f"--seed is {options.seed}; allowed are 0 to {2**31 - 1}")
    given = read_partition(options.partition, file.vertices, options.parts) if options.partition else None
    if file.vertex_weights.shape[1] > 1:
        note(f"note: parts share the first of {file.vertex_weights.shape[1]} vertex weights evenly")
    if file.vertex_sizes is not None:
        note(
            "note: METIS is called without the vertices' sizes, which pymetis cannot hand over; the volume counts them"
        )
    if not file.edges:
        note(
            "note: the graph has no edges, so METIS is not called: the heaviest vertex first, each to the lightest part"
        )
    objectives = [options.objective] if options.objective else list(OBJECTIVES)
    metis = [MetisOptions(objective, options.imbalance, options.seed) for objective in objectives]
    with stderr_for_libraries():
        lines = list(compare(file, options.parts, metis, given))
    if options.json:
        say(as_json(options.graph, file, options.parts, lines))
    else:
        show(options.graph, file, options.parts, lines, stdout_console())
    return 0


def compare(file: GraphFile, count: int, metis: list[MetisOptions], given: Integers | None) -> Iterator[Line]:
    """A line for each method that can be had; a note for each that cannot."""
    graph = graph_of_pairs(file.pairs, file.vertex_weights[:, 0].astype(np.float64), file.vertex_sizes)
    for options in metis:
        try:
            yield _line(f"METIS {options.objective}", file, graph, count, partial(metis_parts, graph, count, options))
        except PymetisMissing as error:
            note(f"note: without METIS {options.objective}: {error}; install pymetis")
    yield _greedy_line(file, graph, count)
    yield _line("round robin", file, graph, count, lambda: np.arange(file.vertices) % count)
    if given is not None:
        yield _line_of("given", file, graph, count, given, None)


def _greedy_line(file: GraphFile, graph: CommunicationGraph, count: int) -> Line:
    """As the paper has it, a vertex's weight being its load; where it finds no place for one, it is given some."""
    try:
        return _line("greedy", file, graph, count, lambda: _greedy_parts(graph, count, greedy.Parameters()))
    except NoRoom as error:
        note(f"note: greedy, as published, gives up ({error}); here the least loaded part takes such a vertex")
    parameters = greedy.Parameters(no_room="least_loaded")
    return _line("greedy, no_room least_loaded", file, graph, count, lambda: _greedy_parts(graph, count, parameters))


def _greedy_parts(graph: CommunicationGraph, count: int, parameters: greedy.Parameters) -> Integers:
    return greedy.greedy_parts(graph, count, len(graph.vertex_weights), parameters)


def _line(method: str, file: GraphFile, graph: CommunicationGraph, count: int, cut: Callable[[], Integers]) -> Line:
    begun = time.perf_counter()
    parts = cut()
    return _line_of(method, file, graph, count, parts, time.perf_counter() - begun)


def _line_of(
    method: str, file: GraphFile, graph: CommunicationGraph, count: int, parts: Integers, seconds: float | None
) -> Line:
    total = file.pairs.total()
    crossing = 100 * file.pairs.crossing(parts) / total if total else 0.0
    balance = load_imbalance(graph.vertex_weights, parts, count)
    return Line(method, crossing, graph.volume(parts, count), balance, seconds)


def as_json(path: Path, file: GraphFile, count: int, lines: list[Line]) -> str:
    head = {"v": VERSION, "graph": str(path), "vertices": file.vertices, "edges": file.edges, "parts": count}
    return json.dumps({**head, "methods": [asdict(line) for line in lines]}, indent=1, ensure_ascii=False)


def show(path: Path, file: GraphFile, count: int, lines: list[Line], console: Console) -> None:
    line_printer(console)(f"{path}: {file.vertices} vertices, {file.edges} edges, {count} parts")
    table = Table(box=None, pad_edge=False)
    table.add_column("method", no_wrap=True)
    for heading in ("crossing, %", "volume", "imbalance", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in lines:
        seconds = "–" if line.seconds is None else f"{line.seconds:.3f}"
        table.add_row(line.method, f"{line.crossing_percent:.2f}", str(line.volume), f"{line.imbalance:.3f}", seconds)
    console.print(table)
