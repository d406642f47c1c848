"""Claims on a terminal: stated, measured, verdict; of one series after its report, of all series for `barograph
claims`."""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from analysis.errors import RecordError
from analysis.record.files import SeriesPaths, experiment_of, read_json, read_json_or_none
from analysis.record.simulated import is_of_testbed, is_simulated_series, simulated_words
from analysis.record.sweep_record import newest_sweeps
from analysis.report.table import Heading, ResultTable, columns
from barograph.cli.arguments import add_testbed_choice
from barograph.cli.terminal import line_printer, say, stdout_console
from barograph.plan.experiment import SIMULATED
from barograph.series.results import results
from barograph.settings import results_root

if TYPE_CHECKING:
    from analysis.claims.pools import KeptSeries

KEYS = ("stated_text", "measured_text", "interval_text", "region_text", "blocks", "verdict_text")
INDENT = "    "
NARROWEST = 40
MISSING = "–"
UNTESTED = "no series here has tested it"


EPILOG = (
    "A claim is judged by the whole blocks of all series that were asked for alike. Number of blocks, seed, title,"
    " lease and the variants that the claim does not compare may differ. The page of a series judges it by that series"
    " alone."
)


def add_claims_arguments(claims: argparse.ArgumentParser) -> None:
    claims.epilog = EPILOG
    add_testbed_choice(claims)
    claims.add_argument("--json", action="store_true", help="print JSON as in claims.json, for other programs")


def execute_claims(options: argparse.Namespace) -> int:
    results().refresh(digest=True)
    if options.json:
        say(ledger_json(options.testbed))
    else:
        show_ledger(stdout_console(), options.testbed)
    return 0


def claim_lines(rows: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """Return rows of claims.json as lines; text that does not fit beside the numbers follows below, folded to
    `width`."""
    if any("model_text" in row for row in rows):
        id_width = max(len(str(row["id"])) for row in rows)
        return [
            line
            for row in rows
            for line in (
                f"{row['id']:{id_width}}  {row.get('model_text') or row.get('verdict')}",
                *_notes_below(row, max(width, NARROWEST)),
            )
        ]
    head, *numbers = ResultTable(
        [
            *columns("claim = id; stated = stated_text; measured = measured_text; interval = interval_text"),
            *columns("has to lie = region_text; blocks"),
            Heading("verdict", _verdict),
        ],
        [{**dict.fromkeys(KEYS), **row} for row in rows],
    ).lines()
    paragraphs = [[line, *_notes_below(row, max(width, NARROWEST))] for line, row in zip(numbers, rows, strict=True)]
    return [head, *(line for one in paragraphs for line in one)]


def _notes_below(row: Mapping[str, Any], width: int) -> list[str]:
    from analysis.claims.rows import NOT_TESTABLE

    source = f" ({row['source']})" if row.get("source") else ""
    is_unmeasured = row.get("measured", 0.0) is None or row.get("verdict") == NOT_TESTABLE
    is_why_wanted = (is_unmeasured or "model_text" in row) and row.get("reason") != UNTESTED
    why = str(row.get("reason") or "") if is_why_wanted else "; ".join(row.get("notes") or ())
    texts = [f"{row.get('statement', '')}{source}", why, _run_names(row)]
    paragraphs = (textwrap.wrap(text, width, initial_indent=INDENT, subsequent_indent=INDENT) for text in texts if text)
    return [line for lines in paragraphs for line in lines]


def _run_names(row: Mapping[str, Any]) -> str:
    """Return the names of its runs, or the number of blocks or runs of each series, where there are several."""
    if of := row.get("series_blocks"):
        return f"{sum(of.values())} blocks of {_series_text(of)}"
    names = list(row.get("run_ids") or ())
    series = Counter(name.rpartition("/")[0] for name in names)
    if len(series) > 1:
        return f"{len(names)} runs of {_series_text(series)}"
    runs = ", ".join(names)
    return ": ".join(part for part in (row.get("series") or "", runs) if part) if runs else ""


def _series_text(numbers: Mapping[str, int]) -> str:
    return f"{len(numbers)} series: {', '.join(f'{name} ({number})' for name, number in numbers.items())}"


def _verdict(row: Mapping[str, Any]) -> str | None:
    verdict = row["verdict_text"]
    return f"{verdict or MISSING}, {SIMULATED}" if row.get(SIMULATED) else verdict


def show_claims(series_dir: Path, console: Console) -> None:
    """Print the claims that this series' experiment tests, if any."""
    rows, say = claims_of_series(series_dir), line_printer(console)
    for line in claim_lines(rows, console.width) if rows else ():
        say(line)


def claims_of_series(series_dir: Path) -> list[Mapping[str, Any]]:
    """Return rows of claims.json about the series' experiment."""
    try:
        claims: list[Mapping[str, Any]] = read_json(series_dir / "claims.json")["claims"]
        experiment = read_json(SeriesPaths(series_dir).series_json)["experiment"]
    except (RecordError, KeyError):
        return []
    return [claim for claim in claims if claim.get("experiment") == experiment]


def show_ledger(console: Console, testbed: str | None = None) -> None:
    """Print the ledger, with `not run` where no series here has tested a claim."""
    say = line_printer(console)
    series = _kept_series(testbed)
    rows = ledger(testbed, series)
    for line in claim_lines(rows, console.width):
        say(line)
    from analysis.report.words import model_sentence_of_series

    texts = [str([row.get(key) for key in ("series", "series_blocks", "run_ids")]) for row in rows]
    words = {name for text in texts for name in re.findall(r"[\w-]+", text)}
    if trust := model_sentence_of_series(path for path in sorted(results_root().glob("*/*/*")) if path.name in words):
        say(trust)
    if damages := list(series.damaged.values()):
        be = "is" if len(damages) == 1 else "are"
        say(f"{len(damages)} series could not be read and {be} left out:")
        for damage in damages:
            say(f"{INDENT}{damage}")
    if left_out := simulated_words(simulated_left_out(testbed)):
        say(f"{left_out}; `barograph claims --testbed {SIMULATED}` shows what the simulator says")


def _kept_series(testbed: str | None) -> KeptSeries:
    from analysis.claims.pools import kept_series

    return kept_series(results_root(), testbed)


def ledger_json(testbed: str | None = None) -> str:
    """Return the ledger as JSON. `simulated_left_out`: the number of simulated series not in it; `unreadable`: the
    damage of each series that could not be read."""
    from analysis.report.ledger_table import ledger_version

    left_out = simulated_left_out(testbed)
    series = _kept_series(testbed)
    document = {
        "v": ledger_version(simulated=testbed == SIMULATED),
        "simulated_left_out": left_out,
        "unreadable": list(series.damaged.values()),
        "claims": ledger(testbed, series),
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def simulated_left_out(testbed: str | None) -> int:
    """Count the simulated series with claims.json that the ledger leaves out."""
    if testbed == SIMULATED:
        return 0
    return sum(is_simulated_series(path.parent) for path in _claim_files())


def ledger(testbed: str | None = None, kept: KeptSeries | None = None) -> list[dict[str, Any]]:
    """Return rows as in claims.json, with the `series` (None: not run here), in the order of the claims' files.
    `testbed`: of these series; None: series on machines, not simulated. Rows of simulated series have the model's
    value. `kept`: these series; None: they are read. First counts what all series with the most information on a claim
    say together, across experiments, then a single series; of both, the one that says more."""
    from analysis.claims.statements import FAMILIES, load_claims

    kept = kept or _kept_series(testbed)
    findings = newest_findings(testbed, kept.damaged)
    rows = []
    for family in FAMILIES:
        of_all = newest_ledger(family, kept, testbed)
        for claim in load_claims(family):
            row = max(of_all[claim.name], findings.get(claim.name, {}), key=_weight)
            rows.append(dict(row))
    return rows


def _weight(row: Mapping[str, Any]) -> int:
    """Rank a row: a verdict on runs, or a computation; not testable here; left out; nothing."""
    from analysis.claims.rows import NOT_RUN

    if not row:
        return 0
    if bool(row.get("runs")) or row.get("measured") is not None:
        return 4
    return 1 if row.get("reason") == UNTESTED else 2 if row.get("verdict") == NOT_RUN else 3


def newest_ledger(family: str, kept: KeptSeries, testbed: str | None = None) -> dict[str, Mapping[str, Any]]:
    """Return by claim the result of the series with the most information, across experiments, and exact results."""
    from analysis.claims.ledger import evaluate_each
    from analysis.claims.pools import pools_of_claims
    from analysis.claims.rows import NOT_RUN
    from analysis.claims.statements import ClaimKind, load_claims
    from analysis.report.ledger_table import ledger_row

    claims, of_model = load_claims(family), testbed == SIMULATED
    pools = pools_of_claims(claims, kept)
    sweeps = newest_sweeps(results_root()) if testbed in (None, SIMULATED) else {}
    swept = {claim.name: sweeps[claim.experiment] for claim in claims if claim.simulated and claim.experiment in sweeps}
    series = {name: pool.series for name, pool in pools.items()} | {name: (paths,) for name, paths in swept.items()}
    experiments = {claim.name: claim.experiment for claim in claims}
    rows: dict[str, Mapping[str, Any]] = {}
    for row in evaluate_each(claims, pools, sweeps.values(), simulated=of_model):
        about = row.claim.of or (row.claim.name,)
        series_names = {paths.root.name for name in about for paths in series.get(name, ())}
        is_untested = row.verdict == NOT_RUN and not series_names and row.claim.kind is not ClaimKind.EXACT
        claim_experiments = {experiments.get(name) for name in about}
        unread = [folder.name for folder in kept.damaged if experiment_of(folder) in claim_experiments]
        why = f"{', '.join(unread)} could not be read" if unread else UNTESTED
        untested = {"reason": why} if is_untested else {}
        rows[row.claim.name] = {
            **ledger_row(row, simulated=of_model),
            **untested,
            "series": series_names.pop() if len(series_names) == 1 else None,
        }
    return rows


def newest_findings(testbed: str | None = None, without: Collection[Path] = ()) -> dict[str, Mapping[str, Any]]:
    """Return by claim its row in the claims.json of the newest series that tested it, preferring rows with more
    information. A demo or an unfinished series must not hide a verdict. `without`: folders of series that are left
    out."""
    findings: dict[str, Mapping[str, Any]] = {}
    for row in _rows_of_series(testbed, without):
        if _information(row) >= _information(findings.get(row["id"], {})):
            findings[row["id"]] = row
    return findings


def _rows_of_series(testbed: str | None, without: Collection[Path]) -> Iterator[Mapping[str, Any]]:
    """Yield the claims' rows of the series of the testbed that tested them, older series first."""
    from analysis.report.ledger_table import ledger_version

    version = ledger_version(simulated=testbed == SIMULATED)
    for path in _claim_files():
        if path.parent in without or not is_of_testbed(path.parent, testbed):
            continue
        document = read_json_or_none(path) or {}
        experiment = experiment_of(path.parent)
        for row in document.get("claims", []) if document.get("v") == version else ():
            if row.get("experiment") == experiment:
                yield {**row, "series": path.parent.name}


def _claim_files() -> list[Path]:
    return sorted(results_root().glob("*/*/*/claims.json"), key=lambda path: path.parent.name)


def _information(row: Mapping[str, Any]) -> tuple[bool, bool]:
    """Rank what a row says: an interval (also an inconclusive one) or a range over seeds is more than a measurement,
    and that more than nothing."""
    value = {row.get("interval_text") or MISSING, row.get("range_text") or MISSING}
    return value != {MISSING}, bool(row.get("runs"))
