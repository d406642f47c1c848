"""An experiment as data: `dags/experiments/<family>/<name>.yaml`, validated into frozen dataclasses, and the changes
that a trigger form or a command line may make. Errors name the file, the field, the value and what is allowed.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, Field, StringConstraints

from barograph import ROOT
from barograph.errors import ExperimentError
from barograph.plan.events import AnyEvent
from barograph.plan.events.kind import MachineNumber, Seconds
from barograph.plan.events.order import (
    all_workers,
    joining_workers,
    limit_errors,
    machines_at_end,
    names_after,
    order_errors,
    rest_s,
    starting_workers,
    topologies_at_start,
)
from barograph.plan.events.rates import Trace
from barograph.plan.search import SEARCH
from barograph.plan.topologies import (
    MOST_TOPOLOGIES,
    TopologyChanges,
    TopologyChoice,
    laid_over,
    names_text,
    with_each_topology,
)
from barograph.yaml_files import CLOSED, PathText, Text, Word, adapter, check_path, no_json, read_yaml, validated

EXPERIMENTS = ROOT / "dags" / "experiments"
SIMULATED = "simulated"  # the testbed's name
WHOLE_CLUSTER = "all"  # in the place of a topology's name, where something is of all of a run
SWEEP = "sweep"  # the key of a file that is many experiments (plan.sweep)
LARGEST_SEED = 2**31 - 1
Seed = Annotated[int, Field(strict=True, ge=0, le=LARGEST_SEED)]
FOREIGN = "foreign"  # the policy that hosts a scheduler which is not ours


Topologies = Annotated[tuple[TopologyChoice, ...], Field(max_length=MOST_TOPOLOGIES, exclude_if=operator.not_)]


@dataclass(frozen=True)
class TestbedChoice:
    """Where machines come from, and what they are."""

    name: Word  # local, simulated, ec2, emulab, existing
    machine_type: Word  # a type of inventory/machine_types.yaml
    scale: Annotated[float, Field(strict=True, ge=0.01, le=1)] = 1.0  # of the type's cores and memory, if emulated
    bandwidth_mbit: Annotated[float, Field(strict=True, ge=1, le=100_000, multiple_of=1)] = 100.0  # of each machine
    joining: Literal["ready", "booted"] = "ready"  # machines that join: up before the run, or started at the event
    options: Mapping[Word, Mapping[str, Any]] = field(default_factory=dict)  # by testbed; each knows its own
    __test__ = False  # pytest would collect it by its name


Groups = Annotated[Mapping[Word, MachineNumber], Field(exclude_if=operator.not_)]


@dataclass(frozen=True)
class MachineCount:
    """Workers, without the master."""

    before: MachineNumber  # at the start
    after: MachineNumber  # by the events alone, when all are over; one that crashed and stays down still counts
    min: MachineNumber | None = None  # that a policy may have in a hold, by its own requests; without it: `before`
    max: MachineNumber | None = None  # the same, at the most; without `min` and `max` it may ask for nothing
    groups: Groups = field(default_factory=dict)  # name → machines of the start in it, in the order of their numbers

    @property
    def limits(self) -> tuple[int, int] | None:
        """Return the least and the largest number of machines for a policy's own requests; None: it may ask for
        nothing."""
        if self.min is None and self.max is None:
            return None
        return self.min or self.before, self.max or self.before


@dataclass(frozen=True)
class Code:
    """Where a variant's scheduling code comes from; one that is not ours has a jar and a class in it.

    People write `ref`; a series has recorded its commit, and the ref as `label`. A jar without git is its own
    `repository`; its `commit` is the SHA-256 of its content.
    """

    label: str = ""  # its name in reports; without it: the ref, or the jar's name
    commit: Annotated[str, Field(validation_alias=AliasChoices("ref", "commit"))] = ""  # a branch, a tag or a commit
    repository: Annotated[str, AfterValidator(check_path)] = ""  # of another repository: its folder, or a URL for git
    build: tuple[Text, ...] = ()  # a program and its arguments, run in a clone of the commit
    jar: Annotated[str, AfterValidator(check_path)] = ""  # in the checkout after the build; without ref: of a file
    scheduler: str = ""  # the class in the jar that implements IScheduler
    files: tuple[PathText, ...] = ()  # its own, such as a placement: in the checkout after the build; else as the jar
    files_sha256: str | None = None  # of their contents without git; a series has recorded it

    def __post_init__(self) -> None:
        if self.jar and self.scheduler and not (self.commit or self.repository or self.build):
            object.__setattr__(self, "repository", str(Path(self.jar).expanduser().absolute()))
            object.__setattr__(self, "jar", Path(self.jar).name)
            object.__setattr__(self, "files", tuple(str(Path(each).expanduser().absolute()) for each in self.files))
        if not self.label:
            object.__setattr__(self, "label", self.jar if self.is_jar_file else self.commit)

    @property
    def is_jar_file(self) -> bool:
        """Return whether `repository` is a jar on this box, and not a git repository."""
        where = self.repository
        return bool(self.scheduler) and not self.build and where.endswith(".jar") and "://" not in where


ChangesByName = Annotated[Mapping[Word, TopologyChanges], Field(exclude_if=operator.not_)]


@dataclass(frozen=True)
class Variant:
    """What is compared: a policy with parameters, perhaps with code of its own, or on a topology that differs."""

    name: Word  # as figures and commands call it
    policy: Word  # see policies.md
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of the policy
    code: Code | None = None  # where its scheduling code comes from; without it: the work tree
    topology: TopologyChanges | None = None  # what differs in its topology; without it: nothing
    topologies: ChangesByName = field(default_factory=dict)  # of several: as `topology`, by name or that of an entry

    def __post_init__(self) -> None:
        if self.topology == TopologyChanges():
            object.__setattr__(self, "topology", None)

    def topology_words(self) -> str:
        """Return what differs in its topologies; empty where nothing does. Equal changes are told once."""
        if self.topology is not None:
            return self.topology.words()
        names: dict[str, list[str]] = {}
        for name, each in self.topologies.items():
            names.setdefault(each.words(), []).append(name)
        return "; ".join(f"{names_text(group)}: {words}" for words, group in names.items())

    @property
    def wait_s(self) -> int:
        """Return the seconds that Storm waits before it carries out a rebalance of this variant."""
        stated = self.parameters.get("wait_s")
        return stated if isinstance(stated, int) else 0  # `testbeds.checks` refuses other values

    def configured(self) -> dict[str, Any]:
        """Return the parameters for the policy service: a foreign scheduler is named by its code."""
        theirs = {"scheduler": self.code.scheduler} if self.code is not None and self.code.scheduler else {}
        return {**self.parameters, **theirs}


@dataclass(frozen=True)
class Durations:
    """Seconds. Warm-up counts from the first tuple; what follows an event counts from its zero."""

    warm_up_floor_s: Seconds  # before the first event, at least; steadiness is tested from then on
    warm_up_ceiling_s: Seconds  # then the first event comes, steady or not
    after_floor_s: Seconds  # after an event, at least; steadiness is tested from then on
    horizon_s: Seconds  # after an event, at most; equal to after_floor_s: always, as times of convergence need

    @property
    def is_watch_fixed(self) -> bool:
        """Return whether every run is watched for the same time: then no horizon depends on our own test."""
        return self.after_floor_s == self.horizon_s


@dataclass(frozen=True)
class Experiment:
    """The keys of the YAML file, whose path gives the name."""

    __pydantic_config__ = CLOSED
    name: str  # family/name
    title: Text  # one line, for reports
    topology: TopologyChoice | None = field(default=None, kw_only=True)  # what runs; or `topologies`
    topologies: Topologies = field(default=(), kw_only=True)  # of several: what runs
    testbed: TestbedChoice  # where it runs
    machines: MachineCount  # on how many
    variants: Annotated[tuple[Variant, ...], Field(min_length=1)]  # what is compared
    events: Annotated[tuple[AnyEvent, ...], Field(min_length=1, max_length=1000)]  # what happens, in this order
    durations: Durations  # how long it is watched
    repetitions: Annotated[int, Field(strict=True, ge=1, le=1000)]  # of each variant; one of each makes a block
    seed: Seed  # of the order of runs, of the sources' texts, of simulated speeds
    lease_minutes: Annotated[float, Field(strict=True, ge=1, le=10_080)]  # then forgotten machines end
    claims: tuple[Annotated[str, StringConstraints(pattern=r"^[A-Z][0-9]{2}$")], ...] = ()  # that it tests, by id

    def every_topology(self) -> tuple[TopologyChoice, ...]:
        """Return the topologies in the file's order; at least one."""
        return self.topologies or ((self.topology,) if self.topology is not None else ())

    def topologies_at_start(self) -> tuple[str, ...]:
        """Return the names in Storm of those submitted before the first event, in the file's order."""
        return topologies_at_start([each.name for each in self.every_topology()], self.events)

    def starting(self) -> tuple[str, ...]:
        """Return the machines of the start, by name."""
        return starting_workers(self.machines.before)

    def groups(self) -> dict[str, tuple[str, ...]]:
        """Return the machines of each group at the start; empty where machines have no groups."""
        names = iter(self.starting())
        return {group: tuple(islice(names, number)) for group, number in self.machines.groups.items()}

    def workers(self) -> tuple[str, ...]:
        """Return every machine but the master that takes part by the plan, then those that a policy may ask for.
        `booted` ones may be replaced by others, with the next names."""
        return (*all_workers(self.machines.before, self.events), *self.spare())

    def spare(self) -> tuple[str, ...]:
        """Return those of `workers` that only a policy may ask for: its maximum less the plan's number."""
        maximum = self.machines.limits[1] if self.machines.limits else 0
        number = max(0, maximum - machines_at_end(self.machines.before, self.events))
        return names_after(all_workers(self.machines.before, self.events), number)

    def joining(self, place: int) -> tuple[str, ...]:
        """Return the machines that join at `events[place]`."""
        return joining_workers(self.machines.before, self.events, place)

    def acquired(self) -> tuple[str, ...]:
        """Return the workers present before the first run: all of them, unless those that join boot at their event."""
        return self.starting() if self.testbed.joining == "booted" else self.workers()

    def topologies_of(self, variant: Variant) -> tuple[TopologyChoice, ...]:
        """Return the topologies that this variant's runs submit, in the file's order."""
        changes = {each.name: variant.topology or variant.topologies.get(each.name) for each in self.every_topology()}
        return tuple(
            each if (change := changes[each.name]) is None
            else replace(
                each,
                parameters={**each.parameters, **change.parameters},
                overrides=laid_over(each.overrides, change.overrides),
            )
            for each in self.every_topology()
        )  # fmt: skip

    def watched(self, place: int | None) -> tuple[float, float]:
        """Return the shortest and the longest watch after `events[place]`, in seconds; None: before the first event."""
        following = self.events[0 if place is None else place + 1 :]
        if following and following[0].at != "steady":
            return following[0].at, following[0].at
        durations = self.durations
        if place is None:
            return durations.warm_up_floor_s, durations.warm_up_ceiling_s
        return durations.after_floor_s, durations.horizon_s

    def as_data(self) -> dict[str, Any]:
        """Return JSON data without keys that are not set; `from_data` turns it back into an equal value."""
        return as_data(self)


def as_data(value: Experiment | Variant) -> dict[str, Any]:
    """Return the JSON data of an experiment or of one of its variants, without keys that are not set."""
    shape: Any = type(value)
    data: dict[str, Any] = adapter(shape).dump_python(value, mode="json", exclude_none=True)
    return data


def names(folder: Path = EXPERIMENTS) -> tuple[str, ...]:
    """Return `stela/star`, …, sorted."""
    return tuple(sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.glob("*/*.yaml")))


def load(name: str, folder: Path = EXPERIMENTS) -> Experiment:
    """Return the experiment `family/name`. Raises ExperimentError with file, field, value and what is allowed."""
    path = folder / f"{name}.yaml"
    if name not in names(folder):
        known_names = ", ".join(names(folder)) or "none"
        raise ExperimentError(f"no experiment {name!r} in {folder.name}/; there are: {known_names}")
    return parse(name, read_yaml(path), source=f"{name}.yaml", folder=path.parent)


def from_data(data: Mapping[str, Any], source: str = "as recorded") -> Experiment:
    """Return the experiment of `Experiment.as_data`; `source`: the data's origin, for errors."""
    name = str(data["name"])
    return parse(name, {key: data[key] for key in data if key != "name"}, source=f"{name} ({source})")


def recorded(document: Mapping[str, Any]) -> Experiment | None:
    """Return the experiment of a `series.json` or `run.json`; None for logs of others, which have none, and where it
    cannot be read."""
    spec = document.get("spec")
    try:
        return from_data(spec) if isinstance(spec, Mapping) and "name" in spec else None
    except ExperimentError:
        return None


def only(experiment: Experiment, variants: tuple[str, ...]) -> Experiment:
    """Return the experiment with a subset of its variants, by name, in the file's order."""
    names = [variant.name for variant in experiment.variants]
    surplus = [name for name in variants if name not in names]
    if surplus or not variants:
        subject = ", ".join(surplus) or "nothing"
        raise ExperimentError(f"variants is {subject}; {experiment.name} has the variants {', '.join(names)}")
    return replace(experiment, variants=tuple(v for v in experiment.variants if v.name in variants))


def parse(name: str, data: Any, *, source: str, folder: Path | None = None) -> Experiment:
    """Parse an experiment. `folder`: the folder of files that it names; without it they are as recorded. Raises
    ExperimentError listing every wrong field."""
    if isinstance(data, Mapping) and (keys := [key for key in (SWEEP, SEARCH) if key in data]):
        raise ExperimentError(
            f"{source}: has {keys[0]}, so it is many experiments; run them with: barograph sweep FILE"
        )
    experiment = validated(Experiment, data, source=source, name=name)
    if any(each.count is not None for each in experiment.topologies):
        experiment = validated(Experiment, with_each_topology(data, source), source=source, name=name)
    events, errors = list(experiment.events), []
    for place, event in enumerate(events):
        if isinstance(event, Trace) and (folder is not None or not event.sha256):
            rest_time_s = rest_s(events, place, experiment.durations.horizon_s)
            events[place], problems = event.read(place, folder or ROOT, rest_time_s)
            errors += problems
    experiment = replace(experiment, events=tuple(events))  # what a trace contains is a part of the experiment
    errors += _inconsistencies(experiment)
    if errors:
        raise ExperimentError(f"{source}: {'; '.join(errors)}")
    return experiment


def _inconsistencies(experiment: Experiment) -> list[str]:
    durations, machines = experiment.durations, experiment.machines
    topologies = [each.name for each in experiment.every_topology()]
    errors = _topology_errors(experiment)
    errors += order_errors(machines.before, machines.after, experiment.events, durations.horizon_s, topologies)
    if machines.groups and (total := sum(machines.groups.values())) != machines.before:
        errors.append(f"machines.groups has {total} machines; allowed: as many as machines.before ({machines.before})")
    if machines.limits is not None:
        errors += limit_errors(machines.before, machines.limits, experiment.events)
    for least, most in (("warm_up_floor_s", "warm_up_ceiling_s"), ("after_floor_s", "horizon_s")):
        least_s, most_s = getattr(durations, least), getattr(durations, most)
        if most_s < least_s:
            errors.append(f"durations.{most} is {most_s:g}; allowed: at least {least} ({least_s:g})")
    names = [variant.name for variant in experiment.variants]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        errors.append(f"variants has {', '.join(twice)} twice; give each variant a name of its own")
    if twice := sorted({claim for claim in experiment.claims if experiment.claims.count(claim) > 1}):
        errors.append(f"claims has {', '.join(twice)} twice; give each claim once")
    errors += _wait_errors(experiment)
    return errors + [error for variant in experiment.variants if variant.code for error in _code_errors(variant)]


def _topology_errors(experiment: Experiment) -> list[str]:
    if bool(experiment.topologies) == (experiment.topology is not None):
        return ["topology and topologies are " + ("both given" if experiment.topologies else "missing") + "; give one"]
    several, errors = [each.name for each in experiment.topologies], []
    if twice := sorted({name for name in several if several.count(name) > 1}):
        errors.append(f"topologies has the name {', '.join(twice)} twice; name each one, and its file as flux")
    if WHOLE_CLUSTER in several:
        errors.append(f"topologies has the name {WHOLE_CLUSTER!r}, which is of the cluster in reports; give another")
    for place, each in enumerate(experiment.every_topology()):
        where = f"topologies.{place}" if several else "topology"
        if each.count is not None or each.each:
            errors.append(
                f"{where}.each is given without count"
                if several
                else f"{where}.count or each is given; allowed in topologies"
            )
        if (level := each.service_level) is not None and level.latency_ms is None and level.juice is None:
            errors.append(f"{where}.service_level has neither latency_ms nor juice; give one of them, or both")
    for variant in experiment.variants:
        where = f"variants.{variant.name}"
        if variant.topology is not None and several:
            errors.append(f"{where}.topology is given; with several give topologies, by name: {names_text(several)}")
        if surplus := [name for name in variant.topologies if name not in several]:
            allowed = f"allowed: {names_text(several)}" if several else "there is one topology: give topology"
            errors.append(f"{where}.topologies has {', '.join(surplus)}; {allowed}")
    return errors


def _wait_errors(experiment: Experiment) -> list[str]:
    """Return errors of waits before a rebalance that leave nothing to watch, after every event that asks the policy."""
    watches = [
        (experiment.watched(place)[1], place) for place, event in enumerate(experiment.events) if event.asks_policy
    ]
    if not watches:
        return []
    shortest_s, place = min(watches)
    following = experiment.events[place + 1 :]
    is_cut = bool(following) and following[0].at != "steady"
    limit_field = f"events.{place + 1}.at" if is_cut else "durations.horizon_s"
    return [
        f"variants.{variant.name}.parameters.wait_s is {variant.wait_s}; allowed: below {limit_field}"
        f" ({shortest_s:g}), for nothing moves before that"
        for variant in experiment.variants
        if variant.wait_s >= shortest_s
    ]


def _code_errors(variant: Variant) -> list[str]:
    """Return errors of code: a foreign scheduler has a jar and the policy `foreign`; one of ours has neither."""
    code, where = variant.code, f"variants.{variant.name}"
    assert code is not None, "only for variants with code"
    errors = []
    if not code.commit and not code.is_jar_file:
        errors.append(
            f"{where}.code.ref is missing; give a branch, a tag or a commit, or a jar and its scheduler alone"
        )
    if (variant.policy == FOREIGN) != bool(code.scheduler):
        errors.append(
            f"{where} has policy {variant.policy!r} and code.scheduler {code.scheduler!r}; allowed: policy"
            f" {FOREIGN!r} with the class of a scheduler that is not ours, or another policy without one"
        )
    if bool(code.jar) != bool(code.scheduler):
        errors.append(f"{where}.code has jar {code.jar!r} and scheduler {code.scheduler!r}; give both or none")
    file_names = [Path(each).name for each in code.files]
    if doubles := sorted({name for name in file_names if file_names.count(name) > 1}):
        errors.append(f"{where}.code.files has {', '.join(doubles)} twice; all are in one folder: give other names")
    if code.files and not code.jar:
        errors.append(f"{where}.code.files is given without jar; only a scheduler that is not ours gets files")
    if code.build and not code.jar:
        errors.append(f"{where}.code.build is given without jar; say which jar the build leaves, and its scheduler")
    return errors


DEMO = Durations(warm_up_floor_s=25, warm_up_ceiling_s=90, after_floor_s=40, horizon_s=110)
DURATION_NAMES = tuple(field.name for field in fields(Durations))
CHANGEABLE = ("variants", "repetitions", "seed", "testbed", "options", "demo", *DURATION_NAMES)


def with_changes(experiment: Experiment, changes: Mapping[str, Any]) -> Experiment:
    """Return the experiment with the changes that are not None; keys are `CHANGEABLE`. Validated as the YAML is, where
    anything changes.

    `options` belong to the final testbed, laid over those of the YAML. A watch of fixed length stays one where
    `horizon_s` alone is changed: `after_floor_s` follows it. A form sends both, one with the file's value.
    """
    surplus = sorted(set(changes) - set(CHANGEABLE))
    if surplus:
        raise ExperimentError(f"cannot change {', '.join(surplus)}; what can be changed: {', '.join(CHANGEABLE)}")
    values = {key: value for key, value in changes.items() if value is not None and (key, value) != ("demo", False)}
    if not values:
        return experiment
    if values.pop("demo", False):
        experiment = replace(experiment, repetitions=1, durations=DEMO)
    if "variants" in values:
        experiment = only(experiment, tuple(values.pop("variants")))
    if "testbed" in values:
        experiment = replace(experiment, testbed=replace(experiment.testbed, name=values.pop("testbed")))
    if options := values.pop("options", None):
        if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
            raise ExperimentError(f'options is {options!r}; give names with values, such as {{"region": "eu-west-1"}}')
        if problem := no_json(options, "options"):
            raise ExperimentError(problem)
        choice = experiment.testbed
        merged = {**choice.options.get(choice.name, {}), **options}
        experiment = replace(experiment, testbed=replace(choice, options={**choice.options, choice.name: merged}))
    repetitions, seed = (values.pop(name, getattr(experiment, name)) for name in ("repetitions", "seed"))
    current = experiment.durations
    durations = replace(current, **{key: float(value) for key, value in values.items()})
    if current.is_watch_fixed and durations.after_floor_s == current.after_floor_s:
        durations = replace(durations, after_floor_s=durations.horizon_s)
    return from_data(
        replace(experiment, repetitions=repetitions, seed=seed, durations=durations).as_data(), "as asked for"
    )
