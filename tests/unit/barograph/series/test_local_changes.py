"""What had been changed since a commit is kept as a patch that gives that very code again; and code for a bundle."""

import os
from pathlib import Path

import pytest

from analysis.bundle.content import ArchiveEntry
from barograph.cli import bundle
from barograph.errors import ConfigurationError, ExperimentError
from barograph.plan.experiment import load
from barograph.series import provenance
from barograph.series.series import open_series
from tests.support.repositories import git


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "dags").mkdir(parents=True)
    (tree / "dags" / "one.py").write_text("one\n")
    (tree / "barograph.py").write_text("main\n")
    (tree / ".gitignore").write_text("*.log\n")
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "first")
    return tree


def test_a_patch_gives_the_changed_code_again(tree: Path, tmp_path: Path) -> None:
    assert provenance.work_tree_patch(tree) == b"" and provenance.save_patch(tmp_path, b"") is None
    (tree / "dags" / "one.py").write_text("one\nchanged")
    (tree / "dags" / "new.py").write_text("new\n\nwithout an end")
    (tree / "dags" / "run me").write_bytes(b"#!/bin/sh\r\n")
    (tree / "dags" / "run me").chmod(0o755)
    git(tree, "add", "--intent-to-add", "dags/new.py", "dags/run me")
    (tree / "notes-of-mine.txt").write_text("not of the house")
    name = provenance.save_patch(tmp_path, provenance.work_tree_patch(tree))
    assert name is not None and name.startswith("changes-")
    os.utime(tmp_path / name, (0, 0))
    assert provenance.save_patch(tmp_path, provenance.work_tree_patch(tree)) == name
    assert (tmp_path / name).stat().st_mtime == 0, "it is not written again: there may be no room for it"
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(tree), str(clone))
    git(clone, "apply", str(tmp_path / name))
    for path in ("dags/one.py", "dags/new.py", "dags/run me"):
        assert (clone / path).read_bytes() == (tree / path).read_bytes(), path
    assert (clone / "dags" / "run me").stat().st_mode & 0o100
    assert not (clone / "notes-of-mine.txt").exists()


def test_what_git_does_not_know_is_named_and_not_kept(tree: Path) -> None:
    (tree / "inventory").mkdir()
    (tree / "inventory" / "lab.ini").write_text("[all]\nbeta ansible_password=hunter2\n")
    (tree / "dags" / "ignored.log").write_text("x")
    assert provenance.work_tree_patch(tree) == b""
    assert provenance.unknown_files(tree) == ("inventory/lab.ini",)


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("dags/one.py", "beta ansible_become_pass=hunter2\n", "a password of Ansible"),
        ("dags/one.py", "-----BEGIN OPENSSH PRIVATE KEY-----\n", "a private key"),
        ("dags/one.py", "url = 'https://ann:hunter22@example.org/'\n", "a password in an address"),
        ("dags/one.py", "key = 'correct horse battery'\n", r"the value of \$BAROGRAPH_EMULAB_TOKEN"),
        ("dags/one.py", "Y29ycmVjdCBob3JzZSBiYXR0ZXJ5\n", r"the value of \$BAROGRAPH_EMULAB_TOKEN"),
        ("dags/id_rsa", "x\n", "a secret, by its name"),
    ],
)
def test_a_change_that_looks_like_a_secret_is_refused_by_name_before_there_is_a_series(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, what: str
) -> None:
    monkeypatch.setenv("BAROGRAPH_EMULAB_TOKEN", "correct horse battery")
    (tree / name).write_text(text)
    git(tree, "add", "-N", name)
    with pytest.raises(ExperimentError, match=f"^{name} is changed and not committed, and holds {what}; .*git stash"):
        provenance.work_tree_patch(tree)
    monkeypatch.setattr(provenance, "ROOT", tree)
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(provenance.work_tree_patch, "__defaults__", (tree,))
    with pytest.raises(ExperimentError, match=what):
        open_series(load("stela/star"))
    assert not (tmp_path / "results").exists()


def test_a_password_of_ansible_that_is_kept_elsewhere_is_none(tree: Path) -> None:
    text = "ansible_password: '{{ vault }}'\nansible_ssh_pass: !vault |\n"
    (tree / "dags" / "one.py").write_text(text)
    assert b"ansible_ssh_pass" in provenance.work_tree_patch(tree)


def test_a_bundle_with_code_that_holds_a_secret_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_WEBHOOK", "https://example.org/hook/of-nobody-at-all")
    (tmp_path / "lab.yaml").write_text("a: 1\nansible_password: hunter2\n")
    shaped = ArchiveEntry("source/1234/tests/a.py", b"-----BEGIN PRIVATE KEY-----")
    bundle.refuse_secrets([shaped])  # committed, as tests have such things
    with pytest.raises(ConfigurationError, match=r"lab\.yaml, line 2, holds a password of Ansible; take it out"):
        bundle.refuse_secrets([shaped, ArchiveEntry("code/analysis/lab.yaml", tmp_path / "lab.yaml")])
    with pytest.raises(ConfigurationError, match=r"^source/1234/b\.py, line 1, holds the value of \$BAROGRAPH_WEBHOOK"):
        bundle.refuse_secrets(
            [ArchiveEntry("source/1234/b.py", b"https%3A%2F%2Fexample.org%2Fhook%2Fof-nobody-at-all")]
        )


def test_outside_git_nothing_is_kept(tmp_path: Path) -> None:
    assert provenance.work_tree_patch(tmp_path) == b"" and provenance.unknown_files(tmp_path) == ()


def test_the_code_of_runs_is_that_of_their_commits(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = git(tree, "rev-parse", "HEAD")
    (tree / "dags" / "one.py").write_text("two\n")
    git(tree, "commit", "-q", "-a", "-m", "second")
    monkeypatch.setattr(bundle, "ROOT", tree)
    code = {"label": "main", "commit": first, "repository": ""}
    runs = {
        "a": {"git_commit": git(tree, "rev-parse", "HEAD"), "variant": {"name": "stela_a", "code": code}},
        "b": {"git_commit": first, "git_dirty": True, "git_changes": "changes-x.patch", "variant": {"name": "b"}},
        "c": {"git_commit": "f" * 40, "git_dirty": False},
    }
    found = bundle.sources_of(runs, tmp_path)
    content = {entry.name: entry.source for entry in found.entries}
    assert content[f"source/{first[:12]}/dags/one.py"] == b"one\n"
    assert content[f"source/{git(tree, 'rev-parse', 'HEAD')[:12]}/dags/one.py"] == b"two\n"
    assert content["source/work_tree/dags/one.py"] == tree / "dags" / "one.py"
    said = "\n".join(found.lines)
    assert "the code of the variant stela_a (main)" in said
    assert f"the work tree had been changed since {first[:12]}; the changes are in `series/changes-x.patch`" in said
    assert len(found.missing) == 1 and f"commit {'f' * 40} of this repository cannot be had" in found.missing[0]


def test_code_of_another_repository_that_is_not_mirrored_here_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAROGRAPH_HOME", str(tmp_path))
    code = {"label": "v2", "commit": "a" * 40, "repository": "https://example.org/s.git", "build": ["mvn", "package"]}
    found = bundle.sources_of({"a": {"variant": {"name": "theirs", "code": code}}}, tmp_path)
    assert found.entries == []
    assert found.lines == [
        f"commit {'a' * 40} of https://example.org/s.git cannot be had (it is not mirrored here): the code of the"
        " variant theirs (v2, built with `mvn package`)"
    ]
