"""SIGTERM as an exception, so that a step that is told to end still writes down what it has."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dags.errors import Interrupted


@contextmanager
def interruptible() -> Iterator[None]:
    """Within the block SIGTERM and SIGINT raise Interrupted; off the main thread signals are somebody else's."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise Interrupted(f"{signal.Signals(number).name} received")
