"""docs/comparing.md: its sample is built by its own command, and its YAML hosts the jar."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from barograph.cli import parser
from barograph.code import NoSuchRef, NoSuchRepository, Unfit
from barograph.code.build import build_code, build_folder, jar_of
from barograph.code.git import resolve_code
from barograph.compare.comparison import read_side
from barograph.compare.request import comparison_request, plan_comparison
from barograph.errors import ExperimentError
from barograph.plan.experiment import Code, from_data, load, with_changes
from barograph.settings import ROOT
from barograph.testbeds.checks import check
from tests.support.repositories import jar

pytestmark = pytest.mark.usefixtures("own_folders")
PAGE = (ROOT / "docs" / "comparing.md").read_text()
THEIRS = "org.example.Theirs"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_sample_is_built_and_hosted_as_the_page_says(tmp_path: Path) -> None:
    folder = tmp_path / "own_scheduler"
    (build,) = [block for block in blocks("sh") if "mvn" in block]
    for line in build.splitlines():
        command = shlex.split(line.replace("/tmp/own_scheduler", str(folder)))
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    alone, _, variants = (block.replace("/tmp/own_scheduler", str(folder)) for block in blocks("yaml"))
    (tmp_path / "mine.yaml").write_text(alone)
    code = resolve_code(read_side(str(tmp_path / "mine.yaml")).code)
    assert build_code(code, print).is_dir()
    assert jar_of(code).read_bytes() == (folder / "target" / "own-scheduler.jar").read_bytes()
    star = with_changes(load("storm/star"), {"testbed": "fake"}).as_data()
    experiment = from_data({**star, **yaml.safe_load(variants)}, "the page")
    check(experiment)
    assert experiment.variants[2].code is not None and resolve_code(experiment.variants[2].code).commit == code.commit


def test_the_command_of_the_page_compares_the_jar_with_storms_scheduler(tmp_path: Path) -> None:
    (text,) = [block for block in blocks("sh") if "compare main mine.yaml" in block]
    options = parser(["compare"]).parse_args(shlex.split(text)[1:])
    side = blocks("yaml")[0].replace("/tmp/own_scheduler/target", str(tmp_path))
    jar(tmp_path / "own-scheduler.jar", "org.example.EmptiestMachineScheduler")
    (tmp_path / "mine.yaml").write_text(side)
    request = comparison_request({**vars(options), "a": "HEAD", "b": str(tmp_path / "mine.yaml"), "options": {}})
    ours, theirs = plan_comparison(request).experiment.variants
    assert (ours.policy, ours.parameters["scheduler"], theirs.policy) == ("storm", "default", "foreign")


def test_the_sides_of_the_page_are_sides(tmp_path: Path) -> None:
    text = blocks("yaml")[1]
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
