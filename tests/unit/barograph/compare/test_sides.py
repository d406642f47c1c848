"""What people may say A and B are."""

from pathlib import Path

import pytest

from barograph.compare import request
from barograph.compare.sides import labels, read_side
from barograph.errors import ExperimentError

FOREIGN = """
label: theirs
repository: https://example.org/theirs.git
ref: v1.2
build: [mvn, -q, package]
jar: target/theirs.jar
scheduler: org.example.Theirs
conf: {theirs.window: 5}
rebalance: true
"""


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "theirs.yaml"
    path.write_text(text)
    return str(path)


def test_a_ref_is_code_of_this_repository() -> None:
    side = read_side(" my-branch ")
    assert (side.code.label, side.code.commit, side.code.repository, side.foreign) == ("my-branch",) * 2 + ("", False)


def test_a_file_is_a_scheduler_that_is_not_ours(tmp_path: Path) -> None:
    side = read_side(written(tmp_path, FOREIGN))
    assert side.foreign and side.code.label == "theirs" and side.code.commit == "v1.2"
    assert side.code.build == ("mvn", "-q", "package") and side.code.scheduler == "org.example.Theirs"
    assert side.code.repository == "https://example.org/theirs.git"
    assert side.parameters == {"conf": {"theirs.window": 5}, "rebalance": True}


@pytest.mark.parametrize("said", ["theirs", "./theirs", "../{here}/theirs"])
def test_a_repository_beside_the_file_is_found_from_everywhere(said: str, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    text = FOREIGN.replace("https://example.org/theirs.git", said.format(here=tmp_path.name))
    assert read_side(written(tmp_path, text)).code.repository == str(tmp_path / "theirs")


WRONG = [
    ("branch: x", "unknown key branch; known here: label, repository, ref, build, jar, scheduler, conf, rebalance"),
    ("label: theirs", "jar is missing"),
    ("[1]", "holds list, not a mapping"),
    ("a: [", "is not YAML"),
    (FOREIGN.replace("org.example.Theirs", "org/example"), "scheduler is 'org/example'; allowed: string should match"),
    (
        FOREIGN.replace("[mvn, -q, package]", "mvn package"),
        "build is 'mvn package'; allowed: input should be a valid list",
    ),
    (FOREIGN.replace("rebalance: true", "rebalance: maybe"), "rebalance is 'maybe'"),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_a_wrong_file_names_field_value_and_what_is_allowed(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ExperimentError) as caught:
        read_side(written(tmp_path, text))
    assert said in str(caught.value) and "theirs.yaml" in str(caught.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ExperimentError, match=r"nowhere.yaml: no such file; a side is a git ref, or"):
        read_side("nowhere.yaml")


def test_nothing_is_no_side() -> None:
    with pytest.raises(ExperimentError, match="is empty; give a git ref"):
        read_side(" ")


def test_sides_can_be_told_apart_also_where_they_are_the_same() -> None:
    assert labels(read_side("main"), read_side("fast")) == {"a": "main", "b": "fast"}
    assert labels(read_side("main"), read_side("main")) == {"a": "main (A)", "b": "main (B)"}


def test_a_form_chooses_among_the_files_that_are_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a file has commands run, and who may trigger a DAG must not bring one along."""
    registered = tmp_path / "schedulers"
    registered.mkdir()
    monkeypatch.setattr(request, "SCHEDULERS", registered)
    elsewhere = written(tmp_path, FOREIGN)
    (registered / "theirs.yaml").write_text(FOREIGN)
    (registered / "linked.yaml").symlink_to(elsewhere)
    sides = request.with_registered_sides({"a": "main", "b": "theirs.yaml", "blocks": 3})
    assert sides == {"a": "main", "b": str(registered / "theirs.yaml"), "blocks": 3}
    for said in (
        elsewhere,
        "../theirs.yaml",
        "schedulers/../../theirs.yaml",
        "linked.yaml",
        "other.yml",
        f" {elsewhere} ",
    ):
        with pytest.raises(ExperimentError, match=r"^b is .*; allowed in a form: a branch, .* theirs\.yaml"):
            request.with_registered_sides({"a": "main", "b": said})
