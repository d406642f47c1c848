"""METIS in a process of its own, whose program is this file: on some valid graphs METIS ends its process, and while it
computes Python does nothing else.

A fresh Python begins with the first graph, since a copy of a process with threads may hang, and takes the graphs of one
decision. It gets each in a file that it inherits. It ends at its limit, which it watches too, or with the process that
began it. An answer depends on nothing but the graph and the calls: the limit is far above their time.
"""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from typing import IO

INTEGERS = "q"  # of 64 bits, as pymetis' METIS has them: others are copied one by one
BLOCK = 1 << 20  # bytes of an answer that are read at once
MARGIN_S = 2.0


class PymetisMissing(Exception):
    """The deciding Python has no pymetis."""

    blame = "configuration"


class NoAnswer(Exception):
    """METIS' process ended, or was ended, before it answered."""


class MetisProcess:
    """METIS for the graphs of one decision: `with MetisProcess() as metis: metis.answer(…)`, in one thread."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._graph: IO[bytes]
        self._words: IO[bytes]

    def __enter__(self) -> MetisProcess:
        return self

    def __exit__(self, *_error: object) -> None:
        self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._stack.close()
        self._process, self._stack = None, ExitStack()

    def answer(
        self, columns: Sequence[memoryview], count: int, calls: Sequence[Mapping[str, int]], limit_s: float
    ) -> bytes:
        """Return the part of each vertex, 64 bits each, call after call. Raises PymetisMissing, NoAnswer.

        `columns`: starts, neighbours, weights of vertices and of edges (none: 1 each), of 64 bits. `calls`: METIS'
        options, and `recursive`. After NoAnswer the next graph has another process.
        """
        if find_spec("pymetis") is None:
            raise PymetisMissing("the Python that decides has no pymetis")
        size = 8 * len(calls) * (len(columns[0]) - 1)
        request = {"lengths": list(map(len, columns)), "count": count, "calls": calls, "limit_s": limit_s}
        try:
            process = self._begin() if self._process is None else self._process
            self._graph.seek(0)
            self._graph.truncate()
            self._graph.writelines(columns)
            self._graph.flush()
            answer = _exchange(process, json.dumps(request).encode() + b"\n", size, limit_s)
            if len(answer) < size:
                raise NoAnswer(_why_ended(process, self._words, limit_s))
        except OSError as error:
            self._end()
            raise NoAnswer(f"METIS' process cannot begin: {error}") from error
        except NoAnswer:
            self._end()
            raise
        return answer

    def _begin(self) -> subprocess.Popen[bytes]:
        self._graph = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes both
        self._words = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        handle = self._graph.fileno()
        command = [sys.executable, "-I", "-S", __file__, json.dumps({"path": sys.path, "graph": handle})]
        process = subprocess.Popen(
            command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words, pass_fds=[handle]
        )
        self._process = self._stack.enter_context(process)
        return process


def _exchange(process: subprocess.Popen[bytes], request: bytes, size: int, limit_s: float) -> bytes:
    """Return the process's answer, less than `size` bytes if it ended, or did not answer in time."""
    assert process.stdin is not None and process.stdout is not None, "both are pipes"
    answer, end = bytearray(), time.monotonic() + limit_s
    try:
        process.stdin.write(request)  # shorter than a pipe holds
    except BrokenPipeError:
        return b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(answer) < size and selector.select(max(0.0, end - time.monotonic())):
            if not (block := os.read(process.stdout.fileno(), BLOCK)):
                break
            answer += block
    return bytes(answer)


def _why_ended(process: subprocess.Popen[bytes], words: IO[bytes], limit_s: float) -> str:
    try:
        code = process.wait(1.0)  # its pipe has ended, or the limit is over
    except subprocess.TimeoutExpired:
        return f"METIS has not answered within {limit_s:.1f} s and was ended"
    if code < 0:
        return f"METIS' process was ended by signal {-code} ({signal.strsignal(-code)})"
    words.seek(0)
    last_line = words.read().decode(errors="replace").strip().rpartition("\n")[2]
    return (
        f"METIS' process ended with {code}: {last_line}" if code else "METIS' process ended before its answer was whole"
    )


def main() -> None:
    setting = json.loads(sys.argv[1])
    sys.path[:] = setting["path"]
    import pymetis

    output = os.dup(1)
    os.dup2(2, 1)  # where METIS prints its remarks on a graph
    flags = fcntl.fcntl(output, fcntl.F_GETFL)
    fcntl.fcntl(output, fcntl.F_SETOWN, os.getpid())
    with os.fdopen(setting["graph"], "rb") as graph, os.fdopen(output, "wb") as file:
        for line in sys.stdin.buffer:
            request = json.loads(line)
            signal.setitimer(signal.ITIMER_REAL, request["limit_s"] + MARGIN_S)  # where no parent is left to end it
            fcntl.fcntl(output, fcntl.F_SETFL, flags | os.O_ASYNC)  # SIGIO, which ends it, where the reader is gone
            graph.seek(0)
            columns = [array(INTEGERS) for _ in request["lengths"]]
            for column, length in zip(columns, request["lengths"], strict=True):
                column.fromfile(graph, length)
            starts, neighbours, vertex_weights, edge_weights = columns
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
            signal.setitimer(signal.ITIMER_REAL, 0)
            fcntl.fcntl(output, fcntl.F_SETFL, flags)
            file.writelines(answers)
            file.flush()


if __name__ == "__main__":
    main()
