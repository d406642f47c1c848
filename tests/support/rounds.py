"""Requests and worker lines for tests of the policy service: star on two machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from scheduler_plugins.service.messages import VERSION

TOPOLOGY = "star-1-1000"
COMPONENTS = {"centre": [1, 2], "sink": [3, 4], "spout": [5, 6]}
EDGES = [("spout", "centre"), ("centre", "sink")]


def only_topology(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the service's state says of its one topology."""
    (topology,) = state["topologies"]
    return dict(topology)


def request(t: float, placement: dict[str, str] | None = None, machines: int = 2, **changes: Any) -> dict[str, Any]:
    topology = {
        "id": TOPOLOGY,
        "name": "star",
        "workers": 4,
        "uptime_s": 10,
        "components": [
            {"name": n, "kind": "spout" if n == "spout" else "bolt", "tasks": tasks, "executors": [tasks]}
            for n, tasks in COMPONENTS.items()
        ],
        "edges": [{"source": s, "stream": "default", "target": d, "grouping": "shuffle"} for s, d in EDGES],
        "placement": placement or {},
        "rebalancing": False,
        **changes,
    }
    hosts = [
        {"name": f"m{i}", "supervisor_id": f"id-{i}", "ports": [6700, 6701], "alive": True}
        for i in range(1, machines + 1)
    ]
    return {"v": VERSION, "t": t, "machines": hosts, "topologies": [topology]}


PLACED = {"1": "m1:6700", "2": "m1:6700", "3": "m2:6700", "4": "m2:6700", "5": "m1:6700", "6": "m1:6700"}


def line(
    t: float,
    machine: str,
    rates: dict[str, tuple[int, int]],
    queue: int = 0,
    topology: str = TOPOLOGY,
    port: int = 6700,
) -> str:
    """A worker's line for one second: component → (emitted, executed) per second, split over its two tasks."""
    tasks = [(task, name) for name in rates for task in COMPONENTS[name]]
    emitted = [rates[name][0] // 2 for _, name in tasks]
    executed = [rates[name][1] // 2 for _, name in tasks]
    body: dict[str, Any] = {
        "v": 1,
        "t": t,
        "dt_s": 1.0,
        "machine": machine,
        "port": port,
        "pid": 1,
        "topology": topology,
        "seq": int(t),
        "tasks": {
            "task": [task for task, _ in tasks],
            "component": [name for _, name in tasks],
            "emitted": emitted,
            "transferred": emitted,
            "executed": executed,
            "execute_ms": [4.0 * n for n in executed],
            "process_ms": [None] * len(tasks),
            "queue": [queue] * len(tasks),
        },
        "streams": {"task": [task for task, _ in tasks], "stream": ["default"] * len(tasks), "emitted": emitted},
    }
    if "spout" in rates:
        body["spouts"] = {"task": [5, 6], "due": [60, 60], "emitted": [50, 50], "behind_ms": [0.0, 20.0]}
    if "sink" in rates:
        body["sinks"] = {"task": [3], "n": [10], "sum_ms": [250.0], "max_ms": [40.0]}
    return json.dumps(body)
