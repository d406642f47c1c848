"""Series of nights: one number a night of each metric, variant and machine type. A missing value says why.

Also names that appear or vanish: an experiment, a variant or a metric that nights no longer have, or suddenly have.
Nothing is guessed: a renaming is reported as what it looks like, and joined only when `renames` says so. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from analysis.metrics import untimed
from analysis.metrics.definitions import Better, DifferenceKind, Metric, metric
from analysis.nights.night_records import ExperimentNight, Night, Values
from analysis.nights.settings import Renames
from analysis.numerals import extent, number
from analysis.stats.effect import summary

# A time that was never reached is no value, and how often that happens is a series of its own.
NEVER_SUFFIX = "_never_percent"
LATEST_HORIZONS = 50  # runs that never got there, of which the shortest watch says within what all are asked
ONE_RUN_IN_FOUR = 25.0
OF_TOPOLOGY = ":"  # between a variant and a topology
NO_LATENCY = f"no verdict: {untimed.TOO_MANY}"
NO_CLOCKS = "no verdict: how far the machines' clocks are apart is not known"
SeriesName = tuple[str, str, str, str]  # experiment, variant, metric, event


@dataclass(frozen=True, order=True)
class Key:
    """What is compared over nights; never across `machine`."""

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
class Point:
    """A night's value: the median of its repetitions, and their spread. None: not measured, and `why`.

    Of times it is Kaplan and Meier's median. `horizon`: where that was not reached how long was watched at most; then
    there is no value. `never`: how many repetitions never got there; then there is no `high`. `unsteady`: how many
    repetitions were not steady; they count. `within`: of a share that never got there, within how many s. `failed`: how
    many runs of the variant the system under test failed, also in a night without a value. `error`: by how much the
    value may be wrong as it was measured.
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
class Series:
    """`points`: one for each night of the history, in its order."""

    key: Key
    points: tuple[Point, ...]

    @cached_property
    def nights(self) -> tuple[int, ...]:
        """The nights that have a value of it."""
        return tuple(i for i, point in enumerate(self.points) if point.value is not None)

    @cached_property
    def watched_nights(self) -> tuple[int, ...]:
        """These, and those in which most repetitions never got there."""
        return tuple(i for i, point in enumerate(self.points) if point.runs)

    @cached_property
    def values(self) -> tuple[float, ...]:
        return tuple(point.value for point in self.points if point.value is not None)

    @cached_property
    def metric(self) -> Metric:
        return metric_of(self.key.metric)

    @property
    def is_share(self) -> bool:
        """Return whether it is how many repetitions never got there."""
        return self.key.metric.endswith(NEVER_SUFFIX)


def metric_of(name: str) -> Metric:
    """A metric of the table, or the share of repetitions that never reached one."""
    if not name.endswith(NEVER_SUFFIX):
        return metric(name)
    of = metric(name.removesuffix(NEVER_SUFFIX))
    return Metric(
        name, Better.LOWER, DifferenceKind.DIFFERENCE, "points", f"{of.words}: never reached", ONE_RUN_IN_FOUR
    )


def build_series(nights: Sequence[Night], renames: Renames) -> tuple[Series, ...]:
    """Every series of a history, by key."""
    renamed = [apply_renames(night, renames) for night in nights]
    found: dict[Key, dict[int, Values]] = defaultdict(dict)
    for i, (night, experiments) in enumerate(zip(nights, renamed, strict=True)):
        for name, values in _measurements(experiments):
            found[Key(*name, machine_of(night, experiments[name[0]]))][i] = values
    result = []
    for key, every_night in sorted(found.items()):
        refused = _no_verdicts(key, found, renamed)
        by_night = {i: values for i, values in every_night.items() if i not in refused}
        if not by_night:
            continue  # nothing to compare
        whys = refused | {i: _why(nights[i], renamed[i], key) for i in range(len(nights)) if i not in every_night}
        points = {key: [_point(by_night[i]) if i in by_night else Point(None, why=whys[i]) for i in range(len(nights))]}
        if any(values.horizons for values in by_night.values()):
            points[replace(key, metric=key.metric + NEVER_SUFFIX)] = _shares(by_night, whys)
        variant = key.variant.partition(OF_TOPOLOGY)[0]
        for i, (night, experiments) in enumerate(zip(nights, renamed, strict=True)):
            of = experiments.get(key.experiment)
            if of is not None and variant in of.failed and machine_of(night, of) == key.machine:
                for every in points.values():
                    every[i] = replace(every[i], failed=of.failed[variant])
        result += [Series(name, tuple(every)) for name, every in points.items()]
    return tuple(result)


def _no_verdicts(
    key: Key, found: Mapping[Key, Mapping[int, Values]], nights: Sequence[Mapping[str, ExperimentNight]]
) -> dict[int, str]:
    """Return the nights whose latency, or utility of a latency, is no ground for a verdict, and why: too many tuples
    have none, as in a comparison, or clocks are not known. Nights that measured that of no run (sources that are not
    ours) count."""
    shares = found.get(replace(key, metric=untimed.share_of(key.metric)), {})
    refused = {}
    for i, values in found[key].items():
        variants = nights[i][key.experiment].variants.values()
        on_record = any(name.startswith(untimed.UNTIMED) for metrics in variants for name in metrics)
        known = shares[i].values if i in shares else ()
        if values.error is None:
            refused[i] = NO_CLOCKS
        elif (key.metric.startswith(untimed.LATENCY) or values.of_latency) and not untimed.carry_verdict(
            known, len(values.values), any_on_record=on_record
        ):
            refused[i] = NO_LATENCY
    return refused


def apply_renames(night: Night, renames: Renames) -> dict[str, ExperimentNight]:
    """Its experiments, variants and metrics under the names of today; where both names are there the new one counts."""
    experiments = {found.experiment for found in night.experiments}
    return {
        _new_name(found.experiment, renames.experiments, experiments): ExperimentNight(
            found.experiment, found.status, found.series, found.reason,
            {
                _new_name(variant, renames.variants, found.variants): {
                    _new_name(name, renames.metrics, metrics): events for name, events in metrics.items()
                }
                for variant, metrics in found.variants.items()
            },
            found.claims,
            found.machine,
            {_new_name(variant, renames.variants, found.failed): failed for variant, failed in found.failed.items()},
        )
        for found in night.experiments
    }  # fmt: skip


def machine_of(night: Night, found: ExperimentNight | None) -> str:
    """The fingerprint that an experiment's numbers of that night are compared under."""
    return (found and found.machine) or night.machine


def _new_name(name: str, renames: Mapping[str, str], names: Mapping[str, object] | set[str]) -> str:
    new = renames.get(name, name)
    return name if new in names else new


def _measurements(experiments: Mapping[str, ExperimentNight]) -> Iterator[tuple[SeriesName, Values]]:
    for experiment, found in experiments.items():
        for variant, metrics in found.variants.items():
            for name, events in metrics.items():
                for event, values in events.items():
                    if values.runs:
                        yield (experiment, variant, name, event), values


def _why(night: Night, experiments: Mapping[str, ExperimentNight], key: Key) -> str:
    """Return why a night has no value of a series."""
    found = experiments.get(key.experiment)
    if found is None:
        return "not in the suite that night"
    if machine_of(night, found) != key.machine:
        return "other machines"
    if found.status != "complete":
        return f"{found.status}: {found.reason}" if found.reason else found.status
    if key.variant not in found.variants:
        return f"no complete run of {key.variant}"
    return "not measured"


def _point(values: Values) -> Point:
    horizons = values.horizons
    never = [False] * len(values.values) + [True] * len(horizons)
    over_runs = summary([*values.values, *horizons], never, mean=False)
    return Point(
        over_runs.value, min(values.values, default=None), over_runs.high, values.runs,
        max(horizons) if over_runs.value is None else None, len(horizons),
        "" if over_runs.value is not None else never_text(horizons, values.runs), values.unsteady or 0,
        error=values.error or 0.0,
    )  # fmt: skip


def never_text(horizons: Sequence[float], runs: int) -> str:
    """What is said of a night in which most repetitions never got there, by how long each of those was watched."""
    return f"not within {extent(horizons)} s: {len(horizons)} of {runs} runs"


def _shares(found: Mapping[int, Values], whys: Mapping[int, str]) -> list[Point]:
    """The share of repetitions that did not get there within the same time, whatever night: the shortest that one of
    the latest that never did was watched. A watch that ends earlier is no change of it."""
    within = min([horizon for _, values in sorted(found.items()) for horizon in values.horizons][-LATEST_HORIZONS:])
    points = {i: Point(None, why=why) for i, why in whys.items()}
    for i, values in found.items():
        horizons = values.horizons
        never = len(horizons) + sum(value > within for value in values.values)
        share = 100.0 * never / values.runs
        points[i] = Point(share, share, share, values.runs, never=never, within=within)
        if any(horizon < within for horizon in horizons):
            points[i] = Point(None, why=f"watched for less than {number(within)} s")
    return [points[i] for i in sorted(points)]


NIGHTS_WITHOUT_NAME = 2  # nights without a name before it is told
NIGHTS_OF_NEWS = 30  # nights for which it is told
NamesByNight = list[tuple[Night, frozenset[str]]]  # nights that could have had names, and those they had


def name_changes(nights: Sequence[Night], renames: Renames) -> list[str]:
    """One line a name that vanished or appeared lately."""
    by_night = [(night, apply_renames(night, renames)) for night in nights]
    lines = list(_lines_of_names("experiment", "", [(night, frozenset(found)) for night, found in by_night]))
    for experiment in sorted({name for _, found in by_night for name in found}):
        measured = [(night, found[experiment]) for night, found in by_night if experiment in found]
        of = [(night, found) for night, found in measured if found.status == "complete" and found.variants]
        lines += _lines_of_names("variant", experiment, [(night, frozenset(found.variants)) for night, found in of])
        for variant in sorted({name for _, found in of for name in found.variants}):
            names = [(night, frozenset(found.variants[variant])) for night, found in of if variant in found.variants]
            lines += _lines_of_names("metric", f"{experiment}/{variant}", names)
    return lines


def _lines_of_names(what: str, where: str, names: NamesByNight) -> Iterator[str]:
    place = f" of {where}" if where else ""
    last_nights, first_nights = dict(_last_nights(names)), dict(_first_nights(names))
    for name, last in last_nights.items():
        others = [new for new, first in first_nights.items() if first == last + 1]
        maybe = f" Since then there is {', '.join(others)}." if others else ""
        yield (
            f"{what} {name}{place} is in no night since {names[last][0].id} ({len(names) - last - 1} nights).{maybe} "
            f"If it was renamed, say so in `renames.{what}s` of the suite; if it was dropped, this line goes in time."
        )
    for name, first in first_nights.items():
        yield f"{what} {name}{place} is new since {names[first][0].id}: it has no history before."


def _last_nights(nights: NamesByNight) -> Iterator[tuple[str, int]]:
    """Names, and the last night that had them."""
    for name in sorted(frozenset().union(*(each for _, each in nights))):
        last = max(i for i, (_, each) in enumerate(nights) if name in each)
        if NIGHTS_WITHOUT_NAME <= len(nights) - last - 1 <= NIGHTS_OF_NEWS:
            yield name, last


def _first_nights(nights: NamesByNight) -> Iterator[tuple[str, int]]:
    """Names that the first nights did not have, and the first night that had them."""
    for name in sorted(frozenset().union(*(each for _, each in nights))):
        first = min(i for i, (_, each) in enumerate(nights) if name in each)
        if first >= NIGHTS_WITHOUT_NAME and len(nights) - first <= NIGHTS_OF_NEWS:
            yield name, first
