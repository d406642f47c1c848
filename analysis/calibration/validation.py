"""What a calibration leaves for others: the costs as a file, its errors as a document, and what a report says of them.

`costs.yaml` is a plain mapping, as the option `costs` of the testbed `simulated` takes it. `errors.json` says what the
costs were fitted to, what they were judged on, and how far they were off; a report of simulated runs finds it by the
costs. What ships with Barograph is in SHIPPED.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isclose
from pathlib import Path
from typing import Any

from analysis.calibration.fit import as_costs
from analysis.calibration.judgement import CLEARLY, ErrorSummary, SeriesErrors, summaries
from analysis.calibration.linear import Estimate
from analysis.calibration.validity import COST_MODELS, Validity, outside, validity_of_run
from analysis.errors import RecordError
from analysis.numerals import number
from analysis.record.files import read_json, write_json_atomic, write_text_atomic
from analysis.record.simulated import simulated_facts
from analysis.record.small_tables import Row
from scheduler_plugins.simulator import model_sha256

VERSION, KNOWN_VERSIONS = 3, (1, 2, 3)  # 1: errors by variant, no model; 2: of a validity the first ten fields
COSTS_FILE, ERRORS_FILE = "costs.yaml", "errors.json"
SHIPPED = Path(__file__).with_name("shipped")
FOLDER = "calibration"  # of a folder of results, with a folder a calibration
PAIRS = ("clear_pairs", "same_pairs")  # of a ranking
PAGE = "docs/simulator.md"


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
    made: str, estimates: Sequence[Estimate], fitted_on: Sequence[SeriesName], judgements: Sequence[SeriesErrors],
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
    asked: dict[tuple[tuple[tuple[str, float], ...], str, tuple[str, ...]], Validity] = {}
    for run in runs:
        if (facts := simulated_facts(run)) is not None:
            one = validity_of_run(run)
            key = tuple(sorted(facts.get("costs", {}).items())), facts.get("model", ""), one.cost_models
            asked[key] = asked.get(key, Validity()) + one
    found: dict[str, None] = {}
    for (costs, model, _), together in asked.items():
        found |= dict.fromkeys(of_validations(find_validations(dict(costs), folders), together, model, others))
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
