"""The testbeds of `inventory` as the harness uses them: by name, one of each, told what to bring along."""

from __future__ import annotations

import logging
from functools import cache

from dags.errors import ExperimentError
from inventory import TESTBEDS
from inventory.testbed import Testbed

log = logging.getLogger(__name__)


@cache
def testbed_named(name: str) -> Testbed:
    """Raises ExperimentError listing the known ones."""
    if name not in TESTBEDS:
        raise ExperimentError(f"testbed.name is {name!r}; known: {', '.join(TESTBEDS)}")
    return TESTBEDS[name]()


@cache
def equipped(name: str) -> Testbed:
    """A testbed that can acquire: emulated machines mount the software instead of receiving it."""
    if name != "local":
        return testbed_named(name)
    from dags.software import mounts

    return TESTBEDS[name](mounts=mounts(log.info))
