"""How a night differs from those before it: each of its values beside the last ones on the same machines. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from analysis.history.changes import scatter
from analysis.history.findings import Judged
from analysis.history.series import Key, Point
from analysis.metric_directions import Better, Compared

LAST = 7  # nights that a night is set beside
SCATTER = 30  # nights that say how much is usual
LEAST = 3
USUAL = 2.0  # standard deviations


@dataclass(frozen=True)
class Difference:
    """`sigmas`: how many usual nights' standard deviations away, positive where it is worse; None: nobody knows yet."""

    key: Key
    point: Point
    before: float
    percent: float | None
    worse: bool
    sigmas: float | None

    @property
    def unusual(self) -> bool:
        return self.sigmas is not None and abs(self.sigmas) > USUAL


def differences(series: Sequence[Judged], night: int) -> list[Difference]:
    """Of every series with a direction that the night measured and enough nights before did; the worst first."""
    found = [one for judged in series if (one := _difference(judged, night)) is not None]
    return sorted(found, key=lambda one: (-(one.sigmas or 0.0), one.key))


def _difference(judged: Judged, night: int) -> Difference | None:
    of = judged.series
    point = of.points[night]
    if point.value is None or of.metric.better is Better.NONE:
        return None
    place = of.nights.index(night)
    if place < LEAST:
        return None
    earlier = of.values[max(0, place - SCATTER) : place]
    before = median(earlier[-LAST:])
    away = point.value - before
    worse = (away < 0) == (of.metric.better is Better.HIGHER) and away != 0
    usual = scatter(earlier)
    sigmas = (1 if worse else -1) * abs(away) / usual if usual else None
    percent = 100 * away / before if before > 0 and of.metric.compared is Compared.RATIO else None
    return Difference(of.key, point, before, percent, worse, sigmas)
