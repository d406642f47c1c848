"""Claims + measurements -> ledger rows with a verdict (docs/decisions/claims.md).

The rule. A claim has a region: the stated number and a resolution fixed in the claims file. Runs have an estimate of
that number: paired blocks if two variants are compared. `reproduced`: the whole 95 % interval lies in the region.
`differs`: none of it does. Else `undecided`. An interval needs three blocks; a verdict of fewer than six, or one that
Holm's correction over all estimated claims of its experiment does not keep at 5 %, is an indication. A claim that
cannot come out in the experiment as it is, is `not testable here`. A result in favour of a variant that failed in more
of its runs is not reproduced by the remaining ones. A time that was not reached is never a value. A claim about each
run (`every_run`) is a check, not an estimate: one run is enough. An `exact` claim is computed. Runs that were not
steady count, because never settling is a result of the variant; the reason gives their number.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from analysis.claims import limitations, rules
from analysis.claims.exact import judge_exact
from analysis.claims.pools import BlockPool, blocks_of, kept_series, pools_of_claims
from analysis.claims.rows import (  # fmt: skip
    NOT_RUN,
    Key,
    LedgerRow,
    Outcome,
    RunValue,
    SeriesConditions,
    with_note,
)
from analysis.claims.simulated_rows import row_without_sweep, simulated_rows, with_sweeps
from analysis.claims.statements import Claim, ClaimKind, load_claims
from analysis.ingest.run_tables import failed_attempts
from analysis.metrics.definitions import LEVELS_AND_TIMES, place_words
from analysis.record import small_tables
from analysis.record.files import SeriesPaths, read_json_or_none
from analysis.record.small_tables import rows
from analysis.record.sweep_record import is_sweep, newest_sweeps
from analysis.stats import paired_differences
from barograph.errors import ConfigurationError
from barograph.plan.experiment import WHOLE_CLUSTER, Experiment, recorded


def evaluate(
    series_dirs: Sequence[Path | str], family: str | None = None, *, simulated: bool = False
) -> list[LedgerRow]:
    """Return the ledger of a family, or of all, over any number of analysed series; repetitions of the same experiment
    are pooled. Sweeps among them give the model's numbers for claims about sweeps.

    `simulated`: all of the series are, so the model's numbers take the place of verdicts.
    """
    folders = [Path(folder) for folder in series_dirs]
    measured = conditions([SeriesPaths(folder) for folder in folders if not is_sweep(folder)])
    for experiment, topologies in measured.throughput.items():
        for name, places in topologies.items():
            if len(places) > 1:
                raise ConfigurationError(
                    f"{experiment}: in these series throughput of {name or 'its topology'} is measured"
                    f" {place_words(sorted(places))};"
                    " judge those of each place apart"
                )
    ledger = ledger_rows(load_claims(family), measured, simulated=simulated)
    return with_sweeps(ledger, [folder for folder in folders if is_sweep(folder)])


def ledger_rows(claims: Sequence[Claim], measured: SeriesConditions, *, simulated: bool) -> list[LedgerRow]:
    """Return a row a claim: verdicts, or for simulated runs the model's numbers. Claims about sweeps have no number
    yet."""
    if not simulated:
        return judge_all(claims, measured)
    rows_by_name = {
        row.claim.name: row for row in simulated_rows([each for each in claims if not each.simulated], measured)
    }
    return [rows_by_name.get(claim.name) or row_without_sweep(claim) for claim in claims]


def evaluate_newest(results: Path, family: str | None = None) -> list[LedgerRow]:
    """Return the ledger over the most informative series under `results` for each claim (pools.py), without simulated
    ones, and the newest sweep of each name. Unreadable series are left out."""
    claims = load_claims(family)
    return evaluate_each(claims, pools_of_claims(claims, kept_series(results)), newest_sweeps(results).values())


def evaluate_each(
    claims: Sequence[Claim],
    pools: Mapping[str, BlockPool],
    sweeps: Iterable[SeriesPaths] = (),
    *,
    simulated: bool = False,
) -> list[LedgerRow]:
    """Return the ledger as `evaluate`, but judge each claim by the series of its own pool, and derived claims by those
    of their members."""
    series_by_claim = {
        claim.name: tuple(dict.fromkeys(
            paths for name in claim.of or (claim.name,) if name in pools for paths in pools[name].series
        ))
        for claim in claims
    }  # fmt: skip
    all_series = {paths for pool in pools.values() for paths in pool.series}
    conditions_by_series = {selection: conditions(selection, all_series) for selection in set(series_by_claim.values())}
    measured = SeriesConditions(
        {}, by_claim={name: conditions_by_series[selection] for name, selection in series_by_claim.items()}
    )
    ledger = ledger_rows(claims, measured, simulated=simulated)
    if not simulated:
        ledger = [with_note(row, pools[row.claim.name].note) if row.claim.name in pools else row for row in ledger]
    return with_sweeps(ledger, [paths.root for paths in sweeps])


def conditions(series: Iterable[SeriesPaths], beside: Iterable[SeriesPaths] = ()) -> SeriesConditions:
    """Return measurements of complete runs, how all runs ended, and the specification of each experiment.

    Runs are named with their series if another of these, or of `beside`, is of the same experiment.
    """
    values: dict[Key, list[RunValue]] = defaultdict(list)
    outcomes: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    experiments: dict[str, list[Experiment]] = defaultdict(list)
    topologies: dict[str, list[str]] = defaultdict(list)
    throughput: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    runs_of = [(paths, {run["run_id"]: run for run in rows(paths, "runs")}) for paths in series]
    runs_beside = [rows(paths, "runs") for paths in {*beside} - {paths for paths, _ in runs_of}]
    all_runs = [*(runs.values() for _, runs in runs_of), *runs_beside]
    times = Counter(experiment for runs in all_runs for experiment in {run["experiment"] for run in runs})
    for paths, runs in runs_of:
        for experiment in {run["experiment"] for run in runs.values() if run["experiment"]}:
            if (request := recorded(read_json_or_none(paths.series_json) or {})) is not None:
                experiments[experiment].append(request)
            for row in (topology_rows := rows(paths, "topologies")):
                throughput[experiment][row["topology"]].add(row["throughput"])
            topologies[experiment] += small_tables.topologies(paths) or [
                row["topology"] for row in topology_rows if row["topology"]
            ]  # none if the records have none
        failed = {run["run_id"]: run for run in failed_attempts(paths)}
        for run in runs.values():
            end = failed.get(run["run_id"], run)
            outcome = Outcome(run["run_id"], end["status"], end.get("failure_blame"), end["failure_message"])
            outcomes[run["experiment"] or "", run["variant"] or ""].append(outcome)
        blocks, has_several = blocks_of(runs.values()), bool(small_tables.topologies(paths))
        for row in sorted(rows(paths, "measurements"), key=lambda row: str(row["run_id"])):
            run = runs[row["run_id"]]
            if run["status"] == "complete":
                name = run["run_id"] if times[run["experiment"]] == 1 else f"{run['series_id']}/{run['run_id']}"
                value = RunValue(
                    name, row["value"], row["censored"], blocks[run["run_id"]], row.get("steady"), run.get("order")
                )
                key = run["experiment"], run["variant"], row["metric"], row["event_id"]
                values[(*key, row["topology"]) if has_several else key].append(value)
    topology_names = {
        name: tuple(sorted(dict.fromkeys(names), key=WHOLE_CLUSTER.__eq__)) for name, names in topologies.items()
    }
    return SeriesConditions(
        dict(values), dict(outcomes), dict(experiments), topology_names, throughput=dict(throughput)
    )


def judge_all(claims: Sequence[Claim], measured: SeriesConditions) -> list[LedgerRow]:
    """Judge every claim, derived ones last, with Holm's correction over all of an experiment that are about runs and
    not mere checks. Claims derived from several experiments are corrected together.

    A missing measurement counts as a test that shows nothing: a verdict does not become firmer by gaps.
    """
    rows = {claim.name: judge(claim, measured) for claim in claims if claim.kind not in rules.DERIVED_KINDS}
    derived_claims = [claim for claim in claims if claim.kind in rules.DERIVED_KINDS]
    for claim in derived_claims:
        row = rules.judge_derived(claim, rows, measured)
        note = "" if row.verdict == NOT_RUN else limitations.own_numbers_note(claim, claims)
        rows[claim.name] = with_note(row, note)
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for claim in claims:
        if claim.is_estimated:
            groups[claim.family, claim.experiment].append(claim.name)
    for names in groups.values():
        corrected = paired_differences.holm([1.0 if (p := rows[name].p) is None else p for name in names]).tolist()
        for name, p_holm in zip(names, corrected, strict=True):
            if rows[name].p is not None:
                rows[name] = replace(rows[name], p_holm=p_holm)
    return [rows[claim.name] for claim in claims]


def judge(claim: Claim, measured: SeriesConditions) -> LedgerRow:
    """Return the row of a claim that does not follow from others."""
    if claim.kind is ClaimKind.EXACT:
        return judge_exact(claim)
    if claim.simulated:
        return row_without_sweep(claim)
    claim_conditions = measured.for_claim(claim)
    row = rules.judge(claim, claim_conditions)
    if (place := claim_conditions.place(claim.experiment, claim.topology)) and claim.metric in LEVELS_AND_TIMES:
        row = with_note(row, f"throughput is measured {place}")
    rests_on = (value.block[0] for value in claim_conditions.of(claim, claim.variant) if value.run_id in row.run_ids)
    return replace(row, series=tuple(sorted(Counter(rests_on).items())))
