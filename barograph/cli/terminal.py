"""Where a command prints: lines and tables on stdout, notes on stderr."""

from __future__ import annotations

import sys

from rich.console import Console

from barograph.errors import Say


def stdout_console() -> Console:
    return Console(file=sys.stdout)


def line_printer(console: Console) -> Say:
    """Print a text as it is, without rich's markup and not wrapped."""

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    return say


def say(text: str) -> None:
    print(text, flush=True)


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
