"""A lease that lasts as long as what is done under it, also within one long run; not longer than that may take."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dags.errors import blame_of, message_of
from dags.series import Series
from dags.steps import machines

log = logging.getLogger(__name__)
RETRY_S = 30.0


@contextmanager
def kept(series: Series, limit_s: float) -> Iterator[None]:
    """Prolongs now, then each third of the lease, for `limit_s` at the most: what hangs must not hold machines."""
    minutes = series.experiment.lease_minutes
    machines.prolong(series, minutes)
    over = threading.Event()
    thread = threading.Thread(target=_keep, args=(series, minutes, limit_s, over), name="lease keeper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def _keep(series: Series, minutes: float, limit_s: float, over: threading.Event) -> None:
    deadline, wait_s = time.monotonic() + limit_s, minutes * 60 / 3
    while not over.wait(wait_s) and time.monotonic() < deadline:
        try:
            machines.prolong(series, minutes)
            wait_s = minutes * 60 / 3
        except Exception as error:  # noqa: BLE001 - a thread of its own: the run says what is wrong with its machines
            log.warning("prolonging the lease failed, trying again: %s: %s", blame_of(error), message_of(error))
            wait_s = min(RETRY_S, minutes * 60 / 10)
