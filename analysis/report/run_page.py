"""The page of a run: timeline, events, decisions, placement, failures and first errors, from the series' small
tables."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote

from analysis.metrics.definitions import RUN_TABLES, Metric, metric, place_words
from analysis.numerals import MISSING
from analysis.record import event_timeline, run_errors
from analysis.record.event_timeline import WHOLE_RUN, EventOutcome, event_order
from analysis.record.files import RunPaths, SeriesPaths, is_unthrottled, run_document
from analysis.record.run_errors import ErrorGroup
from analysis.record.simulated import date_s, is_simulated
from analysis.record.small_tables import HISTOGRAM, Row, by_run, rows, topology_suffix, topology_words
from analysis.report import page, series_facts, series_tables, words
from analysis.report.figures import run_timeline, style
from analysis.report.figures.renderer import page_figure
from analysis.report.figures.run_timeline import RunData, Windows
from analysis.report.page import Block, Definitions, Downloads, PageContent, Section, Sentence, Warnings
from analysis.report.series_tables import Measured, Measurements
from analysis.report.table import Heading, ResultTable, badge, bold, code, columns, joined, link
from barograph.plan.experiment import WHOLE_CLUSTER
from scheduler_plugins.model import SPOUTS

TABLES = (
    "throughput", "activity", "cpu_windows", "settled", "intervals", "damaged", "zeros", "scale_events", "latency",
    "topologies",
)  # fmt: skip
MOST_ROWS = 200  # rows of a table that can grow with the run; the files have all of them
CAPTION = (
    "Upright lines are events, green bands the steady parts that count, triangles decisions that no event asked for. "
    "Queues are the mean number of tuples that wait at a component; of more than eight components the eight with the "
    "longest."
)
OF_TOPOLOGIES = (
    "Upright lines are events, green bands the steady parts that count, triangles decisions that no event asked for. "
    "A topology has no line before it arrived, and none after it departed. The uppermost panel is the sum."
)


def write_all(paths: SeriesPaths, outcomes: Sequence[tuple[str, EventOutcome]]) -> None:
    """Write `runs/<run>/report.html` of every run. `outcomes`: of each run's events, so that decision logs are read
    once."""
    runs = series_tables.runs_in_order(paths)
    tables_by_run = {name: by_run(rows(paths, name, without=HISTOGRAM)) for name in TABLES if name != "service"}
    measurements = series_tables.measurements_by_topology(paths)
    for run in runs:
        run_id = run["run_id"]
        content = _content(
            paths, run, {name: of_runs.get(run_id, []) for name, of_runs in tables_by_run.items()},
            [outcome for name, outcome in outcomes if name == run_id], measurements,
            [other["run_id"] for other in runs if other is not run],
        )  # fmt: skip
        page.save(paths.run(run_id).root / "report.html", content, only_large=True)


def _content(
    paths: SeriesPaths, run: Row, tables: Mapping[str, list[Row]], outcomes: Sequence[EventOutcome],
    measurements: Mapping[str, Measurements], other_runs: Sequence[str],
) -> PageContent:  # fmt: skip
    """Return the page. `measurements`: by topology (series_tables)."""
    run_id, run_paths = run["run_id"], paths.run(run["run_id"])
    lines = event_timeline.read_timeline(run_paths).events
    zero_s = (
        next((row["zero_s"] for row in tables["zeros"]), None)
        or event_timeline.first_zero(lines)
        or run["started_s"]
        or 0.0
    )
    is_complete = run["status"] == "complete"
    series = f"{run['experiment'] or 'an unknown experiment'}, series {run['series_id'] or 'unknown'}"
    errors = failures(run, lines, tables["damaged"])
    remark = [Sentence(f"and {len(errors) - MOST_ROWS} more", "small")] if len(errors) > MOST_ROWS else []
    others = joined((link(other, f"../{quote(other)}/report.html", "run") for other in other_runs), ", ")
    record = run_document(run_paths)
    run_facts = facts(run, record, tables["latency"], tables["topologies"], paths.root)
    event = Heading("event", lambda row: row[1].event_id)
    decisions = series_tables.outcome_table([(run_id, outcome) for outcome in outcomes], [event], "decisions")
    return PageContent(
        title=f"{run_id}, {run['experiment'] or ''} {run['series_id'] or ''}",
        heading=run_id,
        meta=joined(
            [
                f"{style.display_name(run['variant'] or '?')} · a run of ", link(series, "../../report.html"), " · ",
                badge(run["status"], "reproduced" if is_complete else "differs"),
                "" if is_complete else ", not counted in any claim",
            ]
        ),
        blocks=[
            Definitions([(name, page.folded(value) if name == "simulated" else value) for name, value in run_facts]),
            *([Section("What went wrong", [Warnings(errors[:MOST_ROWS]), *remark])] if errors else []),
            *_measured(run_paths, tables, measurements, outcomes),
            Section("Decisions", [decisions if outcomes else Sentence("The run reached no event.")]),
            *_placed(tables, list(measurements), outcomes),
            Section("Events", _events([event_row(event, zero_s) for event in lines])),
            Section("Errors in logs", _errors(run_paths, lines, zero_s)),
            Section("Other runs of this series", [Sentence(others or "None.")]),
        ],
    )  # fmt: skip


def _measured(
    run: RunPaths, tables: Mapping[str, list[Row]], measurements: Mapping[str, Measurements],
    outcomes: Sequence[EventOutcome],
) -> list[Section]:  # fmt: skip
    """Return the measurements over time and at each event, of all topologies and of each."""
    run_id, is_single = run.run_id, "" in measurements
    datas = {}
    for name in measurements:
        names = (row["throughput"] for row in tables["topologies"] if name in ("", WHOLE_CLUSTER, row["topology"]))
        datas[name] = run_data(run, _of_topology(tables, name), place_words(names))
    if is_single:
        drawing = run_timeline.chart(datas[""])
    else:
        drawing = run_timeline.topologies_chart([(topology_words(name), data) for name, data in datas.items()])
    over_time: Block = Sentence("There is no whole window with a measurement of throughput, so there is no figure.")
    if drawing:
        over_time = page_figure("timeline", f"{run_id} over time", CAPTION if is_single else OF_TOPOLOGIES, drawing)
    labels = {outcome.event_id: f"{outcome.event_id}: {outcome.label}" for outcome in outcomes}
    span, blocks, value_tables = run_timeline.span_of([*datas.values()]), list[Block](), list[ResultTable]()
    data_rows = []
    for name, data in datas.items():
        of_topology: list[Block] = []
        if name not in ("", WHOLE_CLUSTER) and (drawing := run_timeline.chart(data, span)):
            title = f"{run_id} over time: {topology_words(name)}"
            of_topology.append(page_figure(f"timeline{topology_suffix(name)}", title, CAPTION, drawing))
        by_event = {event: values for (owner, event), values in measurements[name].items() if owner == run_id}
        if by_event:
            value_tables.append(_measurement_table(by_event, labels))
            of_topology.append(value_tables[-1])
        else:
            subject = "it" if name else "the run"
            of_topology.append(Sentence(f"None: {subject} left no samples, or it was not analysed."))
        blocks += [Section(topology_words(name), of_topology, anchor=f"of-{name}")] if name else of_topology
        data_rows += [  # also those that no table shows
            _named(name, {"event_id": event, "metric": key, **each._asdict()})
            for event, values in sorted(by_event.items()) for key, each in sorted(values.items())
        ]  # fmt: skip
    if series_tables.is_marked(value_tables):
        blocks.append(Sentence(words.NOT_STEADY_HERE, "small"))
    return [Section("Over time", [over_time]), Section("Measurements", [*blocks, Downloads("measurements", data_rows)])]


def _measurement_table(by_event: Mapping[str, Mapping[str, Measured]], labels: Mapping[str, str]) -> ResultTable:
    """Return the values of the report's tables, a row a metric and a column an event."""
    measured = {name for values in by_event.values() for name in values}
    metrics = [metric(name) for names in RUN_TABLES.values() for name in names if name in measured]

    def value_at(event: str) -> Callable[[Metric], str]:
        return lambda each: series_tables.cell(by_event[event].get(each.name), each.digits)

    headings = [
        Heading("value" if len(by_event) == 1 else labels.get(event, event), value_at(event), css="n k")
        for event in sorted(by_event, key=event_order)
    ]
    return ResultTable([Heading("metric", "heading"), *headings], metrics, css="narrow")


def _placed(tables: Mapping[str, list[Row]], names: Sequence[str], outcomes: Sequence[EventOutcome]) -> list[Section]:
    """Return where executors were placed; nothing if no round placed all tasks."""
    labels = {outcome.event_id: outcome.label for outcome in outcomes}
    after = Heading("executors after", lambda row: bold(row["after"] or MISSING) if row["changed"] else row["after"])
    headings = (*columns("machine /k; executors before = before"), after)
    blocks, data = list[Block](), list[Row]()
    for name in names:
        executor_rows = _placement_rows(_of_topology(tables, name)["settled"])
        of_topology: list[Block] = [
            Section(labels.get(event, event), [ResultTable(headings, list(of_event))])
            for event, of_event in groupby(executor_rows, itemgetter("event_id"))
        ]
        data += [_named(name, row) for row in executor_rows]
        blocks += [Section(topology_words(name), of_topology)] if name and executor_rows else of_topology
    if not data:
        return []
    return [Section("Placement", [*blocks, Sentence(words.PLACEMENT_NOTE, "small"), Downloads("placements", data)])]


def _events(events: Sequence[Row]) -> list[Block]:
    if not events:
        return [Sentence("The run left no events.")]
    headings = (
        *columns("time (s) = time_s :1 /n"),
        Heading("event", lambda row: row["kind"].replace("_", " "), css="k v"),
        Heading("details", "details"),
    )
    cut = [Sentence(f"The first {MOST_ROWS} of {len(events)}; the files have all.", "small")]
    return [ResultTable(headings, events[:MOST_ROWS]), *cut[: len(events) > MOST_ROWS], Downloads("events", events)]


def _errors(where: RunPaths, lines: Sequence[Mapping[str, Any]], zero_s: float) -> list[Block]:
    """Return the errors while the topology ran, and the number of kinds from daemons that were being stopped."""
    errors = run_errors.errors_of_run(where)
    error_rows, afterwards = split_errors(errors.groups, lines, zero_s)
    blocks: list[Block] = [Sentence("None while the topology ran.")]
    if not errors.has_logs:
        hint = ["There are no raw logs of this run here. Logs that were kept are in ",
                code(f"runs/{where.run_id}/logs/"), " of the series, with the run's raw lines."]  # fmt: skip
        blocks = [Sentence(joined(hint))]
    elif error_rows:
        headings = (
            *columns("first at (s) = time_s :1 /n"),
            Heading("line", lambda row: code(row["text"], "small"), css="wide v"),
            Heading("file of the first", lambda row: code(row["file"], "small")),
            *columns("times /n; files /n"),
        )
        table = ResultTable(headings, error_rows[:MOST_ROWS])
        blocks = [Sentence(words.ERRORS_NOTE), table, Downloads("errors", error_rows)]
    if afterwards:
        late_errors = "more kinds of errors came after the topology was killed, from workers that were stopping."
        blocks.append(Sentence(f"{afterwards} {late_errors}", "small"))
    if errors.cut:
        blocks.append(Sentence(f"Only the beginning of {errors.cut} large files was read.", "small"))
    return blocks


def _of_topology(tables: Mapping[str, list[Row]], name: str) -> dict[str, list[Row]]:
    """Return the rows of one of several topologies; all rows if there is only one."""
    return {
        table: [row for row in table_rows if not name or "topology" not in row or row["topology"] == name]
        for table, table_rows in tables.items()
    }


def _named(topology: str, row: Row) -> Row:
    return {"topology": topology, **row} if topology else row


def run_data(run: RunPaths, tables: Mapping[str, list[Row]], place: str) -> RunData:
    """Return a run's data on the run's own axis: that of its only event, or of the whole run if it has several.
    `place`: where throughput is measured, in words."""
    axis = WHOLE_RUN if any(row["event_id"] == WHOLE_RUN for row in tables["activity"]) else None
    full_rows = [row for row in tables["throughput"] if row["complete"] and row["rate"] is not None]
    complete = {row["window_s"] for row in full_rows}
    hidden = {"sink", "due" if is_unthrottled(run) else "", "spouts" if place == place_words([SPOUTS]) else ""}
    activity = [
        row for row in tables["activity"] if (axis is None or row["event_id"] == axis) and row["window_s"] in complete
    ]
    # The steady parts are shifted from each event's zero to the run's.
    zero_s = next((row["zero_s"] for row in tables["zeros"]), 0.0)
    zeros = {row["event_id"]: row["zero_s"] - zero_s for row in tables["scale_events"]}
    steady = [(zeros.get(row["event_id"], 0.0), row) for row in tables["intervals"] if row["steady"]]
    return RunData(
        run.run_id,
        _windows((row["scope"], row["window_s"], row["rate"]) for row in full_rows if row["scope"] not in hidden),
        _windows((row["component"], row["window_s"], row["queue"]) for row in activity if row["component"]),
        _windows((row["machine"], row["window_s"], row["utilisation_mean"]) for row in tables["cpu_windows"]),
        tuple(event_timeline.event_marks(run)),
        tuple(sorted({(begin + row["start_s"], begin + row["end_s"]) for begin, row in steady})),
        tuple(event_timeline.own_decisions(run)),
        place,
    )


def _windows(values: Iterable[tuple[str, float, float | None]]) -> dict[str, Windows]:
    lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for name, start, value in values:
        if value is not None:
            lines[name].append((start, value))
    return {name: sorted(line) for name, line in sorted(lines.items())}


def facts(
    run: Row, record: Mapping[str, Any], latency: Sequence[Row], topologies: Sequence[Row], series_dir: Path
) -> list[tuple[str, str]]:
    """Return the facts of the run in reading order."""
    start_s, end_s, begun_s = run["started_s"], run["ended_s"], date_s(run)
    variant = record.get("variant") or {}
    changes = variant.get("topologies") or variant.get("topology") or {}  # how it differs from the experiment's
    workers = run["workers"]
    if len(topologies) > 1:
        ordered = sorted(topologies, key=lambda row: int(row["position"]))
        names = (f"{row['topology']} {row['workers']}" for row in ordered if row["workers"] is not None)
        workers = ", ".join(names)
    values = {
        "simulated": words.model_sentence([run], series_dir),
        "policy": " ".join(part for part in (run["policy"], _parameters(run["parameters"])) if part),
        "topology differs": "; ".join(
            f"{key}: {_parameters(json.dumps(values))}" for key, values in changes.items() if values
        ),
        "block, order": ", ".join(str(run[name]) for name in ("block", "order") if run[name] is not None),
        "seed": run["seed"],
        "start": _time_text(begun_s),
        "start in simulated time": _time_text(start_s) if is_simulated(run) else None,
        "duration": None if start_s is None or end_s is None else f"{end_s - start_s:.0f} s",
        "attempt": record.get("attempt"),
        "workers": workers,
        "git commit": series_facts.commit_text(run),
        "not collected": ", ".join(record.get("missing") or ()),
        "latencies": " ".join(words.clock_sentences([{"run_id": run["run_id"], **record}], latency)),
    }
    return [(name, str(value)) for name, value in values.items() if value not in (None, "")]


def _time_text(at_s: float | None) -> str | None:
    return None if at_s is None else f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _parameters(text: str | None) -> str:
    return ", ".join(f"{key} = {value}" for key, value in sorted(json.loads(text or "{}").items()))


def event_row(event: Mapping[str, Any], zero_s: float) -> Row:
    """Return the time, the kind and all other fields of the event's line."""

    def text(value: Any) -> str:
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, list):
            return ", ".join(map(str, value))
        return f"{value:g}" if isinstance(value, float) else str(value)

    fields = [(key, value) for key, value in event.items() if key not in ("t", "kind") and value not in (None, "", [])]
    details = "; ".join(f"{key.replace('_', ' ')} {text(value)}" for key, value in fields)
    return {"time_s": round(float(event["t"]) - zero_s, 3), "kind": event["kind"], "details": details}


def _placement_rows(settled: Sequence[Row]) -> list[Row]:
    """Return the executors of each machine before and after each event, in the order of events and machines."""
    executors: dict[tuple[str, str], dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for row in settled:
        if row["task"] == row["first_task"] and row["machine"]:
            executors[row["event_id"], row["machine"]][row["phase"]][row["component"]] += 1
    table = []
    for event, machine in sorted(executors, key=lambda place: (event_order(place[0]), len(place[1]), place[1])):
        before, after = (
            ", ".join(name if number == 1 else f"{name} × {number}" for name, number in sorted(counts.items()))
            for counts in (executors[event, machine][phase] for phase in ("before", "after"))
        )  # such as `centre × 2, sink_1`
        table.append({"event_id": event, "machine": machine, "before": before, "after": after,
                      "changed": before != after})  # fmt: skip
    return table


def failures(run: Row, events: Sequence[Mapping[str, Any]], damaged: Sequence[Row]) -> list[str]:
    """Return everything that went wrong, whether or not it had an effect."""
    lines = []
    if run["failure_message"]:
        blame = (run["failure_blame"] or "nobody").replace("_", " ")
        place = f", in {run['failure_where']}" if run["failure_where"] else ""
        lines.append(f"{run['status']}, blamed on {blame}{place}: {run['failure_message']}")
    elif run["status"] != "complete":
        lines.append(f"The run is {run['status']}; its record gives no reason.")
    for event in events:
        if event["kind"] in ("fallback", "scale_aborted") or (event["kind"] == "applied" and event.get("ok") is False):
            lines.append(f"{event['kind'].replace('_', ' ')}: {event.get('reason') or 'no reason recorded'}")
    for row in damaged:
        if row["damaged"]:
            lines.append(f"{row['damaged']} of {row['lines']} lines of {row['file']} could not be read")
        if row.get("missing"):
            lines.append(f"at least {row['missing']} lines are missing in {row['file']}, by the numbers of the others")
    return lines


def split_errors(
    groups: Sequence[ErrorGroup], events: Sequence[Mapping[str, Any]], zero_s: float
) -> tuple[list[Row], int]:
    """Return the errors while the topology ran, as rows, and the number of kinds seen only while it was being
    stopped."""
    killed_s = next((float(event["t"]) for event in events if event["kind"] == "topology_killed"), None)
    run_groups = [group for group in groups if killed_s is None or group.t_s is None or group.t_s < killed_s]
    timed = [replace(group, t_s=None if group.t_s is None else round(group.t_s - zero_s, 3)) for group in run_groups]
    return [{"time_s": row.pop("t_s"), **row} for row in map(asdict, timed)], len(groups) - len(run_groups)
