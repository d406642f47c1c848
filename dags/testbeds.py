"""The testbeds of `inventory` as the harness uses them: by name, one of each, told what to bring along."""

from __future__ import annotations

from functools import cache

from dags.errors import ExperimentError
from inventory import TESTBEDS
from inventory.testbed import Testbed


@cache
def testbed_named(name: str) -> Testbed:
    """Raises ExperimentError listing the known ones."""
    if name not in TESTBEDS:
        raise ExperimentError(f"testbed.name is {name!r}; known: {', '.join(TESTBEDS)}")
    return TESTBEDS[name]()
