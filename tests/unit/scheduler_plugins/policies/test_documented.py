"""What there is to choose from is described: on docs/policies.md, or at the top of the policy's own file."""

import functools
import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugins.driver.cluster import PLACING_HERE
from scheduler_plugins.model import STORM_SCHEDULERS, Observation
from scheduler_plugins.policies import POLICIES, PolicyEntry, bind
from scheduler_plugins.policies.topology_aware import STRATEGIES
from tests.support.topologies_by_hand import STAR, machines, topology
from topologies import catalogue

DOCS = Path(__file__).parents[4] / "docs"
PAGE = (DOCS / "policies.md").read_text(encoding="utf-8")
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
    assert [{word.strip().replace("-", "_") for word in each.split(",") if word.strip()} for each in answers] == [
        entry.events
    ]
    for field in fields(entry.parameters):
        if (name, field.name) not in CHOSEN_ELSEWHERE:
            whose = "".join(row[1] for row in ROWS if len(row) == 6 and f"`{field.name}`" in row[2])
            assert f"`{name}`" in whose or (name in STRATEGIES and "the six" in whose), f"{name}.{field.name}"


def head(entry: PolicyEntry) -> str:
    """The docstring of the policy's file."""
    decide = entry.decide.func if isinstance(entry.decide, functools.partial) else entry.decide
    return inspect.getdoc(inspect.getmodule(decide)) or ""


def test_topologies_parameters_and_storms_schedulers_are_on_the_page_too() -> None:
    parameters = {name for topology in catalogue.names() for name in catalogue.read(topology).parameters}
    assert parameters
    for word in (*catalogue.names(), *STORM_SCHEDULERS, *parameters):
        assert f"`{word}`" in PAGE, word


class Watched(Observation):
    """Notes what is looked at."""

    def __getattribute__(self, name: str) -> Any:
        looked_at.add(name)
        return super().__getattribute__(name)


looked_at: set[str] = set()


def acts_by_itself(policy: str) -> bool:
    """Whether it asks, with everything placed and no event, if it may."""
    shape = topology(STAR, tasks=2, executors=2, workers=4)
    slots = bind("even", {})(Observation(0.0, machines(2), (shape,)), {}).placement[shape.topology_id]
    looked_at.clear()
    bind(policy, {})(Watched(0.0, machines(2), (topology(STAR, tasks=2, executors=2, workers=4, placement=slots),)), {})
    return "may_act" in looked_at


def test_pages_name_all_policies_that_act_by_themselves() -> None:
    acting = {name for name in POLICIES.keys() - {"storm", "foreign"} if acts_by_itself(name)}
    named = re.findall(
        r"[Oo]f those that ship ([^.()]*?) do(?:es)?\b", (DOCS / "experiments.md").read_text(encoding="utf-8")
    )
    assert len(named) == 2 and [set(re.findall(r"`(\w+)`", each)) for each in named] == [acting, acting]


def test_the_simulators_page_says_which_of_storms_schedulers_it_has() -> None:
    page = (DOCS / "simulator.md").read_text(encoding="utf-8")
    refused, simulated = re.findall(r"Storm's ([^,;]*?), are refused; Storm's ([^.;]*?) are simulated", page)[0]
    assert set(re.findall(r"`(\w+)`", simulated)) == PLACING_HERE.keys()
    assert set(re.findall(r"`(\w+)`", refused)) == set(STORM_SCHEDULERS) - PLACING_HERE.keys()
