"""A series that was analysed by this code, as far as that goes without Spark, and its bundle, unpacked."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from analysis import compare as answering
from analysis import provenance
from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from analysis.report import series_page
from tests.support import compared_series as compared
from tests.support.compared_series import FACTS, SideOf
from tests.support.series_by_hand import write_series, write_table

SERIES_ID = "20260101-000000-aa"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def series(results: Path) -> Path:
    """`results/stela/star/<id>` with tables, figures, report and a few raw lines."""
    root = write_series(results / "stela" / "star" / SERIES_ID, "stela/star", {"even_rebalance": 90.0, "stela": 150.0})
    runs = sorted(folder.name for folder in (root / "runs").iterdir())
    document = {"v": 1, "series_id": SERIES_ID, "experiment": "stela/star", "runs": runs, "opened_s": 1.0,
                "spec": {"title": "Scale-out of star", "name": "stela/star"}}  # fmt: skip
    (root / "series.json").write_text(json.dumps(document))
    for run in runs:
        _finish(root / "runs" / run, run)
    paths = SeriesPaths(root)
    for name in ("runs", "intervals", "convergence", "downtime"):  # with all of their columns
        small_tables.write(paths, name, small_tables.rows(paths, name))
    series_page.build_report(root)
    (root / "analysed.json").write_text(
        json.dumps({"v": 1, "code": provenance.code_digest(), "versions": {"python": "3"}})
    )
    (root / "harness.log").write_text("DagBag from /home/somebody/barograph/dags\n")
    (root / "machines.json").write_text("{}")
    (root / ".unsent").touch()
    (root / "tables" / "runs.parquet" / "_SUCCESS").touch()
    return root


def comparison(results: Path) -> Path:
    """Three blocks of a comparison, beside six of a code with itself, which its floor is taken from."""
    family = results / "compare" / "stela_star"
    noise = [100.0 * factor for factor in (1.0, 1.2) * 3]
    sides = SideOf({"throughput_after": [100.0] * 6}), SideOf({"throughput_after": noise})
    aside = compared.write(family / "20251231-000000-aa", {"stela": sides}, sides=compared.same_code())
    root = write_series(family / SERIES_ID, "compare/stela_star", {"stela_a": 100.0, "stela_b": 110.0})
    paths, beside = SeriesPaths(root), SeriesPaths(aside)
    runs = [run | {"block": int(run["run_id"][-1]), "harness_facts": FACTS} for run in small_tables.rows(paths, "runs")]
    small_tables.write(paths, "runs", runs)
    for name in ("intervals", "convergence", "downtime"):  # with all of their columns
        small_tables.write(paths, name, small_tables.rows(paths, name))
    levels = {row["run_id"]: row["mean"] for row in small_tables.rows(paths, "intervals") if row["phase"] == "after"}
    write_table(root, "measurements", [
        {"run_id": run, "event_id": "e1", "metric": "throughput_after", "value": level, "censored": False}
        for run, level in levels.items()
    ])  # fmt: skip
    small_tables.write(paths, "machines", small_tables.rows(beside, "machines"))
    document = json.loads((aside / "series.json").read_text())
    document |= {"series_id": SERIES_ID, "experiment": "compare/stela_star", "runs": sorted(levels)}
    (root / "series.json").write_text(json.dumps(document))
    (root / "comparison.json").write_text(json.dumps(compared.question(["stela"])))
    for run in levels:
        _finish(root / "runs" / run, run)
    series_page.build_report(root)
    answering.write(root)
    (root / "analysed.json").write_text(
        json.dumps({"v": 1, "code": provenance.code_digest(), "versions": {"python": "3"}})
    )
    return root


def _finish(folder: Path, run: str) -> None:
    document = json.loads((folder / "run.json").read_text())
    document |= {
        "status": "complete", "git_commit": COMMIT, "git_dirty": True, "git_changes": None,
        "variant": {"name": run.rpartition("-r")[0]}, "versions": {"storm": "2.8.3"},
        "machines": {f"m{n}": {"cores": 0.25, "memory_mb": 512, "slots": 4} for n in (1, 2)},
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(document))
    (folder / "topology.yaml").write_text("name: pair\n")
    for name in ("workers/m1-6700.jsonl", "machines/m1.jsonl", "logs/master/nimbus.log"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("submission for star (storm-2.8.3 JDK-17.0.21) with conf\n")


def unpacked(archive: Path, into: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(into)
    (folder,) = into.iterdir()
    return folder


def remake(folder: Path, elsewhere: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """As on another machine: a home with nothing in it, another folder, none of our variables."""
    home = elsewhere / "home"
    home.mkdir(parents=True, exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    argv = [sys.executable, str(folder / "remake.py"), *options]
    return subprocess.run(argv, cwd=home, env=environment, capture_output=True, text=True)


def sign_again(folder: Path, *names: str) -> None:
    """The sums of files that a test has changed, as if they had been packed so."""
    sums = folder / "SHA256SUMS"
    lines = dict(reversed(line.split("  ", 1)) for line in sums.read_text().splitlines())  # type: ignore[misc,arg-type]
    lines |= {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    sums.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(lines.items())))
