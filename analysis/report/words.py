"""Sentences of pages that are the same on each of them, and the terms that they explain."""

from pathlib import Path

import yaml

TERMS = Path(__file__).parent / "templates" / "terms.yaml"

GRAPH_CAPTION = (
    "Executors and tasks are those at the start of the runs. Coloured text is what a variant changed at the first"
    " event. A yellow component was congested at that moment in most runs (input rate over processing rate above 1.2,"
    " Stela's test, SP II-C); the number is the median of that ratio over the runs."
)
DECISIONS_NOTE = (
    "Executors of each component before → after the event, or how many of them moved to another slot. Runs with the"
    " same decision share a row."
)
NOTHING_TO_DRAW = "No complete run had an event: there is nothing to draw."
NOT_STEADY = (
    "† That side of the event (of a gain: one of them) was not steady: the value is of what stands for its steady"
    ' part, and counts in claims and figures. See "Steady state".'
)
LOSSES_NOTE = (
    "Tuples on each edge, before and after the event. The last column says by how much the number of lost tuples may"
    " be wrong: one second at the edge's rate. A smaller number is no loss that was seen, and stands as 0."
)
BOOTS_NOTE = (
    "Times after an event count from its scale request, which is sent after the machines have booted. No time in this"
    " report includes a boot."
)
ABLATION_NOTE = (
    "Each variant of Stela's rule decides again on what the runs observed at the event. Decisions are compared by"
    " executors, slots and machines. What another decision would have led to was not measured."
)
DAMAGED_LINES_NOTE = (
    "The lines counted here as damaged could not be read, and those counted as missing (at least so many) are not"
    " there, by the numbers of those beside them. Neither are in any number above."
)
ASSUMPTIONS_NOTE = (
    "The specification of the runs with every default filled in: rates, cost models, buffers, durations. Where runs"
    " differ, a vertical bar separates the values."
)
NOT_STEADY_HERE = (
    "† That side of the event (of a gain: one of them) was not steady: the value is of what stands for its steady part."
)
PLACEMENT_NOTE = (
    "The last scheduling round before and after the event in which every task had a slot. Bold: different after the"
    " event."
)
ERRORS_NOTE = (
    "Errors while the topology ran, oldest first. Lines that differ only in numbers count as one. Storm logs some of"
    " them whenever a worker restarts."
)
SIMULATOR_ERROR = (
    ": as it was recorded, as it is simulated, and the difference, which is the simulator's error on this very run (in"
    " percent of the recorded value, or in the column's unit). With another decision the error may be another, so no"
    " number is corrected by it"
)
OUTCOMES_NOTE = (
    "infrastructure: a machine or the network failed, outside the plan. deadline: not started, or ended early, because"
    " the night was over. failed: Storm or a policy failed, which is a result."
)
NIGHT_DIFFERENCES_NOTE = (
    "The median of this night's repetitions beside the median of the last seven nights on the same machines, and how"
    " many standard deviations from night to night that is (∞: those nights had no scatter). Beyond two is unusual"
    " where the difference is worth naming for the metric, and with hundreds of series some always are: a single night"
    " is no regression."
)
CHARTS_NOTE = (
    "The line is the median of a night's repetitions, the band reaches from the lowest to the highest. A hollow dot is"
    " a night with runs that were not steady. An arrow upwards is a night without a value because half of its runs or"
    " more never got there: it begins at how long they were watched. Ticks at the bottom are nights without a value."
    " Point at a night, touch it or use the arrow keys to see its value, or why there is none."
)
FACTS = "Facts: neither direction is better, so nothing is judged"
VERDICT_MARKS = (
    ("met", "met"),
    ("partly-met", "partly met: goes the way that is stated, but not as far, or farther"),
    ("unmet", "unmet"),
)
VERDICT_LEGEND = (
    "pale: an indication, of fewer than six blocks or not sure among all claims of its experiment, or an older night"
    " that does not say; chance alone may change it",
    "grey: too few runs for a verdict, or not testable here",
    "empty: not run, or not known",
)
NIGHT_TERMS = (
    ("line", "the median of a night's repetitions, each small line on its own scale; at most the last {nights} nights"),
    (
        "arrow upwards",
        "half of the night's runs or more never got there; it begins at how long they were watched, which is no value",
    ),
    (
        "gap",
        "a night without a value, with a tick below; nothing is filled in. The experiment's page says why",
    ),
    ("dashed upright", "other machines begin; what lies on the two sides is not compared"),
    (
        "upright in colour",
        "a change: orange for the worse, green for the better, dotted while it is only suspected, pale when it is past"
        " or accepted",
    ),
    ("confirmed", "the first bad night and two more lie on the bad side; one bad night, or two, are a suspicion"),
    (
        "A/A floor",
        "twice the standard error of such a difference between nights of the same commit; a smaller one is not"
        " reported",
    ),
    ("first bad commit", "after the last good night's commit, up to the first bad night's"),
)


def glossary(page: str, *, of_model: bool) -> list[tuple[str, str]]:
    """Return the terms of a page, `report` or `comparison`. Runs that were simulated have no verdicts to explain."""
    terms = yaml.safe_load(TERMS.read_text(encoding="utf-8"))
    more = terms.get(f"{page}_{'simulated' if of_model else 'measured'}", {})
    return [*terms[page].items(), *more.items()]
