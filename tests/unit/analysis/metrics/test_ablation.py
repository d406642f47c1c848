import json
from pathlib import Path
from typing import Any

from analysis.metrics import scale_decisions
from analysis.metrics.scale_decisions import AblationRow
from analysis.record.files import RunPaths, SeriesPaths
from analysis.report import family_page
from scheduler_plugins.json_data import to_json
from scheduler_plugins.policies.stela import VARIANTS
from tests.support.series_by_hand import write_run, write_table
from tests.unit.analysis.metrics.test_scale_decisions import observation


def series_of(root: Path, *parameters: dict[str, Any]) -> SeriesPaths:
    """A run for each set of parameters that Stela had; every one saw the same."""
    line = {"t": 1.0, "observation": to_json(observation()), "decision": {"settled": True, "reason": ""}}
    names = [f"stela-r{number}" for number in range(1, len(parameters) + 1)]
    for name in names:
        write_run(root, name, [], [line])
    write_table(root, "runs", [
        {"run_id": name, "status": "complete", "policy": "stela", "parameters": json.dumps(mine)}
        for name, mine in zip(names, parameters, strict=True)
    ])  # fmt: skip
    return SeriesPaths(root)


def test_every_variant_is_asked_and_the_papers_rule_comes_first(tmp_path: Path) -> None:
    lines = scale_decisions.ablation_rows(series_of(tmp_path, {}, {}))
    assert [line.variant for line in lines] == list(VARIANTS)
    assert lines[0].verdict == "the rule itself" and lines[0].answers == ("sink 1 → 2, work 2 → 3",)
    assert all(line.runs == 2 for line in lines)


def test_fewer_slots_are_a_difference_and_another_score_is_none_here(tmp_path: Path) -> None:
    lines = {line.variant: line for line in scale_decisions.ablation_rows(series_of(tmp_path, {}))}
    fewer, score = lines["paper, slots: with_new"], lines["paper, score: etp_per_executor"]
    assert (fewer.changed, fewer.answers, fewer.verdict) == (
        "slots: with_new", ("work 2 → 3",), "differs in 1 of 1 runs",
    )  # fmt: skip
    assert score.verdict == "no difference on these observations"


def test_what_the_runs_stela_was_told_and_no_variant_is_about_holds_for_all(tmp_path: Path) -> None:
    lines = scale_decisions.ablation_rows(series_of(tmp_path, {"congestion_rate": 1000.0, "slots": "with_new"}))
    assert {line.answers for line in lines} == {next(iter(lines)).answers}
    assert lines[0].answers == ("spout 1 → 2",)  # nothing is congested by that rule


def test_what_cannot_be_read_of_a_log_is_left_out_and_told(tmp_path: Path) -> None:
    paths = series_of(tmp_path, {}, {})
    whole = scale_decisions.ablation_rows(paths)
    assert scale_decisions.unread_rounds(paths) == {} and scale_decisions.unread_sentence({}) == ""
    with RunPaths(tmp_path / "runs" / "stela-r2").decisions.open("a") as log:
        log.write('{"t": 2, "observation": {"event": {"event_id": "e1"}}, "decision": {}}\n{"t": 3, "observ')
    assert scale_decisions.ablation_rows(paths) == whole
    unread = scale_decisions.unread_rounds(paths)
    assert unread == {"stela-r2": 2}
    sentence = scale_decisions.unread_sentence(unread)
    assert sentence == "2 lines of events and decisions could not be read and are left out: stela-r2 (2)."


def test_a_family_shows_where_a_difference_matters() -> None:
    def line(variant: str, differing: int, answer: str = "x 1 → 2") -> AblationRow:
        return AblationRow("e1", variant, "", 3, differing, (answer,))

    table = family_page.ablation_table({"a/b": [line("paper", 0), line("authors", 2)],
                                   "a/c": [line("paper", 0, "y 1 → 2"), line("authors", 0)]})  # fmt: skip
    assert table.text_rows() == [
        ["paper", "–", "x 1 → 2", "y 1 → 2"],
        ["authors", "–", "differs in 2 of 3", "no difference"],
    ]
