"""The ledger over time: verdicts by night, and where they turn."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.nights.claim_history import ClaimVerdict, claim_histories, rule_changes, verdict_changes, verdict_of
from analysis.nights.findings import evaluate, findings_data
from analysis.nights.first_page import claim_strip, verdict_since
from analysis.nights.night_records import ClaimRow, History
from analysis.nights.regressions import Settings
from bench.statistics.synthetic_nights import experiment, night
from tests.support.nights_by_hand import STAR, parsed


def row(
    verdict: str, measured: float | None = 50.0, direction: str | None = "same", name: str = "S06/star"
) -> dict[str, Any]:
    """As a ledger has it: with keys that a night does not need, and of enough runs."""
    return {"id": name, "verdict": verdict, "measured": measured, "low": 1.0, "high": 2.0, "direction": direction,
            "runs": 0 if verdict == "not run" else 6, "indication": False, "floor_percent": 3.0,
            "statement": "faster"}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (ClaimRow("S06", "reproduced", measured=50.0, direction="same", runs=3), ClaimVerdict.MET),
        (ClaimRow("S06", "differs", measured=50.0, direction="same", runs=3), ClaimVerdict.PARTLY),
        (ClaimRow("S06", "differs", measured=50.0, direction="opposite", runs=3), ClaimVerdict.UNMET),
        (ClaimRow("S06", "differs", measured=50.0, runs=3), ClaimVerdict.UNMET),
        (ClaimRow("S06", "not run", runs=3), ClaimVerdict.UNDECIDED),
        (ClaimRow("S06", "not run", measured=50.0), ClaimVerdict.UNDECIDED),
        (ClaimRow("S06", "undecided"), ClaimVerdict.UNDECIDED),
        (ClaimRow("S06", "not run"), ClaimVerdict.NOT_RUN),
    ],
)
def test_verdicts(row: ClaimRow, expected: ClaimVerdict) -> None:
    assert verdict_of(row) is expected


def nights(*verdicts: list[dict[str, Any]]) -> Any:
    return parsed([night(i, "quick", [experiment(STAR, {}, claims=rows)]) for i, rows in enumerate(verdicts)])


def test_a_night_without_a_verdict_is_passed_over_and_the_turn_is_told_where_it_came() -> None:
    met, unmet = [row("reproduced")], [row("differs", direction="opposite")]
    found = claim_histories(nights(met, [], [row("not run", measured=None)], unmet, unmet))
    assert [cell.verdict for cell in found[0].cells] == ["met", "not run", "not run", "unmet", "unmet"]
    (turn,) = verdict_changes(found)
    assert (turn.claim, turn.before.verdict, turn.after.verdict) == ("S06/star", "met", "unmet")
    assert (turn.since, turn.last) == (3, 0)


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
    assert verdict_since(claim, found) == series[2].id

    turned = claim_histories(nights([old], [unmet], [unmet | row("reproduced")]))
    (turn,) = verdict_changes(turned)
    assert (turn.before.words, turn.after.words, turn.since, turn.last) == ("unmet", "met", 2, 1)
    assert rule_changes(claim_histories(nights([old], [old]))) == {}


def test_a_verdict_by_an_older_rule_is_none_once_there_is_a_newer_ledger() -> None:
    series = nights([row("reproduced")], [row("undecided") | {"v": 2, "runs": 3}])
    found = evaluate(History("quick", series), Settings())
    (claim,) = found.claims
    assert claim.latest.words == "undecided"
    (data,) = findings_data(found)["claims"]
    assert (data["verdict"], data["night"], data["tonight"]) == ("undecided", None, "undecided")


MET, UNMET = row("reproduced"), row("differs", direction="opposite")
PALE = {"runs": 3, "indication": True}


def on(machines: str, *rows: dict[str, Any], own: str = "") -> Any:
    """A night a letter, on the machines of that name; with `own` the experiment's are these."""
    return parsed([
        night(i, "quick", [experiment(STAR, {}, claims=[found], machine=own and f"{own}{name}")], machine=own or name)
        for i, (name, found) in enumerate(zip(machines, rows, strict=True))
    ])  # fmt: skip


@pytest.mark.parametrize("own", ["", "experiment's "])
def test_verdicts_of_other_machines_are_not_compared_and_the_reader_is_told(own: str) -> None:
    """Whether the night's machines are others or the experiment's own, such as another testbed."""
    series = on("A" * 10 + "B", *[MET] * 10, UNMET, own=own)
    found = evaluate(History("quick", series), Settings())
    (claim,) = found.claims
    assert found.turns == () and findings_data(found)["turned"] == []
    assert (claim.latest.words, verdict_since(claim, found)) == ("unmet", series[10].id)
    nights = f"{series[0].id} to {series[9].id}"
    told = f"verdicts of S06/star in {nights} are of other machines; they are not compared with those of today"
    assert told in found.notes
    assert not any("other machines" in line for line in evaluate(History("quick", series[:10]), Settings()).notes)


def test_where_old_machines_come_back_so_do_their_verdicts() -> None:
    found = verdict_changes(claim_histories(on("AABBA", MET, MET, UNMET, MET, UNMET)))
    assert [(turn.before.verdict, turn.after.verdict, turn.last, turn.since) for turn in found] == [
        ("unmet", "met", 2, 3), ("met", "unmet", 1, 4),
    ]  # fmt: skip


def turns(*rows: dict[str, Any]) -> list[tuple[str, str, int, int, bool]]:
    found = verdict_changes(claim_histories(nights(*([one] for one in rows))))
    return [(turn.before.words, turn.after.words, turn.last, turn.since, turn.is_indication) for turn in found]


def test_indications_are_called_so_and_their_changes_are_no_turns_of_verdicts() -> None:
    assert turns(MET | PALE, UNMET | PALE) == [("met (indication)", "unmet (indication)", 0, 1, True)]
    assert turns(MET, UNMET | PALE, MET) == [
        ("met", "unmet (indication)", 0, 1, True), ("unmet (indication)", "met", 1, 2, True),
    ], "the verdict is what it was"  # fmt: skip
    assert turns(MET, UNMET | PALE, UNMET) == [
        ("met", "unmet (indication)", 0, 1, True), ("met", "unmet", 0, 2, False),
    ], "an indication between does not hide that the verdict turned"  # fmt: skip
    assert turns(MET, MET | PALE, UNMET) == [("met", "unmet", 0, 2, False)], "one change is told once"


def test_lines_and_data_of_claims_say_that_a_verdict_is_an_indication() -> None:
    found = evaluate(History("quick", nights([MET], [MET | PALE], [UNMET | PALE])), Settings())
    (claim,) = found.claims
    strip = claim_strip(claim, found)
    assert claim.latest.words == "unmet (indication)"
    assert "1 met, 1 met (indication), 1 unmet (indication)" in strip
    assert [css in strip for css in ('class="met"', 'class="met indication"', 'class="unmet"')] == [True, True, False]
    (data,) = findings_data(found)["claims"]
    assert (data["verdict"], data["indication"]) == ("unmet", True)
    (turn,) = findings_data(found)["turned"]
    assert (turn["before"], turn["after"], turn["indication"]) == ("met", "unmet", True)


def test_of_two_ledgers_of_a_night_the_one_that_tells_most_counts() -> None:
    both = [night(0, "quick", [experiment(STAR, {}, claims=[row("reproduced")]),
                               experiment("stela/linear", {}, claims=[row("not run", measured=None)])])]  # fmt: skip
    for records in (both, [both[0] | {"experiments": both[0]["experiments"][::-1]}]):
        assert claim_histories(parsed(records))[0].cells[0].verdict is ClaimVerdict.MET


def test_claims_come_in_the_order_of_the_newest_ledger_and_old_ones_stay() -> None:
    a, b, c = (row("reproduced", name=name) for name in ("A", "B", "C"))
    assert [claim.name for claim in claim_histories(nights([c, a], [b, a]))] == ["B", "A", "C"]


def test_a_simulated_night_says_that_a_step_is_a_change_of_code() -> None:
    both = [night(i, "quick", [experiment(STAR, {})], testbed=where) for i, where in enumerate(("simulated", "local"))]
    said = ["change of code" in " ".join(evaluate(History("quick", parsed(records)), Settings()).notes)
            for records in (both[:1], both)]  # fmt: skip
    assert said == [True, False]
