"""Claims files: one a family, validated at the edge. A claim is never edited to fit a measurement."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from analysis.errors import ClaimFileError

FOLDER = Path(__file__).parent
FAMILIES = {"stela": FOLDER / "stela.yaml"}


class Kind(StrEnum):
    """How a claim is compared.

    `ratio`: 100 x (median(variant) / median(baseline) - 1) has the stated value inside its interval.
    `ratio_above`: that number is above the stated value over its whole interval.
    `own_at_most`: the variant's own median is at most the stated value over its whole interval.
    `every_run`: the metric equals the stated value in every run; a check of each run, so one run is enough.
    """

    RATIO = "ratio"
    RATIO_ABOVE = "ratio_above"
    OWN_AT_MOST = "own_at_most"
    EVERY_RUN = "every_run"


@dataclass(frozen=True)
class Claim:
    """One statement of a paper that a measurement can meet or fail.

    `part` tells apart several statements under one id (CLAIMS ledger id, e.g. S09). `baseline` only for the ratios.
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

    @property
    def name(self) -> str:
        return f"{self.id}/{self.part}" if self.part else self.id


def load_claims(family: str = "stela") -> tuple[Claim, ...]:
    """The claims of one family, in the order of its file."""
    if family not in FAMILIES:
        raise ClaimFileError(f"no claims family {family!r}; there are {', '.join(FAMILIES)}")
    path = FAMILIES[family]
    return parse_claims(yaml.safe_load(path.read_text(encoding="utf-8")), str(path))


def parse_claims(document: Any, path: str) -> tuple[Claim, ...]:
    """A document `{claims: [...]}` to claims; ClaimFileError names file, claim, field and what is allowed."""
    if not isinstance(document, Mapping) or not isinstance(document.get("claims"), list):
        raise ClaimFileError(f"{path}: wants one key `claims` with a list of claims")
    return tuple(_claim(entry, f"{path}: claim {number}") for number, entry in enumerate(document["claims"], 1))


def _claim(entry: Any, where: str) -> Claim:
    known = {field.name for field in fields(Claim)}
    needed = known - {"baseline", "part"}
    if not isinstance(entry, Mapping) or set(entry) - known or needed - set(entry):
        unknown = sorted(set(entry) - known) if isinstance(entry, Mapping) else entry
        raise ClaimFileError(f"{where}: unknown {unknown}; allowed {sorted(known)}, needed {sorted(needed)}")
    try:
        kind = Kind(entry["kind"])
    except ValueError as error:
        raise ClaimFileError(f"{where}: kind is {entry['kind']!r}, allowed are {', '.join(Kind)}") from error
    if (kind in (Kind.RATIO, Kind.RATIO_ABOVE)) != (entry.get("baseline") is not None):
        raise ClaimFileError(f"{where}: `baseline` is needed by ratio and ratio_above, and by no other kind")
    return Claim(**{**entry, "kind": kind, "part": entry.get("part", ""), "stated": float(entry["stated"])})
