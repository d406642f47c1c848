"""How long to wait for AWS, and how often to ask."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """All in seconds. `lag_s`: how long EC2 may not list what it has just made."""

    poll_s: float = 2.0
    relist_s: float = 10.0  # while only ssh is waited for
    lag_s: float = 60.0
    ready_s: float = 300.0
    gone_s: float = 600.0
    recalled_s: float = 15.0
