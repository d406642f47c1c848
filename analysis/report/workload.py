"""Sentences about the load of a series' runs, their buffers and machines, as far as the record says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from analysis.record.event_timeline import FIRST_EVENT
from analysis.record.files import SeriesPaths
from analysis.record.small_tables import Row
from analysis.record.topology_file import PARAMETERS_KEY, flux_config
from analysis.report.series_tables import Measurements
from topologies.work import BUFFER, UNBOUNDED


def sentences(
    paths: SeriesPaths, runs: Sequence[Row], measurements: Measurements, machines: Sequence[Row]
) -> list[str]:
    """Return how the runs were loaded."""
    configs = [config for run in runs if (config := flux_config(paths.run(run["run_id"])))]
    sentences = [
        _offered_load(configs, measurements),
        _capped_sinks(configs),
        _cost_model(configs),
        _buffer_sizes(configs),
        _machine_types(machines),
    ]
    return [sentence for sentence in sentences if sentence]


def _parameter_values(configs: Sequence[Mapping[str, Any]], parameter: str) -> str:
    values = {str(config.get(PARAMETERS_KEY, {}).get(parameter)) for config in configs}
    return " or ".join(sorted(values - {"None"}))


def _offered_load(configs: Sequence[Mapping[str, Any]], measurements: Measurements) -> str:
    due = [values["due_before"][0] for (_, event), values in measurements.items()
           if event == FIRST_EVENT and "due_before" in values]  # fmt: skip
    if not due:
        return ""
    if _parameter_values(configs, "unthrottled") == "True":
        return (
            "Offered load: spouts were not throttled. All together they emitted"
            f" {median(due):.0f} tuples/s before the first event (median over runs)."
        )
    rate = _parameter_values(configs, "rate_per_s")
    sentence = f"Offered load: {median(due):.0f} tuples/s over all spouts before the first event (median over runs)"
    sentence += f", {rate} tuples/s of each spout component." if rate else "."
    if not _parameter_values(configs, "cost_model"):
        return sentence
    return (
        f"{sentence} It is chosen above what the costliest component can do at first, so that there is congestion to"
        " cure."
    )


def _capped_sinks(configs: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence where it is OpenGov: what leaves its join does not follow what comes in."""
    if not _parameter_values(configs, "surge_days"):
        return ""
    return (
        "Throughput at the sink is capped: the join emits a company at most once a day, whatever comes in. How much the"
        " topology carries is what its spouts emit."
    )


def _cost_model(configs: Sequence[Mapping[str, Any]]) -> str:
    model, cost = _parameter_values(configs, "cost_model"), _parameter_values(configs, "ms_per_character")
    if not model:
        return ""
    words = {"sleep": "sleep (a tuple waits)", "busy": "busy (a tuple burns CPU)", "none": "none"}
    per = f" of {cost} ms a character of the tuple's text" if cost else ""
    return f"Cost model of the costly components: {words.get(model, model)}{per}."


def _buffer_sizes(configs: Sequence[Mapping[str, Any]]) -> str:
    sizes = {config[BUFFER] for config in configs if BUFFER in config}
    if not sizes:
        return ""
    lengths = [f"{size:,}".replace(",", "\u2009") for size in sorted(sizes - {UNBOUNDED})]
    texts = [f"{' or '.join(lengths)} tuples an executor"] * bool(lengths) + [UNBOUNDED] * (UNBOUNDED in sizes)
    sentence = f"Receive buffer: {' or '.join(texts)}"
    if not _parameter_values(configs, "cost_model"):
        return f"{sentence}."
    return (
        f"{sentence}, large enough that a queue grows during the whole run instead of Storm's back-pressure stopping"
        " the spouts, which would hide congestion from the policies."
    )


def _machine_types(machines: Sequence[Row]) -> str:
    kinds: dict[tuple[Any, ...], int] = {}
    for row in machines:
        key = (row["type"], row["cores"], row["memory_mb"], row["slots"], row["bandwidth_mbit"])
        kinds[key] = kinds.get(key, 0) + 1
    texts = [
        f"{number} of {kind or 'no named type'} with {cores:g} cores, {memory:.0f} MB, {slots} slots"
        + (f", {bandwidth:.0f} Mbit/s" if bandwidth else "")
        for (kind, cores, memory, slots, bandwidth), number in kinds.items()
        if None not in (cores, memory, slots)
    ]
    return f"Machines: {'; '.join(texts)} (the master not counted)." if texts else ""
