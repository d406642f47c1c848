"""The steps of a night as tasks take them: each finds the night again from its suite and its id."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from dags.errors import DagError, RunsFailed
from dags.nights import night, outcome, told, tonight
from dags.nights.deadline import HOUR_S
from dags.nights.suite import load, only
from dags.nights.webhook import post
from dags.series import read_series

log = logging.getLogger(__name__)


class RegressionFound(DagError):
    """Nobody's failure, but a DAG run that found one must be seen."""

    blame = "system_under_test"


def open_night(name: str, deadline_hours: float, experiments: Sequence[str]) -> str:
    """The night's id."""
    suite, now_s = load(name), time.time()
    chosen = only(suite, experiments) if experiments else suite
    return night.open_night(chosen, now_s + deadline_hours * HOUR_S, now_s).id


def begin(name: str, night_id: str | None, experiment: str) -> str | None:
    """The folder of its series, None where it is not measured this night."""
    if night_id is None:
        return None
    from dags.steps.provision import open_requested

    suite, under_way = load(name), tonight.of_id(name, night_id)
    if experiment not in [entry.experiment for entry in under_way.experiments]:
        return None
    choice = next(choice for choice in suite.experiments if choice.experiment == experiment)
    if why := night.why_not(suite, under_way, choice, time.time()):
        night.not_begun(under_way, experiment, why)
        return None
    try:
        folder = open_requested(experiment, suite.changes(choice), new=True)
        night.begun(under_way, read_series(folder))
    except BaseException as error:
        night.failed(under_way, experiment, error)
        raise
    return str(folder)


def conclude(name: str, night_id: str | None, experiment: str) -> str | None:
    """What became of it; None where it is not of this night."""
    if night_id is None:
        return None
    under_way = tonight.of_id(name, night_id)
    if experiment not in [entry.experiment for entry in under_way.experiments]:
        return None
    return night.concluded(under_way, experiment).entry(experiment).status


def close(name: str, night_id: str) -> str:
    """On record, evaluated, with pages; the index."""
    begun_s = tonight.of_id(name, night_id).started_s
    record = night.closed(name, tonight.of_id(name, night_id), time.time())
    found, index, _ = told.published(load(name), record, begun_s, log.warning)
    for line in told.lines(found, record):
        log.info("%s", line)
    return str(index)


def tell(name: str) -> None:
    """To the webhook, where there is one."""
    if said := post(told.message(name)):
        log.info("%s", said)


def judge(name: str) -> None:
    """Raises what must be seen: a newly confirmed regression, else a night that measured nothing."""
    message = told.message(name)
    if message["new_regressions"]:
        raise RegressionFound(message["text"])
    statuses = [each["status"] for each in message["experiments"]]
    if message["status"] == "failed" and outcome.exit_code(statuses, 0):
        raise RunsFailed(message["text"], outcome.blame_of_night(statuses))
