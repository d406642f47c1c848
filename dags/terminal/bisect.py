"""`barograph bisect GOOD BAD`: which commit made a number worse, each asked by a comparison with GOOD."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from analysis.comparison.answer import RESULT
from analysis.errors import RecordError
from analysis.record import read_json
from dags.comparison.asked import Asked
from dags.comparison.budget import Budget
from dags.comparison.derive import Comparison, Question
from dags.comparison.opening import planned
from dags.errors import INTERRUPTED_EXIT, ExperimentError, RunsFailed
from dags.experiment import load
from dags.nights import bisection as searches
from dags.nights import words
from dags.nights.bisection import Asking, Bisection, NotWorse, Probe, Wanted
from dags.nights.commits import DECIDING, Commit, between, commit_of
from dags.nights.judging import Difference, difference_of, require_direction, wanted_half_width
from dags.nights.search import Ask, Found
from dags.places import ROOT, results_root
from dags.request import requested
from dags.results import analysed_again, results
from dags.series import Series, read_series
from dags.sources.errors import BuildFailed, Unfit
from dags.terminal.compare import open_on_terminal
from dags.terminal.run import Ending, carry_out
from dags.testbeds import testbed_of

Say = Callable[[str], None]
Compare = Callable[[Bisection, Commit, Console], Bisection]
LEAST_BLOCKS = 3


class Stopped(Exception):
    """Somebody interrupted the comparison that was under way; what it has measured is kept."""


def bisect(
    asked: Wanted, console: Console, compare: Compare | None = None, *, new: bool = False, repository: Path = ROOT
) -> int:
    """The exit code: 0 with whatever answer, 130 for an interruption; the same command goes on with the search.

    `asked` is as on the command line, GOOD and BAD any refs. `compare` (default: on real machines) answers with the
    search that knows more of the commit.
    """

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    search = opened(checked(asked, repository), say, new=new, repository=repository)
    page = kept(search)
    while not isinstance(step := search.next(), Found | NotWorse):
        commit = search.commits[step.commit] if isinstance(step, Ask) else commit_of(search.wanted.bad, repository)
        say(f"bisect {search.id}: {words.sentence(search)}; comparing {commit.short} with GOOD")
        try:
            search = (compare or compared)(search, commit, console)
        except Stopped:
            say("to go on: the same command")
            return INTERRUPTED_EXIT
        page = kept(search)
    show(search, console)
    say(words.sentence(search))
    say(f"bisect: {page}")
    return 0


def opened(wanted: Wanted, say: Say, *, new: bool, repository: Path) -> Bisection:
    """The newest search of exactly this request, or (or if `new`) a fresh one. Raises ExperimentError."""
    earlier = None if new else searches.newest(wanted)
    if earlier is not None:
        over = isinstance(earlier.next(), Found | NotWorse)
        say(f"bisect {earlier.id}: {'was over (--new searches again)' if over else 'goes on'}")
        return earlier
    good, bad = commit_of(wanted.good, repository), commit_of(wanted.bad, repository)
    commits = between(good, bad, everything=wanted.everything, root=repository)
    if not commits:
        raise ExperimentError(
            f"no commit between GOOD {good.short} and BAD {bad.short} changes {DECIDING}/, which is all that a commit"
            " brings to a comparison; the difference is elsewhere (--all asks about every commit all the same)"
        )
    search = searches.new(wanted, commits, time.time())
    say(f"bisect {search.id}: {len(commits)} commits from {commits[0].short} to {commits[-1].short}")
    return search


def checked(asked: Wanted, repository: Path) -> Wanted:
    """With commits for refs, so that a branch that moves on is another request. Raises ExperimentError."""
    require_direction(asked.about.metric)
    _require_there(asked)
    if asked.blocks < LEAST_BLOCKS:
        raise ExperimentError(f"--repetitions is {asked.blocks}; a comparison needs at least {LEAST_BLOCKS} blocks")
    if not asked.goal > 0:
        raise ExperimentError(f"--goal is {asked.goal:g}; allowed: above 0, such as 5")
    good, bad = (commit_of(ref, repository).hash for ref in (asked.good, asked.bad))
    return replace(asked, good=good, bad=bad)


def _require_there(asked: Wanted) -> None:
    """Testbed, variant and event, before a search is begun that could never find them."""
    experiment = requested(load(asked.experiment), {"testbed": asked.testbed, "options": asked.options})
    testbed_of(experiment.testbed)
    variants = [variant.name for variant in experiment.variants]
    events = [f"e{place}" for place in range(1, len(experiment.events) + 1)]
    for option, value, known in (("--variant", asked.about.variant, variants), ("--event", asked.about.event, events)):
        if value not in known:
            raise ExperimentError(f"{option} is {value!r}; {experiment.name} has {', '.join(known)}")


def compared(search: Bisection, commit: Commit, console: Console) -> Bisection:
    """The search with what a comparison of this commit with GOOD says. Raises what keeps it from being made."""
    of_bad = search.reference is None
    try:
        series = _series(search, commit, console)
        search = replace(search, asking=Asking(commit.hash, _below(series)))
        searches.write(search)
        found = _measured(search, series, console)
    except (BuildFailed, Unfit) as error:
        if of_bad:
            raise
        return search.with_probe(Probe(commit.hash, "skip", None, str(error)))
    except RunsFailed as error:
        if of_bad or error.blame != "system_under_test":
            raise
        return search.with_probe(Probe(commit.hash, "skip", None, str(error), _below(series)))
    if of_bad:
        return search.with_reference(found, _below(series))
    return search.with_difference(commit.hash, found, _below(series))


def _series(search: Bisection, commit: Commit, console: Console) -> Series:
    """Of the comparison that was begun, or of a new one: asked again, a commit is measured again."""
    comparison = _comparison(search, commit)
    asking = search.asking
    if asking is None or asking.commit != commit.hash:
        return open_on_terminal(comparison, console, new=True)
    begun = read_series(results_root() / asking.series)
    return open_on_terminal(comparison, console, new=False) if begun.left() else begun


def _comparison(search: Bisection, commit: Commit) -> Comparison:
    wanted, about = search.wanted, search.wanted.about
    half = wanted.goal if search.reference is None else wanted_half_width(search.reference) or wanted.goal
    return planned(
        Asked(
            a=wanted.good[:10], b=commit.short, experiment=wanted.experiment, policies=(about.variant,),
            testbed=wanted.testbed, options=wanted.options,
            question=Question(until_certain=True, goal_percent=half, budget=Budget(blocks=wanted.blocks)),
            bisecting={"search": search.id, "variant": about.variant, "metric": about.metric, "event": about.event,
                       "half_width": half},
        )
    )  # fmt: skip


def _measured(search: Bisection, series: Series, console: Console) -> Difference:
    """Carries the comparison out, unless it was over before. What the commit's failures left may still say enough."""
    failure = _carried_out(series, console)
    try:
        found = difference_of(read_json(series.folder / RESULT), search.wanted.about)
    except (RecordError, ExperimentError) as error:
        raise failure or error from error
    if failure is not None and found.half_width is None:
        raise failure
    return found


def _carried_out(series: Series, console: Console) -> RunsFailed | None:
    """How the system under test failed, which is a result. Raises every other failure, and Stopped."""
    if not series.left():
        if not (series.folder / RESULT).is_file():  # interrupted while it was analysed
            console.print(f"{_below(series)}: measured; its analysis is made up for", markup=False, soft_wrap=True)
            analysed_again(series.folder, lambda text: console.print(text, markup=False, soft_wrap=True))
        return None
    try:
        code = carry_out(series, console, Ending(lambda _folder, _console: None, "the same command"))
    except RunsFailed as error:
        if error.blame != "system_under_test":
            raise
        return error
    if code == INTERRUPTED_EXIT:
        raise Stopped
    return None


def kept(search: Bisection) -> Path:
    """On record, with its page, also in a bucket; the page."""
    from analysis.bisect_page import write as write_page

    state = searches.write(search)
    page = write_page(state.parent / "index.html", words.as_page(search))
    for file in (state, page):
        results().keep(file)
    return page


def show(search: Bisection, console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("commit", "subject", "against GOOD", "verdict", "probability"):
        table.add_column(column, overflow="fold")
    for row in words.evidence(search):
        table.add_row(*row)
    console.print(table)


def _below(series: Series) -> str:
    return series.folder.relative_to(results_root()).as_posix()
