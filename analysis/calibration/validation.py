"""The results of a calibration for others: the costs as a file, its errors as a document, and the sentences of a
report.

`costs.yaml` is a plain mapping, as the option `costs` of the testbed `simulated` takes it. `errors.json` has the
data to which the costs were fitted, on which they were judged, and their errors; a report of simulated runs finds it by
the costs. Barograph's own calibrations are in SHIPPED.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from math import isclose
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from analysis.calibration.fit import as_costs
from analysis.calibration.judgement import CLEARLY, ErrorSummary, SeriesErrors, summaries
from analysis.calibration.linear import CostEstimate
from analysis.calibration.validity import COST_MODELS, Validity, outside, validity_of_run
from analysis.errors import RecordError
from analysis.numerals import number
from analysis.record.files import read_json, write_json_atomic, write_text_atomic
from analysis.record.simulated import simulated_facts
from analysis.record.small_tables import Row
from scheduler_plugins.simulator import model_sha256

VERSION = 3
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
        return f"{self.experiment} ({counted(self.runs)})"


def counted(runs: int) -> str:
    return f"{runs} run{'s' if runs != 1 else ''}"


@dataclass(frozen=True)
class Validation:
    """A calibration: its costs, and the distance of simulated runs from real ones. `made`: a date. `model`: the
    `model_sha256` then; empty: not on record."""

    __pydantic_config__ = ConfigDict(extra="forbid")
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
        """Parse a document. Raises RecordError if it is not valid."""
        fields = dict(document)
        if (version := fields.pop("v", None)) != VERSION:
            raise RecordError(f"{path}: v is {version!r}; allowed is {VERSION}")
        try:
            return _adapter().validate_python(fields)
        except ValidationError as error:
            raise RecordError(f"{path}: is no document of a calibration: {error.errors()[0]}") from error


@cache
def _adapter() -> TypeAdapter[Validation]:
    return TypeAdapter(Validation)


def validation_of(
    made: str, estimates: Sequence[CostEstimate], fitted_on: Sequence[SeriesName], judgements: Sequence[SeriesErrors],
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
    """Write both files."""
    write_costs(folder, validation)
    write_json_atomic(folder / ERRORS_FILE, validation.as_document())


def write_costs(folder: Path, validation: Validation) -> None:
    write_text_atomic(folder / COSTS_FILE, costs_text(validation))


def costs_text(validation: Validation) -> str:
    """Return YAML for the option `costs`, with the basis of each number."""
    names = ", ".join(str(each) for each in validation.fitted_on)
    origin = f"fitted on {validation.made} to {names}" if names else f"given on {validation.made}"
    lines = [f"# Costs of the testbed `simulated`, {origin}; see {PAGE}.",
             f'# barograph run … --testbed simulated --option "costs=$(cat {COSTS_FILE})"']  # fmt: skip
    for each in validation.estimates:
        value, basis = each["default"] if each["value"] is None else each["value"], str(each["why"])
        if each["value"] is None:
            basis = f"default: {basis}"
        elif each["runs"]:
            basis = f"{counted(each['runs'])}, no interval"
            if each["low"] is not None:
                basis = f"{each['low']:.3g} to {each['high']:.3g} (95 %), {counted(each['runs'])}"
        lines.append(f"{each['name']}: {value:.6g}  # {basis}")
    return "\n".join(lines) + "\n"


def known_validations(folders: Iterable[Path]) -> Iterator[Validation]:
    """Yield shipped validations, then those of calibrations in these folders; unreadable ones are skipped."""
    shipped = sorted(SHIPPED.glob("*.json"))
    paths = [path for folder in folders for path in sorted(folder.glob(f"*/{ERRORS_FILE}"), reverse=True)]
    for path in (*shipped, *paths):
        try:
            yield Validation.of_document(read_json(path), path)
        except RecordError:
            continue


def find_validations(costs: Mapping[str, float], folders: Iterable[Path]) -> list[Validation]:
    """Return all judged calibrations of exactly these costs, the newest first; if there is none, one that was not
    judged."""

    def are_same(other: Mapping[str, float]) -> bool:
        """Compare in the precision of a file of costs: six digits."""
        return costs.keys() == other.keys() and all(
            isclose(costs[name], other[name], rel_tol=1e-5, abs_tol=1e-9) for name in costs
        )

    fitting = [each for each in known_validations(folders) if are_same(each.costs)]
    result = sorted((each for each in fitting if each.judged_on), key=lambda each: each.made, reverse=True)
    return result or fitting[:1]


def folders_beside(series_dir: Path) -> tuple[Path, ...]:
    """Return the calibration folders: in the folder of results around a series; a point of a sweep lies deeper in
    it."""
    folders = (parent / FOLDER for parent in series_dir.absolute().parents)
    return tuple(folder for folder in folders if folder.is_dir())


def sentences(runs: Sequence[Row], folders: Iterable[Path] = ()) -> list[str]:
    """Return the report's sentences on simulated runs (rows of the table `runs`): the errors of their costs, and how
    they lie outside of the validated range. `folders`: of calibrations. None for runs that were measured."""
    folders = tuple(folders)
    judged_validities = [each.validity for each in known_validations(folders) if each.judged_on]
    groups: dict[tuple[tuple[tuple[str, float], ...], str, tuple[str, ...]], Validity] = {}
    for run in runs:
        if (facts := simulated_facts(run)) is not None:
            one = validity_of_run(run)
            key = tuple(sorted(facts.get("costs", {}).items())), facts.get("model", ""), one.cost_models
            groups[key] = groups.get(key, Validity()) + one
    texts: dict[str, None] = {}
    for (costs, model, _), validity in groups.items():
        texts |= dict.fromkeys(
            of_validations(find_validations(dict(costs), folders), validity, model, judged_validities)
        )
    return list(texts)


UNJUDGED = (
    "No calibration has judged these costs: nothing says how far such runs are from real ones"
    " (`barograph calibrate SERIES --on OTHER` does)."
)


def of_validations(
    validations: Sequence[Validation], asked: Validity, model: str, others: Sequence[Validity] = ()
) -> list[str]:
    """Return sentences on all calibrations of the costs; if those with a cost model of `asked` have judged everything
    in `asked`, on these only: components that wait and components that burn CPU have other errors. `model`: the one
    that has simulated it. `others`: everything that any costs were judged on. Extrapolation is reported for unvalidated
    costs, too."""
    relevant = [each for each in validations if _share_a_cost_model(each.validity, asked)] or validations
    validities = [each.validity for each in relevant if each.judged_on]
    basis = validities or [each for each in others if _share_a_cost_model(each, asked)] or others
    gaps = outside(asked, sum(basis, Validity())) if basis else []
    texts = [_judged_text(each, model) for each in (validations if gaps else relevant)] or [UNJUDGED]
    if gaps:
        kind = "" if len(relevant) == len(validations) else f" on components that {_kinds(sum(basis, Validity()))}"
        texts.append(
            f"Outside of what was validated{kind}{'' if validities else ' with any costs'}: {'; '.join(gaps)}."
        )
    return texts


def _kinds(validity: Validity) -> str:
    return " and ".join(COST_MODELS.get(each, each) for each in validity.cost_models)


def _share_a_cost_model(one: Validity, other: Validity) -> bool:
    return bool({*one.cost_models} & {*other.cost_models})


def _judged_text(validation: Validation, model: str) -> str:
    fit_words = _series_words(validation.fitted_on)
    if not validation.judged_on:
        origin = f"fitted to {fit_words}" if fit_words else "given"
        return f"The costs were {origin} on {validation.made} and judged on nothing{' else' if fit_words else ''}."
    judge_words = _series_words(validation.judged_on)
    other = "" if model == validation.model != "" else ", by another version of the model than these runs'"
    origin = (
        f"fitted to real runs of {fit_words}, and judged on"
        if fit_words
        else "fitted to no run, and judged on real runs of"
    )
    kinds = _kinds(validation.validity)
    return (
        f"The costs were {origin} {judge_words}{kinds and f', components that {kinds},'} on {validation.made}{other}:"
        f" {'; '.join(_error_texts(validation)) or 'no number was on both sides'}."
    )


def _series_words(series: Sequence[SeriesName]) -> str:
    """Return `stela/star, stela/linear (4 runs)`."""
    names = ", ".join(dict.fromkeys(each.experiment for each in series))
    return f"{names} ({counted(sum(each.runs for each in series))})" if series else ""


def _error_texts(validation: Validation) -> Iterator[str]:
    """Yield every error, because readers need different ones."""
    if sizes := [_error_text(each) for each in validation.errors if each.median is not None or each.bounds]:
        yield f"median error (worst; mean, negative where the model is too low): {', '.join(sizes)}"
    taus = [ranking["tau"] for ranking in validation.rankings if ranking["tau"] is not None]
    if taus:
        other_taus = ", ".join(f"{tau:.2g}" for tau in sorted(taus) if tau != 1)
        pair_count, agreements = (sum(ranking.get(name, 0) for ranking in validation.rankings) for name in PAIRS)
        pairs = (
            f", that of pairs which differ by more than {100 * CLEARLY:.0f} % in {agreements} of {pair_count}"
            if pair_count
            else ""
        )
        yield (
            f"the ranking of the variants the same at {taus.count(1)} of {len(taus)} events"
            f"{f' (Kendall’s tau {other_taus} at the others)' if other_taus else ''}{pairs}"
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
