"""What keeps an experiment from saying much of a claim that can come out in it (feasibility.py), and where a source's
own numbers miss a claim's region: `barograph check` says it beforehand, the ledger beside a verdict.
Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf, log, sqrt

import numpy as np

from analysis.claims.feasibility import (  # fmt: skip
    PUBLISHED,
    SLACK_S,
    TOLERANCE,
    attainable,
    definition_of,
    is_about_one_number,
    noise_s,
    paced_percent,
    paced_words,
    reason_derived,
    reason_not_testable,
    region_text,
    times_without_event,
)
from analysis.claims.ledger_rows import BLOCKS_OF_A_VERDICT, percent_over
from analysis.claims.levels import levels_of, watch_s
from analysis.claims.statements import Claim, Kind
from analysis.metrics.communication_costs import PUBLISHED_S
from analysis.metrics.definitions import CONVERGENCE
from analysis.numerals import signed_percent
from analysis.stats import paired_differences
from analysis.stats.paired_differences import MINIMUM_BLOCKS
from barograph.plan.experiment import Experiment


def weaknesses(claim: Claim, experiment: Experiment) -> tuple[str, ...]:
    """What keeps this experiment from saying much about a claim that can come out in it; claims that follow from others
    too."""
    if claim.within is None:
        return ()
    found = (
        _few_blocks(experiment),
        _scattered(claim, experiment),
        _slow_baseline(claim),
        _early_end(claim, experiment),
        _certain(claim, experiment),
        _certain_unless_saturated(claim, experiment),
        _rule_outside(claim, experiment),
    )
    return tuple(weakness for weakness in found if weakness)


def lasting_weaknesses(claim: Claim, experiment: Experiment, blocks: int) -> tuple[str, ...]:
    """Those that a row of so many blocks has as well. That they are few it says itself, and its runs say how long its
    baseline takes."""
    measured = replace(experiment, repetitions=blocks)
    said_by_runs = {_few_blocks(measured), _slow_baseline(claim)}
    return tuple(said for said in weaknesses(claim, measured) if said not in said_by_runs)


def _few_blocks(experiment: Experiment) -> str:
    blocks = experiment.repetitions
    if blocks >= BLOCKS_OF_A_VERDICT:
        return ""
    outcome = "no interval" if blocks < MINIMUM_BLOCKS else "an indication at most"
    return f"{blocks} block{'' if blocks == 1 else 's'}: {outcome}; a verdict needs {BLOCKS_OF_A_VERDICT}"


def _scattered(claim: Claim, experiment: Experiment) -> str:
    """Of a time that is stated to a number: what noise alone makes of it, in a series that is level throughout."""
    region = claim.region
    is_time = claim.metric.startswith(CONVERGENCE) and is_about_one_number(claim)
    if not is_time or region.low <= -100.0 or region.high == inf:
        return ""
    times = np.asarray(times_without_event(definition_of(claim)))
    if not 0.0 < times.min() <= times.max() < inf:
        return ""
    scatter = float(np.log(times).std())
    room = log((1.0 + region.high / 100.0) / (1.0 + region.low / 100.0)) / 2.0
    blocks = paired_differences.blocks_to_exclude(sqrt(2.0) * scatter, room)
    if blocks is not None and blocks <= experiment.repetitions:
        return ""
    return (
        f"noise alone scatters such times by {100.0 * scatter:.0f} %: {_blocks_text(blocks)} would show that they are"
        f" as stated; {experiment.repetitions} can show that they are not"
    )


def _blocks_text(blocks: int | None) -> str:
    return "no number of blocks" if blocks is None else f"about {blocks} blocks"


def _slow_baseline(claim: Claim) -> str:
    """Of a reduction of times: how long its baseline has to take, which no experiment says beforehand."""
    soonest_s, left = noise_s(claim), 1.0 + claim.region.high / 100.0
    if soonest_s <= 0.0 or not 0.0 < left < 1.0:
        return ""
    return (
        f"not testable where {claim.baseline} takes less than {soonest_s / left:.0f} s: without any event the median is"
        f" {soonest_s:.0f} s"
    )


def _early_end(claim: Claim, experiment: Experiment) -> str:
    floor_s, horizon_s = watch_s(claim, experiment)
    if claim.metric.startswith(PUBLISHED) and floor_s < PUBLISHED_S + SLACK_S <= horizon_s:
        return f"the watch may end after {floor_s:g} s, and what is published is of {PUBLISHED_S:g} s"
    if not claim.metric.startswith(CONVERGENCE) or floor_s >= horizon_s:
        return ""
    return (
        f"the watch ends when our own test says steady, after {floor_s:g} to {horizon_s:g} s, which cuts off times of"
        " convergence: set after_floor_s to horizon_s"
    )


def _certain(claim: Claim, experiment: Experiment) -> str:
    found = attainable(claim, experiment)
    if found is None or not found.is_within(claim.region):
        return ""
    return f"by the closed form it cannot fail: {found.why}"


def _certain_unless_saturated(claim: Claim, experiment: Experiment) -> str:
    """Of what sources emit on a schedule, whatever a placement is worth."""
    percent = paced_percent(claim, experiment)
    if percent is None or not claim.region.low < percent < claim.region.high:
        return ""
    return f"{paced_words(claim, percent)}; otherwise it cannot fail"


def _rule_outside(claim: Claim, experiment: Experiment) -> str:
    """What happens may differ from Stela's rule where a component is hardly congested."""
    found, percent = attainable(claim, experiment), _rule_percent(claim, experiment)
    if percent is None or (found is not None and not found.reaches(claim.region)):
        return ""
    if claim.region.low < percent - TOLERANCE and percent + TOLERANCE < claim.region.high:
        return ""
    return (
        f"by the closed form Stela's own rule gives {signed_percent(percent)} % here, and the claim needs"
        f" {region_text(claim.region)}"
    )


def _rule_percent(claim: Claim, experiment: Experiment) -> float | None:
    """What Stela's rule makes of a claim's number by the closed form, without noise in the rates; None where it is of
    another policy or number."""
    if claim.metric not in ("throughput_after", "gain_percent") or not is_about_one_number(claim):
        return None
    levels = levels_of(claim, experiment, claim.variant)
    other = levels_of(claim, experiment, claim.baseline) if claim.baseline else levels
    if levels is None or levels.stela is None or other is None:
        return None
    return percent_over(levels.stela, other.before)


def possible_words(claim: Claim, experiment: Experiment) -> str:
    """Where a claim's number can lie in this experiment, and what Stela's rule makes of it, or what a schedule does;
    empty where nothing bounds it."""
    if (paced := paced_percent(claim, experiment)) is not None:
        return paced_words(claim, paced)
    found = attainable(claim, experiment)
    if found is None:
        return ""
    percent = _rule_percent(claim, experiment)
    rule = "" if percent is None else f"; by the closed form Stela's rule gives {signed_percent(percent)} %"
    return f"{found.why if found.reaches(claim.region) else found.out_of_reach(claim.region)}{rule}"


def notes(claims: Sequence[Claim], experiment: Experiment) -> tuple[str, ...]:
    """What an experiment cannot show, or only weakly, of its own claims, among all of a family; alike ones together.
    Last comes what the source's own numbers of these claims say against claims that follow from them."""
    by_name = {claim.name: claim for claim in claims}
    found: dict[str, list[str]] = {}
    own = {
        claim.name: claim for claim in claims if claim.experiment == experiment.name and claim.id in experiment.claims
    }
    for name, claim in own.items():
        members = [by_name[member] for member in claim.of]
        run = {member.experiment: [experiment] for member in members if member.experiment == claim.experiment}
        why = reason_derived(claim, members, run) if members else reason_not_testable(claim, experiment)
        for said in (f"not testable here: {why}",) if why else weaknesses(claim, experiment):
            found.setdefault(said, []).append(name)
    for claim in claims:
        misfits = {name: percent for name, percent in _misfits(claim, claims).items() if name in own}
        if said := _own_numbers_text(claim, misfits):
            found.setdefault(said, []).append(claim.name)
    return tuple(f"{', '.join(names)}: {said}" for said, names in found.items())


# --- the source's own numbers ----------------------------------------------------------------------------------------


def own_numbers_note(claim: Claim, claims: Iterable[Claim]) -> str:
    """Where the source's own numbers do not lie inside the region of a claim that follows from others, so that runs
    exactly as stated would not reproduce it; empty where they do. `claims`: at least those of its family."""
    return _own_numbers_text(claim, _misfits(claim, tuple(claims)))


def _own_numbers_text(claim: Claim, misfits: Mapping[str, float]) -> str:
    region = claim.region
    outside = {
        name: percent
        for name, percent in misfits.items()
        if percent < region.low - TOLERANCE or region.high + TOLERANCE < percent
    }
    where, outcome = ("outside", "rule it out") if outside else ("on the edge of", "mostly leave it undecided")
    stated = ", ".join(f"{name} is {signed_percent(percent)} %" for name, percent in (outside or misfits).items())
    needed = f"{where} {region_text(region)}: runs exactly as stated would {outcome}"
    return f"by the source's own numbers {stated}, {needed}" if misfits else ""


def _misfits(claim: Claim, claims: Sequence[Claim]) -> dict[str, float]:
    """The stated numbers of its members that lie outside its region or on an edge; of a lowest number only that one."""
    stated = {
        each.name: percent
        for each in claims
        if each.name in claim.of and (percent := _stated_percent(each, claims)) is not None
    }
    if stated and claim.kind is Kind.LOWEST:
        lowest = min(stated, key=lambda name: stated[name])
        stated = {lowest: stated[lowest]}
    low, high = claim.region.low, claim.region.high
    return {name: percent for name, percent in stated.items() if min(percent - low, high - percent) <= TOLERANCE}


def _stated_percent(claim: Claim, claims: Sequence[Claim]) -> float | None:
    """What the source says the claim's number is. Of a ratio that it only calls higher: what follows from both
    variants' own gains, for both begin alike."""
    if claim.kind in (Kind.RATIO, Kind.OWN):
        return claim.stated
    gains = {
        each.variant: each.stated
        for each in claims
        if (each.experiment, each.event, each.metric) == (claim.experiment, claim.event, "gain_percent")
        and each.kind in (Kind.OWN, Kind.OWN_AT_LEAST)
    }
    own, other = gains.get(claim.variant), gains.get(str(claim.baseline))
    if claim.metric != "throughput_after" or own is None or other is None or other <= -100.0:
        return None
    return percent_over(100.0 + own, 100.0 + other)
