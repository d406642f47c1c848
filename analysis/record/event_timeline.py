"""The timeline of a run: its events, their ids and order (docs/contracts.md), and the decisions at each, read from
the record's own lines. Damaged lines are counted and skipped. Standard library only.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any

from analysis.record.files import RunPaths, parsed_lines
from analysis.record.small_tables import Unit, unit_of

Json = Mapping[str, Any]
WHOLE_RUN = "e0"
FIRST_EVENT = "e1"
REST = "rest"  # instead of a side: the part after an event in which what it had begun was over
# The kinds of lines whose time is the zero of an event, and the event kind of lines without one.
ZEROS = {"scale_requested": "scale", "rate_changed": "rate", "crashed": "crash", "event_performed": "event"}
# The kinds of lines that end what an event had begun; the measurement after the event begins then.
ENDS = {"disturbance_ended": "it is over", "hold_ended": "the hold is over"}

# The kinds of lines of machines that a policy requested, or released, by itself.
POLICY_CHANGES = {"machines_joined": "joined", "machines_left": "left"}


def operation_id(row: Json) -> str:
    """Return `e1` for `e1.2`: an operation that was aborted and sent again belongs to its event."""
    return str(row.get("event_id") or "").partition(".")[0]


def lines_of_event(lines: Sequence[Json], event_id: str, span: Sequence[Json]) -> list[Json]:
    """Return the decision lines of an event: those that name it, whatever their time, which is of another
    machine's clock; if none does (for an event that asks no policy) those of its span that name no event.
    """
    answers = ("decision", "applied")
    matches = [line for line in lines if line["kind"] in answers and operation_id(line) == event_id]
    return matches or [
        line for line in span if line["kind"] in answers and not line.get("event_id") and not line.get("own")
    ]


@dataclass(frozen=True)
class EventLines:
    """The lines of one event of the plan. `request`: the first request, whose time is its zero. `span`: from
    there to the next event's zero, `until_s`, which is None for the last one. `answers`: see `lines_of_event`."""

    event_id: str
    request: Json
    zero_s: float
    until_s: float | None
    span: Sequence[Json]
    answers: Sequence[Json]


def events_of_plan(lines: Sequence[Json], time: str) -> list[EventLines]:
    """Return the events of lines that are ordered by `time`, one of their columns."""
    requests: dict[str, Json] = {}
    for line in lines:
        if line["kind"] in ZEROS and line.get("event_id"):
            requests.setdefault(operation_id(line), line)
    zeros = [float(line[time]) for line in requests.values()]
    events = []
    for (event_id, request), zero_s, until_s in zip(requests.items(), zeros, [*zeros[1:], None], strict=False):
        span = [line for line in lines if line[time] >= zero_s and (until_s is None or line[time] < until_s)]
        events.append(EventLines(event_id, request, zero_s, until_s, span, lines_of_event(lines, event_id, span)))
    return events


def absent_machines(events: Iterable[Json], described: Iterable[Json]) -> dict[tuple[Unit, str, str], set[str]]:
    """Return (unit, event, phase) -> the machines that have not joined by then, or have left and not joined again.
    From the tables `scale_events` and `machines`."""
    at_start: dict[str, set[str]] = defaultdict(set)
    for row in described:
        if row["joins_at_scale"]:
            at_start[row["run_id"]].add(row["machine"])
    machines: dict[Unit, set[str]] = {}
    absences: dict[tuple[Unit, str, str], set[str]] = {}
    for event in sorted(events, key=lambda event: float(event["zero_s"])):
        unit = unit_of(event)
        before = machines.get(unit, at_start[event["run_id"]])
        machines[unit] = (before - set(event["joined"] or ())) | set(event["released"] or ())
        absences[unit, event["event_id"], "before"] = before
        absences[unit, event["event_id"], "after"] = machines[unit]
    return absences


def crashed_machines(events: Iterable[Json]) -> defaultdict[str, set[str]]:
    """Return by run the machines that crashed, from the table `events`: while silent they do nothing."""
    machines = defaultdict[str, set[str]](set)
    for event in events:
        if event["kind"] == "crashed":
            machines[event["run_id"]].add(event["machine"])
    return machines


def memberships(events: Iterable[Json]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Return (run, machine) -> from when until when it was in the cluster, of machines that joined, left or died
    in an event. Infinite if it was there as the run began, or is as it ends. From the table `events`."""
    spans: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for event in sorted(events, key=lambda event: float(event["t_s"])):
        is_change = event["kind"] in (*POLICY_CHANGES, "scale_aborted")
        for name in event["machines"] or () if is_change else ():
            is_first, has_joined = (event["run_id"], name) not in spans, event["kind"] == "machines_joined"
            of_machine = spans.setdefault((event["run_id"], name), [])
            is_inside = is_first if not of_machine else of_machine[-1][1] == inf
            if has_joined and (is_first or not is_inside):
                of_machine.append((float(event["t_s"]), inf))
            elif not has_joined and is_inside:
                since_s = of_machine.pop()[0] if of_machine else -inf
                of_machine.append((since_s, float(event["t_s"])))
    return spans


def event_order(event_id: str) -> tuple[int, str]:
    """Return a sort key: `e2` comes before `e10`."""
    return len(event_id), event_id


@dataclass(frozen=True)
class EventMark:
    """A moment on the time axis; `t_s` counts from the first event of the run."""

    t_s: float
    event_id: str
    kind: str  # scale_out, scale_in, rate, crash, restarted, aborted, repeated, joined, left
    label: str
    input_of: str = ""  # the topology whose input alone the event changes; empty: the event is the cluster's


@dataclass(frozen=True)
class EventOutcome:
    """An event of the plan as it happened: request, decision, application and results."""

    event_id: str
    kind: str
    label: str
    reason: str | None  # of the decision; None without one
    decided_s: float | None  # after the request
    applied_s: float | None
    hold_reason: str | None  # the last reason why there was no decision yet
    hold_rounds: int
    aborted: tuple[str, ...]  # reasons, one for each abandoned attempt
    released: tuple[str, ...]
    given_back: bool | None  # None: no machine left


@dataclass(frozen=True)
class DecisionRound:
    """A scheduling round in which an event was pending, as its line of decisions.jsonl has it."""

    event_id: str  # without the attempt
    line: Json

    @property
    def observation(self) -> Json:
        observation: Json = self.line["observation"]
        return observation

    @property
    def decision(self) -> Json:
        decision: Json = self.line.get("decision") or {}
        return decision


@dataclass(frozen=True)
class RunTimeline:
    """Events by time, and rounds in the order of the log; `damaged`: lines of both files without a time, or no JSON."""

    events: tuple[dict[str, Any], ...]
    rounds: tuple[DecisionRound, ...]
    damaged: int


def read_timeline(run: RunPaths) -> RunTimeline:
    """Read a timeline once, until one of its files changes."""
    return _timeline(run, _stamp(run.events), _stamp(run.decisions))


def _stamp(path: Path) -> tuple[int, int] | None:
    facts = path.stat() if path.is_file() else None
    return (facts.st_mtime_ns, facts.st_size) if facts else None


@lru_cache(maxsize=64)  # runs: a series is read run by run, several times
def _timeline(run: RunPaths, *_stamps: tuple[int, int] | None) -> RunTimeline:
    """Return events, and rounds in which one was pending, but decisions whose answer did not reach Nimbus."""
    withdrawn: set[str] = set()

    def is_pending(line: Json) -> bool:
        withdrawn.add(str(line.get("withdrawn")))
        observation = line.get("observation")
        return isinstance(observation, dict) and isinstance(observation.get("event"), dict)

    lines, damaged_lines = _timed_lines(run.events)
    events = sorted((line for line in lines if isinstance(line.get("kind"), str)), key=lambda line: float(line["t"]))
    log, damaged_rounds = _timed_lines(run.decisions, is_pending)
    rounds = tuple(
        DecisionRound(operation_id(line["observation"]["event"]), line)
        for line in log if line.get("decision_id") is None or line["decision_id"] not in withdrawn
    )  # fmt: skip
    return RunTimeline(tuple(events), rounds, damaged_lines + damaged_rounds)


def _timed_lines(path: Path, counts: Callable[[Json], bool] = lambda _: True) -> tuple[list[dict[str, Any]], int]:
    """Return the lines for which `counts` is true, in order, and how many are damaged; none of a missing file."""
    matches, count = [], 0
    for line in parsed_lines(path):
        if line is None or not isinstance(line.get("t"), int | float):
            count += 1
        elif counts(line):
            matches.append(line)
    return matches, count


def event_times(run: RunPaths) -> dict[str, float]:
    """Return epoch seconds of `first_tuple` (of the last topology at the start) and of each event's zero."""
    times: dict[str, float] = {}
    for line in read_timeline(run).events:
        if line["kind"] == "first_tuple" and not times.keys() - {"first_tuple"}:
            times["first_tuple"] = float(line["t"])
        elif line["kind"] in ZEROS:
            times.setdefault(operation_id(line), float(line["t"]))
    return times


def first_zero(events: Sequence[Json]) -> float | None:
    """Return the time of the run's first event."""
    return next((float(event["t"]) for event in events if event["kind"] in ZEROS), None)


def event_marks(run: RunPaths) -> list[EventMark]:
    """Return every event of the plan, and its results that show in a timeline."""
    events = read_timeline(run).events
    start = first_zero(events)
    if start is None:
        return []
    request_ids: set[str] = set()
    marks = []
    for event in events:
        kind_and_label = _event_mark(event, operation_id(event) in request_ids)
        if event["kind"] in ZEROS:
            request_ids.add(operation_id(event))
        if kind_and_label is not None:
            kind, label = kind_and_label
            input_of = str(event.get("topology") or "")
            # A machine may join more than once in one hold: each time is a mark of its own.
            mark_id = ".".join(filter(None, (operation_id(event), event.get("request_id"))))
            marks.append(EventMark(float(event["t"]) - start, mark_id, kind, label, input_of))
    return marks


def planned_marks(run: RunPaths) -> list[EventMark]:
    """Return marks without machines that a policy had join or leave by itself, which differ from run to run."""
    return [mark for mark in event_marks(run) if mark.kind not in POLICY_CHANGES.values()]


def own_decisions(run: RunPaths) -> list[tuple[float, str]]:
    """Return when a policy decided by itself, on the time axis of `event_marks`, and its reason."""
    events = read_timeline(run).events
    start = first_zero(events)
    decisions = (event for event in events if event["kind"] == "decision" and event.get("own"))
    return [] if start is None else [(float(event["t"]) - start, str(event.get("reason") or "")) for event in decisions]


def _event_mark(event: Json, again: bool) -> tuple[str, str] | None:
    kind = event["kind"]
    if kind == "scale_requested":
        return ("repeated", "repeated") if again else (str(event["event"]), event_label(event))
    if kind in ZEROS:
        return str(event.get("event") or ZEROS[kind]), event_label(event)
    if kind == "restarted":
        return "restarted", f"{event.get('machine', 'it')} is back"
    if kind in ENDS and event.get("event_id"):
        return "ended", ENDS[kind]
    if kind in POLICY_CHANGES and event.get("request_id"):
        return POLICY_CHANGES[kind], f"{', '.join(event.get('machines') or ())} {POLICY_CHANGES[kind]}"
    return ("aborted", "aborted") if kind == "scale_aborted" else None


def event_label(event: Json) -> str:
    """Return an event of the plan in two or three words; kinds without a line here have them in the record."""
    if event["kind"] == "event_performed":
        return str(event.get("label") or event.get("event") or "an event")
    if event["kind"] == "rate_changed":
        factor, over_s = event.get("factor"), event.get("over_s")
        subject = " of ".join(["rate", *(str(event[key]) for key in ("source", "topology") if event.get(key))])
        change = f"{subject} × {factor:g}" if isinstance(factor, int | float) else subject
        return f"{change} over {over_s:g} s" if isinstance(over_s, int | float) else change
    if event["kind"] == "crashed":
        return f"{event.get('machine', 'a machine')} crashes"
    if event.get("event") == "reschedule":
        return "placed anew"
    if event.get("event") == "scale_in":
        return f"scale in{_machine_count(event.get('leave'), '−')}"
    machines = event.get("joined")
    return f"scale out{_machine_count(None if machines is None else len(machines), '+')}"


def _machine_count(number: int | None, sign: str) -> str:
    """Return the number of machines in words; empty if it is unknown, as in logs of others."""
    return "" if number is None else f", {sign}{number} machine{'' if number == 1 else 's'}"


def event_outcomes(run: RunPaths) -> list[EventOutcome]:
    """Return the outcome of each event of the plan, in its order."""
    timeline = read_timeline(run)
    reasons: dict[str, list[str]] = defaultdict(list)  # of rounds in which an event was pending and the policy declined
    for each in timeline.rounds:
        reason = str(each.decision.get("reason") or "")
        if reason.startswith("held"):
            reasons[each.event_id].append(reason.removeprefix("held").lstrip(": "))
    return [_outcome(event, reasons[event.event_id]) for event in events_of_plan(timeline.events, "t")]


def _outcome(event: EventLines, hold_reasons: Sequence[str]) -> EventOutcome:
    decisions = [e for e in event.answers if e["kind"] == "decision"]
    decision = next(iter(decisions), None)
    application = next((e for e in event.answers if e["kind"] == "applied" and e.get("ok")), None)
    if application is not None and application.get("decision_id"):  # so that reason and time belong to one decision
        decision = next((e for e in decisions if e.get("decision_id") == application["decision_id"]), decision)
    departures = [e for e in event.span if e["kind"] == "machines_left"]
    return EventOutcome(
        event.event_id, str(event.request.get("event") or ZEROS[event.request["kind"]]), event_label(event.request),
        str(decision.get("reason") or "") if decision else None,
        None if decision is None else float(decision["t"]) - event.zero_s,
        None if application is None else float(application["t"]) - event.zero_s,
        hold_reasons[-1] if hold_reasons else None, len(hold_reasons),
        tuple(str(e.get("reason") or "no reason recorded") for e in event.span if e["kind"] == "scale_aborted"),
        tuple(machine for e in departures for machine in e.get("machines") or ()),
        all(bool(e.get("given_back")) for e in departures) if departures else None,
    )  # fmt: skip
