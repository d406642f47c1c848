"""What the steps of a series mean: regressions and improvements, how sure they are, and what became of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase

from analysis.history.changes import Candidate, Step, floor, needed, steps
from analysis.history.commits import CommitRange, commits_between, same_code_noise
from analysis.history.edges import edges
from analysis.history.night import Night
from analysis.history.series import Key, Series
from analysis.history.settings import Accepted, Rule, Settings
from analysis.metric_directions import Better, Metric

WANDER = 3  # nights by which the border of the same change moves as more nights come


class Kind(StrEnum):
    REGRESSION = "regression"
    IMPROVEMENT = "improvement"


class Status(StrEnum):
    """`accepted`: somebody wants it. `not measured`: its machines, or the metric, are no longer there to tell."""

    SUSPECTED = "suspected"
    CONFIRMED = "confirmed"
    RECOVERED = "recovered"
    ACCEPTED = "accepted"
    NOT_MEASURED = "not measured any more"


@dataclass(frozen=True)
class Finding:
    """A lasting change of a series. `good`, `bad`, …: indices of nights; levels are in the metric's unit.

    `since`: the likeliest first bad night; it lies after `good`, the last clearly good one, up to `bad`, clearly bad.
    `floor`: the A/A floor of this difference, None where nights of the same code do not tell. `now`: the level of the
    last stretch. `new`: the night before did not say so, nor any since it was confirmed. `nights_after`: bad nights so
    far, with the first one. `good_again`: the last nights, too few to call it recovered.
    """

    key: Key
    kind: Kind
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

    @property
    def alarms(self) -> bool:
        """Whether somebody has to be told tonight."""
        return self.new and self.kind is Kind.REGRESSION and self.status is Status.CONFIRMED


def judge(series: Series, nights: Sequence[Night], found: Sequence[Candidate], settings: Settings,
          *, current: bool = True) -> tuple[Finding, ...]:  # fmt: skip
    """The findings of a series, oldest first. `current`: its machines are those that are measured today."""
    noise = same_code_noise(nights, series.nights, series.values)
    made = steps(series.values, found, series.metric, settings.rule, noise)
    findings, recoveries = [], set[int]()
    for place, step in enumerate(made):
        if place in recoveries or series.metric.better is Better.NONE:
            continue
        finding = _finding(series, nights, step, made[place + 1 :], noise, settings.rule)
        if finding is None:
            continue
        if finding.kind is Kind.REGRESSION:
            back = _recovery(finding, made[place + 1 :], series.metric, settings.rule, noise)
            if back is not None:
                recoveries.add(place + 1 + back)
                finding = _recovered(finding, series, made[place + 1 + back], settings.rule)
        findings.append(_with_status(finding, nights, settings.accepted, current=current))
    return tuple(findings)


def _finding(series: Series, nights: Sequence[Night], step: Step, later: Sequence[Step], noise: float | None,
             rule: Rule) -> Finding | None:  # fmt: skip
    """One step as a finding; None for one that later nights have not borne out."""
    at = edges(series.values, step)
    after = [i for i in range(at.since, step.after.stop) if step.beyond(series.values[i])]
    confirmed = series.nights[after[rule.confirming_nights]] if len(after) >= rule.nights_to_confirm else None
    if confirmed is None and later:
        return None
    worse = (step.difference < 0) == (series.metric.better is Better.HIGHER)
    return Finding(
        key=series.key, kind=Kind.REGRESSION if worse else Kind.IMPROVEMENT,
        status=Status.SUSPECTED if confirmed is None else Status.CONFIRMED,
        good=series.nights[at.good], since=series.nights[at.since], bad=series.nights[at.bad],
        confirmed=confirmed, recovered=None,
        before=step.before.level, after=step.after.level, now=later[-1].after.level if later else step.after.level,
        percent=step.percent, p=step.p,
        floor=None if noise is None else floor(noise, len(step.before), len(step.after)),
        nights_after=len(after), commits=commits_between(nights, series.nights[at.good], series.nights[at.bad]),
    )  # fmt: skip


def _recovery(finding: Finding, later: Sequence[Step], metric: Metric, rule: Rule, noise: float | None) -> int | None:
    """The first later step whose level is no longer worse than the one before the regression."""
    sign = 1 if metric.better is Better.HIGHER else -1
    for place, step in enumerate(later):
        worse_by = sign * (finding.before - step.after.level)
        allowed = needed(replace(step.before, level=finding.before), step.after, metric, rule, noise)
        if worse_by < allowed:
            return place
    return None


def _recovered(finding: Finding, series: Series, step: Step, rule: Rule) -> Finding:
    """For good, if it lasted for as long as a confirmation takes."""
    if len(step.after) < rule.nights_to_confirm:
        return replace(finding, good_again=len(step.after))
    return replace(finding, recovered=series.nights[step.after.start])


def _with_status(finding: Finding, nights: Sequence[Night], accepted: Sequence[Accepted], *, current: bool) -> Finding:
    if finding.recovered is not None:
        return replace(finding, status=Status.RECOVERED)
    if finding.kind is Kind.REGRESSION:
        entry = next((entry for entry in accepted if accepts(entry, finding, nights)), None)
        if entry is not None:
            return replace(finding, status=Status.ACCEPTED, why_accepted=entry.why)
    return finding if current else replace(finding, status=Status.NOT_MEASURED)


def accepts(entry: Accepted, finding: Finding, nights: Sequence[Night]) -> bool:
    """Whether the entry is about this finding; its night may have been written down before the border settled."""
    if not fnmatchcase(finding.key.name, entry.series):
        return False
    near = nights[finding.good + 1 : finding.bad + WANDER]
    return any(entry.night in (night.night, night.id) for night in near)


def same(a: Finding, b: Finding) -> bool:
    """Whether two nights speak of the same change of one series."""
    return a.key == b.key and a.kind is b.kind and abs(a.since - b.since) <= WANDER
