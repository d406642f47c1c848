"""Levels, gains and verdicts of series whose right answer is known (tests.support.series_with_answers)."""

from collections.abc import Container, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Any

import numpy as np
import pytest

from analysis.ingest.run_tables import component_rows
from analysis.metrics.convergence import convergence_rows, interval_rows, phase_windows
from analysis.metrics.measurements import measurements
from analysis.metrics.steadiness import is_steady
from analysis.metrics.throughput import EDGE_S, throughput_rows
from scheduler_plugins.model import Component, Edge, Topology
from scheduler_plugins.service.samples import Samples
from tests.support.series_with_answers import (
    CHAIN,
    DIPS,
    GENTLE,
    LATE,
    LEVEL,
    LEVEL_FROM_THE_START,
    LEVELS,
    PLACES,
    RAMPS,
    STEPS,
    SWINGS,
    TRENDS,
    Rates,
    Shape,
    chain_activity,
    chain_rates,
    chain_record,
    series,
    then_level,
    windows_after,
)

UNIT = {"run_id": "r", "topology": ""}

KEY = {**UNIT, "event_id": "e1"}
WINDOWS = 30


def measured(rates: Rates | Sequence[float], unreported: Container[int] = ()) -> dict[str, Any]:
    """The numbers of a run with these windows after its event; `steady`, and where its part begins, with them."""
    return numbers_of(windows_after(rates, KEY, unreported))


def numbers_of(throughput: list[dict[str, Any]]) -> dict[str, Any]:
    series = phase_windows(throughput)
    intervals = interval_rows(series, {})
    tables = {
        "event_throughput": throughput,
        "intervals": intervals,
        "convergence": convergence_rows(series, intervals),
    }
    numbers = {row["metric"]: row["value"] for row in measurements(lambda name: tables.get(name, []))}
    return numbers | {name: intervals[0][name] for name in ("steady", "start_s")}


@pytest.mark.parametrize("place", PLACES)
def test_levels_and_times_are_those_of_the_place_that_the_topology_names(place: str) -> None:
    """Spouts, sinks and a component have other levels, dips and outages; in the live series as in the tables."""
    components = [{"run_id": "r", **row} for row in component_rows(chain_record(place))]
    axis = {**KEY, "zero_s": 0.0, "first_s": -EDGE_S, "last_s": 10.0 * WINDOWS + EDGE_S}
    rows = throughput_rows([axis], chain_activity(KEY, WINDOWS), components)
    expected = chain_rates(place, WINDOWS)
    found = numbers_of(rows)
    assert found.pop("spouts_after") == 3000.0 and found == measured(expected)
    assert len({measured(chain_rates(each, WINDOWS))["throughput_after"] for each in PLACES}) == len(PLACES)
    parts = chain_record(place)["topology"]["components"]
    edges = [Edge(a, "default", b, "shuffle") for a, b in pairwise(("spout_1", "work", "sink_1"))]
    edges += [Edge("spout_2", "default", "work", "shuffle"), Edge("work", "default", "sink_2", "shuffle")]
    topology = Topology(
        "t-1", "t", 1, tuple(Component(each["name"], each["kind"], (), ()) for each in parts), tuple(edges)
    )
    samples = Samples("t-1", sample_s=10, measured=topology.measured(place))
    for row in chain_activity(KEY, WINDOWS):
        task = 1 + [*CHAIN].index(row["component"])
        emitted, executed = row["emitted"], row["executed"]
        tasks = {"task": [task], "component": [row["component"]], "executed": [executed], "queue": [0],
                 "execute_ms": [None], "emitted": [executed if emitted is None else emitted]}  # fmt: skip
        spouts = (
            {}
            if emitted is None
            else {"spouts": {"task": [task], "due": [None], "emitted": [emitted], "behind_ms": [0.0]}}
        )
        line = {"v": 1, "t": 1010.0 + row["window_s"], "dt_s": 10.0, "machine": "m1", "port": task, "pid": 1}
        samples.add_worker(line | {"seq": 0, "topology": "t-1", "tasks": tasks} | spouts)
    assert list(samples.series(1010.0 + 10 * WINDOWS).throughput) == pytest.approx(expected)


def drawn(shape: Shape, noise: float, windows: int = WINDOWS, number: int = 60, tails: bool = False) -> list[Rates]:
    rng = np.random.default_rng(7)
    return [series(shape, noise, windows, rng, tails) for _ in range(number)]


def errors(shape: Shape, noise: float, windows: int = WINDOWS, tails: bool = False) -> list[float]:
    """By what share of the level each drawn run's throughput is off."""
    return [measured(rates)["throughput_after"] / LEVEL - 1 for rates in drawn(shape, noise, windows, tails=tails)]


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("dip", DIPS, ids=lambda dip: dip.name)
def test_a_dip_is_no_part_of_the_level(dip: Shape, noise: float) -> None:
    """In the mean of many runs, which the harsher variant would else win, and in nearly each of them."""
    found = errors(dip, noise)
    assert abs(fmean(found)) < noise / 5 + 1e-9
    assert fmean(abs(error) <= noise for error in found) > 0.95


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("shape", [*RAMPS, *STEPS, *SWINGS], ids=lambda shape: shape.name)
def test_the_level_is_the_one_at_the_end(shape: Shape, noise: float) -> None:
    found = errors(shape, noise)
    assert max(map(abs, found)) < 0.015 + noise
    assert fmean(measured(rates)["steady"] for rates in drawn(shape, noise)) > 0.9


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_level_that_changed_in_noise_is_the_last_one_in_most_runs(step: Shape) -> None:
    assert abs(median(errors(step, 0.05))) < 0.03


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.02, 0.05])
@pytest.mark.parametrize("late", LATE, ids=lambda late: late.name)
def test_a_short_end_does_not_outvote_what_was_before_it(late: Shape, noise: float) -> None:
    """It may be a dip that is not over; the stand-in is no mean of these windows alone."""
    runs = drawn(late, noise, len(late.rates(100)))
    assert fmean(measured(rates)["steady"] for rates in runs) < 0.02 + noise
    assert abs(fmean(measured(rates)["throughput_after"] / LEVEL for rates in runs) - 1) > 0.05


def test_a_watch_does_not_end_in_a_dip() -> None:
    """One look a window, from a floor of 300 s on: until the dip of 40 s is over, or has lasted as long as a level.
    Two windows before it are outside as well, in the mean of three."""
    dip = [100.0] * 26 + [80.0] * 4
    looks = [is_steady([*dip, *[100.0] * more], 10.0) for more in range(10)]
    assert [look.steady for look in looks] == [False] * 6 + [True] * 4 and looks[-1].since_s == 300.0
    lasting = [is_steady([100.0] * 26 + [80.0] * length, 10.0).steady for length in range(4, 20)]
    assert lasting == [False] * 8 + [True] * 8


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("old", range(1, 7))
def test_a_change_of_level_is_there_as_soon_as_it_has_lasted_as_long_as_what_it_follows(old: int, noise: float) -> None:
    """A scale-out: the old level while workers restart, a dip, what waited meanwhile, and the new level."""
    shape = Shape("scale-out", then_level(*[1 / 1.3] * old, 0.3, 1.2))
    found = errors(shape, noise)
    assert abs(fmean(found)) < noise / 5 + 1e-9
    assert fmean(abs(error) <= 2 * noise for error in found) > 0.95
    if not noise:
        looks = range(max(4, old + 2), WINDOWS)
        steady = [seen for seen in looks if measured(drawn(shape, 0.0, seen, 1)[0])["steady"]]
        assert steady == list(range(max(2 * (old + 2), old + 6), WINDOWS))


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("shape", [LEVEL_FROM_THE_START, *DIPS, *RAMPS, *STEPS], ids=lambda shape: shape.name)
@pytest.mark.parametrize("gap", [1, 5])
@pytest.mark.parametrize("begin", [0, 2, 5, 14, 22, 29])
def test_windows_that_nobody_reported_make_no_neighbours_and_no_zero(
    shape: Shape, noise: float, gap: int, begin: int
) -> None:
    """The part, and a stretch that converged, are on one side of them; the level is that of windows with reports."""
    unreported = range(begin, min(begin + gap, WINDOWS))
    for rates in drawn(shape, noise, number=5):
        found = measured(rates, unreported)
        if unreported.stop == WINDOWS:
            assert found == measured(rates[:begin])
            continue
        assert not 10 * unreported.start < found["convergence_sp_s"] <= min(10 * unreported.stop + 30, 290)
        if found["steady"]:
            assert found["start_s"] >= 10.0 * unreported.stop or begin == 0
            assert found["throughput_after"] == pytest.approx(LEVEL, rel=0.01 + noise)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_a_level_converges_before_what_scatters_around_it(level: Shape) -> None:
    """Its four windows are two above and two below; noise of 3 % takes longer, and a smoother series never longer."""
    zeros_s = 10.0 * list(level.rates(WINDOWS)).count(0.0)
    times = {noise: [measured(rates) for rates in drawn(level, noise)] for noise in (0.0, 0.0003, 0.003, 0.03)}
    for name in ("convergence_sp_s", "convergence_st_s"):
        assert {run[name] for run in times[0.0]} == {40.0 + zeros_s}
        means = [fmean(run[name] for run in runs) for runs in times.values()]
        assert means == sorted(means)


def test_a_late_window_that_was_not_measured_leaves_the_script_without_a_number() -> None:
    level = [LEVEL] * WINDOWS
    assert measured(level)["convergence_script_s"] == 0.0
    assert measured(level, [0])["convergence_script_s"] == 10.0, "the watch begins with what was measured"
    assert measured(level, [3])["convergence_script_s"] == 40.0
    assert "convergence_script_s" not in measured(level, [27])


@pytest.mark.parametrize("gap", [3, 10, 15, 40])
def test_seconds_that_nobody_reported_are_none_at_the_level_while_watching_either(gap: int) -> None:
    """Every worker restarts, so no line comes: ten seconds before and thirty after make no steady forty."""
    seen = [*[100.0] * 30, *[None] * gap, *[100.0] * 30]
    level = is_steady(seen)
    assert level.steady is (gap < 10), level.reason
    assert is_steady([*seen, *[100.0] * 10]).steady
    assert is_steady([*[100.0] * 300, *[None] * gap, *[60.0] * 40]).since_s is None, "it may be a dip that is not over"


@pytest.mark.parametrize("trend", TRENDS, ids=lambda trend: trend.name)
def test_a_trend_is_level_below_the_limit_only(trend: Shape) -> None:
    steady = fmean(measured(rates)["steady"] for rates in drawn(trend, 0.01, windows=12))
    assert steady > 0.9 if trend is TRENDS[0] else steady < 0.6 if trend is TRENDS[1] else steady < 0.05


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.10])
def test_heavy_tails_move_no_level(noise: float) -> None:
    found = errors(LEVEL_FROM_THE_START, noise, tails=True)
    assert abs(fmean(found)) < noise / 10 and max(map(abs, found)) < 2 * noise
    wide = drawn(GENTLE, noise, tails=True, number=100)
    assert abs(fmean(measured(rates)["throughput_after"] / LEVEL - 1 for rates in wide)) < 0.005 + noise / 5


@pytest.mark.parametrize("windows", [4, 5, 6, 8, 9, 12])
def test_of_few_windows_the_dip_is_no_part_either(windows: int) -> None:
    """Four at the level are there after it; too few to be called steady where they scatter."""
    for dip in ((1.0, 0.6), (1.0, 0.6, 0.6), (1.0, 0.0, 0.6)):
        shape = Shape("short", then_level(*dip))
        if windows - len(dip) >= 4:
            assert measured(drawn(shape, 0.0, windows)[0])["throughput_after"] == LEVEL
            assert max(map(abs, errors(shape, 0.01, windows))) < 0.02
    calm = drawn(LEVEL_FROM_THE_START, 0.0, windows)[0]
    assert is_steady(calm.tolist(), 10.0).steady


# Of a thousand level series, which were not called steady before dips were looked for: that may cost two in a hundred.
UNSTEADY = {
    (9, 0.05): 489,
    (12, 0.01): 0,
    (12, 0.05): 125,
    (12, 0.10): 802,
    (30, 0.01): 0,
    (30, 0.05): 65,
    (30, 0.10): 313,
}


@pytest.mark.parametrize(("windows", "noise"), UNSTEADY)
def test_noise_alone_makes_no_level_unsteady(windows: int, noise: float) -> None:
    runs = drawn(LEVEL_FROM_THE_START, noise, windows, number=1000)
    unsteady = sum(not is_steady(rates.tolist(), 10.0).steady for rates in runs)
    assert unsteady <= UNSTEADY[windows, noise] + 20
