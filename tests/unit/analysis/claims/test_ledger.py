from dataclasses import replace

import pytest

from analysis.claims.ledger import judge, judge_all
from analysis.claims.ledger_rows import Conditions, LedgerRow, Value
from analysis.claims.rules import COMPUTATIONS
from analysis.claims.statements import Claim, Kind, load_claims, parse_claims
from analysis.errors import ClaimFileError
from analysis.report.ledger_table import interval_text, ledger_row, measured_text

S03 = Claim("S03", "", "SP fig 4a", "post-scale throughput", "stela/star", Kind.RATIO, "throughput_after",
            "stela", 65.0, "%", "even_rebalance")  # fmt: skip


def measured(stela: list[float], even: list[float], censored: tuple[int, int] = (0, 0)) -> Conditions:
    def values(variant: str, numbers: list[float], cut: int) -> list[Value]:
        return [Value(f"{variant}-r{i + 1}", number, i < cut) for i, number in enumerate(numbers)]

    return Conditions({
        ("stela/star", "stela", "throughput_after", "e1"): values("stela", stela, censored[0]),
        ("stela/star", "even_rebalance", "throughput_after", "e1"): values("even_rebalance", even, censored[1]),
    })  # fmt: skip


def verdict(stela: list[float], even: list[float], **changes: object) -> LedgerRow:
    return judge(replace(S03, **changes), measured(stela, even))  # type: ignore[arg-type]  # any field may be varied


def test_the_reason_says_how_many_runs_were_not_steady_and_that_they_count() -> None:
    values = {key: list(of) for key, of in measured([156, 160, 166], [96, 100, 104]).values.items()}
    steady = judge(S03, Conditions(values))
    of_stela = values["stela/star", "stela", "throughput_after", "e1"]
    of_stela[:2] = [replace(value, steady=False) for value in of_stela[:2]]
    of_stela[2] = replace(of_stela[2], steady=True)
    row = judge(S03, Conditions(values))
    assert (row.measured, row.low, row.high, row.verdict) == (steady.measured, steady.low, steady.high, steady.verdict)
    assert (steady.unsteady, row.unsteady, ledger_row(row)["unsteady"]) == (0, 2, 2)
    assert row.reason == f"{steady.reason}; 2 of 6 runs were not steady and count with what stood for a steady part"
    check = judge(replace(S03, kind=Kind.EVERY_RUN, stated=0.0, baseline=None), Conditions(values))
    assert check.reason.endswith("; 2 of 3 runs were not steady and count with what stood for a steady part")


def test_stated_inside_the_interval_is_reproduced() -> None:
    row = verdict([156, 160, 166], [96, 100, 104])
    assert row.verdict == "reproduced"
    assert row.measured == pytest.approx(60.0)
    assert row.low is not None and row.high is not None and row.low < 65 < row.high


@pytest.mark.parametrize(
    ("stela", "words"),
    [
        ([130.0, 131.0, 132.0], "same direction, but smaller"),
        ([230.0, 231.0, 232.0], "same direction, but larger"),
        ([60.0, 61.0, 62.0], "opposite direction"),
        ([101.0, 102.0, 103.0], "no difference"),
    ],
)
def test_a_difference_is_said_in_words(stela: list[float], words: str) -> None:
    row = verdict(stela, [98, 100, 103])
    assert row.verdict == "differs"
    assert words in row.reason


def test_one_run_has_no_interval_and_no_verdict() -> None:
    row = verdict([160], [100])
    assert (row.verdict, row.verdict_text, row.low) == ("not run", "1 run: no interval", None)
    assert row.measured == pytest.approx(60.0)
    assert "same direction" in row.reason
    assert row.direction == "same"


def test_two_runs_have_no_interval_either() -> None:
    row = verdict([160, 161], [100, 101])
    assert row.verdict_text == "2 runs: no interval"
    assert "stela 160, 161; even_rebalance 100, 101" in row.reason


def test_without_runs_the_reason_names_what_was_left_out() -> None:
    nothing = Conditions({}, {("stela/star", "stela"): ["stela-r1 (invalid: fallback)"]})
    row = judge(S03, nothing)
    assert (row.verdict, row.runs, row.verdict_text) == ("not run", 0, "not run")
    assert "stela-r1 (invalid: fallback)" in row.reason


def test_a_check_of_every_run_needs_one_run_and_names_the_one_against_it() -> None:
    check = {"kind": Kind.EVERY_RUN, "stated": 0.0, "baseline": None}
    assert verdict([0], [1], **check).verdict == "reproduced"
    row = verdict([0, 2, 0], [1], **check)
    assert row.verdict == "differs"
    assert "stela-r2 (2)" in row.reason


def test_own_gain_is_judged_over_the_whole_interval() -> None:
    claim = {"kind": Kind.OWN_AT_MOST, "stated": 0.0, "baseline": None}
    assert verdict([-3, -2, -1], [], **claim).verdict == "reproduced"
    assert verdict([-3, -2, 4], [], **claim).verdict_text == "undecided"
    assert verdict([2, 3, 4], [], **claim).verdict == "differs"


def test_longer_is_judged_over_the_whole_interval() -> None:
    longer = {"kind": Kind.RATIO_ABOVE, "stated": 0.0}
    assert verdict([60, 70, 80], [20, 30, 40], **longer).verdict == "reproduced"
    assert verdict([10, 70, 80], [20, 30, 40], **longer).verdict_text == "undecided"
    assert verdict([20, 30, 40], [60, 70, 80], **longer).verdict == "differs"


def test_censored_runs_open_the_interval() -> None:
    longer = replace(S03, kind=Kind.RATIO_ABOVE, stated=0.0)
    never = judge(longer, measured([170, 170, 170], [20, 30, 40], censored=(3, 0)))
    assert never.verdict == "reproduced"
    assert never.high == float("inf")
    other = judge(longer, measured([50, 50, 50], [40, 40, 40], censored=(0, 2)))
    assert other.verdict == "not run"
    assert other.verdict_text == "undecided"


@pytest.mark.parametrize(
    ("censored", "direction", "number"), [((1, 0), "same", "> +55.6 %"), ((0, 1), None, "< +55.6 %"),
                                          ((0, 0), "same", "+55.6 %")]
)  # fmt: skip
def test_a_ratio_with_a_horizon_on_one_side_is_a_bound(
    censored: tuple[int, int], direction: str | None, number: str
) -> None:
    """140 s against 90 s: longer, unless the 90 are but a bound."""
    longer = replace(S03, kind=Kind.RATIO_ABOVE, stated=0.0)
    row = judge(longer, measured([140.0], [90.0], censored=censored))
    assert row.direction == direction
    assert measured_text(row).replace("\u00a0", " ") == number
    assert ("direction is not known" in row.reason) == (direction is None)
    assert ("> 90" in row.reason) == bool(censored[1])


@pytest.mark.parametrize("runs", [1, 3])
def test_where_neither_converged_there_is_no_number(runs: int) -> None:
    longer = replace(S03, kind=Kind.RATIO_ABOVE, stated=0.0)
    row = judge(longer, measured([90.0] * runs, [90.0] * runs, censored=(runs, runs)))
    assert (row.measured, row.low, row.high, row.direction, row.runs) == (None, None, None, None, runs)
    assert row.reason == "neither converged within 90 s"
    assert row.verdict_text == ("1 run: no interval" if runs == 1 else "undecided")
    assert (measured_text(row), ledger_row(row)["measured"]) == ("–", None)


def test_of_runs_of_which_most_never_converged_the_reason_says_how_many() -> None:
    longer = replace(S03, kind=Kind.RATIO_ABOVE, stated=0.0)
    row = judge(longer, measured([90.0, 90.0, 40.0], [150.0] * 3, censored=(2, 3)))
    assert row.measured is None
    assert row.reason.startswith("too few runs converged within 90 to 150 s; never converged")
    assert "2 of 3 stela, 3 of 3 even_rebalance" in row.reason


def test_a_computation_has_no_runs_and_a_check_no_interval() -> None:
    rows = {row.claim.name: row for row in judge_all(load_claims(), Conditions({}))}
    assert (rows["S14"].runs, interval_text(rows["S14"])) == (0, "–")
    check = verdict([0, 1, 0], [1], kind=Kind.EVERY_RUN, stated=0.0, baseline=None, unit="workers")
    assert (interval_text(check), measured_text(check)) == ("–", "1\u00a0worker")


def test_a_baseline_at_zero_gives_no_ratio() -> None:
    row = verdict([160, 161, 162], [0, 100, 101])
    assert row.verdict == "not run"
    assert "at 0" in row.reason


def test_holm_runs_over_the_tested_claims_only() -> None:
    rows = judge_all([S03, replace(S03, id="S04", experiment="stela/linear")], measured([1, 2, 3], [4, 5, 6]))
    assert rows[0].p_holm == rows[0].p_value == pytest.approx(0.1)
    assert rows[1].p_holm is None


def test_the_shipped_claims_are_those_of_the_ledger() -> None:
    claims = load_claims("stela")
    assert {claim.id for claim in claims} == {f"S{number:02}" for number in range(1, 17)}
    assert {claim.metric for claim in claims if claim.kind is Kind.EXACT} == set(COMPUTATIONS)
    assert len({claim.name for claim in claims}) == len(claims)
    stated = {claim.name: claim.stated for claim in claims}
    assert (stated["S03"], stated["S04"], stated["S05"]) == (65, 45, 120)


def test_about_widens_what_is_stated_by_a_tenth_of_it_and_no_further() -> None:
    meets = [157.0, 158.0, 159.0], [100.0, 100.0, 100.0]
    assert verdict(*meets).verdict == "differs"
    row = verdict(*meets, about=True)
    assert (row.verdict, row.claim.resolution) == ("reproduced", pytest.approx(6.5))
    assert verdict([155.0, 156.0, 157.0], [100.0, 100.0, 100.0], about=True).verdict == "differs"
    assert replace(S03, about=True, stated=0.0).resolution == 10.0


def test_a_claim_reads_the_event_it_names() -> None:
    known = measured([160, 161, 162], [100, 101, 102])
    assert judge(S03, known).runs == 3
    assert judge(replace(S03, event="e2"), known).runs == 0


@pytest.mark.parametrize(
    ("stela", "direction"), [([130, 131, 132], "same"), ([60, 61, 62], "opposite"), ([99, 101, 103], "none")]
)
def test_the_direction_is_told_apart_from_the_verdict(stela: list[float], direction: str) -> None:
    row = verdict(stela, [98, 100, 103])
    assert (row.verdict, row.direction) == ("differs", direction)


def test_exact_claims_are_always_there_and_follow_the_code_that_schedules() -> None:
    rows = {row.claim.name: row for row in judge_all(load_claims(), Conditions({}))}
    exact = [row for row in rows.values() if row.claim.kind is Kind.EXACT]
    assert {row.claim.id for row in exact} == {"S01", "S14"}
    assert all(row.verdict == "reproduced" for row in exact)
    assert rows["S14"].measured == pytest.approx(100 * 15 / 70)
    assert rows["S01/op 3"].measured == pytest.approx(100 * 2000 / 4500)
    assert judge(replace(rows["S14"].claim, stated=25.0), Conditions({})).verdict == "differs"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"id": "S99", "colour": "red"}, "colour"),
        ({"kind": "roughly"}, "allowed are ratio"),
        ({"kind": "every_run"}, "`baseline`"),
        ({"kind": "span", "baseline": None, "stated_high": 2}, "`of` is needed by span, lowest"),
        ({"kind": "lowest", "baseline": None, "of": ["S77"]}, "S77, which is no claim here"),
    ],
)
def test_a_wrong_claims_file_is_named(entry: dict[str, object], words: str) -> None:
    good = {
        "id": "S03", "source": "x", "statement": "x", "experiment": "x", "kind": "ratio", "metric": "x", "variant": "a",
        "baseline": "b", "stated": 1, "unit": "%",
    }  # fmt: skip
    with pytest.raises(ClaimFileError, match=words) as caught:
        parse_claims({"claims": [good | entry]}, "stela.yaml")
    assert "stela.yaml: " in str(caught.value)
