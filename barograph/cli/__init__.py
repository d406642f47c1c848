"""The command line: its commands, and the one place where errors become a line and an exit code.

A command's file has its arguments (`add_arguments`) beside what it does (`execute`). Only the file of the command that
is given is imported: a mistyped option must not wait for Spark or Airflow.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections.abc import Collection, Sequence
from importlib import import_module
from pathlib import Path

from barograph.errors import EXIT_CODES, INTERRUPTED_EXIT, blame_of, message_of

# command -> (its module, what it is for)
COMMANDS = {
    "run": ("barograph.cli.run", "run experiments, or resume their unfinished series"),
    "compare": ("barograph.cli.compare", "is B better than A, in blocks on the same machines"),
    "report": ("barograph.cli.report", "analyse a series again, or list all results"),
    "nightly": ("barograph.cli.nightly", "measure a suite for a night, and say what got worse"),
    "bisect": ("barograph.cli.bisect", "which commit made a number worse"),
    "claims": ("barograph.cli.claims", "what the papers state and what was measured"),
    "ablate": ("barograph.cli.ablate", "what Stela's variants would have decided in a series' runs"),
    "read": ("barograph.cli.read", "other people's logs into a series, for `report`"),
    "sql": ("barograph.cli.sql", "ask the tables of analysed series in Spark SQL (docs/tables.md)"),
    "bundle": ("barograph.cli.bundle", "a series, or one run, as an artifact that others can re-make"),
    "list": ("barograph.cli.experiments", "the experiments there are"),
    "check": ("barograph.cli.check", "can they run, and what may they cost; nothing is started"),
    "setup": ("barograph.cli.setup", "build everything that experiments need"),
    "ui": ("barograph.cli.ui", "Airflow on loopback"),
    "reap": ("barograph.cli.reap", "release what dead runs have left"),
    "replay": ("barograph.cli.replay", "ask a policy again, from a run's decision log"),
}
EPILOG = """exit codes: 0 done, 2 configuration, 3 capacity, 4 infrastructure, 5 system under test, 1 a bug (its
traceback is in a file), 130 interrupted; 6 of `nightly`: a confirmed regression. Begin with README.md."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code, of EXIT_CODES."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = parser(words[:1]).parse_args(words)
    try:
        code: int = options.execute(options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED_EXIT
    except BrokenPipeError:
        return 0  # `barograph … | head`
    except Exception as error:  # noqa: BLE001 - the one place where errors become a line and an exit code
        return _explain(error)
    return code


def parser(complete: Collection[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """Of all commands; those that `complete` names have their arguments."""
    top = argparse.ArgumentParser(
        prog="barograph", description="Experiments on elastic scheduling of Apache Storm.", epilog=EPILOG
    )
    table = top.add_subparsers(metavar="COMMAND", required=True)
    for name, (module, purpose) in COMMANDS.items():
        command = table.add_parser(name, help=purpose, description=purpose)
        if name in complete:
            code = import_module(module)
            code.add_arguments(command)
            command.set_defaults(execute=code.execute)
    return top


def _explain(error: Exception) -> int:
    blame, message = blame_of(error), message_of(error)
    if blame == "harness":
        message = f"{message} (traceback: {_keep_traceback()})"
    print(f"{blame.replace('_', ' ')}: {message}", file=sys.stderr)
    return EXIT_CODES[blame]


def _keep_traceback() -> Path:
    with tempfile.NamedTemporaryFile("w", prefix="barograph-", suffix=".traceback", delete=False) as file:
        file.write(traceback.format_exc())
    return Path(file.name)
