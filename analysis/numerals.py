"""Numbers for readers, on pages and on the terminal: true minus signs, narrow spaces, the unit kept on the line."""

from collections.abc import Iterable
from math import floor, inf, isfinite, log10

MISSING = "–"
NARROW, FIXED = "\u2009", "\u00a0"
SIGNIFICANT = 3  # digits of a number of unknown magnitude


def number(value: float | None, digits: int | None = None, *, signed: bool = False) -> str:
    """Format with `digits` after the point; None: as its magnitude requires. A value rounded to 0 has no sign."""
    if value is None:
        return MISSING
    if not isfinite(value):
        return "∞" if value == inf else "−∞"
    places = digits_of(value) if digits is None else digits
    result = round(value, places) + 0.0  # no negative zero
    text = f"{result:{'+' if signed and result else ''},.{places}f}"
    return text.replace("-", "−").replace(",", NARROW)


def signed_percent(percent: float) -> str:
    """Return `+12.3`, without the unit."""
    return number(percent, 1, signed=True)


def digits_of(value: float) -> int:
    """Return the digits after the point: three significant digits in all, none for a whole number."""
    return 0 if value == int(value) else max(0, SIGNIFICANT - 1 - floor(log10(abs(value))))


def with_unit(text: str, unit: str) -> str:
    return text if unit == "" or text == MISSING else f"{text}{FIXED}{unit}"


def change(value: float | None, unit: str, digits: int | None = None) -> str:
    """Return `+12.3 %`, `−24 s`; without `digits` as `number` does, but a percentage gets one."""
    places = 1 if digits is None and unit == "%" else digits
    return with_unit(number(value, places, signed=True), unit)


def extent(values: Iterable[float]) -> str:
    """Return `150 to 600`, or `600` if all values are equal."""
    numbers = [*values]
    low, high = number(min(numbers)), number(max(numbers))
    return low if low == high else f"{low} to {high}"
