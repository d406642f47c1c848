"""The analysis's steadiness test in the shape that a run's watch asks for."""

from __future__ import annotations

from collections.abc import Sequence

from dags.experiment import Durations
from dags.watch import SteadyTest


def steady_test(durations: Durations) -> SteadyTest:
    """Looks at the last floor's worth of seconds, within 40 to 60: less says nothing, more delays every run."""
    span_s = min(60.0, max(40.0, min(durations.warm_up_floor_s, durations.after_floor_s)))

    def is_steady(_seconds: Sequence[int], counts: Sequence[float | None]) -> tuple[bool, str]:
        from analysis.steady import is_steady as test

        # A second nobody reported is no second at zero; it is left out.
        verdict = test([count for count in counts if count is not None], span_s=span_s)
        return verdict.steady, verdict.reason

    return is_steady
