"""What a paper states, as data: the claims files, one a family, and the published figures (which experiments belong
side by side, and how each panel is drawn). Validated at the edge. A claim is never edited to fit a measurement.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from enum import StrEnum
from math import inf, isfinite
from pathlib import Path
from typing import Any

import yaml

from analysis.errors import ClaimFileError

FOLDER = Path(__file__).parent
FAMILIES = {"stela": FOLDER / "stela.yaml"}


class Kind(StrEnum):
    """What number a claim is about and where it has to lie: its *region*, whose ends are the stated number and its
    resolution, the claim's `within` (decision 0035).

    `ratio`: 100 x (variant / baseline - 1), around the stated number. `ratio_above`: the same number, above it by more
    than the resolution.
    `own`: the variant's own number, around the stated one; `own_at_most`, `own_at_least`: up to it, or from it on, and
    the resolution beyond; `own_below`: below it by more than the resolution.
    `every_run`: the metric equals the stated value in every run; a check of each run, so one run is enough.
    `only`: the variant's own number is above the stated one by more than the resolution, that of none of `others` is.
    `span`: what each claim in `of` is about lies from `stated` to `stated_high`, and the resolution beyond.
    `lowest`: the lowest of what the claims in `of` are about lies around the stated number.
    `exact`: a computation with one right answer (`metric` names it, see rules.py), to the digits that are stated.
    """

    RATIO = "ratio"
    RATIO_ABOVE = "ratio_above"
    OWN = "own"
    OWN_AT_MOST = "own_at_most"
    OWN_AT_LEAST = "own_at_least"
    OWN_BELOW = "own_below"
    EVERY_RUN = "every_run"
    ONLY = "only"
    SPAN = "span"
    LOWEST = "lowest"
    EXACT = "exact"


# The optional fields that a kind must have and no other may.
WITHIN = frozenset({"within"})
NEEDS: dict[Kind, frozenset[str]] = dict.fromkeys(Kind, WITHIN) | {
    Kind.RATIO: WITHIN | {"baseline"},
    Kind.RATIO_ABOVE: WITHIN | {"baseline"},
    Kind.ONLY: WITHIN | {"others"},
    Kind.SPAN: WITHIN | {"of", "stated_high"},
    Kind.LOWEST: WITHIN | {"of"},
    Kind.EVERY_RUN: frozenset(),
    Kind.EXACT: frozenset(),
}
OPTIONAL = frozenset().union(*NEEDS.values())


@dataclass(frozen=True)
class Resolution:
    """How far from a stated number still is what was stated, and why: by a share of it, by a factor of the ratio both
    ways, or by an amount in the claim's unit. Of a condition it is the smallest change that counts as one."""

    name: str
    because: str
    share: float | None = None
    factor: float | None = None
    amount: float | None = None

    def below(self, percent: float) -> float:
        """The lower end around a number in percent."""
        return self._end(percent, -1)

    def above(self, percent: float) -> float:
        return self._end(percent, 1)

    def _end(self, percent: float, side: int) -> float:
        if self.factor is not None:
            return float(100.0 * ((1.0 + percent / 100.0) * self.factor**side - 1.0))
        return percent + side * (abs(percent) * (self.share or 0.0) + (self.amount or 0.0))


@dataclass(frozen=True)
class Region:
    """Where a number has to lie, in percent; infinite where one side is open."""

    low: float
    high: float


@dataclass(frozen=True)
class Claim:
    """One statement of a paper that a measurement can meet or fail.

    `part` tells apart several statements under one id (CLAIMS ledger id, e.g. S09). `event`: which event of a run the
    metric is of. `about`: the source itself says that its number is not exact. `of`: names of other claims. `within`:
    None where nothing is estimated. `topology`: which one, or `all`, where the experiment's runs have several.
    """

    id: str
    part: str
    source: str
    statement: str
    experiment: str
    kind: Kind
    metric: str
    variant: str
    stated: float
    unit: str
    within: Resolution | None = None
    baseline: str | None = None
    event: str = "e1"
    about: bool = False
    stated_high: float | None = None
    others: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    topology: str | None = None

    @property
    def name(self) -> str:
        return f"{self.id}/{self.part}" if self.part else self.id

    @property
    def region(self) -> Region:
        """Where its number has to lie (of `only`: the variant's)."""
        if self.within is None:
            return Region(self.stated, self.stated)
        low, high = self.within.below(self.stated), self.within.above(self.stated)
        top = self.within.above(self.stated if self.stated_high is None else self.stated_high)
        return {
            Kind.OWN_AT_MOST: Region(-inf, high),
            Kind.OWN_AT_LEAST: Region(low, inf),
            Kind.OWN_BELOW: Region(-inf, low),
            Kind.RATIO_ABOVE: Region(high, inf),
            Kind.ONLY: Region(high, inf),
        }.get(self.kind, Region(low, top))


RATIOS = (Kind.RATIO, Kind.RATIO_ABOVE)


def load_claims(family: str = "stela") -> tuple[Claim, ...]:
    """The claims of one family, in the order of its file."""
    if family not in FAMILIES:
        raise ClaimFileError(f"no claims family {family!r}; there are {', '.join(FAMILIES)}")
    path = FAMILIES[family]
    return parse_claims(_document_in(path), str(path))


def _document_in(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        why = " ".join(str(error).split())
        raise ClaimFileError(f"{path}: is not YAML: {why}; allowed is a mapping with a list") from error


def parse_claims(document: Any, path: str) -> tuple[Claim, ...]:
    """A document `{resolutions: {...}, claims: [...]}` to claims; ClaimFileError names file, claim, field and what is
    allowed."""
    if not isinstance(document, Mapping) or not isinstance(document.get("claims"), list):
        raise ClaimFileError(f"{path}: needs a key `claims` with a list of claims")
    resolutions = _resolutions_from(document.get("resolutions") or {}, path)
    claims = tuple(
        claim
        for number, entry in enumerate(document["claims"], 1)
        for claim in _claims_from(entry, f"{path}: claim {number}", resolutions)
    )
    names = [claim.name for claim in claims]
    for claim in claims:
        unknown = [name for name in claim.of if name not in names]
        if unknown or names.count(claim.name) > 1:
            fault = f"`of` names {', '.join(unknown)}, which is no claim here" if unknown else "is there twice"
            raise ClaimFileError(f"{path}: {claim.name} {fault}; names are id, or id/part")
    return claims


SIZES = {"share": (0.0, 1.0), "factor": (1.0, inf), "amount": (0.0, inf)}  # of a resolution: one of them, from, below


def _resolutions_from(entries: Any, path: str) -> dict[str, Resolution]:
    """Each has a size and a reason."""
    if not isinstance(entries, Mapping):
        raise ClaimFileError(f"{path}: resolutions is {entries!r}; allowed is a mapping of names to resolutions")
    found = {}
    for name, entry in entries.items():
        where = f"{path}: resolutions.{name}"
        size = {key: entry[key] for key in SIZES if key in entry} if isinstance(entry, Mapping) else {}
        if len(size) != 1 or set(entry) - set(SIZES) != {"because"}:
            raise ClaimFileError(f"{where} is {entry!r}; it needs `because` and one of {', '.join(SIZES)}, no more")
        ((key, value),) = size.items()
        least, below = SIZES[key]
        if not _is_number(value) or not least <= value < below:
            raise ClaimFileError(f"{where}.{key} is {value!r}; allowed: {least:g} or more, below {below:g}")
        found[name] = Resolution(name, str(entry["because"]), **{key: float(value)})
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(name, str) for name in value)


EVENT_ID = re.compile("e[1-9][0-9]*")
# Of a claim's fields: what a value has to be, in words and as a test. The others are text.
RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "kind": (f"one of {', '.join(Kind)}", lambda value: isinstance(value, str) and value in set(Kind)),
    "stated": ("a finite number", _is_number),
    "stated_high": ("a finite number", _is_number),
    "about": ("true or false", lambda value: isinstance(value, bool)),
    "others": ("a list of variants", _is_names),
    "of": ("a list of claims", _is_names),
    "event": ("e1, e2, ...", lambda value: isinstance(value, str) and EVENT_ID.fullmatch(value) is not None),
}
TEXT: tuple[str, Callable[[Any], bool]] = ("text", lambda value: isinstance(value, str) and bool(value))


def _claims_from(entry: Any, where: str, resolutions: Mapping[str, Resolution]) -> list[Claim]:
    """One, and one for each other experiment in which the same statement is judged: `also` has word -> experiment."""
    if not isinstance(entry, Mapping) or "also" not in entry:
        return [_claim_from(entry, where, resolutions)]
    if not isinstance(entry["also"], Mapping) or not entry["also"]:
        raise ClaimFileError(f"{where}: also is {entry['also']!r}; allowed is a mapping of words to experiments")
    first = _claim_from({key: value for key, value in entry.items() if key != "also"}, where, resolutions)
    return [first, *(_elsewhere(first, str(word), str(name)) for word, name in entry["also"].items())]


def _elsewhere(claim: Claim, word: str, experiment: str) -> Claim:
    part, statement = ", ".join(filter(None, (claim.part, word))), f"{claim.statement} ({word})"
    return replace(claim, experiment=experiment, part=part, statement=statement)


def _claim_from(entry: Any, where: str, resolutions: Mapping[str, Resolution]) -> Claim:
    allowed = {field.name for field in fields(Claim)}
    needed = {field.name for field in fields(Claim) if field.default is MISSING} - {"part"}
    if not isinstance(entry, Mapping) or set(entry) - allowed or needed - set(entry):
        unknown = sorted(set(entry) - allowed) if isinstance(entry, Mapping) else entry
        raise ClaimFileError(f"{where}: unknown {unknown}; allowed {sorted(allowed)}, needed {sorted(needed)}")
    entry = {name: value for name, value in entry.items() if value is not None or name not in OPTIONAL}
    where = f"{where} ({entry['id']})"
    for name, value in entry.items():
        words, is_allowed = RULES.get(name, TEXT)
        if not is_allowed(value):
            raise ClaimFileError(f"{where}: {name} is {value!r}; allowed: {words}")
    kind = Kind(entry["kind"])
    for name in sorted(OPTIONAL):
        if (name in NEEDS[kind]) != (entry.get(name) is not None):
            kinds = ", ".join(kind for kind in Kind if name in NEEDS[kind])
            raise ClaimFileError(f"{where}: `{name}` is needed by {kinds}, and by no other kind; this one is {kind}")
    if "within" in entry and entry["within"] not in resolutions:
        raise ClaimFileError(f"{where}: within is {entry['within']!r}; resolutions has {', '.join(resolutions)}")
    typed: dict[str, Any] = {name: tuple(entry[name]) for name in ("others", "of") if name in entry}
    typed |= {name: float(entry[name]) for name in ("stated", "stated_high") if name in entry}
    if "within" in entry:
        typed["within"] = resolutions[entry["within"]]
    claim = Claim(**{"part": "", **entry, **typed, "kind": kind})
    if claim.stated_high is not None and claim.stated_high < claim.stated:
        raise ClaimFileError(f"{where}: stated_high is {claim.stated_high:g}; allowed: {claim.stated:g} or more")
    if claim.within is not None and claim.within.factor is not None and claim.stated < -100.0:
        by = f"within {claim.within.name}, which is a factor"
        raise ClaimFileError(f"{where}: stated is {claim.stated:g}; allowed: -100 or more {by}")
    return claim


FIGURES_FILE = Path(__file__).parent / "figures.yaml"
GRAPH_PANEL = "graph"


@dataclass(frozen=True)
class Panel:
    """`topology` only where the panel draws a graph: its file in topologies/flux, for what was not run."""

    experiment: str
    title: str
    draw: str
    topology: str = ""


@dataclass(frozen=True)
class PublishedFigure:
    """One figure of a paper. All panels draw graphs, or none does."""

    source: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    share_y: bool = False

    @property
    def is_graphs(self) -> bool:
        return self.panels[0].draw == GRAPH_PANEL


def load_figures(draws: frozenset[str], path: Path = FIGURES_FILE) -> tuple[PublishedFigure, ...]:
    """The figures of a file, in its order; `draws` are the kinds of panel there are."""
    document = _document_in(path)
    if not isinstance(document, Mapping) or not isinstance(document.get("figures"), list):
        raise ClaimFileError(f"{path}: wants one key `figures` with a list of figures")
    return tuple(_figure_from(f"{path}: figure {i}", entry, draws) for i, entry in enumerate(document["figures"], 1))


def _figure_from(where: str, entry: Any, draws: frozenset[str]) -> PublishedFigure:
    _check_keys(where, entry, PublishedFigure, {"share_y"})
    if not isinstance(entry["panels"], list) or not entry["panels"]:
        raise ClaimFileError(f"{where}: panels is {entry['panels']!r}; allowed is a list of one or more")
    panels = tuple(_panel_from(f"{where}: panel {i}", panel, draws) for i, panel in enumerate(entry["panels"], 1))
    if len({panel.draw == GRAPH_PANEL for panel in panels}) > 1:
        raise ClaimFileError(f"{where}: panels that draw `{GRAPH_PANEL}` and others; make two figures of them")
    return PublishedFigure(**{**entry, "panels": panels})


def _panel_from(where: str, entry: Any, draws: frozenset[str]) -> Panel:
    _check_keys(where, entry, Panel, {"topology"})
    allowed = draws | {GRAPH_PANEL}
    if entry["draw"] not in allowed:
        raise ClaimFileError(f"{where}: draw is {entry['draw']!r}; allowed are {', '.join(sorted(allowed))}")
    if (entry["draw"] == GRAPH_PANEL) != bool(entry.get("topology")):
        raise ClaimFileError(f"{where}: `topology` is needed where draw is `{GRAPH_PANEL}`, and nowhere else")
    return Panel(**entry)


def _check_keys(where: str, entry: Any, kind: type, optional: set[str]) -> None:
    known = {field.name for field in fields(kind)}
    if not isinstance(entry, Mapping):
        raise ClaimFileError(f"{where}: {entry!r} is no mapping; allowed keys are {', '.join(sorted(known))}")
    unknown, missing = set(entry) - known, known - optional - set(entry)
    if unknown or missing:
        raise ClaimFileError(
            f"{where}: unknown {sorted(unknown)}, missing {sorted(missing)}; allowed are {', '.join(sorted(known))}"
        )
