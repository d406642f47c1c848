"""Topologies of the fake cluster, and lines of its machines and workers, as the contracts have them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scheduler_plugins.model import Component, Edge, Executor, Slot, Topology
from scheduler_plugins.service.latency_buckets import bucket_of

SPOUT, SINK = 1, 2  # the tasks of a topology


def fake_topology(name: str) -> Topology:
    spout = Component("spout_1", "spout", (SPOUT,), (Executor(SPOUT, SPOUT),))
    sink = Component("sink_1", "bolt", (SINK,), (Executor(SINK, SINK),))
    return Topology(f"{name}-1", name, 2, (spout, sink), (Edge("spout_1", "default", "sink_1", "shuffle"),))


def write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def worker_line(
    sequence: int, t: int, rate: int, topology_id: str, slot: Slot, pid: int, places: Mapping[int, Slot]
) -> dict[str, Any]:
    """`places`: where the topology's tasks are; this worker has those in its slot."""
    mine = [task for task in (SPOUT, SINK) if places.get(task) == slot]
    names, emitted, executed = {SPOUT: "spout_1", SINK: "sink_1"}, {SPOUT: rate, SINK: 0}, {SPOUT: 0, SINK: rate}
    tasks = {"task": mine, "component": [names[task] for task in mine], "emitted": [emitted[task] for task in mine]}
    tasks |= {"transferred": tasks["emitted"], "executed": [executed[task] for task in mine]}
    tasks |= {"execute_ms": [executed[task] * 1.0 for task in mine]}
    tasks |= {"process_ms": [None for _ in mine], "queue": [0 for _ in mine]}
    line = _head(sequence, t, topology_id, slot, pid) | {"tasks": tasks}
    if SINK in mine:
        latency = {"task": [SINK], "source_machine": [places.get(SPOUT, slot).machine], "n": [rate]}
        latency |= {"sum_ms": [rate * 2.0], "max_ms": [2.0], "buckets": [[bucket_of(2000)]], "counts": [[rate]]}
        line |= {"sinks": latency}
    return line | {"spouts": _spouts([SPOUT], rate)} if SPOUT in mine else line


def restart_line(t: int, slot: Slot, pid: int, topology_id: str, spouts: Sequence[int]) -> dict[str, Any]:
    """The first line of another process in this slot, with these spouts' tasks."""
    return _head(0, t, topology_id, slot, pid) | {"spouts": _spouts(spouts, 0)}


def _head(sequence: int, t: int, topology_id: str, slot: Slot, pid: int) -> dict[str, Any]:
    place = {"machine": slot.machine, "port": slot.port, "pid": pid}
    return {"v": 1, "t": float(t), "dt_s": 1.0, **place, "seq": sequence, "topology": topology_id}


def _spouts(tasks: Sequence[int], rate: int) -> dict[str, Any]:
    counts: dict[str, Any] = {"task": list(tasks)}
    for name, value in {"due": rate, "emitted": rate, "behind": 0, "behind_ms": 0.0, "missed": 0, "late": 0}.items():
        counts[name] = [value for _ in tasks]
    return counts


def machine_line(name: str, t: int) -> dict[str, Any]:
    used = {"cpu_cores": 0.1, "cpu_quota_cores": 0.25, "throttled_ms": 0.0, "steal_percent": 0.0, "runnable": 0.4}
    memory = {"memory_bytes": 400_000_000, "memory_limit_bytes": 805_306_368, "worker_memory_bytes": 300_000_000}
    interfaces = {"name": ["ctl0", "exp0"], "rx_bytes": [1200, 52000], "tx_bytes": [900, 51000]}
    return {"v": 1, "t": float(t), "dt_s": 1.0, "machine": name, **used, **memory, "interfaces": interfaces}
