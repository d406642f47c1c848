"""Kinds of claims other than a stated ratio."""

from dataclasses import replace

import pytest

from analysis.claims.ledger import judge, judge_all
from analysis.claims.rows import Key, LedgerRow, RunValue, SeriesConditions
from analysis.claims.simulated_rows import simulated_rows
from analysis.claims.statements import Claim, ClaimKind, Resolution, load_claims, parse_claims
from analysis.numerals import signed_percent
from analysis.report.ledger_table import statement_text
from barograph.errors import ConfigurationError

EXPERIMENT = "stela/page_load"
TENTH = Resolution("tenth", "for a test", factor=1.1)
CHANGE = Resolution("change", "for a test", factor=1.02)
GAIN = Claim(
    "S06", "own gain", "SP fig 6a", "gain", EXPERIMENT, ClaimKind.OWN, "gain_percent", "stela", 80.0, "%", TENTH
)


def conditions(**runs: list[float]) -> SeriesConditions:
    """Gains in percent by variant, one series."""
    return SeriesConditions({
        (EXPERIMENT, variant, "gain_percent", "e1"): [
            RunValue(f"{variant}-r{i}", v, block=("s", i)) for i, v in enumerate(values, 1)
        ]
        for variant, values in runs.items()
    })  # fmt: skip


def gain(values: list[float], **changes: object) -> LedgerRow:
    return judge(replace(GAIN, **changes), conditions(stela=values))  # type: ignore[arg-type]  # any field may be varied


def test_an_own_gain_is_compared_with_what_is_stated() -> None:
    assert gain([78, 80, 82]).verdict == "reproduced"
    row = gain([49, 50, 51])
    assert (row.verdict, row.direction) == ("differs", "same")
    assert row.reason == "no part of the interval lies within +63.6 to +98.0: the same direction, but smaller"


@pytest.mark.parametrize(
    ("kind", "within", "verdicts"),
    [
        (ClaimKind.OWN_BELOW, CHANGE, {"reproduced": [-9, -8, -7], "undecided": [-9, -1, 5], "differs": [7, 8, 9]}),
        (ClaimKind.OWN_BELOW, CHANGE, {"differs": [-0.5, -0.4, -0.6]}),  # by more than the resolution
        (ClaimKind.OWN_AT_MOST, CHANGE, {"reproduced": [0.1, -0.2, 0.3], "undecided": [-3, -2, 9],
                                         "differs": [4, 5, 6]}),
        (ClaimKind.OWN_AT_LEAST, TENTH, {"reproduced": [-5, -4, -4.5], "undecided": [-11, -8, 3],
                                         "differs": [-13, -12, -11.5]}),
        (ClaimKind.OWN, TENTH, {"reproduced": [-1, 0, 1], "undecided": [-9, 0, 9], "differs": [12, 13, 14]}),
    ],
)  # fmt: skip
def test_the_whole_interval_counts_for_each_kind_of_own_number(
    kind: ClaimKind, within: Resolution, verdicts: dict[str, list[float]]
) -> None:
    for verdict, values in verdicts.items():
        assert gain(values, kind=kind, within=within, stated=0.0).verdict == verdict


def test_yields_no_further_increase_allows_less_and_what_cannot_be_called_an_increase() -> None:
    no_more = {"kind": ClaimKind.RATIO_AT_MOST, "metric": "spouts_after", "baseline": "least", "stated": 0.0}

    def judged(values: list[float]) -> LedgerRow:
        claim = replace(GAIN, **no_more)  # type: ignore[arg-type]  # any field may be varied
        sides = (("stela", values), ("least", [100.0, 101.0, 99.0]))
        return judge(claim, SeriesConditions({
            (EXPERIMENT, variant, "spouts_after", "e1"): [
                RunValue(f"{variant}-r{i}", v, block=("s", i)) for i, v in enumerate(numbers, 1)
            ]
            for variant, numbers in sides
        }))  # fmt: skip

    assert judged([80.0, 81.0, 79.0]).verdict == "reproduced"
    assert judged([104.0, 105.0, 103.0]).verdict == "reproduced"
    more = judged([120.0, 121.0, 119.0])
    assert (more.verdict, more.direction) == ("differs", None)
    assert more.reason.startswith("no part of the interval lies below +10.0")
    assert statement_text(more).startswith("at most 0")


ADDED = replace(GAIN, kind=ClaimKind.ADDED_AT_LEAST, metric="network_mb_per_s_after", variant="metis_acked", stated=0.0,
                within=Resolution("tenth", "for a test", amount=10.0), baseline="even_acked",
                without=("metis_unacked", "even_unacked"))  # fmt: skip
SCATTER = (0.0, 0.01, -0.01, 0.02, -0.02, 0.0)


def acking(**means: float) -> SeriesConditions:
    return SeriesConditions({
        (EXPERIMENT, variant, "network_mb_per_s_after", "e1"): [
            RunValue(f"{variant}-r{i}", mean + (scatter if mean else 0.0), block=("s", i))
            for i, scatter in enumerate(SCATTER, 1)
        ]
        for variant, mean in means.items()
    })  # fmt: skip


def test_what_is_added_under_one_policy_is_set_against_what_is_added_under_another() -> None:
    """3 MB/s of acking under both, though under METIS nothing else is sent, and then 1.5 MB/s and nothing at all."""
    even = {"even_acked": 8.0, "even_unacked": 5.0}
    kept = judge(ADDED, acking(metis_acked=3.0, metis_unacked=0.0, **even))
    assert (kept.verdict, kept.measured) == ("reproduced", pytest.approx(0.0, abs=0.5))
    assert (kept.runs, kept.blocks, statement_text(kept).replace("\u00a0", " ")) == (6, 6, "at least 0 %")
    assert judge(ADDED, acking(metis_acked=6.0, metis_unacked=0.0, **even)).verdict == "reproduced"
    half = judge(ADDED, acking(metis_acked=2.5, metis_unacked=1.0, **even))
    assert (half.verdict, half.measured) == ("differs", pytest.approx(-50.0, abs=0.5))
    none = judge(ADDED, acking(metis_acked=0.0, metis_unacked=0.0, **even))
    assert (none.verdict, none.measured) == ("differs", pytest.approx(-100.0))


def test_where_nothing_is_added_there_is_nothing_to_compensate_for() -> None:
    row = judge(ADDED, acking(metis_acked=3.0, metis_unacked=0.0, even_acked=5.0, even_unacked=5.0))
    assert (row.verdict, row.measured, row.reason) == (
        "undecided", None, "in a block even_acked has no more than even_unacked",
    )  # fmt: skip
    three = judge(ADDED, acking(metis_acked=3.0, metis_unacked=0.0, even_acked=8.0))
    assert (three.verdict, "even_unacked" in three.reason) == ("not run", True)
    known = acking(metis_acked=3.0, metis_unacked=0.0, even_acked=8.0, even_unacked=5.0)
    apart = {key: of[3:] if "even_unacked" in key else of[:3] for key, of in known.values.items()}
    assert judge(ADDED, SeriesConditions(apart)).reason.startswith("no block has all of metis_acked, even_acked")


def test_a_claim_about_what_is_added_names_who_is_without_it() -> None:
    entry = {"id": "M10", "source": "MP", "statement": "s", "experiment": "x/y", "kind": "added_at_least",
             "metric": "m", "variant": "a", "baseline": "b", "stated": 0, "unit": "%", "within": "r"}  # fmt: skip
    resolutions = {"r": {"amount": 10, "because": "for a test"}}
    for wrong in ({}, {"without": ["c"]}, {"without": ["c", "d"], "kind": "ratio"}):
        with pytest.raises(ConfigurationError, match="without"):
            parse_claims({"resolutions": resolutions, "claims": [entry | wrong]}, "claims.yaml")
    (found,) = parse_claims({"resolutions": resolutions, "claims": [entry | {"without": ["c", "d"]}]}, "claims.yaml")
    assert found.without == ("c", "d")


def test_only_one_strategy_improves() -> None:
    only = replace(GAIN, kind=ClaimKind.ONLY, variant="least", others=("most", "sinks"), stated=0.0, within=CHANGE)
    noise = [-0.1, 0.0, 0.1]
    row = judge(only, conditions(least=[10, 11, 12], most=noise, sinks=[-5, -4, -3]))
    assert row.verdict == "reproduced"
    assert row.reason.endswith("in order: least +11.0, most 0.0, sinks −4.0")
    two = judge(only, conditions(least=[10, 11, 12], most=[20, 21, 22], sinks=noise))
    assert (two.verdict, two.direction) == ("differs", "same")
    assert two.reason.startswith("surely above +2.0: least, most; in order: ")
    straddling = judge(only, conditions(least=[-1, 3, 8], most=noise, sinks=noise))
    assert straddling.verdict == "undecided"
    absent = judge(only, conditions(least=[10, 11, 12], most=noise))
    assert (absent.verdict, absent.runs) == ("not run", 0)
    assert "sinks" in absent.reason


def following(kind: ClaimKind, **changes: object) -> Claim:
    base = Claim(
        "S16", "", "SP", "follows", "all", kind, "gain_percent", "stela", 21.0, "%", TENTH, of=("S06/own gain", "S07")
    )
    return replace(base, **changes)  # type: ignore[arg-type]  # any field may be varied


def followed(claim: Claim, first: list[float], second: list[float]) -> LedgerRow:
    other = replace(GAIN, id="S07", part="", variant="other")
    return judge_all([claim, GAIN, other], conditions(stela=first, other=second))[0]


def test_a_span_holds_every_number_it_follows_from() -> None:
    span = following(ClaimKind.SPAN, stated_high=120.0)
    row = followed(span, [49, 50, 51], [99, 100, 101])
    assert (row.verdict, row.low, row.high) == ("reproduced", 50, 100)
    outside = followed(span, [-1, 0, 1], [99, 100, 101])
    assert outside.verdict == "differs"
    assert outside.reason == "S06/own gain 0.0, S07 +100.0, where within +10.0 to +142.0 is what was stated"
    assert followed(span, [0, 30, 60], [99, 100, 101]).verdict == "undecided"


def test_what_follows_waits_for_every_interval() -> None:
    row = followed(following(ClaimKind.SPAN, stated_high=120.0), [49, 50, 51], [99, 100])
    assert row.verdict == "undecided"
    assert row.reason.endswith("no interval for S07")
    assert followed(following(ClaimKind.SPAN, stated_high=120.0), [], []).runs == 0


def test_as_low_as_is_the_lowest_number() -> None:
    lowest = following(ClaimKind.LOWEST, stated=-87.5, within=Resolution("window", "for a test", factor=1.25))
    assert followed(lowest, [-88, -87.5, -87], [1, 2, 3]).verdict == "reproduced"
    assert followed(lowest, [-97, -96.5, -96], [1, 2, 3]).verdict == "differs"
    assert followed(lowest, [-99, -88, -70], [1, 2, 3]).verdict == "undecided"
    row = followed(lowest, [-50, -49, -48], [1, 2, 3])
    assert (row.verdict, row.measured) == ("differs", -49)
    assert row.reason.startswith("lowest is S06/own gain")


def times_of(experiment: str, stela: list[float], even: list[float], never: str = "") -> dict[Key, list[RunValue]]:
    """Of `never` all but the last run are horizons."""
    return {
        (experiment, name, "convergence_sp_s", "e1"): [
            RunValue(f"{name}-r{i}", time, name == never and i < len(times), ("s", i))
            for i, time in enumerate(times, 1)
        ]
        for name, times in (("stela", stela), ("even", even))
    }


STAR_TIMES = times_of("x/star", [60.0, 61.0, 59.0, 60.0, 60.5, 59.5], [100.0, 101.0, 99.0, 100.0, 101.0, 99.0])
QUICK = [58.0, 59.0, 60.0, 61.0, 62.0, 63.0]


def lowest_of_times(diamond: dict[Key, list[RunValue]]) -> tuple[list[Claim], SeriesConditions]:
    star = replace(GAIN, part="star", kind=ClaimKind.RATIO, metric="convergence_sp_s", baseline="even", stated=0.0,
                   experiment="x/star")  # fmt: skip
    lowest = following(ClaimKind.LOWEST, stated=-87.5, of=("S06/star", "S06/diamond"))
    claims = [star, replace(star, part="diamond", experiment="x/diamond"), lowest]
    return claims, SeriesConditions({**STAR_TIMES, **diamond})


def test_a_lowest_number_is_none_where_a_claim_without_one_may_be_lower() -> None:
    """In most runs of diamond the default never converges: nobody knows its median, and all know that it is long."""
    claims, known = lowest_of_times(times_of("x/diamond", QUICK, [1500.0] * 5 + [1490.0], never="even"))
    _, diamond, row = judge_all(claims, known)
    assert diamond.measured is None and diamond.high is not None and diamond.high < -90.0
    assert (row.measured, row.low, row.high) == (None, None, pytest.approx(-40.0, abs=0.2))
    assert row.verdict == "differs", "as what is printed beside it"
    high = signed_percent(diamond.high)
    assert row.reason.startswith(
        f"S06/diamond has no number and may be lowest, of S06/star −40.0, S06/diamond −100.0 to {high} without a number"
    )
    *_, modelled = simulated_rows(claims, known)
    assert (modelled.verdict, modelled.measured) == ("no verdict", None)
    assert modelled.reason.endswith("no number of S06/diamond")


def test_there_is_no_lowest_number_where_a_claim_was_not_run() -> None:
    claims, known = lowest_of_times({})
    *_, row = judge_all(claims, known)
    assert row.measured is None and row.verdict == "undecided"
    assert row.reason.startswith("S06/diamond has no number and may be lowest, of S06/star −40.0")


def test_a_claim_without_a_number_that_is_surely_higher_is_not_the_lowest() -> None:
    claims, known = lowest_of_times(times_of("x/diamond", [1500.0] * 5 + [1490.0], QUICK, never="stela"))
    _, diamond, row = judge_all(claims, known)
    assert diamond.measured is None and diamond.low is not None and diamond.low > 0.0
    assert row.measured == pytest.approx(-40.0, abs=0.2)
    assert row.reason.startswith("lowest is S06/star, of S06/star −40.0, S06/diamond +")


def test_what_follows_from_claims_that_are_judged_with_busy_components_too_is_judged_there_too() -> None:
    claims = {claim.name: claim for claim in load_claims("stela")}
    follows = [
        claim for claim in claims.values() if claim.of and {f"{name}, busy" for name in claim.of} <= claims.keys()
    ]
    assert [claim.name for claim in follows] == ["S12/2X to 5X"]
    for claim in follows:
        busy, members = claims[f"{claim.name}, busy"], [claims[f"{name}, busy"] for name in claim.of]
        assert busy.of == tuple(member.name for member in members)
        assert {busy.experiment} == {member.experiment for member in members}
        assert (busy.region, busy.kind, busy.metric) == (claim.region, claim.kind, claim.metric)
