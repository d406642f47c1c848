"""Code is built once per commit, in a place of its own; what went wrong is remembered and told plainly."""

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barograph.code import BuildFailed, BuildHung, NoSuchRef, NoSuchRepository, SourceError, Unfit, build, store
from barograph.code.build import build_code, build_folder, jar_of, run_program
from barograph.code.git import resolve_code, sources_home
from barograph.code.store import FAILED, LOG, make_once, prune
from barograph.plan.experiment import Code
from tests.support.repositories import Repository, jar, resolve_ref, with_plugins

pytestmark = pytest.mark.usefixtures("own_folders")
SCRIPT = """#!/bin/sh
[ ! -e "$HOME/earlier" ] || echo "somebody was here"
touch "$HOME/earlier"
mkdir out && cp theirs.jar out/theirs.jar
{more}
"""

Make = Callable[..., Code]


@pytest.fixture
def foreign(tmp_path: Path) -> Make:
    """A commit of somebody's whose build runs these lines."""
    repository = Repository.at(tmp_path / "theirs")
    packed = jar(tmp_path / "theirs.jar", "org.example.Theirs", "org.example.other.Scheduler").read_bytes()

    def commit(more: str = "", path: str = "out/theirs.jar", scheduler: str = "org.example.Theirs") -> Code:
        script = SCRIPT.format(more=more)
        repository.commit({"build.sh": script, "theirs.jar": packed})
        code = resolve_ref("main", str(repository.folder))
        return replace(code, build=("sh", "build.sh"), jar=path, scheduler=scheduler)

    return commit


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The commands that were run in sandboxes."""
    begun: list[Sequence[str]] = []

    def counted(argv: Sequence[str], *given: Any, **more: Any) -> None:
        if argv[0] != "git":  # the checkout
            begun.append(argv)
        run_program(argv, *given, **more)

    monkeypatch.setattr(build, "run_program", counted)
    return begun


def running(command: str) -> list[int]:
    """The processes of the box with exactly this command line."""
    words = command.replace(" ", "\0").encode() + b"\0"
    return [int(file.parent.name) for file in Path("/proc").glob("[0-9]*/cmdline") if content_of(file) == words]


def content_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # it has ended
        return b""


def test_a_commit_is_built_once_whatever_it_is_called(
    foreign: Make, builds: list[Sequence[str]], said: list[str]
) -> None:
    code = foreign()
    first = build_code(code, said.append)
    assert build_code(replace(code, label="another name"), said.append) == first
    assert len(builds) == 1 and len(said) == 1
    assert jar_of(code).name == "theirs.jar" and not (first / "tree").exists()
    assert "$ sh build.sh" in (first / LOG).read_text()
    build_code(code, said.append, rebuild=True)
    assert len(builds) == 2


def test_a_commit_finds_nothing_that_another_has_left_in_its_home(foreign: Make) -> None:
    for more in ("true", "# another commit"):
        folder = build_code(code := foreign(more), print)
        assert "somebody was here" not in (build_folder(code) / LOG).read_text()
        assert not (folder / "home").exists()


def test_another_jar_of_the_same_commit_is_another_build(foreign: Make, builds: list[Sequence[str]]) -> None:
    code = foreign()
    other = replace(code, jar="theirs.jar", scheduler="org.example.other.Scheduler")
    assert build_code(code, print) != build_code(other, print)
    assert len(builds) == 2


def test_a_failed_build_is_told_again_without_building(foreign: Make, builds: list[Sequence[str]]) -> None:
    code = foreign("echo 'no such symbol: Foo'; exit 3")
    with pytest.raises(BuildFailed, match=r"sh build\.sh ended with 3; it said last: .*no such symbol: Foo") as first:
        build_code(code, print)
    assert first.value.blame == "configuration"
    log = build_folder(code) / LOG
    assert str(log) in str(first.value) and "no such symbol" in log.read_text()
    assert not (build_folder(code) / "tree").exists()
    failed = json.loads((build_folder(code) / FAILED).read_text())
    (build_folder(code) / FAILED).write_text(json.dumps(failed | {"failed_s": failed["failed_s"] - 3600}))
    with pytest.raises(BuildFailed, match="--rebuild"):
        build_code(code, print)
    assert len(builds) == 1
    with pytest.raises(BuildFailed):
        build_code(code, print, rebuild=True)
    assert len(builds) == 2


def test_a_build_that_hangs_ends_with_all_it_started(foreign: Make, builds: list[Sequence[str]]) -> None:
    code = foreign("sleep 600.125 & trap '' TERM; wait; wait; sleep 600")
    begin_s = time.monotonic()
    with pytest.raises(BuildHung, match="took more than 1 s and was ended"):
        build_code(code, print, limit_s=1)
    assert time.monotonic() - begin_s < 30
    assert running("sleep 600.125") == []
    with pytest.raises(BuildHung):
        build_code(code, print)
    assert len(builds) == 1


def test_what_a_build_leaves_running_ends_with_it(foreign: Make, tmp_path: Path) -> None:
    build_code(foreign("sleep 600.75 & until ps -o args | grep -q 'sleep [6]00.75'; do sleep 0.1; done"), print)
    assert running("sleep 600.75") == []


def test_a_build_sees_no_secrets(foreign: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/nowhere")
    build_code(code := foreign('cat /proc/[0-9]*/environ | tr "\\0" "\\n"'), print)
    seen = (build_folder(code) / LOG).read_text()
    assert "PATH=" in seen and "TMPDIR=" in seen
    assert "s3cret" not in seen and "SSH_AUTH_SOCK" not in seen


def test_a_build_has_the_users_mirrors_and_indexes_without_passwords(
    foreign: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".m2").mkdir()
    mirror = "<mirror><id>a</id><mirrorOf>*</mirrorOf><url>https://nexus.example.org/a?b=1&amp;c=2</url></mirror>"
    server = "<servers><server><id>a</id><password>secret</password></server></servers>"
    (tmp_path / ".m2" / "settings.xml").write_text(f"<settings>{server}<mirrors>{mirror}</mirrors></settings>")
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://pypi.example.org/simple\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("UV_INDEX", "https://ann:secret@uv.example.org/simple")
    hosts: list[str] = []
    monkeypatch.setattr(build, "registry_access", lambda _files, names, _log: hosts.extend(names) or nullcontext())
    code = foreign("cat $HOME/.m2/settings.xml; env")
    build_code(code, print)
    log = (build_folder(code) / LOG).read_text()
    assert "<url>https://nexus.example.org/a?b=1&amp;c=2</url><mirrorOf>*</mirrorOf>" in log
    assert "PIP_INDEX_URL=https://pypi.example.org/simple" in log and "secret" not in log
    assert {"nexus.example.org", "pypi.example.org"} < set(hosts) and "uv.example.org" not in hosts


def test_a_program_that_is_not_there_is_named(foreign: Make) -> None:
    with pytest.raises(BuildFailed, match="'no-such-maven' cannot be started"):
        build_code(replace(foreign(), build=("no-such-maven", "package")), print)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"path": "out/thiers.jar"},
            r"the build left no out/thiers\.jar; jars that are there: out/theirs\.jar, theirs\.jar",
        ),
        ({"path": "../../elsewhere.jar"}, "the build left no"),
        ({"path": "build.sh"}, r"build\.sh is not a jar"),
        (
            {"scheduler": "org.example.Thiers"},
            r"has no class org\.example\.Thiers; did you mean org\.example\.Theirs ",
        ),
        ({"scheduler": "Scheduler"}, r"did you mean org\.example\.other\.Scheduler\?"),
        ({"scheduler": "x.y.Z"}, "it has 2 classes"),
    ],
)
def test_what_the_build_does_not_leave_is_named_with_what_it_does(
    foreign: Make, changes: dict[str, str], words: str
) -> None:
    with pytest.raises(Unfit, match=words):
        build_code(foreign(**changes), print)


def test_two_at_once_build_once(foreign: Make, builds: list[Sequence[str]], said: list[str]) -> None:
    code, found = foreign("sleep 0.5"), []
    both = [threading.Thread(target=lambda: found.append(build_code(code, said.append))) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert len(builds) == 1 and found[0] == found[1]
    assert any(f"waiting for process {os.getpid()}, building " in line for line in said)


def test_an_interrupted_build_leaves_nothing_that_looks_built(tmp_path: Path) -> None:
    thing = tmp_path / "things" / "abc"

    def interrupted(folder: Path) -> dict[str, str]:
        (folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_once(thing, interrupted, print)
    assert not thing.exists()
    assert make_once(thing, lambda _: {"x": "1"}, print) == thing and store.built_facts(thing)["x"] == "1"


def test_what_a_killed_process_left_goes_with_the_next_build(tmp_path: Path) -> None:
    left, anothers = tmp_path / "things" / ".abc-x1y2_3z4", tmp_path / "things" / ".abc-12345678-x1y2_3z4"
    for folder in (left, anothers):
        folder.mkdir(parents=True)
    make_once(tmp_path / "things" / "abc", lambda _: {}, print)
    assert not left.exists() and anothers.exists()


def test_a_full_disk_is_not_remembered(tmp_path: Path) -> None:
    def full(_: Path) -> dict[str, str]:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        make_once(tmp_path / "things" / "abc", full, print)
    assert not (tmp_path / "things" / "abc").exists()


def test_the_oldest_go_but_none_that_is_used_or_being_built(tmp_path: Path) -> None:
    things = [make_once(tmp_path / "repository" / name, lambda _: {}, print) for name in "abcde"]
    for age, thing in enumerate(reversed(things)):
        os.utime(thing, (1000 - age, 1000 - age))
    with store.lock_folder(things[1]):
        gone = prune(tmp_path, "*/*", {things[0]}, keep=2)
    assert gone == (things[2],)
    assert [thing.exists() for thing in things] == [True, True, False, True, True]


def test_ours_is_what_decides_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = with_plugins(tmp_path / "here")
    here.commit({"dags/secret.py": "", "README.md": "x"})
    monkeypatch.setattr("barograph.code.git.ROOT", here.folder)
    folder = build_code(resolve_ref("main"), print)
    assert folder.is_relative_to(sources_home() / "here")
    assert [path.name for path in (folder / "tree").iterdir()] == ["scheduler_plugins"]
    assert (folder / "tree" / "scheduler_plugins" / "service" / "server.py").is_file()


def test_links_of_a_commit_are_not_made_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = with_plugins(tmp_path / "here")
    (here.folder / "scheduler_plugins" / "outside").symlink_to(tmp_path)
    (here.folder / "scheduler_plugins" / "passwords.py").symlink_to("/etc/passwd")
    here.commit({})
    monkeypatch.setattr("barograph.code.git.ROOT", here.folder)
    folder = build_code(resolve_ref("main"), print)
    assert [path for path in folder.rglob("*") if path.is_symlink()] == []
    assert (folder / "tree" / "scheduler_plugins" / "service" / "server.py").is_file()


def test_files_of_a_scheduler_are_kept_beside_its_jar(foreign: Make) -> None:
    code = replace(foreign("mkdir data && echo 1,m1 > data/placement.csv"), files=("data/placement.csv", "build.sh"))
    folder = build_code(code, print)
    assert (folder / "files" / "placement.csv").read_text() == "1,m1\n"
    assert sorted(path.name for path in (folder / "files").iterdir()) == ["build.sh", "placement.csv"]


@pytest.mark.parametrize(
    ("files", "most", "message"),
    [
        (
            ("data/gone.csv",),
            100,
            r"left no data/gone\.csv; files \*\.csv that are there: data/placement\.csv;",
        ),
        (("data/outside.csv",), 100, r"left no data/outside\.csv"),
        (("../../built.json",), 100, r"left no \.\./\.\./built\.json"),
        (("data/placement.csv",), 3, r"code\.files has 0\.0 MB together; allowed: 3e-06"),
    ],
)
def test_files_that_are_not_there_or_too_large_are_refused(
    foreign: Make, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...], most: int, message: str
) -> None:
    monkeypatch.setattr(build, "FILES_BYTES", most)
    code = foreign("mkdir data && echo 1,m1 > data/placement.csv && ln -s /etc/passwd data/outside.csv")
    with pytest.raises(Unfit, match=message):
        build_code(replace(code, files=files), print)


def test_files_of_a_jar_without_git_are_a_part_of_the_request(tmp_path: Path) -> None:
    packed, placement = jar(tmp_path / "theirs.jar", "org.example.Theirs"), tmp_path / "placement.csv"
    placement.write_text("1,m1")
    said = Code(jar=str(packed), scheduler="org.example.Theirs", files=(str(placement),))
    code = resolve_code(said)
    assert (build_code(code, print) / "files" / "placement.csv").read_text() == "1,m1"
    placement.write_text("1,m2")
    other = resolve_code(said)
    assert other.commit == code.commit and other.files_sha256 != code.files_sha256, "the jar is the same"
    assert build_folder(other) != build_folder(code)
    with pytest.raises(NoSuchRef, match=r"placement\.csv has changed since the series began"):
        build_code(code, print, rebuild=True)
    placement.unlink()
    with pytest.raises(NoSuchRepository, match=r"placement\.csv: No such file or directory; give the path of a file"):
        resolve_code(said)


@pytest.mark.parametrize("scheduler", ["", "org.example.Theirs"])
def test_filters_that_a_commit_names_are_not_started(
    tmp_path: Path, foreign: Make, monkeypatch: pytest.MonkeyPatch, scheduler: str
) -> None:
    mark = tmp_path / "started"
    settings = tmp_path / "gitconfig"
    settings.write_text(f'[filter "theirs"]\n  smudge = touch {mark} && cat\n')
    code = foreign()
    attributes = {".gitattributes": "* filter=theirs\n"}
    if scheduler:
        Repository(tmp_path / "theirs").commit(attributes)
        code = replace(resolve_ref("main", code.repository), build=code.build, jar=code.jar, scheduler=code.scheduler)
    else:
        repository = with_plugins(tmp_path / "plugins")
        repository.commit(attributes)
        code = resolve_ref("main", str(repository.folder))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    build_code(code, print)
    assert not mark.exists()


def test_a_repository_whose_pack_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository.at(tmp_path / "theirs")
    repository.commit({"large": os.urandom(3_000_000)})
    monkeypatch.setattr("barograph.code.git.FILE_BYTES", 1_000_000)
    with pytest.raises(NoSuchRepository, match=r"theirs' cannot be cloned: .*was one file above 1 MB"):
        resolve_ref("main", f"file://{repository.folder}")


def test_a_commit_that_is_not_ours_needs_a_jar(foreign: Make) -> None:
    with pytest.raises(Unfit, match=r"has no scheduler_plugins/: .*give build, jar and scheduler too$"):
        build_code(replace(foreign(), build=(), jar="", scheduler=""), print)


def test_errors_are_the_users_to_mend() -> None:
    kinds: list[type[SourceError]] = [SourceError, *store.KEPT_ERRORS.values()]
    assert {kind.blame for kind in kinds} == {"configuration"}
