"""The progress file `progress.jsonl` of a series, written by the steps and followed by the terminal. One JSON object a
line.

A full disk cuts lines short: every reader skips damaged lines, and `ProgressReader` counts them. `SeriesStatus` adds
the lines up: phase, run, throughput, time left.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from analysis.record.files import append_line
from barograph.errors import SEVERITY
from barograph.plan.durations import DEFAULT_OVERHEAD, run_s
from barograph.plan.events import KINDS
from barograph.plan.experiment import Experiment
from barograph.testbeds.costs import usd

PROGRESS_FILE = "progress.jsonl"
OPENED = "opened"  # the first line of an execution (not in older files); with its `opened_s`


class ProgressFile:
    """A file that appends whole lines; a lost line does not fail a run."""

    def __init__(self, series_dir: Path) -> None:
        self._path = series_dir / PROGRESS_FILE

    def tell(self, kind: str, **facts: Any) -> None:
        try:
            append_line(self._path, {"t": time.time(), "kind": kind, **facts})
        except OSError:
            return


class ProgressReader:
    """A reader of lines appended since the last look; it leaves a half-written line for the next one. `damaged` counts
    invalid lines."""

    def __init__(self, series_dir: Path) -> None:
        self._path = series_dir / PROGRESS_FILE
        self._offset = self._path.stat().st_size if self._path.exists() else 0
        self.damaged = 0

    def new(self) -> Iterator[dict[str, Any]]:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                if (parsed := _parse(line)) is None:
                    self.damaged += 1
                else:
                    yield parsed


def failures_since(series_dir: Path, since_s: float) -> list[dict[str, Any]]:
    """Return the final failures since `since_s` (epoch seconds). Here and in `lines_since` the time of an opening
    identifies its execution, even if the clock was set back since."""
    return failures_in(_lines_from(series_dir, since_s))


def failures_in(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the final failures: failed runs, else the first step that failed. Later failures, such as an analysis of
    nothing, are consequences."""
    failures = [line for line in lines if line.get("blame") in SEVERITY and "message" in line]
    runs = [line for line in failures if line["kind"] == "run_failed" and not line.get("again")]
    return runs or [line for line in failures if line["kind"] == "step_failed"][:1]


def worst_of(failures: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Return the blame and message of the worst of these lines; the message names its run, and the number of others."""
    failure = min(failures, key=lambda failure: SEVERITY.index(failure["blame"]))
    where = f"{failure['run_id']}: " if failure.get("run_id") else ""
    rest = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    return str(failure["blame"]), f"{where}{failure['message']}{rest}"


def lines_since(series_dir: Path, kind: str, since_s: float) -> list[dict[str, Any]]:
    """Return the lines of that kind since `since_s` (epoch seconds)."""
    return [line for line in _lines_from(series_dir, since_s) if line["kind"] == kind]


def lines_between(series_dir: Path, since_s: float, until_s: float) -> list[dict[str, Any]]:
    """Return every line of that time (epoch seconds)."""
    return [line for line in _lines_from(series_dir, since_s) if float(line["t"]) <= until_s]


def _lines_from(series_dir: Path, since_s: float) -> list[dict[str, Any]]:
    lines = list(_lines(series_dir / PROGRESS_FILE))
    openings = [place for place, line in enumerate(lines) if line["kind"] == OPENED and line.get("opened_s") == since_s]
    return lines[openings[-1] :] if openings else [line for line in lines if float(line["t"]) >= since_s]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    with path.open("rb") as file:
        yield from filter(None, map(_parse, file))


def _parse(line: bytes) -> dict[str, Any] | None:
    """Return the line's object, None for an invalid line."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_valid = (
        isinstance(value, dict) and isinstance(value.get("t"), int | float) and isinstance(value.get("kind"), str)
    )
    return value if is_valid else None


SERIES_PHASES = ("start", "provision", "deploy", "between_blocks", "release", "analyse")
THROUGHPUT_SAMPLES = 60


@dataclass(frozen=True)
class SeriesStatus:
    """The status of a series. `runs` is the number of this execution's runs; times are epoch seconds."""

    runs: int
    run_s: float  # a run's expected length
    phase: str = "start"
    phase_since_s: float | None = None
    phase_expected_s: float = 0.0
    run_id: str | None = None
    run_since_s: float | None = None
    done: tuple[tuple[str, str], ...] = ()  # run id, status
    lengths_s: tuple[float, ...] = ()
    throughput: tuple[float | None, ...] = ()  # of all topologies
    by_topology: Mapping[str, float] = field(default_factory=dict)  # the newest, where there are several
    notes: tuple[str, ...] = ()
    money: tuple[float, float] | None = None  # used, budget (US dollars)
    report: str | None = None
    failure: tuple[str, str] | None = None  # blame, message

    def throughput_words(self) -> str:
        """Return a text such as `310 tuples/s (star 240, other 70)`; empty where nothing has been measured."""
        if not self.throughput or self.throughput[-1] is None:
            return ""
        parts = ", ".join(f"{name} {rate:.0f}" for name, rate in self.by_topology.items())
        return f"{self.throughput[-1]:.0f} tuples/s{f' ({parts})' if parts else ''}"

    def time_left_s(self, now_s: float) -> float:
        """Return the expected seconds left, from the lengths of the runs so far."""
        each = sum(self.lengths_s) / len(self.lengths_s) if self.lengths_s else self.run_s
        current = max(0.0, each - (now_s - self.run_since_s)) if self.run_since_s is not None else 0.0
        number = self.runs - len(self.done) - (1 if self.run_since_s is not None else 0)
        rest = max(0.0, self.phase_expected_s - self.phase_s(now_s)) if self.run_since_s is None else 0.0
        closing = 0.0 if self.phase in ("release", "analyse") else DEFAULT_OVERHEAD.closing_s
        opening = DEFAULT_OVERHEAD.opening_s if self.phase in ("start", "provision") else 0.0
        return max(0, number) * each + current + rest + closing + opening

    def phase_s(self, now_s: float) -> float:
        """Return the seconds since the phase began; 0 where the clock was set back since."""
        return 0.0 if self.phase_since_s is None else max(0.0, now_s - self.phase_since_s)


def initial_status(runs: int, experiment: Experiment) -> SeriesStatus:
    return SeriesStatus(runs, run_s(experiment))


def fact_rows(status: SeriesStatus, now_s: float) -> tuple[tuple[str, str], ...]:
    """Return names and values that interest a waiting person, for the terminal and for the page of a DAG run."""
    rows = (
        ("phase", f"{PHASE_WORDS.get(status.phase, status.phase)}, for {minutes(status.phase_s(now_s))}"),
        ("run", status.run_id or "–"),
        ("throughput", status.throughput_words() or "–"),
        ("runs", f"{len(status.done)} of {status.runs} done, about {time_words(status.time_left_s(now_s))} left"),
    )
    if status.money is None:
        return rows
    return (*rows, ("money", f"{usd(status.money[0])} of {usd(status.money[1])}"))


def update_status(status: SeriesStatus, line: Mapping[str, Any]) -> SeriesStatus:
    """Return the status after one more line; unknown kinds change nothing."""
    match line.get("kind"):
        case "phase":
            status = replace(
                status, phase=line["phase"], phase_since_s=line["t"], phase_expected_s=line.get("expected_s", 0.0)
            )
            if line["phase"] in SERIES_PHASES:
                return replace(status, run_id=None, run_since_s=None, throughput=())
        case "run_started":
            return replace(status, run_id=line["run_id"], run_since_s=line["t"], throughput=())
        case "run_ended":
            is_timed = line["status"] == "complete" and status.run_since_s is not None
            lengths_s = (*status.lengths_s, line["t"] - status.run_since_s) if is_timed else status.lengths_s
            done = (*status.done, (line["run_id"], line["status"]))
            return replace(status, done=done, lengths_s=lengths_s, run_id=None, run_since_s=None)
        case "run_failed":
            word = "repeated" if line["again"] else "failed"
            note = f"{line['run_id']} {word}: {line['blame']}: {line['message']}"
            done = status.done if line["again"] else (*status.done, (line["run_id"], "failed"))
            return replace(status, notes=(*status.notes, note), done=done, run_id=None, run_since_s=None)
        case "throughput":
            rates = (*status.throughput, line["per_s"])[-THROUGHPUT_SAMPLES:]
            return replace(status, throughput=rates, by_topology=line.get("by_topology", {}))
        case "message":
            return replace(status, notes=(*status.notes, line["text"]))
        case "money" if "used_usd" in line:
            return replace(status, money=(line["used_usd"], line["budget_usd"]))
        case "report":
            return replace(status, report=line["path"])
        case "failed":
            return replace(status, failure=(line["blame"], line["message"]))
    return status


_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], width: int = 40) -> str:
    """Return a bar for each of the last values, scaled from 0 to the largest; a gap where nothing was measured."""
    window = values[-width:]
    top = max((value for value in window if value is not None), default=0.0)
    if top <= 0:
        return "".join(" " if value is None else _BARS[0] for value in window)
    return "".join(" " if value is None else _BARS[round(value / top * (len(_BARS) - 1))] for value in window)


def minutes(seconds: float) -> str:
    """Return a text such as `3:07`."""
    total_s = round(seconds)
    return f"{total_s // 60}:{total_s % 60:02d}"


def time_words(seconds: float) -> str:
    """Return a text such as `3:07`, or `1 h 07 min`."""
    return minutes(seconds) if seconds < 3600 else hours(seconds)


def hours(seconds: float) -> str:
    """Return a text such as `1 h 07 min`, or `12 min`."""
    total_min = round(seconds / 60)
    return f"{total_min // 60} h {total_min % 60:02d} min" if total_min >= 60 else f"{total_min} min"


PHASE_WORDS = {
    "start": "starting",
    "provision": "acquiring machines",
    "deploy": "deploying Storm",
    "reset": "cleaning the cluster",
    "configure": "setting the policy",
    "submit": "submitting the topology",
    "first_tuple": "waiting for the first tuple",
    "warm_up": "warming up until steady",
    "after": "watching until steady again",
    "collect": "collecting the record",
    "between_blocks": "comparing what is there so far",
    "release": "releasing machines",
    "analyse": "analysing with Spark",
    **{phase: words for kind in KINDS.values() for phase, words in kind.phases.items()},
}
