"""The documents are true: what they show can be run, what they name exists. `--help` has every argument."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
from collections import Counter
from dataclasses import asdict, fields
from pathlib import Path

import pytest
import yaml

from analysis.ingest.readers import READERS
from analysis.metrics.definitions import METRICS
from barograph.cli import COMMANDS, parser
from barograph.errors import ExperimentError
from barograph.nights.suite import parse_suite
from barograph.plan.experiment import Experiment, parse
from barograph.settings import ROOT
from inventory import TESTBEDS
from scheduler_plugins.policies import POLICIES
from scheduler_plugins.simulator.work import Costs
from topologies import catalogue

DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")])
CODE = ("dags", "barograph", "analysis", "inventory", "playbooks", "topologies", "scheduler_plugins")
TOPS = (*CODE, "tests", "docs", ".ci")
# Keys of topology configuration that begin like a module.
SETTINGS_OF_STORM = (
    "barograph.files",
    "barograph.parameters",
    "barograph.queue.limit",
    "barograph.traffic",
    "barograph.window.s",
    "barograph.bridge",
    "barograph.topologies",
)


def blocks(document: Path) -> list[tuple[str, str]]:
    return re.findall(r"^ *```([a-z]*)\n(.*?)^ *```", document.read_text(), re.DOTALL | re.MULTILINE)


def commands(document: Path) -> list[str]:
    """Command lines of `barograph`, in blocks and between backticks, that have no dots for more."""
    shown = [line for _, text in blocks(document) for line in text.splitlines()]
    shown += re.findall(r"`([^`\n]+)`", document.read_text())
    found = [re.sub(r"\s+#.*$", "", line).strip() for line in shown]
    found = [re.sub(r"^(\.venv/bin/|python -m )", "", line) for line in found]
    return [line for line in found if line.startswith("barograph ") and not re.search(r"[…<>|\[\]]|\.\.\.", line)]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_the_meaning_of_every_argument_and_its_default(command: str) -> None:
    (table,) = [action for action in parser([command])._actions if isinstance(action, argparse._SubParsersAction)]
    for action in table.choices[command]._actions:
        assert action.help, action.dest
        if action.default not in (None, False, [], argparse.SUPPRESS):
            value = f"{action.default:g}" if isinstance(action.default, float) else action.default
            assert f"default {value}" in action.help, action.dest


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_commands_that_a_document_shows_are_commands(document: Path) -> None:
    for line in commands(document):
        try:
            words = shlex.split(line)[1:]
        except ValueError:
            continue  # a sentence's apostrophe
        if words[0].isupper() or words == ["--help"]:
            continue
        assert words[0] in COMMANDS, line
        complete = len(words) > 1 or words[0] in ("list", "setup", "ui", "reap", "check", "claims", "report")
        try:
            parser([words[0]]).parse_args(words) if complete else None
        except SystemExit as ended:
            if len(words) > 1 and not _only_names(words):
                raise AssertionError(f"{document.name}: {line}") from ended


def _only_names(words: list[str]) -> bool:
    """`barograph sql --tables` is whole; `barograph run EXPERIMENT` in a sentence may leave arguments out."""
    return all(word.startswith("--") is False for word in words[1:])


def test_the_check_of_commands_would_see_a_wrong_option() -> None:
    with pytest.raises(SystemExit):
        parser(["run"]).parse_args(["run", "stela/star", "--no-such-option"])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_yaml_that_a_document_shows_is_yaml_and_whole_files_are_valid(document: Path) -> None:
    for language, text in blocks(document):
        if language != "yaml":
            continue
        data = yaml.safe_load(text)
        if isinstance(data, dict) and "title" in data and "variants" in data:
            assert isinstance(parse("mine/star", data, source=document.name), Experiment)
        elif isinstance(data, dict) and "schedule" in data:
            parse_suite("mine", data, source=document.name)
        elif isinstance(data, dict) and set(data) & {"machines", "events"}:
            _valid_part(data)


def _valid_part(data: dict[str, object]) -> None:
    """Keys of an experiment that are shown alone; numbers of machines may not fit those of star."""
    whole = yaml.safe_load((ROOT / "dags" / "experiments" / "stela" / "star.yaml").read_text())
    with contextlib.suppress(ExperimentError):
        parse("mine/star", {**whole, **data}, source="part")
        return
    with pytest.raises(ExperimentError) as error:
        parse("mine/star", {**whole, **data}, source="part")
    assert "unknown key" not in str(error.value)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_paths_that_a_document_names_exist(document: Path) -> None:
    text = document.read_text()
    named = [path for path in re.findall(r"`([\w./-]+)`", text) if path.partition("/")[0] in TOPS and "/" in path]
    missing = [path for path in named if not (ROOT / path).exists() and not list(ROOT.glob(f"{path}*"))]
    links = [link for link in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", text) if not link.startswith("http")]
    links += re.findall(r'<img src="([^"]+)"', text)
    missing += [link for link in links if not (document.parent / link).exists()]
    new = {"dags/experiments/mine/star.yaml"}  # files that a page has the reader write
    assert [path for path in missing if path not in new and not path.startswith(".barograph")] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_modules_that_a_document_names_exist(document: Path) -> None:
    pattern = rf"`(?:python -m )?((?:{'|'.join(CODE)})(?:\.[a-z_]+)+)"
    for name in re.findall(pattern, document.read_text()):
        if name.startswith(SETTINGS_OF_STORM):
            continue
        path = ROOT.joinpath(*name.split("."))
        there = path.with_suffix(".py").exists() or path.is_dir() or _defined_in(path)
        assert there, f"{document.name} names {name}"


def test_the_readme_names_all_that_there_is() -> None:
    page = (ROOT / "README.md").read_text()
    names = (*catalogue.names(), *POLICIES, *READERS, *(name for name in TESTBEDS if name != "fake"))
    families = sorted({path.parent.name for path in (ROOT / "dags" / "experiments").glob("*/*.yaml")})
    wanted = [f"`{name}`" for name in names] + [f"`{family}/" for family in families]
    wanted += [f"barograph {command} " for command in COMMANDS if command != "setup"] + ["barograph setup"]
    assert [each for each in wanted if each not in page] == []


def test_the_simulators_page_has_every_cost_with_its_default() -> None:
    _, _, table = (ROOT / "docs" / "simulator.md").read_text().partition("| cost | default | unit |")
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", table.partition("\n\n")[0], re.MULTILINE)
    assert {name: float(default) for name, default in rows} == asdict(Costs()) and len(rows) == len(fields(Costs))


def test_the_page_of_metrics_has_every_metric() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    sides = {name: re.sub("_(before|after)$", "_…", name) for name in METRICS}
    assert [name for name, both in sides.items() if f"`{name}`" not in page and f"`{both}`" not in page] == []


def test_the_glossary_has_no_word_twice() -> None:
    rows = [line.split("|")[1] for line in (ROOT / "docs" / "glossary.md").read_text().splitlines() if "|" in line]
    words = Counter(word.strip() for row in rows for word in row.split(","))
    assert len(words) > 100 and [word for word, times in words.items() if times > 1] == []


def _defined_in(path: Path) -> bool:
    """A function or constant of the module above."""
    module = path.parent.with_suffix(".py")
    return module.exists() and re.search(rf"^(def |class )?{path.name}\b", module.read_text(), re.MULTILINE) is not None
