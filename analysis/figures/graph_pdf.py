"""The logical graph as PDF: its own SVG, which knows rectangles, text and edges only, drawn again by matplotlib."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from analysis.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PX_PER_INCH = 96.0
PT_PER_PX = 0.75
ANCHORS = {"start": "left", "middle": "center", "end": "right"}
ARROW = ((-7.0, -3.2), (1.0, 0.0), (-7.0, 3.2))  # graph.draw's marker around the end of its edge, in stroke widths
ARROW_SCALE = 7.0 / 8.0
WORD = re.compile(r"[MHC]|-?\d+(?:\.\d+)?")


def pdf(svg: str, title: str) -> bytes:
    """What graph.draw has drawn, at the same place and size."""
    root = ET.fromstring(svg)
    width, height = (float(number) for number in root.attrib["viewBox"].split()[2:])
    inherited = {"font-size": root.attrib["font-size"], "fill": root.attrib["fill"]}
    with style.canvas(height / PX_PER_INCH, width_in=width / PX_PER_INCH, room=False) as (figure, (axes,)):
        axes.set_position((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.set_axis_off()
        for number, element in enumerate(root):
            draw = DRAWN.get(element.tag.rpartition("}")[2])
            if draw is not None:
                draw(axes, inherited | element.attrib | {"text": element.text or ""}, number + 1)
        into = io.BytesIO()
        figure.savefig(into, format="pdf", metadata={"Title": title, "CreationDate": None})
        return into.getvalue()


def _rectangle(axes: Axes, has: dict[str, str], order: int) -> None:
    from matplotlib.patches import FancyBboxPatch

    x, y, width, height, radius = (float(has[name]) for name in ("x", "y", "width", "height", "rx"))
    radius = min(radius, width / 2, height / 2)
    corners = f"round,pad=0,rounding_size={radius}" if radius else "square,pad=0"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=corners, facecolor=has["fill"], lw=_stroke(has),
                                  edgecolor=has["stroke"], zorder=order))  # fmt: skip


def _text(axes: Axes, has: dict[str, str], order: int) -> None:
    axes.text(
        float(has["x"]), float(has["y"]), has["text"], ha=ANCHORS[has["text-anchor"]], va="baseline",
        fontsize=float(has["font-size"]) * PT_PER_PX, color=has["fill"],
        fontweight="bold" if has.get("font-weight") == "600" else "normal", zorder=order,
    )  # fmt: skip


def _edge(axes: Axes, has: dict[str, str], order: int) -> None:
    """Commands M, H and C, absolute; every edge ends to the right, with an arrowhead."""
    from matplotlib.patches import PathPatch, Polygon

    vertices, codes = _vertices(has["d"])
    stroke = float(has["stroke-width"])
    dashes = tuple(float(part) / stroke for part in has.get("stroke-dasharray", "").split())
    axes.add_patch(PathPatch(_path(vertices, codes), fill=False, lw=_stroke(has), edgecolor=has["stroke"],
                             ls=(0, dashes) if dashes else "-", zorder=order))  # fmt: skip
    end, scale = vertices[-1], stroke * ARROW_SCALE
    head = [(end[0] + x * scale, end[1] + y * scale) for x, y in ARROW]
    axes.add_patch(Polygon(head, facecolor=has["stroke"], lw=0, zorder=order))


def _path(vertices: list[tuple[float, float]], codes: list[int]) -> Any:
    from matplotlib.path import Path as Line

    return Line(vertices, codes)


def _vertices(commands: str) -> tuple[list[tuple[float, float]], list[int]]:
    """With matplotlib's codes: 1 go to, 2 line to, 4 a point of a Bézier curve."""
    vertices: list[tuple[float, float]] = []
    codes: list[int] = []
    words = WORD.findall(commands)
    while words:
        command = words.pop(0)
        if command == "H":
            points, code = [(float(words.pop(0)), vertices[-1][1])], 2
        else:
            number = 1 if command == "M" else 3
            points, code = [(float(words.pop(0)), float(words.pop(0))) for _ in range(number)], 1 if number == 1 else 4
        vertices += points
        codes += [code] * len(points)
    return vertices, codes


def _stroke(has: dict[str, str]) -> float:
    return float(has["stroke-width"]) * PT_PER_PX


DRAWN = {"rect": _rectangle, "text": _text, "path": _edge}
