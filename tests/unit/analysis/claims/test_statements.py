"""Kinds of claims other than a stated ratio, and the A/A floors."""

from dataclasses import replace

import pytest

from analysis.claims.ledger import judge, judge_all
from analysis.claims.ledger_rows import Conditions, LedgerRow, Value
from analysis.claims.statements import Claim, Kind

EXPERIMENT = "stela/page_load"
GAIN = Claim("S06", "own gain", "SP fig 6a", "gain", EXPERIMENT, Kind.OWN, "gain_percent", "stela", 80.0, "%")
LEVEL = Claim(
    "S12",
    "over group 1",
    "SP fig 8a",
    "level",
    EXPERIMENT,
    Kind.RATIO_BELOW,
    "downtime_s",
    "stela",
    0.0,
    "%",
    "random_1",
)


def conditions(**runs: list[float]) -> Conditions:
    """Gains in percent by variant, one series."""
    return Conditions({
        (EXPERIMENT, variant, "gain_percent", "e1"): [Value(f"{variant}-r{i}", v) for i, v in enumerate(values, 1)]
        for variant, values in runs.items()
    })  # fmt: skip


def gain(values: list[float], **changes: object) -> LedgerRow:
    return judge(replace(GAIN, **changes), conditions(stela=values))  # type: ignore[arg-type]  # any field may be varied


def test_an_own_gain_is_compared_with_what_is_stated() -> None:
    assert gain([78, 80, 82]).verdict == "reproduced"
    row = gain([49, 50, 51])
    assert (row.verdict, row.direction, row.reason) == ("differs", "same", "the same direction, but smaller")


def test_falls_means_below_over_the_whole_interval() -> None:
    falls = {"kind": Kind.OWN_BELOW, "stated": 0.0}
    assert gain([-9, -8, -7], **falls).verdict == "reproduced"
    assert gain([2, 8, 9], **falls).reason == "nowhere below 0 in the interval"
    row = gain([-9, -1, 5], **falls)
    assert (row.verdict, row.verdict_text, row.direction) == ("not run", "undecided", "none")
    assert row.reason.startswith("undecided: below 0 in a part of the interval only")
    assert "within the 14.0 by which it differs from itself" in row.reason


def test_preserves_allows_ten_points_less() -> None:
    preserves = {"kind": Kind.OWN_AT_LEAST, "stated": 0.0, "about": True}
    assert gain([-9, -8, 3], **preserves).verdict == "reproduced"
    assert gain([-11, -8, 3], **preserves).verdict_text == "undecided"
    assert gain([-13, -12, -11], **preserves).verdict == "differs"


def test_barely_moves_is_within_ten_points_or_within_the_floor() -> None:
    barely = {"kind": Kind.UNMOVED, "stated": 0.0, "about": True}
    assert gain([-9, 0, 9], **barely).reason.startswith("within 18.0 (the A/A floor)")
    assert gain([11, 12, 13], **barely).verdict == "differs"
    assert gain([7, 8, 9], **barely).verdict == "reproduced"
    assert gain([9, 11, 12], **barely).verdict_text == "undecided"


def test_lower_is_judged_over_the_whole_interval() -> None:
    def against(stela: list[float], group: list[float]) -> LedgerRow:
        sides = {"stela": stela, "random_1": group}
        return judge(LEVEL, Conditions({
            (EXPERIMENT, name, "downtime_s", "e1"): [Value(f"{name}-r{i}", v) for i, v in enumerate(values, 1)]
            for name, values in sides.items()
        }))  # fmt: skip

    assert against([1, 2, 3], [10, 11, 12]).verdict == "reproduced"
    assert against([1, 2, 30], [10, 11, 12]).verdict_text == "undecided"
    assert against([10, 11, 12], [1, 2, 3]).verdict == "differs"
    assert against([1, 2, 3], [0, 11, 12]).reason == "random_1 has a run at 0: no ratio"


def test_only_one_strategy_improves() -> None:
    only = replace(GAIN, kind=Kind.ONLY, variant="least", others=("most", "sinks"), stated=0.0)
    noise = [-1.0, 0.0, 1.0]
    row = judge(only, conditions(least=[10, 11, 12], most=noise, sinks=[-5, -4, -3]))
    assert row.verdict == "reproduced"
    assert row.reason.endswith("in order: least +11.0, most 0.0, sinks −4.0")
    two = judge(only, conditions(least=[10, 11, 12], most=[20, 21, 22], sinks=noise))
    assert (two.verdict, two.direction) == ("differs", "same")
    assert "floor: least, most" in two.reason
    absent = judge(only, conditions(least=[10, 11, 12], most=noise))
    assert (absent.verdict, absent.runs) == ("not run", 0)
    assert "sinks" in absent.reason


def following(kind: Kind, **changes: object) -> Claim:
    base = Claim(
        "S16", "", "SP", "follows", "all", kind, "gain_percent", "stela", 21.0, "%", of=("S06/own gain", "S07")
    )
    return replace(base, **changes)  # type: ignore[arg-type]  # any field may be varied


def followed(claim: Claim, first: list[float], second: list[float]) -> LedgerRow:
    other = replace(GAIN, id="S07", part="", variant="other")
    return judge_all([claim, GAIN, other], conditions(stela=first, other=second))[0]


def test_a_span_holds_every_number_it_follows_from() -> None:
    span = following(Kind.SPAN, stated_high=120.0)
    row = followed(span, [49, 50, 51], [99, 100, 101])
    assert (row.verdict, row.low, row.high) == ("reproduced", 50, 100)
    outside = followed(span, [9, 10, 11], [99, 100, 101])
    assert outside.verdict == "differs"
    assert "S06/own gain +10.0; inside: S07 +100.0" in outside.reason


def test_what_follows_waits_for_every_interval() -> None:
    row = followed(following(Kind.SPAN, stated_high=120.0), [49, 50, 51], [99, 100])
    assert (row.verdict, row.verdict_text) == ("not run", "undecided")
    assert row.reason.endswith("no interval for S07")
    assert followed(following(Kind.SPAN, stated_high=120.0), [], []).runs == 0


def test_as_low_as_is_the_lowest_number() -> None:
    lowest = following(Kind.LOWEST, stated=-87.5)
    assert followed(lowest, [-90, -88, -86], [1, 2, 3]).verdict == "reproduced"
    row = followed(lowest, [-50, -49, -48], [1, 2, 3])
    assert (row.verdict, row.measured) == ("differs", -49)
    assert row.reason.startswith("lowest is S06/own gain")


# --- A/A floors ------------------------------------------------------------------------------------------------------


def ratio(values: dict[tuple[str, str], list[Value]]) -> LedgerRow:
    claim = replace(GAIN, kind=Kind.RATIO, metric="throughput_after", baseline="even_rebalance", part="")
    named = {(experiment, variant, claim.metric, "e1"): runs for (experiment, variant), runs in values.items()}
    return judge(claim, Conditions(named))


def runs(series: str, policy: str, *values: float) -> list[Value]:
    return [Value(f"{series}/{policy}-r{i}", value, same=f"{series} {policy}") for i, value in enumerate(values, 1)]


def test_the_floor_is_the_largest_pairwise_difference_of_both_variants_within_a_series() -> None:
    row = ratio({
        (EXPERIMENT, "stela"): [*runs("s1", "stela", 180, 180), *runs("s2", "stela", 220, 231)],
        (EXPERIMENT, "even_rebalance"): runs("s1", "even", 100, 102, 101),
        (EXPERIMENT, "least_link_load"): runs("s1", "least", 100, 150),
        ("stela/star", "stela"): runs("s3", "stela", 100, 120),
    })  # fmt: skip
    assert (row.floor_percent, row.floor_pairs) == (pytest.approx(5.0), 5)
    assert row.testbed_floor_percent == pytest.approx(50.0)


def test_the_same_policy_under_two_names_is_one_group() -> None:
    row = ratio({
        (EXPERIMENT, "stela"): runs("s1", "stela", 100, 101, 102),
        (EXPERIMENT, "even_rebalance"): runs("s1", "stela", 108, 109, 110),
    })  # fmt: skip
    assert (row.floor_percent, row.floor_pairs) == (pytest.approx(10.0), 15)
    assert row.direction == "none"


def test_censored_runs_and_runs_at_zero_make_no_floor() -> None:
    row = ratio({
        (EXPERIMENT, "stela"): [Value("a", 100.0), Value("b", 180.0, censored=True), Value("c", 0.0)],
        (EXPERIMENT, "even_rebalance"): [Value("d", 100.0), Value("e", 170.0, censored=True), Value("f", 90.0, True)],
    })  # fmt: skip
    assert (row.floor_percent, row.floor_pairs) == (None, 0)


def test_a_stated_number_outside_an_open_interval_is_told_by_its_known_end() -> None:
    """The point is within the floor here, but a bound within the floor shows no equality."""
    slow = [Value(f"stela-r{i}", 240.0, censored=True) for i in range(3)]
    even = runs("s1", "even", 240, 280, 200)
    below = replace(GAIN, kind=Kind.RATIO, metric="m", baseline="even_rebalance", part="", stated=-88.0)
    named = {(EXPERIMENT, "stela", "m", "e1"): slow, (EXPERIMENT, "even_rebalance", "m", "e1"): even}
    row = judge(below, Conditions(named))
    assert (row.verdict, row.direction) == ("differs", None)
    assert row.reason.startswith("at least −14.3 %; how much more is not known")
