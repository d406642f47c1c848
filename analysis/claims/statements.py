"""What a paper states, as data: the claims files, one a family. Validated at the edge. A claim is never edited to fit a
measurement.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from enum import StrEnum
from functools import cache
from math import inf, isfinite
from pathlib import Path
from typing import Any

import yaml

from barograph.errors import ConfigurationError

FOLDER = Path(__file__).parent
FAMILIES = {"stela": FOLDER / "stela.yaml", "metis": FOLDER / "metis.yaml"}


class Kind(StrEnum):
    """What number a claim is about and where it has to lie: its *region*, whose ends are the stated number and its
    resolution, the claim's `within`.

    `ratio`: 100 x (variant / baseline - 1), around the stated number. `ratio_above`: the same number, above it by more
    than the resolution; `ratio_at_most`: up to it, and the resolution beyond.
    `own`: the variant's own number, around the stated one; `own_at_most`, `own_at_least`: up to it, or from it on, and
    the resolution beyond; `own_below`: below it by more than the resolution.
    `added_at_least`: 100 x ((variant - its `without`) / (baseline - its `without`) - 1), block by block: what something
    adds under one variant over what it adds under another, from the stated number on, and the resolution beyond.
    `every_run`: the metric equals the stated value in every run; a check of each run, so one run is enough.
    `only`: the variant's own number is above the stated one by more than the resolution, that of none of `others` is.
    `span`: what each claim in `of` is about lies from `stated` to `stated_high`, and the resolution beyond.
    `lowest`: the lowest of what the claims in `of` are about lies around the stated number.
    `exact`: a computation with one right answer (`metric` names it, see exact.py), to the digits that are stated.
    `mean_spread`, `largest_spread`: of a sweep only: 100 x (highest - lowest) / mean over the seeds of a point; its
    mean, or its largest value, over the points lies around the stated number.
    """

    RATIO = "ratio"
    RATIO_ABOVE = "ratio_above"
    RATIO_AT_MOST = "ratio_at_most"
    ADDED_AT_LEAST = "added_at_least"
    OWN = "own"
    OWN_AT_MOST = "own_at_most"
    OWN_AT_LEAST = "own_at_least"
    OWN_BELOW = "own_below"
    EVERY_RUN = "every_run"
    ONLY = "only"
    SPAN = "span"
    LOWEST = "lowest"
    EXACT = "exact"
    MEAN_SPREAD = "mean_spread"
    LARGEST_SPREAD = "largest_spread"


SPREADS = (Kind.MEAN_SPREAD, Kind.LARGEST_SPREAD)
# The optional fields that a kind must have and no other may.
WITHIN = frozenset({"within"})
NEEDS: dict[Kind, frozenset[str]] = dict.fromkeys(Kind, WITHIN) | {
    Kind.RATIO: WITHIN | {"baseline"},
    Kind.RATIO_ABOVE: WITHIN | {"baseline"},
    Kind.RATIO_AT_MOST: WITHIN | {"baseline"},
    Kind.ADDED_AT_LEAST: WITHIN | {"baseline", "without"},
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
    metric is of. `about`: the source itself says that its number is not exact. `of`: names of other claims. `without`:
    the variants that lack what `variant` and `baseline` have more. `within`:
    None where nothing is estimated. `topology`: which one, or `all`, where the experiment's runs have several.
    `best_by`: the source took the best of three runs by this metric; a row says what that makes here, beside its own
    estimate. `stated_over`: the source states the number of these together, and this experiment is a part of them:
    there is no verdict. `family`: the key of FAMILIES whose file it is in.

    `simulated`: it is about a sweep (`experiment` is the sweep's name), and what the model gives is no verdict.
    Of a sweep's points `points` has those that it is about: a field's path, and the JSON of each of
    its values; empty: all. `over`: which of the points' numbers it states.
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
    without: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    topology: str | None = None
    best_by: str | None = None
    stated_over: str | None = None
    simulated: bool = False
    points: tuple[tuple[str, tuple[str, ...]], ...] = ()
    over: str = "mean"
    family: str = ""

    @property
    def name(self) -> str:
        return f"{self.id}/{self.part}" if self.part else self.id

    @property
    def variants(self) -> tuple[str, ...]:
        """All that it compares."""
        return (self.variant, *([self.baseline] if self.baseline else []), *self.without, *self.others)

    @property
    def is_estimated(self) -> bool:
        """Whether runs have an estimate of its number: it is no mere check, and not about a sweep."""
        return self.within is not None and not self.simulated

    @property
    def is_signed(self) -> bool:
        """Whether its number is a change, in percent; how far runs lie apart is none."""
        return self.unit == "%" and self.kind not in SPREADS

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
            Kind.ADDED_AT_LEAST: Region(low, inf),
            Kind.OWN_BELOW: Region(-inf, low),
            Kind.RATIO_ABOVE: Region(high, inf),
            Kind.RATIO_AT_MOST: Region(-inf, high),
            Kind.ONLY: Region(high, inf),
        }.get(self.kind, Region(low, top))


RATIOS = (Kind.RATIO, Kind.RATIO_ABOVE, Kind.RATIO_AT_MOST)
SWEPT_KINDS = (*RATIOS, Kind.OWN, Kind.OWN_AT_MOST, Kind.OWN_AT_LEAST, *SPREADS)


@cache
def load_claims(family: str | None = None) -> tuple[Claim, ...]:
    """The claims of one family, in the order of its file; None: of all, one family after the other."""
    if family is None:
        return tuple(claim for each in FAMILIES for claim in load_claims(each))
    if family not in FAMILIES:
        raise ConfigurationError(f"no claims family {family!r}; there are {', '.join(FAMILIES)}")
    path = FAMILIES[family]
    return tuple(replace(claim, family=family) for claim in parse_claims(document_in(path), str(path)))


def document_in(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        why = " ".join(str(error).split())
        raise ConfigurationError(f"{path}: is not YAML: {why}; allowed is a mapping with a list") from error


def parse_claims(document: Any, path: str) -> tuple[Claim, ...]:
    """A document `{resolutions: {...}, claims: [...]}` to claims. Raises ConfigurationError with file, claim,
    field and what is allowed."""
    if not isinstance(document, Mapping) or not isinstance(document.get("claims"), list):
        raise ConfigurationError(f"{path}: needs a key `claims` with a list of claims")
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
            raise ConfigurationError(f"{path}: {claim.name} {fault}; names are id, or id/part")
    return claims


SIZES = {"share": (0.0, 1.0), "factor": (1.0, inf), "amount": (0.0, inf)}  # of a resolution: one of them, from, below


def _resolutions_from(entries: Any, path: str) -> dict[str, Resolution]:
    """Each has a size and a reason."""
    if not isinstance(entries, Mapping):
        raise ConfigurationError(f"{path}: resolutions is {entries!r}; allowed is a mapping of names to resolutions")
    found = {}
    for name, entry in entries.items():
        where = f"{path}: resolutions.{name}"
        size = {key: entry[key] for key in SIZES if key in entry} if isinstance(entry, Mapping) else {}
        if len(size) != 1 or set(entry) - set(SIZES) != {"because"}:
            raise ConfigurationError(f"{where} is {entry!r}; it needs `because` and one of {', '.join(SIZES)}, no more")
        ((key, value),) = size.items()
        least, below = SIZES[key]
        if not _is_number(value) or not least <= value < below:
            raise ConfigurationError(f"{where}.{key} is {value!r}; allowed: {least:g} or more, below {below:g}")
        found[name] = Resolution(name, str(entry["because"]), **{key: float(value)})
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_points(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(of, list) and of for of in value.values())


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(name, str) for name in value)


EVENT_ID = re.compile("e[1-9][0-9]*")
OVER = ("mean", "lowest", "highest")
OF_SWEEPS = ("points", "over")
NOT_IN_FILES = frozenset({"family"})
# Of a claim's fields: what a value has to be, in words and as a test. The others are text.
RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "kind": (f"one of {', '.join(Kind)}", lambda value: isinstance(value, str) and value in set(Kind)),
    "stated": ("a finite number", _is_number),
    "stated_high": ("a finite number", _is_number),
    "about": ("true or false", lambda value: isinstance(value, bool)),
    "simulated": ("true or false", lambda value: isinstance(value, bool)),
    "points": ("a mapping of fields to lists of their values", _is_points),
    "over": (f"one of {', '.join(OVER)}", lambda value: isinstance(value, str) and value in OVER),
    "others": ("a list of variants", _is_names),
    "without": ("a list of two variants", lambda value: _is_names(value) and len(value) == 2),
    "of": ("a list of claims", _is_names),
    "event": ("e1, e2, ...", lambda value: isinstance(value, str) and EVENT_ID.fullmatch(value) is not None),
}
TEXT: tuple[str, Callable[[Any], bool]] = ("text", lambda value: isinstance(value, str) and bool(value))


def _claims_from(entry: Any, where: str, resolutions: Mapping[str, Resolution]) -> list[Claim]:
    """One, and one for each other experiment in which the same statement is judged: `also` has word -> experiment."""
    if not isinstance(entry, Mapping) or "also" not in entry:
        return [_claim_from(entry, where, resolutions)]
    if not isinstance(entry["also"], Mapping) or not entry["also"]:
        raise ConfigurationError(f"{where}: also is {entry['also']!r}; allowed is a mapping of words to experiments")
    first = _claim_from({key: value for key, value in entry.items() if key != "also"}, where, resolutions)
    return [first, *(_elsewhere(first, str(word), str(name)) for word, name in entry["also"].items())]


def _elsewhere(claim: Claim, word: str, experiment: str) -> Claim:
    part, statement = ", ".join(filter(None, (claim.part, word))), f"{claim.statement} ({word})"
    return replace(claim, experiment=experiment, part=part, statement=statement)


def _claim_from(entry: Any, where: str, resolutions: Mapping[str, Resolution]) -> Claim:
    allowed = {field.name for field in fields(Claim)} - NOT_IN_FILES
    needed = {field.name for field in fields(Claim) if field.default is MISSING} - {"part"}
    if not isinstance(entry, Mapping) or set(entry) - allowed or needed - set(entry):
        unknown = sorted(set(entry) - allowed) if isinstance(entry, Mapping) else entry
        raise ConfigurationError(f"{where}: unknown {unknown}; allowed {sorted(allowed)}, needed {sorted(needed)}")
    entry = {name: value for name, value in entry.items() if value is not None or name not in OPTIONAL}
    where = f"{where} ({entry['id']})"
    for name, value in entry.items():
        words, is_allowed = RULES.get(name, TEXT)
        if not is_allowed(value):
            raise ConfigurationError(f"{where}: {name} is {value!r}; allowed: {words}")
    kind = Kind(entry["kind"])
    for name in sorted(OPTIONAL):
        if (name in NEEDS[kind]) != (entry.get(name) is not None):
            kinds = ", ".join(kind for kind in Kind if name in NEEDS[kind])
            raise ConfigurationError(
                f"{where}: `{name}` is needed by {kinds}, and by no other kind; this one is {kind}"
            )
    if "within" in entry and entry["within"] not in resolutions:
        raise ConfigurationError(f"{where}: within is {entry['within']!r}; resolutions has {', '.join(resolutions)}")
    typed: dict[str, Any] = {name: tuple(entry[name]) for name in ("others", "without", "of") if name in entry}
    typed |= {name: float(entry[name]) for name in ("stated", "stated_high") if name in entry}
    if "points" in entry:
        typed["points"] = tuple((path, tuple(map(json.dumps, of))) for path, of in entry["points"].items())
    if "within" in entry:
        typed["within"] = resolutions[entry["within"]]
    claim = Claim(**{"part": "", **entry, **typed, "kind": kind})
    _check_sweep(claim, entry, where)
    if claim.stated_high is not None and claim.stated_high < claim.stated:
        raise ConfigurationError(f"{where}: stated_high is {claim.stated_high:g}; allowed: {claim.stated:g} or more")
    if claim.within is not None and claim.within.factor is not None and claim.stated < -100.0:
        by = f"within {claim.within.name}, which is a factor"
        raise ConfigurationError(f"{where}: stated is {claim.stated:g}; allowed: -100 or more {by}")
    return claim


def _check_sweep(claim: Claim, entry: Mapping[str, Any], where: str) -> None:
    """What is only of sweeps is of no other claim, and what needs runs on machines is of no sweep."""
    only = [name for name in OF_SWEEPS if name in entry] + ([f"kind {claim.kind}"] if claim.kind in SPREADS else [])
    if only and not claim.simulated:
        raise ConfigurationError(
            f"{where}: {', '.join(only)} is for claims about sweeps; allowed: with simulated: true"
        )
    if claim.simulated and claim.kind not in SWEPT_KINDS:
        raise ConfigurationError(
            f"{where}: kind is {claim.kind}; allowed with simulated: true: {', '.join(SWEPT_KINDS)}"
        )
