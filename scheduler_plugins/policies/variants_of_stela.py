"""Stela as the paper states it, as its authors' code does it, and one variant for each difference between the two.

What the authors' code did otherwise and has no parameter here:

- its rates are means over up to 30 samples 10 s apart: a window of 300 s. Ours is the `window_s` that the policy
  service is configured with, 60 s for every policy
- it passes over components that run as many executors as they have tasks. So do we under any name: the paper's rule
  would give a slot to an executor that Storm cannot start
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PAPER: Mapping[str, Any] = {
    "slots": "per_machine",
    "score": "etp",
    "shared_sink": "once",
    "scale_in": "one_by_one",
}

AUTHORS: Mapping[str, Any] = {
    "slots": "with_new",
    "score": "etp_per_executor",
    "shared_sink": "per_path",
    "scale_in": "all_at_once",
}

# name → parameters of the policy `stela`: the paper's rules with one of the code's at a time, then all of them
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "paper": PAPER,
    **{f"paper, {name}: {value}": {**PAPER, name: value} for name, value in AUTHORS.items()},
    "authors": AUTHORS,
}
