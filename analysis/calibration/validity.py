"""What experiments are about, and what of one lies outside of what others were about: so a report says what of a
simulated run no real run has judged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from math import ceil, floor, inf
from typing import Any

from analysis.numerals import number
from analysis.record.simulated import simulated_facts
from analysis.record.small_tables import Row
from barograph import ROOT
from barograph.plan.events import AnyEvent, RateChange, Sine, Trace, machines_at_end
from barograph.plan.events.trace_file import UnfitTrace, rows_of, sha256_of
from barograph.plan.experiment import Experiment, TopologyChoice, Variant, recorded
from topologies import catalogue, work
from topologies.errors import TopologyError

PAIR = " + "  # between the two of Validity.pairs

Range = tuple[float, float]


@dataclass(frozen=True)
class Validity:
    """What experiments are about: of one, or of all that costs were judged on. Ranges are from least to most."""

    topologies: tuple[str, ...] = ()
    machine_types: tuple[str, ...] = ()
    scales: Range | None = None
    cost_models: tuple[str, ...] = ()
    rates_per_s: Range | None = None  # that a source component offers, also by what events make of it
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
    watches_s: Range | None = None  # from an event on, where it is watched until steady the least and the most
    periods: tuple[str, ...] = ()  # of the simulator: how long its steps are, how often lines, looks and rounds come
    side_by_side: Range | None = None  # topologies of a run
    changes: Range | None = None  # events of a run
    pairs: tuple[str, ...] = ()  # a topology with an event, a machine type and a cost model

    def __add__(self, other: Validity) -> Validity:
        def together(name: str) -> Any:
            mine, others = getattr(self, name), getattr(other, name)
            if name in WORDS or name == "pairs":
                return tuple(sorted({*mine, *others}))
            known = [each for each in (mine, others) if each is not None]
            return (min(low for low, _ in known), max(high for _, high in known)) if known else None

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
PERIODS = ("step_s", "sample_s", "look_s", "round_s")  # of the facts that a simulated run has on record


def validity_of_run(run: Row) -> Validity:
    """Of a simulated run, a row of the table `runs`: its own variant, and how it was simulated."""
    experiment = recorded({"spec": json.loads(run.get("spec") or "null")})
    if experiment is None:
        return Validity()
    variants = tuple(variant for variant in experiment.variants if variant.name == run.get("variant"))
    return validity_of(replace(experiment, variants=variants or experiment.variants), simulated_facts(run) or {})


def validity_of(experiment: Experiment, periods: Mapping[str, float]) -> Validity:
    """Of an experiment as a run has it on record, with the templates of topologies as they are today. `periods`: of its
    simulation, by PERIODS."""
    testbed, durations, events = experiment.testbed, experiment.durations, experiment.events
    found = Validity(
        machine_types=(testbed.machine_type,),
        scales=_one(testbed.scale),
        machines=_machines(experiment),
        events=tuple(sorted(set(map(_event_word, events)))),
        policies=tuple(sorted(set(map(_policy_words, experiment.variants)))),
        bandwidths=_one(testbed.bandwidth_mbit),
        joining=(testbed.joining,),
        watches_s=_whole_seconds(durations.after_floor_s, durations.horizon_s),
        side_by_side=_one(len(experiment.every_topology())),
        changes=_one(len(events)),
        periods=tuple(f"{name} {periods[name]:g}" for name in PERIODS if name in periods),
    )
    for variant in experiment.variants:
        tasks = 0
        for topology in experiment.topologies_of(variant):
            known, of_topology = _of_topology(topology, experiment)
            tasks += of_topology
            found += known
        found += Validity(tasks=_one(tasks) if tasks else None)
    return found


def _one(value: float) -> Range:
    return float(value), float(value)


def _whole_seconds(least: float, most: float) -> Range:
    """A run that is watched for 150 s by its file ends some milliseconds later."""
    return float(floor(least)), float(ceil(most))


def _machines(experiment: Experiment) -> Range:
    """The fewest and the most there may be at a time, whatever joins and leaves in between."""
    before = experiment.machines.before
    planned = [machines_at_end(before, experiment.events[:number]) for number in range(len(experiment.events) + 1)]
    possible = [*planned, *(experiment.machines.limits or ())]
    return float(min(possible)), float(max(possible))


def _policy_words(variant: Variant) -> str:
    """With its parameters as they are written, and that it is a commit's: another policy than the one of that name."""
    given = [f"{name}={value}" for name, value in sorted(variant.parameters.items())]
    return " ".join([variant.policy, *given, *(["of a commit"] if variant.code else [])])


def _of_topology(topology: TopologyChoice, experiment: Experiment) -> tuple[Validity, int]:
    """And its tasks. Of a topology that cannot be read any more that is said; nothing else is known of it."""
    file = topology.file
    events = [event for event in experiment.events if getattr(event, "topology", None) in (None, topology.name)]
    named = Validity(
        topologies=(file,), pairs=_pairs(file, {experiment.testbed.machine_type, *map(_event_word, events)})
    )
    try:
        known = work.topology_work(catalogue.render(file, topology.parameters, topology.overrides, topology.name))
    except TopologyError:
        return replace(named, topologies=(f"{file} (which cannot be read)",)), 0
    rates = [
        each.rate_per_s * factor
        for each in known.components
        if each.rate_per_s is not None
        for factor in _factors(events, each.name)
    ]
    costly = tuple(sorted({each.cost_model for each in known.components if each.cost_model != "none"}))
    offered = (min(rates), max(rates)) if rates else None
    sources = {
        "unthrottled" if each.rate_per_s is None else "paced" for each in known.components if each.kind == "spout"
    }
    acking = "none" if not known.ackers else "acked" if known.pending is None else "limited"
    found = named + Validity(
        cost_models=costly or ("none",), pairs=_pairs(file, costly or ("none",)), rates_per_s=offered,
        sources=tuple(sorted(sources)), acking=(acking,),
        workers=_one(known.workers), queues=("any length" if known.buffer == inf else f"{known.buffer:.0f}",),
        waits=tuple(sorted({_wait_words("spouts", known.spout_wait), _wait_words("bolts", known.bolt_wait)})),
    )  # fmt: skip
    return found, sum(component.tasks for component in known.components)


def _pairs(topology: str, others: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(f"{topology}{PAIR}{other}" for other in others))


def _wait_words(components: str, wait: work.IdleWait) -> str:
    return f"{components} look for {1000 * wait.spin_s:g} ms, then sleep {1000 * wait.sleep_s:g} ms at a time"


UNKNOWN_TRACE = "trace of unknown rates"


def _event_word(event: AnyEvent) -> str:
    return UNKNOWN_TRACE if isinstance(event, Trace) and _trace_factors(event) is None else event.kind


def _factors(events: Iterable[AnyEvent], source: str) -> Iterator[float]:
    """What the rate of a source is at some time of a run, as a multiple of the submitted one: 1, and what events of its
    topology say of it; of courses, the least and the most."""
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
    """Least and most of its file; None where that is not there, or is another by now."""
    path = ROOT / event.file
    try:
        if sha256_of(path) != event.sha256:
            return None
        factors = [factor for _, factor in rows_of(path, event.scale)]
    except (OSError, UnfitTrace):
        return None
    return min(factors), max(factors)


def outside(asked: Validity, validated: Validity) -> list[str]:
    """What of an experiment lies outside of what was validated: `topology star`, `80 machines (validated: 4 to 9)`."""
    found, unknown = [], []
    for name, words in WORDS.items():
        strange = [each for each in getattr(asked, name) if each not in _known_words(validated, name)]
        if strange and not getattr(validated, name):
            unknown.append(words.strip(":"))
        elif strange:
            found.append(f"{words} {', '.join(strange)} (validated: {', '.join(getattr(validated, name))})")
    for name, unit in UNITS.items():
        ends, known_ends = getattr(asked, name), getattr(validated, name)
        if ends is not None and known_ends is None:
            unknown.append(unit)
        elif ends is not None and (ends[0] < known_ends[0] or ends[1] > known_ends[1]):
            found.append(f"{_range(ends)} {unit} (validated: {_range(known_ends)})")
    said = [*found, *_strange_pairs(asked, validated)]
    return [*said, f"of these nothing is on record: {', '.join(unknown)}"] if unknown else said


def _known_words(validated: Validity, name: str) -> set[str]:
    return set(getattr(validated, name)) - {UNKNOWN_TRACE}


def _strange_pairs(asked: Validity, validated: Validity) -> Iterator[str]:
    """Of a topology and an event, machine type or cost model that were validated, and not together."""
    others = _known_words(validated, "events") | {*validated.machine_types, *validated.cost_models}
    for pair in asked.pairs if validated.pairs else ():  # else this is older than pairs are
        topology, _, other = pair.partition(PAIR)
        if topology in validated.topologies and other in others and pair not in validated.pairs:
            known = [each.removeprefix(topology + PAIR) for each in validated.pairs if each.startswith(topology + PAIR)]
            yield f"{topology} with {other} (validated with: {', '.join(known)})"


def _range(ends: Range) -> str:
    low, high = (number(end) for end in ends)
    return low if low == high else f"{low} to {high}"
