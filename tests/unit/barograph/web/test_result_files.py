"""What is given out from the results: files of known kinds below them, and nothing else whatever it is called."""

from pathlib import Path

import pytest

from barograph.web import result_files
from barograph.web.result_files import dag_of, dags_of, experiment_folders


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "results"
    series = root / "stela" / "star" / "s1"
    (series / "figures").mkdir(parents=True)
    for name in ("report.html", "claims.json", "machines.json", "harness.log", "figures/cpu.svg", ".sent.json"):
        (series / name).write_text("x")
    (root / "index.html").write_text("x")
    (root / ".harness-id").write_text("x")
    (tmp_path / "secret.html").write_text("x")
    (series / "out.html").symlink_to(tmp_path / "secret.html")
    (root / "compare" / "stela_star").mkdir(parents=True)
    return root


@pytest.mark.parametrize("name", ["index.html", "stela/star/s1/report.html", "stela/star/s1/figures/cpu.svg"])
def test_what_readers_want_is_given_out(root: Path, name: str) -> None:
    found = result_files.find_file(root, name)
    assert found is not None and found.file == root / name


@pytest.mark.parametrize(
    "name",
    [
        "../secret.html", "stela/../../secret.html", "stela/star/s1/../../../../secret.html", "/etc/hosts.html",
        "stela/star/s1/out.html",  # a link that leads outside
        "stela/star/s1/machines.json", "stela/star/s1/harness.log", "stela/star/s1/.sent.json", ".harness-id",
        "stela/star/s1/none.html", "stela/star/s1", "stela/star/s1/", "", "stela//star/s1/report.html",
        "stela/star/s1/report.html\0.html", "..\\secret.html", "stela/./star/s1/report.html", "a" * 300 + ".html",
    ],
)  # fmt: skip
def test_nothing_else_is(root: Path, name: str) -> None:
    assert result_files.find_file(root, name) is None


def test_a_results_folder_that_is_a_link_itself_is_served(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert result_files.find_file(tmp_path / "link", "index.html") is not None
    assert result_files.name_of_folder(tmp_path / "link", str(root / "stela" / "star" / "s1")) == "stela/star/s1"


@pytest.mark.parametrize("folder", ["/etc", "stela/star/s1", "../x", ""])
def test_a_folder_elsewhere_has_no_name_here(root: Path, folder: str) -> None:
    assert result_files.name_of_folder(root, folder) is None
    assert result_files.name_of_folder(root, str(root)) is None


@pytest.mark.parametrize(
    ("name", "dag"),
    [
        ("stela/star/s1/report.html", "stela.star"), ("compare/stela_star/s1/report.html", "compare_branches"),
        ("nightly/quick/index.html", "nightly.quick"), ("index.html", None), ("stela/report.html", None),
        ("bisect/20261121-084501-a1b2c3d4/index.html", "compare_branches"),
    ],
)  # fmt: skip
def test_whose_a_file_is(name: str, dag: str | None) -> None:
    assert dag_of(name) == dag


def test_a_page_over_several_asks_for_the_right_to_each(root: Path) -> None:
    (root / "metis" / "opengov").mkdir(parents=True)
    (root / ".cache" / "x").mkdir(parents=True)
    assert experiment_folders(root) == ("compare/stela_star", "metis/opengov", "stela/star")
    assert dags_of(root, "index.html") == {"stela.star", "metis.opengov", "compare_branches"}
    assert dags_of(root, "stela/report.html") == {"stela.star"}
    assert dags_of(root, "**/report.html") == frozenset(), "a family is a name, not a pattern"
