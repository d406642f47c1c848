"""How often the nightly is wrong, how soon it is right, and how long it takes.

  python -m bench.statistics.nights [alarms|steps|spikes|drift|shares|grid|speed]...
                                     [--series 200] [--nights 365] [--seed N]

Every part but `speed` is of synthetic series with known truth, judged night by night as each night would have been
judged then. The defaults of `change_points.Rule` were chosen from what this prints (docs/decisions/statistics.md).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np

from analysis.nights import night_records, pages
from analysis.nights.findings import evaluate, review
from analysis.nights.night_records import NightRecord, parse_night
from analysis.nights.night_series import NEVER_SUFFIX, NightKey, NightPoint, NightSeries
from analysis.nights.regressions import Finding, RegressionKind, Settings, Status, judge
from analysis.stats.change_points import Rule, change_points, share_changes
from bench.statistics import synthetic_nights

KEY = NightKey("bench/series", "stela", "throughput_after", "e1", "type_1")
BEFORE = 60  # nights before a step
PATIENCE = 40  # nights after which a step counts as not found
SPIKE = 30.0  # percent
DRIFT = 0.1  # percent a night
Noise = Callable[[np.random.Generator, int, float], synthetic_nights.Values]


@dataclass(frozen=True)
class NightFindings:
    """What was said of a series in one night."""

    night: int
    findings: tuple[Finding, ...]

    def confirmed(self) -> Iterator[Finding]:
        return (one for one in self.findings if one.status is Status.CONFIRMED)


@cache
def _nights(number: int) -> tuple[NightRecord, ...]:
    records = (synthetic_nights.night(i, "bench", []) | {"sequence": i + 1} for i in range(number))
    return tuple(parse_night(json.dumps(record), "bench") for record in records)


def by_night(
    values: Sequence[float], rules: Sequence[Rule], first: int, last: int
) -> Iterator[tuple[NightFindings, ...]]:
    """Night after night, what each rule says then. Rules must differ in what comes after Otava only."""
    nights = _nights(len(values))
    for tonight in range(first, last):
        known, of = list(values[: tonight + 1]), nights[: tonight + 1]
        found = change_points(known, rules[0])
        series = NightSeries(KEY, tuple(NightPoint(value, value, value, 1) for value in known))
        yield tuple(NightFindings(tonight, judge(series, of, found, Settings(rule=rule))) for rule in rules)


def alarms(values: Sequence[float], rules: Sequence[Rule]) -> list[int]:
    """Times that each rule told of a confirmed change, a change once however often its border moved."""
    findings: list[list[Finding]] = [[] for _ in rules]
    for nights in by_night(values, rules, 10, len(values)):
        for alarms_of_rule, night in zip(findings, nights, strict=True):
            _add_new(alarms_of_rule, night)
    return [sum(one.kind is RegressionKind.REGRESSION for one in alarms_of_rule) for alarms_of_rule in findings]


def _add_new(known: list[Finding], night: NightFindings) -> None:
    for one in night.confirmed():
        if not any(one.kind is other.kind and abs(one.since - other.since) <= 5 for other in known):
            known.append(one)


def shares_by_night(never: Sequence[int], runs: int, first: int = 0) -> Iterator[NightFindings]:
    """Night after night, what is said of the share of its runs that never got there."""
    nights, key = _nights(len(never)), replace(KEY, metric="convergence_sp_s" + NEVER_SUFFIX)
    points = [NightPoint(100.0 * each / runs, runs=runs, never=each) for each in never]
    for tonight in range(first, len(never)):
        series = NightSeries(key, tuple(points[: tonight + 1]))
        found = share_changes(never[: tonight + 1], [runs] * (tonight + 1))
        yield NightFindings(tonight, judge(series, nights[: tonight + 1], found, Settings()))


def share_alarms(never: Sequence[int], runs: int) -> int:
    """Regressions told, a change once."""
    told: list[Finding] = []
    for night in shares_by_night(never, runs):
        _add_new(told, night)
    return sum(one.kind is RegressionKind.REGRESSION for one in told)


def nights_to_share_alarm(rng: np.random.Generator, runs: int, share: float) -> int | None:
    """From the first night in which this share never gets there, and before none, to the alarm."""
    never = [0] * BEFORE + rng.binomial(runs, share, PATIENCE).tolist()
    found = (night.night for night in shares_by_night(never, runs, BEFORE) if any(night.confirmed()))
    first = next(found, None)
    return None if first is None else first - BEFORE + 1


def false_alarms(
    rules: Sequence[Rule], make: Noise, percent: float, series: int, nights: int, seed: int
) -> list[float]:
    """Regressions told in `series` x `nights` of nothing, by rule, for 200 series."""
    rng = np.random.default_rng(seed)
    found = [alarms(list(make(rng, nights, percent)), rules) for _ in range(series)]
    return [sum(one) * 200 / series for one in zip(*found, strict=True)]


@dataclass(frozen=True)
class StepDetection:
    """Of injected steps: the share found, nights from the first bad one (1: that night), the share of commit ranges
    that hold the true night, and how many nights a range has.
    """

    share: float
    median_nights: float | None
    slow_nights: float | None
    suspected_median: float | None
    in_range: float | None
    range_nights: float | None


def detect_steps(rule: Rule, percent: float, step: float, series: int, seed: int) -> StepDetection:
    rng = np.random.default_rng(seed)
    after: list[int] = []
    suspected: list[int] = []
    truth: list[bool] = []
    widths: list[int] = []
    for _ in range(series):
        values = synthetic_nights.noise(rng, BEFORE + PATIENCE, percent)
        values[BEFORE:] *= 1 - step / 100
        hit = _first_confirmation(list(values), rule, suspected)
        if hit is not None:
            after.append(hit.night - BEFORE + 1)
            (one, *_) = hit.confirmed()
            truth.append(one.good < BEFORE <= one.bad)
            widths.append(one.bad - one.good)
    if not after:
        return StepDetection(0.0, None, None, None, None, None)
    return StepDetection(
        100 * len(after) / series, median(after), float(np.percentile(after, 90)),
        median(suspected) if suspected else None, 100 * sum(truth) / len(truth),
        sum(widths) / len(widths),
    )  # fmt: skip


def _first_confirmation(values: Sequence[float], rule: Rule, suspected: list[int]) -> NightFindings | None:
    """The first night after the step that confirms a regression near it; notes when it was first suspected."""
    noted = False
    for (night,) in by_night(values, [rule], BEFORE, len(values)):
        near = [one for one in night.findings if one.kind is RegressionKind.REGRESSION and abs(one.since - BEFORE) <= 5]
        if near and not noted:
            suspected.append(night.night - BEFORE + 1)
            noted = True
        if any(one.status is Status.CONFIRMED for one in near):
            return NightFindings(night.night, tuple(near))
    return None


def spikes_that_alarm(rule: Rule, percent: float, series: int, seed: int) -> tuple[int, int]:
    """Of single nights that are 30 % worse: how many were confirmed within ten nights, how many suspected at once."""
    rng = np.random.default_rng(seed)
    wrong = suspected = 0
    for _ in range(series):
        values = synthetic_nights.noise(rng, BEFORE + 12, percent)
        values[BEFORE] *= 1 - SPIKE / 100
        nights = [night for (night,) in by_night(list(values), [rule], BEFORE, len(values))]
        suspected += any(one.since == BEFORE for one in nights[0].findings)
        wrong += any(abs(one.since - BEFORE) <= 3 for night in nights for one in night.confirmed())
    return wrong, suspected


def drift_until_alarm(rule: Rule, percent: float, series: int, seed: int) -> tuple[float, float | None]:
    """Of drifts that lose 0.1 % a night: the share told within 150 nights, and how much was lost by then (median)."""
    rng = np.random.default_rng(seed)
    lost = []
    for _ in range(series):
        values = synthetic_nights.noise(rng, BEFORE + 150, percent)
        values[BEFORE:] *= 1 - DRIFT / 100 * np.arange(1, 151)
        for (night,) in by_night(list(values), [rule], BEFORE, len(values)):
            if any(one.kind is RegressionKind.REGRESSION and one.since >= BEFORE for one in night.confirmed()):
                lost.append((night.night - BEFORE + 1) * DRIFT)
                break
    return 100 * len(lost) / series, median(lost) if lost else None


NOISES = (1.0, 2.0, 4.0)  # percent from night to night
STEPS = (5.0, 10.0, 20.0)
GRID = tuple((window, p) for window in (30, 50) for p in (1e-4, 1e-5, 1e-6))
MINIMA = (2.0, 3.0, 5.0)
RUNS, SHARES = (1, 2, 3), (0.02, 0.1, 0.3, 0.5, 1.0)
Result = TypeVar("Result")


def speed(series: int, nights: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "bench"
        synthetic_nights.write_history(folder, series, nights, seed)
        read_s, history = _timed(lambda: night_records.read_history(folder))
        judge_s, found = _timed(lambda: evaluate(history, Settings()))
        again_s, _ = _timed(lambda: review(folder, Settings()))
        known_s, found = _timed(lambda: review(folder, Settings()))
        write_s, index = _timed(lambda: pages.write(folder, found))
        rewrite_s, _ = _timed(lambda: pages.write(folder, found))
        print(f"{series} series x {nights} nights ({len(history.nights)} on record), CPU seconds of this process")
        print(f"  reading {read_s:.1f}, judging {judge_s:.1f}, both {again_s:.1f}, with what was known {known_s:.1f}")
        print(f"  pages {write_s:.1f} for the first time, {rewrite_s:.1f} each night")
        print(f"  index.html {index.stat().st_size / 1e6:.2f} MB")


def _timed(do: Callable[[], Result]) -> tuple[float, Result]:
    started = time.process_time()
    result = do()
    return time.process_time() - started, result


def _print_alarms(series: int, nights: int, seed: int) -> None:
    print(f"False alarms (confirmed regressions) per 200 series x {nights} nights of nothing; from {series} series")
    kinds: tuple[tuple[str, Noise], ...] = (
        ("normal", synthetic_nights.noise),
        ("t, 3 df", synthetic_nights.heavy_noise),
    )
    for name, make in kinds:
        for percent in NOISES:
            (found,) = false_alarms([Rule()], make, percent, series, nights, seed)
            print(f"  {name:8} {percent:3.0f} %: {found:6.1f}", flush=True)


def _print_steps(series: int, seed: int) -> None:
    print(f"Steps, each in {series} series: share confirmed within {PATIENCE} nights, nights to it (median, 90 %), "
          "nights to a suspicion (median), commit ranges right, nights in a range (mean)")  # fmt: skip
    for percent in NOISES:
        for step in STEPS:
            it = detect_steps(Rule(), percent, step, series, seed)
            numbers = (it.median_nights, it.slow_nights, it.suspected_median, it.in_range, it.range_nights)
            shown = "  ".join("    –" if number is None else f"{number:5.1f}" for number in numbers)
            print(f"  noise {percent:3.0f} %  step {step:3.0f} %: {it.share:5.1f} %  {shown}", flush=True)


def _print_spikes(series: int, seed: int) -> None:
    for percent in NOISES:
        wrong, suspected = spikes_that_alarm(Rule(), percent, series, seed)
        text = f"{wrong} of {series} alarmed, {suspected} suspected that night"
        print(f"One night {SPIKE:.0f} % worse, noise {percent:.0f} %: {text}", flush=True)


def _print_drift(series: int, seed: int) -> None:
    for percent in NOISES:
        share, lost = drift_until_alarm(Rule(), percent, series, seed)
        text = f"{share:.0f} % found within 150 nights"
        by = "" if lost is None else f", when {lost:.1f} % were lost (median)"
        print(f"Drift of {DRIFT} % a night, noise {percent:.0f} %: {text}{by}", flush=True)


def _print_shares(series: int, nights: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    print(f"Share of a night's runs that never got there: regressions told in {series} series x {nights} nights;\n"
          f"and nights from its beginning (none before) to the alarm, median and 90 % of {series} series")  # fmt: skip
    for runs, share in product(RUNS, SHARES):
        wrong = sum(share_alarms(rng.binomial(runs, share, nights).tolist(), runs) for _ in range(series))
        found = [nights_to_share_alarm(rng, runs, share) or PATIENCE + 1 for _ in range(series)]
        middle, late = np.quantile(found, [0.5, 0.9])
        print(f"  {runs} a night, {100 * share:3.0f} %: {wrong:3d} told; {middle:.0f} and {late:.0f} nights "
              f"({PATIENCE + 1}: not found)", flush=True)  # fmt: skip


def _print_grid(series: int, nights: int, seed: int) -> None:
    print(f"Rules at noise 2 %: false alarms per 200 x {nights}, and steps of 5 % found (share, median nights)")
    for window, p in GRID:
        rules = [Rule(window, p, minimum) for minimum in MINIMA]
        found = false_alarms(rules, synthetic_nights.noise, 2.0, series, nights, seed)
        for rule, number in zip(rules, found, strict=True):
            it = detect_steps(rule, 2.0, 5.0, series, seed)
            print(f"  window {window} p {p:<6} minimum {rule.minimum_percent:.0f} %: {number:6.1f} alarms; "
                  f"{it.share:5.1f} % in {it.median_nights or 0:.1f}", flush=True)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.statistics.nights", description=__doc__.splitlines()[0])
    parts = ("alarms", "steps", "spikes", "drift", "shares", "grid", "speed")
    parser.add_argument("parts", nargs="*", choices=[*parts, []], help="default: all but grid")
    parser.add_argument("--series", type=int, default=200)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    do: dict[str, Callable[[], None]] = {
        "alarms": lambda: _print_alarms(options.series, options.nights, options.seed),
        "steps": lambda: _print_steps(options.series, options.seed),
        "spikes": lambda: _print_spikes(options.series, options.seed),
        "drift": lambda: _print_drift(options.series, options.seed),
        "shares": lambda: _print_shares(options.series, options.nights, options.seed),
        "grid": lambda: _print_grid(options.series, options.nights, options.seed),
        "speed": lambda: speed(options.series, options.nights, options.seed),
    }
    for part in options.parts or [name for name in parts if name != "grid"]:
        do[part]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
