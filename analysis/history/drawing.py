"""Series over nights as SVG, written directly: hundreds of them a page, a path each and not an element a point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from analysis.history.regressions import Finding, Kind
from analysis.history.series import Point

HEIGHT = 100  # of a spark's view box; a night is STEP wide
STEP = 4
Place = tuple[float, float]


@dataclass(frozen=True)
class Spot:
    """A measured night: its column, its value, spread, and which machines measured it."""

    column: int
    night: int
    point: Point
    machine: int

    @property
    def value(self) -> float:
        assert self.point.value is not None
        return self.point.value


@dataclass(frozen=True)
class Scale:
    """From values to heights, the larger the higher."""

    low: float
    high: float
    top: float
    bottom: float

    def __call__(self, value: float) -> float:
        return self.bottom - (value - self.low) / (self.high - self.low) * (self.bottom - self.top)


def scale(values: Sequence[float], top: float, bottom: float) -> Scale:
    """Some air above and below; a series that never moves lies in the middle."""
    low, high = min(values), max(values)
    air = (high - low) * 0.08 or abs(high) * 0.05 or 1.0
    return Scale(low - air, high + air, top, bottom)


def stretches(spots: Iterable[Spot]) -> list[list[Spot]]:
    """Runs of nights side by side on the same machines: a line never crosses a gap."""
    found: list[list[Spot]] = []
    for spot in spots:
        last = found[-1][-1] if found else None
        if last is not None and spot.column == last.column + 1 and spot.machine == last.machine:
            found[-1].append(spot)
        else:
            found.append([spot])
    return found


def line(places: Sequence[Place]) -> str:
    """A path through whole units, relative; a place alone is a dot."""
    first, moves = _moves(places)
    return first + ("".join(f"l{move}" for move in moves) or "h0")


def dots(places: Sequence[Place]) -> str:
    """A dot at each place, as one path."""
    if not places:
        return ""
    first, moves = _moves(places)
    return f"{first}h0" + "".join(f"m{move}h0" for move in moves)


def _moves(places: Sequence[Place]) -> tuple[str, list[str]]:
    """To the first place, and from each to the next one, as short as a path can say it."""
    rounded = [(round(x), round(y)) for x, y in places]
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(rounded)]
    return f"M{rounded[0][0]} {rounded[0][1]}", [f"{dx}{dy}" if dy < 0 else f"{dx} {dy}" for dx, dy in steps]


def lines(spots: Sequence[Spot], x: Callable[[Spot], float], y: Callable[[float], float]) -> str:
    return "".join(line([(x(spot), y(spot.value)) for spot in part]) for part in stretches(spots))


def band(spots: Sequence[Spot], x: Callable[[Spot], float], y: Callable[[float], float]) -> str:
    """The spread of the repetitions: up along the highest, back along the lowest."""
    paths = []
    for part in stretches(spots):
        high = [(x(spot), y(_or(spot.point.high, spot))) for spot in part]
        low = [(x(spot), y(_or(spot.point.low, spot))) for spot in part]
        paths.append(line([*high, *reversed(low)]) + "z")
    return "".join(paths)


def _or(value: float | None, spot: Spot) -> float:
    return spot.value if value is None else value


def ticks(columns: Iterable[int], y: float, length: float, x: Callable[[int], float]) -> str:
    """A short upright stroke at each column, as one path."""
    return "".join(f"M{round(x(column))} {round(y)}v{round(length)}" for column in columns)


def kind_class(finding: Finding) -> str:
    """The class of a mark: what it is and how sure."""
    kind = "worse" if finding.kind is Kind.REGRESSION else "better"
    return f"{kind} {finding.status.split(' ')[0]}"


def spark(spots: Sequence[Spot], columns: int, marks: Sequence[tuple[int, Finding]], gaps: Sequence[int],
          borders: Sequence[int], title: str) -> str:  # fmt: skip
    """A small line over all nights: changes as upright strokes, gaps as ticks below, other machines as dashes."""
    y = scale([spot.value for spot in spots], 6, HEIGHT - 12)
    strokes = "".join(f'<path class="mark {kind_class(one)}" d="M{at * STEP} 0v{HEIGHT}"/>' for at, one in marks)
    dashes = "".join(f'<path class="border" d="M{column * STEP} 0v{HEIGHT}"/>' for column in borders)
    missing = f'<path class="gap" d="{ticks(gaps, HEIGHT - 7, 7, lambda c: c * STEP)}"/>' if gaps else ""
    path = lines(spots, lambda spot: spot.column * STEP, y)
    return (
        f'<svg class="spark" viewBox="0 0 {max(1, columns - 1) * STEP} {HEIGHT}" preserveAspectRatio="none" role="img">'
        f'<title>{escaped(title)}</title>{dashes}{missing}{strokes}<path class="line" d="{path}"/></svg>'
    )


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
