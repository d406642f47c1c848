"""A series that compares two codes -> its result. Pure, except for reading small tables.

The A/A floor takes differences from A/A comparisons on record too: the differences of the same code, on such machines,
in the same experiment.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from analysis.compare import latencies, sentence, verdict
from analysis.compare.blocks import MetricBlocks, PairRuns, metric_blocks, runs_of
from analysis.compare.question import QUESTION_FILE, Question, read_question
from analysis.compare.result import RUNS_FAILED, ComparisonResult, MetricKind, MetricRow
from analysis.compare.verdict import DifferencesOnRecord, block_differences
from analysis.errors import RecordError
from analysis.ingest.run_tables import failed_attempts
from analysis.metrics import untimed
from analysis.metrics.definitions import PRIMARY, PRIMARY_OF_LEVELS, place_words
from analysis.metrics.uncertainty import clock_errors, has_latency_level, measurement_errors
from analysis.record import small_tables
from analysis.record.files import SeriesPaths, read_json
from analysis.record.simulated import is_simulated
from analysis.record.small_tables import rows
from barograph.errors import BarographError, ConfigurationError
from barograph.plan.experiment import SIMULATED, WHOLE_CLUSTER
from scheduler_plugins.model import SINKS

MOST_SERIES_ON_RECORD = 20  # series that are read, the newest
ONE_OF_SEVERAL = "the question is about all topologies; `--topology NAME` asks about this one"
NEEDED = ("runs", "measurements", "machines")  # tables of an A/A comparison on record


def differences_on_record(series_dir: Path) -> tuple[DifferencesOnRecord, list[str]]:
    """Return `MetricBlocks.key` -> block differences of earlier series of this experiment that compared a code with
    itself, and the errors of those that cannot be read.

    Only with the same conditions, and never of the series itself: its own noise is in its own floor.
    """
    own_conditions = conditions(SeriesPaths(series_dir))
    differences_by_key: dict[tuple[str, ...], list[float]] = defaultdict(list)
    damages = []
    for folder in same_code_series(series_dir):
        paths = SeriesPaths(folder)
        try:
            small_tables.check(paths, NEEDED)
            if conditions(paths) != own_conditions:
                continue
            question, table = read_question(folder), rows(paths, "runs")
            blocks = series_blocks(paths, [runs_of(pair, table) for pair in question.pairs])
            for each in blocks:
                differences_by_key[each.key] += block_differences(each)
        except RecordError as error:
            damages.append(f"An A/A comparison on record is left out: {error}.")
    return dict(differences_by_key), damages


def same_code_series(series_dir: Path) -> list[Path]:
    folders = []
    for path in sorted(series_dir.parent.glob(f"*/{QUESTION_FILE}"), reverse=True):
        with suppress(BarographError):  # a series that cannot be read is not on record
            folders += [path.parent] if path.parent != series_dir and read_question(path.parent).same_code else []
    return folders[:MOST_SERIES_ON_RECORD]


def conditions(paths: SeriesPaths) -> tuple[Any, ...]:
    """Return what must be equal for two series to scatter alike: the testbed and its machines, as the runs had them,
    the topology, the length of the watch, and the measurements. A record that lacks one equals only records that lack
    it too."""
    runs = rows(paths, "runs")
    measured = tuple(sorted({run.get("measurement") or 1 for run in runs if run["status"] == "complete"}))
    machines = {tuple(row[column] for column in ("type", "cores", "memory_mb", "bandwidth_mbit", "slots"))
                for row in rows(paths, "machines")}  # fmt: skip
    facts = [json.loads(run.get("harness_facts") or "{}") for run in runs]  # the host, or how it was simulated
    hosts = {" ".join(str(each.get(key)) for key in ("cpu_model", "cpus", SIMULATED)) for each in facts}
    return _asked_for(paths), tuple(sorted(map(str, machines))), tuple(sorted(hosts)), measured


def _asked_for(paths: SeriesPaths) -> tuple[Any, ...]:
    """Return the testbed, the events, the durations, the policies and the topologies of the request."""
    try:
        spec = read_json(paths.series_json).get("spec", {})
    except BarographError:
        return ()
    testbed = {key: spec.get("testbed", {}).get(key) for key in ("name", "machine_type", "scale", "bandwidth_mbit")}
    variants = {json.dumps([variant.get(key) for key in ("policy", "parameters", "topology")], sort_keys=True)
                for variant in spec.get("variants", ())}  # fmt: skip
    return testbed, *(spec.get(key) for key in ("events", "durations", "topology", "topologies")), sorted(variants)


def compare(series_dir: Path | str, on_record: DifferencesOnRecord | None = None) -> ComparisonResult:
    """Return the answer for the blocks analysed so far.

    `on_record`: block differences of A/A comparisons on such machines; None: those beside this series are used.
    """
    root = Path(series_dir)
    question, paths = read_question(root), SeriesPaths(root)
    table = rows(paths, "runs")
    runs = [runs_of(pair, [*failed_attempts(paths), *table]) for pair in question.pairs]
    events = {row["event_id"]: row["kind"] for row in rows(paths, "scale_events") if row["kind"] != "none"}
    kinds, metrics = dict(sorted(events.items())), series_blocks(paths, runs, question.topology)
    if question.topology is None:
        metrics = of_cluster(metrics)
    if any(map(is_simulated, table)):
        return _answer_of_model(question, runs, metrics, kinds)
    differences, damages = differences_on_record(root) if on_record is None else (on_record, [])
    answer = evaluate(question, runs, metrics, kinds, differences)
    return replace(answer, notes=(*answer.notes, *damages))


def series_blocks(paths: SeriesPaths, runs: list[PairRuns], topology: str | None = None) -> list[MetricBlocks]:
    """Return the metrics of both sides, of each topology and the cluster if runs have several, or of one of these;
    latency after an event over the same seconds, although each run has other ones."""
    names = small_tables.topologies(paths)
    if topology is not None and names and topology not in names:
        raise ConfigurationError(
            f"{paths.root / QUESTION_FILE}: topology is {topology!r}; the runs have {', '.join(names)}. Ask again with "
            "`barograph compare … --topology NAME`."
        )
    on_record = any(row["metric"].startswith(untimed.UNTIMED) for row in rows(paths, "measurements"))
    clocks = clock_errors(paths)
    blocks: list[MetricBlocks] = []
    selection: tuple[str | None, ...] = names if topology is None else (topology,)
    for name in selection if names else (None,):
        read = partial(rows, paths, topology=name)
        # latencies of two topologies are of different tuples
        latency_blocks = [] if name == WHOLE_CLUSTER else latencies.latency_blocks(runs, read, clocks)
        latency_metrics = {*latencies.METRICS, *(each.metric for each in latency_blocks)}
        measurements = [row for row in read("measurements") if row["metric"] not in latency_metrics]
        errors = measurement_errors(read("losses"), measurements, clocks, read("topologies"))
        measured = metric_blocks(runs, measurements, errors, untimed_on_record=on_record,
                                 latency_level=has_latency_level(read("topologies")))  # fmt: skip
        places = [
            row["throughput"] for row in rows(paths, "topologies") if name in (None, WHOLE_CLUSTER, row["topology"])
        ]
        noun = f"throughput {place_words(places)}" if {*places} - {SINKS} else "throughput"
        blocks += [replace(each, topology=name or "", throughput=noun) for each in (*measured, *latency_blocks)]
    return blocks


def of_cluster(blocks: Sequence[MetricBlocks]) -> list[MetricBlocks]:
    """Return the metrics of runs with several topologies as they are asked about: those of the cluster are tested, its
    utility and attained service levels first where it has any; a test of every topology would find too little."""
    has_levels = any(each.metric in PRIMARY_OF_LEVELS for each in blocks if each.topology == WHOLE_CLUSTER)
    primary = PRIMARY_OF_LEVELS if has_levels else PRIMARY
    return [
        replace(each, primary=each.metric in primary) if each.topology == WHOLE_CLUSTER
        else replace(each, primary=False, why_no_verdict=each.why_no_verdict or ONE_OF_SEVERAL) if each.topology
        else each
        for each in blocks
    ]  # fmt: skip


def evaluate(question: Question, runs: list[PairRuns], found: Iterable[MetricBlocks], kinds: dict[str, str],
             on_record: DifferencesOnRecord) -> ComparisonResult:  # fmt: skip
    rows = _rows(runs, question, found, on_record)
    verdicts = [_with_note(row, question) for row in verdict.judge_rows(rows, runs, question.level)]
    is_certain, open_rows, reason = verdict.certainty(question, verdicts, runs)
    reasons = sentence.certainty_text(question, verdicts, is_certain, open_rows, reason, kinds)
    return ComparisonResult(
        question, tuple(verdicts), tuple(runs), sentence.sentence(question, verdicts, runs, kinds), is_certain, reasons,
        sentence.notes(question, runs), kinds,
    )  # fmt: skip


def _answer_of_model(
    question: Question, runs: list[PairRuns], found: Iterable[MetricBlocks], kinds: dict[str, str]
) -> ComparisonResult:
    """Return the model's value of each metric, the range over seeds, and no verdict (docs/decisions/claims.md).

    Both runs of a block have one seed, so two codes that decide alike give the same numbers, and otherwise the
    model's noise is the only scatter. Its size says nothing about the distance of the model from Storm.
    """
    rows = verdict.rows_of_model([_with_note(row, question) for row in _rows(runs, question, found, {})])
    is_certain = any(pair.whole for pair in runs)
    reason = (
        "all seeds are of one model, and more of them say no more about Storm" if is_certain else "no block is whole"
    )
    words = sentence.sentence(question, rows, runs, kinds, of_model=True)
    notes = sentence.notes(question, runs, of_model=True)
    return ComparisonResult(question, tuple(rows), tuple(runs), words, is_certain, reason, notes, kinds, simulated=True)


def _rows(
    runs: list[PairRuns], question: Question, found: Iterable[MetricBlocks], on_record: DifferencesOnRecord
) -> list[MetricRow]:
    """Return the rows in the order of the table, without verdicts."""
    return in_table_order([
        *(row for pair in runs if (row := verdict.failure_row(pair, question.goal_percent))),
        *(verdict.metric_row(each, question.level, question.goal_percent, on_record) for each in found),
    ])  # fmt: skip


def _with_note(row: MetricRow, question: Question) -> MetricRow:
    order = sentence.rank_text(row, question.a.label, question.b.label) if row.kind is MetricKind.RANK else ""
    texts = (order, row.note, sentence.small_text(row), sentence.unsteady_text(row))
    return replace(row, note="; ".join(text for text in texts if text))


def in_table_order(rows: list[MetricRow]) -> list[MetricRow]:
    """Sort primary ones first, pair by pair, in the order of PRIMARY; the others by event and name."""
    pairs = list(dict.fromkeys((row.pair, row.topology) for row in rows))
    names = [RUNS_FAILED, *PRIMARY_OF_LEVELS, *PRIMARY]

    def place(row: MetricRow) -> tuple[bool, int, str, int, str]:
        rank = names.index(row.metric) if row.metric in names else len(names)
        return (not row.primary, pairs.index((row.pair, row.topology)), row.event, rank, row.metric)

    return sorted(rows, key=place)
