"""The tables of a report: as text ready to show, and as data for its downloads (numbers as measured, not as printed).

Runs, events, steady parts, losses, machines, environment; whether the machines were the bottleneck (most of them had
used up their CPU quota); how long each rented machine booted, and what a series cost beside its estimate.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any, NamedTuple

from analysis.metrics.definitions import RUN_TABLES, Metric, metric
from analysis.metrics.scale_decisions import AblationRow
from analysis.numerals import number
from analysis.record.event_timeline import (
    FIRST_EVENT,
    REST,
    WHOLE_RUN,
    EventOutcome,
    absent_machines,
    event_id_of,
    event_order,
    read_timeline,
)
from analysis.record.files import RunPaths, SeriesPaths, read_json
from analysis.record.small_tables import Row, cluster, rows
from analysis.report.figures import style
from analysis.report.figures.decision_graph import DecisionRow
from analysis.report.markup import bold, code
from analysis.report.table import Heading, ResultTable

UNSTEADY = "†"  # after a value of which a side that it rests on was not steady


class Measured(NamedTuple):
    value: float
    censored: bool = False
    steady: bool | None = None  # None: it rests on no steady part, or nobody tested it


Measurements = Mapping[tuple[str, str], Mapping[str, Measured]]


def measurements_by_event(measurements: Sequence[Row]) -> dict[tuple[str, str], dict[str, Measured]]:
    """(run, event) -> metric -> what was measured; what concerns the whole run stands with its first event."""
    values: dict[tuple[str, str], dict[str, Measured]] = {}
    first: dict[str, str] = {}  # not e1 of a topology that arrives later
    for row in measurements:
        if (event := event_id_of(row)) != WHOLE_RUN:
            first[row["run_id"]] = min(event, first.get(row["run_id"], event), key=event_order)
    for row in measurements:
        event = event_id_of(row)
        key = (row["run_id"], first.get(row["run_id"], FIRST_EVENT) if event == WHOLE_RUN else event)
        values.setdefault(key, {})[row["metric"]] = Measured(row["value"], row["censored"], row.get("steady"))
    return values


def exclusions(runs: Sequence[Row]) -> list[str]:
    """A sentence for each run that is not counted."""
    return [
        f"{run['run_id']} ({run['status']}) is not counted{f': {why}' if (why := _failure_text(run)) else ''}."
        for run in runs
        if run["status"] != "complete"
    ]


def _failure_text(run: Row) -> str:
    blame = (run["failure_blame"] or "").replace("_", " ")
    return ": ".join(part for part in (blame, run["failure_message"]) if part)


def run_rows(runs: Sequence[Row], measurements: Measurements) -> list[Row]:
    """A row a run and event: its name, status and, where it does not count, why."""
    entries = []
    for run in runs:
        events = [event for run_id, event in measurements if run_id == run["run_id"]]
        for event in sorted(events, key=event_order) or [FIRST_EVENT]:
            entries.append({
                "run_id": run["run_id"], "event_id": event, "variant": style.display_name(run["variant"] or "?"),
                "status": run["status"], "counts": run["status"] == "complete", "why": _failure_text(run),
            })  # fmt: skip
    return entries


def run_tables(
    entries: Sequence[Row], measurements: Measurements, leading: Sequence[Heading | None]
) -> list[tuple[str, ResultTable]]:
    """Return the tables of runs with their titles, a row for each of `entries` with `leading` columns first. What
    nobody measured is no column."""
    measured = {name for row in entries for name in measurements.get((row["run_id"], row["event_id"]), {})}

    def key(each: Metric) -> Callable[[Row], str]:
        return lambda row: cell(measurements.get((row["run_id"], row["event_id"]), {}).get(each.name), each.digits)

    tables = []
    for title, names in RUN_TABLES.items():
        present = [metric(name) for name in names if name in measured]
        columns = [Heading(each.heading, key(each), css="n k") for each in present]
        if columns:
            table = ResultTable([*leading, *columns], entries, row_css=lambda row: "" if row["counts"] else "out")
            tables.append((title, table))
    return tables


def is_marked(tables: Iterable[ResultTable]) -> bool:
    """Return whether a value has the mark of a side that was not steady."""
    return any(UNSTEADY in text for table in tables for row in table.cells() for text in row)


def cell(found: Measured | None, digits: int) -> str:
    """A censored time is a lower bound already; of other values a mark says that they are not of a steady part."""
    if found is None:
        return "–"
    mark = f" {UNSTEADY}" if found.steady is False and not found.censored else ""
    return f"{'> ' if found.censored else ''}{number(found.value, digits)}{mark}"


Outcomes = Sequence[tuple[str, EventOutcome]]  # with the run


def outcome_table(outcomes: Outcomes, leading: Sequence[Heading | None]) -> ResultTable:
    """Return what was asked for and decided at each event of each run; `leading`: columns of (run, outcome)."""

    def decision(row: tuple[str, EventOutcome]) -> str | None:
        is_asked_for = row[1].kind.startswith(("scale", "reschedule"))
        return row[1].reason or ("none" if is_asked_for else None)

    headings = (
        *leading,
        Heading("request", lambda row: row[1].label, css="k"),
        Heading("decision", decision),
        Heading("decided after (s)", lambda row: _seconds(row[1].decided_s), css="n"),
        Heading("applied after (s)", lambda row: _seconds(row[1].applied_s), css="n"),
        Heading("remarks", lambda row: "; ".join(remarks(row[1]))),
    )
    return ResultTable(headings, outcomes)


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.1f}"


def remarks(outcome: EventOutcome) -> list[str]:
    """What a reader must not overlook: rounds without data, aborted attempts, machines that left."""
    lines = []
    if outcome.hold_rounds:
        rounds = f"{outcome.hold_rounds} round{'s' if outcome.hold_rounds > 1 else ''}"
        end = "before it was decided" if outcome.decided_s is not None else "and it was never decided"
        lines.append(f"no decision for lack of data in {rounds} {end} ({outcome.hold_reason})")
    for attempt, reason in enumerate(outcome.aborted, start=1):
        last = attempt == len(outcome.aborted) and outcome.applied_s is None
        lines.append(f"attempt {attempt} was aborted ({reason}) and {'not applied again' if last else 'repeated'}")
    if outcome.released:
        where = "given back to the testbed" if outcome.given_back else "kept idle, because later runs need them"
        lines.append(f"{', '.join(outcome.released)} left; {where}")
    return lines


def event_warnings(outcomes: Outcomes) -> list[str]:
    """Sentences for the top of the report: events that did not simply go well."""
    return [
        f"{run_id}, {outcome.label}: {remark}."
        for run_id, outcome in outcomes
        for remark in remarks(outcome)
        if " left; " not in remark
    ]


def steady_rows(intervals: Sequence[Row]) -> list[Row]:
    """Return the parts that count, before above after."""
    rows = ({**row, "event_id": event_id_of(row)} for row in intervals)
    return sorted(rows, key=lambda row: (row["run_id"], row["event_id"], row["phase"] != "before"))


def steady_table(rows: Sequence[Row], leading: Sequence[Heading | None]) -> ResultTable:
    def used(row: Row) -> str:
        return f"{row['start_s']:.0f} to {row['end_s']:.0f} s".replace("-", "−")

    def live(row: Row) -> str | None:
        return None if row["live_steady"] is None else "steady" if row["live_steady"] else "not steady"

    headings = (
        *leading,
        Heading("phase", "phase"),
        Heading("seconds used", used, css="k"),
        Heading("windows", "windows", css="n"),
        Heading("mean (tuples/s)", "mean", digits=1, css="n"),
        Heading("deviation", lambda row: f"{row['deviation']:.1f}", css="n"),
        Heading("steady", lambda row: "yes" if row["steady"] else bold("no: fallback used", "badge differs")),
        Heading("why", "reason", blank=""),
        Heading("during the run", live),
    )
    return ResultTable(headings, rows)


def edge_losses(losses: Sequence[Row]) -> list[Row]:
    """One row a run, event, side and edge, in reading order; an older analysis has no uncertainty. What is of a part of
    a side is of the side."""

    def order(row: Row) -> tuple[Any, ...]:
        edge = (row["source"], row["stream"], row["target"])
        return (row["run_id"], row.get("event_id") or "", row["phase"] != "before", *edge)

    return sorted(({"uncertainty": None} | row for row in losses if row["phase"] != REST), key=order)


def loss_table(losses: Sequence[Row], leading: Sequence[Heading | None]) -> ResultTable:
    def edge(row: Row) -> str:
        return f"{row['source']} → {row['target']}" + (f" ({row['stream']})" if row["stream"] != "default" else "")

    def count(column: str) -> Callable[[Row], str]:
        return lambda row: f"{row[column]:.0f}"

    headings = (
        *leading,
        Heading("phase", "phase"),
        Heading("edge", edge),
        Heading("sent", count("sent"), css="n"),
        Heading("executed", count("executed"), css="n"),
        Heading("queue growth", count("queued"), css="n"),
        Heading("lost", lambda row: number(row["lost"], 0), css="n"),
        Heading("±", lambda row: number(row["uncertainty"], 0), css="n"),
    )
    return ResultTable(headings, losses)


def machine_table(machines: Sequence[Row], *, clocks: bool = True) -> ResultTable:
    """Return what `machine_facts` found; `clocks`: with their offsets."""
    headings = (
        Heading("machine", "machine"),
        Heading("type", "type"),
        Heading("cores", lambda row: row["cores"] if row["cores"] is None else str(row["cores"]), css="n"),
        Heading("memory (MB)", lambda row: number(row["memory_mb"], 0), css="n"),
        Heading("bandwidth (Mbit/s)", lambda row: number(row["bandwidth_mbit"], 0), css="n"),
        Heading("slots", "slots", css="n"),
        Heading("joins at the scale event", lambda row: bool(row["joins_at_scale"])),
        Heading("largest clock offset (ms)", "clock_offset_ms", digits=2, css="n") if clocks else None,
    )
    return ResultTable(headings, machines)


def damage_table(damaged: Sequence[Row]) -> ResultTable:
    headings = (
        Heading("run", "run_id", css="k"), Heading("file", "file", css="k"), Heading("lines", "lines", css="n"),
        Heading("damaged", "damaged", css="n"), Heading("missing", "missing", css="n"),
        Heading("start of the first damaged line", lambda row: code((row["first_damaged"] or "")[:80], "small")),
    )  # fmt: skip
    return ResultTable(headings, damaged)


def boot_table(boots: Sequence[Boot]) -> ResultTable:
    headings = (
        Heading("run", "run_id", css="k"),
        Heading("machine", "machine", css="k"),
        Heading("start to ssh (s)", "ssh_s", digits=1, css="n"),
        Heading("start to registered with Nimbus (s)", "joined_s", digits=1, css="n"),
    )
    return ResultTable(headings, boots)


def execution_table(cost: SeriesCost) -> ResultTable:
    headings = (
        Heading("execution begun", "begun", css="k"),
        Heading("runs to do", "runs", css="n"),
        Heading("estimated ($)", lambda row: f"{row.expected_usd:.2f}", css="n"),
        Heading("at most ($)", lambda row: f"{row.longest_usd:.2f}", css="n"),
        Heading("used ($)", lambda row: f"{row.used_usd:.2f}", css="n"),
        Heading("machine-hours", lambda row: f"{row.machine_hours:.2f}", css="n"),
    )
    return ResultTable(headings, cost.executions)


def machine_type_table(cost: SeriesCost) -> ResultTable:
    headings = (
        Heading("machine type", "type", css="k"),
        Heading("machines", "machines", css="n"),
        Heading("hours", lambda row: f"{row['hours']:.2f}", css="n"),
        Heading("used ($)", lambda row: f"{row['usd']:.2f}", css="n"),
    )
    return ResultTable(headings, cost.types)


def ablation_table(lines: Sequence[AblationRow], leading: Sequence[Heading | None]) -> ResultTable:
    headings = (
        *leading,
        Heading("variant", "variant", css="k"),
        Heading("differs from the paper's rule in", "changed"),
        Heading("its decision", lambda line: "; or ".join(line.answers), css="wide"),
        Heading("compared", lambda line: bold(line.verdict) if line.differing else line.verdict),
    )
    return ResultTable(headings, lines)


def decision_table(
    components: Sequence[str], decisions: Sequence[DecisionRow], leading: Sequence[Heading | None]
) -> ResultTable:
    """Return what each variant changed at each component."""

    def cell_at(place: int) -> Callable[[DecisionRow], str]:
        return lambda row: row.cells[place]

    cells = (
        Heading(name.replace("_", "_\u200b"), cell_at(place), css="n", blank="")
        for place, name in enumerate(components)
    )
    headings = (
        *leading, Heading("variant", "variant", css="k"), Heading("runs", "runs"), *cells,
        Heading("machines released", "released", css="n"),
    )  # fmt: skip
    return ResultTable(headings, decisions)


def machine_facts(machines: Sequence[Row]) -> list[Row]:
    """Machines as they were described by the runs: one row a machine and description."""
    columns = ("machine", "type", "cores", "memory_mb", "bandwidth_mbit", "slots", "joins_at_scale")
    offsets: dict[tuple[Any, ...], list[float]] = {}
    for row in machines:
        values = offsets.setdefault(tuple(row[column] for column in columns), [])
        values += [] if row["clock_offset_ms"] is None else [abs(row["clock_offset_ms"])]
    described = [
        dict(zip(columns, key, strict=True)) | {"clock_offset_ms": max(values, default=None)}
        for key, values in offsets.items()
    ]
    return sorted(described, key=lambda row: (len(row["machine"]), row["machine"]))


def environment_facts(runs: Sequence[Row]) -> list[tuple[str, str]]:
    """Versions, commit, seeds and facts of the box; more than one value means that the runs differ in it."""
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
    """The resolved specification of the runs (cost models, rates, buffers, durations), flattened."""
    specs = [flatten(json.loads(run["spec"] or "{}")) for run in runs]
    keys = sorted({key for spec in specs for key in spec})
    return [(key, " | ".join(sorted({spec[key] for spec in specs if key in spec}))) for key in keys]


def commit_text(run: Row) -> str | None:
    return None if run["git_commit"] is None else run["git_commit"][:12] + (" + changes" if run["git_dirty"] else "")


def _distinct_values(runs: Sequence[Row], of: Callable[[Row], Any]) -> str:
    values = sorted({str(of(run)) for run in runs if of(run) is not None})
    return " | ".join(values) if values else "not recorded"


def flatten(value: Any, prefix: str = "") -> dict[str, str]:
    """Nested JSON as dotted keys; lists of plain values stay together."""
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
    """For the top of a page; nothing where no run had most of its machines at their limit, or much taken from one."""
    spans, cpu = (rows(paths, name, topology=cluster(paths)) for name in ("scale_events", "cpu"))
    absent = absent_machines(spans, rows(paths, "machines"))
    return [*_limit_warnings(cpu, absent), *_steal_warnings(cpu)]


def _steal_warnings(cpu: Sequence[Row]) -> list[str]:
    """By run the part and machine of which most was taken; runs that do not say (older records) are left out."""
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
    where = [
        f"{phase} the first event in {len(groups)} of {runs} runs"
        for phase, groups in (("before", before), ("after", after))
        if groups
    ]
    if not where:
        return []
    used = number(100 * median(row["utilisation_mean"] for groups in (*before, *after) for row in groups), 0)
    return [
        f"Most machines were at their CPU limit {' and '.join(where)} ({used} % of their quota): what is measured there"
        " is also what the machines can do, not only what the components' cost and the policy allow."
    ]


def _machines_at_limit(cpu: Sequence[Row], absent: Mapping[Any, set[str]], phase: str) -> list[list[Row]]:
    """The machines of each run whose middle one has used up its quota in that phase of the first event.

    Left out: the master, which is in no run's machines, and those that have not joined by then, or have left.
    """
    by_run: dict[str, list[Row]] = defaultdict(list)
    for row in cpu:
        there = row["machine"] not in absent.get((row["run_id"], row["event_id"], phase), ())
        counts = there and row["joins_at_scale"] is not None and row["utilisation_mean"] is not None
        if counts and row["phase"] == phase and event_id_of(row) == FIRST_EVENT:
            by_run[row["run_id"]].append(row)
    return [rows for rows in by_run.values() if median(row["utilisation_mean"] for row in rows) >= LIMIT_SHARE]


@dataclass(frozen=True)
class Boot:
    """One machine that a run has started; seconds. `ssh_s` is the testbed's own measure. None: not measured."""

    run_id: str
    machine: str
    ssh_s: float | None  # from asking for it to its first answer over ssh
    joined_s: float | None  # from asking for it until it was deployed and registered with Nimbus


@dataclass(frozen=True)
class ExecutionCost:
    """One execution of a series: what was estimated when it began, and what its machines cost. US dollars, hours."""

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
    """Every machine that was started during a run, in the order of the runs."""
    return [boot for run in runs for boot in _boots_of_run(run)]


def _boots_of_run(run: RunPaths) -> list[Boot]:
    events = read_timeline(run).events
    requests = {name: float(event["t"]) for event in events if event["kind"] == "machines_requested"
             for name in event.get("machines") or ()}  # fmt: skip
    joined = {name: float(event["t"]) for event in events if event["kind"] == "machines_joined"
              for name in event.get("machines") or ()}  # fmt: skip
    boot_times = {event.get("machine"): event.get("boot_s") for event in events if event["kind"] == "machine_booted"}
    return [
        Boot(run.run_id, name, boot_times.get(name), joined[name] - request_s if name in joined else None)
        for name, request_s in requests.items()
    ]


def series_cost(paths: SeriesPaths) -> SeriesCost | None:
    """None where machines cost nothing, or their use was not recorded."""
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


def decision_data(components: Sequence[str], decisions: Sequence[DecisionRow]) -> list[Row]:
    """One row an event, variant and outcome, with what changed at each component."""
    return [
        {"event_id": row.event_id, "variant": row.variant, "runs": row.runs}
        | dict(zip(components, row.cells, strict=True))
        | {"released": row.released}
        for row in decisions
    ]


def outcome_data(outcomes: Outcomes) -> list[Row]:
    return [{"run_id": run_id, **_joined_cells(asdict(outcome))} for run_id, outcome in outcomes]


def ablation_data(lines: Sequence[AblationRow]) -> list[Row]:
    return [_joined_cells(asdict(line)) for line in lines]


def run_data(entries: Sequence[Row], measurements: Measurements) -> list[Row]:
    """The tables of runs side by side; a censored time is a lower bound, and `…_censored` says so. `…_steady` says
    which values are of a steady part, where some are not."""
    names = [name for table in RUN_TABLES.values() for name in table]
    present = [name for name in names if any(name in values for values in measurements.values())]
    found = [item for values in measurements.values() for item in values.items()]
    censored = {name for name, each in found if each.censored}
    unsteady = {name for name, each in found if each.steady is False}
    table = []
    for row in entries:
        values = measurements.get((row["run_id"], row["event_id"]), {})
        cells: dict[str, Any] = {name: row[name] for name in ("run_id", "event_id", "variant", "status", "why")}
        for name in present:
            each = values.get(name)
            cells[name] = None if each is None else each.value
            if name in censored:
                cells[f"{name}_censored"] = None if each is None else each.censored
            if name in unsteady:
                cells[f"{name}_steady"] = None if each is None else each.steady
        table.append(cells)
    return table


def pair_data(pairs: Sequence[tuple[str, str]]) -> list[Row]:
    return [{"key": key, "value": value} for key, value in pairs]


def _joined_cells(values: Mapping[str, Any]) -> Row:
    """Join several decisions or reasons into one cell."""
    return {name: "; ".join(map(str, value)) if isinstance(value, tuple) else value for name, value in values.items()}
