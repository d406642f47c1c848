"""A search for the first bad commit as data: what is wanted, what was measured, what to do next. Pure but for its file.

`results/bisect/<id>/bisect.json` is written after every step, so that the same request goes on where it stopped.
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
from analysis.record import read_json, write_json_atomic
from dags.nights.commits import Commit
from dags.nights.judging import About, Difference, is_worse, judged
from dags.nights.search import Answer, Ask, Certainty, Found, Verdict, next_step
from dags.places import results_root

FILE = "bisect.json"
FOLDER = "bisect"


@dataclass(frozen=True)
class Wanted:
    """`good` and `bad` are refs, of a search full commits; `everything`: also commits that do not change what decides.

    `blocks`: at most that many a comparison. `goal`: how narrow BAD's own comparison must be, in its unit.
    """

    experiment: str
    about: About
    good: str
    bad: str
    everything: bool = False
    blocks: int = 12
    goal: float = 5.0
    certainty: Certainty = field(default_factory=Certainty)
    testbed: str | None = None
    options: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Probe:
    """One comparison of a commit with GOOD; `difference` None where nothing could be measured, for `reason`."""

    commit: str
    verdict: Verdict
    difference: Difference | None
    reason: str = ""
    series: str = ""  # below the results


@dataclass(frozen=True)
class Asking:
    """A comparison that is begun: after an interruption it goes on."""

    commit: str
    series: str


@dataclass(frozen=True)
class NotWorse:
    """The search ends before it begins: BAD is not worse than GOOD, as far as was measured."""

    reference: Difference


Step = Ask | Found | NotWorse | Literal["reference"]


@dataclass(frozen=True)
class Bisection:
    """`commits`: after GOOD, oldest first; the last is BAD, or the last that changed what decides."""

    id: str
    wanted: Wanted
    commits: tuple[Commit, ...]
    reference: Difference | None = None
    reference_series: str = ""
    probes: tuple[Probe, ...] = ()
    asking: Asking | None = None

    def next(self) -> Step:
        if self.reference is None:
            return "reference"
        if not is_worse(self.reference, self.wanted.about.metric):
            return NotWorse(self.reference)
        return next_step(len(self.commits), self.answers(), self.wanted.certainty)

    def answers(self) -> list[Answer]:
        place = {commit.hash: number for number, commit in enumerate(self.commits)}
        return [Answer(place[probe.commit], probe.verdict) for probe in self.probes]

    def of(self, commit: str) -> tuple[Probe, ...]:
        return tuple(probe for probe in self.probes if probe.commit == commit)

    def with_reference(self, found: Difference, series: str) -> Bisection:
        return replace(self, reference=found, reference_series=series, asking=None)

    def with_difference(self, commit: str, found: Difference, series: str) -> Bisection:
        assert self.reference is not None, "BAD is compared first"
        return self.with_probe(Probe(commit, judged(found, self.reference), found, "", series))

    def with_probe(self, probe: Probe) -> Bisection:
        return replace(self, probes=(*self.probes, probe), asking=None)


def request_digest(wanted: Wanted) -> str:
    """The same for the very same request, however often it is made."""
    return hashlib.sha256(json.dumps(asdict(wanted), sort_keys=True).encode()).hexdigest()[:8]


def new(wanted: Wanted, commits: tuple[Commit, ...], now_s: float) -> Bisection:
    stamp = f"{datetime.fromtimestamp(now_s, UTC):%Y%m%d-%H%M%S}"
    return Bisection(f"{stamp}-{request_digest(wanted)}", wanted, commits)


def folder_of(bisection: str) -> Path:
    return results_root() / FOLDER / bisection


def newest(wanted: Wanted) -> Bisection | None:
    """The newest search of exactly this request."""
    found = sorted((results_root() / FOLDER).glob(f"*-{request_digest(wanted)}/{FILE}"))
    return read(found[-1]) if found else None


def write(bisection: Bisection) -> Path:
    path = folder_of(bisection.id) / FILE
    write_json_atomic(path, {"v": 1, **asdict(bisection)})
    return path


def read(path: Path) -> Bisection:
    """Raises RecordError for a file that is no search."""
    data = read_json(path)
    try:
        wanted = data["wanted"]
        made = Wanted(**{**wanted, "about": About(**wanted["about"]), "certainty": Certainty(**wanted["certainty"])})
        return Bisection(
            data["id"], made, tuple(Commit(**commit) for commit in data["commits"]), _difference(data["reference"]),
            data["reference_series"],
            tuple(Probe(**{**probe, "difference": _difference(probe["difference"])}) for probe in data["probes"]),
            Asking(**data["asking"]) if data["asking"] else None,
        )  # fmt: skip
    except (KeyError, TypeError) as error:
        raise RecordError(f"{path}: is no search ({error!r}); move its folder away to begin anew") from error


def _difference(data: Mapping[str, Any] | None) -> Difference | None:
    return Difference(**data) if data else None
