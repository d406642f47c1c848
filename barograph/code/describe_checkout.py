"""What a commit's scheduler_plugins say of themselves; run by `barograph.series.variant_code` with that commit on
PYTHONPATH.

    describe_checkout.py QUESTION ANSWER

QUESTION: {"variants": [{"policy", "parameters"}]}. ANSWER, which it writes: {"folder", "tls", "v", "calls", "state",
"schedules": whether its service keeps those of sources, "variants": [{"error", "events"}]}. The commit may be an old
one: names that have changed since are tried in both forms.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    from scheduler_plugins import service

    try:
        from scheduler_plugins import messages
        from scheduler_plugins.service_state import ServiceState
    except ImportError:  # a commit from before these modules had their names
        messages = importlib.import_module("scheduler_plugins.wire")
        ServiceState = importlib.import_module("scheduler_plugins.desk").Desk  # type: ignore[misc]  # a class, as above

    with tempfile.TemporaryDirectory() as folder:
        service_state = ServiceState(Path(folder))
        state, to_a_worker_that_begins = service_state.state(), service_state.take_samples([])
    return {
        "folder": str(Path(messages.__file__).parent.parent),
        "tls": hasattr(service, "tls_context"),
        "v": getattr(messages, "VERSION", 1),  # what every commit from before it was named spoke
        "calls": [*(" ".join(call) for call in service.CALLS), *_rate_calls()],
        "state": state,
        "schedules": "schedules" in (to_a_worker_that_begins or {}),  # what spouts of earlier processes had emitted
        "variants": [_of(variant["policy"], variant["parameters"]) for variant in asked["variants"]],
    }


def _rate_calls() -> list[str]:
    """What the service takes beyond the name of the call."""
    from scheduler_plugins import emission_records

    return ["POST /input_rate changes"] if hasattr(emission_records, "MOST_AHEAD_S") else []


def _of(policy: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    from scheduler_plugins.policies import POLICIES, PolicyError, bind

    try:
        bind(policy, parameters)
    except PolicyError as error:
        return {"error": str(error), "events": []}
    return {"error": None, "events": sorted(POLICIES[policy].events)}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(answer(json.loads(Path(sys.argv[1]).read_text()))))
