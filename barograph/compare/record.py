"""The files that make a series a comparison: `comparison.json` (the question) and `sufficient.json` (no further block
is needed).

The question's commits are described with git's subject, date, and what lies between them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from analysis.errors import RecordError
from analysis.record.files import read_json, write_json_atomic
from barograph.code.git import GitFailed, git
from barograph.code.refs import repository_folder
from barograph.compare.comparison import Comparison
from barograph.compare.sides import LETTERS, Side, labels
from barograph.errors import ExperimentError
from barograph.plan.experiment import Code
from barograph.series.series import SUFFICIENT_FILE

MOST_COMMITS = 50  # of the commits between


def commit_facts(code: Code) -> dict[str, str]:
    """Return subject and date; nothing where the repository no longer has the commit."""
    if code.is_jar_file:
        return {"subject": "a jar without git"}
    try:
        date, subject = git(repository_folder(code.repository), "show", "-s", "--format=%cI%x00%s", code.commit).split(
            "\0"
        )
    except (GitFailed, ValueError):
        return {}
    return {"subject": subject, "date": date}


def commits_between(a: Code, b: Code) -> list[str]:
    """Return short hash and subject of B's commits that A lacks, the newest first; for one repository only."""
    if a.repository != b.repository or a.is_jar_file:
        return []
    try:
        folder = repository_folder(a.repository)
        return git(folder, "log", f"-{MOST_COMMITS}", "--format=%h %s", f"{a.commit}..{b.commit}").splitlines()
    except GitFailed:
        return []


FILE = "comparison.json"


def write(series_dir: Path, comparison: Comparison) -> None:
    """Write the question; a series that sufficed for another question continues."""
    document = document_of(comparison)
    if (series_dir / FILE).is_file():
        document_on_disk = read(series_dir)
        if not _same_question(document_on_disk, document):
            (series_dir / SUFFICIENT_FILE).unlink(missing_ok=True)
        _keep_names(document_on_disk["sides"], document["sides"])
    write_json_atomic(series_dir / FILE, document)


def document_of(comparison: Comparison) -> dict[str, Any]:
    names = labels(comparison.sides["a"], comparison.sides["b"])
    return {
        "v": 1,
        "source": comparison.source,
        "sides": {letter: _side_data(comparison.sides[letter], names[letter]) for letter in LETTERS},
        "pairs": [asdict(pair) for pair in comparison.pairs],
        **comparison.question.as_data(),
        "budget": {**comparison.question.budget.as_data(), "blocks": comparison.experiment.repetitions},
        "bisecting": comparison.bisecting,
        "log": commits_between(comparison.sides["a"].code, comparison.sides["b"].code),
    }


def is_comparison(series_dir: Path) -> bool:
    return (series_dir / FILE).is_file()


def read(series_dir: Path) -> dict[str, Any]:
    """Return the question. Raises ExperimentError where the series is no comparison."""
    try:
        return read_json(series_dir / FILE)
    except RecordError as error:
        raise ExperimentError(f"{series_dir} is no comparison: {error}; make one with barograph compare A B") from error


def mark_sufficient(series_dir: Path, why: str, blocks: int, said: str) -> None:
    """Mark that no further block is needed. `why`: certain, budget, or failed (a side has no comparable run)."""
    write_json_atomic(
        series_dir / SUFFICIENT_FILE, {"v": 1, "t": time.time(), "why": why, "blocks": blocks, "said": said}
    )


def sufficiency(series_dir: Path) -> dict[str, Any] | None:
    """Return why no further block was needed; None where the plan was carried out to its end."""
    return read_json(series_dir / SUFFICIENT_FILE) if (series_dir / SUFFICIENT_FILE).is_file() else None


def _side_data(side: Side, label: str) -> dict[str, Any]:
    facts = {"label": label, "commit": side.code.commit, "repository": side.code.repository, **commit_facts(side.code)}
    return {**facts, "scheduler": side.code.scheduler, "parameters": dict(side.parameters)} if side.foreign else facts


def _keep_names(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Keep a branch's name rather than the commit by which its comparison was resumed."""
    if all(
        now[letter]["commit"].startswith(now[letter]["label"].removesuffix(f" ({letter.upper()})")) for letter in now
    ):
        for letter in now:
            now[letter]["label"] = before[letter]["label"]


def _same_question(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(
        one.get(key) == other.get(key) for key in ("goal_percent", "until_certain", "budget", "level", "topology")
    )
