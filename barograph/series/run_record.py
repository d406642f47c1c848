"""The record of a run as the harness writes it into `runs/<run>/` (`run.json` and `events.jsonl`, see
docs/contracts.md), and how much time the harness itself took in earlier series on a testbed, from the phases in these
records.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
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
    """Events, phases and status of one run, on disk as they happen: a harness that dies leaves `incomplete`."""

    folder: Path
    clock: Clock
    listener: Listener
    document: dict[str, Any] = field(default_factory=dict)

    def begin(self, run: PlannedRun, facts: Mapping[str, Any], attempt: int) -> None:
        self.folder.mkdir(parents=True)
        now = self.clock.now()
        self.document = {"v": 1, **_plan_facts(run), **facts, "attempt": attempt}
        self.document |= {"status": "incomplete", "failure": None, "started_s": now, "ended_s": now, "phases": []}
        self._save()
        self.event("run_started", t=now)
        self.listener.tell("run_started", run_id=run.run_id, order=run.order, attempt=attempt)

    def event(self, kind: str, *, t: float | None = None, **facts: Any) -> None:
        """`t` in epoch seconds; now unless said."""
        append_event(RunPaths(self.folder), self.clock.now() if t is None else t, kind, **facts)

    @contextmanager
    def phase(self, name: str, expected_s: float = 0.0) -> Iterator[dict[str, Any]]:
        """Times a phase; the block sets `planned_s` where the experiment and not the harness needed the time."""
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
        """Keeps the record as it stands; the last status wins, the first failure stays."""
        self.document["status"] = status
        self.document["ended_s"] = self.clock.now()
        if (date_s := self.document.get("date_s")) is not None:  # simulated: its other times say nothing of that
            self.document["wall_s"] = time.time() - date_s
        if isinstance(error, Exception) and self.document["failure"] is None:
            self.document["failure"] = _failure_facts(error, self.document["phases"])
        self._save()

    def _save(self) -> None:
        write_json_atomic(RunPaths(self.folder).run_json, self.document)


def read_run(folder: Path) -> dict[str, Any] | None:
    """A run's document; None where there is none that can be read."""
    return read_json_or_none(RunPaths(folder).run_json)


def is_of_execution(run: Mapping[str, Any], opened_s: float) -> bool:
    """By the record's own word: the box's clock may have been set back since the opening."""
    if (mine_s := run.get("opened_s")) is None:  # not in older records
        return bool(run.get("started_s", 0.0) >= opened_s)
    return bool(mine_s == opened_s)


def set_attempt_aside(folder: Path, attempts: Path) -> int:
    """Move an earlier, unfinished attempt to `attempts/`, never over another; returns this attempt's number, from 1."""
    number = 1
    while (attempts / f"{folder.name}.attempt-{number}").exists():
        number += 1
    if not folder.exists():
        return number
    attempts.mkdir(exist_ok=True)
    folder.rename(attempts / f"{folder.name}.attempt-{number}")
    return number + 1


def _plan_facts(run: PlannedRun) -> dict[str, Any]:
    data = {key: getattr(run, key) for key in ("run_id", "block", "repetition", "order", "seed")}
    return data | {"variant": as_data(run.variant)}


def _failure_facts(error: Exception, phases: list[dict[str, Any]]) -> dict[str, str]:
    where = phases[-1]["name"] if phases else "before the first phase"
    return {"blame": blame_of(error), "message": message_of(error), "where": where}


class Clock(Protocol):
    def now(self) -> float:
        """Epoch seconds; they never jump, whoever sets the box's clock."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def restart(self) -> None:
        """From now on as the box has it: between runs its clock may have been set."""
        ...

    def shift(self, seconds: float) -> None:
        """Add this to the time from now on: the machines' clocks are ahead by so much."""
        ...

    def each_second(self, action: Callable[[], None]) -> AbstractContextManager[None]:
        """`action` is called once a second of the block, whatever the block waits for, and never after it. It must not
        raise, and whatever both use needs a lock: it may be called from another thread."""
        ...


class MonotonicClock:
    """The time of the box when this was started, and the seconds since."""

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
        over = threading.Event()

        def work() -> None:
            while not over.wait(1.0):
                action()

        thread = threading.Thread(target=work, name="each second", daemon=True)  # a second interrupt ends the process
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(ACTION_S)


ACTION_S = 30.0  # of what is done each second, at most: a call of the policy service has a limit of 5 s


class Listener(Protocol):
    """Hears how a series goes; the terminal follows what it writes."""

    def tell(self, kind: str, **facts: Any) -> None: ...


NEWEST_SERIES = 5  # the newest; older ones were measured with other code


def median_overhead(choice: TestbedChoice) -> Overhead:
    """Medians over complete runs on this testbed that had their joining machines in the same way; else the default."""
    openings, runs, boots, paces = [], [], [], []
    for folder, document in _newest_series(choice):
        mine = [run for path in folder.glob("runs/*") if (run := read_run(path)) and run["status"] == "complete"]
        runs += [overhead_of(run) for run in mine]
        boots += [_phase_s(phase) for run in mine for phase in run["phases"] if phase["name"] == "boot"]
        openings += _opening_s(document, mine)
        paces += [pace for run in mine if (pace := _pace(run)) is not None]
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


def _pace(run: Mapping[str, Any]) -> float | None:
    """Seconds that a simulated second took; None of a run on machines, or one whose record does not say."""
    simulated_s = float(run["ended_s"]) - float(run["started_s"])
    return None if run.get("wall_s") is None or simulated_s <= 0 else float(run["wall_s"]) / simulated_s


def overhead_of(run: dict[str, Any]) -> float:
    """Seconds of a run that the experiment did not ask for; booting stands beside it."""
    planned_s = sum(float(phase["planned_s"]) for phase in run["phases"])
    boots_s = sum(_phase_s(phase) for phase in run["phases"] if phase["name"] == "boot")
    return max(0.0, float(run["ended_s"]) - float(run["started_s"]) - planned_s - boots_s)


def _opening_s(document: dict[str, Any], runs: list[dict[str, Any]]) -> list[float]:
    """From the opening to the first run of that execution."""
    opened_s = float(document["opened_s"])
    begun = first_date_s(run for run in runs if is_of_execution(run, opened_s))
    return [begun - opened_s] if begun is not None and begun >= opened_s else []  # else the clock was set back


def _newest_series(choice: TestbedChoice) -> Iterator[tuple[Path, dict[str, Any]]]:
    count = 0
    for folder in sorted(series_folders(results_root()), key=lambda each: each.name, reverse=True):
        document = read_json_or_none(SeriesPaths(folder).series_json) or {}
        testbed = document.get("spec", {}).get("testbed", {})
        if (testbed.get("name"), testbed.get("joining", "ready")) != (choice.name, choice.joining):
            continue
        count += 1
        yield folder, document
        if count == NEWEST_SERIES:
            return


def _phase_s(phase: dict[str, Any]) -> float:
    return float(phase["end_s"] or phase["start_s"]) - float(phase["start_s"])
