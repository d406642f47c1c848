"""What goes wrong in the test cloud, as data: a test hands it over, the cloud acts on it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Refusal:
    """Calls of `action` are answered with an error, `times` of them after the first `after` (None: all).

    `zone`: only launches into that availability zone.
    """

    action: str
    code: str
    message: str = "injected by the test cloud"
    status: int = 400
    zone: str | None = None
    after: int = 0
    times: int | None = None


@dataclass(frozen=True)
class Trouble:
    """All that goes wrong from now on. Machines are named as their tag `barograph:machine` names them.

    `hidden_s`: describing does not find an instance for that long after its launch. `pending_s`: then it is pending.
    `shutting_down_s`: an ended instance takes that long to be terminated and keeps its security group.
    `stillborn`: goes from pending to terminated. `silent`: runs and never answers. `keyless`: nobody's key is let in.
    `unconfigured`: its user data is never run, so it shows a host key of its own.
    """

    refusals: tuple[Refusal, ...] = ()
    hidden_s: float = 0.0
    pending_s: float = 0.0
    shutting_down_s: float = 0.0
    stillborn: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    keyless: tuple[str, ...] = ()
    unconfigured: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def read(text: str) -> Trouble:
    """The inverse of `Trouble.to_json`; an unknown field is a TypeError."""
    data: Mapping[str, object] = json.loads(text)
    lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
    refusals = tuple(Refusal(**one) for one in lists.get("refusals", ()))
    return Trouble(**{**data, **lists, "refusals": refusals})  # type: ignore[arg-type]  # as it was written
