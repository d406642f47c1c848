"""An experiment's testbed, the machines it requests there, and whether it can run at all: every check that is possible
before anything is started.
"""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from barograph.errors import ExperimentError, blame_of
from barograph.plan.events.order import topologies_after, working_machines_after
from barograph.plan.events.rates import RateEvent
from barograph.plan.experiment import SIMULATED, Experiment, TestbedChoice, Variant
from barograph.plan.simulation import OWN_SETTINGS, complaints, is_simulated
from barograph.plan.topologies import TopologyChoice, one_of_each_kind
from inventory import TESTBEDS, machines
from inventory.leases import registry
from inventory.machines import MachineRequest
from inventory.testbed import (
    Place,
    SupportsDisturbances,
    SupportsFaults,
    SupportsGrow,
    SupportsRemark,
    Testbed,
)
from scheduler_plugins.model import SINKS, SPOUTS
from scheduler_plugins.service.samples import FRESH_S

if TYPE_CHECKING:
    from topologies.catalogue import TopologySpec

log = logging.getLogger(__name__)
WINDOW_SETTING = "barograph.window.s"  # of a topology: how often its workers post
LONGEST_WINDOW_S = 3600
MOST_WINDOW_S = 2.0  # with a course of rates: workers get changes as they post
MOST_AGE_WINDOW_S = FRESH_S / 2  # with a decision: one post may be late before its samples are too old


def testbed_of(choice: TestbedChoice) -> Testbed:
    """Return the chosen testbed with its options. Raises ExperimentError listing the known ones, or its own error."""
    if choice.name not in TESTBEDS:
        raise ExperimentError(f"testbed.name is {choice.name!r}; known: {', '.join(TESTBEDS)}")
    if unknown := sorted(set(choice.options) - set(TESTBEDS)):
        raise ExperimentError(f"testbed.options has {', '.join(unknown)}; known testbeds: {', '.join(TESTBEDS)}")
    # Those of others are read too: a mistyped key would make another series, and show when a form chooses that testbed.
    options = {choice.name: {}, **choice.options}
    testbeds = {n: _cached_testbed(n, json.dumps(o, sort_keys=True), registry.state_dir()) for n, o in options.items()}
    return testbeds[choice.name]


def place_of(choice: TestbedChoice) -> Place:
    """Return where the machines are, whatever the options say. Raises ExperimentError listing the known testbeds."""
    return testbed_of(replace(choice, options={})).place


def gives_whole_machines(testbed: str) -> bool:
    """Return True if the testbed of that name gives machines as they are, whatever scale an experiment has."""
    return testbed in TESTBEDS and testbed_without_options(testbed).whole_machines


def in_memory(choice: TestbedChoice) -> TestbedChoice:
    """Return the corresponding choice on the simulated testbed: for whole machines the scale was not applied."""
    return replace(choice, name=SIMULATED, scale=1.0 if gives_whole_machines(choice.name) else choice.scale)


def testbed_without_options(name: str) -> Testbed:
    """Return the testbed of that name without options: it can release, list leftovers and sweep."""
    return _cached_testbed(name, "{}", registry.state_dir())


@cache
def _cached_testbed(name: str, options: str, _state: Path) -> Testbed:
    """Return a testbed of the present state folder, which it keeps."""
    return TESTBEDS[name](options=json.loads(options))


def check(experiment: Experiment) -> None:
    """Raise ExperimentError with every complaint, or the testbed's own error where machines do not fit."""
    errors = _topology(experiment)
    of_topologies = () if errors else (_isolation, _courses, _settings)  # they read what is rendered
    for test in (_policies, _claims, _slots, _faults, _booting, *of_topologies, complaints):
        errors += test(experiment)
    if errors:
        raise ExperimentError(f"{experiment.name}.yaml: {'; '.join(errors)}")
    testbed_of(experiment.testbed).check(machine_requests(experiment))


def machine_requests(experiment: Experiment, workers: Sequence[str] | None = None) -> tuple[MachineRequest, ...]:
    """Return requests for the master and these workers; None: every machine that ever takes part, also later ones."""
    testbed = experiment.testbed
    type_ = machines.machine_type(testbed.machine_type)
    is_whole = testbed_of(testbed).whole_machines
    worker = type_ if is_whole else machines.scale_type(type_, testbed.scale)
    worker_type = replace(worker, bandwidth_mbit=round(testbed.bandwidth_mbit))
    names = experiment.workers() if workers is None else workers
    return (
        MachineRequest("master", machines.machine_type("master")),
        *(MachineRequest(name, worker_type) for name in names),
    )


def remarks(experiment: Experiment) -> tuple[str, ...]:
    """Return remarks on what is allowed but notable."""
    testbed, place = experiment.testbed, testbed_of(experiment.testbed)
    type_, is_whole = machines.machine_type(testbed.machine_type), place.whole_machines
    worker_type = machine_requests(experiment)[1].type
    remarks = [machines.describe_scaling(type_, 1.0 if is_whole else testbed.scale, worker_type.bandwidth_mbit)]
    if isinstance(place, SupportsRemark):
        remarks.append(place.remark())
    if is_whole and testbed.scale != 1:
        remarks.append(f"{testbed.name} gives whole machines: the scale of {testbed.scale:g} is not applied")
    remarks += [
        f"throughput of {each.name} is measured at {each.throughput}"
        for each in experiment.every_topology()
        if each.throughput != SINKS
    ]
    slots = experiment.machines.before * worker_type.slots
    names, differences, common = experiment.topologies_at_start(), [], _sizes(experiment.every_topology())
    worker_counts = set()
    for variant in experiment.variants:
        topologies = experiment.topologies_of(variant)
        worker_counts.add(sum(_rendered(each).workers for each in topologies if each.name in names))
        if differences_text := variant.topology_words():
            difference = f"variants.{variant.name}: its topology differs: {differences_text}"
            if _sizes(topologies) != common:
                difference += "; other sizes, so what differs in its results is not the policy's alone"
            differences.append(difference)
    for workers in sorted(worker_counts):
        if slots < workers:
            remarks.append(
                f"{workers} workers are asked for but {slots} slots are there at the start: Storm uses {slots}"
            )
    return (*remarks, *differences)


def _sizes(topologies: Iterable[TopologyChoice]) -> list[object]:
    rendered = map(_rendered, topologies)
    return [(each.workers, [(c.name, c.tasks, c.executors) for c in each.components]) for each in rendered]


def _topology(experiment: Experiment) -> list[str]:
    if wrong := [error for each in one_of_each_kind(experiment.every_topology()) for error in _render_errors(each)]:
        return wrong
    return [
        f"variants.{variant.name}.topolog{'ies' if variant.topologies else 'y'}: {error}"
        for variant in experiment.variants
        if variant.topology_words()
        for each in one_of_each_kind(experiment.topologies_of(variant))
        for error in _render_errors(each)
    ]


def _render_errors(chosen: TopologyChoice) -> Sequence[str]:
    from topologies import catalogue, work

    config = chosen.overrides.get("config")
    ours = (work.QUEUE_LIMIT, work.TRAFFIC, WINDOW_SETTING)
    problems = [*work.setting_errors(config)]
    window_s = config.get(WINDOW_SETTING, 1) if isinstance(config, Mapping) else 1
    is_number = isinstance(window_s, int | float) and not isinstance(window_s, bool)
    if not is_number or not 1 <= window_s <= LONGEST_WINDOW_S:
        allowed = f"allowed: a number from 1 to {LONGEST_WINDOW_S}; change it, or leave it out"
        problems.append(f"overrides.config: {WINDOW_SETTING} is {json.dumps(window_s, default=str)}; {allowed}")
    problems += [
        f"overrides.config: {key} is unknown; ours are {', '.join(ours)}"
        for key in (config if isinstance(config, Mapping) else ())
        if key.startswith(OWN_SETTINGS) and key not in (*ours, catalogue.PARAMETERS)
    ]
    if problems:
        return [f"topology {chosen.name}: {problem}" for problem in problems]
    if errors := _configuration_errors(lambda: catalogue.render(chosen.file, chosen.parameters, chosen.overrides)):
        return errors
    flux = catalogue.render(chosen.file, chosen.parameters, chosen.overrides)
    if errors := [f"topology {chosen.name}: {problem}" for problem in work.queue_limit_errors(flux)]:
        return errors
    places = (SINKS, SPOUTS, *(component.name for component in _rendered(chosen).components))
    if chosen.throughput not in places:
        return [f"topology {chosen.name}: throughput is {chosen.throughput!r}; allowed: {', '.join(places)}"]
    return []


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
        if variant.policy == "dodo" and not wrong:
            wrong += _group_errors(experiment, variant)
        errors += [f"variants.{variant.name}: {each}" for each in wrong]
    return errors


def _group_errors(experiment: Experiment, variant: Variant) -> Iterator[str]:
    """Check what DoDo's components and groups name."""
    groups = experiment.machines.groups
    if not groups or len(experiment.every_topology()) != 1:
        yield "dodo is for one topology on groups of machines; write machines.groups, as {work: 6, small: 1}"
        return
    names = {each.name for each in _rendered(experiment.topologies_of(variant)[0]).components}
    for group in variant.parameters.get("begin", {}).keys() - groups:
        yield f"parameters.begin has the group {group}; machines.groups has {', '.join(groups)}"
    for group, members in variant.parameters.get("components", {}).items():
        if group not in groups:
            yield f"parameters.components has the group {group}; machines.groups has {', '.join(groups)}"
        if strangers := sorted(set(members) - names):
            yield f"parameters.components has {', '.join(strangers)}; components are {', '.join(sorted(names))}"


def unanswered_events(experiment: Experiment, policy: str, answered: Collection[str]) -> str:
    """Return the requests of this experiment that the policy does not answer, or what else it lacks; empty where it
    answers all."""
    if policy == "henge" and not any(each.service_level for each in experiment.every_topology()):
        return "no topology has a service_level, and henge acts for those that have one; give one, or leave henge out"
    kinds = {event.kind for event in experiment.events if event.asks_policy}
    missing = ", ".join(sorted(kinds - set(answered)))
    return missing and f"policy {policy} does not answer {missing}; it answers {', '.join(sorted(answered)) or 'none'}"


def _isolation(experiment: Experiment) -> Iterator[str]:
    """Check the isolation scheduler: it throws where a topology has more workers than executors to put into them."""
    for variant in experiment.variants:
        if (variant.policy, variant.parameters.get("scheduler")) != ("storm", "isolation"):
            continue
        for topology in map(_rendered, experiment.topologies_of(variant)):
            executors = sum(component.executors for component in topology.components)
            if topology.workers > executors:
                yield (
                    f"variants.{variant.name}: Storm's isolation scheduler throws where a topology has more workers"
                    f" than executors, and {topology.name} has {topology.workers} workers and {executors} executors;"
                    f" set topology.overrides.workers to {executors} or fewer"
                )


def _rendered(chosen: TopologyChoice) -> TopologySpec:
    """Return the topology; of many that differ in their names it is rendered once."""
    spec = _rendered_kind(json.dumps([chosen.file, chosen.parameters, chosen.overrides], sort_keys=True))
    return replace(spec, name=chosen.name)


@lru_cache(maxsize=256)
def _rendered_kind(kind: str) -> TopologySpec:
    from topologies import catalogue

    return catalogue.read_flux(catalogue.render(*json.loads(kind)))


def _claims(experiment: Experiment) -> Sequence[str]:
    from analysis.claims.statements import FAMILIES, load_claims

    claim_ids = {claim.id for family in FAMILIES for claim in load_claims(family)}
    unknown = [claim for claim in experiment.claims if claim not in claim_ids]
    return [f"claims has {', '.join(unknown)}; known: {', '.join(sorted(claim_ids))}"] if unknown else []


def claim_notes(experiment: Experiment) -> tuple[str, ...]:
    """Return what the experiment cannot show, or only weakly, of the claims that it names and that are about it: the
    ledger judges no claim by another experiment. The closed form knows one topology only."""
    from analysis.claims import limitations
    from analysis.claims.statements import FAMILIES, load_claims

    return tuple(note for family in FAMILIES for note in limitations.notes(load_claims(family), experiment))


def _slots(experiment: Experiment) -> Sequence[str]:
    """Check that each topology has at least one slot, also when machines have left."""
    slots = machines.machine_type(experiment.testbed.machine_type).slots
    machine_counts = working_machines_after(experiment.machines.before, experiment.events)
    topologies = topologies_after([each.name for each in experiment.every_topology()], experiment.events)
    return [
        f"after events.{place} {count} machines of {slots} slots are left; {len(names)}"
        f" {'topologies need' if len(names) > 1 else 'topology needs'} at least {len(names)}"
        f" slot{'s' if len(names) > 1 else ''}"
        for place, (count, names) in enumerate(zip(machine_counts, topologies, strict=True))
        if count * slots < len(names)
    ]


def _faults(experiment: Experiment) -> Iterator[str]:
    testbed, events = testbed_of(experiment.testbed), experiment.events
    of_testbed = f"machines of testbed {experiment.testbed.name} cannot be"
    crashes = sorted({event.kind for event in events if event.crashes_machines})
    disturbances = sorted({event.kind for event in events if event.disturbances})
    if crashes and not isinstance(testbed, SupportsFaults):
        yield f"events has a {' and a '.join(crashes)}, but {of_testbed} crashed and restarted"
    if disturbances and not isinstance(testbed, SupportsDisturbances):
        yield f"events has a {' and a '.join(disturbances)}, but {of_testbed} disturbed"


def _booting(experiment: Experiment) -> Sequence[str]:
    """Check that the testbed can add and give back single machines, if machines boot at their event."""
    testbed = experiment.testbed
    if testbed.joining != "booted" or isinstance(testbed_of(testbed), SupportsGrow):
        return []
    capable = [name for name, make in TESTBEDS.items() if isinstance(make(), SupportsGrow)]
    return [
        f"testbed.joining is 'booted', but machines of testbed {testbed.name} cannot be added during a run; those of"
        f" {', '.join(capable) or 'no testbed'} can; give ready, or one of them"
    ]


def _courses(experiment: Experiment) -> Iterator[str]:
    """Check that a course names existing spouts, and that workers post often enough to follow it, and for decisions:
    their newest samples would be too old."""
    choices = [(variant, each) for variant in experiment.variants for each in experiment.topologies_of(variant)]
    courses = [(n, each) for n, each in enumerate(experiment.events) if isinstance(each, RateEvent) and each.is_course]
    for place, event in courses:
        topologies = [_rendered(each) for _, each in choices if event.topology in (None, each.name)]
        spouts = {each.name for topology in topologies for each in topology.components if each.kind == "spout"}
        if event.source is not None and event.source not in spouts:
            names = ", ".join(sorted(spouts))
            yield f"events.{place}.source is {event.source!r}; the topology has the spouts {names}"
    limits = []
    if courses:
        limits.append((MOST_WINDOW_S, "with a course of rates", "workers hear of it as they post"))
    has_decisions = any(event.asks_policy or event.is_hold for event in experiment.events)
    if has_decisions and not is_simulated(experiment):  # simulated lines arrive as they are written
        reason = f"samples older than {FRESH_S:g} s cannot be used for a decision"
        limits.append((MOST_AGE_WINDOW_S, "where a policy decides", reason))
    for most_s, when, why in limits:
        for variant, topology in choices:
            window_s = topology.overrides.get("config", {}).get(WINDOW_SETTING, 0)
            if isinstance(window_s, int | float) and window_s > most_s:
                allowed = f"allowed {when}: at most {most_s:g}, because {why}"
                yield f"variants.{variant.name}: {WINDOW_SETTING} is {window_s:g}; {allowed}"


def _settings(experiment: Experiment) -> Iterator[str]:
    """Check that Storm, ours or the topology's file has each setting: variants that differ only in a mistyped one would
    be alike. Storm's are known as soon as its home is built; the simulator checks by itself."""
    from inventory.local.rootfs import cache_dir
    from playbooks.storm_home.assemble import storm_settings
    from topologies import catalogue

    known = frozenset() if is_simulated(experiment) else storm_settings(cache_dir())
    choices = [each for variant in experiment.variants for each in experiment.topologies_of(variant)] if known else []
    for name, file, key in dict.fromkeys(
        (each.name, each.file, key) for each in choices for key in each.overrides.get("config", {})
    ):
        if key not in known | catalogue.settings(file) and not key.startswith(OWN_SETTINGS):
            close = difflib.get_close_matches(key, known, n=1)
            advice = f"did you mean {close[0]}?" if close else "if a component reads it, give it a default there"
            place = f"topologies/flux/{file}.yaml"
            yield f"topology {name}: overrides.config: {key} is no setting of Storm, and none of {place}; {advice}"


def _configuration_errors(test: Callable[[], object]) -> Sequence[str]:
    """Return the message of another package's configuration error; other errors are raised."""
    try:
        test()
    except Exception as error:
        if blame_of(error) != "configuration":
            raise
        return [str(error)]
    return []
