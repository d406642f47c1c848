"""docs/extending.md: what the YAML of its topology is."""

import re
from pathlib import Path

import yaml

from topologies import catalogue, work

PAGE = Path(__file__).parents[3] / "docs" / "extending.md"


def test_the_topology_of_the_page_is_one_that_the_simulator_knows() -> None:
    part = PAGE.read_text().partition("## A topology\n")[2].partition("\n## ")[0]
    (text,) = re.findall(r"```yaml\n(.*?)```", part, re.DOTALL)
    document = yaml.safe_load(text)
    for name, value in document["config"][catalogue.PARAMETERS].items():
        text = text.replace(f'"${{{name}}}"', yaml.safe_dump(value).partition("\n")[0])
    shape = catalogue.topology_of_flux("short", yaml.safe_load(text))
    assert shape.sinks == ("sink",)
    found = work.topology_work(text)
    assert found.component("spout").rate_per_s == 120.0
    mean_ms = found.component("work").ms_per_character * work.mean(found.lengths["work"])
    assert round(1000.0 / mean_ms) == 124, "as its comment says"
