"""Decisions and outcomes of a recorded run and of what was simulated on it, side by side, also as JSON data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from analysis.metrics.definitions import METRICS, OUTCOMES, DifferenceKind
from analysis.numerals import MISSING, change
from analysis.record import small_tables
from analysis.record.event_timeline import event_times, operation_id, read_timeline
from analysis.record.files import RunPaths, SeriesPaths
from analysis.record.sweep_record import of_whole_runs
from barograph.counterfactual.simulation import RECORDED, Recording, Simulated
from barograph.errors import ExperimentError
from barograph.plan.experiment import Variant
from scheduler_plugins.model import Slot
from scheduler_plugins.replay import read_rounds

VERSION = 3
MOST_MACHINES = 6  # named in a cell


@dataclass(frozen=True)
class DecisionTaken:
    """A decision on an event, or within a hold by the policy itself. `executors`: by topology and component, before and
    after; `slots`: the number of tasks with another slot, and `machines`: the machines of these tasks afterwards; None
    where the log lacks the round."""

    reason: str
    decided_s: float  # after the event's zero
    own: bool
    executors: Mapping[str, Mapping[str, tuple[int, int]]] | None
    slots: int | None
    machines: Mapping[str, int] | None
    release: tuple[str, ...]
    acquire: int  # the number of machines requested
    scheduler: str | None  # of Storm's own, which places by itself


@dataclass(frozen=True)
class SimulatedOutcome:
    """The outcome of one run at one event. `metrics`: None where not measured; of those in `censored` a lower bound,
    those in `unsteady` rest on a side that was not steady."""

    decisions: tuple[DecisionTaken, ...]
    metrics: Mapping[str, float | None]
    censored: tuple[str, ...]
    unsteady: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a run. `source`: recorded, or simulated. `differing_start`: number of tasks that began at other
    slots than in the recorded run. `late_s`: by event, the delay against the record."""

    name: str
    policy: str
    parameters: Mapping[str, Any]
    source: str
    events: Mapping[str, SimulatedOutcome]
    differing_start: int
    late_s: Mapping[str, float]


@dataclass(frozen=True)
class OutcomeComparison:
    """A comparison of runs. `not_simulated`: why some policies are missing."""

    run: str
    experiment: str
    events: Mapping[str, str]
    runs: tuple[RunOutcome, ...]
    not_simulated: Mapping[str, str]

    def own(self) -> RunOutcome | None:
        """Return the simulation of the recorded policy."""
        recorded = self.runs[0]
        mine = (recorded.policy, recorded.parameters)
        return next((run for run in self.runs[1:] if (run.policy, run.parameters) == mine), None)

    def errors(self) -> dict[str, dict[str, dict[str, float | None]]]:
        """Return by event and outcome: recorded, simulated, their difference, and that in percent of the recorded
        value."""
        outcome = self.own()
        if outcome is None:
            return {}
        errors: dict[str, dict[str, dict[str, float | None]]] = {}
        for event_id, recorded in self.runs[0].events.items():
            own, errors[event_id] = outcome.events[event_id], {}
            for name in OUTCOMES:  # of no bounds, and of what both have
                a, b = recorded.metrics[name], own.metrics[name]
                if a is None or b is None or name in (*recorded.censored, *own.censored):
                    continue
                is_ratio = bool(a) and METRICS[name].difference_kind is DifferenceKind.RATIO
                errors[event_id][name] = {
                    "recorded": a, "simulated": b, "difference": b - a,
                    "percent": 100 * (b - a) / a if is_ratio else None,
                }  # fmt: skip
        return errors

    def as_data(self) -> dict[str, Any]:
        return {"v": VERSION, **asdict(self), "errors_of_the_simulator": self.errors()}


def compare(recording: Recording, found: Simulated, left_out: Mapping[str, str]) -> OutcomeComparison:
    """Compare the runs by the tables of the analysis and the runs' own logs."""
    paths = SeriesPaths(found.folder)
    events = {f"e{place}": event.words() for place, event in enumerate(recording.experiment.events, start=1)}
    variants: dict[str, Variant] = {RECORDED: recording.variant, **found.variants}
    settled = small_tables.rows(paths, "settled", runs=list(variants))
    starts: dict[str, dict[tuple[str, int], str]] = {name: {} for name in variants}  # before the first event
    for row in settled:
        if (row["event_id"], row["phase"]) == ("e1", "before"):
            starts[row["run_id"]][row["topology"], row["task"]] = str(row["slot"])
    runs = tuple(
        RunOutcome(
            variant.name, variant.policy, variant.configured(), RECORDED if name == RECORDED else "simulated",
            {event_id: _event_outcome(paths, name, event_id) for event_id in events},
            sum(starts[name].get(task) != slot for task, slot in starts[RECORDED].items()),
            dict(zip(events, found.late_s.get(name, (0.0,) * len(events)), strict=True)),
        )
        for name, variant in variants.items()
    )  # fmt: skip
    failures = {name: f"its simulation failed: {why}" for name, why in found.failed.items()}
    return OutcomeComparison(recording.run_id, recording.experiment.name, events, runs, {**left_out, **failures})


def _event_outcome(paths: SeriesPaths, run_id: str, event_id: str) -> SimulatedOutcome:
    rows = [
        row
        for row in of_whole_runs(small_tables.rows(paths, "measurements", runs=[run_id]))
        if row["event_id"] == event_id and row["metric"] in OUTCOMES
    ]
    values = {row["metric"]: row["value"] for row in rows}
    censored = tuple(row["metric"] for row in rows if row["censored"])
    metrics = {name: values.get(name) for name in OUTCOMES}
    unsteady = tuple(row["metric"] for row in rows if row["steady"] is False and not row["censored"])
    return SimulatedOutcome(decisions_of(paths.run(run_id), event_id), metrics, censored, unsteady)


def decisions_of(run: RunPaths, event_id: str) -> tuple[DecisionTaken, ...]:
    """Return the decisions that arrived on this event, or by the policy itself until the next one."""
    zeros = event_times(run)
    zero_s = zeros[event_id]
    next_s = min((t for name, t in zeros.items() if name != "first_tuple" and t > zero_s), default=inf)
    rounds = {line["decision_id"]: line for line in read_rounds(run.decisions) if line.get("decision_id")}
    return tuple(
        _decision(line, rounds.get(line.get("decision_id")), zero_s)
        for line in read_timeline(run).events
        if line["kind"] == "decision"
        and (operation_id(line) == event_id or (bool(line.get("own")) and zero_s <= line["t"] < next_s))
    )


def _decision(line: Mapping[str, Any], round: Mapping[str, Any] | None, zero_s: float) -> DecisionTaken:
    facts = (str(line.get("reason") or ""), float(line["t"]) - zero_s, bool(line.get("own")))
    if round is None:
        return DecisionTaken(*facts, None, None, None, (), 0, None)
    try:
        return _as_taken(facts, round)
    except (AttributeError, KeyError, StopIteration, TypeError, ValueError) as error:
        raise ExperimentError(
            f"decisions.jsonl of the run has a decision that is none, {round.get('decision_id')} ({error!r}); give a"
            " run whose log is whole"
        ) from error


def _as_taken(said: tuple[str, float, bool], round: Mapping[str, Any]) -> DecisionTaken:

    def executors_of(topology: Mapping[str, Any], component: str) -> int:
        return next(len(each["executors"]) for each in topology["components"] if each["name"] == component)

    decision = round["decision"]
    topologies = {topology["topology_id"]: topology for topology in round["observation"]["topologies"]}
    executors = {
        topologies[topology]["name"]: {
            name: (executors_of(topologies[topology], name), after) for name, after in counts.items()
        }
        for topology, counts in decision["executors"].items()
        if counts and topology in topologies
    }
    machines = Counter(
        Slot.parse(slot).machine
        for topology, placement in decision["placement"].items()
        if topology in topologies
        for task, slot in placement.items()
        if topologies[topology]["placement"].get(task) != slot
    )
    return DecisionTaken(
        *said, executors, machines.total(), dict(machines), tuple(map(str, decision["release"])),
        int(decision.get("acquire") or 0), decision.get("scheduler"),
    )  # fmt: skip


def decision_words(decision: DecisionTaken) -> str:
    """Return a text such as `centre 2 → 3; 2 tasks to other slots; releases m3`."""
    parts = executor_words(decision.executors or {})
    if decision.slots:
        parts.append(f"{decision.slots} task{'s' if decision.slots > 1 else ''} to other slots")
    if decision.scheduler:
        parts.append(f"placed by Storm's {decision.scheduler}")
    parts += machine_count_words(decision)
    return "; ".join(parts) or ("changes nothing" if decision.executors is not None else "not in the decision log")


def executor_words(changed: Mapping[str, Mapping[str, tuple[int, int]]]) -> list[str]:
    """Return a text such as `centre 2 → 3` for each component; of several topologies with the topology's name."""
    return [
        f"{f'{topology}: ' if len(changed) > 1 else ''}{name} {before} → {after}"
        for topology, components in changed.items()
        for name, (before, after) in components.items()
    ]


def net_executors(decisions: Sequence[DecisionTaken]) -> dict[str, dict[str, tuple[int, int]]]:
    """Return by topology and component the executors before the first decision and after the last, if they differ."""
    pairs: dict[str, dict[str, tuple[int, int]]] = {}
    for decision in decisions:
        for topology, components in (decision.executors or {}).items():
            mine = pairs.setdefault(topology, {})
            for name, (before, after) in components.items():
                mine[name] = mine.get(name, (before, after))[0], after
    changed_by_topology = {
        topology: {name: pair for name, pair in mine.items() if pair[0] != pair[1]} for topology, mine in pairs.items()
    }
    return {topology: mine for topology, mine in changed_by_topology.items() if mine}


def machine_words(decisions: Sequence[DecisionTaken]) -> str:
    """Return a text such as `m5 × 3, m2`: machines that get tasks, the most first. Storm's own schedulers do not report
    them."""
    counts: Counter[str] = Counter()
    for each in decisions:
        counts.update(each.machines or {})
    scheduler = next((each.scheduler for each in decisions if each.scheduler), None)
    if not counts:
        return f"chosen by Storm's {scheduler}" if scheduler else MISSING
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], len(pair[0]), pair[0]))
    names = [name if tasks == 1 else f"{name} × {tasks}" for name, tasks in ordered[:MOST_MACHINES]]
    rest = [f"{len(ordered) - MOST_MACHINES} more"] if len(ordered) > MOST_MACHINES else []
    return ", ".join([*names, *rest])


def machine_count_words(decision: DecisionTaken) -> list[str]:
    """Return texts on the machines that may leave, and on the number of those to join."""
    request = f"asks for {decision.acquire} more machine{'s' if decision.acquire > 1 else ''}"
    return [f"releases {', '.join(decision.release)}"] * bool(decision.release) + [request] * bool(decision.acquire)


def error_words(comparison: OutcomeComparison, event_id: str, names: Sequence[str] = OUTCOMES) -> str:
    """Return the error of the simulated recorded policy against the record: the simulator's error on this very run."""
    errors = comparison.errors().get(event_id)
    if errors is None:
        return "the recorded policy cannot be simulated, so how far the simulator is off on this run is not known"
    texts = []
    for name, error in ((name, errors[name]) for name in names if name in errors):
        percent, difference = error["percent"], error["difference"] or 0.0
        amount = change(difference, METRICS[name].unit) if percent is None else change(percent, "%")
        texts.append(f"{METRICS[name].words} {amount}")
    return f"the simulator's error on this run: {', '.join(texts)}" if texts else ""
