"""The testbed that an experiment chooses, the machines it requests there, and whether it can run at all: everything
that can be said before anything is started.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from barograph.errors import ExperimentError, blame_of
from barograph.plan.events import RateChange, Sine, Trace, topologies_after, working_machines_after
from barograph.plan.experiment import SIMULATED, Experiment, TestbedChoice, TopologyChoice, Variant
from inventory import TESTBEDS, machines
from inventory.leases import registry
from inventory.machines import MachineRequest
from inventory.testbed import Place, SupportsDisturbances, SupportsFaults, SupportsGiveBack, SupportsGrow, Testbed
from scheduler_plugins.service.samples import FRESH_S

if TYPE_CHECKING:
    from topologies.catalogue import Topology

log = logging.getLogger(__name__)
WINDOW_SETTING = "barograph.window.s"  # of a topology: how often its workers post
LONGEST_WINDOW_S = 3600
MOST_WINDOW_S = 2.0  # with a course of rates: workers hear of it as they post
MOST_AGE_WINDOW_S = FRESH_S / 2  # with a decision: one post may be late before its samples are too old


def testbed_of(choice: TestbedChoice) -> Testbed:
    """The chosen testbed with its options. Raises ExperimentError listing the known ones, or its own error."""
    if choice.name not in TESTBEDS:
        raise ExperimentError(f"testbed.name is {choice.name!r}; known: {', '.join(TESTBEDS)}")
    if unknown := sorted(set(choice.options) - set(TESTBEDS)):
        raise ExperimentError(f"testbed.options has {', '.join(unknown)}; known testbeds: {', '.join(TESTBEDS)}")
    options = json.dumps(choice.options.get(choice.name, {}), sort_keys=True)
    return _cached_testbed(choice.name, options, registry.state_dir())


def place_of(choice: TestbedChoice) -> Place:
    """Where the machines are, whatever the options say. Raises ExperimentError listing the known testbeds."""
    return testbed_of(replace(choice, options={})).place


def gives_whole_machines(testbed: str) -> bool:
    """Whether the testbed of that name gives machines as they are, whatever scale an experiment has."""
    return testbed in TESTBEDS and testbed_without_options(testbed).whole_machines


def in_memory(choice: TestbedChoice) -> TestbedChoice:
    """What stands for it on the simulated testbed: to whole machines the scale was not applied."""
    return replace(choice, name=SIMULATED, scale=1.0 if gives_whole_machines(choice.name) else choice.scale)


def testbed_without_options(name: str) -> Testbed:
    """The testbed of that name without options: it can release, list leftovers and sweep."""
    return _cached_testbed(name, "{}", registry.state_dir())


@cache
def _cached_testbed(name: str, options: str, _state: Path) -> Testbed:
    """A testbed keeps to the state folder of when it was made."""
    return TESTBEDS[name](options=json.loads(options))


def check(experiment: Experiment) -> None:
    """Raises ExperimentError with every complaint, or the testbed's own error where machines do not fit."""
    complaints = [
        complaint
        for test in (_topology, _policies, _isolation, _claims, _slots, _faults, _booting, _courses, _posts, _simulated)
        for complaint in test(experiment)
    ]
    if complaints:
        raise ExperimentError(f"{experiment.name}.yaml: {'; '.join(complaints)}")
    testbed_of(experiment.testbed).check(machine_requests(experiment))


def machine_requests(experiment: Experiment, workers: Sequence[str] | None = None) -> tuple[MachineRequest, ...]:
    """The master and these workers; None: every machine that ever takes part, those that join later too."""
    chosen = experiment.testbed
    stated = machines.machine_type(chosen.machine_type)
    whole = testbed_of(chosen).whole_machines
    worker = stated if whole else machines.scale_type(stated, chosen.scale)
    shaped = replace(worker, bandwidth_mbit=round(chosen.bandwidth_mbit))
    named = experiment.workers() if workers is None else workers
    return (
        MachineRequest("master", machines.machine_type("master")),
        *(MachineRequest(name, shaped) for name in named),
    )


def remarks(experiment: Experiment) -> tuple[str, ...]:
    """What is allowed but worth saying."""
    chosen = experiment.testbed
    stated, whole = machines.machine_type(chosen.machine_type), testbed_of(chosen).whole_machines
    shaped = machine_requests(experiment)[1].type
    remarks = [machines.describe_scaling(stated, 1.0 if whole else chosen.scale, shaped.bandwidth_mbit)]
    if whole and chosen.scale != 1:
        remarks.append(f"{chosen.name} gives whole machines: the scale of {chosen.scale:g} is not applied")
    slots = experiment.machines.before * shaped.slots
    asked = {_workers_at_start(experiment, variant) for variant in experiment.variants}
    for workers in sorted(asked):
        if slots < workers:
            remarks.append(
                f"{workers} workers are asked for but {slots} slots are there at the start: Storm uses {slots}"
            )
    return (*remarks, *(_difference(variant, experiment) for variant in experiment.variants if variant.topology))


def _workers_at_start(experiment: Experiment, variant: Variant) -> int:
    """Of all topologies that are there."""
    present = experiment.topologies_at_start()
    return sum(_rendered(each).workers for each in experiment.topologies_of(variant) if each.name in present)


def _difference(variant: Variant, experiment: Experiment) -> str:
    """A variant on another topology; other sizes are said to be so, for with them it is not the policy's difference."""
    assert variant.topology is not None, "only for variants with one"
    said = f"variants.{variant.name}: its topology differs: {variant.topology.words()}"
    mine, common = (
        [_sizes(each) for each in topologies]
        for topologies in (experiment.topologies_of(variant), experiment.every_topology())
    )
    return said if mine == common else f"{said}; other sizes, so what differs in its results is not the policy's alone"


def _sizes(chosen: TopologyChoice) -> tuple[object, ...]:
    topology = _rendered(chosen)
    return topology.workers, [(each.name, each.tasks, each.executors) for each in topology.components]


def _topology(experiment: Experiment) -> Sequence[str]:
    if wrong := [error for each in experiment.every_topology() for error in _render_errors(each)]:
        return wrong
    return [
        f"variants.{variant.name}.topology: {error}"
        for variant in experiment.variants
        if variant.topology is not None
        for each in experiment.topologies_of(variant)
        for error in _render_errors(each)
    ]


def _render_errors(chosen: TopologyChoice) -> Sequence[str]:
    from topologies import catalogue, work

    config = chosen.overrides.get("config")
    if wrong := [*work.setting_errors(config), *_window_errors(config)]:
        return [f"topology {chosen.name}: {said}" for said in wrong]
    return _configuration_errors(lambda: catalogue.render(chosen.file, chosen.parameters, chosen.overrides))


def _window_errors(config: object) -> Iterator[str]:
    if not isinstance(config, Mapping) or WINDOW_SETTING not in config:
        return
    window_s = config[WINDOW_SETTING]
    is_number = isinstance(window_s, int | float) and not isinstance(window_s, bool)
    if not is_number or not 1 <= window_s <= LONGEST_WINDOW_S:
        allowed = f"allowed: a number from 1 to {LONGEST_WINDOW_S}; change it, or leave it out"
        yield f"overrides.config: {WINDOW_SETTING} is {json.dumps(window_s, default=str)}; {allowed}"


def _policies(experiment: Experiment) -> Sequence[str]:
    from scheduler_plugins.policies import POLICIES, bind

    errors: list[str] = []
    for variant in experiment.variants:
        if variant.code is not None and not variant.code.scheduler:
            continue  # its own commit is asked, by barograph.code
        wrong = list(_configuration_errors(lambda variant=variant: bind(variant.policy, variant.configured())))  # type: ignore[misc]
        if not wrong and (why := unanswered_events(experiment, variant.policy, POLICIES[variant.policy].events)):
            wrong = [why]
        if variant.policy == "ds2":
            wrong += [
                f"the sources of {each.name} are unthrottled, so what they emit is all that is due, and ds2 never finds"
                " that more is needed; leave that out, or choose another policy"
                for each in experiment.topologies_of(variant)
                if each.parameters.get("unthrottled")
            ]
        errors += [f"variants.{variant.name}: {each}" for each in wrong]
    return errors


def unanswered_events(experiment: Experiment, policy: str, answered: Collection[str]) -> str:
    """What this experiment asks and the policy does not answer; empty where it answers everything."""
    asked = {event.kind for event in experiment.events if event.asks_policy}
    left = ", ".join(sorted(asked - set(answered)))
    return left and f"policy {policy} does not answer {left}; it answers {', '.join(sorted(answered)) or 'none'}"


def _isolation(experiment: Experiment) -> Sequence[str]:
    """Storm's isolation scheduler throws where a topology has more workers than executors to put into them."""
    isolating = [
        variant
        for variant in experiment.variants
        if (variant.policy, variant.parameters.get("scheduler")) == ("storm", "isolation")
    ]
    if not isolating or _topology(experiment):
        return []
    said = []
    submitted = [(variant, _rendered(each)) for variant in isolating for each in experiment.topologies_of(variant)]
    for variant, topology in submitted:
        executors = sum(component.executors for component in topology.components)
        if topology.workers > executors:
            said.append(
                f"variants.{variant.name}: Storm's isolation scheduler throws where a topology has more workers than"
                f" executors, and {topology.name} has {topology.workers} workers and {executors} executors; set"
                f" topology.overrides.workers to {executors} or fewer"
            )
    return said


def _rendered(chosen: TopologyChoice) -> Topology:
    from topologies import catalogue

    return catalogue.read_flux(catalogue.render(chosen.file, chosen.parameters, chosen.overrides, chosen.name))


def _claims(experiment: Experiment) -> Sequence[str]:
    from analysis.claims.statements import FAMILIES, load_claims

    known = {claim.id for family in FAMILIES for claim in load_claims(family)}
    unknown = [claim for claim in experiment.claims if claim not in known]
    return [f"claims has {', '.join(unknown)}; known: {', '.join(sorted(known))}"] if unknown else []


def claim_notes(experiment: Experiment) -> tuple[str, ...]:
    """What the experiment cannot show, or only weakly, of the claims that it names and that are about it: the ledger
    judges no claim by another experiment. The closed form knows one topology only."""
    from analysis.claims import limitations
    from analysis.claims.statements import FAMILIES, load_claims

    return tuple(note for family in FAMILIES for note in limitations.notes(load_claims(family), experiment))


def _slots(experiment: Experiment) -> Sequence[str]:
    """A topology needs a slot at least, also when machines have left."""
    slots = machines.machine_type(experiment.testbed.machine_type).slots
    working = working_machines_after(experiment.machines.before, experiment.events)
    there = topologies_after([each.name for each in experiment.every_topology()], experiment.events)
    return [
        f"after events.{place} {count} machines of {slots} slots are left; {len(running)}"
        f" {'topologies need' if len(running) > 1 else 'topology needs'} at least {len(running)}"
        f" slot{'s' if len(running) > 1 else ''}"
        for place, (count, running) in enumerate(zip(working, there, strict=True))
        if count * slots < len(running)
    ]


def _faults(experiment: Experiment) -> Sequence[str]:
    testbed, name = testbed_of(experiment.testbed), experiment.testbed.name
    crashes = sorted({event.kind for event in experiment.events if event.crashes_machines})
    disturbances = sorted({event.kind for event in experiment.events if event.disturbances})
    said = []
    if crashes and not isinstance(testbed, SupportsFaults):
        said.append(
            f"events has a {' and a '.join(crashes)}, but machines of testbed {name} cannot be crashed and restarted"
        )
    if disturbances and not isinstance(testbed, SupportsDisturbances):
        said.append(f"events has a {' and a '.join(disturbances)}, but machines of testbed {name} cannot be disturbed")
    return said


def _booting(experiment: Experiment) -> Sequence[str]:
    """Machines that boot at their event must be had one by one, and go back one by one."""
    chosen = experiment.testbed
    if chosen.joining != "booted" or _can_boot(testbed_of(chosen)):
        return []
    able = [name for name, make in TESTBEDS.items() if _can_boot(make())]
    return [
        f"testbed.joining is 'booted', but machines of testbed {chosen.name} cannot be added during a run; those of"
        f" {', '.join(able) or 'no testbed'} can; give ready, or one of them"
    ]


def _courses(experiment: Experiment) -> Sequence[str]:
    """A course names spouts that are there, and workers that post too seldom would hear of it too late."""
    courses = [
        (place, event)
        for place, event in enumerate(experiment.events)
        if isinstance(event, Sine | Trace) or (isinstance(event, RateChange) and event.is_course)
    ]
    if not courses or _topology(experiment):
        return []
    said = []
    chosen = [(variant, each) for variant in experiment.variants for each in experiment.topologies_of(variant)]
    for place, event in courses:
        about = [_rendered(each) for _, each in chosen if event.topology in (None, each.name)]
        spouts = {each.name for topology in about for each in topology.components if each.kind == "spout"}
        if event.source is not None and event.source not in spouts:
            known = ", ".join(sorted(spouts))
            said.append(f"events.{place}.source is {event.source!r}; the topology has the spouts {known}")
    why = "with a course of rates", "workers hear of it as they post"
    return [*said, *_seldom_posts(experiment, MOST_WINDOW_S, *why)]


def _posts(experiment: Experiment) -> Sequence[str]:
    """Of workers that post too seldom the newest samples are too old for any decision."""
    from barograph.plan.simulation import is_simulated

    asks = any(event.asks_policy or event.is_hold for event in experiment.events)
    if not asks or is_simulated(experiment) or _topology(experiment):  # simulated lines arrive as they are written
        return []
    why = "where a policy decides", f"samples older than {FRESH_S:g} s cannot be used for a decision"
    return _seldom_posts(experiment, MOST_AGE_WINDOW_S, *why)


def _seldom_posts(experiment: Experiment, most_s: float, when: str, why: str) -> Sequence[str]:
    said = []
    for variant in experiment.variants:
        for topology in experiment.topologies_of(variant):
            window_s = topology.overrides.get("config", {}).get(WINDOW_SETTING, 0)
            if isinstance(window_s, int | float) and window_s > most_s:
                allowed = f"allowed {when}: at most {most_s:g}, because {why}"
                said.append(f"variants.{variant.name}: {WINDOW_SETTING} is {window_s:g}; {allowed}")
    return said


def _simulated(experiment: Experiment) -> Sequence[str]:
    """What the simulator does not have where it is to be simulated, and what only the simulator has elsewhere."""
    from barograph.plan.simulation import complaints

    return complaints(experiment)


def _can_boot(testbed: Testbed) -> bool:
    return isinstance(testbed, SupportsGrow) and isinstance(testbed, SupportsGiveBack)


def _configuration_errors(test: Callable[[], object]) -> Sequence[str]:
    """The message of a configuration error of somebody else's; other errors are theirs to raise."""
    try:
        test()
    except Exception as error:
        if blame_of(error) != "configuration":
            raise
        return [str(error)]
    return []
