"""The ledger over time: verdicts by night, and where they turn."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.nights.claim_history import ClaimVerdict, claim_histories, verdict_changes, verdict_of
from analysis.nights.night_records import ClaimRow
from tests.calibration.synthetic_nights import experiment, night
from tests.support.nights_by_hand import STAR, parsed


def row(
    verdict: str, measured: float | None = 50.0, direction: str | None = "same", name: str = "S06/star"
) -> dict[str, Any]:
    """As a ledger has it: with keys that a night does not need."""
    return {"id": name, "verdict": verdict, "measured": measured, "low": 1.0, "high": 2.0, "direction": direction,
            "floor_percent": 3.0, "statement": "faster"}  # fmt: skip


@pytest.mark.parametrize(
    ("verdict", "direction", "measured", "expected"),
    [
        ("reproduced", "same", 50.0, ClaimVerdict.MET),
        ("differs", "same", 50.0, ClaimVerdict.PARTLY),
        ("differs", "opposite", 50.0, ClaimVerdict.UNMET),
        ("differs", "none", 50.0, ClaimVerdict.UNMET),
        ("differs", None, 50.0, ClaimVerdict.UNMET),
        ("not run", None, 50.0, ClaimVerdict.UNDECIDED),
        ("not run", None, None, ClaimVerdict.UNDECIDED),
    ],
)
def test_verdicts(verdict: str, direction: str | None, measured: float | None, expected: ClaimVerdict) -> None:
    assert verdict_of(ClaimRow("S06", verdict, measured=measured, direction=direction, runs=3)) is expected


def test_a_claim_without_runs_is_not_run() -> None:
    assert verdict_of(ClaimRow("S06", "not run")) is ClaimVerdict.NOT_RUN


def nights(*verdicts: list[dict[str, Any]]) -> Any:
    return parsed([night(i, "quick", [experiment(STAR, {}, claims=rows)]) for i, rows in enumerate(verdicts)])


def test_a_night_without_a_verdict_is_passed_over_and_the_turn_is_told_where_it_came() -> None:
    met, unmet = [row("reproduced")], [row("differs", direction="opposite")]
    found = claim_histories(nights(met, [], [row("not run", measured=None)], unmet, unmet))
    assert [cell.verdict for cell in found[0].cells] == ["met", "not run", "not run", "unmet", "unmet"]
    (turn,) = verdict_changes(found)
    assert (turn.claim, turn.before, turn.after, turn.since, turn.last) == ("S06/star", "met", "unmet", 3, 0)


def test_of_two_ledgers_of_a_night_the_one_that_tells_most_counts() -> None:
    both = [night(0, "quick", [experiment(STAR, {}, claims=[row("reproduced")]),
                               experiment("stela/linear", {}, claims=[row("not run", measured=None)])])]  # fmt: skip
    assert claim_histories(parsed(both))[0].cells[0].verdict is ClaimVerdict.MET
    assert (
        claim_histories(parsed([both[0] | {"experiments": both[0]["experiments"][::-1]}]))[0].cells[0].verdict
        is ClaimVerdict.MET
    )


def test_claims_come_in_the_order_of_the_newest_ledger_and_old_ones_stay() -> None:
    a, b, c = (row("reproduced", name=name) for name in ("A", "B", "C"))
    assert [claim.name for claim in claim_histories(nights([c, a], [b, a]))] == ["B", "A", "C"]
