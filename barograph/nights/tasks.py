"""The steps of a night as Airflow's tasks: each finds the night again from its suite and its id."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from barograph.errors import BarographError, InUse, RunsFailed, message_of
from barograph.nights import findings, night_state, outcome, procedure
from barograph.nights.findings import post
from barograph.nights.suite import HOUR_S, load_suite, subset
from barograph.series.series import read_series

log = logging.getLogger(__name__)


class RegressionAlarm(BarographError):
    """A regression, which is nobody's failure, but must fail the DAG run to be seen."""

    blame = "system_under_test"


class NightOver(BarographError):
    """The night's deadline came while another one was being measured."""

    blame = "capacity"


def open_night(name: str, deadline_hours: float, experiments: Sequence[str], asked_s: float) -> str:
    """Open a night and return its id. The deadline counts from the request, however long the night had to wait."""
    suite, now_s, until_s = load_suite(name), time.time(), asked_s + deadline_hours * HOUR_S
    selection = subset(suite, experiments) if experiments else suite
    try:
        return procedure.open_night(selection, until_s, now_s).id
    except InUse as error:
        if now_s > until_s:
            raise NightOver(f"the night's deadline has come while it waited: {message_of(error)}") from error
        raise


def begin_experiment(name: str, night_id: str | None, experiment: str) -> str | None:
    """Begin the experiment and return the folder of its series, None where it is not measured this night."""
    if night_id is None:
        return None
    from barograph.machines.provision import open_requested

    suite, under_way = load_suite(name), night_state.night_of_id(name, night_id)
    if experiment not in [entry.experiment for entry in under_way.experiments]:
        return None
    choice = next(choice for choice in suite.experiments if choice.experiment == experiment)
    if why := procedure.why_not(suite, under_way, choice, time.time()):
        procedure.skip_entry(under_way, experiment, why)
        return None
    try:
        folder = open_requested(experiment, suite.changes(choice), new=True)
        procedure.begin_entry(under_way, read_series(folder))
    except InUse:  # the task waits, until the deadline
        raise
    except BaseException as error:
        procedure.fail_entry(under_way, experiment, error)
        raise
    return str(folder)


def conclude_experiment(name: str, night_id: str | None, experiment: str) -> str | None:
    """Return the experiment's status; None where it does not belong to this night."""
    if night_id is None:
        return None
    if (recorded := night_state.recorded_night(name, night_id)) is not None:  # it was closed before
        return next((e["status"] for e in recorded["experiments"] if e["experiment"] == experiment), None)
    under_way = night_state.night_of_id(name, night_id)
    if experiment not in [entry.experiment for entry in under_way.experiments]:
        return None
    return procedure.conclude_entry(under_way, experiment).entry(experiment).status


def close_night(name: str, night_id: str) -> str:
    """Put the night on record, evaluate it, write the pages, and return the index. A recorded night is only
    evaluated."""
    record = night_state.recorded_night(name, night_id)
    if record is None:
        record = procedure.close_night(name, night_state.night_of_id(name, night_id), time.time())
    else:
        procedure.forget_night(name, night_id)
    results, index, _ = findings.publish(load_suite(name), record, record["started_s"], log.warning)
    for line in findings.finding_lines(results, record):
        log.info("%s", line)
    return str(index)


def post_message(name: str) -> None:
    """Post the message to the webhook, if there is one."""
    if outcome := post(findings.read_message(name)):
        log.info("%s", outcome)


def raise_alarm(name: str) -> None:
    """Raise for a newly confirmed regression, else for a night that measured nothing."""
    message = findings.read_message(name)
    if message["new_regressions"]:
        raise RegressionAlarm(message["text"])
    statuses = [each["status"] for each in message["experiments"]]
    if message["status"] == "failed" and outcome.exit_code(statuses, 0):
        raise RunsFailed(message["text"], outcome.blame_of_night(statuses))
