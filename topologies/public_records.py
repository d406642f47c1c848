"""What the sources of opengov emit: companies and contractors as the Java package `opengov` draws them from a seed, or
the rows of a file of one's own, which travel inside the topology.

Who gets what, and how many tuples pass, follows from the same numbers. Errors: BadParameter, UnknownWork
(topologies/errors.py).
"""

from __future__ import annotations

import base64
import csv
import gzip
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from topologies.errors import BadParameter, UnknownWork
from topologies.keys import TupleKey, java_hash, task_of

PACKAGE = "barograph.topologies.opengov"
COLUMNS = ("event", "symbol", "company", "parent", "amount")
MOST_PACKED = 200_000  # characters; a source and a bolt have it each, and Nimbus takes a topology of 1 MB
SHORTEST, LONGEST = 34, 80  # characters of a drawn name
MEAN_NAME = (SHORTEST + LONGEST) / 2
_REST = " of the register of traded companies, of those that they own, and of their seats"
_ROOT = Path(__file__).parents[1]
_DOUBLED = 2.0
LEAST_QUOTES = 3.0  # of a company in a day: then hardly a day is without one, and the join emits about all it ever does


@dataclass(frozen=True)
class RecordEntry:
    """What a source emits over and over: hash codes of its own key and of the company's name, the company's place, and
    how often it comes, as a weight."""

    key: int
    company: int
    place: int
    weight: float


@dataclass(frozen=True)
class Records:
    """`surging`: of each company, the share of its days on which its price has doubled within the window; `seen_days`:
    where prices are drawn, how many of the last days have the older price, at most."""

    quotes: tuple[RecordEntry, ...]
    contracts: tuple[RecordEntry, ...]
    surging: tuple[float, ...]
    seen_days: int | None


def symbol(number: int) -> str:
    letters = ""
    for _ in range(6):
        number, letter = divmod(number, 26)
        letters = chr(ord("A") + letter) + letters
    return letters


def company(number: int) -> str:
    return _name("C", number)


def contractor(number: int) -> str:
    return _name("S", number)


def _name(kind: str, number: int) -> str:
    length = SHORTEST + number * 29 % (LONGEST - SHORTEST + 1)
    return f"{kind}{number:07d}{_REST}"[:length]


@lru_cache(maxsize=8)
def draw(
    companies: int, contractors: int, quote_skew: float, contract_skew: float, window_days: int, surge_days: int
) -> Records:
    """Contractor k belongs to company k mod `companies`."""
    names = [java_hash(company(number)) for number in range(companies)]
    quotes = tuple(
        RecordEntry(java_hash(symbol(number)), names[number], number, (number + 1.0) ** -quote_skew)
        for number in range(companies)
    )
    contracts = tuple(
        RecordEntry(
            java_hash(contractor(number)),
            names[number % companies],
            number % companies,
            (number + 1.0) ** -contract_skew,
        )
        for number in range(companies * contractors)
    )
    surging = min(1.0, (window_days - 1) / surge_days)
    return Records(quotes, contracts, (surging,) * companies, window_days - 1)


# A file of one's own


def with_content(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter `file` becomes what components get of it. Raises BadParameter."""
    path = values.get("file")
    return {**values, "file": pack(f"topology {name}: parameter file", path)} if path else dict(values)


def pack(where: str, path: str) -> str:
    """The rows of a CSV file, checked: lines of cells with tabs between them, under gzip, in base 64."""
    file = _ROOT / Path(path).expanduser()
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            rows = list(_checked(f"{where}: {path}", csv.reader(opened)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadParameter(
            f"{where}: {path!r} cannot be read ({error}); give a CSV file with the columns {','.join(COLUMNS)}, by its"
            " absolute path or its path from the repository on"
        ) from error
    found = base64.b64encode(gzip.compress("\n".join("\t".join(row) for row in rows).encode(), mtime=0)).decode()
    if len(found) > MOST_PACKED:
        raise BadParameter(
            f"{where}: {path} has {len(rows):,} rows, which take {len(found):,} characters packed; allowed are"
            f" {MOST_PACKED:,}, for they travel inside the topology: leave rows out"
        )
    return found


def _checked(where: str, lines: Iterator[list[str]]) -> Iterator[tuple[str, ...]]:
    if tuple(next(lines, [])) != COLUMNS:
        raise BadParameter(f"{where}: line 1 must be {','.join(COLUMNS)}")
    events, parents = set[str](), dict[str, str]()
    for number, cells in enumerate(lines, 2):
        row = tuple(cell.strip() for cell in cells)
        if wrong := _row_error(row, parents):
            raise BadParameter(f"{where}: line {number}: {wrong}")
        events.add(row[0])
        yield row
    if missing := sorted({"quote", "contract"} - events):
        raise BadParameter(f"{where}: has no row whose event is {' or '.join(missing)}; give at least one of both")


def _row_error(row: tuple[str, ...], parents: dict[str, str]) -> str | None:
    """`parents`: of the contractors of the rows before; this one's is added."""
    if len(row) != len(COLUMNS):
        return f"{len(row)} cells; allowed are {len(COLUMNS)}: {','.join(COLUMNS)}"
    event, _, company_, parent, amount = row
    if event not in ("quote", "contract"):
        return f"event is {event!r}; allowed are quote, contract"
    for column in ("symbol", "company") if event == "quote" else ("company", "parent"):
        if not row[COLUMNS.index(column)]:
            return f"{column} is empty; a {event} has one"
    if any("\t" in cell or "\n" in cell or "\r" in cell for cell in row):
        return "a cell has a tab or a line break; leave it out"
    try:
        is_positive = 0 < float(amount) < math.inf and "_" not in amount
    except ValueError:
        is_positive = False
    if not is_positive:
        return f"amount is {amount!r}; allowed is a number above 0"
    if event == "contract" and parents.setdefault(company_, parent) != parent:
        return f"parent is {parent!r}, but {company_!r} belongs to {parents[company_]!r} in a line before; give one"
    return None


@lru_cache(maxsize=8)
def unpack(text: str) -> Records:
    """Of what `pack` made. A company surges if its prices in the file differ by more than a factor of two."""
    rows = [line.split("\t") for line in gzip.decompress(base64.b64decode(text)).decode().split("\n")]
    places: dict[str, int] = {}
    prices: dict[int, list[float]] = {}
    quotes: dict[tuple[str, str], int] = {}
    contracts: dict[tuple[str, str], int] = {}
    for event, symbol_, company_, parent, amount in rows:
        traded = company_ if event == "quote" else parent
        place = places.setdefault(traded, len(places))
        counted, key = (quotes, symbol_) if event == "quote" else (contracts, company_)
        counted[key, traded] = counted.get((key, traded), 0) + 1
        if event == "quote":
            prices.setdefault(place, []).append(float(amount))
    surging = tuple(
        float(place in prices and max(prices[place]) > _DOUBLED * min(prices[place])) for place in range(len(places))
    )
    return Records(_entries(quotes, places), _entries(contracts, places), surging, None)


def _entries(counted: Mapping[tuple[str, str], int], places: Mapping[str, int]) -> tuple[RecordEntry, ...]:
    return tuple(
        RecordEntry(java_hash(key), java_hash(traded), places[traded], float(rows))
        for (key, traded), rows in counted.items()
    )


# What follows for a topology


@dataclass(frozen=True)
class RecordSource:
    """A spout of records in Flux YAML. `entries` are of all its tasks, `field` what they are grouped by."""

    name: str
    tasks: int
    rate_per_s: float
    field: str
    entries: tuple[RecordEntry, ...]

    def shares(self) -> list[tuple[int, float]]:
        """Of each entry, the task that has it, and its share of the component's tuples: tasks emit equally many."""
        places = [task_of(entry.key, self.tasks) for entry in self.entries]
        totals = [0.0] * self.tasks
        for place, entry in zip(places, self.entries, strict=True):
            totals[place] += entry.weight
        return [
            (place, entry.weight / totals[place] / self.tasks)
            for place, entry in zip(places, self.entries, strict=True)
        ]

    def keys(self) -> tuple[TupleKey, ...]:
        return tuple(
            TupleKey(share, place, {self.field: entry.key, "company": entry.company})
            for entry, (place, share) in zip(self.entries, self.shares(), strict=True)
        )

    def per_day(self, companies: int, day_s: float) -> list[float]:
        """Tuples a day of each company."""
        found = [0.0] * companies
        for entry, (_, share) in zip(self.entries, self.shares(), strict=True):
            found[entry.place] += share * self.rate_per_s * day_s
        return found


@dataclass(frozen=True)
class Opengov:
    """What is in Flux YAML of an opengov. Rates of unthrottled sources are those that are expected of them."""

    name: str
    is_unthrottled: bool
    records: Records
    quotes: RecordSource
    contracts: RecordSource
    window_days: int
    day_s: float


def opengov_of(document: Mapping[str, Any]) -> Opengov | None:
    """None for another topology."""
    of_class = {
        vertex["className"]: vertex for vertex in (*document["spouts"], *document["bolts"])
        if vertex["className"].startswith(PACKAGE)
    }  # fmt: skip
    quotes, contracts, ranges = (
        of_class.get(f"{PACKAGE}.{name}") for name in ("QuoteSpout", "ContractSpout", "PriceRangeBolt")
    )
    if quotes is None or contracts is None or ranges is None:
        return None
    companies, quote_skew, surge_days, day_s, file = quotes["constructorArgs"][4:]
    _, contractors, contract_skew, *_ = contracts["constructorArgs"][4:]
    (window_days,) = ranges["constructorArgs"]
    records = unpack(file) if file else draw(companies, contractors, quote_skew, contract_skew, window_days, surge_days)
    return Opengov(
        document["name"],
        quotes["constructorArgs"][2],
        records,
        _source(quotes, "symbol", records.quotes),
        _source(contracts, "contractor", records.contracts),
        window_days,
        day_s,
    )


def _source(vertex: Mapping[str, Any], field: str, entries: tuple[RecordEntry, ...]) -> RecordSource:
    tasks = vertex.get("numTasks", vertex["parallelism"])
    return RecordSource(vertex["id"], tasks, float(vertex["constructorArgs"][0]), field, entries)


def check_sources(name: str, document: Mapping[str, Any]) -> None:
    """Raises BadParameter where a task of a source would have nothing to emit."""
    known = opengov_of(document)
    for source in (known.quotes, known.contracts) if known else ():
        idle = set(range(source.tasks)) - {task_of(entry.key, source.tasks) for entry in source.entries}
        if idle:
            raise BadParameter(
                f"topology {name}: component {source.name}: none of its {len(source.entries)} {source.field}s belongs"
                f" to task {min(idle)} of {source.tasks} (counted from 0); give more of them, or lower"
                f" {source.name.removesuffix('s')}_sources"
            )


def keys(document: Mapping[str, Any]) -> dict[str, Sequence[TupleKey]]:
    known = opengov_of(document)
    return {source.name: source.keys() for source in (known.quotes, known.contracts)} if known else {}


def passing(document: Mapping[str, Any]) -> dict[str, float]:
    """Tuples sent on for each that comes in, by the class of the bolt. The join's is what is to be expected: it emits a
    company at most once a day, so it is the smaller a share the more comes in. Raises UnknownWork where nobody says how
    much that is."""
    known = opengov_of(document)
    if known is None:
        return {}
    companies = len(known.records.surging)
    daily_quotes = known.quotes.rate_per_s * known.day_s / companies
    if known.is_unthrottled and daily_quotes < LEAST_QUOTES:  # else what leaves the join is about all that ever can
        raise UnknownWork(
            f"topology {known.name}: its sources are unthrottled, and its join emits a company at most once a day: the"
            f" more comes in, the smaller a share leaves it. rate_per_s is {known.quotes.rate_per_s:g}, with which a"
            f" company has {daily_quotes:.2g} quotes a day; allowed is {LEAST_QUOTES * companies / known.day_s:g} or"
            " more. Give about what the sources will emit as rate_per_s and contracts_per_s; they themselves ignore"
            " both"
        )
    quotes = known.quotes.per_day(companies, known.day_s)
    contracts = known.contracts.per_day(companies, known.day_s)
    surges = sum(
        daily * share * _both_seen(known.records.seen_days, daily)
        for daily, share in zip(quotes, known.records.surging, strict=True)
    )
    awards = sum(map(_awards, quotes, contracts, known.records.surging, [known.window_days] * companies))
    return {"SurgeFilterBolt": surges / sum(quotes), "AwardJoinBolt": awards / (surges + sum(contracts))}


def _both_seen(days: int | None, daily: float) -> float:
    """Of the quotes in a window with both prices, the share whose window has one of the older price: as they come at
    random, `daily` a day, there may be none."""
    if not days:
        return 1.0
    return sum(1.0 - math.exp(-daily * older) for older in range(1, days + 1)) / days


def _awards(quotes: float, contracts: float, surging: float, window_days: int) -> float:
    """Tuples a day of one company, at most one: it surges and had a contract within the window, or has one now; and
    for as long again its surge is within the window of a new contract."""
    quoted, today = 1.0 - math.exp(-quotes), 1.0 - math.exp(-contracts)
    within = 1.0 - math.exp(-contracts * window_days)
    return surging * (quoted * within + (1.0 - quoted) * today) + min(surging, 1.0 - surging) * today
