"""Notes for readers of latencies: what the machines' clocks make of them, and which runs have no percentiles."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from analysis.metrics.untimed import MOST_UNTIMED_PERCENT
from analysis.numerals import number
from analysis.record import clock_offsets
from analysis.record.event_timeline import readable_document
from analysis.record.files import SeriesPaths
from analysis.record.small_tables import HISTOGRAM, Row, rows


def series_sentences(paths: SeriesPaths) -> list[str]:
    """Return the notes of a series' complete runs."""
    complete = [run["run_id"] for run in rows(paths, "runs") if run["status"] == "complete"]
    documents = [{"run_id": run_id, **readable_document(paths.run(run_id))} for run_id in complete]
    windows = rows(paths, "latency", without=HISTOGRAM)
    return [*run_sentences(documents, windows), *untimed_sentences(complete, rows(paths, "measurements"))]


def untimed_sentences(runs: Collection[str], measurements: Sequence[Row]) -> list[str]:
    """Which runs' latencies in a steady part are not those of all of its tuples."""
    several = len({row.get("topology") for row in measurements}) > 1
    many = {f"{row['run_id']} ({row['topology']})" if several else row["run_id"] for row in measurements
            if row["metric"].startswith("untimed_percent_") and row["value"] > MOST_UNTIMED_PERCENT
            and row["run_id"] in runs}  # fmt: skip
    names = ", ".join(sorted(many))
    return [] if not names else [
        f"Of {names} more than {MOST_UNTIMED_PERCENT:g} % of the tuples of a part that counts were never emitted, or "
        "waited at its end: its latencies are those of the other tuples only, so they get no verdict."
    ]  # fmt: skip


def run_sentences(documents: Sequence[Mapping[str, Any]], latency: Sequence[Row]) -> list[str]:
    """Return by how much clocks may make latencies wrong, which of them nobody knows, and which runs have no
    percentiles. `documents`: run.json of complete runs.
    """
    runs = {str(document["run_id"]): document for document in documents}
    windows = [row for row in latency if row["run_id"] in runs]
    sentences = []
    for taken_out, errors in _clock_errors(runs, windows).items():
        beside = "; what their clocks differed by is taken out" if taken_out else ""
        wrong = f"by their clocks they may be wrong by {number(max(errors), 2)} ms"
        sentences.append(f"Latencies are from one machine to another{beside}; {wrong}.")
    unknown = sorted(
        f"{name} ({run_id})"
        for run_id, document in runs.items()
        for name, offset in (document.get("clock_end_offset_ms") or {}).items()
        if offset is None
    )
    if unknown:
        sentences.append(f"Clocks that could not be asked after the run: {', '.join(unknown)}; it may be more there.")
    if older := sorted({row["run_id"] for row in windows if row.get("corrected") is None or row.get("p95_ms") is None}):
        sentences.append(
            f"No percentile of all tuples can be made of {', '.join(older)}: its lines have those of tasks' seconds."
        )
    return sentences


def _clock_errors(runs: Mapping[str, Mapping[str, Any]], windows: Sequence[Row]) -> dict[bool, list[float]]:
    """Return errors of runs in ms, by whether the clocks' differences are taken out of their latencies."""
    uncorrected = {row["run_id"] for row in windows if row.get("corrected") != row["n"]}
    corrected = {row["run_id"] for row in windows} - uncorrected
    errors: dict[bool, list[float]] = {}
    for run_id, document in runs.items():
        left = clock_offsets.corrected_error_ms(document) if run_id in corrected else None
        error = clock_offsets.measured_error_ms(document) if left is None else left
        if error is not None:
            errors.setdefault(left is not None, []).append(error)
    return errors
