"""`barograph bundle` without Spark: what is in it, that it is the same bytes again, that it is re-made elsewhere."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from analysis.calibration.validation import FOLDER
from analysis.calibration.validation import write as write_calibration
from analysis.record import small_tables
from analysis.record.files import SeriesPaths, read_json, write_json_atomic
from barograph import cli
from tests.support import bundled_series as packed
from tests.unit.analysis.calibration.test_validation import COSTS, FOUND
from tests.unit.analysis.calibration.test_validation import run as simulated_run

EXPERIMENT = "stela/star"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    packed.series(folder)
    return folder


@pytest.fixture(autouse=True)
def own_folders(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(results))
    for name in ("STATE", "HOME"):
        monkeypatch.setenv(f"BAROGRAPH_{name}", str(tmp_path / name.lower()))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def bundled(target: Path, *options: str, of: str = EXPERIMENT) -> Path:
    assert cli.main(["bundle", of, "--to", str(target), *options]) == 0
    return target


@pytest.fixture(scope="module")
def without_raw(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its tables are taken as they are, so making it again takes no Spark."""
    folder = tmp_path_factory.mktemp("bundle")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BAROGRAPH_RESULTS", str(results))
        return bundled(folder / "a.tar.gz", "--without", "raw")


@pytest.fixture
def folder(without_raw: Path, tmp_path: Path) -> Path:
    return packed.unpacked(without_raw, tmp_path / "moved here")


def names(archive: Path) -> list[str]:
    with tarfile.open(archive) as tar:
        return [member.name.partition("/")[2] for member in tar]


def test_what_an_evaluation_asks_for_is_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inside = names(bundled(tmp_path / "a.tar.gz"))
    wanted = {
        "README.md", "SHA256SUMS", "remake.py", "environment.json", "requirements.txt", "requirements-analysis.txt",
        "specs/experiment.json", "specs/topologies/stela-r1.yaml", "tables.txt", "series/report.html",
        "series/claims.json", "series/figures/throughput.svg", "series/tables/runs.parquet/part-0.parquet",
        "series/runs/stela-r1/workers/m1-6700.jsonl", "series/runs/stela-r1/logs/master/nimbus.log",
        "series/analysed.json", "code/analysis/bundle/reproduction.py", "code/topologies/catalogue.py",
        "source/work_tree/barograph/cli/__init__.py",
    }  # fmt: skip
    assert wanted <= set(inside)
    of_us = ("series/machines.json", "_SUCCESS", ".unsent", ".pyc")
    assert not [name for name in inside if name.endswith(of_us)]
    said = capsys.readouterr().out
    assert "left out: machines.json: addresses and ssh keys' places" in said
    assert f"commit {packed.COMMIT} of this repository cannot be had" in said and "as it stood when" in said


def test_the_readme_says_what_it_is_and_what_is_not_in_it(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    for words in ("# Scale-out of star", "python3 remake.py", "| S03 |", "stela-r1", "storm: 2.8.3", "2 of 0.25 cores",
                  "java: 17.0.21", "the changes were not kept", "--without raw", "`harness.log`"):  # fmt: skip
        assert words in text, words
    environment = json.loads((folder / "environment.json").read_text())
    assert environment["runs"]["stela-r1"]["versions"] == {"storm": "2.8.3"}
    assert "\njdk4py==" in (folder / "requirements-analysis.txt").read_text(), "the Java that another box may lack"
    for name in ("code", "source/work_tree"):
        assert os.access(folder / name / "analysis/spark_java/bin/java", os.X_OK), name


def test_the_same_series_gives_the_same_bytes_and_checksums_are_those_of_sha256sum(
    without_raw: Path, folder: Path, tmp_path: Path
) -> None:
    again = bundled(tmp_path / "a.tar.gz", "--without", "raw")
    assert again.read_bytes() == without_raw.read_bytes()
    done = subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_it_is_made_again_elsewhere_and_is_equal(folder: Path, tmp_path: Path) -> None:
    done = packed.remake(folder, tmp_path / "elsewhere", "--python", sys.executable)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "checksums: all" in done.stdout and "no raw lines" in done.stdout and "\nequal: " in done.stdout
    assert (folder / "remade" / packed.SERIES_ID / "report.html").is_file()
    again = packed.remake(folder, tmp_path / "elsewhere", "--only-verify")
    assert again.returncode == 0, again.stdout  # what was made is no part of it, and nothing else was written
    refused = packed.remake(folder, tmp_path / "elsewhere", "--python", sys.executable)
    assert refused.returncode == 2 and "nothing is written over" in refused.stderr


def test_an_analysis_that_breaks_is_no_difference(folder: Path, tmp_path: Path) -> None:
    (folder / "code" / "analysis" / "report" / "series_page.py").write_text("raise RuntimeError('broken')\n")
    packed.sign_again(folder, "code/analysis/report/series_page.py")
    done = packed.remake(folder, tmp_path, "--python", sys.executable)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "RuntimeError: broken" in done.stderr and "cannot be made again: the analysis ended with 1" in done.stderr
    refused = packed.remake(folder, tmp_path, "--python", "no-such-python", "--to", str(tmp_path / "x"))
    assert refused.returncode == 2 and "--python no-such-python: there is no such program" in refused.stderr


def test_changed_missing_and_added_files_are_named(folder: Path, tmp_path: Path) -> None:
    victim = folder / "series" / "tables" / "throughput.parquet" / "part-0.parquet"
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    (folder / "series" / "runs" / "stela-r1" / "events.jsonl").unlink()
    (folder / "series" / "runs" / "stela-r2" / "more.jsonl").touch()
    done = packed.remake(folder, tmp_path, "--python", sys.executable)
    assert done.returncode == 3 and "damaged: 3 files" in done.stdout and not (folder / "remade").exists()
    assert set(done.stdout.splitlines()[:3]) == {
        "changed: series/tables/throughput.parquet/part-0.parquet", "missing: series/runs/stela-r1/events.jsonl",
        "added: series/runs/stela-r2/more.jsonl",
    }  # fmt: skip
    (folder / "SHA256SUMS").unlink()
    assert packed.remake(folder, tmp_path, "--only-verify").stdout.startswith("missing: SHA256SUMS\n")


def test_a_run_is_its_series_reduced_to_it(results: Path, tmp_path: Path) -> None:
    of = f"{packed.SERIES_ID}/stela-r1"
    archive = bundled(tmp_path / "run.tar.gz", "--without", "raw", of=of)
    folder = packed.unpacked(archive, tmp_path / "run")
    assert [run.name for run in (folder / "series" / "runs").iterdir()] == ["stela-r1"]
    series = json.loads((folder / "series" / "series.json").read_text())
    assert series["runs"] == ["stela-r1"] and len(series["reduced_from"]) == 6
    text = (folder / "README.md").read_text()
    assert "this is the run `stela-r1` alone; 5 other runs are left out" in text
    import pyarrow.parquet as pq

    rows = pq.read_table(folder / "series" / "tables" / "throughput.parquet").to_pylist()
    assert {row["run_id"] for row in rows} == {"stela-r1"} and len(rows) == 18
    folder_of_run = results / "stela" / "star" / packed.SERIES_ID / "runs" / "stela-r1"
    twin = bundled(tmp_path / "twin.tar.gz", "--without", "raw", of=str(folder_of_run))
    assert names(twin) == names(archive)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "no series 'nothing'"),
        ([f"{EXPERIMENT}/stela-r9"], "has no run 'stela-r9'; it has even_rebalance-r1, "),
        ([EXPERIMENT, "--to", "x.zip"], "--to x.zip does not end in .tar.gz"),
        ([EXPERIMENT, "--to", "no/such/x.tar.gz"], "there is no folder"),
        ([EXPERIMENT, "--to", "mine.tar.gz"], "exists; nothing is overwritten"),
    ],
)
def test_what_cannot_be_bundled_is_said_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mine.tar.gz").write_text("mine")
    assert cli.main(["bundle", *arguments]) == 2
    screen = capsys.readouterr()
    assert screen.err.startswith("configuration: ") and said in screen.err and screen.err.count("\n") == 1
    assert [path.read_text() for path in tmp_path.glob("*.tar.gz")] == ["mine"] and not list(tmp_path.glob(".*"))


def changed(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "results"
    shutil.copytree(results, copy)
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(copy))
    return copy / "stela" / "star" / packed.SERIES_ID


def test_the_readme_of_simulated_runs_repeats_the_errors_of_their_costs(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that of one run, whose tables are not beside the calibrations."""
    root = changed(results, tmp_path, monkeypatch)
    paths = SeriesPaths(root)
    document = read_json(paths.series_json)
    document["spec"]["testbed"] = {"name": "simulated"}
    write_json_atomic(paths.series_json, document)
    small_tables.write(paths, "runs", [row | simulated_run(COSTS) for row in small_tables.rows(paths, "runs")])
    write_calibration(tmp_path / "results" / FOLDER / "one", FOUND)
    for of in (packed.SERIES_ID, f"{packed.SERIES_ID}/stela-r1"):
        archive = bundled(tmp_path / f"{of[-2:]}.tar.gz", "--without", "raw", of=of)
        text = (packed.unpacked(archive, tmp_path / archive.name[:-7]) / "README.md").read_text()
        assert "\nSimulated, not measured: no machine and no Storm ran. The costs were fitted to real runs of " in text
        assert "throughput after 4.0 % (9.0; −1.0)" in text


def test_a_series_that_other_code_analysed_is_refused(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = changed(results, tmp_path, monkeypatch)
    (root / "analysed.json").write_text('{"v": 1, "code": "of yesterday"}')
    assert cli.main(["bundle", EXPERIMENT]) == 2
    said = capsys.readouterr().err
    assert "was analysed by another version of this code, so what is re-made need not be what is bundled" in said
    assert f"run barograph report {root}, then bundle" in said
    (root / "analysed.json").unlink()
    assert cli.main(["bundle", EXPERIMENT]) == 2
    assert "was not analysed" in capsys.readouterr().err
    assert cli.main(["bundle", f"{EXPERIMENT}/nothing"]) == 2
    assert "has no run 'nothing'" in capsys.readouterr().err, "a wrong name is not told to wait for an analysis"


def test_a_log_with_a_secret_stays_behind_and_a_record_with_one_is_refused(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = changed(results, tmp_path, monkeypatch)
    monkeypatch.setenv("SOME_WEBHOOK_URL", "https://chat.example/in/abcdef")
    (root / "harness.log").write_text("fine\nposting to https://chat.example/in/abcdef\n")
    log = root / "runs" / "stela-r1" / "logs" / "m1" / "worker.log"
    log.parent.mkdir()
    log.write_text("key AKIA" + "ABCDEFGHIJKLMNOP\n")
    archive = bundled(tmp_path / "a.tar.gz")
    said = capsys.readouterr().out
    assert "left out: harness.log: holds the value of $SOME_WEBHOOK_URL in line 2" in said
    assert "left out: runs/stela-r1/logs/m1/worker.log: holds an AWS access key in line 1" in said
    assert not {"series/harness.log", "series/runs/stela-r1/logs/m1/worker.log"} & set(names(archive))
    (root / "runs" / "stela-r1" / "workers" / "m1-6700.jsonl").write_text("{}\n-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert cli.main(["bundle", EXPERIMENT, "--to", "b.tar.gz"]) == 2
    assert "m1-6700.jsonl, line 2, holds a private key; numbers are computed of this file" in capsys.readouterr().err
    assert not (tmp_path / "b.tar.gz").exists()
