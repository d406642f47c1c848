"""`barograph setup`: build every missing part that an experiment needs."""

from __future__ import annotations

import argparse
import time

from barograph.airflow_environment import prepare as prepare_airflow
from barograph.cli.preparation import require_fit_box, software_parts
from barograph.cli.terminal import say
from barograph.errors import Say
from barograph.settings import airflow_home


def add_arguments(_setup: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def execute(_options: argparse.Namespace) -> int:
    require_fit_box(say)
    whole_s = time.monotonic()
    for name, make in {**software_parts(), "Airflow's database": _airflow_database}.items():
        begin_s = time.monotonic()
        make(say)
        say(f"{name}: {time.monotonic() - begin_s:.1f} s")
    say(f"ready in {time.monotonic() - whole_s:.1f} s")
    return 0


def _airflow_database(_say: Say) -> object:
    return prepare_airflow(airflow_home())
