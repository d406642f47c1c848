"""What the components of rendered Flux YAML do to tuples, by their classes and the arguments of their constructors:
said once for the closed form (analysis.claims.capacity) and for the simulator. Pure.

The classes are those of `src/main/java`. Tuples are lines with a text, or of one size. How long texts are follows from
LogLines.java: their distribution is carried along the topology, so that mean and spread of a cost by the character are
known at every component.
Errors: UnknownWork (topologies/errors.py).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

import yaml

from topologies import catalogue, public_records
from topologies.errors import UnknownWork
from topologies.keys import Routes, Stream, TupleKey, routes, task_of

PACKAGE = "barograph.topologies"
BUFFER = "topology.executor.receive.buffer.size"
ACKERS = catalogue.ACKERS
PENDING = "topology.max.spout.pending"
TIMEOUT = "topology.message.timeout.secs"
TRAFFIC = "barograph.traffic"
QUEUE_LIMIT = "barograph.queue.limit"  # tuples that may wait for an executor of a bolt; of more the oldest are dropped
# Of Storm 2.8's defaults.yaml: how often WaitStrategyProgressive parks, and how long it sleeps then (ms).
DEFAULT_WAITS = {"spout": (0, 1.0), "bolt": (1000, 1.0)}
PARKS, SLEEP_MS = "level2.count", "level3.sleep.millis"
DEFAULT_TIMEOUT_S = 30.0
WAIT_SETTINGS = {kind: f"topology.{kind}.wait.progressive" for kind in DEFAULT_WAITS}
WAITS = tuple(f"{of}.{name}" for of in WAIT_SETTINGS.values() for name in (PARKS, SLEEP_MS))
# Storm's settings of a topology that are modelled; what others change, no closed form and no simulation knows.
MODELLED = frozenset({BUFFER, ACKERS, PENDING, TIMEOUT, *WAITS})
PARK_S = 6e-5  # that parkNanos(1) takes on Linux: the slack of its timers, 50 µs, and a little
UNBOUNDED = "unbounded"  # in place of a length of queues, as in Storm 0.9: no Storm 2 has that


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_whole_or_null(value: object, least: int) -> bool:
    return value is None or _is_whole(value, least)


# What a setting that is read here may be, in words, as Storm and our Java have it.
ALLOWED: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    BUFFER: (
        f"a whole number of 2 or more; {UNBOUNDED} on the simulated testbed",
        lambda value: value == UNBOUNDED or _is_whole(value, 2),
    ),
    ACKERS: ("a whole number of 0 or more, or null for one a worker", partial(_is_whole_or_null, least=0)),
    PENDING: ("a whole number of 1 or more, or null for any number", partial(_is_whole_or_null, least=1)),
    TIMEOUT: ("a whole number of 1 or more", partial(_is_whole, least=1)),
    **dict.fromkeys(WAITS, ("a whole number of 0 or more", partial(_is_whole, least=0))),
    TRAFFIC: ("true or false", lambda value: isinstance(value, bool)),
    QUEUE_LIMIT: ("a whole number of 1 or more", partial(_is_whole, least=1)),
}


def queue_length(setting: object) -> float:
    """Return the tuples that a receive queue holds: JCTools' array has a power of two places."""
    return float(1 << (setting - 1).bit_length()) if isinstance(setting, int) else math.inf


def setting_errors(config: object) -> Iterator[str]:
    """Of `overrides.config`: settings that are read here, with a value that they cannot have."""
    for key, value in config.items() if isinstance(config, Mapping) else ():  # what is no mapping is said elsewhere
        words, is_allowed = ALLOWED.get(key, ("", lambda _: True))
        if not is_allowed(value):
            shown = json.dumps(value, default=str)
            yield f"overrides.config: {key} is {shown}; allowed: {words}; change it, or leave it out"
        elif key == catalogue.PARAMETERS:
            yield f"overrides.config: {key} is no setting of Storm; give topology.parameters"


def queue_limit_errors(flux: str) -> Iterator[str]:
    """Yield, of rendered Flux YAML, why a limit on queues could not be kept: a queue that is too short for it, so that
    Storm's back-pressure would act first, and bolts that drop nothing."""
    document = yaml.safe_load(flux)
    if (limit := document["config"].get(QUEUE_LIMIT)) is None:
        return
    where, room = f"overrides.config: {QUEUE_LIMIT} is {limit}", queue_length(document["config"].get(BUFFER))
    if limit > room / 2:
        yield (
            f"{where}; allowed: 1 to {room / 2:.0f}, half of the {room:.0f} tuples that {BUFFER} has room for, or a"
            f" full queue would hold back who feeds it before anything is dropped; lower it, or set {BUFFER} to"
            f" {2 * limit}"
        )
    others = [each["id"] for each in document.get("bolts") or () if not each["className"].startswith(f"{PACKAGE}.")]
    if others or catalogue.has_state(document):
        whose = f"{', '.join(others)}: bolts that are not ours drop" if others else "a bolt with state drops"
        yield f"{where}, and {whose} nothing; leave it out, or take a topology of {PACKAGE} without state"


Lengths = Mapping[int, float]  # characters of a text -> share of the texts
# As LogLines.java draws them: 70 % are short and the others long, each uniformly.
SHORT, LONG, SHORT_SHARE = range(6, 41), range(41, 121), Fraction(7, 10)
SOURCE_LENGTHS: Lengths = {
    **{length: float(SHORT_SHARE / len(SHORT)) for length in SHORT},
    **{length: float((1 - SHORT_SHARE) / len(LONG)) for length in LONG},
}
SOURCE_CHARACTERS = float(
    SHORT_SHARE * Fraction(sum(SHORT), len(SHORT)) + (1 - SHORT_SHARE) * Fraction(sum(LONG), len(LONG))
)
AGGREGATE_CHARACTERS = 8.0  # that AggregateBolt appends
HASHTAG_CHARACTERS = 8.0  # that TweetSpout appends, after a space
MOVIE_CHARACTERS, SIMILAR_CHARACTERS = 8.0, 16.0  # of a movie's name, and of an entry in its list

# Of a Line as Storm 2 and Kryo write it, in bytes beside the text: the message's head (task, stream and an empty
# message id, one each), how many values (1), and of each value its class (1) and the number itself.
# text: its length; id: up to 1,023, zigzag; count: up to a million; source_machine: `m1`; due_ms: a double.
LINE_BYTES = 3 + 1 + (1 + 1) + (1 + 2) + (1 + 3) + (1 + 2) + (1 + 8)
# Of the others: the same head and the same two last fields, and of each value between them its class and the value. A
# name of more than 32 characters has its length before it, of 34 to 80 in one byte or two; a short one, and an array of
# bytes of less than 64, in none and one. value: an integer that counts on; day: of the epoch, where one lasts seconds.
ENDS_BYTES = 3 + 1 + (1 + 2) + (1 + 8)
KEY_BYTES = 16
VALUE_BYTES = 1 + 3
SYMBOL_BYTES, NAME_BYTES, DAY_BYTES, NUMBER_BYTES = 1 + 6, 1 + 1.5 + public_records.MEAN_NAME, 1 + 5, 1 + 8
# With ackers a message id has its tree's number and its own, of eight bytes each. What is sent to ackers and back has
# random numbers of 64 bits, which Kryo writes in nine: `__ack_init` the tree's, one of all first tuples, the task;
# `__ack_ack` the tree's and the tuple's; back to the spout the tree's and milliseconds.
ANCHOR_BYTES = 8 + 8
INIT_BYTES = 3 + 1 + (1 + 9) + (1 + 9) + (1 + 2)
ACK_BYTES = 3 + 1 + (1 + 9) + (1 + 9)
COMPLETE_BYTES = 3 + 1 + (1 + 9) + (1 + 1)


@dataclass(frozen=True)
class ComponentWork:
    """`rate_per_s`: offered by a spout component, None of a bolt and of a spout that emits as fast as Storm lets it.
    `ms_per_character`: what a character of a text that comes in costs. `passes`: share of the tuples that are sent on;
    `keeps`, `appends`: share of a text that stays, characters that are added. `tuple_bytes`: of a tuple that it emits;
    None of a line, which has a text. `word_characters`: of a bolt that splits a source's lines into words. `shift`: of
    a spout whose tasks have a key each, how many places further its target is. `topic_weights`: of a spout of tweets,
    by topic, which is the id of what is taken out of them."""

    name: str
    kind: Literal["spout", "bolt"]
    tasks: int
    executors: int
    rate_per_s: float | None = None
    on_restart: str = "catch_up"
    cost_model: str = "none"
    ms_per_character: float = 0.0
    passes: float = 1.0
    keeps: float = 1.0
    appends: float = 0.0
    tuple_bytes: float | None = None
    word_characters: int | None = None
    shift: int | None = None
    topic_weights: tuple[float, ...] = ()

    @property
    def is_unthrottled(self) -> bool:
        return self.kind == "spout" and self.rate_per_s is None

    def sent_on(self, lengths: Lengths) -> Lengths:
        """Lengths of what it emits, of those that arrive. TransformBolt rounds half up, as Java does."""
        found: dict[int, float] = {}
        if size := self.word_characters:
            words = [(length, share / self.passes) for length, share in lengths.items()]
            found = {size: math.fsum(share * (length // size) for length, share in words)}
            for length, share in words:
                if rest := length % size:
                    found[rest] = found.get(rest, 0.0) + share
            return found
        for length, share in lengths.items():
            kept = math.floor(self.keeps * length + 0.5) + round(self.appends)
            found[kept] = found.get(kept, 0.0) + share
        return found


@dataclass(frozen=True)
class IdleWait:
    """How an executor looks for tuples while there are none: again and again for `spin_s`, then every `sleep_s`."""

    spin_s: float
    sleep_s: float


@dataclass(frozen=True)
class TopologyWork:
    """`buffer`: tuples in the receive queue of an executor; `limit`: those that may wait in that of a bolt. `ackers`:
    executors of Storm's acker; `pending`: trees of tuples that a task of a spout may have in flight, None: any number;
    `timeout_s`: until one is given up. `lengths`: by component, of the texts that it gets; of a spout, that it draws.
    `has_traffic`: its workers count tuples by pair of tasks. `routes`: of the streams of which it is known which task
    sends to which."""

    name: str
    workers: int
    components: tuple[ComponentWork, ...]
    edges: tuple[catalogue.EdgeSpec, ...]
    buffer: float
    limit: float
    spout_wait: IdleWait
    bolt_wait: IdleWait
    ackers: int
    pending: int | None
    timeout_s: float
    has_traffic: bool
    lengths: Mapping[str, Lengths]
    routes: Mapping[Stream, Routes]

    def component(self, name: str) -> ComponentWork:
        return next(component for component in self.components if component.name == name)

    def sent_bytes(self, source: str) -> float:
        """Of one tuple that this component emits, between two workers, without Storm's frame around it."""
        component = self.component(source)
        if component.tuple_bytes is not None:
            return component.tuple_bytes
        return tuple_bytes(component.sent_on(self.lengths[source]))


def mean(lengths: Lengths) -> float:
    return math.fsum(length * share for length, share in lengths.items())


def squared_variation(lengths: Lengths) -> float:
    """Variance over the square of the mean."""
    middle = mean(lengths)
    variance = math.fsum(share * (length - middle) ** 2 for length, share in lengths.items())
    return variance / middle**2 if middle else 0.0


def tuple_bytes(lengths: Lengths) -> float:
    """Of one tuple between two workers, without Storm's frame around it."""
    return LINE_BYTES + mean(lengths)


def keyed_bytes(size: int) -> float:
    """Of a tuple of KeySpout with so many bytes of key and payload."""
    payload = size - KEY_BYTES
    length = 1 if payload < 127 else 2 if payload < 16_383 else 3
    return ENDS_BYTES + (1 + 1 + KEY_BYTES) + (1 + length + payload if payload else 0)


# Of opengov's tuples, by the class that emits them.
RECORD_BYTES: Mapping[str, float] = {
    "opengov.QuoteSpout": ENDS_BYTES + SYMBOL_BYTES + NAME_BYTES + DAY_BYTES + NUMBER_BYTES,
    "opengov.PriceRangeBolt": ENDS_BYTES + SYMBOL_BYTES + NAME_BYTES + DAY_BYTES + 2 * NUMBER_BYTES,
    "opengov.PriceRatioBolt": ENDS_BYTES + SYMBOL_BYTES + NAME_BYTES + DAY_BYTES + NUMBER_BYTES,
    "opengov.SurgeFilterBolt": ENDS_BYTES + SYMBOL_BYTES + NAME_BYTES + DAY_BYTES + NUMBER_BYTES,
    "opengov.ContractSpout": ENDS_BYTES + NAME_BYTES + DAY_BYTES + NUMBER_BYTES,
    "opengov.ParentBolt": ENDS_BYTES + NAME_BYTES + DAY_BYTES + NUMBER_BYTES,
    "opengov.AwardJoinBolt": ENDS_BYTES + NAME_BYTES + DAY_BYTES + 2 * NUMBER_BYTES,
}
KNOWN = (
    *("SourceSpout", "PassBolt", "SinkBolt", "TransformBolt", "FilterBolt", "AggregateBolt", "SplitBolt", "JoinBolt"),
    *("KeySpout", "RelayBolt", "CounterSpout", "CounterBolt", "EndBolt", *RECORD_BYTES),
    *("TweetSpout", "ExtractBolt", "TopNBolt", "RatingSpout", "HistoryBolt", "SimilarBolt"),
)


def component_work(shape: catalogue.ComponentSpec, arguments: Sequence[Any]) -> ComponentWork:
    """By its class; the arguments are those of its Java constructor. Raises UnknownWork for a class not ours."""
    name = shape.class_name.removeprefix(f"{PACKAGE}.") if shape.class_name.startswith(f"{PACKAGE}.") else None
    own: dict[str, Any]
    match name, list(arguments):
        case "SourceSpout", [rate_per_s, _, bool(unthrottled), on_restart]:
            own = _paced(rate_per_s, unthrottled, on_restart)
        case (("PassBolt" | "SinkBolt"), [cost_model, ms_per_character]):
            own = _cost(cost_model, ms_per_character)
        case "TransformBolt", [cost_model, ms_per_character, keeps]:
            own = _cost(cost_model, ms_per_character) | {"keeps": float(keeps)}
        case "FilterBolt", [cost_model, ms_per_character, passes, _]:
            own = _cost(cost_model, ms_per_character) | {"passes": float(passes)}
        case "AggregateBolt", [cost_model, ms_per_character]:
            own = _cost(cost_model, ms_per_character) | {"appends": AGGREGATE_CHARACTERS}
        case "SplitBolt", [cost_model, ms_per_character, int(size)]:
            words = math.fsum(math.ceil(length / size) * share for length, share in SOURCE_LENGTHS.items())
            own = _cost(cost_model, ms_per_character) | {"passes": words, "word_characters": size}
        case "JoinBolt", [cost_model, ms_per_character, _, _]:
            own = _cost(cost_model, ms_per_character) | {"appends": AGGREGATE_CHARACTERS}
        case "KeySpout", [rate_per_s, _, bool(unthrottled), on_restart, int(size), int(shift)]:
            own = _paced(rate_per_s, unthrottled, on_restart) | {"tuple_bytes": keyed_bytes(size), "shift": shift}
        case "RelayBolt", [int(size)]:
            own = {"tuple_bytes": keyed_bytes(size)}
        case "CounterSpout", [rate_per_s, bool(unthrottled), on_restart, _]:
            own = _paced(rate_per_s, unthrottled, on_restart) | {"tuple_bytes": ENDS_BYTES + VALUE_BYTES}
        case "CounterBolt", [int(stage), int(fan_out_stage), fan_out]:
            passes = float(fan_out) if stage == fan_out_stage else 1.0
            own = {"passes": passes, "tuple_bytes": ENDS_BYTES + VALUE_BYTES}
        case "EndBolt", []:
            own = {}
        case "TweetSpout", [rate_per_s, _, bool(unthrottled), on_restart, int(topics), skew]:
            own = _paced(rate_per_s, unthrottled, on_restart) | {"appends": 1 + HASHTAG_CHARACTERS}
            own["topic_weights"] = tuple((topic + 1.0) ** -skew for topic in range(topics))
        case "ExtractBolt", [cost_model, ms_per_character]:
            own = _cost(cost_model, ms_per_character) | {"keeps": 0.0, "appends": HASHTAG_CHARACTERS}
        case "TopNBolt", [cost_model, ms_per_character, int(), int()]:
            own = _cost(cost_model, ms_per_character)
        case "RatingSpout", [rate_per_s, _, bool(unthrottled), on_restart, *_]:
            own = _paced(rate_per_s, unthrottled, on_restart) | {"keeps": 0.0, "appends": MOVIE_CHARACTERS}
        case "HistoryBolt", [cost_model, ms_per_character, int(size)]:
            own = _cost(cost_model, ms_per_character) | {"keeps": 0.0, "appends": MOVIE_CHARACTERS}
            own["passes"] = 2.0 * size
        case "SimilarBolt", [cost_model, ms_per_character, int(size)]:
            own = _cost(cost_model, ms_per_character) | {"keeps": 0.0, "appends": SIMILAR_CHARACTERS * size}
        case "opengov.QuoteSpout" | "opengov.ContractSpout", [rate_per_s, _, bool(unthrottled), on_restart, *_]:
            own = _paced(rate_per_s, unthrottled, on_restart) | {"tuple_bytes": RECORD_BYTES[name]}
        case str(), _ if name in RECORD_BYTES:
            own = {"tuple_bytes": RECORD_BYTES[name]}
        case _:
            raise UnknownWork(
                f"component {shape.name}: what {shape.class_name} with {len(arguments)} arguments does to a tuple is"
                f" not known; known are {', '.join(KNOWN)} of {PACKAGE}"
            )
    return ComponentWork(shape.name, shape.kind, shape.tasks, shape.executors, **own)


def _paced(rate_per_s: Any, unthrottled: bool, on_restart: str) -> dict[str, Any]:
    return {"rate_per_s": None if unthrottled else float(rate_per_s), "on_restart": on_restart}


def _cost(cost_model: str, ms_per_character: Any) -> dict[str, Any]:
    return {"cost_model": cost_model, "ms_per_character": 0.0 if cost_model == "none" else float(ms_per_character)}


def topology_work(flux: str) -> TopologyWork:
    """Of rendered Flux YAML. Raises UnknownWork for a class that is not ours, or cycles."""
    document = yaml.safe_load(flux)
    shape = catalogue.topology_of_flux(document["name"], document)
    config = document["config"]
    if catalogue.has_state(document):
        raise UnknownWork(
            f"topology {shape.name} has state: what a checkpoint costs and what a restore takes is not modelled. Take"
            " machines (testbed local, ec2, emulab or existing), or on the simulated testbed the topology without state"
        )
    components = components_of(document, shape)
    lengths = text_lengths(shape.name, components, shape.edges)
    ackers = config.get(ACKERS)
    return TopologyWork(
        name=shape.name,
        workers=shape.workers,
        components=components,
        edges=shape.edges,
        buffer=queue_length(config.get(BUFFER, UNBOUNDED)),
        limit=float(config.get(QUEUE_LIMIT, math.inf)),
        spout_wait=_idle_wait(config, "spout"),
        bolt_wait=_idle_wait(config, "bolt"),
        ackers=shape.workers if ackers is None else int(ackers),  # without a number Storm takes one a worker
        pending=None if config.get(PENDING) is None else int(config[PENDING]),
        timeout_s=float(config.get(TIMEOUT) or DEFAULT_TIMEOUT_S),
        has_traffic=bool(config.get(TRAFFIC, False)),
        lengths=lengths,
        routes=task_routes(document, shape, components, tuple(lengths)),
    )


def _idle_wait(config: Mapping[str, Any], kind: Literal["spout", "bolt"]) -> IdleWait:
    parks, sleep_ms = DEFAULT_WAITS[kind]
    where = WAIT_SETTINGS[kind]
    parks, sleep_ms = config.get(f"{where}.{PARKS}", parks), config.get(f"{where}.{SLEEP_MS}", sleep_ms)
    return IdleWait(parks * PARK_S, sleep_ms / 1000.0)


def components_of(document: Mapping[str, Any], shape: catalogue.TopologySpec) -> tuple[ComponentWork, ...]:
    """In the order of the shape, which is that of the Flux YAML `document`. Raises UnknownWork."""
    vertices = {vertex["id"]: vertex for vertex in (*document["spouts"], *document["bolts"])}
    passing = {f"{public_records.PACKAGE}.{name}": share for name, share in public_records.passing(document).items()}
    found = [component_work(each, vertices[each.name].get("constructorArgs", ())) for each in shape.components]
    spouts = [vertex for vertex in document["spouts"] if vertex["className"] == f"{PACKAGE}.RatingSpout"]
    for each, work in zip(shape.components, found, strict=True):
        if each.class_name == f"{PACKAGE}.HistoryBolt":  # only a fan's rating makes pairs
            passing[each.class_name] = work.passes * max((spout["constructorArgs"][8] for spout in spouts), default=1.0)
    return tuple(
        replace(work, passes=passing.get(each.class_name, work.passes))
        for each, work in zip(shape.components, found, strict=True)
    )


def task_routes(
    document: Mapping[str, Any],
    shape: catalogue.TopologySpec,
    components: Sequence[ComponentWork],
    order: Sequence[str],
) -> dict[Stream, Routes]:
    """Where what keys a source emits is known. Raises UnknownWork where keys of one task each meet other numbers of
    tasks: Java chooses them for as many tasks as the spout has."""
    tasks = {component.name: component.tasks for component in components}
    sources = dict(public_records.keys(document))
    for component in components:
        if component.shift is not None:
            if len(set(tasks.values())) > 1:
                sizes = ", ".join(f"{name} {size}" for name, size in tasks.items())
                raise UnknownWork(
                    f"topology {shape.name}: where the keys of {component.name} go is known only where all components"
                    f" have as many tasks as it; there are {sizes}"
                )
            # 31 is what Java's hash code of a list of one value adds to that of the value.
            sources[component.name] = tuple(
                TupleKey(1.0 / component.tasks, task, {"key": (task + component.shift) % component.tasks - 31})
                for task in range(component.tasks)
            )
    found = routes(order, shape.edges, tasks, sources)
    for weights in (component.topic_weights for component in components if component.topic_weights):
        total = math.fsum(weights)
        for edge in shape.edges:
            if edge.grouping in catalogue.KEYED and edge.fields == ("id",):  # over machines as over tasks
                shares = dict.fromkeys(range(tasks[edge.target]), 0.0)
                for topic, weight in enumerate(weights):
                    shares[task_of(topic, len(shares))] += weight / total
                found[edge.source, edge.stream, edge.target] = (tuple(shares.items()),) * tasks[edge.source]
    return found


def text_lengths(
    name: str, components: Sequence[ComponentWork], edges: Sequence[catalogue.EdgeSpec]
) -> dict[str, Lengths]:
    """By component. Where streams join, they are mixed as they would be if no component held any of them up."""
    by_name = {component.name: component for component in components}
    sources: dict[str, list[str]] = {component.name: [] for component in components}
    for edge in edges:
        sources[edge.target].append(edge.source)
    try:
        order = tuple(TopologicalSorter(sources).static_order())
    except CycleError as error:
        circle = ",".join(sorted(set(error.args[1])))
        raise UnknownWork(
            f'topology {name} contains cycles in components "{circle}"; how long the texts in them are is not known'
        ) from error
    rates: dict[str, float] = {}
    found: dict[str, Lengths] = {}
    for each in order:
        component = by_name[each]
        streams = [(rates[source], by_name[source].sent_on(found[source])) for source in sources[each]]
        arriving = math.fsum(rate for rate, _ in streams)
        mixed: dict[int, float] = {}
        for rate, lengths in streams:
            for length, share in lengths.items():
                mixed[length] = mixed.get(length, 0.0) + share * rate / arriving
        found[each] = mixed if streams else SOURCE_LENGTHS
        if component.word_characters and any(by_name[source].kind == "bolt" for source in sources[each]):
            raise UnknownWork(
                f"component {each}: how many words it makes is known only of lines that a source sends it"
            )
        rates[each] = (arriving if streams else component.rate_per_s or 1.0) * component.passes
    return found
