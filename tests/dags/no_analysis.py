"""A page that says nothing in place of a series' analysis: for tests of what comes before and after it.

Airflow imports what `settings` writes in each of its processes.
"""

from __future__ import annotations

from pathlib import Path

from analysis.record.files import SeriesPaths
from barograph.campaign import steps
from barograph.errors import Say

SETTINGS = "from tests.dags.no_analysis import arrange\n\narrange()\n__all__ = ()\n"


def page(series_dir: Path, _say: Say) -> Path:
    report = SeriesPaths(series_dir).report
    report.write_text("<!DOCTYPE html><title>Not analysed</title>")
    return report


def arrange() -> None:
    steps.analyse_results = page  # type: ignore[attr-defined]  # replaced where it is called


def settings(airflow_home: Path) -> None:
    """From now on no Airflow of that home analyses anything. What else is in its settings stays."""
    folder = airflow_home / "config"
    folder.mkdir(exist_ok=True)
    with (folder / "airflow_local_settings.py").open("a") as file:
        file.write(SETTINGS)
