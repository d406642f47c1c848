"""Findings of the nights as sentences and numbers that people read."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import numerals
from analysis.history.findings import Findings
from analysis.history.night import Night
from analysis.history.regressions import Finding, Kind, Status
from analysis.history.series import Key, described
from analysis.metric_directions import Compared
from analysis.numerals import MISSING, number


def with_unit(value: float | None, unit: str) -> str:
    return numerals.with_unit(number(value), "%" if unit == "points" else unit)


def change(finding: Finding) -> str:
    """How large: in percent where the metric is compared so, else in its unit."""
    of = described(finding.key.metric)
    if of.compared is Compared.RATIO and finding.percent is not None:
        return numerals.change(finding.percent, "%")
    return numerals.change(finding.after - finding.before, of.unit)


def levels(finding: Finding) -> str:
    unit = described(finding.key.metric).unit
    return f"{number(finding.before)} → {with_unit(finding.after, unit)}"


def floor(finding: Finding) -> str:
    """The A/A floor as the change is told."""
    of = described(finding.key.metric)
    if finding.floor is None:
        return MISSING
    if of.compared is Compared.RATIO and finding.before > 0:
        return "±" + numerals.with_unit(number(100 * finding.floor / finding.before, 1), "%")
    return f"±{with_unit(finding.floor, of.unit)}"


def series(key: Key) -> str:
    """Without the experiment, which stands above."""
    event = "" if key.event in ("e0", "e1") else f", {key.event}"
    return f"{key.variant.replace('_', ' ')}: {described(key.metric).words}{event}"


def how_sure(finding: Finding, nights: Sequence[Night]) -> str:
    """The status with what it rests on."""
    one = f"{finding.nights_after} night{'s' if finding.nights_after != 1 else ''}"
    if finding.status is Status.SUSPECTED:
        return f"suspected, {one} so far"
    if finding.status is Status.RECOVERED and finding.recovered is not None:
        return f"recovered in night {nights[finding.recovered].id}"
    if finding.status is Status.ACCEPTED:
        return f"accepted: {finding.why_accepted}"
    if finding.status is Status.NOT_MEASURED:
        return "not measured any more on these machines"
    return f"confirmed, {one}" + (f"; good again in the last {finding.good_again}" if finding.good_again else "")


def sentence(finding: Finding, nights: Sequence[Night]) -> str:
    """The whole finding on one line, for a log or a webhook."""
    went = "worse" if finding.kind is Kind.REGRESSION else "better"
    return (
        f"{finding.key.experiment}, {series(finding.key)}: {change(finding)} ({levels(finding)}), {went} since night "
        f"{nights[finding.since].id}; {how_sure(finding, nights)}; commits {finding.commits.words}"
    )


def counted(number: int, singular: str, plural: str = "") -> str:
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def top_line(found: Findings) -> str:
    """The state of the suite in one line."""
    if found.last is None:
        return "No night on record yet."
    of = found.of
    parts = [
        counted(len(of(Kind.REGRESSION, Status.CONFIRMED)), "confirmed regression"),
        f"{len(of(Kind.REGRESSION, Status.SUSPECTED))} suspected",
    ]
    if better := len(of(Kind.IMPROVEMENT, Status.CONFIRMED, Status.SUSPECTED)):
        parts.append(counted(better, "improvement"))
    failed = found.failed_last_night
    parts.append(f"{counted(failed['infrastructure'], 'infrastructure failure')} last night")
    parts += [f"{many} {status}" for status, many in sorted(failed.items()) if status != "infrastructure"]
    return ", ".join(parts)


def bisect_command(finding: Finding) -> str:
    """What finds the commit within the range."""
    of = finding.key
    return (
        f"barograph bisect --experiment {of.experiment} --variant {of.variant} --metric {of.metric} "
        f"--event {of.event} {finding.commits.good[:12]} {finding.commits.bad[:12]}"
    )
