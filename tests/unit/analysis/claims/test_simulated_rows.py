"""What the simulator gives of claims: numbers with their range over seeds, and never a verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from analysis.claims.ledger import judge_all, ledger_rows
from analysis.claims.rows import LedgerRow, RunValue, SeriesConditions
from analysis.claims.simulated_rows import simulated_row, simulated_rows
from analysis.claims.statements import Claim, ClaimKind, Resolution, load_claims
from analysis.report.ledger_table import ledger_row
from barograph.plan.experiment import load

TENTH = Resolution("tenth", "for a test", factor=1.1)
S04 = Claim("S04", "", "SP fig 4b", "post-scale throughput", "stela/linear", ClaimKind.RATIO, "throughput_after",
            "stela", 45.0, "%", TENTH, "even_rebalance")  # fmt: skip
VERDICTS = ("reproduced", "differs", "undecided", "not testable")


def conditions(
    numbers: Mapping[str, Sequence[float]], metric: str = "throughput_after", censored: Mapping[str, int] | None = None
) -> SeriesConditions:
    """By variant, one a seed; the first `censored` of them are horizons."""
    lasting = censored or {}
    return SeriesConditions({
        ("stela/linear", variant, metric, "e1"): [
            RunValue(f"{variant}-r{i}", number, i <= lasting.get(variant, 0), ("s", i))
            for i, number in enumerate(values, 1)
        ]
        for variant, values in numbers.items()
    })  # fmt: skip


def text_of(row: LedgerRow) -> str:
    """As readers see it, with plain spaces."""
    return str(ledger_row(row, simulated=True)["model_text"]).replace("\u00a0", " ")


def test_the_sentence_has_the_number_its_range_and_what_was_stated() -> None:
    six = conditions({"stela": [149.0, 151.0, 150.0, 150.0, 149.5, 150.5], "even_rebalance": [100.0] * 6})
    row = simulated_row(S04, six)
    assert text_of(row) == "the model gives +50.0 % (+49 to +51 over 6 seeds); stated +45 %"
    assert (row.low, row.high) == (pytest.approx(49.0), pytest.approx(51.0))


def test_what_is_added_has_a_number_a_seed() -> None:
    """Acking adds 3 and 4 under METIS, 4 and 4 under the default."""
    claim = replace(S04, kind=ClaimKind.ADDED_AT_LEAST, variant="a", baseline="b", without=("c", "d"), stated=0.0)
    row = simulated_row(claim, conditions({"a": [3.0, 4.0], "c": [0.0, 0.0], "b": [9.0, 9.0], "d": [5.0, 5.0]}))
    assert (row.verdict, row.low, row.high) == ("no verdict", pytest.approx(-25.0), pytest.approx(0.0))
    nothing = simulated_row(claim, conditions({"a": [3.0], "c": [0.0], "b": [5.0], "d": [5.0]}))
    assert (nothing.verdict, nothing.measured, nothing.low) == ("no verdict", None, None)


def test_no_verdict_no_interval_and_no_p_however_clear_the_numbers_are() -> None:
    """Real runs with these numbers differ beyond doubt."""
    clear = conditions({"stela": [170.0, 170.1, 169.9, 170.0, 170.1, 170.0], "even_rebalance": [100.0, 100.1] * 3})
    (measured,), (modelled,) = judge_all([S04], clear), simulated_rows([S04], clear)
    assert (measured.verdict, measured.p_holm is not None) == ("differs", True)
    assert measured.measured == modelled.measured, "one estimator for both"
    row = ledger_row(modelled, simulated=True)
    assert row["verdict"] == row["verdict_text"] == "no verdict"
    for empty in ("low", "high", "p", "p_holm", "direction", "floor_percent"):
        assert row[empty] is None, empty
    assert (row["interval_text"], row["region_text"], row["indication"]) == ("–", "–", False)
    assert (row["lowest"], row["highest"], row["simulated"]) == (modelled.low, modelled.high, True)
    assert not any(word in " ".join(map(str, row.values())) for word in VERDICTS)


def test_a_ledger_of_measured_runs_has_nothing_of_it() -> None:
    six = conditions({"stela": [150.0] * 6, "even_rebalance": [100.0, 101.0] * 3})
    (row,) = ledger_rows([S04], six, simulated=False)
    assert row == judge_all([S04], six)[0]
    assert not {"model_text", "range_text", "lowest", "highest", "simulated"} & ledger_row(row).keys()


def test_a_time_that_some_seed_never_reached_has_no_range() -> None:
    """The seeds that are left would be the quick ones."""
    times = replace(S04, metric="convergence_sp_s", stated=-92.0)
    some = conditions({"stela": [170.0, 80.0, 90.0], "even_rebalance": [160.0, 150.0, 140.0]}, "convergence_sp_s",
                      {"stela": 1})  # fmt: skip
    row = simulated_row(times, some)
    assert row.low is None and row.measured is not None
    assert "stela: median 90 s, 1 of 3 not within 170 s; even_rebalance: median 150 s" in row.reason
    none = conditions({"stela": [170.0] * 3, "even_rebalance": [170.0] * 3}, "convergence_sp_s",
                      {"stela": 3, "even_rebalance": 3})  # fmt: skip
    assert text_of(simulated_row(times, none)) == "the model gives no number; stated −92 %"


def test_the_reason_says_what_can_come_out_and_what_stelas_rule_gives() -> None:
    """Linear by the closed form: 6 executors a component on 12 tasks, and components that wait."""
    claims = {claim.name: claim for claim in load_claims()}
    measured = replace(
        conditions({"stela": [150.0], "even_rebalance": [100.0]}), experiments={"stela/linear": [load("stela/linear")]}
    )
    reason = simulated_row(claims["S04"], measured).reason
    assert reason.startswith("stela over even_rebalance can be 0.0 to +66.7 % here: ")
    assert reason.endswith("by the closed form Stela's rule gives +50.0 %")


def test_what_follows_from_others_has_the_range_of_their_numbers() -> None:
    other = replace(S04, part="other", variant="least_link_load")
    span = replace(S04, part="span", kind=ClaimKind.SPAN, of=("S04", "S04/other"), baseline=None, stated=21.0,
                   stated_high=120.0)  # fmt: skip
    measured = conditions({"stela": [150.0], "least_link_load": [125.0], "even_rebalance": [100.0]})
    *_, row = simulated_rows([S04, other, span], measured)
    assert text_of(row) == "the model gives +50 % (+25 to +50 over its claims); stated +21 to +120 %"
    assert row.verdict == "no verdict" and "S04 +50.0, S04/other +25.0" in row.reason


def test_a_computation_keeps_its_verdict() -> None:
    """It rests on no run."""
    claims = [claim for claim in load_claims() if claim.kind is ClaimKind.EXACT]
    rows = simulated_rows(claims, SeriesConditions({}))
    assert {row.verdict for row in rows} == {"reproduced"} and "simulated" not in ledger_row(rows[0], simulated=True)
    assert text_of(rows[0]).startswith("computed: ")
