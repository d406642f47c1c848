"""A search: what is measured next, against brute force; and bad input."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log2
from random import Random
from typing import Any

import pytest

from barograph.campaign.search import judge
from barograph.errors import ExperimentError
from barograph.plan.experiment import EXPERIMENTS
from barograph.plan.search import Condition, Numbers, Threshold, search_rounds
from barograph.plan.sweep import Sweep, sweep_of
from barograph.yaml_files import read_yaml

AT_LEAST = Condition("throughput_after", is_upper=False, bound=0.0)


def found(last: int, measure: Callable[[int], float], most: int = 10) -> tuple[Threshold, dict[int, Numbers], int]:
    """The end of a search with a run a round, all that it measured, and its rounds."""
    rounds, count = search_rounds(last, ["x"], lambda numbers: judge(AT_LEAST, most, numbers)), 0
    wanted = next(rounds)
    while True:
        count += 1
        try:
            wanted = rounds.send([[measure(place)] for _, place, _ in wanted])
        except StopIteration as end:
            ((threshold, numbers),) = end.value.values()
            return threshold, numbers, count


def test_of_a_monotone_function_the_smallest_that_holds_is_found_by_halves() -> None:
    rng = Random(1)
    for _ in range(60):
        last = rng.randint(1, 500)
        values = sorted(rng.uniform(-1, 1) for _ in range(last + 1))
        threshold, numbers, _ = found(last, values.__getitem__)
        first = next((place for place, value in enumerate(values) if value >= 0), None)
        assert threshold.holds == first and threshold.sure and threshold.monotone
        if first not in (0, None):
            assert threshold.below == first - 1 and len(numbers) <= 2 + ceil(log2(last))
            assert {place for place, each in numbers.items() if len(each) > 1} == {first - 1, first}
        else:
            assert None in (threshold.holds, threshold.below) and set(numbers) == {0, last}


def test_noise_costs_repetitions_at_the_edge_and_never_the_end() -> None:
    rng, sure, right = Random(2), 0, 0
    for number in range(80):
        last = rng.randint(10, 200)
        true = sorted(rng.uniform(-1, 1) for _ in range(last + 1))
        if not true[0] < -0.3 or not true[-1] > 0.3:
            continue
        noise = (0.05, 0.001)[number % 2]
        draw: Callable[[int], float] = lambda place, true=true, noise=noise: true[place] + rng.gauss(0, noise)  # noqa: E731
        threshold, numbers, count = found(last, draw)
        assert threshold.holds is not None and threshold.below == threshold.holds - 1
        assert max(map(len, numbers.values())) <= 10 and count <= 200
        assert true[threshold.below] < 0.25 and true[threshold.holds] > -0.25, "but for the noise"
        for place in (threshold.below, threshold.holds) if threshold.sure else ():
            assert len(numbers[place]) >= 3
        sure += threshold.sure
        right += threshold.sure and true[threshold.below] < 0 <= true[threshold.holds]
    assert 20 <= sure == right


def test_a_metric_that_falls_again_is_said_not_to_be_monotone() -> None:
    threshold, numbers, _ = found(50, lambda place: 1.0 if place < 30 else -1.0)
    assert (threshold.holds, threshold.below, threshold.monotone) == (0, None, False) and set(numbers) == {0, 50}
    flips = iter([1.0])  # the middle holds once, and not when it is repeated
    threshold, _, _ = found(2, lambda place: {0: -1.0, 2: 1.0}.get(place) or next(flips, -9.0), most=3)
    assert (threshold.holds, threshold.below) == (2, 1)


def test_a_run_that_failed_or_has_no_number_does_not_hold_and_a_certain_number_needs_no_spread() -> None:
    assert not judge(AT_LEAST, 10, [1.0, None]).holds
    assert not judge(AT_LEAST, 10, [None]).over and judge(AT_LEAST, 10, [None] * 3).sure
    assert not judge(AT_LEAST, 3, [None, 1.0, 1.0]).sure and judge(AT_LEAST, 3, [None, 1.0, 1.0]).over
    exact = Condition("lost_after", is_upper=True, bound=0.0)
    assert judge(exact, 10, [0.0, 0.0, 0.0]).sure and not judge(exact, 10, [0.0, 0.0]).over
    wide = judge(AT_LEAST, 3, [-1.0, 1.0, 2.0])
    assert wide.holds and wide.over and not wide.sure


def star(search: Any, **more: Any) -> Sweep:
    data = read_yaml(EXPERIMENTS / "stela" / "star.yaml")
    testbed = {**data["testbed"], "name": "simulated"}
    return sweep_of("stela/x", {**data, "testbed": testbed, "search": search, **more}, {}, folder=EXPERIMENTS)


UNTIL = {"until": "throughput_after >= 850"}


def test_fields_that_move_together_go_evenly_and_other_machines_follow() -> None:
    sweep = star({"machines.before, topology.overrides.workers": [[2, 12], [8, 24]], **UNTIL})
    assert sweep.search is not None and sweep.search.steps[:2] == ((2, 12), (3, 14))
    assert [point.experiment.machines.after for point in sweep.points()] == [3, 9]
    point = sweep.point_of_search(7, {}, "stela", 3, 2)
    assert [each.name for each in point.experiment.variants] == ["stela"]
    assert (point.values["machines.before"], point.values["topology.overrides.workers"]) == (5, 18)
    assert point.experiment.seed == point.values["seed"] == sweep.points()[0].experiment.seed + 2
    rates = star({"topology.parameters.rate_per_s": [100.0, 200.0], "step": 25.0, **UNTIL}).search
    assert rates is not None and [step for (step,) in rates.steps] == [100.0, 125.0, 150.0, 175.0, 200.0]


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ({"machines.before": [2, 8]}, "allowed: one field with its smallest and largest value, `until`"),
        (UNTIL, "allowed: one field"),
        ({"machines.before": [2, 8], "seed": [1, 2], **UNTIL}, "allowed: one field"),
        ({"machines.before": [8, 2], **UNTIL}, "is from 8 to 2; allowed: the smaller one first"),
        ({"machines.before": [8, 8], **UNTIL}, "is from 8 to 8"),
        ({"machines.before": [2, "x"], **UNTIL}, r"search.machines.before is \[2, 'x'\]; allowed: the smallest"),
        ({"machines.before": [2, 9], "step": 2, **UNTIL}, "step is 2; allowed: a number that divides 7"),
        ({"machines.before": [10, 20], "step": 0.5, **UNTIL}, "step is 0.5; allowed: a whole number"),
        ({"machines.before": [2, 9], "step": 1.0e-310, **UNTIL}, "step is 1e-310; allowed: at most 10000 values"),
        ({"topology.parameters.rate_per_s": [2.0, 9.0], "step": 1.0e-310, **UNTIL}, "at most 10000 values"),
        ({"topology.parameters.rate_per_s": [1e-10, 5e-10], **UNTIL}, "allowed: values that differ in 9 decimals"),
        ({"machines.before": [2, 10**400], **UNTIL}, "allowed: the smallest and the largest number"),
        ({"machines.before": [2, 8], "usd_per_hour": 10**400, **UNTIL}, "usd_per_hour is 1000"),
        ({"machines.befor": [2, 8], **UNTIL}, "befor"),
        ({"seed": [2, 8], **UNTIL}, "has the field 'seed'"),
        ({"machines.before": [2, 8], "until": "throughput_after > 850"}, "until is 'throughput_after > 850'; allowed"),
        ({"machines.before": [2, 8], "until": 850}, "until is 850; allowed: a metric, <= or >=, and a number"),
        ({"machines.before": [2, 8], "most_repetitions": 0, **UNTIL}, "most_repetitions is 0; allowed"),
        ({"machines.before": [2, 8], "usd_per_hour": "x", **UNTIL}, "usd_per_hour is 'x'"),
    ],
)
def test_bad_input_is_refused(search: Any, words: str) -> None:
    with pytest.raises(ExperimentError, match=words):
        star(search).points()


def test_seeds_and_the_searched_field_are_not_swept_beside_it() -> None:
    search = {"machines.before": [2, 8], **UNTIL}
    with pytest.raises(ExperimentError, match="sweep has seed; leave it out"):
        star(search, sweep={"seed": [1, 2]})
    with pytest.raises(ExperimentError, match=r"sets machines\.before twice"):
        star(search, sweep={"machines.before": [1, 2]})
    assert len(star(search, sweep={"topology.name": ["star", "linear"]}).points()) == 4
