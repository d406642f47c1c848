"""Which claims cannot come out in an experiment, why, and what would be needed."""

from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import pytest

from analysis.claims import assumptions, limitations
from analysis.claims.assumptions import KEEP_EXECUTORS
from analysis.claims.statements import load_claims
from barograph.plan.experiment import Experiment
from scheduler_plugins.policies import POLICIES
from tests.support.experiments import changed, variants_changed

CLAIMS = {claim.name: claim for claim in load_claims()}
POLICY_OF = {
    "stela": ("stela", {}),
    "even_rebalance": ("even", {"rebalance": True}),
    "least_link_load": ("least_link_load", {}),
    "random_1": ("round_robin", {"machines": "random", "seed": 1}),
    "random_2": ("round_robin", {"machines": "random", "seed": 2}),
}


def spec(name: str, before: int, *, horizon_s: float = 150.0, floor_s: float = 90.0, **keys: Any) -> Experiment:
    """The shipped experiment with these sizes and times, with default parameters of its topology."""
    variants = [{"name": name, "policy": policy, "parameters": parameters}
                for name, (policy, parameters) in POLICY_OF.items()]  # fmt: skip
    changes: dict[str, Any] = {
        "topology": {"name": name},
        "machines": {"before": before},
        "variants": variants,
        "events": [{"kind": "scale_out"}],
        "durations": {"after_floor_s": min(floor_s, horizon_s), "horizon_s": horizon_s},
        "repetitions": 6,
        "claims": [],
    }
    return changed(f"stela/{name}", **changes | keys)


SIZES = {
    word: dict.fromkeys(("spout", "transform", "filter", "join", "filter_2", "aggregate", "sink"), 15)
    for word in ("tasks", "executors")
}
STAR, DIAMOND, PAGE_LOAD = spec("star", 4), spec("diamond", 6), spec("page_load", 7, horizon_s=200.0)
SCALE_IN = spec(
    "page_load", 8, events=[{"kind": "scale_in", "machines": 4}], topology={"name": "page_load", "overrides": SIZES}
)


def reason(name: str, experiment: Experiment | None, **changes: Any) -> str | None:
    return limitations.reason_not_testable(replace(CLAIMS[name], **changes), experiment)


# --- times of convergence --------------------------------------------------------------------------------------------


def test_how_long_noise_takes_by_itself() -> None:
    times = {name: assumptions.time_without_event_s(name) for name in ("sp", "st", "script")}
    assert times == {"sp": 60.0, "st": 70.0, "script": 0.0}


@pytest.mark.parametrize("definition", ["sp", "st"])
def test_windows_that_are_alike_take_no_less(definition: str) -> None:
    noise = np.random.default_rng(1).standard_normal((1000, 60))
    for window in range(1, 60):
        noise[:, window] = 0.6 * noise[:, window - 1] + 0.8 * noise[:, window]
    alike = assumptions.times_of_noise(definition, noise)
    assert median(alike) >= assumptions.time_without_event_s(definition)


def test_a_reduction_that_no_watch_of_this_length_shows() -> None:
    said = reason("S09/diamond SP", DIAMOND)
    assert said == (
        "ratios of times can be seen to be −60.0 to +150.0 % here: without any event the median is 60 s, and the"
        " watch ends after 150 s; the claim needs −93.6 to −90.0 %. Needed: a watch of more than 600 s"
    )
    assert reason("S09/diamond SP", spec("diamond", 6, horizon_s=600.0))  # −90 % is the region's edge, nothing inside
    assert reason("S09/diamond SP", spec("diamond", 6, horizon_s=610.0)) is None


@pytest.mark.parametrize(
    ("name", "longest_s"), [("S10/page load SP", 400), ("S10/page load ST", 466), ("S10/processing ST", 224)]
)
def test_from_which_watch_on_it_can(name: str, longest_s: float) -> None:
    assert reason(name, spec("page_load", 7, horizon_s=longest_s))
    assert reason(name, spec("page_load", 7, horizon_s=longest_s + 1)) is None


def test_a_watch_that_is_shorter_than_what_noise_takes_shows_no_difference() -> None:
    said = str(reason("S09/star ST", spec("star", 4, horizon_s=60.0)))
    assert said.startswith("ratios of times can be seen to be 0.0 % here: without any event the median is 70 s")
    assert reason("S10/processing ST", spec("processing", 8, horizon_s=60.0)) is not None


def test_an_event_at_a_fixed_time_ends_the_watch_of_the_one_before() -> None:
    events = [{"kind": "scale_out"}, {"kind": "crash", "at": 100.0, "machine": "m1"}]
    long = spec("diamond", 6, horizon_s=900.0, events=events)
    assert "the watch ends after 100 s" in str(reason("S09/diamond SP", long))
    assert reason("S09/diamond SP", long, event="e2") is None


def test_the_script_can_take_no_time_at_all() -> None:
    assert reason("S09/diamond SP", DIAMOND, metric="convergence_script_s") is None


# --- throughput ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "experiment", "said"),
    [
        ("S05", DIAMOND, "stela over even_rebalance can be 0.0 to +100.0 % here: 4 executors are added"),
        ("S06/own gain", PAGE_LOAD, "stela can gain 0.0 to +37.5 % here: 4 executors are added"),
        ("S06/over default", PAGE_LOAD, "the claim needs +112.5 to +137.5 %. Needed: costs that compete for a core"),
        ("S06/default", PAGE_LOAD, "even_rebalance can gain 0.0 % here: no executor is added, and components wait"),
        ("S08/least link load", spec("network_monitoring", 8), "the claim needs less than −2.0 %"),
        ("S12/group 1", SCALE_IN, "random_1 can gain 0.0 % here"),
        ("S12/over group 2", SCALE_IN, "stela over random_2 can be 0.0 % here"),
        ("S15", spec("linear", 6), "least_link_load can gain 0.0 % here"),
    ],
)
def test_what_no_policy_can_reach(name: str, experiment: Experiment, said: str) -> None:
    assert said in str(reason(name, experiment))


@pytest.mark.parametrize(
    ("name", "experiment"),
    [
        ("S03", STAR),
        ("S04", spec("linear", 6)),
        ("S04/default", spec("linear", 6)),
        ("S06/least link load", PAGE_LOAD),
        ("S08/own gain", spec("network_monitoring", 8)),
        ("S08/over default", spec("network_monitoring", 8)),
        ("S12/stela", SCALE_IN),
        ("S13/group 1", SCALE_IN),
        ("S02/star restarts", STAR),
        ("S01/op 3", STAR),
    ],
)
def test_what_can_come_out(name: str, experiment: Experiment) -> None:
    assert reason(name, experiment) is None


@pytest.mark.parametrize("name", ["S06/own gain", "S06/over default", "S06/default"])
def test_components_that_burn_cpu_have_no_bound(name: str) -> None:
    busy = {"name": "page_load", "parameters": {"cost_model": "busy"}}
    assert reason(name, changed(PAGE_LOAD, topology=busy)) is None


def test_a_variant_may_have_a_topology_of_its_own() -> None:
    mine = variants_changed(PAGE_LOAD, {"even_rebalance": {"topology": {"parameters": {"cost_model": "busy"}}}})
    assert reason("S06/default", mine) is None and reason("S06/over default", mine) is None
    assert reason("S06/own gain", mine) is not None


def test_ratios_are_of_what_each_variants_own_topology_can_do() -> None:
    """A default on a topology that does half as much: then twice and a half as much is in reach."""
    half = variants_changed(PAGE_LOAD, {"even_rebalance": {"topology": {"parameters": {"ms_per_character": 2.0}}}})
    assert reason("S06/over default", half) is None


@pytest.mark.parametrize(
    "experiment",
    [
        variants_changed(PAGE_LOAD, {"stela": {"code": {"ref": "a" * 40}}}),
        variants_changed(PAGE_LOAD, {"stela": {"policy": "ds2"}}),
        variants_changed(PAGE_LOAD, {"stela": {"parameters": {"of_another_version": 1}}}),
        variants_changed(PAGE_LOAD, {"stela": {"parameters": {"congestion_rate": "high"}}}),
        variants_changed(PAGE_LOAD, {"stela": {"name": "other"}}),
        changed(PAGE_LOAD, events=[{"kind": "rate", "at": 10.0, "factor": 2.0}]),
        changed(PAGE_LOAD, topology={"name": "no_longer_there"}),
        None,
    ],
)
def test_nothing_is_said_of_what_is_not_known(experiment: Experiment | None) -> None:
    assert reason("S06/own gain", experiment) is None
    assert reason("S10/page load SP", None) is None


def test_what_a_variant_says_of_its_topology_lies_over_nothing() -> None:
    """29 executors on 7 machines: 5 slots. With transform 7 and filter 6, of which two have two of 8 tasks, 149.1/s
    pass where 99.4 did: 2 x 31.06 + 4 x 21.74."""
    mine = variants_changed(PAGE_LOAD, {"stela": {"topology": {"overrides": {"executors": {"join": 5}}}}})
    over_nothing = changed(mine, topology={"name": "page_load", "overrides": {"executors": None}})
    assert "stela can gain 0.0 to +50.0 % here: 5 executors are added" in str(reason("S06/own gain", over_nothing))


def test_a_bound_of_too_many_ways_is_said_to_be_one() -> None:
    sizes = {word: dict.fromkeys(("parse_lines", "filter_failure", "parse_failures", "aggregate", "filter", "functor",
                                  "filter_success", "parse_success", "join_output", "spout"), size)
             for word, size in (("tasks", 60), ("executors", 30))}  # fmt: skip
    topology = {"name": "network_monitoring", "parameters": {"rate_per_s": 5000.0}, "overrides": sizes}
    large = spec("network_monitoring", 8, events=[{"kind": "scale_out", "machines": 4}], topology=topology)
    said = str(reason("S08/own gain", large, stated=5000.0))
    assert "it is at most that, as if each component got them all" in said


def test_later_events_begin_from_sizes_that_are_not_known() -> None:
    assert reason("S06/own gain", PAGE_LOAD, event="e2") is None


def test_policies_that_keep_executors_exist() -> None:
    assert set(POLICIES) >= KEEP_EXECUTORS
    assert not KEEP_EXECUTORS & {"stela", "foreign"}


# --- claims that follow from others ----------------------------------------------------------------------------------


def derived(name: str, *experiments: Experiment) -> str | None:
    claim = CLAIMS[name]
    names = {"page_load": "stela/page_load_scale_in" if name.startswith("S12") else "stela/page_load"}
    run = {names.get(each.every_topology()[0].name, each.name): [each] for each in experiments}
    return limitations.reason_derived(claim, [CLAIMS[member] for member in claim.of], run)


def test_a_span_fails_by_one_number_that_cannot_lie_in_it() -> None:
    said = str(derived("S12/2X to 5X", SCALE_IN))
    assert said.startswith(
        "S12/over group 1 cannot lie there (nor can S12/over group 2): stela over random_1 can be 0.0 %"
    )
    assert "the claim needs +66.7 to +500.0 %" in said


def test_a_span_may_hold_numbers_of_claims_that_are_not_testable_themselves() -> None:
    """+37.5 % is in reach on page_load, and is no +125 %, but lies within 21 to 120 %."""
    assert reason("S06/over default", PAGE_LOAD) is not None
    assert derived("S16/throughput SP", STAR, DIAMOND, PAGE_LOAD) is None


def convergence_specs(horizon_s: float) -> list[Experiment]:
    sizes = {"star": 4, "linear": 6, "diamond": 6, "page_load": 7, "processing": 8}
    return [spec(topology, before, horizon_s=horizon_s) for topology, before in sizes.items()]


def test_a_lowest_number_fails_where_none_reaches_so_low() -> None:
    said = str(derived("S16/interruption", *convergence_specs(200.0)))
    assert "to be −70.0 to +233.3 %" in said and "Needed: a watch of more than 384 s" in said
    assert derived("S16/interruption", *convergence_specs(400.0)) is None
    longer = [*convergence_specs(200.0)[:-1], spec("processing", 8, horizon_s=400.0)]
    assert derived("S16/interruption", *longer) is None
    assert derived("S16/interruption", STAR) is None  # the others were not run: nobody knows


def test_of_several_series_the_widest_counts() -> None:
    claim, members = CLAIMS["S16/interruption"], [CLAIMS["S09/diamond SP"]]
    short, long = DIAMOND, spec("diamond", 6, horizon_s=900.0)
    assert limitations.reason_derived(claim, members, {"stela/diamond": [short]})
    assert limitations.reason_derived(claim, members, {"stela/diamond": [short, long]}) is None
    assert limitations.reason_derived(claim, members, {}) is None
