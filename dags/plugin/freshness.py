"""Results in a bucket are looked for before they are shown, but not at every click."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field

from dags.errors import message_of
from dags.places import location
from dags.plugin.ownership import NIGHTS
from dags.plugin.shelf import PAGE
from dags.results import Results

log = logging.getLogger(__name__)
AGAIN_S = 20.0  # of one series or suite; a page that looks again by itself asks more often
ALL_AGAIN_S = 120.0  # of everything, which lists the bucket


@dataclass
class Freshness:
    """When each part of the results was last brought here; one at a time, for a slow bucket must not be asked twice."""

    looked_s: dict[str, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def bring(self, place: Results, name: str) -> None:
        """What belongs to `name`. A bucket that fails is told in the log; what is here is shown."""
        from analysis.errors import StorageConfigurationError, StorageError

        scope = scope_of(name)
        with self.lock:
            if time.monotonic() < self.looked_s.get(scope, float("-inf")) + (AGAIN_S if scope else ALL_AGAIN_S):
                return
            try:
                _bring(place, scope)
            except (StorageError, StorageConfigurationError) as error:
                log.warning("shown is what is on this box, for the bucket does not answer: %s", message_of(error))
            self.looked_s[scope] = time.monotonic()


def scope_of(name: str) -> str:
    """The series that a name is in, or the suite; everything where it is in none."""
    parts = name.split("/")
    if parts[0] == NIGHTS and len(parts) > 1:
        return "/".join(parts[:2])
    return "/".join(parts[:3]) if len(parts) > 3 or (len(parts) == 3 and "." not in parts[2]) else ""


def _bring(place: Results, scope: str) -> None:
    if scope.startswith(f"{NIGHTS}/"):
        place.fetch(scope, PAGE)
    elif scope:
        place.refresh(scope, digest=True)
    else:
        place.refresh()
        if location() is not None:  # of a folder whoever writes a series writes the index
            from analysis import index_page

            index_page.write(place.root, time.time())
