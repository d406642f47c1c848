"""`barograph bisect` over a repository of the test's own; comparisons are made by a ruler that knows the truth."""

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from rich.console import Console

from analysis.compare.evaluation import compare
from analysis.compare.result import RESULT, RUNS_FAILED, SURVIVORS, result_data
from analysis.errors import RecordError
from barograph.campaign import steps
from barograph.cli import bisect as command
from barograph.cli.bisect import SearchInterruption
from barograph.compare.difference import (
    Difference,
    VariantMetric,
    difference_of,
    is_narrow_enough,
    is_worse,
    verdict_of,
)
from barograph.errors import INTERRUPTED_EXIT, ExperimentError, RunsFailed
from barograph.nights import bisection
from barograph.nights.bisection import Bisection, BisectionRequest, FirstBad, NotWorse, Probe, Query
from barograph.nights.commits import Commit, commit_of
from barograph.plan.experiment import load, with_changes
from barograph.series import interruption
from barograph.series.series import Series, open_series
from tests.support.compared_series import Failed, SideOf, write
from tests.support.measured_nights import MakeCommit
from tests.unit.analysis.calibration.test_validation import judged_and_simulated

ABOUT = VariantMetric("stela", "throughput_after", "e1")
CONVERGENCE = VariantMetric("stela", "convergence_sp_s", "e1")
pytestmark = pytest.mark.usefixtures("own_folders")


class Ruler:
    """Compares by the subject: `slow` and later ones are `drop` percent below GOOD, `broken` ones do not build."""

    def __init__(self, drop: float = -10.0, scatter: float = 0.0, *, simulated: bool = False) -> None:
        self.asked: list[str] = []
        self._simulated = simulated
        self._drop, self._rng, self._scatter = drop, Random(1), scatter

    def __call__(self, search: Bisection, commit: Commit, _console: Console) -> Bisection:
        self.asked.append(commit.subject)
        subjects = [each.subject for each in search.commits]
        slow = subjects.index("slow") if "slow" in subjects else len(subjects)
        place = subjects.index(commit.subject) if commit.subject in subjects else len(subjects) - 1
        if commit.subject.startswith("broken") and search.reference is not None:
            return search.with_probe(Probe(commit.hash, "skip", None, "it does not build"))
        value = (self._drop if place >= slow else 0.0) + self._rng.gauss(0, self._scatter)
        found = Difference(value, value - 2, value + 2, "%", 4, "worse" if value < -4 else "no difference",
                           self._simulated)  # fmt: skip
        if search.reference is None:
            return search.with_reference(found, "compare/stela_star/one")
        return search.with_difference(commit.hash, found, "compare/stela_star/two")


def ask(good: str, bad: str = "main", **more: Any) -> BisectionRequest:
    return BisectionRequest("stela/star", ABOUT, good, bad, **more)


def run(root: Path, asked: BisectionRequest, ruler: Ruler, *, new: bool = False) -> tuple[int, str, Bisection]:
    console = Console(file=io.StringIO(), width=200)
    code = command.bisect(asked, console, ruler, new=new, repository=root)
    found = bisection.newest_bisection(command.check_request(asked, root))
    assert found is not None
    return code, console.file.getvalue(), found  # type: ignore[attr-defined] # the StringIO above


def test_the_first_bad_commit_is_found_and_shown(commit: MakeCommit, tmp_path: Path) -> None:
    good = commit("good")
    for subject in ("a", "b", "slow", "c", "d", "e", "f"):
        commit(subject)
    ruler = Ruler()
    code, said, search = run(tmp_path, ask(good), ruler)
    assert code == 0 and ruler.asked[0] == "f", "BAD is compared first"
    found = search.next()
    assert isinstance(found, FirstBad) and search.commits[found.first].subject == "slow" and found.first == found.last
    assert len(ruler.asked) <= 1 + 3 + 1, "seven commits by halves, and one to be sure"
    assert f"first bad commit {search.commits[found.first].short} “slow”" in said and "against GOOD" in said
    page = bisection.bisection_folder(search.id) / "index.html"
    assert "“slow”" in page.read_text() and f"bisect: {page}" in said
    assert "Simulated" not in page.read_text()
    assert json.loads((page.parent / "bisect.json").read_text())["probes"]


def test_a_commit_that_crashes_in_half_of_its_runs_is_called_by_none_of_the_others(tmp_path: Path) -> None:
    """Ahead in the runs that are left: neither good, nor is BAD not worse. The same numbers without failures are."""
    a, b = ((100.0, 102.0, 99.0, 101.0, 100.5, 98.5), (110.0, 112.2, 108.9, 111.1, 110.4, 108.5))
    failed = [Failed(2), Failed(4), Failed(6)]
    found = {}
    for name, of_b in (("crashes", failed), ("runs", [])):
        sides = SideOf({"throughput_after": a}), SideOf({"throughput_after": b}, of_b)
        result = result_data(compare(write(tmp_path / name / "20260101-000000-aa", {"stela": sides})))
        found[name] = difference_of(result, ABOUT)
    reference = Difference(-10.0, -11.0, -9.0, "%", 6, "worse")
    assert verdict_of(found["runs"], reference) == "good" and verdict_of(found["crashes"], reference) == "undecided"
    assert not is_worse(found["runs"], ABOUT.metric) and not is_worse(found["crashes"], ABOUT.metric)
    assert found["runs"].failed == "" and found["crashes"].words.endswith("; 3 of its runs failed, 0 of GOOD's")
    assert_nothing_to_search_by(found["crashes"])
    assert "3 of its runs failed" in bisection.sentence(search_after(found["crashes"]))


def search_after(reference: Difference) -> Bisection:
    return Bisection("x", ask("a"), tuple(Commit(name * 40, name, 0.0) for name in "cd"), reference, "compare/x/y")


def assert_nothing_to_search_by(reference: Difference) -> None:
    sentence = bisection.sentence(search_after(reference))
    assert sentence.startswith(f"{ABOUT.words}: there is no verdict whether BAD is worse than GOOD (no verdict in ")
    assert isinstance(search_after(reference).next(), NotWorse) and "not worse" not in sentence


def test_one_failed_run_of_good_ends_no_search(tmp_path: Path) -> None:
    """BAD is 30 % slower in all of 20 blocks but the one that GOOD failed."""
    levels = [100 + step for step in (0.0, 2.0, -1.0, 1.0, 0.5)] * 4
    sides = (SideOf({"throughput_after": levels}, [Failed(20)]),
             SideOf({"throughput_after": [0.7 * level + i % 2 for i, level in enumerate(levels)]}))  # fmt: skip
    result = result_data(compare(write(tmp_path / "20260101-000000-aa", {"stela": sides})))
    found = difference_of(result, ABOUT)
    assert result["rows"][1]["verdict"] == "no verdict" and is_worse(found, ABOUT.metric)
    assert found.words.startswith("−29.5") and found.words.endswith("in 19 blocks; 0 of its runs failed, 1 of GOOD's")
    assert isinstance(search_after(found).next(), Query) and "there is nothing" not in bisection.sentence(
        search_after(found)
    )
    assert verdict_of(found, Difference(-30.0, -31.0, -29.0, "%", 20, "worse")) == "bad"
    assert verdict_of(found, Difference(-80.0, -81.0, -79.0, "%", 20, "worse")) == "good"


def test_a_failing_good_that_came_first_is_ahead_where_there_are_only_ranks() -> None:
    ranks = ROW | {"metric": "convergence_sp_s", "difference": None, "low": None, "high": None, "unit": "s",
                   "verdict": "no verdict", "why_no_verdict": SURVIVORS}  # fmt: skip
    failures = {"pair": "stela", "metric": RUNS_FAILED, "event": "e0", "a": 1.0, "b": 0.0, "difference": -10.0}
    assert is_worse(difference_of({"rows": [failures, ranks]}, CONVERGENCE), "convergence_sp_s")
    ahead = difference_of({"rows": [failures | {"difference": 10.0}, ranks]}, CONVERGENCE)
    assert verdict_of(ahead, REFERENCE) == "undecided" and not is_worse(ahead, "convergence_sp_s")


@pytest.mark.parametrize("verdict", ["worse", "no difference", "no verdict", "undecided"])
def test_an_order_that_is_called_counts_although_a_run_failed(
    verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = ROW | {"metric": "convergence_sp_s", "difference": None, "low": None, "high": None, "verdict": verdict}
    (tmp_path / RESULT).write_text(json.dumps({"rows": [order]}))
    series = Series(tmp_path, load("stela/star"), 0.0)
    monkeypatch.setattr(command, "_carry_out_comparison", lambda *_: RunsFailed("no slot", "system_under_test"))
    monkeypatch.setattr(command, "_comparison_series", lambda *_: series)
    monkeypatch.setattr(command, "_series_name", lambda _: "one")
    search = replace(search_after(REFERENCE), request=replace(ask("a"), about=CONVERGENCE))
    after = command.compare_commit(search, search.commits[0], Console(file=io.StringIO()))
    called = verdict in ("worse", "no difference")
    assert [probe.verdict == "skip" for probe in after.probes] == [not called]


def test_a_metric_without_a_verdict_is_not_said_to_be_no_worse() -> None:
    row = ROW | {"low": None, "high": None, "verdict": "no verdict", "why_no_verdict": "too many tuples have none"}
    assert_nothing_to_search_by(difference_of({"rows": [row]}, ABOUT))


def test_bad_that_is_not_worse_is_said_and_nothing_is_searched(commit: MakeCommit, tmp_path: Path) -> None:
    good = commit("good")
    commit("a")
    commit("b")
    ruler = Ruler()
    code, said, search = run(tmp_path, ask(good), ruler)
    assert code == 0 and isinstance(search.next(), NotWorse) and ruler.asked == ["b"]
    assert "BAD is not worse than GOOD (0 [−2, +2]\u00a0% in 4 blocks); there is nothing to find" in said


def test_a_search_goes_on_where_it_was_stopped(commit: MakeCommit, tmp_path: Path) -> None:
    good = commit("good")
    for subject in ("a", "b", "slow", "c", "d", "e"):
        commit(subject)
    asked = ask(good)
    ruler, whole = Ruler(), Ruler()

    def interrupted(search: Bisection, commit: Commit, console: Console) -> Bisection:
        if len(ruler.asked) == 2:
            raise SearchInterruption
        return ruler(search, commit, console)

    console = Console(file=io.StringIO(), width=200)
    assert command.bisect(asked, console, interrupted, repository=tmp_path) == INTERRUPTED_EXIT
    begun = bisection.newest_bisection(command.check_request(asked, tmp_path))
    assert begun is not None and len(begun.probes) == 1
    _, said, search = run(tmp_path, asked, ruler)
    assert search.id == begun.id and "goes on" in said
    run(tmp_path, asked, whole, new=True)
    assert ruler.asked == whole.asked
    _, said, _ = run(tmp_path, asked, never := Ruler())
    assert "was over" in said and never.asked == []


def test_a_comparison_that_was_interrupted_in_its_analysis_is_analysed_and_not_measured_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The interruption has asked the series to stop, and nothing that only goes on with it may begin."""
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake", "variants": ["stela"], "repetitions": 1}))
    assert steps.do_run(series.folder) and series.missing_runs() == 0
    interruption.request_stop(series.folder)
    analysed: list[Path] = []
    monkeypatch.setattr(command, "analyse_again", lambda folder, _tell: analysed.append(folder))
    assert command._carry_out_comparison(series, Console(file=io.StringIO())) is None
    assert analysed == [series.folder]
    (series.folder / RESULT).write_text("{}")
    assert command._carry_out_comparison(series, Console(file=io.StringIO())) is None and len(analysed) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"blocks": 2}, "--blocks is 2; a comparison needs at least 3 blocks"),
        ({"goal": 0.0}, "--goal is 0; allowed: above 0"),
        ({"about": VariantMetric("stela", "due_after", "e1")}, "neither better high nor low"),
        ({"about": VariantMetric("x", "throughput_after", "e1")}, "--variant is 'x'; stela/star has even_"
         "rebalance, stela"),
        ({"about": VariantMetric("stela", "throughput_after", "e2")}, "--event is 'e2'; stela/star has e1"),
        ({"testbed": "moon"}, "testbed.name is 'moon'; known: local"),
        ({"good": "nope"}, "'nope' is no commit"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked(commit: MakeCommit, tmp_path: Path, changes: Mapping[str, Any], said: str) -> None:
    good = commit("good")
    commit("a")
    with pytest.raises(ExperimentError, match=said):
        command.bisect(replace(ask(good), **changes), Console(file=io.StringIO()), None, repository=tmp_path)


def test_nothing_between_that_decides(commit: MakeCommit, tmp_path: Path) -> None:
    good = commit("good")
    commit("words", "docs/a.md")
    with pytest.raises(ExperimentError, match=r"changes scheduler_plugins/, .*--all"):
        command.bisect(ask(good), Console(file=io.StringIO()), None, repository=tmp_path)
    asked = ask(good, all_commits=True)
    assert run(tmp_path, asked, Ruler())[0] == 0


# What a comparison says of a commit

REFERENCE = Difference(-10.0, -12.0, -8.0, "%", 5, "worse")


def seen(value: float, half: float) -> Difference:
    return Difference(value, value - half, value + half, "%", 5, "undecided")


def test_verdicts_of_a_difference() -> None:
    """Nearer GOOD or nearer BAD once it is narrow enough; where they can only be ordered the verdict counts."""
    verdicts = [verdict_of(seen(value, 5.0), REFERENCE) for value in (-12, -6, -4, 0, 3)]
    assert verdicts == ["bad", "bad", "good", "good", "good"]
    assert verdict_of(seen(-10, 5.1), REFERENCE) == "undecided"
    ordered = Difference(None, None, None, "s", 5, "worse")
    for own, expected in (("worse", "bad"), ("no difference", "good"), ("undecided", "undecided")):
        assert verdict_of(replace(ordered, verdict=own), REFERENCE) == expected
    assert is_worse(REFERENCE, "throughput_after") and not is_worse(REFERENCE, "downtime_s")
    assert not is_worse(seen(-3, 4), "throughput_after") and is_worse(ordered, "convergence_sp_s")


ROW = {"pair": "stela", "metric": "throughput_after", "event": "e1", "difference": -6.0, "low": -8.0, "high": -4.0,
       "unit": "%", "blocks": 4, "verdict": "worse"}  # fmt: skip


def test_only_the_metric_that_is_looked_at_says_when_to_stop() -> None:
    other = {**ROW, "metric": "downtime_s", "low": -90.0, "high": 90.0}
    asks = {"variant": "stela", "metric": "throughput_after", "event": "e1"}
    assert is_narrow_enough({**asks, "half_width": 2.0}, [other, ROW])[0]
    enough, why = is_narrow_enough({**asks, "half_width": 1.9}, [other, ROW])
    assert not enough and "±2 %, wanted ±1.9" in why
    assert not is_narrow_enough({**asks, "half_width": 2.0}, [{**ROW, "low": None, "high": None}])[0]
    assert not is_narrow_enough({**asks, "half_width": 2.0}, [])[0]
    refused = {**ROW, "verdict": "no verdict", "why_no_verdict": SURVIVORS}
    assert is_narrow_enough({**asks, "half_width": 2.0}, [refused])[0], "it costs no whole budget"


def test_a_row_is_found_by_variant_and_topology_or_the_others_are_listed() -> None:
    with pytest.raises(ExperimentError, match=r"no throughput_after \(e2\) of stela; it has throughput_after \(e1\)"):
        difference_of({"rows": [ROW]}, replace(ABOUT, event="e2"))
    assert difference_of({"rows": [ROW]}, ABOUT).half_width == 2.0
    rows = [ROW | {"topology": name, "low": low} for name, low in (("star", -7.0), ("all", -5.0))]
    assert difference_of({"rows": rows}, replace(ABOUT, variant="stela:all")).low == -5.0
    with pytest.raises(ExperimentError, match="of stela; it has none"):
        difference_of({"rows": rows}, ABOUT)


def test_of_simulated_runs_the_range_over_seeds_decides_and_an_order_that_is_always_the_same() -> None:
    row = ROW | {"verdict": "no verdict", "effect": -1.0, "low": None, "high": None, "lowest": -8.0, "highest": -4.0}
    found = difference_of({"simulated": True, "rows": [row]}, ABOUT)
    assert found.words == "−6\u00a0% (−8 to −4 over 4 seeds)" and is_worse(found, "throughput_after")
    ordered = ROW | {"metric": "convergence_sp_s", "difference": None, "low": None, "high": None, "unit": "s",
                     "verdict": "no verdict"}  # fmt: skip
    verdicts = [
        difference_of({"simulated": simulated, "rows": [ordered | {"effect": effect}]}, CONVERGENCE).verdict
        for simulated, effect in ((True, 1.0), (True, -1.0), (True, 0.0), (True, 0.5), (False, 1.0))
    ]
    assert verdicts == ["worse", "better", "no difference", "undecided", "no verdict"]


@pytest.mark.parametrize(("of_b", "effect", "call"), [(5.0, 1.0, "undecided"), (0.0, 1.0, "good"), (5.0, -1.0, "bad")])
def test_a_simulated_commit_that_is_ahead_and_crashes_is_not_good(of_b: float, effect: float, call: str) -> None:
    row = ROW | {"verdict": "no verdict", "effect": effect, "difference": 10 * effect, "low": None, "high": None}
    row |= {"lowest": 10 * effect - 0.1, "highest": 10 * effect + 0.1}
    crashes = {"pair": "stela", "metric": RUNS_FAILED, "event": "e0", "a": 0.0, "b": of_b, "difference": 10 * of_b}
    difference = difference_of({"simulated": True, "rows": [row, crashes]}, ABOUT)
    assert verdict_of(difference, difference_of({"rows": [ROW | {"difference": -10.0}]}, ABOUT)) == call


def test_a_simulated_search_asks_no_commit_twice_and_says_what_its_ranges_are(
    commit: MakeCommit, tmp_path: Path
) -> None:
    good = commit("good")
    for subject in ("a", "b", "slow", "c", "d", "e"):
        commit(subject)
    judged_and_simulated(tmp_path / "results", "compare/stela_star/one")
    ruler = Ruler(simulated=True)
    _, _, search = run(tmp_path, ask(good, testbed="simulated"), ruler)
    found = search.next()
    assert isinstance(found, FirstBad) and search.commits[found.first].subject == "slow" and found.probability > 0.99
    assert len(ruler.asked) == len(set(ruler.asked)) <= 1 + 3
    page = (bisection.bisection_folder(search.id) / "index.html").read_text()
    assert "with the range over seeds" in page and "95&nbsp;%" not in page
    assert "throughput after 4.0 % (9.0; −1.0)" in page


def test_a_search_is_the_same_after_it_was_written(commit: MakeCommit, tmp_path: Path) -> None:
    good = commit("good")
    commit("broken")
    commit("slow")
    _, _, search = run(tmp_path, ask(good), Ruler())
    for each in (search, replace(search, pending=bisection.PendingProbe("c" * 40, "stela/star/1"))):
        path = bisection.write_bisection(each)
        assert bisection.read_bisection(path) == each == bisection.newest_bisection(each.request)
    assert commit_of("main", tmp_path).hash == search.commits[-1].hash
    assert bisection.page_data(search)["commits"][-1]["guilty"]
    path.write_text('{"v": 1, "id": "x"}')
    with pytest.raises(RecordError, match="is no search"):
        bisection.read_bisection(path)
