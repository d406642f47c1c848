"""A world of its own for each test: folders, a clock that stands still during a night, a repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from barograph.cli import nightly
from barograph.plan import durations
from barograph.series import run_record
from tests.support.measured_nights import SUITE, MakeCommit, World
from tests.support.repositories import git


@pytest.fixture
def world(own_folders: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    found = World(tmp_path / "results")
    monkeypatch.delenv("BAROGRAPH_WEBHOOK", raising=False)
    monkeypatch.setattr(nightly, "load_suite", lambda _name: SUITE)
    monkeypatch.setattr(nightly, "prepare", found.prepare)
    monkeypatch.setattr(nightly, "carry_out", found.carry_out)
    monkeypatch.setattr("barograph.cli.nightly.time.time", lambda: found.now_s)
    monkeypatch.setattr(run_record, "median_overhead", lambda _choice: durations.DEFAULT_OVERHEAD)
    return found


@pytest.fixture
def commit(tmp_path: Path) -> MakeCommit:
    """Commits a file with this subject; its hash."""
    git(tmp_path, "init", "-q", "-b", "main")

    def make(subject: str, path: str = "scheduler_plugins/policy.py") -> str:
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{subject}\n")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-q", "-m", subject)
        return git(tmp_path, "rev-parse", "HEAD")

    return make
