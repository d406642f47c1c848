"""Change points that were found before: looked up by everything that they depend on, so never out of date."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

from analysis.errors import RecordError
from analysis.history.changes import Candidate, change_points
from analysis.history.settings import Rule
from analysis.record import read_json, write_json_atomic

FILE = ".change_points.json"


@cache
def _method() -> str:
    """What finds them: another release of Otava, or of our own cleaning, finds others."""
    from importlib.metadata import PackageNotFoundError, version

    import analysis.history.changes as ours

    with suppress(PackageNotFoundError):
        return version("apache-otava") + hashlib.blake2b(Path(ours.__file__).read_bytes(), digest_size=8).hexdigest()
    return ""


class Remembered:
    """Asks Otava once for the same values; a damaged file is as good as none."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._known: dict[str, list[list[float]]] = {}
        self._used: dict[str, list[list[float]]] = {}
        self.asked = 0
        with suppress(RecordError, FileNotFoundError):
            self._known = read_json(self._path)["found"] if self._path.is_file() else {}

    def change_points(self, values: Sequence[float], rule: Rule) -> tuple[Candidate, ...]:
        key = _digest(values, rule)
        if key not in self._known:
            self.asked += 1
            self._known[key] = [[point.index, point.p] for point in change_points(values, rule)]
        self._used[key] = self._known[key]
        return tuple(Candidate(int(index), p) for index, p in self._known[key])

    def keep(self) -> None:
        """Store what was asked for this time; what was not is of no series any more."""
        write_json_atomic(self._path, {"v": 1, "found": self._used})


def _digest(values: Sequence[float], rule: Rule) -> str:
    content = (
        np.asarray(values, dtype=np.float64).tobytes()
        + json.dumps([rule.window_nights, rule.max_p, _method()]).encode()
    )
    return hashlib.blake2b(content, digest_size=12).hexdigest()
