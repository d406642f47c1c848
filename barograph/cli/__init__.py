"""The command line: its commands, and the one place where errors become a line and an exit code.

The file of command `x` has its arguments (`add_x_arguments`) beside what it does (`execute_x`). Only that file is
imported: a mistyped option must not wait for Spark or Airflow.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import tempfile
import traceback
from collections.abc import Collection, Sequence
from importlib import import_module
from pathlib import Path

from barograph.child_processes import keep_exit_codes
from barograph.errors import EXIT_CODES, INTERRUPTED_EXIT, blame_of, message_of

# command -> (its module, what it is for)
COMMANDS = {
    "run": ("barograph.cli.run", "run experiments, or resume those that are unfinished"),
    "sweep": ("barograph.cli.sweep", "simulate an experiment for every combination of its swept fields"),
    "compare": ("barograph.cli.compare", "say whether B is better than A, measured in blocks on the same machines"),
    "report": ("barograph.cli.report", "analyse a series again, or write the index of all results"),
    "nightly": ("barograph.cli.nightly", "measure a suite for a night and say what got worse"),
    "bisect": ("barograph.cli.bisect", "find the commit that made a number worse"),
    "claims": ("barograph.cli.claims", "show what the papers state and what was measured"),
    "ablate": ("barograph.cli.replay", "show what Stela's variants would have decided in a series"),
    "read": ("barograph.cli.report", "turn other people's logs into a series, for `report`"),
    "sql": ("barograph.cli.sql", "query the tables of analysed series in Spark SQL"),
    "graph": ("barograph.cli.partition", "write what the tasks of a run sent each other as a METIS graph file"),
    "bundle": ("barograph.cli.bundle", "pack a series or a run so that others can make its results again"),
    "list": ("barograph.cli.experiments", "list the experiments"),
    "check": ("barograph.cli.experiments", "say whether experiments can run here and what they may cost"),
    "setup": ("barograph.cli.experiments", "build everything that experiments need"),
    "ui": ("barograph.cli.ui", "serve Airflow's pages on this machine only (127.0.0.1)"),
    "calibrate": ("barograph.cli.calibrate", "fit the simulator's costs to real series, and judge them on others"),
    "reap": ("barograph.cli.reap", "release machines that dead runs have left"),
    "replay": ("barograph.cli.replay", "ask a policy again, with the observations of a recorded run"),
    "batch": (
        "barograph.cli.batch",
        "recommend movies as a batch of growing days, and say what that costs a day",
    ),
    "partition": ("barograph.cli.partition", "cut a communication graph into parts by each method, and compare them"),
}
EPILOG = """exit codes: 0 done, 1 a bug of Barograph (a file has its traceback), 2 wrong configuration, 3 no capacity,
4 the infrastructure failed, 5 Storm or a policy failed, 6 `nightly` confirmed a regression, 130 interrupted.
README.md is the place to begin."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code, one of EXIT_CODES."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    keep_exit_codes()
    try:
        top = parser(words[:1])
        if words and not words[0].startswith("-") and words[0] not in COMMANDS:
            suggestions = "".join(
                f"did you mean {name}? " for name in difflib.get_close_matches(words[0], COMMANDS, n=1)
            )
            top.error(f"{words[0]!r} is not a command; {suggestions}`barograph --help` lists them")
        options, surplus = top.parse_known_args(words)
        if surplus:
            options.error(f"unrecognized arguments: {' '.join(surplus)}")
        code: int = options.execute(options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED_EXIT
    except BrokenPipeError:
        return 0  # `barograph … | head`
    except Exception as error:  # noqa: BLE001 - the one place where errors become a line and an exit code
        return explain(error)
    return code


def parser(complete: Collection[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """Return the parser of all commands; only those that `complete` names have their arguments."""
    top = argparse.ArgumentParser(
        prog="barograph", description="Experiments on elastic scheduling of Apache Storm.", epilog=EPILOG
    )
    table = top.add_subparsers(metavar="COMMAND", required=True)
    for name, (module, purpose) in COMMANDS.items():
        command = table.add_parser(name, help=purpose, description=purpose)
        if name in complete:
            code = import_module(module)
            getattr(code, f"add_{name}_arguments")(command)
            command.set_defaults(execute=getattr(code, f"execute_{name}"), error=command.error)
    return top


def explain(error: Exception) -> int:
    """Print the error that ends a command, or a part of one, on standard error, and return its exit code."""
    blame, message = blame_of(error), message_of(error)
    if blame == "harness":
        with tempfile.NamedTemporaryFile("w", prefix="barograph-", suffix=".traceback", delete=False) as file:
            file.write(traceback.format_exc())
        message = f"{message} (traceback: {Path(file.name)})"
    print(f"{blame.replace('_', ' ')}: {message}", file=sys.stderr)
    return EXIT_CODES[blame]
