"""A harness killed with -9 at random moments of its life on EC2, and what is left after the reaper.

    python -m tests.support.cloud.leaks --kills 50

The control plane alone: the machines "answer" at once, because what leaks is on the account, not in a machine.
Describing lags behind launching, and ending takes time, as on EC2.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import mock

from tests.support.cloud.cloud import ROOT, Cloud, Left, running
from tests.support.cloud.life import PHASES, QUICK, Fate
from tests.support.cloud.trouble import Trouble

SLOW = Trouble(hidden_s=0.3, pending_s=0.2, shutting_down_s=0.3)
REAP_LIMIT_S = 60.0
NO_WAY: dict[str, object] = {"ingress_from": "192.0.2.1/32"}  # there are no machines to reach
KINDS: tuple[dict[str, object], ...] = ({}, {"placement": "cluster"}, {"market": "spot", "price_limit_usd": 0.2})


@dataclass(frozen=True)
class Killed:
    """One life: the phase and second that it was killed in, what it left, and what the reaper left of that."""

    phase: str
    after_s: float
    before: Left
    passes: int
    left: Left
    state: tuple[str, ...]  # leases and keys that are still on disk


class Lives:
    """The process that lives are forked from."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def one(self, fate: Fate) -> tuple[str, float]:
        """One life; the phase that it reached, and how long it was."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(fate)) + "\n")
        self._process.stdin.flush()
        phase = "fork"
        while not (line := self._process.stdout.readline()).startswith("over"):
            assert line, "the process of the lives ended; its own words are above"
            phase = line.strip()
        return phase, float(line.split()[1])


@contextmanager
def lives() -> Iterator[Lives]:
    command = [sys.executable, "-m", "tests.support.cloud.life"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        yield Lives(process)
        process.stdin.close()


def at(cloud: Cloud, state: str) -> AbstractContextManager[object]:
    """The environment of a harness with its state in that folder, for this process and those that it starts."""
    return mock.patch.dict(os.environ, {**cloud.environment(), "BAROGRAPH_STATE": state})


def kill(cloud: Cloud, kills: int, seed: int) -> Iterator[Killed]:
    """Lives that are killed at moments spread evenly over a life; the environment says where cloud and state are."""
    cloud.expect(SLOW)
    chance = random.Random(seed)
    with lives() as alive:
        longest = [alive.one(Fate(cloud.options(**NO_WAY, **kind)))[1] for kind in KINDS]
        assert not cloud.left(), f"a life that nobody killed left {cloud.left()}"
        number = 0
        while number < kills:
            kind = number % len(KINDS)
            fate = Fate(cloud.options(**NO_WAY, **KINDS[kind]), chance.uniform(0, longest[kind]))
            phase, after_s = alive.one(fate)
            if phase == "done":  # it was faster than those that were timed
                continue
            number += 1
            before = cloud.left()
            passes = reap_all(cloud)
            yield Killed(phase, after_s, before, passes, cloud.left(), _on_disk())


def reap_all(cloud: Cloud) -> int:
    """The reaper at work until it finds nothing any more and EC2 shows what it hid; how often it found something."""
    from inventory.ec2.testbed import Ec2Testbed
    from inventory.leases.reaper import reap

    worked, quiet_since, deadline = 0, time.monotonic(), time.monotonic() + REAP_LIMIT_S
    while time.monotonic() - quiet_since < SLOW.hidden_s + SLOW.pending_s and time.monotonic() < deadline:
        if reap(testbeds={"ec2": lambda: Ec2Testbed(timing=QUICK)}):
            worked, quiet_since = worked + 1, time.monotonic()
    return worked


def _on_disk() -> tuple[str, ...]:
    state = Path(os.environ["BAROGRAPH_STATE"])
    return tuple(path.name for folder in ("leases", "keys") for path in (state / folder).glob("[!.]*"))


def table(killed: Sequence[Killed]) -> str:
    """By phase: kills, when they came, what was there then, what the reaper left, and its passes at most."""
    lines = [f"{'phase':<10}{'kills':>6}{'at (s)':>14}{'things there':>14}{'left':>6}{'on disk':>9}{'passes':>8}"]
    for phase in ("fork", *PHASES):
        of_it = [one for one in killed if one.phase == phase]
        if of_it:
            at = f"{min(one.after_s for one in of_it):.2f}–{max(one.after_s for one in of_it):.2f}"
            there = f"0–{max(_count(one.before) for one in of_it)}"
            left, disk = sum(_count(one.left) for one in of_it), sum(len(one.state) for one in of_it)
            passes = max(one.passes for one in of_it)
            lines.append(f"{phase:<10}{len(of_it):>6}{at:>14}{there:>14}{left:>6}{disk:>9}{passes:>8}")
    kinds: Counter[str] = Counter()
    for one in killed:
        kinds.update({name: len(ids) for name, ids in vars(one.left).items()})
    return "\n".join([*lines, "left in all: " + ", ".join(f"{name} {number}" for name, number in kinds.items())])


def _count(left: Left) -> int:
    return sum(len(ids) for ids in vars(left).values())


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--kills", type=int, default=50)
    asked.add_argument("--seed", type=int, default=20261121)
    chosen = asked.parse_args()
    with tempfile.TemporaryDirectory(prefix="bl") as state, running(machines=False) as cloud, at(cloud, state):
        begun, killed = time.monotonic(), []
        for one in kill(cloud, chosen.kills, chosen.seed):
            killed.append(one)
            print(
                f"{one.phase} after {one.after_s:.1f} s: {_count(one.before)} things, left {_count(one.left)}",
                flush=True,
            )
    print(table(killed))
    print(f"{len(killed)} kills in {time.monotonic() - begun:.0f} s, seed {chosen.seed}")
    return 1 if any(one.left or one.state for one in killed) else 0


if __name__ == "__main__":
    raise SystemExit(main())
