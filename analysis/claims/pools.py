"""The series by which a claim is judged: all of one request, with any number of blocks (docs/decisions/claims.md).

A machine may be free for an hour at a time, so the basis of a verdict is measured in several series. Nothing here looks
at measurements: only at the request, the code of measurement and analysis, which runs are complete, and dates;
and at numbers only to see whether copies of a series have the same.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from analysis import provenance
from analysis.claims.ledger_rows import BLOCKS_OF_A_VERDICT, BlockId
from analysis.claims.statements import Claim
from analysis.errors import RecordError
from analysis.record import small_tables
from analysis.record.event_timeline import event_id_of
from analysis.record.files import SeriesPaths, experiment_of, read_json_or_none, series_folders
from analysis.record.simulated import is_of_testbed, is_simulated_series
from analysis.record.small_tables import Row, rows
from analysis.stats.paired_differences import MINIMUM_BLOCKS
from barograph.plan.blocks import request_data
from barograph.plan.experiment import Experiment, recorded

# Parts of a request that change neither a run nor its measurement. The seed gives the order of runs in their blocks
# and the sources' texts, which both runs of a pair share.
OF_NO_CONSEQUENCE = frozenset({"name", "title", "repetitions", "seed", "lease_minutes", "claims"})
ANALYSIS = "analysis"
ALONE = "request not on record"
MOST_NAMES = 3  # of other series, in a note
# The tables that the ledger reads, and their columns that every version has written.
NEEDED = {
    "runs": ("run_id", "series_id", "experiment", "variant", "status", "failure_message"),
    "measurements": ("run_id", "metric", "value", "censored"),
    "topologies": ("run_id", "topology", "position"),
}


@dataclass(frozen=True)
class BlockPool:
    """A pool. `series`: their blocks count together, the oldest first. `others`: further series that have whole blocks
    of the claim's variants, with the differences. `contradictions`: by series, its copies that contradict it."""

    series: tuple[SeriesPaths, ...]
    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    contradictions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """Return a note on other series, and on contradicting copies; empty without them."""
        return "; ".join(filter(None, (self._others_text(), *self._contradiction_texts())))

    def _contradiction_texts(self) -> list[str]:
        return [
            f"copies of {name} contradict it, with other numbers or other runs ({', '.join(copies)}): what has most"
            " complete runs counts; remove what is wrong"
            for name, copies in self.contradictions.items()
        ]

    def _others_text(self) -> str:
        by_difference: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for name, parts in self.others.items():
            by_difference[parts].append(name)
        groups = [f"{_names_text(names)} ({', '.join(parts)})" for parts, names in by_difference.items()]
        if not groups:
            return ""
        anew = f"; `barograph report '{experiment_of(self.series[0].root)}/*'` analyses all by the same code"
        return f"not pooled, for they differ: {', '.join(groups)}{anew if (ANALYSIS,) in by_difference else ''}"


def _names_text(names: Sequence[str]) -> str:
    remainder = len(names) - MOST_NAMES
    return f"{', '.join(names[:MOST_NAMES])}{f' and {remainder} more' if remainder > 0 else ''}"


@dataclass(frozen=True)
class _Kept:
    """An analysed series. `blocks`: by variant, those that have a complete run. `experiment`: None if the request is
    not on record, and for simulated series: the same seed gives the same runs again. `record`: what else must be equal.
    `contradictions`: the names of its copies that contradict it.
    """

    paths: SeriesPaths
    blocks: Mapping[str, frozenset[BlockId]]
    experiment: Experiment | None
    record: dict[str, Any]
    contradictions: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.paths.root.name

    @property
    def complete_runs(self) -> int:
        return sum(len(ids) for ids in self.blocks.values())

    def whole_blocks(self, claim: Claim) -> int:
        """Return the blocks in which all variants that the claim compares have a complete run."""
        return len(frozenset.intersection(*(self.blocks.get(name, frozenset()) for name in claim.variants)))

    def conditions(self, claim: Claim) -> dict[str, str]:
        """Return the conditions that must be equal in series whose blocks count together."""
        names = set(claim.variants) & set(self.blocks)
        if self.experiment is None or not names <= {variant.name for variant in self.experiment.variants}:
            return {ALONE: self.name}
        request = _request(claim, self.experiment) | self.record
        return {key: json.dumps(value, sort_keys=True) for key, value in request.items()}


@dataclass(frozen=True)
class KeptSeries:
    """All series. `analysed`: by experiment; one of several copies. `damaged`: folders of series with an unreadable
    table, and the error."""

    analysed: Mapping[str, Sequence[_Kept]]
    damaged: Mapping[Path, str]


def kept_series(results: Path, testbed: str | None = None) -> KeptSeries:
    """Return the series below a folder of results.

    `testbed`: only series there; None: those on machines, because a simulated series is no evidence about Storm.
    """
    copies: dict[str, dict[str, list[_Kept]]] = defaultdict(lambda: defaultdict(list))
    errors: dict[Path, str] = {}
    for folder in series_folders(results):
        if not is_of_testbed(folder, testbed):
            continue
        try:
            if (series := _kept(folder)) is not None:
                copies[experiment_of(folder)][_series_id(folder)].append(
                    series
                )  # a copy's folder may have another name
        except RecordError as error:
            errors[folder] = str(error)
    by_experiment = {
        experiment: [_most_complete(series_id, group) for series_id, group in by_id.items()]
        for experiment, by_id in copies.items()
    }
    return KeptSeries(by_experiment, errors)


def pools_of_claims(claims: Iterable[Claim], kept: KeptSeries) -> dict[str, BlockPool]:
    """Return claim -> the analysed series of its experiment by which it is judged; none for claims that follow from
    others.

    If series differ in more than the number of their blocks, those with six whole blocks of the claim's variants are
    preferred, then those with three, then one, and of these the newest.
    """
    return {
        claim.name: _pool(claim, kept.analysed[claim.experiment])
        for claim in claims
        if claim.experiment in kept.analysed and not claim.of
    }


def _pool(claim: Claim, everything: Sequence[_Kept]) -> BlockPool:
    groups: dict[tuple[tuple[str, str], ...], list[_Kept]] = defaultdict(list)
    for each in everything:
        groups[tuple(sorted(each.conditions(claim).items()))].append(each)
    conditions, best_group = max(groups.items(), key=partial(_rank, claim))
    differences = {
        each.name: _differences(dict(conditions), each.conditions(claim))
        for each in everything
        if each not in best_group and each.whole_blocks(claim)
    }
    oldest_first = sorted(best_group, key=lambda each: each.name)
    contradictions = {each.name: each.contradictions for each in oldest_first if each.contradictions}
    return BlockPool(tuple(each.paths for each in oldest_first), differences, contradictions)


def _rank(claim: Claim, group: tuple[tuple[tuple[str, str], ...], Sequence[_Kept]]) -> tuple[int, str]:
    _, series = group
    blocks = sum(each.whole_blocks(claim) for each in series)
    return sum(blocks >= number for number in (1, MINIMUM_BLOCKS, BLOCKS_OF_A_VERDICT)), max(e.name for e in series)


def _differences(chosen: Mapping[str, str], other: Mapping[str, str]) -> tuple[str, ...]:
    if ALONE in {*chosen, *other}:
        return (ALONE,)
    return tuple(sorted(part for part in {*chosen, *other} if chosen.get(part) != other.get(part)))


def _kept(folder: Path) -> _Kept | None:
    """Return the series; None without an analysis. Raises RecordError for a damaged table that the ledger reads."""
    paths = SeriesPaths(folder)
    small_tables.check(paths, NEEDED)
    read = {name: rows(paths, name) for name in NEEDED}  # damage within a file is found here
    runs = read["runs"]
    complete = [run for run in runs if run["status"] == "complete"]
    if not complete or not read["measurements"]:
        return None
    document = read_json_or_none(paths.series_json) or {}
    request = None if is_simulated_series(folder) else recorded(document)
    of_run = blocks_of(runs)
    blocks: dict[str, set[BlockId]] = defaultdict(set)
    for run in complete:
        blocks[run["variant"]].add(of_run[run["run_id"]])
    blocks_by_variant = {variant: frozenset(ids) for variant, ids in blocks.items()}
    return _Kept(paths, blocks_by_variant, request, _record(paths, document, complete))


def _series_id(folder: Path) -> str:
    return str((read_json_or_none(SeriesPaths(folder).series_json) or {}).get("series_id") or folder.name)


def blocks_of(runs: Iterable[Row]) -> dict[str, BlockId]:
    """Return by run its series and block. Logs of others have no blocks: the first run of each variant is one, and so
    on."""
    block_ids: dict[str, BlockId] = {}
    counts: Counter[str] = Counter()
    for run in sorted(runs, key=lambda run: str(run["run_id"])):
        counts[run["variant"]] += 1
        number = next(
            (run[name] for name in ("block", "repetition") if run.get(name) is not None), counts[run["variant"]]
        )
        block_ids[run["run_id"]] = str(run["series_id"]), int(number)
    return block_ids


# --- copies of a series ----------------------------------------------------------------------------------------------


def _most_complete(series_id: str, copies: Sequence[_Kept]) -> _Kept:
    """Return the copy of a series with most complete runs; of equal ones the one whose folder has its name."""
    *rest, first = sorted(copies, key=lambda each: (each.complete_runs, each.name == series_id, each.name))
    against = sorted(other.name for other in rest if _contradicts(other, first))
    return replace(first, contradictions=tuple(against))


def _contradicts(copy: _Kept, chosen: _Kept) -> bool:
    """Return whether it has a complete run that the chosen one lacks, or another number for a run of both."""
    chosen_numbers = _numbers(chosen.paths)
    return any(
        run not in chosen_numbers
        or any(chosen_numbers[run].get(key, number) != number for key, number in numbers.items())
        for run, numbers in _numbers(copy.paths).items()
    )


def _numbers(paths: SeriesPaths) -> dict[str, dict[tuple[Any, ...], str]]:
    """Return the numbers of each complete run, to nine digits: two analyses of the same lines add up in another
    order."""
    numbers: dict[str, dict[tuple[Any, ...], str]] = {
        run["run_id"]: {} for run in rows(paths, "runs") if run["status"] == "complete"
    }
    for row in rows(paths, "measurements"):
        if row["run_id"] in numbers and row["value"] is not None:
            key = row["metric"], event_id_of(row), row.get("topology")
            numbers[row["run_id"]][key] = f"{row['value']:.9g}{' censored' if row['censored'] else ''}"
    return numbers


# --- what must be equal ----------------------------------------------------------------------------------------------


def _record(paths: SeriesPaths, document: Mapping[str, Any], runs: Sequence[Row]) -> dict[str, Any]:
    """Return the meaning of runs, the software that ran them, and the code that made their tables, as far as it is on
    record. Commits may differ, as within a series that was resumed; uncommitted changes may not."""
    changes = document.get("git_changes")
    return {
        "measurement": sorted({run.get("measurement") or 1 for run in runs}),
        "Storm": sorted({str(_versions(run).get("storm")) for run in runs}),
        "uncommitted changes": [document.get("git_commit"), changes] if changes else None,
        ANALYSIS: provenance.tables_code_of_series(paths.root) or f"not on record of {paths.root.name}",
    }


def _versions(run: Row) -> Mapping[str, Any]:
    versions: Mapping[str, Any] | None = json.loads(run.get("versions") or "{}")
    return versions or {}


def _request(claim: Claim, experiment: Experiment) -> dict[str, Any]:
    """Return the request, with the variants that the claim compares and the options of the chosen testbed alone."""
    request = {key: value for key, value in request_data(experiment).items() if key not in OF_NO_CONSEQUENCE}
    variants = [variant for variant in request["variants"] if variant["name"] in claim.variants]
    options = request["testbed"]["options"].get(experiment.testbed.name) or {}
    return request | {
        "variants": sorted(variants, key=lambda variant: str(variant["name"])),
        "testbed": request["testbed"] | {"options": options},
    }
