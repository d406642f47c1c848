"""A series of a comparison, written by hand: the tables that the statistics read, and `comparison.json`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scheduler_plugins.service.latency_buckets import bucket_of
from tests.support.series_by_hand import SCALED_OUT, write_run, write_table

LOW, HIGH = (100.0, 102.0, 99.0, 101.0), (112.0, 114.0, 111.5, 113.0)
LATENCY = "latency_all_p95_ms_after"
METRICS = ("throughput_after", LATENCY, "convergence_sp_s", "downtime_s", "memory_mb_after")
Numbers = Mapping[str, Sequence[float | None]]  # metric -> a value a block; None: not measured
FACTS = json.dumps({"cpu_model": "A", "cpus": 2})  # of the box that ran it
SPEC = json.dumps({"seed": 1})


@dataclass(frozen=True)
class Failed:
    """What became of a run that is not complete."""

    block: int
    blame: str | None = "system_under_test"
    message: str | None = "IllegalStateException: no slot for task 7"
    status: str = "failed"


@dataclass(frozen=True)
class SideOf:
    """One variant's runs; metrics in `never` are censored where the value is negative (its horizon).

    All of the 100 tuples a second take as long as `LATENCY` says, or `late_ms` from `late_from_s` after the event on.
    The last 10 s of `watched_s` are no whole window. `unsteady`: how many of the first blocks were not; None: an older
    analysis did not say.
    """

    numbers: Numbers
    failed: Sequence[Failed] = ()
    blocks: int = 0
    cores: float = 0.25
    never: Sequence[str] = field(default_factory=tuple)
    watched_s: int = 60
    late_from_s: int = 10**6
    late_ms: float = 0.0
    untimed: Mapping[str, float] = field(
        default_factory=dict
    )  # lost, missed, never_emitted, waiting, unseen: share of all
    unsteady: int | None = None
    clock_error_ms: float | None = 0.0  # by how much latencies may be wrong; None: nobody measured it


def write(
    root: Path, pairs: Mapping[str, tuple[SideOf, SideOf]], events: Sequence[str] = ("scale_out",), **asked: Any
) -> Path:
    """Variants are `<pair>_a` and `<pair>_b`; every metric is of the first event."""
    sides = {f"{name}_{letter}": side for name, both in pairs.items() for letter, side in zip("ab", both, strict=True)}
    write_table(root, "runs", [run for name, side in sides.items() for run in _runs(root, name, side)])
    write_table(root, "measurements", [row for name, side in sides.items() for row in _measurements(name, side)])
    for table, of_side in LATENCY_TABLES.items():
        write_table(root, table, [row for name, side in sides.items() for row in of_side(name, side)])
    write_table(root, "scale_events", [
        {"run_id": f"{name}-r{block}", "event_id": f"e{n}", "kind": kind, "zero_s": 100.0 * n, "joined": ["m3"],
         "released": []}
        for name, side in sides.items() for block in range(1, _count(side) + 1)
        for n, kind in enumerate(events, start=1)
    ])  # fmt: skip
    write_table(root, "zeros", [
        {"run_id": f"{name}-r{block}", "zero_s": 100.0}
        for name, side in sides.items() for block in range(1, _count(side) + 1)
    ])  # fmt: skip
    write_table(root, "machines", [
        {"run_id": f"{name}-r1", "machine": "m1", "type": "type_1", "cores": side.cores, "memory_mb": 512.0,
         "bandwidth_mbit": 100.0, "slots": 4, "joins_at_scale": False, "clock_offset_ms": 0.02}
        for name, side in sides.items()
    ])  # fmt: skip
    for name, side in sides.items():
        for block in range(1, _count(side) + 1):
            folder = root / "runs" / f"{name}-r{block}"
            folder.mkdir(parents=True)
            (folder / "run.json").write_text(json.dumps(clock_facts(side.clock_error_ms)))
    spec = {"testbed": {"name": "local", "machine_type": "type_1", "scale": 0.25, "bandwidth_mbit": 100.0}}
    (root / "series.json").write_text(json.dumps({"v": 1, "spec": spec}))
    (root / "comparison.json").write_text(json.dumps(question(list(pairs)) | asked))
    return root


def clock_facts(error_ms: float | None) -> dict[str, Any]:
    """Of two machines, whose clocks did not move."""
    if error_ms is None:
        return {}
    still = {"m1": 0.0, "m2": 0.0}
    return {"machines": still, "clock_offset_ms": still, "clock_end_offset_ms": still,
            "clock_offset_error_ms": {"m1": error_ms, "m2": 0.0}}  # fmt: skip


def question(pairs: Sequence[str]) -> dict[str, Any]:
    return {
        "v": 1, "sides": {"a": {"label": "main", "commit": "a" * 40}, "b": {"label": "my-branch", "commit": "b" * 40}},
        "pairs": [{"name": name, "a": f"{name}_a", "b": f"{name}_b"} for name in pairs],
        "level": 0.05, "goal_percent": 5.0, "until_certain": False, "budget": {"blocks": 20, "seconds": None},
        "bisecting": None,
    }  # fmt: skip


def same_code() -> dict[str, Any]:
    side = {"label": "main", "commit": "a" * 40}
    return {"a": {**side, "label": "main (A)"}, "b": {**side, "label": "main (B)"}}


def _count(side: SideOf) -> int:
    return side.blocks or max((len(values) for values in side.numbers.values()), default=0)


def _runs(root: Path, name: str, side: SideOf) -> list[dict[str, Any]]:
    failed = {run.block: run for run in side.failed}
    return [
        {"run_id": f"{name}-r{block}", "variant": name, "block": block, "repetition": block, "order": block,
         "status": failed[block].status if block in failed else "complete", "experiment": "compare/stela_star",
         "failure_blame": failed[block].blame if block in failed else None, "series_id": root.name,
         "failure_message": failed[block].message if block in failed else None, "started_s": 1.0 * block,
         "harness_facts": FACTS, "git_commit": "c" * 40, "git_dirty": False,
         "versions": '{"storm": "2.8.3"}', "spec": SPEC, "seed": 1}
        for block in range(1, _count(side) + 1)
    ]  # fmt: skip


def _measurements(name: str, side: SideOf) -> list[dict[str, Any]]:
    return [
        {"run_id": f"{name}-r{block}", "event_id": "e1", "metric": metric, "value": abs(value),
         "censored": metric in side.never and value < 0,
         "steady": None if side.unsteady is None else block > side.unsteady}
        for metric, values in side.numbers.items() for block, value in enumerate(values, start=1) if value is not None
    ]  # fmt: skip


def _timed_runs(name: str, side: SideOf) -> list[tuple[str, float]]:
    """Runs with a latency, and what it is."""
    values = enumerate(side.numbers.get(LATENCY, ()), start=1)
    return [(f"{name}-r{block}", value) for block, value in values if value is not None]


def _windows(side: SideOf) -> range:
    return range(-20, side.watched_s, 10)


def _latency(name: str, side: SideOf) -> list[dict[str, Any]]:
    return [
        {"run_id": run_id, "event_id": "e1", "window_s": float(start), "n": 1000, "corrected": 1000, "p95_ms": value,
         "mean_ms": side.late_ms if start >= side.late_from_s else value,
         "buckets": [bucket_of(round(1000 * (side.late_ms if start >= side.late_from_s else value)))],
         "counts": [1000]}
        for run_id, value in _timed_runs(name, side) for start in _windows(side)
    ]  # fmt: skip


def _service(name: str, side: SideOf) -> list[dict[str, Any]]:
    """Of a level of 60 ms that is worth 35."""
    return [
        {"run_id": row["run_id"], "window_s": row["window_s"], "utility": 35.0 * min(1.0, 60.0 / row["mean_ms"]),
         "reported": True}
        for row in _latency(name, side) if row["window_s"] < side.watched_s - 10
    ]  # fmt: skip


def _throughput(name: str, side: SideOf) -> list[dict[str, Any]]:
    rates = dict.fromkeys((("total", ""), ("sink", "sink"), ("due", "")), 100.0)
    rates["spouts", ""] = 100.0 * (1 - side.untimed.get("never_emitted", 0.0))
    return [
        {"run_id": run_id, "event_id": "e1", "window_s": float(start), "scope": scope, "component": component,
         "rate": rate, "complete": start < side.watched_s - 10}
        for run_id, _ in _timed_runs(name, side) for start in range(-20, side.watched_s + 10, 10)
        for (scope, component), rate in rates.items()
    ]  # fmt: skip


def _activity(name: str, side: SideOf) -> list[dict[str, Any]]:
    """Queues that grow from the event on."""
    waiting, behind = (1000 * side.untimed.get(name, 0.0) for name in ("waiting", "never_emitted"))
    return [
        {"run_id": run_id, "event_id": "e1", "window_s": float(start), "component": component, "emitted": emitted,
         "queue": max(0.0, growth * (1 + start / 10))}
        for run_id, _ in _timed_runs(name, side) for start in _windows(side)
        for component, emitted, growth in (("centre", None, waiting), ("spout", 1000, behind))
    ]  # fmt: skip


def _losses(name: str, side: SideOf) -> list[dict[str, Any]]:
    sent = 100.0 * (side.watched_s - 10)
    lost, unseen = (sent * side.untimed.get(name, 0.0) for name in ("lost", "unseen"))
    return [
        {"run_id": run_id, "event_id": "e1", "phase": phase, "lost": amount, "source": "spout", "stream": "default",
         "target": "sink", "sent": sent, "executed": sent - amount, "difference": 0.0, "uncertainty": unseen}
        for run_id, _ in _timed_runs(name, side) for phase, amount in (("before", 1e6), ("after", lost))
    ]  # fmt: skip


def _emissions(name: str, side: SideOf) -> list[dict[str, Any]]:
    missed = 100.0 * (side.watched_s - 10) * side.untimed.get("missed", 0.0)
    return [
        {"run_id": run_id, "event_id": "e1", "phase": phase, "component": "spout", "missed": amount}
        for run_id, _ in _timed_runs(name, side) for phase, amount in (("before", 10**6), ("after", round(missed)))
    ]  # fmt: skip


LATENCY_TABLES = {
    "latency": _latency, "event_throughput": _throughput, "activity": _activity, "losses": _losses,
    "emissions": _emissions, "service": _service,
}  # fmt: skip


def one_pair(root: Path, **asked: object) -> Path:
    """With a run of B that failed, times that were never reached, a metric that is 0 at A, and all runs' events."""
    never = ["convergence_sp_s"]
    a = {**dict.fromkeys(METRICS, LOW), "convergence_sp_s": (-120.0,) * 4, "downtime_s": (0.0,) * 4}
    b = {**dict.fromkeys(METRICS, HIGH), "convergence_sp_s": (60.0,) * 4, "downtime_s": (1.0, 3.0, 2.0, 2.0)}
    failed = [Failed(2, message="IllegalStateException: <no slot> for task 7\nat a.b.C")]
    write(root, {"stela": (SideOf(a, never=never), SideOf(b, failed, never=never))}, **asked)
    names = [f"stela_{letter}-r{n}" for letter in "ab" for n in range(1, 5)]
    for run_id in names:
        write_run(root, run_id, [(0, SCALED_OUT)])
    write_table(root, "zeros", [{"run_id": run_id, "scaled": True} for run_id in names])
    write_table(root, "throughput", [
        {"run_id": run_id, "window_s": float(start), "scope": scope, "component": "", "complete": True, "rate": 100.0}
        for run_id in names for scope in ("total", "due") for start in range(-30, 60, 10)
    ])  # fmt: skip
    return root
