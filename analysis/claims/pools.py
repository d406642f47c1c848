"""The series by which a claim is judged: all of one request, with any number of blocks (docs/decisions/claims.md).

A machine may be free for an hour at a time, so the basis of a verdict is measured in several series. Nothing here looks
at measurements: only at the request, the code of measurement and analysis, which runs are complete, and dates;
and at numbers only to see whether copies of a series have the same.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from analysis import provenance
from analysis.claims.rows import BLOCKS_OF_A_VERDICT, BlockId
from analysis.claims.statements import Claim
from analysis.errors import RecordError
from analysis.record import small_tables
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
NEEDED = ("runs", "measurements", "topologies")


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
        texts = [
            f"copies of {name} contradict it, with other numbers or other runs ({', '.join(copies)}): what has most"
            " complete runs counts; remove what is wrong"
            for name, copies in self.contradictions.items()
        ]
        by_difference: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for name, parts in self.others.items():
            by_difference[parts].append(name)
        groups = []
        for parts, names in by_difference.items():
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            groups.append(f"{', '.join(names[:MOST_NAMES])}{more} ({', '.join(parts)})")
        if groups:
            anew = f"; `barograph report '{experiment_of(self.series[0].root)}/*'` analyses all by the same code"
            advice = anew if (ANALYSIS,) in by_difference else ""
            texts.insert(0, f"not pooled, for they differ: {', '.join(groups)}{advice}")
        return "; ".join(texts)


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
    series_id: str  # of its document: a copy's folder may have another name
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
        """Return the conditions that must be equal in series whose blocks count together: the request, with the
        variants that the claim compares and the options of the chosen testbed alone, and the record."""
        names = set(claim.variants) & set(self.blocks)
        if self.experiment is None or not names <= {variant.name for variant in self.experiment.variants}:
            return {ALONE: self.name}
        request = {key: value for key, value in request_data(self.experiment).items() if key not in OF_NO_CONSEQUENCE}
        variants = [variant for variant in request["variants"] if variant["name"] in claim.variants]
        options = request["testbed"]["options"].get(self.experiment.testbed.name) or {}
        request |= {
            "variants": sorted(variants, key=lambda variant: str(variant["name"])),
            "testbed": request["testbed"] | {"options": options},
        }
        return {key: json.dumps(value, sort_keys=True) for key, value in (request | self.record).items()}


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
                copies[experiment_of(folder)][series.series_id].append(series)
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
    by_conditions: dict[tuple[tuple[str, str], ...], list[_Kept]] = defaultdict(list)
    for each in everything:
        by_conditions[tuple(sorted(each.conditions(claim).items()))].append(each)

    def rank(group: Sequence[_Kept]) -> tuple[int, str]:
        blocks = sum(each.whole_blocks(claim) for each in group)
        newest = max(each.name for each in group)
        return sum(blocks >= number for number in (1, MINIMUM_BLOCKS, BLOCKS_OF_A_VERDICT)), newest

    best_group = max(by_conditions.values(), key=rank)
    chosen, differences = best_group[0].conditions(claim), {}
    for each in everything:
        if each not in best_group and each.whole_blocks(claim):
            other = each.conditions(claim)
            parts = {*chosen, *other}
            names = {ALONE} if ALONE in parts else {name for name in parts if chosen.get(name) != other.get(name)}
            differences[each.name] = tuple(sorted(names))
    oldest_first = sorted(best_group, key=lambda each: each.name)
    contradictions = {each.name: each.contradictions for each in oldest_first if each.contradictions}
    return BlockPool(tuple(each.paths for each in oldest_first), differences, contradictions)


def _kept(folder: Path) -> _Kept | None:
    """Return the series; None without an analysis. Raises RecordError for a damaged table that the ledger reads."""
    paths = SeriesPaths(folder)
    small_tables.check(paths, NEEDED)
    runs, measurements, _ = (rows(paths, name) for name in NEEDED)  # damage within a file is found here
    complete = [run for run in runs if run["status"] == "complete"]
    if not complete or not measurements:
        return None
    document = read_json_or_none(paths.series_json) or {}
    request = None if is_simulated_series(folder) else recorded(document)
    of_run, blocks = blocks_of(runs), dict[str, frozenset[BlockId]]()
    for run in complete:
        blocks[run["variant"]] = blocks.get(run["variant"], frozenset()) | {of_run[run["run_id"]]}
    changes = document.get("git_changes")
    # The meaning of runs, the software that ran them, and the code that made their tables, as far as it is on record.
    # Commits may differ, as within a series that was resumed; uncommitted changes may not.
    record = {
        "measurement": sorted({run.get("measurement") or 1 for run in complete}),
        "Storm": sorted({str((json.loads(run.get("versions") or "{}") or {}).get("storm")) for run in complete}),
        "uncommitted changes": [document.get("git_commit"), changes] if changes else None,
        ANALYSIS: provenance.digest_of_series(paths.root, "tables") or f"not on record of {paths.root.name}",
    }
    return _Kept(paths, blocks, request, record, str(document.get("series_id") or folder.name))


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
    """Return the copy of a series with most complete runs; of equal ones the one whose folder has its name. Others
    contradict it with a complete run that it lacks, or another number for a run of both."""
    *rest, first = sorted(copies, key=lambda each: (each.complete_runs, each.name == series_id, each.name))
    chosen_numbers = _numbers(first.paths) if rest else {}
    against = [
        other.name
        for other in rest
        if any(
            run not in chosen_numbers
            or any(chosen_numbers[run].get(key, number) != number for key, number in numbers.items())
            for run, numbers in _numbers(other.paths).items()
        )
    ]
    return replace(first, contradictions=tuple(sorted(against)))


def _numbers(paths: SeriesPaths) -> dict[str, dict[tuple[Any, ...], str]]:
    """Return the numbers of each complete run, to nine digits: two analyses of the same lines add up in another
    order."""
    numbers: dict[str, dict[tuple[Any, ...], str]] = {
        run["run_id"]: {} for run in rows(paths, "runs") if run["status"] == "complete"
    }
    for row in rows(paths, "measurements"):
        if row["run_id"] in numbers and row["value"] is not None:
            key = row["metric"], row["event_id"], row.get("topology")
            numbers[row["run_id"]][key] = f"{row['value']:.9g}{' censored' if row['censored'] else ''}"
    return numbers
