"""Scale decisions of each run, from its decision log (executors before and after, and moves), and ablation: the
decisions of variants of Stela on the same observations.

Ablation uses the observations of every complete run, whatever policy it ran: a policy's observation at the event
does not depend on its decision.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from analysis.record.event_timeline import (
    DecisionRound,
    Json,
    event_order,
    operation_id,
    read_timeline,
    readable_document,
    topology_document,
)
from analysis.record.files import RunPaths, SeriesPaths
from analysis.record.small_tables import Row, rows
from scheduler_plugins import replay
from scheduler_plugins.model import Topology
from scheduler_plugins.policies import etp, stela
from scheduler_plugins.policies.stela import VARIANTS
from scheduler_plugins.service.messages import MessageError, observation_from_log


@dataclass(frozen=True)
class ScaleDecision:
    """A decision. Component -> executors; `moves`: existing executors that were given another slot.

    `pressure`: input rate over processing rate of the congested ones, by Stela's test with its default parameters,
    on the policy's observation. `scheduler`: one of Storm's own, which placed all executors anew by itself.
    """

    run_id: str
    variant: str
    event_id: str
    before: Mapping[str, int]
    after: Mapping[str, int]
    moves: Mapping[str, int]
    pressure: Mapping[str, float]
    released: tuple[str, ...] = ()
    scheduler: str | None = None

    def outcome(self) -> tuple[Any, ...]:
        """Return a key that is equal for answers that change the same number of executors in the same way."""
        parts = (self.before, self.after, self.moves)
        return (*(tuple(sorted(part.items())) for part in parts), self.released, self.scheduler)

    def cell(self, component: str) -> str:
        """Return the change at one component, for a table."""
        before, after = self.before.get(component, 0), self.after.get(component, 0)
        if after != before:
            return f"{before} → {after}"
        if self.scheduler:
            return "anew"
        moved = self.moves.get(component, 0)
        return f"{moved} of {before} moved" if moved else "–"


def scale_decisions(run: RunPaths, variant: str, topology: str | None = None) -> list[ScaleDecision]:
    """Return the last decision on each event, about a topology of the run (None: its only one); one that was repeated
    counts as one event."""
    document_id = topology_document(readable_document(run), topology).get("id")
    rounds = (each for each in read_timeline(run).rounds if _is_readable(each) and _decides(each.decision, document_id))
    decisions = (_scale_decision(run.run_id, variant, document_id, each) for each in rounds)
    return list({decision.event_id: decision for decision in decisions if decision is not None}.values())


def _decides(decision: Json, own: str | None) -> bool:
    """Return whether it decides something, and not about another topology only."""
    topologies = {name for key in ("executors", "placement", "rebalance") for name in decision.get(key) or ()}
    if own is not None and topologies:
        return own in topologies
    return bool(decision.get("settled") or topologies)


def _scale_decision(run_id: str, variant: str, own: str | None, each: DecisionRound) -> ScaleDecision | None:
    topologies = observation_from_log(each.observation).topologies
    topology = next((each for each in topologies if own in (None, each.topology_id)), None)
    if topology is None:
        return None
    decision = each.decision
    before = {c.name: len(c.executors) for c in topology.components if c.kind != "system"}
    placement = (decision.get("placement") or {}).get(topology.topology_id) or {}
    return ScaleDecision(
        run_id, variant, each.event_id, before,
        before | ((decision.get("executors") or {}).get(topology.topology_id) or {}),
        _move_counts(topology, placement), pressure(topology), tuple(decision.get("release") or ()),
        decision.get("scheduler"),
    )  # fmt: skip


def _move_counts(topology: Topology, placement: Mapping[str, str]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for component in topology.components:
        for executor in component.executors:
            slot, current = placement.get(str(executor.first_task)), topology.placement.get(executor.first_task)
            counts[component.name] += slot is not None and current is not None and slot != str(current)
    return {name: number for name, number in counts.items() if number}


def pressure(topology: Topology) -> dict[str, float]:
    """Return congested components with their input over processing rate (SP II-C); infinite if nothing is processed."""
    rules = stela.StelaParameters()
    flow = etp.topology_flow(topology, rules)
    ratios = {}
    for name, output_rate in flow.processing.items():
        input_rate = sum(rate for (_, target), rate in flow.inflow.items() if target == name)
        if etp.is_congested(input_rate, output_rate, name in flow.saturated, rules):
            ratios[name] = input_rate / output_rate if output_rate > 0 else inf
    return ratios


PAPER = "paper"


@dataclass(frozen=True)
class AblationRow:
    """A variant at one event, over the runs. `differing` of `runs` answers are not the paper's rule's."""

    event_id: str
    variant: str
    changed: str  # the parameters that differ from the paper's rule
    runs: int
    differing: int
    answers: tuple[str, ...]  # the most frequent first

    @property
    def verdict(self) -> str:
        if self.variant == PAPER:
            return "the rule itself"
        if not self.differing:
            return "no difference on these observations"
        return f"differs in {self.differing} of {self.runs} runs"


def unread_rounds(paths: SeriesPaths) -> dict[str, int]:
    """Return by complete run the lines of its events and decisions that are damaged, and rounds of an older version.

    They are in no decision and in no ablation.
    """
    complete = [row["run_id"] for row in rows(paths, "runs") if row["status"] == "complete"]
    timelines = {run_id: read_timeline(paths.run(run_id)) for run_id in complete}
    counts = {
        run_id: timeline.damaged + sum(not _is_readable(each) for each in timeline.rounds)
        for run_id, timeline in timelines.items()
    }
    return {run_id: count for run_id, count in counts.items() if count}


def unread_sentence(counts: Mapping[str, int]) -> str:
    """Return a sentence on unread rounds; empty if everything was read."""
    if not counts:
        return ""
    runs = ", ".join(f"{run_id} ({count})" for run_id, count in counts.items())
    lines = "1 line" if sum(counts.values()) == 1 else f"{sum(counts.values())} lines"
    return f"{lines} of events and decisions could not be read and are left out: {runs}."


def _is_readable(each: DecisionRound) -> bool:
    try:
        observation_from_log(each.observation)
    except MessageError:
        return False
    return isinstance(each.decision, dict)


def ablation_rows(paths: SeriesPaths) -> list[AblationRow]:
    """Return a line an event and variant, the paper's rule first; none if no log has a scale event."""
    complete = [row for row in rows(paths, "runs") if row["status"] == "complete"]
    ablation_names = {name for parameters in VARIANTS.values() for name in parameters}
    policy_text = next((row["parameters"] for row in complete if row.get("policy") == "stela"), None)
    base = {name: value for name, value in json.loads(policy_text or "{}").items() if name not in ablation_names}
    lines = [row for run in complete for row in _replay_rows(paths, run["run_id"], base)]
    keys = dict.fromkeys((operation_id(row), row["variant"]) for row in lines)
    order = {name: number for number, name in enumerate(VARIANTS)}
    return [
        _ablation_row(event, variant, [row for row in lines if (operation_id(row), row["variant"]) == (event, variant)])
        for event, variant in sorted(keys, key=lambda key: (event_order(key[0]), order[key[1]]))
    ]


def _replay_rows(paths: SeriesPaths, run_id: str, common: Mapping[str, Any]) -> list[Row]:
    """Return rows of the last attempt at each event; `unread_rounds` counts the omitted ones."""
    rounds = [each.line for each in read_timeline(paths.run(run_id)).rounds if _is_readable(each)]
    rows = replay.ablate(rounds, common)
    return list({(operation_id(row), row["variant"]): row for row in rows}.values())


def _ablation_row(event: str, variant: str, rows: Sequence[Row]) -> AblationRow:
    paper = {} if variant == PAPER else VARIANTS[PAPER]
    changed = ", ".join(f"{k}: {v}" for k, v in VARIANTS[variant].items() if paper.get(k) != v)
    answers = Counter(_decision_text(row) for row in rows).most_common()
    texts = tuple(text if times == len(rows) else f"{text} ({times} of {len(rows)})" for text, times in answers)
    return AblationRow(event, variant, changed, len(rows), sum(row["same_as_paper"] is False for row in rows), texts)


def _decision_text(row: Row) -> str:
    changes = [
        f"{name} {before} → {after}"
        for executors in row["executors"].values()
        for name, (before, after) in executors.items()
    ]
    parts = [", ".join(sorted(changes))] if changes else []
    parts += [f"releases {', '.join(sorted(row['release']))}"] if row["release"] else []
    text = "; ".join(parts) or f"nothing ({row['reason']})"
    return f"{text}; refused: {row['refused']}" if row["refused"] else text
