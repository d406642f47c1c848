"""The papers' figures and tables, as data (`*_figures.yaml`): which experiments and sweeps make each of them.

Errors: ConfigurationError, with file, place, field, value and what is allowed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from analysis.claims.statements import FAMILIES, FOLDER, FORM, document_in, load_claims, read_entry
from barograph.errors import ConfigurationError

PUBLICATIONS = {family: FOLDER / f"{family}_figures.yaml" for family in FAMILIES}
GRAPH_PANEL = "graph"


@dataclass(frozen=True)
class PublishedPanel:
    """A panel. `topology` only if it draws a graph: its file in topologies/flux, for experiments without runs.
    `simulated`: `experiment` is a sweep, and the panel stands on the page of simulated series only."""

    __pydantic_config__ = FORM
    experiment: str
    title: str
    draw: str
    topology: str = ""
    simulated: bool = False


@dataclass(frozen=True)
class PublishedFigure:
    """A figure of a paper. All panels draw graphs, or none does; all are of sweeps, or none is."""

    __pydantic_config__ = FORM
    source: str
    title: str
    caption: str
    panels: Annotated[tuple[PublishedPanel, ...], Field(min_length=1)]
    share_y: bool = False

    @property
    def is_graphs(self) -> bool:
        return self.panels[0].draw == GRAPH_PANEL

    @property
    def is_simulated(self) -> bool:
        return self.panels[0].simulated


@dataclass(frozen=True)
class PublishedTable:
    """A table of a paper. `rows`: of each its name and a claim's name for each column; empty: the paper has none
    there."""

    __pydantic_config__ = FORM
    source: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: Annotated[tuple[tuple[str, tuple[str, ...]], ...], BeforeValidator(lambda rows: tuple(dict(rows).items()))]
    simulated: bool = False


def families_of(experiments: Collection[str]) -> tuple[str, ...]:
    """Return the families with claims or figures about one of these experiments or sweeps; all families if there is
    none."""
    families = tuple(family for family in FAMILIES if not _subjects(family).isdisjoint(experiments))
    return families or tuple(FAMILIES)


def _subjects(family: str) -> set[str]:
    document = document_in(PUBLICATIONS[family])
    experiments = {panel["experiment"] for figure in document["figures"] for panel in figure["panels"]}
    return experiments | {claim.experiment for claim in load_claims(family)}


def load_figures(
    draws: Collection[str], path: Path | None = None, families: Collection[str] | None = None
) -> tuple[PublishedFigure, ...]:
    """Return the figures of a file, in its order; without a file those of all families, or of some. `draws`: the kinds
    of panel there are."""
    paths = [path] if path else [PUBLICATIONS[family] for family in families or FAMILIES]
    return tuple(figure for each in paths for figure in _figures_in(each, frozenset(draws)))


def _figures_in(path: Path, draws: frozenset[str]) -> tuple[PublishedFigure, ...]:
    document = document_in(path)
    if not isinstance(document, Mapping) or not isinstance(document.get("figures"), list):
        raise ConfigurationError(f"{path}: wants one key `figures` with a list of figures")
    return tuple(_figure_from(f"{path}: figure {i}", entry, draws) for i, entry in enumerate(document["figures"], 1))


def load_tables(families: Collection[str], path: Path | None = None) -> tuple[PublishedTable, ...]:
    """Return the published tables of these families; their cells are names of claims."""
    paths = [path] if path else [PUBLICATIONS[family] for family in families]
    names = {claim.name for claim in load_claims()}
    return tuple(
        _table_from(f"{each}: table {i}", entry, names)
        for each in paths
        for i, entry in enumerate(document_in(each).get("tables", ()), 1)
    )


def _table_from(where: str, entry: Any, names: Collection[str]) -> PublishedTable:
    table = read_entry(PublishedTable, entry, where)
    for name, cells in table.rows:
        unknown_names = [cell for cell in cells if cell and cell not in names]
        if unknown_names or len(cells) != len(table.columns):
            fault = (
                f"names {', '.join(unknown_names)}, which is no claim" if unknown_names else f"has {len(cells)} cells"
            )
            raise ConfigurationError(f"{where}: row {name} {fault}; allowed are names of claims, one for each column")
    return table


def _figure_from(where: str, entry: Any, draws: frozenset[str]) -> PublishedFigure:
    figure = read_entry(PublishedFigure, entry, where)
    if len({panel.draw == GRAPH_PANEL for panel in figure.panels}) > 1:
        raise ConfigurationError(f"{where}: panels that draw `{GRAPH_PANEL}` and others; make two figures of them")
    if len({panel.simulated for panel in figure.panels}) > 1:
        raise ConfigurationError(f"{where}: panels of sweeps and others; make two figures of them")
    for place, panel in enumerate(figure.panels, 1):
        if panel.draw not in draws | {GRAPH_PANEL}:
            kinds = ", ".join(sorted(draws | {GRAPH_PANEL}))
            raise ConfigurationError(f"{where}: panel {place}: draw is {panel.draw!r}; allowed are {kinds}")
        if (panel.draw == GRAPH_PANEL) != bool(panel.topology):
            raise ConfigurationError(
                f"{where}: panel {place}: `topology` is needed where draw is `{GRAPH_PANEL}`, and nowhere else"
            )
    return figure
