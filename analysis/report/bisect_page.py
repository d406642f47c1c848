"""The page of a search for the first bad commit: each commit, its measured difference, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from analysis.numerals import FIXED
from analysis.report import page, words
from analysis.report.page import PageContent, Section, Sentence, Warnings
from analysis.report.table import Heading, ResultTable, element, joined, link

WIDTH = 260.0  # of the drawing of an interval, in its own units
MARGIN = 6.0
Difference = Mapping[str, Any]  # words, value, low, high, page; of a commit verdict and reason too


def write(path: Path, search: Mapping[str, Any]) -> Path:
    """Return `path`. `search` is `barograph.nights.bisection.page_data`'s; its series lie below the results, as `path`
    does."""
    results = path.absolute().parents[2]
    trust = words.model_sentence_of_series(results / name for name in search["series"])
    return page.save(path, content(search, trust))


def content(search: Mapping[str, Any], trust: str) -> PageContent:
    place, reference, answer = scale(search), search["reference"], search["sentence"]

    def row(commit: Mapping[str, Any]) -> Mapping[str, Any]:
        probes = (
            element("div", joined([f"{probe['verdict']}: ", _words(probe), interval(probe, place, reference["value"])]))
            for probe in commit["probes"]
        )
        return {**commit, "name": element("span", commit["short"], title=commit["hash"]), "probes": joined(probes),
                "chance": _percent(commit["probability"])}  # fmt: skip

    good = {"name": search["good"][:10], "date": "", "subject": "GOOD", "probes": "", "chance": "", "guilty": False}
    commits = ResultTable(
        (
            Heading("commit", "name", css="hash"),
            Heading("date (UTC)", "date", css="k", blank=""),
            Heading("subject", "subject", css="wide"),
            Heading("verdict, and the difference from GOOD", "probes", css="wide", blank=""),
            Heading("probability", "chance", css="n", blank=""),
        ),
        [good, *map(row, search["commits"])],
        row_css=lambda row: "guilty" if row["guilty"] else "",
    )
    between: list[page.Block] = [commits, *(Sentence(text, "small") for text in explanation(search))]
    if reference["words"]:
        words = joined(["BAD against GOOD: ", _words(reference), "."])
        between = [Sentence(words), interval(reference, place, reference["value"]), *between]
    trust_lines = [page.folded(trust)] if trust else []
    return PageContent(
        title=f"first bad commit, {search['about']}",
        heading="Which commit made it worse",
        meta=f"{search['about']} · {search['experiment']} · search {search['id']}"
        + ("" if search["over"] else " · under way"),
        blocks=[
            Section("In short", [Sentence(f"{answer[0].upper()}{answer[1:]}."), Warnings(trust_lines)]),
            Section("Commits", between),
        ],
    )


def explanation(search: Mapping[str, Any]) -> tuple[str, str]:
    """Return what the drawings show and how the search decides."""
    dot = "measured difference from GOOD with its 95 % interval"
    blocks = f"At most {search['blocks']} blocks a comparison."
    if search["simulated"]:
        dot = "difference from GOOD in the model, with the range over seeds"
        blocks = (
            f"{search['blocks']} blocks a comparison, simulated: policies and policy service are those of the commits,"
            " all else is the model of the work tree."
        )
    return (
        f"Oldest first. A dot is the {dot}; the grey line marks no difference, the dashed line the difference of BAD."
        " A commit counts as bad if its difference is nearer to that of BAD. Probability: of being the first bad"
        f" commit, if a verdict is wrong in {_percent(search['error_rate'])} of the cases; the search ends at"
        f" {_percent(search['confidence'])}. skip: the commit could not be measured.",
        f"{blocks} GOOD {search['good']}, BAD {search['bad']}.",
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f}{FIXED}%"


def _words(difference: Difference) -> Markup:
    return link(difference["words"] or difference["reason"], difference["page"])


def scale(search: Mapping[str, Any]) -> Callable[[float], float] | None:
    """Return a function from differences to places in the drawing, over all intervals, 0 and the reference; None if
    there is nothing to draw."""
    measured = [search["reference"], *(probe for commit in search["commits"] for probe in commit["probes"])]
    ends = [0.0, *(each[key] for each in measured for key in ("value", "low", "high") if each[key] is not None)]
    if len(ends) == 1:
        return None
    low, span = min(ends), (max(ends) - min(ends)) or 1.0
    return lambda value: round(MARGIN + (value - low) / span * (WIDTH - 2 * MARGIN), 1)


def interval(difference: Difference, place: Callable[[float], float] | None, reference: float | None) -> Markup:
    """Return a drawing of the difference and its interval; empty where there is none."""
    value, low, high = (difference[key] for key in ("value", "low", "high"))
    if place is None or None in (value, low, high):
        return Markup("")
    upright = Markup('<line x1="{0}" x2="{0}" y1="0" y2="20" class="{1}"/>')
    return Markup(
        '<svg class="ends" viewBox="0 0 {} 20" role="img" aria-label="{}">{}{}'
        '<line x1="{}" x2="{}" y1="10" y2="10" class="span"/><circle cx="{}" cy="10" r="4" class="{}"/></svg>'
    ).format(
        WIDTH, difference["words"], upright.format(place(0), "zero"),
        Markup("") if reference is None else upright.format(place(reference), "reference"),
        place(low), place(high), place(value), difference.get("verdict", "bad"),
    )  # fmt: skip
