"""Which series' blocks are judged together: small Parquet tables written by hand, with what was asked for."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from analysis import provenance
from analysis.claims.ledger import evaluate, evaluate_newest, judge
from analysis.claims.pools import kept_series, pools_of_claims
from analysis.claims.rows import LedgerRow, RunValue, SeriesConditions
from analysis.claims.statements import load_claims
from analysis.record.files import write_json_atomic
from analysis.report.ledger_table import ledger_row
from barograph.plan.experiment import Experiment
from tests.support.experiments import changed, variants_changed
from tests.support.series_by_hand import change_rows
from tests.unit.analysis.claims.test_newest_series import STAR, set_status, write

FIRST, SECOND = "20261121-000000-a", "20261122-000000-b"
CLAIMS = {claim.name: claim for claim in load_claims()}
THREE = {"stela": [165.0, 165.3, 164.7], "even_rebalance": [100.0, 100.2, 99.8]}
ANOTHER_BOX = {"stela": [82.5, 82.2, 82.8], "even_rebalance": [50.0, 50.1, 49.9]}  # half as fast


def asked(**changes: Any) -> Experiment:
    """Star with three repetitions."""
    return changed(STAR, **{"repetitions": 3, **changes})


def keep_series(
    results: Path, series_id: str, after: dict[str, list[float]], request: Experiment | None = None, **said: Any
) -> Path:
    """`request`: what was asked for, by default that of star; `said`: what else its document says."""
    root = write(results, series_id, after)
    document = json.loads((root / "series.json").read_text())
    document |= {"series_id": series_id, "spec": (request or asked()).as_data(), **said}
    (root / "series.json").write_text(json.dumps(document))
    write_json_atomic(root / provenance.FILE, {"v": 1, "code": "a", "tables": "a"})
    return root


def add_to_runs(root: Path, **columns: Any) -> None:
    """To every run."""
    change_rows(root, "runs", lambda run: run | columns)


def drop_run(root: Path, run_id: str) -> None:
    for name in ("runs", "measurements"):
        change_rows(root, name, lambda row: None if row["run_id"] == run_id else row)


def change_value(root: Path, run_id: str, value: float) -> None:
    change_rows(root, "measurements", lambda row: row | ({"value": value} if row["run_id"] == run_id else {}))


def row_of(results: Path, name: str = "S03") -> LedgerRow:
    return {row.claim.name: row for row in evaluate_newest(results)}[name]


def test_two_series_of_three_blocks_are_six_and_a_verdict(tmp_path: Path) -> None:
    first = keep_series(tmp_path, FIRST, THREE)
    assert row_of(tmp_path).verdict_text == "reproduced (indication)"
    keep_series(tmp_path, SECOND, ANOTHER_BOX, asked(title="again", seed=2, lease_minutes=10.0, claims=["S03"]))
    row = row_of(tmp_path)
    assert (row.blocks, row.runs, row.verdict_text) == (6, 6, "reproduced")
    assert row.series == ((FIRST, 3), (SECOND, 3)) and len(row.run_ids) == len(set(row.run_ids)) == 12
    assert ledger_row(row)["series_blocks"] == {FIRST: 3, SECOND: 3}
    alone = {row.claim.name: row for row in evaluate([first])}["S03"]  # as on the series' own page
    assert (alone.blocks, alone.series, "series_blocks" in ledger_row(alone)) == (3, ((FIRST, 3),), False)


def of_stela(**changes: Any) -> Experiment:
    """Another variant `stela`."""
    return variants_changed(asked(), {"stela": changes})


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("durations", asked(durations={"after_floor_s": 300.0, "horizon_s": 300.0})),
        ("testbed", asked(testbed={"scale": 0.2})),
        ("testbed", asked(testbed={"options": {"local": {"spread": True}}})),
        ("machines", asked(machines={"before": 5})),
        ("events", asked(events=[{"kind": "scale_out", "at": 100.0}])),
        ("topology", asked(topology={"name": "star", "parameters": {"rate_per_s": 1.0}})),
        ("variants", of_stela(parameters={"slots": "authors"})),
        ("variants", of_stela(policy="round_robin")),
        ("variants", of_stela(code={"label": "x", "commit": "a" * 40})),
        ("variants", of_stela(topology={"parameters": {"rate_per_s": 1.0}})),
    ],
)
def test_other_requests_are_not_pooled_and_the_row_says_so(tmp_path: Path, part: str, other: Experiment) -> None:
    keep_series(tmp_path, FIRST, THREE)
    keep_series(tmp_path, SECOND, ANOTHER_BOX, other)
    row = row_of(tmp_path)
    assert row.series == ((SECOND, 3),), "of two that say as much the newest counts"
    assert f"not pooled, for they differ: {FIRST} ({part})" in row.notes
    keep_series(tmp_path, "20261123-000000-c", ANOTHER_BOX)
    assert row_of(tmp_path).series == ((FIRST, 3), ("20261123-000000-c", 3)), "six blocks say more"


def test_what_says_nothing_keeps_no_series_apart(tmp_path: Path) -> None:
    """Other people's options, budgets, and variants that are not compared."""
    keep_series(tmp_path, FIRST, THREE)
    other = {"name": "other", "policy": "even"}
    newer = asked(
        testbed={"options": {"ec2": {"region": "x"}, "local": {"budget_usd": 5}}},
        variants=[*reversed(asked().as_data()["variants"]), other],
    )
    keep_series(tmp_path, SECOND, {**ANOTHER_BOX, "other": [1.0]}, newer)
    assert row_of(tmp_path).series == ((FIRST, 3), (SECOND, 3))
    assert not any("not pooled" in note for note in row_of(tmp_path).notes)


def test_one_commit_of_a_variant_is_one_code_whatever_it_is_called(tmp_path: Path) -> None:
    for series, label in ((FIRST, "main"), (SECOND, "aaaaaaaaaa")):
        keep_series(tmp_path, series, THREE, of_stela(code={"label": label, "commit": "a" * 40}))
    assert row_of(tmp_path).series == ((FIRST, 3), (SECOND, 3))


@pytest.mark.parametrize(
    ("part", "columns", "said", "analysed"),
    [
        ("measurement", {"measurement": 2}, {}, None),
        ("Storm", {"versions": '{"storm": "2.9.0"}'}, {}, None),
        ("uncommitted changes", {}, {"git_commit": "c", "git_changes": "changes-1.patch"}, None),
        ("analysis", {}, {}, {"code": "b", "tables": "t"}),
    ],
)
def test_what_was_measured_or_analysed_otherwise_is_not_pooled(
    tmp_path: Path, part: str, columns: dict[str, Any], said: dict[str, Any], analysed: dict[str, str] | None
) -> None:
    first = keep_series(tmp_path, FIRST, THREE, git_commit="a")
    second = keep_series(tmp_path, SECOND, ANOTHER_BOX, git_commit="b")
    for root in (first, second):
        write_json_atomic(root / provenance.FILE, {"v": 1, "code": root.name, "tables": "a"})
    assert row_of(tmp_path).series == ((FIRST, 3), (SECOND, 3)), "another commit may be resumed too"
    add_to_runs(second, **columns)
    write_json_atomic(second / "series.json", json.loads((second / "series.json").read_text()) | said)
    if analysed:
        write_json_atomic(second / provenance.FILE, {"v": 1, **analysed})
    row = row_of(tmp_path)
    assert row.series == ((SECOND, 3),)
    (note,) = (note for note in row.notes if "not pooled" in note)
    assert note.startswith(f"not pooled, for they differ: {FIRST} ({part})")
    assert ("`barograph report 'stela/star/*'` analyses all by the same code" in note) is (part == "analysis")


def test_no_pair_is_made_across_series_and_a_failed_run_takes_its_block_out(tmp_path: Path) -> None:
    """Series of a fast box and of a slow one, each of which lacks a run of its first block."""
    root = keep_series(tmp_path, FIRST, THREE)
    set_status(root, {"even_rebalance-r1"}, "failed", "system_under_test", "no tuple")
    root = keep_series(tmp_path, SECOND, ANOTHER_BOX)
    set_status(root, {"stela-r1"}, "failed", "infrastructure", "gone")
    row = row_of(tmp_path)
    assert (row.blocks, row.series) == (4, ((FIRST, 2), (SECOND, 2)))
    assert row.measured == pytest.approx(65.0, abs=0.5)
    assert "2 runs without the other side in its block left out" in row.reason
    failed = "1 of 6 runs of stela failed: infrastructure 1, 1 of 6 runs of even_rebalance failed: system under test 1"
    assert row.notes[0] == failed


def test_blocks_are_whole_blocks(tmp_path: Path) -> None:
    """Each variant has four complete runs of six, and together they have two blocks: three of one series say more."""
    six = {name: [values[0]] * 6 for name, values in THREE.items()}
    root = keep_series(tmp_path, SECOND, six, asked(testbed={"scale": 0.2}))
    gone = {"stela-r1", "stela-r2", "even_rebalance-r3", "even_rebalance-r4"}
    set_status(root, gone, "failed", "infrastructure", "gone")
    keep_series(tmp_path, FIRST, THREE)
    assert row_of(tmp_path).series == ((FIRST, 3),)


def test_a_claim_about_one_variant_has_the_runs_of_all_series_that_have_it(tmp_path: Path) -> None:
    keep_series(tmp_path, FIRST, THREE)
    alone = asked(variants=[each for each in asked().as_data()["variants"] if each["name"] == "stela"])
    keep_series(tmp_path, SECOND, {"stela": ANOTHER_BOX["stela"]}, alone)
    pools = pools_of_claims(CLAIMS.values(), kept_series(tmp_path))
    assert [paths.root.name for paths in pools["S02/star restarts"].series] == [FIRST, SECOND]
    assert [paths.root.name for paths in pools["S03"].series] == [FIRST] and not pools["S03"].others


def test_what_counts_once_counts_once(tmp_path: Path) -> None:
    """A copy, a simulated series (the same seed gives the same runs) and one of which nobody recorded the request."""
    keep_series(tmp_path, FIRST, THREE)
    shutil.copytree(tmp_path / STAR / FIRST, tmp_path / STAR / "20261130-000000-copy")
    write(tmp_path, "20261119-000000-log", THREE)
    row = row_of(tmp_path)
    assert row.series == ((FIRST, 3),)
    assert "not pooled, for they differ: 20261119-000000-log (request not on record)" in row.notes
    for series in ("20261201-000000-s", "20261202-000000-s"):
        keep_series(tmp_path, series, THREE, asked(testbed={"name": "simulated"}))
    (only,) = pools_of_claims([CLAIMS["S03"]], kept_series(tmp_path, "simulated"))["S03"].series
    assert only.root.name == "20261202-000000-s" and row_of(tmp_path) == row


def contradictions(row: LedgerRow) -> list[str]:
    return [note for note in row.notes if "contradict" in note]


@pytest.mark.parametrize("name", ["20261130-000000-copy", "20261101-000000-copy"])
@pytest.mark.parametrize("partial", ["copy", "original"])
def test_of_copies_the_most_complete_one_counts_whatever_their_names(tmp_path: Path, name: str, partial: str) -> None:
    """Folders are met in the order of their names."""
    original = keep_series(tmp_path, FIRST, THREE)
    copy = Path(shutil.copytree(original, tmp_path / STAR / name))
    drop_run(copy if partial == "copy" else original, "stela-r2")
    row = row_of(tmp_path)
    assert (row.blocks, row.series, contradictions(row)) == (3, ((FIRST, 3),), [])
    (only,) = pools_of_claims([CLAIMS["S03"]], kept_series(tmp_path))["S03"].series
    assert only.root.name == (FIRST if partial == "copy" else name)


def test_copies_that_contradict_each_other_are_named(tmp_path: Path) -> None:
    original = keep_series(tmp_path, FIRST, THREE)
    copy = Path(shutil.copytree(original, tmp_path / STAR / "20261101-000000-copy"))
    note = (
        f"copies of {FIRST} contradict it, with other numbers or other runs (20261101-000000-copy): what has most"
        " complete runs counts; remove what is wrong"
    )
    change_value(copy, "stela-r2", 165.3 + 1e-10)
    assert contradictions(row_of(tmp_path)) == [], "sums of the same lines differ in their last digits"
    change_value(copy, "stela-r2", 170.0)
    row = row_of(tmp_path)
    assert (row.series, contradictions(row)) == (((FIRST, 3),), [note])
    assert row.measured == pytest.approx(65.0, abs=0.2), "as many runs: the folder with the series' own name counts"
    drop_run(copy, "stela-r2")
    assert contradictions(row_of(tmp_path)) == []
    drop_run(original, "stela-r1")
    assert contradictions(row_of(tmp_path)) == [note], "each has a run that the other lacks"


def in_order(*stela_first: bool) -> SeriesConditions:
    """A block a series; which of its runs came first."""
    values = {
        ("stela/star", name, "throughput_after", "e1"): [
            RunValue(f"{i}/{name}-r1", level + i / 10, block=(str(i), 1), order=1 if first is (name == "stela") else 2)
            for i, first in enumerate(stela_first)
        ]
        for name, level in (("stela", 165.0), ("even_rebalance", 100.0))
    }
    return SeriesConditions(values)


def test_series_whose_blocks_have_one_order_say_so() -> None:
    """As series of one block have, by their seed."""
    words = "in each block stela ran {} even_rebalance: what drifts within a block is in the number"
    assert judge(CLAIMS["S03"], in_order(False, False, False)).notes == (words.format("after"),)
    assert judge(CLAIMS["S03"], in_order(True, True, True)).notes == (words.format("before"),)
    assert judge(CLAIMS["S03"], in_order(True, False, True)).notes == ()
    assert judge(CLAIMS["S03"], in_order(True, True)).notes == (words.format("before"),)
    assert judge(CLAIMS["S03"], in_order(True)).notes == ()
    one = {key: [RunValue(v.run_id, v.value, block=("s", i), order=v.order) for i, v in enumerate(of)]
           for key, of in in_order(True, True, True).values.items()}  # fmt: skip
    assert judge(CLAIMS["S03"], SeriesConditions(one)).notes == (words.format("before"),)


def test_tables_are_of_the_code_that_makes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {name: tmp_path / name.replace("/", "_") for name in ("analysis/metrics/a.py", "analysis/report/b.py")}
    for file in files.values():
        file.write_text("")
    monkeypatch.setattr(provenance, "code_files", lambda: files)
    empty = provenance.code_digests()
    files["analysis/report/b.py"].write_text("x = 1")
    report = provenance.code_digests()
    files["analysis/metrics/a.py"].write_text("x = 1")
    metrics = provenance.code_digests()
    assert empty["tables"] == report["tables"] != metrics["tables"]
    assert len({each["code"] for each in (empty, report, metrics)}) == 3
    assert provenance.digest_of_series(tmp_path, "tables") is None
    write_json_atomic(tmp_path / provenance.FILE, {"v": 1, **metrics})
    assert provenance.digest_of_series(tmp_path, "tables") == metrics["tables"]
