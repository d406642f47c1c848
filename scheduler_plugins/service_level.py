"""Utility and juice of a topology: what the owner's service level makes of latency and of the processed share of input.

Pure functions, for policies, the policy service and the analysis alike. Source: Henge (HP 4.1, eq. 1 and 2; HP 5, eq. 5
and 6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from scheduler_plugins.model import ServiceLevel, Topology

MET = 1 - 1e-9  # of the largest utility: what counts as all of it


def latency_share(limit_ms: float, latency_ms: float) -> float:
    """Return the attained share, 0 to 1, of a level of latency: 1 up to the limit, hyperbolic above it (eq. 2)."""
    return limit_ms / max(limit_ms, latency_ms)


def juice_share(least: float, juice: float) -> float:
    """Return the attained share, 0 to 1, of a level of juice: linear up to the level, then 1 (eq. 1)."""
    return min(1.0, juice / least)


def utility(level: ServiceLevel, latency_ms: float | None, juice: float | None) -> float | None:
    """Return the utility, 0 to `max_utility`; of two levels the mean (HP 7.2.2). None: one is not measured."""
    shares = []
    if level.latency_ms is not None:
        shares.append(None if latency_ms is None else latency_share(level.latency_ms, latency_ms))
    if level.juice is not None:
        shares.append(None if juice is None else juice_share(level.juice, juice))
    attained = [share for share in shares if share is not None]
    return level.max_utility * fmean(attained) if attained and len(attained) == len(shares) else None


@dataclass(frozen=True)
class EdgeCount:
    """Tuples that a source sent to a target over all streams between them, and those of them that it executed; of the
    same time, or both a second."""

    source: str
    target: str
    sent: float
    executed: float


def juice(counts: Iterable[EdgeCount], source_shares: Mapping[str, float | None]) -> float | None:
    """Return the juice of a topology, 0 to 1 (eq. 5 and 6).

    `counts`: one for each edge, with 0 where nothing was sent. `source_shares`: by source the emitted share of its
    input, which is E / T of a component without parents (HP has 1); a source that is missing had no input and does not
    count as one. A component that sent nothing on is a sink: a filter that nothing passes has processed its input.

    None if a share is None, if a source that emitted has sent nothing on its edges, if none had input, or if edges go
    in a circle.
    """
    counts = tuple(counts)
    sent, parents = Counter[str](), dict[str, list[EdgeCount]]()
    for count in counts:
        sent[count.source] += count.sent  # type: ignore[assignment]  # Counter of float
        parents.setdefault(count.target, []).append(count)
        parents.setdefault(count.source, [])
    shares: dict[str, float | None] = {}

    def share_of(name: str, below: frozenset[str]) -> float | None:
        if name in below:
            return None
        if name not in shares:
            shares[name] = _source_share(name) if not parents[name] else _bolt_share(name, below | {name})
        return shares[name]

    def _source_share(name: str) -> float | None:
        share = source_shares.get(name, 0.0)
        return None if share and not sent[name] else share

    def _bolt_share(name: str, below: frozenset[str]) -> float | None:
        total = 0.0
        for count in parents[name]:
            if (above := share_of(count.source, below)) is None:
                return None
            total += above * min(count.sent, count.executed) / (sent[count.source] or 1.0)
        return total

    sinks = [name for name, incoming in parents.items() if incoming and not sent[name]]
    values = [share_of(name, frozenset()) for name in (*source_shares, *sinks) if name in parents]
    if not source_shares or None in values:
        return None
    return sum(shares[name] or 0.0 for name in sinks) / len(source_shares)


def observed_juice(topology: Topology) -> float | None:
    """Return the juice over the observed window; None as `juice`, and where a component has no rates."""
    parents = {edge.target for edge in topology.edges}
    source_shares: dict[str, float | None] = {}
    for component in topology.components:
        if component.kind == "system" or component.name in parents:
            continue
        if component.due_per_s is None:  # unthrottled: it always has something to emit
            source_shares[component.name] = (
                None if component.emitted_per_s is None else float(component.emitted_per_s > 0)
            )
        elif component.due_per_s > 0:
            source_shares[component.name] = min(1.0, (component.emitted_per_s or 0.0) / component.due_per_s)
    edges = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for edge in topology.edges:
        for counter, rate in zip(edges, (edge.tuples_per_s, edge.executed_per_s), strict=True):
            counter[edge.source, edge.target] += rate or 0.0  # type: ignore[assignment]
    counts = (EdgeCount(*key, edges[0][key], edges[1][key]) for key in edges[0])
    return juice(counts, source_shares)


def observed_utility(topology: Topology) -> float | None:
    """Return the utility over the observed window; 0 where something was due and nothing of it was processed.

    Sinks without tuples are no fault where a filter lets none pass, or an aggregate sends none in the window.
    None: it has no level, or its rates cannot be used.
    """
    if topology.service_level is None or topology.window_fault or topology.sink_tuples_per_s is None:
        return None
    is_due = any(component.due_per_s or component.due_per_s is None for component in topology.components
                 if component.kind == "spout")  # fmt: skip
    processed = observed_juice(topology)
    if not topology.sink_tuples_per_s and is_due and not processed:
        return 0.0
    return utility(topology.service_level, topology.latency_ms, processed)
