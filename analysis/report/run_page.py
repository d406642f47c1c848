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

from analysis.metrics.definitions import RUN_TABLES, Metric, metric
from analysis.numerals import MISSING
from analysis.record import event_timeline, run_errors
from analysis.record.event_timeline import WHOLE_RUN, EventOutcome, event_id_of, event_order
from analysis.record.files import RunPaths, SeriesPaths
from analysis.record.run_errors import ErrorGroup
from analysis.record.simulated import date_s, is_simulated
from analysis.record.small_tables import HISTOGRAM, Row, by_run, rows, topologies, topology_suffix, topology_words
from analysis.record.topology_file import is_unthrottled
from analysis.report import page, series_facts, series_tables, words
from analysis.report.figures import run_timeline, style
from analysis.report.figures.catalogue import page_figure
from analysis.report.figures.run_timeline import RunData, Windows
from analysis.report.markup import badge, bold, code, joined, link
from analysis.report.page import Block, Definitions, Downloads, PageContent, Section, Sentence, Warnings
from analysis.report.series_tables import Measurements
from analysis.report.table import Heading, ResultTable, columns
from barograph.plan.experiment import WHOLE_CLUSTER

TABLES = (
    "throughput", "activity", "cpu_windows", "settled", "intervals", "damaged", "zeros", "scale_events", "latency",
    "topologies",
)  # fmt: skip
MOST_ROWS = 200  # rows of a table that can grow with the run; the files have all of them
TIME_AND_KIND = frozenset({"t", "kind"})
CAPTION = (
    "Upright lines are events, green bands the steady parts that count, triangles decisions that no event asked for. "
    "Queues are the mean number of tuples that wait at a component; of more than eight components the eight with the "
    "longest."
)
OF_TOPOLOGIES = (
    "Upright lines are events, green bands the steady parts that count, triangles decisions that no event asked for. "
    "A topology has no line before it arrived, and none after it departed. The uppermost panel is the sum."
)
CAPTIONS = {True: CAPTION, False: OF_TOPOLOGIES}  # of the only topology, of several


def write_all(paths: SeriesPaths, outcomes: Sequence[tuple[str, EventOutcome]]) -> None:
    """Write `runs/<run>/report.html` of every run. `outcomes`: of each run's events, so that decision logs are read
    once."""
    runs = sorted(rows(paths, "runs"), key=lambda run: (run["order"] is None, run["order"], run["run_id"]))
    tables_by_run = {name: by_run(rows(paths, name, without=HISTOGRAM)) for name in TABLES}
    topology_names = topologies(paths)
    measurements = {
        name: series_tables.measurements_by_event(rows(paths, "measurements", topology=name or None))
        for name in ((topology_names[-1], *topology_names[:-1]) if topology_names else ("",))
    }
    names = [run["run_id"] for run in runs]
    outcomes_of: dict[str, list[EventOutcome]] = defaultdict(list)
    for run_id, outcome in outcomes:
        outcomes_of[run_id].append(outcome)
    for run in runs:
        tables = {name: tables_by_run[name].get(run["run_id"], []) for name in TABLES}
        of_run = content(paths, run, tables, outcomes_of[run["run_id"]], measurements, names)
        page.save(paths.run(run["run_id"]).root / "report.html", of_run, only_large=True)


def content(
    paths: SeriesPaths, run: Row, tables: Mapping[str, list[Row]], outcomes: Sequence[EventOutcome],
    measurements: Mapping[str, Measurements], all_runs: Sequence[str],
) -> PageContent:  # fmt: skip
    """Return the page. `measurements`: of the only topology (named ""), or of the cluster and of each of several."""
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
    other_runs = joined(
        (link(other, f"../{quote(other)}/report.html", "run") for other in all_runs if other != run_id), ", "
    )
    record = event_timeline.readable_document(run_paths)
    run_facts = facts(run, record, tables["latency"], tables["topologies"], paths.root)
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
            *_measured(run_id, run_paths, tables, measurements, outcomes),
            Section("Decisions", _decisions(run_id, outcomes)),
            *_placed(tables, list(measurements), outcomes),
            Section("Events", _events([event_row(event, zero_s) for event in lines])),
            Section("Errors in logs", _errors(run_paths, lines, zero_s)),
            Section("Other runs of this series", [Sentence(other_runs or "None.")]),
        ],
    )  # fmt: skip


def _measured(
    run_id: str, where: RunPaths, tables: Mapping[str, list[Row]], measurements: Mapping[str, Measurements],
    outcomes: Sequence[EventOutcome],
) -> list[Section]:  # fmt: skip
    """Return the measurements over time and at each event, of all topologies and of each."""
    datas = {name: run_data(where, _of_topology(tables, name)) for name in measurements}
    if "" in datas:
        drawing = run_timeline.chart(datas[""])
    else:
        drawing = run_timeline.topologies_chart([(topology_words(name), data) for name, data in datas.items()])
    over_time: Block = Sentence("There is no whole window with a measurement at the sinks, so there is no figure.")
    if drawing:
        over_time = page_figure("timeline", f"{run_id} over time", CAPTIONS["" in datas], drawing)
    labels = {outcome.event_id: f"{outcome.event_id}: {outcome.label}" for outcome in outcomes}
    span, blocks, value_tables = run_timeline.span_of([*datas.values()]), list[Block](), list[ResultTable]()
    for name, data in datas.items():
        of_topology: list[Block] = []
        if name not in ("", WHOLE_CLUSTER) and (drawing := run_timeline.chart(data, span)):
            title = f"{run_id} over time: {topology_words(name)}"
            of_topology.append(page_figure(f"timeline{topology_suffix(name)}", title, CAPTION, drawing))
        if table := measurement_table(run_id, measurements[name], labels):
            value_tables.append(table)
            of_topology.append(table)
        else:
            subject = "it" if name else "the run"
            of_topology.append(Sentence(f"None: {subject} left no samples, or it was not analysed."))
        blocks += [Section(topology_words(name), of_topology, anchor=f"of-{name}")] if name else of_topology
    if series_tables.is_marked(value_tables):
        blocks.append(Sentence(words.NOT_STEADY_HERE, "small"))
    data_rows = [_named(name, row) for name, values in measurements.items() for row in measurement_rows(run_id, values)]
    return [
        Section("Over time", [over_time]),
        Section("Measurements", [*blocks, Downloads("measurements", data_rows)]),
    ]


def measurement_table(run_id: str, measurements: Measurements, labels: Mapping[str, str]) -> ResultTable | None:
    """Return the values of the report's tables, a row a metric and a column an event; None if there are none."""
    by_event = {
        event: measurements[run_id, event]
        for event in sorted((event for run, event in measurements if run == run_id), key=event_order)
    }
    if not by_event:
        return None
    metrics = [
        metric(name)
        for names in RUN_TABLES.values() for name in names
        if any(name in values for values in by_event.values())
    ]  # fmt: skip

    def value_at(event: str) -> Callable[[Metric], str]:
        return lambda each: series_tables.cell(by_event[event].get(each.name), each.digits)

    headings = [
        Heading("value" if len(by_event) == 1 else labels.get(event, event), value_at(event), css="n k")
        for event in by_event
    ]
    return ResultTable([Heading("metric", "heading"), *headings], metrics, css="narrow")


def _decisions(run_id: str, outcomes: Sequence[EventOutcome]) -> list[Block]:
    if not outcomes:
        return [Sentence("The run reached no event.")]
    of_run = [(run_id, outcome) for outcome in outcomes]
    return [series_tables.outcome_table(of_run, [Heading("event", lambda row: row[1].event_id)], "decisions")]


def _placed(tables: Mapping[str, list[Row]], names: Sequence[str], outcomes: Sequence[EventOutcome]) -> list[Section]:
    """Return where executors were placed; nothing if no round placed all tasks."""
    labels = {outcome.event_id: outcome.label for outcome in outcomes}
    after = Heading("executors after", lambda row: bold(row["after"] or MISSING) if row["changed"] else row["after"])
    headings = (*columns("machine /k; executors before = before"), after)
    blocks, data = list[Block](), list[Row]()
    for name in names:
        executor_rows = placement_rows(_of_topology(tables, name)["settled"])
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
        Heading("time (s)", "time_s", digits=1, css="n"),
        Heading("event", lambda row: row["kind"].replace("_", " "), css="k v"),
        Heading("details", "details"),
    )
    cut = f"The first {MOST_ROWS} of {len(events)}; the files have all."
    return [
        ResultTable(headings, events[:MOST_ROWS]),
        *([Sentence(cut, "small")] if len(events) > MOST_ROWS else []),
        Downloads("events", events),
    ]


def _errors(where: RunPaths, lines: Sequence[Mapping[str, Any]], zero_s: float) -> list[Block]:
    """Return the errors while the topology ran, and the number of kinds from daemons that were being stopped."""
    errors = run_errors.errors_of_run(where)
    error_rows, afterwards = split_errors(errors.groups, lines, zero_s)
    blocks: list[Block] = [Sentence("None while the topology ran.")]
    if not errors.has_logs:
        folder = code(f"runs/{where.run_id}/logs/")
        hint = ["There are no raw logs of this run here. Logs that were kept are in ", folder,
                " of the series, with the run's raw lines."]  # fmt: skip
        blocks = [Sentence(joined(hint))]
    elif error_rows:
        headings = (
            Heading("first at (s)", "time_s", digits=1, css="n"),
            Heading("line", lambda row: code(row["text"], "small"), css="wide v"),
            Heading("file of the first", lambda row: code(row["file"], "small")),
            Heading("times", "times", css="n"),
            Heading("files", "files", css="n"),
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


def run_data(run: RunPaths, tables: Mapping[str, list[Row]]) -> RunData:
    """Return a run's data on the run's own axis: that of its only event, or of the whole run if it has several."""
    axis = WHOLE_RUN if any(event_id_of(row) == WHOLE_RUN for row in tables["activity"]) else None
    full_rows = [row for row in tables["throughput"] if row["complete"] and row["rate"] is not None]
    complete = {row["window_s"] for row in full_rows}
    hidden = {"sink", "due"} if is_unthrottled(run) else {"sink"}
    activity = [
        row for row in tables["activity"] if (axis is None or event_id_of(row) == axis) and row["window_s"] in complete
    ]
    return RunData(
        run.run_id,
        _windows((row["scope"], row["window_s"], row["rate"]) for row in full_rows if row["scope"] not in hidden),
        _windows((row["component"], row["window_s"], row["queue"]) for row in activity if row["component"]),
        _windows((row["machine"], row["window_s"], row["utilisation_mean"]) for row in tables["cpu_windows"]),
        tuple(event_timeline.event_marks(run)),
        _steady_parts(tables),
        tuple(event_timeline.own_decisions(run)),
    )


def _windows(values: Iterable[tuple[str, float, float | None]]) -> dict[str, Windows]:
    lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for name, start, value in values:
        if value is not None:
            lines[name].append((start, value))
    return {name: sorted(line) for name, line in sorted(lines.items())}


def _steady_parts(tables: Mapping[str, list[Row]]) -> tuple[tuple[float, float], ...]:
    """Return the steady parts, shifted from each event's zero to the run's."""
    zero_s = next((row["zero_s"] for row in tables["zeros"]), 0.0)
    zeros = {row["event_id"]: row["zero_s"] - zero_s for row in tables["scale_events"]}
    steady = [(zeros.get(event_id_of(row), 0.0), row) for row in tables["intervals"] if row["steady"]]
    return tuple(sorted({(begin + row["start_s"], begin + row["end_s"]) for begin, row in steady}))


def facts(
    run: Row, record: Mapping[str, Any], latency: Sequence[Row], topologies: Sequence[Row], series_dir: Path
) -> list[tuple[str, str]]:
    """Return the facts of the run in reading order."""
    start_s, end_s, begun_s = run["started_s"], run["ended_s"], date_s(run)
    values = {
        "simulated": words.model_sentence([run], series_dir),
        "policy": " ".join(part for part in (run["policy"], _parameters(run["parameters"])) if part),
        "topology differs": _topology_changes(record),
        "block, order": ", ".join(str(run[name]) for name in ("block", "order") if run[name] is not None),
        "seed": run["seed"],
        "start": _time_text(begun_s),
        "start in simulated time": _time_text(start_s) if is_simulated(run) else None,
        "duration": None if start_s is None or end_s is None else f"{end_s - start_s:.0f} s",
        "attempt": record.get("attempt"),
        "workers": _workers(run, topologies),
        "git commit": series_facts.commit_text(run),
        "not collected": ", ".join(record.get("missing") or ()),
        "latencies": " ".join(words.clock_sentences([{"run_id": run["run_id"], **record}], latency)),
    }
    return [(name, str(value)) for name, value in values.items() if value not in (None, "")]


def _time_text(at_s: float | None) -> str | None:
    return None if at_s is None else f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _workers(run: Row, topologies: Sequence[Row]) -> str | int | None:
    if len(topologies) < 2:
        workers: int | None = run["workers"]
        return workers
    ordered = sorted(topologies, key=lambda row: int(row["position"]))
    return ", ".join(f"{row['topology']} {row['workers']}" for row in ordered if row["workers"] is not None)


def _topology_changes(record: Mapping[str, Any]) -> str:
    """Return `parameters: ms_per_character = 0.22`: how the variant's topology differs from the experiment's."""
    changes = (record.get("variant") or {}).get("topology") or {}
    parts = [f"{key}: {_parameters(json.dumps(values))}" for key, values in changes.items() if values]
    return "; ".join(parts)


def _parameters(text: str | None) -> str:
    return ", ".join(f"{key} = {value}" for key, value in sorted(json.loads(text or "{}").items()))


def measurement_rows(run_id: str, measurements: Measurements) -> list[Row]:
    """Return all measurements of the run, including those that no table of the report shows."""
    return [
        {"event_id": event, "metric": name, **measurement._asdict()}
        for (run, event), values in sorted(measurements.items())
        if run == run_id
        for name, measurement in sorted(values.items())
    ]


def event_row(event: Mapping[str, Any], zero_s: float) -> Row:
    """Return the time, the kind and all other fields of the event's line."""
    fields = {key: value for key, value in event.items() if key not in TIME_AND_KIND and value not in (None, "", [])}
    details = "; ".join(f"{key.replace('_', ' ')} {_value_text(value)}" for key, value in fields.items())
    return {"time_s": round(float(event["t"]) - zero_s, 3), "kind": event["kind"], "details": details}


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def placement_rows(settled: Sequence[Row]) -> list[Row]:
    """Return the executors of each machine before and after each event, in the order of events and machines."""
    executors: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for row in settled:
        if row["task"] == row["first_task"] and row["machine"]:
            executors[row["event_id"], row["machine"], row["phase"]][row["component"]] += 1
    places = sorted(
        {(event, machine) for event, machine, _ in executors},
        key=lambda place: (event_order(place[0]), len(place[1]), place[1]),
    )
    rows = []
    for event, machine in places:
        before, after = (
            _executor_text(executors.get((event, machine, phase), Counter())) for phase in ("before", "after")
        )
        rows.append({"event_id": event, "machine": machine, "before": before, "after": after,
                     "changed": before != after})  # fmt: skip
    return rows


def _executor_text(on_machine: Counter[str]) -> str:
    """Return text such as `centre × 2, sink_1`."""
    return ", ".join(name if number == 1 else f"{name} × {number}" for name, number in sorted(on_machine.items()))


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
