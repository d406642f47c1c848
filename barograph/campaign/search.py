"""A search on disk and in words: the numbers of its points from their runs, the judgement of a value, and the result in
`sweep.json`, where the page and the ledger read it. Its points on machines are series, to which `points/` has links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any

from analysis import session
from analysis.metrics.definitions import METRICS, RUN_TABLES, metric
from analysis.numerals import number, with_unit
from analysis.pipeline import analyse_runs
from analysis.record import sweep_record
from analysis.record.event_timeline import event_order
from analysis.record.files import SeriesPaths, read_json, write_json_atomic
from analysis.record.sweep_record import SWEEP_FILE
from analysis.stats import effect as effects
from analysis.stats.paired_differences import MINIMUM_BLOCKS
from barograph.campaign.sweep import SweepFolder, link_runs
from barograph.errors import ExperimentError, Say
from barograph.machines.holdings import pricing_of
from barograph.plan.experiment import Experiment
from barograph.plan.search import Condition, Judgement, Numbers, Search, Threshold
from barograph.plan.simulation import is_simulated
from barograph.plan.sweep import Axis, Sweep, values_words
from barograph.series.results import avro_jars
from barograph.settings import spark_master
from barograph.testbeds.checks import machine_requests

DAY_H = 24.0
Result = tuple[Threshold, Mapping[int, Numbers]]


def require_metric(sweep: Sweep, condition: Condition) -> None:
    """Raise ExperimentError where no metric has this name."""
    if condition.metric not in METRICS:
        raise ExperimentError(
            f"{sweep.source}: search.until has the metric {condition.metric!r}; allowed: {', '.join(sorted(METRICS))}"
        )


def judge(condition: Condition, most: int, numbers: Numbers) -> Judgement:
    """Judge runs of one value. Where one has no number the condition does not hold, which is sure where none of enough
    runs has. Repetitions may be looked at several times: the level is divided by that number."""
    values = [value for value in numbers if value is not None]
    if len(values) < len(numbers):
        sure = not values and len(numbers) >= min(MINIMUM_BLOCKS, most)
        return Judgement(holds=False, sure=sure, over=sure or len(numbers) >= most)
    region = effects.Interval(*((-inf, condition.bound) if condition.is_upper else (condition.bound, inf)))
    effect, looks = effects.own_number(values), max(1, most - MINIMUM_BLOCKS + 1)
    sure = effect is not None and (
        min(values) == max(values) or min(effect.p_inside(region), effect.p_outside(region)) < effects.LEVEL / looks
    )
    return Judgement(condition.holds(fmean(values)), sure, sure or len(values) >= most)


def measure_numbers(
    folder: SweepFolder, condition: Condition, say: Say, spark: ExitStack
) -> tuple[dict[str, list[float | None]], dict[str, int]]:
    """Return the numbers of these points' runs by the point's id, None where a run failed, and how many of them rest
    on a side that was not steady. `spark` keeps the session for the next round; not where points run on machines, which
    may need the memory for hours. Raises ExperimentError where a complete run has no number that tells whether the
    condition holds."""
    paths, rows = SeriesPaths(folder.root), list[dict[str, Any]]()
    if link_runs(folder):
        jars = avro_jars(paths, say)
        if all(is_simulated(point.experiment) for point in folder.points):
            spark.enter_context(session.shared_session(spark_master(), 0, session.jar_settings(jars)))
        analyse_runs(folder.root, spark_master(), jars=jars)
        rows = sweep_record.measurements(paths)
    complete, numbers = {path.name for path in paths.runs.iterdir()}, dict[str, list[float | None]]()
    unsteady: dict[str, int] = {}
    for point in folder.points:
        event_id = event_of(condition.metric, len(point.experiment.events), rows)
        of_event = {row["run_id"]: row for row in rows
                    if (row["metric"], row["event_id"]) == (condition.metric, event_id)}  # fmt: skip
        runs = [
            f"{point.number:05d}.{variant.name}-r{block}"
            for block in range(1, point.experiment.repetitions + 1)
            for variant in point.experiment.variants
        ]
        where = f"{condition.words()}, {values_words(point.values)}"
        numbers[point.point_id] = [
            number_of(condition, of_event.get(run), f"{where}: run {run}, event {event_id}")
            if run in complete
            else None
            for run in runs
        ]
        unsteady[point.point_id] = sum(of_event[run]["steady"] is False for run in runs if run in of_event)
    return numbers, unsteady


def event_of(name: str, events: int, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the event of the plan whose number counts, for all runs: the last one, where each event has the metric's
    sides; else the last for which a run of these has such numbers."""
    if "_before" in name or "_after" in name:
        return f"e{events}"
    names = next((group for group in RUN_TABLES.values() if name in group and "peak" in group), (name,))
    return max((row["event_id"] for row in rows if row["metric"] in names), key=event_order, default=f"e{events}")


def number_of(condition: Condition, row: Mapping[str, Any] | None, where: str) -> float | None:
    """Return the number of a complete run; None for a lower bound above what it may be. Raises ExperimentError where
    there is none, or a lower bound that leaves open whether the condition holds."""
    if row is None:
        raise ExperimentError(
            f"{where}: the run is complete and {condition.metric} was not measured, which says nothing about the"
            " condition; see docs/metrics.md for what it needs, or search with another metric"
        )
    value = float(row["value"])
    if not row["censored"]:
        return value
    if value > condition.bound:
        return None if condition.is_upper else value
    if not condition.is_upper and value == condition.bound:
        return value
    more = (
        "let the load grow further, to a higher rate (the mean over the best minute counts, so that its top has to be"
        " above the bound, or to last for a minute)"
        if condition.metric == "saturation_rate"
        else "let the run be watched for longer: durations.horizon_s"
    )
    raise ExperimentError(
        f"{where}: {condition.metric} is {value:g} or more, a lower bound, which says nothing about"
        f" {condition.bound:g}: {more}"
    )


def numbers_on_disk(root: Path) -> tuple[dict[str, list[float | None]], dict[str, int]]:
    """Return what an earlier execution has measured, as `measure_numbers` does."""
    rows = [row for row in read_json(root / SWEEP_FILE)["points"] if "numbers" in row]
    return (
        {row["point_id"]: row["numbers"] for row in rows},
        {row["point_id"]: row.get("unsteady", 0) for row in rows},
    )


def update_search(
    folder: SweepFolder, sweep: Sweep, numbers: Mapping[str, Numbers], unsteady: Mapping[str, int],
    results: Sequence[Mapping[str, Any]] = (),
) -> None:  # fmt: skip
    """Write the points so far, with their numbers, and the results into `sweep.json`."""
    search, path = _search(sweep), folder.root / SWEEP_FILE
    places = sorted({tuple(point.values[path] for path in search.paths) for point in folder.points})
    seeds = sorted({(point.values["seed"],) for point in folder.points})
    axes = [*sweep.axes, Axis(search.paths, tuple(places)), Axis(("seed",), tuple(seeds))]
    points = [
        {"point_id": point.point_id, "values": dict(point.values)}
        | {"numbers": list(numbers[point.point_id]), "unsteady": unsteady[point.point_id]}
        if point.point_id in numbers
        else {"point_id": point.point_id, "values": dict(point.values)}
        for point in folder.points
    ]
    about = {"key": search.paths[0], "metric": search.until.metric, "until": search.until.words()}
    facts = {"axes": [axis.as_data() for axis in axes], "points": points, "search": {**about, "results": list(results)}}
    write_json_atomic(path, {**read_json(path), **facts})


def _search(sweep: Sweep) -> Search:
    assert sweep.search is not None, "of a search"
    return sweep.search


def result_data(
    sweep: Sweep, fields: Mapping[str, Any], variant: str, result: Result, unsteady: Mapping[int, int]
) -> dict[str, Any]:
    """Return one variant's result at these values of swept fields as data. `unsteady`: runs that were not, by place."""
    search, (threshold, numbers) = _search(sweep), result
    values, value, below, usd = [step[0] for step in search.steps], None, None, None
    if threshold.holds is not None and threshold.below is not None:
        value, below = values[threshold.holds], values[threshold.below]
        experiment = sweep.point_of_search(0, fields, variant, threshold.holds, 0).experiment
        usd = usd_per_day(experiment, search.usd_per_hour)
    return {
        "variant": variant,
        "fields": dict(fields),
        "value": value,
        "below": below,
        "sure": threshold.sure,
        "monotone": threshold.monotone,
        "usd_per_day": usd,
        "measured": {str(values[place]): list(each) for place, each in sorted(numbers.items())},
        "sentence": sentence(search, variant, fields, result, unsteady, usd),
    }


def sentence(
    search: Search, variant: str, fields: Mapping[str, Any], result: Result, unsteady: Mapping[int, int],
    usd_per_day: float | None = None,
) -> str:  # fmt: skip
    """Return the result in words: the value and its neighbour with their numbers, or why there is none."""
    threshold, numbers = result
    key, until = search.paths[0], search.until.words()
    name = ", ".join([variant, *(f"{path} = {value}" for path, value in fields.items())])

    def at(place: int) -> str:
        return f"at {search.steps[place][0]:g}: {words(search.until.metric, numbers[place])}"

    ends = f"{at(0)}, {at(len(search.steps) - 1)}"
    if threshold.holds is None:
        return f"{name}: {until} holds at neither end of {key} ({ends}): give a larger range"
    if threshold.below is None:
        if threshold.monotone:
            return f"{name}: {until} holds at both ends of {key} ({ends}): begin with a smaller value"
        turned = f"{search.until.metric} {'>=' if search.until.is_upper else '<='} {search.until.bound:g}"
        return (
            f"{name}: {until} holds at the smallest {key} and not at the largest ({ends}): more is not better here; to"
            f" find where it ends: until: {turned}"
        )
    low, high = search.steps[threshold.below][0], search.steps[threshold.holds][0]
    answer = (
        f"{high:g} is the smallest {key} with {until}"
        if threshold.sure
        else f"the smallest {key} with {until} is between {low:g} and {high:g}: more repetitions would be needed"
    )
    edge = (threshold.holds, threshold.below)
    unsteady_runs, runs = sum(unsteady.get(place, 0) for place in edge), sum(len(numbers[place]) for place in edge)
    notes = [
        f"{name}: {answer} ({at(threshold.holds)}, {at(threshold.below)})",
        "" if threshold.monotone else f"it is not monotone: at some larger {key} it does not hold",
        f"{unsteady_runs} of these {runs} runs were not steady" if unsteady_runs else "",
        "" if usd_per_day is None else f"{f'{usd_per_day:.2f}' if usd_per_day >= 0.005 else 'under 0.01'} USD a day",
    ]
    return "; ".join(filter(None, notes))


def words(name: str, numbers: Numbers) -> str:
    """Return `851 tuples/s (849 to 853; 3 runs)`; the interval of fewer than three runs is not known."""
    values = [value for value in numbers if value is not None]
    runs = f"{len(numbers)} run{'s' if len(numbers) > 1 else ''}"
    if len(values) < len(numbers):
        return f"{len(numbers) - len(values)} of {runs} failed or had only a lower bound"
    digits = metric(name).digits + 1
    text, effect = with_unit(number(fmean(values), digits), metric(name).value_unit), effects.own_number(values)
    if effect is None:
        return f"{text} ({runs})"
    low, high = effect.interval()
    return f"{text} ({number(low, digits)} to {number(high, digits)}; {runs})"


def usd_per_day(experiment: Experiment, usd_per_hour: float | None) -> float | None:
    """Return the price of the machines at the start for a day: those of the testbed's table, with the master, else
    workers at a given price; None without one."""
    if (pricing := pricing_of(experiment)) is not None:
        return pricing.estimate(machine_requests(experiment, experiment.starting()), DAY_H).total_usd
    return None if usd_per_hour is None else experiment.machines.before * usd_per_hour * DAY_H
