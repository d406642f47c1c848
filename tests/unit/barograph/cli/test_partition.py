"""`barograph partition`: methods side by side, on a small graph and on those that the paper's authors published."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from analysis import metis_files, pipeline
from barograph import cli
from barograph.plan.experiment import load, with_changes
from barograph.series.series import open_series
from barograph.settings import ROOT
from tests.support.fake_metis import put_fake_metis
from tests.support.graphs_by_hand import stages

# Communication graphs of the paper's authors, which are no part of this repository.
PUBLISHED = Path(os.environ.get("BAROGRAPH_PAPER_DATA") or Path(__file__).parents[5] / "shared" / "data") / "metis"

PAGE = ROOT / "docs" / "policies.md"

# Two rings of four that one edge joins; the edges 1–2 and 5–6 weigh ten times as much as the others.
RINGS = """% two rings
8 9 001
2 10 4 1 5 1
1 10 3 1
2 1 4 1
3 1 1 1
6 10 8 1 1 1
5 10 7 1
6 1 8 1
7 1 5 1
"""


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "rings.graph"
    path.write_text(RINGS)
    return path


def compared(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, Any]]:
    """By method."""
    assert cli.main(["partition", *words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["v"] == 1
    return {each["method"]: each for each in document["methods"]}


def test_each_method_has_a_line(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (graph.parent / "own.part").write_text("0\n0\n0\n0\n1\n1\n1\n1\n")
    found = compared(capsys, str(graph), "--parts", "2", "--partition", str(graph.parent / "own.part"))
    assert list(found) == ["METIS vol", "METIS cut", "greedy", "round robin", "given"]
    share = 100 * 1 / 27  # of one edge of weight 1 in 27
    own = {name: value for name, value in found["given"].items() if name != "method"}
    assert own == {"crossing_percent": pytest.approx(share), "volume": 2, "imbalance": 1.0, "seconds": None}
    assert found["METIS cut"]["crossing_percent"] == found["METIS vol"]["crossing_percent"] == pytest.approx(share)
    assert found["round robin"]["crossing_percent"] == pytest.approx(100 * 26 / 27)
    assert all(each["seconds"] >= 0 for each in found.values() if each["seconds"] is not None)


def test_without_pymetis_the_others_have_their_lines(
    graph: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    assert cli.main(["partition", str(graph), "--parts", "2"]) == 0
    shown = capsys.readouterr()
    assert "METIS" not in shown.out and "round robin" in shown.out
    assert "note: without METIS vol: the Python that decides has no pymetis" in shown.err


def test_sizes_of_vertices_count_in_the_volume_and_a_note_says_that_metis_has_them_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, own = tmp_path / "sizes.graph", tmp_path / "own.part"
    path.write_text("3 2 100\n5 2\n7 1 3\n9 2\n")
    own.write_text("0\n0\n1\n")
    assert cli.main(["partition", str(path), "--parts", "2", "--partition", str(own), "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["methods"][-1]["volume"] == 7 + 9
    assert "METIS is called without the vertices' sizes" in shown.err


def test_what_metis_prints_by_itself_is_not_among_our_output(tmp_path: Path) -> None:
    chain = tmp_path / "chain.graph"
    chain.write_text("4 3 010\n90 2\n1 1 3\n1 2 4\n1 3\n")
    argv = [sys.executable, "-m", "barograph", "partition", str(chain), "--parts", "4", "--json"]
    ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(ended.stdout)["parts"] == 4
    assert "***" not in ended.stderr  # METIS says so of "too many parts"


def all_to_all(path: Path, width: int, depth: int) -> Path:
    """A graph file of stages each of whose vertices sends to all of the next."""
    pairs = stages(width, depth)
    neighbours: dict[int, list[int]] = {vertex: [] for vertex in range(width * depth)}
    for one, other in zip(pairs.sources.tolist(), pairs.targets.tolist(), strict=True):
        neighbours[one].append(other + 1)
        neighbours[other].append(one + 1)
    lines = [" ".join(map(str, mine)) for mine in neighbours.values()]
    path.write_text("\n".join([f"{len(lines)} {len(pairs.rates)}", *lines, ""]))
    return path


def test_where_metis_ends_its_process_the_others_have_their_lines(
    graph: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_fake_metis(graph.parent, "os.abort()")
    monkeypatch.syspath_prepend(graph.parent)
    assert cli.main(["partition", str(graph), "--parts", "2"]) == 0
    shown = capsys.readouterr()
    assert "METIS" not in shown.out and "round robin" in shown.out
    for objective in ("vol", "cut"):
        assert f"note: without METIS {objective}: METIS' process was ended by signal 6 (Aborted)" in shown.err


def test_where_k_way_leaves_parts_empty_the_line_of_vol_is_that_of_bisection(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = all_to_all(tmp_path / "stages.graph", 20, 3)
    assert cli.main(["partition", str(graph), "--parts", "20", "--json", "--objective", "vol"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["methods"][0]["method"] == "METIS vol, recursive"
    assert "note: METIS vol: by recursive bisection: k-way leaves 11 of 20 parts empty, imbalance 2.33" in shown.err


def test_a_note_says_where_metis_misses_its_imbalance(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Eight vertices in three parts: one has three of them or more."""
    words = ["partition", str(graph), "--parts", "3", "--objective", "cut", "--imbalance"]
    assert cli.main([*words, "1.03"]) == 0
    missed = "with seed 2; imbalance 1.125, more than the 1.03 that it aims for; whole vertices allow 1.125"
    assert missed in capsys.readouterr().err
    assert cli.main([*words, "1.2"]) == 0
    assert "; imbalance" not in capsys.readouterr().err


def test_a_graph_without_edges_is_shared_by_weight_and_a_note_says_that_metis_was_not_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """100 and 1 in each part, though vertices alternate."""
    apart = tmp_path / "apart.graph"
    apart.write_text("4 0 010\n100\n1\n100\n1\n")
    assert cli.main(["partition", str(apart), "--parts", "2", "--json"]) == 0
    shown = capsys.readouterr()
    imbalance = {each["method"]: each["imbalance"] for each in json.loads(shown.out)["methods"]}
    assert imbalance["METIS vol"] == imbalance["METIS cut"] == 1.0
    assert imbalance["round robin"] == pytest.approx(200 / 101)
    assert "note: the graph has no edges, so METIS is not called" in shown.err


def test_no_number_of_the_table_is_cut_on_a_narrow_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a volume that 64 bits do not hold is not wrapped around."""
    monkeypatch.setenv("COLUMNS", "80")
    large = 2**62
    heavy = tmp_path / "heavy.graph"
    heavy.write_text(f"4 3 110\n{large} 90 2\n{large} 1 1 3\n{large} 1 2 4\n{large} 1 3\n")
    assert cli.main(["partition", str(heavy), "--parts", "2"]) == 0
    out = capsys.readouterr().out
    rows = {words[0]: words for line in out.splitlines()[2:] if (words := re.split(r"  +", line.strip()))}
    assert "…" not in out and "greedy, no_room least_loaded" in rows
    assert rows["round robin"][2] == str(4 * large) and len(rows["round robin"]) == 5


def test_no_file_is_written_over_unasked(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    into = graph.parent / "rings.part"
    into.write_text("mine\n")
    words = ["partition", str(graph), "--parts", "2", "--into", str(into), "--method", "round_robin"]
    assert cli.main(words) == 2
    assert "rings.part, which is there; --overwrite writes over it" in capsys.readouterr().err
    assert into.read_text() == "mine\n"
    assert cli.main([*words, "--overwrite"]) == 0
    assert into.read_text() == "0\n1\n" * 4 and "rings.part: the parts of round robin" in capsys.readouterr().err


def test_of_a_method_that_cannot_be_had_nothing_is_written(
    graph: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    into = graph.parent / "rings.part"
    assert cli.main(["partition", str(graph), "--parts", "2", "--into", str(into), "--method", "cut"]) == 2
    assert "nothing is written, for METIS cut gave no parts" in capsys.readouterr().err
    assert not into.exists()


def test_the_page_shows_what_the_command_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    section = PAGE.read_text().partition("## Partitioning a graph\n")[2]
    graph, _, shown, parts = re.findall(r"^```\n(.*?)^```\n", section, re.DOTALL | re.MULTILINE)
    assert graph.count("\n") == 6
    (tmp_path / "four.graph").write_text(graph)
    into = tmp_path / "four.part"
    words = ["--parts", "2", "--into", str(into), "--method", "cut"]
    assert cli.main(["partition", str(tmp_path / "four.graph"), *words]) == 0

    def rows(text: str) -> list[list[str]]:
        """Without how long it took."""
        return [line.split()[:-1] for line in text.splitlines()[1:] if line.strip()]

    assert rows(capsys.readouterr().out) == rows(shown)
    assert into.read_text() == parts


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--parts", "2", "--method", "cut"), "--method and --overwrite are for --into; add it"),
        (("--parts", "2", "--into", "x.part"), "one --method, which is missing; give one of vol, cut, greedy"),
        (
            ("--parts", "2", "--into", "x.part", "--method", "cut", "--objective", "vol"),
            "cut is none of this call; give one of vol, greedy, round_robin",
        ),
        (("--parts", "2", "--into", "none/x.part", "--method", "cut"), "--into is none/x.part; its folder is not"),
        (("--parts", "2", "--into", "/proc/x.part", "--method", "cut"), "x.part, which cannot be written: "),
        (("--parts", "2", "--into", "x" * 250, "--method", "cut"), "which cannot be written: File name too long; give"),
        (
            ("--parts", "2", "--into", "x" * 5000, "--method", "cut"),
            "which cannot be written: File name too long; give",
        ),
        (("--parts", "2", "--into", "/", "--method", "cut", "--overwrite"), "--into is /, which is no file"),
        (("--parts", "9"), "--parts is 9 of"),
        (("--parts", "1"), "allowed are 2 to 8, the number of vertices"),
        (("--parts", "2", "--imbalance", "1"), "--imbalance is 1; allowed are 1.001 to 100"),
        (("--parts", "2", "--seed", "-1"), "--seed is -1; allowed are 0 to"),
        (("--parts", "2", "--partition", "none"), "none: No such file or directory"),
    ],
)
def test_wrong_words_end_with_2(
    words: tuple[str, ...], said: str, graph: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["partition", str(graph), *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", [("",), ("x.graph", "--into", ""), ("x.graph", "--partition", "")])
def test_a_file_without_a_name_is_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["partition", *words, "--parts", "2"])
    assert "the name is empty; give a file" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_after_all_is_the_users_to_mend(
    graph: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder goes while the parts are computed."""

    def refuse(path: Path, _text: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(metis_files, "write_text_atomic", refuse)
    into = graph.parent / "x.part"
    assert cli.main(["partition", str(graph), "--parts", "2", "--into", str(into), "--method", "greedy"]) == 2
    assert "x.part cannot be written: Permission denied; give another file" in capsys.readouterr().err
    assert list(graph.parent.iterdir()) == [graph]


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the authors' graphs are not on this machine")
@pytest.mark.parametrize(
    ("name", "parts", "theirs", "imbalance", "round_robin"),
    [
        ("opengov_year", 12, 35.93, 1.031, 94.12),
        ("opengov_month_01", 12, 36.93, 1.036, 93.54),
        ("storm-scheduler", 20, 80.28, 1.184, 69.83),
    ],
)
def test_the_authors_graphs_and_partitions(
    name: str, parts: int, theirs: float, imbalance: float, round_robin: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their numbers were added up from the files by awk."""
    graph, given = PUBLISHED / f"{name}.graph", PUBLISHED / f"{name}.part.{parts}"
    found = compared(capsys, str(graph), "--parts", str(parts), "--partition", str(given))
    crossing = {method: each["crossing_percent"] for method, each in found.items()}
    assert crossing["given"] == pytest.approx(theirs, abs=0.01)
    assert found["given"]["imbalance"] == pytest.approx(imbalance, abs=0.001)
    assert crossing["round robin"] == pytest.approx(round_robin, abs=0.01)
    assert crossing["METIS cut"] < 0.5 * crossing["given"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "is there already"),
        ("none/new.graph", "its folder is not there"),
        ("/proc/new.graph", "which cannot be written"),
    ],
)
def test_a_graph_is_written_to_a_new_file_only(
    graph: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    """It is said before Spark is started."""
    into = graph.parent / name if name else graph
    assert cli.main(["graph", "stela/star", "stela-r1", "--into", str(into)]) == 2
    assert words in capsys.readouterr().err
    assert graph.read_text() == RINGS


@pytest.mark.usefixtures("own_folders")
def test_the_graph_of_a_simulated_run_is_had_by_its_testbed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An experiment's newest series on machines is meant otherwise. No Spark is started here."""
    simulated = open_series(with_changes(load("metis/payload"), {"testbed": "simulated"}), now_s=1000.0)
    asked: list[Path] = []

    def graph_of(series: Path, *_: object, **__: object) -> tuple[int, int]:
        asked.append(series)
        return 80, 70

    monkeypatch.setattr(pipeline, "communication_graph", graph_of)
    words = ["graph", "metis/payload", "metis-r1", "--into", str(tmp_path / "payload.graph")]
    assert cli.main(words) == 2
    assert "no series of metis/payload on machines (1 simulated" in capsys.readouterr().err
    assert cli.main([*words, "--testbed", "simulated"]) == 0
    assert asked == [simulated.folder] and "80 tasks, 70 edges" in capsys.readouterr().out
