"""A seeded synthetic series that follows docs/contracts.md and whose every metric is known. Pure but for writing files.

Star: two spouts at 60 tuples/s each -> centre -> two sinks, each getting every tuple of the centre. Each second of a
run is decided here and tallied in `Expected`, so that a test compares the analysis with the tally and not with itself.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.record import worker_files
from scheduler_plugins.json_data import to_json
from scheduler_plugins.model import Decision
from scheduler_plugins.service.latency_buckets import bucket_of
from scheduler_plugins.service.messages import VERSION

LATENCY_MS = {"sink_1": 5, "sink_2": 9}  # by clocks of which m1's is 0.06 ms behind m4's and 0.08 ms behind m5's
START = 1_763_700_000.0
BEFORE_S, AFTER_S = 120, 180
OFFERED = 60
CENTRE_BEFORE = 50
CENTRE_AFTER = {"even_rebalance": 50, "stela": 80}
SILENT_S = {"even_rebalance": 12, "stela": 8}
REPETITION_SHIFT = {1: 0, 2: -2, 3: 2}
TOPOLOGY = "star-1-1763700000"
GARBAGE = b'{"v": 1, "t": 17637\x00\x00 not json'
OLDER = "stela-r2"

COMPONENTS = [
    {"name": "spout_1", "kind": "spout", "tasks": [1, 2], "executors": 1, "sink": False},
    {"name": "spout_2", "kind": "spout", "tasks": [3, 4], "executors": 1, "sink": False},
    {"name": "centre", "kind": "bolt", "tasks": [5, 6, 7, 8], "executors": 2, "sink": False},
    {"name": "sink_1", "kind": "bolt", "tasks": [9, 10], "executors": 1, "sink": True},
    {"name": "sink_2", "kind": "bolt", "tasks": [11, 12], "executors": 1, "sink": True},
]
EDGES = [
    {"source": source, "stream": "default", "target": target, "grouping": "shuffle"}
    for source, target in (("spout_1", "centre"), ("spout_2", "centre"), ("centre", "sink_1"), ("centre", "sink_2"))
]
Executor = tuple[str, int, int]
BEFORE: dict[Executor, str] = {
    ("spout_1", 1, 2): "m1:6700",
    ("spout_2", 3, 4): "m2:6700",
    ("centre", 5, 6): "m3:6700",
    ("centre", 7, 8): "m3:6701",
    ("sink_1", 9, 10): "m4:6700",
    ("sink_2", 11, 12): "m4:6701",
}
AFTER: dict[str, dict[Executor, str]] = {
    # Everything is dealt out again over five machines: all but spout_1 move.
    "even_rebalance": {
        ("spout_1", 1, 2): "m1:6700",
        ("spout_2", 3, 4): "m3:6700",
        ("centre", 5, 6): "m2:6700",
        ("centre", 7, 8): "m4:6700",
        ("sink_1", 9, 10): "m5:6700",
        ("sink_2", 11, 12): "m4:6701",
    },
    # The centre is split in four; the halves that are new go to the new machine.
    "stela": {
        **{executor: slot for executor, slot in BEFORE.items() if executor[0] != "centre"},
        ("centre", 5, 5): "m3:6700",
        ("centre", 6, 6): "m5:6700",
        ("centre", 7, 7): "m3:6701",
        ("centre", 8, 8): "m5:6701",
    },
}


@dataclass
class Expected:
    """What the analysis of one run must find."""

    lost_after: int = 0
    sink_tuples: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    variant: str
    repetition: int

    @property
    def run_id(self) -> str:
        return f"{self.variant}-r{self.repetition}"

    @property
    def start(self) -> float:
        return START + 1000.0 * self.repetition + (500.0 if self.variant == "stela" else 0.0)

    @property
    def zero(self) -> float:
        return self.start + BEFORE_S


def runs(repetitions: int = 3) -> list[Run]:
    return [Run(variant, number) for number in range(1, repetitions + 1) for variant in AFTER]


def centre_rate(run: Run, second: int) -> int:
    """Tuples the centre executes in a second: a level, one tuple up or down by the parity of its 10 s window."""
    if BEFORE_S <= second < BEFORE_S + SILENT_S[run.variant]:
        return 0
    level = CENTRE_BEFORE if second < BEFORE_S else CENTRE_AFTER[run.variant]
    return level + REPETITION_SHIFT[run.repetition] + (1 if (second // 10) % 2 else -1)


def spout_rate(run: Run, second: int) -> int:
    """Tuples a spout emits in a second; the default's restart takes the spouts with it."""
    silent = run.variant == "even_rebalance" and BEFORE_S <= second < BEFORE_S + SILENT_S[run.variant]
    return 0 if silent else OFFERED


def slots_before(slot: str) -> set[Executor]:
    return {executor for executor, at in BEFORE.items() if at == slot}


def restarts(run: Run, slot: str) -> bool:
    now = {executor for executor, at in AFTER[run.variant].items() if at == slot}
    return bool(slots_before(slot)) and bool(now) and now != slots_before(slot)


def write_series(root: Path, repetitions: int = 3, experiment: str = "stela/star") -> dict[str, Expected]:
    """Write a whole series; stela-r1 has a damaged line in one file and a half-written last line in another. Workers'
    files are those of today, but for stela-r2's, which are JSON lines as older workers wrote them."""
    (root / "runs").mkdir(parents=True)
    (root / "series.json").write_text(json.dumps({"v": 1, "experiment": experiment, "series_id": root.name}))
    expected = {}
    for order, run in enumerate(runs(repetitions)):
        expected[run.run_id] = write_run(root, run, order, experiment)
    damage(root / "runs" / "stela-r1" / "workers")
    return expected


def damage(workers: Path) -> None:
    (path,) = workers.glob("m1-6700-*")
    blocks = path.read_bytes().split(worker_files.MARKER)
    path.write_bytes(worker_files.MARKER.join([*blocks[:8], GARBAGE, *blocks[8:]]))
    (path,) = workers.glob("m2-6700-*")
    content = path.read_bytes()
    path.write_bytes(content + content.split(worker_files.MARKER)[-2][:90])


def write_run(root: Path, run: Run, order: int, experiment: str) -> Expected:
    folder = root / "runs" / run.run_id
    (folder / "workers").mkdir(parents=True)
    (folder / "machines").mkdir()
    expected, lines = worker_lines(run)
    for slot, of_slot in lines.items():
        write_worker(folder / "workers", slot.replace(":", "-"), of_slot, older=run.run_id == OLDER)
    for number in range(1, 6):
        write_lines(folder / "machines" / f"m{number}.jsonl", machine_lines(run, number))
    write_lines(folder / "events.jsonl", events(run))
    write_lines(folder / "decisions.jsonl", decisions(run))
    (folder / "run.json").write_text(json.dumps(run_json(run, root.name, order, experiment), indent=1))
    return expected


def write_worker(folder: Path, slot: str, lines: list[dict[str, Any]], *, older: bool = False) -> None:
    """A file a process, or all of a slot's lines in one as workers wrote them before."""
    if older:
        write_lines(folder / f"{slot}.jsonl", lines)
        return
    for pid in dict.fromkeys(line["pid"] for line in lines):
        own = [line for line in lines if line["pid"] == pid]
        worker_files.write(folder / f"{slot}-{int(1000 * own[0]['t'])}.avro", own)


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def worker_lines(run: Run) -> tuple[Expected, dict[str, list[dict[str, Any]]]]:
    """Lines by slot, and the tally. A restarting worker is silent, then has a new pid and counts from 0 again."""
    expected, queue = Expected(), 0
    slots = sorted({*BEFORE.values(), *AFTER[run.variant].values()})
    lines: dict[str, list[dict[str, Any]]] = {slot: [] for slot in slots}
    for second in range(BEFORE_S + AFTER_S):
        executed, emitted = centre_rate(run, second), spout_rate(run, second)
        silent = BEFORE_S <= second < BEFORE_S + SILENT_S[run.variant]
        if silent:
            expected.lost_after += queue + 2 * emitted
            queue = 0
        else:
            queue += 2 * emitted - executed
        expected.sink_tuples.append(2 * executed)
        where = BEFORE if second < BEFORE_S else AFTER[run.variant]
        for number, slot in enumerate(slots):
            mine = [executor for executor, at in where.items() if at == slot]
            fresh = second >= BEFORE_S and not slots_before(slot)
            if not mine or (silent and (restarts(run, slot) or fresh or spout_rate(run, second) == 0)):
                continue
            again = restarts(run, slot) and second >= BEFORE_S
            line = worker_line(run, second, slot, number, again, mine, (executed, emitted, queue))
            line["seq"] = sum(earlier["pid"] == line["pid"] for earlier in lines[slot])
            lines[slot].append(line)
    return expected, lines


def worker_line(
    run: Run, second: int, slot: str, number: int, again: bool, mine: list[Executor], counts: tuple[int, int, int]
) -> dict[str, Any]:
    machine, port = slot.split(":")
    line: dict[str, Any] = {
        "v": 1, "t": round(run.start + second + 1 + 0.003 * number, 3), "dt_s": 1.0, "machine": machine,
        "port": int(port), "pid": 4000 + number + (1000 if again else 0), "topology": TOPOLOGY,
        "seq": 0,
    }  # fmt: skip
    for group in (groups(executor, counts) for executor in mine):
        for name, columns in group.items():
            into = line.setdefault(name, {key: [] for key in columns})
            for key, values in columns.items():
                into[key] += values
    return line


def groups(executor: Executor, counts: tuple[int, int, int]) -> dict[str, dict[str, list[Any]]]:
    """The columns of one executor's first task; its other tasks are at rest, so counts stay whole numbers."""
    executed, emitted, queue = counts
    component, first, _ = executor
    if component.startswith("spout"):
        return {
            "tasks": task_columns(first, component, emitted, 0, 0),
            "streams": {"task": [first], "stream": ["default"], "emitted": [emitted]},
            "spouts": {"task": [first], "due": [OFFERED], "emitted": [emitted], "behind_ms": [0.0]},
        }
    if component == "centre":
        share = executed if first == 5 else 0
        waiting = queue if first == 5 else 0
        halves = [share // 2, share - share // 2]
        return {
            "tasks": task_columns(first, component, share, share, waiting),
            "streams": {"task": [first], "stream": ["default"], "emitted": [share]},
            "sources": {
                "task": [first, first], "component": ["spout_1", "spout_2"], "stream": ["default", "default"],
                "executed": halves, "execute_ms": [8.0 * half for half in halves],
            },
        }  # fmt: skip
    return {
        "tasks": task_columns(first, component, 0, executed, 0),
        "sources": {
            "task": [first], "component": ["centre"], "stream": ["default"], "executed": [executed],
            "execute_ms": [0.1 * executed],
        },
        "sinks": {
            "task": [first], "source_machine": ["m1"], "n": [executed], "sum_ms": [LATENCY_MS[component] * executed],
            "max_ms": [LATENCY_MS[component]], "buckets": [[bucket_of(1000 * LATENCY_MS[component])]],
            "counts": [[executed]],
        },
    }  # fmt: skip


def task_columns(task: int, component: str, emitted: int, executed: int, queue: int) -> dict[str, list[Any]]:
    return {
        "task": [task], "component": [component], "emitted": [emitted], "transferred": [2 * emitted],
        "executed": [executed], "execute_ms": [8.0 * executed], "process_ms": [None], "queue": [queue],
    }  # fmt: skip


def machine_lines(run: Run, number: int) -> list[dict[str, Any]]:
    """Machine mN uses N % of its quota before and 10 N % after; m5 reports from the request on."""
    first = BEFORE_S if number == 5 else 0
    return [
        {
            "v": 1, "t": run.start + second + 1.0, "dt_s": 1.0, "machine": f"m{number}",
            "cpu_cores": 0.25 * number * (0.1 if second >= BEFORE_S else 0.01), "cpu_quota_cores": 0.25,
            "throttled_ms": 0.0, "steal_percent": 8.0 if second >= BEFORE_S else 1.5,
            "runnable": (2.0 if second >= BEFORE_S else 0.5) if second % 5 == 4 else None,
            "memory_bytes": 300_000_000, "memory_limit_bytes": 536_870_912,
            "interfaces": {"name": ["ctl0", "exp0"], "rx_bytes": [1000, 50_000 * number], "tx_bytes": [900, 40_000]},
        }
        for second in range(first, BEFORE_S + AFTER_S + 2)
    ]  # fmt: skip


def events(run: Run) -> list[dict[str, Any]]:
    end = run.start + BEFORE_S + AFTER_S
    return [
        {"t": run.start - 5, "kind": "run_started"},
        {"t": run.start - 4, "kind": "topology_submitted"},
        {"t": run.start, "kind": "first_tuple"},
        {"t": run.zero - 2, "kind": "steady", "phase": "before", "steady": True, "reason": "level"},
        {"t": run.zero - 1, "kind": "machines_joined", "machines": ["m5"]},
        {
            "t": run.zero,
            "kind": "scale_requested",
            "event_id": "e1",
            "event": "scale_out",
            "joined": ["m5"],
            "leave": 0,
        },
        {"t": run.zero + 0.5, "kind": "decision", "decision_id": "d1", "reason": "scale out"},
        {"t": run.zero + 0.6, "kind": "applied", "decision_id": "d1", "ok": True},
        {"t": end - 3, "kind": "steady", "phase": "after", "steady": True, "reason": "level"},
        {"t": end + 0.5, "kind": "topology_killed"},
        {"t": end + 1.5, "kind": "run_ended"},
    ]


def decisions(run: Run) -> list[dict[str, Any]]:
    rounds = [
        decision_line(run, second, BEFORE if second <= BEFORE_S else AFTER[run.variant], False)
        for second in range(5, BEFORE_S + AFTER_S, 10)
    ]
    changing = decision_line(run, BEFORE_S + 3, AFTER[run.variant], True)
    changing["decision_id"] = "d1"
    return sorted([*rounds, changing], key=lambda line: float(line["t"]))


def decision_line(run: Run, second: int, where: dict[Executor, str], rebalancing: bool) -> dict[str, Any]:
    components = [
        {
            "name": component["name"], "kind": component["kind"], "tasks": component["tasks"],
            "executors": [[first, last] for name, first, last in sorted(where) if name == component["name"]],
        }
        for component in COMPONENTS
    ]  # fmt: skip
    placement = {str(t): slot for (_, first, last), slot in where.items() for t in range(first, last + 1)}
    topology = {
        "id": TOPOLOGY, "name": "star", "workers": 6, "uptime_s": second, "components": components,
        "edges": EDGES, "placement": {} if rebalancing else placement, "rebalancing": rebalancing,
    }  # fmt: skip
    return {
        "t": run.start + second, "run_id": run.run_id, "decision_id": None, "policy": run.variant,
        "duration_ms": 1.5, "observation": {"may_act": False}, "memory": {},
        "request": {"v": VERSION, "t": run.start + second, "machines": [], "topologies": [topology]},
        "decision": to_json(Decision(reason="nothing")),
    }  # fmt: skip


def run_json(run: Run, series_id: str, order: int, experiment: str) -> dict[str, Any]:
    end = run.start + BEFORE_S + AFTER_S
    return {
        "v": 1, "run_id": run.run_id, "series_id": series_id, "experiment": experiment, "block": run.repetition,
        "repetition": run.repetition, "order": order, "seed": 7,
        "variant": {"name": run.variant, "policy": run.variant.split("_")[0], "parameters": {}},
        "status": "complete", "failure": None, "started_s": run.start - 5, "ended_s": end + 1.5,
        "phases": [
            {"name": "warm_up", "start_s": run.start - 5, "end_s": run.zero, "planned_s": float(BEFORE_S)},
            {"name": "watch", "start_s": run.zero, "end_s": end, "planned_s": float(AFTER_S)},
        ],
        "topology": {"id": TOPOLOGY, "name": "star", "workers": 6, "components": COMPONENTS, "edges": EDGES},
        "spec": {"topology": {"rate": OFFERED, "receive_buffer": 1_048_576, "cost": "sleep 20 ms a tuple at centre"}},
        "git_commit": "0123456789abcdef0123456789abcdef01234567", "git_dirty": False,
        "versions": {"storm": "2.8.3", "java": "17", "python": "3.11"}, "harness_facts": {"cores": 2, "scale": 0.25},
        "machines": {
            f"m{n}": {"type": "type_1", "cores": 0.25, "memory_mb": 512, "bandwidth_mbit": 100, "slots": 4,
                      "joins_at_scale": n == 5}
            for n in range(1, 6)
        },
        "clock_offset_ms": {f"m{n}": 0.02 * n for n in range(1, 6)},
    }  # fmt: skip


def add_broken_runs(root: Path) -> None:
    """An invalid run with a record, and a folder that a killed harness left without run.json."""
    run = Run("stela", 4)
    folder = root / "runs" / run.run_id
    folder.mkdir()
    record = run_json(run, root.name, 6, "stela/star") | {
        "status": "invalid",
        "failure": {
            "blame": "system_under_test",
            "message": "the bridge fell back: no answer in 2 s",
            "where": "watch",
        },
    }
    (folder / "run.json").write_text(json.dumps(record))
    write_lines(folder / "events.jsonl", events(run)[:3])
    (root / "runs" / "even_rebalance-r4" / "workers").mkdir(parents=True)
