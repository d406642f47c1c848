"""Claims + measurements -> ledger rows with a verdict.

The rule. `reproduced` and `differs` rest on a 95 % bootstrap interval over runs, which needs at least 3 complete runs
of each variant compared. With fewer there is a measurement but no interval, hence no verdict: the row stays `not run`,
and its reason says so, with every value and the direction seen. A claim about each run (`every_run`) is a check, not an
estimate: one run is enough. An `exact` claim is computed. A censored convergence time is a lower bound: where one
decides a median, the interval is open on that side and only a conclusion that holds over the whole open interval is
drawn. Where the source says "about", "around", "barely" or the like, the stated number has a resolution (see
statements.py) and the interval need only meet it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from analysis import statistics
from analysis.claims import exact, follows, rules
from analysis.claims.rows import Conditions, Key, LedgerRow, Value
from analysis.claims.statements import Claim, Kind, load_claims
from analysis.errors import RecordError
from analysis.record import SeriesPaths, read_json
from analysis.scale_events import FIRST_EVENT
from analysis.small_tables import Row, rows


def evaluate(series_dirs: Sequence[Path | str], family: str = "stela") -> list[LedgerRow]:
    """The ledger of a family over any number of analysed series; repetitions of the same experiment are pooled."""
    return judge_all(load_claims(family), conditions([SeriesPaths(Path(folder)) for folder in series_dirs]))


def evaluate_newest(results: Path, family: str = "stela") -> list[LedgerRow]:
    """The ledger of what is known here: the newest complete series of each experiment under `results`."""
    return evaluate([paths.root for paths in newest_complete(results).values()], family)


def newest_complete(results: Path) -> dict[str, SeriesPaths]:
    """Experiment -> its newest analysed series in which every planned run is complete."""
    found: dict[str, SeriesPaths] = {}
    for path in sorted(results.glob("*/*/*/series.json"), key=lambda path: path.parent.name):
        paths = SeriesPaths(path.parent)
        if _is_complete(paths):
            found["/".join(path.parts[-4:-2])] = paths
    return found


def _is_complete(paths: SeriesPaths) -> bool:
    try:
        planned = read_json(paths.series_json).get("runs") or []
    except RecordError:
        return False
    complete = {run["run_id"] for run in rows(paths, "runs") if run["status"] == "complete"}
    return bool(complete) and bool(rows(paths, "measurements")) and complete >= set(planned)


def conditions(series: Iterable[SeriesPaths]) -> Conditions:
    """Measurements of complete runs, and the runs left out."""
    values: dict[Key, list[Value]] = defaultdict(list)
    left_out: dict[tuple[str, str], list[str]] = defaultdict(list)
    chosen = list(series)
    for paths in chosen:
        runs = {run["run_id"]: run for run in rows(paths, "runs")}
        for run in runs.values():
            if run["status"] != "complete":
                why = run["failure_message"] or "no reason recorded"
                left_out[run["experiment"] or "", run["variant"] or ""].append(
                    f"{run['run_id']} ({run['status']}: {why})"
                )
        for row in sorted(rows(paths, "measurements"), key=lambda row: str(row["run_id"])):
            run = runs[row["run_id"]]
            if run["status"] == "complete":
                values[_key(run, row)].append(_value(run, row, alone=len(chosen) == 1))
    return Conditions(dict(values), dict(left_out))


def _key(run: Row, row: Row) -> Key:
    """Tables of older series have no events: each of their runs had one."""
    return run["experiment"], run["variant"], row["metric"], row.get("event_id") or FIRST_EVENT


def _value(run: Row, row: Row, alone: bool) -> Value:
    name = run["run_id"] if alone else f"{run['series_id']}/{run['run_id']}"
    same = f"{run['series_id']} {run['policy']} {run['parameters']}"
    return Value(name, row["value"], row["censored"], same)


def judge_all(claims: Sequence[Claim], measured: Conditions) -> list[LedgerRow]:
    """Every claim, with Holm's correction over the claims that were tested; those that follow from others last."""
    found = {claim.name: judge(claim, measured) for claim in claims if claim.kind not in follows.FOLLOWING}
    tested = {name: row.p_value for name, row in found.items() if row.p_value is not None}
    for name, p_holm in zip(tested, statistics.holm(list(tested.values())), strict=True):
        found[name] = replace(found[name], p_holm=p_holm)
    for claim in claims:
        if claim.kind in follows.FOLLOWING:
            found[claim.name] = follows.follow(claim, found)
    return [found[claim.name] for claim in claims]


def judge(claim: Claim, measured: Conditions) -> LedgerRow:
    """One claim's row, for claims that do not follow from others."""
    return exact.compute(claim) if claim.kind is Kind.EXACT else rules.judge(claim, measured)
