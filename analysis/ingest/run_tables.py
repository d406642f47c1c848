"""The tables of a series that come from its runs' run.json: a few rows a run."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analysis.errors import RecordError
from analysis.record import small_tables
from analysis.record.files import STATUSES, RunPaths, SeriesPaths, read_json
from analysis.record.small_tables import Row
from barograph.plan.experiment import WHOLE_CLUSTER
from scheduler_plugins.model import SINKS, SPOUTS

Record = Mapping[str, Any]


def write(paths: SeriesPaths, runs: Sequence[RunPaths]) -> None:
    """Write these tables. A run without a readable record is kept as incomplete, with the reason."""
    records = [(run.run_id, load_run(run)) for run in runs]
    small_tables.write(paths, "runs", [run_row(run_id, record) for run_id, record in records])
    for name, rows_of in (("topologies", topology_rows), ("components", component_rows), ("edges", edge_rows),
                          ("phases", phase_rows), ("machines", machine_rows)):  # fmt: skip
        small_tables.write(paths, name, [{"run_id": run_id, **row} for run_id, r in records for row in rows_of(r)])


def load_run(run: RunPaths) -> Row:
    """Return run.json, or a stand-in with the reason why there is none."""
    try:
        if not run.run_json.exists():
            raise RecordError("no run.json: the run was cut short before its record was written")
        record = read_json(run.run_json)
        if record.get("status") not in STATUSES:
            raise RecordError(f"{run.run_json}: status is {record.get('status')!r}, allowed are {', '.join(STATUSES)}")
        names = [each.get("name") if isinstance(each, Mapping) else None for each in record.get("topologies") or ()]
        for place, name in enumerate(names):  # or metrics of several topologies could not be separated
            if not isinstance(name, str) or not name or name == WHOLE_CLUSTER or "/" in name or names.count(name) > 1:
                raise RecordError(
                    f"{run.run_json}: topologies[{place}].name is {name!r}; allowed: a name of its own, without "
                    f"'/', that is not {WHOLE_CLUSTER!r}, which is the cluster"
                )
        return record
    except RecordError as error:
        failure = {"blame": "harness", "message": str(error), "where": "run.json"}
        return {"status": "incomplete", "failure": failure}


def topologies_of(record: Record) -> list[Record]:
    """Return topologies in the order of the plan; none if no record was collected."""
    topologies: list[Record] = record.get("topologies") or []
    return topologies or [topology for topology in [record.get("topology")] if topology]


def _name(topology: Record) -> str:
    return topology.get("name") or ""


def topology_rows(record: Record) -> Iterator[Row]:
    """Yield a row a topology, with where its throughput is measured, and its service level."""
    for position, topology in enumerate(topologies_of(record), start=1):
        level = topology.get("service_level") or {}
        yield {
            "topology": _name(topology), "topology_id": topology.get("id"), "position": position,
            "workers": topology.get("workers"), "throughput": topology.get("throughput") or SINKS,
            **_numbers(level, "latency_ms", "juice", "max_utility"),
        }  # fmt: skip


def run_row(run_id: str, record: Record) -> Row:
    variant, topology = record.get("variant") or {}, record.get("topology") or {}
    failure = record.get("failure") or {}
    row = {name: record.get(name) for name in (
        "series_id", "experiment", "block", "repetition", "order", "seed", "status", "git_commit", "git_dirty",
        "measurement",
    )}  # fmt: skip
    row |= _numbers(record, "started_s", "ended_s", "date_s")
    row |= {f"failure_{name}": failure.get(name) for name in ("blame", "message", "where")}
    row |= {name: json.dumps(record.get(name) or {}, sort_keys=True) for name in ("versions", "harness_facts", "spec")}
    return row | {
        "run_id": run_id,
        "variant": variant.get("name"),
        "policy": variant.get("policy"),
        "parameters": json.dumps(variant.get("parameters") or {}, sort_keys=True),
        "topology_changes": json.dumps(variant.get("topologies") or variant.get("topology") or {}, sort_keys=True),
        "topology": topology.get("name"),
        "topology_id": topology.get("id"),
        "workers": topology.get("workers"),
    }


def failed_attempts(paths: SeriesPaths) -> list[Row]:
    """Return the rows of attempts that the system under test failed before their runs were repeated: results, too."""
    files = sorted((paths.root / "attempts").glob("*/run.json"))
    attempts = (run_row(file.parent.name.rpartition(".attempt-")[0], load_run(RunPaths(file.parent))) for file in files)
    return [row | {"repeated": True} for row in attempts if row["failure_blame"] == "system_under_test"]


def component_rows(record: Record) -> Iterator[Row]:
    """Yield a row a task, so that tasks are joined to components without another explode."""
    for topology in topologies_of(record):
        place = topology.get("throughput") or SINKS
        for component in topology.get("components") or ():
            name, is_sink, is_spout = component["name"], bool(component.get("sink")), component["kind"] == "spout"
            is_measured = {SINKS: is_sink and not is_spout, SPOUTS: is_spout}.get(place, name == place)
            for task in component["tasks"]:
                yield {
                    "topology": _name(topology), "component": name, "kind": component["kind"], "sink": is_sink,
                    "throughput": is_measured, "executors": component["executors"], "task": task,
                }  # fmt: skip


def edge_rows(record: Record) -> Iterator[Row]:
    for topology in topologies_of(record):
        for edge in topology.get("edges") or ():
            yield {"topology": _name(topology), **edge}


def phase_rows(record: Record) -> Iterator[Row]:
    for phase in record.get("phases") or ():
        yield {"phase": phase.get("name"), **_numbers(phase, "start_s", "end_s", "planned_s")}


def machine_rows(record: Record) -> Iterator[Row]:
    offsets = {name: record.get(name) or {} for name in ("clock_offset_ms", "clock_end_offset_ms")}
    for name, facts in (record.get("machines") or {}).items():
        yield {
            "machine": name, "type": facts.get("type"), "slots": facts.get("slots"),
            "joins_at_scale": bool(facts.get("joins_at_scale", False)), "group": facts.get("group"),
            **_numbers(facts, "cores", "memory_mb", "bandwidth_mbit"),
            **_numbers({when: of_machines.get(name) for when, of_machines in offsets.items()}, *offsets),
        }  # fmt: skip


def _numbers(facts: Record, *names: str) -> Row:
    return {name: None if facts.get(name) is None else float(facts[name]) for name in names}
