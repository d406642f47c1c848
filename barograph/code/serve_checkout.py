"""A commit's policy service over pipes, on a clock that is told with each call. `barograph.run.code_service` runs it,
with that commit on PYTHONPATH.

    serve_checkout.py FOLDER [SAMPLE_S]

The decision log is in FOLDER; workers write every SAMPLE_S seconds, 1 without it. Each line of the input is a call,
{"t", "method", "path", "body": text, "headers"}, and gets a line: {"answer"}, or {"status", "error"} as over HTTP. The
commit may be an old one: names that have changed are tried in both forms, and what it has not is done without, but for
lines of several seconds, which it would take for late ones.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

AGAIN_S = 0.1


class Checkout:
    def __init__(self, folder: Path, sample_s: int = 1) -> None:
        from scheduler_plugins import service

        try:
            from scheduler_plugins.service_state import ServiceState
        except ImportError:  # a commit from before the module had its name
            ServiceState = importlib.import_module("scheduler_plugins.desk").Desk  # type: ignore[misc]  # a class
        self.now_s = 0.0
        self._calls = service.CALLS
        known = inspect.signature(ServiceState).parameters
        if sample_s != 1 and "sample_s" not in known:
            sys.exit(f"sample_s is {sample_s}; the policy service of this commit knows only lines of a second, give 1")
        said: dict[str, Any] = {"sample_s": sample_s, "is_simulated": True}
        more = {name: value for name, value in said.items() if name in known}
        self._state = ServiceState(folder, clock=lambda: self.now_s, **more)
        timed = getattr(service, "TimedDecisions", None)
        self._decisions: Any = None if timed is None else timed()

    def answer(self, call: Mapping[str, Any]) -> dict[str, Any]:
        self.now_s = call["t"]
        try:
            return {"answer": self._take(call)}
        except Exception as error:  # noqa: BLE001 - as over HTTP, whatever it is
            if (status := getattr(error, "status", None)) is not None:
                return {"status": status, "error": str(error)}
            is_told = isinstance(error, ValueError | KeyError | TypeError) or type(error).__name__ == "MessageError"
            return {"status": 400 if is_told else 500, "error": f"{type(error).__name__}: {error}"}

    def _take(self, call: Mapping[str, Any]) -> Any:
        if call["path"] == "/schedule" and self._decisions is not None:
            return self._schedule(json.loads(call["body"]))
        take = self._calls[call["method"], call["path"]]
        more = (call["headers"],) if len(inspect.signature(take).parameters) > 2 else ()
        return take(self._state, call["body"].encode(), *more)

    def _schedule(self, request: Mapping[str, Any]) -> Any:
        """With the service's own limit for a policy; one that the box has kept from a CPU is asked again."""
        round = self._state.begin_round(request)
        outcome = round.decision
        while outcome is None or type(outcome).__name__ == "Postponement":
            if outcome is not None:
                time.sleep(AGAIN_S)
            outcome = self._decisions.decide(round)
        return self._state.end_round(round, outcome)


def main(folder: Path, sample_s: int = 1) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a policy prints is no answer
    checkout = Checkout(folder, sample_s)
    for line in sys.stdin:
        print(json.dumps(checkout.answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
