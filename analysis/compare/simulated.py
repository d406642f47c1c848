"""What a comparison of simulated runs says: what the model gives of each metric, the range over seeds, and no verdict
(docs/decisions/claims.md). Pure.

Both runs of a block have one seed, so two codes that decide alike give the same numbers, and of two that do not the
model's noise is the only scatter. How small it is says nothing of how far the model is from Storm.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from analysis.compare import sentence
from analysis.compare.blocks import PairRuns, Value
from analysis.compare.question import Question
from analysis.compare.result import Comparison, Kind, MetricRow, Verdict

WHY_NO_MORE = "all seeds are of one model, and more of them say no more about Storm"
PARTS = (
    "Of each commit its policies and its policy service have decided. Bridge, Nimbus, workers and machines are those of"
    " the simulator, the same on both sides."
)
SAME_CODE = (
    "Both sides are the same code ({}): with one seed the model gives the same of both, unless a policy draws or"
    " measures something that is not in its seed."
)
PairBlock = tuple[str, int]  # a pair and the number of a block


def answer(
    question: Question, rows: Sequence[MetricRow], runs: Sequence[PairRuns], kinds: sentence.Kinds
) -> Comparison:
    """`rows` as they are compared, before any test."""
    # Where no number of a block differs the runs do not either: whatever was lost unseen was lost on both sides.
    differing = {
        (row.pair, block.number) for row in rows for block in (*row.blocks, *row.highest) if block.a != block.b
    }
    found = [of_model(row, differing) for row in rows]
    blocks = max((len(pair.whole) for pair in runs), default=0)
    return Comparison(
        question=question,
        rows=tuple(found),
        runs=tuple(runs),
        sentence=model_sentence(question, found, runs, kinds),
        certain=blocks > 0,
        why=WHY_NO_MORE if blocks else "no block is whole",
        notes=(PARTS, *([SAME_CODE.format(question.a.short)] if question.same_code else []),
               *sentence.lost_runs(question, runs)),
        kinds=kinds,
        simulated=True,
    )  # fmt: skip


def of_model(row: MetricRow, differing: Collection[PairBlock]) -> MetricRow:
    """Its number as it is; `low` and `high` are the smallest and the largest difference of a block."""
    return replace(
        row, spread=_spread(row, differing), p=None, p_holm=None, floor=None, floor_on_record=False, goal=None,
        goal_low=None, needed_blocks=None, needed_for_seen=None, verdict=Verdict.NONE,
    )  # fmt: skip


def _spread(row: MetricRow, differing: Collection[PairBlock]) -> tuple[float, float] | None:
    """Also of what may have been lost unseen. None where sides can only be ordered."""
    if row.estimate is None or not row.blocks:
        return None
    ends = []
    for least, highest in zip(row.blocks, row.highest or row.blocks, strict=True):
        most = highest if (row.pair, least.number) in differing else least
        ends += [_difference(row.kind, most.a, least.b), _difference(row.kind, least.a, most.b)]
    return min(ends), max(ends)


def _difference(kind: Kind, a: Value, b: Value) -> float:
    return 100 * (b.number / a.number - 1) if kind is Kind.RATIO else b.number - a.number


def _is_same(row: MetricRow) -> bool:
    """With every seed."""
    return bool(row.blocks) and all(block.a == block.b for block in row.blocks) and row.spread in (None, (0.0, 0.0))


def model_sentence(
    question: Question, rows: Sequence[MetricRow], runs: Sequence[PairRuns], kinds: sentence.Kinds
) -> str:
    """What the model gives of each pair's primary metrics, and what is the same with every seed."""
    primary = [row for row in rows if row.primary]
    alike = all(_is_same(row) for row in primary if row.blocks)

    def of_pair(pair: PairRuns, own: Sequence[MetricRow], failures: bool) -> str:
        return _of_pair(question, pair, own, kinds, failures=failures, said="" if alike else "the same: ")

    return sentence.with_parts(_headline(question, primary, runs, alike=alike), primary, runs, of_pair)


def _headline(question: Question, primary: Sequence[MetricRow], runs: Sequence[PairRuns], *, alike: bool) -> str:
    a, b = question.a.label, question.b.label
    if not any(row.blocks for row in primary):
        return f"{b} cannot be compared with {a}"
    seeds = max(len(pair.whole) for pair in runs)
    if alike:
        return (
            f"The model gives the same of {b} as of {a}, with {'its one seed' if seeds == 1 else f'all {seeds} seeds'}"
        )
    return f"The model gives of {b} against {a}, over {sentence.count_text(seeds, 'seed')}"


def _of_pair(question: Question, pair: PairRuns, primary: Sequence[MetricRow], kinds: sentence.Kinds, *,
             failures: bool, said: str) -> str:  # fmt: skip
    """`said`: before what is the same with every seed."""
    rows = [row for row in primary if row.pair == pair.pair.name and row.blocks]
    equal = [row for row in rows if _is_same(row)]
    parts = [
        sentence.failures_text(question, pair, of_model=True) if failures else "",
        *(f"{sentence.event_text(row, kinds)} {_size_text(question, row)}" for row in rows if row not in equal),
        said + sentence.enumeration([sentence.event_text(row, kinds) for row in equal]) if equal else "",
    ]
    return "; ".join(filter(None, parts))


def _size_text(question: Question, row: MetricRow) -> str:
    if row.kind is Kind.RANK:
        return f"by rank ({sentence.rank_text(row, question.a.label, question.b.label)})"
    ends = sentence.interval_text(row) if len(row.blocks) > 1 or row.low != row.high else ""
    notes = (ends, sentence.unsteady_text(row), row.why_no_verdict)
    noted = "; ".join(filter(None, notes))
    return sentence.difference_text(row) + (f" ({noted})" if noted else "")
