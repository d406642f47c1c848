"""Describe a commit's scheduler_plugins; run by `barograph.series.variant_code` with that commit on PYTHONPATH.

    describe_checkout.py QUESTION ANSWER

QUESTION: {"variants": [{"policy", "parameters"}]}. It writes ANSWER: {"folder", "v", "state", "variants": [{"error",
"events"}]}.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scheduler_plugins.policies import POLICIES, PolicyError, bind
from scheduler_plugins.service import messages
from scheduler_plugins.service.state import ServiceState


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as log_folder:
        state = ServiceState(Path(log_folder)).state()
    return {
        "folder": str(Path(messages.__file__).parents[2]),
        "v": messages.VERSION,
        "state": state,
        "variants": [_of(variant["policy"], variant["parameters"]) for variant in question["variants"]],
    }


def _of(policy: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    try:
        bind(policy, parameters)
    except PolicyError as error:
        return {"error": str(error), "events": []}
    return {"error": None, "events": sorted(POLICIES[policy].events)}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(answer(json.loads(Path(sys.argv[1]).read_text()))))
