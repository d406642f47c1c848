"""Can this experiment run at all? Everything that can be said before anything is started, by those who know."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dags.errors import ExperimentError, blame_of
from dags.experiment import Experiment
from dags.testbeds import testbed_named
from inventory import machine_types
from inventory.testbed import MachineRequest


def check(experiment: Experiment) -> None:
    """Raises ExperimentError with every complaint, or the testbed's own error where machines do not fit."""
    complaints = [said for test in (_topology, _policies, _claims) for said in test(experiment)]
    if complaints:
        raise ExperimentError(f"{experiment.name}.yaml: {'; '.join(complaints)}")
    testbed_named(experiment.testbed.name).check(machine_requests(experiment))


def machine_requests(experiment: Experiment) -> tuple[MachineRequest, ...]:
    """The master, then every machine of the end, those that join at the scale event too."""
    chosen = experiment.testbed
    worker = machine_types.scaled(machine_types.named(chosen.machine_type), chosen.scale)
    shaped = worker.__class__(worker.name, worker.cores, worker.memory_mb, round(chosen.bandwidth_mbit), worker.slots)
    workers = [MachineRequest(f"m{number}", shaped) for number in range(1, experiment.machines.after + 1)]
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
        kinds = {event.kind for event in experiment.events}
        if not mine and not kinds <= POLICIES[variant.policy].events:
            mine = [f"policy {variant.policy} answers {', '.join(sorted(POLICIES[variant.policy].events))} only"]
        said += [f"variants.{variant.name}: {each}" for each in mine]
    return said


def _claims(experiment: Experiment) -> Sequence[str]:
    from analysis.claims.statements import FAMILIES, load_claims

    known = {claim.id for family in FAMILIES for claim in load_claims(family)}
    unknown = [claim for claim in experiment.claims if claim not in known]
    return [f"claims has {', '.join(unknown)}; known: {', '.join(sorted(known))}"] if unknown else []


def _said(test: Callable[[], object]) -> Sequence[str]:
    """The message of a configuration error of somebody else's; other errors are theirs to raise."""
    try:
        test()
    except Exception as error:
        if blame_of(error) != "configuration":
            raise
        return [str(error)]
    return []
