"""Synthetic nights for the calibration and for tests: seeded noise, steps, spikes and drifts of known size."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.record.files import write_json_atomic

FIRST_DAY = date(2026, 1, 1)
FIRST_S = 1_767_236_400.0  # 03:00 UTC on that day
NIGHT_S = 5 * 3600.0
METRICS = ("throughput_after", "latency_all_p95_ms_after", "convergence_sp_s", "downtime_s", "request_to_running_s")
VARIANTS = ("stela", "even_rebalance", "least_link_load", "round_robin")
Values = npt.NDArray[np.float64]


def noise(rng: np.random.Generator, nights: int, percent: float, level: float = 100.0) -> Values:
    """A night's medians: `level`, scattered by a relative standard deviation."""
    return level * (1 + percent / 100 * rng.standard_normal(nights))


def heavy_noise(rng: np.random.Generator, nights: int, percent: float, level: float = 100.0) -> Values:
    """The same standard deviation from Student's t with 3 degrees of freedom: now and then far out."""
    values: Values = level * (1 + percent / 100 * rng.standard_t(3, nights) / np.sqrt(3))
    return values


def commit(i: int) -> str:
    """Forty hexadecimal digits, as git has them."""
    return hashlib.sha1(b"%d" % i, usedforsecurity=False).hexdigest()


def night(i: int, suite: str, experiments: Sequence[dict[str, Any]], **differs: Any) -> dict[str, Any]:
    """The record of the i-th night, a commit a night; `differs` replaces keys."""
    day = FIRST_DAY + timedelta(days=i)
    started_s = FIRST_S + 86_400.0 * i
    return {
        "v": 1, "night": day.isoformat(), "id": f"{day:%Y%m%d}-030000", "suite": suite, "testbed": "local",
        "commit": commit(i), "commit_s": started_s - 36_000, "dirty": False, "started_s": started_s,
        "ended_s": started_s + NIGHT_S, "machine": "type_1", "machine_facts": {"cores": 2}, "status": "complete",
        "experiments": list(experiments),
    } | differs  # fmt: skip


def experiment(name: str, variants: dict[str, Any], **differs: Any) -> dict[str, Any]:
    """`variants`: variant -> metric -> event -> values of the repetitions, or what a night has on record of them."""
    measured = {
        variant: {
            metric: {
                event: found if isinstance(found, dict) else {"values": found, "horizons": []}
                for event, found in events.items()
            }
            for metric, events in metrics.items()
        }
        for variant, metrics in variants.items()
    }
    return {"experiment": name, "series": "", "status": "complete", "reason": "", "variants": measured} | differs


def write_history(folder: Path, series: int, nights: int, seed: int) -> None:
    """A history on disk: experiments of 20 series each; some regress, nights are missing, machines die."""
    rng = np.random.default_rng(seed)
    names = [f"bench/part_{i + 1}" for i in range(-(-series // (len(METRICS) * len(VARIANTS))))]
    values = {
        (name, variant, metric): noise(rng, nights, 2.0)[:, None] * (1 + 0.01 * rng.standard_normal((nights, 3)))
        for name in names for variant in VARIANTS for metric in METRICS
    }  # fmt: skip
    for name in names[::3]:
        values[name, "stela", "throughput_after"][nights // 2 :] *= 0.9
    values[names[0], "stela", "latency_all_p95_ms_after"][-4:] *= 1.2
    for i in range(nights):
        if i % 53 == 17:
            continue  # a night that never was
        ran = [_experiment_night(name, values, i, died=(i + k) % 41 == 0) for k, name in enumerate(names)]
        record = night(i, folder.name, ran)
        whole = all(one["status"] == "complete" for one in record["experiments"])
        record |= {"sequence": i + 1, "status": "complete" if whole else "partial"}
        write_json_atomic(folder / "nights" / f"{record['id']}.json", record)


def _experiment_night(
    name: str, values: Mapping[tuple[str, str, str], Values], i: int, *, died: bool
) -> dict[str, Any]:
    if died:
        return experiment(name, {}, status="infrastructure", reason="m3 died")
    measured = {
        variant: {metric: {"e1": [round(float(v), 3) for v in values[name, variant, metric][i]]} for metric in METRICS}
        for variant in VARIANTS
    }
    return experiment(name, measured)
