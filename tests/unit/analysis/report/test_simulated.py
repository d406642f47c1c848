"""What a report says of simulated runs."""

import json
from pathlib import Path
from typing import Any

from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from analysis.report import page
from analysis.report.words import model_sentence as sentence
from analysis.report.words import model_sentence_of_series as sentence_of_series
from tests.support.series_by_hand import cut_short

REAL = {"harness_facts": json.dumps({"cpus": 2})}


def simulated(**costs: float) -> dict[str, Any]:
    return {"harness_facts": json.dumps({"simulated": {"seed": 3, "sample_s": 1, "costs": costs}})}


def test_of_real_runs_nothing_is_said() -> None:
    assert sentence([REAL, {"harness_facts": None}]) == ""


def test_simulated_numbers_are_said_to_be_so_with_their_costs_and_where_their_errors_stand() -> None:
    said = sentence([simulated(receive_ms=0.02, hop_ms=1.0)])
    assert said.startswith("Simulated, not measured: ")
    assert "receive_ms 0.02, hop_ms 1.0" in said and "seed 3" in said and "docs/simulator.md" in said


def test_where_runs_differ_every_value_is_there_and_how_many_are_simulated() -> None:
    said = sentence([REAL, simulated(hop_ms=1.0), simulated(hop_ms=2.0)])
    assert "(2 of the 3 runs)" in said and "hop_ms 1.0 or 2.0" in said


def test_the_errors_of_a_calibration_beside_the_series_are_repeated(tmp_path: Path) -> None:
    from analysis.calibration.validation import FOLDER, write
    from tests.unit.analysis.calibration.test_validation import COSTS, FOUND, run

    write(tmp_path / FOLDER / "one", FOUND)
    said = sentence([run(COSTS)], tmp_path / "stela" / "linear" / "20261124-3")
    assert "throughput after 4.0 % (9.0; −1.0)" in said
    assert "Outside of what was validated" not in said
    assert "No calibration has judged these costs" in sentence([run(COSTS)])


def test_a_calibration_is_found_from_a_point_of_a_sweep_too(tmp_path: Path) -> None:
    from analysis.calibration.validation import FOLDER, write
    from tests.unit.analysis.calibration.test_validation import COSTS, FOUND, run

    write(tmp_path / FOLDER / "one", FOUND)
    point = tmp_path / "stela" / "linear" / "sweep-20261124-3" / "points" / "00001-3"
    assert "throughput after 4.0 % (9.0; −1.0)" in sentence([run(COSTS)], point)


def test_of_several_series_their_simulated_runs_count(tmp_path: Path) -> None:
    folders = [tmp_path / "stela" / "star" / name for name in ("one", "two", "not_here")]
    for folder, runs in zip(folders, ([simulated(hop_ms=1.0), REAL], [simulated(hop_ms=2.0)]), strict=False):
        small_tables.write(SeriesPaths(folder), "runs", [{"run_id": f"r{n}", **run} for n, run in enumerate(runs)])
    said = sentence_of_series(folders)
    assert said.startswith("Simulated, not measured: ") and "hop_ms 1.0 or 2.0" in said
    assert sentence_of_series(folders[2:]) == ""


def test_a_series_that_cannot_be_read_is_named_beside_what_is_said_of_the_others(tmp_path: Path) -> None:
    folders = [tmp_path / "stela" / "star" / name for name in ("one", "two")]
    for folder in folders:
        small_tables.write(SeriesPaths(folder), "runs", [{"run_id": "r1", **simulated(hop_ms=1.0)}])
    whole = sentence_of_series(folders[:1])
    cut_short(folders[1], "runs")
    said = sentence_of_series(folders)
    first, costs = whole.split("\n")
    assert said.startswith(f"{first} Nothing is said of a series: stela/star/two/tables/runs.parquet cannot be read: ")
    assert said.endswith(f"\n{costs}")


def test_a_page_folds_what_storm_is_taken_to_cost() -> None:
    seen, _, behind = str(page.folded(sentence([simulated(receive_ms=0.02)]))).partition("<details><summary>")
    assert "Simulated, not measured" in seen and "No calibration has judged these costs" in seen
    assert "receive_ms" not in seen and "receive_ms 0.02" in behind and "sample_s 1" in behind
    assert page.folded("one line < two") == "one line &lt; two"
