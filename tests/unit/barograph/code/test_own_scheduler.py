"""The tutorial `docs/test_your_scheduler.md`: its sample is built by its own command, and its YAML hosts the jar."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from barograph.code.build import build_code, build_folder, jar_of
from barograph.code.errors import NoSuchRef, NoSuchRepository, Unfit
from barograph.code.refs import resolve_code, resolve_experiment
from barograph.compare.sides import read_side
from barograph.errors import ExperimentError
from barograph.plan.checks import check
from barograph.plan.experiment import Code, load, with_changes
from barograph.settings import ROOT
from tests.support.repositories import jar

pytestmark = pytest.mark.usefixtures("own_folders")
PAGE = (ROOT / "docs" / "test_your_scheduler.md").read_text()
THEIRS = "org.example.Theirs"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_sample_is_built_and_hosted_as_the_tutorial_says(tmp_path: Path) -> None:
    folder = tmp_path / "own_scheduler"
    (build,) = [block for block in blocks("sh") if "mvn" in block]
    for line in build.splitlines():
        command = shlex.split(line.replace("/tmp/own_scheduler", str(folder)))
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (text,) = [block for block in blocks("yaml") if block.startswith("title:")]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "star.yaml").write_text(text.replace("/tmp/own_scheduler", str(folder)))
    experiment = resolve_experiment(with_changes(load("mine/star", tmp_path), {"testbed": "fake"}))
    check(experiment)
    code = experiment.variants[1].code
    assert code is not None and build_code(code, print).is_dir()
    assert jar_of(code).read_bytes() == (folder / "target" / "own-scheduler.jar").read_bytes()


def test_the_sides_of_the_tutorial_are_sides(tmp_path: Path) -> None:
    (text,) = [block for block in blocks("yaml") if block.startswith("label:")]
    (tmp_path / "mine.yaml").write_text(text)
    assert read_side(str(tmp_path / "mine.yaml")).code.scheduler == yaml.safe_load(text)["scheduler"]
    alone = {key: value for key, value in yaml.safe_load(text).items() if key not in ("repository", "ref", "build")}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(alone))
    assert read_side(str(tmp_path / "mine.yaml")).code.repository == str(tmp_path / alone["jar"])
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({**alone, "ref": "main"}))
    with pytest.raises(ExperimentError, match="repository and ref belong together"):
        read_side(str(tmp_path / "mine.yaml"))


@pytest.fixture
def code(tmp_path: Path) -> Code:
    return resolve_code(Code(jar=str(jar(tmp_path / "theirs.jar", THEIRS)), scheduler=THEIRS))


def test_a_jar_without_git_is_named_by_its_content(code: Code, tmp_path: Path) -> None:
    assert resolve_code(code) == code and len(code.commit) == 64
    first = build_code(code, print)
    jar(tmp_path / "theirs.jar", THEIRS, "org.example.More")
    changed = resolve_code(replace(code, commit=""))
    assert changed.commit != code.commit and build_code(changed, print) != first
    assert build_code(code, print) == first, "what was built stays"


def test_a_jar_that_changed_after_the_series_began_is_refused(code: Code, tmp_path: Path) -> None:
    jar(tmp_path / "theirs.jar", THEIRS, "org.example.More")
    with pytest.raises(NoSuchRef, match="has changed since the series began"):
        build_code(code, print)


def test_a_jar_that_is_not_there_or_lacks_the_class_is_refused(code: Code, tmp_path: Path) -> None:
    with pytest.raises(NoSuchRepository, match=r"none\.jar: No such file"):
        resolve_code(Code(jar=str(tmp_path / "none.jar"), scheduler=THEIRS))
    with pytest.raises(Unfit, match=r"has no class org\.example\.Others"):
        build_code(replace(code, scheduler="org.example.Others"), print)
    shutil.rmtree(build_folder(code), ignore_errors=True)


def test_a_repository_at_an_address_is_no_jar_file_and_its_password_is_refused() -> None:
    code = Code(commit="main", repository="https://user:secret@example.org/x.jar", jar="x.jar", scheduler=THEIRS)
    assert not code.is_jar_file
    with pytest.raises(NoSuchRepository) as refused:
        resolve_code(code)
    assert "secret" not in str(refused.value)


def test_a_jar_is_copied_into_its_build_and_nowhere_else(tmp_path: Path) -> None:
    path = jar(tmp_path / "theirs.jar", THEIRS)
    code = resolve_code(Code(repository=str(path), jar="../../../outside.jar", scheduler=THEIRS))
    with pytest.raises(Unfit):
        build_code(code, print)
    assert list(tmp_path.rglob("outside.jar")) == []
