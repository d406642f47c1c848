"""The check after a block: is the comparison certain, or its budget spent? Then no further block begins.

Checked after each whole block from the third on. Stopping follows the width of the intervals, never their sign
(docs/decisions/bridge_and_service.md): a rule that looked for a difference would find one. Also where the wall time of
a comparison goes: runs, switching between them, analysis between blocks, the rest.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis import pipeline
from analysis.compare.question import Question, is_comparison, read_question
from analysis.record.files import SeriesPaths, append_line, parsed_lines, read_json
from analysis.record.wall_time import WallTime
from barograph.child_processes import ChildProcess
from barograph.compare import record
from barograph.compare.comparison import FEWEST_BLOCKS, budget_text
from barograph.errors import BarographError, message_of
from barograph.machines import holdings
from barograph.plan import durations
from barograph.plan.blocks import PlannedRun
from barograph.series.progress import ProgressFile
from barograph.series.run_record import is_of_execution, overhead_of, read_run
from barograph.series.series import Series
from barograph.settings import ROOT
from barograph.testbeds import costs

CHECKS_FILE = "checks.jsonl"  # a line for each analysis between blocks
CHECK_NUMBERS = ("t", "blocks", "seconds")


def note_check(series_dir: Path, t: float, blocks: int, seconds: float, **facts: Any) -> None:
    append_line(series_dir / CHECKS_FILE, {"t": t, "blocks": blocks, "seconds": seconds, **facts})


def read_checks(series_dir: Path, opened_s: float | None = None) -> list[dict[str, Any]]:
    """Return the checks of one execution, or of all. A damaged line is skipped and logged: no time includes its
    analysis."""
    lines = list(parsed_lines(series_dir / CHECKS_FILE))
    checks = [line for line in lines
             if line is not None and all(isinstance(line.get(key), int | float) for key in CHECK_NUMBERS)]  # fmt: skip
    if damaged := len(lines) - len(checks):
        log.warning("%s: %d of %d lines could not be read", series_dir / CHECKS_FILE, damaged, len(lines))
    if opened_s is None:
        return checks
    return [line for line in checks if is_of_execution(line, opened_s)]


def total_time_s(series: Series) -> float:
    """Return the time of the comparison in all its executions: attempts, analyses between blocks, and this opening."""
    attempts = list(_attempts(series.folder))
    starts_s = [float(run["started_s"]) for run in attempts if is_of_execution(run, series.opened_s)]
    opening_s = max(0.0, min(starts_s) - series.opened_s) if starts_s else 0.0
    return (
        sum(map(_duration_s, attempts)) + sum(float(line["seconds"]) for line in read_checks(series.folder)) + opening_s
    )


def wall_time(series: Series, now_s: float, analysis_s: float) -> WallTime:
    """Return the wall time of the current execution."""
    mine = [run for run in _attempts(series.folder) if is_of_execution(run, series.opened_s)]
    runs_s = sum(map(_duration_s, mine))
    watched_s = sum(max(0.0, _duration_s(run) - _overhead_s(run)) for run in mine)
    checks_s = sum(line["seconds"] for line in read_checks(series.folder, series.opened_s))
    wall_s = max(now_s - series.opened_s, runs_s + checks_s + analysis_s)  # also where the clock was set back
    return WallTime(wall_s, watched_s, runs_s - watched_s, checks_s, analysis_s, len(mine))


def _attempts(series_dir: Path) -> Iterator[dict[str, Any]]:
    for folder in (SeriesPaths(series_dir).runs, series_dir / "attempts"):
        for path in sorted(folder.glob("*/run.json")):
            document = read_run(path.parent)
            if document is not None and "started_s" in document:
                yield document


def _duration_s(run: dict[str, Any]) -> float:
    return max(0.0, float(run["ended_s"]) - float(run["started_s"]))


def _overhead_s(run: dict[str, Any]) -> float:
    """Return the time beside its watch; all of it for a run that does not say."""
    with suppress(KeyError, TypeError):
        return overhead_of(run)
    return _duration_s(run)


log = logging.getLogger(__name__)


class InterimAnalysisFailure(BarographError):
    """The analysis between two blocks failed; the comparison continues without it."""


@dataclass(frozen=True)
class InterimAnswer:
    """An interim answer of the comparison."""

    certain: bool
    why: str
    sentence: str


@dataclass(frozen=True)
class Stop:
    """A reason to stop. `why`: certain, budget, or failed."""

    why: str
    said: str


def check_after_run(series: Series) -> None:
    """Check after each run, and mark a sufficient series; an error here never stops the runs."""
    if series.is_sufficient() or not is_comparison(series.folder):
        return
    question = read_question(series.folder)
    if not question.until_certain:
        return
    blocks = whole_blocks(series.plan(), series.complete() | series.current_attempts())
    goal = question.goal_percent
    checked = [line["blocks"] for line in read_checks(series.folder) if line["goal_percent"] == goal]
    if blocks < FEWEST_BLOCKS or blocks <= max(checked, default=0):
        return
    progress = ProgressFile(series.folder)
    progress.tell("phase", phase="between_blocks", expected_s=30)
    begin_s, answer = time.time(), None
    try:
        answer = run_interim_analysis(series.folder)
        text = answer.why or answer.sentence
    except Exception as error:  # noqa: BLE001 - measuring goes on; the budget ends it
        text = f"not analysed: {message_of(error)}"
        log.warning("the analysis between two blocks failed: %s", message_of(error))
    note_check(
        series.folder, begin_s, blocks, time.time() - begin_s, goal_percent=goal, said=text, opened_s=series.opened_s,
        certain=answer is not None and answer.certain, sentence=answer.sentence if answer is not None else None,
    )  # fmt: skip
    stop = decide(answer, failing_sides(series, question), budget_exhaustion(series, question, blocks))
    progress.tell("message", text=f"after {blocks} blocks: {text}")
    # At the end of the plan there is nothing to stop, and runs lost by accident can still be measured again.
    if stop is not None and (stop.why != "budget" or series.next_run() is not None):
        record.mark_sufficient(series.folder, stop.why, blocks, stop.said)
        progress.tell("message", text=f"enough after {blocks} blocks: {stop.said}")


def decide(answer: InterimAnswer | None, failed: str | None, spent: str | None) -> Stop | None:
    """Return why to stop, if at all. `failed` and `spent` say why more runs cannot help, None where they can."""
    if failed is not None:
        return Stop("failed", failed)
    if answer is not None and answer.certain:
        return Stop("certain", answer.why or answer.sentence)
    return Stop("budget", spent) if spent is not None else None


def whole_blocks(plan: Collection[PlannedRun], done: Collection[str]) -> int:
    """Count the blocks, from the first on, that have nothing left to do."""
    blocks = {run.block for run in plan if run.run_id not in done}
    return min(blocks, default=max((run.block for run in plan), default=0) + 1) - 1


def failing_sides(series: Series, question: Question) -> str | None:
    """Return the failures where no pair has two sides that ever ran: the system under test failed in every run of a
    side."""
    runs = [run for plan_entry in series.plan() if (run := read_run(series.run_folder(plan_entry.run_id))) is not None]
    hopeless: dict[str, str] = {}  # pair -> the side that failed in every run
    for pair in question.pairs:
        for variant in (pair.b, pair.a):
            mine = [run for run in runs if run["variant"]["name"] == variant]
            blames = [(run.get("failure") or {}).get("blame") for run in mine]
            if len(mine) >= FEWEST_BLOCKS and all(blame == "system_under_test" for blame in blames):
                hopeless[pair.name] = f"{variant} failed in {len(mine)} of {len(mine)} runs"
    return "; ".join(dict.fromkeys(hopeless.values())) if len(hopeless) == len(question.pairs) else None


def budget_exhaustion(series: Series, question: Question, blocks: int) -> str | None:
    """Return why no further block fits the budget; None where one does."""
    budget = question.budget
    if blocks >= series.experiment.repetitions:
        return f"the budget of {budget_text(budget)} holds no further block"
    if budget.seconds is not None:
        elapsed_s = total_time_s(series)
        block_s = elapsed_s / blocks
        if elapsed_s + block_s > budget.seconds:
            usage = f"{elapsed_s / 60:.0f} min of the budget of {budget_text(budget)} are used"
            return f"{usage}, and a block takes {block_s / 60:.0f}"
    pricing = holdings.pricing_of(series.experiment)
    if pricing is None:
        return None
    used_usd = holdings.spent_usd(series, time.time())
    block_usd = len(series.experiment.variants) * costs.one_run_usd(series.experiment, pricing)
    if used_usd + block_usd <= pricing.budget_usd():
        return None
    usage = f"{costs.usd(used_usd)} of {costs.usd(pricing.budget_usd())} are used"
    return f"{usage}, and a block may cost {costs.usd(block_usd)}"


def run_interim_analysis(series_dir: Path) -> InterimAnswer:
    """Run the analysis in a process of its own: no Spark stays in memory while the next block is measured."""
    argv = [sys.executable, "-m", "barograph.compare.interim", str(series_dir)]
    with (
        (series_dir / "harness.log").open("ab") as log_file,
        ChildProcess(argv, folder=ROOT, output=log_file) as process,
    ):
        code = process.wait(durations.LONGEST_ANALYSIS_S)
    if code is None:
        limit = f"{durations.LONGEST_ANALYSIS_S:g} s"
        raise InterimAnalysisFailure(f"it took more than {limit}; see {series_dir / 'harness.log'}")
    if code != 0:
        raise InterimAnalysisFailure(f"it ended with {code}; see {series_dir / 'harness.log'}")
    answer = read_json(series_dir / pipeline.INCREMENTAL_FOLDER / "answer.json")
    return InterimAnswer(bool(answer["certain"]), str(answer["why"]), str(answer["sentence"]))
