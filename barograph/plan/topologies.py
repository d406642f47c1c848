"""The topologies of an experiment: what runs, many of one kind in one entry, and what differs in a variant. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from operator import not_
from typing import Annotated, Any

from pydantic import Field

from barograph.errors import ExperimentError
from barograph.yaml_files import CLOSED, Text, Word, put_at, validated
from scheduler_plugins.model import SINKS

MOST_TOPOLOGIES = 1000
COUNT, EACH = "count", "each"
Each = Annotated[Mapping[str, tuple[Any, ...]], Field(exclude_if=not_)]
MeasuredAt = Annotated[Text, Field(exclude_if=SINKS.__eq__)]


@dataclass(frozen=True)
class ServiceLevelChoice:
    """What a topology's owner asks for (HP 4.1): latency, juice, or both, and what it is worth."""

    latency_ms: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] | None = None  # at most
    juice: Annotated[float, Field(strict=True, gt=0, le=1)] | None = None  # at least
    max_utility: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] = 1.0  # earned where it is met


@dataclass(frozen=True)
class TopologyChoice:
    """A topology, one of `topologies/flux/`."""

    __pydantic_config__ = CLOSED
    name: Word  # in Storm; also the file's name, such as star, unless `flux` says another
    parameters: Mapping[str, Any] = field(default_factory=dict)  # the file's placeholders, see policies.md
    overrides: Mapping[str, Any] = field(default_factory=dict)  # Storm settings of the topology, and `workers`
    flux: Word | None = None  # the file's name, where the topology has another one in Storm
    service_level: ServiceLevelChoice | None = None  # what its owner asks for; policies see it
    throughput: MeasuredAt = SINKS  # where it is measured: sinks or spouts, all together, or the name of a component
    count: Annotated[int, Field(strict=True, ge=1, le=MOST_TOPOLOGIES)] | None = None  # so many: name_1, name_2, …
    each: Each = field(default_factory=dict)  # with count: what differs, by keys with dots; a list of `count` values

    @property
    def file(self) -> str:
        """Return its name in `topologies/flux/`."""
        return self.flux or self.name


@dataclass(frozen=True)
class TopologyChanges:
    """What differs in a variant's topology; it is laid over that of the experiment, key by key."""

    parameters: Mapping[str, Any] = field(default_factory=dict)  # as there
    overrides: Mapping[str, Any] = field(default_factory=dict)  # as there; `tasks`, `executors`, `config` by their keys

    def words(self) -> str:
        """Return a text such as `parameters.ms_per_character = 0.22, overrides.config.topology.some.setting = 1`."""
        changes = {"parameters": self.parameters, "overrides": self.overrides}
        return ", ".join(f"{key} = {json.dumps(value)}" for key, value in _flat_values(changes))


def _flat_values(data: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value that is no mapping, by its keys with dots between them."""
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat_values(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `above` over `below`; mappings that both have are merged."""
    shared_keys = [key for key in above if isinstance(above[key], Mapping) and isinstance(below.get(key), Mapping)]
    return {**below, **above, **{key: {**below[key], **above[key]} for key in shared_keys}}


def one_of_each_kind(topologies: Iterable[TopologyChoice]) -> list[TopologyChoice]:
    """Return the first of those that differ in nothing but name and service level, in their order."""
    kinds: dict[str, TopologyChoice] = {}
    for each in topologies:
        key = json.dumps([each.file, each.parameters, each.overrides, each.throughput], sort_keys=True)
        kinds.setdefault(key, each)
    return list(kinds.values())


def names_text(names: Sequence[str]) -> str:
    """Return names for a sentence: `a, b, c`, or of many `a, b, c and 17 more`."""
    return ", ".join(names) if len(names) <= 5 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def with_each_topology(data: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return an experiment's data in which an entry with `count` is so many entries, and its name in events and in
    variants stands for all of theirs. `data` has the shape of an experiment. Raises ExperimentError."""
    entries = data.get("topologies") or ()
    names = [entry["name"] for entry in entries]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ExperimentError(f"{source}: topologies has the name {', '.join(twice)} twice; name each one")
    if (number := sum(entry.get(COUNT) or 1 for entry in entries)) > MOST_TOPOLOGIES:
        raise ExperimentError(f"{source}: topologies are {number}, by their counts; allowed: at most {MOST_TOPOLOGIES}")
    topologies: list[Mapping[str, Any]] = []
    jobs: dict[str, list[str]] = {}
    for place, entry in enumerate(entries):
        copies = [entry] if entry.get(COUNT) is None else _copies(entry, f"topologies.{place}", source)
        topologies += copies
        jobs[entry["name"]] = [each["name"] for each in copies]

    def changes_of(variant: Mapping[str, Any]) -> dict[str, Any]:
        pairs = [(job, each) for name, each in variant["topologies"].items() for job in jobs.get(name, [name])]
        names = [job for job, _ in pairs]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            where = f"{source}: variants.{variant['name']}.topologies"
            raise ExperimentError(f"{where} has {', '.join(twice)} twice, by its name and by that of its entry")
        return dict(pairs)

    return {
        **data,
        "topologies": topologies,
        "events": [
            {**event, "topologies": [job for name in event["topologies"] for job in jobs.get(name, [name])]}
            if "topologies" in event else event for event in data["events"]
        ],
        "variants": [
            {**variant, "topologies": changes_of(variant)} if variant.get("topologies") else variant
            for variant in data["variants"]
        ],
    }  # fmt: skip


def _copies(entry: Mapping[str, Any], where: str, source: str) -> list[dict[str, Any]]:
    number, fields = entry[COUNT], entry.get(EACH) or {}
    for path, values in fields.items():
        if path.split(".")[0] in ("name", COUNT, EACH):
            raise ExperimentError(f"{source}: {where}.{EACH} has {path}; allowed: the other fields of a topology")
        if len(values) != number:
            raise ExperimentError(
                f"{source}: {where}.{EACH}.{path} has {len(values)} values; allowed: {number}, one for each of {COUNT}"
            )
    copies = []
    for place in range(number):
        copy = {key: deepcopy(value) for key, value in entry.items() if key not in (COUNT, EACH)}
        copy |= {"name": f"{entry['name']}_{place + 1}", "flux": entry.get("flux") or entry["name"]}
        for path, values in fields.items():
            put_at(copy, path, values[place], f"{source}: {where}.{EACH} has {path}, but")
        validated(TopologyChoice, copy, source=f"{source}: {where} ({copy['name']})")
        copies.append(copy)
    return copies
