"""What a night found, told: the pages, a few lines for the screen, JSON for other programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.record import read_json, write_json_atomic
from dags.nights.outcome import COMPLETE
from dags.nights.suite import Suite
from dags.nights.tonight import FILE, folder_of
from dags.results import results

if TYPE_CHECKING:
    from analysis.history import Finding, Findings, Settings

Tell = Callable[[str], None]
MESSAGE = "message.json"  # of the newest night of a suite: what the webhook is told
TOP = 10  # findings in a message; the page has all


def settings_of(suite: Suite) -> Settings:
    """What the suite's file says about its history."""
    from analysis.history import Accepted, Renames, Rule, Settings

    rule = Rule() if suite.minimum_percent is None else Rule(minimum_percent=suite.minimum_percent)
    renames = Renames(suite.renames.experiments, suite.renames.variants, suite.renames.metrics)
    return Settings(suite.title, rule, renames, tuple(Accepted(a.series, a.night, a.why) for a in suite.accepted))


def reviewed(suite: Suite) -> tuple[Findings, Path]:
    """Evaluate all nights on record, and write their pages; the index."""
    from analysis.history import pages, review

    folder = folder_of(suite.name)
    found = review(folder, settings_of(suite))
    return found, pages.write(folder, found)


def published(
    suite: Suite, record: Mapping[str, Any], since_s: float, tell: Tell
) -> tuple[Findings, Path, dict[str, Any]]:
    """Of a night on record, measured since then: what all nights say now, their index, the message. All is kept."""
    found, index = reviewed(suite)
    message = body(found, record, index)
    write_message(suite.name, message)
    stored(suite.name, since_s, tell)
    return found, index, message


def stored(suite: str, since_s: float, tell: Tell) -> None:
    """Where results are in a bucket, what of the nights was written since then goes there."""
    from analysis.errors import StorageConfigurationError, StorageError

    place = results()
    try:
        for file in sorted(folder_of(suite).rglob("*")):
            if file.is_file() and not file.name.startswith(".") and file.name != FILE and _written(file) >= since_s:
                place.keep(file)
    except (StorageError, StorageConfigurationError) as error:
        tell(f"the nights of {suite} are not sent, kept in {folder_of(suite)}: {error}")


def _written(file: Path) -> float:
    return file.stat().st_mtime


def write_message(suite: str, message: Mapping[str, Any]) -> None:
    write_json_atomic(folder_of(suite) / MESSAGE, message)


def message(suite: str) -> dict[str, Any]:
    return read_json(folder_of(suite) / MESSAGE)


def lines(found: Findings, record: Mapping[str, Any]) -> list[str]:
    """What somebody reads in the morning: what failed and whose failure it was, what got worse, what got better."""
    told = [
        f"{each['experiment']}: {each['status'].replace('_', ' ')}: {each['reason']}"
        for each in record["experiments"]
        if each["status"] != COMPLETE
    ]
    return told + [line_of(finding) for finding in _worth_telling(found)]


def body(found: Findings, record: Mapping[str, Any], index: Path) -> dict[str, Any]:
    """What the webhook posts (docs/contracts.md): no path outside the results, nothing secret."""
    experiments = [{key: each[key] for key in ("experiment", "status", "reason")} for each in record["experiments"]]
    worth = _worth_telling(found)
    return {
        "v": 1,
        "suite": record["suite"],
        "night": record["night"],
        "id": record["id"],
        "testbed": record["testbed"],
        "commit": record["commit"],
        "status": record["status"],
        "text": "\n".join([_headline(found, record), *lines(found, record)[:TOP]]),
        "new_regressions": len(found.alarms),
        "experiments": experiments,
        "findings": [_as_data(finding) for finding in worth[:TOP]],
        "more_findings": max(0, len(worth) - TOP),
        "page": f"nightly/{record['suite']}/{index.name}",
    }


def line_of(finding: Finding) -> str:
    """One finding in one line."""
    from analysis.history.words import change
    from analysis.numerals import number

    new = "new: " if finding.new else ""
    said = f"{new}{finding.kind.value}, {finding.status.value}: {finding.key.name} {change(finding)}"
    return f"{said} ({number(finding.before)} → {number(finding.after)}), {finding.commits.words}"


def _headline(found: Findings, record: Mapping[str, Any]) -> str:
    news = len(found.alarms)
    said = f"{news} newly confirmed regression{'s' * (news != 1)}" if news else "no newly confirmed regression"
    return f"Barograph, suite {record['suite']}, night {record['night']} ({record['status']}): {said}"


def _worth_telling(found: Findings) -> list[Finding]:
    """What tonight confirmed, then whatever else is new, then regressions that stand."""
    from analysis.history import Kind, Status

    standing = found.of(Kind.REGRESSION, Status.CONFIRMED, Status.SUSPECTED)
    ordered = [*found.alarms, *(finding for finding in found.all if finding.new), *standing]
    return list(dict.fromkeys(ordered))


def _as_data(finding: Finding) -> dict[str, Any]:
    return {
        "series": finding.key.name,
        "kind": finding.kind.value,
        "status": finding.status.value,
        "new": finding.new,
        "percent": finding.percent,
        "before": finding.before,
        "after": finding.after,
        "good_commit": finding.commits.good,
        "bad_commit": finding.commits.bad,
        "commits": finding.commits.words,
    }
