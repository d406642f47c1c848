"""A sweep as data: an experiment's file with `sweep`, and its points, every combination of the swept values.

With `search` it is a search (plan.search), whose points depend on the measured ones; swept fields beside it are
searched combination by combination.

Each point is an experiment of its own in the ordinary sense, with a number and the values that make it. Errors name the
file, the point, the field, the value and what is allowed. Pure but for the reading of files.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain, combinations, pairwise, product
from math import prod
from pathlib import Path
from typing import Any

from barograph import ROOT
from barograph.errors import ExperimentError, message_of
from barograph.plan.blocks import digest, request_text
from barograph.plan.events.order import machines_at_end
from barograph.plan.experiment import DURATION_NAMES, SIMULATED, SWEEP, Experiment, only, parse, with_changes
from barograph.plan.search import SEARCH, Search, search_of
from barograph.yaml_files import no_json, put_at, read_yaml, validated

SWEEPS = ROOT / "dags" / "sweeps"
MOST_POINTS = 10_000
ENDING_NUMBER = "machines.after"  # follows from the machines before and the events, where it is not swept itself
CHANGES_OF_IT = ("machines", "events")
CHANGED_FIELDS = {  # by the command line, beside options of the testbed; it chooses among variants
    "repetitions": "repetitions", "seed": "seed", "testbed": "testbed.name",
    **{name: f"durations.{name}" for name in DURATION_NAMES},
}  # fmt: skip
EXAMPLE = "sweep: {machines.before: [10, 20, 40], seed: [1, 2, 3]}"


@dataclass(frozen=True)
class Axis:
    """One swept field, or several that change together: `paths`, and for each step a value of each path."""

    paths: tuple[str, ...]
    steps: tuple[tuple[Any, ...], ...]

    @property
    def name(self) -> str:
        return ", ".join(self.paths)

    def as_data(self) -> dict[str, Any]:
        return {"paths": list(self.paths), "steps": [list(step) for step in self.steps]}


@dataclass(frozen=True)
class SweepPoint:
    """A point. `number` counts from 1; `values`: of each path, in the file's order."""

    number: int
    values: Mapping[str, Any]
    experiment: Experiment

    @property
    def point_id(self) -> str:
        """Return the name of its folder, which sorts by number."""
        return f"{self.number:05d}-{digest(self.experiment)}"

    @property
    def runs(self) -> int:
        return len(self.experiment.variants) * self.experiment.repetitions


@dataclass(frozen=True)
class Sweep:
    """A sweep. `data`: the file's content without `sweep`; `folder`: the folder of files that it names."""

    name: str  # family/name
    source: str  # the file, for errors
    data: Mapping[str, Any]
    axes: tuple[Axis, ...]
    folder: Path
    changes: Mapping[str, Any]  # of every point, by the command line
    search: Search | None = None

    def size(self) -> int:
        return prod(len(axis.steps) for axis in self.axes)

    def words(self) -> str:
        """Return a text such as `12 points (4 of machines.before × 3 of seed)`."""
        parts = " × ".join(f"{len(axis.steps)} of {axis.name}" for axis in self.axes)
        return f"{self.size()} point{'s' if self.size() > 1 else ''} ({parts})"

    def points(self) -> tuple[SweepPoint, ...]:
        """Return the points in the file's order, the last field fastest; of a search the first and the last. Raises
        ExperimentError for the first invalid one."""
        points, ends = [], [dict[str, Any]()]
        if self.search is not None:
            steps = self.search.steps
            ends = [dict(zip(self.search.paths, step, strict=True)) for step in (steps[0], steps[-1])]
        for number, (fields, end) in enumerate(product(self.combinations(), ends), start=1):
            points.append(self._point(number, fields | end))
            if _places(points[-1]) != _places(points[0]):
                raise ExperimentError(
                    f"{point_words(self.source, number, points[-1].values)}: throughput is measured at"
                    f" {_places(points[-1])}, and in point 1 at {_places(points[0])}; allowed: one place in all"
                )
        _refuse_equal_runs(points, self.source)
        return tuple(points)

    def combinations(self) -> list[dict[str, Any]]:
        """Return every combination of the swept values; one without any where nothing is swept."""
        return [
            dict(chain.from_iterable(zip(axis.paths, step, strict=True)
                                     for axis, step in zip(self.axes, steps, strict=True)))
            for steps in product(*(axis.steps for axis in self.axes))
        ]  # fmt: skip

    def point_of_search(
        self, number: int, fields: Mapping[str, Any], variant: str, place: int, runs: int
    ) -> SweepPoint:
        """Return a variant's point at a place of the search; `runs`: how many it has there already."""
        assert self.search is not None, "of a search"
        values = {**fields, **dict(zip(self.search.paths, self.search.steps[place], strict=True))}
        experiment = only(self._point(number, values).experiment, (variant,))
        seed = experiment.seed + runs
        return SweepPoint(number, {**values, "seed": seed}, replace(experiment, seed=seed))

    def _point(self, number: int, values: Mapping[str, Any]) -> SweepPoint:
        source = point_words(self.source, number, values)
        data = deepcopy(dict(self.data))
        for path, value in values.items():
            put_at(data, path, value, f"{source}: {SWEEP} has {path}, but")
        if ENDING_NUMBER not in values and any(path.split(".")[0] in CHANGES_OF_IT for path in values):
            plan = validated(Experiment, data, source=source, name=self.name)
            data["machines"]["after"] = machines_at_end(plan.machines.before, plan.events)
        experiment = parse(self.name, data, source=source, folder=self.folder)
        try:
            return SweepPoint(number, values, with_changes(experiment, self.changes))
        except ExperimentError as error:
            raise ExperimentError(f"{source}: {message_of(error)}") from error


def _places(point: SweepPoint) -> str:
    """Return where throughput is measured."""
    return ", ".join(sorted({topology.throughput for topology in point.experiment.every_topology()}))


def _refuse_equal_runs(points: Sequence[SweepPoint], source: str) -> None:
    """Refuse equal runs: they are one run, however often it is simulated, and would be counted as several."""
    alike: dict[str, list[SweepPoint]] = defaultdict(list)
    for point in points:
        alike[request_text(replace(point.experiment, seed=0, repetitions=1))].append(point)
    for group in alike.values():
        group.sort(key=lambda point: point.experiment.seed)
        for previous, successor in pairwise(group):
            distance = successor.experiment.seed - previous.experiment.seed
            if distance < (repetitions := previous.experiment.repetitions):
                where = point_words(source, successor.number, successor.values)
                why = (
                    "a repetition has the seed after the one before it; give seeds that are at least"
                    f" {repetitions} apart, or repetitions: 1"
                    if distance
                    else "in all that is simulated the two are equal; leave one out"
                )
                raise ExperimentError(f"{where} has runs of point {previous.number} once more: {why}")


def point_words(source: str, number: int, values: Mapping[str, Any]) -> str:
    """Return a text such as `stela/star.yaml, point 3 (machines.before = 10, seed = 2)`."""
    return f"{source}, point {number} ({values_words(values)})"


def values_words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{path} = {json.dumps(value)}" for path, value in values.items())


def names(folder: Path = SWEEPS) -> tuple[str, ...]:
    """Return the sweeps that ship, `stela/star_machines`, …, sorted."""
    return tuple(sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.glob("*/*.yaml")))


def load(given: str, changes: Mapping[str, Any], folder: Path = SWEEPS) -> Sweep:
    """Return the sweep of a file, or of a name in `dags/sweeps/`; `changes` as in `experiment.with_changes`. Raises
    ExperimentError."""
    path = folder / f"{given}.yaml" if given in names(folder) else Path(given)
    if not path.is_file():
        raise ExperimentError(
            f"no sweep {given!r}: it is neither a file nor in {folder.name}/; there are: {', '.join(names(folder))}"
        )
    name = f"{path.absolute().parent.name}/{path.stem}"
    return sweep_of(name, read_yaml(path), changes, folder=path.absolute().parent)


def sweep_of(name: str, data: Any, changes: Mapping[str, Any], *, folder: Path) -> Sweep:
    """Return the sweep of a file's content. Raises ExperimentError."""
    source = f"{name}.yaml"
    if not isinstance(data, Mapping) or not {SWEEP, SEARCH} & set(data):
        raise ExperimentError(
            f"{source}: {SWEEP} is missing; give fields with their values, such as {EXAMPLE}, or {SEARCH}, or run the"
            f" file as one experiment: barograph run {name}"
        )
    axes = _axes(data[SWEEP], source) if SWEEP in data else ()
    search = search_of(data[SEARCH], source) if SEARCH in data else None
    if search and (seeds := [path for axis in axes for path in axis.paths if path.split(".")[-1] == "seed"]):
        raise ExperimentError(f"{source}: {SWEEP} has {seeds[0]}; leave it out: {SEARCH} adds repetitions where needed")
    searched = [Axis(search.paths, search.steps[:1])] if search else []
    _require_distinct([path for axis in (*axes, *searched) for path in axis.paths], source)
    _require_unchanged((*axes, *searched), changes, source)
    data_of_points = {key: value for key, value in data.items() if key not in (SWEEP, SEARCH)}
    sweep = Sweep(name, source, data_of_points, axes, folder, changes, search)
    if sweep.size() > MOST_POINTS:
        raise ExperimentError(
            f"{source}: {SWEEP} has {sweep.words()}; allowed: at most {MOST_POINTS} points; leave values out, or divide"
            " them among several files"
        )
    return sweep


def sweep_digest(points: Sequence[SweepPoint], search: Search | None = None) -> str:
    """Return eight hexadecimal digits of the request: a sweep is resumed only by the very same request."""
    request: list[Any] = [[dict(point.values), digest(point.experiment)] for point in points]
    text = json.dumps(request + ([repr(search)] if search else []), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def require_simulated(sweep: Sweep, points: Sequence[SweepPoint]) -> None:
    """Raise ExperimentError where a point needs machines, or code of a commit, with the reason. A search may need both:
    its points on machines are series, one after the other."""
    if sweep.search is not None:
        points = [point for point in points if point.experiment.testbed.name == SIMULATED]
    if pairs := [(point, each.name) for point in points for each in point.experiment.variants if each.code]:
        point, name = pairs[0]
        raise ExperimentError(
            f"{point_words(sweep.source, point.number, point.values)}: variants.{name}.code is set; a sweep has the"
            " policies of the work tree only; leave it out, or compare two commits with barograph compare"
        )
    points_on_machines = [point for point in points if point.experiment.testbed.name != SIMULATED]
    if not points_on_machines:
        return
    example = points_on_machines[0]
    number = len(points_on_machines)
    which = "no point is" if number == len(points) else f"{number} of {len(points)} points are not"
    raise ExperimentError(
        f"{point_words(sweep.source, example.number, example.values)}: testbed.name is"
        f" {example.experiment.testbed.name!r} ({which} simulated); allowed in a sweep: {SIMULATED!r}, for its points"
        " run side by side, which would disturb one another on machines, and there may be thousands; set testbed.name"
        f" to {SIMULATED}, or give --testbed {SIMULATED}"
    )


def _axes(given: Any, source: str) -> tuple[Axis, ...]:
    where = f"{source}: {SWEEP}"
    if not isinstance(given, Mapping) or not given:
        raise ExperimentError(f"{where} is {given!r}; allowed: fields with lists of their values, such as {EXAMPLE}")
    if problem := no_json(dict(given), SWEEP):
        raise ExperimentError(f"{source}: {problem}")
    return tuple(_axis(key, values, where) for key, values in given.items())


def _require_distinct(paths: Sequence[str], source: str) -> None:
    for outer_path, inner_path in combinations(sorted(paths), 2):
        if outer_path == inner_path or inner_path.startswith(f"{outer_path}."):
            raise ExperimentError(
                f"{source}: {SWEEP} sets {inner_path} twice ({outer_path}, {inner_path}); give each field once"
            )


def _require_unchanged(axes: Sequence[Axis], changes: Mapping[str, Any], source: str) -> None:
    """Refuse changes of a swept field: the command line's value holds in every point, and would replace the sweep."""
    values = {key: value for key, value in changes.items() if value is not None}
    fields = [f"testbed.options.{SIMULATED}.{name}" for name in values.get("options", ())]
    fields += [CHANGED_FIELDS[key] for key in values if key in CHANGED_FIELDS]
    for path in (path for axis in axes for path in axis.paths):
        for field in fields:
            if f"{field}.".startswith(f"{path}.") or f"{path}.".startswith(f"{field}."):
                raise ExperimentError(
                    f"{source}: {SWEEP} has {path}, and the command line sets {field} of every point; leave one of"
                    " the two out, or write the latter into the file: what is swept is laid over it"
                )


def _axis(key: str, values: Any, where: str) -> Axis:
    paths = tuple(path.strip() for path in key.split(","))
    if not all(all(path.split(".")) for path in paths):
        raise ExperimentError(f"{where} has the field {key!r}; allowed: keys with dots between them: machines.before")
    if reserved_keys := [path for path in paths if path.split(".")[0] in ("name", SWEEP, SEARCH)]:
        raise ExperimentError(f"{where} has the field {reserved_keys[0]}; allowed: the keys of an experiment's file")
    if not isinstance(values, list) or not values:
        raise ExperimentError(f"{where}.{key} is {values!r}; allowed: a list of one value or more")
    if len(paths) == 1:
        values = [[value] for value in values]
    for value in values:
        if not isinstance(value, list) or len(value) != len(paths):
            allowed = f"allowed: a list with a value of each of its {len(paths)} fields"
            raise ExperimentError(f"{where}.{key} has {value!r}; {allowed}")
    steps = tuple(tuple(value) for value in values)
    texts = [json.dumps(step, sort_keys=True) for step in steps]
    if twice := [values[place] for place, text in enumerate(texts) if text in texts[:place]]:
        value = twice[0][0] if len(paths) == 1 else twice[0]
        raise ExperimentError(f"{where}.{key} has {json.dumps(value)} twice; give each value once")
    firsts = [json.dumps(step[0], sort_keys=True) for step in steps]
    if twice := [text for place, text in enumerate(firsts) if text in firsts[:place]]:
        raise ExperimentError(
            f"{where}.{key} has the value {twice[0]} of {paths[0]} twice; fields that change together are shown by the"
            " first one: put one there that differs in every step"
        )
    return Axis(paths, steps)
