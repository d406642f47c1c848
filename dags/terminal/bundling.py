"""`barograph bundle`: which series or run, the code that ran it, and the archive that all of it goes into."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from analysis import analysed, comparison, dictionary
from analysis.bundle import archive, facts, readme, remake, requirements
from analysis.bundle.archive import Entry
from analysis.bundle.content import Chosen, choose
from analysis.bundle.reduced import reduced
from analysis.bundle.remaking import BESIDE
from analysis.comparison import on_record
from analysis.comparison.answer import RESULT, as_data
from analysis.errors import BundleError, RecordError
from analysis.record import SeriesPaths, read_json
from dags.errors import ExperimentError
from dags.places import ROOT
from dags.terminal.code_of_runs import Source, sources_of

Tell = Callable[[str], None]
SUFFIX = ".tar.gz"
OF_THE_RECORD = ("runs", "machines", "measurements")


def bundle(name: str, to: Path | None, *, without_raw: bool, tell: Tell) -> int:
    """The archive of a series, or of one of its runs; what cannot be is said before anything is written."""
    from dags.results import results_of

    series_dir, run_id = found(name)
    target = target_of(series_dir, run_id, to)
    require_run(series_dir, run_id)
    require_analysed(series_dir)
    if run_id is None and comparison.is_comparison(series_dir):
        require_answered(series_dir)
    with (
        results_of(series_dir).whole(series_dir) as root,
        _scratch(target) as scratch,
        _one(root, run_id, scratch) as one,
    ):
        chosen = choose(one, without_raw=without_raw, environment=os.environ)
        told = facts.of_series(one)
        sources = sources_of(told.runs, scratch)
        own = [*_own(one, run_id, told, chosen, sources), *_code(), *_beside(series_dir, one)]
        entries = [*chosen.entries, *own, *sources.entries]
        archive.write(target, target.name.removesuffix(SUFFIX), entries)
    for each, why in sorted(chosen.left_out.items()):
        tell(f"left out: {each}: {why}")
    for line in sources.missing:
        tell(f"note: {line}")
    tell(f"bundle: {target} ({target.stat().st_size / 1e6:.1f} MB, {len(entries)} files); python3 remake.py in it")
    return 0


# --- what, and where to ----------------------------------------------------------------------------------------------


def found(name: str) -> tuple[Path, str | None]:
    """A series, or SERIES/RUN, or a run's folder. Raises ExperimentError for neither."""
    from dags.series import find_series

    try:
        return find_series(name), None
    except ExperimentError:
        series, _, run_id = name.rstrip("/").rpartition("/")
        series = series.removesuffix("/runs")
        if not series:
            raise
        try:
            return find_series(series), run_id
        except ExperimentError:
            pass
        raise


def target_of(series_dir: Path, run_id: str | None, to: Path | None) -> Path:
    """Never a file that is there."""
    experiment = "-".join(series_dir.parts[-3:-1])
    own = f"barograph-{experiment}-{series_dir.name}{f'-{run_id}' if run_id else ''}{SUFFIX}"
    target = (to or Path(own)).absolute()
    if not target.name.endswith(SUFFIX) or target.name == SUFFIX:
        raise BundleError(f"--to {to} does not end in {SUFFIX}; give a file such as {own}")
    if target.exists():
        raise BundleError(f"{target} exists; nothing is overwritten: give --to another name, or remove it")
    if not target.parent.is_dir():
        raise BundleError(f"--to {to}: there is no folder {target.parent}; make it")
    return target


def require_run(series_dir: Path, run_id: str | None) -> None:
    """Of those that the series planned: in a bucket their records are not here yet."""
    from dags.series import series_document

    planned = series_document(series_dir).get("runs", [])
    if run_id is not None and run_id not in planned:
        raise BundleError(f"series {series_dir.name} has no run {run_id!r}; it has {', '.join(planned) or 'none'}")


def require_analysed(series_dir: Path) -> None:
    """Its tables must be of the code that would be bundled: else re-making them could not give the same."""
    made_by = analysed.made_by(series_dir)
    if made_by == analysed.digest():
        return
    why = "was not analysed" if made_by is None else "was analysed by another version of this code"
    raise BundleError(
        f"series {series_dir.name} {why}, so what is re-made need not be what is bundled; run barograph report"
        f" {series_dir}, then bundle"
    )


def require_answered(series_dir: Path) -> None:
    """A comparison's answer must be that of the A/A comparisons that go along: its floor is taken from them."""
    answer = series_dir / RESULT
    now = json.loads(json.dumps(as_data(comparison.compare(series_dir))))
    if not answer.is_file() or read_json(answer) != now:
        raise BundleError(
            f"{answer} is not what the comparison says today, as after comparisons of a code with itself that are on"
            f" record since; run barograph report {series_dir}, then bundle"
        )


@contextmanager
def _scratch(target: Path) -> Iterator[Path]:
    """Beside the archive, where there is room for it."""
    with tempfile.TemporaryDirectory(prefix=".bundle-", dir=target.parent) as folder:
        yield Path(folder)


@contextmanager
def _one(root: Path, run_id: str | None, scratch: Path) -> Iterator[Path]:
    if run_id is None:
        yield root
        return
    with reduced(root, run_id, scratch) as one:
        yield one


# --- what is in it beside the series ---------------------------------------------------------------------------------


def _own(root: Path, run_id: str | None, told: facts.Facts, chosen: Chosen, sources: Source) -> Iterator[Entry]:
    words = readme.Told(
        _title(told.series, run_id), run_id, told, _claims(root, told.series), sources.lines, chosen.left_out,
        chosen.homes,
    )  # fmt: skip
    pinned = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    yield Entry("README.md", readme.text(words).encode())
    yield Entry("remake.py", Path(remake.__file__), executable=True)
    yield Entry("environment.json", _as_json(told.environment(chosen.left_out)))
    yield Entry("requirements.txt", pinned.encode())
    yield Entry("requirements-analysis.txt", requirements.needed(pinned, analysed.DISTRIBUTIONS).encode())
    yield Entry("tables.md", dictionary.markdown().encode())
    yield Entry("specs/experiment.json", _as_json(told.series.get("spec") or {}))
    for run in SeriesPaths(root).all_runs():
        if (run.root / "topology.yaml").is_file():
            yield Entry(f"specs/topologies/{run.run_id}.yaml", run.root / "topology.yaml")


def _code() -> Iterator[Entry]:
    """What `remake.py` runs: the code whose digest the series was analysed by."""
    for name, path in analysed.code().items():
        yield Entry(f"code/{name}", path)


def _beside(series_dir: Path, one: Path) -> Iterator[Entry]:
    """Of a comparison what it takes from A/A comparisons on record: their differences are its floor."""
    if not comparison.is_comparison(one):
        return
    for folder in on_record.others(series_dir):
        wanted = [folder / "series.json", folder / "comparison.json"]
        wanted += [path for name in OF_THE_RECORD for path in sorted(SeriesPaths(folder).table(name).glob("*.parquet"))]
        yield from (Entry(f"{BESIDE}/{path.relative_to(folder.parent).as_posix()}", path) for path in wanted)


def _title(series: Mapping[str, Any], run_id: str | None) -> str:
    title = (series.get("spec") or {}).get("title") or series.get("experiment") or "A series"
    return f"{title}: the run {run_id}" if run_id else str(title)


def _claims(root: Path, series: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Rows of the ledger that the experiment tests."""
    try:
        rows: list[Mapping[str, Any]] = read_json(root / "claims.json")["claims"]
    except (RecordError, KeyError):
        return []
    return [row for row in rows if row.get("experiment") == series.get("experiment")]


def _as_json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
