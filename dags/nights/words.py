"""How a search for the first bad commit is told: one sentence, and a line for each commit. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dags.nights.bisection import Bisection, NotWorse, Probe
from dags.nights.commits import Commit
from dags.nights.judging import Difference
from dags.nights.search import Ask, Found, probabilities


def sentence(bisection: Bisection) -> str:
    """What is known, as far as the search has come."""
    step, about = bisection.next(), bisection.wanted.about.words
    if step == "reference":
        return f"{about}: BAD is not compared with GOOD yet"
    if isinstance(step, NotWorse):
        return f"{about}: BAD is not worse than GOOD ({step.reference.words}); there is nothing to find"
    assert bisection.reference is not None, "the other steps come after it"
    change = f"{about}, {bisection.reference.words}"
    if isinstance(step, Ask):
        following = bisection.commits[step.commit].short
        return f"{change}: {len(bisection.probes)} comparisons so far, the next is of {following}"
    return f"{change}: {found(bisection, step)}"


def found(bisection: Bisection, step: Found) -> str:
    first, last = bisection.commits[step.first], bisection.commits[step.last]
    sure = f"probability {step.probability:.0%}"
    if step.first == step.last:
        return f"first bad commit {first.short} “{first.subject}” ({sure})"
    count = step.last - step.first + 1
    why = (
        "those between could not be measured"
        if step.sure
        else "the comparisons contradict each other: more blocks are needed"
    )
    return f"the first bad commit is one of {count}, {first.short} … {last.short} ({sure}; {why})"


def evidence(bisection: Bisection) -> list[tuple[str, str, str, str, str]]:
    """Of each commit, oldest first: hash, subject, what was measured, verdict, probability that it is the one."""
    chances = probabilities(len(bisection.commits), bisection.answers(), bisection.wanted.certainty.error_rate)
    rows = []
    for commit, chance in zip(bisection.commits, chances, strict=True):
        probes = bisection.of(commit.hash)
        measured = "; ".join(probe.difference.words if probe.difference else probe.reason for probe in probes)
        verdicts = ", ".join(probe.verdict for probe in probes)
        known = bisection.reference is not None
        rows.append((commit.short, commit.subject, measured, verdicts, f"{chance:.0%}" if known else "–"))
    return rows


def as_page(bisection: Bisection) -> dict[str, Any]:
    """What `analysis.bisect_page` shows. Plain data; the page lies two folders below the results."""
    step, wanted = bisection.next(), bisection.wanted
    chances = probabilities(len(bisection.commits), bisection.answers(), wanted.certainty.error_rate)
    guilty = range(step.first, step.last + 1) if isinstance(step, Found) else range(0)
    return {
        "id": bisection.id,
        "sentence": sentence(bisection),
        "over": isinstance(step, Found | NotWorse),
        "experiment": wanted.experiment,
        "about": wanted.about.words,
        "good": wanted.good,
        "bad": wanted.bad,
        "reference": _as_data(bisection.reference, bisection.reference_series),
        "error_rate": wanted.certainty.error_rate,
        "confidence": wanted.certainty.confidence,
        "blocks": wanted.blocks,
        "commits": [
            _commit(commit, bisection.of(commit.hash), chance, guilty=place in guilty)
            for place, (commit, chance) in enumerate(zip(bisection.commits, chances, strict=True))
        ],
    }


def _commit(commit: Commit, probes: tuple[Probe, ...], chance: float, *, guilty: bool) -> dict[str, Any]:
    return {
        "hash": commit.hash,
        "short": commit.short,
        "subject": commit.subject,
        "date": f"{datetime.fromtimestamp(commit.committed_s, UTC):%Y-%m-%d %H:%M}",
        "probability": chance,
        "guilty": guilty,
        "probes": [
            {"verdict": probe.verdict, "reason": probe.reason, **_as_data(probe.difference, probe.series)}
            for probe in probes
        ],
    }


def _as_data(difference: Difference | None, series: str) -> dict[str, Any]:
    page = f"../../{series}/comparison.html" if series else ""
    if difference is None:
        return {"words": "", "value": None, "low": None, "high": None, "page": page}
    ends = {"value": difference.value, "low": difference.low, "high": difference.high}
    return {"words": difference.words, **ends, "page": page}
