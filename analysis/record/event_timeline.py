"""The events of a run: their ids and order (docs/contracts.md), and what was decided at each, read from the record's
own lines. Damaged lines are skipped here; the table `damaged` counts them. Standard library only.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from analysis.record.files import RunPaths, json_lines, read_json

WHOLE_RUN = "e0"
FIRST_EVENT = "e1"
# The kinds of lines whose time is the zero of an event, and the kind of event that each stands for where it says none.
ZEROS = {"scale_requested": "scale", "rate_changed": "rate", "crashed": "crash"}


def operation_id(row: Mapping[str, Any]) -> str:
    """`e1` of `e1.2`: an operation that was aborted and sent again belongs to the event that asked for it first."""
    return str(row.get("event_id") or "").partition(".")[0]


def event_id_of(row: Mapping[str, Any]) -> str:
    """Tables of series that an older version analysed have no events: each of their runs had one."""
    return row.get("event_id") or FIRST_EVENT


def event_order(event_id: str) -> tuple[int, str]:
    """To sort by: `e2` comes before `e10`."""
    return len(event_id), event_id


Json = Mapping[str, Any]


@dataclass(frozen=True)
class EventMark:
    """A moment on the time axis; `t_s` counts from the first event of the run."""

    t_s: float
    event_id: str
    kind: str  # scale_out, scale_in, rate, crash, restarted, aborted, repeated
    label: str


@dataclass(frozen=True)
class EventOutcome:
    """One event of the plan, as it went: what was asked for, decided, applied and left behind."""

    event_id: str
    kind: str
    asked: str
    reason: str | None  # of the decision; None where none was made
    decided_s: float | None  # after the request
    applied_s: float | None
    held: str | None  # why there was no decision yet, the last word
    held_rounds: int
    aborted: tuple[str, ...]  # reasons, one an attempt that was given up
    released: tuple[str, ...]
    given_back: bool | None  # None: nobody left


def timed_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The timed objects of a file of lines, oldest first."""
    return (line for line in json_lines(path) if isinstance(line.get("t"), int | float))


def run_events(run: RunPaths) -> list[dict[str, Any]]:
    named = (event for event in timed_lines(run.events) if isinstance(event.get("kind"), str))
    return sorted(named, key=lambda event: float(event["t"]))


def first_zero(found: list[dict[str, Any]]) -> float | None:
    """When the first event of the run happened."""
    return next((float(event["t"]) for event in found if event["kind"] in ZEROS), None)


def event_marks(run: RunPaths) -> list[EventMark]:
    """Every event of the plan, and what became of it where that shows in a timeline."""
    found = run_events(run)
    start = first_zero(found)
    if start is None:
        return []
    asked: set[str] = set()
    made = []
    for event in found:
        drawn = _event_mark(event, operation_id(event) in asked)
        if event["kind"] in ZEROS:
            asked.add(operation_id(event))
        if drawn is not None:
            made.append(EventMark(float(event["t"]) - start, operation_id(event), *drawn))
    return made


def _event_mark(event: Json, again: bool) -> tuple[str, str] | None:
    kind = event["kind"]
    if kind == "scale_requested":
        return ("repeated", "repeated") if again else (str(event["event"]), event_label(event))
    if kind in ("rate_changed", "crashed"):
        return ZEROS[kind], event_label(event)
    if kind == "restarted":
        return "restarted", f"{event.get('machine', 'it')} is back"
    return ("aborted", "aborted") if kind == "scale_aborted" else None


def event_label(event: Json) -> str:
    """An event of the plan in two or three words."""
    if event["kind"] == "rate_changed":
        return f"rate × {event.get('factor', '?'):g}" if isinstance(event.get("factor"), int | float) else "rate"
    if event["kind"] == "crashed":
        return f"{event.get('machine', 'a machine')} crashes"
    if event.get("event") == "scale_in":
        return f"scale in{_machine_count(event.get('leave'), '−')}"
    joined = event.get("joined")
    return f"scale out{_machine_count(None if joined is None else len(joined), '+')}"


def _machine_count(number: int | None, sign: str) -> str:
    """Nothing where the number is not told, as in logs of others."""
    return "" if number is None else f", {sign}{number} machine{'' if number == 1 else 's'}"


def event_outcomes(run: RunPaths) -> list[EventOutcome]:
    """Each event of the plan in its order."""
    found = run_events(run)
    held = _hold_reasons(run)
    zeros = {operation_id(event): event for event in reversed(found) if event["kind"] in ZEROS}
    ordered = sorted(zeros.items(), key=lambda pair: float(pair[1]["t"]))
    bounds = [*(float(event["t"]) for _, event in ordered), float("inf")]
    spans = [[event for event in found if start <= float(event["t"]) < end] for start, end in pairwise(bounds)]
    return [
        _event_outcome(name, event, span, held.get(name, []))
        for (name, event), span in zip(ordered, spans, strict=True)
    ]


def _event_outcome(name: str, event: Json, span: list[dict[str, Any]], held: list[str]) -> EventOutcome:
    start = float(event["t"])
    decision = _first_of_kind(span, "decision")
    applied = next((e for e in span if e["kind"] == "applied" and e.get("ok")), None)
    left = [e for e in span if e["kind"] == "machines_left"]
    return EventOutcome(
        name, str(event.get("event") or ZEROS[event["kind"]]), event_label(event),
        str(decision.get("reason") or "") if decision else None,
        _seconds_after(decision, start), _seconds_after(applied, start), held[-1] if held else None, len(held),
        tuple(str(e.get("reason") or "no reason recorded") for e in span if e["kind"] == "scale_aborted"),
        tuple(machine for e in left for machine in e.get("machines") or ()),
        all(bool(e.get("given_back")) for e in left) if left else None,
    )  # fmt: skip


def _first_of_kind(span: list[dict[str, Any]], kind: str) -> dict[str, Any] | None:
    return next((event for event in span if event["kind"] == kind), None)


def _seconds_after(event: Json | None, start: float) -> float | None:
    return None if event is None else float(event["t"]) - start


def _hold_reasons(run: RunPaths) -> dict[str, list[str]]:
    """By event: the reasons of the rounds in which it was pending and the policy declined to decide."""
    reasons: dict[str, list[str]] = {}
    for line in timed_lines(run.decisions):
        event = (line.get("observation") or {}).get("event")
        reason = str((line.get("decision") or {}).get("reason") or "")
        if event and reason.startswith("held"):
            reasons.setdefault(operation_id(event), []).append(reason.removeprefix("held").lstrip(": "))
    return reasons


def run_document(run: RunPaths) -> dict[str, Any]:
    """run.json, or nothing where it is missing: the tables of runs say why."""
    return read_json(run.run_json) if run.run_json.is_file() else {}
