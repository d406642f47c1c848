"""Nights -> series: one number a night of each metric, variant and machine type. What is missing says why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from analysis.history.night import ExperimentNight, Night, Values
from analysis.history.settings import Renames
from analysis.metric_directions import Better, Compared, Metric, metric

# A time that was never reached is a horizon, and how often that happens is a series of its own.
NEVER = "_never_percent"
ONE_RUN_IN_FOUR = 25.0
Name = tuple[str, str, str, str]  # experiment, variant, metric, event


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
    def names(self) -> Name:
        return self.experiment, self.variant, self.metric, self.event


@dataclass(frozen=True, slots=True)
class Point:
    """A night's value: the median of its repetitions, and their spread. None: not measured, and `why`.

    `horizon`: the value is only how long was watched, because most repetitions never got there.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    runs: int = 0
    horizon: bool = False
    why: str = ""


@dataclass(frozen=True)
class Series:
    """`points`: one for each night of the history, in its order."""

    key: Key
    points: tuple[Point, ...]

    @cached_property
    def nights(self) -> tuple[int, ...]:
        """The nights that measured it."""
        return tuple(i for i, point in enumerate(self.points) if point.value is not None)

    @cached_property
    def values(self) -> tuple[float, ...]:
        return tuple(point.value for point in self.points if point.value is not None)

    @cached_property
    def metric(self) -> Metric:
        return described(self.key.metric)


def described(name: str) -> Metric:
    """A metric of the table, or the share of repetitions that never reached one."""
    if not name.endswith(NEVER):
        return metric(name)
    of = metric(name.removesuffix(NEVER))
    return Metric(name, Better.LOWER, Compared.DIFFERENCE, "points", f"{of.words}: never reached", ONE_RUN_IN_FOUR)


def build(nights: Sequence[Night], renames: Renames) -> tuple[Series, ...]:
    """Every series of a history, by key."""
    renamed = [renamed_night(night, renames) for night in nights]
    found: dict[Key, dict[int, Values]] = defaultdict(dict)
    for i, (night, experiments) in enumerate(zip(nights, renamed, strict=True)):
        for name, values in _measured(experiments):
            found[Key(*name, machine_of(night, experiments[name[0]]))][i] = values
    made = []
    for key, by_night in sorted(found.items()):
        whys = {i: _why(nights[i], renamed[i], key) for i in range(len(nights)) if i not in by_night}
        made.append(_series(key, by_night, whys))
        if any(values.censored for values in by_night.values()):
            made.append(_never(key, by_night, whys))
    return tuple(made)


def renamed_night(night: Night, renames: Renames) -> dict[str, ExperimentNight]:
    """Its experiments, variants and metrics under the names of today; where both names are there the new one counts."""
    there = {found.experiment for found in night.experiments}
    return {
        _new(found.experiment, renames.experiments, there): ExperimentNight(
            found.experiment, found.status, found.series, found.reason,
            {
                _new(variant, renames.variants, found.variants): {
                    _new(name, renames.metrics, metrics): events for name, events in metrics.items()
                }
                for variant, metrics in found.variants.items()
            },
            found.claims,
            found.machine,
        )
        for found in night.experiments
    }  # fmt: skip


def machine_of(night: Night, found: ExperimentNight | None) -> str:
    """The fingerprint that an experiment's numbers of that night are compared under."""
    return (found and found.machine) or night.machine


def _new(name: str, renames: Mapping[str, str], there: Mapping[str, object] | set[str]) -> str:
    new = renames.get(name, name)
    return name if new in there else new


def _measured(experiments: Mapping[str, ExperimentNight]) -> Iterator[tuple[Name, Values]]:
    for experiment, found in experiments.items():
        for variant, metrics in found.variants.items():
            for name, events in metrics.items():
                for event, values in events.items():
                    if values.values:
                        yield (experiment, variant, name, event), values


def _why(night: Night, experiments: Mapping[str, ExperimentNight], key: Key) -> str:
    """Why a night has no value of a series."""
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


def _series(key: Key, found: Mapping[int, Values], whys: Mapping[int, str]) -> Series:
    return Series(key, tuple(_point(found[i]) if i in found else Point(None, why=whys[i]) for i in _all(found, whys)))


def _all(found: Mapping[int, Values], whys: Mapping[int, str]) -> range:
    return range(len(found) + len(whys))


def _point(values: Values) -> Point:
    numbers = values.values
    mostly_never = 2 * values.censored >= len(numbers)
    return Point(median(numbers), min(numbers), max(numbers), len(numbers), mostly_never)


def _never(key: Key, found: Mapping[int, Values], whys: Mapping[int, str]) -> Series:
    own = Key(key.experiment, key.variant, key.metric + NEVER, key.event, key.machine)
    points = []
    for i in _all(found, whys):
        if i in found:
            share = 100.0 * found[i].censored / len(found[i].values)
            points.append(Point(share, share, share, len(found[i].values)))
        else:
            points.append(Point(None, why=whys[i]))
    return Series(own, tuple(points))
