"""The files that a fake cluster leaves, as the contracts have them: one worker with a spout and a sink."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PLACEMENT = {"1": "m1:6700", "2": "m1:6700"}


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def decision_line(t: float, run_id: str, policy: str, topology: str, machines: Sequence[str]) -> dict[str, Any]:
    components = [
        {"name": "spout_1", "kind": "spout", "tasks": [1], "executors": [[1, 1]]},
        {"name": "sink_1", "kind": "bolt", "tasks": [2], "executors": [[2, 2]]},
    ]
    edges = [{"source": "spout_1", "stream": "default", "target": "sink_1", "grouping": "shuffle"}]
    shown = {"id": f"{topology}-1", "name": topology, "workers": 1, "uptime_s": 0, "rebalancing": False}
    shown |= {"components": components, "edges": edges, "placement": PLACEMENT}
    known = [{"name": name, "supervisor_id": name, "ports": [6700], "alive": True} for name in machines]
    decision: dict[str, Any] = {"decision_id": None, "policy": policy, "reason": "", "topologies": {}}
    request = {"v": 1, "t": t, "machines": known, "topologies": [shown]}
    line = {"t": t, "run_id": run_id, "request": request, "observation": {}, "memory": {}}
    return line | {"decision": decision, "duration_ms": 1.0}


def worker_line(t: int, rate: int, topology: str) -> dict[str, Any]:
    head = {"v": 1, "t": float(t), "dt_s": 1.0, "machine": "m1", "port": 6700, "pid": 1, "seq": t}
    tasks = {"task": [1, 2], "component": ["spout_1", "sink_1"], "emitted": [rate, 0], "transferred": [rate, 0]}
    tasks |= {"executed": [0, rate], "execute_ms": [0.0, rate * 1.0], "process_ms": [None, None], "queue": [0, 0]}
    latency = {"task": [2], "n": [rate], "sum_ms": [rate * 2.0], "max_ms": [3.0]}
    latency |= {"p50_ms": [2.0], "p95_ms": [2.5], "p99_ms": [2.9]}
    spouts = {"task": [1], "due": [rate], "emitted": [rate], "behind_ms": [0.0]}
    return head | {"topology": f"{topology}-1", "tasks": tasks, "sinks": latency, "spouts": spouts}


def machine_line(name: str, t: int) -> dict[str, Any]:
    used = {"cpu_cores": 0.1, "cpu_quota_cores": 0.25, "throttled_ms": 0.0}
    memory = {"memory_bytes": 400_000_000, "memory_limit_bytes": 805_306_368}
    interfaces = {"name": ["ctl0", "exp0"], "rx_bytes": [1200, 52000], "tx_bytes": [900, 51000]}
    return {"v": 1, "t": float(t), "dt_s": 1.0, "machine": name, **used, **memory, "interfaces": interfaces}
