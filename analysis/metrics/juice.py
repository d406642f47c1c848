"""Juice: the share of its input that a topology processes (HP 5), in the parts of a run that count.

A component's juice is, over its parents i, the sum of J_i x E_i / T_i (eq. 5): E_i is what it executed of i's tuples
and T_i all that i sent out. A topology's is the sum over its sinks by the number of its sources (eq. 6). A source has
no parents and E / T of its own: what it emitted of what was due, for its input is what falls due. HP has 1, where a
source emits whatever arrives; with back-pressure what was not emitted waits there and nowhere else. More than was due
is of before, and counts as 1. A source for which nothing was due has no juice, and is none of the sources; one that
emits as fast as it can always has something to emit.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.metrics.steadiness import WINDOW_S
from analysis.record.small_tables import Row, topology_of

STRETCHES = "run_id string, event_id string, phase string, start_s double, end_s double"


@dataclass(frozen=True)
class SourceInput:
    """What fell due at a source in a part of a run, and what it emitted (tuples); None: not measured. `is_unknown`:
    nobody knows all that fell due, as where a source's process ended for good; its schedule went on. `is_unthrottled`:
    it emits as fast as it can, and says of what was due only what it emitted."""

    due: float | None = None
    emitted: float | None = None
    is_unknown: bool = False
    is_unthrottled: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether it is known that nothing was to be emitted."""
        return self.due == 0 and not self.is_unknown and not self.is_unthrottled

    @property
    def share(self) -> float | None:
        """The source's juice; None where it is not known. 1 where nobody measured what was due, as HP has it."""
        if self.is_unthrottled:
            return 1.0 if self.emitted else 0.0
        if self.is_unknown:
            return None if self.emitted else 0.0
        return 1.0 if self.due is None else min(1.0, (self.emitted or 0.0) / self.due) if self.due else 0.0


def unthrottled_units(runs: Iterable[Row]) -> frozenset[str]:
    """Of these runs, or of their topologies (`run/topology`), those whose sources emit as fast as they can, as the
    experiment has it."""
    return frozenset(run["run_id"] for run in runs if _is_unthrottled(run))


def _is_unthrottled(run: Row) -> bool:
    spec = json.loads(run.get("spec") or "{}")
    every = spec.get("topologies") or [spec.get("topology") or {}]
    name = topology_of(run["run_id"])
    chosen = every[0] if len(every) == 1 else next((each for each in every if each.get("name") == name), {})
    changes = json.loads(run.get("topology_changes") or "{}")
    own = changes if changes.get("name") in (None, chosen.get("name")) else {}
    parameters = {**(chosen.get("parameters") or {}), **(own.get("parameters") or {})}
    return parameters.get("unthrottled") is True


def inputs_of_sources(windows: Iterable[Row], is_unthrottled: bool = False) -> dict[str, SourceInput]:
    """By source, of its windows in a part of a run (rows of `activity`)."""
    found: dict[str, SourceInput] = {}
    for row in windows:
        is_unknown = bool(row.get("due_unknown"))
        if row["component"] is not None and (is_unknown or row["due"] is not None or row["emitted"] is not None):
            before = found.get(row["component"], SourceInput())
            due, emitted = _sum(before.due, row["due"]), _sum(before.emitted, row["emitted"])
            found[row["component"]] = SourceInput(due, emitted, before.is_unknown or is_unknown, is_unthrottled)
    return found


def by_event(rows: Iterable[Row], *more: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by (run, event) and further columns."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["run_id"], row["event_id"], *(row[name] for name in more)].append(row)
    return groups


def windows_of_part(interval: Row, windows: Iterable[Row]) -> list[Row]:
    """Those of an event's windows that are in the part of a side that counts."""
    return [row for row in windows if interval["start_s"] <= row["window_s"] < interval["end_s"]]


def served_windows(
    interval: Row, activity: Iterable[Row], throughput: Iterable[Row], is_unthrottled: bool = False
) -> dict[float, bool]:
    """Return whether a tuple reached a sink, by start of each window of the part in which one was due or did.

    Nothing was due where all sources say so; those of which nobody says anything, as of a topology that never got a
    worker, have something to emit. Windows that nobody reported are none.
    """
    sources: dict[float, list[Row]] = defaultdict(list)
    for row in windows_of_part(interval, activity):
        sources[row["window_s"]].append(row)
    served = {}
    for row in windows_of_part(interval, throughput):
        inputs = inputs_of_sources(sources[row["window_s"]], is_unthrottled).values()
        is_due = is_unthrottled or not inputs or not all(each.is_idle for each in inputs)
        if row["scope"] == "total" and row["rate"] is not None and (row["rate"] or is_due):
            served[row["window_s"]] = bool(row["rate"])
    return served


def served_stretches(
    intervals: Iterable[Row], activity: Iterable[Row], throughput: Iterable[Row], unthrottled: Collection[str] = ()
) -> list[Row]:
    """Return the stretches of each interval without windows in which something was due and nothing reached a sink."""
    of_sources, of_sinks = by_event(activity), by_event(throughput)
    rows: list[Row] = []
    for part in intervals:
        key = part["run_id"], part["event_id"]
        served = served_windows(part, of_sources[key], of_sinks[key], part["run_id"] in unthrottled)
        silent = sorted(start for start, is_served in served.items() if not is_served)
        begins, ends = [part["start_s"], *(start + WINDOW_S for start in silent)], [*silent, part["end_s"]]
        rows += [{"run_id": key[0], "event_id": key[1], "phase": part["phase"], "start_s": begin, "end_s": end}
                 for begin, end in zip(begins, ends, strict=True) if begin < end]  # fmt: skip
    return rows


def juice_rows(
    counts: Iterable[Row], intervals: Iterable[Row], edges: Iterable[Row], activity: Iterable[Row],
    throughput: Iterable[Row], unthrottled: Collection[str] = (),
) -> list[Row]:  # fmt: skip
    """Rows of the table `juice`, for each of `intervals`: that of their served windows, and 0 in the others, in the
    mean over time. `counts`: tuples sent and executed in `served_stretches` on every edge that had any there
    (`losses`); `edges`: all that the topologies have; `unthrottled`: runs whose sources are."""
    of_runs: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for edge in edges:
        of_runs[edge["run_id"]].append((edge["source"], edge["target"]))
    sides, of_sources, of_sinks = by_event(counts, "phase"), by_event(activity), by_event(throughput)
    rows = []
    for part in intervals:
        key, is_unthrottled = (part["run_id"], part["event_id"], part["phase"]), part["run_id"] in unthrottled
        served = served_windows(part, of_sources[key[:2]], of_sinks[key[:2]], is_unthrottled)
        emitted = [row for row in windows_of_part(part, of_sources[key[:2]]) if served.get(row["window_s"], True)]
        value: float | None = 0.0
        if not served or any(served.values()):
            value = juice(of_runs[key[0]], sides[key], inputs_of_sources(emitted, is_unthrottled), is_unthrottled)
        share = sum(served.values()) / len(served) if served else 1.0
        row = {"run_id": key[0], "event_id": key[1], "phase": key[2]}
        rows.append(row | {"juice": None if value is None else value * share})
    return rows


def juice(
    edges: Iterable[tuple[str, str]], counts: Sequence[Row], inputs: Mapping[str, SourceInput],
    is_unthrottled: bool = False,
) -> float | None:  # fmt: skip
    """Of a topology with these edges (source, target). None where nothing was due, where a component has executed what
    nobody counted as sent, where nobody knows what was due, or edges go in a circle.

    A component that sent nothing on, such as a filter that nothing passed, is where its tuples end: a sink.
    """
    flow = _Flow(frozenset(edges), counts, inputs, SourceInput(is_unthrottled=is_unthrottled))
    sources = [name for name in flow.sources if not flow.input(name).is_idle]
    ends = [name for name in flow.components - flow.sources if not flow.sent(name)]
    found = [flow.juice(name) for name in (*sources, *ends)]
    known = [each for each in found[len(sources) :] if each is not None]
    return sum(known) / len(sources) if sources and None not in found else None


@dataclass(frozen=True)
class _Flow:
    """The tuples of a topology in one part of a run."""

    edges: frozenset[tuple[str, str]]
    counts: Sequence[Row]
    inputs: Mapping[str, SourceInput]
    nothing: SourceInput  # of a source of which nothing was measured

    @property
    def components(self) -> frozenset[str]:
        return frozenset(name for edge in self.edges for name in edge)

    @property
    def sources(self) -> frozenset[str]:
        return self.components - {target for _, target in self.edges}

    def input(self, source: str) -> SourceInput:
        return self.inputs.get(source, self.nothing)

    def sent(self, name: str) -> float:
        return float(sum(row["sent"] for row in self.counts if row["source"] == name))

    def juice(self, name: str, below: frozenset[str] = frozenset()) -> float | None:
        """None where it is not known."""
        if name in below:
            return None
        if name in self.sources:
            share = self.input(name).share
            return None if share and not self.sent(name) else share  # it emitted what nobody counted as sent
        total = 0.0
        for source in {source for source, target in self.edges if target == name}:
            above, sent = self.juice(source, below | {name}), self.sent(source)
            executed = sum(row["executed"] for row in self.counts if (row["source"], row["target"]) == (source, name))
            if above is None or (executed and not sent and above):
                return None
            total += above * executed / sent if sent else 0.0
        return total


def _sum(known: float | None, more: float | None) -> float | None:
    return known if more is None else more + (known or 0.0)
