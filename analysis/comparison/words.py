"""Rows, sides and events of a comparison as readers see them."""

from collections.abc import Iterable, Mapping, Sequence

from analysis.comparison.answer import Kind, Row
from analysis.comparison.blocks import Value
from analysis.comparison.ranks import order
from analysis.event_ids import WHOLE_RUN
from analysis.metric_directions import CONVERGENCE
from analysis.numerals import MISSING, change, number, with_unit

EVENTS = {"scale_out": "scale-out", "scale_in": "scale-in", "rate": "the change of rate", "crash": "the crash",
          "scale": "scaling"}  # fmt: skip


def difference(row: Row) -> str:
    """`+12.3 %`, `−24 s`, or an en dash where sides can only be ordered."""
    return change(row.difference, row.unit, _digits(row))


def interval(row: Row) -> str:
    """`[9.9, 14.8]`; an en dash where there is none."""
    if row.low is None:
        return MISSING
    return f"[{number(row.low, _digits(row))}, {number(row.high, _digits(row))}]"


def plus_minus(value: float | None, row: Row) -> str:
    return MISSING if value is None else f"±{with_unit(number(value, _digits(row)), row.unit)}"


def goal(row: Row) -> str:
    return with_unit(number(row.goal), row.unit)


def _digits(row: Row) -> int | None:
    """Two significant digits of what is being told apart, one digit of a percentage."""
    if row.unit == "%":
        return 1
    size = max(abs(row.difference or 0.0), row.half_width or 0.0)
    return 0 if size >= 10 else 1 if size >= 1 else 2


def reached(row: Row, a: str, b: str) -> str:
    """Of what some runs never reached: how many did, and who came first in the blocks."""
    n = len(row.blocks)
    got = [sum(not side.censored for side in sides) for sides in
           ([block.a for block in row.blocks], [block.b for block in row.blocks])]  # fmt: skip
    signs = [order(block) for block in row.blocks]
    first = f"{b} first in {counted(signs.count(-1), 'block')}, {a} in {signs.count(1)}, {signs.count(0)} tied"
    what = "converged" if row.metric.startswith(CONVERGENCE) else "got there"
    return f"{what} in {got[0]} of {n} runs of {a} and {got[1]} of {n} of {b}; {first}"


def level(value: float | None, row: Row) -> str:
    """A side's mean, in the metric's own unit."""
    return number(value, None if row.kind is not Kind.RUNS else 0)


def measured(value: Value) -> str:
    return f"{'> ' if value.censored else ''}{number(value.number)}"


def p(value: float | None) -> str:
    return MISSING if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


def counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def listed(parts: Sequence[str]) -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def of_event(row: Row, kinds: Mapping[str, str]) -> str:
    """`throughput after scale-out`; with several events also which."""
    if row.event == WHOLE_RUN or row.event not in kinds:
        return row.words
    named = EVENTS.get(kinds[row.event], kinds[row.event])
    several = f" ({row.event})" if len(kinds) > 1 else ""
    joined = "" if row.words.endswith(("after", "before")) else " after"
    return f"{row.words}{joined} {named}{several}"


def first_line(text: str, most: int = 160) -> str:
    """Of a failure's message."""
    line = next(iter(text.strip().splitlines()), "")
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
