"""What the fake cluster leaves on record, as the contracts have it: lines of the policy service and of machines, and of
one worker for each topology, with a spout and a sink.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.metrics.latency_histogram import bucket_of
from scheduler_plugins.messages import answer_json, log_line, observation_from_request
from scheduler_plugins.model import Decision
from scheduler_plugins.samples import MachineSamples


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def decision_line(
    t: float, run_id: str, policy: str, topologies: Mapping[str, int], machines: Sequence[str]
) -> dict[str, Any]:
    """`topologies`: the port of each one's worker, by name."""
    components = [
        {"name": "spout_1", "kind": "spout", "tasks": [1], "executors": [[1, 1]]},
        {"name": "sink_1", "kind": "bolt", "tasks": [2], "executors": [[2, 2]]},
    ]
    edges = [{"source": "spout_1", "stream": "default", "target": "sink_1", "grouping": "shuffle"}]
    common = {"workers": 1, "uptime_s": 0, "rebalancing": False, "components": components, "edges": edges}
    shown = [
        {"id": f"{name}-1", "name": name, **common, "placement": {"1": f"m1:{port}", "2": f"m1:{port}"}}
        for name, port in topologies.items()
    ]
    ports = sorted(topologies.values())
    known = [{"name": name, "supervisor_id": name, "ports": ports, "alive": True} for name in machines]
    request = {"v": 1, "t": t, "machines": known, "topologies": shown}
    observation, decision = observation_from_request(request, {}, MachineSamples(), None), Decision()
    said = log_line(request, observation, {}, decision, answer_json(decision, None, policy))
    return {"t": t, "run_id": run_id, "duration_ms": 1.0} | said


def worker_line(sequence: int, t: int, rate: int, topology: str, port: int) -> dict[str, Any]:
    head = {"v": 1, "t": float(t), "dt_s": 1.0, "machine": "m1", "port": port, "pid": port, "seq": sequence}
    tasks = {"task": [1, 2], "component": ["spout_1", "sink_1"], "emitted": [rate, 0], "transferred": [rate, 0]}
    tasks |= {"executed": [0, rate], "execute_ms": [0.0, rate * 1.0], "process_ms": [None, None], "queue": [0, 0]}
    latency = {"task": [2], "source_machine": ["m1"], "n": [rate], "sum_ms": [rate * 2.0], "max_ms": [2.0]}
    latency |= {"buckets": [[bucket_of(2000)]], "counts": [[rate]]}
    spouts: dict[str, Any] = {"task": [1], "due": [rate], "emitted": [rate]}
    spouts |= {"behind": [0], "behind_ms": [0.0], "missed": [0], "late": [0]}
    return head | {"topology": f"{topology}-1", "tasks": tasks, "sinks": latency, "spouts": spouts}


def machine_line(name: str, t: int) -> dict[str, Any]:
    used = {"cpu_cores": 0.1, "cpu_quota_cores": 0.25, "throttled_ms": 0.0, "steal_percent": 0.0}
    memory = {"memory_bytes": 400_000_000, "memory_limit_bytes": 805_306_368}
    interfaces = {"name": ["ctl0", "exp0"], "rx_bytes": [1200, 52000], "tx_bytes": [900, 51000]}
    return {"v": 1, "t": float(t), "dt_s": 1.0, "machine": name, **used, **memory, "interfaces": interfaces}
