"""Juice: the share of its input that a topology processes (HP 5), in windows of 10 s, each with those of the minute
before it. HP: "a sliding window of 1 minute, collecting data in sub-windows of length 10 s".

A component's juice is, over its parents i, the sum of J_i x E_i / T_i (eq. 5): E_i are i's tuples that it executed,
T_i all that i sent out. A topology's is the sum over its sinks by the number of its sources (eq. 6). A source has no
parents, and its E / T is the emitted share of the due tuples, which are its input. HP has 1, where a source
emits whatever arrives; with back-pressure tuples that were not emitted wait there and nowhere else. More tuples than
were sent on an edge, or due, are older ones, and count as the sent or due number. A source without due tuples has no
juice, and does not count as a source; one that emits as fast as it can always has something to emit.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from analysis.record.small_tables import Row, Unit, unit_columns, unit_of
from scheduler_plugins import service_level
from scheduler_plugins.service_level import EdgeCount

MINUTE_S = 60.0


@dataclass(frozen=True)
class SourceInput:
    """Due and emitted tuples of a source in a part of a run; None: not measured. `is_unknown`: the number of due tuples
    is unknown, for example after a source's process ended for good; its schedule went on. `is_unthrottled`: it emits as
    fast as it can, and reports only emitted tuples as due."""

    due: float | None = None
    emitted: float | None = None
    is_unknown: bool = False
    is_unthrottled: bool = False

    @property
    def is_idle(self) -> bool:
        """Return whether it is known that nothing was due."""
        return self.due == 0 and not self.is_unknown and not self.is_unthrottled

    @property
    def share(self) -> float | None:
        """Return the source's juice; None if unknown. 1 if due tuples were not measured, as in HP."""
        if self.is_unthrottled:
            return 1.0 if self.emitted else 0.0
        if self.is_unknown:
            return None if self.emitted else 0.0
        return 1.0 if self.due is None else min(1.0, (self.emitted or 0.0) / self.due) if self.due else 0.0


def unthrottled_units(runs: Iterable[Row]) -> frozenset[Unit]:
    """Return topologies whose sources emit as fast as they can. `runs`: a row for each topology of a run."""

    def is_unthrottled(run: Row) -> bool:
        spec, changes = json.loads(run["spec"] or "{}"), json.loads(run["topology_changes"] or "{}")
        every = spec.get("topologies") or [spec.get("topology") or {}]
        chosen: Row = next((e for e in every if len(every) == 1 or e.get("name") == run["topology"]), {})
        parts = [chosen, changes.get(chosen.get("name"), {}) if spec.get("topologies") else changes]
        parameters = {name: value for part in parts for name, value in (part.get("parameters") or {}).items()}
        return parameters.get("unthrottled") is True

    return frozenset(unit_of(run) for run in runs if is_unthrottled(run))


def inputs_of_sources(windows: Iterable[Row], is_unthrottled: bool = False) -> dict[str, SourceInput]:
    """Return by source the input in its windows of a part of a run (rows of `activity`)."""
    found: dict[str, SourceInput] = {}
    for row in windows:
        is_unknown = bool(row["due_unknown"])
        if row["component"] is not None and (is_unknown or row["due"] is not None or row["emitted"] is not None):
            before = found.get(row["component"], SourceInput())
            due, emitted = (
                known if more is None else more + (known or 0.0)
                for known, more in ((before.due, row["due"]), (before.emitted, row["emitted"]))
            )
            found[row["component"]] = SourceInput(due, emitted, before.is_unknown or is_unknown, is_unthrottled)
    return found


def by_event(rows: Iterable[Row], *more: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return rows by (unit, event) and further columns."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[unit_of(row), row["event_id"], *(row[name] for name in more)].append(row)
    return groups


def served_windows(
    activity: Iterable[Row], throughput: Iterable[Row], is_unthrottled: bool = False
) -> dict[float, bool]:
    """Return whether a tuple reached a sink, by start of each whole window of an event in which one was due or did.

    Nothing was due if all sources say so; sources without reports, as of a topology that never got a
    worker, have something to emit. Windows without reports are left out.
    """
    sources = by_window(activity)
    return {
        row["window_s"]: bool(row["rate"])
        for row in sorted(throughput, key=lambda row: float(row["window_s"]))
        if row["scope"] == "total" and row["complete"] and row["rate"] is not None
        and (row["rate"] or not is_idle(inputs_of_sources(sources[row["window_s"]], is_unthrottled)))
    }  # fmt: skip


def by_window(rows: Iterable[Row]) -> dict[float, list[Row]]:
    groups: dict[float, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["window_s"]].append(row)
    return groups


def is_idle(inputs: Mapping[str, SourceInput]) -> bool:
    """Return whether all sources say that nothing was due."""
    return bool(inputs) and all(each.is_idle for each in inputs.values())


def juice_rows(
    counts: Iterable[Row], edges: Iterable[Row], activity: Iterable[Row], throughput: Iterable[Row],
    unthrottled: Collection[Unit] = (),
) -> list[Row]:  # fmt: skip
    """Return rows of the table `juice`: for each window with a tuple at a sink, over those of its side of the event
    that have one in the minute up to its end; 0 if something was due and none came.

    `counts`: tuples sent and executed in each window (`losses`); `edges`: all edges of the topologies; `unthrottled`:
    those whose sources are.
    """
    of_units: dict[Unit, list[tuple[str, str]]] = defaultdict(list)
    for edge in edges:
        of_units[unit_of(edge)].append((edge["source"], edge["target"]))
    of_edges, of_sources = by_event(counts), by_event(activity)
    rows = []
    for key, windows in by_event(throughput).items():
        is_unthrottled, (moved, sources) = key[0] in unthrottled, map(by_window, (of_edges[key], of_sources[key]))
        senders = {row["source"] for row in of_edges[key] if row["sent"]}
        is_counted = all(row["source"] in senders for row in of_edges[key] if row["executed"])
        minute: list[float] = []
        for start, is_served in served_windows(of_sources[key], windows, is_unthrottled).items():
            value: float | None = 0.0
            if is_served:
                minute = [at for at in (*minute, start) if at > start - MINUTE_S and (at < 0) == (start < 0)]
                inputs = inputs_of_sources([row for at in minute for row in sources[at]], is_unthrottled)
                if is_idle(inputs):
                    continue
                sums = [row for at in minute for row in moved[at]]
                value = juice(of_units[key[0]], sums, inputs, is_unthrottled) if is_counted else None
            rows.append({**unit_columns(key[0]), "event_id": key[1], "window_s": start, "juice": value})
    return rows


def juice(
    edges: Iterable[tuple[str, str]], counts: Iterable[Row], inputs: Mapping[str, SourceInput],
    is_unthrottled: bool = False,
) -> float | None:  # fmt: skip
    """Return the juice of a topology with these edges (source, target). None if nothing was due, if a source's emitted
    tuples were not counted as sent, if the number of due tuples is unknown, or edges go in a circle.

    A component that sent nothing on, such as a filter that nothing passed, is where its tuples end: a sink.
    """
    edges, nothing = set(edges), SourceInput(is_unthrottled=is_unthrottled)  # of a source that nobody measured
    sent, executed = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for row in counts:
        sent[row["source"], row["target"]] += row["sent"]
        executed[row["source"], row["target"]] += row["executed"]
    sources = {source for source, _ in edges} - {target for _, target in edges}
    of_sources = {name: inputs.get(name, nothing) for name in sources}
    shares = {name: each.share for name, each in of_sources.items() if not each.is_idle}
    return service_level.juice((EdgeCount(*edge, sent[edge], executed[edge]) for edge in edges), shares)
