"""After a block: is the comparison certain, or is its budget spent? Then no further block begins.

Asked after each whole block from the third on. Stopping follows the width of the intervals, never their sign
(docs/decisions/0011): a rule that looked for a difference would find one.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis import so_far
from analysis.record import read_json
from dags import costs, money
from dags.comparison import record, timing
from dags.comparison.budget import FEWEST_BLOCKS, Budget, told
from dags.errors import DagError, message_of
from dags.places import ROOT
from dags.plan import PlannedRun
from dags.progress import ProgressFile
from dags.run_record import read_run
from dags.series import Series
from inventory.testbed import Pricing

log = logging.getLogger(__name__)
LIMIT_S = 900.0  # of one analysis between blocks


class LookFailed(DagError):
    """The analysis between two blocks did not end well; the comparison goes on without it."""


@dataclass(frozen=True)
class Answer:
    """What the comparison says so far."""

    certain: bool
    why: str
    sentence: str


@dataclass(frozen=True)
class Stop:
    """`why`: certain, budget, or failed."""

    why: str
    said: str


def consider(series: Series) -> None:
    """Around each run. Marks the series enough where it is; what goes wrong here never stops the runs."""
    if series.enough() or not record.is_comparison(series.folder):
        return
    document = record.read(series.folder)
    if not document["until_certain"]:
        return
    blocks = whole_blocks(series.plan(), series.complete() | series.tried())
    goal = document["goal_percent"]
    checked = [line["blocks"] for line in timing.checks(series.folder) if line["goal_percent"] == goal]
    if blocks < FEWEST_BLOCKS or blocks <= max(checked, default=0):
        return
    progress = ProgressFile(series.folder)
    progress.tell("phase", phase="between_blocks", expected_s=30)
    stop, said = _considered(series, document, blocks)
    progress.tell("message", text=f"after {blocks} blocks: {said}")
    # With nothing left of the plan there is nothing to end, and what an accident has cost can still be measured again.
    if stop is not None and (stop.why != "budget" or series.next_run() is not None):
        record.mark_enough(series.folder, stop.why, blocks, stop.said)
        progress.tell("message", text=f"enough after {blocks} blocks: {stop.said}")


def _considered(series: Series, document: Mapping[str, Any], blocks: int) -> tuple[Stop | None, str]:
    begin_s = time.time()
    answer, said = _looked(series.folder)
    seconds = time.time() - begin_s
    facts = {"goal_percent": document["goal_percent"], "certain": answer is not None and answer.certain, "said": said}
    facts["sentence"] = answer.sentence if answer is not None else None
    timing.note_check(series.folder, begin_s, blocks, seconds, **facts)
    stop = decide(answer, failed_sides(series, document), spent(series, document, blocks))
    return stop, said


def _looked(series_dir: Path) -> tuple[Answer | None, str]:
    """The answer so far, and what to say of it."""
    try:
        answer = look_beside(series_dir)
    except Exception as error:  # noqa: BLE001 - measuring goes on; the budget ends it
        log.warning("the analysis between two blocks failed: %s", message_of(error))
        return None, f"not analysed: {message_of(error)}"
    return answer, answer.why or answer.sentence


def decide(answer: Answer | None, failed: str | None, spent: str | None) -> Stop | None:
    """The rule itself. `failed` and `spent` say why nothing more can come of it, None where it can."""
    if failed is not None:
        return Stop("failed", failed)
    if answer is not None and answer.certain:
        return Stop("certain", answer.why or answer.sentence)
    return Stop("budget", spent) if spent is not None else None


def whole_blocks(plan: Collection[PlannedRun], done: Collection[str]) -> int:
    """How many blocks, from the first on, have nothing left to do."""
    waiting = {run.block for run in plan if run.run_id not in done}
    return min(waiting, default=max((run.block for run in plan), default=0) + 1) - 1


def failed_sides(series: Series, document: Mapping[str, Any]) -> str | None:
    """Where no pair has two sides that ever ran: the system under test failed in every run of one of them."""
    runs = [run for planned in series.plan() if (run := read_run(series.run_folder(planned.run_id))) is not None]
    hopeless = [name for pair in document["pairs"] if (name := _hopeless(pair, runs)) is not None]
    return "; ".join(dict.fromkeys(hopeless)) if len(hopeless) == len(document["pairs"]) else None


def _hopeless(pair: Mapping[str, str], runs: Collection[Mapping[str, Any]]) -> str | None:
    for variant in (pair["a"], pair["b"]):
        mine = [run for run in runs if run["variant"]["name"] == variant]
        blames = [(run.get("failure") or {}).get("blame") for run in mine]
        if len(mine) >= FEWEST_BLOCKS and all(blame == "system_under_test" for blame in blames):
            return f"{variant} failed in {len(mine)} of {len(mine)} runs"
    return None


def spent(series: Series, document: Mapping[str, Any], blocks: int) -> str | None:
    """Why no further block fits the budget; None where one does."""
    budget = Budget(**document["budget"])
    if blocks >= series.experiment.repetitions:
        return f"the budget of {told(budget)} holds no further block"
    if budget.seconds is not None:
        elapsed_s = timing.used_s(series)
        block_s = elapsed_s / blocks
        if elapsed_s + block_s > budget.seconds:
            used = f"{elapsed_s / 60:.0f} min of the budget of {told(budget)} are used"
            return f"{used}, and a block takes {block_s / 60:.0f}"
    pricing = money.pricing_of(series.experiment)
    return _spent_money(series, pricing) if pricing is not None else None


def _spent_money(series: Series, pricing: Pricing) -> str | None:
    used_usd = money.spent_usd(series, time.time())
    block_usd = len(series.experiment.variants) * costs.one_run_usd(series.experiment, pricing)
    if used_usd + block_usd <= pricing.budget_usd():
        return None
    used = f"{costs.usd(used_usd)} of {costs.usd(pricing.budget_usd())} are used"
    return f"{used}, and a block may cost {costs.usd(block_usd)}"


def look_beside(series_dir: Path) -> Answer:
    """Analysed by a process of its own: no Spark stays in memory while the next block is measured."""
    argv = [sys.executable, "-m", "dags.comparison.look", str(series_dir)]
    with (series_dir / "harness.log").open("ab") as log_file:
        process = subprocess.Popen(
            argv, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log_file, stderr=log_file, start_new_session=True
        )
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise LookFailed(f"it took more than {LIMIT_S:g} s; see {series_dir / 'harness.log'}") from error
        finally:
            _end(process)
    if code != 0:
        raise LookFailed(f"it ended with {code}; see {series_dir / 'harness.log'}")
    found = read_json(series_dir / so_far.FOLDER / "answer.json")
    return Answer(bool(found["certain"]), str(found["why"]), str(found["sentence"]))


def _end(process: subprocess.Popen[bytes]) -> None:
    """With what it has started: Spark's JVM is in its group."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
