"""The page of a counterfactual: what stands beside what, in which order, and in which words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from analysis.metrics.definitions import OUTCOMES, RUN_TABLES
from analysis.record.files import SeriesPaths
from analysis.report import page as pages
from barograph.counterfactual import outcomes, page
from barograph.counterfactual.outcomes import DecisionTaken, OutcomeComparison, RunOutcome, SimulatedOutcome
from barograph.errors import ExperimentError
from tests.support.series_by_hand import write_series

STELA = DecisionTaken("centre 2→3: ETP", 1.25, False, {"star": {"centre": (2, 3)}}, 4, {"m2": 1, "m5": 3}, (), 0, None)
STORM = DecisionTaken("Storm places", 2.0, False, {}, 0, {}, (), 0, "default")


def run(
    name: str,
    after: float | None,
    *decisions: DecisionTaken,
    source: str = "simulated",
    policy: str = "",
    **parameters: int,
) -> RunOutcome:
    metrics = {**dict.fromkeys(OUTCOMES), "throughput_before": 200.0, "throughput_after": after}
    outcome = SimulatedOutcome(decisions, metrics, ())
    return RunOutcome(name, policy or name, parameters, source, {"e1": outcome}, 0, {"e1": 0.0})


RAN = run("even_rebalance", 210.0, source="recorded", policy="even", rebalance=True)
OWN = run("even_rebalance", 200.0, policy="even", rebalance=True)


def compared(*runs: RunOutcome) -> OutcomeComparison:
    return OutcomeComparison("even_rebalance-r1", "stela/star", {"e1": "scale out by 1 machine"}, runs, {})


def lines_of(comparison: OutcomeComparison) -> list[page.OutcomeLine]:
    return page.ordered_lines(comparison, [f"{place}.{each.name}-r1" for place, each in enumerate(comparison.runs)])


Rows = list[tuple[str, list[str]]]


def outcomes_of(*runs: RunOutcome) -> tuple[list[str], Rows, Rows]:
    """Of the first table: headings, and rows of the policy that ran and of the others."""
    comparison = compared(*runs)
    table = page.outcome_table(comparison, lines_of(comparison), "e1", next(iter(RUN_TABLES)))
    rows = [row for row in table.rows if isinstance(row, page.OutcomeRow)]
    mine, others = ([(row.title, row.cells) for row in rows if row.ran is which] for which in (True, False))
    return [column.label for column in table.columns[1:]], mine, others


def decided(*runs: RunOutcome) -> tuple[list[str], list[dict[str, Any]]]:
    """Headings and rows of the table of decisions."""
    comparison = compared(*runs)
    table = page.decision_table(comparison, lines_of(comparison), "e1")
    return [column.label for column in table.columns], list(table.rows)


def said(*runs: RunOutcome) -> list[str]:
    comparison = compared(*runs)
    return page.sentences(comparison, lines_of(comparison), "e1")


def answer(*runs: RunOutcome) -> str:
    comparison = compared(*runs)
    return page.answer(comparison, lines_of(comparison), "e1")


def with_metrics(
    one: RunOutcome, censored: Sequence[str] = (), unsteady: Sequence[str] = (), **values: float
) -> RunOutcome:
    outcome = one.events["e1"]
    changed = SimulatedOutcome(outcome.decisions, {**outcome.metrics, **values}, tuple(censored), tuple(unsteady))
    return replace(one, events={"e1": changed})


def rows_of(text: str) -> list[list[str]]:
    """The cells of every row of every table, as a reader sees them."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", text, re.DOTALL)
    cells = (re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows)
    return [[unescape(re.sub(r"<[^>]+>", " ", cell)).strip() for cell in row] for row in cells]


def test_the_policy_that_ran_comes_first_with_the_simulators_error_and_then_the_highest_throughput() -> None:
    headings, mine, others = outcomes_of(
        RAN, OWN, run("round_robin", 190.0), run("metis", None), run("stela", 300.0, STELA)
    )
    assert headings == ["throughput before, tuples/s", "throughput after, tuples/s", "over the policy that ran (%)"]
    assert mine == [
        ("even + rebalance, recorded", ["200.0", "210.0", ""]),
        ("even + rebalance, simulated", ["200.0", "200.0", ""]),
        ("error of the simulator", ["0.0\u00a0%", "−4.8\u00a0%", ""]),
    ]
    assert others == [
        ("Stela", ["200.0", "300.0", "+50.0"]),
        ("round robin", ["200.0", "190.0", "−5.0"]),
        ("METIS", ["200.0", "–", "–"]),
    ]


def test_without_a_simulation_of_the_policy_that_ran_nothing_stands_over_it() -> None:
    headings, mine, others = outcomes_of(RAN, run("stela", 300.0))
    assert headings == ["throughput before, tuples/s", "throughput after, tuples/s"]
    assert [[title for title, _ in group] for group in (mine, others)] == [["even + rebalance, recorded"], ["Stela"]]
    assert said(RAN, run("stela", 300.0)) == [
        "The recorded policy cannot be simulated, so how far the simulator is off on this run is not known."
    ]


def test_a_time_that_was_not_reached_is_a_bound_without_an_error_and_what_was_not_steady_is_marked() -> None:
    ran = with_metrics(RAN, convergence_sp_s=60.0)
    own = with_metrics(OWN, ["convergence_sp_s"], ["throughput_after"], convergence_sp_s=80.0)
    _, mine, _ = outcomes_of(ran, own)
    assert [cells[3] for _, cells in mine] == ["60", "> 80", "–"]
    assert mine[1][1][1] == "200.0 †"


def test_the_answer_names_who_is_alike_and_what_the_simulators_error_may_be() -> None:
    best = "after the event the simulated throughput is the highest with Stela: 300\u00a0tuples/s"
    assert answer(RAN, OWN, run("stela", 300.0)) == f"{best}, +50.0\u00a0% over even + rebalance, the policy that ran"
    said = answer(RAN, OWN, run("stela", 206.0), run("metis", 205.0))
    assert "with Stela and METIS (within 1 %): 206" in said
    assert "+3.0\u00a0% (no more than the error of the simulator on this run) over even + rebalance" in said
    assert answer(RAN, OWN, run("stela", 150.0)).endswith(
        "with even + rebalance, the policy that ran: 200\u00a0tuples/s"
    )
    said = answer(RAN, OWN, run("stela", 199.0), run("metis", 150.0))
    assert "with even + rebalance and Stela (within 1 %)" in said and said.endswith("rebalance is the policy that ran")
    assert "all 2 policies have the same simulated throughput (within 1 %)" in answer(RAN, OWN, run("stela", 199.0))
    many = [run(f"p{number}", 300.0) for number in range(7)]
    assert "with p0, p1, p2, p3 and 3 more (within 1 %)" in answer(RAN, OWN, *many)
    assert answer(RAN, OWN) == "", "there is nothing to compare it with"


def test_a_decision_says_what_becomes_of_executors_and_which_machines_get_tasks() -> None:
    headings, rows = decided(RAN, OWN, run("stela", 300.0, STELA, congestion=2), run("storm", 250.0, STORM))
    stela, storm = rows[2:]
    assert (stela["title"], stela["policy"], stela["decided"]) == ("Stela", "stela: congestion = 2", "1.2")
    assert (stela["executors"], stela["tasks"], stela["machines"]) == ("centre 2 → 3", 4, "m5 × 3, m2")
    assert (storm["executors"], storm["tasks"], storm["machines"]) == ("–", None, "chosen by Storm's default")
    assert (storm["title"], storm["policy"]) == ("storm", ""), "nothing is said twice"
    assert rows[0]["executors"] == "no decision" and "machines of the cluster" not in headings


def test_of_a_policy_that_decides_by_itself_the_row_has_the_sum_and_a_list_that_ends() -> None:
    def step(number: int) -> DecisionTaken:
        executors = {"star": {"centre": (number, number + 1)}}
        return DecisionTaken("more", 10.0 * number, True, executors, 1, {f"m{number}": 1}, (), number % 2, None)

    headings, rows = decided(RAN, OWN, run("ds2", 300.0, *(step(number) for number in range(2, 30))))
    row = rows[-1]
    assert (row["executors"], row["tasks"], row["decided"]) == ("centre 2 → 30", 28, "20.0")
    assert row["machines"] == "m2, m3, m4, m5, m6, m7, 22 more"
    assert row["reason"] == "the first of 28 decisions: more"
    assert row["more"][0] == "after 30.0 s: centre 3 → 4; 1 task to other slots; asks for 1 more machine (more)"
    assert (len(row["more"]), row["unlisted"]) == (20, 7)
    assert row["machine_changes"] == "asks for 14 more machines" and "machines of the cluster" in headings


def written(folder: Path, policies: int) -> str:
    names = ["even_rebalance", *(f"p{number:02d}" for number in range(policies))]
    comparison = compared(RAN, OWN, *(run(name, 300.0 + place) for place, name in enumerate(names[1:])))
    root = write_series(
        folder / "tables", "stela/star", {"even_rebalance_ran": 210.0, **dict.fromkeys(names, 300.0)}, 1
    )
    lines = page.ordered_lines(comparison, ["even_rebalance_ran-r1", *(f"{name}-r1" for name in names)])
    data = page.timeline(SeriesPaths(root), lines)
    content = page.content(comparison, lines, data, ["Simulated."], folder, 1_800_000_000.0)
    return pages.save(folder / "page" / "report.html", content).read_text()


def test_a_few_policies_share_a_panel_with_the_recorded_run_in_black(tmp_path: Path) -> None:
    text = written(tmp_path, 2)
    legend = re.findall(r'<span style="color: ([^"]+)">■ ([^<]+)</span>', text)
    assert legend[0] == ("#222222", "recorded") and len({colour for colour, _ in legend}) == 4
    for name in ("recorded, 211/s", "even + rebalance, 301/s", "p00, 301/s", "p01, 301/s", "scale out, +1 machine"):
        assert name in text
    assert "Black is what was recorded with even + rebalance" in text


def test_many_policies_have_a_panel_each_as_far_as_a_reader_can_see_and_a_row_each(tmp_path: Path) -> None:
    text = written(tmp_path, 40)
    assert "■" not in text and "recorded, 211/s" in text and "p39, 301/s" in text, "the highest comes first"
    assert "p00, 301/s" not in text
    assert "Grey in every panel is what was recorded with even + rebalance" in text
    assert "24 of 42 runs are drawn; the tables have all." in text
    titles = [row[0] for row in rows_of(text) if len(row) == 4]
    assert titles[:5] == [
        "policy", "even + rebalance, recorded", "even + rebalance, simulated", "error of the simulator", "p39",
    ]  # fmt: skip
    assert len(titles) == 1 + 3 + 40
    assert {path.name for path in (tmp_path / "page" / "figures").iterdir()} >= {"outcomes.csv", "throughput.pdf"}


def test_links_are_to_pages_that_are_there(tmp_path: Path) -> None:
    assert "../../" not in written(tmp_path / "a", 1)
    (tmp_path / "b" / "runs" / "even_rebalance-r1").mkdir(parents=True)
    for place in ("report.html", "runs/even_rebalance-r1/report.html"):
        (tmp_path / "b" / place).touch()
    text = written(tmp_path / "b", 1)
    assert 'href="../../report.html"' in text and 'href="../../runs/even_rebalance-r1/report.html"' in text


def test_a_damaged_decision_is_a_clear_error() -> None:
    line = {"reason": "moves", "t": 12.0, "own": False}
    seen = {"topology_id": "star-1", "name": "star", "placement": {"1": "m1:6700"}, "components": []}
    decision = {"executors": {}, "placement": {"star-1": {"1": None}}, "release": []}
    log = {"decision_id": "d2", "decision": decision, "observation": {"topologies": [seen]}}
    with pytest.raises(ExperimentError, match=r"decisions\.jsonl of the run has a decision that is none, d2 "):
        outcomes._decision(line, log, 10.0)


def test_executors_that_come_and_go_are_no_change() -> None:
    there = replace(STELA, executors={"star": {"centre": (2, 3), "sink_1": (1, 2)}})
    back = replace(STELA, executors={"star": {"centre": (3, 2)}})
    assert outcomes.net_executors([there, back]) == {"star": {"sink_1": (1, 2)}}
    assert outcomes.net_executors([back, there]) == {"star": {"sink_1": (1, 2)}}


def test_two_runs_of_one_name_are_told_apart_by_their_parameters() -> None:
    twice = compared(RAN, OWN, run("even_rebalance", 250.0, policy="even", rebalance=True, wait_s=5))
    assert [line.title for line in lines_of(twice)] == [
        "recorded", "even + rebalance (rebalance = True)", "even + rebalance (rebalance = True, wait s = 5)",
    ]  # fmt: skip
