"""Damage the files that users write, thousands of times: is each one read or refused, in words and in time?

`python -m bench.campaign.mutations --number 10000` takes the shipped experiments, suites, machine types and prices, a
comparison's side and options of every testbed, changes text or values, and reads the result as the commands do. Prints
a JSON summary; exit code 1 where anything ended with a traceback or took longer than LIMIT_S. An undamaged file that is
not read raises: then the refusals say nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import yaml

from barograph.compare.comparison import read_side
from barograph.errors import CapacityError, blame_of, message_of
from barograph.nights.suite import parse_suite
from barograph.plan import durations
from barograph.plan.blocks import digest, plan_runs
from barograph.plan.experiment import from_data, parse
from barograph.testbeds import checks
from barograph.yaml_files import read_yaml
from inventory import TESTBEDS, machines
from inventory.ec2.options import load_prices
from tests.support import fakes

ROOT = Path(__file__).parents[2]
LIMIT_S = 20.0
REFUSALS = ("configuration", "capacity")  # whose failure a damaged file may be

SIDE = """\
label: theirs
repository: ../theirs
ref: main
build: [mvn, -q, package]
jar: target/theirs.jar
scheduler: org.example.TheirScheduler
conf: {their.key: 3}
rebalance: false
"""
OPTIONS = """\
ec2: {region: eu-central-1, budget_usd: 5.0, market: spot, price_limit_usd: 0.5, zones: [eu-central-1a], disk_gb: 16}
emulab: {access: portal, user: ann, project: storm, ssh_key: ~/.ssh/id, profile: small-lan, profile_project: Profiles,
         bindings: {phystype: d710}, count_binding: nodeCount, ops_host: ops.emulab.net, ready_minutes: 45}
existing: {inventory: ~/lab/hosts.ini, group: storm, master: node01, ssh_key: ~/.ssh/lab, known_hosts: ~/.ssh/known}
fake: {core_hour_usd: 0.01, budget_usd: 5}
local: {}
"""


@dataclass(frozen=True)
class Kind:
    """A kind of file: its undamaged texts, and what reads one from a path."""

    texts: tuple[str, ...]
    read: Callable[[Path], object]


def _read_experiment(path: Path) -> None:
    experiment = parse("stela/star", read_yaml(path), source=path.name, folder=path.parent)
    assert from_data(experiment.as_data()) == experiment, "its data is another experiment"
    on_fake = replace(experiment, testbed=replace(experiment.testbed, name="fake", options={}))
    with suppress(CapacityError):  # the fake has fewer machines than some shipped experiments need
        checks.check(on_fake)
    checks.testbed_of(experiment.testbed)
    durations.longest_series_s(experiment, len(plan_runs(experiment)))
    checks.remarks(on_fake)
    digest(experiment)


def _read_suite(path: Path) -> None:
    parse_suite("stela", read_yaml(path), source=path.name)


def _read_side(path: Path) -> None:
    read_side(str(path))


def _read_options(path: Path) -> None:
    """As an experiment carries them."""
    star = yaml.safe_load((ROOT / "dags/experiments/stela/star.yaml").read_text())
    data = read_yaml(path)
    for name in TESTBEDS:
        star["testbed"] = {**star["testbed"], "name": name, "options": data}
        checks.testbed_of(parse("stela/star", star, source=path.name).testbed)


def _read_prices(path: Path) -> None:
    with patch.dict(os.environ, {"BAROGRAPH_PRICES": str(path)}):
        load_prices()


def kinds() -> dict[str, Kind]:
    def shipped(pattern: str) -> tuple[str, ...]:
        return tuple(file.read_text() for file in sorted(ROOT.glob(pattern)))

    return {
        "experiment": Kind(shipped("dags/experiments/*/*.yaml"), _read_experiment),
        "suite": Kind(shipped("dags/suites/*.yaml"), _read_suite),
        "comparison": Kind((SIDE,), _read_side),
        "options": Kind((OPTIONS,), _read_options),
        "machine types": Kind(shipped("inventory/machine_types.yaml"), machines.load_types),
        "prices": Kind(shipped("inventory/ec2/prices.yaml"), _read_prices),
    }


# --- damage ----------------------------------------------------------------------------------------------------------

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**63, 10**400, 0.0, -0.5, 1e308, float("inf"), float("nan"), "", " ", "3", "steady",
    "null", "\x07", "\u202e", "x" * 5000, "ä/../..", "{{ 7 }}", "${HOME}", [], {}, [[]], [None], {"": None},
    {"a": {"b": 1}}, ["star"] * 50, {"name": "star"}, "2026-13-45", 1.5,
)  # fmt: skip
ODD_TEXTS = (
    "\t", "\0", "\ufeff", "---\n", "...\n", "&a ", "*a ", "!!python/object:os.system ", "!!binary x ", "<<: ", "? ",
    "| ", "> ", "%YAML 9.9\n", "{", "}", "[", "]", ":", "- ", "#", "'", '"', "2026-13-45", "0x_", "0b", "1:99:99",
    ".inf", "[" * 3000, "{a: " * 3000, "9" * 5000, "\u2028", "\udcff", "é",
    "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
    "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"
    "g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g]\ntitle: *h\n",
    "options: &o {x: *o}\n",
)  # fmt: skip


def mutant(text: str, chance: random.Random) -> bytes:
    """The text after one to three changes."""
    changed = text
    for _ in range(chance.randint(1, 3)):
        changed = chance.choice((_change_text, _change_lines, _change_value, _change_value))(changed, chance)
    return changed.encode("utf-8", "surrogateescape")


def _change_text(text: str, chance: random.Random) -> str:
    place = chance.randrange(len(text) + 1)
    if chance.random() < 0.3:
        return text[:place] + text[place + chance.randint(1, 20) :]
    return text[:place] + chance.choice(ODD_TEXTS) + text[place:]


def _change_lines(text: str, chance: random.Random) -> str:
    lines = text.splitlines(keepends=True) or [""]
    place = chance.randrange(len(lines))
    change = chance.randrange(5)
    if change == 0:
        del lines[place]
    elif change == 1:
        lines.insert(place, lines[chance.randrange(len(lines))])
    elif change == 2:
        lines[place] = " " * chance.randint(1, 3) + lines[place]
    elif change == 3:
        lines[place] = chance.choice(ODD_TEXTS) + lines[place]
    else:
        lines = lines[:place]
    return "".join(lines)


def _change_value(text: str, chance: random.Random) -> str:
    """Through the data; a text that is no YAML any more, or repeats itself by aliases, stays as it is."""
    if re.search(r"[&*][a-z]", text):
        return text
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text
    if not isinstance(data, dict | list) or not data or len(text) > 20_000:
        return text
    data = deepcopy(data)
    holder, key = chance.choice(list(_places(data)))
    change = chance.randrange(4)
    if change == 0 or not isinstance(holder, dict):
        holder[key] = deepcopy(chance.choice(ODD_VALUES))
    elif change == 1:
        del holder[key]
    elif change == 2:
        holder[chance.choice(("nmae", "", 3, None, f"{key}s", "kind"))] = holder.pop(key)
    else:
        holder[f"{key}"] = [holder[key]] * chance.randint(2, 40)
    return yaml.safe_dump(data, allow_unicode=True, sort_keys=False)


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in list(data.items() if isinstance(data, dict) else enumerate(data)):
        yield data, key
        if isinstance(value, dict | list):
            yield from _places(value)


# --- judgement -------------------------------------------------------------------------------------------------------


class TooLong(BaseException):
    """Not an Exception, so that nothing mistakes it for a damaged file."""


@contextmanager
def limited(limit_s: float) -> Iterator[None]:
    def end(_number: int, _frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True)
class Outcome:
    word: str  # read, refused, traceback, hung
    said: str
    seconds: float


def outcome_of(kind: Kind, content: bytes, folder: Path) -> Outcome:
    path, begin_s = folder / "mutant.yaml", time.monotonic()
    path.write_bytes(content)
    try:
        with limited(LIMIT_S):
            kind.read(path)
        word, said = "read", ""
    except TooLong:
        word, said = "hung", "".join(traceback.format_exc(limit=-6))
    except Exception as error:  # noqa: BLE001 - what it is, is the question
        message = message_of(error)
        fits = blame_of(error) in REFUSALS and bool(message.strip()) and "\n" not in message
        word, said = ("refused", message) if fits else ("traceback", traceback.format_exc())
    return Outcome(word, said, time.monotonic() - begin_s)


def campaign(number: int, seed: int) -> Iterator[tuple[str, bytes, Outcome]]:
    """Kinds in turn; more of what users write most."""
    fakes.add_testbed()
    chance, everything = random.Random(seed), kinds()
    turns = ("experiment", "suite", "experiment", "comparison", "options", "experiment", "machine types", "prices")
    with tempfile.TemporaryDirectory() as folder:
        for trace in ROOT.glob("dags/experiments/*/*.csv"):
            shutil.copy(trace, folder)
        for name, kind in everything.items():
            for text in kind.texts:
                outcome = outcome_of(kind, text.encode(), Path(folder))
                assert outcome.word == "read", f"{name}, undamaged: {outcome.said}"
        for place in range(number):
            name = turns[place % len(turns)]
            content = mutant(chance.choice(everything[name].texts), chance)
            yield name, content, outcome_of(everything[name], content, Path(folder))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    slowest_s, begin_s, shown = 0.0, time.monotonic(), 0
    for name, content, outcome in campaign(options.number, options.seed):
        counts[outcome.word] += 1
        slowest_s = max(slowest_s, outcome.seconds)
        if outcome.word in ("traceback", "hung") and shown < 20:
            shown += 1
            print(f"--- {outcome.word}: {name}\n{content[-600:]!r}\n{outcome.said[-1500:]}", file=sys.stderr)
    took_s = time.monotonic() - begin_s
    print(json.dumps({"files": options.number, **counts, "slowest_s": round(slowest_s, 2), "took_s": round(took_s, 1)}))
    return 1 if counts["traceback"] or counts["hung"] else 0


if __name__ == "__main__":
    sys.exit(main())
