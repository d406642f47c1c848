"""Scale decisions of each run, from its decision log (executors before and after, and moves), and ablation: the
decisions of variants of Stela on the same observations.

Ablation uses the observations of every complete run, whatever policy it ran: a policy's observation at the event
does not depend on its decision.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from analysis.record.event_timeline import DecisionRound, event_order, operation_id, read_timeline
from analysis.record.files import RunPaths, SeriesPaths, run_document, topology_document
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
    """Return the last decision on each event, repeated ones as one, about a topology (None: the only one)."""
    document_id = topology_document(run_document(run), topology).get("id")
    decisions = {}
    for each in filter(_is_readable, read_timeline(run).rounds):
        decision = each.decision
        topologies = {name for key in ("executors", "placement", "rebalance") for name in decision.get(key) or ()}
        is_of_another = document_id is not None and topologies and document_id not in topologies
        if is_of_another or not (decision.get("settled") or topologies):
            continue
        observed = observation_from_log(each.observation).topologies
        subject = next((each for each in observed if document_id in (None, each.topology_id)), None)
        if subject is None:
            continue
        before = {c.name: len(c.executors) for c in subject.components if c.kind != "system"}
        executors, placement = ((decision.get(key) or {}).get(subject.topology_id) or {}
                                for key in ("executors", "placement"))  # fmt: skip
        moves: Counter[str] = Counter()
        for component in subject.components:
            for executor in component.executors:
                slot, current = placement.get(str(executor.first_task)), subject.placement.get(executor.first_task)
                moves[component.name] += slot is not None and current is not None and slot != str(current)
        decisions[each.event_id] = ScaleDecision(
            run.run_id, variant, each.event_id, before, before | executors,
            {name: number for name, number in moves.items() if number}, pressure(subject),
            tuple(decision.get("release") or ()), decision.get("scheduler"),
        )  # fmt: skip
    return list(decisions.values())


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
    """Return by complete run its damaged lines of events and decisions: in no decision and in no ablation."""
    counts = {}
    for row in rows(paths, "runs"):
        if row["status"] == "complete":
            timeline = read_timeline(paths.run(row["run_id"]))
            counts[row["run_id"]] = timeline.damaged + sum(not _is_readable(each) for each in timeline.rounds)
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
    policy_text = next((row["parameters"] for row in complete if row["policy"] == "stela"), None)
    base = {name: value for name, value in json.loads(policy_text or "{}").items() if name not in ablation_names}
    of_keys: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for run in complete:
        rounds = [each.line for each in read_timeline(paths.run(run["run_id"])).rounds if _is_readable(each)]
        # The last attempt at each event.
        last = {(operation_id(row), row["variant"]): row for row in replay.ablate(rounds, base)}
        for key, row in last.items():
            of_keys[key].append(row)
    order = [*VARIANTS]
    lines = []
    for event, variant in sorted(of_keys, key=lambda key: (event_order(key[0]), order.index(key[1]))):
        of_key, paper = of_keys[event, variant], {} if variant == PAPER else VARIANTS[PAPER]
        changed = ", ".join(f"{k}: {v}" for k, v in VARIANTS[variant].items() if paper.get(k) != v)
        answers, number = Counter(map(_decision_text, of_key)).most_common(), len(of_key)
        texts = tuple(text if times == number else f"{text} ({times} of {number})" for text, times in answers)
        differing = sum(row["same_as_paper"] is False for row in of_key)
        lines.append(AblationRow(event, variant, changed, number, differing, texts))
    return lines


def _decision_text(row: Row) -> str:
    changes = sorted(f"{name} {before} → {after}" for executors in row["executors"].values()
                     for name, (before, after) in executors.items())  # fmt: skip
    parts = [", ".join(changes)] if changes else []
    parts += [f"releases {', '.join(sorted(row['release']))}"] if row["release"] else []
    text = "; ".join(parts) or f"nothing ({row['reason']})"
    return f"{text}; refused: {row['refused']}" if row["refused"] else text
