"""The result of a series in one sentence to quote: which throughput was higher, by how much, and how certain that is;
for experiments whose claims compare other rates, those. Pure; numbers are the ledger's (interval, A/A floor).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from analysis.claims import limitations, rules
from analysis.claims.rows import LedgerRow, SeriesConditions, failed_note, failed_share
from analysis.claims.simulated_rows import simulated_row
from analysis.claims.statements import RATIOS, Claim, ClaimKind
from analysis.compare import sentence
from analysis.metrics.communication_costs import PUBLISHED_S
from analysis.numerals import FIXED, MISSING, number, with_unit
from analysis.report.figures import style
from analysis.stats.effect import LEVEL, PairedEffect

THROUGHPUT, OWN_CHANGE = "throughput_after", "gain_percent"
PUBLISHED = f"in the {with_unit(f'{PUBLISHED_S:g}', 's')}"
NOUNS = {  # what a headline can compare; "after the reschedule" follows it
    THROUGHPUT: "throughput",
    "spouts_after": "throughput at the spouts",
    "published_emitted_per_s": f"throughput at the spouts {PUBLISHED}",
    "network_mb_per_s_after": "byte rate between machines",
    "published_network_mb_per_s": f"byte rate between machines {PUBLISHED}",
}
_name = style.display_name
Pair = tuple[str, str, str]  # metric, variant, baseline
MOST_PAIRS = 3  # sentences; if there are more pairs only the variant with the highest throughput is named
PACED = (
    "The offered rate is fixed: what is emitted differs only where a variant is saturated, or has not made up for its"
    " restarts."
)
EVENT_NAMES = {
    "scale_out": "scale-out",
    "scale_in": "scale-in",
    "scale": "scale event",
    "rate": "rate change",
    "reschedule": "reschedule",
    **sentence.OTHER_EVENTS,
}  # other events by their kind
BASELINE_NAMES = {"even_rebalance": "Storm's default (even + rebalance)"}


def headline(
    experiment: str,
    variants: Sequence[str],
    events: Mapping[str, str],
    measured: SeriesConditions,
    claims: Sequence[Claim] = (),
    topology: str | None = None,
    *,
    of_model: bool = False,
) -> str:
    """Compare the throughput after the event, variant by variant.

    `variants`: in the order of the experiment. `events`: id -> kind, in their order. The rate (NOUNS) and the baseline
    are those of the claims about this experiment, else the throughput and the first variant. The event is that of the
    claims, else the last one. Without a pair to compare, each variant is compared with itself before the event.
    `topology`: which one, if runs have several. `of_model`: the runs were simulated; their range over seeds
    takes the place of an interval.
    """
    judge = simulated_row if of_model else rules.judge
    if not events:
        return "No run reached an event, so there is nothing to compare."
    pairs, event = _pairs(experiment, variants, events, claims, topology)
    metric = pairs[0][0] if pairs else THROUGHPUT

    def claim(event: str, metric: str, variant: str, baseline: str | None = None) -> Claim:
        kind = ClaimKind.OWN_AT_LEAST if baseline is None else ClaimKind.RATIO_ABOVE
        return Claim("", "", "", "", experiment, kind, metric, variant, 0.0, "%", None, baseline, event,
                     topology=topology)  # fmt: skip

    def measured_variants(event: str, metric: str) -> list[str]:
        return [name for name in variants if measured.of(claim(event, metric, name), name)]

    if topology is not None and not measured_variants(event, metric):
        # If a variant had departed by then, compare after the last event at which it was measured.
        event = next((each for each in reversed(list(events)) if measured_variants(each, metric)), event)
    after = f"after the {_event_name(events[event])}"
    if len(events) > 1:
        after = f"after event {list(events).index(event) + 1} of {len(events)} ({_event_name(events[event])})"
    names_of, noun = {each: measured_variants(event, each) for each in NOUNS}, _noun(claim(event, metric, ""), measured)
    if not names_of[metric]:
        failed = _failures([claim(event, metric, name) for name in variants], measured)
        return f"No complete run measured a {noun} {after}{failed}."
    rows = [
        judge(claim(event, each, variant, baseline), measured)
        for each, variant, baseline in pairs
        if {variant, baseline} <= set(names_of[each])
    ]
    if not rows and metric != THROUGHPUT:
        sentences = [f"There are no two variants to compare the {noun} {after} of."]
    elif not rows:
        changes = [judge(claim(event, OWN_CHANGE, name), measured) for name in names_of[metric]]
        sentences = [_sentence(row, after, measured) for row in changes]
    elif len(rows) > MOST_PAIRS:
        sentences = [_highest_sentence(rows, after, measured)]
    else:
        sentences = [_sentence(row, after, measured) for row in rows]
    omitted = len(sentences) - MOST_PAIRS
    verb = " is" if omitted == 1 else "s are"
    omission = [f"{omitted} more variant{verb} compared with themselves in the report."] if omitted > 0 else []
    is_paced = any(
        limitations.paced_percent(row.claim, run) is not None
        for row in rows
        for run in measured.experiments.get(row.claim.experiment, ())
    )
    failure_notes = []
    compared_names = {name for _, *names in pairs for name in names}
    for name in variants:
        if name in compared_names and name not in names_of[metric]:
            failed = failed_note(claim(event, metric, name), measured, _name)
            failure_notes.append(f"{_capital(_name(name))} has no complete run{failed and f': {failed}'}.")
    return " ".join([*sentences[:MOST_PAIRS], *omission, *([PACED] if is_paced else []), *failure_notes])


def _noun(claim: Claim, measured: SeriesConditions) -> str:
    metric = claim.metric if claim.metric in NOUNS else THROUGHPUT
    place = measured.place(claim.experiment, claim.topology) if metric == THROUGHPUT else ""
    return f"{NOUNS[metric]} {place}".rstrip()


def _event_name(kind: str) -> str:
    return EVENT_NAMES.get(kind, kind.replace("_", " "))


def _pairs(
    experiment: str, variants: Sequence[str], events: Mapping[str, str], claims: Sequence[Claim], topology: str | None
) -> tuple[list[Pair], str]:
    """Return the pairs to compare and their event; if claims use several metrics, of the first few only."""
    event_claims = [
        claim
        for claim in claims
        if claim.experiment == experiment and claim.metric in NOUNS and claim.kind in RATIOS and claim.event in events
        and topology in (None, claim.topology)
    ]  # fmt: skip
    pair_claims = [claim for claim in event_claims if {claim.variant, claim.baseline} <= set(variants)]
    if not pair_claims:
        metric = event_claims[0].metric if event_claims else THROUGHPUT
        return [(metric, name, variants[0]) for name in variants[1:]], list(events)[-1]
    event = pair_claims[0].event
    pairs = [(claim.metric, claim.variant, str(claim.baseline)) for claim in pair_claims if claim.event == event]
    is_mixed = len({metric for metric, *_ in pairs}) > 1
    return list(dict.fromkeys(pairs))[: MOST_PAIRS if is_mixed else None], event


def _failures(claims: Sequence[Claim], measured: SeriesConditions) -> str:
    """Return `; 3 of 6 runs of Stela failed: …`, in the ledger's words, or "" if the system under test never failed."""
    of_variants = {name: replace(claim, variant=name, baseline=None) for claim in claims for name in claim.variants}
    if not any(failed_share(claim, measured, name) for name, claim in of_variants.items()):
        return ""
    notes = (failed_note(claim, measured, _name) for claim in of_variants.values())
    return f"; {', '.join(filter(None, notes))}"


def _sentence(row: LedgerRow, after: str, measured: SeriesConditions) -> str:
    """Return the sentence that compares a variant with its baseline, or without one with itself before."""
    is_own_change, name, failed = row.claim.baseline is None, _name(row.claim.variant), _failures([row.claim], measured)
    noun = f"{_noun(row.claim, measured)} {after}"
    subject = f"{'in complete runs ' if failed else ''}{name}'{'' if name.endswith('s') else 's'} {noun}"
    baseline = "its own before" if is_own_change else _baseline_name(row)
    if row.measured is None and is_own_change:
        return _capital(f"{name} has a {noun}, but none before to compare it with{failed}.")
    if row.measured is None:
        return _capital(f"{subject} cannot be compared with {baseline}: {row.reason}.")
    if _is_unsure(row):
        reference = baseline if is_own_change else f"that of {baseline}"
        return _capital(_not_shown(row, measured, f"whether {subject} differs from {reference}", failed))
    verb, basis = "is" if row.is_models else "was", ", ".join(_basis_parts(row, measured))
    return _capital(f"{subject} {verb} {_distance(row)} {baseline}: {basis}{failed}.")


def _highest_sentence(rows: Sequence[LedgerRow], after: str, measured: SeriesConditions) -> str:
    highest = max(rows, key=lambda row: -100.0 if row.measured is None else row.measured)
    if isinstance(highest.estimate, PairedEffect):  # the highest of many is high by chance: Bonferroni's interval
        low, high = highest.estimate.interval(1 - LEVEL / len(rows))
        highest = replace(highest, low=low, high=high)
    variant, baseline = _name(highest.claim.variant), _baseline_name(highest)
    failed = _failures([row.claim for row in rows], measured)
    noun = f"{_noun(highest.claim, measured)} {after}{' in complete runs' if failed else ''}"
    first = f"Of {len(rows)} variants compared with {baseline}, {variant} had the highest {noun}"
    if highest.measured is None:
        return f"The {noun} cannot be compared with {baseline}: {highest.reason}."
    if _is_unsure(highest):
        return f"{first}; {_not_shown(highest, measured, 'whether it differs', failed)}"
    return f"{first}, {_distance(highest)} it: {', '.join(_basis_parts(highest, measured))}{failed}."


def _is_unsure(row: LedgerRow) -> bool:
    """Return whether the interval contains 0, which shows no equality either, or the number is 0; never for a model's
    number."""
    if row.is_models:
        return False
    contains_zero = row.low is not None and row.high is not None and row.low <= 0.0 <= row.high
    return contains_zero or row.measured == 0.0


def _not_shown(row: LedgerRow, measured: SeriesConditions, whether: str, failed: str) -> str:
    runs, *rest = _basis_parts(row, measured)
    percent = with_unit(_percent(row.measured, signed=True), "%")
    show = "does" if runs.startswith("one ") else "do"
    return f"{runs} {show} not show {whether}: {'; '.join([f'measured {percent}', *rest])}{failed}."


def _basis_parts(row: LedgerRow, measured: SeriesConditions) -> list[str]:
    """Return the number of runs with the unsteady ones, and the interval or that there is none; for a model the range
    over seeds."""
    unsteady_note = f"{row.unsteady} of {len(row.run_ids)} not steady" if row.unsteady else ""
    ends = f"{_percent(row.low, signed=True)} to {_percent(row.high, signed=True)}"
    has_interval = row.low is not None and row.high is not None
    if row.is_models:
        seeds = f"{row.runs} seed{'' if row.runs == 1 else 's'}"
        seeds = f"{with_unit(ends, '%')} over {seeds}" if has_interval and row.runs != 1 else seeds
        return [seeds + (f" ({unsteady_note})" if unsteady_note else "")]
    interval = f"95{FIXED}% interval {with_unit(ends, '%')}" if has_interval else "no interval yet"
    return [_run_counts(row, measured, unsteady_note), interval]


def _run_counts(row: LedgerRow, measured: SeriesConditions, unsteady: str) -> str:
    """Return `5 runs of each` if all of them are compared, else the number of blocks first: `4 blocks with both
    (…)`."""

    def text(runs: int, noun: str = "run") -> str:
        return f"one {noun}" if runs == 1 else f"{runs} {noun}s"

    variant, baseline = row.claim.variant, row.claim.baseline
    of_variant = of_baseline = len(measured.of(row.claim, variant))
    counts = text(of_variant)
    if baseline is not None:
        of_baseline = len(measured.of(row.claim, baseline))
        each = f"{counts} of {_name(variant)} and {of_baseline} of {_name(baseline)}"
        counts = f"{counts} of each" if of_variant == of_baseline else each
    if row.runs == of_variant == of_baseline:
        return f"{counts} ({unsteady})" if unsteady else counts
    return f"{text(row.runs, 'block')} with both ({', '.join(filter(None, (counts, unsteady)))})"


def _baseline_name(row: LedgerRow) -> str:
    baseline = str(row.claim.baseline)
    return BASELINE_NAMES.get(baseline, _name(baseline))


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _distance(row: LedgerRow) -> str:
    percent = row.measured or 0.0
    if round(percent, 1) == 0.0:
        return "as high as"
    return f"{with_unit(_percent(abs(percent)), '%')} {'above' if percent > 0.0 else 'below'}"


def _percent(value: float | None, signed: bool = False) -> str:
    """Format a percentage; whole numbers from 10 on, because nobody quotes tenths of 43 %."""
    return MISSING if value is None else number(value, 0 if round(abs(value), 1) >= 10.0 else 1, signed=signed)
