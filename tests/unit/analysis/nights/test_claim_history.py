"""The ledger over time: verdicts by night, and where they turn."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.nights.claim_history import ClaimVerdict, claim_histories, rule_changes, verdict_changes, verdict_of
from analysis.nights.findings import evaluate
from analysis.nights.findings_report import findings_data
from analysis.nights.night_records import ClaimRow, History
from analysis.nights.page_parts import claim_line
from analysis.nights.settings import Settings
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


def test_simulated_nights_of_a_suite_have_no_part_in_the_history_of_those_on_machines() -> None:
    met, unmet = [row("reproduced")], [row("differs", direction="opposite")]
    where = ("local", "simulated", "local")
    both = [night(i, "quick", [experiment(STAR, {}, claims=rows)], testbed=testbed)
            for i, (rows, testbed) in enumerate(zip((met, unmet, met), where, strict=True))]  # fmt: skip
    (claim,) = claim_histories(parsed(both))
    assert [cell.verdict for cell in claim.cells] == ["met", "not run", "met"]
    assert verdict_changes([claim]) == ()
    (claim,) = claim_histories(parsed(both[:2]))
    assert [cell.verdict for cell in claim.cells] == ["met", "not run"], "what a model gives is no verdict"


def test_verdicts_by_another_rule_are_not_compared_and_the_reader_is_told() -> None:
    old, unmet = row("reproduced"), row("differs", direction="opposite") | {"v": 2}
    series = nights([old], [old], [unmet], [row("not run", measured=None) | {"v": 2}])
    (claim,) = claim_histories(series)
    assert [cell.version for cell in claim.cells] == [1, 1, 2, 2] and verdict_changes([claim]) == ()
    assert rule_changes([claim]) == {1: 1}
    found = evaluate(History("quick", series), Settings())
    (told,) = (line for line in found.notes if "another rule" in line)
    assert told.startswith(f"verdicts of claims until {series[1].id} are by another rule (ledger version 1)")
    assert claim_line(claim, found).since == series[2].id

    turned = claim_histories(nights([old], [unmet], [unmet | row("reproduced")]))
    (turn,) = verdict_changes(turned)
    assert (turn.before, turn.after, turn.since, turn.last) == ("unmet", "met", 2, 1)
    assert rule_changes(claim_histories(nights([old], [old]))) == {}


def test_a_verdict_by_an_older_rule_is_none_once_there_is_a_newer_ledger() -> None:
    series = nights([row("reproduced")], [row("undecided") | {"v": 2, "runs": 3}])
    found = evaluate(History("quick", series), Settings())
    (claim,) = found.claims
    assert claim_line(claim, found).verdict is ClaimVerdict.UNDECIDED
    (data,) = findings_data(found)["claims"]
    assert (data["verdict"], data["night"], data["tonight"]) == ("not run", None, "undecided")


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


def test_a_simulated_night_says_that_a_step_is_a_change_of_code() -> None:
    both = [night(i, "quick", [experiment(STAR, {})], testbed=where) for i, where in enumerate(("simulated", "local"))]
    assert any("a step is a change of code" in line for line in notes(both[:1]))
    assert not any("simulated" in line for line in notes(both))


def notes(records: list[Any]) -> tuple[str, ...]:
    return evaluate(History("quick", parsed(records)), Settings()).notes
