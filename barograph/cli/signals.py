"""Signals that end a command: as Ctrl-C does, or after a block that must not be cut short."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

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
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does, and SIGINT in a background job, where shells ignore it.

    A command that `nohup` started goes on after SIGHUP.
    """

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
