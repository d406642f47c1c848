"""What people say becomes a full commit, or an error that helps."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.code import NoSuchRef, NoSuchRepository
from barograph.code.git import folder_with_commit, has_same_folder, resolve_experiment, uncommitted_remark
from barograph.plan.blocks import digest
from barograph.plan.experiment import Code, Experiment, Variant, from_data, load
from barograph.series.series import open_series, read_series
from tests.support.repositories import Repository, resolve_ref

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """In the place of this repository."""
    made = Repository.at(tmp_path / "here")
    monkeypatch.setattr("barograph.code.git.ROOT", made.folder)
    made.commit({"a": "1"})
    return made


@pytest.fixture
def theirs(tmp_path: Path) -> Repository:
    made = Repository.at(tmp_path / "theirs")
    made.commit({"a": "1"})
    return made


def of(*codes: Code | None) -> Experiment:
    star = load("stela/star")
    return replace(star, variants=tuple(Variant(f"v{n}", "even", {}, code) for n, code in enumerate(codes)))


def test_branches_tags_and_short_hashes_are_commits(here: Repository) -> None:
    first = here.git("rev-parse", "HEAD")
    here.git("tag", "-a", "-m", "", "v1")
    here.branch("better")
    second = here.commit({"a": "2"})
    said = {ref: resolve_ref(ref) for ref in ("main", "v1", first[:9], "better", "better~1")}
    assert [code.commit for code in said.values()] == [first, first, first, second, first]
    assert [code.label for code in said.values()] == list(said)
    assert {code.repository for code in said.values()} == {""}


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        ("bettr", "did you mean better?"),
        ("nothing-like-it", "its newest refs: better, main"),
        ("--all", "has no commit '--all'"),
        ("HEAD:a", "has no commit 'HEAD:a'"),
    ],
)
def test_what_is_no_commit_is_told_with_what_is(here: Repository, ref: str, words: str) -> None:
    here.branch("better")
    with pytest.raises(NoSuchRef) as told:
        resolve_ref(ref)
    assert words in str(told.value)
    assert told.value.blame == "configuration"


def test_a_branch_that_is_only_the_remotes_is_found_by_its_end(here: Repository) -> None:
    here.git("update-ref", "refs/remotes/origin/feature/faster", "HEAD")
    here.branch("fastest")
    with pytest.raises(NoSuchRef, match=r"did you mean origin/feature/faster\?"):
        resolve_ref("faster")


def test_commits_that_differ_elsewhere_have_the_same_policies(here: Repository) -> None:
    commits = [here.commit({"scheduler_plugins/a": text, "topologies/b": other}) for text, other in ("12", "13", "23")]
    codes = [Code(commit, commit) for commit in commits]
    assert has_same_folder(codes[0], codes[1], "scheduler_plugins")
    assert not has_same_folder(codes[1], codes[2], "scheduler_plugins")
    assert not has_same_folder(codes[0], replace(codes[1], commit="0" * 40), "scheduler_plugins")


def test_a_copy_without_git_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barograph.code.git.ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(NoSuchRef, match="is no git repository"):
        resolve_ref("main")


def test_another_repository_is_followed(theirs: Repository) -> None:
    before = resolve_ref("HEAD", str(theirs.folder))
    theirs.branch("new")
    now = theirs.commit({"a": "2"})
    assert resolve_ref("new", str(theirs.folder)).commit == resolve_ref("HEAD", str(theirs.folder)).commit == now
    assert before.commit != now and before.repository == str(theirs.folder)


def test_a_commit_stays_when_its_branch_and_its_repository_are_gone(theirs: Repository) -> None:
    theirs.branch("short-lived")
    code = Code("x", theirs.commit({"a": "2"}), str(theirs.folder))
    resolve_ref("main", code.repository)
    theirs.git("checkout", "-q", "main")
    theirs.git("branch", "-D", "short-lived")
    resolve_ref("main", code.repository)
    shutil.rmtree(theirs.folder)
    mirror = folder_with_commit(replace(code))
    assert mirror.name == "mirror.git"


def test_a_commit_that_is_newer_than_the_mirror_is_fetched(theirs: Repository) -> None:
    resolve_ref("main", str(theirs.folder))
    code = Code("x", theirs.commit({"a": "2"}), str(theirs.folder))
    assert folder_with_commit(code).is_dir()
    with pytest.raises(NoSuchRef, match="any more"):
        folder_with_commit(replace(code, commit="0" * 40))


def test_a_repository_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoSuchRepository, match=r"nowhere' cannot be cloned.*give a folder or an address"):
        resolve_ref("main", str(tmp_path / "nowhere"))


def test_the_variant_whose_code_cannot_be_had_is_named(here: Repository, tmp_path: Path) -> None:
    with pytest.raises(NoSuchRepository, match=r"^variants\.v1\.code\.repository: repository .*nowhere' cannot be"):
        resolve_experiment(of(None, Code("x", "main", str(tmp_path / "nowhere"))))


@pytest.mark.parametrize("ref", ["main", "0" * 40])
@pytest.mark.parametrize("address", ["https://me:secret@example.org/x.git", "https://token@example.org/x.git"])
def test_an_address_with_a_secret_is_refused_and_not_repeated(address: str, ref: str) -> None:
    with pytest.raises(NoSuchRepository) as told:
        resolve_ref(ref, address)
    assert "secret" not in str(told.value) and "token@" not in str(told.value)


def test_an_error_names_the_variant(here: Repository) -> None:
    with pytest.raises(NoSuchRef, match=r"variants\.v1\.code\.ref: this repository has no commit 'mian'"):
        resolve_experiment(of(None, Code("mian", "mian")))
    assert here.folder.is_dir()


def test_a_series_records_the_commit_and_goes_on_with_it(here: Repository) -> None:
    asked = of(None, Code("main", "main"))
    series = open_series(asked, now_s=1000.0)
    first = here.git("rev-parse", "HEAD")
    assert series.experiment.variants[1].code == Code("main", first)
    assert open_series(asked, now_s=2000.0).folder == series.folder
    here.commit({"a": "2"})
    assert open_series(asked, now_s=3000.0).folder != series.folder, "another commit is another request"
    again = read_series(series.folder).experiment
    assert open_series(again, now_s=4000.0).folder == series.folder
    assert again.variants[0].code is None


def test_a_series_is_read_where_its_repository_is_gone(here: Repository) -> None:
    known = resolve_experiment(of(Code("main", "main")))
    shutil.rmtree(here.folder)
    assert resolve_experiment(known) == from_data(known.as_data()) == known
    assert digest(resolve_experiment(known)) == digest(known)


def test_changed_files_are_worth_a_word_where_refs_of_here_are_compared(here: Repository) -> None:
    assert uncommitted_remark(of(Code("main", "main"))) is None
    (here.folder / "a").write_text("other")
    said = uncommitted_remark(of(None, Code("main", "main")))
    assert said is not None and said.startswith("what is changed here and not committed (1 file)")
    assert uncommitted_remark(of(None)) is None
    assert uncommitted_remark(of(Code("x", "x", "/elsewhere", (), "a.jar", "a.B"))) is None
