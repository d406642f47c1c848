"""The command line: the parser of `barograph`, and the one place where errors become a line and an exit code.

`barograph run` starts the same DAG as Airflow would, in a child process, and shows its progress.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from barograph.cli import commands
from barograph.errors import EXIT_CODES, INTERRUPTED_EXIT, blame_of, message_of

EPILOG = """exit codes: 0 done, 2 configuration, 3 capacity, 4 infrastructure, 5 system under test, 1 a bug (its
traceback is in a file), 130 interrupted; 6 of `nightly`: a confirmed regression. Begin with README.md."""
TESTBED = "local, ec2, emulab or existing instead of the file's; their options are in docs/"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code, of EXITS."""
    options = parser().parse_args(arguments)
    try:
        code: int = options.do(options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED_EXIT
    except BrokenPipeError:
        return 0  # `barograph … | head`
    except Exception as error:  # noqa: BLE001 - the one place where errors become a line and an exit code
        return _explain(error)
    return code


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


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="barograph", description="Experiments on elastic scheduling of Apache Storm.", epilog=EPILOG
    )
    table = top.add_subparsers(metavar="COMMAND", required=True)

    run = _command(table, "run", commands.run, "run experiments, or resume their unfinished series")
    run.add_argument(
        "experiment", nargs="+", help="family/name, several of them, or a quoted glob such as 'stela/*'; of several,"
        " those that are complete are skipped; see `barograph list`",
    )  # fmt: skip
    run.add_argument("--policies", type=_names, metavar="A,B", help="only these of its variants, by their names")
    run.add_argument("--repetitions", type=int, metavar="N", help="of each variant, instead of the file's")
    run.add_argument("--testbed", metavar="NAME", help=TESTBED)
    _testbed_options(run)
    run.add_argument("--new", action="store_true", help="a new series, also where one is unfinished")
    run.add_argument("--demo", action="store_true", help="one short repetition of each variant")
    run.add_argument("--rebuild", action="store_true", help="build the code of variants again, also what failed before")

    _compare(table)

    report = _command(table, "report", commands.report, "analyse a series again, or list all results")
    report.add_argument("series", nargs="?", help="its folder, its id, or an experiment for its newest")
    report.add_argument("--index", action="store_true", help="only write index.html of all results anew")

    nightly = _command(table, "nightly", commands.nightly, "measure a suite for a night, and say what got worse")
    nightly.add_argument("suite", help="a file of dags/suites; a wrong one lists the known")
    nightly.add_argument("--experiments", type=_names, metavar="A,B", help="only these of the suite")
    nightly.add_argument("--deadline", metavar="TIME", help="07:00, 6h or 90min instead of the suite's own")
    nightly.add_argument("--dry-run", action="store_true", help="what would be measured when; nothing is started")
    nightly.add_argument("--report-only", action="store_true", help="the pages again, from the nights on record")

    bisect = _command(table, "bisect", commands.bisect, "which commit made a number worse")
    bisect.add_argument("good", metavar="GOOD", help="a commit, branch or tag where the number was well")
    bisect.add_argument("bad", metavar="BAD", help="a later one where it is worse")
    bisect.add_argument("--experiment", required=True, metavar="FAMILY/NAME")
    bisect.add_argument("--variant", required=True, metavar="NAME", help="of the experiment")
    bisect.add_argument("--metric", required=True, metavar="NAME", help="such as throughput_after")
    bisect.add_argument("--event", default="e1", metavar="ID", help="which event of the plan (default e1)")
    bisect.add_argument("--all", action="store_true", help="also commits that do not change scheduler_plugins/")
    bisect.add_argument("--repetitions", type=int, default=12, metavar="N", help="blocks a comparison, at most (12)")
    bisect.add_argument(
        "--goal", type=float, default=5.0, metavar="X",
        help="how narrow the first comparison's interval must be, ± percent (or the metric's unit; 5)",
    )  # fmt: skip
    bisect.add_argument("--testbed", metavar="NAME", help=TESTBED)
    _testbed_options(bisect)
    bisect.add_argument("--new", action="store_true", help="search again, also where this search was begun before")

    claims = _command(table, "claims", commands.claims, "what the papers state and what was measured")
    claims.add_argument("--json", action="store_true", help="as in claims.json, for other programs")

    ablate = _command(table, "ablate", commands.ablate, "what Stela's variants would have decided in a series' runs")
    ablate.add_argument("series", help="its folder, its id, or an experiment for its newest")
    ablate.add_argument("--json", action="store_true", help="for other programs")

    read = _command(table, "read", commands.read, "other people's logs into a series, for `report`")
    read.add_argument("format", metavar="FORMAT", help="see docs/reading_old_logs.md; a wrong one lists the known")
    read.add_argument("files", nargs="+", metavar="FILE")
    read.add_argument("--name", required=True, metavar="FAMILY/NAME", help="the experiment that the series is of")
    read.add_argument("--option", type=_pair, action="append", default=[], metavar="KEY=VALUE", help="of all files")

    _sql(table)
    _bundle(table)

    _command(table, "list", commands.list_experiments, "the experiments there are")
    check = _command(table, "check", commands.check, "can they run, and what may they cost; nothing is started")
    check.add_argument("experiment", nargs="*", help="family/name or quoted globs; none: all that this box runs")
    check.add_argument("--testbed", metavar="NAME", help=TESTBED)
    check.add_argument("--repetitions", type=int, metavar="N", help="of each variant, instead of the file's")
    _testbed_options(check)
    _command(table, "setup", commands.setup, "build everything that experiments need")

    ui = _command(table, "ui", commands.ui, "Airflow on loopback")
    ui.add_argument("--port", type=int, default=8080, metavar="N", help="of 127.0.0.1 (default 8080)")

    reap = _command(table, "reap", commands.reap, "release what dead runs have left")
    reap.add_argument("--dry-run", action="store_true", help="only show what would be ended, and why")
    reap.add_argument("--everywhere", action="store_true", help="look also where this harness never was (all regions)")
    reap.add_argument("--status", action="store_true", help="when the reaper last worked, and what it did")

    replay = _command(table, "replay", commands.replay, "ask a policy again, from a run's decision log")
    replay.add_argument("decisions", type=commands.decisions_file, help="decisions.jsonl, or the run's folder")
    replay.add_argument("--policy", required=True, metavar="NAME", help="see docs/policies.md")
    replay.add_argument(
        "--parameter", type=_pair, action="append", default=[], metavar="KEY=VALUE", help="of the policy"
    )
    return top


def _compare(table: object) -> None:
    compare = _command(table, "compare", commands.compare, "is B better than A, in blocks on the same machines")
    side = "a branch, tag or commit of this repository, or the YAML file of a scheduler (docs/comparing.md)"
    compare.add_argument("a", metavar="A", help=side)
    compare.add_argument("b", metavar="B", help="likewise; what is told is B against A")
    compare.add_argument("--experiment", required=True, metavar="FAMILY/NAME", help="see `barograph list`")
    compare.add_argument("--policies", type=_names, metavar="A,B", help="only these of its variants")
    compare.add_argument("--repetitions", type=int, metavar="N", help="blocks; default: the experiment's, at least 3")
    compare.add_argument(
        "--until-certain", action="store_true", help="add blocks until the intervals are narrow enough"
    )
    compare.add_argument(
        "--goal", dest="goal_percent", type=float, default=5.0, metavar="PERCENT",
        help="narrow enough: an interval reaches this far to either side (default 5)",
    )  # fmt: skip
    compare.add_argument("--budget", metavar="LIMIT", help="of --until-certain: '20 blocks' (default), 2h, 90min, '$5'")
    compare.add_argument("--testbed", metavar="NAME", help=TESTBED)
    _testbed_options(compare)
    compare.add_argument("--new", action="store_true", help="a new series, also where one is unfinished")
    compare.add_argument("--rebuild", action="store_true", help="build both sides again, also what failed to build")


def _sql(table: object) -> None:
    sql = _command(table, "sql", commands.sql, "ask the tables of analysed series in Spark SQL (docs/tables.md)")
    sql.add_argument("query", nargs="?", help="'select …'; every table has the columns experiment and series_id")
    of = sql.add_mutually_exclusive_group()
    of.add_argument("--series", metavar="SERIES", help="only this one: its folder, id, or an experiment for its newest")
    of.add_argument("--experiment", metavar="FAMILY/NAME", help="only the series of this one")
    sql.add_argument("--format", choices=("table", "csv", "json"), default="table")
    sql.add_argument("--to", type=Path, metavar="FILE.parquet", help="write the answer there instead")
    sql.add_argument("--limit", type=int, metavar="N", help="rows to show (default 50 of a table, else all)")
    sql.add_argument("--tables", action="store_true", help="the tables that there are; nothing is asked")
    sql.add_argument("--describe", metavar="TABLE", help="its columns, their units and what they mean")


def _bundle(table: object) -> None:
    bundle = _command(table, "bundle", commands.bundle, "a series, or one run, as an artifact that others can re-make")
    bundle.add_argument("series", metavar="SERIES|RUN", help="as of `report`; of a run SERIES/RUN, or its folder")
    bundle.add_argument("--to", type=Path, metavar="FILE.tar.gz", help="default: named after the series, here")
    bundle.add_argument("--without", choices=("raw",), help="leave out the raw lines and logs (docs/bundles.md)")


def _command(table: object, name: str, do: object, words: str) -> argparse.ArgumentParser:
    added: argparse.ArgumentParser = table.add_parser(name, help=words, description=words)  # type: ignore[attr-defined] # argparse keeps the type private
    added.set_defaults(do=do)
    return added


def _testbed_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--option", type=_pair, action="append", default=[], metavar="KEY=VALUE",
        help="of the testbed, laid over testbed.options of the file; a value is YAML: 5, word, [a, b]",
    )  # fmt: skip


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


if __name__ == "__main__":
    sys.exit(main())
