"""A module `pymetis` for the process that asks METIS: it does what a test has it do, and deals vertices out."""

from __future__ import annotations

from pathlib import Path

MODULE = """
import os, signal, sys, time
from array import array


class CSRAdjacency:
    def __init__(self, starts, neighbours):
        self.starts = starts


class Options:
    def __init__(self, **options):
        self.options = options


def part_graph(count, adjacency, *, vweights, eweights, recursive, options):
    with open({calls!r}, "a") as file:
        print(os.getpid(), "bisection" if recursive else "k-way", options.options["seed"], file=file)
    {action}
    return 0, array("q", [vertex % count for vertex in range(len(adjacency.starts) - 1)])
"""


def put_fake_metis(folder: Path, action: str = "pass") -> Path:
    """Where each call leaves a line: the process, the way, the seed. `folder` is to be first in sys.path; `action` is
    a statement that each call executes."""
    calls = folder / "calls"
    calls.touch()
    (folder / "pymetis.py").write_text(MODULE.format(calls=str(calls), action=action))
    return calls
