"""A commit is asked what its policies can do, before any machine is touched."""

import sys
from ast import literal_eval
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barograph.code import Unfit
from barograph.errors import blame_of
from barograph.plan.experiment import Code, Experiment, Variant, load
from barograph.series import variant_code
from barograph.series.variant_code import prepare_code
from barograph.settings import ROOT
from tests.support.repositories import Repository, resolve_ref, with_plugins

pytestmark = pytest.mark.usefixtures("own_folders")
POLICIES = "scheduler_plugins/policies/__init__.py"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = with_plugins(tmp_path / "here")
    monkeypatch.setattr("barograph.code.git.ROOT", made.folder)
    return made


@pytest.fixture
def change(here: Repository) -> Callable[[str, str, str], Code]:
    """A commit in which a file of scheduler_plugins has `new` in the place of `old`."""

    def change(name: str, old: str, new: str) -> Code:
        text = (here.folder / "scheduler_plugins" / name).read_text()
        assert old in text
        here.commit({f"scheduler_plugins/{name}": text.replace(old, new)})
        return resolve_ref("main")

    return change


def of(code: Code, policy: str = "stela", parameters: dict[str, Any] | None = None) -> Experiment:
    star = load("stela/star")
    faked = replace(star, testbed=replace(star.testbed, name="fake"))
    return replace(faked, variants=(Variant("theirs", policy, parameters or {}, code), Variant("mine", "even")))


def test_what_fits_is_prepared_without_a_word_more_than_its_build(here: Repository) -> None:
    assert here.folder.is_dir()
    said: list[str] = []
    prepare_code(of(resolve_ref("main")), said.append)
    prepare_code(of(resolve_ref("main")), said.append)
    assert len(said) == 1 and said[0].startswith("main (")


@pytest.mark.parametrize(
    ("policy", "parameters", "words"),
    [
        ("stella", {}, r"variants\.theirs at main \([0-9a-f]{12}\): policy 'stella' is not known; known are "),
        ("stela", {"slots": "all"}, r"variants\.theirs at main .*: policy stela: slots is 'all'; allowed are"),
        ("stela", {"x": 1}, "policy stela has no parameter 'x'"),
    ],
)
def test_the_commits_own_policies_are_what_counts(
    here: Repository, policy: str, parameters: dict[str, Any], words: str
) -> None:
    assert here.folder.is_dir()
    with pytest.raises(Unfit, match=words) as told:
        prepare_code(of(resolve_ref("main"), policy, parameters), print)
    assert blame_of(told.value) == "configuration"


def test_a_policy_that_only_the_commit_has_is_fine(change: Callable[[str, str, str], Code]) -> None:
    code = change("policies/__init__.py", '"stela": PolicyEntry', '"stela_new": PolicyEntry')
    prepare_code(of(code, "stela_new"), print)
    with pytest.raises(Unfit, match="'stela' is not known"):
        prepare_code(of(code), print)


def test_events_that_it_does_not_answer_are_named(change: Callable[[str, str, str], Code]) -> None:
    code = change(
        "policies/__init__.py",
        'stela.StelaParameters, frozenset({"scale_out", "scale_in"})',
        "stela.StelaParameters, frozenset()",
    )
    with pytest.raises(Unfit, match="policy stela does not answer scale_out; it answers none"):
        prepare_code(of(code), print)


def test_another_contract_is_told_before_anything_else(change: Callable[[str, str, str], Code]) -> None:
    code = change("service/messages.py", "VERSION = 2 ", "VERSION = 3 ")
    with pytest.raises(Unfit, match="speaks version 3 of the contract with its policy service, this harness 2"):
        prepare_code(of(code), print)


def test_a_state_that_this_harness_cannot_read_is_told(change: Callable[[str, str, str], Code]) -> None:
    code = change("service/state.py", "to_json(self.snapshot())", "{}")
    with pytest.raises(Unfit, match="describes its state without what this harness reads: RunSnapshot has no run_id"):
        prepare_code(of(code), print)


def test_code_that_throws_as_it_loads_is_told_with_what_it_says(change: Callable[[str, str, str], Code]) -> None:
    code = change("policies/stela.py", "from __future__ import annotations\n", "raise RuntimeError('half merged')\n")
    with pytest.raises(Unfit, match="its scheduler_plugins do not load: RuntimeError: half merged"):
        prepare_code(of(code), print)


def test_code_that_hangs_as_it_loads_is_ended(
    change: Callable[[str, str, str], Code], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variant_code, "DESCRIBE_LIMIT_S", 5.0)
    code = change("policies/stela.py", "from __future__ import annotations\n", "import time\ntime.sleep(600)\n")
    with pytest.raises(Unfit, match="did not load within 5 s"):
        prepare_code(of(code), print)


def test_code_that_is_asked_sees_nothing_of_the_users_and_writes_nothing(
    change: Callable[[str, str, str], Code], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    (tmp_path / "mine").write_text("mine")
    spy = (
        "import os, pathlib, socket\n"
        f"there = [p for p in ({str(tmp_path / 'mine')!r}, '/etc/shadow') if os.path.exists(p)]\n"
        # A work tree may be in somebody's home: then the way to it is there, and nothing beside it.
        f"way = {[*ROOT.parts, *Path(sys.prefix).parts, *Path(sys.prefix).resolve().parts]!r}\n"
        "there += [n for p in ('/root', '/home') if os.path.exists(p) for n in os.listdir(p) if n not in way]\n"
        "seen = [os.getuid(), sorted(os.environ), there, [name for _, name in socket.if_nameindex()]]\n"
        "raise RuntimeError('seen ' + repr(seen))\n"
    )
    future = "from __future__ import annotations\n"
    code = change("policies/stela.py", future, future + spy)
    with pytest.raises(Unfit) as refused:
        prepare_code(of(code), print)
    uid, names, there, links = literal_eval(str(refused.value).partition("seen ")[2])
    assert uid != 0 and there == [] and links == ["lo"]
    assert "PATH" in names and "AWS_SECRET_ACCESS_KEY" not in names


@pytest.mark.parametrize("leave", ["os.symlink('/etc/hostname', sys.argv[3])", "os.mkfifo(sys.argv[3])", "pass"])
def test_an_answer_that_is_no_file_of_its_own_is_not_read(change: Callable[[str, str, str], Code], leave: str) -> None:
    future = "from __future__ import annotations\n"
    code = change("policies/stela.py", future, f"{future}import os, sys\n{leave}\nos._exit(0)\n")
    with pytest.raises(Unfit, match="give no answer"):
        prepare_code(of(code), print)
