"""Claims + measurements -> ledger rows with a verdict.

The rule. `reproduced` and `differs` rest on a 95 % bootstrap interval over runs, which needs at least 3 complete runs
of each variant compared. With fewer there is a measurement but no interval, hence no verdict: the row stays `not run`,
and its reason says so, with every value and the direction. A claim that is a condition (falls, at most, longer) is
decided where all of the interval agrees or none of it does, else it is undecided. A claim about each run (`every_run`)
is a check, not an estimate: one run is enough. An `exact` claim is computed. A censored convergence time is a lower
bound: where one decides a median, the interval is open on that side and only a conclusion that holds over the whole
open interval is drawn. Where the source says "about", "around", "barely" or the like, the stated number has a
resolution (see statements.py) and the interval need only meet it. Runs that were not steady count, for what never
settles is a result of its variant; the reason says how many there are.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from analysis.claims import rules
from analysis.claims.ledger_rows import MINIMUM_RUNS, Conditions, Key, LedgerRow, Value
from analysis.claims.statements import Claim, Kind, load_claims
from analysis.errors import RecordError
from analysis.record.event_timeline import event_id_of
from analysis.record.files import SeriesPaths, read_json
from analysis.record.small_tables import Row, rows
from analysis.stats import inference


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
        candidate = (repetitions >= MINIMUM_RUNS, path.parent.name, paths)
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
    """Measurements of complete runs, and the runs left out."""
    values: dict[Key, list[Value]] = defaultdict(list)
    exclusions: dict[tuple[str, str], list[str]] = defaultdict(list)
    runs_of = [(paths, {run["run_id"]: run for run in rows(paths, "runs")}) for paths in series]
    times = Counter(experiment for _, runs in runs_of for experiment in {run["experiment"] for run in runs.values()})
    for paths, runs in runs_of:
        for run in runs.values():
            if run["status"] != "complete":
                why = f"{run['run_id']} ({run['status']}: {run['failure_message'] or 'no reason recorded'})"
                exclusions[run["experiment"] or "", run["variant"] or ""].append(why)
        for row in sorted(rows(paths, "measurements"), key=lambda row: str(row["run_id"])):
            run = runs[row["run_id"]]
            if run["status"] == "complete":
                values[_key(run, row)].append(_value(run, row, alone=times[run["experiment"]] == 1))
    return Conditions(dict(values), dict(exclusions))


def _key(run: Row, row: Row) -> Key:
    return run["experiment"], run["variant"], row["metric"], event_id_of(row)


def _value(run: Row, row: Row, alone: bool) -> Value:
    name = run["run_id"] if alone else f"{run['series_id']}/{run['run_id']}"
    same = f"{run['series_id']} {run['policy'] or run['variant']} {run['parameters']}"  # logs of others name no policy
    return Value(name, row["value"], row["censored"], same, row.get("steady"))


def judge_all(claims: Sequence[Claim], measured: Conditions) -> list[LedgerRow]:
    """Every claim, with Holm's correction over the claims that were tested; those that follow from others last."""
    ledger_by_name = {claim.name: judge(claim, measured) for claim in claims if claim.kind not in rules.DERIVED_KINDS}
    p_values = {name: row.p_value for name, row in ledger_by_name.items() if row.p_value is not None}
    for name, p_holm in zip(p_values, inference.holm(list(p_values.values())).tolist(), strict=True):
        ledger_by_name[name] = replace(ledger_by_name[name], p_holm=p_holm)
    for claim in claims:
        if claim.kind in rules.DERIVED_KINDS:
            ledger_by_name[claim.name] = rules.judge_derived(claim, ledger_by_name)
    return [ledger_by_name[claim.name] for claim in claims]


def judge(claim: Claim, measured: Conditions) -> LedgerRow:
    """One claim's row, for claims that do not follow from others."""
    return rules.judge_exact(claim) if claim.kind is Kind.EXACT else rules.judge(claim, measured)
