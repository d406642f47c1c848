"""Opening, resuming and finding a series; leases around it."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.record.files import SeriesPaths, read_json, write_json_atomic
from barograph.campaign.steps import (
    NoRunDue,
    NothingBeforeDeadline,
    analyse,
    attempt_next_run,
    deploy,
    do_run,
    require_runs,
    runs_of_execution,
)
from barograph.errors import ExperimentError, Interrupted, TestbedTaken
from barograph.machines import series_lease
from barograph.machines.provision import open_requested, provision, release, require_free_testbed
from barograph.plan.experiment import SIMULATED, Experiment, load, with_changes
from barograph.run.context import SeriesContext
from barograph.series.interruption import request_stop
from barograph.series.provenance import MEASUREMENT, simulating_code_sha256
from barograph.series.results import Results, complete_runs
from barograph.series.run_record import read_run
from barograph.series.series import (
    Series,
    find_all_series,
    find_series,
    open_series,
    read_series,
    series_document,
    set_deadline,
)
from barograph.settings import holder
from inventory.leases import registry
from inventory.leases.holder import Holder, process_holder
from tests.support.durations import SHORT

pytestmark = pytest.mark.usefixtures("own_folders")


def test_who_changes_a_series_document_starts_nothing_here(faked: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "stela_star")
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "manual")
    series = open_series(faked)
    document = series_document(series.folder)
    document["spec"]["testbed"] |= {"name": "existing", "options": {"existing": {"inventory": "/results/mine.sh"}}}
    write_json_atomic(SeriesPaths(series.folder).series_json, document)
    with pytest.raises(ExperimentError, match=r"series\.json asks for something else .* start a new series with --new"):
        provision(series.folder)
    assert registry.read_all() == ()


@pytest.fixture
def faked() -> Experiment:
    return with_changes(load("stela/star"), {**SHORT, "testbed": "fake", "repetitions": 1})


def test_a_series_says_what_it_is(faked: Experiment) -> None:
    series = open_series(faked, now_s=1000.0)
    document = series_document(series.folder)
    assert document["experiment"] == "stela/star" and document["spec"] == faked.as_data()
    assert document["runs"] == [run.run_id for run in series.plan()]
    assert document["resumed"] is False and read_series(series.folder) == series


def test_an_unfinished_series_is_resumed_and_new_makes_another(faked: Experiment) -> None:
    first = open_series(faked, now_s=1000.0)
    assert open_series(faked, now_s=2000.0).folder == first.folder
    assert series_document(first.folder)["resumed"] is True
    assert open_series(faked, new=True, now_s=3000.0).folder != first.folder


def test_runs_of_a_barograph_that_measured_otherwise_are_not_added_to(faked: Experiment, bench: SeriesContext) -> None:
    series = open_series(faked, now_s=1000.0)
    name = attempt_next_run(series, replace(bench, experiment=faked))
    assert name is not None and open_series(faked, now_s=2000.0).folder == series.folder
    record = series.run_folder(name) / "run.json"
    older = read_json(record) | {"git_commit": "0123456789abcdef", "git_dirty": False}
    assert older.pop("measurement") == MEASUREMENT
    write_json_atomic(record, older)
    told = r"has a run that another version of Barograph measured \(0123456789ab\).*start a new series with --new"
    with pytest.raises(ExperimentError, match=told):
        open_series(faked, now_s=3000.0)
    assert series_document(series.folder)["opened_s"] == 2000.0
    assert open_series(faked, new=True, now_s=4000.0).folder != series.folder


def test_runs_that_other_code_simulated_are_not_added_to(faked: Experiment, bench: SeriesContext) -> None:
    simulated = replace(faked, testbed=replace(faked.testbed, name=SIMULATED))
    series = open_series(simulated, now_s=1000.0)
    name = attempt_next_run(series, replace(bench, experiment=simulated))
    assert name is not None and open_series(simulated, now_s=2000.0).folder == series.folder
    record = series.run_folder(name) / "run.json"
    of_today = read_json(record)
    assert of_today["code_sha256"] == simulating_code_sha256()
    write_json_atomic(record, of_today | {"git_commit": "0123456789abcdef", "git_dirty": True, "code_sha256": "x"})
    told = (
        r"has a run that other code simulated \(0123456789ab with uncommitted changes\) than .*a new series with --new"
    )
    with pytest.raises(ExperimentError, match=told):
        open_series(simulated, now_s=3000.0)
    assert open_series(simulated, new=True, now_s=4000.0).folder != series.folder
    assert "code_sha256" not in series_document(open_series(faked, now_s=5000.0).folder), "it is of simulated ones"


def test_what_another_barograph_measured_may_have_its_report(faked: Experiment, bench: SeriesContext) -> None:
    series = open_series(faked, now_s=1000.0)
    while name := attempt_next_run(series, replace(bench, experiment=faked)):
        record = series.run_folder(name) / "run.json"
        write_json_atomic(record, {k: v for k, v in read_json(record).items() if k != "measurement"})
    assert open_series(faked, now_s=2000.0).folder == series.folder and series.lacks_report_alone()


def test_another_request_is_another_series(faked: Experiment) -> None:
    first = open_series(faked, now_s=1000.0)
    assert open_series(replace(faked, repetitions=2), now_s=2000.0).folder != first.folder


def test_a_finished_series_is_not_opened_again(faked: Experiment, bench: SeriesContext) -> None:
    series = open_series(faked, now_s=1000.0)
    while attempt_next_run(series, replace(bench, experiment=faked)):
        pass
    assert series.missing_runs() == 0 and series.lacks_report_alone()
    assert open_series(faked, now_s=2000.0).folder == series.folder, "its report is left to do"
    document = read_json(series.folder / "series.json")
    write_json_atomic(series.folder / "series.json", {**document, "reported": complete_runs(series.folder)})
    assert series.is_finished()
    record = series.run_folder(min(series.complete())) / "run.json"
    begun = read_json(record)
    write_json_atomic(record, {**begun, "started_s": begun["started_s"] + 500.0})
    assert series.lacks_report_alone(), "a run was measured again, and the report tells of the one before"
    write_json_atomic(record, begun)
    assert open_series(faked, now_s=3000.0).folder != series.folder


def test_two_series_within_a_second_are_two_folders(faked: Experiment) -> None:
    assert open_series(faked, new=True, now_s=5.0).folder != open_series(faked, new=True, now_s=5.0).folder


def test_a_series_is_found_by_folder_id_and_experiment(faked: Experiment) -> None:
    series = open_series(faked, now_s=1000.0)
    for name in (str(series.folder), series.series_id, "stela/star"):
        assert find_series(name) == series.folder
    with pytest.raises(ExperimentError, match="no series 'nothing'"):
        find_series("nothing")
    with pytest.raises(ExperimentError, match=r"no series '/nowhere/\*'"):
        find_series("/nowhere/*")


def test_a_pattern_is_of_experiments_or_of_all_their_series(faked: Experiment) -> None:
    older, newer = (open_series(faked, new=True, now_s=now_s) for now_s in (1000.0, 2000.0))
    other = open_series(with_changes(load("stela/linear"), {"testbed": "fake"}), now_s=1500.0)
    assert find_all_series("stela/*") == [other.folder, newer.folder]
    assert find_all_series("stela/star/*") == [older.folder, newer.folder]
    assert find_all_series("stela/star") == [newer.folder]
    with pytest.raises(ExperimentError, match=r"no series fits 'henge/\*'"):
        find_all_series("henge/*")


def test_simulated_series_are_named_and_never_the_newest_of_an_experiment(faked: Experiment) -> None:
    measured = open_series(faked, now_s=1000.0)
    simulated = open_series(with_changes(load("stela/star"), {"testbed": "simulated"}), now_s=2000.0)
    alone = open_series(with_changes(load("stela/linear"), {"testbed": "simulated"}), now_s=3000.0)
    assert find_series("stela/star") == measured.folder and find_series(simulated.series_id) == simulated.folder
    assert find_all_series("stela/*") == find_all_series("stela/star/*") == [measured.folder]
    assert find_series("stela/star", "simulated") == simulated.folder
    assert find_all_series("stela/*", "simulated") == [alone.folder, simulated.folder]
    said: list[str] = []
    for name, testbed in (
        ("stela/*", None),
        ("stela/star", None),
        ("stela/*", "simulated"),
        (simulated.series_id, None),
    ):
        find_all_series(name, testbed, said.append)
    assert said == [
        "stela/*: 2 simulated series are left out; --testbed simulated takes them",
        "stela/star: 1 simulated series is left out; --testbed simulated takes it",
    ]
    words = rf"no series of stela/linear on machines \(1 simulated: name one by its id, such as {alone.series_id}\)"
    with pytest.raises(ExperimentError, match=words):
        find_series("stela/linear")
    with pytest.raises(ExperimentError, match=r"no series fits 'stela/lin\*' \(1 simulated: name one"):
        find_all_series("stela/lin*")
    with pytest.raises(ExperimentError, match="no series of stela/linear of the testbed local"):
        find_series("stela/linear", "local")


def test_a_folder_that_is_no_series(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="holds no series"):
        read_series(tmp_path)
    (tmp_path / "series.json").write_text('{"v": 1}')
    with pytest.raises(ExperimentError, match="not a series' document"):
        read_series(tmp_path)


def test_a_damaged_record_is_done_again(series: Series, bench: SeriesContext) -> None:
    run_id = attempt_next_run(series, bench) or ""
    (series.run_folder(run_id) / "run.json").write_text('{"status": "comp')
    assert run_id not in series.complete()
    assert attempt_next_run(series, bench) == run_id
    assert (series.attempts / f"{run_id}.attempt-1" / "run.json").read_text() == '{"status": "comp'


def test_machines_come_and_go_with_the_lease(faked: Experiment) -> None:
    series = open_series(faked)
    lease_id = provision(series.folder)
    assert [machine.name for machine in series_lease.current_machines(series.folder)][:2] == ["master", "m1"]
    assert registry.read(lease_id) is not None
    release(series.folder)
    release(series.folder)
    assert registry.read_all() == ()
    with pytest.raises(series_lease.NoMachines, match="run it again to resume"):
        series_lease.current_machines(series.folder)


def test_a_failed_provision_leaves_no_lease(faked: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.fakes.testbed import FakeTestbed

    broken = FakeTestbed(fails_at="m3")
    monkeypatch.setattr("barograph.machines.provision.ready_testbed", lambda _name: broken)
    series = open_series(faked)
    with pytest.raises(Exception, match="m3 does not answer ssh"):
        provision(series.folder)
    assert registry.read_all() == () and broken.leftovers() == ()


def test_a_testbed_in_use_is_refused_before_a_series_is_opened(faked: Experiment, tmp_path: Path) -> None:
    registry.take("somebody@elsewhere", "other", "fake", 600)
    with pytest.raises(TestbedTaken, match=rf"testbed fake is in use: lease .*series other, process {os.getpid()}"):
        open_requested("stela/star", {"testbed": "fake"}, new=False)
    assert not (tmp_path / "results").exists()
    require_free_testbed(load("stela/star"))


def test_what_another_execution_reports_before_the_series_is_held_stays(
    faked: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    series, begin = open_series(faked, now_s=1000.0), Results.begin

    def late(self: Results, folder: Path) -> None:
        file = SeriesPaths(folder).series_json
        write_json_atomic(file, {**read_json(file), "reported": {"even-r1": 7.0}})
        begin(self, folder)

    monkeypatch.setattr(Results, "begin", late)
    open_series(faked, now_s=2000.0)
    assert series_document(series.folder)["reported"] == {"even-r1": 7.0}


def test_the_holder_is_named_where_tasks_are_short_lived(monkeypatch: pytest.MonkeyPatch) -> None:
    assert holder() == process_holder(os.getpid())
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "stela.star")  # as in a task
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "manual__1")
    assert holder() == Holder(0, "stela.star", run="manual__1") and str(holder()) == "DAG stela.star, run manual__1"
    monkeypatch.setenv("BAROGRAPH_HOLDER_PID", "1")
    assert holder() == replace(process_holder(1), run="stela.star manual__1")


def test_a_stop_ends_the_execution_and_is_forgotten_by_the_next(faked: Experiment) -> None:
    series = open_series(faked, now_s=1000.0)
    provision(series.folder)
    request_stop(series.folder)
    with pytest.raises(Interrupted):
        deploy(series.folder)
    open_series(faked, now_s=2000.0)
    deploy(series.folder)
    release(series.folder)


def test_runs_are_of_their_execution_though_the_clock_was_set_back(faked: Experiment) -> None:
    series = open_series(replace(faked, repetitions=2), now_s=time.time() + 3600)
    names = runs_of_execution(series.folder)
    provision(series.folder)
    deploy(series.folder)
    assert do_run(series.folder) == names[0]
    assert series.current_attempts() == {names[0]} and runs_of_execution(series.folder) == names
    resumed = open_series(replace(faked, repetitions=2))
    assert resumed.folder == series.folder
    assert resumed.current_attempts() == set() and runs_of_execution(series.folder) == names[1:]
    release(series.folder)


def begun_s(series: Series, run: str) -> float:
    return float((read_run(series.run_folder(run)) or {})["started_s"])


def test_runs_keep_their_order_whatever_order_their_tasks_come_in(faked: Experiment) -> None:
    series = open_series(replace(faked, repetitions=2), now_s=time.time() - 60)
    names = runs_of_execution(series.folder)
    provision(series.folder)
    deploy(series.folder)
    assert [do_run(series.folder, name) for name in reversed(names)] == names
    begun = [begun_s(series, name) for name in names]
    assert begun == sorted(begun) and do_run(series.folder, names[0]) is None, "a retry has nothing to do"
    assert [begun_s(series, name) for name in names] == begun


def test_a_run_is_repeated_only_where_somebody_asks(faked: Experiment) -> None:
    series = open_series(replace(faked, repetitions=2), now_s=time.time() - 60)
    first, second, *_ = names = runs_of_execution(series.folder)
    provision(series.folder)
    deploy(series.folder)
    assert [do_run(series.folder, name) for name in (first, second)] == [first, second]
    first_s = begun_s(series, first)
    provision(series.folder)  # it is cleared with the run
    deploy(series.folder)
    assert do_run(series.folder, first, again=True) == first
    assert begun_s(series, first) > first_s and series.complete() == {first, second}
    assert [path.name for path in series.attempts.iterdir()] == [f"{first}.attempt-1"], "its record is kept"
    assert runs_of_execution(series.folder) == names, "an index means the same run when the plan is looked at again"
    release(series.folder)
    resumed = open_series(replace(faked, repetitions=2))
    assert resumed.folder == series.folder
    assert runs_of_execution(series.folder) == [name for name in names if name not in (first, second)]


def test_runs_that_are_cleared_together_repeat_nothing_that_is_complete(
    faked: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole DAG run is cleared: its first task opens the series again, and tasks of runs come in any order."""
    in_task(monkeypatch, "manual__1")
    series = open_series(replace(faked, repetitions=2), now_s=time.time() - 60)
    first, second, *rest = runs_of_execution(series.folder)
    provision(series.folder)
    deploy(series.folder)
    assert [do_run(series.folder, name) for name in (first, second)] == [first, second]
    reopened = open_series(replace(faked, repetitions=2), again=True)
    assert reopened.folder == series.folder and runs_of_execution(series.folder) == rest
    require_runs(series.folder)
    assert [do_run(series.folder, name, again=True) for name in reversed(rest)] == rest, "in the plan's order"
    release(series.folder)
    assert open_series(replace(faked, repetitions=2), again=True, new=True).folder == series.folder
    with pytest.raises(NoRunDue, match="everything is measured"):
        require_runs(series.folder)
    assert list(series.attempts.glob("*")) == [], "nothing was repeated"


def in_task(monkeypatch: pytest.MonkeyPatch, run: str) -> None:
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "stela.star")
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", run)


def test_a_repeated_opening_takes_over_no_series_of_another_dag_run(
    faked: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_task(monkeypatch, "manual__1")
    first = open_series(faked, now_s=1000.0)
    in_task(monkeypatch, "manual__2")
    second = open_series(faked, again=True, new=True, now_s=2000.0)
    assert second.folder != first.folder, "it has opened none before"
    in_task(monkeypatch, "manual__1")
    assert open_series(faked, again=True, new=True, now_s=3000.0).folder == first.folder, "its own, not the newest"
    monkeypatch.delenv("AIRFLOW_CTX_DAG_RUN_ID")
    assert open_series(faked, again=True, new=True, now_s=4000.0).folder not in (first.folder, second.folder)


def test_a_dag_run_that_is_cleared_does_not_wait_for_its_own_machines(
    faked: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_task(monkeypatch, "manual__1")
    changes = {"testbed": "fake", "repetitions": 1}
    folder = open_requested("stela/star", changes, new=True)
    provision(folder)
    assert open_requested("stela/star", changes, new=True, again=True) == folder and registry.read_all() == ()
    provision(folder)
    in_task(monkeypatch, "manual__2")
    with pytest.raises(TestbedTaken, match="run manual__1"):
        open_requested("stela/star", changes, new=True, again=True)
    in_task(monkeypatch, "manual__1")
    release(folder)


def test_no_machines_are_taken_after_the_deadline(faked: Experiment) -> None:
    series = open_series(faked)
    require_runs(series.folder)
    set_deadline(series, time.time())
    with pytest.raises(NoRunDue, match="deadline"):
        require_runs(series.folder)
    with pytest.raises(NothingBeforeDeadline):
        analyse(series.folder)


def test_a_run_that_is_not_needed_says_why(faked: Experiment) -> None:
    series = open_series(faked)
    (series.folder / "sufficient.json").write_text("{}")
    with pytest.raises(NoRunDue, match="answers the question"):
        do_run(series.folder, runs_of_execution(series.folder)[0])
