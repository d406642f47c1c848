"""A commit's scheduler_plugins, with that commit on PYTHONPATH: its policy service over pipes, on a clock that is set
with each call (`barograph.run.code_service`), or what it can do (`barograph.series.variant_code`).

    checkout.py serve FOLDER [SAMPLE_S]
    checkout.py describe QUESTION ANSWER

serve: the decision log is in FOLDER; workers write every SAMPLE_S seconds, 1 without it. Each line of input is a call,
{"t", "method", "path", "body": text, "headers"}, and gets a line: {"answer"}, or {"status", "error"} as over HTTP.
describe: QUESTION has {"variants": [{"policy", "parameters"}]}; ANSWER gets {"folder", "v", "state", "variants":
[{"error", "events"}]}.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scheduler_plugins.policies import POLICIES, PolicyError, bind
from scheduler_plugins.service import messages
from scheduler_plugins.service.policy_call import Outcome, Postponement, TimedDecisions
from scheduler_plugins.service.scale_requests import CallRefusal
from scheduler_plugins.service.server import CALLS
from scheduler_plugins.service.state import ServiceState

AGAIN_S = 0.1


class Checkout:
    def __init__(self, folder: Path, sample_s: int = 1) -> None:
        self.now_s = 0.0
        self._state = ServiceState(folder, clock=lambda: self.now_s, sample_s=sample_s, is_simulated=True)
        self._decisions = TimedDecisions()

    def answer(self, call: Mapping[str, Any]) -> dict[str, Any]:
        self.now_s = call["t"]
        try:
            if call["path"] == "/schedule":
                return {"answer": self._schedule(json.loads(call["body"]))}
            return {"answer": CALLS[call["method"], call["path"]](self._state, call["body"].encode(), call["headers"])}
        except CallRefusal as refused:
            return {"status": refused.status, "error": str(refused)}
        except Exception as error:  # noqa: BLE001 - as over HTTP, whatever it is
            status = 400 if isinstance(error, messages.MessageError | ValueError | KeyError | TypeError) else 500
            return {"status": status, "error": f"{type(error).__name__}: {error}"}

    def _schedule(self, request: Mapping[str, Any]) -> Any:
        """Decide with the service's own limit for a policy; one that had no CPU in time is asked again."""
        round = self._state.begin_round(messages.request_from_json(request))
        outcome: Outcome | None = round.decision
        while outcome is None or isinstance(outcome, Postponement):
            if outcome is not None:
                time.sleep(AGAIN_S)
            outcome = self._decisions.decide(round)
        return messages.answer_json(self._state.end_round(round, outcome))


def serve(folder: str, sample_s: str = "1") -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a policy's output is not an answer
    checkout = Checkout(Path(folder), int(sample_s))
    for line in sys.stdin:
        print(json.dumps(checkout.answer(json.loads(line))), file=answers, flush=True)


def describe(question: str, answer: str) -> None:
    variants: list[dict[str, Any]] = []
    for variant in json.loads(Path(question).read_text())["variants"]:
        try:
            bind(variant["policy"], variant["parameters"])
            variants.append({"error": None, "events": sorted(POLICIES[variant["policy"]].events)})
        except PolicyError as error:
            variants.append({"error": str(error), "events": []})
    with tempfile.TemporaryDirectory() as log_folder:
        state = ServiceState(Path(log_folder)).state()
    folder = str(Path(messages.__file__).parents[2])
    Path(answer).write_text(json.dumps({"folder": folder, "v": messages.VERSION, "state": state, "variants": variants}))


if __name__ == "__main__":
    (serve if sys.argv[1] == "serve" else describe)(*sys.argv[2:])
