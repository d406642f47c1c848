"""Tables of results, in Markdown."""

from collections.abc import Sequence


def markdown_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"\n{title}", "| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def percent_text(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"
