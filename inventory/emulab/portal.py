"""Emulab by the portal's REST interface.

Paths, fields and words of the portal are only in this file, `portal_client` and `manifest`. Documented (README and
openapi.json of emulab/portal-api): `X-Api-Token`, create with `duration` in hours, an experiment named by
`project,name`, `status: ready`, 404 `No such experiment` once it is gone, extension by `expires_at`, one manifest an
aggregate. Not documented, and so read loosely: the words of `status` besides `ready` and `failed`, and whether a
profile of another project is listed.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from inventory.emulab import manifest
from inventory.emulab.access import Node, Patience, failure
from inventory.emulab.options import PortalOptions
from inventory.emulab.portal_client import PortalClient
from inventory.errors import CapacityError, ConfigurationError, InfrastructureError
from inventory.machines import MachineRequest

log = logging.getLogger(__name__)

READY = "ready"
ENDING = ("terminating", "terminated")
OVER = ("failed", "canceled", *ENDING)
HOUR_S = 3600.0


class Portal:
    """`options` are the experiment's; without them (another process, the reaper) it can only look and end."""

    def __init__(
        self,
        endpoint: str,
        project: str,
        options: PortalOptions | None = None,
        patience: Patience = Patience(),  # noqa: B008  # frozen
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._endpoint, self._project, self._options = endpoint, project, options
        self._patience, self._sleep = patience, sleep
        self._client = PortalClient(endpoint, patience, sleep)

    def site(self) -> Mapping[str, str]:
        """See `Access.site`."""
        return {"access": "portal", "endpoint": self._endpoint, "project": self._project}

    def check(self, requests: Sequence[MachineRequest]) -> None:  # noqa: ARG002  # the profile describes the machines
        """See `Access.check`: the token, the project, the profile as far as it is listed."""
        options = self._needed()
        self.experiments()
        answer = self._client.call("GET", f"/profiles?project={options.profile_project}")
        listed = [one for one in _rows(answer.data(), "profiles") if one.get("project") == options.profile_project]
        names = sorted({str(one.get("name")) for one in listed})
        # Profiles of other people's projects may not be listed at all: then creating says it.
        if names and options.profile not in names:
            raise ConfigurationError(
                f"testbed.options.emulab.profile is {options.profile!r}; known in {options.profile_project}: "
                f"{', '.join(names)}"
            )

    def start(self, experiment: str, requests: Sequence[MachineRequest], end_s: float) -> None:
        """See `Access.start`. The portal counts in hours, so it ends up to an hour late."""
        options = self._needed()
        bindings = dict(options.bindings)
        if options.count_binding:
            bindings[options.count_binding] = len(requests)
        body = {
            "name": experiment, "project": self._project, "profile_name": options.profile,
            "profile_project": options.profile_project, "duration": max(1, math.ceil((end_s - time.time()) / HOUR_S)),
            "bindings": bindings,
        }  # fmt: skip
        answer = self._client.call("POST", "/experiments", body)
        if answer.status == 404:
            raise ConfigurationError(
                f"emulab: the portal knows no profile {options.profile_project}/{options.profile} or no project "
                f"{self._project} ({answer.body[:200]}); check profile, profile_project and project"
            )
        self._wait_until_ready(experiment, options.ready_minutes * 60)

    def nodes(self, experiment: str, requests: Sequence[MachineRequest]) -> tuple[Node, ...]:
        """See `Access.nodes`."""
        answer = self._client.call("GET", f"{self._path(experiment)}/manifests")
        data = answer.data()
        texts = [text for text in data.values() if isinstance(text, str)] if isinstance(data, dict) else []
        if answer.status == 404 or not texts:
            raise InfrastructureError(f"emulab: experiment {experiment} has no manifest (was it ended?); start again")
        found = manifest.listed(texts, self._needed().user)
        return manifest.seated(found, [request.name for request in requests])

    def prolong(self, experiment: str, end_s: float) -> None:
        """See `Access.prolong`: CapacityError where Emulab wants to approve it first."""
        now = self._experiment(experiment)
        if now is None:
            raise InfrastructureError(f"emulab: experiment {experiment} is gone; start again")
        if (ends := _epoch(now.get("expires_at"))) is not None and ends >= end_s:
            return
        body = {"expires_at": datetime.fromtimestamp(end_s, UTC).isoformat(timespec="seconds"), "reason": "measuring"}
        answer = self._client.call("PUT", self._path(experiment), body).data()
        granted = _epoch(answer.get("expires_at")) if isinstance(answer, dict) else None
        if granted is None or granted < end_s - 60:
            until = "its old end" if granted is None else datetime.fromtimestamp(granted, UTC).isoformat()
            raise CapacityError(
                f"emulab: experiment {experiment} shall last until {body['expires_at']} and lasts until {until}; "
                "an administrator may have to approve more; ask for a shorter series, or resume it later"
            )

    def end(self, experiment: str) -> None:
        """See `Access.end`. A transition that is under way may have to end first, so it is asked for again."""
        deadline = time.monotonic() + self._patience.end_s
        refused: Exception | None = None
        while (now := self._experiment(experiment)) is not None:
            if time.monotonic() > deadline:
                raise InfrastructureError(
                    f"emulab: experiment {experiment} is still there {self._patience.end_s:g} s after it was ended; "
                    f"end it on its page, or later with `barograph reap`{f' ({refused})' if refused else ''}"
                ) from refused
            try:
                if now.get("status") not in ENDING:
                    self._client.call("DELETE", self._path(experiment))
            except ConfigurationError as error:  # 4xx: busy, as far as it is known
                refused = error
            self._sleep(self._patience.poll_s)

    def experiments(self) -> tuple[str, ...]:
        """See `Access.experiments`."""
        answer = self._client.call("GET", f"/experiments?project={self._project}")
        if answer.status == 404:
            raise ConfigurationError(
                f"testbed.options.emulab.project is {self._project!r}: the portal knows none ({answer.body[:200]})"
            )
        rows = _rows(answer.data(), "experiments")
        return tuple(str(one.get("name")) for one in rows if one.get("project", self._project) == self._project)

    def _wait_until_ready(self, experiment: str, limit_s: float) -> None:
        begun = time.monotonic()
        while (status := (now := self._experiment(experiment) or {}).get("status")) != READY:
            if status in OVER:
                raise failure(f"experiment {experiment} is {status}", _reasons(now))
            waited_s = time.monotonic() - begun
            if waited_s > (limit_s if now else self._patience.busy_s):
                raise InfrastructureError(
                    f"emulab: experiment {experiment} is {status or 'not there'} after {waited_s / 60:.1f} min; "
                    "raise testbed.options.emulab.ready_minutes, or look at its page"
                )
            self._sleep(self._patience.poll_s)

    def _experiment(self, name: str) -> dict[str, Any] | None:
        answer = self._client.call("GET", self._path(name))
        if answer.status == 404:
            return None
        data = answer.data()
        if not isinstance(data, dict):
            raise InfrastructureError(f"emulab: the portal's answer for {name} is no experiment: {answer.body[:200]!r}")
        return data

    def _path(self, experiment: str) -> str:
        return f"/experiments/{self._project},{experiment}"

    def _needed(self) -> PortalOptions:
        if self._options is None:
            raise ConfigurationError("emulab: no profile is named; set testbed.options.emulab (docs/emulab.md)")
        return self._options


def _rows(data: object, key: str) -> list[dict[str, Any]]:
    """The README shows a bare list, the OpenAPI document `{key: […]}`: both are read."""
    rows = data.get(key) if isinstance(data, dict) else data
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _epoch(stamp: object) -> float | None:
    try:
        return datetime.fromisoformat(str(stamp)).timestamp()
    except ValueError:
        return None


def _reasons(experiment: Mapping[str, Any]) -> str:
    """Whatever an experiment that failed says of it, under whichever name."""
    told = ("error", "message", "fail", "reason")
    return " ".join(str(value) for key, value in experiment.items() if value and any(word in key for word in told))
