"""Claims on a terminal: numbers in columns, statements and runs under them, legible at 100 columns."""

import json
import sys
from pathlib import Path

import pytest

from analysis.claims.exact import COMPUTATIONS
from analysis.claims.pools import BlockPool
from analysis.claims.rows import NOT_RUN, NOT_TESTABLE, LedgerRow
from analysis.claims.statements import ClaimKind, load_claims
from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from analysis.report.ledger_table import LEDGER_VERSION
from barograph import cli
from barograph.cli.claims import claim_lines, ledger, newest_findings
from tests.support.series_by_hand import cut_short, drop_column
from tests.unit.analysis.calibration.test_validation import COSTS, judged_and_simulated
from tests.unit.analysis.calibration.test_validation import run as simulated_run
from tests.unit.analysis.claims.test_pools import keep_series

ROW = {
    "id": "S09/star",
    "experiment": "stela/star",
    "source": "SP III-B",
    "statement": "Stela converges faster than Storm's default on star, and by about a fifth",
    "stated_text": "−21 %",
    "measured_text": "−18.4 %",
    "interval_text": "−30.2 to −7.1",
    "region_text": "−28.2 to −13.1",
    "runs": 3,
    "blocks": 3,
    "run_ids": ["stela-r1", "stela-r2", "stela-r3"],
    "verdict_text": "reproduced",
    "series": "20261121-000000-abcdef01",
}


def test_numbers_stand_in_columns_and_the_rest_under_them() -> None:
    head, numbers, statement, runs = claim_lines([ROW], 100)
    assert head.split() == ["claim", "stated", "measured", "interval", "has", "to", "lie", "blocks", "verdict"]
    assert numbers.index("−18.4 %") == head.index("measured") and numbers.endswith("3       reproduced")
    assert statement.strip().startswith("Stela converges faster") and statement.endswith("(SP III-B)")
    assert runs == "    20261121-000000-abcdef01: stela-r1, stela-r2, stela-r3"


def test_what_was_not_measured_is_a_dash_and_has_no_runs() -> None:
    _, numbers, *under = claim_lines([{"id": "S16", "statement": "x", "runs": 0, "measured_text": None}], 100)
    assert numbers.split()[:2] == ["S16", "–"] and under == ["    x"]


def test_what_no_reader_may_overlook_stands_also_beside_a_number() -> None:
    row = {**ROW, "measured": -18.4, "notes": ["3 of 6 runs of stela failed: system under test 3"], "reason": "a; b"}
    assert "    3 of 6 runs of stela failed: system under test 3" in claim_lines([row], 100)
    assert "    a; b" in claim_lines([{**row, "measured": None}], 100)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(tmp_path))
    return tmp_path


def keep(results: Path, series: str, version: int = LEDGER_VERSION, testbed: str = "local", **row: object) -> None:
    folder = results / "stela" / "star" / series
    folder.mkdir(parents=True)
    (folder / "series.json").write_text(json.dumps({"v": 1, "spec": {"testbed": {"name": testbed}}}))
    (folder / "claims.json").write_text(json.dumps({"v": version, "claims": [{**ROW, **row}]}))


def test_a_newer_series_that_measured_nothing_hides_nothing(results: Path) -> None:
    keep(results, "20261120-000000-a", measured_text="+10 %", verdict_text="differs")
    keep(results, "20261121-000000-a", measured_text="+66 %", verdict_text="undecided")
    keep(
        results, "20261122-000000-a", runs=1, measured_text="+5 %", interval_text="–", verdict_text="1 run: no interval"
    )
    keep(results, "20261123-000000-a", runs=0, measured_text="–", interval_text="–", verdict_text="not run")
    found = newest_findings()["S09/star"]
    assert (found["measured_text"], found["series"]) == ("+66 %", "20261121-000000-a")


def test_what_was_simulated_is_no_verdict_and_is_counted(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(results, "20261120-000000-a", id="S03", measured_text="+10 %")
    keep(results, "20261121-000000-a", id="S03", measured_text="+66 %", testbed="simulated")
    keep(results, "20261122-000000-a", id="S04", testbed="simulated")
    keep(results, "20261123-000000-a", id="S05", version=1, testbed="simulated")
    rows = {row["id"]: row for row in ledger()}
    assert (rows["S03"]["measured_text"], rows["S04"]["verdict"]) == ("+10 %", "not run")
    assert rows["S05"]["reason"] == "no series here has tested it"
    assert not any("simulated" in row for name, row in rows.items() if name.startswith("S"))
    assert rows["M02/payload"]["simulated"] and "simulated" not in rows["M01"], "what is about a sweep always says so"
    assert cli.main(["claims"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("3 simulated series are left out; `barograph claims --testbed simulated`")
    assert cli.main(["claims", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["simulated_left_out"] == 3


def test_the_ledger_of_simulated_series_says_what_the_model_gives_in_every_line(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "the model gives +50 % (+49 to +51 over 6 seeds); stated about +65 %"
    model = {"verdict_text": "no verdict", "verdict": "no verdict", "interval_text": "–", "range_text": "+49 to +51"}
    keep(results, "20261120-000000-a", 3, "simulated", id="S03", model_text=said, reason="can be 0 to +50 %", **model)
    keep(results, "20261121-000000-a", 2, "simulated", id="S05")
    keep(results, "20261121-000000-b", id="S03", measured_text="+10 %")
    keep(results, "20261122-000000-a", id="S04", measured_text="+11 %", testbed="ec2")
    assert cli.main(["claims", "--testbed", "simulated"]) == 0
    lines = capsys.readouterr().out.splitlines()
    sentences = {line.split()[0]: line for line in lines if not line.startswith(" ")}
    assert sentences["S03"].split(maxsplit=1)[1] == said and "    can be 0 to +50 %" in lines
    assert sentences["S04"].split(maxsplit=1)[1] == "not run; stated about +45\u00a0%"
    computed = {claim.name for claim in load_claims() if claim.kind is ClaimKind.EXACT}  # their names may have a space
    judged = [line for line in lines if "reproduced" in line or "differs" in line]
    assert len(judged) == len(computed) and all(line.startswith(tuple(computed)) for line in judged)
    assert cli.main(["claims", "--testbed", "simulated", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["v"] == 3
    rented = {row["id"]: row for row in ledger("ec2")}
    assert (rented["S03"]["verdict"], rented["S04"]["measured_text"]) == ("not run", "+11 %")
    with pytest.raises(SystemExit, match="2"):
        cli.main(["claims", "--testbed", "moon"])
    assert "'moon' is no testbed; known: local, " in capsys.readouterr().err


def test_the_ledger_repeats_the_errors_of_the_costs_of_what_is_in_it(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once, and not of simulated series that say nothing in it."""
    errors = "throughput after 4.0 % (9.0; −1.0)"
    keep(results, "20261120-000000-a", 3, "simulated", id="S03", model_text="the model gives +50 %")
    keep(results, "20261121-000000-a", id="S03")
    judged_and_simulated(results, "stela/star/20261120-000000-a")
    small_tables.write(SeriesPaths(results / "stela/star/other"), "runs", [simulated_run({**COSTS, "noise": 0.9})])
    assert cli.main(["claims", "--testbed", "simulated"]) == 0
    said = capsys.readouterr().out.splitlines()[-2]
    assert said.startswith("Simulated, not measured: ") and said.count(errors) == 1 and "No calibration" not in said
    assert cli.main(["claims"]) == 0
    assert errors not in capsys.readouterr().out


def test_what_was_judged_by_an_older_rule_is_no_verdict(results: Path) -> None:
    keep(results, "20261120-000000-a", measured_text="+10 %")
    keep(results, "20261121-000000-a", version=1, measured_text="+66 %")
    assert newest_findings()["S09/star"]["measured_text"] == "+10 %"


def test_what_is_not_testable_here_is_not_shown_as_not_run(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """page_load without a run of least_link_load: components that wait cannot fall."""
    claims = {claim.name: claim for claim in load_claims()}
    claim = claims["S06/default"]
    untestable = LedgerRow(claim, None, None, None, 0, NOT_TESTABLE, "no executor is added", ())
    root = results / claim.experiment / "20261123-000000-a"
    pool = BlockPool((SeriesPaths(root),))
    monkeypatch.setattr("analysis.claims.pools.pools_of_claims", lambda *_: {claim.name: pool})
    rest = [LedgerRow(each, None, None, None, 0, NOT_RUN, "no complete run", ())
            for each in claims.values() if each != claim]  # fmt: skip
    monkeypatch.setattr("analysis.claims.ledger.evaluate_each", lambda *_, **__: [untestable, *rest])
    row = {row["id"]: row for row in ledger()}["S06/default"]
    assert (row["verdict"], row["reason"], row["series"]) == ("not testable here", "no executor is added", root.name)
    assert "    no executor is added" in claim_lines([row], 100)


def test_the_ledger_as_json(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(results, "20261121-000000-a", id="S03")
    assert cli.main(["claims", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = {row["id"]: row for row in document["claims"]}
    assert document["v"] == LEDGER_VERSION and rows["S03"]["run_ids"] == ROW["run_ids"]
    other = rows["S04"]
    assert (other["verdict"], other["measured"], other["series"], other["run_ids"]) == ("not run", None, None, [])
    assert (rows["S14"]["verdict"], rows["S14"]["series"]) == ("reproduced", None)  # exact: needs no run


def test_what_cannot_be_computed_here_says_why(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    monkeypatch.setattr("analysis.claims.exact._computed", lambda metric: COMPUTATIONS[metric]())
    row = {row["id"]: row for row in ledger()}["M13"]
    assert (row["verdict"], row["series"]) == ("not run", None)
    assert "not computed: needs pymetis" in " ".join(claim_lines([row], 200))


@pytest.mark.parametrize("table", ["runs", "measurements"])
@pytest.mark.parametrize("damage", ["cut short", "column"])
def test_a_series_that_cannot_be_read_is_named_and_the_rest_go_on(
    results: Path, capsys: pytest.CaptureFixture[str], table: str, damage: str
) -> None:
    levels = {"stela": [165.0, 165.3, 164.7], "even_rebalance": [100.0, 100.2, 99.8]}
    damaged, whole = (keep_series(results, f"2026112{number}-000000-a", levels) for number in (1, 2))
    (damaged / "claims.json").write_text(
        json.dumps({"v": LEDGER_VERSION, "claims": [{**ROW, "id": "S04", "verdict": "differs"}]})
    )
    if damage == "cut short":
        cut_short(damaged, table)
        said = f"stela/star/{damaged.name}/tables/{table}.parquet cannot be read: "
    else:
        drop_column(damaged, table, "run_id")
        said = f"stela/star/{damaged.name}/tables/{table}.parquet has no column run_id; analyse it again: "
    rows = {row["id"]: row for row in ledger()}
    assert (rows["S03"]["blocks"], rows["S03"]["series"]) == (3, whole.name)
    assert rows["S04"]["verdict"] == "not run", "nor does what it said of itself count"
    assert cli.main(["claims"]) == 0
    *_, head, line = capsys.readouterr().out.splitlines()
    assert head == "1 series could not be read and is left out:"
    assert line.startswith(f"    {said}") and "`barograph report` of a series" in line
    assert cli.main(["claims", "--json"]) == 0
    (unreadable,) = json.loads(capsys.readouterr().out)["unreadable"]
    assert unreadable.startswith(said)


def test_claims_of_which_every_series_is_damaged_say_so(results: Path) -> None:
    cut_short(keep_series(results, "20261121-000000-a", {"stela": [165.0]}), "runs")
    rows = {row["id"]: row for row in ledger()}
    assert (rows["S03"]["verdict"], rows["S03"]["reason"]) == ("not run", "20261121-000000-a could not be read")
    assert rows["S04"]["reason"] == "no series here has tested it", "which is about another experiment"


def test_several_series_are_named_with_their_blocks(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    levels = {"stela": [165.0, 165.3, 164.7], "even_rebalance": [100.0, 100.2, 99.8]}
    for number in (1, 2):
        keep_series(results, f"2026112{number}-000000-a", levels)
    row = {row["id"]: row for row in ledger()}["S03"]
    blocks = {"20261121-000000-a": 3, "20261122-000000-a": 3}
    assert (row["blocks"], row["verdict_text"], row["series"], row["series_blocks"]) == (6, "reproduced", None, blocks)
    assert cli.main(["claims"]) == 0
    text = capsys.readouterr().out
    assert "    6 blocks of 2 series: 20261121-000000-a (3), 20261122-000000-a (3)" in text
    assert "    12 runs of 2 series: 20261121-000000-a (6), 20261122-000000-a (6)" in text, "of what follows from it"
