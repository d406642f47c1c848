"""What root clears on a machine before a run, in folders into which users of the run write."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from playbooks import runner
from tests.support.short_folder import short_folder

SCRIPT = Path(runner.HERE) / "roles" / "machine" / "files" / "clear.sh"
LOOK = '[ -L "$open" ]'
ANYBODY = 64903  # in the place of the users of machines

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become others")


@pytest.fixture
def machine() -> Iterator[Path]:
    """A machine's folders, which all its users may enter."""
    with short_folder() as folder:
        folder.chmod(0o755)
        for name in ("log/output", "log/workers", "log/machines", "log/workers-artifacts", "state/supervisor"):
            (folder / name).mkdir(parents=True)
            os.chown(folder / name, ANYBODY, ANYBODY)
        (folder / "secret").write_text("of root")
        yield folder


def clear(machine: Path, text: str) -> subprocess.CompletedProcess[str]:
    places = {"/var/log/barograph": "log", "/var/lib/barograph/storm": "state", "/opt/barograph": "opt"}
    for place, name in places.items():
        text = text.replace(place, str(machine / name))
    for user in ("storm", "barograph"):
        text = text.replace(f"as {user} ", f"as {ANYBODY} ")
    argv = ["sh", "-c", text, "clear.sh", "state", "records"]
    return subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)


def test_logs_are_emptied_where_they_are_and_links_are_left_alone(machine: Path) -> None:
    log = machine / "log"
    for name in ("nimbus.log", "output/probe.out", "output/probe.out.1", "decisions.jsonl", "nimbus.log.1"):
        (log / name).write_text("of the run before")
    (log / "other.log").symlink_to(machine / "secret")
    with (log / "nimbus.log").open("a") as daemon:
        assert clear(machine, SCRIPT.read_text()).returncode == 0
        daemon.write("of this run")
    left = {str(path.relative_to(log)): path.read_text() for path in log.rglob("*") if path.is_file()}
    empty = {"output/probe.out": "", "decisions.jsonl": ""}
    assert left == {**empty, "nimbus.log": "of this run", "other.log": "of root"}


@pytest.mark.parametrize("swap", ['ln -sf "$secret" "$1"', 'rm "$1"; mkfifo "$1"'])
def test_what_takes_a_logs_place_after_the_look_is_not_followed(swap: str, machine: Path) -> None:
    (machine / "log" / "nimbus.log").write_text("of the run before")
    text = SCRIPT.read_text()
    assert LOOK in text
    swapping = f"secret={machine}/secret; swap() {{ {swap}; false; }}\n"
    done = clear(machine, swapping + text.replace(LOOK, 'swap "$open"', 1))
    assert (machine / "secret").read_text() == "of root"
    assert done.returncode == 0, done.stderr


PLACES = ("log/workers/x", "log/machines/x", "log/workers-artifacts/x", "state/supervisor/tmp")


@pytest.mark.parametrize("place", PLACES)
def test_what_the_users_of_a_run_left_in_their_folders_is_removed(place: str, machine: Path) -> None:
    (machine / place).touch()
    assert clear(machine, SCRIPT.read_text()).returncode == 0
    assert not (machine / place).exists()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mode", [0, 0o555])
def test_folders_that_keep_out_their_owner_are_removed(mode: int, place: str, machine: Path) -> None:
    inner = machine / place / "tree"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    for path in (inner / "file", inner, inner.parent):
        os.chown(path, ANYBODY, ANYBODY)
        path.chmod(mode)
    done = clear(machine, SCRIPT.read_text())
    assert done.returncode == 0, done.stderr
    assert not (machine / place).exists()


@pytest.mark.parametrize("place", PLACES)
def test_no_rights_change_behind_a_link(place: str, machine: Path) -> None:
    """In a folder, or in its place; what is behind it is the same user's."""
    others = machine / "others"
    others.mkdir()
    (others / "inner").mkdir()
    for path in (others / "inner", others):
        os.chown(path, ANYBODY, ANYBODY)
        path.chmod(0o555)
    (machine / place).symlink_to(others)
    assert clear(machine, SCRIPT.read_text()).returncode == 0
    folder = (machine / place).parent
    folder.rmdir()
    folder.symlink_to(others)
    clear(machine, SCRIPT.read_text())
    assert [path.stat().st_mode & 0o777 for path in (others, others / "inner")] == [0o555, 0o555]


@pytest.mark.parametrize("place", PLACES)
def test_root_removes_nothing_behind_a_folder_in_whose_place_its_owner_put_a_link(place: str, machine: Path) -> None:
    (machine / "others").mkdir()
    (machine / "others" / Path(place).name).write_text("of root")
    folder = (machine / place).parent
    folder.rmdir()
    folder.symlink_to(machine / "others")
    clear(machine, SCRIPT.read_text())
    assert (machine / place).read_text() == "of root"
