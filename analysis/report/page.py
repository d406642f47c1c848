"""A page is a list of blocks; one template renders them with their downloads.

Everything that is shown is escaped, but for markup (table.py). A page offers the data of each figure and table, and
each figure for a paper: beside it, and in the page itself while that keeps it small, so that a page moved alone has
them too (docs/decisions/pages.md). The same series gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from markupsafe import Markup, escape

from analysis.record.files import write_text_atomic
from analysis.report.table import FORMATS, Download, ResultTable, Row, element, joined, row_downloads

if TYPE_CHECKING:
    from jinja2 import Environment


TEMPLATES = Path(__file__).parent / "templates"
# Limit for all embedded files of a page together. The first kinds are embedded first.
EMBEDDED_BYTES = 2_000_000
EMBEDDING_ORDER = ("csv", "svg", "parquet", "pdf")
FOLDER = "figures"  # the folder beside a page with the files that it offers
FOLDED_SUMMARY = "What Storm is taken to cost, and settings"


@dataclass(frozen=True)
class Sentence:
    """A paragraph. `css`: answer for the page's main result, small for notes, meta for facts about the page."""

    text: str
    css: str = ""


def variant_legend(colours: Sequence[tuple[str, str]]) -> Sentence:
    """Return the variants in their colours for narrow screens, where the labels at a figure's lines are out of
    sight."""
    names = (joined([element("span", f"■ {name}", style=f"color: {colour}"), " "]) for name, colour in colours)
    return Sentence(joined(names), "variants")


@dataclass(frozen=True)
class Items:
    """A list; nothing is shown without lines."""

    lines: Sequence[str]
    css: str = ""


@dataclass(frozen=True)
class Warnings(Items):
    """Lines that a reader must not overlook."""

    css: str = "warnings"


@dataclass(frozen=True)
class Definitions:
    """Terms or facts with their meaning or value."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Downloads:
    """Rows to download as CSV and Parquet; no files without rows. `kinds`: declared types of columns."""

    name: str
    rows: Sequence[Row]
    kinds: Mapping[str, str] | None = None
    label: str = "Data"

    @cached_property
    def files(self) -> tuple[Download, ...]:
        return row_downloads(self.name, self.rows, self.kinds)


@dataclass(frozen=True)
class Figure:
    """A drawing. `points`: the texts of its marks; `anchor`: its place on the page if that is not its name."""

    name: str
    title: str
    caption: str
    svg: str
    points: str
    files: tuple[Download, ...]
    anchor: str = ""


@dataclass(frozen=True)
class Panels:
    """A published figure of one or more drawings with a heading each; `absent` is shown if there is none."""

    anchor: str
    caption: str
    blocks: Sequence[Figure]
    absent: str


@dataclass(frozen=True)
class Folded:
    """Blocks behind a summary. `long`: they stay folded in print."""

    summary: str
    blocks: Sequence[Block]
    long: bool = False


@dataclass(frozen=True)
class Section:
    """Blocks under a heading. `aside`: small text beside the title."""

    title: str
    blocks: Sequence[Block]
    anchor: str = ""
    aside: str = ""


Block: TypeAlias = (
    "Sentence | Items | Definitions | Downloads | Panels | Folded | Section | ResultTable | Figure | Markup"
)


@dataclass(frozen=True)
class PageContent:
    """A page. `title`: of the window; `css`: of the whole page; `reload_s`: seconds until a browser reloads it."""

    title: str
    heading: str
    meta: str
    blocks: Sequence[Block]
    css: str = ""
    reload_s: int | None = None

    @property
    def has_points(self) -> bool:
        """Return whether a figure reacts to the mouse."""
        return any(hasattr(block, "points") for block in _with_files(self.blocks))


def save(path: Path, content: PageContent, folder: str = FOLDER, *, only_large: bool = False) -> Path:
    """Write the page and, in `folder` beside it, the files that it offers; `only_large`: only those not embedded."""
    groups = {block.name: block.files for block in _with_files(content.blocks)}
    links = download_links(groups, folder)
    file_names = {link["name"] for of_block in links.values() for link in of_block if link["beside"]}
    for file in (file for files in groups.values() for file in files if not only_large or file.name in file_names):
        (path.parent / folder).mkdir(parents=True, exist_ok=True)
        (path.parent / folder / file.name).write_bytes(file.content)
    write_text_atomic(path, html(content, links))  # a reader sees either the old page or the whole new one
    return path


def download_links(
    groups: Mapping[str, Sequence[Download]], folder: str, budget: int = EMBEDDED_BYTES
) -> dict[str, list[Row]]:
    """Return links to the files of each figure or table; a kind is embedded for all of them or for none (`beside`)."""
    kinds = embedded_kinds([file for files in groups.values() for file in files], budget)

    def link(file: Download) -> Row:
        size, is_inside = len(file.content), file.kind in kinds
        text = f"{size} B" if size < 1000 else f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"
        href = file.data_uri() if is_inside else f"{folder}/{file.name}"
        return {"name": file.name, "kind": FORMATS[file.kind][0], "href": href, "size": text, "beside": not is_inside}

    return {name: [link(file) for file in files] for name, files in groups.items()}


def embedded_kinds(files: Sequence[Download], budget: int) -> frozenset[str]:
    """Return the kinds of which all files fit into the budget, the most useful kind first."""
    kinds: set[str] = set()
    for kind in EMBEDDING_ORDER:
        size = sum(file.embedded_bytes for file in files if file.kind == kind)
        if size <= budget:
            kinds.add(kind)
            budget -= size
    return frozenset(kinds)


def html(content: PageContent, links: Mapping[str, Sequence[Row]] = MappingProxyType({})) -> str:
    return _environment().get_template("page.html.j2").render(c=content, links=links)


def _with_files(blocks: Iterable[Any]) -> Iterator[Any]:
    """Yield figures and downloads, including those in sections and folded parts."""
    for block in blocks:
        if getattr(block, "name", "") and hasattr(block, "files"):
            yield block
        elif hasattr(block, "blocks"):
            yield from _with_files(block.blocks)


def folded(text: str) -> Markup:
    """Return the first line of a model's sentence (words.model_sentence), and the others behind a summary."""
    first, _, rest = text.partition("\n")
    if not rest:
        return escape(text)
    return joined([first, element("details", joined([element("summary", FOLDED_SUMMARY), rest]))])


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.globals["kind_of"] = lambda block: type(block).__name__
    return environment
