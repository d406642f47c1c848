"""Which series the ledger reads, and how: small Parquet tables written by hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.claims.ledger import conditions, evaluate, evaluate_newest
from analysis.claims.pools import kept_series, pools_of_claims
from analysis.claims.rows import Outcome
from analysis.claims.statements import load_claims
from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from analysis.report.headline import headline
from barograph.errors import ConfigurationError
from barograph.plan.experiment import load
from tests.support.series_by_hand import add_rows, change_rows, write_table

STAR, PAGE_LOAD, EVEN = "stela/star", "stela/page_load", "even_rebalance"


def write(
    root: Path,
    series_id: str,
    after: dict[str, list[float]],
    planned: int = 0,
    experiment: str = STAR,
) -> Path:
    """A series with a throughput a run; `planned`: more runs than there are records of."""
    paths = SeriesPaths(root / experiment / series_id)
    runs: list[dict[str, Any]] = []
    measured: list[dict[str, Any]] = []
    for variant, values in after.items():
        for number, value in enumerate(values, 1):
            run_id = f"{variant}-r{number}"
            runs.append({
                "run_id": run_id, "series_id": series_id, "experiment": experiment, "variant": variant,
                "policy": variant, "parameters": "{}", "status": "complete", "failure_message": None,
            })  # fmt: skip
            measured.append({"run_id": run_id, "metric": "throughput_after", "value": value, "censored": False})
    write_table(paths.root, "runs", runs)
    write_table(paths.root, "measurements", measured)
    names = [run["run_id"] for run in runs] + [f"missing-r{number}" for number in range(planned)]
    paths.series_json.write_text(json.dumps({"v": 1, "experiment": experiment, "runs": names}))
    return paths.root


def judged_by(results: Path, claim: str = "S03", testbed: str | None = None) -> Path | None:
    """The only series that a claim is judged by."""
    found = pools_of_claims(load_claims(), kept_series(results, testbed)).get(claim)
    if found is None:
        return None
    (only,) = found.series
    return only.root


CHECK = "S02/star restarts"  # of Stela alone


def test_of_series_that_say_as_much_the_newest_counts_whatever_else_it_was_to_have(tmp_path: Path) -> None:
    write(tmp_path, "20261120-000000-a", {"stela": [10.0]})
    write(tmp_path, "20261121-000000-a", {"stela": [20.0]})
    newest = write(tmp_path, "20261122-000000-a", {"stela": [30.0]}, planned=1)
    (tmp_path / STAR / "20261123-000000-a").mkdir()
    (tmp_path / STAR / "20261123-000000-a" / "series.json").write_text("{")
    assert judged_by(tmp_path, CHECK) == newest
    of_star = {claim.name for claim in load_claims() if claim.experiment == STAR}
    assert pools_of_claims(load_claims(), kept_series(tmp_path)).keys() == of_star


def test_a_series_that_stopped_after_whole_blocks_counts_with_the_blocks_it_has(tmp_path: Path) -> None:
    stopped = write(tmp_path, "20261121-000000-a", {"stela": [1.0, 2.0, 3.0]})
    names = [f"stela-r{number}" for number in range(1, 6)]
    (stopped / "series.json").write_text(json.dumps({"v": 1, "experiment": STAR, "runs": names}))
    write(tmp_path, "20261120-000000-a", {"stela": [1.0, 2.0, 3.0, 4.0]})
    assert judged_by(tmp_path, CHECK) == stopped


def test_neither_fewer_blocks_nor_fewer_variants_replace_a_verdict(tmp_path: Path) -> None:
    both = {"stela": [1.0] * 6, "even_rebalance": [1.0] * 6}
    six = write(tmp_path, "20261120-000000-a", both)
    write(tmp_path, "20261121-000000-a", {name: values[:3] for name, values in both.items()})
    alone = write(tmp_path, "20261122-000000-a", {"stela": [1.0] * 9})
    write(tmp_path, "20261123-000000-a", {"stela_a": [1.0] * 6, "stela_b": [1.0] * 6})
    assert (judged_by(tmp_path), judged_by(tmp_path, CHECK)) == (six, alone)
    again = write(tmp_path, "20261124-000000-a", both)
    assert judged_by(tmp_path) == judged_by(tmp_path, CHECK) == again


def test_one_block_of_all_variants_does_not_hide_twelve_of_two(tmp_path: Path) -> None:
    """Neither in the claim about these two, nor in one that follows from it."""
    two = {"stela": [224.0, 226.0] * 6, "even_rebalance": [99.0, 100.0, 101.0] * 4}
    write(tmp_path, "20261120-000000-a", two, experiment=PAGE_LOAD)
    demo = {"stela": [150.0], "even_rebalance": [100.0], "least_link_load": [100.0]}
    write(tmp_path, "20261121-000000-a", demo, experiment=PAGE_LOAD)
    rows = {row.claim.name: row for row in evaluate_newest(tmp_path)}
    over = rows["S06/over default"]
    assert (over.runs, over.verdict, over.measured) == (12, "reproduced", pytest.approx(125.0, abs=0.1))
    assert all(run_id.startswith("20261120-000000-a/") for run_id in over.run_ids), "another claim has the demo's runs"
    follows = rows["S16/throughput SP"]
    assert (follows.measured, follows.run_ids) == (over.measured, over.run_ids)
    assert "no interval for S03, S04, S05, S07/over default, S08/over default" in follows.reason
    (link_load,) = pools_of_claims(load_claims(), kept_series(tmp_path))["S06/least link load"].series
    assert link_load.root.name == "20261121-000000-a"


def simulated(folder: Path) -> Path:
    document = json.loads((folder / "series.json").read_text())
    (folder / "series.json").write_text(json.dumps(document | {"spec": {"testbed": {"name": "simulated"}}}))
    return folder


def test_a_simulated_series_never_stands_for_one_on_machines(tmp_path: Path) -> None:
    six = {"stela": [90.0] * 6, "even_rebalance": [1.0] * 6}
    newest = simulated(write(tmp_path, "20261122-000000-a", six))
    assert judged_by(tmp_path) is None
    run = {row.claim.name for row in evaluate_newest(tmp_path) if row.verdict != "not run"}
    assert run == {claim.name for claim in load_claims() if claim.kind == "exact"}
    measured = write(tmp_path, "20261120-000000-a", {"stela": [10.0]})
    assert judged_by(tmp_path) == measured
    assert judged_by(tmp_path, testbed="simulated") == newest
    assert judged_by(tmp_path, testbed="ec2") is None


def test_series_of_one_experiment_are_pooled_block_by_block(tmp_path: Path) -> None:
    folders = [
        write(tmp_path, "s1", {"stela": [165.0], "even_rebalance": [100.0]}),
        write(tmp_path, "s2", {"stela": [330.0, 660.0], "even_rebalance": [200.0, 400.0]}),
    ]
    found = {row.claim.name: row for row in evaluate(folders)}["S03"]
    assert (found.runs, found.blocks, found.run_ids[0]) == (3, 3, "s1/stela-r1")
    assert found.measured == pytest.approx(65.0)


def set_status(root: Path, run_ids: set[str], status: str, blame: str | None, message: str) -> None:
    """As these runs ended."""
    ended = {"status": status, "failure_blame": blame, "failure_message": message}
    change_rows(root, "runs", lambda run: run | (ended if run["run_id"] in run_ids else {"failure_blame": None}))


def test_runs_that_do_not_count_are_named(tmp_path: Path) -> None:
    root = write(tmp_path, "s", {"stela": [160.0]})
    set_status(root, {"stela-r1"}, "invalid", None, "fallback")
    known = conditions([SeriesPaths(root)])
    assert not known.values
    assert known.outcomes == {(STAR, "stela"): [Outcome("stela-r1", "invalid", None, "fallback")]}
    row = {row.claim.name: row for row in evaluate([root])}[CHECK]
    assert row.reason.endswith("; left out: stela-r1 (invalid: fallback)")


def test_a_number_of_the_runs_that_are_left_says_how_many_failed(tmp_path: Path) -> None:
    root = write(tmp_path, "s", {"stela": [165.0, 166.65, 163.35] * 2, "even_rebalance": [100.0, 101.0, 99.0] * 2})
    set_status(root, {"stela-r2", "stela-r4", "stela-r6"}, "failed", "system_under_test", "no tuple")
    row = {row.claim.name: row for row in evaluate_newest(tmp_path)}["S03"]
    assert (row.runs, row.measured) == (3, pytest.approx(65.0))
    failed = "3 of 6 runs of stela failed: system under test 3"
    assert row.verdict == "undecided" and row.notes[0] == failed and row.notes[1].startswith("not judged: stela failed")
    set_status(root, {"stela-r2", "stela-r4", "stela-r6"}, "complete", None, "")
    assert {row.claim.name: row for row in evaluate_newest(tmp_path)}["S03"].verdict == "reproduced"
    for number in (2, 4, 6):
        folder = root / "attempts" / f"stela-r{number}.attempt-1"
        folder.mkdir(parents=True)
        failure = {"blame": "system_under_test", "message": "no tuple"}
        (folder / "run.json").write_text(json.dumps({"status": "failed", "failure": failure}))
    row = {row.claim.name: row for row in evaluate_newest(tmp_path)}["S03"]
    assert (row.runs, row.verdict, row.notes[0]) == (6, "undecided", failed), "they were repeated"


def test_runs_in_which_stela_found_nothing_to_parallelise_count_as_all_others_do(tmp_path: Path) -> None:
    """Six blocks: in three new machines get what SP II-B gives them, and throughput grows by 65 %; in three they get
    nothing, and it stays. The mean of their logarithms is that of 1.65 ** 0.5."""
    root = write(tmp_path, "s", {"stela": [165.0, 166.65, 163.35, 100.0, 101.0, 99.0], EVEN: [100.0, 101.0, 99.0] * 2})
    over = [{"run_id": f"stela-r{number}", "metric": "instances_on_joined_over_expected", "censored": False,
             "event_id": "e1", "value": 0.0 if number <= 3 else -3.0} for number in range(1, 7)]  # fmt: skip
    add_rows(root, "measurements", over)
    rows = {row.claim.name: row for row in evaluate([root])}
    assert (rows["S03"].verdict, rows["S03"].runs, rows["S03"].blocks) == ("undecided", 6, 6)
    assert rows["S03"].measured == pytest.approx(100 * (1.65**0.5 - 1))
    assert rows["S03"].low is not None and rows["S03"].high is not None
    assert rows["S03"].low < 0 < 65 < rows["S03"].high
    assert (rows["S02/star slots"].verdict, rows["S02/star slots"].measured) == ("differs", -3.0)
    measured = replace(conditions([SeriesPaths(root)]), experiments={STAR: [load(STAR)]})
    said = headline(STAR, (EVEN, "stela"), {"e1": "scale_out"}, measured)
    assert "6 runs of each" in said and "no complete run" not in said


def test_runs_without_a_policy_and_blocks_are_compared_in_their_order(tmp_path: Path) -> None:
    """Logs of others name no policy and have no blocks."""
    root = write(tmp_path, "s", {"stela": [165.0, 166.65, 163.35], "even_rebalance": [100.0, 101.0, 99.0]})
    change_rows(root, "runs", lambda run: run | {"policy": None})
    row = {row.claim.name: row for row in evaluate([root])}["S03"]
    assert (row.runs, row.measured, row.direction) == (3, pytest.approx(65.0), "same")


def write_topologies(root: Path, rows: list[dict[str, Any]]) -> None:
    small_tables.write(SeriesPaths(root), "topologies", rows)


def write_several(root: Path, series_id: str, *names: str) -> SeriesPaths:
    """A series of one run, which has these topologies."""
    paths = SeriesPaths(write(root, series_id, {"stela": [10.0]}))
    measured = small_tables.rows(paths, "measurements")
    small_tables.write(
        paths, "measurements", [row | {"topology": name} for row in measured for name in (*names, "all")]
    )
    write_topologies(
        paths.root, [{"run_id": "stela-r1", "topology": name, "position": i} for i, name in enumerate(names, 1)]
    )
    return paths


def test_values_are_of_each_topology_where_a_run_has_several(tmp_path: Path) -> None:
    known = conditions([write_several(tmp_path, "20261121-000000-a", "one", "two")])
    assert known.topologies == {STAR: ("one", "two", "all")}
    assert {key[4:] for key in known.values} == {("one",), ("two",), ("all",)}


@pytest.mark.parametrize(("second", "known"), [("one", ("one",)), ("other", ("one", "other")), ("", ("one",))])
def test_runs_of_one_topology_each_need_no_name_even_where_it_differs(
    tmp_path: Path, second: str, known: tuple[str, ...]
) -> None:
    """As in other people's logs, whose runs may be of different topologies."""
    root = write(tmp_path, "20261121-000000-a", {"stela": [10.0, 20.0]})
    write_topologies(root, [{"run_id": f"stela-r{i}", "topology": name, "position": 1}
                            for i, name in enumerate(("one", second), 1)])  # fmt: skip
    found = conditions([SeriesPaths(root)])
    assert found.topologies == {STAR: known}
    (claim,) = (claim for claim in load_claims("stela") if claim.name == "S03")
    for topology in (None, *known):
        mine = replace(claim, metric="throughput_after", topology=topology)
        assert [value.value for value in found.of(mine, "stela")] == [10.0, 20.0]
    with pytest.raises(ConfigurationError, match=r"topology is 'third'; allowed of stela/star: one"):
        found.of(replace(claim, topology="third"), "stela")


def test_the_cluster_is_last_also_where_series_are_pooled(tmp_path: Path) -> None:
    pooled = [write_several(tmp_path, f"2026112{i}-000000-a", "one", name) for i, name in ((1, "two"), (2, "three"))]
    assert conditions(pooled).topologies == {STAR: ("one", "two", "three", "all")}
