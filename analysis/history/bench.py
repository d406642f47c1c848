"""How often the nightly is wrong, how soon it is right, and how long it takes.

    python -m analysis.history.bench [alarms|steps|spikes|drift|grid|speed]... [--series 200] [--nights 365] [--seed 1]

Every part but `speed` invents series with known truth and judges them night by night, as each night would have been
judged then. Decision 0012 chose the defaults of `settings.Rule` from what this prints.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np

from analysis.history import invented, pages, store
from analysis.history.changes import change_points
from analysis.history.findings import evaluate, review
from analysis.history.night import Night, parse
from analysis.history.regressions import Finding, Kind, Status, judge
from analysis.history.series import Key, Point, Series
from analysis.history.settings import Rule, Settings
from analysis.record import write_json_atomic

KEY = Key("bench/series", "stela", "throughput_after", "e1", "type_1")
TAIL = 130  # nights that a night looks back at here: more windows than one, and quick
BEFORE = 60  # nights before a step
PATIENCE = 40  # nights after which a step counts as not found
NOISES = (1.0, 2.0, 4.0)  # percent from night to night
STEPS = (5.0, 10.0, 20.0)
SPIKE = 30.0
DRIFT = 0.1  # percent a night
Made = TypeVar("Made")
GRID = tuple((window, p) for window in (30, 50) for p in (0.01, 0.001, 0.0001))
MINIMA = (2.0, 3.0, 5.0)


@dataclass(frozen=True)
class Seen:
    """What was said of a series in one night; indices are those of the whole series."""

    night: int
    findings: tuple[Finding, ...]

    def confirmed(self) -> Iterator[Finding]:
        return (one for one in self.findings if one.status is Status.CONFIRMED)


@cache
def _nights(number: int) -> tuple[Night, ...]:
    import json

    records = (invented.night(i, "bench", []) | {"sequence": i + 1} for i in range(number))
    return tuple(parse(json.dumps(record), "bench") for record in records)


def by_night(values: Sequence[float], rules: Sequence[Rule], first: int, last: int) -> Iterator[tuple[Seen, ...]]:
    """Night after night, what each rule says then. Rules must differ in what comes after Otava only."""
    nights = _nights(len(values))
    for tonight in range(first, last):
        start = max(0, tonight + 1 - TAIL)
        tail, of = list(values[start : tonight + 1]), nights[start : tonight + 1]
        found = change_points(tail, rules[0])
        series = Series(KEY, tuple(Point(value, value, value, 1) for value in tail))
        yield tuple(
            Seen(tonight, tuple(_moved(one, start) for one in judge(series, of, found, Settings(rule=rule))))
            for rule in rules
        )


def _moved(finding: Finding, by: int) -> Finding:
    return replace(finding, good=finding.good + by, bad=finding.bad + by)


def alarms(values: Sequence[float], rules: Sequence[Rule]) -> list[int]:
    """Times that each rule told of a confirmed change, a change once however often its border moved."""
    told: list[list[Finding]] = [[] for _ in rules]
    for seen in by_night(values, rules, 10, len(values)):
        for mine, said in zip(told, seen, strict=True):
            for one in said.confirmed():
                if not any(one.kind is other.kind and abs(one.bad - other.bad) <= 5 for other in mine):
                    mine.append(one)
    return [sum(one.kind is Kind.REGRESSION for one in mine) for mine in told]


Noise = Callable[[np.random.Generator, int, float], invented.Values]


def false_alarms(rules: Sequence[Rule], make: Noise, percent: float, series: int, nights: int, seed: int) -> list[float]:
    """Regressions told in `series` x `nights` of nothing, by rule, for 200 series."""
    rng = np.random.default_rng(seed)
    found = [alarms(list(make(rng, nights, percent)), rules) for _ in range(series)]
    return [sum(one) * 200 / series for one in zip(*found, strict=True)]


@dataclass(frozen=True)
class Found:
    """Of injected steps: the share found, nights from the first bad one (1: that night), and the range's truth."""

    share: float
    median_nights: float | None
    slow_nights: float | None
    suspected_median: float | None
    in_range: float | None


def found_steps(rule: Rule, percent: float, step: float, series: int, seed: int) -> Found:
    rng = np.random.default_rng(seed)
    after, suspected, truth = [], [], []
    for _ in range(series):
        values = invented.noise(rng, BEFORE + PATIENCE, percent)
        values[BEFORE:] *= 1 - step / 100
        hit = _first(list(values), rule, suspected)
        if hit is not None:
            after.append(hit.night - BEFORE + 1)
            truth.append(any(one.good < BEFORE <= one.bad for one in hit.confirmed()))
    if not after:
        return Found(0.0, None, None, None, None)
    return Found(
        100 * len(after) / series, median(after), float(np.percentile(after, 90)),
        median(suspected) if suspected else None, 100 * sum(truth) / len(truth),
    )  # fmt: skip


def _first(values: Sequence[float], rule: Rule, suspected: list[int]) -> Seen | None:
    """The first night after the step that confirms a regression near it; notes when it was first suspected."""
    noted = False
    for (seen,) in by_night(values, [rule], BEFORE, len(values)):
        near = [one for one in seen.findings if one.kind is Kind.REGRESSION and abs(one.bad - BEFORE) <= 5]
        if near and not noted:
            suspected.append(seen.night - BEFORE + 1)
            noted = True
        if any(one.status is Status.CONFIRMED for one in near):
            return Seen(seen.night, tuple(near))
    return None


def spikes_that_alarm(rule: Rule, percent: float, series: int, seed: int) -> tuple[int, int]:
    """Of single nights that are 30 % worse: how many were confirmed within ten nights, how many suspected at once."""
    rng = np.random.default_rng(seed)
    wrong = suspected = 0
    for _ in range(series):
        values = invented.noise(rng, BEFORE + 12, percent)
        values[BEFORE] *= 1 - SPIKE / 100
        said = [seen for (seen,) in by_night(list(values), [rule], BEFORE, len(values))]
        suspected += any(one.bad == BEFORE for one in said[0].findings)
        wrong += any(abs(one.bad - BEFORE) <= 3 for seen in said for one in seen.confirmed())
    return wrong, suspected


def drift_until_told(rule: Rule, percent: float, series: int, seed: int) -> tuple[float, float | None]:
    """Of drifts that lose 0.1 % a night: the share told within 150 nights, and how much was lost by then (median)."""
    rng = np.random.default_rng(seed)
    lost = []
    for _ in range(series):
        values = invented.noise(rng, BEFORE + 150, percent)
        values[BEFORE:] *= 1 - DRIFT / 100 * np.arange(1, 151)
        for (seen,) in by_night(list(values), [rule], BEFORE, len(values)):
            if any(one.kind is Kind.REGRESSION and one.bad >= BEFORE for one in seen.confirmed()):
                lost.append((seen.night - BEFORE + 1) * DRIFT)
                break
    return 100 * len(lost) / series, median(lost) if lost else None


def write_invented(folder: Path, series: int, nights: int, seed: int, repetitions: int = 3) -> None:
    """A history on disk: experiments of 20 series each, some that regress, recover, miss nights or change machines."""
    rng = np.random.default_rng(seed)
    metrics = ("throughput_after", "latency_p95_ms_after", "convergence_sp_s", "downtime_s", "request_to_running_s")
    variants = ("stela", "even_rebalance", "least_link_load", "round_robin")
    names = [f"bench/part_{i + 1}" for i in range(-(-series // (len(metrics) * len(variants))))]
    levels = {(name, variant, metric): invented.noise(rng, nights, 2.0)[:, None] * (1 + 0.01 * rng.standard_normal((nights, repetitions)))
              for name in names for variant in variants for metric in metrics}  # fmt: skip
    for name in names[::3]:
        levels[name, "stela", "throughput_after"][nights // 2 :] *= 0.9
    levels[names[0], "stela", "latency_p95_ms_after"][-4:] *= 1.2
    for i in range(nights):
        if i % 53 == 17:
            continue
        experiments = [
            invented.experiment(name, {}, status="infrastructure", reason="m3 died") if (i + k) % 41 == 0 else
            invented.experiment(name, {variant: {metric: {"e1": [round(v, 3) for v in levels[name, variant, metric][i]]}
                                                 for metric in metrics} for variant in variants})
            for k, name in enumerate(names)
        ]  # fmt: skip
        whole = all(one["status"] == "complete" for one in experiments)
        record = invented.night(i, folder.name, experiments, status="complete" if whole else "partial")
        write_json_atomic(folder / "nights" / f"{record['id']}.json", record | {"sequence": i + 1})


def speed(series: int, nights: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "bench"
        write_invented(folder, series, nights, seed)
        read_s, history = _timed(lambda: store.nights(folder))
        judge_s, found = _timed(lambda: evaluate(history, Settings()))
        again_s, _ = _timed(lambda: review(folder, Settings()))
        known_s, found = _timed(lambda: review(folder, Settings()))
        write_s, index = _timed(lambda: pages.write(folder, found))
        rewrite_s, _ = _timed(lambda: pages.write(folder, found))
        print(f"{series} series x {nights} nights ({len(history.nights)} on record), CPU seconds of this process")
        print(f"  reading {read_s:.1f}, judging {judge_s:.1f}, all of it {again_s:.1f}, with what was known {known_s:.1f}")
        print(f"  pages {write_s:.1f} for the first time, {rewrite_s:.1f} each night")
        print(f"  index.html {index.stat().st_size / 1e6:.2f} MB")


def _timed(do: Callable[[], Made]) -> tuple[float, Made]:
    started = time.process_time()
    made = do()
    return time.process_time() - started, made


def _print_alarms(series: int, nights: int, seed: int) -> None:
    print(f"False alarms (confirmed regressions) per 200 series x {nights} nights of nothing; from {series} series")
    kinds: tuple[tuple[str, Noise], ...] = (("normal", invented.noise), ("t, 3 df", invented.heavy_noise))
    for name, make in kinds:
        for percent in NOISES:
            (found,) = false_alarms([Rule()], make, percent, series, nights, seed)
            print(f"  {name:8} {percent:3.0f} %: {found:6.1f}", flush=True)


def _print_steps(series: int, seed: int) -> None:
    print(f"Steps, each in {series} series: share confirmed within {PATIENCE} nights, nights to it (median, 90 %), "
          "nights to a suspicion (median), commit range right")  # fmt: skip
    for percent in NOISES:
        for step in STEPS:
            it = found_steps(Rule(), percent, step, series, seed)
            numbers = (it.median_nights, it.slow_nights, it.suspected_median, it.in_range)
            shown = "  ".join("    –" if number is None else f"{number:5.1f}" for number in numbers)
            print(f"  noise {percent:3.0f} %  step {step:3.0f} %: {it.share:5.1f} %  {shown}", flush=True)


def _print_spikes(series: int, seed: int) -> None:
    for percent in NOISES:
        wrong, suspected = spikes_that_alarm(Rule(), percent, series, seed)
        print(f"One night {SPIKE:.0f} % worse, noise {percent:.0f} %: {wrong} of {series} alarmed, {suspected} suspected "
              "that night", flush=True)  # fmt: skip


def _print_drift(series: int, seed: int) -> None:
    for percent in NOISES:
        share, lost = drift_until_told(Rule(), percent, series, seed)
        by = "" if lost is None else f", when {lost:.1f} % were lost (median)"
        print(f"Drift of {DRIFT} % a night, noise {percent:.0f} %: {share:.0f} % told within 150 nights{by}", flush=True)


def _print_grid(series: int, nights: int, seed: int) -> None:
    print(f"Rules at noise 2 %: false alarms per 200 x {nights}, and steps of 5 % found (share, median nights)")
    for window, p in GRID:
        rules = [Rule(window, p, minimum) for minimum in MINIMA]
        found = false_alarms(rules, invented.noise, 2.0, series, nights, seed)
        for rule, number in zip(rules, found, strict=True):
            it = found_steps(rule, 2.0, 5.0, series, seed)
            print(f"  window {window} p {p:<6} minimum {rule.minimum_percent:.0f} %: {number:6.1f} alarms; "
                  f"{it.share:5.1f} % in {it.median_nights or 0:.1f}", flush=True)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m analysis.history.bench", description=__doc__.splitlines()[0])
    parts = ("alarms", "steps", "spikes", "drift", "grid", "speed")
    parser.add_argument("parts", nargs="*", choices=[*parts, []], help="default: all but grid")
    parser.add_argument("--series", type=int, default=200)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    do: dict[str, Callable[[], None]] = {
        "alarms": lambda: _print_alarms(given.series, given.nights, given.seed),
        "steps": lambda: _print_steps(given.series, given.seed),
        "spikes": lambda: _print_spikes(given.series, given.seed),
        "drift": lambda: _print_drift(given.series, given.seed),
        "grid": lambda: _print_grid(given.series, given.nights, given.seed),
        "speed": lambda: speed(given.series, given.nights, given.seed),
    }
    for part in given.parts or [name for name in parts if name != "grid"]:
        do[part]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
