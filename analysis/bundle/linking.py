"""Runs of one series standing in another as links: pages are made anew beside records that nobody touches."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from analysis.record import SeriesPaths

MADE_OF_A_RUN = ("report.html", "figures")


def link_runs(source: SeriesPaths, target: SeriesPaths, run_ids: Iterable[str]) -> None:
    """Each run gets a folder of its own, with links to what was recorded and nothing that is made of it."""
    for run_id in run_ids:
        folder = target.run(run_id).root
        folder.mkdir(parents=True)
        for path in sorted(source.run(run_id).root.iterdir()):
            if path.name not in MADE_OF_A_RUN:
                (folder / path.name).symlink_to(path.resolve())


def made_of(run: Path) -> list[Path]:
    """The page of a run and what stands beside it, where they are there."""
    page, figures = (run / name for name in MADE_OF_A_RUN)
    return [*([page] if page.is_file() else []), *sorted(path for path in figures.rglob("*") if path.is_file())]
