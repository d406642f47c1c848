"""What an experiment cannot show, or only weakly, of claims that can come out in it, and where a source's own numbers
do not fit a claim."""

import re
from dataclasses import replace
from typing import Any

import pytest

from analysis.claims import limitations
from analysis.claims.statements import Claim, ClaimKind
from barograph.plan.experiment import Experiment, load
from tests.support.experiments import changed, variants_changed
from tests.unit.analysis.claims.test_limitations import CLAIMS, DIAMOND, PAGE_LOAD, SCALE_IN, STAR, reason, spec

# --- the source's own numbers ----------------------------------------------------------------------------------------

EDGE = (
    "by the source's own numbers S12/over group 2 is +66.7 %, on the edge of +66.7 to +500.0 %: runs exactly as stated"
    " would mostly leave it undecided"
)
OUTSIDE = (
    "by the source's own numbers S09/diamond SP is −92.0 %, outside −90.0 to −84.4 %: runs exactly as stated would rule"
    " it out"
)


def test_where_a_sources_own_numbers_do_not_fit_what_follows_from_them() -> None:
    """Of group 2, who preserves everything against -40 % has 1 / 0.6."""
    claims = list(CLAIMS.values())
    found = {claim.name: limitations.own_numbers_note(claim, claims) for claim in claims}
    assert {name: note for name, note in found.items() if note} == {
        "S12/2X to 5X": EDGE,
        "S12/2X to 5X, busy": EDGE.replace("group 2", "group 2, busy"),
        "S16/interruption": OUTSIDE,
    }


@pytest.mark.parametrize(
    ("name", "member", "stated"),
    [("S12/2X to 5X", "S12/group 2", -60.0), ("S16/interruption", "S09/diamond SP", -88.0)],
)
def test_the_note_follows_from_the_claims_numbers(name: str, member: str, stated: float) -> None:
    claims = [replace(claim, stated=stated) if claim.name == member else claim for claim in CLAIMS.values()]
    assert limitations.own_numbers_note(CLAIMS[name], claims) == ""
    without = [claim for claim in claims if claim.name != member]
    assert limitations.own_numbers_note(CLAIMS[name], without) == ""


def test_a_check_says_it_of_the_experiment_whose_number_it_is() -> None:
    claims = list(CLAIMS.values())
    said = {name: limitations.notes(claims, load(f"stela/{name}"))
            for name in ("page_load_scale_in", "diamond", "star")}  # fmt: skip
    assert said["page_load_scale_in"][-1] == f"S12/2X to 5X: {EDGE}"
    assert said["diamond"][-1] == f"S16/interruption: {OUTSIDE}"
    assert not any("own numbers" in note for note in said["star"])


# --- weaknesses and notes --------------------------------------------------------------------------------------------


def weaknesses_of(name: str, experiment: Experiment) -> str:
    return "; ".join(limitations.weaknesses(CLAIMS[name], experiment))


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        (1, "1 block: no interval; a verdict needs 6"),
        (2, "2 blocks: no interval; a verdict needs 6"),
        (3, "3 blocks: an indication at most; a verdict needs 6"),
        (5, "5 blocks: an indication at most; a verdict needs 6"),
        (6, ""),
    ],
)
def test_too_few_blocks(blocks: int, said: str) -> None:
    assert weaknesses_of("S13/group 1", replace(SCALE_IN, repetitions=blocks)) == said
    assert weaknesses_of("S02/star restarts", replace(STAR, repetitions=blocks)) == ""


def test_a_watch_that_our_own_test_ends() -> None:
    early = weaknesses_of("S09/star SP", STAR)
    assert "when our own test says steady, after 90 to 150 s" in early
    assert weaknesses_of("S16/interruption", STAR) == early
    assert weaknesses_of("S09/star SP", spec("star", 4, floor_s=600.0, horizon_s=600.0)) == ""
    events = [{"kind": "scale_out"}, {"kind": "crash", "at": 400.0, "machine": "m1"}]
    assert weaknesses_of("S09/star SP", changed(STAR, events=events)) == ""


def test_what_cannot_fail_either() -> None:
    assert weaknesses_of("S12/stela", SCALE_IN).startswith(
        "by the closed form it cannot fail: stela can gain 0.0 % here"
    )
    assert weaknesses_of("S06/least link load", PAGE_LOAD).startswith("by the closed form it cannot fail")
    assert "Stela's own rule gives +25.0 % here" in weaknesses_of("S08/own gain", spec("network_monitoring", 8))
    assert weaknesses_of("S09/star ST", spec("star", 4, floor_s=150.0)) == ""


def test_what_stelas_rule_gives_beside_what_is_claimed() -> None:
    assert weaknesses_of("S03", STAR) == (
        "by the closed form Stela's own rule gives +100.0 % here, and the claim needs +58.5 to +71.5 %"
    )
    assert "Stela's own rule gives +50.0 % here" in weaknesses_of("S04", spec("linear", 6))
    assert "rule" not in weaknesses_of("S09/linear SP", spec("linear", 6, floor_s=150.0))


def metis(name: str, **parameters: Any) -> Experiment:
    """An experiment that ships, with other parameters of its topology."""
    shipped = load(f"metis/{name}")
    (topology,) = shipped.every_topology()
    return replace(shipped, topology=replace(topology, parameters={**topology.parameters, **parameters}))


def test_what_paced_sources_emit_says_nothing_about_a_placement() -> None:
    fixed = (
        "the offered rate is fixed: metis over even is 0.0 % unless one of them is saturated, or has not made up for"
        " its restarts when the time is over"
    )
    more = CLAIMS["M04/reference"]
    about_equal = replace(more, kind=ClaimKind.RATIO, within=CLAIMS["M04/reference to 80"].within)
    assert limitations.weaknesses(about_equal, metis("reference")) == (f"{fixed}; otherwise it cannot fail",)
    assert limitations.reason_not_testable(about_equal, metis("reference")) is None  # saturated, it can be anything
    assert reason("M04/reference", metis("reference")) == f"{fixed}; the claim needs more than +2.0 %"
    assert limitations.possible_words(more, metis("reference")) == fixed
    notes = limitations.notes(list(CLAIMS.values()), metis("reference"))
    assert [note.partition(": ")[0] for note in notes if "not testable here: the offered rate" in note] == [
        "M04/reference", "M05/reference",
    ]  # fmt: skip
    assert "the claim needs" in (reason("M04/parallel", metis("parallel", unthrottled=False)) or "")


@pytest.mark.parametrize(
    ("name", "experiment"),
    [
        ("M04/parallel", metis("parallel")),  # not throttled
        ("M04/reference", metis("reference", on_restart="skip")),
        ("M04/reference", metis("reference", of_another_version=1)),
        ("M08/reference", metis("reference")),  # CPU
    ],
)
def test_what_else_sources_may_emit(name: str, experiment: Experiment) -> None:
    assert weaknesses_of(name, experiment) == limitations.possible_words(CLAIMS[name], experiment) == ""


def test_variants_that_are_offered_other_rates_differ_by_them() -> None:
    twice = variants_changed(metis("reference"), {"metis": {"topology": {"parameters": {"rate_per_s": 1000.0}}}})
    assert "metis over even is +100.0 % unless" in weaknesses_of("M04/reference", twice)


def test_notes_are_of_the_experiments_own_claims_and_alike_ones_share_a_line() -> None:
    claims: list[Claim] = list(CLAIMS.values())
    mine = replace(DIAMOND, claims=("S02", "S05", "S09"), repetitions=3)
    notes = limitations.notes(claims, mine)
    assert notes[0].startswith("S05: not testable here: stela over even_rebalance can be 0.0 to +100.0 % here")
    assert "S05/default, S09/diamond ST: 3 blocks: an indication at most; a verdict needs 6" in notes
    assert [note for note in notes if note.startswith("S09/diamond SP: not testable here: ratios of times")]
    assert limitations.notes(claims, replace(mine, claims=())) == ()
    assert limitations.notes(claims, replace(mine, name="mine/diamond")) == ()


def test_how_many_blocks_a_stated_time_needs() -> None:
    """Two times that scatter by a third each, within ± 25 %: some forty blocks, as simulated verdicts have it."""
    said = weaknesses_of("S09/linear SP", replace(spec("linear", 6, floor_s=150.0), repetitions=6))
    assert "noise alone scatters such times by 31 %: about " in said
    assert said.endswith("would show that they are as stated; 6 can show that they are not")
    (blocks,) = map(int, re.findall(r"about (\d+) blocks", said))
    assert 30 < blocks < 60
    assert weaknesses_of("S09/linear SP", replace(spec("linear", 6, floor_s=150.0), repetitions=blocks)) == ""
    assert "noise" not in weaknesses_of("S09/star SP", replace(spec("star", 4, floor_s=150.0), repetitions=6))
