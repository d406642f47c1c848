"""The page of a counterfactual: what stands beside what, in which order, and in which words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from analysis.record.files import SeriesPaths
from analysis.report import page as pages
from barograph.counterfactual import outcomes, page
from barograph.counterfactual.outcomes import OUTCOMES, Comparison, DecisionTaken, EventOutcome, RunOutcome
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
    outcome = EventOutcome(decisions, metrics, ())
    return RunOutcome(name, policy or name, parameters, source, {"e1": outcome}, 0, {"e1": 0.0})


RAN = run("even_rebalance", 210.0, source="recorded", policy="even", rebalance=True)
OWN = run("even_rebalance", 200.0, policy="even", rebalance=True)


def compared(*runs: RunOutcome) -> Comparison:
    return Comparison("even_rebalance-r1", "stela/star", {"e1": "scale out by 1 machine"}, runs, {})


def lines_of(comparison: Comparison) -> list[page.Line]:
    return page.ordered_lines(comparison, [f"{place}.{each.name}-r1" for place, each in enumerate(comparison.runs)])


def section(*runs: RunOutcome) -> page.EventSection:
    comparison = compared(*runs)
    return page.section(comparison, lines_of(comparison), "e1")


def answer(*runs: RunOutcome) -> str:
    comparison = compared(*runs)
    return page.answer(comparison, lines_of(comparison), "e1")


def with_metrics(
    one: RunOutcome, censored: Sequence[str] = (), unsteady: Sequence[str] = (), **values: float
) -> RunOutcome:
    outcome = one.events["e1"]
    changed = EventOutcome(outcome.decisions, {**outcome.metrics, **values}, tuple(censored), tuple(unsteady))
    return replace(one, events={"e1": changed})


def rows_of(text: str) -> list[list[str]]:
    """The cells of every row of every table, as a reader sees them."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", text, re.DOTALL)
    cells = (re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows)
    return [[unescape(re.sub(r"<[^>]+>", " ", cell)).strip() for cell in row] for row in cells]


def test_the_policy_that_ran_comes_first_with_the_simulators_error_and_then_the_highest_throughput() -> None:
    found = section(RAN, OWN, run("round_robin", 190.0), run("metis", None), run("stela", 300.0, STELA))
    assert found.tables[0].headings == [
        "throughput before, tuples/s",
        "throughput after, tuples/s",
        "over the policy that ran (%)",
    ]
    mine, others = [[(row.title, row.cells) for row in group] for group in found.tables[0].groups]
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
    found = section(RAN, run("stela", 300.0))
    assert found.tables[0].headings == ["throughput before, tuples/s", "throughput after, tuples/s"]
    assert [[row.title for row in group] for group in found.tables[0].groups] == [
        ["even + rebalance, recorded"],
        ["Stela"],
    ]
    assert found.sentences == [
        "The recorded policy cannot be simulated, so how far the simulator is off on this run is not known."
    ]


def test_a_time_that_was_not_reached_is_a_bound_without_an_error_and_what_was_not_steady_is_marked() -> None:
    ran = with_metrics(RAN, convergence_sp_s=60.0)
    own = with_metrics(OWN, ["convergence_sp_s"], ["throughput_after"], convergence_sp_s=80.0)
    found = section(ran, own)
    recorded, simulated, error = found.tables[0].groups[0]
    assert [row.cells[3] for row in (recorded, simulated, error)] == ["60", "> 80", "–"]
    assert simulated.cells[1] == "200.0 †" and found.unsteady and not section(RAN, OWN).unsteady


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
    found = section(RAN, OWN, run("stela", 300.0, STELA, congestion=2), run("storm", 250.0, STORM))
    stela, storm = found.decisions[2:]
    assert (stela.title, stela.policy, stela.decided) == ("Stela", "stela: congestion = 2", "1.2")
    assert (stela.executors, stela.tasks, stela.machines) == ("centre 2 → 3", "4", "m5 × 3, m2")
    assert (storm.executors, storm.tasks, storm.machines) == ("–", "–", "chosen by Storm's default")
    assert (storm.title, storm.policy) == ("storm", ""), "nothing is said twice"
    assert found.decisions[0].executors == "no decision" and not found.changes_machines


def test_of_a_policy_that_decides_by_itself_the_row_has_the_sum_and_a_list_that_ends() -> None:
    def step(number: int) -> DecisionTaken:
        executors = {"star": {"centre": (number, number + 1)}}
        return DecisionTaken("more", 10.0 * number, True, executors, 1, {f"m{number}": 1}, (), number % 2, None)

    found = section(RAN, OWN, run("ds2", 300.0, *(step(number) for number in range(2, 30))))
    row = found.decisions[-1]
    assert (row.executors, row.tasks, row.decided) == ("centre 2 → 30", "28", "20.0")
    assert row.machines == "m2, m3, m4, m5, m6, m7, 22 more"
    assert row.reason == "the first of 28 decisions: more"
    assert row.more[0] == "after 30.0 s: centre 3 → 4; 1 task to other slots; asks for 1 more machine (more)"
    assert (len(row.more), row.unlisted) == (20, 7)
    assert row.machine_changes == "asks for 14 more machines" and found.changes_machines


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


def written(folder: Path, policies: int) -> tuple[page.Content, str]:
    names = ["even_rebalance", *(f"p{number:02d}" for number in range(policies))]
    comparison = compared(RAN, OWN, *(run(name, 300.0 + place) for place, name in enumerate(names[1:])))
    root = write_series(
        folder / "tables", "stela/star", {"even_rebalance_ran": 210.0, **dict.fromkeys(names, 300.0)}, 1
    )
    lines = page.ordered_lines(comparison, ["even_rebalance_ran-r1", *(f"{name}-r1" for name in names)])
    content = page.collect(
        comparison, lines, page.timeline(SeriesPaths(root), lines), ["Simulated."], folder, 1_800_000_000.0
    )
    links = pages.download_links(page.downloads(comparison, lines, content.figure), page.FIGURES)
    return content, pages.render(page.TEMPLATE, c=content, links=links)


def test_a_few_policies_share_a_panel_with_the_recorded_run_in_black(tmp_path: Path) -> None:
    content, text = written(tmp_path, 2)
    assert content.legend[0] == ("recorded", "#222222") and len({colour for _, colour in content.legend}) == 4
    assert content.figure is not None and "scale out, +1 machine" in content.figure.svg
    for name in ("recorded, 211/s", "even + rebalance, 301/s", "p00, 301/s", "p01, 301/s"):
        assert name in content.figure.svg
    assert "Black is what was recorded with even + rebalance" in text


def test_many_policies_have_a_panel_each_as_far_as_a_reader_can_see_and_a_row_each(tmp_path: Path) -> None:
    content, text = written(tmp_path, 40)
    assert content.figure is not None and content.legend == []
    assert "recorded, 211/s" in content.figure.svg and "p39, 301/s" in content.figure.svg, "the highest comes first"
    assert "p00, 301/s" not in content.figure.svg
    assert "Grey in every panel is what was recorded with even + rebalance" in text
    assert "24 of 42 runs are drawn; the tables have all." in text
    titles = [row[0] for row in rows_of(text) if len(row) == 4]
    assert titles[:5] == [
        "policy", "even + rebalance, recorded", "even + rebalance, simulated", "error of the simulator", "p39",
    ]  # fmt: skip
    assert len(titles) == 1 + 3 + 40


def test_links_are_to_pages_that_are_there(tmp_path: Path) -> None:
    content, text = written(tmp_path / "a", 1)
    assert (content.report, content.run_page) == (None, None) and "../../" not in text
    (tmp_path / "b" / "runs" / "even_rebalance-r1").mkdir(parents=True)
    for place in ("report.html", "runs/even_rebalance-r1/report.html"):
        (tmp_path / "b" / place).touch()
    content, text = written(tmp_path / "b", 1)
    assert 'href="../../report.html"' in text and 'href="../../runs/even_rebalance-r1/report.html"' in text


def test_a_damaged_decision_is_a_clear_error() -> None:
    line = {"reason": "moves", "t": 12.0, "own": False}
    seen = {"topology_id": "star-1", "name": "star", "placement": {"1": "m1:6700"}, "components": []}
    decision = {"executors": {}, "placement": {"star-1": {"1": None}}, "release": []}
    log = {"decision_id": "d2", "decision": decision, "observation": {"topologies": [seen]}}
    with pytest.raises(ExperimentError, match=r"decisions\.jsonl of the run has a decision that is none, d2 "):
        outcomes._decision(line, log, 10.0)
