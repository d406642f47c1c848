"""How often the nightly is wrong, how soon it is right, and how long it takes.

    python -m analysis.history.bench [alarms|steps|spikes|drift|grid|speed]... [--series 200] [--nights 365] [--seed 1]

Every part but `speed` is of invented series with known truth (trials.py). Decision 0012 chose the defaults of
`settings.Rule` from what this prints.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from analysis.history import invented, pages, store
from analysis.history.findings import evaluate, review
from analysis.history.settings import Rule, Settings
from analysis.history.trials import (
    DRIFT,
    PATIENCE,
    SPIKE,
    Noise,
    drift_until_told,
    false_alarms,
    found_steps,
    spikes_that_alarm,
)

NOISES = (1.0, 2.0, 4.0)  # percent from night to night
STEPS = (5.0, 10.0, 20.0)
GRID = tuple((window, p) for window in (30, 50) for p in (1e-4, 1e-5, 1e-6))
MINIMA = (2.0, 3.0, 5.0)
Made = TypeVar("Made")


def speed(series: int, nights: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "bench"
        invented.write(folder, series, nights, seed)
        read_s, history = _timed(lambda: store.nights(folder))
        judge_s, found = _timed(lambda: evaluate(history, Settings()))
        again_s, _ = _timed(lambda: review(folder, Settings()))
        known_s, found = _timed(lambda: review(folder, Settings()))
        write_s, index = _timed(lambda: pages.write(folder, found))
        rewrite_s, _ = _timed(lambda: pages.write(folder, found))
        print(f"{series} series x {nights} nights ({len(history.nights)} on record), CPU seconds of this process")
        print(f"  reading {read_s:.1f}, judging {judge_s:.1f}, both {again_s:.1f}, with what was known {known_s:.1f}")
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
          "nights to a suspicion (median), commit ranges right, nights in a range (mean)")  # fmt: skip
    for percent in NOISES:
        for step in STEPS:
            it = found_steps(Rule(), percent, step, series, seed)
            numbers = (it.median_nights, it.slow_nights, it.suspected_median, it.in_range, it.range_nights)
            shown = "  ".join("    –" if number is None else f"{number:5.1f}" for number in numbers)
            print(f"  noise {percent:3.0f} %  step {step:3.0f} %: {it.share:5.1f} %  {shown}", flush=True)


def _print_spikes(series: int, seed: int) -> None:
    for percent in NOISES:
        wrong, suspected = spikes_that_alarm(Rule(), percent, series, seed)
        said = f"{wrong} of {series} alarmed, {suspected} suspected that night"
        print(f"One night {SPIKE:.0f} % worse, noise {percent:.0f} %: {said}", flush=True)


def _print_drift(series: int, seed: int) -> None:
    for percent in NOISES:
        share, lost = drift_until_told(Rule(), percent, series, seed)
        said = f"{share:.0f} % told within 150 nights"
        by = "" if lost is None else f", when {lost:.1f} % were lost (median)"
        print(f"Drift of {DRIFT} % a night, noise {percent:.0f} %: {said}{by}", flush=True)


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
