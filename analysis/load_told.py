"""How runs were loaded, in sentences: offered rate, cost model, buffers, machines; where runs differ, it is said."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import yaml

from analysis.event_ids import FIRST_EVENT
from analysis.record import SeriesPaths
from analysis.report_tables import Measured
from analysis.small_tables import Row

BUFFER = "topology.executor.receive.buffer.size"
PARAMETERS = "barograph.parameters"


def sentences(paths: SeriesPaths, runs: Sequence[Row], measured: Measured, machines: Sequence[Row]) -> list[str]:
    """Nothing is said that the record does not hold."""
    configs = [config for run in runs if (config := _config(paths, run["run_id"]))]
    told = [_offered(configs, measured), _cost(configs), _buffers(configs), _machines(machines)]
    return [sentence for sentence in told if sentence]


def _config(paths: SeriesPaths, run_id: str) -> Mapping[str, Any]:
    """`config` of the Flux file that the run was submitted with."""
    path = paths.run(run_id).root / "topology.yaml"
    if not path.is_file():
        return {}
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8")).get("config")
    except (yaml.YAMLError, AttributeError):
        return {}
    return config if isinstance(config, dict) else {}


def _values(configs: Sequence[Mapping[str, Any]], parameter: str) -> str:
    seen = {str(config.get(PARAMETERS, {}).get(parameter)) for config in configs}
    return " or ".join(sorted(seen - {"None"}))


def _offered(configs: Sequence[Mapping[str, Any]], measured: Measured) -> str:
    due = [values["due_before"][0] for (_, event), values in measured.items()
           if event == FIRST_EVENT and "due_before" in values]  # fmt: skip
    rate = _values(configs, "rate_per_s")
    if not due:
        return ""
    told = f"Offered load: {median(due):.0f} tuples/s over all spouts before the first event (median over runs)"
    told += f", {rate} tuples/s asked of each spout component" if rate else ""
    if _values(configs, "unthrottled") == "True":
        return told + "; spouts were not throttled, so the offered rate is what they managed to emit."
    return (
        told + ". It is chosen above what the costliest component can do at first, so that there is congestion to cure."
    )


def _cost(configs: Sequence[Mapping[str, Any]]) -> str:
    model, cost = _values(configs, "cost_model"), _values(configs, "ms_per_character")
    if not model:
        return ""
    words = {"sleep": "sleep (a tuple waits)", "busy": "busy (a tuple burns CPU)", "none": "none"}
    per = f" of {cost} ms a character of the tuple's text" if cost else ""
    return f"Cost model of the costly components: {words.get(model, model)}{per}."


def _buffers(configs: Sequence[Mapping[str, Any]]) -> str:
    sizes = sorted({config[BUFFER] for config in configs if BUFFER in config})
    if not sizes:
        return ""
    told = " or ".join(f"{size:,}".replace(",", "\u2009") for size in sizes)
    return (
        f"Receive buffer: {told} tuples an executor, large enough that a queue grows during the whole run instead of "
        "Storm's back-pressure stopping the spouts, which would hide congestion from the policies."
    )


def _machines(machines: Sequence[Row]) -> str:
    kinds: dict[tuple[Any, ...], int] = {}
    for row in machines:
        key = (row["type"], row["cores"], row["memory_mb"], row["slots"], row["bandwidth_mbit"])
        kinds[key] = kinds.get(key, 0) + 1
    told = [
        f"{number} of {kind or 'no named type'} with {cores:g} cores, {memory:.0f} MB, {slots} slots"
        + (f", {bandwidth:.0f} Mbit/s" if bandwidth else "")
        for (kind, cores, memory, slots, bandwidth), number in kinds.items()
        if None not in (cores, memory, slots)
    ]
    return f"Machines: {'; '.join(told)} (the master not counted)." if told else ""
