"""docs/policies.md says what there is to choose from."""

from dataclasses import fields
from pathlib import Path

from scheduler_plugins.model import STORM_SCHEDULERS
from scheduler_plugins.policies import POLICIES
from scheduler_plugins.policies.topology_aware import STRATEGIES
from topologies import catalogue

PAGE = (Path(__file__).parents[3] / "docs" / "policies.md").read_text(encoding="utf-8")
CHOSEN_ELSEWHERE = {("foreign", "scheduler")}  # by the variant's code


def test_every_policy_and_parameter_is_on_its_page() -> None:
    rows = [line.split("|") for line in PAGE.splitlines() if line.startswith("| ")]
    for name, entry in POLICIES.items():
        (answers,) = [row[2] for row in rows if len(row) == 5 and f"`{name}`" in row[1]]
        assert {word.strip().replace("-", "_") for word in answers.split(",")} == entry.events
        for field in fields(entry.parameters):
            if (name, field.name) not in CHOSEN_ELSEWHERE:
                whose = "".join(row[1] for row in rows if len(row) == 6 and f"`{field.name}`" in row[2])
                assert f"`{name}`" in whose or (name in STRATEGIES and "the six" in whose), f"{name}.{field.name}"


def test_topologies_parameters_and_storms_schedulers_are_on_it_too() -> None:
    parameters = {name for topology in catalogue.names() for name in catalogue.read(topology).parameters}
    assert parameters
    for word in (*catalogue.names(), *STORM_SCHEDULERS, *parameters):
        assert f"`{word}`" in PAGE, word
