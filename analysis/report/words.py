"""Sentences of pages: repeated notes, terms, the load of the runs, latencies, and how far simulated runs can be
trusted. The lines after the first one of a sentence are folded on pages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from analysis.calibration import validation
from analysis.errors import RecordError
from analysis.metrics import uncertainty
from analysis.metrics.definitions import place_words
from analysis.metrics.untimed import MOST_UNTIMED_PERCENT
from analysis.numerals import number
from analysis.record.event_timeline import FIRST_EVENT
from analysis.record.files import PARAMETERS_KEY, SeriesPaths, flux_config, run_document
from analysis.record.simulated import simulated_facts
from analysis.record.small_tables import HISTOGRAM, Row, rows
from analysis.report.series_facts import flatten
from analysis.report.series_tables import Measurements
from scheduler_plugins.model import SINKS
from topologies.work import BUFFER, QUEUE_LIMIT, UNBOUNDED, queue_length

SIMULATOR_PAGE = "docs/simulator.md"
TERMS = Path(__file__).parent / "templates" / "terms.yaml"

GRAPH_CAPTION = (
    "Executors and tasks are those at the start of the runs. Coloured text is what a variant changed at the first"
    " event. A yellow component was congested at that moment in most runs (input rate over processing rate above 1.2,"
    " Stela's test, SP II-C); the number is the median of that ratio over the runs."
)
DECISIONS_NOTE = (
    "Executors of each component before → after the event, or how many of them moved to another slot. Runs with the"
    " same decision share a row."
)
NOTHING_TO_DRAW = "No complete run had an event: there is nothing to draw."
NOT_STEADY = (
    "† That side of the event (of a gain: one of them) was not steady: the value is of what stands for its steady"
    ' part, and counts in claims and figures. See "Steady state".'
)
LOSSES_NOTE = (
    "Tuples on each edge, before and after the event. The last column says by how much the number of lost tuples may"
    " be wrong: one second at the edge's rate. A smaller number is no loss that was seen, and stands as 0."
)
BOOTS_NOTE = (
    "Times after an event count from its scale request, which is sent after the machines have booted. No time in this"
    " report includes a boot."
)
ABLATION_NOTE = (
    "Each variant of Stela's rule decides again on what the runs observed at the event. Decisions are compared by"
    " executors, slots and machines. What another decision would have led to was not measured."
)
ASSUMPTIONS_NOTE = (
    "The specification of the runs with every default filled in: rates, cost models, buffers, durations. Where runs"
    " differ, a vertical bar separates the values."
)
NOT_STEADY_HERE = (
    "† That side of the event (of a gain: one of them) was not steady: the value is of what stands for its steady part."
)
PLACEMENT_NOTE = (
    "The last scheduling round before and after the event in which every task had a slot. Bold: different after the"
    " event."
)
ERRORS_NOTE = (
    "Errors while the topology ran, oldest first. Lines that differ only in numbers count as one. Storm logs some of"
    " them whenever a worker restarts."
)
SIMULATOR_ERROR = (
    ": as it was recorded, as it is simulated, and the difference, which is the simulator's error on this very run (in"
    " percent of the recorded value, or in the column's unit). With another decision the error may be another, so no"
    " number is corrected by it"
)
OUTCOMES_NOTE = (
    "infrastructure: a machine or the network failed, outside the plan. deadline: not started, or ended early, because"
    " the night was over. failed: Storm or a policy failed, which is a result."
)
NIGHT_DIFFERENCES_NOTE = (
    "The median of this night's repetitions beside the median of the last seven nights on the same machines, and how"
    " many standard deviations from night to night that is (∞: those nights had no scatter). Beyond two is unusual"
    " where the difference is worth naming for the metric, and with hundreds of series some always are: a single night"
    " is no regression."
)
CHARTS_NOTE = (
    "The line is the median of a night's repetitions, the band reaches from the lowest to the highest. A hollow dot is"
    " a night with runs that were not steady. An arrow upwards is a night without a value because half of its runs or"
    " more never got there: it begins at how long they were watched. Ticks at the bottom are nights without a value."
    " Point at a night, touch it or use the arrow keys to see its value, or why there is none."
)
FACTS = "Facts: neither direction is better, so nothing is judged"
VERDICT_MARKS = (
    ("met", "met"),
    ("partly-met", "partly met: goes the way that is stated, but not as far, or farther"),
    ("unmet", "unmet"),
)
VERDICT_LEGEND = (
    "pale: an indication, of fewer than six blocks or not sure among all claims of its experiment; chance alone may"
    " change it",
    "grey: too few runs for a verdict, or not testable here",
    "empty: not run",
)
NIGHT_TERMS = (
    ("line", "the median of a night's repetitions, each small line on its own scale; at most the last {nights} nights"),
    (
        "arrow upwards",
        "half of the night's runs or more never got there; it begins at how long they were watched, which is no value",
    ),
    ("gap", "a night without a value, with a tick below; nothing is filled in. The experiment's page says why"),
    ("dashed upright", "other machines begin; what lies on the two sides is not compared"),
    (
        "upright in colour",
        "a change: orange for the worse, green for the better, dotted while it is only suspected, pale when it is past"
        " or accepted",
    ),
    ("confirmed", "the first bad night and two more lie on the bad side; one bad night, or two, are a suspicion"),
    (
        "A/A floor",
        "twice the standard error of such a difference between nights of the same commit; a smaller one is not"
        " reported",
    ),
    ("first bad commit", "after the last good night's commit, up to the first bad night's"),
)


def glossary(page: str, *, of_model: bool) -> list[tuple[str, str]]:
    """Return the terms of a page, `report` or `comparison`. Simulated runs have no verdicts to explain."""
    terms = yaml.safe_load(TERMS.read_text(encoding="utf-8"))
    further_terms = terms.get(f"{page}_{'simulated' if of_model else 'measured'}", {})
    return [*terms[page].items(), *further_terms.items()]


def workload_sentences(
    paths: SeriesPaths, runs: Sequence[Row], measurements: Measurements, machines: Sequence[Row]
) -> list[str]:
    """Return how the runs were loaded."""
    configs = [config for run in runs if (config := flux_config(paths.run(run["run_id"])))]

    def values_of(parameter: str) -> str:
        values = {str(config.get(PARAMETERS_KEY, {}).get(parameter)) for config in configs}
        return " or ".join(sorted(values - {"None"}))

    sentences = []
    rates = [values["due_before"][0] for (_, event), values in measurements.items()
           if event == FIRST_EVENT and "due_before" in values]  # fmt: skip
    model, rate, cost = (values_of(name) for name in ("cost_model", "rate_per_s", "ms_per_character"))
    if rates and values_of("unthrottled") == "True":
        sentences.append(
            "Offered load: spouts were not throttled. All together they emitted"
            f" {median(rates):.0f} tuples/s before the first event (median over runs)."
        )
    elif rates:
        congestion = (
            " It is chosen above what the costliest component can do at first, so that there is congestion to cure."
        )
        sentences.append(
            f"Offered load: {median(rates):.0f} tuples/s over all spouts before the first event (median over runs)"
            + (f", {rate} tuples/s of each spout component." if rate else ".") + congestion * bool(model)
        )  # fmt: skip
    places = {row["throughput"] for row in rows(paths, "topologies")}
    if places - {SINKS}:
        sentences.append(f"Throughput is measured {place_words(sorted(places))}.")
    if model:
        name = {"sleep": "sleep (a tuple waits)", "busy": "busy (a tuple burns CPU)"}.get(model, model)
        per = f" of {cost} ms a character of the tuple's text" if cost else ""
        sentences.append(f"Cost model of the costly components: {name}{per}.")
    if sizes := {queue_length(config[BUFFER]) for config in configs if BUFFER in config}:
        lengths = [f"{size:,.0f}".replace(",", "\u2009") for size in sorted(sizes - {math.inf})]
        texts = [f"{' or '.join(lengths)} tuples an executor"] * bool(lengths) + [UNBOUNDED] * (math.inf in sizes)
        reason = (
            ", large enough that a queue grows during the whole run instead of Storm's back-pressure stopping the"
            " spouts, which would hide congestion from the policies"
        )
        sentences.append(f"Receive buffer: {' or '.join(texts)}{reason * bool(model)}.")
    if limits := sorted({config[QUEUE_LIMIT] for config in configs if QUEUE_LIMIT in config}):
        most = " or ".join(map(str, limits))
        sentences.append(f"Of more than {most} tuples in the queue of a bolt's executor the oldest are dropped.")
    kinds = Counter((row["type"], row["cores"], row["memory_mb"], row["slots"], row["bandwidth_mbit"])
                    for row in machines)  # fmt: skip
    texts = [
        f"{number} of {kind or 'no named type'} with {cores:g} cores, {memory:.0f} MB, {slots} slots"
        + (f", {bandwidth:.0f} Mbit/s" if bandwidth else "")
        for (kind, cores, memory, slots, bandwidth), number in kinds.items()
        if None not in (cores, memory, slots)
    ]
    return sentences + [f"Machines: {'; '.join(texts)} (the master not counted)."] * bool(texts)


def latency_sentences(paths: SeriesPaths) -> list[str]:
    """Return the notes of a series' complete runs."""
    complete = [run["run_id"] for run in rows(paths, "runs") if run["status"] == "complete"]
    documents = [{"run_id": run_id, **run_document(paths.run(run_id))} for run_id in complete]
    windows = rows(paths, "latency", without=HISTOGRAM)
    return [*clock_sentences(documents, windows), *untimed_sentences(complete, rows(paths, "measurements"))]


def untimed_sentences(runs: Collection[str], measurements: Sequence[Row]) -> list[str]:
    """Return a sentence about runs whose latencies in a steady part lack some of its tuples."""
    shows_topology = len({row.get("topology") for row in measurements}) > 1
    labels = {f"{row['run_id']} ({row['topology']})" if shows_topology else row["run_id"] for row in measurements
            if row["metric"].startswith("untimed_percent_") and row["value"] > MOST_UNTIMED_PERCENT
            and row["run_id"] in runs}  # fmt: skip
    names = ", ".join(sorted(labels))
    return [] if not names else [
        f"Of {names} more than {MOST_UNTIMED_PERCENT:g} % of the tuples of a part that counts were never emitted, or "
        "waited at its end: its latencies are those of the other tuples only, so they get no verdict."
    ]  # fmt: skip


def clock_sentences(documents: Sequence[Mapping[str, Any]], latency: Sequence[Row]) -> list[str]:
    """Return by how much clocks may falsify latencies, which clocks are unknown, and which runs have no percentiles.
    `documents`: run.json of complete runs.
    """
    runs = {str(document["run_id"]): document for document in documents}
    windows = [row for row in latency if row["run_id"] in runs]
    uncorrected_runs = {row["run_id"] for row in windows if row.get("corrected") != row["n"]}
    corrected_runs = {row["run_id"] for row in windows} - uncorrected_runs
    errors_ms: dict[bool, list[float]] = {}  # by whether the clocks' differences are corrected in a run's latencies
    for run_id, document in runs.items():
        remainder_ms = uncertainty.corrected_error_ms(document) if run_id in corrected_runs else None
        error_ms = uncertainty.measured_error_ms(document) if remainder_ms is None else remainder_ms
        if error_ms is not None:
            errors_ms.setdefault(remainder_ms is not None, []).append(error_ms)
    sentences = []
    for taken_out, errors in errors_ms.items():
        correction = "; what their clocks differed by is taken out" if taken_out else ""
        bound = f"by their clocks they may be wrong by {number(max(errors), 2)} ms"
        sentences.append(f"Latencies are from one machine to another{correction}; {bound}.")
    names = sorted(
        f"{name} ({run_id})"
        for run_id, document in runs.items()
        for name, offset in (document.get("clock_end_offset_ms") or {}).items()
        if offset is None
    )
    if names:
        sentences.append(f"Clocks that could not be asked after the run: {', '.join(names)}; it may be more there.")
    if gaps := sorted({row["run_id"] for row in windows if row.get("corrected") is None or row.get("p95_ms") is None}):
        sentences.append(
            f"No percentile of all tuples can be made of {', '.join(gaps)}: its lines have those of tasks' seconds."
        )
    return sentences


def model_sentence(runs: Sequence[Row], *series_dirs: Path) -> str:
    """Return the sentence of a report; empty if no run was simulated. `series_dirs`: of the runs; their calibrations
    and the shipped ones count."""
    facts = [each for each in map(simulated_facts, runs) if each is not None]
    if not facts:
        return ""
    all_or_some = "" if len(facts) == len(runs) else f" ({len(facts)} of the {len(runs)} runs)"
    costs = _settings([each.get("costs", {}) for each in facts])
    settings = _settings(
        [{key: value for key, value in each.items() if key not in ("costs", "model")} for each in facts]
    )
    folders = dict.fromkeys(folder for each in series_dirs for folder in validation.folders_beside(each))
    trust = " ".join(validation.sentences(runs, folders))
    return (
        f"Simulated, not measured{all_or_some}: no machine and no Storm ran. {trust} What lies outside of what was"
        f" validated is a model's answer ({SIMULATOR_PAGE}).\nWhat Storm is taken to cost: {costs}."
        f" Settings: {settings}."
    )


def model_sentence_of_series(series_dirs: Iterable[Path]) -> str:
    """Return `model_sentence` for the simulated runs of analysed series, and which series cannot be read; empty if
    there are none."""
    folders = list(dict.fromkeys(series_dirs))
    runs: list[Row] = []
    damages = []
    for folder in folders:
        try:
            runs += rows(SeriesPaths(folder), "runs")
        except RecordError as error:
            damages.append(f"Nothing is said of a series: {error}.")
    sentence = model_sentence([run for run in runs if simulated_facts(run) is not None], *folders)
    first, line_end, second = sentence.partition("\n")
    return " ".join(filter(None, (first, *damages))) + line_end + second


def _settings(facts: Sequence[object]) -> str:
    """Return `receive_ms 0.02, …`; several values if runs differ."""
    flat = [flatten(each) for each in facts]
    keys = list(dict.fromkeys(key for each in flat for key in each))
    return ", ".join(f"{key} {' or '.join(sorted({each[key] for each in flat if key in each}))}" for key in keys)
