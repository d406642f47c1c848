"""A synthetic series whose runs have three topologies with the same task numbers and component names.

Each is spout → work → sink on one worker. Seconds 0 to 400 of a run, three events at 100, 200 and 300:

- `star` goes on all the time: 100 tuples/s, after e1 (one machine more) what its variant makes of it. In the first 6 s
  after e1 its spout emits, and nothing is executed or waits: 600 tuples are lost. Then it is on the new machine.
- `diamond` executes 40/s, and 30/s from e2 on; it departs with e3. Its last tuples drain for 5 s.
- `page` arrives with e2 and emits its first tuple 8 s later: 60/s.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.record import worker_files
from scheduler_plugins.json_data import to_json
from scheduler_plugins.model import Decision
from scheduler_plugins.service.latency_buckets import bucket_of
from scheduler_plugins.service.messages import VERSION
from tests.golden import records

START = 1_763_800_000.0
E1, E2, E3, END = 100, 200, 300, 400
SILENT_S, LOADS_S, DRAINS_S = 6, 8, 5
LEVELS = {"even_rebalance": 110, "stela": 130}  # of star after e1
LATENCY_MS = {"star": 20, "diamond": 9, "page": 50}
SERVICE_LEVELS = {
    "star": {"latency_ms": 10.0, "max_utility": 35.0},
    "diamond": {"juice": 1.0, "max_utility": 10.0},
    "page": {"latency_ms": 100.0, "max_utility": 20.0},
}
SLOTS = {"star": "m1:6700", "diamond": "m2:6700", "page": "m3:6700"}
NAMES = tuple(SLOTS)
COMPONENTS: list[dict[str, Any]] = [
    {"name": name, "kind": kind, "tasks": [task], "executors": 1, "sink": name == "sink"}
    for task, (name, kind) in enumerate((("spout", "spout"), ("work", "bolt"), ("sink", "bolt")), start=1)
]
EDGES = [
    {"source": source, "stream": "default", "target": target, "grouping": "shuffle"}
    for source, target in (("spout", "work"), ("work", "sink"))
]


def storm_id(name: str) -> str:
    return f"{name}-{NAMES.index(name) + 1}-{START:.0f}"


def emitted(name: str, variant: str, second: int) -> int:
    if name == "star":
        return 100 if second < E1 + SILENT_S else LEVELS[variant]
    if name == "diamond":
        return 0 if second >= E3 else 40 if second < E2 else 30
    return 60 if second >= E2 + LOADS_S else 0


def executed(name: str, variant: str, second: int) -> int:
    if name == "star" and E1 <= second < E1 + SILENT_S:
        return 0
    if name == "diamond" and E3 <= second < E3 + DRAINS_S:
        return 3
    return emitted(name, variant, second)


def slot_of(name: str, second: int) -> str:
    return "m4:6700" if name == "star" and second >= E1 + SILENT_S else SLOTS[name]


def is_there(name: str, second: int) -> bool:
    """Whether its worker writes a line of that second."""
    return {"star": True, "diamond": second < E3 + DRAINS_S, "page": second >= E2 + 2}[name]


def write_series(root: Path, repetitions: int = 1) -> Path:
    """Every variant so often, each run with all three topologies."""
    (root / "runs").mkdir(parents=True)
    spec = {"variants": [{"name": variant} for variant in LEVELS], "title": "Three topologies"}
    (root / "series.json").write_text(
        json.dumps({"v": 1, "experiment": "several/three", "series_id": root.name, "spec": spec})
    )
    for number in range(1, repetitions + 1):
        for order, variant in enumerate(LEVELS):
            write_run(root, variant, number, 2 * (number - 1) + order)
    return root


def write_run(
    root: Path, variant: str, repetition: int, order: int, names: Sequence[str] = NAMES, run_id: str = "",
    silent: Sequence[str] = (), **changes: Any,
) -> None:  # fmt: skip
    """`names`: of the topologies on record; of one alone the record is as it is of runs of one. `silent`: of those that
    were submitted too and never got a worker. `changes`: of run.json, by key."""
    start, run_id = START + 1000.0 * order, run_id or f"{variant}-r{repetition}"
    folder = root / "runs" / run_id
    (folder / "workers").mkdir(parents=True)
    (folder / "machines").mkdir()
    for name in names:
        lines = worker_lines(name, variant, start)
        for slot in dict.fromkeys(f"{line['machine']}-{line['port']}" for line in lines):
            records.write_worker(
                folder / "workers", slot, [line for line in lines if slot == f"{line['machine']}-{line['port']}"]
            )
    for number in range(1, 5):
        records.write_lines(folder / "machines" / f"m{number}.jsonl", machine_lines(start, number))
    records.write_lines(folder / "events.jsonl", events(start, names, silent))
    records.write_lines(folder / "decisions.jsonl", [decision_line(start, s, run_id, names) for s in range(5, END, 10)])
    document = run_json(root, run_id, variant, repetition, order, start, [n for n in NAMES if n in {*names, *silent}])
    (folder / "run.json").write_text(json.dumps(document | changes))


def worker_lines(name: str, variant: str, start: float) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for second in (s for s in range(END) if is_there(name, s)):
        machine, port = slot_of(name, second).split(":")
        sent, done = emitted(name, variant, second), executed(name, variant, second)
        line: dict[str, Any] = {
            "v": 1, "t": start + second + 1.0, "dt_s": 1.0, "machine": machine, "port": int(port), "pid": 4000,
            "topology": storm_id(name), "seq": sum(line["machine"] == machine for line in lines),
            "tasks": {
                "task": [1, 2, 3], "component": ["spout", "work", "sink"], "emitted": [sent, done, 0],
                "transferred": [sent, done, 0], "executed": [0, done, done],
                "execute_ms": [0.0, 1.0 * done, 0.1 * done], "process_ms": [None] * 3, "queue": [0, 0, 0],
            },
            "streams": {"task": [1, 2], "stream": ["default"] * 2, "emitted": [sent, done]},
            "sources": {"task": [2, 3], "component": ["spout", "work"], "stream": ["default"] * 2,
                        "executed": [done, done], "execute_ms": [1.0 * done, 0.1 * done]},
            "spouts": {"task": [1], "due": [sent], "emitted": [sent], "behind": [0], "behind_ms": [0.0], "missed": [0],
                       "late": [2 if second == E1 + 20 else 0]},
            "traffic": {"from": [1, 2], "to": [2, 3], "n": [sent, done]},
        }  # fmt: skip
        if done:
            line["sinks"] = {
                "task": [3], "source_machine": [machine], "n": [done], "sum_ms": [1.0 * LATENCY_MS[name] * done],
                "max_ms": [1.0 * LATENCY_MS[name]], "buckets": [[bucket_of(1000 * LATENCY_MS[name])]],
                "counts": [[done]],
            }  # fmt: skip
        lines.append(line)
    return lines


def machine_lines(start: float, number: int) -> list[dict[str, Any]]:
    """mN uses 10 N % of its quota; m4 reports from e1 on."""
    return [
        {"v": 1, "t": start + second + 1.0, "dt_s": 1.0, "machine": f"m{number}", "cpu_cores": 0.025 * number,
         "cpu_quota_cores": 0.25, "throttled_ms": 0.0, "steal_percent": 0.5, "runnable": 0.5,
         "memory_bytes": 300_000_000, "memory_limit_bytes": 536_870_912,
         "interfaces": {"name": ["exp0"], "rx_bytes": [1000 * number], "tx_bytes": [900]}}
        for second in range(E1 if number == 4 else 0, END + 2)
    ]  # fmt: skip


def events(start: float, names: Sequence[str], silent: Sequence[str]) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [{"t": -5, "kind": "run_started"}]
    lines += [{"t": -4, "kind": "topology_submitted", "topology": name} for name in silent if name != "page"]
    for name in [name for name in names if name != "page"]:
        lines += [{"t": -4, "kind": "topology_submitted", "topology": name},
                  {"t": 0, "kind": "first_tuple", "topology": name},
                  {"t": E1 - 2, "kind": "steady", "phase": "before", "steady": True, "topology": name,
                   "reason": f"{name} is level"}]  # fmt: skip
    lines += [
        {"t": E1 - 1, "kind": "machines_joined", "machines": ["m4"]},
        {"t": E1, "kind": "scale_requested", "event_id": "e1", "event": "scale_out", "joined": ["m4"], "leave": 0},
        {"t": E1 + 0.5, "kind": "decision", "decision_id": "d1", "reason": "star grows", "event_id": "e1",
         "topologies": ["star"]},
        {"t": E1 + 0.7, "kind": "applied", "decision_id": "d1", "ok": True, "event_id": "e1", "topologies": ["star"]},
        {"t": E2, "kind": "event_performed", "event_id": "e2", "event": "arrival", "topologies": ["page"],
         "label": "page arrives"},
        {"t": E2 + 0.5, "kind": "topology_submitted", "topology": "page"},
        *([{"t": E2 + 8, "kind": "first_tuple", "topology": "page"}] if "page" in names else []),
        {"t": E3, "kind": "event_performed", "event_id": "e3", "event": "departure", "topologies": ["diamond"],
         "label": "diamond departs"},
        {"t": E3 + 6, "kind": "topology_killed", "topology": "diamond"},
        {"t": END + 0.5, "kind": "topology_killed"},
        {"t": END + 1.5, "kind": "run_ended"},
    ]  # fmt: skip
    if len(names) == 1:  # as the record of a run with one topology has them
        lines = [{key: value for key, value in line.items() if key not in ("topology", "topologies")} for line in lines
                 if line.get("topology") in (None, *names) or line["kind"] == "event_performed"]  # fmt: skip
    return [line | {"t": start + line["t"]} for line in sorted(lines, key=lambda line: float(line["t"]))]


def decision_line(start: float, second: int, run_id: str, names: Sequence[str]) -> dict[str, Any]:
    shown = [
        {"id": storm_id(name), "name": name, "workers": 1, "uptime_s": second, "rebalancing": False, "edges": EDGES,
         "components": [{"name": c["name"], "kind": c["kind"], "tasks": c["tasks"], "executors": [c["tasks"] * 2]}
                        for c in COMPONENTS],
         "placement": dict.fromkeys("123", slot_of(name, second))}
        for name in names if is_there(name, second)
    ]  # fmt: skip
    return {
        "t": start + second, "run_id": run_id, "decision_id": "d1" if second == E1 + 5 else None, "policy": "stela",
        "duration_ms": 1.5, "observation": {}, "memory": {},
        "request": {"v": VERSION, "t": start + second, "machines": [], "topologies": shown},
        "decision": to_json(Decision(reason="nothing")),
    }  # fmt: skip


def facts_of(name: str) -> dict[str, Any]:
    return {
        "id": storm_id(name), "name": name, "workers": 1, "components": COMPONENTS, "edges": EDGES,
        "service_level": SERVICE_LEVELS[name],
    }  # fmt: skip


def run_json(
    root: Path, run_id: str, variant: str, repetition: int, order: int, start: float, names: Sequence[str]
) -> dict[str, Any]:
    shown = [facts_of(name) for name in names]
    return {
        "v": 1, "run_id": run_id, "series_id": root.name, "experiment": "several/three", "block": repetition,
        "repetition": repetition, "order": order, "seed": 7, "measurement": 2,
        # All of star goes to the new machine, which Stela would not have done.
        "variant": {"name": variant, "policy": {"stela": "greedy"}.get(variant, "even"), "parameters": {}},
        "status": "complete", "failure": None, "started_s": start - 5, "ended_s": start + END + 1.5, "phases": [],
        "topology": shown[0], **({"topologies": shown} if len(names) > 1 else {}), "spec": {},
        "git_commit": None, "git_dirty": None, "versions": {"storm": "2.8.3"}, "harness_facts": {},
        "machines": {
            f"m{n}": {"type": "type_1", "cores": 0.25, "memory_mb": 512, "bandwidth_mbit": 100, "slots": 4,
                      "joins_at_scale": n == 4}
            for n in range(1, 5)
        },
        "clock_offset_ms": {f"m{n}": 0.0 for n in range(1, 5)},
    }  # fmt: skip


def write_series_with_others(root: Path) -> None:
    """Beside the two runs that count, some whose records are otherwise: analysed too, but in no figure."""
    write_series(root)
    failed: dict[str, Any] = {"status": "failed"}
    write_run(root, "stela", 2, 2, ("star",), "alone", **failed)
    write_run(root, "stela", 3, 3, ("diamond", "page"), "silent", ("star",), **failed)
    write_run(root, "stela", 7, 7, ("star", "diamond"), "starved", ("page",), **failed)
    write_run(root, "stela", 6, 6, ("diamond", "page"), "unknown", ("star",), **failed)  # its probes are silent too
    for path in (root / "runs" / "unknown" / "machines").iterdir():
        path.unlink()
    absent = {"id": None, "name": "page", "workers": 1, "components": None, "edges": None}  # never submitted
    shown = [facts_of("star"), facts_of("diamond"), absent]
    write_run(root, "stela", 4, 4, ("star", "diamond"), "absent", topologies=shown, **failed)
    write_run(root, "stela", 5, 5, ("star", "diamond"), "disturbed", **failed)
    end_event(root / "runs" / "disturbed" / "events.jsonl", "e1", 30.0)
    starve(root / "runs" / "disturbed" / "workers", "diamond")


def end_event(path: Path, event_id: str, after_s: float) -> None:
    """What it had begun is over so long after it."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    zero_s = next(line["t"] for line in lines if line.get("event_id") == event_id)
    ended = {"t": zero_s + after_s, "kind": "disturbance_ended", "event_id": event_id, "machines": ["m1"]}
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, ended]))


def starve(workers: Path, name: str) -> None:
    """From e1 on the topology's spout emits nothing, and what is due goes on."""
    for path in workers.glob("*.avro"):
        lines = [dict(line) for line in worker_files.read(path) if line is not None]
        if lines[0]["topology"] != storm_id(name):
            continue
        for line in lines[E1:]:
            line["spouts"] |= {"emitted": [0]}
            for rows, names in {"tasks": ("emitted", "transferred", "executed"), "streams": ("emitted",),
                                "sources": ("executed",)}.items():  # fmt: skip
                line[rows] |= {name: [0] * len(line[rows]["task"]) for name in names}
            line.pop("sinks", None)
            line.pop("traffic", None)
        path.unlink()
        worker_files.write(path, lines)
