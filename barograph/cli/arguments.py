"""Arguments that several commands have, and how their values are read."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from analysis.record.files import require_writable
from barograph.errors import ExperimentError
from topologies import yaml_text

TESTBED = "local, simulated, ec2, emulab or existing, instead of the experiment's (docs/testbeds.md)"


def add_changes(command: argparse.ArgumentParser) -> None:
    """Add the options that differ from the experiment's file."""
    add = command.add_argument
    add("--variants", type=comma_separated, metavar="A,B", help="only these variants")
    add("--repetitions", type=int, metavar="N", help="runs of each variant, instead of the experiment's")
    add("--seed", type=int, metavar="N",
        help="of the order of runs in their blocks and of the sources' texts, instead of the experiment's")  # fmt: skip
    add("--horizon", type=float, metavar="S", help="seconds watched after an event, at most")
    add_testbed(command)


def changes_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `add_changes`, for `with_changes`. Raises ExperimentError."""
    return {
        "variants": options.variants,
        "repetitions": options.repetitions,
        "seed": options.seed,
        "horizon_s": options.horizon,
        "testbed": options.testbed,
        "options": testbed_options(options.option),
    }


def add_testbed(command: argparse.ArgumentParser) -> None:
    """Add `--testbed` and its `--option`s."""
    add = command.add_argument
    add("--testbed", metavar="NAME", help=TESTBED)
    add("--option", type=key_value, action="append", default=[], metavar="KEY=VALUE",
        help="an option of the testbed, before those of the experiment; the value is YAML: 5, word, [a,"
        " b]")  # fmt: skip


def add_testbed_choice(command: argparse.ArgumentParser) -> None:
    """Add the `--testbed` of a command that reads earlier series."""
    command.add_argument(
        "--testbed", type=_known_testbed, metavar="NAME",
        help="only series of this testbed: simulated, local, ec2, emulab or existing (default: all but simulated ones)",
    )  # fmt: skip


def jobs_of(options: argparse.Namespace) -> int:
    """Return `--jobs`, the number of processes, else the number of cores. Raises ExperimentError."""
    from barograph.pool import cores

    if options.jobs is not None and options.jobs < 1:
        raise ExperimentError(f"--jobs is {options.jobs}; allowed: at least 1")
    return options.jobs or cores()


def require_writable_into(into: Path) -> None:
    """Raise ExperimentError, before anything is computed, where `--into` names a file that cannot be written."""
    try:
        if not into.absolute().parent.is_dir():
            raise ExperimentError(f"--into is {into}; its folder is not there")
        require_writable(into.absolute())
    except OSError as error:
        raise ExperimentError(
            f"--into is {into}, which cannot be written: {error.strerror}; give another file"
        ) from error


def given_file(text: str) -> Path:
    """Return the path of a file. Raises for an empty text."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty; give a file")
    return Path(text)


def _known_testbed(name: str) -> str:
    from inventory import TESTBEDS

    if name not in TESTBEDS:
        raise argparse.ArgumentTypeError(f"{name!r} is no testbed; known: {', '.join(TESTBEDS)}")
    return name


def testbed_options(pairs: Sequence[tuple[str, str]]) -> dict[str, Any] | None:
    """Return the `--option KEY=VALUE` pairs, each key once. Raises ExperimentError."""
    keys = [key for key, _ in pairs]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise ExperimentError(f"--option gives {', '.join(twice)} twice; give each once, a list as [a, b]")
    return {key: yaml_value(value) for key, value in pairs} or None


def comma_separated(text: str) -> list[str]:
    """Return `A,B` as a list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def yaml_value(text: str) -> Any:
    """Return the value of KEY=VALUE as YAML reads it: numbers, words, lists. Raises ExperimentError for invalid
    YAML."""
    try:
        return yaml_text.load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())
        raise ExperimentError(
            f"value {text!r} is not YAML: {problem}; quote it, or give a number, a word or [a, list]"
        ) from error
