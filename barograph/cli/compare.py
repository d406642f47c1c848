"""`barograph compare A B`: build both sides, run them in blocks on the same machines, and print the answer."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from analysis.compare.result import PAGE, RESULT
from analysis.compare.sentence import p_text
from analysis.errors import RecordError
from analysis.metrics.definitions import metric
from analysis.numerals import MISSING, change, number
from analysis.record import wall_time
from analysis.record.files import read_json
from barograph.cli.arguments import add_testbed, comma_separated, testbed_options
from barograph.cli.execution import Ending, carry_out
from barograph.cli.preparation import prepare_series
from barograph.cli.terminal import line_printer, stdout_console
from barograph.compare import record
from barograph.compare.comparison import Comparison, budget_text, remarks
from barograph.compare.request import ComparisonRequest, comparison_request, plan_comparison, reopen_comparison
from barograph.series.series import Series


def add_compare_arguments(compare: argparse.ArgumentParser) -> None:
    side = "a branch, tag or commit of this repository, or the YAML file of a scheduler (docs/comparing.md)"
    add = compare.add_argument
    add("a", metavar="A", help=side)
    add("b", metavar="B", help="the same; the answer is about B against A")
    add("--experiment", required=True, metavar="FAMILY/NAME", help="see `barograph list`")
    add("--variants", type=comma_separated, metavar="A,B", help="only these variants")
    add("--topology", metavar="NAME", help="of several only this one; `all` is the cluster (default: each of them)")
    add("--blocks", type=int, metavar="N",
        help="at least 3 (default: the experiment's repetitions, or 3); not with --until-certain")  # fmt: skip
    add("--until-certain", action="store_true", help="add blocks until they find --goal or rule it out")
    add("--goal", dest="goal_percent", type=float, default=5.0, metavar="PERCENT",
        help="the difference that must not be overlooked (default 5)")  # fmt: skip
    add("--budget", metavar="LIMIT", help="limit of --until-certain: '20 blocks' (default), 2h, 90min, '$5'")
    add_testbed(compare)
    add("--new", action="store_true", help="begin a new series even where one is unfinished")
    add("--rebuild", action="store_true", help="build both sides again, even what failed to build")


def execute_compare(options: argparse.Namespace) -> int:
    request = comparison_request({**vars(options), "options": testbed_options(options.option)})
    return compare(request, stdout_console(), new=options.new, rebuild=options.rebuild)


def compare(request: ComparisonRequest, console: Console, *, new: bool, rebuild: bool) -> int:
    """Compare and return the exit code: 0 whatever the answer is."""
    comparison = plan_comparison(request)
    series = open_comparison_on_terminal(comparison, console, new=new, rebuild=rebuild)
    return carry_out(series, console, Ending(show_comparison, shlex.join(resume_command(request, comparison))))


def resume_command(request: ComparisonRequest, comparison: Comparison) -> list[str]:
    """Return the command that resumes it, on the same commits even if branches have moved since."""
    demand = request.demand
    sides = [
        text if side.foreign else side.code.commit
        for text, side in zip((request.a, request.b), comparison.sides.values(), strict=True)
    ]
    values = {
        "--experiment": request.experiment,
        "--variants": ",".join(request.variants) if request.variants else None,
        "--topology": demand.topology,
        "--blocks": request.blocks,
        "--goal": f"{demand.goal_percent:g}",
        "--budget": budget_text(demand.budget) if demand.until_certain else None,
        "--testbed": request.testbed,
    }
    words = [word for name, value in values.items() if value is not None for word in (name, str(value))]
    options = [
        word for key, value in (request.options or {}).items() for word in ("--option", f"{key}={json.dumps(value)}")
    ]
    return ["barograph", "compare", *sides, *words, *options, *(["--until-certain"] if demand.until_certain else [])]


def open_comparison_on_terminal(
    comparison: Comparison, console: Console, *, new: bool, rebuild: bool = False
) -> Series:
    """Open the comparison's series, up to the first machine; raises errors with `blame` where nothing was started."""
    say = line_printer(console)
    for remark in remarks(comparison):
        say(remark)
    reopen = partial(reopen_comparison, comparison, new=new)
    series = prepare_series(comparison.experiment, new=new, console=console, rebuild=rebuild, before_open=reopen)
    record.write(series.folder, comparison)
    return series


def show_comparison(series_dir: Path, console: Console) -> None:
    """Print the sentence, the table of metrics, the reason for stopping, the wall time, and the page."""
    say = line_printer(console)
    try:
        result = read_json(series_dir / RESULT)
    except RecordError as error:
        say(f"no comparison: {error}")
        return
    table = _table(result, console.width)
    if table.row_count:
        console.print(table)
    lines = [str(result["sentence"])]
    if (sufficiency := record.sufficiency(series_dir)) is not None:
        lines.append(f"stopped after {sufficiency['blocks']} blocks ({sufficiency['why']}): {sufficiency['said']}")
    if (took := wall_time.read_wall_time(series_dir)) is not None:
        lines.append(f"time: {wall_time.wall_time_line(took)}")
    for line in [*lines, f"comparison: {series_dir / PAGE}"]:
        say(line)


COLUMNS = ("variant", "metric", "event", "A", "B", "B against A [95 %]", "floor", "p", "blocks", "verdict")
OPTIONAL_IF_EQUAL = ("variant", "event", "blocks")
OPTIONAL_COLUMNS = ("p", "floor", "blocks", "A", "B")  # in this order, where a line is too short for all columns
MODEL_NAMES = {"B against A [95 %]": "B against A [over seeds]"}  # of simulated runs, which are not tested
OF_TESTS = ("floor", "p", "verdict")
WRAP_WIDTHS = {"variant": 7, "metric": 11}  # column -> least number of characters, where a line is short


def _table(result: Mapping[str, Any], width: int) -> Table:
    """Return the table behind the sentence; the page has the rest. Columns with one value are omitted; words fit in
    80."""
    primary = [dict(zip(COLUMNS, _cells(row), strict=True)) for row in result["rows"] if row["primary"]]
    columns = [name for name in COLUMNS if name not in OPTIONAL_IF_EQUAL or len({cells[name] for cells in primary}) > 1]
    if result.get("simulated"):
        primary = [{MODEL_NAMES.get(name, name): text for name, text in cells.items()} for cells in primary]
        columns = [MODEL_NAMES.get(name, name) for name in columns if name not in OF_TESTS]
    for name in OPTIONAL_COLUMNS:
        if name in columns and sum(_least_width(column, primary) + 1 for column in columns) - 1 > width:
            columns.remove(name)
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    for name in columns:
        table.add_column(name, overflow="fold", no_wrap=name not in WRAP_WIDTHS, min_width=WRAP_WIDTHS.get(name))
    for cells in primary:
        table.add_row(*(cells[name] for name in columns))
    return table


def _least_width(column: str, rows: Sequence[Mapping[str, str]]) -> int:
    texts = (column, *(cells[column] for cells in rows))
    return WRAP_WIDTHS.get(column) or max(len(line) for text in texts for line in text.splitlines())


def _cells(row: Mapping[str, Any]) -> list[str]:
    low, high = row.get("lowest", row["low"]), row.get("highest", row["high"])
    interval = "" if low is None or high is None else f" [{number(low, 1)}, {number(high, 1)}]"
    unit = metric(row["metric"]).unit if row["a"] is not None else ""
    return [
        ", ".join(filter(None, (row["pair"], row.get("topology")))),
        f"{row['words']} ({unit})" if unit else str(row["words"]), row["event"], number(row["a"]), number(row["b"]),
        change(row["difference"], row["unit"], 1) + interval,
        MISSING if row["floor"] is None else f"±{number(row['floor'], 1)}",
        p_text(row["p_holm"]), str(row["blocks"]), str(row["verdict"]).replace(" ", "\n"),
    ]  # fmt: skip
