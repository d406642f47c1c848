"""`barograph replay`: what a policy would have decided in each round of a recorded run."""

from __future__ import annotations

import argparse
from pathlib import Path

from barograph.cli.arguments import key_value, yaml_value
from barograph.cli.terminal import say
from scheduler_plugins.replay import replay


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("decisions", type=decisions_file, help="a decisions.jsonl, or the folder of a run")
    command.add_argument("--policy", required=True, metavar="NAME", help="a policy of docs/policies.md")
    command.add_argument(
        "--parameter",
        type=key_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a parameter of the policy",
    )


def decisions_file(text: str) -> Path:
    """A decision log, or a run's folder that has one."""
    path = Path(text)
    return path / "decisions.jsonl" if path.is_dir() else path


def execute(options: argparse.Namespace) -> int:
    parameters = {key: yaml_value(value) for key, value in options.parameter}
    rounds = replay(options.decisions, options.policy, parameters)
    for one in rounds:
        if not one.same or one.refused or one.now.get("reason"):
            word = f"refused ({one.refused})" if one.refused else "same" if one.same else "differs"
            say(f"{one.t:.1f} {one.event_id or '-'} {word}: {one.now.get('reason') or 'nothing to do'}")
    say(f"{len(rounds)} rounds, {sum(not one.same for one in rounds)} decided differently by {options.policy}")
    return 0
