"""The meaning of the steps of a series of nights: regressions and improvements, their certainty, their later course,
and the commits that each lies between, as precisely as the nights allow. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import pairwise

from analysis.metrics.definitions import Better, Metric
from analysis.nights.night_records import NightRecord
from analysis.nights.night_series import NightKey, NightSeries
from analysis.nights.settings import Accepted, Renames
from analysis.stats.change_points import Candidate, Rule, Step, edges, needed_difference, neighbour_deviation, steps
from analysis.stats.paired_differences import step_floor
from analysis.stats.shares import Failures

LEAST_PAIRS = 5  # of nights of the same code, before their scatter is known


@dataclass(frozen=True)
class Settings:
    """A suite's settings for judging its history."""

    title: str = ""
    rule: Rule = field(default_factory=Rule)
    renames: Renames = field(default_factory=Renames)
    accepted: tuple[Accepted, ...] = ()


class RangeKind(StrEnum):
    """A range. `commits`: the first bad commit is in it. `same`: the code did not change. `unknown`: not all was
    committed."""

    COMMITS = "commits"
    SAME = "same"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class CommitRange:
    """The range from the last good night's commit (excluded) to the first bad night's (included).

    `between`: nights between these two that were not measured, or may have been the first bad one as well.
    """

    kind: RangeKind
    good: str
    bad: str
    between: int

    @property
    def words(self) -> str:
        nights = f"{self.between} night{'s' if self.between > 1 else ''}"
        wider = f"; {nights} between missing or not clear" if self.between else ""
        return {
            RangeKind.COMMITS: f"{self.good[:8]}..{self.bad[:8]}{wider}",
            RangeKind.SAME: f"same commit {self.bad[:8]} before and after: look at the testbed, not at the code{wider}",
            RangeKind.UNKNOWN: f"unknown: not all code was committed in one of the nights{wider}",
        }[self.kind]


def commits_between(nights: Sequence[NightRecord], good: int, bad: int) -> CommitRange:
    before, after = nights[good], nights[bad]
    if before.dirty or after.dirty or not before.commit or not after.commit:
        kind = RangeKind.UNKNOWN
    else:
        kind = RangeKind.SAME if before.commit == after.commit else RangeKind.COMMITS
    return CommitRange(kind, before.commit, after.commit, bad - good - 1)


def same_code_noise(nights: Sequence[NightRecord], indices: Sequence[int], values: Sequence[float]) -> float | None:
    """Return the robust standard deviation of a night's value while the code was the same; None if there are too few
    nights."""
    distances = [
        abs(after - before)
        for (i, before), (j, after) in pairwise(zip(indices, values, strict=True))
        if nights[i].commit and nights[i].commit == nights[j].commit and not nights[i].dirty and not nights[j].dirty
    ]
    return neighbour_deviation(distances) if len(distances) >= LEAST_PAIRS else None


MOST_BORDER_MOVE = 3  # nights by which the border of the same change moves as more nights come


class RegressionKind(StrEnum):
    """A kind; `change in complete runs`: better numbers of code that fails more of its runs than before, which is
    neither."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    CHANGE = "change in complete runs"


class Status(StrEnum):
    """A status. `accepted`: the change is intended. `not measured`: its machines, or the metric, no longer exist."""

    SUSPECTED = "suspected"
    CONFIRMED = "confirmed"
    RECOVERED = "recovered"
    ACCEPTED = "accepted"
    NOT_MEASURED = "not measured any more"


@dataclass(frozen=True)
class Finding:
    """A lasting change of a series. `good`, `bad`, …: indices of nights; levels are in the metric's unit.

    `since`: the likeliest first bad night; it lies after `good`, the last clearly good one, up to `bad`, clearly bad.
    `floor`: the A/A floor of this difference, None if nights of the same code are too few. `now`: the level of the last
    stretch. `new`: the finding is not in the night before, nor in any since it was confirmed. `nights_after`: bad
    nights so far, with the first one. `good_again`: the last nights, too few to call it recovered. `failed`: for a
    change in complete runs how many runs failed, since and before.
    """

    key: NightKey
    kind: RegressionKind
    status: Status
    good: int
    since: int
    bad: int
    confirmed: int | None
    recovered: int | None
    before: float
    after: float
    now: float
    percent: float | None
    p: float
    floor: float | None
    nights_after: int
    commits: CommitRange
    good_again: int = 0
    why_accepted: str = ""
    new: bool = False
    failed: str = ""

    @property
    def alarms(self) -> bool:
        """Return whether tonight's report must raise an alarm."""
        return self.new and self.kind is RegressionKind.REGRESSION and self.status is Status.CONFIRMED


def judge(series: NightSeries, nights: Sequence[NightRecord], found: Sequence[Candidate], settings: Settings,
          *, current: bool = True) -> tuple[Finding, ...]:  # fmt: skip
    """Return the findings of a series, oldest first. `current`: its machines are those that are measured today."""
    noise = same_code_noise(nights, series.nights, series.values)
    errors = [series.points[i].error for i in series.nights]
    changes = steps(series.values, found, series.metric, settings.rule, noise, series.is_share, errors)
    findings, recoveries = [], set[int]()
    for place, step in enumerate(changes):
        if place in recoveries or series.metric.better is Better.NONE:
            continue
        finding = _finding(series, nights, step, changes[place + 1 :], noise, settings.rule)
        if finding is None:
            continue
        first = series.nights[step.before.start]
        if finding.kind is RegressionKind.IMPROVEMENT and (failed := failed_more(series, changes, place, first)):
            finding = replace(finding, kind=RegressionKind.CHANGE, failed=failed)
        if finding.kind is RegressionKind.REGRESSION:
            back = _recovery(finding, changes[place + 1 :], series.metric, settings.rule, noise, errors)
            if back is not None and not failed_more(series, changes, place + 1 + back, first):
                recoveries.add(place + 1 + back)
                after = changes[place + 1 + back].after  # for good, if it lasted for as long as a confirmation takes
                if len(after) < settings.rule.nights_to_confirm:
                    finding = replace(finding, good_again=len(after))
                else:
                    finding = replace(finding, recovered=series.nights[after.start])
        if finding.recovered is not None:
            finding = replace(finding, status=Status.RECOVERED)
        elif finding.kind is RegressionKind.REGRESSION and (
            entry := next((entry for entry in settings.accepted if accepts(entry, finding, nights)), None)
        ):
            finding = replace(finding, status=Status.ACCEPTED, why_accepted=entry.why)
        elif not current:
            finding = replace(finding, status=Status.NOT_MEASURED)
        findings.append(finding)
    return tuple(findings)


def failed_more(series: NightSeries, changes: Sequence[Step], place: int, first: int) -> str:
    """Return how many runs the system under test failed since a step and from night `first` until it, if that is a
    larger share, and not `alike`; else empty. Nights without a number count to the stretch after them."""
    borders = [*(series.nights[step.after.start - 1] + 1 for step in changes), len(series.points)]
    points_after, before = series.points[borders[place] : borders[place + 1]], series.points[first : borders[place]]
    (failed, runs), (failed_before, runs_before) = (
        (sum(point.failed for point in points), sum(point.failed + point.runs for point in points))
        for points in (points_after, before)
    )
    if not Failures(failed_before, runs_before, failed, runs).is_more:
        return ""
    return f"{failed} of {runs} runs failed since, {failed_before} of {runs_before} before"


def _finding(series: NightSeries, nights: Sequence[NightRecord], step: Step, later: Sequence[Step], noise: float | None,
             rule: Rule) -> Finding | None:  # fmt: skip
    """Return one step as a finding; None if later nights have not confirmed it."""
    ends = edges(series.values, step, series.is_share)
    after = [i for i in range(ends.since, step.after.stop) if step.beyond(series.values[i])]
    night = series.nights[after[rule.confirming_nights]] if len(after) >= rule.nights_to_confirm else None
    if night is None and later:
        return None
    worse = (step.difference < 0) == (series.metric.better is Better.HIGHER)
    return Finding(
        key=series.key, kind=RegressionKind.REGRESSION if worse else RegressionKind.IMPROVEMENT,
        status=Status.SUSPECTED if night is None else Status.CONFIRMED,
        good=series.nights[ends.good], since=series.nights[ends.since], bad=series.nights[ends.bad],
        confirmed=night, recovered=None,
        before=step.before.level, after=step.after.level, now=later[-1].after.level if later else step.after.level,
        percent=step.percent, p=step.p,
        floor=None if noise is None else step_floor(noise, len(step.before), len(step.after)),
        nights_after=len(after), commits=commits_between(nights, series.nights[ends.good], series.nights[ends.bad]),
    )  # fmt: skip


def _recovery(finding: Finding, later: Sequence[Step], metric: Metric, rule: Rule, noise: float | None,
              errors: Sequence[float]) -> int | None:  # fmt: skip
    """Return the first later step whose level is no longer worse than the one before the regression."""
    sign = 1 if metric.better is Better.HIGHER else -1
    for place, step in enumerate(later):
        worse_by = sign * (finding.before - step.after.level)
        limit = needed_difference(replace(step.before, level=finding.before), step.after, metric, rule, noise, errors)
        if worse_by < limit:
            return place
    return None


def accepts(entry: Accepted, finding: Finding, nights: Sequence[NightRecord]) -> bool:
    """Return whether the entry is about this finding; its night may have been noted before the border settled."""
    if not fnmatchcase(finding.key.name, entry.series):
        return False
    candidates = nights[finding.good + 1 : finding.bad + MOST_BORDER_MOVE]
    return any(entry.night in (night.night, night.id) for night in candidates)


def same_change(a: Finding, b: Finding) -> bool:
    """Return whether two nights report the same change of one series."""
    return a.key == b.key and a.kind is b.kind and abs(a.since - b.since) <= MOST_BORDER_MOVE
