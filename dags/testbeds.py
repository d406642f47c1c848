"""The testbeds of `inventory` as the harness uses them: one of each choice, told what to bring along."""

from __future__ import annotations

import json
import logging
from functools import cache

from dags.errors import ExperimentError
from dags.experiment import TestbedChoice
from inventory import TESTBEDS
from inventory.testbed import Testbed

log = logging.getLogger(__name__)
IN_MEMORY = ("fake",)  # machines that need no software


def testbed_of(choice: TestbedChoice) -> Testbed:
    """The chosen testbed with its options. Raises ExperimentError listing the known ones, or its own error."""
    if choice.name not in TESTBEDS:
        raise ExperimentError(f"testbed.name is {choice.name!r}; known: {', '.join(TESTBEDS)}")
    if unknown := sorted(set(choice.options) - set(TESTBEDS)):
        raise ExperimentError(f"testbed.options has {', '.join(unknown)}; known testbeds: {', '.join(TESTBEDS)}")
    return _made(choice.name, json.dumps(choice.options.get(choice.name, {}), sort_keys=True))


def releasing(name: str) -> Testbed:
    """The testbed of that name without options: it can release, list leftovers and sweep."""
    return _made(name, "{}")


@cache
def _made(name: str, options: str) -> Testbed:
    return TESTBEDS[name](options=json.loads(options))
