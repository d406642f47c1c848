"""The tables of a report, as text ready to show: runs, what happened, steady parts, machines, environment."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from analysis.event_ids import FIRST_EVENT, WHOLE_RUN, event_of, place
from analysis.figures import style
from analysis.happened import Happening
from analysis.numerals import number
from analysis.small_tables import Row

Measured = Mapping[tuple[str, str], Mapping[str, tuple[float, bool]]]

# The tables of runs: title -> metric -> (heading, digits).
RUN_TABLES = {
    "Throughput and convergence": {
        "throughput_before": ("before (tuples/s)", 1),
        "throughput_after": ("after (tuples/s)", 1),
        "gain_percent": ("gain (%)", 1),
        "due_after": ("offered after (tuples/s)", 1),
        "spouts_after": ("emitted after (tuples/s)", 1),
        "convergence_sp_s": ("conv. SP (s)", 0),
        "convergence_st_s": ("conv. ST (s)", 0),
        "convergence_script_s": ("conv. script (s)", 0),
    },
    "Interruption, placement and load": {
        "downtime_s": ("downtime (s)", 0),
        "lost_after": ("tuples lost", 0),
        "executors_moved": ("executors moved", 0),
        "workers_restarted": ("workers restarted", 0),
        "unaffected_workers_restarted": ("of them unaffected", 0),
        "latency_p50_ms_before": ("p50 latency before (ms)", 1),
        "latency_p50_ms_after": ("p50 latency after (ms)", 1),
        "cpu_percent_after": ("CPU after (%)", 1),
    },
    "How long it took": {
        "submit_to_loaded_s": ("submit to all loaded (s)", 1),
        "request_to_running_s": ("request to last executor running (s)", 1),
        "rebalance_s": ("of it Storm's rebalance (s)", 1),
    },
}


def measured_by_event(measurements: Sequence[Row]) -> dict[tuple[str, str], dict[str, tuple[float, bool]]]:
    """(run, event) -> metric -> (value, censored); what concerns the whole run stands with its first event."""
    measured: dict[tuple[str, str], dict[str, tuple[float, bool]]] = {}
    for row in measurements:
        event = event_of(row)
        key = (row["run_id"], FIRST_EVENT if event == WHOLE_RUN else event)
        measured.setdefault(key, {})[row["metric"]] = (row["value"], row["censored"])
    return measured


def not_counted(runs: Sequence[Row]) -> list[str]:
    """A sentence for each run that is no part of the numbers."""
    return [
        f"{run['run_id']} ({run['status']}) is not counted{f': {why}' if (why := _why(run)) else ''}."
        for run in runs
        if run["status"] != "complete"
    ]


def _why(run: Row) -> str:
    blame = (run["failure_blame"] or "").replace("_", " ")
    return ": ".join(part for part in (blame, run["failure_message"]) if part)


def run_rows(runs: Sequence[Row], measured: Measured) -> list[Row]:
    """A row a run and event: its name, status and, where it does not count, why."""
    shown = []
    for run in runs:
        mine = [event for run_id, event in measured if run_id == run["run_id"]]
        for event in sorted(mine, key=place) or [FIRST_EVENT]:
            shown.append({
                "run_id": run["run_id"], "event_id": event, "variant": style.named(run["variant"] or "?"),
                "status": run["status"], "counts": run["status"] == "complete", "why": _why(run),
            })  # fmt: skip
    return shown


def run_table(
    title: str, columns: Mapping[str, tuple[str, int]], shown: Sequence[Row], measured: Measured
) -> tuple[str, list[str], list[list[str]]]:
    """Title, headings and a row of text a row of `shown`, without empty columns; a censored time is a lower bound."""
    found = [measured.get((row["run_id"], row["event_id"]), {}) for row in shown]
    present = {metric: column for metric, column in columns.items() if any(metric in values for values in found)}
    cells = [[cell(values.get(metric), digits) for metric, (_, digits) in present.items()] for values in found]
    return title, [heading for heading, _ in present.values()], cells


def cell(value: tuple[float, bool] | None, digits: int) -> str:
    if value is None:
        return "–"
    return f"{'> ' if value[1] else ''}{number(value[0], digits)}"


def happening_row(run_id: str, happening: Happening) -> Row:
    """One event of one run in words."""
    return {
        "run_id": run_id,
        "event_id": happening.event_id,
        "asked": happening.asked,
        "decision": happening.reason or ("" if happening.kind in ("rate", "crash") else "none"),
        "decided": _seconds(happening.decided_s),
        "applied": _seconds(happening.applied_s),
        "remarks": remarks(happening),
    }


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def remarks(happening: Happening) -> list[str]:
    """What a reader must not overlook: no data, attempts given up, machines that left."""
    said = []
    if happening.held_rounds:
        rounds = f"{happening.held_rounds} round{'s' if happening.held_rounds > 1 else ''}"
        outcome = "before it was decided" if happening.decided_s is not None else "and it was never decided"
        said.append(f"no decision for lack of data in {rounds} {outcome} ({happening.held})")
    for attempt, reason in enumerate(happening.aborted, start=1):
        last = attempt == len(happening.aborted) and happening.applied_s is None
        said.append(f"attempt {attempt} was aborted ({reason}) and {'not applied again' if last else 'repeated'}")
    if happening.released:
        where = "given back to the testbed" if happening.given_back else "kept idle, for later runs need them"
        said.append(f"{', '.join(happening.released)} left; {where}")
    return said


def warnings(found: Sequence[tuple[str, Happening]]) -> list[str]:
    """Sentences for the top of the report: events that did not simply go well."""
    return [
        f"{run_id}, {happening.asked}: {remark}."
        for run_id, happening in found
        for remark in remarks(happening)
        if " left; " not in remark
    ]


def steady_rows(intervals: Sequence[Row]) -> list[Row]:
    """The parts that count, before above after."""
    return [
        row
        | {
            "event_id": event_of(row),
            "used": f"{row['start_s']:.0f} to {row['end_s']:.0f} s".replace("-", "−"),
            "live": "–" if row["live_steady"] is None else "steady" if row["live_steady"] else "not steady",
        }
        for row in sorted(
            intervals, key=lambda row: (row["run_id"], row.get("event_id") or "", row["phase"] != "before")
        )
    ]


def edge_losses(losses: Sequence[Row]) -> list[Row]:
    """One row a run, event, side and edge, in reading order."""

    def order(row: Row) -> tuple[Any, ...]:
        edge = (row["source"], row["stream"], row["target"])
        return (row["run_id"], row.get("event_id") or "", row["phase"] != "before", *edge)

    return sorted(losses, key=order)


def machine_facts(machines: Sequence[Row]) -> list[Row]:
    """Machines as they were described by the runs: one row a machine and description."""
    columns = ("machine", "type", "cores", "memory_mb", "bandwidth_mbit", "slots", "joins_at_scale")
    offsets: dict[tuple[Any, ...], list[float]] = {}
    for row in machines:
        seen = offsets.setdefault(tuple(row[column] for column in columns), [])
        seen += [] if row["clock_offset_ms"] is None else [abs(row["clock_offset_ms"])]
    described = [
        dict(zip(columns, key, strict=True)) | {"clock_offset_ms": max(seen, default=None)}
        for key, seen in offsets.items()
    ]
    return sorted(described, key=lambda row: (len(row["machine"]), row["machine"]))


def fingerprint(runs: Sequence[Row]) -> list[tuple[str, str]]:
    """Versions, commit, seeds and facts of the box; more than one value means that the runs differ in it."""
    facts: list[tuple[str, str]] = [
        ("git commit", _values(runs, _commit)),
        ("seeds", _values(runs, lambda run: run["seed"])),
    ]
    for column in ("versions", "harness_facts"):
        dictionaries = [flat(json.loads(run[column] or "{}")) for run in runs]
        for key in sorted({key for facts_ in dictionaries for key in facts_}):
            seen = sorted({facts_[key] for facts_ in dictionaries if key in facts_})
            facts.append((key.replace("_", " "), " | ".join(seen)))
    return facts


def assumptions(runs: Sequence[Row]) -> list[tuple[str, str]]:
    """The resolved specification of the runs (cost models, rates, buffers, durations), flattened."""
    specs = [flat(json.loads(run["spec"] or "{}")) for run in runs]
    keys = sorted({key for spec in specs for key in spec})
    return [(key, " | ".join(sorted({spec[key] for spec in specs if key in spec}))) for key in keys]


def _commit(run: Row) -> str | None:
    return None if run["git_commit"] is None else run["git_commit"][:12] + (" + changes" if run["git_dirty"] else "")


def _values(runs: Sequence[Row], of: Callable[[Row], Any]) -> str:
    seen = sorted({str(of(run)) for run in runs if of(run) is not None})
    return " | ".join(seen) if seen else "not recorded"


def flat(value: Any, prefix: str = "") -> dict[str, str]:
    """Nested JSON as dotted keys; lists of plain values stay together."""
    if isinstance(value, dict):
        pairs = [(f"{prefix}.{key}" if prefix else str(key), inner) for key, inner in value.items()]
    elif isinstance(value, list) and any(isinstance(inner, dict | list) for inner in value):
        pairs = [(f"{prefix}[{i}]", inner) for i, inner in enumerate(value)]
    elif isinstance(value, list):
        return {prefix: ", ".join(map(str, value))}
    else:
        return {prefix: "–" if value is None else str(value)}
    found: dict[str, str] = {}
    for key, inner in pairs:
        found |= flat(inner, key)
    return found
