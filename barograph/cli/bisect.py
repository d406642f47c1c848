"""`barograph bisect GOOD BAD`: find the commit that made a number worse, by comparing commits with GOOD."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from analysis.compare.question import Budget
from analysis.compare.result import RESULT
from analysis.errors import RecordError
from analysis.nights.night_series import OF_TOPOLOGY
from analysis.record.files import read_json
from barograph.cli.arguments import add_testbed, testbed_options
from barograph.cli.compare import open_comparison_on_terminal
from barograph.cli.execution import Ending, carry_out
from barograph.cli.terminal import line_printer, plain_table, stdout_console
from barograph.code import BuildFailed, Unfit
from barograph.compare.comparison import FEWEST_BLOCKS, Comparison, Demand
from barograph.compare.difference import (
    NO_VERDICT,
    NOT_CALLED,
    VariantMetric,
    difference_of,
    require_direction,
    required_half_width,
)
from barograph.compare.request import ComparisonRequest, plan_comparison
from barograph.errors import INTERRUPTED_EXIT, ExperimentError, RunsFailed, Say
from barograph.nights import bisection
from barograph.nights.bisection import (
    LEAST_ERROR,
    Bisection,
    BisectionRequest,
    Certainty,
    FirstBad,
    NotWorse,
    PendingProbe,
    Probe,
    Query,
)
from barograph.nights.commits import POLICY_FOLDER, Commit, commit_of, commits_between
from barograph.plan.experiment import Experiment, load, with_changes
from barograph.plan.simulation import is_simulated
from barograph.series.interruption import limited
from barograph.series.results import analyse_again, results
from barograph.series.series import Series, read_series
from barograph.settings import ROOT, results_root
from barograph.testbeds.checks import testbed_of

Compare = Callable[[Bisection, Commit, Console], Bisection]
OF_MODEL = Certainty(error_rate=LEAST_ERROR)  # the same commit gives the same numbers whenever it is simulated


def add_bisect_arguments(bisect: argparse.ArgumentParser) -> None:
    add = bisect.add_argument
    add("good", metavar="GOOD", help="a commit, branch or tag where the number was good")
    add("bad", metavar="BAD", help="a later one where it is worse")
    add("--experiment", required=True, metavar="FAMILY/NAME", help="whose runs are compared")
    add("--variant", required=True, metavar="NAME",
        help="a variant of the experiment; of several topologies `VARIANT:TOPOLOGY`")  # fmt: skip
    add("--metric", required=True, metavar="NAME", help="such as throughput_after")
    add("--event", default="e1", metavar="ID", help="the event that the metric is of (default e1, the first)")
    add("--all", action="store_true", help="also try commits that do not change scheduler_plugins/")
    add("--blocks", type=int, default=12, metavar="N", help="at most so many in each comparison (default 12)")
    add("--goal", type=float, default=5.0, metavar="X",
        help="how narrow the first comparison's interval must be: ± percent, or the metric's unit"
        " (default 5)")  # fmt: skip
    add_testbed(bisect)
    add("--new", action="store_true", help="search again even where this search was begun before")


def execute_bisect(options: argparse.Namespace) -> int:
    request = BisectionRequest(
        options.experiment, VariantMetric(options.variant, options.metric, options.event), options.good, options.bad,
        all_commits=options.all, blocks=options.blocks, goal=options.goal, testbed=options.testbed,
        options=testbed_options(options.option),
    )  # fmt: skip
    return bisect(request, stdout_console(), new=options.new)


class SearchInterruption(Exception):
    """An interrupted comparison; its measurements stay."""


def bisect(
    request: BisectionRequest,
    console: Console,
    compare: Compare | None = None,
    *,
    new: bool = False,
    repository: Path = ROOT,
) -> int:
    """Search, and return the exit code: 0 whatever the answer is, 130 for an interruption, which the same command
    resumes. `request` is as on the command line, GOOD and BAD any refs. `compare` (default: on real machines) returns
    the search with one more result."""
    say = line_printer(console)
    search = open_search(check_request(request, repository), say, new=new, repository=repository)
    page = save_search(search)
    while not isinstance(step := search.next(), FirstBad | NotWorse):
        commit = search.commits[step.commit] if isinstance(step, Query) else commit_of(search.request.bad, repository)
        say(f"bisect {search.id}: {bisection.sentence(search)}; comparing {commit.short} with GOOD")
        try:
            search = (compare or compare_commit)(search, commit, console)
        except SearchInterruption:
            say("to go on: the same command")
            return INTERRUPTED_EXIT
        page = save_search(search)
    show_search(search, console)
    say(bisection.sentence(search))
    say(f"bisect: {page}")
    return 0


def open_search(request: BisectionRequest, say: Say, *, new: bool, repository: Path) -> Bisection:
    """Return the newest search of exactly this request, or (or if `new`) a fresh one. Raises ExperimentError."""
    predecessor = None if new else bisection.newest_bisection(request)
    if predecessor is not None:
        is_over = isinstance(predecessor.next(), FirstBad | NotWorse)
        say(f"bisect {predecessor.id}: {'was over (--new searches again)' if is_over else 'goes on'}")
        return predecessor
    good, bad = commit_of(request.good, repository), commit_of(request.bad, repository)
    commits = commits_between(good, bad, all_commits=request.all_commits, root=repository)
    if not commits:
        raise ExperimentError(
            f"no commit between GOOD {good.short} and BAD {bad.short} changes {POLICY_FOLDER}/, which is all that a"
            f" commit"
            " brings to a comparison; the difference is elsewhere (--all asks about every commit all the same)"
        )
    search = bisection.new_bisection(request, commits, time.time())
    say(f"bisect {search.id}: {len(commits)} commits from {commits[0].short} to {commits[-1].short}")
    return search


def check_request(request: BisectionRequest, repository: Path) -> BisectionRequest:
    """Return the request with commits for refs, since a branch that moves is another request. Raises
    ExperimentError."""
    require_direction(request.about.metric)
    experiment = _experiment(request)
    testbed_of(experiment.testbed)
    variants = [variant.name for variant in experiment.variants]
    events = [f"e{place}" for place in range(1, len(experiment.events) + 1)]
    for option, value, choices in (
        ("--variant", request.about.variant.partition(OF_TOPOLOGY)[0], variants),
        ("--event", request.about.event, events),
    ):
        if value not in choices:
            raise ExperimentError(f"{option} is {value!r}; {experiment.name} has {', '.join(choices)}")
    if request.blocks < FEWEST_BLOCKS:
        raise ExperimentError(f"--blocks is {request.blocks}; a comparison needs at least {FEWEST_BLOCKS} blocks")
    if not request.goal > 0:
        raise ExperimentError(f"--goal is {request.goal:g}; allowed: above 0, such as 5")
    good, bad = (commit_of(ref, repository).hash for ref in (request.good, request.bad))
    certainty = OF_MODEL if is_simulated(experiment) else request.certainty
    return replace(request, good=good, bad=bad, certainty=certainty)


def _experiment(request: BisectionRequest) -> Experiment:
    return with_changes(load(request.experiment), {"testbed": request.testbed, "options": request.options})


def compare_commit(search: Bisection, commit: Commit, console: Console) -> Bisection:
    """Compare this commit with GOOD and return the search with the result. Raises what prevents the comparison."""
    of_bad = search.reference is None
    try:
        series = _comparison_series(search, commit, console)
        search = replace(search, pending=PendingProbe(commit.hash, _series_name(series)))
        bisection.write_bisection(search)
        failure = _carry_out_comparison(series, console)  # even with failed runs it may suffice
        try:
            difference = difference_of(read_json(series.folder / RESULT), search.request.about)
        except (RecordError, ExperimentError) as error:
            raise failure or error from error
        if failure is not None and difference.half_width is None and difference.verdict in (NOT_CALLED, NO_VERDICT):
            raise failure
    except (BuildFailed, Unfit) as error:
        if of_bad:
            raise
        return search.with_probe(Probe(commit.hash, "skip", None, str(error)))
    except RunsFailed as error:
        if of_bad or error.blame != "system_under_test":
            raise
        return search.with_probe(Probe(commit.hash, "skip", None, str(error), _series_name(series)))
    if of_bad:
        return search.with_reference(difference, _series_name(series))
    return search.with_difference(commit.hash, difference, _series_name(series))


def _comparison_series(search: Bisection, commit: Commit, console: Console) -> Series:
    """Return the series of the unfinished comparison, or a new one: a second probe of a commit is a new measurement."""
    comparison = _comparison(search, commit)
    probe = search.pending
    if probe is None or probe.commit != commit.hash:
        return open_comparison_on_terminal(comparison, console, new=True)
    series = read_series(results_root() / probe.series)
    return open_comparison_on_terminal(comparison, console, new=False) if series.missing_runs() else series


def _comparison(search: Bisection, commit: Commit) -> Comparison:
    request, about = search.request, search.request.about
    half = request.goal if search.reference is None else required_half_width(search.reference) or request.goal
    simulated = is_simulated(_experiment(request))  # more seeds would not make it more certain
    return plan_comparison(
        ComparisonRequest(
            a=request.good[:10], b=commit.short, experiment=request.experiment,
            variants=(about.variant.partition(OF_TOPOLOGY)[0],), blocks=request.blocks if simulated else None,
            testbed=request.testbed, options=request.options,
            demand=Demand(not simulated, half, Budget(blocks=request.blocks)),
            bisecting={"search": search.id, "variant": about.variant, "metric": about.metric, "event": about.event,
                       "half_width": half},
        )
    )  # fmt: skip


def _carry_out_comparison(series: Series, console: Console) -> RunsFailed | None:
    """Return the failure of the system under test, which is a result. Raises every other failure, and
    SearchInterruption."""
    if not series.missing_runs():
        if not (series.folder / RESULT).is_file():  # interrupted during its analysis
            say = line_printer(console)
            say(f"{_series_name(series)}: measured; its analysis is made up for")
            with limited("analyse"):
                analyse_again(series.folder, say)
        return None
    try:
        code = carry_out(series, console, Ending(lambda _folder, _console: None, "the same command"))
    except RunsFailed as error:
        if error.blame != "system_under_test":
            raise
        return error
    if code == INTERRUPTED_EXIT:
        raise SearchInterruption
    return None


def save_search(search: Bisection) -> Path:
    """Save the search and its page, also in a bucket; return the page."""
    from analysis.report.bisect_page import write as write_page

    state = bisection.write_bisection(search)
    page = write_page(state.parent / "index.html", bisection.page_data(search))
    for file in (state, page):
        results().keep(file)
    return page


def show_search(search: Bisection, console: Console) -> None:
    table = plain_table("commit", "subject", "against GOOD", "verdict", "probability")
    for commit in bisection.page_data(search)["commits"]:
        differences = "; ".join(probe["words"] or probe["reason"] for probe in commit["probes"])
        verdicts = ", ".join(probe["verdict"] for probe in commit["probes"])
        chance = "–" if search.reference is None else f"{commit['probability']:.0%}"
        table.add_row(commit["short"], commit["subject"], differences, verdicts, chance)
    console.print(table)


def _series_name(series: Series) -> str:
    return series.folder.relative_to(results_root()).as_posix()
