"""`barograph partition`: partition a given communication graph by each method, side by side, and write the parts of one
of them into a file (docs/policies.md); `barograph graph`: the communication graph of a run.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from rich.console import Console

from analysis.metis_files import GraphFile, read_graph, read_partition, write_partition
from analysis.record.files import SeriesPaths
from analysis.report.table import Heading, ResultTable, columns
from barograph.cli.arguments import add_testbed_choice, given_file, require_writable_into
from barograph.cli.terminal import line_printer, note, say, signals_as_interrupt, stdout_console
from barograph.errors import ExperimentError
from barograph.series.interruption import limited
from barograph.series.results import avro_jars, results_of
from barograph.series.series import find_series
from barograph.settings import spark_master
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


@dataclass(frozen=True, eq=False)
class PartitionCut:
    """The cut of a partition. `name`: of METHODS, "" where it was read. `seconds`: computing time, None where it was
    read. `parts`: the part of each vertex, from 0 on."""

    name: str
    method: str
    crossing_percent: float  # of all messages
    volume: int
    imbalance: float
    seconds: float | None
    parts: Integers


def add_partition_arguments(partition: argparse.ArgumentParser) -> None:
    add = partition.add_argument
    add("graph", type=given_file, metavar="GRAPH", help="a graph file of METIS (docs/policies.md)")
    add("--parts", type=int, required=True, metavar="K", help="into how many parts, from 2 to the number of vertices")
    add("--into", type=given_file, metavar="FILE",
        help="write the parts of --method there, a part a line, counted from 0")  # fmt: skip
    add("--method", choices=METHODS, help="whose parts --into has")
    add("--overwrite", action="store_true", help="--into may be a file that is there")
    add("--partition", type=given_file, metavar="FILE",
        help="somebody's partition of this graph, a part a line, to compare with")  # fmt: skip
    add("--objective", choices=sorted(OBJECTIVES), help="only this objective of METIS, of vol and cut (default: both)")
    add("--imbalance", type=float, default=1.03, metavar="X",
        help=f"METIS' aim for the heaviest part over the mean, missed with few vertices a part; {IMBALANCES[0]} to"
        f" {IMBALANCES[1]:g} (default 1.03)")  # fmt: skip
    add("--seed", type=int, default=0, metavar="N",
        help=f"of METIS, for cut the first of several; 0 to {LARGEST_SEED} (default 0)")  # fmt: skip
    add("--json", action="store_true", help="print JSON, for other programs")


def execute_partition(options: argparse.Namespace) -> int:
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
    cuts = list(compare(file, options.parts, metis, parts))
    if options.json:
        say(as_json(options.graph, file, options.parts, cuts))
    else:
        show(options.graph, file, options.parts, cuts, stdout_console())
    if options.into is not None:
        choice = next((cut for cut in cuts if cut.name == options.method), None)
        if choice is None:
            raise ExperimentError(
                f"--into {options.into}: nothing is written, for METIS {options.method} gave no parts"
            )
        write_partition(choice.parts, options.into)
        note(f"{options.into}: the parts of {choice.method}")
    return 0


def _check_into(options: argparse.Namespace, methods: Sequence[str]) -> None:
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


def compare(file: GraphFile, count: int, metis: list[MetisOptions], given: Integers | None) -> Iterator[PartitionCut]:
    """Yield the partition of each available method, and print a note for each other one."""
    graph = graph_of_pairs(file.pairs, file.vertex_weights[:, 0].astype(np.float64), file.vertex_sizes)
    total = file.pairs.total()

    def cut(name: str, method: str, parts: Integers, begin_s: float | None) -> PartitionCut:
        seconds = None if begin_s is None else time.perf_counter() - begin_s
        crossing = 100 * file.pairs.crossing(parts) / total if total else 0.0
        balance = load_imbalance(graph.vertex_weights, parts, count)
        return PartitionCut(name, method, crossing, graph.volume(parts, count), balance, seconds, parts)

    def greedy_cut(method: str, parameters: greedy.GreedyParameters) -> PartitionCut:
        begin_s = time.perf_counter()
        parts = greedy.greedy_parts(graph, count, len(graph.vertex_weights), parameters, NAMES)
        return cut("greedy", method, parts, begin_s)

    for options in metis:
        begin_s = time.perf_counter()
        try:
            partition = metis_parts(graph, count, options)
        except PymetisMissing as error:
            note(f"note: without METIS {options.objective}: {error}; install pymetis")
        except NoAnswer as error:
            note(f"note: without METIS {options.objective}: {error}")
        else:
            method = f"METIS {options.objective}{', recursive' if partition.by_bisection else ''}"
            line = cut(options.objective, method, partition.parts, begin_s)
            if words := _metis_note(partition, line, graph, count, options):
                note(f"note: METIS {options.objective}: {words}")
            yield line
    try:  # as in the paper, where a vertex's weight is its load
        yield greedy_cut("greedy", greedy.GreedyParameters())
    except NoRoom as error:
        note(f"note: greedy, as published, gives up ({error}); here the least loaded part takes such a vertex")
        yield greedy_cut("greedy, no_room least_loaded", greedy.GreedyParameters(no_room="least_loaded"))
    begin_s = time.perf_counter()
    yield cut("round_robin", "round robin", np.arange(file.vertices) % count, begin_s)
    if given is not None:
        yield cut("", "given", given, None)


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


def as_json(path: Path, file: GraphFile, count: int, cuts: list[PartitionCut]) -> str:
    head = {"v": VERSION, "graph": str(path), "vertices": file.vertices, "edges": file.edges, "parts": count}
    names = [field.name for field in fields(PartitionCut) if field.name not in ("name", "parts")]
    methods = [{name: getattr(cut, name) for name in names} for cut in cuts]
    return json.dumps({**head, "methods": methods}, indent=1, ensure_ascii=False)


def show(path: Path, file: GraphFile, count: int, cuts: list[PartitionCut], console: Console) -> None:
    say = line_printer(console)
    say(f"{path}: {file.vertices} vertices, {file.edges} edges, {count} parts")
    headings = (
        *columns("method"),
        Heading("crossing, %", "crossing_percent", digits=2, css="n"),
        *columns("volume /n"),
        Heading("imbalance", "imbalance", digits=3, css="n"),
        Heading("seconds", "seconds", digits=3, css="n"),
    )
    for line in ResultTable(headings, cuts).lines():
        say(line)


PART = re.compile(r"(e[1-9][0-9]*)\.(before|after)")


def add_graph_arguments(graph: argparse.ArgumentParser) -> None:
    add = graph.add_argument
    add("series", help="the series' folder or id, or an experiment for its newest")
    add("run", help="one of its runs, such as metis-r1; its topology has barograph.traffic: true")
    add_testbed_choice(graph)
    add("--into", type=given_file, required=True, metavar="FILE", help="the graph file to write")
    add("--part", metavar="EVENT.SIDE", help="only the steady part of a side of an event, such as e1.before")
    add("--topology", metavar="NAME", help="which one, where the run has several")


def execute_graph(options: argparse.Namespace) -> int:
    from analysis.pipeline import communication_graph

    part = PART.fullmatch(options.part) if options.part else None
    if options.part and part is None:
        raise ExperimentError(f"--part is {options.part!r}; allowed: an event and a side of it, such as e1.before")
    require_writable_into(options.into)
    if options.into.exists():
        raise ExperimentError(
            f"--into is {options.into}, which is there already; nothing is overwritten: give another file"
        )
    folder = find_series(options.series, options.testbed)
    with signals_as_interrupt(), limited("analyse"), results_of(folder).whole(folder) as series_dir:
        tasks, edges = communication_graph(
            series_dir, options.run, options.into, spark_master(), part=(part[1], part[2]) if part else None,
            topology=options.topology, jars=avro_jars(SeriesPaths(series_dir), say),
        )  # fmt: skip
    say(f"{options.into}: {tasks} tasks, {edges} edges")
    return 0
