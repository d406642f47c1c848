"""A search: the smallest value of a field at which a condition on a metric holds (Theodolite's demand), as data, and
what is measured next. Pure.

Both ends come first, then halves. At the edge, the smallest value that holds and the one below it, blocks are repeated
until both are sure or have the most repetitions; what they change moves the edge, and the halves go on there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from typing import Any, TypeVar

from barograph.errors import ExperimentError

SEARCH = "search"  # the key of a file that is a search
EXAMPLE = "search: {machines.before: [2, 80], until: lost_after_percent <= 0.1}"
OPTIONS = ("until", "step", "most_repetitions", "usd_per_hour")
STEPS = 100  # of a range whose ends are not both whole numbers
MOST_VALUES, LARGEST, DECIMALS = 10_000, 1e15, 9
RESERVED = ("name", "seed", "sweep", SEARCH)  # by themselves no fields to search
Numbers = Sequence[float | None]  # of the condition's metric, a run each; None: the run failed, or has no such number
Target = TypeVar("Target", bound=Hashable)


@dataclass(frozen=True)
class Condition:
    """A condition on a metric: `<=` (`is_upper`) or `>=` a bound."""

    metric: str
    is_upper: bool
    bound: float

    def holds(self, value: float) -> bool:
        return value <= self.bound if self.is_upper else value >= self.bound

    def words(self) -> str:
        return f"{self.metric} {'<=' if self.is_upper else '>='} {self.bound:g}"


@dataclass(frozen=True)
class Search:
    """The searched field, or several that change together: `steps` has every value, in their order, of each path.
    `usd_per_hour`: of one machine, where the testbed has no prices."""

    paths: tuple[str, ...]
    steps: tuple[tuple[int | float, ...], ...]
    until: Condition
    most_repetitions: int = 10
    usd_per_hour: float | None = None


@dataclass(frozen=True)
class Judgement:
    """Whether the condition holds at a value; `sure`: the interval lies on one side; `over`: no further repetition."""

    holds: bool
    sure: bool
    over: bool


@dataclass(frozen=True)
class Threshold:
    """The end of a search, as places of values. `holds`: the smallest that holds; `below`: the next lower one that was
    measured. None: there is none. `monotone`: it holds at every larger one that was measured."""

    holds: int | None
    below: int | None
    sure: bool
    monotone: bool


def next_places(last: int, judged: Mapping[int, Judgement]) -> tuple[int, ...] | Threshold:
    """Return the places from 0 to `last` to measure, or to repeat; or the result."""
    if missing := tuple(place for place in (0, last) if place not in judged):
        return missing
    first = min((place for place in judged if judged[place].holds), default=None)
    below = max((place for place in judged if first is None or place < first), default=None)
    if first is None or below is None:
        edge = (0, last)
    elif first - below > 1:
        return ((first + below) // 2,)
    else:
        edge = (below, first)
    if unsure := tuple(place for place in edge if not judged[place].over):
        return unsure
    is_monotone = all(judged[place].holds for place in judged if first is not None and place > first)
    return Threshold(first, below, all(judged[place].sure for place in edge), is_monotone)


def search_rounds(
    last: int, targets: Sequence[Target], judge: Callable[[Numbers], Judgement]
) -> Generator[list[tuple[Target, int, int]], Sequence[Numbers], dict[Target, tuple[Threshold, Mapping[int, Numbers]]]]:
    """Yield what to measure in each round: target, place, and how many runs there are before; get their numbers; return
    each target's result and numbers. Targets are searched side by side."""
    numbers: dict[Target, dict[int, list[float | None]]] = {target: {} for target in targets}
    while True:
        steps = {target: next_places(last, {place: judge(each) for place, each in numbers[target].items()})
                 for target in targets}  # fmt: skip
        wanted = [(target, place, len(numbers[target].get(place, ())))
                  for target, step in steps.items() if isinstance(step, tuple) for place in step]  # fmt: skip
        if not wanted:
            return {target: (step, numbers[target]) for target, step in steps.items() if isinstance(step, Threshold)}
        for (target, place, _), more in zip(wanted, (yield wanted), strict=True):
            numbers[target].setdefault(place, []).extend(more)


def search_of(given: Any, source: str) -> Search:
    """Return the search of a file's key. Raises ExperimentError."""
    where = f"{source}: {SEARCH}"
    fields = [key for key in given if key not in OPTIONS] if isinstance(given, Mapping) else []
    if len(fields) != 1 or "until" not in given:
        raise ExperimentError(
            f"{where} is {given!r}; allowed: one field with its smallest and largest value, `until` and, if needed,"
            f" {', '.join(OPTIONS[1:])}, such as {EXAMPLE}"
        )
    paths = tuple(path.strip() for path in str(fields[0]).split(","))
    if wrong := [path for path in paths if not all(path.split(".")) or path.split(".")[0] in RESERVED]:
        raise ExperimentError(
            f"{where} has the field {wrong[0]!r}; allowed: the keys of an experiment's file but name and seed (each"
            " repetition has another one), with dots between them: machines.before"
        )
    steps = _steps(paths, given[fields[0]], given.get("step"), f"{where}.{fields[0]}")
    most, usd = given.get("most_repetitions", 10), given.get("usd_per_hour")
    if type(most) is not int or not 1 <= most <= 1000:
        raise ExperimentError(f"{where}.most_repetitions is {most!r}; allowed: a whole number from 1 to 1000")
    if usd is not None and not (_is_number(usd) and usd >= 0):
        raise ExperimentError(
            f"{where}.usd_per_hour is {usd!r}; allowed: what a machine costs in an hour, such as 0.05"
        )
    return Search(paths, steps, _condition(given["until"], f"{where}.until"), most, usd)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= LARGEST


def _steps(paths: Sequence[str], given: Any, step: Any, where: str) -> tuple[tuple[int | float, ...], ...]:
    """Return every value: the first field goes by `step`, the others evenly from their first to their last."""
    allowed = "allowed: the smallest and the largest number, such as [2, 80]"
    if not isinstance(given, list) or len(given) != 2:
        raise ExperimentError(f"{where} is {given!r}; {allowed}")
    low, high = ends = [each if isinstance(each, list) else [each] * len(paths) for each in given]
    if any(len(end) != len(paths) for end in ends) or not all(map(_is_number, chain(*ends))):
        of_each = f"; of several fields [[2, 1], [80, 79]], a number of each of the {len(paths)}"
        raise ExperimentError(f"{where} is {given!r}; {allowed}{of_each if len(paths) > 1 else ''}")
    if low[0] >= high[0]:
        raise ExperimentError(f"{where} is from {low[0]:g} to {high[0]:g}; allowed: the smaller one first")
    is_whole = [type(a) is int and type(b) is int for a, b in zip(low, high, strict=True)]
    width = high[0] - low[0]
    step = (1 if is_whole[0] else width / STEPS) if step is None else step
    if _is_number(step) and step > 0 and width / step > 2 * MOST_VALUES:  # or infinite
        raise ExperimentError(f"{where}: step is {step!r}; allowed: at most {MOST_VALUES} values; give a larger step")
    if _is_number(step) and is_whole[0] and step != round(step):
        raise ExperimentError(
            f"{where}: step is {step!r}; allowed: a whole number where both ends are; for others [{low[0]}.0, …]"
        )
    if not (_is_number(step) and step > 0) or abs(width / step - (number := round(width / step))) > 1e-9 * number:
        raise ExperimentError(f"{where}: step is {step!r}; allowed: a number that divides {width:g} into whole steps")
    if number > MOST_VALUES:
        raise ExperimentError(f"{where} has {number + 1} values; allowed: at most {MOST_VALUES}; give a larger step")
    steps = tuple(
        tuple(round(a + (b - a) * place / number, None if whole else DECIMALS)
              for a, b, whole in zip(low, high, is_whole, strict=True))
        for place in range(number + 1)
    )  # fmt: skip
    if [steps[0], steps[-1]] != [tuple(low), tuple(high)] or len({each[0] for each in steps}) <= number:
        raise ExperimentError(
            f"{where} is {given!r}, in steps of {step:g}; allowed: values that differ in {DECIMALS} decimals"
        )
    return steps


def _condition(text: Any, where: str) -> Condition:
    match = re.fullmatch(r"\s*(\w+)\s*(<=|>=)\s*(\S+)\s*", text) if isinstance(text, str) else None
    try:
        bound = float(match[3]) if match else float("nan")
    except ValueError:
        bound = float("nan")
    if match is None or not isfinite(bound):
        raise ExperimentError(
            f"{where} is {text!r}; allowed: a metric, <= or >=, and a number: throughput_after >= 850"
        )
    return Condition(match[1], match[2] == "<=", bound)
