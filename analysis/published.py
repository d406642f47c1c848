"""Published figures as data: which experiments belong side by side, and how each panel is drawn."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from analysis.errors import ClaimFileError

PATH = Path(__file__).parent / "claims" / "figures.yaml"
GRAPH = "graph"


@dataclass(frozen=True)
class Panel:
    """`topology` only where the panel draws a graph: its file in topologies/flux, for what was not run."""

    experiment: str
    title: str
    draw: str
    topology: str = ""


@dataclass(frozen=True)
class Published:
    """One figure of a paper. All panels draw graphs, or none does."""

    source: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    share_y: bool = False

    @property
    def is_graphs(self) -> bool:
        return self.panels[0].draw == GRAPH


def load(draws: frozenset[str], path: Path = PATH) -> tuple[Published, ...]:
    """The figures of a file, in its order; `draws` are the kinds of panel there are."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(document, Mapping) or not isinstance(document.get("figures"), list):
        raise ClaimFileError(f"{path}: wants one key `figures` with a list of figures")
    return tuple(_figure(f"{path}: figure {i}", entry, draws) for i, entry in enumerate(document["figures"], 1))


def _figure(where: str, entry: Any, draws: frozenset[str]) -> Published:
    _check_keys(where, entry, Published, {"share_y"})
    if not isinstance(entry["panels"], list) or not entry["panels"]:
        raise ClaimFileError(f"{where}: panels is {entry['panels']!r}; allowed is a list of one or more")
    panels = tuple(_panel(f"{where}: panel {i}", panel, draws) for i, panel in enumerate(entry["panels"], 1))
    if len({panel.draw == GRAPH for panel in panels}) > 1:
        raise ClaimFileError(f"{where}: panels that draw `{GRAPH}` and others; make two figures of them")
    return Published(**{**entry, "panels": panels})


def _panel(where: str, entry: Any, draws: frozenset[str]) -> Panel:
    _check_keys(where, entry, Panel, {"topology"})
    allowed = draws | {GRAPH}
    if entry["draw"] not in allowed:
        raise ClaimFileError(f"{where}: draw is {entry['draw']!r}; allowed are {', '.join(sorted(allowed))}")
    if (entry["draw"] == GRAPH) != bool(entry.get("topology")):
        raise ClaimFileError(f"{where}: `topology` is needed where draw is `{GRAPH}`, and nowhere else")
    return Panel(**entry)


def _check_keys(where: str, entry: Any, kind: type, optional: set[str]) -> None:
    known = {field.name for field in fields(kind)}
    if not isinstance(entry, Mapping):
        raise ClaimFileError(f"{where}: {entry!r} is no mapping; allowed keys are {', '.join(sorted(known))}")
    unknown, missing = set(entry) - known, known - optional - set(entry)
    if unknown or missing:
        raise ClaimFileError(
            f"{where}: unknown {sorted(unknown)}, missing {sorted(missing)}; allowed are {', '.join(sorted(known))}"
        )
