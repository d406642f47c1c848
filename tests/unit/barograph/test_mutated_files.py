"""Files that users write, damaged: each is read, or refused in words and in time."""

import os
import re
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import pytest

from barograph.errors import ExperimentError
from barograph.plan.experiment import load, with_changes
from barograph.yaml_files import read_yaml
from bench.campaign import mutations


def test_a_damaged_file_never_ends_in_a_traceback_and_never_hangs() -> None:
    _judge(300, seed=7)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_nor_does_any_of_ten_thousand() -> None:
    _judge(10_000, seed=8)


def test_the_command_reads_every_file_that_is_not_damaged() -> None:
    """In a process of its own: this one has the fake testbed in any case."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "bench.campaign.mutations", "--number", "8"]
    done = subprocess.run(command, cwd=mutations.ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def _judge(number: int, seed: int) -> None:
    outcomes = list(mutations.campaign(number, seed))
    wrong = [each for each in outcomes if each[2].word in ("traceback", "hung")]
    assert not wrong, wrong[0]
    words = [outcome.word for _, _, outcome in outcomes]
    assert words.count("refused") > number / 2 and words.count("read") > number / 50, "else they were not damaged"


def test_a_file_that_repeats_itself_for_ever_is_refused_at_once(tmp_path: Path) -> None:
    ninefold = (f"k{n}: &k{n} [{', '.join([f'*k{n - 1}' if n else 'x'] * 9)}]\n" for n in range(12))
    for text in ("a: &a [*a]", "".join(ninefold)):
        (tmp_path / "large.yaml").write_text(text)
        with pytest.raises(ExperimentError, match=r"large\.yaml has more than 20000 values"):
            read_yaml(tmp_path / "large.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: {b: 2026-01-31}", "b is datetime.date"),
        ("a: [.nan]", "a is nan; allowed: text, finite numbers"),
        ("a: {3: x}", "a has the key 3; allowed: text; put it in quotes"),
        ("a: 2026-13-45", "month must be in"),
        ("[" * 3000, "too deep"),
        ("a: \udcff", "is not YAML"),
    ],
)
def test_what_no_record_could_keep_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "odd.yaml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ExperimentError, match=rf"odd\.yaml.*{re.escape(said)}"):
        read_yaml(tmp_path / "odd.yaml")


def test_a_long_value_is_shown_in_part() -> None:
    with pytest.raises(ExperimentError) as caught:
        with_changes(load("stela/star"), {"repetitions": "x" * 5000})
    assert len(str(caught.value)) < 500


def test_a_date_among_options_is_refused() -> None:
    with pytest.raises(ExperimentError, match=r"region is datetime\.date"):
        with_changes(load("stela/star"), {"options": {"region": date(2026, 1, 31)}})


def test_a_traceback_and_a_file_that_hangs_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutations, "LIMIT_S", 0.1)

    def fail(_: Path) -> None:
        raise KeyError("inside")

    def hang(_: Path) -> None:
        time.sleep(60)

    words = [mutations.outcome_of(mutations.Kind((), read), b"", tmp_path).word for read in (fail, hang)]
    assert words == ["traceback", "hung"]
