"""Numbers as readers see them, on pages and on the terminal: true minus signs, narrow spaces, the unit held fast."""

from collections.abc import Iterable
from math import floor, inf, isfinite, log10

MISSING = "–"
NARROW, FIXED = "\u2009", "\u00a0"
SIGNIFICANT = 3  # digits of a number whose size nobody knows beforehand


def number(value: float | None, digits: int | None = None, *, signed: bool = False) -> str:
    """`digits` after the point; None: as many as its size deserves. What is rounded to 0 has no sign."""
    if value is None:
        return MISSING
    if not isfinite(value):
        return "∞" if value == inf else "−∞"
    places = digits_of(value) if digits is None else digits
    rounded = round(value, places) + 0.0  # no negative zero
    text = f"{rounded:{'+' if signed and rounded else ''},.{places}f}"
    return text.replace("-", "−").replace(",", NARROW)


def signed_percent(percent: float) -> str:
    """`+12.3`; the reader knows the unit."""
    return number(percent, 1, signed=True)


def digits_of(value: float) -> int:
    """After the point: three significant digits in all, none of a whole number."""
    return 0 if value == int(value) else max(0, SIGNIFICANT - 1 - floor(log10(abs(value))))


def with_unit(text: str, unit: str) -> str:
    return text if unit == "" or text == MISSING else f"{text}{FIXED}{unit}"


def change(value: float | None, unit: str, digits: int | None = None) -> str:
    """`+12.3 %`, `−24 s`; without `digits` as `number`, but a percentage has one."""
    places = 1 if digits is None and unit == "%" else digits
    return with_unit(number(value, places, signed=True), unit)


def extent(values: Iterable[float]) -> str:
    """`150 to 600`, of all alike `600`."""
    known = [*values]
    low, high = number(min(known)), number(max(known))
    return low if low == high else f"{low} to {high}"
