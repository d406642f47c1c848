"""The pages inside Airflow of results that were measured elsewhere: what one opens is brought, once in a while."""

import json
from pathlib import Path

import pytest

from analysis.storage.bucket import Bucket
from barograph.series.results import Results, results
from barograph.web import result_files
from barograph.web.result_files import Freshness

SERIES = "stela/star/20261121-084501-a1b2c3d4"
DOCUMENT = {
    "v": 1, "series_id": "20261121-084501-a1b2c3d4", "experiment": "stela/star", "spec": {"title": "Star"}, "runs": [],
    "opened_s": 1.0, "resumed": False, "git_commit": None, "git_dirty": None, "estimates": [],
}  # fmt: skip


@pytest.fixture
def place(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Results:
    """Of a machine that has nothing yet of what another one has sent."""
    sent = {
        f"{SERIES}/series.json": json.dumps(DOCUMENT),
        f"{SERIES}/report.html": "<p>measured elsewhere",
        f"{SERIES}/figures/cpu.svg": "<svg/>",
        "nightly/quick/index.html": "<p>nights",
        "nightly/quick/nights/20261121-010000.html": "<p>one night",
    }
    for name, text in sent.items():
        file = tmp_path / "there" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        bucket.send(file, name)
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path / "here"))
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(bucket.location))
    return results()


@pytest.mark.parametrize(
    "name", [f"{SERIES}/report.html", f"{SERIES}/figures/cpu.svg", "nightly/quick/nights/20261121-010000.html"]
)
def test_what_one_opens_is_brought(place: Results, name: str) -> None:
    assert result_files.find_file(place.root, name) is None
    Freshness().refresh(place, name)
    assert result_files.find_file(place.root, name) is not None


def test_the_index_names_what_is_elsewhere_and_brings_no_reports(place: Results) -> None:
    Freshness().refresh(place, "index.html")
    index = place.root / "index.html"
    assert "20261121-084501-a1b2c3d4" in index.read_text()
    assert result_files.find_file(place.root, f"{SERIES}/report.html") is None
