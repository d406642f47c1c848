"""The events of each run's plan on its clock: the zero of each, the time before and after it, and its decision.

A run has a few events, so this is plain Python over rows that were collected. Every metric that is taken before and
after an event has the key `EVENT`. `e0` stands for the run as a whole: the only row of a run without events.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analysis.record.event_timeline import ENDS, REST, WHOLE_RUN, ZEROS, EventLines, events_of_plan, operation_id
from analysis.record.small_tables import EVENT, UNIT, Unit, by_unit, unit_columns, unit_of

Row = Mapping[str, Any]


def scale_event_rows(
    events: Iterable[Row], zeros: Iterable[Row], machines: Iterable[Row],
    spans_s: Mapping[Unit, tuple[float, float]] = MappingProxyType({}),
) -> list[dict[str, Any]]:  # fmt: skip
    """Return rows of the table `scale_events`; `zeros` gives each run's time axis, `machines` its description.
    `spans_s`: from when until when topologies exist that arrive or depart meanwhile; they have no other events."""
    of_units = by_unit(sorted(events, key=lambda event: float(event["t_s"])))
    at_start: dict[str, list[str]] = defaultdict(list)
    for machine in machines:
        at_start[machine["run_id"]] += [] if machine["joins_at_scale"] else [machine["machine"]]
    found = []
    for axis in zeros:
        begun_s, ended_s = spans_s.get(unit_of(axis), (-inf, inf))
        for row in events_of_unit(of_units.get(unit_of(axis), ()), axis, at_start.get(axis["run_id"])):
            if begun_s <= row["zero_s"] <= ended_s:
                arrives = {"from_s": None, "first_s": axis["first_s"]} if row["zero_s"] == begun_s else {}
                departs = {"until_s": row["zero_s"], "last_s": row["zero_s"]} if row["zero_s"] == ended_s else {}
                found.append(row | arrives | departs)
    return found


def events_of_unit(events: Sequence[Row], axis: Row, machines: Collection[str] | None) -> list[dict[str, Any]]:
    """The events of one run in the order in which they happened; `machines` at its start, None where nothing says."""
    living = None if machines is None else set(machines)
    planned = events_of_plan(events, "t_s")
    if not planned:
        whole = _span(axis, WHOLE_RUN, "none", float(axis["zero_s"]), None, None)
        return [whole | {"machines_before": None if living is None else len(living)}]
    rows: list[dict[str, Any]] = []
    for event, from_s in zip(planned, [None, *(each.zero_s for each in planned)], strict=False):
        kind = event.request["event"] or ZEROS[event.request["kind"]]
        result = _event_result(event)
        died = _names([line for line in event.span if line["kind"] == "scale_aborted"], "machines")
        before = None if living is None else len(living.difference(died))
        span = _span(axis, event.event_id, kind, event.zero_s, from_s, event.until_s)
        rows.append(span | result | {"machines_before": before})
        if living is not None:
            down, back = ([e["machine"] for e in event.span if e["kind"] == k] for k in ("crashed", "restarted"))
            joined, released = result["joined"], result["released"]
            living = None if joined is None else living.difference(died, down, released).union(joined, back)
    return rows


def _span(
    axis: Row, event_id: str, kind: str, zero_s: float, from_s: float | None, until_s: float | None
) -> dict[str, Any]:
    """Return a span. `from_s`, `until_s`: null at the run's own ends; `first_s`, `last_s`: observed time."""
    return {
        **unit_columns(unit_of(axis)), "event_id": event_id, "kind": kind, "zero_s": zero_s, "from_s": from_s,
        "until_s": until_s, "first_s": axis["first_s"] if from_s is None else from_s,
        "last_s": axis["last_s"] if until_s is None else until_s, "joined": [], "released": [], "ended_s": None,
    }  # fmt: skip


def _event_result(event: EventLines) -> dict[str, Any]:
    """Return the result of an event: machines, attempts, and when the decision was taken that Storm then carried out.

    Machines and attempts are null in a log of others that has no more than the time of a scale event.
    """
    of_event = [line for line in event.span if operation_id(line) == event.event_id]
    requests = [line for line in of_event if line["kind"] in ZEROS]
    departures = [line for line in event.span if line["kind"] == "machines_left"]
    arrivals, removals = _changes(event.span, set(_names(requests, "joined")))
    applications = [line for line in event.answers if line["kind"] == "applied" and line["ok"]]
    carried_out = {line["decision_id"] for line in applications}
    decisions = [line for line in event.answers if line["kind"] == "decision" and line["decision_id"] in carried_out]
    result = {
        "joined": sorted(arrivals),
        "released": sorted(removals),
        "given_back": len(_names([line for line in departures if line["given_back"]], "machines")),
        "attempts": len(requests),
    }
    is_silent = any(line["kind"] == "scale_requested" and line["joined"] is None for line in requests)
    return (dict.fromkeys(result) if is_silent else result) | {
        # End of what it had begun. If it lasts until the run ends it has no end: it was part of the watch.
        "ended_s": max((line["t_s"] for line in of_event if line["kind"] in ENDS), default=None),
        "decided_s": min((line["t_s"] for line in decisions), default=None),
        "applied_s": max((line["t_s"] for line in applications), default=None),
    }


def _changes(span: Sequence[Row], joined: set[str]) -> tuple[set[str], set[str]]:
    """Return the machines that have joined and those that have left when the span is over. `joined`: for the event
    itself, in all attempts; a policy that acts by itself may have machines join and leave, and come back."""
    released: set[str] = set()
    for event in span:
        names = set(event["machines"] or ())
        if event["kind"] == "machines_joined" and event["event_id"]:
            joined, released = joined | (names - released), released - names
        elif event["kind"] == "machines_left":
            joined, released = joined - names, released | (names - joined)
        elif event["kind"] == "scale_aborted":
            joined = joined - names  # they died
    return joined, released


def _names(events: Iterable[Row], column: str) -> list[str]:
    return sorted({name for event in events for name in event[column] or []})


SPANS = (
    "run_id string, topology string, event_id string, zero_s double, from_s double, until_s double, first_s double, "
    "last_s double"
)


def split_at_ends(spans: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the spans (columns of `SPANS`) of runs in which something that an event had begun was over before the next
    one: a further zero there, of an event `e1.rest`. The time after that one is the rest of the side."""
    columns = [column.split()[0] for column in SPANS.split(", ")]
    split = []
    for of_unit in by_unit(sorted(spans, key=lambda span: float(span["zero_s"]))).values():
        begin: dict[str, float] = {}  # of the next span, if the one before it was split
        for row in of_unit if any(map(_has_rest, of_unit)) else ():
            span = {name: row[name] for name in columns} | begin
            begin = {}
            if not _has_rest(row):
                split.append(span)
                continue
            end_s = row["ended_s"]
            split.append(span | {"until_s": end_s, "last_s": end_s})
            rest = {"event_id": f"{row['event_id']}.{REST}", "zero_s": end_s}
            split.append(span | rest | {"from_s": row["zero_s"], "first_s": row["zero_s"]})
            begin = {"from_s": end_s, "first_s": end_s}
    return split


def _has_rest(span: Row) -> bool:
    ended_s = span["ended_s"]
    return ended_s is not None and bool(span["zero_s"] < ended_s < span["last_s"])


def rests(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return rows of the rests of split spans, as of their events."""
    suffix = f".{REST}"
    return [
        {**row, "event_id": row["event_id"].removesuffix(suffix), "phase": REST}
        for row in rows if row["phase"] == "after" and row["event_id"].endswith(suffix)
    ]  # fmt: skip


# --- for the transforms ----------------------------------------------------------------------------------------------


def event_spans(spans: DataFrame) -> DataFrame:
    """Return the spans without the rows of runs in which nothing happened."""
    return spans.where(f.col("event_id") != WHOLE_RUN)


def with_phase(samples: DataFrame, spans: DataFrame, instant: Column) -> DataFrame:
    """Return samples with `event_id` and `phase`, once for every event whose span holds their instant."""
    columns = [f.col(f"`{name}`") for name in samples.columns]
    bounds = f.broadcast(spans.select(*EVENT, "zero_s", "from_s", "until_s"))
    return samples.join(bounds, list(UNIT), how="inner").where(within_span(instant)).select(
        *columns, "event_id", phase_of(instant).alias("phase")
    )  # fmt: skip


def phase_of(instant: Column) -> Column:
    return f.when(instant <= f.col("zero_s"), "before").otherwise("after")


def within_span(instant: Column) -> Column:
    """Return whether an instant is between the previous event and the next; both ends of a run are open."""
    after_start = f.col("from_s").isNull() | (instant > f.col("from_s"))
    return after_start & (f.col("until_s").isNull() | (instant <= f.col("until_s")))
