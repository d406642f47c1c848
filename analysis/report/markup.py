"""Parts of a sentence or a cell that are more than text. Text from a record is escaped."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

BREAK = Markup("<br>")


def element(tag: str, content: str, **attributes: str | None) -> Markup:
    """Return `<tag …>content</tag>` without empty attributes; `css` stands for `class`."""
    attribute_text = Markup("").join(
        Markup(' {}="{}"').format({"css": "class"}.get(name, name.replace("_", "-")), value)
        for name, value in attributes.items() if value
    )  # fmt: skip
    return Markup("<{}{}>{}</{}>").format(Markup(tag), attribute_text, content, Markup(tag))


def link(text: str, target: str | None, css: str = "") -> Markup:
    """Return the text as a link, or as plain text if there is no target."""
    return element("a", text, css=css, href=target) if target else escape(text)


def bold(text: str, css: str = "") -> Markup:
    return element("b", text, css=css)


def small(text: str, css: str = "small") -> Markup:
    return element("span", text, css=css)


def badge(text: str, css: str = "") -> Markup:
    return element("span", text, css=f"badge {css}".strip())


def code(text: str, css: str = "") -> Markup:
    return element("code", text, css=css)


def joined(parts: Iterable[str], separator: str = "") -> Markup:
    return escape(separator).join(escape(part) for part in parts)
