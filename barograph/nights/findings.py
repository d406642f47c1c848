"""A night's findings for readers: the pages, a few lines for the screen, and the message for the webhook.

The message is posted to the URL in BAROGRAPH_WEBHOOK. A URL is a secret: it is in no file, log line or message.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from analysis.record.files import NIGHTS, read_json, write_json_atomic
from barograph.errors import Say
from barograph.nights.night_state import NIGHT_FILE, nights_folder
from barograph.nights.outcome import COMPLETE
from barograph.nights.suite import Suite
from barograph.plan.experiment import SIMULATED
from barograph.series.results import results
from barograph.settings import WEBHOOK_VARIABLE, webhook

if TYPE_CHECKING:
    from analysis.nights.findings import Findings
    from analysis.nights.regressions import Finding, Settings


MESSAGE_FILE = "message.json"  # of a suite's newest night: the message for the webhook
TOP = 10  # findings in a message; the page has all


def settings_of(suite: Suite) -> Settings:
    """Return the settings of the suite's history, from its file."""
    from analysis.nights.regressions import Settings
    from analysis.stats.change_points import Rule

    rule = Rule() if suite.minimum_percent is None else Rule(minimum_percent=suite.minimum_percent)
    return Settings(suite.title, rule, suite.renames, suite.accepted)


def write_pages(suite: Suite) -> tuple[Findings, Path]:
    """Evaluate all nights on record and write their pages; return the findings and the index."""
    from analysis.nights import pages
    from analysis.nights.findings import review

    folder = nights_folder(suite.name)
    findings = review(folder, settings_of(suite))
    return findings, pages.write(folder, findings)


def publish(suite: Suite, record: Mapping[str, Any], since_s: float, say: Say) -> tuple[Findings, Path, dict[str, Any]]:
    """Evaluate all nights after a night on record; return the findings, their index and the message, which are all
    stored."""
    findings, index = write_pages(suite)
    message = message_body(findings, record, index)
    write_message(suite.name, message)
    store_pages(suite.name, since_s, say)
    return findings, index, message


def store_pages(suite: str, since_s: float, say: Say) -> None:
    """Send files of the nights written since then to the bucket, where results are in one."""
    from analysis.errors import StorageConfigurationError, StorageError

    place = results()
    try:
        for file in sorted(nights_folder(suite).rglob("*")):
            hidden = file.name.startswith(".") or file.name == NIGHT_FILE
            if file.is_file() and not hidden and file.stat().st_mtime >= since_s:
                place.keep(file)
    except (StorageError, StorageConfigurationError) as error:
        say(f"the nights of {suite} are not sent, kept in {nights_folder(suite)}: {error}")


def write_message(suite: str, message: Mapping[str, Any]) -> None:
    write_json_atomic(nights_folder(suite) / MESSAGE_FILE, message)


def read_message(suite: str) -> dict[str, Any]:
    return read_json(nights_folder(suite) / MESSAGE_FILE)


def finding_lines(findings: Findings, record: Mapping[str, Any]) -> list[str]:
    """Return lines for the morning: failures with their blame, regressions, improvements."""
    lines = [
        f"{each['experiment']}: {each['status'].replace('_', ' ')}: {each['reason']}"
        for each in record["experiments"]
        if each["status"] != COMPLETE
    ]
    return lines + [finding_line(finding) for finding in _notable_findings(findings)]


def message_body(findings: Findings, record: Mapping[str, Any], index: Path) -> dict[str, Any]:
    """Return the webhook's message (docs/contracts.md): no path outside the results, nothing secret."""
    experiments = [{key: each[key] for key in ("experiment", "status", "reason")} for each in record["experiments"]]
    worth, news = _notable_findings(findings), len(findings.alarms)
    result = f"{news} newly confirmed regression{'s' * (news != 1)}" if news else "no newly confirmed regression"
    how = f", {SIMULATED}" if record["testbed"] == SIMULATED else ""
    headline = f"Barograph, suite {record['suite']}, night {record['night']} ({record['status']}{how}): {result}"
    return {
        "v": 1,
        **{key: record[key] for key in ("suite", "night", "id", "testbed", "commit", "status")},
        "text": "\n".join([headline, *finding_lines(findings, record)[:TOP]]),
        "new_regressions": news,
        "experiments": experiments,
        "findings": [
            {"series": each.key.name, "kind": each.kind.value, "status": each.status.value, "new": each.new,
             "percent": each.percent, "before": each.before, "after": each.after, "good_commit": each.commits.good,
             "bad_commit": each.commits.bad, "commits": each.commits.words}
            for each in worth[:TOP]
        ],
        "more_findings": max(0, len(worth) - TOP),
        "page": f"{NIGHTS}/{record['suite']}/{index.name}",
    }  # fmt: skip


def finding_line(finding: Finding) -> str:
    """Return a finding in one line."""
    from analysis.nights.findings import change_text
    from analysis.numerals import number

    prefix = "new: " if finding.new else ""
    text = f"{prefix}{finding.kind.value}, {finding.status.value}: {finding.key.name} {change_text(finding)}"
    failures = f"; {finding.failed}" if finding.failed else ""
    return f"{text} ({number(finding.before)} → {number(finding.after)}), {finding.commits.words}{failures}"


def _notable_findings(findings: Findings) -> list[Finding]:
    """Return tonight's confirmed findings, then other new ones, then standing regressions."""
    from analysis.nights.regressions import RegressionKind, Status

    standing = findings.of(RegressionKind.REGRESSION, Status.CONFIRMED, Status.SUSPECTED)
    ordered = [*findings.alarms, *(finding for finding in findings.all if finding.new), *standing]
    return list(dict.fromkeys(ordered))


POST_LIMIT_S = 10.0
PAUSES_S = (2.0, 10.0)  # before the second and the third attempt


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """A handler that follows no redirection: the message must not go to another address."""

    def redirect_request(self, *_arguments: Any) -> None:
        return None


def post(
    body: Mapping[str, Any],
    url: str | None = None,
    *,
    sleep: Callable[[float], None] = time.sleep,
    limit_s: float = POST_LIMIT_S,
) -> str:
    """Post the message and return a line on the outcome; empty without a webhook. Never raises: it must not fail a
    night."""
    url = webhook() if url is None else url
    if not url:
        return ""
    if problem := _url_problem(url):
        return f"the webhook was not called: {problem}"
    data = json.dumps(body, allow_nan=False).encode()
    outcome = ""
    for pause_s in (0.0, *PAUSES_S):
        sleep(pause_s)
        request = urllib.request.Request(url, data, {"Content-Type": "application/json", "User-Agent": "barograph"})
        try:
            with urllib.request.build_opener(_NoRedirection).open(request, timeout=limit_s) as answer:
                return f"the message was posted to the webhook ({answer.status})"
        except urllib.error.HTTPError as error:
            error.close()
            outcome = f"the webhook answered {error.code}"
            if error.code < HTTPStatus.INTERNAL_SERVER_ERROR and error.code != HTTPStatus.TOO_MANY_REQUESTS:
                return outcome
        except Exception as error:  # noqa: BLE001 - any kind; its text may hold the URL, its kind does not
            reason = getattr(error, "reason", None)
            cause = reason if isinstance(reason, Exception) else error
            errno = getattr(cause, "errno", None)
            text = f": {os.strerror(errno)}" if isinstance(errno, int) and errno > 0 else ""
            outcome = f"the webhook could not be reached ({type(cause).__name__}{text})"
    return outcome


def webhook_warning() -> str:
    """Return a warning where BAROGRAPH_WEBHOOK is set but is not a usable URL; else an empty string."""
    url = webhook()
    problem = _url_problem(url) if url else ""
    return f"note: {problem}; no message will be sent about this night" if problem else ""


def _url_problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        fine = False
    return "" if fine else f"{WEBHOOK_VARIABLE} is not an http:// or https:// URL"
