"""What machines may be called, for every testbed that makes or takes real ones."""

import re
from collections.abc import Sequence

from inventory.errors import ConfigurationError
from inventory.machines import MachineRequest

NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")
ALLOWED = "lower case letters, digits, '-', at most 20"


def check(
    testbed: str, requests: Sequence[MachineRequest], name: re.Pattern[str] = NAME, allowed: str = ALLOWED
) -> None:
    """At least one machine, each name allowed and given once; ConfigurationError otherwise."""
    names = [request.name for request in requests]
    if not names:
        raise ConfigurationError(f"{testbed}: no machine is asked for; ask for master and at least one worker")
    if bad := [each for each in names if not name.fullmatch(each)]:
        raise ConfigurationError(f"{testbed}: machine names {bad} are not allowed; {allowed}")
    if twice := sorted({each for each in names if names.count(each) > 1}):
        raise ConfigurationError(f"{testbed}: machine names {twice} are asked for twice; give each machine its own")
