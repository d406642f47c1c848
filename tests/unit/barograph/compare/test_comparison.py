"""From an experiment and two sides to the experiment of their comparison, and what its series says of it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from barograph.cli import main
from barograph.compare import record
from barograph.compare.budget import Budget
from barograph.compare.comparison import (
    Comparison,
    Pair,
    Question,
    derive,
    remarks,
    require_answerable,
    require_topology,
)
from barograph.compare.request import comparison_request, reopen_comparison
from barograph.compare.sides import Side
from barograph.errors import ExperimentError
from barograph.plan.blocks import plan_runs
from barograph.plan.experiment import Code, Experiment, load, with_changes
from barograph.series.series import Series, open_series

MAIN, BRANCH = Side(Code("main", "a" * 40)), Side(Code("my-branch", "b" * 40))
THEIRS = Side(
    Code("theirs", "c" * 40, "https://example.org/x.git", ("make",), "x.jar", "org.example.X"),
    {"conf": {"window": 5}, "rebalance": True},
)
Compared = Callable[..., Comparison]


@pytest.fixture
def both() -> Experiment:
    """even_rebalance and stela."""
    return load("stela/star")


def test_every_variant_is_on_both_sides_in_every_block(both: Experiment) -> None:
    found = derive(both, MAIN, BRANCH, 4, Question())
    names = ["even_rebalance_a", "stela_a", "even_rebalance_b", "stela_b"]
    assert [variant.name for variant in found.experiment.variants] == names
    assert found.pairs == (Pair("even_rebalance", names[0], names[2]), Pair("stela", names[1], names[3]))
    blocks = [{run.variant.name for run in plan_runs(found.experiment) if run.block == n} for n in range(1, 5)]
    assert blocks == [set(names)] * 4


def test_only_code_and_names_differ_from_the_experiment(both: Experiment) -> None:
    found = derive(both, MAIN, BRANCH, 3, Question()).experiment
    assert found.name == "compare/stela_star" and found.claims == ()
    untouched = ("topology", "testbed", "machines", "events", "durations", "seed", "lease_minutes")
    assert all(getattr(found, name) == getattr(both, name) for name in untouched)
    assert [v.policy for v in found.variants] == [v.policy for v in both.variants] * 2
    assert [v.parameters for v in found.variants] == [v.parameters for v in both.variants] * 2
    assert {v.code for v in found.variants} == {MAIN.code, BRANCH.code}


def test_a_scheduler_that_is_not_ours_runs_once_a_block_and_is_in_every_pair(both: Experiment) -> None:
    found = derive(both, MAIN, THEIRS, 3, Question())
    assert [variant.name for variant in found.experiment.variants] == ["even_rebalance_a", "stela_a", "foreign_b"]
    theirs = found.experiment.variants[-1]
    assert (theirs.policy, theirs.code, theirs.parameters) == ("foreign", THEIRS.code, THEIRS.parameters)
    assert found.pairs == (
        Pair("even_rebalance", "even_rebalance_a", "foreign_b"), Pair("stela", "stela_a", "foreign_b"),
    )  # fmt: skip
    assert any("theirs stands for every variant of stela/star" in said for said in remarks(found))


def test_two_schedulers_that_are_not_ours_are_one_pair(both: Experiment) -> None:
    other = replace(THEIRS, code=replace(THEIRS.code, label="others", commit="d" * 40))
    assert derive(both, THEIRS, other, 3, Question()).pairs == (Pair("foreign", "foreign_a", "foreign_b"),)


@pytest.mark.parametrize(
    ("blocks", "question", "said"),
    [
        (2, Question(), "blocks is 2; a comparison needs at least 3 blocks"),
        (3, Question(goal_percent=0), "goal is 0; allowed: percent above 0"),
        (1001, Question(), "repetitions is 1001"),
    ],
)
def test_what_is_no_comparison(blocks: int, question: Question, said: str, both: Experiment) -> None:
    with pytest.raises(ExperimentError, match=said):
        derive(both, MAIN, BRANCH, blocks, question)


def test_the_same_commit_twice_is_allowed_and_told(compared: Compared) -> None:
    told = remarks(compared(b=Side(Code("fast", "a" * 40))))
    assert any("same commit aaaaaaaaaa: an A/A comparison" in said for said in told)
    assert not any("A/A" in said for said in remarks(compared()))


GIVEN = {
    "a": "main", "b": "x", "experiment": "stela/star", "variants": None, "blocks": None, "testbed": None,
    "options": None, "until_certain": False, "goal_percent": None, "budget": None,
}  # fmt: skip


def test_what_was_asked() -> None:
    asked = comparison_request(
        {**GIVEN, "variants": ["stela"], "until_certain": True, "budget": "2h", "goal_percent": 2}
    )
    assert asked.variants == ("stela",) and asked.question == Question(True, 2.0, Budget(seconds=7200.0))
    assert comparison_request({**GIVEN, "variants": []}).variants is None


def test_one_of_several_topologies_is_asked_about(both: Experiment) -> None:
    asked = comparison_request({**GIVEN, "topology": "star"}).question
    assert asked.topology == "star" and asked.as_data()["topology"] == "star"
    assert "topology" not in comparison_request(GIVEN).question.as_data(), "files of before stay as they are"
    only = both.topology.name
    for known in (None, only):
        require_topology(both, known)
    with pytest.raises(ExperimentError, match=rf"--topology is 'all'; {both.name} has {only}$"):
        require_topology(both, "all")
    several = load("small/several")
    names = [each.name for each in several.every_topology()]
    for known in (None, names[1], "all"):
        require_topology(several, known)
    with pytest.raises(ExperimentError, match=rf"--topology is 'three'; .* has {', '.join(names)}, all$"):
        require_topology(several, "three")


def test_simulated_runs_are_compared_and_never_until_certain(
    both: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    simulated = with_changes(both, {"testbed": "simulated"})
    require_answerable(both, Question(until_certain=True))
    require_answerable(simulated, Question())
    (said,) = (each for each in remarks(derive(simulated, MAIN, BRANCH, 3, Question())) if "simulator" in each)
    assert "its policies and its policy service decide" in said and "no verdict" in said
    again = derive(simulated, MAIN, MAIN, 3, Question())
    assert any("with one seed the model gives the same of both" in each for each in remarks(again))
    asked = ["compare", "main", "nowhere", "--experiment", "stela/star", "--testbed", "simulated", "--until-certain"]
    assert main(asked) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("configuration: --until-certain is for runs on machines") and "say with --blocks" in line


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"budget": "2h"}, "budget is '2h', which is for --until-certain"),
        ({"until_certain": True, "blocks": 7}, "limit them with --budget '7 blocks'"),
        ({"until_certain": True, "budget": "much"}, "budget is 'much'; allowed: `20 blocks`, `2h`"),
    ],
)
def test_what_contradicts_itself(given: dict[str, object], said: str) -> None:
    with pytest.raises(ExperimentError, match=said):
        comparison_request({**GIVEN, **given})


def test_the_series_says_what_is_compared(compared: Compared, opened: Callable[[Comparison], Series]) -> None:
    series = opened(compared(until_certain=True, goal_percent=2.5))
    document = record.read(series.folder)
    assert document["v"] == 1 and document["source"] == "stela/star"
    assert document["sides"]["b"] == {"label": "my-branch", "commit": "b" * 40, "repository": ""}
    assert document["pairs"] == [{"name": "stela", "a": "stela_a", "b": "stela_b"}]
    assert (document["goal_percent"], document["level"], document["until_certain"]) == (2.5, 0.05, True)
    assert document["budget"]["blocks"] == 3 and document["bisecting"] is None
    assert series.folder.parent.name == "stela_star" and series.folder.parent.parent.name == "compare"


def test_the_same_two_commits_are_the_same_series(compared: Compared, opened: Callable[[Comparison], Series]) -> None:
    first = opened(compared())
    assert opened(compared()).folder == first.folder
    assert opened(compared(b=Side(Code("my-branch", "d" * 40)))).folder != first.folder


def test_a_comparison_that_is_resumed_by_its_commits_keeps_its_branches_names(
    compared: Compared, opened: Callable[[Comparison], Series]
) -> None:
    series = opened(compared())
    hashes = [Side(Code(letter * 12, letter * 40)) for letter in "ab"]
    again = opened(compared(a=hashes[0], b=hashes[1]))
    assert again.folder == series.folder
    assert {side["label"] for side in record.read(again.folder)["sides"].values()} == {"main", "my-branch"}
    opened(compared(b=Side(Code("renamed", "b" * 40))))
    assert record.read(again.folder)["sides"]["b"]["label"] == "renamed"


def test_a_harder_question_goes_on_with_the_series_that_was_enough(
    compared: Compared, opened: Callable[[Comparison], Series]
) -> None:
    easy, hard = compared(until_certain=True, goal_percent=5.0), compared(until_certain=True, goal_percent=1.0)
    series = opened(easy)
    record.mark_sufficient(series.folder, "certain", 3, "narrow enough")
    reopen_comparison(easy, new=False)
    assert series.missing_runs() == 0 and open_series(easy.experiment).folder != series.folder
    series = opened(easy)
    record.mark_sufficient(series.folder, "certain", 3, "narrow enough")
    reopen_comparison(hard, new=True)
    assert series.missing_runs() == 0, "who wants a new series leaves the old one as it is"
    reopen_comparison(hard, new=False)
    assert series.missing_runs() == 6 and opened(hard).folder == series.folder


def test_a_series_that_is_no_comparison(compared: Compared, own_folders: None) -> None:
    folder = open_series(compared().experiment).folder
    assert not record.is_comparison(folder)
    with pytest.raises(ExperimentError, match="is no comparison"):
        record.read(folder)
