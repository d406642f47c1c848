"""A search for the first bad commit as data: request, probes, next step; and as text: a sentence, a line for each
commit.

`results/bisect/<id>/bisect.json` is written after every step, so that the same request resumes where it stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from analysis.errors import RecordError
from analysis.record.files import SEARCHES, read_json, write_json_atomic
from barograph.compare.difference import NO_VERDICT, Difference, VariantMetric, Verdict, is_worse, verdict_of
from barograph.nights.commits import Commit
from barograph.nights.search import Certainty, FirstBad, Query, SearchAnswer, next_step, probabilities
from barograph.plan.blocks import stamp
from barograph.settings import results_root

BISECTION_FILE = "bisect.json"


@dataclass(frozen=True)
class BisectionRequest:
    """A request. `good` and `bad` are refs, in a search full commits; `all_commits`: include those that do not change
    decisions.

    `blocks`: the most blocks of a comparison. `goal`: the required half-width of BAD's own comparison, in its unit.
    """

    experiment: str
    about: VariantMetric
    good: str
    bad: str
    all_commits: bool = False
    blocks: int = 12
    goal: float = 5.0
    certainty: Certainty = field(default_factory=Certainty)
    testbed: str | None = None
    options: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Probe:
    """A comparison of a commit with GOOD; `difference` None where nothing could be measured, for `reason`."""

    commit: str
    verdict: Verdict
    difference: Difference | None
    reason: str = ""
    series: str = ""  # below the results


@dataclass(frozen=True)
class PendingProbe:
    """An unfinished comparison, resumed after an interruption."""

    commit: str
    series: str


@dataclass(frozen=True)
class NotWorse:
    """The end of a search before it begins: BAD is not worse than GOOD, as far as was measured, or has no verdict."""

    reference: Difference


Step = Query | FirstBad | NotWorse | Literal["reference"]


@dataclass(frozen=True)
class Bisection:
    """A search. `commits`: after GOOD, oldest first; the last is BAD, or the last one that changed decisions."""

    id: str
    request: BisectionRequest
    commits: tuple[Commit, ...]
    reference: Difference | None = None
    reference_series: str = ""
    probes: tuple[Probe, ...] = ()
    pending: PendingProbe | None = None

    def next(self) -> Step:
        if self.reference is None:
            return "reference"
        if not is_worse(self.reference, self.request.about.metric):
            return NotWorse(self.reference)
        return next_step(len(self.commits), self.answers(), self.request.certainty)

    def answers(self) -> list[SearchAnswer]:
        place = {commit.hash: number for number, commit in enumerate(self.commits)}
        return [SearchAnswer(place[probe.commit], probe.verdict) for probe in self.probes]

    def of(self, commit: str) -> tuple[Probe, ...]:
        return tuple(probe for probe in self.probes if probe.commit == commit)

    def with_reference(self, difference: Difference, series: str) -> Bisection:
        return replace(self, reference=difference, reference_series=series, pending=None)

    def with_difference(self, commit: str, difference: Difference, series: str) -> Bisection:
        assert self.reference is not None, "BAD is compared first"
        return self.with_probe(Probe(commit, verdict_of(difference, self.reference), difference, "", series))

    def with_probe(self, probe: Probe) -> Bisection:
        return replace(self, probes=(*self.probes, probe), pending=None)


def request_digest(request: BisectionRequest) -> str:
    """Return a digest, the same for every repetition of a request."""
    return hashlib.sha256(json.dumps(_request_data(request), sort_keys=True).encode()).hexdigest()[:8]


def new_bisection(request: BisectionRequest, commits: tuple[Commit, ...], now_s: float) -> Bisection:
    return Bisection(f"{stamp(now_s)}-{request_digest(request)}", request, commits)


def bisection_folder(bisection: str) -> Path:
    return results_root() / SEARCHES / bisection


def newest_bisection(request: BisectionRequest) -> Bisection | None:
    """Return the newest search of exactly this request."""
    files = sorted((results_root() / SEARCHES).glob(f"*-{request_digest(request)}/{BISECTION_FILE}"))
    return read_bisection(files[-1]) if files else None


def write_bisection(bisection: Bisection) -> Path:
    path = bisection_folder(bisection.id) / BISECTION_FILE
    data = asdict(bisection)
    del data["request"]
    names = {"wanted": _request_data(bisection.request), "asking": data.pop("pending")}
    write_json_atomic(path, {"v": 1, **data, **names})
    return path


def read_bisection(path: Path) -> Bisection:
    """Read a search. Raises RecordError for any other file."""
    data = read_json(path)
    try:
        request = {key: value for key, value in data["wanted"].items() if key != "everything"}
        request["about"], request["certainty"] = VariantMetric(**request["about"]), Certainty(**request["certainty"])
        return Bisection(
            data["id"],
            BisectionRequest(**request, all_commits=data["wanted"]["everything"]),
            tuple(Commit(**commit) for commit in data["commits"]),
            _difference_of_json(data["reference"]),
            data["reference_series"],
            tuple(
                Probe(**{**probe, "difference": _difference_of_json(probe["difference"])}) for probe in data["probes"]
            ),
            PendingProbe(**data["asking"]) if data["asking"] else None,
        )
    except (KeyError, TypeError) as error:
        raise RecordError(f"{path}: is no search ({error!r}); move its folder away to begin anew") from error


def _request_data(request: BisectionRequest) -> dict[str, Any]:
    """Return the request as files and digests have it; there `everything` means all commits."""
    data = asdict(request)
    data["everything"] = data.pop("all_commits")
    return data


def _difference_of_json(data: Mapping[str, Any] | None) -> Difference | None:
    return Difference(**data) if data else None


def sentence(bisection: Bisection) -> str:
    """Return the state of the search as a sentence."""
    step, about = bisection.next(), bisection.request.about.words
    if step == "reference":
        return f"{about}: BAD is not compared with GOOD yet"
    if isinstance(step, NotWorse):
        if step.reference.half_width is None and step.reference.verdict == NO_VERDICT:
            return f"{about}: there is no verdict whether BAD is worse than GOOD ({step.reference.words})"
        of = " in complete runs" if step.reference.failed else ""
        return f"{about}: BAD is not worse than GOOD{of} ({step.reference.words}); there is nothing to find"
    assert bisection.reference is not None, "the other steps come after it"
    change = f"{about}, {bisection.reference.words}"
    if isinstance(step, Query):
        following = bisection.commits[step.commit].short
        return f"{change}: {len(bisection.probes)} comparisons so far, the next is of {following}"
    return f"{change}: {first_bad_text(bisection, step)}"


def first_bad_text(bisection: Bisection, step: FirstBad) -> str:
    first_commit, last_commit = bisection.commits[step.first], bisection.commits[step.last]
    certainty = f"probability {step.probability:.0%}"
    if step.first == step.last:
        return f"first bad commit {first_commit.short} “{first_commit.subject}” ({certainty})"
    count = step.last - step.first + 1
    why = (
        "those between could not be measured"
        if step.sure
        else "the comparisons contradict each other: more blocks are needed"
    )
    return f"the first bad commit is one of {count}, {first_commit.short} … {last_commit.short} ({certainty}; {why})"


def evidence(bisection: Bisection) -> list[tuple[str, str, str, str, str]]:
    """Return for each commit, oldest first: hash, subject, differences, verdict, probability that it is the first bad
    one."""
    chances = probabilities(len(bisection.commits), bisection.answers(), bisection.request.certainty.error_rate)
    rows = []
    for commit, chance in zip(bisection.commits, chances, strict=True):
        probes = bisection.of(commit.hash)
        differences = "; ".join(probe.difference.words if probe.difference else probe.reason for probe in probes)
        verdicts = ", ".join(probe.verdict for probe in probes)
        has_reference = bisection.reference is not None
        rows.append((commit.short, commit.subject, differences, verdicts, f"{chance:.0%}" if has_reference else "–"))
    return rows


def page_data(bisection: Bisection) -> dict[str, Any]:
    """Return the data of `analysis.report.bisect_page`. The page lies two folders below the results."""
    step, request = bisection.next(), bisection.request
    chances = probabilities(len(bisection.commits), bisection.answers(), request.certainty.error_rate)
    guilty = range(step.first, step.last + 1) if isinstance(step, FirstBad) else range(0)
    return {
        "id": bisection.id,
        "sentence": sentence(bisection),
        "over": isinstance(step, FirstBad | NotWorse),
        "experiment": request.experiment,
        "about": request.about.words,
        "good": request.good,
        "bad": request.bad,
        "simulated": bisection.reference is not None and bisection.reference.simulated,
        "reference": _difference_data(bisection.reference, bisection.reference_series),
        "series": [name for name in (bisection.reference_series, *(each.series for each in bisection.probes)) if name],
        "error_rate": request.certainty.error_rate,
        "confidence": request.certainty.confidence,
        "blocks": request.blocks,
        "commits": [
            _commit_data(commit, bisection.of(commit.hash), chance, guilty=place in guilty)
            for place, (commit, chance) in enumerate(zip(bisection.commits, chances, strict=True))
        ],
    }


def _commit_data(commit: Commit, probes: tuple[Probe, ...], chance: float, *, guilty: bool) -> dict[str, Any]:
    return {
        "hash": commit.hash,
        "short": commit.short,
        "subject": commit.subject,
        "date": f"{datetime.fromtimestamp(commit.committed_s, UTC):%Y-%m-%d %H:%M}",
        "probability": chance,
        "guilty": guilty,
        "probes": [
            {"verdict": probe.verdict, "reason": probe.reason, **_difference_data(probe.difference, probe.series)}
            for probe in probes
        ],
    }


def _difference_data(difference: Difference | None, series: str) -> dict[str, Any]:
    page = f"../../{series}/comparison.html" if series else ""
    if difference is None:
        return {"words": "", "value": None, "low": None, "high": None, "page": page}
    ends = {"value": difference.value, "low": difference.low, "high": difference.high}
    return {"words": difference.words, **ends, "page": page}
