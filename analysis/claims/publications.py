"""The papers' figures and tables, as data (`*_figures.yaml`): which experiments and sweeps make each of them.

Errors: ConfigurationError, with file, place, field, value and what is allowed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

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
    families = []
    for family in FAMILIES:
        figures = document_in(PUBLICATIONS[family])["figures"]
        subjects = {panel["experiment"] for figure in figures for panel in figure["panels"]}
        if not subjects.union(claim.experiment for claim in load_claims(family)).isdisjoint(experiments):
            families.append(family)
    return tuple(families or FAMILIES)


def load_figures(
    draws: Collection[str], path: Path | None = None, families: Collection[str] | None = None
) -> tuple[PublishedFigure, ...]:
    """Return the figures of a file, in its order; without a file those of all families, or of some. `draws`: the kinds
    of panel there are."""
    figures, kinds = [], {*draws, GRAPH_PANEL}
    for each in [path] if path else [PUBLICATIONS[family] for family in families or FAMILIES]:
        document = document_in(each)
        if not isinstance(document, Mapping) or not isinstance(document.get("figures"), list):
            raise ConfigurationError(f"{each}: wants one key `figures` with a list of figures")
        for number, entry in enumerate(document["figures"], 1):
            where = f"{each}: figure {number}"
            figures.append(figure := read_entry(PublishedFigure, entry, where))
            _require_fitting(figure, kinds, where)
    return tuple(figures)


def _require_fitting(figure: PublishedFigure, kinds: Collection[str], where: str) -> None:
    """Raise ConfigurationError for panels that do not fit together, or that nothing draws."""
    if len({panel.draw == GRAPH_PANEL for panel in figure.panels}) > 1:
        raise ConfigurationError(f"{where}: panels that draw `{GRAPH_PANEL}` and others; make two figures of them")
    if len({panel.simulated for panel in figure.panels}) > 1:
        raise ConfigurationError(f"{where}: panels of sweeps and others; make two figures of them")
    for place, panel in enumerate(figure.panels, 1):
        if panel.draw not in kinds:
            allowed = ", ".join(sorted(kinds))
            raise ConfigurationError(f"{where}: panel {place}: draw is {panel.draw!r}; allowed are {allowed}")
        if (panel.draw == GRAPH_PANEL) != bool(panel.topology):
            raise ConfigurationError(
                f"{where}: panel {place}: `topology` is needed where draw is `{GRAPH_PANEL}`, and nowhere else"
            )


def load_tables(families: Collection[str], path: Path | None = None) -> tuple[PublishedTable, ...]:
    """Return the published tables of these families; their cells are names of claims."""
    tables, names = [], {claim.name for claim in load_claims()}
    for each in [path] if path else [PUBLICATIONS[family] for family in families]:
        for number, entry in enumerate(document_in(each).get("tables", ()), 1):
            where = f"{each}: table {number}"
            tables.append(table := read_entry(PublishedTable, entry, where))
            for name, cells in table.rows:
                unknown = ", ".join(cell for cell in cells if cell and cell not in names)
                if unknown or len(cells) != len(table.columns):
                    fault = f"names {unknown}, which is no claim" if unknown else f"has {len(cells)} cells"
                    raise ConfigurationError(
                        f"{where}: row {name} {fault}; allowed are names of claims, one for each column"
                    )
    return tuple(tables)
