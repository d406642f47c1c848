"""Checks of the harness's calls: scale events, and limits of machines. Pure.

Errors: CallRefusal, a call that cannot be served.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from scheduler_plugins.model import ScaleEvent


class CallRefusal(Exception):
    """A call that cannot be served now or with these values; `status` is the HTTP status."""

    blame = "configuration"

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def scale_event_from(
    body: Mapping[str, Any], kinds: Collection[str], policy: str, machines: Sequence[str]
) -> ScaleEvent:
    """Return the event of a body; `kinds`: those that `policy` answers, `machines`: living ones that are not
    released."""
    kind, joined = body.get("kind"), tuple(map(str, body.get("joined") or ()))
    if kind not in kinds:
        raise CallRefusal(400, f"scale: kind is {kind!r}; {policy} answers {', '.join(sorted(kinds))}")
    leave = body.get("leave", 0)
    if kind == "scale_in":
        _check_scale_in(joined, leave, machines)
        return ScaleEvent(str(body["event_id"]), "scale_in", leave=leave)
    if kind == "reschedule":
        if joined or leave:
            changes = f"joined is {', '.join(joined) or 'none'} and leave is {leave!r} with a reschedule"
            raise CallRefusal(400, f"scale: {changes}; allowed are none and 0: the machines stay the same")
        return ScaleEvent(str(body["event_id"]), "reschedule")
    _check_scale_out(joined, leave, machines)
    return ScaleEvent(str(body["event_id"]), "scale_out", joined)


def _check_scale_out(joined: tuple[str, ...], leave: Any, machines: Sequence[str]) -> None:
    if not joined:
        raise CallRefusal(400, "scale: a scale_out without machines that joined; name them in `joined`")
    if leave:
        raise CallRefusal(400, f"scale: leave is {leave!r} with a scale_out; allowed is 0, or a scale_in of its own")
    strangers = sorted(set(joined) - set(machines))
    if strangers:
        names = ", ".join(machines) or "none"
        raise CallRefusal(409, f"scale: machine {strangers[0]} is not known to Nimbus yet; known are {names}")


def _check_scale_in(joined: tuple[str, ...], leave: Any, machines: Sequence[str]) -> None:
    if joined:
        raise CallRefusal(400, f"scale: joined is {', '.join(joined)} with a scale_in; allowed is none")
    if not machines:
        raise CallRefusal(409, "scale: Nimbus has not said yet which machines there are; wait for a scheduling round")
    limit = len(machines) - 1
    if not isinstance(leave, int) or isinstance(leave, bool) or not 1 <= leave <= limit:
        limit_text = f"allowed are 1 to {limit}" if limit else "nothing is allowed"
        state_text = f"{', '.join(machines)} {'are' if limit else 'is'} alive"
        raise CallRefusal(
            400, f"scale: leave is {leave!r}; {limit_text}: at least one machine must stay, and {state_text}"
        )


def limits_from(machines: Any) -> tuple[int, int] | None:
    """Return the least and the largest number of machines of a policy; None: it may request none. Raises
    CallRefusal."""
    if machines is None:
        return None
    lower, upper = (machines.get("min"), machines.get("max")) if isinstance(machines, Mapping) else (None, None)
    if type(lower) is int and type(upper) is int and 1 <= lower <= upper:
        return lower, upper
    limits = "null, or min and max, whole numbers from 1 and min at most max"
    raise CallRefusal(400, f"rounds: machines is {machines!r}; allowed is {limits}")
