"""What a calibration leaves for others: the costs as a file, its errors as a document, and what a report says of them.

`costs.yaml` is a plain mapping, as the option `costs` of the testbed `simulated` takes it. `errors.json` says what the
costs were fitted to, what they were judged on, and how far they were off; a report of simulated runs finds it by the
costs. What ships with Barograph is in SHIPPED.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha256
from math import ceil, floor, inf, isclose, isfinite
from pathlib import Path
from typing import Any

from analysis.calibration.fit import as_costs
from analysis.calibration.judgement import CLEARLY, ErrorSummary, Judgement, summaries
from analysis.calibration.linear import Estimate
from analysis.claims.specs import changed_topology
from analysis.errors import RecordError
from analysis.numerals import number
from analysis.record.files import read_json, write_json_atomic, write_text_atomic
from analysis.record.simulated import simulated_facts
from analysis.record.small_tables import Row
from scheduler_plugins.simulator import model_sha256
from topologies import catalogue, work
from topologies.errors import TopologyError

VERSION, KNOWN_VERSIONS = 3, (1, 2, 3)  # 1: errors by variant, no model; 2: of a validity the first ten fields
COSTS_FILE, ERRORS_FILE = "costs.yaml", "errors.json"
SHIPPED = Path(__file__).with_name("shipped")
FOLDER = "calibration"  # of a folder of results, with a folder a calibration
PAIR = " + "  # between the two of Validity.pairs
PAIRS = ("clear_pairs", "same_pairs")  # of a ranking
PAGE = "docs/simulator.md"
ROOT = Path(__file__).parents[2]  # of the repository: paths of traces begin there

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
    spec = json.loads(run.get("spec") or "null")
    if not spec:
        return Validity()
    own = [variant for variant in spec["variants"] if variant["name"] == run.get("variant")]
    return validity_of({**spec, "variants": own or spec["variants"]}, simulated_facts(run) or {})


def validity_of(spec: Mapping[str, Any], periods: Mapping[str, float]) -> Validity:
    """Of an experiment as a run has it on record, with the templates of topologies as they are today. `periods`: of its
    simulation, by PERIODS."""
    testbed, durations = spec["testbed"], spec["durations"]
    found = Validity(
        machine_types=(testbed["machine_type"],),
        scales=_one(testbed["scale"]),
        machines=_machines(spec),
        events=tuple(sorted({_event_word(event) for event in spec["events"]})),
        policies=tuple(sorted({_policy_words(variant) for variant in spec["variants"]})),
        bandwidths=_one(testbed["bandwidth_mbit"]) if "bandwidth_mbit" in testbed else None,  # records of before
        joining=(testbed["joining"],) if "joining" in testbed else (),
        watches_s=_whole_seconds(durations["after_floor_s"], max(durations["after_floor_s"], durations["horizon_s"])),
        side_by_side=_one(len(spec.get("topologies") or [None])),
        changes=_one(len(spec["events"])),
        periods=tuple(f"{name} {periods[name]:g}" for name in PERIODS if name in periods),
    )
    for variant in spec["variants"]:
        tasks = 0
        for topology in spec.get("topologies") or [spec["topology"]]:
            known, of_topology = _of_topology(topology, variant.get("topology") or {}, spec)
            tasks += of_topology
            found += known
        found += Validity(tasks=_one(tasks) if tasks else None)
    return found


def _one(value: float) -> Range:
    return float(value), float(value)


def _whole_seconds(least: float, most: float) -> Range:
    """A run that is watched for 150 s by its file ends some milliseconds later."""
    return float(floor(least)), float(ceil(most))


def _machines(spec: Mapping[str, Any]) -> Range:
    """The fewest and the most there may be at a time, whatever joins and leaves in between."""
    planned = spec["machines"]
    at = planned["before"]
    found = [at, planned["after"], planned.get("min") or at, planned.get("max") or at]
    for event in spec["events"]:
        if event["kind"] in ("scale_out", "scale_in"):  # others name their machines
            count = event.get("machines") or 0
            at += count if event["kind"] == "scale_out" else -count
            found.append(at)
    return float(min(found)), float(max(found))


def _policy_words(variant: Mapping[str, Any]) -> str:
    """With its parameters as they are written, and that it is a commit's: another policy than the one of that name."""
    given = [f"{name}={value}" for name, value in sorted((variant.get("parameters") or {}).items())]
    return " ".join([variant["policy"], *given, *(["of a commit"] if variant.get("code") else [])])


def _of_topology(
    topology: Mapping[str, Any], changes: Mapping[str, Any], spec: Mapping[str, Any]
) -> tuple[Validity, int]:
    """And its tasks. Of a topology that cannot be read any more that is said; nothing else is known of it."""
    mine = changes if changes.get("name") in (None, topology["name"]) else {}
    file = topology.get("flux") or topology["name"]
    events = [event for event in spec["events"] if event.get("topology") in (None, topology["name"])]
    named = Validity(
        topologies=(file,), pairs=_pairs(file, {spec["testbed"]["machine_type"], *map(_event_word, events)})
    )
    asked = changed_topology(topology, mine)
    try:
        known = work.topology_work(catalogue.render(file, asked["parameters"], asked["overrides"], topology["name"]))
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


def _event_word(event: Mapping[str, Any]) -> str:
    return UNKNOWN_TRACE if event["kind"] == "trace" and _trace_factors(event) is None else str(event["kind"])


def _factors(events: Iterable[Mapping[str, Any]], source: str) -> Iterator[float]:
    """What the rate of a source is at some time of a run, as a multiple of the submitted one: 1, and what events of its
    topology say of it; of courses, the least and the most."""
    yield 1.0
    for event in events:
        if event.get("source") in (None, source):
            match event["kind"]:
                case "rate":
                    yield event["factor"]
                case "sine":
                    yield from (max(0.0, event["mean"] - event["amplitude"]), event["mean"] + event["amplitude"])
                case "trace":
                    yield from _trace_factors(event) or ()


def _trace_factors(event: Mapping[str, Any]) -> Range | None:
    """Least and most of its file; None where that is not there, or is another by now."""
    path = ROOT / event["file"]
    try:
        content = path.read_bytes()
    except OSError:
        return None
    if event.get("sha256") not in ("", None, sha256(content).hexdigest()):
        return None
    rows = csv.reader(content.decode(errors="replace").splitlines())
    numbers = [float(row[1]) for row in rows if len(row) > 1 and _is_number(row[1])]
    scale = event.get("scale") or 1.0
    return (min(numbers) * scale, max(numbers) * scale) if numbers else None


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


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


@dataclass(frozen=True)
class SeriesName:
    experiment: str
    series_id: str
    runs: int

    def __str__(self) -> str:
        return f"{self.experiment} ({self.runs} run{'s' if self.runs != 1 else ''})"


@dataclass(frozen=True)
class Validation:
    """A calibration: its costs, and how far simulated runs were from real ones. `made`: a date. `model`: what
    `model_sha256` was; empty: not on record."""

    made: str
    costs: Mapping[str, float]
    fitted_on: tuple[SeriesName, ...]
    judged_on: tuple[SeriesName, ...] = ()
    errors: tuple[ErrorSummary, ...] = ()
    rankings: tuple[Mapping[str, Any], ...] = ()
    validity: Validity = field(default_factory=Validity)
    estimates: tuple[Mapping[str, Any], ...] = ()
    model: str = ""

    def as_document(self) -> dict[str, Any]:
        return {"v": VERSION, **json.loads(json.dumps(asdict(self)))}

    @classmethod
    def of_document(cls, document: Mapping[str, Any], path: Path) -> Validation:
        """Raises RecordError for a document that is none."""
        try:
            if document["v"] not in KNOWN_VERSIONS:
                raise RecordError(f"{path}: v is {document['v']!r}; known are {KNOWN_VERSIONS}")
            return cls(
                made=document["made"],
                costs=dict(document["costs"]),
                fitted_on=tuple(SeriesName(**each) for each in document["fitted_on"]),
                judged_on=tuple(SeriesName(**each) for each in document["judged_on"]),
                errors=tuple(ErrorSummary(**each) for each in document["errors"]),
                rankings=tuple(document["rankings"]),
                validity=Validity(**{name: _ends(value) for name, value in document["validity"].items()}),
                estimates=tuple(document["estimates"]),
                model=document.get("model", ""),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"{path}: is no document of a calibration: {error!r}") from error


def _ends(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def validation_of(
    made: str, estimates: Sequence[Estimate], fitted_on: Sequence[SeriesName], judgements: Sequence[Judgement],
    validity: Validity,
) -> Validation:  # fmt: skip
    return Validation(
        made=made,
        costs=as_costs(estimates),
        fitted_on=tuple(fitted_on),
        judged_on=tuple(
            SeriesName(each.experiment, each.series_id, each.judged_runs) for each in judgements if each.judged_runs
        ),
        errors=tuple(summaries(judgements)),
        rankings=tuple(asdict(ranking) for each in judgements for ranking in each.rankings),
        validity=validity,
        estimates=tuple(asdict(each) for each in estimates),
        model=model_sha256(),
    )


def write(folder: Path, validation: Validation) -> None:
    """Both files."""
    write_costs(folder, validation)
    write_json_atomic(folder / ERRORS_FILE, validation.as_document())


def write_costs(folder: Path, validation: Validation) -> None:
    write_text_atomic(folder / COSTS_FILE, costs_text(validation))


def costs_text(validation: Validation) -> str:
    """YAML for the option `costs`, with what each number rests on."""
    names = ", ".join(str(each) for each in validation.fitted_on)
    origin = f"fitted on {validation.made} to {names}" if names else f"given on {validation.made}"
    lines = [f"# Costs of the testbed `simulated`, {origin}; see {PAGE}.",
             f'# barograph run … --testbed simulated --option "costs=$(cat {COSTS_FILE})"']  # fmt: skip
    for each in validation.estimates:
        value = each["default"] if each["value"] is None else each["value"]
        lines.append(f"{each['name']}: {value:.6g}  # {_rests_on(each)}")
    return "\n".join(lines) + "\n"


def _rests_on(estimate: Mapping[str, Any]) -> str:
    if estimate["value"] is None:
        return f"default: {estimate['why']}"
    if not estimate["runs"]:
        return str(estimate["why"])
    runs = f"{estimate['runs']} run{'s' if estimate['runs'] != 1 else ''}"
    if estimate["low"] is None:
        return f"{runs}, no interval"
    return f"{estimate['low']:.3g} to {estimate['high']:.3g} (95 %), {runs}"


def known_validations(folders: Iterable[Path]) -> Iterator[Validation]:
    """Those that ship, then those of calibrations in these folders; what cannot be read is none."""
    shipped = sorted(SHIPPED.glob("*.json"))
    own = [path for folder in folders for path in sorted(folder.glob(f"*/{ERRORS_FILE}"), reverse=True)]
    for path in (*shipped, *own):
        try:
            yield Validation.of_document(read_json(path), path)
        except RecordError:
            continue


def find_validations(costs: Mapping[str, float], folders: Iterable[Path]) -> list[Validation]:
    """All calibrations of exactly these costs that were judged, the newest first; where none was, one that was not."""
    fitting = [each for each in known_validations(folders) if _are_same(costs, each.costs)]
    judged = sorted((each for each in fitting if each.judged_on), key=lambda each: each.made, reverse=True)
    return judged or fitting[:1]


def _are_same(a: Mapping[str, float], b: Mapping[str, float]) -> bool:
    """As far as a file of costs has them: six digits."""
    return a.keys() == b.keys() and all(isclose(a[name], b[name], rel_tol=1e-5, abs_tol=1e-9) for name in a)


def folders_beside(series_dir: Path) -> tuple[Path, ...]:
    """Where calibrations are: in the folder of results that a series is in; a point of a sweep lies deeper in it."""
    found = (above / FOLDER for above in series_dir.absolute().parents)
    return tuple(folder for folder in found if folder.is_dir())


def sentences(runs: Sequence[Row], folders: Iterable[Path] = ()) -> list[str]:
    """What a report says of simulated runs (rows of the table `runs`): the errors of their costs, and what of them lies
    outside of what was validated. `folders`: of calibrations. None for runs that were measured."""
    folders = tuple(folders)
    others = [each.validity for each in known_validations(folders) if each.judged_on]
    asked: dict[tuple[str, str, tuple[str, ...]], Validity] = {}
    for run in runs:
        if (facts := simulated_facts(run)) is not None:
            one = validity_of_run(run)
            key = json.dumps(facts.get("costs", {}), sort_keys=True), facts.get("model", ""), one.cost_models
            asked[key] = asked.get(key, Validity()) + one
    found: dict[str, None] = {}
    for (costs, model, _), together in asked.items():
        found |= dict.fromkeys(of_validations(find_validations(json.loads(costs), folders), together, model, others))
    return list(found)


UNJUDGED = (
    "No calibration has judged these costs: nothing says how far such runs are from real ones"
    " (`barograph calibrate SERIES --on OTHER` does)."
)


def of_validations(
    validations: Sequence[Validation], asked: Validity, model: str, others: Sequence[Validity] = ()
) -> list[str]:
    """Of all calibrations of the costs; where those with a cost model of what is asked about have judged all that it is
    about, of these: components that wait and components that burn CPU have other errors. `model`: the one that has
    simulated it. `others`: what any costs were judged on. What lies outside of that is said of costs too that nobody
    has judged."""
    near = [each for each in validations if _share_a_cost_model(each.validity, asked)] or validations
    judged = [each.validity for each in near if each.judged_on]
    known = judged or [each for each in others if _share_a_cost_model(each, asked)] or others
    strange = outside(asked, sum(known, Validity())) if known else []
    said = [_judged_text(each, model) for each in (validations if strange else near)] or [UNJUDGED]
    if strange:
        kind = "" if len(near) == len(validations) else f" on components that {_kinds(sum(known, Validity()))}"
        said.append(f"Outside of what was validated{kind}{'' if judged else ' with any costs'}: {'; '.join(strange)}.")
    return said


def _kinds(validity: Validity) -> str:
    return " and ".join(COST_MODELS.get(each, each) for each in validity.cost_models)


def _share_a_cost_model(one: Validity, other: Validity) -> bool:
    return bool({*one.cost_models} & {*other.cost_models})


def _judged_text(validation: Validation, model: str) -> str:
    fitted = _series_words(validation.fitted_on)
    if not validation.judged_on:
        origin = f"fitted to {fitted}" if fitted else "given"
        return f"The costs were {origin} on {validation.made} and judged on nothing{' else' if fitted else ''}."
    judged = _series_words(validation.judged_on)
    other = "" if model == validation.model != "" else ", by another version of the model than these runs'"
    origin = (
        f"fitted to real runs of {fitted}, and judged on" if fitted else "fitted to no run, and judged on real runs of"
    )
    kinds = _kinds(validation.validity)
    return (
        f"The costs were {origin} {judged}{kinds and f', components that {kinds},'} on {validation.made}{other}:"
        f" {'; '.join(_error_texts(validation)) or 'no number was on both sides'}."
    )


def _series_words(series: Sequence[SeriesName]) -> str:
    """`stela/star, stela/linear (4 runs)`."""
    runs = sum(each.runs for each in series)
    named = ", ".join(dict.fromkeys(each.experiment for each in series))
    return f"{named} ({runs} run{'s' if runs != 1 else ''})" if series else ""


def _error_texts(validation: Validation) -> Iterator[str]:
    """Every error: which of them a reader needs depends on what he reads."""
    if sizes := [_error_text(each) for each in validation.errors if each.median is not None or each.bounds]:
        yield f"median error (worst; mean, negative where the model is too low): {', '.join(sizes)}"
    taus = [ranking["tau"] for ranking in validation.rankings if ranking["tau"] is not None]
    if taus:
        others = ", ".join(f"{tau:.2g}" for tau in sorted(taus) if tau != 1)
        clear, kept = (sum(ranking.get(name, 0) for ranking in validation.rankings) for name in PAIRS)
        pairs = f", that of pairs which differ by more than {100 * CLEARLY:.0f} % in {kept} of {clear}" if clear else ""
        yield (
            f"the ranking of the variants the same at {taus.count(1)} of {len(taus)} events"
            f"{f' (Kendall’s tau {others} at the others)' if others else ''}{pairs}"
        )


def _error_text(each: ErrorSummary) -> str:
    bounds = f"{each.bounds} of {each.cells + each.bounds} without a time on a side" if each.bounds else ""
    if each.median is None or each.worst is None:
        return f"{each.words} not comparable ({bounds})"
    digits = 1 if each.worst < 1000 else 0
    median, worst, mean = (
        number(each.median, digits),
        number(each.worst, digits),
        number(each.bias, digits, signed=True),
    )
    return f"{each.words} {median} {each.unit} ({'; '.join(filter(None, (worst, mean, bounds)))})"
