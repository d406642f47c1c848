"""What a paper states, as data: the claims files, one a family, and the published figures (which experiments belong
side by side, and how each panel is drawn). Validated at the edge. A claim is never edited to fit a measurement.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from analysis.errors import ClaimFileError

FOLDER = Path(__file__).parent
FAMILIES = {"stela": FOLDER / "stela.yaml"}
# A source that says "about", "around", "barely" or "preserves" gives no number for it. Decided once, for every such
# claim and before anything was measured: ten percent of the stated number, or ten percentage points around no change.
ABOUT_SHARE = 0.1
ABOUT_POINTS = 10.0


class Kind(StrEnum):
    """How a claim is compared. Intervals are of medians over runs; `about` widens what is stated by its resolution.

    `ratio`: 100 x (median(variant) / median(baseline) - 1) has the stated value inside its interval.
    `ratio_above`, `ratio_below`: that number is above or below the stated value over its whole interval.
    `own`: the variant's own median has the stated value inside its interval.
    `own_at_most`, `own_at_least`, `own_below`: the same median against the stated value, over its whole interval.
    `unmoved`: that interval lies within the resolution, or within the A/A floor, on both sides of the stated value.
    `every_run`: the metric equals the stated value in every run; a check of each run, so one run is enough.
    `only`: the variant's median is above the stated value over its whole interval, and that of none of `others` is.
    `span`: what the claims in `of` measured lies between `stated` and `stated_high`.
    `lowest`: of the claims in `of`, the one with the lowest number has the stated value inside its interval.
    `exact`: a computation with one right answer (`metric` names it, see rules.py), to the digits that are stated.
    """

    RATIO = "ratio"
    RATIO_ABOVE = "ratio_above"
    RATIO_BELOW = "ratio_below"
    OWN = "own"
    OWN_AT_MOST = "own_at_most"
    OWN_AT_LEAST = "own_at_least"
    OWN_BELOW = "own_below"
    UNMOVED = "unmoved"
    EVERY_RUN = "every_run"
    ONLY = "only"
    SPAN = "span"
    LOWEST = "lowest"
    EXACT = "exact"


# The optional fields that a kind must have and no other may.
NEEDS: dict[Kind, frozenset[str]] = {kind: frozenset() for kind in Kind} | {
    Kind.RATIO: frozenset({"baseline"}),
    Kind.RATIO_ABOVE: frozenset({"baseline"}),
    Kind.RATIO_BELOW: frozenset({"baseline"}),
    Kind.ONLY: frozenset({"others"}),
    Kind.SPAN: frozenset({"of", "stated_high"}),
    Kind.LOWEST: frozenset({"of"}),
}
OPTIONAL = frozenset().union(*NEEDS.values())


@dataclass(frozen=True)
class Claim:
    """One statement of a paper that a measurement can meet or fail.

    `part` tells apart several statements under one id (CLAIMS ledger id, e.g. S09). `event`: which event of a run the
    metric is of. `about`: the source itself says that its number is not exact. `of`: names of other claims.
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
    baseline: str | None = None
    event: str = "e1"
    about: bool = False
    stated_high: float | None = None
    others: tuple[str, ...] = ()
    of: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.id}/{self.part}" if self.part else self.id

    @property
    def resolution(self) -> float:
        """How far from the stated number still is what was stated."""
        if not self.about:
            return 0.0
        return ABOUT_SHARE * abs(self.stated) if self.stated else ABOUT_POINTS


def load_claims(family: str = "stela") -> tuple[Claim, ...]:
    """The claims of one family, in the order of its file."""
    if family not in FAMILIES:
        raise ClaimFileError(f"no claims family {family!r}; there are {', '.join(FAMILIES)}")
    path = FAMILIES[family]
    return parse_claims(yaml.safe_load(path.read_text(encoding="utf-8")), str(path))


def parse_claims(document: Any, path: str) -> tuple[Claim, ...]:
    """A document `{claims: [...]}` to claims; ClaimFileError names file, claim, field and what is allowed."""
    if not isinstance(document, Mapping) or not isinstance(document.get("claims"), list):
        raise ClaimFileError(f"{path}: needs one key `claims` with a list of claims")
    claims = tuple(_claim_from(entry, f"{path}: claim {number}") for number, entry in enumerate(document["claims"], 1))
    names = [claim.name for claim in claims]
    for claim in claims:
        unknown = [name for name in claim.of if name not in names]
        if unknown or names.count(claim.name) > 1:
            fault = f"`of` names {', '.join(unknown)}, which is no claim here" if unknown else "is there twice"
            raise ClaimFileError(f"{path}: {claim.name} {fault}; names are id, or id/part")
    return claims


def _claim_from(entry: Any, where: str) -> Claim:
    allowed = {field.name for field in fields(Claim)}
    needed = {field.name for field in fields(Claim) if field.default is MISSING} - {"part"}
    if not isinstance(entry, Mapping) or set(entry) - allowed or needed - set(entry):
        unknown = sorted(set(entry) - allowed) if isinstance(entry, Mapping) else entry
        raise ClaimFileError(f"{where}: unknown {unknown}; allowed {sorted(allowed)}, needed {sorted(needed)}")
    try:
        kind = Kind(entry["kind"])
    except ValueError as error:
        raise ClaimFileError(f"{where}: kind is {entry['kind']!r}, allowed are {', '.join(Kind)}") from error
    for name in sorted(OPTIONAL):
        if (name in NEEDS[kind]) != (entry.get(name) is not None):
            kinds = ", ".join(kind for kind in Kind if name in NEEDS[kind])
            raise ClaimFileError(f"{where}: `{name}` is needed by {kinds}, and by no other kind; this one is {kind}")
    lists = {name: tuple(entry[name]) for name in ("others", "of") if name in entry}
    return Claim(**{"part": "", **entry, **lists, "kind": kind, "stated": float(entry["stated"])})


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
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
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
