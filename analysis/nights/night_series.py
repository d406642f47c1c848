"""Series of nights: one number a night of each metric, variant and machine type. A missing value has a reason.

Also names that appear or vanish: an experiment, a variant or a metric that nights no longer have, or suddenly have.
Nothing is guessed: a renaming is reported as a disappearance and an appearance, and joined only if `renames` says so.
Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from analysis.metrics import untimed
from analysis.metrics.definitions import Better, DifferenceKind, Metric, metric
from analysis.nights.night_records import ExperimentNight, NightRecord, Values
from analysis.nights.settings import Renames
from analysis.numerals import extent, number
from analysis.stats.effect import summary

# A time that was never reached is no value; how often that happens is a separate series.
NEVER_SUFFIX = "_never_percent"
LATEST_HORIZONS = 50  # runs that never got there, whose shortest watch is the common limit for all
ONE_RUN_IN_FOUR = 25.0
OF_TOPOLOGY = ":"  # between a variant and a topology
NO_LATENCY = f"no verdict: {untimed.TOO_MANY}"
NO_CLOCKS = "no verdict: how far the machines' clocks are apart is not known"
SeriesName = tuple[str, str, str, str]  # experiment, variant, metric, event


@dataclass(frozen=True, order=True)
class NightKey:
    """The key of a comparison over nights; never across `machine`."""

    experiment: str
    variant: str
    metric: str
    event: str
    machine: str

    @property
    def name(self) -> str:
        return f"{self.experiment}/{self.variant}/{self.metric}/{self.event}"

    @property
    def names(self) -> SeriesName:
        return self.experiment, self.variant, self.metric, self.event


@dataclass(frozen=True, slots=True)
class NightPoint:
    """A night's value: the median of its repetitions, and their spread. None: not measured, and `why`.

    For times it is Kaplan and Meier's median. `horizon`: the longest watch if that was not reached; then there is no
    value. `never`: how many repetitions never got there; then there is no `high`. `unsteady`: how many repetitions were
    not steady; they count. `within`: the time limit in s of a share that never got there. `failed`: how many runs of
    the variant the system under test failed, also in a night without a value. `error`: the possible measurement error
    of the value.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    runs: int = 0
    horizon: float | None = None
    never: int = 0
    why: str = ""
    unsteady: int = 0
    within: float | None = None
    failed: int = 0
    error: float = 0.0


@dataclass(frozen=True)
class NightSeries:
    """A series; `points`: one for each night of the history, in its order."""

    key: NightKey
    points: tuple[NightPoint, ...]

    @cached_property
    def nights(self) -> tuple[int, ...]:
        """Return the nights that have a value of it."""
        return tuple(i for i, point in enumerate(self.points) if point.value is not None)

    @cached_property
    def watched_nights(self) -> tuple[int, ...]:
        """Return these nights, and those in which most repetitions never got there."""
        return tuple(i for i, point in enumerate(self.points) if point.runs)

    @cached_property
    def values(self) -> tuple[float, ...]:
        return tuple(point.value for point in self.points if point.value is not None)

    @cached_property
    def metric(self) -> Metric:
        return metric_of(self.key.metric)

    @property
    def is_share(self) -> bool:
        """Return whether it is the share of repetitions that never got there."""
        return self.key.metric.endswith(NEVER_SUFFIX)


def metric_of(name: str) -> Metric:
    """Return a metric of the table, or the share of repetitions that never reached one."""
    if not name.endswith(NEVER_SUFFIX):
        return metric(name)
    base = metric(name.removesuffix(NEVER_SUFFIX))
    return Metric(
        name, Better.LOWER, DifferenceKind.DIFFERENCE, "points", f"{base.words}: never reached", ONE_RUN_IN_FOUR
    )


def build_series(nights: Sequence[NightRecord], renames: Renames) -> tuple[NightSeries, ...]:
    """Return every series of a history, by key."""
    records = [apply_renames(night, renames) for night in nights]
    values_by_key: dict[NightKey, dict[int, Values]] = defaultdict(dict)
    for i, (night, experiments) in enumerate(zip(nights, records, strict=True)):
        for experiment_name, of in experiments.items():
            for variant, metrics in of.variants.items():
                for name, events in metrics.items():
                    for event, values in events.items():
                        if values.runs:
                            key = NightKey(experiment_name, variant, name, event, machine_of(night, of))
                            values_by_key[key][i] = values
    result = []
    for key, every_night in sorted(values_by_key.items()):
        omissions = _no_verdicts(key, values_by_key, records)
        by_night = {i: values for i, values in every_night.items() if i not in omissions}
        if not by_night:
            continue  # nothing to compare
        whys = omissions | {i: _why(nights[i], records[i], key) for i in range(len(nights)) if i not in every_night}
        points = {
            key: [_point(by_night[i]) if i in by_night else NightPoint(None, why=whys[i]) for i in range(len(nights))]
        }
        if any(values.horizons for values in by_night.values()):
            points[replace(key, metric=key.metric + NEVER_SUFFIX)] = _shares(by_night, whys)
        variant = key.variant.partition(OF_TOPOLOGY)[0]
        for i, (night, experiments) in enumerate(zip(nights, records, strict=True)):
            experiment = experiments.get(key.experiment)
            if experiment is not None and variant in experiment.failed and machine_of(night, experiment) == key.machine:
                for every in points.values():
                    every[i] = replace(every[i], failed=experiment.failed[variant])
        result += [NightSeries(name, tuple(every)) for name, every in points.items()]
    return tuple(result)


def _no_verdicts(
    key: NightKey, found: Mapping[NightKey, Mapping[int, Values]], nights: Sequence[Mapping[str, ExperimentNight]]
) -> dict[int, str]:
    """Return the nights whose latency, or utility of a latency, is no basis for a verdict, and why: too many tuples
    have none, as in a comparison, or clock errors are unknown. Nights that measured that of no run (sources that are
    not ours) count."""
    shares = found.get(replace(key, metric=untimed.share_of(key.metric)), {})
    reasons = {}
    for i, values in found[key].items():
        variants = nights[i][key.experiment].variants.values()
        on_record = any(name.startswith(untimed.UNTIMED) for metrics in variants for name in metrics)
        percents = shares[i].values if i in shares else ()
        if values.error is None:
            reasons[i] = NO_CLOCKS
        elif (key.metric.startswith(untimed.LATENCY) or values.of_latency) and not untimed.carry_verdict(
            percents, len(values.values), any_on_record=on_record
        ):
            reasons[i] = NO_LATENCY
    return reasons


def apply_renames(night: NightRecord, renames: Renames) -> dict[str, ExperimentNight]:
    """Return a night's experiments, variants and metrics under today's names; if both names are there the new one
    counts."""
    experiments = {each.experiment for each in night.experiments}
    return {
        _new_name(each.experiment, renames.experiments, experiments): ExperimentNight(
            each.experiment, each.status, each.series, each.reason,
            {
                _new_name(variant, renames.variants, each.variants): {
                    _new_name(name, renames.metrics, metrics): events for name, events in metrics.items()
                }
                for variant, metrics in each.variants.items()
            },
            each.claims,
            each.machine,
            {_new_name(variant, renames.variants, each.failed): failed for variant, failed in each.failed.items()},
        )
        for each in night.experiments
    }  # fmt: skip


def machine_of(night: NightRecord, found: ExperimentNight | None) -> str:
    """Return the fingerprint under which an experiment's numbers of that night are compared."""
    return (found and found.machine) or night.machine


def _new_name(name: str, renames: Mapping[str, str], names: Mapping[str, object] | set[str]) -> str:
    name_today = renames.get(name, name)
    return name if name_today in names else name_today


def _why(night: NightRecord, experiments: Mapping[str, ExperimentNight], key: NightKey) -> str:
    """Return why a night has no value of a series."""
    record = experiments.get(key.experiment)
    if record is None:
        return "not in the suite that night"
    if machine_of(night, record) != key.machine:
        return "other machines"
    if record.status != "complete":
        return f"{record.status}: {record.reason}" if record.reason else record.status
    if key.variant not in record.variants:
        return f"no complete run of {key.variant}"
    return "not measured"


def _point(values: Values) -> NightPoint:
    horizons = values.horizons
    flags = [False] * len(values.values) + [True] * len(horizons)
    over_runs = summary([*values.values, *horizons], flags, mean=False)
    return NightPoint(
        over_runs.value, min(values.values, default=None), over_runs.high, values.runs,
        max(horizons) if over_runs.value is None else None, len(horizons),
        "" if over_runs.value is not None else never_text(horizons, values.runs), values.unsteady or 0,
        error=values.error or 0.0,
    )  # fmt: skip


def never_text(horizons: Sequence[float], runs: int) -> str:
    """Return text for a night in which most repetitions never got there, with the length of each one's watch."""
    return f"not within {extent(horizons)} s: {len(horizons)} of {runs} runs"


def _shares(found: Mapping[int, Values], whys: Mapping[int, str]) -> list[NightPoint]:
    """Return the share of repetitions that did not get there within the same time, for all nights: the shortest watch
    of the latest that never did. A watch that ends earlier does not change it."""
    threshold = min([horizon for _, values in sorted(found.items()) for horizon in values.horizons][-LATEST_HORIZONS:])
    points = {i: NightPoint(None, why=reason) for i, reason in whys.items()}
    for i, values in found.items():
        horizons = values.horizons
        count = len(horizons) + sum(value > threshold for value in values.values)
        share = 100.0 * count / values.runs
        points[i] = NightPoint(share, share, share, values.runs, never=count, within=threshold)
        if any(horizon < threshold for horizon in horizons):
            points[i] = NightPoint(None, why=f"watched for less than {number(threshold)} s")
    return [points[i] for i in sorted(points)]


NIGHTS_WITHOUT_NAME = 2  # nights without a name before that is reported
NIGHTS_OF_NEWS = 30  # nights for which it is reported
NamesByNight = list[tuple[NightRecord, Collection[str]]]  # nights that could have had names, and those they had


def name_changes(nights: Sequence[NightRecord], renames: Renames) -> list[str]:
    """Return one line for each name that vanished or appeared lately."""
    by_night = [(night, apply_renames(night, renames)) for night in nights]
    lines = [*_lines_of_names("experiment", "", [(night, experiments) for night, experiments in by_night])]
    for name in sorted({name for _, experiments in by_night for name in experiments}):
        records = [(night, experiments[name]) for night, experiments in by_night if name in experiments]
        measured = [(night, of.variants) for night, of in records if of.status == "complete" and of.variants]
        lines += _lines_of_names("variant", name, [(night, variants) for night, variants in measured])
        for variant in sorted({variant for _, variants in measured for variant in variants}):
            names = [(night, variants[variant]) for night, variants in measured if variant in variants]
            lines += _lines_of_names("metric", f"{name}/{variant}", [(night, metrics) for night, metrics in names])
    return lines


def _lines_of_names(what: str, where: str, names: NamesByNight) -> Iterator[str]:
    place = f" of {where}" if where else ""
    indices = {name: [i for i, (_, each) in enumerate(names) if name in each]
              for name in sorted({name for _, each in names for name in each})}  # fmt: skip
    vanished = {name: at[-1] for name, at in indices.items()
                if NIGHTS_WITHOUT_NAME <= len(names) - at[-1] - 1 <= NIGHTS_OF_NEWS}  # fmt: skip
    appeared = {name: at[0] for name, at in indices.items()
                if at[0] >= NIGHTS_WITHOUT_NAME and len(names) - at[0] <= NIGHTS_OF_NEWS}  # fmt: skip
    for name, last in vanished.items():
        candidates = [candidate for candidate, first in appeared.items() if first == last + 1]
        maybe = f" Since then there is {', '.join(candidates)}." if candidates else ""
        yield (
            f"{what} {name}{place} is in no night since {names[last][0].id} ({len(names) - last - 1} nights).{maybe} "
            f"If it was renamed, say so in `renames.{what}s` of the suite; if it was dropped, this line goes in time."
        )
    for name, first in appeared.items():
        yield f"{what} {name}{place} is new since {names[first][0].id}: it has no history before."
