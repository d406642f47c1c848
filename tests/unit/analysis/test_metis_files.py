"""METIS' graph and partition files: every format, and what is wrong with file and line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.metis_files import GraphFile, read_graph, read_partition
from barograph.errors import ConfigurationError

# Triangle 1–2–3; sizes 4, 5, 6; weights 7, 8, 9 (and 1, 2, 3); edges 12: 10, 13: 20, 23: 30.
SIZES, WEIGHTS, SECOND = (4, 5, 6), (7, 8, 9), (1, 2, 3)
EDGES = {(1, 2): 10, (1, 3): 20, (2, 1): 10, (2, 3): 30, (3, 1): 20, (3, 2): 30}
NINES = "9" * 5000  # more digits than Python reads
FORMATS = [f"{number:03b}" for number in range(8)]


def text_of(fmt: str, ncon: int = 1, *, shown: bool = True) -> str:
    head = "3 3" + (f" {fmt}" if shown else "") + (f" {ncon}" if ncon > 1 else "")
    lines = ["% a triangle", head]
    for vertex in (1, 2, 3):
        words = [SIZES[vertex - 1]] if fmt[0] == "1" else []
        words += [WEIGHTS[vertex - 1], SECOND[vertex - 1]][:ncon] if fmt[1] == "1" else []
        for (source, target), weight in EDGES.items():
            if source == vertex:
                words += [target, weight] if fmt[2] == "1" else [target]
        lines.append(" ".join(map(str, words)))
    return "\n".join([*lines[:3], "% in between", *lines[3:]]) + "\n"


def read(folder: Path, text: str) -> GraphFile:
    path = folder / "some.graph"
    path.write_text(text)
    return read_graph(path)


@pytest.mark.parametrize("fmt", FORMATS)
def test_every_format_is_read(fmt: str, tmp_path: Path) -> None:
    found = read(tmp_path, text_of(fmt))
    assert (found.vertices, found.edges) == (3, 3)
    pairs = zip(found.pairs.sources + 1, found.pairs.targets + 1, found.pairs.rates, strict=True)
    assert {(int(s), int(t)): rate for s, t, rate in pairs} == {
        pair: weight if fmt[2] == "1" else 1 for pair, weight in EDGES.items()
    }
    assert found.vertex_weights.ravel().tolist() == (list(WEIGHTS) if fmt[1] == "1" else [1, 1, 1])
    assert (None if found.vertex_sizes is None else found.vertex_sizes.tolist()) == (
        list(SIZES) if fmt[0] == "1" else None
    )


def test_several_weights_and_a_header_without_a_format(tmp_path: Path) -> None:
    assert read(tmp_path, text_of("111", 2)).vertex_weights.tolist() == [[7, 1], [8, 2], [9, 3]]
    assert read(tmp_path, text_of("000", shown=False)).pairs.rates.tolist() == [1.0] * 6


def test_short_formats_are_filled_with_zeros(tmp_path: Path) -> None:
    assert read(tmp_path, text_of("011").replace(" 011", " 11")).pairs.total() == 120


def test_a_vertex_alone_has_an_empty_line(tmp_path: Path) -> None:
    found = read(tmp_path, "3 1\n2\n1\n\n")
    assert found.vertices == 3 and len(found.pairs.rates) == 2


def test_a_comment_has_any_characters_and_ncon_0_is_1(tmp_path: Path) -> None:
    (tmp_path / "some.graph").write_bytes("% Århus … ".encode() + b"\xff\x85\x1c\n2 1 10 0\n7 2\n8 1\n")
    assert read_graph(tmp_path / "some.graph").vertex_weights.tolist() == [[7], [8]]


@pytest.mark.parametrize(
    "text", ["4 7\n1 2\n1 7 5 6\n5 6 4\n2 3 4\n", "4 7 1\n2 1 2\n3 1 7 5 6\n8 5 6 4\n7 2 3 4\n",
             "2 3 11\n9 1 2\n9 2 3\n5\n5\n5\n", "3 2\n1 2\n1 2\n2\n"],
)  # fmt: skip
def test_a_hypergraph_is_called_one(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"some\.graph is a hypergraph: \d hyperedges of \d vertices"):
        read(tmp_path, text)


def test_directed_weights_are_read_as_they_are(tmp_path: Path) -> None:
    assert read(tmp_path, "2 1 1\n2 50\n1 1\n").pairs.rates.tolist() == [50.0, 1.0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no header; a graph begins with: vertices edges"),
        ("% only a comment\n", "has no header"),
        ("3\n", "line 1: the header is '3'; allowed is: vertices edges"),
        ("3 x\n", "line 1: the header is '3 x'"),
        ("3 3 012\n", "line 1: the header has the fmt 012; allowed are three digits 0 or 1"),
        ("3 3 1111\n", "line 1: the header has the fmt 1111"),
        ("3 3 001 2\n", "line 1: the header has the ncon 2; allowed is none, as its fmt 001 has no vertex weights"),
        ("0 0\n", "line 1: the header says 0 vertices; allowed is 1 or more"),
        ("3 2\n2\n1 3\n", "the header says 3 vertices, and lines of 2 follow; is the file cut short"),
        ("% c\n2 1\n2\n1\n1\n", "line 5: more than the 2 vertices of the header"),
        ("2 1\n2\nx\n", "line 3: 'x' is no whole number"),
        ("2 1 1\n2 1.5\n1 1.5\n", "line 2: '1.5' is no whole number"),
        ("2 1 1\n2 5\n1\n", "line 3: so many numbers: 1; allowed are 0 and then a neighbour and a weight each"),
        ("2 1 10\n7 2\n\n", "line 3: so many numbers: 0; allowed are 1 and then neighbours"),
        ("2 1 10\n7 2\n-8 1\n", "line 3: weight or size -8; allowed is 0 or more"),
        ("2 1 1\n2 0\n1 0\n", "line 2: edge weight 0; allowed is 1 or more"),
        ("2 1\n3\n1\n", "line 2: neighbour 3; allowed are 1 to 2"),
        ("2 1\n2\n0\n", "line 3: neighbour 0; allowed are 1 to 2"),
        ("2 1\n2 1\n1\n", "line 2: a vertex is its own neighbour, 1; leave that out"),
        ("2 2\n2 2\n1 1\n", "line 2: twice the neighbour 2; allowed is once"),
        ("3 2\n2 3\n1\n2\n", "line 2: neighbour 3; whose line does not have this vertex"),
        ("2 5\n2\n1\n", "the header says 5 edges, so 10 neighbours; the lines have 2; is the file cut short"),
        ("2 1 1\n2 1\n1 99999999999999999999\n", "line 3: '99999999999999999999' is no number of 64 bits"),
        ("2 1 10\n7 2\n-99999999999999999999 1\n", "line 3: '-99999999999999999999' is no number of 64 bits"),
        (f"2 1 1\n2 {NINES}\n1 1\n", "line 2: '9999999999999999999999999999999999999999…' is no number of 64 bits"),
        ("2 1\n2\n--5\n", "line 3: '--5' is no whole number"),
        ("2 1\n2\n+-1\n", "line 3: '+-1' is no whole number"),
        ("2 1\n2\n-\n", "line 3: '-' is no whole number"),
        ("2 1 1\n2 1_0\n1 10\n", "line 2: '1_0' is no whole number"),
        (f"2 {NINES}\n2\n1\n", "line 1: the header is '2 99999999999999999999999999999999999999…'; allowed is: "),
        ("2 1 010 9999999999999999999\n", "line 1: the header is '2 1 010 9999999999999999999'; allowed is: "),
        ("2 1 010 999999999999999999\n7 2\n7 1\n", "line 2: so many numbers: 2; allowed are 999999999999999999 and"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"some\.graph") as wrong:
        read(tmp_path, text)
    assert said in str(wrong.value) and wrong.value.blame == "configuration"


def test_a_file_that_is_not_there_and_one_that_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file or directory; give a file of METIS"):
        read_graph(tmp_path / "none.graph")
    (tmp_path / "binary").write_bytes(b"2 1\n\xff\n1\n")
    with pytest.raises(ConfigurationError, match="line 2: '\ufffd' is no whole number"):
        read_graph(tmp_path / "binary")


def partition(folder: Path, text: str, vertices: int = 3, parts: int = 2) -> list[int]:
    (folder / "some.part").write_text(text)
    return list(read_partition(folder / "some.part", vertices, parts))


def test_a_partition_is_a_line_a_vertex(tmp_path: Path) -> None:
    assert np.array_equal(partition(tmp_path, "0\n1\n0\n\n"), [0, 1, 0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0\n1\n", "has 2 parts and the graph 3 vertices; give its own partition"),
        ("0\n2\n1\n", "line 2: part 2; allowed are 0 to 1, as --parts is 2"),
        ("0\n-1\n1\n", "line 2: part -1; allowed are 0 to 1"),
        ("0\n1 1\n1\n", "line 2: several numbers; a partition has one a line"),
        ("0\none\n1\n", "line 2: 'one' is no whole number"),
        ("0\n--1\n1\n", "line 2: '--1' is no whole number"),
        (f"0\n{NINES}\n1\n", "line 2: '9999999999999999999999999999999999999999…' is no number of 64 bits"),
    ],
)
def test_a_wrong_partition_is_said_with_file_and_line(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"some\.part") as wrong:
        partition(tmp_path, text)
    assert said in str(wrong.value)
