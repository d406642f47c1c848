"""A search for the first bad commit: the next query, its request and probes as data, a sentence, a line a commit.

Commits are numbered 0 … n-1, oldest first; the one before 0 is good, n-1 is bad. Each has a probability of being the
first bad one, the same for all at the start; an answer that is wrong with the stated error rate changes them by Bayes'
rule. The next query is for the commit that halves what is left, so an exact oracle is queried as by `git bisect`, and a
noisy one is queried again where it matters: at the border. Commits that cannot be queried (they do not build) are
passed over; what lies between two that can is given as a range.

`results/bisect/<id>/bisect.json` is written after every step, so that the same request resumes where it stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import accumulate
from math import ceil, exp, log, log2
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from analysis.errors import RecordError
from analysis.record.files import SEARCHES, read_json, write_json_atomic
from barograph.compare.difference import NO_VERDICT, Difference, VariantMetric, Verdict, is_worse, verdict_of
from barograph.nights.commits import Commit
from barograph.plan.blocks import stamp
from barograph.settings import results_root
from barograph.yaml_files import adapter

MOST_UNDECIDED = 2  # then a third adds nothing
LEAST_ERROR = 1e-6


@dataclass(frozen=True)
class SearchAnswer:
    """An answer. `skip`: it can never be measured; `undecided`: it was measured, without a verdict."""

    commit: int
    verdict: Verdict


@dataclass(frozen=True)
class Certainty:
    """The certainty of answers. `error_rate`: how often a good or a bad is the other; the search ends at
    `confidence`."""

    error_rate: float = 0.05
    confidence: float = 0.9

    def most_answers(self, commits: int) -> int:
        """Return three times the answers of a search by halves, and some to confirm: beyond, the oracle is worse than
        stated."""
        return 3 * ceil(log2(commits + 1)) + 10


@dataclass(frozen=True)
class Query:
    commit: int


@dataclass(frozen=True)
class FirstBad:
    """The first bad commit is one of `first` … `last`; more than one where those between cannot be queried."""

    first: int
    last: int
    probability: float
    sure: bool = True  # False: the answers contradict each other too much


def next_step(commits: int, answers: Sequence[SearchAnswer], certainty: Certainty) -> Query | FirstBad:
    """Return the next step. The same answers give the same step, so a search can be resumed anywhere."""
    chances = probabilities(commits, answers, certainty.error_rate)
    skipped = {answer.commit for answer in answers if answer.verdict == "skip"}
    silent = [answer.commit for answer in answers if answer.verdict == "undecided"]
    mute = {commit for commit in silent if silent.count(commit) >= MOST_UNDECIDED}
    # The last one is known to be bad. No query can tell the commits apart from after a queryable one up to the next.
    askable = [commit for commit in range(commits - 1) if commit not in skipped | mute]
    ends = [*askable, commits - 1]
    likeliest = max(
        zip([0, *(end + 1 for end in askable)], ends, strict=True), key=lambda each: sum(chances[each[0] : each[1] + 1])
    )
    probability = sum(chances[likeliest[0] : likeliest[1] + 1])
    if probability >= certainty.confidence or not askable:
        return FirstBad(*likeliest, probability)
    if sum(answer.verdict != "skip" for answer in answers) >= certainty.most_answers(commits):
        return FirstBad(*_credible(chances, certainty.confidence), certainty.confidence, sure=False)
    bad_by = list(accumulate(chances))  # the probability that a commit is bad already
    return Query(min(askable, key=lambda commit: abs(bad_by[commit] - 0.5)))


def probabilities(commits: int, answers: Sequence[SearchAnswer], error_rate: float) -> list[float]:
    """Return for each commit the probability that it is the first bad one."""
    error = max(error_rate, LEAST_ERROR)
    weights = [0.0] * commits
    for answer in answers:
        if answer.verdict in ("good", "bad"):
            for first_bad in range(commits):
                is_bad = answer.commit >= first_bad
                weights[first_bad] += log(1 - error if is_bad == (answer.verdict == "bad") else error)
    top = max(weights)
    odds = [exp(weight - top) for weight in weights]
    return [each / sum(odds) for each in odds]


def _credible(chances: Sequence[float], confidence: float) -> tuple[int, int]:
    """Return the shortest range that holds the first bad commit with that probability."""
    sums = [0.0, *accumulate(chances)]
    count = len(chances)
    ranges = [
        (last - first, first, last)
        for first in range(count)
        for last in range(first, count)
        if sums[last + 1] - sums[first] >= min(confidence, sums[count] * 0.999999)
    ]
    _, first, last = min(ranges)
    return first, last


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
    return hashlib.sha256(json.dumps(asdict(request), sort_keys=True).encode()).hexdigest()[:8]


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
    write_json_atomic(path, {"v": 1, **asdict(bisection)})
    return path


def read_bisection(path: Path) -> Bisection:
    """Read a search. Raises RecordError for any other file."""
    data = read_json(path)
    try:
        bisection: Bisection = adapter(Bisection).validate_python({key: data[key] for key in data if key != "v"})
        return bisection
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise RecordError(f"{path}: is no search ({place}); move its folder away to begin anew") from error


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
            {
                "hash": commit.hash,
                "short": commit.short,
                "subject": commit.subject,
                "date": f"{datetime.fromtimestamp(commit.committed_s, UTC):%Y-%m-%d %H:%M}",
                "probability": chance,
                "guilty": place in guilty,
                "probes": [
                    {"verdict": each.verdict, "reason": each.reason, **_difference_data(each.difference, each.series)}
                    for each in bisection.of(commit.hash)
                ],
            }
            for place, (commit, chance) in enumerate(zip(bisection.commits, chances, strict=True))
        ],
    }


def _difference_data(difference: Difference | None, series: str) -> dict[str, Any]:
    page = f"../../{series}/comparison.html" if series else ""
    if difference is None:
        return {"words": "", "value": None, "low": None, "high": None, "page": page}
    ends = {"value": difference.value, "low": difference.low, "high": difference.high}
    return {"words": difference.words, **ends, "page": page}
