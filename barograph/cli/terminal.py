"""A command on its terminal: lines and tables on stdout, notes on stderr, and the signals that end it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from analysis.report.table import ResultTable
from barograph.errors import Say

C_LIBRARY = ctypes.CDLL(None)


def stdout_console() -> Console:
    """Return the console of stdout: square brackets are text, such as those in a commit's subject or an error."""
    return Console(file=sys.stdout, markup=False)


def line_printer(console: Console) -> Say:
    """Print a text as it is, without rich's markup and not wrapped."""

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    return say


def plain_table(*columns: str) -> Table:
    """Return a table without lines; long cells are folded."""
    folded = (Column(name, overflow="fold") for name in columns)
    return Table(*folded, box=None, pad_edge=False)


def result_table(table: ResultTable) -> Table:
    """Return a table of a page for the terminal: long cells are folded."""
    columns = (
        Column(column.label, overflow="fold", justify="right" if column.is_number else "left")
        for column in table.columns
    )
    grid = Table(*columns, box=None, pad_edge=False, collapse_padding=True)
    for row in table.text_rows():
        grid.add_row(*map(Text, row))
    return grid


def say(text: str) -> None:
    print(text, flush=True)


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def stderr_for_libraries() -> Iterator[None]:
    """Send the output of C libraries (METIS, given too few vertices) to stderr: stdout may be read as JSON. For a
    single thread: in the block nothing else may print on stdout."""
    sys.stdout.flush()
    C_LIBRARY.fflush(None)
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        C_LIBRARY.fflush(None)
        os.dup2(stdout, 1)
        os.close(stdout)


ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_held() -> Iterator[None]:
    """Delay an ending signal until after the block, when what the block started is known and can be ended."""
    came: list[int] = []
    handlers = {number: signal.signal(number, lambda each, _: came.append(each)) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    heard = [number for number in came if signal.getsignal(number) != signal.SIG_IGN]
    if heard:
        signal.raise_signal(heard[0])


@contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does, and SIGINT in a background job, where shells ignore it. A
    command that `nohup` started goes on after SIGHUP."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    outlives_terminal = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    numbers = [number for number in ENDING_SIGNALS if not (number == signal.SIGHUP and outlives_terminal)]
    handlers = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
