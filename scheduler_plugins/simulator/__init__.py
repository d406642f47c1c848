"""A Storm cluster as a queueing model: deterministic for a seed, on a clock of its own.

`work` says what components do to tuples and what machines can do, `layout` turns what runs into arrays, `capacity` says
what executors can do in a step, `flow` moves tuples through them, `world` has machines, workers and time, `lines`
writes what the workers and probes of a real cluster would have written. docs/simulator.md says what is modelled,
docs/decisions/simulator.md why so.
"""

import hashlib
from functools import cache
from pathlib import Path

MODEL = ("scheduler_plugins/simulator", "scheduler_plugins/driver", "topologies")


@cache
def model_sha256() -> str:
    """Of the code of the model, of Nimbus beside it and of what components do, shortened: errors of a calibration are
    those of one model."""
    root, digest = Path(__file__).parents[2], hashlib.sha256()
    for folder in MODEL:
        for file in sorted((root / folder).glob("*.py")):
            digest.update(f"{folder}/{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:12]
