"""Colours that colour-blind readers can distinguish, and names of variants, the same in every figure."""

import textwrap
from collections.abc import Iterable, Sequence

# Okabe and Ito's palette (2008), the strongest contrasts first; the last two are Tol's, for the eighth variant.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#332288")
# The same colour in every experiment of a family, so that figures compare at a glance.
FAMILY_COLOURS = {
    "even_rebalance": PALETTE[0], "stela": PALETTE[1], "least_link_load": PALETTE[2], "even": PALETTE[0],
    "metis": PALETTE[1], "greedy": PALETTE[2], "metis_cut": PALETTE[4],
    "recorded": "#222222",  # beside its simulations
}  # fmt: skip
INK, GREY, FAINT = "#222222", "#555555", "#D0D0D0"
WIDTH_IN = 7.2
DISPLAY_NAMES = {
    "even_rebalance": "even + rebalance", "stela": "Stela", "metis": "METIS", "metis_cut": "METIS, edge cut",
}  # fmt: skip
LEGIBLE_VARIANTS = 4  # lines with labels that fit into one panel


def colours(variants: Sequence[str]) -> dict[str, str]:
    """Return a colour a variant, the same in every figure of a series. If two have one family colour, the first gets
    it."""
    scheme: dict[str, str] = {}
    for variant in variants:
        if (colour := FAMILY_COLOURS.get(variant)) and colour not in scheme.values():
            scheme[variant] = colour
    palette = [colour for colour in PALETTE if colour not in scheme.values()]
    rest = [variant for variant in variants if variant not in scheme]
    return {variant: scheme.get(variant) or palette[rest.index(variant) % len(palette)] for variant in variants}


def display_name(variant: str) -> str:
    return DISPLAY_NAMES.get(variant, variant.replace("_", " "))


def multiline_name(variant: str, width: int = 12) -> str:
    """Break a name into lines for ticks and narrow margins."""
    return "\n".join(textwrap.wrap(display_name(variant), width, break_long_words=False))


def numbered(variants: Iterable[str], among: Sequence[str]) -> list[tuple[int, str, str, str]]:
    """Return position, variant, its name and its colour `among` the variants of its series."""
    palette = colours(among)
    return [(number, variant, display_name(variant), palette[variant]) for number, variant in enumerate(variants)]
