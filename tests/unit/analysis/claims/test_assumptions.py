"""What runs say of what limitations take for granted: how long a baseline takes, and that machines had CPU enough."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from analysis.claims import limitations
from analysis.claims.assumptions import time_of_baseline
from analysis.claims.ledger import judge, judge_all
from analysis.claims.rows import Key, LedgerRow, RunValue, SeriesConditions
from analysis.claims.statements import Claim, load_claims
from analysis.report.ledger_table import ledger_row
from analysis.stats.survival import Times
from barograph.cli.claims import claim_lines
from barograph.plan.experiment import load
from tests.support.experiments import changed

CLAIMS = {claim.name: claim for claim in load_claims()}
Numbers = Sequence[float]


def values_of(name: str, numbers: Numbers, censored: int = 0) -> list[RunValue]:
    """One a block; the last `censored` are horizons."""
    watched = len(numbers) - censored
    return [RunValue(f"{name}-r{i}", number, i > watched, ("s", i)) for i, number in enumerate(numbers, 1)]


def key(claim: Claim, variant: str | None, metric: str | None = None) -> Key:
    return claim.experiment, str(variant), metric or claim.metric, "e1"


def conditions(values: dict[Key, Sequence[RunValue]], *names: str, **changes: Any) -> SeriesConditions:
    """With what the experiments are, as their series have recorded it."""
    experiments = {CLAIMS[name].experiment for name in names}
    return SeriesConditions(values, experiments={name: [changed(name, **changes)] for name in experiments})


# --- how long the baseline takes -------------------------------------------------------------------------------------

WATCH: dict[str, Any] = {"durations": {"after_floor_s": 720.0, "horizon_s": 720.0}}
QUICK = [130.0, 120.0, 140.0, 130.0, 120.0, 140.0]


def times(
    name: str, stela: Numbers, even: Numbers, censored: tuple[int, int] = (0, 0)
) -> dict[Key, Sequence[RunValue]]:
    claim = CLAIMS[name]
    return {
        key(claim, claim.variant): values_of("stela", stela, censored[0]),
        key(claim, claim.baseline): values_of("even", even, censored[1]),
    }


def judged(
    name: str, stela: Numbers, even: Numbers, censored: tuple[int, int] = (0, 0), watch: dict[str, Any] = WATCH
) -> LedgerRow:
    return judge(CLAIMS[name], conditions(times(name, stela, even, censored), name, **watch))


DIAMOND = "S09/diamond SP"  # -92 %, at most -90 %


def test_a_reduction_that_no_policy_can_show_over_a_quick_baseline_does_not_differ() -> None:
    row = judged(DIAMOND, [110.0, 150.0, 120.0, 140.0, 130.0, 120.0], QUICK)
    assert (row.verdict, row.p) == ("not testable here", None)
    assert row.reason.startswith(
        "even_rebalance took about 130 s (120 to 140 s), and without any event the median is 60 s: no reduction beyond"
        " −57.2 % and no increase beyond +500.0 % can be seen; the claim needs −93.6 to −90.0 %. Needed: even_rebalance"
        " taking more than 600 s in a watch as long, or another way to count; measured: no part of the interval"
    )
    assert row.measured == pytest.approx(-1.3, abs=2.0)


def test_a_watch_that_is_too_short_is_the_reason_that_is_known_before() -> None:
    short = {"durations": {"after_floor_s": 300.0, "horizon_s": 300.0}}
    assert judged(DIAMOND, QUICK, QUICK, watch=short).reason.startswith("ratios of times can be seen to be −80.0 to")


def test_a_baseline_that_scatters_is_no_excuse() -> None:
    """It may well take 600 s: Stela, which takes longer than any of its runs, differs."""
    row = judged(DIAMOND, [700.0, 710.0, 690.0, 700.0, 710.0, 690.0], [60.0, 90.0, 700.0, 650.0, 80.0, 500.0])
    assert row.verdict == "differs"


def test_over_a_slow_baseline_it_comes_out_or_differs() -> None:
    slow = [700.0, 690.0, 710.0, 700.0, 690.0, 710.0]
    assert judged(DIAMOND, [60.0] * 6, slow).verdict == "reproduced"
    assert judged(DIAMOND, [130.0] * 6, slow).verdict == "differs"


def test_only_blocks_that_are_compared_count() -> None:
    known = times(DIAMOND, [110.0] * 6, [700.0, *QUICK])
    claim = CLAIMS[DIAMOND]
    alone = [replace(value, block=("s", i)) for i, value in enumerate(known[key(claim, claim.baseline)])]
    row = judge(claim, conditions({**known, key(claim, claim.baseline): alone}, DIAMOND, **WATCH))
    assert row.reason.startswith("even_rebalance took about 130 s")


def test_of_baselines_that_never_converged_the_log_rank_test_says_what_is_known() -> None:
    """One of eight leaves a bound, one of six only that of the watch."""
    eight = judged(DIAMOND, [110.0] * 8, [*[130.0] * 7, 720.0], censored=(0, 1))
    assert eight.verdict == "not testable here"
    assert eight.reason.startswith("even_rebalance took about 130 s (130 s)")
    six = [*[130.0] * 5, 720.0]
    assert judged(DIAMOND, [60.0] * 6, six, censored=(0, 1)).verdict == "undecided"
    assert judged(DIAMOND, [110.0] * 6, six, censored=(0, 1)).verdict == "differs"
    assert judged(DIAMOND, [60.0] * 6, [720.0] * 6, censored=(0, 6)).verdict == "undecided"


def test_what_was_quicker_than_noise_is_what_can_be() -> None:
    """The number that was measured never lies beyond what the reason says can be seen."""
    row = judged(DIAMOND, [40.0, 50.0, 40.0, 50.0, 40.0, 50.0], QUICK)
    assert (row.verdict, row.measured) == ("not testable here", pytest.approx(-65.5, abs=0.1))
    assert "the median is 60 s, here 45 s: no reduction beyond −68.1 %" in row.reason
    found = time_of_baseline(Times((40.0,) * 6, (False,) * 6), Times((130.0,) * 6, (False,) * 6), 60.0, 10.0)
    assert found is not None and (found.about_s, found.least_s) == (pytest.approx(130.0), pytest.approx(40.0))


def test_an_increase_over_a_baseline_that_fills_the_watch_cannot_be_seen() -> None:
    row = judged("S09/star SP", [300.0] * 6, [690.0, 700.0, 680.0] * 2)
    assert row.verdict == "not testable here"
    assert (
        "no increase beyond +9.8 % can be seen; the claim needs more than +25.0 %. Needed: a watch of more"
        in row.reason
    )
    assert judged("S09/star SP", [300.0] * 6, [400.0, 410.0, 390.0] * 2).verdict == "differs"


def test_logs_of_others_say_how_long_a_baseline_took_too() -> None:
    claim = CLAIMS[DIAMOND]
    row = judge(claim, SeriesConditions(times(DIAMOND, [110.0] * 6, QUICK)))
    assert row.verdict == "not testable here" and "−57.2 % can be seen; the claim needs" in row.reason
    never = judge(claim, SeriesConditions(times(DIAMOND, [60.0] * 6, [720.0] * 6, censored=(0, 6))))
    assert never.verdict == "undecided", "no end bounds it"


def test_a_lowest_number_fails_where_no_baseline_is_slow_enough() -> None:
    lowest = CLAIMS["S16/interruption"]
    members = [CLAIMS[name] for name in lowest.of]

    def row(slow: Numbers) -> LedgerRow:
        values: dict[Key, Sequence[RunValue]] = {}
        for member in members:
            values |= times(member.name, [110.0, 115.0, 105.0] * 2, slow if member.name == DIAMOND else QUICK)
        found = judge_all([*members, lowest], conditions(values, *lowest.of, **WATCH))
        return {each.claim.name: each for each in found}[lowest.name]

    quick = row(QUICK)
    assert quick.verdict == "not testable here"
    assert "cannot lie there (nor can" in quick.reason and "taking more than 384 s in a watch as long" in quick.reason
    assert row([500.0, 490.0, 510.0] * 2).verdict == "differs"


def test_a_check_says_how_slow_a_baseline_has_to_be() -> None:
    said = limitations.weaknesses(CLAIMS[DIAMOND], changed("stela/diamond", **WATCH))
    slow = "not testable where even_rebalance takes less than 600 s: without any event the median is 60 s"
    assert slow in said
    equal, longer = CLAIMS["S09/linear SP"], CLAIMS["S09/star SP"]
    for claim in (equal, longer, replace(CLAIMS[DIAMOND], metric="convergence_script_s")):
        assert not any("takes less than" in each for each in limitations.weaknesses(claim, load(claim.experiment)))


def test_a_baseline_that_nothing_bounds_may_take_any_time() -> None:
    never, quick = Times((720.0,) * 3, (True,) * 3), Times((60.0,) * 3, (False,) * 3)
    found = time_of_baseline(quick, never, 60.0, 10.0)
    assert found is not None and (found.about_s, found.high_s) == (None, inf)
    assert time_of_baseline(quick, Times((0.0, 60.0, 60.0), (False,) * 3), 60.0, 10.0) is None


# --- CPU enough ------------------------------------------------------------------------------------------------------


def with_cpu(
    name: str, numbers: dict[str, Numbers], used: dict[str, Numbers], over: float | None = 1.0, *more: str
) -> SeriesConditions:
    """`numbers` by variant; `used`: by phase, in percent, of the runs of each variant; `over`: of the busiest machine
    over the mean."""
    claim = CLAIMS[name]
    values: dict[Key, Sequence[RunValue]] = {}
    for variant, of in numbers.items():
        values[key(claim, variant)] = values_of(variant, of)
        for phase, percent in used.items():
            values[key(claim, variant, f"cpu_percent_{phase}")] = values_of(variant, percent)
            if over is not None:
                values[key(claim, variant, f"cpu_imbalance_{phase}")] = values_of(variant, [over] * len(percent))
    return conditions(values, name, *more)


S05 = {"stela": [300.0, 301.0, 299.0], "even_rebalance": [150.0, 151.0, 149.0]}  # twice: not +108 % and more


def test_where_machines_were_short_of_cpu_the_closed_form_rules_nothing_out() -> None:
    row = judge(CLAIMS["S05"], with_cpu("S05", S05, {"after": [91.0, 97.0, 99.0]}))
    assert (row.verdict, row.p) == ("undecided", None)
    note = (
        "not judged: short of CPU: the busiest machine used 91 to 99 % of its limit after the event (cpu_percent x"
        " cpu_imbalance) in 6 of 6 runs, and above 80 % the closed form does not hold: the numbers are not the"
        " policies' alone; with CPU enough it cannot come out: stela over even_rebalance can be 0.0 to +100.0 % here"
    )
    assert row.reason.startswith(note)
    assert row.notes[-1].startswith(note) and row.reason.startswith(f"{row.notes[-1]}; measured: ")
    shown = " ".join(" ".join(claim_lines([ledger_row(row)], 100)).split())
    assert " ".join(note.split()) in shown, "the terminal says it too"


@pytest.mark.parametrize(
    ("used", "over"),
    [
        ({}, 1.0),
        ({"after": [70.0, 75.0, 80.0]}, 1.0),
        ({"before": [99.0, 99.0, 99.0]}, 1.0),  # a ratio of levels after does not depend on what was before
        ({"after": [70.0, 75.0, 79.0]}, None),
    ],
)
def test_with_cpu_enough_and_without_a_record_of_it_the_closed_form_holds(
    used: dict[str, Numbers], over: float | None
) -> None:
    row = judge(CLAIMS["S05"], with_cpu("S05", S05, used, over))
    assert row.verdict == "not testable here" and row.reason.startswith("stela over even_rebalance can be 0.0")
    assert "short of CPU" not in row.reason


def test_it_is_the_busiest_machine_that_counts_and_the_runs_are_named() -> None:
    row = judge(CLAIMS["S05"], with_cpu("S05", S05, {"after": [70.0, 60.0, 65.0]}, 1.2))
    said = "the busiest machine used 84 % of its limit after the event (cpu_percent x cpu_imbalance) in 2 of 6 runs"
    assert f"{said} (even_rebalance-r1, stela-r1), and" in row.reason
    mean_alone = judge(CLAIMS["S05"], with_cpu("S05", S05, {"after": [70.0, 90.0, 65.0]}, None))
    assert "90 % of its limit" in mean_alone.reason


def test_a_gain_depends_on_what_was_before_too() -> None:
    name = "S06/default"
    numbers = {"even_rebalance": [4.0, 5.0, 3.0]}
    row = judge(CLAIMS[name], with_cpu(name, numbers, {"before": [99.0, 70.0, 70.0], "after": [60.0, 60.0, 60.0]}))
    assert row.verdict == "undecided"
    assert "99 % of its limit before or after the event" in row.reason


def test_what_came_out_of_machines_that_were_short_of_cpu_did_not_come_out() -> None:
    """A level before that was held down, say, makes any gain."""
    name, numbers = "S06/own gain", {"stela": [80.0, 81.0, 79.0]}
    assert judge(CLAIMS[name], with_cpu(name, numbers, {})).verdict == "reproduced"
    row = judge(CLAIMS[name], with_cpu(name, numbers, {"before": [95.0] * 3}))
    assert row.verdict == "undecided" and row.reason.startswith("not judged: short of CPU")


@pytest.mark.parametrize(
    ("used", "verdict", "note"),
    [
        ([70.0, 72.0, 75.0], "not testable here", None),
        ([70.0, 72.0, 76.0], "not testable here", "with a CPU limit of 75 % it would be undecided (not judged)"),
        ([70.0, 72.0, 80.0], "not testable here", "with a CPU limit of 75 % it would be undecided (not judged)"),
        ([70.0, 72.0, 81.0], "undecided", "with a CPU limit of 90 % it would be not testable here"),
        ([70.0, 85.0, 90.0], "undecided", "with a CPU limit of 90 % it would be not testable here"),
        ([70.0, 72.0, 91.0], "undecided", None),
    ],
)
def test_a_verdict_that_hangs_on_the_limit_of_cpu_says_so(used: Numbers, verdict: str, note: str | None) -> None:
    """It was chosen after values had been seen."""
    row = judge(CLAIMS["S05"], with_cpu("S05", S05, {"after": used}))
    said = [each for each in row.notes if "CPU limit" in each]
    assert (row.verdict, said) == (verdict, [note] if note else [])
    assert note is None or (row.reason.endswith(note) and note in " ".join(claim_lines([ledger_row(row)], 1000)))


def test_what_came_out_hangs_on_the_limit_of_cpu_too() -> None:
    name, numbers = "S06/own gain", {"stela": [80.0, 81.0, 79.0]}
    row = judge(CLAIMS[name], with_cpu(name, numbers, {"before": [78.0] * 3}))
    assert row.verdict == "reproduced" and "with a CPU limit of 75 % it would be undecided (not judged)" in row.notes
    row = judge(CLAIMS[name], with_cpu(name, numbers, {"before": [88.0] * 3}))
    assert row.verdict == "undecided" and "with a CPU limit of 90 % it would be reproduced" in row.notes


def test_what_can_come_out_is_judged_and_says_it() -> None:
    numbers = {"stela": [150.0, 151.0, 149.0], "even_rebalance": [100.0, 101.0, 99.0]}
    row = judge(CLAIMS["S03"], with_cpu("S03", numbers, {"after": [95.0] * 3}))
    assert row.verdict == judge(CLAIMS["S03"], with_cpu("S03", numbers, {})).verdict == "differs"
    (note,) = row.notes
    assert note.startswith("short of CPU: the busiest machine used 95 % of its limit") and row.reason.endswith(note)


def test_components_that_burn_cpu_are_meant_to_be_short_of_it() -> None:
    name, numbers = "S06/own gain, busy", {"stela": [20.0, 21.0, 19.0]}
    row = judge(CLAIMS[name], with_cpu(name, numbers, {"after": [99.0] * 3, "before": [99.0] * 3}))
    assert (row.verdict, row.notes) == ("differs", ())


def test_a_span_is_not_judged_by_numbers_of_machines_that_were_short_of_cpu() -> None:
    span = CLAIMS["S12/2X to 5X"]
    members = [CLAIMS[name] for name in span.of]
    numbers = {"stela": [100.0, 101.0, 99.0], "random_1": [100.0, 99.0, 98.0], "random_2": [99.0, 101.0, 100.0]}

    def row(used: dict[str, Numbers]) -> LedgerRow:
        found = judge_all([*members, span], with_cpu(members[0].name, numbers, used))
        return {each.claim.name: each for each in found}[span.name]

    assert row({}).verdict == "not testable here"
    short = row({"after": [97.0] * 3})
    assert (short.verdict, short.p) == ("undecided", None)
    assert short.reason.startswith(
        "not judged: short of CPU: S12/over group 1, S12/over group 2 (their rows say how much); with CPU enough it"
        " cannot come out: S12/over group 1 cannot lie there (nor can S12/over group 2): stela over random_1 can be"
    )
    assert "CPU limit" not in short.reason
    for used, verdict, limit, other in (
        (85.0, "undecided", 90, "not testable here"),
        (78.0, "not testable here", 75, "undecided (not judged)"),
    ):
        found = row({"after": [used] * 3})
        assert found.verdict == verdict and f"with a CPU limit of {limit} % it would be {other}" in found.notes
