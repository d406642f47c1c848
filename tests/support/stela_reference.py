"""Stela's assignment as the paper prints it (SP algorithms 1 and 2), computed anew for every executor given out.

For tests only: what the policy answers must be this on any graph. Sums are exact and ETPs stand for their numerators
(all candidates share the denominator), so that ties do not hang on the order of additions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import fsum

from scheduler_plugins.model import Topology
from scheduler_plugins.policies.etp import EtpFlow, topology_flow
from scheduler_plugins.policies.stela import StelaParameters


def iterations(instances: int, machines: int, new: int) -> int:
    """Return how often the loop of algorithm 2 runs: new machines x average number of instances per machine (II-B)."""
    slot, slots = 0, Fraction(instances, machines) * new
    while slot < slots:
        slot += 1
    return slot


def children(flow: EtpFlow, name: str) -> list[str]:
    return [target for source, target in flow.inflow if source == name]


def sinks(flow: EtpFlow) -> list[str]:
    fed = {target for _, target in flow.inflow}
    return [name for name in flow.processing if name in fed and not children(flow, name)]


def input_rate(flow: EtpFlow, name: str) -> float:
    return fsum(rate for (_, target), rate in flow.inflow.items() if target == name)


def congested(flow: EtpFlow, rules: StelaParameters) -> frozenset[str]:
    over = {n for n, processing in flow.processing.items() if input_rate(flow, n) > rules.congestion_rate * processing}
    return frozenset(over | flow.saturated if rules.congestion == "bounded_queues" else over)


def effective(flow: EtpFlow, name: str, blocked: frozenset[str], rules: StelaParameters) -> float:
    if rules.shared_sink == "per_path":
        return _over_paths(flow, name, blocked)
    reached = _reached(flow, name, blocked)
    return fsum(flow.processing[sink] for sink in sinks(flow) if sink in reached)


def _reached(flow: EtpFlow, name: str, blocked: frozenset[str]) -> set[str]:
    seen, todo = {name}, [name]
    while todo:
        fresh = [child for child in children(flow, todo.pop()) if child not in blocked and child not in seen]
        seen.update(fresh)
        todo.extend(fresh)
    return seen


def _over_paths(flow: EtpFlow, name: str, blocked: frozenset[str]) -> float:
    mine = children(flow, name)
    free = [child for child in mine if child not in blocked]
    return sum(_over_paths(flow, child, blocked) for child in free) if mine else flow.processing[name]


def assign(topology: Topology, slots: int, rules: StelaParameters) -> dict[str, int]:
    flow = topology_flow(topology, rules)
    room = {c.name: len(c.tasks) - len(c.executors) for c in topology.components if c.kind != "system"}
    spouts = [c.name for c in topology.components if c.kind == "spout"]
    for _ in range(slots):
        target = choose(flow, room, spouts, rules)
        if target is None:
            break
        room[target] -= 1
        flow = project(flow, target)
    before = {c.name: len(c.executors) for c in topology.components}
    return {name: count for name, count in flow.executors.items() if count > before[name]}


def choose(flow: EtpFlow, room: Mapping[str, int], spouts: Sequence[str], rules: StelaParameters) -> str | None:
    blocked = congested(flow, rules)
    if not blocked:
        return min((s for s in spouts if room[s] > 0), key=lambda s: flow.executors[s], default=None)

    def rank(name: str) -> tuple[float, float]:
        value, processing = effective(flow, name, blocked, rules), flow.processing[name]
        score = value / flow.executors[name] if rules.score == "etp_per_executor" else value
        return score, input_rate(flow, name) / processing if processing > 0 else float("inf")

    return max((n for n in flow.processing if n in blocked and room[n] > 0), key=rank, default=None)


def project(flow: EtpFlow, target: str) -> EtpFlow:
    k = flow.executors[target]
    growth = (k + 1) / k
    return replace(
        flow,
        processing={**flow.processing, target: flow.processing[target] * growth},
        inflow={edge: rate * growth if edge[0] == target else rate for edge, rate in flow.inflow.items()},
        executors={**flow.executors, target: k + 1},
        saturated=flow.saturated - {target},
    )
