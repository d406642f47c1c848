"""Everything that the code of an experiment's variants needs, before its series is opened and machines are touched."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from dags.experiment import Code, Experiment
from dags.places import results_root
from dags.series import read_series
from dags.software import storm_home
from dags.sources.build import built, codes_of, place_of
from dags.sources.errors import SourceError
from dags.sources.fitness import require_fit
from dags.sources.homes import home_of
from dags.sources.mirror import sources_home
from dags.sources.store import Tell, prune
from dags.testbeds import IN_MEMORY
from inventory import leases

KEPT = 24  # builds, of all repositories


def prepare(experiment: Experiment, tell: Tell, *, rebuild: bool = False, pack: bool = True) -> None:
    """Builds, asks, and packs if `pack`; what is there already is only looked at. `experiment` is resolved.

    Raises SourceError naming the variants; with `rebuild` what failed or was built before is built again.
    """
    codes = codes_of(experiment.variants)
    if not codes:
        return
    for code in codes:
        with _of_variants(experiment, code):
            built(code, tell, rebuild=rebuild)
    require_fit(experiment)
    if pack and experiment.testbed.name not in IN_MEMORY:
        base = storm_home(tell)
        for code in codes:
            with _of_variants(experiment, code):
                home_of(code, base, tell, rebuild=rebuild)
    _tidy(experiment)


@contextmanager
def _of_variants(experiment: Experiment, code: Code) -> Iterator[None]:
    """Errors say whose code it is."""
    try:
        yield
    except SourceError as error:
        names = ", ".join(variant.name for variant in experiment.variants if variant.code == code)
        raise type(error)(f"code of {names}: {error}") from error


def _tidy(experiment: Experiment) -> None:
    """The oldest builds go; none of this experiment, and none of a series that somebody is doing."""
    doing = [experiment, *_live()]
    used = {place_of(code) for each in doing for code in codes_of(each.variants)}
    prune(sources_home(), "*/*", used, KEPT)


def _live() -> list[Experiment]:
    now = time.time()
    series = [lease.series_id for lease in leases.read_all() if leases.is_live(lease, now)]
    found = [path for name in series for path in results_root().glob(f"*/*/{name}")]
    return [read_series(folder).experiment for folder in found if (folder / "series.json").is_file()]
