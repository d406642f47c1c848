"""Possible measurement errors of a run: of lost tuples by what one line moves, of latencies and utility by clocks."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from analysis.metrics import untimed
from analysis.record.clock_offsets import latency_error_ms
from analysis.record.event_timeline import event_id_of
from analysis.record.files import SeriesPaths, read_json_or_none
from analysis.record.simulated import is_simulated
from analysis.record.small_tables import Row, rows

UTILITY = "utility_"  # prefix of the names of its two sides
Key = tuple[str, str, str]  # run, metric, event
Errors = Mapping[Key, float | None]  # in the metric's unit; None: unknown
ClockErrors = Mapping[str, float | None]  # by run, ms


def has_latency_level(topologies: Iterable[Row]) -> bool:
    """Return whether utility is that of a latency: then tuples without one count as latency's do."""
    return any(row.get("latency_ms") is not None for row in topologies)


def clock_errors(paths: SeriesPaths) -> ClockErrors | None:
    """Return the possible error of each run's latencies; None for simulated runs, which have one clock."""
    if any(map(is_simulated, rows(paths, "runs"))):
        return None
    windows = defaultdict(list)
    for row in rows(paths, "latency", without=("buckets", "counts")):
        windows[row["run_id"]].append(row)
    documents = {run_id: read_json_or_none(paths.run(run_id).run_json) or {} for run_id in windows}
    return {run_id: latency_error_ms(documents[run_id], of_run) for run_id, of_run in windows.items()}


def utility_per_ms(topologies: Iterable[Row]) -> dict[str, float]:
    """Return by run by how much a millisecond of latency changes utility, at most; none without a level of latency.

    The attained share of a level L is L / mean, of which no millisecond above L takes more than 1 / L.
    """
    return {
        row["run_id"]: row["max_utility"] / row["latency_ms"] / (1 if row["juice"] is None else 2)
        for row in topologies if row.get("latency_ms") is not None
    }  # fmt: skip


def utility_error(utility: float, per_ms: float, error_ms: float | None) -> float | None:
    """Return the possible error by clocks. A utility of 0 has none: it is of silence, not of latencies."""
    if not utility:
        return 0.0
    return None if error_ms is None else per_ms * error_ms


def measurement_errors(
    losses: Iterable[Row], measurements: Sequence[Row], clocks: ClockErrors | None, topologies: Iterable[Row]
) -> Errors:
    """Return the errors of lost tuples, whether or not any is called lost, of latencies of steady parts, and of
    utility if it is that of a latency."""
    errors: dict[Key, float | None] = {}
    worth = utility_per_ms(topologies)
    for row in measurements:
        run_id, key = row["run_id"], (row["run_id"], row["metric"], event_id_of(row))
        if clocks is None or run_id not in clocks:
            continue
        if row["metric"].startswith(untimed.LATENCY):
            errors[key] = clocks[run_id]
        elif row["metric"].startswith(UTILITY) and run_id in worth:
            errors[key] = utility_error(row["value"], worth[run_id], clocks[run_id])
    tuples: dict[Key, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in losses:
        if row["phase"] in ("before", "after"):
            of_side = tuples[row["run_id"], row["phase"], event_id_of(row)]
            of_side[0] += row.get("uncertainty") or 0.0
            of_side[1] += row.get("sent") or 0.0
    for (run_id, phase, event), (uncertainty, sent) in tuples.items():
        errors[run_id, f"lost_{phase}", event] = uncertainty
        if phase == "after" and sent:
            errors[run_id, "lost_after_percent", event] = 100.0 * uncertainty / sent
    return errors
