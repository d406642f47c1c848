"""The range of experiments, and the parts of one outside of the range of others: so a report names everything in a
simulated run that no real run has judged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from math import ceil, floor, inf
from typing import Any

from pydantic import ConfigDict

from analysis.numerals import number
from analysis.record.simulated import simulated_facts
from analysis.record.small_tables import Row
from barograph import ROOT
from barograph.plan.events import AnyEvent
from barograph.plan.events.courses import UnfitTrace, rows_of, sha256_of
from barograph.plan.events.order import machines_at_end
from barograph.plan.events.rates import RateChange, Sine, Trace
from barograph.plan.experiment import Experiment, Variant, recorded
from barograph.plan.topologies import TopologyChoice
from topologies import catalogue, work
from topologies.errors import TopologyError

PAIR = " + "  # between the two of Validity.pairs

Range = tuple[float, float]


@dataclass(frozen=True)
class Validity:
    """The range of one experiment, or of all that costs were judged on. Ranges are from least to most."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    topologies: tuple[str, ...] = ()
    machine_types: tuple[str, ...] = ()
    scales: Range | None = None
    cost_models: tuple[str, ...] = ()
    rates_per_s: Range | None = None  # offered by a source component, including changes by events
    machines: Range | None = None
    tasks: Range | None = None  # of all topologies together
    events: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()  # paced, unthrottled
    acking: tuple[str, ...] = ()  # none, acked, limited (by topology.max.spout.pending)
    policies: tuple[str, ...] = ()
    workers: Range | None = None  # of a topology
    queues: tuple[str, ...] = ()  # tuples in an executor's receive queue
    waits: tuple[str, ...] = ()  # of executors that have no tuple
    bandwidths: Range | None = None  # of a machine, in Mbit/s
    joining: tuple[str, ...] = ()  # ready, booted
    watches_s: Range | None = None  # from an event on; if watched until steady the least and the most
    periods: tuple[str, ...] = ()  # of the simulator: length of its steps, intervals of lines, looks and rounds
    side_by_side: Range | None = None  # topologies of a run
    changes: Range | None = None  # events of a run
    pairs: tuple[str, ...] = ()  # a topology with an event, a machine type and a cost model

    def __add__(self, other: Validity) -> Validity:
        def together(name: str) -> Any:
            a, b = getattr(self, name), getattr(other, name)
            if name in WORDS or name == "pairs":
                return tuple(sorted({*a, *b}))
            ranges = [each for each in (a, b) if each is not None]
            return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None

        return Validity(**{each.name: together(each.name) for each in fields(self)})


WORDS = {
    "topologies": "topology", "machine_types": "machine type", "cost_models": "cost model", "events": "event",
    "sources": "sources", "acking": "acking", "policies": "policy", "queues": "queues of", "waits": "waits:",
    "joining": "machines that join", "periods": "periods",
}  # fmt: skip
UNITS = {
    "scales": "of a machine type's size",
    "rates_per_s": "tuples/s of a source",
    "machines": "machines",
    "tasks": "tasks",
    "workers": "workers of a topology",
    "side_by_side": "topologies side by side",
    "changes": "events in a run",
    "bandwidths": "Mbit/s of a machine",
    "watches_s": "s of watch after an event",
}
COST_MODELS = {"sleep": "wait", "busy": "burn CPU", "none": "do neither"}
PERIODS = ("step_s", "sample_s", "look_s", "round_s")  # in the facts that a simulated run has on record


def validity_of_run(run: Row) -> Validity:
    """Return the range of a simulated run, a row of the table `runs`: its own variant, and its kind of simulation."""
    experiment = recorded({"spec": json.loads(run.get("spec") or "null")})
    if experiment is None:
        return Validity()
    variants = tuple(variant for variant in experiment.variants if variant.name == run.get("variant"))
    return validity_of(replace(experiment, variants=variants or experiment.variants), simulated_facts(run) or {})


def validity_of(experiment: Experiment, periods: Mapping[str, float]) -> Validity:
    """Return the range of an experiment as a run has it on record, with today's templates of topologies. `periods`: of
    its simulation, by PERIODS."""
    testbed, durations, events = experiment.testbed, experiment.durations, experiment.events
    before = experiment.machines.before
    # The fewest and the most machines at any time, whatever joins and leaves in between.
    counts = [machines_at_end(before, events[:number]) for number in range(len(events) + 1)]
    machines = [float(count) for count in (*counts, *(experiment.machines.limits or ()))]
    validity = Validity(
        machine_types=(testbed.machine_type,),
        scales=_one(testbed.scale),
        machines=(min(machines), max(machines)),
        events=_words(map(_event_word, events)),
        policies=_words(map(_policy_words, experiment.variants)),
        bandwidths=_one(testbed.bandwidth_mbit),
        joining=(testbed.joining,),
        # In whole seconds: a run that is watched for 150 s by its file ends some milliseconds later.
        watches_s=(float(floor(durations.after_floor_s)), float(ceil(durations.horizon_s))),
        side_by_side=_one(len(experiment.every_topology())),
        changes=_one(len(events)),
        periods=tuple(f"{name} {periods[name]:g}" for name in PERIODS if name in periods),
    )
    for variant in experiment.variants:
        tasks = 0
        for topology in experiment.topologies_of(variant):
            topology_validity, topology_tasks = _of_topology(topology, experiment)
            tasks += topology_tasks
            validity += topology_validity
        validity += Validity(tasks=_one(tasks) if tasks else None)
    return validity


def _one(value: float) -> Range:
    return float(value), float(value)


def _words(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(words)))


def _policy_words(variant: Variant) -> str:
    """Return the policy with its parameters as written; one of a commit is another policy than the one of that name."""
    parameters = [f"{name}={value}" for name, value in sorted(variant.parameters.items())]
    return " ".join([variant.policy, *parameters, *(["of a commit"] if variant.code else [])])


def _of_topology(topology: TopologyChoice, experiment: Experiment) -> tuple[Validity, int]:
    """Return the range of a topology and its tasks. If it cannot be read any more, only its name is known."""
    file = topology.file
    events = [event for event in experiment.events if getattr(event, "topology", None) in (None, topology.name)]
    partners = {experiment.testbed.machine_type, *map(_event_word, events)}
    try:
        record = work.topology_work(catalogue.render(file, topology.parameters, topology.overrides, topology.name))
    except TopologyError:
        pairs = _words(f"{file}{PAIR}{partner}" for partner in partners)
        return Validity(topologies=(f"{file} (which cannot be read)",), pairs=pairs), 0
    rates = [
        each.rate_per_s * factor
        for each in record.components
        if each.rate_per_s is not None
        for factor in _factors(events, each.name)
    ]
    cost_models = _words(each.cost_model for each in record.components if each.cost_model != "none") or ("none",)
    spouts = [each for each in record.components if each.kind == "spout"]
    queue = "any length" if record.buffer == inf else f"{record.buffer:.0f}"
    waits = (("spouts", record.spout_wait), ("bolts", record.bolt_wait))
    validity = Validity(
        topologies=(file,),
        cost_models=cost_models,
        pairs=_words(f"{file}{PAIR}{partner}" for partner in {*partners, *cost_models}),
        rates_per_s=(min(rates), max(rates)) if rates else None,
        sources=_words("unthrottled" if each.rate_per_s is None else "paced" for each in spouts),
        acking=("none" if not record.ackers else "acked" if record.pending is None else "limited",),
        workers=_one(record.workers),
        queues=(queue if record.limit == inf else f"at most {record.limit:.0f}",),
        waits=_words(
            f"{name} look for {1000 * wait.spin_s:g} ms, then sleep {1000 * wait.sleep_s:g} ms at a time"
            for name, wait in waits
        ),
    )
    return validity, sum(component.tasks for component in record.components)


UNKNOWN_TRACE = "trace of unknown rates"


def _event_word(event: AnyEvent) -> str:
    return UNKNOWN_TRACE if isinstance(event, Trace) and _trace_factors(event) is None else event.kind


def _factors(events: Iterable[AnyEvent], source: str) -> Iterator[float]:
    """Yield multiples of the submitted rate that a source has at some time of a run: 1, and those from events of its
    topology; for courses, the least and the most."""
    yield 1.0
    for event in events:
        if getattr(event, "source", None) not in (None, source):
            continue
        match event:
            case RateChange():
                yield event.factor
            case Sine():
                yield from (max(0.0, event.mean - event.amplitude), event.mean + event.amplitude)
            case Trace():
                yield from _trace_factors(event) or ()


def _trace_factors(event: Trace) -> Range | None:
    """Return least and most of its file; None if that is missing, or has changed."""
    path = ROOT / event.file
    try:
        if sha256_of(path) != event.sha256:
            return None
        factors = [factor for _, factor in rows_of(path, event.scale)]
    except (OSError, UnfitTrace):
        return None
    return min(factors), max(factors)


def outside(asked: Validity, validated: Validity) -> list[str]:
    """Return the parts of an experiment outside of the validated range: `topology star`, `80 machines (validated: 4 to
    9)`; then pairs of a topology and an event, machine type or cost model that were validated, but not together."""
    texts, gaps = [], []
    for name, words in WORDS.items():
        validated_words = getattr(validated, name)
        extras = [each for each in getattr(asked, name) if each not in validated_words or each == UNKNOWN_TRACE]
        if extras and not validated_words:
            gaps.append(words.strip(":"))
        elif extras:
            texts.append(f"{words} {', '.join(extras)} (validated: {', '.join(validated_words)})")
    for name, unit in UNITS.items():
        ends, validated_ends = getattr(asked, name), getattr(validated, name)
        if ends is not None and validated_ends is None:
            gaps.append(unit)
        elif ends is not None and (ends[0] < validated_ends[0] or ends[1] > validated_ends[1]):
            texts.append(f"{_range(ends)} {unit} (validated: {_range(validated_ends)})")
    validated_names = {*validated.events, *validated.machine_types, *validated.cost_models} - {UNKNOWN_TRACE}
    for pair in asked.pairs:
        topology, _, other = pair.partition(PAIR)
        if topology in validated.topologies and other in validated_names and pair not in validated.pairs:
            beginning = topology + PAIR
            partners = [each.removeprefix(beginning) for each in validated.pairs if each.startswith(beginning)]
            texts.append(f"{topology} with {other} (validated with: {', '.join(partners)})")
    return [*texts, f"of these nothing is on record: {', '.join(gaps)}"] if gaps else texts


def _range(ends: Range) -> str:
    low, high = (number(end) for end in ends)
    return low if low == high else f"{low} to {high}"
