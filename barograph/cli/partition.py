"""`barograph partition`: partition a given communication graph by each method, side by side, and write the parts of one
of them into a file (docs/policies.md).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from analysis.metis_files import GraphFile, read_graph, read_partition, write_partition
from analysis.report.table import Heading, ResultTable, columns
from barograph.cli.arguments import given_file, require_writable_into
from barograph.cli.terminal import line_printer, note, say, stdout_console
from barograph.errors import ExperimentError
from scheduler_plugins.policies import greedy
from scheduler_plugins.policies.communication import CommunicationGraph, Integers, graph_of_pairs, load_imbalance
from scheduler_plugins.policies.metis_process import NoAnswer, PymetisMissing
from scheduler_plugins.policies.pairwise import Names, NoRoom
from scheduler_plugins.policies.partition import (
    LARGEST_SEED,
    OBJECTIVES,
    MetisOptions,
    MetisPartition,
    least_imbalance,
    metis_parts,
)

VERSION = 1
IMBALANCES = (1.001, 100.0)
SHOWN_IMBALANCE = 0.0005  # smaller differences do not show in the table's digits
WITHOUT_METIS = ("greedy", "round_robin")
NAMES = Names("vertex", "vertices", "part", "weight", whole=True)
METHODS = (*OBJECTIVES, *WITHOUT_METIS)  # as --method names them


@dataclass(frozen=True)
class PartitionCut:
    """The cut of a partition. `seconds`: computing time, None for a partition that was read."""

    method: str
    crossing_percent: float  # of all messages
    volume: int
    imbalance: float
    seconds: float | None


@dataclass(frozen=True, eq=False)
class GraphPartition:
    """A partition. `name`: of METHODS, "" for one that was read. `parts`: the part of each vertex, from 0 on."""

    name: str
    line: PartitionCut
    parts: Integers


def add_arguments(partition: argparse.ArgumentParser) -> None:
    partition.add_argument("graph", type=given_file, metavar="GRAPH", help="a graph file of METIS (docs/policies.md)")
    partition.add_argument(
        "--parts", type=int, required=True, metavar="K", help="into how many parts, from 2 to the number of vertices"
    )
    partition.add_argument(
        "--into",
        type=given_file,
        metavar="FILE",
        help="write the parts of --method there, a part a line, counted from 0",
    )
    partition.add_argument("--method", choices=METHODS, help="whose parts --into has")
    partition.add_argument("--overwrite", action="store_true", help="--into may be a file that is there")
    partition.add_argument(
        "--partition",
        type=given_file,
        metavar="FILE",
        help="somebody's partition of this graph, a part a line, to compare with",
    )
    partition.add_argument(
        "--objective", choices=sorted(OBJECTIVES), help="only this objective of METIS, of vol and cut (default: both)"
    )
    partition.add_argument(
        "--imbalance", type=float, default=1.03, metavar="X",
        help=f"METIS' aim for the heaviest part over the mean, missed with few vertices a part; {IMBALANCES[0]} to"
        f" {IMBALANCES[1]:g} (default 1.03)",
    )  # fmt: skip
    partition.add_argument(
        "--seed", type=int, default=0, metavar="N",
        help=f"of METIS, for cut the first of several; 0 to {LARGEST_SEED} (default 0)",
    )  # fmt: skip
    partition.add_argument("--json", action="store_true", help="print JSON, for other programs")


def execute(options: argparse.Namespace) -> int:
    objectives = [options.objective] if options.objective else list(OBJECTIVES)
    _check_into(options, (*objectives, *WITHOUT_METIS))
    file = read_graph(options.graph)
    if not 2 <= options.parts <= file.vertices:
        limits = (
            f"allowed are 2 to {file.vertices}, the number of vertices" if file.vertices > 1 else "it has one vertex"
        )
        raise ExperimentError(f"--parts is {options.parts} of {options.graph}; {limits}")
    if not IMBALANCES[0] <= options.imbalance <= IMBALANCES[1]:
        raise ExperimentError(f"--imbalance is {options.imbalance:g}; allowed are {IMBALANCES[0]} to {IMBALANCES[1]:g}")
    if not 0 <= options.seed <= LARGEST_SEED:
        raise ExperimentError(f"--seed is {options.seed}; allowed are 0 to {LARGEST_SEED}")
    parts = read_partition(options.partition, file.vertices, options.parts) if options.partition else None
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
    metis = [MetisOptions(objective, options.imbalance, options.seed) for objective in objectives]
    partitions = list(compare(file, options.parts, metis, parts))
    lines = [partition.line for partition in partitions]
    if options.json:
        say(as_json(options.graph, file, options.parts, lines))
    else:
        show(options.graph, file, options.parts, lines, stdout_console())
    if options.into is not None:
        _write(partitions, options.method, options.into)
    return 0


def _check_into(options: argparse.Namespace, methods: Sequence[str]) -> None:
    """Raise ExperimentError for a bad `--into`, before anything is computed."""
    into = options.into
    if into is None:
        if options.method or options.overwrite:
            raise ExperimentError("--method and --overwrite are for --into; add it, or leave them out")
        return
    if options.method not in methods:
        what = f"{options.method} is none of this call" if options.method else "which is missing"
        raise ExperimentError(f"--into has the parts of one --method, {what}; give one of {', '.join(methods)}")
    require_writable_into(into)
    if into.exists() and not (options.overwrite and into.is_file()):
        what = "which is there; --overwrite writes over it" if into.is_file() else "which is no file"
        raise ExperimentError(f"--into is {into}, {what}")


def _write(partitions: Sequence[GraphPartition], method: str, into: Path) -> None:
    choice = next((partition for partition in partitions if partition.name == method), None)
    if choice is None:
        raise ExperimentError(f"--into {into}: nothing is written, for METIS {method} gave no parts")
    write_partition(choice.parts, into)
    note(f"{into}: the parts of {choice.line.method}")


def compare(file: GraphFile, count: int, metis: list[MetisOptions], given: Integers | None) -> Iterator[GraphPartition]:
    """Yield the partition of each available method, and print a note for each other one."""
    graph = graph_of_pairs(file.pairs, file.vertex_weights[:, 0].astype(np.float64), file.vertex_sizes)

    def cut(name: str, method: str, parts_of: Callable[[], Integers]) -> GraphPartition:
        begin_s = time.perf_counter()
        parts = parts_of()
        return GraphPartition(name, line_of(method, file, graph, count, parts, time.perf_counter() - begin_s), parts)

    def cut_by_metis(options: MetisOptions) -> GraphPartition:
        begin_s = time.perf_counter()
        partition = metis_parts(graph, count, options)
        seconds = time.perf_counter() - begin_s
        method = f"METIS {options.objective}" + (", recursive" if partition.by_bisection else "")
        line = line_of(method, file, graph, count, partition.parts, seconds)
        if words := _metis_note(partition, line, graph, count, options):
            note(f"note: METIS {options.objective}: {words}")
        return GraphPartition(options.objective, line, partition.parts)

    def greedy_parts(parameters: greedy.GreedyParameters) -> Integers:
        return greedy.greedy_parts(graph, count, len(graph.vertex_weights), parameters, NAMES)

    for options in metis:
        try:
            yield cut_by_metis(options)
        except PymetisMissing as error:
            note(f"note: without METIS {options.objective}: {error}; install pymetis")
        except NoAnswer as error:
            note(f"note: without METIS {options.objective}: {error}")
    try:  # as in the paper, where a vertex's weight is its load
        yield cut("greedy", "greedy", partial(greedy_parts, greedy.GreedyParameters()))
    except NoRoom as error:
        note(f"note: greedy, as published, gives up ({error}); here the least loaded part takes such a vertex")
        least_loaded = greedy.GreedyParameters(no_room="least_loaded")
        yield cut("greedy", "greedy, no_room least_loaded", partial(greedy_parts, least_loaded))
    yield cut("round_robin", "round robin", lambda: np.arange(file.vertices) % count)
    if given is not None:
        yield GraphPartition("", line_of("given", file, graph, count, given, None), given)


def _metis_note(
    partition: MetisPartition, line: PartitionCut, graph: CommunicationGraph, count: int, options: MetisOptions
) -> str:
    """Return a note on the origin of the parts and missed aims; empty for the plain call's."""
    if not partition.is_sound:
        return f"{partition.words}; these are k-way's parts, which the policy metis would not carry out"
    words = [partition.words] if partition.words else []
    if len(graph.neighbours) and line.imbalance > options.imbalance + SHOWN_IMBALANCE:
        least_possible = least_imbalance(graph.vertex_weights, count)
        aim = f"more than the {options.imbalance:g} that it aims for"
        words.append(f"imbalance {line.imbalance:.3f}, {aim}; whole vertices allow {least_possible:.3f}")
    return "; ".join(words)


def line_of(
    method: str, file: GraphFile, graph: CommunicationGraph, count: int, parts: Integers, seconds: float | None
) -> PartitionCut:
    total = file.pairs.total()
    crossing = 100 * file.pairs.crossing(parts) / total if total else 0.0
    balance = load_imbalance(graph.vertex_weights, parts, count)
    return PartitionCut(method, crossing, graph.volume(parts, count), balance, seconds)


def as_json(path: Path, file: GraphFile, count: int, lines: list[PartitionCut]) -> str:
    head = {"v": VERSION, "graph": str(path), "vertices": file.vertices, "edges": file.edges, "parts": count}
    return json.dumps({**head, "methods": [asdict(line) for line in lines]}, indent=1, ensure_ascii=False)


def show(path: Path, file: GraphFile, count: int, lines: list[PartitionCut], console: Console) -> None:
    say = line_printer(console)
    say(f"{path}: {file.vertices} vertices, {file.edges} edges, {count} parts")
    headings = (
        *columns("method"),
        Heading("crossing, %", "crossing_percent", digits=2, css="n"),
        *columns("volume /n"),
        Heading("imbalance", "imbalance", digits=3, css="n"),
        Heading("seconds", "seconds", digits=3, css="n"),
    )
    for line in ResultTable(headings, lines).lines():
        say(line)
