"""Whole comparisons over the fake testbed: from the command line, and through Airflow from the form."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from barograph.airflow_environment import environment
from barograph.compare import record, stopping
from barograph.settings import ROOT
from tests.dags.fake_runs import alone, statuses

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="commits are compared"),
]
EXPERIMENT = "small/star"  # the shortest: what an analysis takes grows with the seconds of each run
FORM = """
import json, sys
from pathlib import Path
from barograph.compare import request
from dags.compare_branches import compare_branches
request.SCHEDULERS = Path(sys.argv[1])
for answers in sys.argv[2:]:
    run = compare_branches.test(run_conf=json.loads(answers))
    print("state:", run.state)
"""


def compared(world: dict[str, str]) -> list[Path]:
    return sorted(Path(world["BAROGRAPH_RESULTS"]).glob("compare/small_star/*"))


def python(world: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    env = environment(Path(world["BAROGRAPH_HOME"]) / "airflow", world)
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, env=env, capture_output=True, text=True)


def from_the_form(
    world: dict[str, str], schedulers: Path, *answers: dict[str, object]
) -> subprocess.CompletedProcess[str]:
    """A DAG run for each, one after the other; `schedulers` stands in for dags/schedulers."""
    given = {"a": "HEAD", "b": "HEAD", "experiment": EXPERIMENT, "variants": ["stela"], "testbed": "fake"}
    env = {**world, **alone("compare_branches")}
    return python(env, "-c", FORM, str(schedulers), *(json.dumps({**given, **each}) for each in answers))


# Shorter: a comparison through Airflow in test_dags_on_the_simulator.py; when it goes on and ends in test_stopping.py.
@pytest.mark.long
@pytest.mark.spark
def test_the_same_commit_until_certain_from_the_command_line(world: dict[str, str]) -> None:
    asked = ["compare", "HEAD", "HEAD", "--experiment", EXPERIMENT, "--variants", "stela", "--testbed", "fake"]
    # A goal that the first look reaches, also with downtimes of 2 and 3 s in whole seconds: each look is an analysis.
    # When it goes on: compare/test_stopping.py.
    done = python(world, "-m", "barograph", *asked, "--until-certain", "--goal", "300", "--budget", "9 blocks")
    said = done.stdout + done.stderr
    assert done.returncode == 0 and "Traceback" not in said, said
    (series,) = compared(world)
    enough = record.sufficiency(series)
    assert enough is not None and enough["why"] == "certain" and 3 <= enough["blocks"] <= 5
    assert set(statuses(series).values()) == {"complete"} and len(statuses(series)) == 2 * enough["blocks"]
    looked = [line["blocks"] for line in stopping.read_checks(series)]
    assert looked == list(range(3, enough["blocks"] + 1))
    result = json.loads((series / "comparison_result.json").read_text())
    assert result["certain"] and not [row for row in result["rows"] if row["verdict"] in ("better", "worse")]
    assert "an A/A comparison" in said and result["sentence"] in done.stdout
    assert f"comparison: {series}/comparison.html" in done.stdout and (series / "comparison.html").is_file()
    assert (series / "comparison_time.json").is_file()
    for told in (done.stdout, (series / "comparison.html").read_text()):
        assert "analysis between blocks" in told
    assert list(Path(world["BAROGRAPH_STATE"]).glob("leases/*.json")) == []


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """The YAML of a scheduler in a repository of its own, beside it."""
    repository = tmp_path / "theirs"
    repository.mkdir()
    with zipfile.ZipFile(repository / "theirs.jar", "w") as jar:
        jar.writestr("org/example/Theirs.class", b"")
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], [*identity, "commit", "-qm", "their scheduler"]):
        subprocess.run(["git", *arguments], cwd=repository, check=True)
    file = tmp_path / "theirs.yaml"
    file.write_text(
        "label: theirs\nrepository: theirs\nref: main\njar: theirs.jar\n"
        "scheduler: org.example.Theirs\nrebalance: true\n"
    )
    return file


def with_theirs(world: dict[str, str], theirs: Path) -> Path:
    """The series of a comparison of both variants with that scheduler."""
    asked = {"b": theirs.name, "variants": ["even_rebalance", "stela"], "blocks": 3}
    done = from_the_form(world, theirs.parent, asked)
    assert "state: success" in done.stdout, done.stdout + done.stderr
    (series,) = compared(world)
    return series


# Shorter: the test before this one; an analysis of a comparison in a DAG is in
# test_the_same_commit_until_certain_from_the_command_line, one of several pairs in
# tests/unit/analysis/compare/test_evaluation.py.
@pytest.mark.long
@pytest.mark.spark
def test_a_comparison_with_a_scheduler_that_is_not_ours_is_analysed(airflow: dict[str, str], theirs: Path) -> None:
    series = with_theirs(airflow, theirs)
    result = json.loads((series / "comparison_result.json").read_text())
    assert {row["pair"] for row in result["rows"]} == {"even_rebalance", "stela"}
    assert (series / "comparison.html").is_file()


def test_a_side_that_does_not_build_is_refused_with_its_log(world: dict[str, str], theirs: Path) -> None:
    theirs.write_text(theirs.read_text() + "build: [sh, -c, 'echo no such symbol Topologies; exit 3']\n")
    asked = ["compare", "HEAD", str(theirs), "--experiment", EXPERIMENT, "--testbed", "fake"]
    done = python(world, "-m", "barograph", *asked)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("configuration: ") and "no such symbol Topologies" in done.stderr
    assert done.stderr.count("\n") == 1 and ".log" in done.stderr and compared(world) == []


def test_the_first_task_refuses_in_one_line_what_cannot_be_compared(airflow: dict[str, str], tmp_path: Path) -> None:
    done = from_the_form(
        airflow, tmp_path, {"b": "no-such-branch"}, {"variants": ["stella"]}, {"b": "/etc/theirs.yaml"}
    )
    said = done.stdout + done.stderr
    assert done.stdout.count("state: failed") == 3, said
    assert "configuration: this repository has no commit 'no-such-branch'" in said
    assert "configuration: variants is stella; small/star has the variants" in said
    assert "configuration: b is '/etc/theirs.yaml'; allowed in a form: " in said
    assert compared(airflow) == []
