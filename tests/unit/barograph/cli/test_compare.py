"""`barograph compare`: what is refused before anything is started, and what is said at the end."""

import io
import json
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from barograph import cli
from barograph.cli import arguments as cli_arguments
from barograph.cli.compare import resume_command, show_comparison
from barograph.compare.request import ComparisonRequest, comparison_request, plan_comparison
from barograph.plan.blocks import digest
from barograph.settings import ROOT

HEAD = "HEAD"


pytestmark = pytest.mark.usefixtures("own_folders")


STAR = ("--experiment", "stela/star", "--testbed", "fake")
BAD: list[tuple[list[str], str]] = [
    ([HEAD, HEAD, "--experiment", "stela/sun"], "no experiment 'stela/sun' in experiments/; there are:"),
    (["HEAD", "no-such-branch", *STAR], "has no commit 'no-such-branch'"),
    ([HEAD, HEAD, *STAR, "--variants", "stella"], "variants is stella; stela/star has the variants"),
    ([HEAD, HEAD, *STAR, "--blocks", "2"], "blocks is 2; a comparison needs at least 3 blocks"),
    ([HEAD, HEAD, *STAR, "--budget", "2h"], "which is for --until-certain"),
    ([HEAD, HEAD, *STAR, "--until-certain", "--budget", "2 days"], "budget is '2 days'; allowed: `20 blocks`"),
    ([HEAD, HEAD, *STAR, "--until-certain", "--budget", "2 blocks"], "holds 2 blocks of 4 runs; a comparison needs 3"),
    ([HEAD, HEAD, *STAR, "--goal", "0"], "goal is 0; allowed: percent above 0"),
    ([HEAD, HEAD, *STAR, "--goal", "nan"], "goal is nan; allowed: percent above 0"),
    ([HEAD, "nowhere.yaml", *STAR], "nowhere.yaml: no such file"),
    ([HEAD, HEAD, "--experiment", "stela/star", "--testbed", "cloud"], "testbed.name is 'cloud'; known: local"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD)
def test_bad_input_is_one_line_and_starts_nothing(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main(["compare", *arguments]) == 2
    screen = capsys.readouterr()
    assert screen.err.startswith("configuration: ") and said in screen.err and screen.err.count("\n") == 1
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("arguments", [["main"], ["main", "x"], ["main", "x", "--experiment"]])
def test_a_question_that_is_not_whole_is_a_usage_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["compare", *arguments])
    assert caught.value.code == 2 and "usage: barograph compare" in capsys.readouterr().err


ROW = {
    "pair": "stela", "metric": "throughput_after", "words": "throughput after", "event": "e1", "primary": True,
    "unit": "%", "a": 200.0, "b": 224.0, "difference": 12.0, "low": 9.5, "high": 14.5, "floor": 3.0, "p_holm": 0.00042,
    "blocks": 6, "verdict": "better",
}  # fmt: skip
MISSING = {**ROW, "words": "convergence", "difference": None, "low": None, "high": None, "floor": None, "p_holm": None}
NUMBERS = "throughput after (tuples/s) 200 224 +12.0 % [9.5, 14.5] ±3.0 < 0.001 better"


def shown(folder: Path, width: int = 160) -> str:
    file = io.StringIO()
    show_comparison(folder, Console(width=width, file=file))
    return file.getvalue()


def test_the_end_is_a_table_a_sentence_and_a_page(tmp_path: Path) -> None:
    result = {
        "sentence": "my-branch is better than main.",
        "rows": [ROW, MISSING, {**ROW, "primary": False, "words": "x"}],
    }
    (tmp_path / "comparison_result.json").write_text(json.dumps(result))
    enough = {"v": 1, "t": 0, "why": "certain", "blocks": 6, "said": "every interval is within ±5 %"}
    (tmp_path / "sufficient.json").write_text(json.dumps(enough))
    lines = shown(tmp_path).splitlines()
    assert lines[1].split() == NUMBERS.split()
    assert "–" in lines[2] and not any(" x " in line for line in lines)
    assert lines[3] == "my-branch is better than main."
    assert lines[4] == "stopped after 6 blocks (certain): every interval is within ±5 %"
    assert lines[5] == f"comparison: {tmp_path}/comparison.html"


def test_no_word_or_number_is_cut_in_80_characters(tmp_path: Path) -> None:
    wide = {**ROW, "a": 713.0, "b": 470.0, "difference": -34.1, "low": -36.9, "high": -31.2, "verdict": "no difference"}
    later = {**wide, "pair": "even", "event": "e2", "words": "95 % latency after", "a": 80211.0}
    for rows, at_least in (([wide, MISSING], {"±3.0", "0.001", "713"}), ([wide, later], {"e1", "even", "470"})):
        (tmp_path / "comparison_result.json").write_text(json.dumps({"sentence": "s", "rows": rows}))
        words = set(shown(tmp_path, width=80).replace("\N{NO-BREAK SPACE}", " ").split())
        assert {"[−36.9,", "−31.2]", "no", "difference", "throughput", "verdict"} | at_least <= words


def test_it_is_resumed_by_a_command_that_asks_the_very_same() -> None:
    """By commits: a branch may have moved when somebody comes back."""
    options = ["--variants", "stela", "--option", "core_hour_usd=0.5", "--until-certain", "--goal", "2.5"]
    argv = ["git", "rev-parse", "HEAD"]
    head = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    asked = asked_by(["compare", head[:12], head, *STAR, *options, "--budget", "90min"])
    words = resume_command(asked, plan_comparison(asked))
    assert words[:4] == ["barograph", "compare", head, head]
    resumed = asked_by(words[1:])
    assert digest(plan_comparison(resumed).experiment) == digest(plan_comparison(asked).experiment)
    assert (resumed.demand, resumed.variants, resumed.options) == (asked.demand, asked.variants, asked.options)


def asked_by(arguments: list[str]) -> ComparisonRequest:
    given = cli.parser().parse_args(arguments)
    return comparison_request({**vars(given), "options": cli_arguments.testbed_options(given.option)})


def test_without_an_answer_it_says_why(tmp_path: Path) -> None:
    assert shown(tmp_path).startswith("no comparison: ")
