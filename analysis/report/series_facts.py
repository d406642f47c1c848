"""Facts of a series on its pages: runs that do not count, machines, environment, whether machines were the
bottleneck (most had used up their CPU quota), how long each rented machine booted, and the series' cost
beside its estimate."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any

from analysis.numerals import number
from analysis.record.event_timeline import FIRST_EVENT, REST, absent_machines, event_id_of, read_timeline
from analysis.record.files import RunPaths, SeriesPaths, read_json
from analysis.record.small_tables import Row, cluster, rows
from analysis.record.units import unit_of


def exclusions(runs: Sequence[Row]) -> list[str]:
    """Return a sentence for each run that is not counted."""
    return [
        f"{run['run_id']} ({run['status']}) is not counted{f': {failure}' if (failure := failure_text(run)) else ''}."
        for run in runs
        if run["status"] != "complete"
    ]


def failure_text(run: Row) -> str:
    blame = (run["failure_blame"] or "").replace("_", " ")
    return ": ".join(part for part in (blame, run["failure_message"]) if part)


def edge_losses(losses: Sequence[Row]) -> list[Row]:
    """Return one row a run, event, side and edge, in reading order; older analyses have no uncertainty. Rows of a part
    of a side are left out."""

    def order(row: Row) -> tuple[Any, ...]:
        edge = (row["source"], row["stream"], row["target"])
        return (row["run_id"], row.get("event_id") or "", row["phase"] != "before", *edge)

    return sorted(({"uncertainty": None} | row for row in losses if row["phase"] != REST), key=order)


def machine_facts(machines: Sequence[Row]) -> list[Row]:
    """Return the machines as the runs described them: one row a machine and description."""
    columns = ("machine", "type", "cores", "memory_mb", "bandwidth_mbit", "slots", "joins_at_scale")
    offsets: dict[tuple[Any, ...], list[float]] = {}
    for row in machines:
        values = offsets.setdefault(tuple(row[column] for column in columns), [])
        values += [] if row["clock_offset_ms"] is None else [abs(row["clock_offset_ms"])]
    descriptions = [
        dict(zip(columns, key, strict=True)) | {"clock_offset_ms": max(values, default=None)}
        for key, values in offsets.items()
    ]
    return sorted(descriptions, key=lambda row: (len(row["machine"]), row["machine"]))


def environment_facts(runs: Sequence[Row]) -> list[tuple[str, str]]:
    """Return versions, commit, seeds and facts of the hosts; several values mean that the runs differ."""
    facts: list[tuple[str, str]] = [
        ("git commit", _distinct_values(runs, commit_text)),
        ("seeds", _distinct_values(runs, lambda run: run["seed"])),
    ]
    for column in ("versions", "harness_facts"):
        dictionaries = [flatten(json.loads(run[column] or "{}")) for run in runs]
        for key in sorted({key for facts_ in dictionaries for key in facts_}):
            values = sorted({facts_[key] for facts_ in dictionaries if key in facts_})
            facts.append((key.replace("_", " "), " | ".join(values)))
    return facts


def specification_facts(runs: Sequence[Row]) -> list[tuple[str, str]]:
    """Return the resolved specification of the runs (cost models, rates, buffers, durations), flattened."""
    specs = [flatten(json.loads(run["spec"] or "{}")) for run in runs]
    keys = sorted({key for spec in specs for key in spec})
    return [(key, " | ".join(sorted({spec[key] for spec in specs if key in spec}))) for key in keys]


def commit_text(run: Row) -> str | None:
    return None if run["git_commit"] is None else run["git_commit"][:12] + (" + changes" if run["git_dirty"] else "")


def _distinct_values(runs: Sequence[Row], of: Callable[[Row], Any]) -> str:
    values = sorted({str(of(run)) for run in runs if of(run) is not None})
    return " | ".join(values) if values else "not recorded"


def flatten(value: Any, prefix: str = "") -> dict[str, str]:
    """Flatten nested JSON to dotted keys; lists of plain values stay together."""
    if isinstance(value, dict):
        pairs = [(f"{prefix}.{key}" if prefix else str(key), inner) for key, inner in value.items()]
    elif isinstance(value, list) and any(isinstance(inner, dict | list) for inner in value):
        pairs = [(f"{prefix}[{i}]", inner) for i, inner in enumerate(value)]
    elif isinstance(value, list):
        return {prefix: ", ".join(map(str, value))}
    else:
        return {prefix: "–" if value is None else str(value)}
    flat: dict[str, str] = {}
    for key, inner in pairs:
        flat |= flatten(inner, key)
    return flat


LIMIT_SHARE = 0.95  # of the quota, the mean over a part that counts; a few percent are lost between its periods


STEAL_PERCENT = 2.0


def machine_warnings(paths: SeriesPaths) -> list[str]:
    """Return warnings for the top of a page: runs with most machines at their CPU limit, or with much steal time."""
    spans, cpu = (rows(paths, name, topology=cluster(paths)) for name in ("scale_events", "cpu"))
    absences = absent_machines(spans, rows(paths, "machines"))
    return [*_limit_warnings(cpu, absences), *_steal_warnings(cpu)]


def _steal_warnings(cpu: Sequence[Row]) -> list[str]:
    """Return a sentence about the run with the most steal time, if that is much; some machines do not report it."""
    highest: dict[str, float] = {}
    for row in cpu:
        if row["steal_percent_mean"] is not None:
            highest[row["run_id"]] = max(row["steal_percent_mean"], highest.get(row["run_id"], 0.0))
    worst = max(highest, key=lambda run_id: highest[run_id], default="")
    if not worst or highest[worst] < STEAL_PERCENT:
        return []
    usual = number(median(highest.values()), 1)
    return [
        f"The hypervisor gave up to {number(highest[worst], 1)} % of a machine's CPU time to others while it was"
        f" measured (run {worst}; median over runs {usual} %): a difference between runs may be what was taken from"
        " them."
    ]


def _limit_warnings(cpu: Sequence[Row], absent: Mapping[Any, set[str]]) -> list[str]:
    before, after = (_machines_at_limit(cpu, absent, phase) for phase in ("before", "after"))
    runs = len({row["run_id"] for row in cpu})
    parts = [
        f"{phase} the first event in {len(groups)} of {runs} runs"
        for phase, groups in (("before", before), ("after", after))
        if groups
    ]
    if not parts:
        return []
    load = number(100 * median(row["utilisation_mean"] for groups in (*before, *after) for row in groups), 0)
    return [
        f"Most machines were at their CPU limit {' and '.join(parts)} ({load} % of their quota): what is measured there"
        " is also what the machines can do, not only what the components' cost and the policy allow."
    ]


def _machines_at_limit(cpu: Sequence[Row], absent: Mapping[Any, set[str]], phase: str) -> list[list[Row]]:
    """Return the machines of each run whose median machine used up its quota in that phase of the first event.

    Left out: the master, which is in no run's machines, and machines that have not joined yet or have left.
    """
    by_run: dict[str, list[Row]] = defaultdict(list)
    for row in cpu:
        is_present = row["machine"] not in absent.get((unit_of(row), row["event_id"], phase), ())
        counts = is_present and row["joins_at_scale"] is not None and row["utilisation_mean"] is not None
        if counts and row["phase"] == phase and event_id_of(row) == FIRST_EVENT:
            by_run[row["run_id"]].append(row)
    return [rows for rows in by_run.values() if median(row["utilisation_mean"] for row in rows) >= LIMIT_SHARE]


@dataclass(frozen=True)
class Boot:
    """A machine that a run started; seconds. `ssh_s` is the testbed's own measure. None: not measured."""

    run_id: str
    machine: str
    ssh_s: float | None  # from the request to its first answer over ssh
    joined_s: float | None  # from the request until it was deployed and registered with Nimbus


@dataclass(frozen=True)
class ExecutionCost:
    """An execution of a series: its estimate at the beginning and the cost of its machines. US dollars, hours."""

    begun: str
    runs: int
    expected_usd: float
    longest_usd: float
    used_usd: float
    machine_hours: float


@dataclass(frozen=True)
class SeriesCost:
    testbed: str
    budget_usd: float
    used_usd: float
    machine_hours: float
    prices_of: str
    executions: tuple[ExecutionCost, ...]
    types: tuple[dict[str, Any], ...]  # type, machines, hours, usd
    damaged_lines: int = 0


def machine_boots(runs: Sequence[RunPaths]) -> list[Boot]:
    """Return every machine that was started during a run, in the order of the runs."""
    return [boot for run in runs for boot in _boots_of_run(run)]


def _boots_of_run(run: RunPaths) -> list[Boot]:
    events = read_timeline(run).events
    requests = {name: float(event["t"]) for event in events if event["kind"] == "machines_requested"
             for name in event.get("machines") or ()}  # fmt: skip
    join_times = {name: float(event["t"]) for event in events if event["kind"] == "machines_joined"
              for name in event.get("machines") or ()}  # fmt: skip
    boot_times = {event.get("machine"): event.get("boot_s") for event in events if event["kind"] == "machine_booted"}
    return [
        Boot(run.run_id, name, boot_times.get(name), join_times[name] - request_s if name in join_times else None)
        for name, request_s in requests.items()
    ]


def series_cost(paths: SeriesPaths) -> SeriesCost | None:
    """Return the cost of the series; None if machines cost nothing or their use was not recorded."""
    file = paths.root / "money.json"
    if not file.is_file():
        return None
    document = read_json(file)
    executions = tuple(
        ExecutionCost(
            f"{datetime.fromtimestamp(float(row['opened_s']), UTC):%Y-%m-%d %H:%M} UTC",
            row["runs"], row["expected_usd"], row["longest_usd"], row["used_usd"], row["machine_hours"],
        )
        for row in document["executions"]
    )  # fmt: skip
    dates = sorted({str(row["prices_of"]) for row in document["executions"]})
    return SeriesCost(
        document["testbed"], document["budget_usd"], document["used_usd"], document["machine_hours"],
        ", ".join(dates) or "an unknown day", executions, tuple(document["types"]), document.get("damaged_lines", 0),
    )  # fmt: skip
