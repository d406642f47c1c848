"""How a variant's code is written, what is wrong with it, and when that is said."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barograph.cli.preparation import all_remarks
from barograph.code import NoSuchRef, Unfit
from barograph.errors import ExperimentError
from barograph.machines.provision import open_requested
from barograph.plan.experiment import Code, Experiment, Variant, from_data, load, parse
from barograph.series.series import read_series
from barograph.settings import results_root
from barograph.testbeds.checks import check
from tests.support.repositories import Repository, with_plugins

FOREIGN = {
    "label": "theirs", "repository": "https://example.org/x.git", "ref": "v1", "build": ["mvn", "package"],
    "jar": "target/x.jar", "scheduler": "org.example.Theirs",
}  # fmt: skip


def written(variant: Mapping[str, Any]) -> Experiment:
    data = load("stela/star").as_data()
    del data["name"]
    return parse("test/code", {**data, "variants": [variant]}, source="code.yaml")


def test_a_ref_is_enough() -> None:
    (variant,) = written({"name": "mine", "policy": "stela", "code": {"ref": "my-branch"}}).variants
    assert variant.code == Code("my-branch", "my-branch")
    assert written({"name": "mine", "policy": "stela"}).variants[0].code is None


def test_a_scheduler_of_others_has_all_its_keys() -> None:
    experiment = written({"name": "theirs", "policy": "foreign", "code": FOREIGN})
    expected = Code(
        "theirs", "v1", "https://example.org/x.git", ("mvn", "package"), "target/x.jar", "org.example.Theirs"
    )
    assert experiment.variants[0].code == expected
    assert from_data(experiment.as_data()) == experiment
    assert experiment.variants[0].configured() == {"scheduler": "org.example.Theirs"}


@pytest.mark.parametrize(
    ("variant", "words"),
    [
        ({"policy": "stela", "code": {}}, "variants.x.code.ref is missing; give a branch, a tag or a commit"),
        ({"policy": "stela", "code": {"branch": "a"}}, "unknown key variants.0.code.branch; known here: label, ref"),
        ({"policy": "stela", "code": FOREIGN}, "policy 'foreign' with the class of a scheduler that is not ours"),
        ({"policy": "foreign", "code": {"ref": "main"}}, "policy 'foreign' and code.scheduler ''"),
        ({"policy": "foreign", "code": {**FOREIGN, "jar": ""}}, "scheduler 'org.example.Theirs'; give both"),
        ({"policy": "stela", "code": {"ref": "a", "build": ["make"]}}, "code.build is given without jar"),
        ({"policy": "stela", "code": {"ref": "a", "files": ["x.csv"]}}, "code.files is given without jar"),
        ({"policy": "foreign", "code": {**FOREIGN, "files": ["a/x.csv", "b/x.csv"]}}, "code.files has x.csv twice"),
        ({"policy": "foreign", "code": {**FOREIGN, "files": ["a\0b"]}}, "code.files.0 is 'a\\x00b'"),
        ({"policy": "stela", "code": {"ref": "a", "build": "make"}}, "variants.0.code.build is 'make'; allowed: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_what_is_allowed(variant: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ExperimentError) as told:
        written({"name": "x", **variant})
    assert words in str(told.value)


def test_the_work_trees_policies_say_nothing_about_another_commits() -> None:
    star = load("stela/star")
    faked = replace(star, testbed=replace(star.testbed, name="fake"))
    check(replace(faked, variants=(Variant("new", "only_there", {"x": 1}, Code("new", "a" * 40)),)))
    with pytest.raises(ExperimentError, match="policy 'only_there' is not known"):
        check(replace(faked, variants=(Variant("new", "only_there"),)))
    with pytest.raises(ExperimentError, match="foreign does not answer scale_in"):
        check(
            replace(
                _scaled_in(faked),
                variants=(Variant("t", "foreign", {}, Code("t", "a" * 40, "/r", (), "a.jar", "a.B")),),
            )
        )


def _scaled_in(experiment: Experiment) -> Experiment:
    page_load = load("stela/page_load_scale_in")
    return replace(experiment, machines=page_load.machines, events=page_load.events)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = with_plugins(tmp_path / "here")
    monkeypatch.setattr("barograph.code.git.ROOT", made.folder)
    return made


def ask_for(monkeypatch: pytest.MonkeyPatch, variant: Variant) -> None:
    star = load("stela/star")
    asked = replace(star, testbed=replace(star.testbed, name="fake"), variants=(variant,), repetitions=1)
    monkeypatch.setattr("barograph.machines.provision.load", lambda _name: asked)


@pytest.mark.usefixtures("own_folders")
def test_the_dags_task_opens_a_series_of_commits(here: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    ask_for(monkeypatch, Variant("mine", "stela", {}, Code("main", "main")))
    folder = open_requested("stela/star", {}, new=True)
    code = read_series(folder).experiment.variants[0].code
    assert code == Code("main", here.git("rev-parse", "HEAD"))


@pytest.mark.usefixtures("own_folders", "here")
@pytest.mark.parametrize(
    ("variant", "error"),
    [
        (Variant("mine", "stela", {}, Code("mian", "mian")), NoSuchRef),
        (Variant("mine", "stella", {}, Code("main", "main")), Unfit),
    ],
)
def test_what_does_not_fit_opens_no_series(
    monkeypatch: pytest.MonkeyPatch, variant: Variant, error: type[Exception]
) -> None:
    ask_for(monkeypatch, variant)
    with pytest.raises(error):
        open_requested("stela/star", {}, new=True)
    assert not list(results_root().glob("*/*/*"))


def test_uncommitted_changes_are_a_remark(here: Repository) -> None:
    star = load("stela/star")
    mine = replace(star, variants=(Variant("mine", "stela", {}, Code("main", "a" * 40)),))
    before = all_remarks(mine)
    (here.folder / "scheduler_plugins" / "model.py").write_text("changed")
    assert [said for said in all_remarks(mine) if said not in before] == [
        "what is changed here and not committed (1 file) is in no ref: mine run without it"
    ]
