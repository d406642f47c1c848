"""A run in which a topology of four tasks, and one of Storm's ackers, is placed anew, and whose traffic is known.

spout (task 1) → work (2, 3) → sink (4): 30 tuples/s, 20 by task 2 and 10 by task 3. The acker (5) executes 90/s.
For 100 s 2 and 4 are on machines of their own; the request comes, all workers are silent for 6 s, and from then on to
the end only 3 is apart:

| from → to | tuples/s | before | after |
|---|---|---|---|
| 1 → 2 | 20 | m1 → m2 | one worker |
| 1 → 3 | 10 | one worker | m1 → m2 |
| 2 → 4 | 20 | m2 → m3 | two workers of m1 |
| 3 → 4 | 10 | m1 → m3 | m2 → m1 |
"""

import json
from pathlib import Path
from typing import Any

from scheduler_plugins.json_data import to_json
from scheduler_plugins.model import Decision
from scheduler_plugins.service.latency_buckets import bucket_of
from scheduler_plugins.service.messages import VERSION
from tests.golden import records

START = 1_763_900_000.0
ZERO, SILENT_S, END = 100, 6, 300
RUN, TOPOLOGY = "metis-r1", "pairs-1-1763900000"
COMPONENTS: list[dict[str, Any]] = [
    {"name": "spout", "kind": "spout", "tasks": [1], "executors": 1, "sink": False},
    {"name": "work", "kind": "bolt", "tasks": [2, 3], "executors": 2, "sink": False},
    {"name": "sink", "kind": "bolt", "tasks": [4], "executors": 1, "sink": True},
]
SYSTEM: dict[str, Any] = {"name": "__acker", "kind": "system", "tasks": [5], "executors": 1}
EDGES = [
    {"source": "spout", "stream": "default", "target": "work", "grouping": "fields"},
    {"source": "work", "stream": "default", "target": "sink", "grouping": "shuffle"},
]
BEFORE = {1: "m1:6700", 2: "m2:6700", 3: "m1:6700", 4: "m3:6700", 5: "m2:6700"}
AFTER = {1: "m1:6700", 2: "m1:6700", 3: "m2:6700", 4: "m1:6701", 5: "m2:6700"}
EMITTED, EXECUTED = {1: 30, 2: 20, 3: 10, 4: 0}, {1: 0, 2: 20, 3: 10, 4: 30, 5: 90}
TRAFFIC = {(1, 2): 20, (1, 3): 10, (2, 4): 20, (3, 4): 10}
COMPONENT = {1: "spout", 2: "work", 3: "work", 4: "sink", 5: "__acker"}
SENT_BYTES = {"before": {"m1": 3000, "m2": 2000, "m3": 0}, "after": {"m1": 1000, "m2": 1000, "m3": 0}}
CPU_PERCENT = {"before": {"m1": 30, "m2": 20, "m3": 10}, "after": {"m1": 20, "m2": 20, "m3": 20}}


def write_series(root: Path, *, ackers_counted: bool = True, with_traffic: bool = True) -> Path:
    folder = root / "runs" / RUN
    (folder / "workers").mkdir(parents=True)
    (folder / "machines").mkdir()
    (root / "series.json").write_text(json.dumps({"v": 1, "experiment": "metis/pairs", "series_id": root.name}))
    for slot in sorted({*BEFORE.values(), *AFTER.values()}):
        lines = worker_lines(slot, ackers_counted, with_traffic)
        for number, line in enumerate(lines):
            line["seq"] = sum(earlier["pid"] == line["pid"] for earlier in lines[:number])
        records.write_worker(folder / "workers", slot.replace(":", "-"), lines)
    for machine in ("m1", "m2", "m3", "master"):
        records.write_lines(folder / "machines" / f"{machine}.jsonl", machine_lines(machine))
    records.write_lines(folder / "events.jsonl", events())
    records.write_lines(folder / "decisions.jsonl", [decision_line(second) for second in (5, 50, 95, 101, 110, 200)])
    (folder / "run.json").write_text(json.dumps(run_json(root.name)))
    return root


def is_silent(second: int) -> bool:
    return ZERO <= second < ZERO + SILENT_S


def worker_lines(slot: str, ackers_counted: bool, with_traffic: bool) -> list[dict[str, Any]]:
    machine, port = slot.split(":")
    lines = []
    for second in range(END):
        where = BEFORE if second < ZERO else AFTER
        mine = [task for task in sorted(where) if where[task] == slot and (ackers_counted or task != 5)]
        if mine and not is_silent(second):
            head = {
                "v": 1, "t": START + second + 1.0, "dt_s": 1.0, "machine": machine, "port": int(port),
                "pid": 4000 + (1000 if second >= ZERO else 0), "topology": TOPOLOGY, "seq": 0,
            }  # fmt: skip
            lines.append({**head, **groups(mine, with_traffic)})
    return lines


def groups(tasks: list[int], with_traffic: bool) -> dict[str, dict[str, list[Any]]]:
    own = [task for task in tasks if task != 5]
    found: dict[str, dict[str, list[Any]]] = {
        "tasks": {
            "task": tasks, "component": [COMPONENT[task] for task in tasks],
            "emitted": [EMITTED.get(task, 0) for task in tasks],
            "transferred": [EMITTED.get(task, 0) for task in tasks],
            "executed": [EXECUTED[task] for task in tasks], "execute_ms": [1.0 for _ in tasks],
            "process_ms": [None for _ in tasks], "queue": [7 if task == 5 else 0 for task in tasks],
        },
        "streams": {"task": own, "stream": ["default" for _ in own], "emitted": [EMITTED[task] for task in own]},
    }  # fmt: skip
    bolts = [task for task in own if task != 1]
    found["sources"] = {
        "task": bolts, "component": ["work" if task == 4 else "spout" for task in bolts],
        "stream": ["default" for _ in bolts], "executed": [EXECUTED[task] for task in bolts],
        "execute_ms": [1.0 for _ in bolts],
    }  # fmt: skip
    if 1 in tasks:
        found["spouts"] = {"task": [1], "due": [30], "emitted": [30], "behind": [0], "behind_ms": [0.0], "missed": [0],
                           "late": [0]}  # fmt: skip
    if 4 in tasks:
        found["sinks"] = {"task": [4], "source_machine": ["m1"], "n": [30], "sum_ms": [150.0], "max_ms": [5.0],
                          "buckets": [[bucket_of(5000)]], "counts": [[30]]}  # fmt: skip
    pairs = [(pair, n) for pair, n in TRAFFIC.items() if pair[0] in tasks and with_traffic]
    if pairs:
        found["traffic"] = {"from": [pair[0] for pair, _ in pairs], "to": [pair[1] for pair, _ in pairs],
                            "n": [n for _, n in pairs]}  # fmt: skip
    return {name: columns for name, columns in found.items() if columns["task" if "task" in columns else "from"]}


def machine_lines(machine: str) -> list[dict[str, Any]]:
    """The master sends 500 bytes and uses 90 % of its quota all the time."""
    lines = []
    for second in range(END + 2):
        side = "before" if second < ZERO else "after"
        percent = CPU_PERCENT[side].get(machine, 90)
        sent = 0 if is_silent(second) else SENT_BYTES[side].get(machine, 500)
        lines.append({
            "v": 1, "t": START + second + 1.0, "dt_s": 1.0, "machine": machine, "cpu_cores": 0.0025 * percent,
            "cpu_quota_cores": 0.25, "throttled_ms": 0.0, "steal_percent": 0.0, "runnable": 0.5,
            "memory_bytes": 300_000_000, "memory_limit_bytes": 536_870_912,
            "interfaces": {"name": ["ctl0", "exp0"], "rx_bytes": [100_000, sent], "tx_bytes": [100_000, sent]},
        })  # fmt: skip
    return lines


def events() -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [
        {"t": -5, "kind": "run_started"},
        {"t": -4, "kind": "topology_submitted"},
        {"t": 0, "kind": "first_tuple"},
        {"t": ZERO, "kind": "scale_requested", "event_id": "e1", "event": "reschedule", "joined": [], "leave": 0},
        {"t": ZERO + 1.0, "kind": "decision", "decision_id": "d1", "event_id": "e1", "reason": "placed by traffic"},
        {"t": ZERO + 1.5, "kind": "applied", "decision_id": "d1", "event_id": "e1", "ok": True},
        {"t": END + 0.5, "kind": "topology_killed"},
        {"t": END + 1.5, "kind": "run_ended"},
    ]
    return [line | {"t": START + line["t"]} for line in lines]


def decision_line(second: int) -> dict[str, Any]:
    where = BEFORE if second < 101 else AFTER
    shown = [
        {
            "name": each["name"],
            "kind": each["kind"],
            "tasks": each["tasks"],
            "executors": [[t, t] for t in each["tasks"]],
        }
        for each in (*COMPONENTS, SYSTEM)
    ]
    topology = {
        "id": TOPOLOGY, "name": "pairs", "workers": 3, "uptime_s": second, "components": shown, "edges": EDGES,
        "placement": {} if second == 101 else {str(task): slot for task, slot in where.items()},
        "rebalancing": second == 101,
    }  # fmt: skip
    return {
        "t": START + second, "run_id": RUN, "decision_id": "d1" if second == 101 else None, "policy": "metis",
        "duration_ms": 12.5, "observation": {}, "memory": {},
        "request": {"v": VERSION, "t": START + second, "machines": [], "topologies": [topology]},
        "decision": to_json(Decision(reason="nothing")),
    }  # fmt: skip


def run_json(series_id: str) -> dict[str, Any]:
    return {
        "v": 1, "run_id": RUN, "series_id": series_id, "experiment": "metis/pairs", "block": 1, "repetition": 1,
        "order": 1, "seed": 7, "measurement": 2,
        "variant": {"name": "metis", "policy": "metis", "parameters": {"objective": "vol"}},
        "status": "complete", "failure": None, "started_s": START - 5, "ended_s": START + END + 1.5, "phases": [],
        "topology": {"id": TOPOLOGY, "name": "pairs", "workers": 3, "components": COMPONENTS, "edges": EDGES},
        "spec": {}, "git_commit": None, "git_dirty": None, "versions": {"storm": "2.8.3"}, "harness_facts": {},
        "machines": {
            f"m{n}": {"type": "workstation", "cores": 0.25, "memory_mb": 512, "bandwidth_mbit": 40, "slots": 2,
                      "joins_at_scale": False}
            for n in range(1, 4)
        },
        "clock_offset_ms": {f"m{n}": 0.0 for n in range(1, 4)},
    }  # fmt: skip
