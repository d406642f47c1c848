"""Claims + measurements -> ledger rows with a verdict (decision 0035).

The rule. A claim has a region: the stated number and a resolution fixed in the claims file. Runs have an estimate of
that number: paired blocks where two variants are compared. `reproduced`: the whole 95 % interval lies in the region.
`differs`: none of it does. Else `undecided`. An interval needs three blocks; a verdict of fewer than six, or one that
Holm's correction over all estimated claims of the family does not keep at 5 %, is an indication. A claim that cannot
come out in the experiment as it is, is `not testable here`. A time that was not reached is never a value. A claim about
each run (`every_run`) is a check, not an estimate: one run is enough. An `exact` claim is computed. Runs that were not
steady count, for what never settles is a result of its variant; the reason says how many there are.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.claims import rules
from analysis.claims.exact import judge_exact
from analysis.claims.ledger_rows import BlockId, Conditions, Key, LedgerRow, Value
from analysis.claims.statements import Claim, Kind, load_claims
from analysis.errors import RecordError
from analysis.record.event_timeline import event_id_of
from analysis.record.files import SeriesPaths, read_json
from analysis.record.small_tables import Row, rows
from analysis.stats import inference
from analysis.stats.paired_differences import MINIMUM_BLOCKS


def evaluate(series_dirs: Sequence[Path | str], family: str = "stela") -> list[LedgerRow]:
    """The ledger of a family over any number of analysed series; repetitions of the same experiment are pooled."""
    return judge_all(load_claims(family), conditions([SeriesPaths(Path(folder)) for folder in series_dirs]))


def evaluate_newest(results: Path, family: str = "stela") -> list[LedgerRow]:
    """The ledger over the newest complete series of each experiment under `results`."""
    return evaluate([paths.root for paths in newest_complete(results).values()], family)


def newest_complete(results: Path) -> dict[str, SeriesPaths]:
    """Experiment -> its newest analysed series in which every planned variant has a complete run.

    A demo, or another series of too few repetitions for an interval, must not hide a verdict: it counts only where
    there is nothing better. A series that stopped after whole blocks is a series of fewer repetitions.
    """
    newest: dict[str, tuple[bool, str, SeriesPaths]] = {}
    for path in results.glob("*/*/*/series.json"):
        paths, experiment = SeriesPaths(path.parent), "/".join(path.parts[-4:-2])
        repetitions = _complete_repetitions(paths)
        candidate = (repetitions >= MINIMUM_BLOCKS, path.parent.name, paths)
        if repetitions and (experiment not in newest or candidate[:2] > newest[experiment][:2]):
            newest[experiment] = candidate
    return {experiment: paths for experiment, (_, _, paths) in sorted(newest.items())}


def _complete_repetitions(paths: SeriesPaths) -> int:
    """Of the planned variant that has fewest; 0 where nothing was analysed."""
    try:
        planned = read_json(paths.series_json).get("runs") or []
    except RecordError:
        return 0
    complete = Counter(run["variant"] for run in rows(paths, "runs") if run["status"] == "complete")
    if not complete or not rows(paths, "measurements"):
        return 0
    return min(complete[variant] for variant in {_variant_of(run_id) for run_id in planned})


def _variant_of(run_id: str) -> str:
    """Of `<variant>-r<repetition>`."""
    return run_id.rpartition("-r")[0]


def conditions(series: Iterable[SeriesPaths]) -> Conditions:
    """Measurements of complete runs, the runs left out, and what each experiment was."""
    values: dict[Key, list[Value]] = defaultdict(list)
    exclusions: dict[tuple[str, str], list[str]] = defaultdict(list)
    specs: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    runs_of = [(paths, {run["run_id"]: run for run in rows(paths, "runs")}) for paths in series]
    times = Counter(experiment for _, runs in runs_of for experiment in {run["experiment"] for run in runs.values()})
    for paths, runs in runs_of:
        for experiment in {run["experiment"] for run in runs.values() if run["experiment"]}:
            specs[experiment] += _specs(paths)
        for run in runs.values():
            if run["status"] != "complete":
                why = f"{run['run_id']} ({run['status']}: {run['failure_message'] or 'no reason recorded'})"
                exclusions[run["experiment"] or "", run["variant"] or ""].append(why)
        blocks = _blocks(runs.values())
        for row in sorted(rows(paths, "measurements"), key=lambda row: str(row["run_id"])):
            run = runs[row["run_id"]]
            if run["status"] == "complete":
                name = run["run_id"] if times[run["experiment"]] == 1 else f"{run['series_id']}/{run['run_id']}"
                found = Value(name, row["value"], row["censored"], blocks[run["run_id"]], row.get("steady"))
                values[_key(run, row)].append(found)
    return Conditions(dict(values), dict(exclusions), dict(specs))


def _specs(paths: SeriesPaths) -> list[Mapping[str, Any]]:
    """None of logs of others."""
    try:
        spec = read_json(paths.series_json).get("spec")
    except RecordError:
        return []
    return [spec] if isinstance(spec, Mapping) else []


def _key(run: Row, row: Row) -> Key:
    return run["experiment"], run["variant"], row["metric"], event_id_of(row)


def _blocks(runs: Iterable[Row]) -> dict[str, BlockId]:
    """By run: its series and block. Logs of others have no blocks: the first run of each variant is one, and so on."""
    found: dict[str, BlockId] = {}
    seen: Counter[str] = Counter()
    for run in sorted(runs, key=lambda run: str(run["run_id"])):
        seen[run["variant"]] += 1
        number = next(
            (run[name] for name in ("block", "repetition") if run.get(name) is not None), seen[run["variant"]]
        )
        found[run["run_id"]] = str(run["series_id"]), int(number)
    return found


def judge_all(claims: Sequence[Claim], measured: Conditions) -> list[LedgerRow]:
    """Every claim, those that follow from others last, with Holm's correction over all that are not mere checks.

    What was not measured counts as a test that shows nothing: a verdict does not grow firmer by what is missing.
    """
    found = {claim.name: judge(claim, measured) for claim in claims if claim.kind not in rules.DERIVED_KINDS}
    derived = [claim for claim in claims if claim.kind in rules.DERIVED_KINDS]
    found |= {claim.name: rules.judge_derived(claim, found, measured) for claim in derived}
    tested = [claim.name for claim in claims if claim.within is not None]
    p_values = [1.0 if (p := found[name].p) is None else p for name in tested]
    for name, p_holm in zip(tested, inference.holm(p_values).tolist(), strict=True):
        if found[name].p is not None:
            found[name] = replace(found[name], p_holm=p_holm)
    return [found[claim.name] for claim in claims]


def judge(claim: Claim, measured: Conditions) -> LedgerRow:
    """One claim's row, for claims that do not follow from others."""
    return judge_exact(claim) if claim.kind is Kind.EXACT else rules.judge(claim, measured)
