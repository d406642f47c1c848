"""The tables of a series that come from its runs' run.json: a few rows a run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.errors import RecordError
from analysis.record import small_tables
from analysis.record.files import STATUSES, RunPaths, SeriesPaths, read_json
from barograph.plan.experiment import WHOLE_CLUSTER


def write(paths: SeriesPaths, runs: Sequence[RunPaths]) -> None:
    """Write these tables. A run without a readable record is kept as incomplete, with the reason."""
    records = [(run.run_id, load_run(run)) for run in runs]
    small_tables.write(paths, "runs", [run_row(run_id, record) for run_id, record in records])
    small_tables.write(paths, "topologies", [row for r, record in records for row in topology_rows(r, record)])
    small_tables.write(paths, "components", [row for r, record in records for row in component_rows(r, record)])
    small_tables.write(paths, "edges", [
        {"run_id": r, "topology": _name(topology), **edge}
        for r, record in records for topology in topologies_of(record) for edge in topology.get("edges") or ()
    ])  # fmt: skip
    small_tables.write(paths, "phases", [row for r, record in records for row in phase_rows(r, record)])
    small_tables.write(paths, "machines", [row for r, record in records for row in machine_rows(r, record)])


def load_run(run: RunPaths) -> dict[str, Any]:
    """Return run.json, or a stand-in with the reason why there is none."""
    try:
        if not run.run_json.exists():
            raise RecordError("no run.json: the run was cut short before its record was written")
        record = read_json(run.run_json)
        if record.get("status") not in STATUSES:
            raise RecordError(f"{run.run_json}: status is {record.get('status')!r}, allowed are {', '.join(STATUSES)}")
        _check_topologies(record, run.run_json)
        return record
    except RecordError as error:
        failure = {"blame": "harness", "message": str(error), "where": "run.json"}
        return {"status": "incomplete", "failure": failure}


def _check_topologies(record: Mapping[str, Any], path: Path) -> None:
    """Raise RecordError if metrics of several topologies could not be separated."""
    entries = record.get("topologies")
    if entries is None:
        return
    names = [each.get("name") if isinstance(each, Mapping) else None for each in entries or ()]
    for number, name in enumerate(names, start=1):
        if not isinstance(name, str) or not name or name == WHOLE_CLUSTER or "/" in name or names.count(name) > 1:
            raise RecordError(
                f"{path}: topologies[{number - 1}].name is {name!r}; allowed: a name of its own, without "
                f"'/', that is not {WHOLE_CLUSTER!r}, which is the cluster"
            )


def topologies_of(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return topologies in the order of the plan; none if no record was collected."""
    topologies: list[Mapping[str, Any]] = record.get("topologies") or []
    return topologies or [topology for topology in [record.get("topology")] if topology]


def _name(topology: Mapping[str, Any]) -> str:
    return topology.get("name") or ""


def topology_rows(run_id: str, record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row a topology, with its service level."""
    rows = []
    for position, topology in enumerate(topologies_of(record), start=1):
        level = topology.get("service_level") or {}
        levels = {name: _number(level.get(name)) for name in ("latency_ms", "juice", "max_utility")}
        rows.append({
            "run_id": run_id, "topology": _name(topology), "topology_id": topology.get("id"), "position": position,
            "workers": topology.get("workers"), **levels,
        })  # fmt: skip
    return rows


def run_row(run_id: str, record: Mapping[str, Any]) -> dict[str, Any]:
    variant, topology = record.get("variant") or {}, record.get("topology") or {}
    failure = record.get("failure") or {}
    row = {name: record.get(name) for name in (
        "series_id", "experiment", "block", "repetition", "order", "seed", "status", "git_commit", "git_dirty",
        "measurement",
    )}  # fmt: skip
    row |= {name: _number(record.get(name)) for name in ("started_s", "ended_s", "date_s")}
    row |= {f"failure_{name}": failure.get(name) for name in ("blame", "message", "where")}
    row |= {name: json.dumps(record.get(name) or {}, sort_keys=True) for name in ("versions", "harness_facts", "spec")}
    return row | {
        "run_id": run_id,
        "variant": variant.get("name"),
        "policy": variant.get("policy"),
        "parameters": json.dumps(variant.get("parameters") or {}, sort_keys=True),
        "topology_changes": json.dumps(variant.get("topology") or {}, sort_keys=True),
        "topology": topology.get("name"),
        "topology_id": topology.get("id"),
        "workers": topology.get("workers"),
    }


def failed_attempts(paths: SeriesPaths) -> list[dict[str, Any]]:
    """Return the rows of attempts that the system under test failed before their runs were repeated: results, too."""
    files = sorted((paths.root / "attempts").glob("*/run.json"))
    attempts = (run_row(file.parent.name.rpartition(".attempt-")[0], load_run(RunPaths(file.parent))) for file in files)
    return [row | {"repeated": True} for row in attempts if row["failure_blame"] == "system_under_test"]


def component_rows(run_id: str, record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row a task, so that tasks are joined to components without another explode."""
    return [
        {
            "run_id": run_id,
            "topology": _name(topology),
            "component": component["name"],
            "kind": component["kind"],
            "sink": bool(component.get("sink", False)),
            "executors": component["executors"],
            "task": task,
        }
        for topology in topologies_of(record)
        for component in topology.get("components") or ()
        for task in component["tasks"]
    ]


def phase_rows(run_id: str, record: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"run_id": run_id, "phase": phase.get("name")}
        | {name: _number(phase.get(name)) for name in ("start_s", "end_s", "planned_s")}
        for phase in record.get("phases") or []
    ]


def machine_rows(run_id: str, record: Mapping[str, Any]) -> list[dict[str, Any]]:
    offsets, end_offsets = (record.get(name) or {} for name in ("clock_offset_ms", "clock_end_offset_ms"))
    return [
        {
            "run_id": run_id,
            "machine": name,
            "type": facts.get("type"),
            "slots": facts.get("slots"),
            "joins_at_scale": bool(facts.get("joins_at_scale", False)),
            "clock_offset_ms": _number(offsets.get(name)),
            "clock_end_offset_ms": _number(end_offsets.get(name)),
        }
        | {field: _number(facts.get(field)) for field in ("cores", "memory_mb", "bandwidth_mbit")}
        for name, facts in (record.get("machines") or {}).items()
    ]


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
