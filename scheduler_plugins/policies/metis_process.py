"""METIS asked in a process of its own, whose program is this file: on some graphs that are as they should be METIS ends
its process, and while it computes Python does nothing else.

A fresh Python begins for each graph, since a copy of a process with threads may hang. It gets the graph in memory that
it inherits, and it ends at its limit, or with the process that began it. The answer depends on nothing but the graph
and the calls: the limit is far above what these take.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from array import array
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

INTEGERS = "q"  # of 64 bits, as pymetis' METIS has them: others are copied one by one


class PymetisMissing(Exception):
    """The Python that decides has no pymetis."""

    blame = "configuration"


class NoAnswer(Exception):
    """METIS' process ended, or was ended, before it answered."""


def metis_answer(
    columns: Sequence[memoryview], count: int, calls: Sequence[Mapping[str, int]], limit_s: float
) -> bytes:
    """Return the part of each vertex, 64 bits each, call after call. Raises PymetisMissing, NoAnswer.

    `columns`: starts, neighbours, weights of vertices and of edges (none: 1 each), of 64 bits. `calls`: METIS' options,
    and `recursive`.
    """
    if find_spec("pymetis") is None:
        raise PymetisMissing("the Python that decides has no pymetis")
    request = {"path": sys.path, "lengths": list(map(len, columns)), "count": count, "calls": calls}
    command = [sys.executable, "-I", "-S", __file__, json.dumps(request)]
    try:
        with os.fdopen(os.memfd_create("graph"), "w+b") as graph:
            graph.writelines(columns)
            graph.seek(0)
            ended = subprocess.run(command, stdin=graph, capture_output=True, timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        raise NoAnswer(f"METIS has not answered within {limit_s:.1f} s and was ended") from error
    except OSError as error:
        raise NoAnswer(f"METIS' process cannot begin: {error}") from error
    if ended.returncode < 0:
        number = -ended.returncode
        raise NoAnswer(f"METIS' process was ended by signal {number} ({signal.strsignal(number)})")
    if ended.returncode:
        last = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise NoAnswer(f"METIS' process ended with {ended.returncode}: {last}")
    if len(ended.stdout) != 8 * len(calls) * (len(columns[0]) - 1):
        raise NoAnswer("METIS' process ended before its answer was whole")
    return ended.stdout


def main() -> None:
    request = json.loads(sys.argv[1])
    sys.path[:] = request["path"]
    import pymetis

    columns = [array(INTEGERS) for _ in request["lengths"]]
    for column, length in zip(columns, request["lengths"], strict=True):
        column.fromfile(sys.stdin.buffer, length)
    starts, neighbours, vertex_weights, edge_weights = columns
    output = os.dup(1)
    os.dup2(2, 1)  # where METIS prints what it thinks of a graph
    flags = fcntl.fcntl(output, fcntl.F_GETFL)
    fcntl.fcntl(output, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(output, fcntl.F_SETFL, flags | os.O_ASYNC)  # SIGIO, which ends it, where nobody reads any more
    answers = []
    for options in request["calls"]:
        recursive = options.pop("recursive")
        _, parts = pymetis.part_graph(
            request["count"],
            pymetis.CSRAdjacency(starts, neighbours),
            vweights=vertex_weights,
            eweights=edge_weights or None,
            recursive=recursive,
            options=pymetis.Options(**options),
        )
        answers.append(array(INTEGERS, parts))
    fcntl.fcntl(output, fcntl.F_SETFL, flags)
    with os.fdopen(output, "wb") as file:
        file.writelines(answers)


if __name__ == "__main__":
    main()
