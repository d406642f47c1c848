"""The record of a run in `runs/<run>/` (`run.json` and `events.jsonl`, see docs/contracts.md), and the overhead of the
harness in earlier series on a testbed, from the phases in these records.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from analysis.record.files import (
    RunPaths,
    SeriesPaths,
    append_event,
    read_json_or_none,
    series_folders,
    write_json_atomic,
)
from analysis.record.simulated import first_date_s
from barograph.errors import blame_of, message_of
from barograph.plan.blocks import PlannedRun
from barograph.plan.durations import Overhead, default_overhead
from barograph.plan.experiment import TestbedChoice, as_data
from barograph.settings import results_root


@dataclass
class RunRecord:
    """Events, phases and status of one run, written as they happen: a harness that dies leaves `incomplete`."""

    folder: Path
    clock: Clock
    listener: Listener
    document: dict[str, Any] = field(default_factory=dict)

    def begin(self, run: PlannedRun, facts: Mapping[str, Any], attempt: int) -> None:
        self.folder.mkdir(parents=True)
        now = self.clock.now()
        data = {key: getattr(run, key) for key in ("run_id", "block", "repetition", "order", "seed")}
        self.document = {"v": 1, **data, "variant": as_data(run.variant), **facts, "attempt": attempt}
        self.document |= {"status": "incomplete", "failure": None, "started_s": now, "ended_s": now, "phases": []}
        self._save()
        self.event("run_started", t=now)
        self.listener.tell("run_started", run_id=run.run_id, order=run.order, attempt=attempt)

    def event(self, kind: str, *, t: float | None = None, **facts: Any) -> None:
        """Record an event. `t` in epoch seconds; default: now."""
        append_event(RunPaths(self.folder), self.clock.now() if t is None else t, kind, **facts)

    @contextmanager
    def phase(self, name: str, expected_s: float = 0.0) -> Iterator[dict[str, Any]]:
        """Time a phase; the block sets `planned_s`, the time that the experiment and not the harness needed."""
        start = self.clock.now()
        entry: dict[str, Any] = {"name": name, "start_s": start, "end_s": None, "planned_s": 0.0}
        self.document["phases"].append(entry)
        self.listener.tell("phase", run_id=self.document["run_id"], phase=name, expected_s=expected_s)
        try:
            yield entry
        finally:
            entry["end_s"] = self.clock.now()

    def add(self, facts: Mapping[str, Any]) -> None:
        self.document |= facts

    def end(self, status: str, error: BaseException | None = None) -> None:
        """Save the record; the last status wins, the first failure stays."""
        self.document["status"] = status
        self.document["ended_s"] = self.clock.now()
        if (date_s := self.document.get("date_s")) is not None:  # simulated: its other times are not wall times
            self.document["wall_s"] = time.time() - date_s
        if isinstance(error, Exception) and self.document["failure"] is None:
            phases = self.document["phases"]
            where = phases[-1]["name"] if phases else "before the first phase"
            self.document["failure"] = {"blame": blame_of(error), "message": message_of(error), "where": where}
        self._save()

    def _save(self) -> None:
        write_json_atomic(RunPaths(self.folder).run_json, self.document)


def read_run(folder: Path) -> dict[str, Any] | None:
    """Return a run's document; None where it cannot be read."""
    return read_json_or_none(RunPaths(folder).run_json)


def is_of_execution(run: Mapping[str, Any], opened_s: float) -> bool:
    """Return whether the record names this execution: the box's clock may have been set back since the opening."""
    return bool(run.get("opened_s") == opened_s)


def set_attempt_aside(folder: Path, attempts: Path) -> int:
    """Move an earlier, unfinished attempt to `attempts/`, never over another, and return this attempt's number,
    from 1."""
    number = 1
    while (attempts / f"{folder.name}.attempt-{number}").exists():
        number += 1
    if not folder.exists():
        return number
    attempts.mkdir(exist_ok=True)
    folder.rename(attempts / f"{folder.name}.attempt-{number}")
    return number + 1


class Clock(Protocol):
    def now(self) -> float:
        """Return epoch seconds without jumps, even if the box's clock is set."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def restart(self) -> None:
        """Synchronise with the box's clock, which may have been set between runs."""
        ...

    def shift(self, seconds: float) -> None:
        """Add seconds from now on, by which the machines' clocks are ahead."""
        ...

    def each_second(self, action: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `action` once a second of the block, whatever the block waits for, and never after it. It must not
        raise, and shared data needs a lock: the call may come from another thread."""
        ...


class MonotonicClock:
    """The box's time when the clock started, plus the seconds since."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._ahead_s = time.time() - time.monotonic()

    def now(self) -> float:
        return time.monotonic() + self._ahead_s

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def shift(self, seconds: float) -> None:
        self._ahead_s += seconds

    @contextmanager
    def each_second(self, action: Callable[[], None]) -> Iterator[None]:
        stop = threading.Event()

        def work() -> None:
            while not stop.wait(1.0):
                action()

        thread = threading.Thread(target=work, name="each second", daemon=True)  # a second interrupt ends the process
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(ACTION_S)


ACTION_S = 30.0  # longest action of a second: a call of the policy service has a limit of 5 s


class Listener(Protocol):
    """A listener for a series' progress; the terminal follows what it writes."""

    def tell(self, kind: str, **facts: Any) -> None: ...


NEWEST_SERIES = 5  # the newest; older ones were measured with other code


def median_overhead(choice: TestbedChoice) -> Overhead:
    """Return medians over complete runs on this testbed with the same way of joining machines; else the default."""
    openings, runs, boots, paces = [], [], [], []
    folders = sorted(series_folders(results_root()), key=lambda each: each.name, reverse=True)
    documents = ((folder, read_json_or_none(SeriesPaths(folder).series_json) or {}) for folder in folders)
    alike = ((folder, document) for folder, document in documents if _is_of_testbed(document, choice))
    for folder, document in islice(alike, NEWEST_SERIES):
        mine = [run for path in folder.glob("runs/*") if (run := read_run(path)) and run["status"] == "complete"]
        runs += [overhead_of(run) for run in mine]
        boots += [_phase_s(phase) for run in mine for phase in run["phases"] if phase["name"] == "boot"]
        opened_s = float(document["opened_s"])
        begin_s = first_date_s(run for run in mine if is_of_execution(run, opened_s))
        if begin_s is not None and begin_s >= opened_s:  # else the clock was set back
            openings.append(begin_s - opened_s)
        for run in mine:  # wall seconds per simulated second; a run on machines has none
            simulated_s = float(run["ended_s"]) - float(run["started_s"])
            if run.get("wall_s") is not None and simulated_s > 0:
                paces.append(float(run["wall_s"]) / simulated_s)
    default = default_overhead(choice.name)
    if not runs:
        return default
    overhead = replace(default, run_s=median(runs), runs=len(runs))
    return replace(
        overhead,
        opening_s=median(openings) if openings else overhead.opening_s,
        boot_s=median(boots) if boots else overhead.boot_s,
        pace=median(paces) if paces else overhead.pace,
    )


def overhead_of(run: dict[str, Any]) -> float:
    """Return the seconds of a run beyond what the experiment planned, without booting, which is counted apart."""
    planned_s = sum(float(phase["planned_s"]) for phase in run["phases"])
    boots_s = sum(_phase_s(phase) for phase in run["phases"] if phase["name"] == "boot")
    return max(0.0, float(run["ended_s"]) - float(run["started_s"]) - planned_s - boots_s)


def _is_of_testbed(document: Mapping[str, Any], choice: TestbedChoice) -> bool:
    testbed = document.get("spec", {}).get("testbed", {})
    return (testbed.get("name"), testbed.get("joining", "ready")) == (choice.name, choice.joining)


def _phase_s(phase: dict[str, Any]) -> float:
    return float(phase["end_s"] or phase["start_s"]) - float(phase["start_s"])
