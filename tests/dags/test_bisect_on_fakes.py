"""A search over this repository's own commits: real comparisons, on the fake testbed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from barograph.airflow_environment import environment
from barograph.settings import ROOT

COMMITS = 4  # GOOD, and three after it that change what decides
# Three comparisons with an analysis each. The search is tested in tests/unit/barograph/nights/test_search.py and
# test_bisection.py, a comparison through Airflow in test_compare_on_fakes.py.
pytestmark = [pytest.mark.timeout(1800), pytest.mark.spark, pytest.mark.long]


def deciding() -> list[str]:
    """The newest commits that change `scheduler_plugins/`, oldest first; none where there is no history."""
    argv = ["git", "log", "--first-parent", f"-{COMMITS}", "--format=%H", "--", "scheduler_plugins"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split()[::-1]


@pytest.mark.skipif(len(deciding()) < COMMITS, reason="this repository's own history is searched")
def test_the_slow_commit_is_found(world: dict[str, str]) -> None:
    good, first, slow, last = deciding()
    env = {**environment(Path(world["BAROGRAPH_HOME"]) / "airflow", world), "SLOW_COMMITS": f"{slow} {last}"}
    asked = ["--experiment", "stela/star", "--variant", "stela", "--metric", "throughput_after", "--testbed", "fake"]
    argv = [sys.executable, "tests/dags/slow_commits.py", good, last, *asked, "--blocks", "4"]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"first bad commit {slow[:10]}" in done.stdout
    (folder,) = Path(world["BAROGRAPH_RESULTS"]).glob("bisect/*")
    search = json.loads((folder / "bisect.json").read_text())
    assert search["reference"]["value"] == pytest.approx(-20.0, abs=2.0)
    answers = {probe["commit"]: probe["verdict"] for probe in search["probes"]}
    assert answers == {first: "good", slow: "bad"} and search["asking"] is None
    page = (folder / "index.html").read_text()
    for probe in search["probes"]:
        assert f"../../{probe['series']}/comparison.html" in page
        assert (Path(world["BAROGRAPH_RESULTS"]) / probe["series"] / "comparison.html").is_file()
    series = {probe["series"] for probe in search["probes"]}
    blocks = [len(list((Path(world["BAROGRAPH_RESULTS"]) / each).glob("runs/stela_b-r*"))) for each in series]
    assert min(blocks) == 3, "a comparison ends as soon as it can tell: other metrics do not count"
