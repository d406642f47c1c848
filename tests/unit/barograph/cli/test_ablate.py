"""`barograph ablate` on a terminal: variants, verdicts and answers of each event; what is said where there is none."""

import json
from pathlib import Path

import pytest

from analysis.metrics.scale_decisions import AblationRow
from barograph import cli
from barograph.cli import replay
from barograph.cli.replay import as_json, table_lines

LINES = [
    AblationRow("e1", "paper", "slots: per_machine, score: etp", 3, 0, ("centre 2 → 3",)),
    AblationRow(
        "e1", "paper, slots: with_new", "slots: with_new", 3, 2, ("centre 2 → 4 (2 of 3)", "centre 2 → 3 (1 of 3)")
    ),
    AblationRow("e2", "paper", "slots: per_machine, score: etp", 3, 0, ("releases m4",)),
]


def test_each_event_has_its_variants_and_their_answers() -> None:
    text = list(table_lines(LINES, 100))
    assert text == [
        "event e1",
        "  paper                   the rule itself",
        "    with slots: per_machine, score: etp",
        "    centre 2 → 3",
        "  paper, slots: with_new  differs in 2 of 3 runs",
        "    centre 2 → 4 (2 of 3)",
        "    centre 2 → 3 (1 of 3)",
        "event e2",
        "  paper                   the rule itself",
        "    with slots: per_machine, score: etp",
        "    releases m4",
    ]


def test_a_long_answer_is_folded() -> None:
    long = AblationRow("e1", "paper", "", 1, 0, ("nothing (" + "held because " * 20 + ")",))
    assert all(len(line) <= 60 for line in table_lines([long], 60))


def test_the_same_for_other_programs() -> None:
    document = json.loads(as_json(LINES))
    assert document["v"] == 1
    assert document["ablation"][1]["differing"] == 2 and document["ablation"][1]["verdict"] == "differs in 2 of 3 runs"


@pytest.fixture
def series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(tmp_path))
    folder = tmp_path / "stela" / "star" / "20261121-000000-abcdef01"
    folder.mkdir(parents=True)
    (folder / "series.json").write_text("{}")
    return folder


def test_a_series_that_was_not_analysed_is_told_how(series: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ablate", "stela/star"]) == 2
    said = capsys.readouterr().err
    assert "has no tables yet" in said and f"barograph report {series}" in said


def test_a_series_without_scale_events_is_said(
    series: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (series / "tables" / "runs.parquet").mkdir(parents=True)
    monkeypatch.setattr("analysis.metrics.scale_decisions.ablation_rows", lambda _paths: [])
    assert cli.main(["ablate", str(series)]) == 2
    assert "has a scale event in its decision log" in capsys.readouterr().err


def test_the_table_of_a_series(
    series: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "lines_of_series", lambda _folder: LINES)
    assert cli.main(["ablate", series.name]) == 0
    assert "paper, slots: with_new  differs in 2 of 3 runs" in capsys.readouterr().out
