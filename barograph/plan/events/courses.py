"""Courses of the input rate, from the seconds since their zero to the factor of the submitted rate, in steps; and the
file of a trace, columns of ascending times and of numbers, read row by row.

A step has the mean of the course over its time, so that as many tuples fall due as by the course itself. Steps are
generated one by one: a course may be days long.
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import count
from math import cos, tau
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from scheduler_plugins.service.emission_records import LEAST_FACTOR, MOST_FACTOR

STEP_S = 1.0
Step = tuple[float, float]
"""Seconds since the zero, and the factor from then on. The last one is the course's end; its factor stays in force."""
Course = Callable[[float], Iterator[Step]]
"""The steps of a course, from the factor that is in force at its zero."""


def _spans(length_s: float | None) -> Iterator[tuple[float, float]]:
    for number in count():
        begin_s = number * STEP_S
        if length_s is not None and begin_s >= length_s:
            return
        yield begin_s, begin_s + STEP_S if length_s is None else min(begin_s + STEP_S, length_s)


def ramp(before: float, factor: float, over_s: float | None) -> Iterator[Step]:
    """Yield even steps from one to the other; one step without `over_s`."""
    for begin_s, end_s in _spans(over_s or 0.0):
        yield begin_s, _factor(before + (factor - before) * (begin_s + end_s) / 2 / (over_s or 1.0))
    yield over_s or 0.0, factor


def sine(mean: float, amplitude: float, period_s: float, for_s: float | None, phase: float) -> Iterator[Step]:
    """Yield a sine. `phase`: the part of a period that is over at the zero. It ends at the mean; without `for_s` it has
    no end."""
    turn = tau / period_s
    for begin_s, end_s in _spans(for_s):
        risen = cos(turn * begin_s + tau * phase) - cos(turn * end_s + tau * phase)
        yield begin_s, _factor(mean + amplitude * risen / (turn * (end_s - begin_s)))
    if for_s is not None:
        yield for_s, mean


def trace(rows: Iterator[Step], compression: float, for_s: float | None) -> Iterator[Step]:
    """Yield the steps of a trace. `rows`: seconds of the trace, from 0 on, and the factor from then to the next row. It
    ends with the last one."""
    _, factor = next(rows)
    following = next(rows, None)
    for begin_s, end_s in _spans(for_s):
        at, end, tuples = begin_s * compression, end_s * compression, 0.0
        while following is not None and following[0] < end:
            tuples += factor * (following[0] - at)
            (at, factor), following = following, next(rows, None)
        mean = _factor((tuples + factor * (end - at)) / ((end_s - begin_s) * compression))
        yield begin_s, mean
        if following is None:
            yield end_s, _factor(factor)
            return
    yield for_s or 0.0, mean


def _factor(value: float) -> float:
    """Return the factor that workers can follow: a course may be at 0 for a while, but not between 0 and the least
    factor."""
    return 0.0 if value < LEAST_FACTOR else round(value, 9)


MOST_ROWS, MOST_BYTES = 1_000_000, 100_000_000


class UnfitTrace(ValueError):
    """An error in a trace's file, with what is allowed."""


@dataclass(frozen=True)
class TraceForm:
    """Where times and numbers stand in the file. `columns`: their names or numbers from 1 on; with `period_s` there are
    no times."""

    columns: tuple[str | int, ...] | None = None
    unit_s: float | None = None
    period_s: float | None = None


@dataclass(frozen=True)
class TraceFacts:
    sha256: str
    length_s: float  # of the trace itself


def rows_of(path: Path, scale: float = 1.0, form: TraceForm = TraceForm()) -> Iterator[tuple[float, float]]:
    """Yield seconds since the first row, and the number times `scale`."""
    begin_s: float | None = None
    for _, seconds, number in _rows(path, form):
        begin_s = seconds if begin_s is None else begin_s
        yield seconds - begin_s, number * scale


def facts_of(path: Path, scale: float, longest_gap_s: float, form: TraceForm = TraceForm()) -> TraceFacts:
    """Return the facts. Raises UnfitTrace where the file is not a trace, or its factors or gaps are not allowed."""
    try:
        stat = path.stat()
    except OSError as error:
        raise UnfitTrace(f"there is no {path} ({error.strerror}); give a path from the experiment's file on") from error
    if not S_ISREG(stat.st_mode) and not S_ISDIR(stat.st_mode):
        raise UnfitTrace("it is no regular file; give a CSV file of seconds and factors")
    if stat.st_size > MOST_BYTES:
        raise UnfitTrace(f"it has {stat.st_size} bytes; allowed: at most {MOST_BYTES}; join some of its lines")
    return _facts_of(path, scale, longest_gap_s, form, (stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=256)  # experiments are read again and again, and a trace may be long
def _facts_of(path: Path, scale: float, longest_gap_s: float, form: TraceForm, _stamp: tuple[int, int]) -> TraceFacts:
    first_s = last_s = None
    for line, seconds, number in _rows(path, form):
        factor = number * scale
        if factor != 0 and not LEAST_FACTOR <= factor <= MOST_FACTOR:
            raise UnfitTrace(
                f"line {line} is {factor:g} times the submitted rate; allowed: 0, or {LEAST_FACTOR:g} to"
                f" {MOST_FACTOR:g}; `scale` makes factors of other numbers"
            )
        if last_s is not None and seconds <= last_s:
            raise UnfitTrace(f"line {line} is at {seconds:g} s, after {last_s:g} s; allowed: times that ascend")
        if last_s is not None and seconds - last_s > longest_gap_s:
            raise UnfitTrace(
                f"line {line} is at {seconds:g} s, {seconds - last_s:g} s after the one before; allowed: at most"
                f" longest_gap_s ({longest_gap_s:g})"
            )
        first_s, last_s = (seconds if first_s is None else first_s), seconds
    if first_s is None or last_s is None or first_s == last_s:
        raise UnfitTrace(f"it has {'no row' if first_s is None else 'one row'}; allowed: two or more, `seconds,factor`")
    return TraceFacts(sha256_of(path), last_s - first_s)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _rows(path: Path, form: TraceForm) -> Iterator[tuple[int, float, float]]:
    """Yield line, seconds and number of each row; comments and empty lines are skipped, and a header line."""
    wanted = ("factor",) if form.period_s is not None else ("seconds", "factor")
    allowed = f"finite numbers, `{','.join(wanted)}`, or a time as 2026-11-28T21:00"
    places: list[int] | None = None
    width, rows = 0, 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            for row in reader:
                if not any(cell.strip() for cell in row) or row[0].lstrip().startswith("#"):
                    continue
                if reader.line_num > MOST_ROWS:
                    raise UnfitTrace(f"it has more than {MOST_ROWS} lines; join some of them")
                if places is None:
                    header = [] if any(map(_is_number, row)) else [cell.strip() for cell in row]
                    places, width = _places(form, header, len(wanted)), len(row) if form.columns else len(wanted)
                    if header:
                        continue
                cells = [row[place].strip() for place in places if place < len(row)]
                seconds = rows * form.period_s if form.period_s is not None else _seconds(cells[0], form.unit_s or 1.0)
                if len(row) != width or len(cells) != len(wanted) or seconds is None or not _is_number(cells[-1]):
                    text = ",".join(row)[:80]
                    hint = "" if form.columns or len(row) == width else "; `columns` says which of several are meant"
                    raise UnfitTrace(f"line {reader.line_num} is {text!r}; allowed: {allowed}{hint}")
                rows += 1
                yield reader.line_num, seconds, float(cells[-1])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UnfitTrace(f"it cannot be read ({reason}); give a CSV file of seconds and factors") from error


def _places(form: TraceForm, header: list[str], number: int) -> list[int]:
    if form.columns is None:
        return list(range(number))
    if len(form.columns) != number:
        columns = "one, of the numbers" if number == 1 else "two, of the times and of the numbers"
        raise UnfitTrace(f"columns has {len(form.columns)}; allowed: {columns}")
    if unknown := [each for each in form.columns if isinstance(each, str) and each not in header]:
        names = f"its columns are {', '.join(header)}" if header else "it has no line of names; give numbers from 1 on"
        raise UnfitTrace(f"columns has {unknown[0]!r}; {names}")
    return [header.index(each) if isinstance(each, str) else each - 1 for each in form.columns]


def _seconds(text: str, unit_s: float) -> float | None:
    """Return a number of units, or a date and time of ISO 8601 (without a zone: of UTC), in seconds."""
    if _is_number(text):
        return float(text) * unit_s
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
