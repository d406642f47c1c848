"""The files that make a series a comparison: `comparison.json` (the question) and `sufficient.json` (no further block
is needed).

The question's commits are described with git's subject, date, and what lies between them.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.compare.question import (
    ComparedSide,
    ComparedSides,
    Question,
    is_comparison,
    read_question,
    write_question,
)
from analysis.record.files import read_json, write_json_atomic
from barograph.code.git import GitFailed, git, repository_folder
from barograph.compare.comparison import Comparison, Side, labels
from barograph.plan.experiment import Code
from barograph.series.series import SUFFICIENT_FILE

MOST_COMMITS = 50  # of the commits between


def write(series_dir: Path, comparison: Comparison) -> None:
    """Write the question; a series that sufficed for another question continues."""
    question = question_of(comparison)
    if is_comparison(series_dir):
        before = read_question(series_dir)
        keys = ("goal_percent", "until_certain", "budget", "level", "topology")
        if any(getattr(before, key) != getattr(question, key) for key in keys):
            (series_dir / SUFFICIENT_FILE).unlink(missing_ok=True)
        now = question.sides
        if all(
            side.commit.startswith(side.label.removesuffix(end)) for side, end in ((now.a, " (A)"), (now.b, " (B)"))
        ):
            # It was resumed by its commits: a branch's name stays.
            a, b = replace(now.a, label=before.a.label), replace(now.b, label=before.b.label)
            question = replace(question, sides=ComparedSides(a, b))
    write_question(series_dir, question)


def question_of(comparison: Comparison) -> Question:
    a, b, demand = comparison.sides["a"], comparison.sides["b"], comparison.demand
    names = labels(a, b)
    return Question(
        v=1,
        sides=ComparedSides(_described_side(a, names["a"]), _described_side(b, names["b"])),
        pairs=comparison.pairs,
        goal_percent=demand.goal_percent,
        until_certain=demand.until_certain,
        topology=demand.topology,
        budget=replace(demand.budget, blocks=comparison.experiment.repetitions),
        source=comparison.source,
        bisecting=comparison.bisecting,
        log=tuple(commits_between(a.code, b.code)),
    )


def _described_side(side: Side, label: str) -> ComparedSide:
    """Return a side with its commit's subject and date, where the repository still has it."""
    code, date, subject = side.code, "", "a jar without git" if side.code.is_jar_file else ""
    if not code.is_jar_file:
        try:
            show = git(repository_folder(code.repository), "show", "-s", "--format=%cI%x00%s", code.commit)
            date, subject = show.split("\0")
        except (GitFailed, ValueError):
            pass
    return ComparedSide(label, code.commit, code.repository, subject, date, code.scheduler, dict(side.parameters))


def commits_between(a: Code, b: Code) -> list[str]:
    """Return short hash and subject of B's commits that A lacks, the newest first; for one repository only."""
    if a.repository != b.repository or a.is_jar_file:
        return []
    try:
        folder = repository_folder(a.repository)
        return git(folder, "log", f"-{MOST_COMMITS}", "--format=%h %s", f"{a.commit}..{b.commit}").splitlines()
    except GitFailed:
        return []


def mark_sufficient(series_dir: Path, why: str, blocks: int, said: str) -> None:
    """Mark that no further block is needed. `why`: certain, budget, or failed (a side has no comparable run)."""
    write_json_atomic(
        series_dir / SUFFICIENT_FILE, {"v": 1, "t": time.time(), "why": why, "blocks": blocks, "said": said}
    )


def sufficiency(series_dir: Path) -> dict[str, Any] | None:
    """Return why no further block was needed; None where the plan was carried out to its end."""
    return read_json(series_dir / SUFFICIENT_FILE) if (series_dir / SUFFICIENT_FILE).is_file() else None
