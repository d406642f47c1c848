"""A page is a list of blocks; one template shows them, with what they offer for download.

Everything that is shown is escaped, but for markup (markup.py). Downloads are the data of each figure and table, and
each figure for a paper: files beside the page, and in the page itself for as long as that keeps its size sane, so that
a page which was moved alone has them too (docs/decisions/pages.md). The same series gives the same bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from markupsafe import Markup, escape

from analysis.numerals import number
from analysis.record.files import write_text_atomic
from analysis.report.markup import element, joined
from analysis.report.table import ResultTable, Row, csv_of, parquet_of

if TYPE_CHECKING:
    from jinja2 import Environment

    from analysis.report.figures.catalogue import Figure
    from analysis.report.figures.points import Drawing


TEMPLATES = Path(__file__).parent / "templates"
FOLDER = "figures"  # the folder beside a page with the files that it offers
# Of all files of a page together, as they are written in it. The most wanted go first.
EMBEDDED_BYTES = 2_000_000
EMBEDDING_ORDER = ("csv", "svg", "parquet", "pdf")
MEDIA = {
    "csv": "text/csv",
    "svg": "image/svg+xml",
    "parquet": "application/vnd.apache.parquet",
    "pdf": "application/pdf",
}
LABELS = {"csv": "CSV", "svg": "SVG", "parquet": "Parquet", "pdf": "PDF"}
FOLDED_SUMMARY = "What Storm is taken to cost, and settings"


@dataclass(frozen=True)
class Download:
    name: str
    content: bytes

    @property
    def kind(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def embedded_bytes(self) -> int:
        return 4 * -(-len(self.content) // 3)

    def data_uri(self) -> str:
        return f"data:{MEDIA[self.kind]};base64,{base64.b64encode(self.content).decode()}"


@dataclass(frozen=True)
class DownloadLink:
    """One file as the page offers it; `beside`: it is not in the page but next to it."""

    name: str
    kind: str
    href: str
    size: str
    beside: bool


@dataclass(frozen=True)
class Sentence:
    """A paragraph. `css`: answer for what the page is about, small for notes, meta for facts about the page."""

    text: str
    css: str = ""


def variant_legend(colours: Sequence[tuple[str, str]]) -> Sentence:
    """Return variants in their colours, for a narrow screen: there the labels at a figure's lines are out of sight."""
    names = (joined([element("span", f"■ {name}", style=f"color: {colour}"), " "]) for name, colour in colours)
    return Sentence(joined(names), "variants")


@dataclass(frozen=True)
class Warnings:
    """What a reader must not overlook, a line each; without lines there is nothing."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Items:
    lines: Sequence[str]
    css: str = ""


@dataclass(frozen=True)
class Definitions:
    """Terms or facts with what they mean or are."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Downloads:
    """Rows to download as CSV and Parquet; none of no rows. `kinds`: of columns whose type is declared."""

    name: str
    rows: Sequence[Row]
    kinds: Mapping[str, str] | None = None
    label: str = "Data"

    @cached_property
    def files(self) -> tuple[Download, ...]:
        return row_downloads(self.name, self.rows, self.kinds)


@dataclass(frozen=True)
class Panels:
    """A published figure of one drawing or several with a heading each; `absent` stands where there is none."""

    anchor: str
    caption: str
    blocks: Sequence[Figure]
    absent: str


@dataclass(frozen=True)
class Folded:
    """Blocks behind a summary. `long`: they stay behind it on paper."""

    summary: str
    blocks: Sequence[Block]
    long: bool = False


@dataclass(frozen=True)
class Section:
    """`aside`: small beside the title."""

    title: str
    blocks: Sequence[Block]
    anchor: str = ""
    aside: str = ""


Block: TypeAlias = (
    "Sentence | Warnings | Items | Definitions | Downloads | Panels | Folded | Section | ResultTable | Figure | Markup"
)


@dataclass(frozen=True)
class PageContent:
    """`title`: of the window; `css`: of the whole page."""

    title: str
    heading: str
    meta: str
    blocks: Sequence[Block]
    css: str = ""

    @property
    def has_points(self) -> bool:
        """Whether a figure answers to the mouse."""
        return any(hasattr(block, "points") for block in _with_files(self.blocks))


def save(path: Path, content: PageContent, folder: str = FOLDER, *, only_large: bool = False) -> Path:
    """Write the page and, in `folder` beside it, the files that it offers; `only_large`: those that are not in it."""
    groups = {block.name: block.files for block in _with_files(content.blocks)}
    links = download_links(groups, folder)
    beside = {link.name for of_block in links.values() for link in of_block if link.beside}
    write_downloads(
        path.parent / folder,
        (file for files in groups.values() for file in files if not only_large or file.name in beside),
    )
    return write(path, html(content, links))


def html(content: PageContent, links: Mapping[str, Sequence[DownloadLink]]) -> str:
    return render("page.html.j2", c=content, links=links)


def _with_files(blocks: Iterable[Any]) -> Iterator[Any]:
    """Yield figures and downloads, also of sections and folded parts."""
    for block in blocks:
        if hasattr(block, "files"):
            yield block
        elif hasattr(block, "blocks"):
            yield from _with_files(block.blocks)


def folded(text: str) -> Markup:
    """Return the first line as it is, and the others behind a summary."""
    first, _, rest = text.partition("\n")
    if not rest:
        return escape(text)
    return joined([first, element("details", joined([element("summary", FOLDED_SUMMARY), rest]))])


def render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


def write(path: Path, text: str) -> Path:
    """So that a reader, also one beside another writer, sees the old page or the whole new one."""
    write_text_atomic(path, text)
    return path


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.globals |= {"as_number": number, "folded": folded, "kind_of": lambda block: type(block).__name__}
    return environment


def drawing_downloads(name: str, drawing: Drawing, svg: str) -> tuple[Download, ...]:
    """Data and forms of one figure; `svg` with the ids that it has on the page."""
    kinds = {column.name: column.kind for column in drawing.data_columns()}
    return (
        *row_downloads(name, drawing.rows(), kinds),
        Download(f"{name}.svg", f'<?xml version="1.0" encoding="UTF-8"?>\n{svg}\n'.encode()),
        Download(f"{name}.pdf", drawing.pdf),
    )


def row_downloads(name: str, rows: Sequence[Row], kinds: Mapping[str, str] | None = None) -> tuple[Download, ...]:
    """The rows as CSV and Parquet; none of no rows. `kinds`: of columns whose type is declared (points.Column.kind)."""
    if not rows:
        return ()
    return Download(f"{name}.csv", csv_of(rows)), Download(f"{name}.parquet", parquet_of(rows, kinds or {}))


def write_downloads(folder: Path, files: Iterable[Download]) -> None:
    for file in files:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file.name).write_bytes(file.content)


def download_links(
    groups: Mapping[str, Sequence[Download]], folder: str, budget: int = EMBEDDED_BYTES
) -> dict[str, tuple[DownloadLink, ...]]:
    """By figure or table: its files. `folder`: theirs, from the page. All of a kind are in the page, or none."""
    inside = embedded_kinds([file for files in groups.values() for file in files], budget)
    return {
        name: tuple(_download_link(file, folder, file.kind in inside) for file in files)
        for name, files in groups.items()
    }


def embedded_kinds(files: Sequence[Download], budget: int) -> frozenset[str]:
    """The kinds that all fit, the most wanted first."""
    kinds: set[str] = set()
    for kind in EMBEDDING_ORDER:
        size = sum(file.embedded_bytes for file in files if file.kind == kind)
        if size <= budget:
            kinds.add(kind)
            budget -= size
    return frozenset(kinds)


def _download_link(file: Download, folder: str, inside: bool) -> DownloadLink:
    href = file.data_uri() if inside else f"{folder}/{file.name}"
    return DownloadLink(file.name, LABELS[file.kind], href, _size(len(file.content)), not inside)


def _size(size: int) -> str:
    return f"{size} B" if size < 1000 else f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"
