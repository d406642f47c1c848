from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from analysis.claims.ledger_rows import Conditions, Outcome, Value
from analysis.claims.statements import Claim, Kind, load_claims
from analysis.report.headline import PACED, headline
from barograph.plan.experiment import load

EVEN, STELA = "even_rebalance", "stela"
S03 = Claim("S03", "", "", "", "stela/star", Kind.RATIO, "throughput_after", STELA, 65.0, "%", None, EVEN)
OUT = {"e1": "scale_out"}


def conditions(
    levels: Mapping[str, Sequence[float]], gains: Mapping[str, Sequence[float]] | None = None, event: str = "e1"
) -> Conditions:
    metrics = {"throughput_after": levels, "gain_percent": gains or {}}
    return Conditions({
        ("stela/star", variant, metric, event): [
            Value(f"{variant}-r{i}", value, block=("s", i)) for i, value in enumerate(numbers, 1)
        ]
        for metric, of_variants in metrics.items() for variant, numbers in of_variants.items()
    })  # fmt: skip


def sentence(
    levels: Mapping[str, Sequence[float]],
    gains: Mapping[str, Sequence[float]] | None = None,
    *,
    variants: Sequence[str] = (EVEN, STELA),
    events: Mapping[str, str] | None = None,
    event: str = "e1",
    claims: Sequence[Claim] = (),
) -> str:
    """With plain spaces before units."""
    measured = conditions(levels, gains, event)
    return headline("stela/star", variants, events or OUT, measured, claims).replace("\u00a0", " ")


def test_one_run_of_each_has_no_interval() -> None:
    assert sentence({EVEN: [100.0], STELA: [143.0]}) == (
        "Stela's throughput after the scale-out was 43 % above Storm's default (even + rebalance): one run of each, "
        "no interval yet."
    )


def test_three_runs_have_the_interval() -> None:
    assert sentence({EVEN: [98.0, 100.0, 102.0], STELA: [140.0, 143.0, 145.0]}) == (
        "Stela's throughput after the scale-out was 43 % above Storm's default (even + rebalance): 3 runs of each, "
        "95 % interval +38 to +48 %."
    )


def test_runs_that_were_not_steady_are_counted_in_the_sentence() -> None:
    measured = conditions({EVEN: [98.0, 100.0, 102.0], STELA: [140.0, 143.0, 145.0]})
    values = dict(measured.values)
    own = ("stela/star", STELA, "throughput_after", "e1")
    values[own] = [replace(value, steady=False) for value in values[own]]
    said = headline("stela/star", (EVEN, STELA), OUT, Conditions(values))
    assert "3 runs of each (3 of 6 not steady), 95" in said


def test_where_runs_failed_it_says_how_many_blocks_are_compared() -> None:
    """The default fails in block 1 and Stela in block 6: the interval is of the four blocks that have both."""
    levels = {EVEN: [98.0, 100.0, 102.0] * 2, STELA: [140.0, 143.0, 145.0] * 2}
    even, stela = conditions(levels).values.values()
    values = {("stela/star", EVEN, "throughput_after", "e1"): even[1:],
              ("stela/star", STELA, "throughput_after", "e1"): stela[:-1]}  # fmt: skip
    said = headline("stela/star", (EVEN, STELA), OUT, Conditions(values))
    assert "above Storm's default (even + rebalance): 4 blocks with both (5 runs of each), 95" in said
    values = {key: [replace(value, steady=False) for value in of] for key, of in values.items()}
    said = headline("stela/star", (EVEN, STELA), OUT, Conditions(values))
    assert "4 blocks with both (5 runs of each, 8 of 8 not steady), 95" in said
    values = {key: [replace(value, value=100.0) for value in of[-2:]] for key, of in values.items()}
    said = headline("stela/star", (EVEN, STELA), OUT, Conditions(values))
    assert said.startswith("One block with both (2 runs of each, 2 of 2 not steady) does not show whether")


def ended(failed: Mapping[str, int], blame: str = "system_under_test") -> Mapping[tuple[str, str], list[Outcome]]:
    """How six runs of each variant ended; the last ones failed."""
    return {
        ("stela/star", name): [
            Outcome(f"{name}-r{i}", *(("failed", blame, "gone") if i > 6 - many else ("complete",)))
            for i in range(1, 7)
        ]
        for name, many in failed.items()
    }  # fmt: skip


LEVELS = {EVEN: [98.0, 100.0, 102.0] * 2, STELA: [148.0, 151.0, 153.0] * 2}
FAILED = "3 of 6 runs of Stela failed: system under test 3."


def of_ended(levels: Mapping[str, Sequence[float]], failed: Mapping[str, int], blame: str = "system_under_test",
             variants: Sequence[str] = (EVEN, STELA), of_model: bool = False) -> str:  # fmt: skip
    """With levels of the runs that did not fail."""
    left = {name: numbers[: 6 - failed.get(name, 0)] for name, numbers in levels.items()}
    measured = replace(conditions({name: of for name, of in left.items() if of}), outcomes=ended(failed, blame))
    return headline("stela/star", variants, OUT, measured, of_model=of_model).replace("\u00a0", " ")


def test_a_variant_that_fails_half_of_its_runs_is_above_in_complete_runs_and_the_sentence_says_so() -> None:
    start = "In complete runs Stela's throughput after the scale-out was 51 % above Storm's default (even + rebalance)"
    said = of_ended(LEVELS, {EVEN: 0, STELA: 3})
    assert said.startswith(f"{start}: 3 blocks with both (3 runs of Stela and 6 of even + rebalance), 95 % interval +")
    assert said.endswith(f" %; {FAILED}") and said.count("failed") == 1
    both = of_ended(LEVELS, {EVEN: 2, STELA: 3})
    assert both.endswith(f"; {FAILED[:-1]}, 2 of 6 runs of even + rebalance failed: system under test 2.")
    few = of_ended({EVEN: [100.0] * 6, STELA: [150.0] * 6}, {EVEN: 0, STELA: 5})
    assert few.startswith(start.replace("51", "50")) and few.endswith("no interval yet; 5 of 6" + FAILED[6:-2] + "5.")
    model = of_ended(LEVELS, {EVEN: 0, STELA: 3}, of_model=True)
    assert model.startswith(start.replace("was", "is")) and model.endswith(f" over 3 seeds; {FAILED}")


def test_failures_that_are_not_the_systems_leave_the_sentence_as_it_is() -> None:
    with_fewer = of_ended(LEVELS, {EVEN: 0, STELA: 3}, "infrastructure")
    assert with_fewer.startswith("Stela's throughput") and "failed" not in with_fewer
    assert of_ended(LEVELS, {EVEN: 0, STELA: 0}) == sentence(LEVELS)


def test_failures_are_said_where_nothing_is_shown_and_where_a_variant_has_no_number() -> None:
    levels = {EVEN: [98.0, 100.0, 104.0] * 2, STELA: [99.0, 102.0, 103.0] * 2}
    said = of_ended(levels, {EVEN: 0, STELA: 3})
    assert " not show whether in complete runs Stela's throughput after the scale-out differs" in said
    assert said.endswith(f" %; {FAILED}")
    gone = of_ended(LEVELS, {EVEN: 0, STELA: 6})
    assert gone.endswith("Stela has no complete run: 6 of 6 runs of Stela failed: system under test 6.")
    assert of_ended({}, {EVEN: 6, STELA: 6}).endswith("6 of 6 runs of Stela failed: system under test 6.")
    alone = {("stela/star", STELA, "gain_percent", "e1"): [Value("r1", 60.0, block=("s", 1))],
             ("stela/star", STELA, "throughput_after", "e1"): [Value("r1", 160.0, block=("s", 1))]}  # fmt: skip
    said = headline("stela/star", [STELA], OUT, Conditions(alone, ended({STELA: 5})))
    assert said.startswith("In complete runs Stela's throughput") and said.endswith("5 of 6" + FAILED[6:-2] + "5.")


def test_the_highest_of_many_variants_is_so_among_complete_runs() -> None:
    levels = {"first": [100.0] * 6, **{f"other_{n}": [100.0 + n] * 6 for n in range(1, 6)}}
    said = of_ended(levels, {"other_2": 3, "other_5": 1}, variants=list(levels))
    assert said.startswith(
        "Of 5 variants compared with first, other 5 had the highest throughput after the scale-out in complete runs, "
        "5.0 % above it: 5 blocks with both ("
    )
    assert said.endswith("; 3 of 6 runs of other 2 failed: system under test 3, 1 of 6 runs of other 5 failed: system "
                         "under test 1.")  # fmt: skip


@pytest.mark.parametrize(
    ("even", "stela", "why"),
    [
        ([98.0, 100.0, 104.0], [99.0, 102.0, 103.0], "95 % interval −"),
        ([100.0, 109.0, 100.0], [103.0, 112.3, 103.1], "95 % interval −"),
    ],
)
def test_an_interval_that_holds_no_change_shows_no_equality(even: list[float], stela: list[float], why: str) -> None:
    said = sentence({EVEN: even, STELA: stela})
    assert said.startswith(
        f"{len(even)} runs of each do not show whether Stela's throughput after the scale-out differs from that of "
        "Storm's default (even + rebalance): measured +"
    )
    assert why in said
    assert "above" not in said


def test_without_complete_runs_of_a_variant_the_other_is_compared_with_itself() -> None:
    assert sentence({EVEN: [100.0]}, {EVEN: [-0.4]}) == (
        "Even + rebalance's throughput after the scale-out was 0.4 % below its own before: one run, no interval yet. "
        "Stela has no complete run."
    )


def test_a_single_variant_is_compared_with_itself() -> None:
    said = sentence({STELA: [158.0, 160.0, 161.0]}, {STELA: [58.0, 60.0, 61.0]}, variants=[STELA])
    assert said == (
        "Stela's throughput after the scale-out was 60 % above its own before: 3 runs, 95 % interval +56 to +63 %."
    )
    same = sentence({STELA: [101.0]}, {STELA: [0.0]}, variants=[STELA])
    assert same.startswith("One run does not show whether Stela's throughput after the scale-out differs from its own")


def test_a_scale_in_with_two_baselines_of_claims() -> None:
    claims = [
        Claim(
            "S12", str(number), "", "", "stela/star", Kind.RATIO_ABOVE, "throughput_after", STELA, 0.0, "%", None, other
        )
        for number, other in enumerate(["random_1", "random_2"])
    ]
    said = sentence(
        {STELA: [200.0], "random_1": [100.0], "random_2": [160.0]},
        variants=[STELA, "random_1", "random_2"], events={"e1": "scale_in"}, claims=claims,
    )  # fmt: skip
    assert said == (
        "Stela's throughput after the scale-in was 100 % above random 1: one run of each, no interval yet. "
        "Stela's throughput after the scale-in was 25 % above random 2: one run of each, no interval yet."
    )


def test_the_claims_say_which_variant_is_the_baseline() -> None:
    levels = {STELA: [150.0], EVEN: [100.0], "least_link_load": [120.0]}
    variants = [STELA, "least_link_load", EVEN]
    assert "Stela's throughput after the scale-out was 50 % above Storm's" in sentence(
        levels, variants=variants, claims=[S03]
    )
    first = sentence(levels, variants=variants)
    assert "Least link load's throughput after the scale-out was 20 % below Stela" in first
    assert "Even + rebalance's throughput after the scale-out was 33 % below Stela" in first


def test_of_simulated_runs_it_has_the_range_over_seeds_and_no_interval() -> None:
    def said(stela: Sequence[float], even: Sequence[float]) -> str:
        measured = conditions({EVEN: even, STELA: stela})
        return headline("stela/star", (EVEN, STELA), OUT, measured, of_model=True).replace("\u00a0", " ")

    start = "Stela's throughput after the scale-out is "
    assert said([149.0, 150.0, 151.0], [100.0] * 3) == (
        f"{start}50 % above Storm's default (even + rebalance): +49 to +51 % over 3 seeds."
    )
    assert said([150.0], [100.0]) == f"{start}50 % above Storm's default (even + rebalance): 1 seed."
    assert said([99.0, 101.0], [100.0] * 2).startswith(f"{start}as high as Storm's default (even + rebalance): −1.0 to")


def test_of_several_events_it_is_the_last_one() -> None:
    events = {"e1": "scale_out", "e2": "rate", "e3": "scale_in"}
    said = sentence({EVEN: [100.0], STELA: [90.0]}, events=events, event="e3")
    assert said.startswith("Stela's throughput after event 3 of 3 (scale-in) was 10 % below Storm's default")


def test_of_many_variants_the_one_with_the_highest_throughput() -> None:
    levels = {"first": [100.0], **{f"other_{n}": [100.0 + n] for n in range(1, 6)}}
    assert sentence(levels, variants=list(levels)) == (
        "Of 5 variants compared with first, other 5 had the highest throughput after the scale-out, 5.0 % above it: "
        "one run of each, no interval yet."
    )


def test_without_a_baseline_it_says_how_many_variants_it_leaves_out() -> None:
    names = [EVEN, *(f"variant_{number}" for number in range(1, 6))]
    said = sentence({name: [100.0] for name in names[1:]}, {name: [20.0] for name in names[1:]}, variants=names)
    assert said.count("above its own before") == 3
    assert said.endswith(
        "2 more variants are compared with themselves in the report. Even + rebalance has no complete run."
    )


def test_a_name_has_spaces_for_underscores() -> None:
    said = sentence({EVEN: [100.0], "source_closeness": [110.0]}, variants=[EVEN, "source_closeness"])
    assert said.startswith("Source closeness' throughput after the scale-out was 10 % above")


def test_unequal_numbers_of_runs() -> None:
    assert "2 runs of Stela and 1 of even + rebalance" in sentence({EVEN: [100.0], STELA: [150.0, 151.0]})


def test_nothing_measured_is_no_number() -> None:
    assert sentence({}) == "No complete run measured a throughput after the scale-out."
    assert headline("stela/star", [EVEN], {}, Conditions({})) == (
        "No run reached an event, so there is nothing to compare."
    )


def test_a_baseline_at_zero_has_no_ratio() -> None:
    said = sentence({EVEN: [0.0], STELA: [150.0]})
    assert said.endswith("cannot be compared with Storm's default (even + rebalance): a run is at 0: no ratio.")


def of_metis(experiment: str, numbers: Mapping[str, Mapping[str, float]]) -> str:
    """`numbers`: by metric and variant, of one run each."""
    plan = load(experiment).as_data()
    values = {
        (experiment, variant, metric, "e1"): [Value(f"{variant}-r1", value, block=("s", 1))]
        for metric, of in numbers.items() for variant, value in of.items()
    }  # fmt: skip
    claims = [claim for claim in load_claims("metis") if claim.experiment == experiment]
    names = [variant["name"] for variant in plan["variants"]]
    measured = Conditions(values, specs={experiment: [plan]})
    return headline(experiment, names, {"e1": "reschedule"}, measured, claims).replace("\u00a0", " ")


def test_what_is_compared_is_what_the_claims_of_the_experiment_are_about() -> None:
    """What leaves OpenGov's join hardly depends on what comes in."""
    said = of_metis("metis/opengov", {
        "throughput_after": {"even": 14.5, "greedy": 14.6, "metis": 14.9, "metis_cut": 14.3},
        "published_emitted_per_s": {"even": 1000.0, "greedy": 899.0, "metis": 1152.0, "metis_cut": 880.0},
    })  # fmt: skip
    spouts = "throughput at the spouts in the 180 s after the reschedule was"
    assert said == (
        f"METIS's {spouts} 15 % above even: one run of each, no interval yet. "
        f"METIS's {spouts} 28 % above greedy: one run of each, no interval yet. "
        f"Greedy's {spouts} 10 % below even: one run of each, no interval yet."
    )
    alone = of_metis("metis/opengov", {"throughput_after": {"metis": 14.9}, "published_emitted_per_s": {"metis": 9.0}})
    assert alone.startswith("There are no two variants to compare the throughput at the spouts in the 180 s after the")
    assert alone.endswith(" of. Even has no complete run. Greedy has no complete run.")


def test_bytes_are_compared_where_claims_are_about_them() -> None:
    said = of_metis("metis/payload", {
        "published_network_mb_per_s": {"even": 2.0, "greedy": 2.0, "metis": 1.78},
        "published_emitted_per_s": {"even": 100.0, "greedy": 90.0, "metis": 99.0},
    })  # fmt: skip
    assert said.startswith("METIS's byte rate between machines in the 180 s after the reschedule was 11 % below even: ")
    assert said.count("throughput at the spouts") == 2 and "compared with themselves" not in said
    acking = of_metis("metis/acking", {
        "network_mb_per_s_after": {"even_acked": 4.57, "even_unacked": 1.0, "metis_acked": 4.0, "metis_unacked": 0.1},
        "throughput_after": dict.fromkeys(("even_acked", "even_unacked", "metis_acked", "metis_unacked"), 500.0),
    })  # fmt: skip
    assert acking == (
        "Even acked's byte rate between machines after the reschedule was 357 % above even unacked: one run of each, no"
        " interval yet."
    )


def test_what_all_carry_is_as_high_and_a_fixed_rate_is_said_once() -> None:
    said = of_metis("metis/reference", {"published_emitted_per_s": {"even": 500.0, "greedy": 499.99, "metis": 500.02}})
    assert said.count("after the reschedule was as high as") == 3 and "0.0" not in said
    assert said.endswith(" no interval yet. " + PACED) and said.count(PACED) == 1
    unthrottled = of_metis("metis/parallel", {"published_emitted_per_s": {"even": 500.0, "metis": 600.0}})
    assert PACED not in unthrottled


def test_variants_that_no_claim_compares_are_compared_in_what_claims_are_about() -> None:
    plan, claims = load("metis/opengov").as_data(), load_claims("metis")
    rates = {"throughput_after": (14.5, 14.3), "published_emitted_per_s": (1000.0, 880.0)}
    measured = Conditions({
        ("metis/opengov", variant, metric, "e1"): [Value(f"{variant}-r1", value, block=("s", 1))]
        for metric, of in rates.items() for variant, value in zip(("even", "metis_cut"), of, strict=True)
    }, specs={"metis/opengov": [plan]})  # fmt: skip
    said = headline("metis/opengov", ("even", "metis_cut"), {"e1": "reschedule"}, measured, claims)
    assert said.replace("\u00a0", " ").startswith(
        "METIS, edge cut's throughput at the spouts in the 180 s after the reschedule was 12 % below even: "
    )
