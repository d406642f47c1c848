"""Facts of a series on its pages: runs that do not count, machines, environment, whether machines were the
bottleneck (most had used up their CPU quota), how long each rented machine booted, and the series' cost
beside its estimate."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from analysis.numerals import number
from analysis.record.event_timeline import FIRST_EVENT, REST, absent_machines, read_timeline
from analysis.record.files import RunPaths, SeriesPaths
from analysis.record.small_tables import Row, by_run, cluster, rows, unit_of

LIMIT_SHARE = 0.95  # of the quota, the mean over a part that counts; a few percent are lost between its periods
STEAL_PERCENT = 2.0


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

    def distinct_values(of: Callable[[Row], Any]) -> str:
        return " | ".join(sorted({str(of(run)) for run in runs if of(run) is not None})) or "not recorded"

    facts = [("git commit", distinct_values(commit_text)), ("seeds", distinct_values(lambda run: run["seed"]))]
    for column in ("versions", "harness_facts"):
        facts += [(key.replace("_", " "), values) for key, values in _flat_facts(runs, column)]
    return facts


def specification_facts(runs: Sequence[Row]) -> list[tuple[str, str]]:
    """Return the resolved specification of the runs (cost models, rates, buffers, durations), flattened."""
    return _flat_facts(runs, "spec")


def _flat_facts(runs: Sequence[Row], column: str) -> list[tuple[str, str]]:
    documents = [flatten(json.loads(run[column] or "{}")) for run in runs]
    keys = sorted({key for document in documents for key in document})
    return [(key, " | ".join(sorted({each[key] for each in documents if key in each}))) for key in keys]


def commit_text(run: Row) -> str | None:
    return None if run["git_commit"] is None else run["git_commit"][:12] + (" + changes" if run["git_dirty"] else "")


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


def machine_warnings(paths: SeriesPaths) -> list[str]:
    """Return warnings for the top of a page: runs with most machines at their CPU limit, or with much steal time."""
    spans, cpu = (rows(paths, name, topology=cluster(paths)) for name in ("scale_events", "cpu"))
    absent = absent_machines(spans, rows(paths, "machines"))
    warnings = []
    groups = {phase: _machines_at_limit(cpu, absent, phase) for phase in ("before", "after")}
    runs = len({row["run_id"] for row in cpu})
    parts = [f"{phase} the first event in {len(limits)} of {runs} runs" for phase, limits in groups.items() if limits]
    if parts:
        shares = [row["utilisation_mean"] for limits in groups.values() for limit in limits for row in limit]
        warnings.append(
            f"Most machines were at their CPU limit {' and '.join(parts)} ({number(100 * median(shares), 0)} % of their"
            " quota): what is measured there is also what the machines can do, not only what the components' cost and"
            " the policy allow."
        )
    highest: dict[str, float] = {}  # some machines do not report steal time
    for row in cpu:
        if row["steal_percent_mean"] is not None:
            highest[row["run_id"]] = max(row["steal_percent_mean"], highest.get(row["run_id"], 0.0))
    worst = max(highest, key=highest.__getitem__, default="")
    if worst and highest[worst] >= STEAL_PERCENT:
        usual = number(median(highest.values()), 1)
        warnings.append(
            f"The hypervisor gave up to {number(highest[worst], 1)} % of a machine's CPU time to others while it was"
            f" measured (run {worst}; median over runs {usual} %): a difference between runs may be what was taken from"
            " them."
        )
    return warnings


def _machines_at_limit(cpu: Sequence[Row], absent: Mapping[Any, set[str]], phase: str) -> list[list[Row]]:
    """Return the machines of each run whose median machine used up its quota in that phase of the first event.

    Left out: the master, which is in no run's machines, and machines that have not joined yet or have left.
    """
    present = (
        row for row in cpu
        if row["machine"] not in absent.get((unit_of(row), row["event_id"], phase), ())
        and row["joins_at_scale"] is not None and row["utilisation_mean"] is not None
        and row["phase"] == phase and row["event_id"] == FIRST_EVENT
    )  # fmt: skip
    groups = by_run(present).values()
    return [group for group in groups if median(row["utilisation_mean"] for row in group) >= LIMIT_SHARE]


def machine_boots(runs: Sequence[RunPaths]) -> list[Row]:
    """Return every machine that was started during a run, in the order of the runs, with the seconds from its request
    to its first answer over ssh (the testbed's own measure) and until it was registered with Nimbus. None: not
    measured."""
    boots = []
    for run in runs:
        events = read_timeline(run).events
        requests, join_times = (
            {name: float(each["t"]) for each in events if each["kind"] == kind for name in each.get("machines") or ()}
            for kind in ("machines_requested", "machines_joined")
        )
        boot_times = {each.get("machine"): each.get("boot_s") for each in events if each["kind"] == "machine_booted"}
        for name, request_s in requests.items():
            joined_s = join_times[name] - request_s if name in join_times else None
            boots.append({"run_id": run.run_id, "machine": name, "ssh_s": boot_times.get(name), "joined_s": joined_s})
    return boots
