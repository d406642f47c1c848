"""What a commit's scheduler_plugins say of themselves; run by `dags.sources.fitness` with that commit on PYTHONPATH.

    inside_checkout.py ASKED ANSWER

ASKED: {"variants": [{"policy", "parameters"}]}. ANSWER, which it writes: {"folder", "v", "calls", "state",
"variants": [{"error", "events"}]}.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    import scheduler_plugins.desk
    from scheduler_plugins import service, wire

    with tempfile.TemporaryDirectory() as folder:
        state = scheduler_plugins.desk.Desk(Path(folder)).state()
    return {
        "folder": str(Path(wire.__file__).parent.parent),
        "v": getattr(wire, "VERSION", 1),  # what every commit from before it was named spoke
        "calls": [" ".join(call) for call in service.CALLS],
        "state": state,
        "variants": [_of(variant["policy"], variant["parameters"]) for variant in asked["variants"]],
    }


def _of(policy: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    from scheduler_plugins.policies import POLICIES, PolicyError, bind

    try:
        bind(policy, parameters)
    except PolicyError as error:
        return {"error": str(error), "events": []}
    return {"error": None, "events": sorted(POLICIES[policy].events)}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(answer(json.loads(Path(sys.argv[1]).read_text()))))
