"""A page a run: timeline, events, decisions, placement, failures and first errors, from the series' small tables."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.metrics.definitions import RUN_TABLES, metric
from analysis.record import event_timeline, run_errors
from analysis.record.event_timeline import WHOLE_RUN, EventOutcome, event_id_of, event_order
from analysis.record.files import RunPaths, SeriesPaths
from analysis.record.run_errors import ErrorGroup, RunErrors
from analysis.record.simulated import date_s, is_simulated
from analysis.record.small_tables import HISTOGRAM, Row, by_run, rows, topologies, topology_suffix, topology_words
from analysis.record.topology_file import is_unthrottled
from analysis.report import latency_sentences, page, series_tables, simulated
from analysis.report.figures import run_timeline, style
from analysis.report.figures.catalogue import Figure, page_figure
from analysis.report.figures.run_timeline import RunData, Windows
from analysis.report.page import Download
from analysis.report.series_tables import Measurements
from barograph.plan.experiment import WHOLE_CLUSTER

TEMPLATE = "run.html.j2"
TABLES = (
    "throughput", "activity", "cpu_windows", "settled", "intervals", "damaged", "zeros", "scale_events", "latency",
    "topologies",
)  # fmt: skip
MOST_ROWS = 200  # rows of a table that can grow with the run; the files have all
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


@dataclass(frozen=True)
class Placement:
    """Where components' executors were before and after an event: machine, before, after, changed."""

    event_id: str
    label: str
    machines: tuple[tuple[str, str, str, bool], ...]


@dataclass(frozen=True)
class Section:
    """What is of one topology: of the only one (`name` is empty), of one of several, or of the cluster (`all`)."""

    name: str
    title: str
    figure: Figure | None
    measurements: list[tuple[str, list[tuple[str, str]]]]  # an event's values
    placements: list[Placement]

    @property
    def rows(self) -> list[tuple[str, list[str]]]:
        """The values of all events side by side, by metric."""
        headings = [metric(name).heading for table in RUN_TABLES.values() for name in table]
        by_event = [dict(values) for _, values in self.measurements]
        there = [heading for heading in headings if any(heading in values for values in by_event)]
        return [(heading, [values.get(heading, "–") for values in by_event]) for heading in there]


@dataclass(frozen=True)
class RunContent:
    run: Row
    variant: str
    facts: list[tuple[str, str]]
    figure: Figure | None  # of the only topology, or of all on one time axis
    sections: list[Section]
    events: list[Row]
    outcome_rows: list[Row]
    labels: dict[str, str]  # of the events, in words
    failures: list[str]
    errors: RunErrors
    during: list[Row]  # errors while the topology ran
    afterwards: int  # errors of daemons that were being stopped
    others: list[str]
    report: str
    tables: dict[str, list[Row]]  # the data behind what is shown

    @property
    def unsteady(self) -> bool:
        """Whether a value has the mark for it."""
        return any(
            series_tables.UNSTEADY in text
            for section in self.sections for _, values in section.measurements for _, text in values
        )  # fmt: skip


def write_all(paths: SeriesPaths, outcomes: Sequence[tuple[str, EventOutcome]]) -> None:
    """`runs/<run>/report.html` of every run. `outcomes`: of the events of each run, whose decision log is read once."""
    runs = sorted(rows(paths, "runs"), key=lambda run: (run["order"] is None, run["order"], run["run_id"]))
    split = {name: by_run(rows(paths, name, without=HISTOGRAM)) for name in TABLES}
    several = topologies(paths)
    measurements = {
        name: series_tables.measurements_by_event(rows(paths, "measurements", topology=name or None))
        for name in ((several[-1], *several[:-1]) if several else ("",))
    }
    names = [run["run_id"] for run in runs]
    outcomes_of: dict[str, list[EventOutcome]] = defaultdict(list)
    for run_id, outcome in outcomes:
        outcomes_of[run_id].append(outcome)
    for run in runs:
        tables = {name: split[name].get(run["run_id"], []) for name in TABLES}
        content = collect(paths, run, tables, outcomes_of[run["run_id"]], measurements, names)
        write(paths.run(run["run_id"]), content)


def write(run: RunPaths, content: RunContent) -> None:
    """The page; a file that is too large for it stands in `figures/` beside it."""
    groups = files(content)
    links = page.download_links(groups, "figures")
    for name, group in groups.items():
        page.write_downloads(
            run.root / "figures", [f for f, link in zip(group, links[name], strict=True) if link.beside]
        )
    page.write(run.root / "report.html", page.render(TEMPLATE, c=content, links=links, listed=MOST_ROWS))


def files(content: RunContent) -> dict[str, tuple[Download, ...]]:
    drawn = [content.figure, *(section.figure for section in content.sections if section.name)]
    figures = {figure.name: figure.files for figure in drawn if figure}
    return figures | {name: page.row_downloads(name, table) for name, table in content.tables.items()}


def collect(
    paths: SeriesPaths, run: Row, tables: Mapping[str, list[Row]], outcomes: Sequence[EventOutcome],
    measurements: Mapping[str, Measurements], all_runs: Sequence[str],
) -> RunContent:  # fmt: skip
    """`measurements`: of the only topology (named ""), or of the cluster and of each of several."""
    where = paths.run(run["run_id"])
    lines = event_timeline.read_timeline(where).events
    zero_s = (
        next((row["zero_s"] for row in tables["zeros"]), None)
        or event_timeline.first_zero(lines)
        or run["started_s"]
        or 0.0
    )
    datas = {name: run_data(where, _of_topology(tables, name)) for name in measurements}
    if "" in datas:
        drawing = run_timeline.draw(datas[""])
    else:
        drawing = run_timeline.draw_topologies([(topology_words(name), data) for name, data in datas.items()])
    errors = run_errors.errors_of_run(where)
    during, afterwards = split_errors(errors.groups, lines, zero_s)
    events = [event_row(event, zero_s) for event in lines]
    labels = {outcome.event_id: outcome.label for outcome in outcomes}
    sections = [
        _section(
            name,
            data,
            run_timeline.span_of([*datas.values()]),
            _of_topology(tables, name)["settled"],
            labels,
            measurements[name],
        )
        for name, data in datas.items()
    ]
    return RunContent(
        run=run,
        variant=style.display_name(run["variant"] or "?"),
        facts=facts(run, event_timeline.readable_document(where), tables["latency"], tables["topologies"], paths.root),
        figure=page_figure("timeline", f"{run['run_id']} over time", CAPTIONS["" in datas], drawing)
        if drawing
        else None,
        sections=sections,
        events=events,
        outcome_rows=[series_tables.outcome_row(run["run_id"], outcome) for outcome in outcomes],
        labels={event: f"{event}: {label}" for event, label in labels.items()},
        failures=failures(run, lines, tables["damaged"]),
        errors=errors,
        during=during,
        afterwards=afterwards,
        others=[other for other in all_runs if other != run["run_id"]],
        report="../../report.html",
        tables={
            "measurements": [
                _named(name, row) for name, of in measurements.items() for row in measurement_rows(run["run_id"], of)
            ],
            "decisions": series_tables.outcome_data([(run["run_id"], outcome) for outcome in outcomes]),
            "placements": [_named(s.name, row) for s in sections for row in placement_rows(s.placements)],
            "events": events,
            "errors": during,
        },
    )


def _of_topology(tables: Mapping[str, list[Row]], name: str) -> dict[str, list[Row]]:
    """Rows of one of several topologies; all, where there is only one."""
    return {
        table: [row for row in found if not name or "topology" not in row or row["topology"] == name]
        for table, found in tables.items()
    }


def _section(
    name: str, data: RunData, span: tuple[float, float], settled: Sequence[Row], labels: Mapping[str, str],
    measured: Measurements,
) -> Section:  # fmt: skip
    run_id = data.run_id
    drawing = run_timeline.draw(data, span) if name not in ("", WHOLE_CLUSTER) else None
    title = topology_words(name)
    figure = (
        page_figure(f"timeline{topology_suffix(name)}", f"{run_id} over time: {title}", CAPTION, drawing)
        if drawing
        else None
    )
    return Section(name, title, figure, measurement_tables(run_id, measured), placements(settled, labels))


def _named(topology: str, row: Row) -> Row:
    return {"topology": topology, **row} if topology else row


def run_data(run: RunPaths, tables: Mapping[str, list[Row]]) -> RunData:
    """On the run's own axis: that of its only event, or of the run as a whole where it has several."""
    axis = WHOLE_RUN if any(event_id_of(row) == WHOLE_RUN for row in tables["activity"]) else None
    whole = [row for row in tables["throughput"] if row["complete"] and row["rate"] is not None]
    complete = {row["window_s"] for row in whole}
    left_out = {"sink", "due"} if is_unthrottled(run) else {"sink"}
    activity = [
        row for row in tables["activity"] if (axis is None or event_id_of(row) == axis) and row["window_s"] in complete
    ]
    return RunData(
        run.run_id,
        _windows((row["scope"], row["window_s"], row["rate"]) for row in whole if row["scope"] not in left_out),
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
    """The steady parts, from each event's zero to the run's."""
    zero_s = next((row["zero_s"] for row in tables["zeros"]), 0.0)
    zeros = {row["event_id"]: row["zero_s"] - zero_s for row in tables["scale_events"]}
    steady = [(zeros.get(event_id_of(row), 0.0), row) for row in tables["intervals"] if row["steady"]]
    return tuple(sorted({(begin + row["start_s"], begin + row["end_s"]) for begin, row in steady}))


def facts(
    run: Row, record: Mapping[str, Any], latency: Sequence[Row], topologies: Sequence[Row], series_dir: Path
) -> list[tuple[str, str]]:
    """What the run was, in the order in which a reader asks."""
    start_s, end_s, begun_s = run["started_s"], run["ended_s"], date_s(run)
    values = {
        "simulated": simulated.sentence([run], series_dir),
        "policy": " ".join(part for part in (run["policy"], _parameters(run["parameters"])) if part),
        "topology differs": _topology_changes(record),
        "block, order": ", ".join(str(run[name]) for name in ("block", "order") if run[name] is not None),
        "seed": run["seed"],
        "start": _time_text(begun_s),
        "start in simulated time": _time_text(start_s) if is_simulated(run) else None,
        "duration": None if start_s is None or end_s is None else f"{end_s - start_s:.0f} s",
        "attempt": record.get("attempt"),
        "workers": _workers(run, topologies),
        "git commit": series_tables.commit_text(run),
        "not collected": ", ".join(record.get("missing") or ()),
        "latencies": " ".join(latency_sentences.run_sentences([{"run_id": run["run_id"], **record}], latency)),
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
    """`parameters: ms_per_character = 0.22`: in what the variant's topology differs from the experiment's."""
    changes = (record.get("variant") or {}).get("topology") or {}
    parts = [f"{key}: {_parameters(json.dumps(values))}" for key, values in changes.items() if values]
    return "; ".join(parts)


def _parameters(text: str | None) -> str:
    return ", ".join(f"{key} = {value}" for key, value in sorted(json.loads(text or "{}").items()))


def measurement_tables(
    run_id: str, measurements: series_tables.Measurements
) -> list[tuple[str, list[tuple[str, str]]]]:
    """By event: the values of the report's tables, with their headings."""
    columns = [metric(name) for table in RUN_TABLES.values() for name in table]
    events = sorted((event for run, event in measurements if run == run_id), key=event_order)
    return [
        (event, [(each.heading, series_tables.cell(measurements[run_id, event][each.name], each.digits))
                 for each in columns if each.name in measurements[run_id, event]])
        for event in events
    ]  # fmt: skip


def measurement_rows(run_id: str, measurements: Measurements) -> list[Row]:
    """All that was measured, also what no table of the report shows."""
    return [
        {"event_id": event, "metric": name, **found._asdict()}
        for (run, event), values in sorted(measurements.items())
        if run == run_id
        for name, found in sorted(values.items())
    ]


def event_row(event: Mapping[str, Any], zero_s: float) -> Row:
    """When, what, and everything else that the line says."""
    more = {key: value for key, value in event.items() if key not in TIME_AND_KIND and value not in (None, "", [])}
    details = "; ".join(f"{key.replace('_', ' ')} {_value_text(value)}" for key, value in more.items())
    return {"time_s": round(float(event["t"]) - zero_s, 3), "kind": event["kind"], "details": details}


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def placements(settled: Sequence[Row], labels: Mapping[str, str]) -> list[Placement]:
    """Executors by machine and component, before and after each event."""
    executors: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for row in settled:
        if row["task"] == row["first_task"] and row["machine"]:
            executors[row["event_id"], row["phase"], row["machine"]][row["component"]] += 1
    events = sorted({event for event, _, _ in executors}, key=event_order)
    return [Placement(event, labels.get(event, event), _machine_placements(executors, event)) for event in events]


def placement_rows(placement_list: Sequence[Placement]) -> list[Row]:
    return [
        {"event_id": placement.event_id, "machine": machine, "before": before, "after": after, "changed": changed}
        for placement in placement_list
        for machine, before, after, changed in placement.machines
    ]


def _machine_placements(
    executors: Mapping[tuple[str, str, str], Counter[str]], event: str
) -> tuple[tuple[str, str, str, bool], ...]:
    names = sorted({machine for of, _, machine in executors if of == event}, key=lambda name: (len(name), name))
    sides = [
        tuple(_executor_text(executors.get((event, phase, name), Counter())) for phase in ("before", "after"))
        for name in names
    ]
    return tuple((name, before, after, before != after) for name, (before, after) in zip(names, sides, strict=True))


def _executor_text(on_machine: Counter[str]) -> str:
    """`centre × 2, sink_1`."""
    return ", ".join(name if number == 1 else f"{name} × {number}" for name, number in sorted(on_machine.items()))


def failures(run: Row, events: Sequence[Mapping[str, Any]], damaged: Sequence[Row]) -> list[str]:
    """Everything that went wrong, whatever it led to."""
    lines = []
    if run["failure_message"]:
        blame = (run["failure_blame"] or "nobody").replace("_", " ")
        where = f", in {run['failure_where']}" if run["failure_where"] else ""
        lines.append(f"{run['status']}, blamed on {blame}{where}: {run['failure_message']}")
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
    """Errors while the topology ran, as rows; and how many kinds there were only while it was being stopped."""
    killed_s = next((float(event["t"]) for event in events if event["kind"] == "topology_killed"), None)
    during = [group for group in groups if killed_s is None or group.t_s is None or group.t_s < killed_s]
    shifted = [replace(group, t_s=None if group.t_s is None else round(group.t_s - zero_s, 3)) for group in during]
    return [{"time_s": row.pop("t_s"), **row} for row in map(asdict, shifted)], len(groups) - len(during)
