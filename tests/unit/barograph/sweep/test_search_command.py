"""`barograph sweep` of a file with `search`: rounds, resumption, failures, and the result in words and as data."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from analysis import session
from analysis.record import sweep_record
from analysis.record.files import SeriesPaths, read_json, write_json_atomic
from analysis.record.sweep_record import newest_sweeps
from barograph.campaign import search, simulation
from barograph.campaign import sweep as campaign_sweep
from barograph.campaign.sweep import SweepFolder, link_runs
from barograph.cli import main, sweep
from barograph.errors import ExperimentError, RunsFailed
from barograph.plan.search import Condition, Search, Threshold
from barograph.pool import Death, ProcessPool
from barograph.series.series import open_series
from barograph.settings import results_root

Write = Callable[..., Path]
KEY = "topology.overrides.executors.centre"
UNTIL = {"until": "throughput_after >= 380", "usd_per_hour": 0.065}
REACHED = {1: 250.0, 2: 390.0, 3: 400.0, 4: 400.0}  # by executors


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Nothing is analysed: numbers are REACHED and a little of the seed. The values of each round."""
    found: list[list[int]] = []

    def numbers(folder: SweepFolder, *_: object) -> Any:
        found.append([point.values[KEY] for point in folder.points])
        assert link_runs(folder) == len(folder.points)
        return (
            {point.point_id: [REACHED[point.values[KEY]] + point.values["seed"]] for point in folder.points},
            {point.point_id: int(point.values[KEY] == 2 or point.values[KEY] == 4) for point in folder.points},
        )

    monkeypatch.setattr(search, "measure_numbers", numbers)
    monkeypatch.setattr(campaign_sweep, "write_report", lambda folder, _: folder.report)
    return found


def searched(sweep_file: Write, ends: list[int], **keys: Any) -> str:
    path = sweep_file({"seed": [1]}, search={KEY: ends, **UNTIL}, **keys)
    path.write_text(path.read_text().partition("\nsweep:")[0])
    return str(path)


def document() -> tuple[Path, Any]:
    (path,) = (results_root() / "small" / "swept").glob("sweep-*/sweep.json")
    return path, read_json(path)


def test_a_search_measures_ends_halves_and_the_edge_again_and_goes_on_where_it_was_cut_short(
    sweep_file: Write, rounds: list[list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["sweep", searched(sweep_file, [1, 4]), "--variants", "even_rebalance"]
    assert main(command) == 0
    whole = [[1, 4], [2], [1, 2], [1, 2]]  # an interval needs three runs
    said = capsys.readouterr().out
    assert rounds == whole and f"to measure: even_rebalance: {KEY} = 2, seed = 1" in said
    found = (
        "2 is the smallest topology.overrides.executors.centre with throughput_after >= 380 (at 2: 392.00 tuples/s"
        " (389.52 to 394.48; 3 runs), at 1: 252.00 tuples/s (249.52 to 254.48; 3 runs)); 3 of these 6 runs"
        " were not steady; 3.12 USD a day"
    )
    assert found in said.replace("\u202f", " ").replace("\u00a0", " ")
    path, data = document()
    (result,) = data["search"]["results"]
    assert (result["value"], result["below"], result["sure"], result["monotone"]) == (2, 1, True, True)
    assert result["usd_per_day"] == pytest.approx(2 * 0.065 * 24) and result["measured"]["2"] == [391.0, 392.0, 393.0]

    assert main(command) == 0 and rounds == whole, "nothing is measured again"
    points = [row if place < 3 else {key: row[key] for key in row if key not in ("numbers", "unsteady")}
              for place, row in enumerate(data["points"])]  # fmt: skip
    write_json_atomic(path, {**data, "points": points[:4]})
    (path.parent / "points" / points[3]["point_id"] / "point.json").unlink()  # as one that was cut short
    capsys.readouterr()
    assert main(command) == 0 and rounds[4:] == [[1, 2], [1, 2]]
    assert document()[1] == data


@pytest.mark.parametrize(
    ("ends", "words"),
    [([2, 4], "holds at both ends of"), ([1, 2], "")],
)
def test_a_condition_without_an_edge_ends_in_words_without_halves(
    sweep_file: Write, rounds: list[list[int]], capsys: pytest.CaptureFixture[str], ends: list[int], words: str
) -> None:
    code = main(["sweep", searched(sweep_file, ends), "--variants", "even_rebalance"])
    assert (code == 2) == bool(words) and words in capsys.readouterr().out
    assert all(set(values) <= set(ends) for values in rounds)


def test_what_cannot_be_searched_is_refused_before_anything_is_simulated(
    sweep_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(searched(sweep_file, [1, 9]))
    assert main(["sweep", str(path)]) == 2 and "executors" in capsys.readouterr().err
    path.write_text(path.read_text().replace("throughput_after >=", "throughputs >="))
    assert main(["sweep", str(path)]) == 2
    assert "search.until has the metric 'throughputs'; allowed: " in capsys.readouterr().err
    assert main(["run", str(path)]) == 2 and not list(results_root().rglob("sweep.json"))


def test_on_machines_a_point_is_a_series_and_only_the_systems_own_failure_is_a_result(
    sweep_file: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blames, opened = {1: "system_under_test", 2: "infrastructure"}, list[int]()

    def prepare(experiment: Any, **_: Any) -> Any:
        opened.append(experiment.topology.overrides["executors"]["centre"])
        return open_series(experiment, new=True)

    def carry_out(series: Any, *_: Any) -> int:
        if (blame := blames.get(series.experiment.topology.overrides["executors"]["centre"])) is not None:
            raise RunsFailed("it died", blame)
        return 0

    def numbers(folder: SweepFolder, *_: object) -> Any:
        found = {point.point_id: [None if point.values[KEY] == 1 else 400.0] for point in folder.points}
        return found, dict.fromkeys(found, 0)

    monkeypatch.setattr(sweep, "check", lambda _: None)
    monkeypatch.setattr(sweep, "prepare_series", prepare)
    monkeypatch.setattr(sweep, "carry_out", carry_out)
    monkeypatch.setattr(search, "measure_numbers", numbers)
    monkeypatch.setattr(campaign_sweep, "write_report", lambda folder, _: folder.report)
    testbed = {"name": "local", "machine_type": "type_1", "scale": 0.3}
    command = ["sweep", searched(sweep_file, [1, 4], testbed=testbed), "--variants", "even_rebalance"]
    assert main(command) == 4 and opened == [1, 4, 2]
    assert "infrastructure: it died" in capsys.readouterr().out
    blames.pop(2)
    assert main(command) == 0 and opened[3] == 2, "the point that lacks runs"
    assert opened.count(1) == 3, "a failure is repeated as other values are"
    assert "1 run failed or had only a lower bound" in capsys.readouterr().out
    path, data = document()
    links = sorted((path.parent / "points").iterdir())
    assert all(link.is_symlink() for link in links) and data["failures"][0]["blame"] == "system_under_test"


def of_run(event_id: str, name: str, value: float = 20.0, *, censored: bool = False) -> dict[str, Any]:
    return {"run_id": "r", "event_id": event_id, "metric": name, "value": value, "censored": censored}


def test_the_number_is_of_one_event_and_a_run_without_it_stops_the_search() -> None:
    assert search.event_of("latency_all_p95_ms_after", 2, [of_run("e1", "latency_all_p95_ms_after")]) == "e2"
    course = [of_run("e1", "saturation_rate"), of_run("e2", "peak"), of_run("e3", "throughput_after")]
    assert search.event_of("saturation_rate", 3, course) == "e2", "the last course, where this run has none"
    assert search.event_of("downtime_s", 3, [of_run("e10", "downtime_s"), of_run("e9", "downtime_s")]) == "e10"
    with pytest.raises(ExperimentError, match="point 1: the run is complete and lost_after was not measured"):
        search.number_of(Condition("lost_after", is_upper=True, bound=0.0), None, "point 1")


@pytest.mark.parametrize(
    ("name", "is_upper", "value", "number"),
    [
        ("saturation_rate", False, 850.0, "a lower bound, which says nothing about 900: let the load grow further"),
        ("saturation_rate", False, 900.0, 900.0),
        ("saturation_rate", True, 850.0, "let the load grow further"),
        ("saturation_rate", True, 950.0, None),
        ("convergence_sp_s", True, 600.0, "let the run be watched for longer: durations.horizon_s"),
    ],
)
def test_a_lower_bound_is_a_number_only_where_it_tells_the_side(
    name: str, is_upper: bool, value: float, number: float | str | None
) -> None:
    condition, row = Condition(name, is_upper, 900.0), of_run("e1", name, value, censored=True)
    if isinstance(number, str):
        with pytest.raises(ExperimentError, match=number):
            search.number_of(condition, row, "x")
    else:
        assert search.number_of(condition, row, "x") == number


def test_a_search_without_a_number_ends_in_its_reason_and_is_in_no_ledger(
    sweep_file: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def analyse(root: Path, *_: Any, **__: Any) -> None:
        SeriesPaths(root).table("measurements").mkdir(parents=True)

    monkeypatch.setattr(session, "shared_session", lambda *_: nullcontext())
    monkeypatch.setattr(search, "analyse_runs", analyse)
    monkeypatch.setattr(search, "avro_jars", lambda *_: "")
    monkeypatch.setattr(session, "jar_settings", lambda *_: {})
    monkeypatch.setattr(sweep_record, "measurements", lambda _: [])
    command = ["sweep", searched(sweep_file, [1, 4]), "--variants", "even_rebalance"]
    assert main(command) == 2
    text = " ".join(capsys.readouterr().err.split())
    assert "run 00001.even_rebalance-r1, event e1: the run is complete and throughput_after was not measured" in text
    path, data = document()
    assert newest_sweeps(results_root()) == {}
    write_json_atomic(path, {**data, "search": {"results": [{}]}})
    assert [paths.root for paths in newest_sweeps(results_root()).values()] == [path.parent]


@pytest.mark.usefixtures("rounds")
def test_a_simulated_run_that_was_killed_at_its_limit_is_no_result(
    sweep_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["sweep", searched(sweep_file, [1, 4]), "--variants", "even_rebalance"]
    monkeypatch.setattr(simulation.SimulatedRun, "do", lambda job: simulation._death(Death(-9, 60.0), job.run.run_id))
    pool = ProcessPool(simulation._do, 1)
    monkeypatch.setattr(pool, "answers", lambda jobs, _: ((job, job.do()) for job in jobs))
    monkeypatch.setattr(sweep, "simulation_pool", lambda _: pool)
    assert main(command) == 4
    assert not any("numbers" in row for row in document()[1]["points"])


def test_costs_under_a_cent_are_said_to_be() -> None:
    found = Search(("x",), ((1,), (2,)), Condition("lost_after", is_upper=True, bound=0.0))
    result = (Threshold(1, 0, sure=True, monotone=True), {0: [5.0], 1: [0.0]})
    assert search.sentence(found, "v", {}, result, {}, 0.004).endswith("; under 0.01 USD a day")
