"""What the harness itself writes into `runs/<run>/`: `run.json` and `events.jsonl` (contracts: what a run leaves)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from analysis.errors import RecordError
from analysis.record import RunPaths, append_event, read_json, write_json_atomic
from dags.errors import blame_of, message_of
from dags.plan import PlannedRun


@dataclass
class Diary:
    """Events, phases and status of one run, on disk as they happen: a harness that dies leaves `incomplete`."""

    folder: Path
    clock: Clock
    listener: Listener
    document: dict[str, Any] = field(default_factory=dict)

    def begin(self, run: PlannedRun, facts: Mapping[str, Any], attempt: int) -> None:
        self.folder.mkdir(parents=True)
        now = self.clock.now()
        self.document = {"v": 1, **_of_plan(run), **facts, "attempt": attempt}
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
        if isinstance(error, Exception) and self.document["failure"] is None:
            self.document["failure"] = _failure(error, self.document["phases"])
        self._save()

    def _save(self) -> None:
        write_json_atomic(RunPaths(self.folder).run_json, self.document)


def read_run(folder: Path) -> dict[str, Any] | None:
    """A run's document; None where there is none that can be read."""
    try:
        return read_json(RunPaths(folder).run_json)
    except RecordError:
        return None


def make_way(folder: Path, attempts: Path) -> int:
    """Move an earlier, unfinished attempt to `attempts/`, never over another; returns this attempt's number, from 1."""
    number = 1
    while (attempts / f"{folder.name}.attempt-{number}").exists():
        number += 1
    if not folder.exists():
        return number
    attempts.mkdir(exist_ok=True)
    folder.rename(attempts / f"{folder.name}.attempt-{number}")
    return number + 1


def _of_plan(run: PlannedRun) -> dict[str, Any]:
    data = asdict(run)
    return {key: data[key] for key in ("run_id", "block", "repetition", "order", "seed", "variant")}


def _failure(error: Exception, phases: list[dict[str, Any]]) -> dict[str, str]:
    where = phases[-1]["name"] if phases else "before the first phase"
    return {"blame": blame_of(error), "message": message_of(error), "where": where}


class Clock(Protocol):
    def now(self) -> float:
        """Epoch seconds."""
        ...

    def sleep(self, seconds: float) -> None: ...


class WallClock:
    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Listener(Protocol):
    """Hears how a series goes; the terminal follows what it writes."""

    def tell(self, kind: str, **facts: Any) -> None: ...
