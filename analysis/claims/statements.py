"""The statements of the papers, as data: the claims files, one a family. Validated at the edge. A claim is never edited
to fit a measurement.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    StrictBool,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from analysis.stats.effect import Interval
from barograph.errors import ConfigurationError

FOLDER = Path(__file__).parent
FORM = ConfigDict(extra="forbid", allow_inf_nan=False)
Text = Annotated[str, StringConstraints(min_length=1)]
Number = Annotated[float, Strict()]
Names = Annotated[tuple[Text, ...], Field(min_length=1)]
Entry = TypeVar("Entry")
FAMILIES = {name: FOLDER / f"{name}.yaml" for name in ("stela", "metis", "henge", "dodo")}


class ClaimKind(StrEnum):
    """The number that a claim is about and the place where it has to lie: its *region*, whose ends are the stated
    number and its resolution, the claim's `within`.

    `ratio`: 100 x (variant / baseline - 1), around the stated number. `ratio_above`: the same number, above it by more
    than the resolution; `ratio_at_most`: up to it, and the resolution beyond. `own`: the variant's own number, around
    the stated one; `own_at_most`, `own_at_least`: up to it, or from it on, and the resolution beyond; `own_below`:
    below it by more than the resolution. `added_at_least`: 100 x ((variant - its `without`) / (baseline - its
    `without`) - 1), block by block: the addition of something under one variant over its addition under another, from
    the stated number on, and the resolution beyond. `every_run`: the metric equals the stated value in every run; a
    check of each run, so one run is enough. `only`: the variant's own number is above the stated one by more than the
    resolution, that of none of `others` is. `span`: the number of each claim in `of` lies from `stated` to
    `stated_high`, and the resolution beyond. `lowest`: the lowest number of the claims in `of` lies around the stated
    number. `exact`: a computation with one right answer (`metric` names it, see exact.py), to the stated digits.
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


SPREADS = (ClaimKind.MEAN_SPREAD, ClaimKind.LARGEST_SPREAD)
# The optional fields that a kind must have and no other may.
WITHIN = frozenset({"within"})
NEEDS: dict[ClaimKind, frozenset[str]] = dict.fromkeys(ClaimKind, WITHIN) | {
    ClaimKind.RATIO: WITHIN | {"baseline"},
    ClaimKind.RATIO_ABOVE: WITHIN | {"baseline"},
    ClaimKind.RATIO_AT_MOST: WITHIN | {"baseline"},
    ClaimKind.ADDED_AT_LEAST: WITHIN | {"baseline", "without"},
    ClaimKind.ONLY: WITHIN | {"others"},
    ClaimKind.SPAN: WITHIN | {"of", "stated_high"},
    ClaimKind.LOWEST: WITHIN | {"of"},
    ClaimKind.EVERY_RUN: frozenset(),
    ClaimKind.EXACT: frozenset(),
}
OPTIONAL = frozenset().union(*NEEDS.values())


@dataclass(frozen=True)
class Resolution:
    """The distance from a stated number that still counts as stated, and why: a share of it, a factor of the ratio both
    ways, or an amount in the claim's unit. For a condition it is the smallest change that counts as one."""

    __pydantic_config__ = FORM
    name: str
    because: Text
    share: Annotated[Number, Field(ge=0, lt=1)] | None = None
    factor: Annotated[Number, Field(ge=1)] | None = None
    amount: Annotated[Number, Field(ge=0)] | None = None

    def below(self, percent: float) -> float:
        """Return the lower end around a number in percent."""
        return self._end(percent, -1)

    def above(self, percent: float) -> float:
        return self._end(percent, 1)

    def _end(self, percent: float, side: int) -> float:
        if self.factor is not None:
            return float(100.0 * ((1.0 + percent / 100.0) * self.factor**side - 1.0))
        return percent + side * (abs(percent) * (self.share or 0.0) + (self.amount or 0.0))


def _points(value: Any) -> Any:
    """Return the mapping of fields to values as pairs, each value as JSON."""
    if isinstance(value, Mapping) and all(isinstance(items, list) and items for items in value.values()):
        return tuple((path, tuple(map(json.dumps, items))) for path, items in value.items())
    if isinstance(value, tuple):
        return value
    raise ValueError("a mapping of fields to lists of their values")


@dataclass(frozen=True)
class Claim:
    """A statement of a paper that a measurement can meet or fail.

    `part` distinguishes several statements under one id (CLAIMS ledger id, e.g. S09). `event`: the event of a run that
    the metric is about; `e0`: the run, from when its policy may act. `about`: the source itself says that its number is
    not exact. `of`: names of other claims. `without`: the variants that lack the addition of `variant` and `baseline`.
    `within`: None if nothing is estimated.
    `topology`: which one, or `all`, if the experiment's runs have several. `best_by`: the source took the best of three
    runs by this metric; a row gives that number here, beside its own estimate. `stated_over`: the source states the
    number for these together, and this experiment is a part of them: there is no verdict. `family`: the key of FAMILIES
    whose file it is in.

    `simulated`: it is about a sweep (`experiment` is the sweep's name), and the model's number is no verdict.
    `points` has the sweep's points that it is about: a field's path, and the JSON of each of
    its values; empty: all. `over`: which of the points' numbers it states.
    """

    __pydantic_config__ = FORM
    id: Text
    part: str
    source: Text
    statement: Text
    experiment: Text
    kind: ClaimKind
    metric: Text
    variant: Text
    stated: Number
    unit: Text
    within: Resolution | None = None
    baseline: Text | None = None
    event: Annotated[str, StringConstraints(pattern="^e(0|[1-9][0-9]*)$")] = "e1"
    about: StrictBool = False
    stated_high: Number | None = None
    others: Names = ()
    without: Annotated[tuple[Text, ...], Field(min_length=2, max_length=2)] = ()
    of: Names = ()
    topology: Text | None = None
    best_by: Text | None = None
    stated_over: Text | None = None
    simulated: StrictBool = False
    points: Annotated[tuple[tuple[str, tuple[str, ...]], ...], BeforeValidator(_points)] = ()
    over: Literal["mean", "lowest", "highest"] = "mean"
    family: str = ""

    @property
    def name(self) -> str:
        return f"{self.id}/{self.part}" if self.part else self.id

    @property
    def variants(self) -> tuple[str, ...]:
        """Return all variants that it compares."""
        return (self.variant, *([self.baseline] if self.baseline else []), *self.without, *self.others)

    @property
    def is_estimated(self) -> bool:
        """Return whether runs have an estimate of its number: it is no mere check, and not about a sweep."""
        return self.within is not None and not self.simulated

    @property
    def is_one_number(self) -> bool:
        """Return whether runs estimate it, and it is not about each run, a computation or other claims."""
        return self.within is not None and not self.of

    @property
    def is_signed(self) -> bool:
        """Return whether its number is a change, in percent; a distance between runs is none."""
        return self.unit == "%" and self.kind not in SPREADS

    @property
    def region(self) -> Interval:
        """Return where its number has to lie (for `only`: the variant's)."""
        if self.within is None:
            return Interval(self.stated, self.stated)
        low, high = self.within.below(self.stated), self.within.above(self.stated)
        top = self.within.above(self.stated if self.stated_high is None else self.stated_high)
        return {
            ClaimKind.OWN_AT_MOST: Interval(-inf, high),
            ClaimKind.OWN_AT_LEAST: Interval(low, inf),
            ClaimKind.ADDED_AT_LEAST: Interval(low, inf),
            ClaimKind.OWN_BELOW: Interval(-inf, low),
            ClaimKind.RATIO_ABOVE: Interval(high, inf),
            ClaimKind.RATIO_AT_MOST: Interval(-inf, high),
            ClaimKind.ONLY: Interval(high, inf),
        }.get(self.kind, Interval(low, top))


RATIOS = (ClaimKind.RATIO, ClaimKind.RATIO_ABOVE, ClaimKind.RATIO_AT_MOST)
OF_SWEEPS = ("points", "over")
SWEPT_KINDS = (*RATIOS, ClaimKind.OWN, ClaimKind.OWN_AT_MOST, ClaimKind.OWN_AT_LEAST, *SPREADS)


@cache
def load_claims(family: str | None = None) -> tuple[Claim, ...]:
    """Return the claims of one family, in the order of its file; None: of all, one family after the other."""
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
        message = " ".join(str(error).split())
        raise ConfigurationError(f"{path}: is not YAML: {message}; allowed is a mapping with a list") from error


def parse_claims(document: Any, path: str) -> tuple[Claim, ...]:
    """Parse a document `{resolutions: {...}, claims: [...]}` to claims. Raises ConfigurationError with file, claim,
    field and what is allowed."""
    if not isinstance(document, Mapping) or not isinstance(document.get("claims"), list):
        raise ConfigurationError(f"{path}: needs a key `claims` with a list of claims")
    resolutions = _resolutions_from(document.get("resolutions") or {}, path)
    claims: list[Claim] = []
    for number, entry in enumerate(document["claims"], 1):
        fields_of_claim, also, where = entry, {}, f"{path}: claim {number}"
        if isinstance(entry, Mapping) and "also" in entry:
            # Other experiments in which the same statement is judged: word -> experiment.
            fields_of_claim, also = {key: value for key, value in entry.items() if key != "also"}, entry["also"]
            if not isinstance(also, Mapping) or not also:
                raise ConfigurationError(f"{where}: also is {also!r}; allowed is a mapping of words to experiments")
        claims.append(claim := _claim_from(fields_of_claim, where, resolutions))
        for word, experiment in also.items():
            part, statement = ", ".join(filter(None, (claim.part, str(word)))), f"{claim.statement} ({word})"
            claims.append(replace(claim, experiment=str(experiment), part=part, statement=statement))
    names = Counter(claim.name for claim in claims)
    for claim in claims:
        unknown = ", ".join(name for name in claim.of if name not in names)
        if unknown or names[claim.name] > 1:
            fault = f"`of` names {unknown}, which is no claim here" if unknown else "is there twice"
            raise ConfigurationError(f"{path}: {claim.name} {fault}; names are id, or id/part")
    return tuple(claims)


def read_entry(kind: type[Entry], entry: Any, where: str, without: frozenset[str] = frozenset()) -> Entry:
    """Return an entry of a file as its dataclass. `without`: fields that no file has. Raises
    ConfigurationError, with the place, the field, its value and what is allowed."""
    names = ", ".join(field.name for field in fields(kind) if field.name not in without)  # type: ignore[arg-type]
    if not isinstance(entry, Mapping):
        raise ConfigurationError(f"{where}: {entry!r} is no mapping; allowed keys are {names}")
    try:
        shape: Any = kind
        result: Entry = _adapter(shape).validate_python(dict(entry))
        return result
    except ValidationError as error:
        first = min(error.errors(), key=lambda each: each["type"] != "unexpected_keyword_argument")
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "unexpected_keyword_argument":
            raise ConfigurationError(f"{where}: unknown {name!r}; allowed are {names}") from error
        if first["type"] in ("missing", "missing_argument"):
            raise ConfigurationError(f"{where}: {name} is missing; allowed are {names}") from error
        allowed = first["msg"].removeprefix("Value error, ").replace("tuple", "list").removeprefix("Input should be ")
        raise ConfigurationError(f"{where}: {name} is {first['input']!r}; allowed: {allowed}") from error


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _resolutions_from(entries: Any, path: str) -> dict[str, Resolution]:
    """Return the resolutions; each has a size and a reason."""
    if not isinstance(entries, Mapping):
        raise ConfigurationError(f"{path}: resolutions is {entries!r}; allowed is a mapping of names to resolutions")
    resolutions = {}
    for name, entry in entries.items():
        place = f"{path}: resolutions.{name}"
        mapping = {"name": name, **entry} if isinstance(entry, Mapping) else entry
        resolution = read_entry(Resolution, mapping, place, frozenset({"name"}))
        if sum(size is not None for size in (resolution.share, resolution.factor, resolution.amount)) != 1:
            raise ConfigurationError(f"{place} is {entry!r}; it needs one of share, factor, amount, no more")
        resolutions[name] = resolution
    return resolutions


def _claim_from(entry: Any, where: str, resolutions: Mapping[str, Resolution]) -> Claim:
    if isinstance(entry, Mapping):
        where = f"{where} ({entry.get('id')})"
        if "family" in entry:
            raise ConfigurationError(f"{where}: unknown 'family'; it is that of the file")
        size = entry.get("within")
        if isinstance(size, str) and size not in resolutions:
            raise ConfigurationError(f"{where}: within is {size!r}; resolutions has {', '.join(resolutions)}")
        resolution = resolutions[size] if isinstance(size, str) else size
        optional = {name: value for name, value in entry.items() if value is not None or name not in OPTIONAL}
        entry = {"part": "", **optional} | ({"within": resolution} if size is not None else {})
    claim = read_entry(Claim, entry, where, frozenset({"family"}))
    kind = claim.kind
    for name in sorted(OPTIONAL):
        if (name in NEEDS[kind]) != (name in entry):
            kinds = ", ".join(each for each in ClaimKind if name in NEEDS[each])
            raise ConfigurationError(
                f"{where}: `{name}` is needed by {kinds}, and by no other kind; this one is {kind}"
            )
    only = [name for name in OF_SWEEPS if name in entry] + ([f"kind {kind}"] if kind in SPREADS else [])
    if only and not claim.simulated:
        raise ConfigurationError(
            f"{where}: {', '.join(only)} is for claims about sweeps; allowed: with simulated: true"
        )
    if claim.simulated and kind not in SWEPT_KINDS:
        raise ConfigurationError(f"{where}: kind is {kind}; allowed with simulated: true: {', '.join(SWEPT_KINDS)}")
    if claim.stated_high is not None and claim.stated_high < claim.stated:
        raise ConfigurationError(f"{where}: stated_high is {claim.stated_high:g}; allowed: {claim.stated:g} or more")
    if claim.within is not None and claim.within.factor is not None and claim.stated < -100.0:
        basis = f"within {claim.within.name}, which is a factor"
        raise ConfigurationError(f"{where}: stated is {claim.stated:g}; allowed: -100 or more {basis}")
    return claim
