"""The A/A floor: by how much the testbed differs from itself, from repetitions of the same variant in a series."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from analysis.claims.rows import Conditions, Value
from analysis.claims.statements import Claim


@dataclass(frozen=True)
class Floor:
    """The largest difference of a pair, in percent of the smaller one (of a metric in percent: in points)."""

    percent: float
    pairs: int


Group = tuple[str, str]


def of_claim(claim: Claim, measured: Conditions, variants: Iterable[str]) -> Floor | None:
    """Over the variants compared, and over others of the experiment that are the same policy under another name."""
    groups = _groups(claim, measured)
    named = {
        _group(claim.experiment, variant, value) for variant in variants for value in measured.of(claim, variant)
    }  # fmt: skip
    return largest(claim.metric, {group: values for group, values in groups.items() if group in named})


def of_testbed(claim: Claim, measured: Conditions) -> Floor | None:
    """Over every series that was read, whatever its experiment."""
    return largest(claim.metric, _groups(claim, measured))


def largest(metric: str, groups: Mapping[Group, Sequence[float]]) -> Floor | None:
    found = [
        difference(metric, *sorted(pair))
        for values in groups.values()
        for pair in combinations(values, 2)
        if is_percent(metric) or min(pair) > 0.0
    ]
    return Floor(max(found), len(found)) if found else None


def difference(metric: str, smaller: float, larger: float) -> float:
    return larger - smaller if is_percent(metric) else 100.0 * (larger / smaller - 1.0)


def is_percent(metric: str) -> bool:
    return metric.endswith("_percent")


def _groups(claim: Claim, measured: Conditions) -> dict[Group, list[float]]:
    """The claim's metric of all runs, by what should be the same; a censored value is only a bound and is left out."""
    groups: dict[Group, list[float]] = defaultdict(list)
    for (experiment, variant, metric, event), values in measured.values.items():
        if (metric, event) == (claim.metric, claim.event):
            for value in values:
                if not value.censored:
                    groups[_group(experiment, variant, value)].append(value.value)
    return groups


def _group(experiment: str, variant: str, value: Value) -> Group:
    return experiment, value.same or variant
