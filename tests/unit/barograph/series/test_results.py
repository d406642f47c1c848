"""An execution whose results are in a bucket: on this machine, with the bucket away, and on another machine."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from analysis.errors import SeriesInUse, StorageConfigurationError
from analysis.record.files import RunPaths, write_json_atomic
from analysis.report.ledger_table import LEDGER_VERSION
from analysis.storage.bucket import Bucket
from analysis.storage.hold import read_hold
from barograph.campaign.steps import NothingMeasured, analyse, do_run
from barograph.cli.claims import newest_findings
from barograph.errors import NotReleased, message_of
from barograph.machines.provision import provision, release
from barograph.plan.experiment import Experiment, load, with_changes
from barograph.series import hold
from barograph.series import results as results_module
from barograph.series.interruption import step
from barograph.series.results import Results, Spool, analyse_results, finish, results, send_now, send_waiting
from barograph.series.series import complete_series, find_series, open_series, unfinished_series
from barograph.settings import DAG_OF_TASK, RUN_OF_TASK, results_root
from barograph.testbeds import checks
from inventory.leases import registry
from tests.support.durations import SHORT


@pytest.fixture
def machine(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Machine":
    return Machine(bucket, tmp_path, monkeypatch)


class Machine:
    """Changes which machine this is: each has a state folder, hence a spool, of its own."""

    def __init__(self, bucket: Bucket, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.bucket, self._folder, self._patch = bucket, folder, patch
        self.be("a")

    def be(self, name: str) -> None:
        values = {"STATE": self._folder / name, "HOME": self._folder / name / "home", "RESULTS": self.bucket.location}
        for key, value in values.items():
            self._patch.setenv(f"BAROGRAPH_{key}", str(value))
        checks._cached_testbed.cache_clear()

    def lose_bucket(self) -> None:
        self._patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    def find_bucket(self, endpoint: str) -> None:
        self._patch.setenv("AWS_ENDPOINT_URL", endpoint)


@pytest.fixture
def faked() -> Experiment:
    return with_changes(load("stela/star"), {**SHORT, "testbed": "fake", "repetitions": 1})


def one_run(folder: Path) -> str | None:
    provision(folder)
    try:
        return do_run(folder)
    finally:
        release(folder)


def names(bucket: Bucket) -> set[str]:
    """Of everything in series, within theirs."""
    return {key.split("/", 3)[3] for key in bucket.objects() if key.count("/") >= 3}


def test_the_setting_chooses(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = machine.bucket.location
    assert results_root() == tmp_path / "a" / "spool" / location.bucket / "lab"
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(tmp_path / "elsewhere"))
    assert results() == Results(tmp_path / "elsewhere")
    monkeypatch.setenv("BAROGRAPH_RESULTS", "s3://never-made/x")
    with pytest.raises(StorageConfigurationError, match="NoSuchBucket"):
        results().require()


def test_a_run_is_in_the_bucket_when_it_is_over_and_another_machine_goes_on(
    machine: Machine, faked: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = open_series(faked, now_s=1000.0)
    first = one_run(series.folder)
    assert f"runs/{first}/run.json" in names(machine.bucket)
    assert any(name.startswith(f"runs/{first}/workers/m1-6700-") for name in names(machine.bucket))
    assert not (series.run_folder(str(first)) / "workers").exists(), "raw lines that arrived take no room"
    machine.be("b")
    with pytest.raises(SeriesInUse, match=rf"stela/star/{series.series_id} is being written by process"):
        open_series(faked, now_s=2000.0)
    machine.be("a")
    finish(series.folder, pytest.fail)
    machine.be("b")
    there = open_series(faked, now_s=2000.0)
    assert there.series_id == series.series_id and there.folder != series.folder
    assert there.complete() == {first} and there.missing_runs() == 1
    second = one_run(there.folder)
    assert second not in (None, first)
    monkeypatch.setattr(Spool, "analyse", lambda _self, folder, _master, _tell: folder / "report.html")
    analyse_results(there.folder, pytest.fail)
    assert (there.folder / "runs" / str(first) / "decisions.jsonl").is_file(), "the report tells of that run too"
    finish(there.folder, pytest.fail)
    machine.be("a")
    assert unfinished_series(faked) is None and complete_series(faked) is not None
    assert find_series(series.series_id) == series.folder
    assert (series.folder / "runs" / str(second) / "decisions.jsonl").is_file()
    assert "hold.json" not in names(machine.bucket)


def test_a_bucket_that_fails_loses_no_run(machine: Machine, faked: Experiment, endpoint: str) -> None:
    series = open_series(faked, now_s=1000.0)
    machine.lose_bucket()
    done = one_run(series.folder)
    told: list[str] = []
    finish(series.folder, told.append)
    assert told and f"not sent, kept in {series.folder} for the next chance: infrastructure" in told[0]
    assert series.complete() == {done} and (series.run_folder(str(done)) / "workers").is_dir()
    machine.find_bucket(endpoint)
    assert not any("run.json" in name for name in names(machine.bucket))
    send_waiting(told.append)
    assert told[1] == f"sent {series.series_id}, which had been waiting here"
    assert any(name.startswith(f"runs/{done}/workers/m1-6700-") for name in names(machine.bucket))
    assert results().waiting() == () and "hold.json" not in names(machine.bucket)
    told.clear()
    send_waiting(told.append)
    assert told == []


def test_a_run_that_is_measured_again_after_the_end_waits_for_a_bucket_that_fails(
    machine: Machine, faked: Experiment, endpoint: str
) -> None:
    """As where somebody clears the task of one run."""
    series = open_series(faked, now_s=1000.0)
    record = RunPaths(series.run_folder(str(one_run(series.folder)))).run_json
    finish(series.folder, pytest.fail)
    machine.lose_bucket()
    write_json_atomic(record, {**json.loads(record.read_text()), "attempt": 2})
    told: list[str] = []
    send_now(series.folder, told.append)
    assert told and results().waiting() == (series.folder,)
    machine.find_bucket(endpoint)
    results().refresh(digest=True)
    assert json.loads(record.read_text())["attempt"] == 2, "the bucket has the one of before"


def test_what_another_execution_here_is_writing_is_not_touched(
    machine: Machine, faked: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = open_series(faked, now_s=1000.0)
    monkeypatch.setenv("BAROGRAPH_HOLDER_PID", "1")  # somebody who lives and is not us
    told: list[str] = []
    send_waiting(told.append)
    assert told == [] and results().waiting() == (series.folder,)


def test_a_run_that_becomes_complete_while_another_is_sent_keeps_its_raw_lines(
    machine: Machine, faked: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = open_series(faked, now_s=1000.0)
    run, send = RunPaths(series.run_folder("stela-r1")), Bucket.send
    write_json_atomic(run.run_json, {"status": "incomplete", "attempt": 1})

    def meanwhile(self: Bucket, path: Path, name: str) -> None:
        if path.name == "series.json":
            (run.create().workers / "m1-6700.jsonl").write_text("{}\n")
            write_json_atomic(run.run_json, {"status": "complete", "attempt": 1})
        send(self, path, name)

    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "send", meanwhile)
        send_now(series.folder, pytest.fail)
    assert (run.workers / "m1-6700.jsonl").is_file()
    send_now(series.folder, pytest.fail, {"stela-r1"})
    assert "runs/stela-r1/run.json" not in names(machine.bucket), "it is under way"
    send_now(series.folder, pytest.fail)
    assert "runs/stela-r1/workers/m1-6700.jsonl" in names(machine.bucket) and not run.workers.exists()


def test_a_dag_that_waits_for_a_worker_keeps_its_series(
    machine: Machine, faked: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two of its tasks nobody hears of it, and the next one may be on another worker."""
    with monkeypatch.context() as patch:
        patch.setenv(DAG_OF_TASK, "stela.star")
        series = open_series(faked, now_s=1000.0)
        provision(series.folder)
    note = series.folder / hold.FILE
    silent = json.dumps(json.loads(note.read_text()) | {"heartbeat_s": 0.0})
    note.write_text(silent)
    send_waiting(pytest.fail)
    assert results().waiting() == (series.folder,) and "hold.json" in names(machine.bucket)
    with pytest.raises(SeriesInUse, match=rf"{series.series_id} is being written by DAG stela\.star on "):
        open_series(faked, now_s=2000.0)
    monkeypatch.setenv(DAG_OF_TASK, "stela.star")
    monkeypatch.setattr("socket.gethostname", lambda: "another worker")
    results().begin(series.folder)
    release(series.folder)
    assert "hold.json" in names(machine.bucket)
    note.write_text(silent)
    monkeypatch.delenv(DAG_OF_TASK)
    assert open_series(faked, now_s=2000.0).folder == series.folder, "the DAG has neither machines nor a task any more"


def test_an_analysis_that_fails_ends_the_holds(
    machine: Machine, faked: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody comes after it in a DAG."""
    monkeypatch.setenv(DAG_OF_TASK, "stela.star")
    series = open_series(faked, now_s=1000.0)
    with pytest.raises(NothingMeasured):
        analyse(series.folder)
    assert "hold.json" not in names(machine.bucket) and hold.read(series.folder) is None
    assert results().waiting() == ()


def test_what_is_sent_is_held(machine: Machine, faked: Experiment) -> None:
    """Also where somebody took this execution for dead, sent what it had, and ended it."""
    series = open_series(faked, now_s=1000.0)
    results().end(series.folder)
    assert "hold.json" not in names(machine.bucket)
    hold.take(series.folder)
    results().send(series.folder)
    assert "hold.json" in names(machine.bucket) and results().waiting() == (series.folder,)
    machine.be("b")
    with pytest.raises(SeriesInUse):
        open_series(faked, now_s=2000.0)


def test_a_long_run_keeps_the_hold_of_its_bucket(
    machine: Machine, faked: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent while a run goes on, for two days perhaps."""
    series = open_series(faked, now_s=1000.0)
    name = f"stela/star/{series.series_id}"

    def end_s() -> float:
        found = read_hold(machine.bucket, name)
        assert found is not None
        return float(found[0]["until_s"])

    monkeypatch.setattr(results_module, "HOLD_S", 0.6)
    results().begin(series.folder)
    taken_s = end_s()
    with step(series.folder):
        deadline_s = time.monotonic() + 10
        while end_s() <= taken_s and time.monotonic() < deadline_s:
            time.sleep(0.05)
    assert end_s() > taken_s


def test_two_runs_of_one_dag_are_two_holders(
    machine: Machine, faked: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backfill runs beside the schedule: it must not release the machines of the other."""
    monkeypatch.setenv(DAG_OF_TASK, "nightly.quick")
    monkeypatch.setenv(RUN_OF_TASK, "scheduled")
    series = open_series(faked, now_s=1000.0)
    provision(series.folder)
    for ui in ("", str(os.getpid())):
        monkeypatch.setenv("BAROGRAPH_HOLDER_PID", ui)
        monkeypatch.setenv(RUN_OF_TASK, "backfill")
        with pytest.raises(SeriesInUse, match=r"is in use by DAG nightly\.quick, run scheduled"):
            provision(series.folder)
        with pytest.raises(NotReleased, match=r"DAG nightly\.quick, run scheduled, is alive"):
            release(series.folder)
    assert len(registry.read_all()) == 1


def test_who_has_lost_a_series_sends_nothing_of_it(
    machine: Machine, faked: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = open_series(faked, now_s=1000.0)
    monkeypatch.setenv("BAROGRAPH_HOLDER_PID", "1")
    for send in (results().send, results().end):
        with pytest.raises(SeriesInUse, match=f"is in use by process {os.getpid()}"):
            send(series.folder)
    assert results().waiting() == (series.folder,) and "hold.json" in names(machine.bucket)


def test_a_spool_whose_id_was_cut_short_is_still_told_from_others(machine: Machine, faked: Experiment) -> None:
    for name in ("a", "b"):
        machine.be(name)
        results_root().mkdir(parents=True)
        (results_root() / ".harness-id").touch()
    series = open_series(faked, now_s=1000.0)
    found = read_hold(machine.bucket, f"stela/star/{series.series_id}")
    assert found is not None and found[0]["harness"] == (results_root() / ".harness-id").read_text() != ""


def test_records_are_sent_before_they_are_analysed_there(machine: Machine, faked: Experiment) -> None:
    series = open_series(faked, now_s=1000.0)
    one_run(series.folder)
    machine.lose_bucket()
    with pytest.raises(Exception, match="cannot") as caught:
        analyse_results(series.folder, pytest.fail)
    assert "is http://127.0.0.1:9 reachable from here?" in message_of(caught.value)


def test_verdicts_of_another_machine_are_found(machine: Machine, faked: Experiment) -> None:
    series = open_series(faked, now_s=1000.0)
    row = '{"id": "S03", "experiment": "stela/star", "runs": 1, "verdict": "reproduced"}'
    (series.folder / "claims.json").write_text(f'{{"v": {LEDGER_VERSION}, "claims": [{row}]}}')
    finish(series.folder, pytest.fail)
    machine.be("b")
    results().refresh(digest=True)
    assert newest_findings()["S03"]["series"] == series.series_id
    shutil.rmtree(results_root())
    assert find_series("stela/star").name == series.series_id
