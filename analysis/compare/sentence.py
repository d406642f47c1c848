"""The result of a comparison in words: rows, sides and events, the one sentence, why it is certain or not, and what was
left out.
"""

from collections.abc import Iterable, Mapping, Sequence

from analysis.compare.blocks import LostRun, PairRuns, Value
from analysis.compare.question import Question
from analysis.compare.result import RUNS_FAILED, SURVIVORS, MetricKind, MetricRow, Verdict
from analysis.compare.verdict import (
    better_or_worse,
    beyond_floor,
    block_order,
    holds_zero,
    inside_floor,
    is_wide_by_measurement,
    one_side_always_failed,
    praise_of_survivors,
    same_in_every_block,
)
from analysis.metrics.definitions import CONVERGENCE, metric
from analysis.numerals import MISSING, change, number, with_unit
from analysis.record.event_timeline import WHOLE_RUN
from analysis.record.small_tables import topology_words
from analysis.stats.shares import upper_bound

OTHER_EVENTS = {"worker_crash": "worker's crash", "cpu_load": "CPU load", "slow_cpu": "slow CPU",
          "memory_limit": "memory limit", "lan_cut": "LAN cut", "partition": "partition", "hold": "hold",
          "sample_loss": "loss of samples", "arrival": "arrival", "departure": "departure"}  # fmt: skip
EVENT_WORDS = {"scale_out": "scale-out", "scale_in": "scale-in", "rate": "the change of rate", "crash": "the crash",
          "scale": "scaling", "reschedule": "the reschedule",
          **{kind: f"the {words}" for kind, words in OTHER_EVENTS.items()}}  # fmt: skip


def difference_text(row: MetricRow) -> str:
    """Return `+12.3 %`, `−24 s`, or an en dash if sides can only be ordered."""
    return change(row.difference, row.unit, _digits(row))


def interval_text(row: MetricRow) -> str:
    """Return `[9.9, 14.8]`; over seeds of the simulator `+9.9 to +14.8`; an en dash without an interval."""
    if row.low is None:
        return MISSING
    low, high = (number(each, _digits(row), signed=row.spread is not None) for each in (row.low, row.high))
    return f"[{low}, {high}]" if row.spread is None else f"{low} to {high}"


def plus_minus(value: float | None, row: MetricRow) -> str:
    return MISSING if value is None else f"±{with_unit(number(value, _digits(row)), row.unit)}"


def goal_text(row: MetricRow) -> str:
    return with_unit(number(row.goal), row.unit)


def _digits(row: MetricRow) -> int | None:
    """Return two significant digits for a difference, one digit for a percentage."""
    if row.unit == "%":
        return 1
    size = max(abs(row.difference or 0.0), row.half_width or 0.0)
    return 0 if size >= 10 else 1 if size >= 1 else 2


def rank_text(row: MetricRow, a: str, b: str) -> str:
    """Return how many runs got there, if some did not, and who came first in the blocks."""
    n, sides = len(row.blocks), ([block.a for block in row.blocks], [block.b for block in row.blocks])
    if not any(each.censored for side in sides for each in side):
        zeros = [sum(each.number == 0.0 for each in side) for side in sides]
        return f"at 0 in {zeros[0]} of {n} runs of {a} and {zeros[1]} of {n} of {b}, so blocks are ordered"
    counts = [sum(not each.censored for each in side) for side in sides]
    signs = [block_order(block, metric(row.metric).smallest) for block in row.blocks]
    first = f"{b} first in {count_text(signs.count(-1), 'block')}, {a} in {signs.count(1)}, {signs.count(0)} tied"
    verb = "converged" if row.metric.startswith(CONVERGENCE) else "got there"
    return f"{verb} in {counts[0]} of {n} runs of {a} and {counts[1]} of {n} of {b}; {first}"


def unsteady_text(row: MetricRow) -> str:
    """Return a note on unsteady runs. They count: without them a variant that never settles would be left out."""
    return f"{row.unsteady} of {2 * len(row.blocks)} runs were not steady" if row.unsteady else ""


def small_text(row: MetricRow) -> str:
    """Return text for a difference that exists but is less than the goal."""
    return f"{row.verdict.value}, by less than the goal of {goal_text(row)}" if row.called and row.within_goal else ""


def verdict_text(row: MetricRow) -> str:
    """Return the verdict, in weaker words if most runs were not steady."""
    return f"seems {row.verdict.value}" if row.called and row.weak else row.verdict.value


def level_text(value: float | None, row: MetricRow) -> str:
    """Return a side's mean, in the metric's own unit."""
    return number(value, None if row.kind is not MetricKind.RUNS else 0)


def value_text(value: Value) -> str:
    return f"{'> ' if value.censored else ''}{number(value.number)}"


def p_text(value: float | None) -> str:
    return MISSING if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def count_text(count: int, singular: str, plural: str = "") -> str:
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def enumeration(parts: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def event_text(row: MetricRow, kinds: Mapping[str, str]) -> str:
    """Return `throughput after scale-out`; with several events also which."""
    if row.event == WHOLE_RUN or row.event not in kinds:
        return row.words
    words = EVENT_WORDS.get(kinds[row.event], kinds[row.event])
    suffix = f" ({row.event})" if len(kinds) > 1 else ""
    preposition = "" if row.words.endswith(("after", "before")) else " after"
    return f"{row.words}{preposition} {words}{suffix}"


def first_line(text: str, most: int = 160) -> str:
    """Return the first line of a failure's message."""
    line = next(iter(text.strip().splitlines()), "")
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


Kinds = Mapping[str, str]  # event -> its kind


def sentence(question: Question, rows: Sequence[MetricRow], runs: Sequence[PairRuns], kinds: Kinds, *,
             of_model: bool = False) -> str:  # fmt: skip
    """Return better, worse, no difference, or that so many blocks do not show one or the other; then each pair's
    primary metrics and failures. `of_model`: the model's values, and those that are the same with every seed."""
    primary = [row for row in rows if row.primary]
    headline = (_model_headline if of_model else _headline)(question, primary, runs, kinds)
    if topology := next((row.topology for row in primary if row.topology), ""):  # primary rows are of one
        headline += f" ({topology_words(topology)})"

    def text(pair: PairRuns) -> str:
        if of_model:
            return _model_text(question, pair, primary, kinds, all_alike=_is_alike(primary))
        return _of_pair(question, pair, primary, kinds, short=len(runs) > 1)

    if len(runs) == 1:
        only = text(runs[0])
        return f"{headline}: {only}." if only else f"{headline}."
    return " ".join([f"{headline}.", *(f"{pair.pair.name}: {each}." for pair in runs if (each := text(pair)))])


def _headline(question: Question, primary: Sequence[MetricRow], runs: Sequence[PairRuns], kinds: Kinds) -> str:
    """Return the headline. A side that failed more often is not called better: if it is ahead in complete runs, both
    are stated."""
    a, b = question.a.label, question.b.label
    failures = [row for row in primary if row.metric == RUNS_FAILED]
    refusals = {(row.pair, verdict) for row in failures for verdict in praise_of_survivors(row)}
    rows = [row for row in primary if row.verdict is not Verdict.NONE or row.why_no_verdict == SURVIVORS]
    praise = [
        row for row in rows if row.why_no_verdict or ((row.pair, row.verdict) in refusals and row not in failures)
    ]
    calls = [row for row in rows if row.verdict in (Verdict.BETTER, Verdict.WORSE) and row not in praise]
    if not any(row.blocks for row in rows) and not calls:
        return f"{b} cannot be compared with {a}"
    verdicts, firm_verdicts = {row.verdict for row in calls}, {row.verdict for row in calls if not row.weak}
    size = " by less than the goal" if all(row.within_goal for row in [*praise, *calls]) else ""
    if praise and not any(row.verdict is Verdict.WORSE for row in failures):
        metrics: dict[str, list[str]] = {}
        for row in [*praise, *(row for row in calls if row.metric != RUNS_FAILED)]:
            ahead = "ahead of" if better_or_worse(row) is Verdict.BETTER else "behind"
            metrics.setdefault(ahead if row in praise else f"{row.verdict} than", []).append(event_text(row, kinds))
        texts = [f"{words} {a} in {enumeration(distinct(names))}" for words, names in metrics.items()]
        reasons = {verdict for pair, verdict in refusals if pair in {row.pair for row in praise}}
        sides = [label for label, verdict in ((a, Verdict.WORSE), (b, Verdict.BETTER)) if verdict in reasons]
        seems = "seems" if all(row.weak for row in [*praise, *calls]) else "is"
        return f"In complete runs {b} {seems} {enumeration(texts)}{size}, but {enumeration(sides)} failed more often"
    scope = " in complete runs" if failures else ""
    if len(verdicts) > 1:
        return f"{b} {'is' if len(firm_verdicts) > 1 else 'seems'} better than {a} in some respects and worse in others"
    if calls:
        suffix = "" if any(row.metric == RUNS_FAILED for row in calls) else scope
        return f"{b} {'is' if firm_verdicts else 'seems'} {calls[0].verdict.value} than {a}{size}{suffix}"
    if not any(row.verdict is Verdict.UNDECIDED for row in rows if row.metric != RUNS_FAILED):
        return f"No difference{scope} between {b} and {a}"
    blocks = max(len(pair.whole) for pair in runs)
    return (
        f"{count_text(blocks, 'block')} {'does' if blocks == 1 else 'do'} not show whether {b} differs from {a}{scope}"
    )


def _of_pair(question: Question, pair: PairRuns, primary: Sequence[MetricRow], kinds: Kinds, short: bool) -> str:
    rows = [row for row in primary if row.pair == pair.pair.name and row.metric != RUNS_FAILED]
    open_rows = [row for row in rows if row.verdict is Verdict.UNDECIDED]
    equal = [
        f"{event_text(row, kinds)} ({_bounds_text(row)}, within ±{goal_text(row)})"
        for row in rows
        if row.verdict is Verdict.NO_DIFFERENCE
    ]
    parts = [
        failures_text(question, pair),
        _called_text(question, [row for row in rows if row.called], kinds),
        _called_text(question, [row for row in rows if row.why_no_verdict == SURVIVORS], kinds, "in complete runs "),
        f"no difference in {enumeration(equal)}" if equal else "",
    ]
    if short:
        parts.append(_list_text("undecided", open_rows, kinds))
    else:
        parts += [f"{event_text(row, kinds)}: {undecided_text(question, row)}" for row in open_rows]
    rows_without = [row for row in rows if row.verdict is Verdict.NONE and row.why_no_verdict != SURVIVORS]
    if short:
        parts.append(_list_text("no verdict", rows_without, kinds))
    else:
        parts += [f"{event_text(row, kinds)}: no verdict, for {row.why_no_verdict}" for row in rows_without]
    return "; ".join(part for part in parts if part)


def _called_text(question: Question, rows: Sequence[MetricRow], kinds: Kinds, where: str = "") -> str:
    if not rows:
        return ""
    notes = [f" ({unsteady_text(row)})" if row.unsteady else "" for row in rows]
    sizes = []
    for row in rows:
        if row.kind is MetricKind.RANK:
            words = (
                ("longer", "shorter") if any(b.a.censored or b.b.censored for b in row.blocks) else ("higher", "lower")
            )
            comparative = words[row.sign < 0]
            sizes.append(f"{comparative} ({rank_text(row, question.a.label, question.b.label)})")
        else:
            size_note = f", less than {goal_text(row)}" if row.within_goal else ""
            sizes.append(f"{difference_text(row)} {interval_text(row)}{size_note}")
    texts = [f"{event_text(row, kinds)} {size}{note}" for row, size, note in zip(rows, sizes, notes, strict=True)]
    return f"{where}{enumeration(texts)} in {count_text(max(len(row.blocks) for row in rows), 'block')}"


def _bounds_text(row: MetricRow) -> str:
    return "the same in every block" if same_in_every_block(row) else f"{difference_text(row)} {interval_text(row)}"


def _list_text(what: str, rows: Sequence[MetricRow], kinds: Kinds) -> str:
    return f"{what}: {enumeration([event_text(row, kinds) for row in rows])}" if rows else ""


def undecided_text(question: Question, row: MetricRow) -> str:
    """Return the observation of an undecided metric, and how many blocks would show more."""
    if row.kind is MetricKind.RANK:
        return f"undecided by rank ({rank_text(row, question.a.label, question.b.label)})"
    blocks = count_text(len(row.blocks), "block")
    if row.p is None:
        return f"{difference_text(row)}, {blocks} {'is' if len(row.blocks) == 1 else 'are'} too few to tell"
    estimate = f"{_bounds_text(row)} {interval_text(row)}" if same_in_every_block(row) else _bounds_text(row)
    if not holds_zero(row) and not beyond_floor(row):
        error_note = "" if inside_floor(row) else " with what its measurement may be wrong by"
        return f"{estimate}, which is inside the A/A floor of {plus_minus(row.floor, row)}{error_note}"
    if not holds_zero(row):
        blocks_note = _more_blocks_text(row.needed_for_seen, row, "a difference like it")
        return f"{estimate}, which {blocks} cannot tell from chance{blocks_note}"
    return f"undecided ({estimate}{_more_blocks_text(row.needed_blocks, row, f'{goal_text(row)} or rule it out')})"


def _more_blocks_text(needed: int | None, row: MetricRow, what: str) -> str:
    if is_wide_by_measurement(row):
        return "; what its measurement may be wrong by makes it wide, however many blocks there are"
    if needed is None or needed <= len(row.blocks):
        return ""
    return f"; about {count_text(needed - len(row.blocks), 'more block')} would show {what}"


def same_with_every_seed(row: MetricRow) -> bool:
    return bool(row.blocks) and all(block.a == block.b for block in row.blocks) and row.spread in (None, (0.0, 0.0))


def _is_alike(primary: Sequence[MetricRow]) -> bool:
    return all(same_with_every_seed(row) for row in primary if row.blocks)


def _model_headline(question: Question, primary: Sequence[MetricRow], runs: Sequence[PairRuns], _: Kinds) -> str:
    a, b = question.a.label, question.b.label
    if not any(row.blocks for row in primary):
        return f"{b} cannot be compared with {a}"
    seeds = max(len(pair.whole) for pair in runs)
    if _is_alike(primary):
        every = "its one seed" if seeds == 1 else f"all {seeds} seeds"
        return f"The model gives the same of {b} as of {a}, with {every}"
    return f"The model gives of {b} against {a}, over {count_text(seeds, 'seed')}"


def _model_text(question: Question, pair: PairRuns, primary: Sequence[MetricRow], kinds: Kinds,
                all_alike: bool) -> str:  # fmt: skip
    rows = [row for row in primary if row.pair == pair.pair.name and row.blocks]
    equal = [row for row in rows if same_with_every_seed(row)]
    parts = [failures_text(question, pair, of_model=True)]
    for row in rows:
        ends = interval_text(row) if len(row.blocks) > 1 or row.low != row.high else ""
        note = "; ".join(filter(None, (ends, unsteady_text(row), row.why_no_verdict)))
        size = difference_text(row) + (f" ({note})" if note else "")
        if row.kind is MetricKind.RANK:
            size = f"by rank ({rank_text(row, question.a.label, question.b.label)})"
        parts += [] if row in equal else [f"{event_text(row, kinds)} {size}"]
    if equal:
        parts.append(("" if all_alike else "the same: ") + enumeration([event_text(row, kinds) for row in equal]))
    return "; ".join(filter(None, parts))


def failures_text(question: Question, pair: PairRuns, *, of_model: bool = False) -> str:
    """Return the failures of the system under test, or whose failure it was that a side never ran. With the upper bound
    of the share that fails, except for a model's seeds, which are not a sample."""
    a, b = question.a.label, question.b.label
    texts = []
    for label, side, other_label, other in ((a, pair.a, b, pair.b), (b, pair.b, a, pair.a)):
        if side.failed:
            share = "every run" if not side.complete else f"{len(side.failed)} of {side.counted} runs"
            upper = 100 * upper_bound(len(side.failed), side.counted)
            notes = [
                f"up to {upper:.0f} % may fail" if side.complete and not of_model else "",
                f"{other_label} in none of {other.counted}" if other.counted and not other.failed else "",
            ]
            note = f" ({'; '.join(filter(None, notes))})" if any(notes) else ""
            texts.append(f"{label} failed in {share}{note}: {reasons_text(side.failed)}")
        elif side.lost and not side.complete:
            blamed = enumeration(distinct(blame_text(run) for run in side.lost if run.blame))
            by = f", by failure of {blamed}" if blamed else ""
            texts.append(f"{label} has no complete run{by}: {reasons_text(side.lost)}")
    return "; ".join(texts)


def blame_text(run: LostRun) -> str:
    return {"system_under_test": "the system under test", "harness": "the harness"}.get(run.blame, run.blame)


def reasons_text(lost: Sequence[LostRun]) -> str:
    """Return the distinct messages, the first two in full."""
    messages = distinct(first_line(run.message).rstrip(".") for run in lost)
    remainder = f", and {count_text(len(messages) - 2, 'other reason')}" if len(messages) > 2 else ""
    return "; ".join(messages[:2]) + remainder


def certainty_text(question: Question, rows: Sequence[MetricRow], certain: bool, waiting: Sequence[MetricRow],
                   reason: str, kinds: Kinds) -> str:  # fmt: skip
    """Return whether more blocks are needed, and what for; or that they would be of no use."""
    if reason:
        return reason
    if not certain:
        texts = []
        for row in waiting[:3]:
            need = ", which neither tells the sides surely apart nor shows them alike"
            if row.metric != RUNS_FAILED and row.needed_blocks is None:
                need = f", too wide for {goal_text(row)} in any number of blocks worth naming"
            elif row.metric != RUNS_FAILED and row.needed_blocks is not None:
                blocks = count_text(row.needed_blocks - len(row.blocks), "more block")
                need = f", about {blocks} to find {goal_text(row)} or rule it out"
            texts.append(f"{row.about}, {event_text(row, kinds)}: {plus_minus(row.half_width, row)}{need}")
        return "; ".join(texts) + (f" and {len(waiting) - 3} more" if len(waiting) > 3 else "")
    primary = [row for row in rows if row.primary]
    groups = (
        ([row for row in primary if row.verdict is Verdict.NONE], "no verdict, however many blocks there are"),
        ([row for row in primary if is_wide_by_measurement(row)],
         "wider only by what the measurement may be wrong by, which no block narrows"),
        ([row for row in primary if row.kind is MetricKind.RANK],
         "some runs never got there or are at 0, and no number of blocks gives ranks an interval"),
        ([row for row in primary if row.metric == RUNS_FAILED and row.verdict is Verdict.UNDECIDED],
         "nothing is called for the side that has more of them"),
    )  # fmt: skip
    texts = [f"{enumeration(distinct(event_text(row, kinds) for row in group))}: {text}" for group, text in groups
             if group]  # fmt: skip
    named = [row for group, _ in groups[:3] for row in group]
    if not texts or any(row not in named and row.metric != RUNS_FAILED for row in primary):
        every = f"{question.goal_percent:g} % in every{' other' if texts else ''} primary metric"
        texts.append(f"enough blocks to find a difference of {every} or to rule it out, or it is surely larger")
    return "; ".join(texts)


PARTS_OF_MODEL = (
    "Of each commit its policies and its policy service have decided. Bridge, Nimbus, workers and machines are those of"
    " the simulator, the same on both sides."
)


def notes(question: Question, runs: Sequence[PairRuns], *, of_model: bool = False) -> tuple[str, ...]:
    """Return every block that does not count for a pair, and whose failure it was; an A/A comparison says that it is
    one, and a comparison of simulated runs what depends on the code."""
    lines = [PARTS_OF_MODEL] if of_model else []
    if question.same_code:
        intro = f"Both sides are the same code ({question.a.short}): "
        lines.append(
            intro
            + "with one seed the model gives the same of both, unless a policy draws or measures something that is"
            " not in its seed."
            if of_model
            else intro + "an A/A comparison. A difference that it calls is chance, which happens in about"
            f" {100 * question.level:g} % of such comparisons."
        )
    for pair in runs:
        for label, side in ((question.a.label, pair.a), (question.b.label, pair.b)):
            for run in side.lost:
                omission, repetition = ("", ", and repeated") if run.repeated else (" is left out", "")
                blame = f"lost by {blame_text(run)}{repetition}: " if run.blame else ""
                reason = f"was {blame}{first_line(run.message).rstrip('.')}"
                lines.append(f"{pair.pair.name}, block {run.block}{omission}: {label} ({run.run_id}) {reason}.")
        if one_side_always_failed(pair):
            lines.append(f"{pair.pair.name}: one side failed in every run, the other in none; a fact, not a test.")
    return tuple(lines)
