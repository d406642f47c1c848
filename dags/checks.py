"""Can this experiment run at all? Everything that can be said before anything is started, by those who know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dags.errors import ExperimentError, blame_of
from dags.events import SCALING, Crash, working_after
from dags.experiment import Experiment
from dags.testbeds import testbed_of
from inventory import machine_types
from inventory.testbed import Faulting, MachineRequest


def check(experiment: Experiment) -> None:
    """Raises ExperimentError with every complaint, or the testbed's own error where machines do not fit."""
    complaints = [said for test in (_topology, _policies, _claims, _slots, _faults) for said in test(experiment)]
    if complaints:
        raise ExperimentError(f"{experiment.name}.yaml: {'; '.join(complaints)}")
    testbed_of(experiment.testbed).check(machine_requests(experiment))


def machine_requests(experiment: Experiment) -> tuple[MachineRequest, ...]:
    """The master, then every machine that ever takes part, those that join later too."""
    chosen = experiment.testbed
    worker = machine_types.scaled(machine_types.named(chosen.machine_type), chosen.scale)
    shaped = replace(worker, bandwidth_mbit=round(chosen.bandwidth_mbit))
    workers = [MachineRequest(name, shaped) for name in experiment.workers()]
    return (MachineRequest("master", machine_types.named("master")), *workers)


def remarks(experiment: Experiment) -> tuple[str, ...]:
    """What is allowed but worth saying."""
    from topologies import catalogue

    said = [machine_types.note(machine_types.named(experiment.testbed.machine_type), experiment.testbed.scale)]
    workers = experiment.topology.overrides.get("workers") or catalogue.read(experiment.topology.name).workers
    slots = experiment.machines.before * machine_requests(experiment)[1].type.slots
    if slots < workers:
        said.append(f"{workers} workers are asked for but {slots} slots are there at the start: Storm uses {slots}")
    return tuple(said)


def _topology(experiment: Experiment) -> Sequence[str]:
    from topologies import catalogue

    chosen = experiment.topology
    return _said(lambda: catalogue.render(chosen.name, chosen.parameters, chosen.overrides))


def _policies(experiment: Experiment) -> Sequence[str]:
    from scheduler_plugins.policies import POLICIES, bind

    said: list[str] = []
    for variant in experiment.variants:
        mine = list(_said(lambda variant=variant: bind(variant.policy, variant.parameters)))  # type: ignore[misc]
        kinds = {event.kind for event in experiment.events} & SCALING
        if not mine and (unanswered := kinds - POLICIES[variant.policy].events):
            answered = ", ".join(sorted(POLICIES[variant.policy].events)) or "none"
            mine = [f"policy {variant.policy} does not answer {', '.join(sorted(unanswered))}; it answers {answered}"]
        said += [f"variants.{variant.name}: {each}" for each in mine]
    return said


def _claims(experiment: Experiment) -> Sequence[str]:
    from analysis.claims.statements import FAMILIES, load_claims

    known = {claim.id for family in FAMILIES for claim in load_claims(family)}
    unknown = [claim for claim in experiment.claims if claim not in known]
    return [f"claims has {', '.join(unknown)}; known: {', '.join(sorted(known))}"] if unknown else []


def _slots(experiment: Experiment) -> Sequence[str]:
    """A topology needs a slot at least, also when machines have left."""
    slots = machine_types.named(experiment.testbed.machine_type).slots
    working = working_after(experiment.machines.before, experiment.events)
    return [
        f"after events.{place} {count} machines of {slots} slots are left; 1 topology needs at least 1 slot"
        for place, count in enumerate(working)
        if count * slots < 1
    ]


def _faults(experiment: Experiment) -> Sequence[str]:
    wanted = any(isinstance(event, Crash) for event in experiment.events)
    if not wanted or isinstance(testbed_of(experiment.testbed), Faulting):
        return []
    return [f"events has a crash, but machines of testbed {experiment.testbed.name} cannot be crashed and restarted"]


def _said(test: Callable[[], object]) -> Sequence[str]:
    """The message of a configuration error of somebody else's; other errors are theirs to raise."""
    try:
        test()
    except Exception as error:
        if blame_of(error) != "configuration":
            raise
        return [str(error)]
    return []
