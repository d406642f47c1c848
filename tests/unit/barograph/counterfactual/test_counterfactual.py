"""One recorded run, simulated on with other policies: outcomes by their closed forms, and what is refused."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analysis.errors import StorageError
from analysis.metrics.definitions import OUTCOMES
from analysis.record.event_timeline import event_times
from analysis.record.files import RunPaths, read_json, write_json_atomic
from barograph.cli import main
from barograph.cli.replay import _keep, _write_page, show
from barograph.cli.terminal import stdout_console
from barograph.counterfactual import page as pages
from barograph.counterfactual.outcomes import OutcomeComparison, RunOutcome, SimulatedOutcome, compare
from barograph.counterfactual.simulation import (
    Recording,
    Simulated,
    as_simulated,
    recording_of,
    simulated,
    variants_for,
)
from barograph.errors import ExperimentError
from barograph.plan.experiment import Durations, Experiment, load, only
from barograph.run.simulated_cluster import REASON, RecordedStart, SimulatedCluster, StartedCluster
from scheduler_plugins.simulator.work import Costs
from tests.support import simulated_cells
from tests.unit.barograph.counterfactual.test_page import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHORT = Durations(warm_up_floor_s=45, warm_up_ceiling_s=60, after_floor_s=80, horizon_s=80)
# Of the star: what one executor of the centre can do, and each of two sinks gets every tuple of it.
OF_AN_EXECUTOR = 2 * 1000 / (40.25 * 0.2 + Costs().sleep_slack_ms)  # a sleep takes a little longer


@pytest.fixture(autouse=True)
def _own(own_folders: None) -> None:
    """Results of the test's own."""


def star(*variants: str) -> Experiment:
    experiment = only(load("stela/star"), variants)
    return replace(experiment, testbed=replace(experiment.testbed, name="simulated"), repetitions=1, durations=SHORT)


def record(experiment: Experiment, folder: Path, start: RecordedStart | None = None) -> Path:
    """Simulate it as a series; the folder of its first run."""
    new_cluster = SimulatedCluster if start is None else partial(StartedCluster, start=start)
    assert simulated_cells.failures({folder: experiment}, new_cluster) == {folder: []}
    return folder / "runs" / f"{experiment.variants[0].name}-r1"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return record(star("even_rebalance"), tmp_path / "series")


def replayed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(["replay", *words, "--simulate", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.spark
def test_each_policy_has_the_outcome_of_its_closed_form(
    spark: SparkSession, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Dealt out again the centre has its 2 executors, with Stela two more; both had the same load and start."""
    found = replayed(capsys, str(recorded), "--policy", "even_rebalance", "--policy", "stela")
    then, even, stela = found["runs"]
    assert [(run["name"], run["source"]) for run in found["runs"]] == [
        ("even_rebalance", "recorded"), ("even_rebalance", "simulated"), ("stela", "simulated"),
    ]  # fmt: skip
    assert {run["differing_start"] for run in found["runs"]} == {0}
    for run, executors in ((then, 2), (even, 2), (stela, 4)):
        metrics = run["events"]["e1"]["metrics"]
        assert metrics["throughput_before"] == pytest.approx(2 * OF_AN_EXECUTOR, rel=0.02)
        assert metrics["throughput_after"] == pytest.approx(executors * OF_AN_EXECUTOR, rel=0.03)
    (decision,) = stela["events"]["e1"]["decisions"]
    assert decision["executors"]["star"]["centre"] == [2, 4] and "centre 2→4" in decision["reason"]
    (dealt,) = even["events"]["e1"]["decisions"]
    assert dealt["executors"] == {} and dealt["slots"] > 0 and dealt["reason"].startswith("every executor dealt out")
    assert even["events"]["e1"]["metrics"]["workers_restarted"] > 0

    errors = found["errors_of_the_simulator"]["e1"]
    assert errors["throughput_after"]["percent"] == pytest.approx(0, abs=1.5), (
        "a simulated recording is the simulator's"
    )
    assert errors["workers_restarted"]["difference"] == 0
    assert then["late_s"] == {"e1": 0.0} and all(abs(run["late_s"]["e1"]) < 1 for run in (even, stela))
    assert not (recorded.parents[1] / "counterfactuals").exists(), "a program has no use for a page"


def files_below(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.spark
def test_the_page_has_what_was_recorded_beside_what_is_simulated_and_overwrites_nothing(
    spark: SparkSession, recorded: Path
) -> None:
    home = recorded.parents[1]
    before = files_below(home)
    with recording_of(str(recorded)) as recording:
        variants, left_out = variants_for(recording, ("even_rebalance", "stela"), {})
        with simulated(recording, variants, None, 1, lambda _: None) as found:
            comparison = compare(recording, found, left_out)
            first = pages.write(recording, found, comparison, 1_800_000_000.0)
            earlier = files_below(first.parent)
            second = pages.write(recording, found, comparison, 1_800_000_000.0)
    assert [page.parent.name for page in (first, second)] == [
        "20270115-080000-even_rebalance-r1", "20270115-080001-even_rebalance-r1",
    ]  # fmt: skip
    assert files_below(first.parent) == earlier and before.items() <= files_below(home).items()

    table = rows_of(first.read_text())
    begin, headings = next((place, row) for place, row in enumerate(table) if pages.OVER in row)
    after, over = (headings.index(heading) for heading in ("throughput after, tuples/s", pages.OVER))
    rows = {row[0]: row for row in table[begin + 1 : begin + 5]}
    for title, executors in (("even + rebalance, recorded", 2), ("even + rebalance, simulated", 2), ("Stela", 4)):
        assert float(rows[title][after]) == pytest.approx(executors * OF_AN_EXECUTOR, rel=0.03)
    assert float(rows["Stela"][over]) == pytest.approx(100, abs=4) and rows["even + rebalance, recorded"][over] == ""
    assert abs(float(rows["error of the simulator"][after].removesuffix("\u00a0%").replace("−", "-"))) < 1.5
    decided = table[-1]
    assert decided[0].startswith("Stela") and "centre 2 → 4" in decided[2] and "m5" in decided[4]
    assert "the simulated throughput is the highest with Stela" in first.read_text()

    drawn = list(csv.DictReader((first.parent / "figures" / "throughput.csv").open()))
    assert {row["variant"] for row in drawn if row["mark"] == "median"} == {
        "recorded", "even + rebalance", "Stela", "offered at spouts",
    }  # fmt: skip
    assert {row["event"] for row in drawn if row["mark"] == "event"} == {"scale out, +1 machine"}
    outcomes = list(csv.DictReader((first.parent / "figures" / "outcomes.csv").open()))
    assert [row["source"] for row in outcomes] == ["recorded", "simulated", "simulated"]
    assert float(outcomes[2]["throughput_after"]) == comparison.runs[2].events["e1"].metrics["throughput_after"]


def test_a_page_that_cannot_be_written_takes_nothing_from_the_answer(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (recorded.parents[1] / "counterfactuals").touch()
    nothing = {"e1": SimulatedOutcome((), dict.fromkeys(OUTCOMES), ())}
    then = RunOutcome("even_rebalance", "even", {}, "recorded", nothing, 0, {"e1": 0.0})
    comparison = OutcomeComparison("even_rebalance-r1", "stela/star", {"e1": "scale out"}, (then,), {})
    with recording_of(str(recorded)) as recording:
        assert _write_page(recording, Simulated(tmp_path, {}, {}, {}), comparison) is None
    said = f"no page beside the runs of {recorded.parents[1]}: File exists\n"
    assert capsys.readouterr().err == said


class FullBucket:
    def keep(self, file: Path) -> None:
        raise StorageError(f"no room for {file.name}")


def test_a_page_that_the_bucket_does_not_take_is_said_and_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (page := tmp_path / "report.html").write_text("a page")
    monkeypatch.setattr("barograph.cli.replay.results_of", lambda _: FullBucket())
    assert not _keep(page)
    assert "the page is here and not in the bucket: no room for report.html" in capsys.readouterr().err


def test_runs_begin_as_the_recorded_one_did_and_its_events_come_when_they_did(tmp_path: Path) -> None:
    """A start that no policy would choose: everything on one machine."""
    experiment = replace(star("stela"), seed=7)
    placed = {"star": dict.fromkeys(range(1, 21), "m3:6701")}
    run = record(experiment, tmp_path / "series", RecordedStart(placed))
    lines = [json.loads(line) for line in (run / "decisions.jsonl").read_text().splitlines()]
    assert lines[0]["decision"]["reason"] == REASON
    with recording_of(str(run)) as recording:
        assert recording.start.placement == placed and recording.seed == 7
        machines = [each for line in lines for each in line["request"]["machines"]]
        assert recording.start.supervisor_ids == {each["name"]: each["supervisor_id"] for each in machines} != {}
        times = event_times(RunPaths(run))
        assert recording.gaps_s[0] == times["e1"] - times["first_tuple"]
        simulated = as_simulated(recording, {"seed": 9}, [31.5])
    assert (simulated.events[0].at, simulated.testbed.name, simulated.repetitions) == (31.5, "simulated", 1)
    assert simulated.testbed.options["simulated"]["seed"] == 9 and simulated.seed == 7
    assert simulated.durations.horizon_s == simulated.durations.after_floor_s == pytest.approx(80, abs=2)


def test_a_run_on_whole_machines_is_simulated_on_what_they_were(recorded: Path) -> None:
    document = read_json(recorded / "run.json")
    assert document["spec"]["testbed"]["scale"] == 0.3
    document["spec"]["testbed"] |= {"name": "ec2", "options": {}}
    document["machines"] = {name: {**each, "cores": 2} for name, each in document["machines"].items()}
    write_json_atomic(recorded / "run.json", document)
    with recording_of(str(recorded)) as recording:
        assert as_simulated(recording, None, [31.5]).testbed.scale == 1.0
        assert {name: each.cores for name, each in recording.start.types.items()} == {f"m{n}": 2 for n in range(1, 6)}
        again = record(as_simulated(recording, None, [31.5]), recorded.parents[2] / "again", recording.start)
    assert {each["cores"] for each in read_json(again / "run.json")["machines"].values()} == {2}


def test_by_default_every_policy_that_answers_the_events_is_simulated(recorded: Path) -> None:
    with recording_of(str(recorded)) as recording:
        chosen, left_out = variants_for(recording, (), {})
        assert next(each.name for each in chosen) == "even_rebalance" and chosen[0] == recording.variant
        assert {"stela", "round_robin", "storm", "least_link_load"} <= {each.name for each in chosen}
        assert "foreign" in left_out and "even" not in {each.name for each in chosen}
        named, _ = variants_for(recording, ("even",), {"rebalance": True, "wait_s": 5})
        assert [(each.name, dict(each.parameters)) for each in named] == [
            ("even_rebalance", {"rebalance": True}), ("even", {"rebalance": True, "wait_s": 5}),
        ]  # fmt: skip


def scaled_in(recording: Recording) -> Recording:
    from barograph.plan.events.scaling import ScaleIn

    return replace(
        recording, experiment=replace(recording.experiment, events=(ScaleIn(kind="scale_in", at=50.0, machines=1),))
    )


def test_a_policy_that_does_not_answer_the_events_is_refused(recorded: Path) -> None:
    with recording_of(str(recorded)) as recording:
        for names, said in (
            (("nothing",), "--policy is 'nothing'; known are the policies"),
            (("foreign",), "foreign has code of its own"),
        ):
            with pytest.raises(ExperimentError, match=said):
                variants_for(recording, names, {})
        with pytest.raises(ExperimentError, match="--parameter is for one --policy"):
            variants_for(recording, ("even", "stela"), {"rebalance": True})
        with pytest.raises(ExperimentError, match="policy even does not answer scale_in; it answers "):
            variants_for(scaled_in(recording), ("even",), {})


def test_a_replay_of_a_simulated_run_says_what_it_is_of(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "note: the run was simulated: its rounds, rates and times are a model's"
    assert main(["replay", str(recorded), "--policy", "even"]) == 0
    assert words in capsys.readouterr().out
    document = json.loads((recorded / "run.json").read_text())
    document["spec"]["testbed"]["name"] = "local"
    (recorded / "run.json").write_text(json.dumps(document | {"harness_facts": {}}))
    assert main(["replay", str(recorded), "--policy", "even"]) == 0
    assert words not in capsys.readouterr().out


def test_what_is_no_whole_recording_is_refused(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*words: str) -> str:
        assert main(["replay", *words]) == 2
        return capsys.readouterr().err

    assert "no run 'nothing'; give its folder, or SERIES/RUN" in refused("nothing", "--simulate")
    known = f"{recorded.parents[1]}/nothing"
    assert "has no run 'nothing'; its runs are even_rebalance-r1" in refused(known, "--simulate")
    assert "--policy is missing; allowed without --simulate: one policy" in refused(str(recorded))
    assert "--json, --option and --jobs are for --simulate" in refused(str(recorded), "--policy", "stela", "--json")
    assert "--jobs is 0; allowed: at least 1" in refused(str(recorded), "--simulate", "--jobs", "0")
    assert "pace" in refused(str(recorded), "--simulate", "--policy", "stela", "--option", "pace=3")
    events = (recorded / "events.jsonl").read_text()
    (recorded / "events.jsonl").write_text(
        "\n".join(line for line in events.splitlines() if "scale_requested" not in line)
    )
    assert "events.jsonl does not say when e1 was" in refused(str(recorded), "--simulate")
    write_json_atomic(recorded / "run.json", {**read_json(recorded / "run.json"), "status": "failed"})
    assert "is 'failed'; allowed: a run that is complete" in refused(str(recorded), "--simulate")


def test_it_says_of_each_run_how_late_its_events_came(capsys: pytest.CaptureFixture[str]) -> None:
    """What a policy does at one event may delay the next."""
    nothing = {"e1": SimulatedOutcome((), dict.fromkeys(OUTCOMES), ())}
    late_s = (("stela", "recorded", 0.0), ("stela", "simulated", 0.2), ("metis", "simulated", 7.5))
    runs = tuple(RunOutcome(name, name, {}, source, nothing, 0, {"e1": late}) for name, source, late in late_s)
    show(OutcomeComparison("stela-r1", "stela/star", {"e1": "scale out"}, runs, {}), stdout_console())
    said = [line for line in capsys.readouterr().out.splitlines() if "from where it was recorded" in line]
    assert said == ["note: with metis it came +7.5 s from where it was recorded"]
