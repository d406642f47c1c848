"""What there is to choose from is described: on docs/policies.md, or at the top of the policy's own file."""

import functools
import inspect
from dataclasses import fields
from pathlib import Path

import pytest

from scheduler_plugins.model import STORM_SCHEDULERS
from scheduler_plugins.policies import POLICIES, Entry
from scheduler_plugins.policies.topology_aware import STRATEGIES
from topologies import catalogue

PAGE = (Path(__file__).parents[4] / "docs" / "policies.md").read_text(encoding="utf-8")
ROWS = [line.split("|") for line in PAGE.splitlines() if line.startswith("| ")]
CHOSEN_ELSEWHERE = {("foreign", "scheduler")}  # by the variant's code


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_and_parameter_is_described(name: str) -> None:
    entry = POLICIES[name]
    answers = [row[2] for row in ROWS if len(row) == 5 and f"`{name}`" in row[1]]
    if not answers:
        missing = [field.name for field in fields(entry.parameters) if f"`{field.name}`" not in head(entry)]
        assert not missing, f"neither docs/policies.md nor the docstring of {name}'s file says what {missing} are"
        assert head(entry).strip(), f"neither docs/policies.md nor the docstring of {name}'s file says what it does"
        return
    assert [{word.strip().replace("-", "_") for word in each.split(",")} for each in answers] == [entry.events]
    for field in fields(entry.parameters):
        if (name, field.name) not in CHOSEN_ELSEWHERE:
            whose = "".join(row[1] for row in ROWS if len(row) == 6 and f"`{field.name}`" in row[2])
            assert f"`{name}`" in whose or (name in STRATEGIES and "the six" in whose), f"{name}.{field.name}"


def head(entry: Entry) -> str:
    """The docstring of the policy's file."""
    decide = entry.decide.func if isinstance(entry.decide, functools.partial) else entry.decide
    return inspect.getdoc(inspect.getmodule(decide)) or ""


def test_topologies_parameters_and_storms_schedulers_are_on_the_page_too() -> None:
    parameters = {name for topology in catalogue.names() for name in catalogue.read(topology).parameters}
    assert parameters
    for word in (*catalogue.names(), *STORM_SCHEDULERS, *parameters):
        assert f"`{word}`" in PAGE, word
