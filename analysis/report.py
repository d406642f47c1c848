"""One self-contained HTML page a series: claims, figures, runs, losses, and the environment of the measurement."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from analysis import claims, figures, tables
from analysis.claims import LedgerRow
from analysis.figures import series, style
from analysis.figures.build import Figure
from analysis.record import SeriesPaths, write_json_atomic

TEMPLATES = Path(__file__).parent / "templates"
TEMPLATE = "report.html.j2"
Row = dict[str, Any]

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
}


@dataclass(frozen=True)
class Content:
    """What the template shows; every list is bounded by runs, machines or claims."""

    title: str
    experiment: str
    series_id: str
    headlines: list[str]
    ledger: list[Row]
    figures: list[Figure]
    run_tables: list[tuple[str, list[str], list[list[str]]]]
    runs: list[Row]
    steady: list[Row]
    losses: list[Row]
    damaged: list[Row]
    files_read: int
    lines_read: int
    machines: list[Row]
    environment: list[tuple[str, str]]
    assumptions: list[tuple[str, str]]
    glossary: list[tuple[str, str]]


def build(spark: SparkSession, series_dir: Path | str) -> Path:
    """Write figures, claims.json and report.html of a series; returns the report's path."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    paths = SeriesPaths(Path(series_dir))
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    content = collect(spark, paths)
    write_json_atomic(paths.root / "claims.json", {"v": 1, "claims": content.ledger})
    paths.report.write_text(environment.get_template(TEMPLATE).render(c=content), encoding="utf-8")
    return paths.report


def collect(spark: SparkSession, paths: SeriesPaths) -> Content:
    runs = rows_of(tables.read(spark, paths, "runs").orderBy(f.asc_nulls_last("order"), "run_id"))
    measured = measured_by_run(tables.read(spark, paths, "measurements"))
    experiment = next((run["experiment"] for run in runs if run["experiment"]), paths.root.parent.name)
    rows = claims.evaluate(spark, [paths.root])
    tested = [row for row in rows if row.claim.experiment == experiment]
    elsewhere = [row for row in rows if row.claim.experiment != experiment]
    counted = rows_of(tables.read(spark, paths, "damaged").orderBy("run_id", "file"))
    return Content(
        title=experiment,
        experiment=experiment,
        series_id=next((run["series_id"] for run in runs if run["series_id"]), paths.root.name),
        headlines=[headline(row) for row in tested],
        ledger=[ledger_row(row) for row in tested + elsewhere],
        figures=figures.build(series.collect(paths), paths),
        run_tables=[run_table(title, columns, runs, measured) for title, columns in RUN_TABLES.items()],
        runs=[run_row(run) for run in runs],
        steady=steady_rows(rows_of(tables.read(spark, paths, "intervals").orderBy("run_id", f.desc("phase")))),
        losses=rows_of(edge_losses(tables.read(spark, paths, "losses"))),
        damaged=[row for row in counted if row["damaged"]],
        files_read=len(counted),
        lines_read=sum(row["lines"] for row in counted),
        machines=rows_of(machine_facts(tables.read(spark, paths, "machines"))),
        environment=fingerprint(runs),
        assumptions=assumptions(runs),
        glossary=glossary(),
    )


def rows_of(frame: DataFrame) -> list[Row]:
    return [row.asDict() for row in frame.collect()]


def measured_by_run(measurements: DataFrame) -> dict[str, dict[str, tuple[float, bool]]]:
    measured: dict[str, dict[str, tuple[float, bool]]] = {}
    for row in measurements.collect():
        measured.setdefault(row.run_id, {})[row.metric] = (row.value, row.censored)
    return measured


# --- claims ----------------------------------------------------------------------------------------------------------


def quantity(value: float | None, unit: str, signed: bool = False) -> str:
    """A number with its unit; an open end of an interval is an infinity sign."""
    if value is None:
        return "–"
    if not isfinite(value):
        return "∞" if value == inf else "−∞"
    digits = 0 if value == int(value) else 1
    text = f"{value:{'+' if signed else ''}.{digits}f}".replace("-", "−")
    return f"{text}\u00a0%" if unit == "%" else f"{text}\u00a0{unit}"


def interval(row: LedgerRow) -> str:
    if row.low is None or row.high is None:
        return "–"
    signed = row.claim.unit == "%"
    low, high = (quantity(end, "", signed).strip("\u00a0") for end in (row.low, row.high))
    return low if low == high else f"{low} to {high}"


def stated(row: LedgerRow) -> str:
    """What the source states, in the form in which the claim is compared."""
    signed = row.claim.unit == "%"
    words = {"ratio_above": "longer (>\u00a00\u00a0%)", "own_at_most": "no gain (≤\u00a00\u00a0%)"}
    return words.get(row.claim.kind.value, quantity(row.claim.stated, row.claim.unit, signed and row.claim.stated != 0))


def headline(row: LedgerRow) -> str:
    """One sentence a claim: what is stated, what was measured, and the verdict."""
    claim = row.claim
    if row.measured is None:
        return f"{claim.name}: not run. {row.reason[0].upper()}{row.reason[1:]}."
    signed = claim.unit == "%"
    found = quantity(row.measured, claim.unit, signed)
    within = f" [{interval(row)}]" if row.low not in (None, row.high) else ""
    numbers = f"stated {stated(row)}, measured {found}{within}"
    return f"{claim.name}: {row.verdict_text}. {claim.statement}: {numbers}; {row.reason}."


def ledger_row(row: LedgerRow) -> Row:
    """A row for the table and for claims.json."""
    signed = row.claim.unit == "%"
    finite = [end if end is not None and isfinite(end) else None for end in (row.low, row.high)]
    return {
        "id": row.claim.name,
        "experiment": row.claim.experiment,
        "source": row.claim.source,
        "statement": row.claim.statement,
        "stated": row.claim.stated,
        "stated_text": stated(row),
        "measured": row.measured,
        "measured_text": quantity(row.measured, row.claim.unit, signed),
        "low": finite[0],
        "high": finite[1],
        "interval_text": interval(row),
        "runs": row.runs,
        "verdict": row.verdict,
        "verdict_text": row.verdict_text,
        "reason": row.reason,
        "p_holm": row.p_holm,
        "cliffs_delta": row.cliffs_delta,
        "floor_percent": row.floor_percent,
        "run_ids": list(row.run_ids),
    }


# --- tables ----------------------------------------------------------------------------------------------------------


def run_table(
    title: str,
    columns: dict[str, tuple[str, int]],
    runs: Sequence[Row],
    measured: dict[str, dict[str, tuple[float, bool]]],
) -> tuple[str, list[str], list[list[str]]]:
    """Title, headings and a row of text a run, in the order of `runs`; a censored time is a lower bound."""
    cells = [
        [_cell(measured.get(run["run_id"], {}).get(metric), digits) for metric, (_, digits) in columns.items()]
        for run in runs
    ]
    return title, [heading for heading, _ in columns.values()], cells


def run_row(run: Row) -> Row:
    """A run's name, status and, where it does not count, why."""
    failure = ": ".join(part for part in (run["failure_blame"], run["failure_message"]) if part)
    return {
        "run_id": run["run_id"],
        "variant": style.named(run["variant"] or "?"),
        "block": run["block"],
        "status": run["status"],
        "counts": run["status"] == "complete",
        "why": failure,
    }


def _cell(value: tuple[float, bool] | None, digits: int) -> str:
    if value is None:
        return "–"
    return f"{'> ' if value[1] else ''}{value[0]:,.{digits}f}".replace("-", "−").replace(",", "\u2009")


def steady_rows(intervals: Sequence[Row]) -> list[Row]:
    return [
        row
        | {
            "used": f"{row['start_s']:.0f} to {row['end_s']:.0f} s".replace("-", "−"),
            "live": "–" if row["live_steady"] is None else "steady" if row["live_steady"] else "not steady",
        }
        for row in intervals
    ]


def edge_losses(losses: DataFrame) -> DataFrame:
    """One row a run, side and edge, in reading order."""
    return losses.select("run_id", "phase", "source", "stream", "target", "sent", "executed", "queued", "lost").orderBy(
        "run_id", f.desc("phase"), "source", "stream", "target"
    )


def machine_facts(machines: DataFrame) -> DataFrame:
    """Machines as they were described by the runs: one row a machine and description."""
    return (
        machines.groupBy("machine", "type", "cores", "memory_mb", "bandwidth_mbit", "slots", "joins_at_scale")
        .agg(f.count("*").alias("runs"), f.max(f.abs("clock_offset_ms")).alias("clock_offset_ms"))
        .select("machine", "type", "cores", "memory_mb", "bandwidth_mbit", "slots", "joins_at_scale", "runs",
                "clock_offset_ms")
        .orderBy("machine")
    )  # fmt: skip


def fingerprint(runs: Sequence[Row]) -> list[tuple[str, str]]:
    """Versions, commit, seeds and facts of the box; more than one value means that the runs differ in it."""
    facts: list[tuple[str, str]] = [
        ("git commit", _values(runs, _commit)),
        ("seeds", _values(runs, lambda run: run["seed"])),
    ]
    for column in ("versions", "harness_facts"):
        dictionaries = [_flat(json.loads(run[column] or "{}")) for run in runs]
        for key in sorted({key for facts_ in dictionaries for key in facts_}):
            seen = sorted({facts_[key] for facts_ in dictionaries if key in facts_})
            facts.append((key.replace("_", " "), " | ".join(seen)))
    return facts


def assumptions(runs: Sequence[Row]) -> list[tuple[str, str]]:
    """The resolved specification of the runs (cost models, rates, buffers, durations), flattened."""
    specs = [_flat(json.loads(run["spec"] or "{}")) for run in runs]
    keys = sorted({key for spec in specs for key in spec})
    return [(key, " | ".join(sorted({spec[key] for spec in specs if key in spec}))) for key in keys]


def _commit(run: Row) -> str | None:
    return None if run["git_commit"] is None else run["git_commit"][:12] + (" + changes" if run["git_dirty"] else "")


def _values(runs: Sequence[Row], of: Any) -> str:
    seen = sorted({str(of(run)) for run in runs if of(run) is not None})
    return " | ".join(seen) if seen else "not recorded"


def _flat(value: Any, prefix: str = "") -> dict[str, str]:
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
        flat |= _flat(inner, key)
    return flat


def glossary() -> list[tuple[str, str]]:
    """The words of the report's columns."""
    entries = yaml.safe_load((TEMPLATES / "words.yaml").read_text(encoding="utf-8"))
    return [(entry["word"], entry["means"]) for entry in entries]
