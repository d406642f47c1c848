"""The one sentence of a comparison, why it is certain or not, and what was left out."""

from collections.abc import Mapping, Sequence

from analysis.comparison import words
from analysis.comparison.answer import FAILED, Kind, Row, Verdict
from analysis.comparison.asked import Asked
from analysis.comparison.blocks import Lost, PairRuns, SideRuns
from analysis.comparison.verdict import beyond_floor, holds_zero, one_side_always_failed, same

Kinds = Mapping[str, str]  # event -> its kind


def sentence(asked: Asked, rows: Sequence[Row], runs: Sequence[PairRuns], kinds: Kinds) -> str:
    """Better, worse, or no difference that so many blocks can show; then each pair's primary metrics and failures."""
    primary = [row for row in rows if row.primary]
    headline = _headline(asked, primary, runs)
    if len(runs) == 1:
        told = _of_pair(asked, runs[0], primary, kinds, short=False)
        return f"{headline}: {told}." if told else f"{headline}."
    each = [(pair.pair.name, _of_pair(asked, pair, primary, kinds, short=True)) for pair in runs]
    return " ".join([f"{headline}.", *(f"{name}: {told}." for name, told in each if told)])


def _headline(asked: Asked, primary: Sequence[Row], runs: Sequence[PairRuns]) -> str:
    a, b = asked.a.label, asked.b.label
    verdicts = {row.verdict for row in primary}
    measured = any(row.blocks for row in primary)
    if not measured and not verdicts & {Verdict.BETTER, Verdict.WORSE}:
        return f"{b} cannot be compared with {a}"
    if {Verdict.BETTER, Verdict.WORSE} <= verdicts:
        return f"{b} is better than {a} in some respects and worse in others"
    for verdict in (Verdict.BETTER, Verdict.WORSE):
        if verdict in verdicts:
            return f"{b} is {verdict.value} than {a}"
    where = "in complete runs " if any(row.metric == FAILED for row in primary) else ""
    if not any(row.verdict is Verdict.UNDECIDED for row in primary if row.metric != FAILED):
        return f"No difference {where}between {b} and {a}"
    blocks = words.counted(max(len(pair.whole) for pair in runs), "block")
    return f"No difference {where}between {b} and {a} that {blocks} can show"


def _of_pair(asked: Asked, pair: PairRuns, primary: Sequence[Row], kinds: Kinds, short: bool) -> str:
    mine = [row for row in primary if row.pair == pair.pair.name and row.metric != FAILED]
    undecided = [row for row in mine if row.verdict is Verdict.UNDECIDED]
    parts = [failures(asked, pair), _called(asked, mine, kinds), _none(mine, kinds)]
    if short:
        parts.append(_named("undecided", undecided, kinds))
    else:
        parts += [f"{words.of_event(row, kinds)}: {shown(asked, row)}" for row in undecided]
    return "; ".join(part for part in parts if part)


def _called(asked: Asked, rows: Sequence[Row], kinds: Kinds) -> str:
    called = [row for row in rows if row.called]
    if not called:
        return ""
    told = [f"{words.of_event(row, kinds)} {_size(asked, row)}" for row in called]
    return f"{words.listed(told)} in {words.counted(max(len(row.blocks) for row in called), 'block')}"


def _size(asked: Asked, row: Row) -> str:
    if row.kind is Kind.RANK:
        longer = "longer" if row.sign > 0 else "shorter"
        return f"{longer} ({words.reached(row, asked.a.label, asked.b.label)})"
    return f"{words.difference(row)} {words.interval(row)}"


def _none(rows: Sequence[Row], kinds: Kinds) -> str:
    equal = [row for row in rows if row.verdict is Verdict.NO_DIFFERENCE]
    told = [f"{words.of_event(row, kinds)} ({_bounds(row)})" for row in equal]
    return f"no difference in {words.listed(told)}" if told else ""


def _bounds(row: Row) -> str:
    return "the same in every block" if same(row) else f"{words.difference(row)} {words.interval(row)}"


def _named(what: str, rows: Sequence[Row], kinds: Kinds) -> str:
    return f"{what}: {words.listed([words.of_event(row, kinds) for row in rows])}" if rows else ""


def shown(asked: Asked, row: Row) -> str:
    """What is not decided: what was seen, and how many blocks would show more."""
    if row.kind is Kind.RANK:
        return f"no difference that ranks can show ({words.reached(row, asked.a.label, asked.b.label)})"
    blocks = words.counted(len(row.blocks), "block")
    if row.p is None:
        return f"{words.difference(row)}, {blocks} {'is' if len(row.blocks) == 1 else 'are'} too few to tell"
    seen = f"{words.difference(row)} {words.interval(row)}"
    if not holds_zero(row) and not beyond_floor(row):
        return f"{seen}, which is inside the A/A floor of {words.plus_minus(row.floor, row)}"
    if not holds_zero(row):
        more = _more(row.needed_for_seen, row, "a difference like it")
        return f"{seen}, which {blocks} cannot tell from chance{more}"
    return f"no difference that {blocks} can show ({seen}{_more(row.needed_blocks, row, words.goal(row))})"


def _more(needed: int | None, row: Row, what: str) -> str:
    if needed is None or needed <= len(row.blocks):
        return ""
    return f"; about {words.counted(needed - len(row.blocks), 'more block')} would show {what}"


def failures(asked: Asked, pair: PairRuns) -> str:
    """What the system under test failed in, or whose failure it was that a side never ran."""
    a, b = asked.a.label, asked.b.label
    told = (_failed(a, pair.a, b, pair.b), _failed(b, pair.b, a, pair.a))
    return "; ".join(text for text in told if text)


def _failed(label: str, side: SideRuns, other_label: str, other: SideRuns) -> str:
    if side.failed:
        share = "every run" if not side.complete else f"{len(side.failed)} of {side.counted} runs"
        beside = "" if other.failed or not other.counted else f" ({other_label} in none of {other.counted})"
        return f"{label} failed in {share}{beside}: {reasons(side.failed)}"
    if side.lost and not side.complete:
        blamed = words.listed(words.distinct(whose(run) for run in side.lost if run.blame))
        return f"{label} has no complete run{f', by failure of {blamed}' if blamed else ''}: {reasons(side.lost)}"
    return ""


def whose(run: Lost) -> str:
    return {"system_under_test": "the system under test", "harness": "the harness"}.get(run.blame, run.blame)


def reasons(lost: Sequence[Lost]) -> str:
    """The distinct messages, the first two in full."""
    said = words.distinct(words.first_line(run.message).rstrip(".") for run in lost)
    more = f", and {words.counted(len(said) - 2, 'other reason')}" if len(said) > 2 else ""
    return "; ".join(said[:2]) + more


def why(asked: Asked, certain: bool, waiting: Sequence[Row], reason: str, kinds: Kinds) -> str:
    """Whether more blocks are needed, and what for."""
    if reason:
        return reason
    if certain:
        return f"every primary interval is ±{asked.goal_percent:g} % or narrower, or its difference surely larger"
    told = [f"{row.pair}, {words.of_event(row, kinds)}: {words.plus_minus(row.half_width, row)}, wanted "
            f"{words.plus_minus(row.goal, row)}" for row in waiting[:3]]  # fmt: skip
    more = f" and {len(waiting) - 3} more" if len(waiting) > 3 else ""
    return "; ".join(told) + more


def notes(asked: Asked, runs: Sequence[PairRuns]) -> tuple[str, ...]:
    """Every block that does not count for a pair, and whose failure it was; an A/A comparison says that it is one."""
    said = []
    if asked.same_code:
        said.append(
            f"Both sides are the same code ({asked.a.short}): an A/A comparison. A difference that it calls is chance, "
            f"which happens in about {100 * asked.level:g} % of such comparisons."
        )
    for pair in runs:
        for label, side in ((asked.a.label, pair.a), (asked.b.label, pair.b)):
            said += [f"{pair.pair.name}, block {run.block} is left out: {label} ({run.run_id}) {_lost(run)}."
                     for run in side.lost]  # fmt: skip
        if one_side_always_failed(pair):
            said.append(f"{pair.pair.name}: one side failed in every run, the other in none; a fact, not a test.")
    return tuple(said)


def _lost(run: Lost) -> str:
    said = words.first_line(run.message).rstrip(".")
    return f"was lost by {whose(run)}: {said}" if run.blame else f"was {said}"
