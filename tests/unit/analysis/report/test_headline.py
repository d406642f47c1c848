from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from analysis.claims.rows import Outcome, RunValue, SeriesConditions
from analysis.claims.statements import Claim, ClaimKind, load_claims
from analysis.report.headline import headline
from barograph.plan.experiment import load
from tests.support.sentences import require_known

EVEN, STELA = "even_rebalance", "stela"
S03 = Claim("S03", "", "", "", "stela/star", ClaimKind.RATIO, "throughput_after", STELA, 65.0, "%", None, EVEN)
RANDOM = [
    Claim("S12", name, "", "", "stela/star", ClaimKind.RATIO_ABOVE, "throughput_after", STELA, 0.0, "%", None, name)
    for name in ("random_1", "random_2")
]
OUT = {"e1": "scale_out"}
LEVELS = {EVEN: [98.0, 100.0, 102.0] * 2, STELA: [148.0, 151.0, 153.0] * 2}
Numbers = Mapping[str, Sequence[float]]


def conditions(levels: Numbers, gains: Numbers | None = None, event: str = "e1") -> SeriesConditions:
    return SeriesConditions({
        ("stela/star", variant, metric, event): [
            RunValue(f"{variant}-r{i}", value, block=("s", i)) for i, value in enumerate(numbers, 1)
        ]
        for metric, of_variants in {"throughput_after": levels, "gain_percent": gains or {}}.items()
        for variant, numbers in of_variants.items()
    })  # fmt: skip


def sentence(
    levels: Numbers, gains: Numbers | None = None, *, variants: Sequence[str] = (EVEN, STELA),
    events: Mapping[str, str] = OUT, event: str = "e1", claims: Sequence[Claim] = (), of_model: bool = False,
) -> str:  # fmt: skip
    return headline("stela/star", variants, events, conditions(levels, gains, event), claims, of_model=of_model)


def of_ended(levels: Numbers, failed: Mapping[str, int], blame: str = "system_under_test",
             variants: Sequence[str] = (EVEN, STELA), of_model: bool = False,
             gains: Numbers | None = None) -> str:  # fmt: skip
    """Of six runs of each variant, the last ones failed; with levels of the others."""
    left = {name: numbers[: 6 - failed.get(name, 0)] for name, numbers in levels.items()}
    outcomes = {
        ("stela/star", name): [
            Outcome(f"{name}-r{i}", *(("failed", blame, "gone") if i > 6 - many else ("complete",)))
            for i in range(1, 7)
        ]
        for name, many in failed.items()
    }  # fmt: skip
    measured = replace(conditions({name: of for name, of in left.items() if of}, gains), outcomes=outcomes)
    return headline("stela/star", variants, OUT, measured, of_model=of_model)


def of_metis(
    experiment: str, numbers: Mapping[str, Mapping[str, float]], variants: Sequence[str] = ()
) -> str:  # fmt: skip
    """`numbers`: by metric and variant, of one run each. `variants`: those of the experiment."""
    plan = load(experiment)
    values = {
        (experiment, variant, metric, "e1"): [RunValue(f"{variant}-r1", value, block=("s", 1))]
        for metric, of in numbers.items() for variant, value in of.items()
    }  # fmt: skip
    claims = [claim for claim in load_claims("metis") if claim.experiment == experiment]
    measured = SeriesConditions(values, experiments={experiment: [plan]})
    names = variants or [variant.name for variant in plan.variants]
    return headline(experiment, names, {"e1": "reschedule"}, measured, claims)


def with_failed_blocks(steady: bool, level: float | None = None, last: int = 6) -> str:
    """The default fails in block 1 and Stela in block 6: the interval is of the four blocks that have both."""
    even, stela = conditions(LEVELS).values.values()
    measured = SeriesConditions({
        ("stela/star", name, "throughput_after", "e1"): [
            replace(value, steady=steady, value=value.value if level is None else level) for value in of[-last:]
        ]
        for name, of in {EVEN: even[1:], STELA: stela[:-1]}.items()
    })  # fmt: skip
    return headline("stela/star", (EVEN, STELA), OUT, measured)


MANY = {"first": [100.0] * 6, **{f"other_{n}": [100.0 + n] * 6 for n in range(1, 6)}}
THREE = {STELA: [150.0], EVEN: [100.0], "least_link_load": [120.0]}
OTHERS = [EVEN, *(f"variant_{number}" for number in range(1, 6))]


def test_sentences_of_headlines() -> None:
    spouts = "published_emitted_per_s"
    acked = ("even_acked", "even_unacked", "metis_acked", "metis_unacked")
    require_known("headlines", {
        "one run of each": sentence({EVEN: [100.0], STELA: [143.0]}),
        "three runs of each": sentence({EVEN: [98.0, 100.0, 102.0], STELA: [140.0, 143.0, 145.0]}),
        "unequal numbers of runs": sentence({EVEN: [100.0], STELA: [150.0, 151.0]}),
        "nothing is shown": sentence({EVEN: [98.0, 100.0, 104.0], STELA: [99.0, 102.0, 103.0]}),
        "nothing is shown for a block": sentence({EVEN: [100.0, 109.0, 100.0], STELA: [103.0, 112.3, 103.1]}),
        "a baseline at zero": sentence({EVEN: [0.0], STELA: [150.0]}),
        "nothing measured": sentence({}),
        "no event": headline("stela/star", [EVEN], {}, SeriesConditions({})),
        "blocks with both": with_failed_blocks(True),
        "blocks with both, not steady": with_failed_blocks(False),
        "one block with both": with_failed_blocks(False, 100.0, last=2),
        "half of the runs failed": of_ended(LEVELS, {EVEN: 0, STELA: 3}),
        "both failed": of_ended(LEVELS, {EVEN: 2, STELA: 3}),
        "all but one failed": of_ended({EVEN: [100.0] * 6, STELA: [150.0] * 6}, {EVEN: 0, STELA: 5}),
        "half failed in the model": of_ended(LEVELS, {EVEN: 0, STELA: 3}, of_model=True),
        "failed, and nothing is shown": of_ended(
            {EVEN: [98.0, 100.0, 104.0] * 2, STELA: [99.0, 102.0, 103.0] * 2}, {EVEN: 0, STELA: 3}
        ),
        "a variant failed always": of_ended(LEVELS, {EVEN: 0, STELA: 6}),
        "every run failed": of_ended({}, {EVEN: 6, STELA: 6}),
        "alone, and failed": of_ended({STELA: [160.0] * 6}, {STELA: 5}, variants=[STELA], gains={STELA: [60.0]}),
        "the highest of many": sentence({name: of[:1] for name, of in MANY.items()}, variants=list(MANY)),
        "the highest of many that failed": of_ended(MANY, {"other_2": 3, "other_5": 1}, variants=list(MANY)),
        "a variant has no run": sentence({EVEN: [100.0]}, {EVEN: [-0.4]}),
        "a single variant": sentence({STELA: [158.0, 160.0, 161.0]}, {STELA: [58.0, 60.0, 61.0]}, variants=[STELA]),
        "a single variant, unchanged": sentence({STELA: [101.0]}, {STELA: [0.0]}, variants=[STELA]),
        "two baselines of claims": sentence({STELA: [200.0], "random_1": [100.0], "random_2": [160.0]},
            variants=[STELA, "random_1", "random_2"], events={"e1": "scale_in"}, claims=RANDOM),
        "the baseline of a claim": sentence(THREE, variants=list(THREE), claims=[S03]),
        "the first is the baseline": sentence(THREE, variants=list(THREE)),
        "no baseline": sentence(
            {name: [100.0] for name in OTHERS[1:]}, {name: [20.0] for name in OTHERS[1:]}, variants=OTHERS
        ),
        "the last of several events": sentence(
            {EVEN: [100.0], STELA: [90.0]}, events={"e1": "scale_out", "e2": "rate", "e3": "scale_in"}, event="e3"
        ),
        "a name with underscores": sentence(
            {EVEN: [100.0], "source_closeness": [110.0]}, variants=[EVEN, "source_closeness"]
        ),
        "of a model": sentence({EVEN: [100.0] * 3, STELA: [149.0, 150.0, 151.0]}, of_model=True),
        "of a model, one seed": sentence({EVEN: [100.0], STELA: [150.0]}, of_model=True),
        "of a model, as high": sentence({EVEN: [100.0] * 2, STELA: [99.0, 101.0]}, of_model=True),
        "metric of the claims": of_metis("metis/opengov", {
            "throughput_after": {"even": 14.5, "greedy": 14.6, "metis": 14.9, "metis_cut": 14.3},
            spouts: {"even": 1000.0, "greedy": 899.0, "metis": 1152.0, "metis_cut": 880.0},
        }),
        "no two variants": of_metis("metis/opengov", {"throughput_after": {"metis": 14.9}, spouts: {"metis": 9.0}}),
        "bytes of the claims": of_metis("metis/payload", {
            "published_network_mb_per_s": {"even": 2.0, "greedy": 2.0, "metis": 1.78},
            spouts: {"even": 100.0, "greedy": 90.0, "metis": 99.0},
        }),
        "bytes with acks": of_metis("metis/acking", {
            "network_mb_per_s_after": dict(zip(acked, (4.57, 1.0, 4.0, 0.1), strict=True)),
            "throughput_after": dict.fromkeys(acked, 500.0),
        }),
        "a fixed rate": of_metis("metis/reference", {spouts: {"even": 500.0, "greedy": 499.99, "metis": 500.02}}),
        "no fixed rate": of_metis("metis/parallel", {spouts: {"even": 500.0, "metis": 600.0}}),
        "no claim compares them": of_metis("metis/opengov", {
            "throughput_after": {"even": 14.5, "metis_cut": 14.3}, spouts: {"even": 1000.0, "metis_cut": 880.0},
        }, ["even", "metis_cut"]),
    })  # fmt: skip


def test_failures_that_are_not_the_systems_leave_the_sentence_as_it_is() -> None:
    assert "failed" not in of_ended(LEVELS, {EVEN: 0, STELA: 3}, "infrastructure")
    assert of_ended(LEVELS, {EVEN: 0, STELA: 0}) == sentence(LEVELS)


def test_the_highest_of_nine_equal_variants_is_shown_to_be_higher_in_few_series_only() -> None:
    """Its own interval alone would leave 0 out, above it, in one of thirteen."""
    random, names = Random(7), [EVEN, *(f"other_{i}" for i in range(9))]
    sentences = [
        sentence({name: [random.gauss(100, 2) for _ in range(6)] for name in names}, variants=names) for _ in range(200)
    ]
    assert sum(" above it" in text for text in sentences) <= 6
    real = {name: [random.gauss(130 if name == "other_3" else 100, 2) for _ in range(6)] for name in names}
    assert "other 3 had the highest throughput after the scale-out" in sentence(real, variants=names)
    assert " above it" in sentence(real, variants=names)
