"""From an experiment and two sides to the experiment of their comparison, its budget, and its record."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.compare.question import Budget, ComparedSide, Pair, is_comparison, read_question
from barograph.cli import main
from barograph.compare import record, request
from barograph.compare.comparison import (
    MOST_RUNS,
    Comparison,
    Demand,
    Side,
    budget_text,
    derive,
    limit_cost,
    most_blocks,
    parse_budget,
    read_side,
    remarks,
    require_answerable,
    require_topology,
)
from barograph.compare.request import comparison_request, reopen_comparison
from barograph.errors import ConfigurationError, ExperimentError
from barograph.machines.holdings import pricing_of
from barograph.plan import durations
from barograph.plan.blocks import plan_runs
from barograph.plan.experiment import Code, load, with_changes
from barograph.series.series import Series, open_series
from barograph.testbeds.costs import cost, require_affordable

MAIN, BRANCH = Side(Code("main", "a" * 40)), Side(Code("my-branch", "b" * 40))
THEIRS = Side(
    Code("theirs", "c" * 40, "https://example.org/x.git", ("make",), "x.jar", "org.example.X"),
    {"conf": {"window": 5}, "rebalance": True},
)
Compared = Callable[..., Comparison]
BOTH = load("stela/star")  # even_rebalance and stela
GIVEN = {
    "a": "main", "b": "x", "experiment": "stela/star", "variants": None, "blocks": None, "testbed": None,
    "options": None, "until_certain": False, "goal_percent": None, "budget": None,
}  # fmt: skip


def test_every_variant_is_on_both_sides_in_every_block_and_nothing_else_differs() -> None:
    found = derive(BOTH, MAIN, BRANCH, 4, Demand())
    names = ["even_rebalance_a", "stela_a", "even_rebalance_b", "stela_b"]
    assert [variant.name for variant in found.experiment.variants] == names
    assert found.pairs == (Pair("even_rebalance", names[0], names[2]), Pair("stela", names[1], names[3]))
    blocks = [{run.variant.name for run in plan_runs(found.experiment) if run.block == n} for n in range(1, 5)]
    assert blocks == [set(names)] * 4
    assert found.experiment.name == "compare/stela_star" and found.experiment.claims == ()
    for name in ("topology", "testbed", "machines", "events", "durations", "seed", "lease_minutes"):
        assert getattr(found.experiment, name) == getattr(BOTH, name)
    decisions = [(variant.policy, variant.parameters) for variant in found.experiment.variants]
    assert decisions == [(variant.policy, variant.parameters) for variant in BOTH.variants] * 2
    assert {variant.code for variant in found.experiment.variants} == {MAIN.code, BRANCH.code}


def test_a_scheduler_that_is_not_ours_runs_once_a_block_and_is_in_every_pair() -> None:
    found = derive(BOTH, MAIN, THEIRS, 3, Demand())
    assert [variant.name for variant in found.experiment.variants] == ["even_rebalance_a", "stela_a", "foreign_b"]
    theirs = found.experiment.variants[-1]
    assert (theirs.policy, theirs.code, theirs.parameters) == ("foreign", THEIRS.code, THEIRS.parameters)
    assert found.pairs == (
        Pair("even_rebalance", "even_rebalance_a", "foreign_b"), Pair("stela", "stela_a", "foreign_b"),
    )  # fmt: skip
    assert any("theirs stands for every variant of stela/star" in remark for remark in remarks(found))
    other = replace(THEIRS, code=replace(THEIRS.code, label="others", commit="d" * 40))
    assert derive(BOTH, THEIRS, other, 3, Demand()).pairs == (Pair("foreign", "foreign_a", "foreign_b"),)


@pytest.mark.parametrize(
    ("blocks", "goal", "said"),
    [(2, 5, "at least 3 blocks"), (3, 0, "goal is 0; allowed: percent above 0"), (1001, 5, "repetitions is 1001")],
)
def test_what_is_no_comparison(blocks: int, goal: float, said: str) -> None:
    with pytest.raises(ExperimentError, match=said):
        derive(BOTH, MAIN, BRANCH, blocks, Demand(goal_percent=goal))


def test_requests_and_what_contradicts_itself() -> None:
    asked = comparison_request(
        {**GIVEN, "variants": ["stela"], "until_certain": True, "budget": "2h", "goal_percent": 2}
    )
    assert asked.variants == ("stela",) and asked.demand == Demand(True, 2.0, Budget(seconds=7200.0))
    assert comparison_request({**GIVEN, "variants": []}).variants is None
    for given, said in (
        ({"budget": "2h"}, "budget is '2h', which is for --until-certain"),
        ({"until_certain": True, "blocks": 7}, "limit them with --budget '7 blocks'"),
        ({"until_certain": True, "budget": "much"}, "budget is 'much'; allowed: `20 blocks`, `2h`"),
    ):
        with pytest.raises(ExperimentError, match=said):
            comparison_request({**GIVEN, **given})


def test_one_of_several_topologies_is_asked_about() -> None:
    assert comparison_request({**GIVEN, "topology": "star"}).demand.topology == "star"
    several = load("small/several")
    names = [each.name for each in several.every_topology()]
    for experiment, known in ((BOTH, [None, BOTH.topology.name]), (several, [None, names[1], "all"])):
        for name in known:
            require_topology(experiment, name)
    with pytest.raises(ExperimentError, match=rf"--topology is 'all'; {BOTH.name} has {BOTH.topology.name}$"):
        require_topology(BOTH, "all")
    with pytest.raises(ExperimentError, match=rf"--topology is 'three'; .* has {', '.join(names)}, all$"):
        require_topology(several, "three")


def test_simulated_runs_are_compared_and_never_until_certain(
    capsys: pytest.CaptureFixture[str], compared: Compared
) -> None:
    simulated = with_changes(BOTH, {"testbed": "simulated"})
    require_answerable(BOTH, Demand(until_certain=True))
    require_answerable(simulated, Demand())
    assert any("no verdict" in each for each in remarks(derive(simulated, MAIN, BRANCH, 3, Demand())))
    assert any("with one seed" in each for each in remarks(derive(simulated, MAIN, MAIN, 3, Demand())))
    assert any("an A/A comparison" in each for each in remarks(compared(b=Side(Code("fast", "a" * 40)))))
    assert remarks(compared()) == ()
    asked = ["compare", "main", "nowhere", "--experiment", "stela/star", "--testbed", "simulated", "--until-certain"]
    assert main(asked) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("configuration: --until-certain is for runs on machines")


# The series


def test_the_series_says_what_is_compared(compared: Compared, opened: Callable[[Comparison], Series]) -> None:
    series = opened(compared(until_certain=True, goal_percent=2.5))
    question = read_question(series.folder)
    assert (question.v, question.source) == (1, "stela/star")
    assert question.b == ComparedSide("my-branch", "b" * 40)
    assert question.pairs == (Pair("stela", "stela_a", "stela_b"),)
    assert (question.goal_percent, question.level, question.until_certain) == (2.5, 0.05, True)
    assert question.budget.blocks == 3 and question.bisecting is None
    assert series.folder.parent.name == "stela_star" and series.folder.parent.parent.name == "compare"
    assert opened(compared()).folder == series.folder, "the same two commits"
    assert opened(compared(b=Side(Code("my-branch", "d" * 40)))).folder != series.folder


def test_a_comparison_that_is_resumed_by_its_commits_keeps_its_branches_names(
    compared: Compared, opened: Callable[[Comparison], Series]
) -> None:
    series = opened(compared())
    hashes = [Side(Code(letter * 12, letter * 40)) for letter in "ab"]
    assert opened(compared(a=hashes[0], b=hashes[1])).folder == series.folder
    question = read_question(series.folder)
    assert (question.a.label, question.b.label) == ("main", "my-branch")
    opened(compared(b=Side(Code("renamed", "b" * 40))))
    assert read_question(series.folder).b.label == "renamed"
    opened(compared(b=MAIN))
    itself = read_question(opened(compared(b=MAIN)).folder)
    assert (itself.a.label, itself.b.label, itself.same_code) == ("main (A)", "main (B)", True)


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
    other = open_series(BOTH).folder
    assert not is_comparison(other)
    with pytest.raises(ConfigurationError, match="is no comparison"):
        read_question(other)


# The budget


@pytest.mark.parametrize(
    ("text", "budget", "canonical"),
    [
        ("20 blocks", Budget(blocks=20), "20 blocks"), ("1 block", Budget(blocks=1), "1 block"),
        ("7blocks", Budget(blocks=7), "7 blocks"), ("2h", Budget(seconds=7200.0), "2 h"),
        ("1.5 h", Budget(seconds=5400.0), "90 min"), ("90min", Budget(seconds=5400.0), "90 min"),
        ("$5", Budget(usd=5.0), "$5"), ("$ 0.50", Budget(usd=0.5), "$0.5"),
    ],
)  # fmt: skip
def test_budgets_that_can_be_given(text: str, budget: Budget, canonical: str) -> None:
    assert parse_budget(text) == budget and budget_text(budget) == canonical


@pytest.mark.parametrize(
    "text", ["", "20", "0 blocks", "$0", "-3h", "2 days", "$5 blocks", "5€", "2h 30min", "1e3 h", "2.5 blocks"]
)
def test_others_are_refused_with_what_is_allowed(text: str) -> None:
    allowed = "blocks are whole: give 2 or 3" if text == "2.5 blocks" else r"allowed: `20 blocks`, `2h`, `90min`, or"
    with pytest.raises(ExperimentError, match=rf"budget is .*; {allowed}"):
        parse_budget(text)


def test_a_time_holds_the_blocks_whose_watched_parts_fit_and_airflow_maps_their_tasks() -> None:
    watched_s = BOTH.durations.warm_up_floor_s + BOTH.durations.after_floor_s
    assert most_blocks(BOTH, 4, Budget(seconds=5 * 4 * watched_s + 1), None) == 5
    assert durations.run_s(BOTH) > watched_s, "runs take longer in truth: the clock ends them"
    assert most_blocks(BOTH, 4, Budget(blocks=900), None) == MOST_RUNS // 4


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (Budget(blocks=2), "budget is 2 blocks, which holds 2 blocks of 2 runs; a comparison needs 3: give 3 blocks"),
        (Budget(seconds=1200), "budget is 20 min, which holds 1 block of 2 runs; .* give at least 42 min"),
        (Budget(usd=5), "machines of testbed local cost nothing; give blocks or a"),
    ],
)
def test_a_budget_that_is_too_small(budget: Budget, said: str) -> None:
    with pytest.raises(ExperimentError, match=said):
        most_blocks(BOTH, 2, budget, pricing_of(BOTH))


def test_money_is_the_budget_of_the_testbed() -> None:
    priced = with_changes(BOTH, {"testbed": "fake", "options": {"core_hour_usd": 10.0, "budget_usd": 1.0}})
    asked = limit_cost(priced, Budget(usd=300.0))
    assert asked.testbed.options["fake"] == {"core_hour_usd": 10.0, "budget_usd": 300.0}
    pricing = pricing_of(asked)
    assert pricing is not None and pricing.budget_usd() == 300.0
    few, many = (most_blocks(asked, 2, Budget(usd=usd), pricing) for usd in (300.0, 600.0))
    assert 3 <= few < many
    require_affordable(asked, cost(asked, 2 * few, durations.DEFAULT_OVERHEAD, pricing), pricing)
    with pytest.raises(ExperimentError, match="may cost"):
        require_affordable(asked, cost(asked, 2 * few + 2, durations.DEFAULT_OVERHEAD, pricing), pricing)
    with pytest.raises(ExperimentError, match=r"budget is \$3, which holds 0 blocks of 2 runs; .*give \$"):
        most_blocks(asked, 2, Budget(usd=3.0), pricing)
    assert limit_cost(BOTH, Budget(blocks=3)) == BOTH
    with pytest.raises(ExperimentError, match=r"budget is \$5, but machines of testbed local cost nothing"):
        limit_cost(BOTH, Budget(usd=5.0))


# The sides

FOREIGN = """
label: theirs
repository: https://example.org/theirs.git
ref: v1.2
build: [mvn, -q, package]
jar: target/theirs.jar
scheduler: org.example.Theirs
conf: {theirs.window: 5}
rebalance: true
"""


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "theirs.yaml"
    path.write_text(text)
    return str(path)


def test_a_side_is_a_ref_of_this_repository_or_the_file_of_a_scheduler(tmp_path: Path) -> None:
    assert read_side(" my-branch ") == Side(Code("my-branch", "my-branch"))
    side = read_side(written(tmp_path, FOREIGN))
    url, build = "https://example.org/theirs.git", ("mvn", "-q", "package")
    assert side.foreign and side.parameters == {"conf": {"theirs.window": 5}, "rebalance": True}
    assert side.code == Code("theirs", "v1.2", url, build, "target/theirs.jar", "org.example.Theirs")
    (tmp_path / "theirs").mkdir()
    for place in ("theirs", "./theirs", f"../{tmp_path.name}/theirs"):
        found = read_side(written(tmp_path, FOREIGN.replace(url, place)))
        assert found.code.repository == str(tmp_path / "theirs"), "beside the file, from everywhere"
    jar = read_side(written(tmp_path, "label: theirs\njar: x.jar\nscheduler: org.example.X\n"))
    assert jar.code.is_jar_file and jar.code.repository == str(tmp_path / "x.jar")
    files = "label: theirs\njar: x.jar\nscheduler: org.example.X\nfiles: [data/x.csv, /y.csv]\n"
    assert read_side(written(tmp_path, files)).code.files == (str(tmp_path / "data" / "x.csv"), "/y.csv")
    in_git = read_side(written(tmp_path, f"{FOREIGN}files: [data/x.csv]\n")).code
    assert in_git.files == ("data/x.csv",) and not in_git.is_jar_file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "branch: x",
            "unknown key branch; known here: label, repository, ref, build, jar, scheduler, files, conf, rebalance",
        ),
        ("label: theirs", "jar is missing"),
        (FOREIGN.replace("org.example.Theirs", "org/example"), "scheduler is 'org/example'; allowed: string should "),
        (FOREIGN.replace("[mvn, -q, package]", "mvn package"), "build is 'mvn package'; allowed: input should be a"),
        (FOREIGN.replace("rebalance: true", "rebalance: maybe"), "rebalance is 'maybe'"),
        (FOREIGN.replace("ref: v1.2\n", ""), "repository and ref belong together"),
    ],
)
def test_a_wrong_file_names_field_value_and_what_is_allowed(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ExperimentError) as caught:
        read_side(written(tmp_path, text))
    assert said in str(caught.value) and "theirs.yaml" in str(caught.value)


@pytest.mark.parametrize(("side", "said"), [("nowhere.yaml", "nowhere.yaml: no such file"), (" ", "is empty")])
def test_what_is_no_side(side: str, said: str) -> None:
    with pytest.raises(ExperimentError, match=said):
        read_side(side)


def test_a_form_chooses_among_the_files_that_are_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a file has commands run, and who may trigger a DAG must not bring one along."""
    registered = tmp_path / "schedulers"
    registered.mkdir()
    monkeypatch.setattr(request, "SCHEDULERS", registered)
    elsewhere = written(tmp_path, FOREIGN)
    (registered / "theirs.yaml").write_text(FOREIGN)
    (registered / "linked.yaml").symlink_to(elsewhere)
    sides = request.with_registered_sides({"a": "main", "b": "theirs.yaml", "blocks": 3})
    assert sides == {"a": "main", "b": str(registered / "theirs.yaml"), "blocks": 3}
    outside = ("../theirs.yaml", "schedulers/../../theirs.yaml", "linked.yaml", "other.yml", f" {elsewhere} ")
    for side in (elsewhere, *outside):
        with pytest.raises(ExperimentError, match=r"^b is .*; allowed in a form: a branch, .* theirs\.yaml"):
            request.with_registered_sides({"a": "main", "b": side})
