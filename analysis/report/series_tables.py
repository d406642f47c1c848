"""The tables of a report: headings over runs, events, steady parts, losses, machines, boots and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import product
from statistics import median
from typing import Any, NamedTuple

from analysis.metrics.definitions import RUN_TABLES, Metric, metric
from analysis.metrics.scale_decisions import AblationRow
from analysis.numerals import number
from analysis.record.event_timeline import FIRST_EVENT, WHOLE_RUN, EventOutcome, event_order
from analysis.record.files import SeriesPaths, read_json
from analysis.record.small_tables import Row, rows, topologies
from analysis.report.figures import style
from analysis.report.figures.decision_graph import DecisionRow
from analysis.report.page import Block, Section, Sentence
from analysis.report.series_facts import failure_text
from analysis.report.table import Heading, ResultTable, bold, code, columns
from analysis.stats import survival

DAMAGED_LINES_NOTE = (
    "The lines counted here as damaged could not be read, and those counted as missing (at least so many) are not"
    " there, by the numbers of those beside them. Neither are in any number above."
)
UNSTEADY = "†"  # after a value that rests on a side that was not steady
Leading = Sequence[Heading | None]  # the first columns of a table
Outcomes = Sequence[tuple[str, EventOutcome]]  # each with its run


class Measured(NamedTuple):
    value: float
    censored: bool = False
    steady: bool | None = None  # None: it rests on no steady part, or was not tested


Measurements = Mapping[tuple[str, str], Mapping[str, Measured]]


def runs_in_order(paths: SeriesPaths) -> list[Row]:
    return sorted(rows(paths, "runs"), key=lambda run: (run["order"] is None, run["order"], run["run_id"]))


def measurements_by_topology(paths: SeriesPaths) -> dict[str, Measurements]:
    """Return those of the only topology (named ""), or of the cluster and of each of several."""
    names = topologies(paths)
    return {
        name: measurements_by_event(rows(paths, "measurements", topology=name or None))
        for name in ((names[-1], *names[:-1]) if names else ("",))
    }


def measurements_by_event(measurements: Sequence[Row]) -> dict[tuple[str, str], dict[str, Measured]]:
    """Return (run, event) -> metric -> measurement; values of the whole run stand with its first event."""
    values: dict[tuple[str, str], dict[str, Measured]] = {}
    first: dict[str, str] = {}  # not e1 for a topology that arrives later
    for row in measurements:
        if (event := row["event_id"]) != WHOLE_RUN:
            first[row["run_id"]] = min(event, first.get(row["run_id"], event), key=event_order)
    for row in measurements:
        event = row["event_id"]
        key = (row["run_id"], first.get(row["run_id"], FIRST_EVENT) if event == WHOLE_RUN else event)
        values.setdefault(key, {})[row["metric"]] = Measured(row["value"], row["censored"], row.get("steady"))
    return values


def run_rows(runs: Sequence[Row], measurements: Measurements) -> list[Row]:
    """Return a row a run and event: its name, status and, if it does not count, why."""
    entries = []
    for run in runs:
        events = [event for run_id, event in measurements if run_id == run["run_id"]]
        for event in sorted(events, key=event_order) or [FIRST_EVENT]:
            entries.append({
                "run_id": run["run_id"], "event_id": event, "variant": style.display_name(run["variant"] or "?"),
                "status": run["status"], "counts": run["status"] == "complete", "why": failure_text(run),
            })  # fmt: skip
    return entries


def run_tables(entries: Sequence[Row], measurements: Measurements, leading: Leading) -> list[tuple[str, ResultTable]]:
    """Return the tables of runs with their titles, a row for each of `entries` with `leading` columns first. Metrics
    that were never measured get no column."""
    measured = {name for row in entries for name in measurements.get((row["run_id"], row["event_id"]), {})}

    def key(each: Metric) -> Callable[[Row], str]:
        return lambda row: cell(measurements.get((row["run_id"], row["event_id"]), {}).get(each.name), each.digits)

    tables = []
    for title, names in RUN_TABLES.items():
        measured_metrics = [metric(name) for name in names if name in measured]
        columns = [Heading(each.heading, key(each), css="n k") for each in measured_metrics]
        if columns:
            table = ResultTable([*leading, *columns], entries, row_css=lambda row: "" if row["counts"] else "out")
            tables.append((title, table))
    return tables


def service_table(paths: SeriesPaths, variants: Sequence[str]) -> ResultTable:
    """Return what became of service levels, a row a topology (the cluster first) and variant: medians over the runs
    that count, from when a policy may first act to the end."""
    runs = {row["run_id"]: row["variant"] for row in rows(paths, "runs") if row["status"] == "complete"}
    levels = {row["topology"]: row for row in rows(paths, "topologies") if row["max_utility"] is not None}
    names = topologies(paths)
    order = (names[-1], *names[:-1]) if names else tuple(levels)
    attained: dict[tuple[str, str], list[Row]] = {}
    for row in rows(paths, "attainment", runs=list(runs)):
        if row["event_id"] == WHOLE_RUN:
            attained.setdefault((row["topology"], runs[row["run_id"]]), []).append(row)
    entries = []
    for topology, variant in product(order, variants):
        if of_runs := attained.get((topology, variant)):
            is_known = not any(row["unknown"] for row in of_runs)
            shares = {
                name: 100 * median(row[name] for row in of_runs) if is_known else None
                for name in ("met", "attained_mean", "attained_p5", "attained_p50")
            }
            is_open = [row["time_to_max_s"] is None for row in of_runs]
            horizons = [row["watched_s"] if row["time_to_max_s"] is None else row["time_to_max_s"] for row in of_runs]
            entries.append({
                "topology": topology or paths.root.parent.name, "level": level_words(levels.get(topology)),
                "variant": style.display_name(variant), "runs": len(of_runs), **shares,
                "time_to_max_s": survival.median(horizons, is_open), "reached": len(of_runs) - sum(is_open),
            })  # fmt: skip
    return ResultTable(
        [
            Heading("topology", "topology", css="k"), Heading("service level", "level"),
            Heading("variant", "variant", css="k"), Heading("runs", "runs", css="n"),
            Heading("level met", "met", "% of the time", 1, "n"),
            Heading("attained, mean", "attained_mean", "%", 1, "n"),
            Heading("5th percentile", "attained_p5", "%", 1, "n"),
            Heading("median", "attained_p50", "%", 1, "n"),
            Heading("until first met", "time_to_max_s", "s", 0, "n", blank="not by half of the runs"),
            Heading("runs in which it was", "reached", css="n"),
        ],
        entries, name="service_levels",
    )  # fmt: skip


def level_words(row: Row | None) -> str:
    """Return a service level in words; `row`: of the table `topologies`, None for the cluster."""
    if row is None:
        return "all of them"
    latency = "" if row["latency_ms"] is None else f"{row['latency_ms']:g} ms"
    juice = "" if row["juice"] is None else f"juice {row['juice']:g}"
    return f"{' and '.join(filter(None, (latency, juice)))}, worth {row['max_utility']:g}"


def is_marked(tables: Iterable[ResultTable]) -> bool:
    """Return whether a value is marked because a side was not steady."""
    return any(UNSTEADY in text for table in tables for row in table.cells() for text in row)


def cell(found: Measured | None, digits: int) -> str:
    """Format a value; a mark says that it rests on an unsteady part (a censored time is a lower bound already)."""
    if found is None:
        return "–"
    if found.censored:
        return f"> {number(found.value, digits)}"
    return f"{number(found.value, digits)}{f' {UNSTEADY}' if found.steady is False else ''}"


def outcome_table(outcomes: Outcomes, leading: Leading, name: str) -> ResultTable:
    """Return requests and decisions at each event of each run; `leading`: columns of (run, outcome)."""

    def decision(row: tuple[str, EventOutcome]) -> str | None:
        return row[1].reason or ("none" if row[1].kind.startswith(("scale", "reschedule")) else None)

    def seconds(value: float | None) -> str | None:
        return None if value is None else f"{value:.1f}"

    headings = (
        *leading,
        Heading("request", lambda row: row[1].label, css="k"),
        Heading("decision", decision),
        Heading("decided after (s)", lambda row: seconds(row[1].decided_s), css="n"),
        Heading("applied after (s)", lambda row: seconds(row[1].applied_s), css="n"),
        Heading("remarks", lambda row: "; ".join(remarks(row[1]))),
    )
    data = [{"run_id": run_id, **_joined_cells(asdict(outcome))} for run_id, outcome in outcomes]
    return ResultTable(headings, outcomes, name=name, data=data)


def remarks(outcome: EventOutcome) -> list[str]:
    """Return what a reader must not overlook: rounds without data, aborted attempts, machines that left."""
    lines = []
    if outcome.hold_rounds:
        rounds = f"{outcome.hold_rounds} round{'s' if outcome.hold_rounds > 1 else ''}"
        end = "before it was decided" if outcome.decided_s is not None else "and it was never decided"
        lines.append(f"no decision for lack of data in {rounds} {end} ({outcome.hold_reason})")
    for attempt, reason in enumerate(outcome.aborted, start=1):
        last = attempt == len(outcome.aborted) and outcome.applied_s is None
        lines.append(f"attempt {attempt} was aborted ({reason}) and {'not applied again' if last else 'repeated'}")
    if outcome.released:
        destination = "given back to the testbed" if outcome.given_back else "kept idle, because later runs need them"
        lines.append(f"{', '.join(outcome.released)} left; {destination}")
    return lines


def event_warnings(outcomes: Outcomes) -> list[str]:
    """Return sentences for the top of the report about events that had problems."""
    return [
        f"{run_id}, {outcome.label}: {remark}."
        for run_id, outcome in outcomes
        for remark in remarks(outcome)
        if " left; " not in remark
    ]


def steady_rows(intervals: Sequence[Row]) -> list[Row]:
    """Return the parts that count, before above after."""
    rows = ({**row, "event_id": row["event_id"]} for row in intervals)
    return sorted(rows, key=lambda row: (row["run_id"], row["event_id"], row["phase"] != "before"))


def steady_table(rows: Sequence[Row], leading: Leading, name: str) -> ResultTable:
    def used(row: Row) -> str:
        return f"{row['start_s']:.0f} to {row['end_s']:.0f} s".replace("-", "−")

    def live(row: Row) -> str | None:
        return None if row["live_steady"] is None else "steady" if row["live_steady"] else "not steady"

    headings = (
        *leading,
        *columns("phase"),
        Heading("seconds used", used, css="k"),
        *columns("windows /n; mean (tuples/s) = mean :1 /n"),
        Heading("deviation", lambda row: f"{row['deviation']:.1f}", css="n"),
        Heading("steady", lambda row: "yes" if row["steady"] else bold("no: fallback used", "badge differs")),
        Heading("why", "reason", blank=""),
        Heading("during the run", live),
    )
    return ResultTable(headings, rows, name=name)


def loss_table(losses: Sequence[Row], leading: Leading, name: str) -> ResultTable:
    def edge(row: Row) -> str:
        return f"{row['source']} → {row['target']}" + (f" ({row['stream']})" if row["stream"] != "default" else "")

    def count(heading: str, column: str) -> Heading:
        return Heading(heading, lambda row: number(row[column], 0), css="n")

    headings = (
        *leading, *columns("phase"), Heading("edge", edge), count("sent", "sent"), count("executed", "executed"),
        count("dropped", "dropped"), count("queue growth", "queued"), count("lost", "lost"), count("±", "uncertainty"),
    )  # fmt: skip
    return ResultTable(headings, losses, name=name)


def machine_table(machines: Sequence[Row], *, clocks: bool = True) -> ResultTable:
    """Return the table of `machine_facts`; `clocks`: with clock offsets."""
    headings = (
        *columns("machine; type"),
        Heading("cores", lambda row: row["cores"] if row["cores"] is None else str(row["cores"]), css="n"),
        Heading("memory (MB)", lambda row: number(row["memory_mb"], 0), css="n"),
        Heading("bandwidth (Mbit/s)", lambda row: number(row["bandwidth_mbit"], 0), css="n"),
        *columns("slots /n"),
        Heading("joins at the scale event", lambda row: bool(row["joins_at_scale"])),
        *(columns("largest clock offset (ms) = clock_offset_ms :2 /n") if clocks else ()),
    )
    return ResultTable(headings, machines, name="machines" if clocks else "")


def damage_blocks(files: Sequence[Row]) -> list[Block]:
    """Return a table of what could not be read, or a sentence that everything could."""
    damaged = sorted(
        (row for row in files if row["damaged"] or row.get("missing")), key=lambda row: (row["run_id"], row["file"])
    )
    lines, numbered = sum(row["lines"] for row in files), sum(row.get("missing") is not None for row in files)
    if not damaged:
        none_missing = f", and in the {numbered} files whose lines are numbered none is missing before the last"
        text = f"All {lines} lines in {len(files)} files could be read{none_missing if numbered else ''}."
        return [Sentence(text)]
    headings = (
        *columns("run = run_id /k; file /k; lines /n; damaged /n; missing /n"),
        Heading("start of the first damaged line", lambda row: code((row["first_damaged"] or "")[:80], "small")),
    )
    text = f"{lines} lines in {len(files)} files were read. {DAMAGED_LINES_NOTE}"
    return [Sentence(text), ResultTable(headings, damaged, name="damaged")]


def boot_table(boots: Sequence[Row]) -> ResultTable:
    times = "start to ssh (s) = ssh_s :1 /n; start to registered with Nimbus (s) = joined_s :1 /n"
    return ResultTable(columns(f"run = run_id /k; machine /k; {times}"), boots, name="boots")


def cost_sections(paths: SeriesPaths) -> list[Section]:
    """Return the cost with tables of executions, with their estimates, and of machine types; nothing if machines cost
    nothing or their use was not recorded."""
    file = paths.root / "money.json"
    if not file.is_file():
        return []
    cost = read_json(file)
    executions = [
        {"begun": f"{datetime.fromtimestamp(float(row['opened_s']), UTC):%Y-%m-%d %H:%M} UTC"}
        | {name: row[name] for name in ("runs", "expected_usd", "longest_usd", "used_usd", "machine_hours")}
        for row in cost["executions"]
    ]
    dates = ", ".join(sorted({str(row["prices_of"]) for row in cost["executions"]})) or "an unknown day"
    damaged = cost.get("damaged_lines", 0)
    note = f" {damaged} lines of holdings.jsonl could not be read: what they say is in no number here."
    text = (
        f"${cost['used_usd']:.2f} for {cost['machine_hours']:.2f} machine-hours on {cost['testbed']}, of a budget of"
        f" ${cost['budget_usd']:.2f}. The cost of a machine is the time from its request to its return, times its price"
        f" in the list of {dates}. A machine that a killed harness left behind counts to the end of its lease."
        f"{note if damaged else ''}"
    )

    of_executions = columns(
        "execution begun = begun /k; runs to do = runs /n; estimated ($) = expected_usd :2 /n;"
        " at most ($) = longest_usd :2 /n; used ($) = used_usd :2 /n; machine-hours = machine_hours :2 /n"
    )
    of_types = columns("machine type = type /k; machines /n; hours :2 /n; used ($) = usd :2 /n")
    tables = (
        ResultTable(of_executions, executions, name="money"),
        ResultTable(of_types, cost["types"], name="money_types"),
    )
    return [Section("Cost", [Sentence(text), *tables])]


def ablation_table(lines: Sequence[AblationRow], leading: Leading) -> ResultTable:
    headings = (
        *leading,
        *columns("variant /k; differs from the paper's rule in = changed"),
        Heading("its decision", lambda line: "; or ".join(line.answers), css="wide"),
        Heading("compared", lambda line: bold(line.verdict) if line.differing else line.verdict),
    )
    return ResultTable(headings, lines, name="ablation", data=[_joined_cells(asdict(line)) for line in lines])


def decision_table(
    components: Sequence[str], decisions: Sequence[DecisionRow], leading: Leading, name: str
) -> ResultTable:
    """Return what each variant changed at each component."""

    def cell_at(place: int) -> Callable[[DecisionRow], str]:
        return lambda row: row.cells[place]

    cells = (
        Heading(name.replace("_", "_\u200b"), cell_at(place), css="n", blank="")
        for place, name in enumerate(components)
    )
    headings = (*leading, *columns("variant /k; runs"), *cells, *columns("machines released = released /n"))
    data = [
        {"event_id": row.event_id, "variant": row.variant, "runs": row.runs}
        | dict(zip(components, row.cells, strict=True))
        | {"released": row.released}
        for row in decisions
    ]
    return ResultTable(headings, decisions, name=name, data=data)


def run_data(entries: Sequence[Row], measurements: Measurements) -> list[Row]:
    """Return the tables of runs side by side; `…_censored` says that a time is a lower bound. `…_steady` says which
    values rest on a steady part, if some do not."""
    items = [item for values in measurements.values() for item in values.items()]
    measured = {name for name, _ in items}
    censored = {name for name, each in items if each.censored}
    unsteady_names = {name for name, each in items if each.steady is False}
    table = []
    for row in entries:
        values = measurements.get((row["run_id"], row["event_id"]), {})
        cells: dict[str, Any] = {name: row[name] for name in ("run_id", "event_id", "variant", "status", "why")}
        for name in (name for names in RUN_TABLES.values() for name in names if name in measured):
            each = values.get(name)
            cells[name] = each and each.value
            if name in censored:
                cells[f"{name}_censored"] = each and each.censored
            if name in unsteady_names:
                cells[f"{name}_steady"] = each and each.steady
        table.append(cells)
    return table


def pair_data(pairs: Sequence[tuple[str, str]]) -> list[Row]:
    return [{"key": key, "value": value} for key, value in pairs]


def _joined_cells(values: Mapping[str, Any]) -> Row:
    """Join several decisions or reasons into one cell."""
    return {name: "; ".join(map(str, value)) if isinstance(value, tuple) else value for name, value in values.items()}
