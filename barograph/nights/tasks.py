"""The steps of a night as Airflow's tasks take them: each finds the night again from its suite and its id."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from barograph.errors import BarographError, InUse, RunsFailed
from barograph.nights import findings, night_state, outcome, procedure
from barograph.nights.findings import post
from barograph.nights.suite import HOUR_S, load_suite, subset
from barograph.series.series import read_series

log = logging.getLogger(__name__)


class RegressionAlarm(BarographError):
    """Nobody's failure, but a DAG run that found one must be seen."""

    blame = "system_under_test"


def open_night(name: str, deadline_hours: float, experiments: Sequence[str]) -> str:
    """The night's id."""
    suite, now_s = load_suite(name), time.time()
    chosen = subset(suite, experiments) if experiments else suite
    return procedure.open_night(chosen, now_s + deadline_hours * HOUR_S, now_s).id


def begin_experiment(name: str, night_id: str | None, experiment: str) -> str | None:
    """The folder of its series, None where it is not measured this night."""
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
    except InUse:  # it is waited for, until the deadline
        raise
    except BaseException as error:
        procedure.fail_entry(under_way, experiment, error)
        raise
    return str(folder)


def conclude_experiment(name: str, night_id: str | None, experiment: str) -> str | None:
    """What became of it; None where it is not of this night."""
    if night_id is None:
        return None
    under_way = night_state.night_of_id(name, night_id)
    if experiment not in [entry.experiment for entry in under_way.experiments]:
        return None
    return procedure.conclude_entry(under_way, experiment).entry(experiment).status


def close_night(name: str, night_id: str) -> str:
    """On record, evaluated, with pages; the index."""
    begun_s = night_state.night_of_id(name, night_id).started_s
    record = procedure.close_night(name, night_state.night_of_id(name, night_id), time.time())
    found, index, _ = findings.publish(load_suite(name), record, begun_s, log.warning)
    for line in findings.finding_lines(found, record):
        log.info("%s", line)
    return str(index)


def post_message(name: str) -> None:
    """To the webhook, where there is one."""
    if said := post(findings.read_message(name)):
        log.info("%s", said)


def raise_alarm(name: str) -> None:
    """Raises what must be seen: a newly confirmed regression, else a night that measured nothing."""
    message = findings.read_message(name)
    if message["new_regressions"]:
        raise RegressionAlarm(message["text"])
    statuses = [each["status"] for each in message["experiments"]]
    if message["status"] == "failed" and outcome.exit_code(statuses, 0):
        raise RunsFailed(message["text"], outcome.blame_of_night(statuses))
