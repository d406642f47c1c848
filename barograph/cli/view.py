"""The live view of a series: a panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from barograph.series.status import PHASE_WORDS, SeriesStatus, fact_rows, sparkline, time_words, update_status
from barograph.testbeds.costs import usd


class View(Protocol):
    status: SeriesStatus

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self, line: Mapping[str, Any]) -> None:
        """Take in one line of the progress file."""
        ...

    def tick(self) -> None:
        """Redraw after some time without lines."""
        ...

    def say(self, text: str) -> None: ...


def view_for(console: Console, status: SeriesStatus, clock: Callable[[], float] = time.time) -> View:
    return Panel(console, status, clock) if console.is_terminal else Lines(console, status, clock)


class Panel:
    """Redraws a few lines in place."""

    def __init__(self, console: Console, status: SeriesStatus, clock: Callable[[], float]) -> None:
        self.status, self._console, self._clock = status, console, clock
        self._live = Live(console=console, refresh_per_second=4, transient=True, get_renderable=self._draw)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def update(self, line: Mapping[str, Any]) -> None:
        self.status = update_status(self.status, line)
        if line["kind"] in ("run_ended", "run_failed", "message"):
            self.say(_line_of(line))

    def tick(self) -> None:
        """Do nothing: Live redraws by itself."""

    def say(self, text: str) -> None:
        self._console.print(Text(text))

    def _draw(self) -> Table:
        return draw(self.status, self._clock())


def draw(status: SeriesStatus, now_s: float) -> Table:
    """Return the panel: phase, time left, throughput now, runs done."""
    table = Table.grid(padding=(0, 2))
    for name, words in fact_rows(status, now_s):
        bars = f"{sparkline(status.throughput)}  " if name == "throughput" else ""
        table.add_row(name, Text.assemble((bars, "cyan"), words))
    return table


class Lines:
    """A line for each change, and throughput every ten seconds."""

    def __init__(
        self, console: Console, status: SeriesStatus, clock: Callable[[], float], every_s: float = 10.0
    ) -> None:
        self.status, self._console, self._clock = status, console, clock
        self._every_s, self._printed_s = every_s, 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def update(self, line: Mapping[str, Any]) -> None:
        self.status = update_status(self.status, line)
        text = _line_of(line)
        if text:
            time_left = time_words(self.status.time_left_s(self._clock()))
            self.say(f"{text} (about {time_left} left)" if line["kind"] == "phase" else text)

    def tick(self) -> None:
        now, rate = self._clock(), self.status.throughput_words() if self.status.run_id else ""
        if rate and now - self._printed_s >= self._every_s:
            self._printed_s = now
            self.say(f"{self.status.run_id}: {rate}")

    def say(self, text: str) -> None:
        stamp = time.strftime("%H:%M:%S", time.localtime(self._clock()))
        self._console.print(Text(f"{stamp} {text}"), soft_wrap=True)


def _line_of(line: Mapping[str, Any]) -> str:
    kind, run = line["kind"], line.get("run_id")
    if kind == "phase":
        words = PHASE_WORDS.get(line["phase"], line["phase"])
        return f"{run}: {words}" if run else words
    if kind == "run_ended":
        return f"{run}: {line['status']}"
    if kind == "run_failed":
        return f"{run}: {line['blame']}: {line['message']}{'; repeating it' if line['again'] else ''}"
    if kind == "money" and "used_usd" in line:
        return f"money so far: {usd(line['used_usd'])} of {usd(line['budget_usd'])}"
    return str(line["text"]) if kind == "message" else ""
