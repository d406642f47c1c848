"""`barograph setup`: build everything that an experiment needs and that is not there yet."""

from __future__ import annotations

import argparse
import time

from barograph.cli.execution import require_fit_box, software_parts
from barograph.cli.terminal import say


def add_arguments(_setup: argparse.ArgumentParser) -> None:
    """None."""


def execute(_options: argparse.Namespace) -> int:
    require_fit_box(say)
    whole_s = time.monotonic()
    for name, make in software_parts().items():
        begin_s = time.monotonic()
        make(say)
        say(f"{name}: {time.monotonic() - begin_s:.1f} s")
    say(f"ready in {time.monotonic() - whole_s:.1f} s")
    return 0
