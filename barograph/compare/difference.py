"""The difference between a commit and GOOD in one comparison, as far as a search needs it. Pure.

BAD is compared with GOOD first, and their difference is the *reference*. A commit is bad if its own difference from
GOOD is nearer the reference than 0, and a comparison may stop as soon as its interval is no wider to either side than
half the reference: then a commit that is as GOOD, or as BAD, is taken for the other in at most 2.5 % of the cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from analysis.compare.result import RUNS_FAILED, SURVIVORS
from analysis.metrics.definitions import METRICS, Better, metric
from analysis.nights.night_series import OF_TOPOLOGY
from analysis.numerals import number, with_unit
from barograph.errors import ExperimentError

WORSE, NOT_CALLED, NO_VERDICT = "worse", "undecided", "no verdict"


@dataclass(frozen=True)
class VariantMetric:
    """The subject of a search: one metric of one variant after one event; of several topologies `variant:topology`."""

    variant: str
    metric: str
    event: str

    @property
    def words(self) -> str:
        return f"{metric(self.metric).words} of {self.variant} ({self.event})"


@dataclass(frozen=True)
class Difference:
    """The difference of a commit from GOOD, in `unit`; None where they can only be ordered. `verdict`: the comparison's
    own, and `worse` behind a GOOD that failed more. `simulated`: `low` and `high` are the smallest and the largest
    difference over seeds. `failed`: the number of runs of both that the system under test failed, if any."""

    value: float | None
    low: float | None
    high: float | None
    unit: str
    blocks: int
    verdict: str
    simulated: bool = False
    failed: str = ""

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def words(self) -> str:
        failures = f"; {self.failed}" if self.failed else ""
        if self.value is None or self.low is None or self.high is None:
            return f"{self.verdict} in {self.blocks} blocks{failures}"
        value, low, high = (number(each, signed=True) for each in (self.value, self.low, self.high))
        if self.simulated:
            return f"{with_unit(value, self.unit)} ({low} to {high} over {self.blocks} seeds){failures}"
        return f"{with_unit(f'{value} [{low}, {high}]', self.unit)} in {self.blocks} blocks{failures}"


def require_direction(name: str) -> None:
    """Raise ExperimentError for a metric that is neither better high nor low."""
    if metric(name).better is Better.NONE:
        names = ", ".join(each.name for each in METRICS.values() if each.better is not Better.NONE)
        raise ExperimentError(f"--metric is {name!r}, which is neither better high nor low; allowed: {names}")


def difference_of(result: Mapping[str, Any], about: VariantMetric) -> Difference:
    """Return the difference in `comparison_result.json`, without interval if the commit is ahead but failed more of its
    runs. Raises ExperimentError where it has no such row."""
    match, is_model = _row_of(result["rows"], about), bool(result.get("simulated"))
    low, high = (match.get(key) for key in (("lowest", "highest") if is_model else ("low", "high")))
    verdict = match["verdict"]
    if is_model and low is None:  # the side that is worse with every seed: a comparison gives no verdict there
        effect = match["effect"] or 0
        order = "better" if (effect > 0) == (metric(about.metric).better is Better.HIGHER) else WORSE
        verdict = order if abs(effect) >= 1 else NOT_CALLED if effect else "no difference"
    of_failures = (match["pair"], RUNS_FAILED)
    failures = next((row for row in result["rows"] if (row["pair"], row["metric"]) == of_failures), None)
    fails_more = failures is not None and failures["difference"] > 0
    if match.get("why_no_verdict") == SURVIVORS:
        low, high, verdict = (None, None, verdict) if fails_more else (low, high, WORSE)
    change = match["difference"] or match.get("effect") or 0
    if is_model and fails_more and change and (change > 0) == (metric(about.metric).better is Better.HIGHER):
        low, high, verdict = None, None, match["verdict"]  # of a model the comparison does not refuse it
    failure_text = f"{failures['b']:g} of its runs failed, {failures['a']:g} of GOOD's" if failures else ""
    return Difference(match["difference"], low, high, match["unit"], match["blocks"], verdict, is_model, failure_text)


def _row_of(rows: Sequence[Mapping[str, Any]], about: VariantMetric) -> Mapping[str, Any]:
    """Return the matching row. Raises ExperimentError where there is none."""
    key = (about.variant, about.metric, about.event)
    match = next((row for row in rows if (_variant(row), row["metric"], row["event"]) == key), None)
    if match is None:
        metrics = sorted({f"{row['metric']} ({row['event']})" for row in rows if _variant(row) == about.variant})
        name = f"{about.metric} ({about.event}) of {about.variant}"
        raise ExperimentError(f"the comparison has no {name}; it has {', '.join(metrics) or 'none'}")
    return match


def is_worse(difference: Difference, name: str) -> bool:
    """Return whether BAD is worse than GOOD: its interval lies on the worse side, or the comparison says so."""
    if difference.low is None or difference.high is None:
        return difference.verdict == WORSE
    return difference.high < 0 if metric(name).better is Better.HIGHER else difference.low > 0


def verdict_of(difference: Difference, reference: Difference) -> Verdict:
    """Return good, bad, or undecided where the interval is too wide to tell."""
    if difference.value is None or reference.value is None or difference.half_width is None:
        calls: dict[str, Verdict] = {WORSE: "bad", "better": "good", "no difference": "good"}
        return calls.get(difference.verdict, "undecided")
    if difference.half_width > required_half_width(reference):
        return "undecided"
    return "bad" if abs(difference.value - reference.value) < abs(difference.value) else "good"


def required_half_width(reference: Difference) -> float:
    """Return the half-width at which an interval is narrow enough."""
    return abs(reference.value or 0.0) / 2


def is_narrow_enough(bisecting: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> tuple[bool, str]:
    """Return whether a search needs no further block of this comparison, and why; only its own metric counts."""
    about = VariantMetric(bisecting["variant"], bisecting["metric"], bisecting["event"])
    try:
        row = _row_of(rows, about)
    except ExperimentError as error:
        return False, str(error)
    if row["low"] is None or row["high"] is None:
        return False, f"{about.words} has no interval yet"
    half, limit = (row["high"] - row["low"]) / 2, bisecting["half_width"]
    return half <= limit, f"{about.words}: ±{half:.3g} {row['unit']}, wanted ±{limit:.3g}"


def _variant(row: Mapping[str, Any]) -> str:
    """Return the variant's name as in nights' series."""
    return f"{row['pair']}{OF_TOPOLOGY}{row['topology']}" if row.get("topology") else str(row["pair"])


Verdict = Literal["good", "bad", "skip", "undecided"]
