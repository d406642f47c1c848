"""Rules that the tests and the product's waits keep: which tests run when, what they find, what has a time limit."""

import ast
import base64
import gzip
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from urllib.parse import quote

import pytest

from inventory.local import preflight
from tests.conftest import WITH_MACHINES
from tests.support import planted, programs

ROOT = Path(__file__).parents[2]
LONG = "pytest.mark." + "long"
NOBODY = "65534"


def test_every_long_test_is_in_the_documents() -> None:
    """With what covers it in the day."""
    document = (ROOT / "docs" / "architecture.md").read_text()
    marked = {path for path in (ROOT / "tests").rglob("*.py") if LONG in path.read_text()}
    assert sorted(str(path.relative_to(ROOT)) for path in marked) == sorted(
        line.split("`")[1] for line in document.splitlines() if line.startswith("| `tests/")
    )


def test_every_file_of_tests_with_machines_is_in_one_part() -> None:
    folders = [ROOT / "tests" / name for name in WITH_MACHINES]
    files = {str(path.relative_to(ROOT)) for folder in folders for path in folder.rglob("test_*.py")}
    argv = ["make", "-n", "-C", str(ROOT), "testbeds", "cluster"]
    done = subprocess.run(argv, env={**os.environ, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    covered: list[str] = []
    for command in (line for line in done.stdout.splitlines() if "junitxml=" in line):
        words = re.findall(r"(--ignore=)?(tests/[\w/.]+)", command)
        chosen, left_out = ({path for ignore, path in words if bool(ignore) is out} for out in (False, True))
        covered += [file for file in files if is_in(file, chosen) and not is_in(file, left_out)]
    assert sorted(covered) == sorted(files)


def is_in(file: str, places: set[str]) -> bool:
    return any(file == place or file.startswith(f"{place}/") for place in places)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_what_was_built_with_sudo_is_given_back_before_it_is_removed(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.name.startswith(("test_", "popen-", "pytest-")):
            folder.chmod(0o755)
    place, calls = tmp_path / "checkout", tmp_path / "calls"
    (place / ".barograph" / "built").mkdir(parents=True)
    shutil.copy2(ROOT / "Makefile", place)
    os.chown(place, int(NOBODY), int(NOBODY))
    calls.touch()
    calls.chmod(0o666)
    sudo = tmp_path / "bin" / "sudo"
    sudo.parent.mkdir()
    sudo.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
    sudo.chmod(0o755)
    argv = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "make", "-C", str(place), "clean"]
    environment = {**os.environ, "PATH": f"{sudo.parent}:/usr/bin:/bin"}  # root's home may be closed to others
    subprocess.run(argv, env=environment, capture_output=True, timeout=60)
    assert calls.read_text() == f"chown -R {NOBODY}:{NOBODY} .barograph\n"


SECRET = planted.VALUES["AWS_SECRET_ACCESS_KEY"]


def test_a_planted_secret_is_seen_however_it_was_written_and_other_text_is_none(tmp_path: Path) -> None:
    """A search that finds nothing proves nothing."""
    texts = {
        "plain": SECRET, "quoted": quote(SECRET, safe=""), "hexadecimal": SECRET.encode().hex(),
        "base64": base64.b64encode(f"ann:{SECRET}\nmore".encode()).decode(),
        "urlsafe": base64.urlsafe_b64encode(f"a{SECRET}".encode()).decode(),
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(f"before {text} after")
    with tarfile.open(tmp_path / "packed.tar.gz", "w:gz") as packed:
        packed.add(tmp_path / "plain", "inner.log")
    (tmp_path / "packed.gz").write_bytes(gzip.compress(SECRET.encode()))
    (tmp_path / "other").write_text("token secret password AKIA " + SECRET[:-4])
    holders = {line.split()[0].removeprefix(f"{tmp_path}/") for line in planted.leaks(planted.VALUES, tmp_path)}
    assert holders == {*texts, "packed.tar.gz:inner.log", "packed.gz:"}


# Programs: tests find those of the packages that set-up declares, and no others.


@pytest.fixture(scope="module")
def linking() -> ModuleType:
    """The program of set-up that makes the tests' PATH."""
    spec = importlib.util.spec_from_file_location("linking", ROOT / ".ci" / "programs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["linking"] = module
    spec.loader.exec_module(module)
    return module


def test_tests_find_declared_programs_and_no_others(tmp_path: Path) -> None:
    beside, links = os.environ["PATH"].split(os.pathsep)
    assert Path(beside) == Path(sys.executable).parent and Path(links) == programs.LINKS
    places = {name: shutil.which(name) for name in (*programs.CALLED, *preflight.PROGRAMS)}
    assert all(places.values()), places
    with pytest.raises(FileNotFoundError):  # apt is not Essential: set-up calls it, tests do not
        subprocess.run(["apt-get", "--version"])
    with pytest.raises(pytest.UsageError, match="nowhere"):
        programs.path(called=("sh", "nowhere"))
    with pytest.raises(pytest.UsageError):
        programs.path(tmp_path / "path")


def test_links_are_those_of_the_closure_and_of_essential_packages(linking: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / "stale").symlink_to("/usr/bin/true")
    assert linking.main([str(folder), "openssh-client"]) == 0
    assert (folder / "ssh").exists() and (folder / "sh").exists()
    assert not (folder / "podman").exists() and not (folder / "stale").is_symlink()
    assert linking.main([str(tmp_path / "other"), "bash", "no-such-package"]) == 4
    assert not (tmp_path / "other").exists()


def test_an_alternative_is_chosen_as_apt_does(linking: ModuleType) -> None:
    def package(name: str, depends: str = "", provides: str = "", essential: bool = False) -> object:
        return linking.Package(name, essential, linking._depends(depends), linking._names(provides))

    everything = [
        package("maven", "java (>= 8) | java-runtime, libx:any"), package("jre", provides="java-runtime"),
        package("libx", "second | first"), package("first"), package("second"), package("sh", essential=True),
        package("beside"),
    ]  # fmt: skip
    packages = {one.name: one for one in everything}  # type: ignore[attr-defined]  # a module that was loaded by its path
    assert linking.closure(packages, ["maven"]) == {"maven", "jre", "libx", "second", "sh"}
    del packages["jre"]
    with pytest.raises(linking.NotInstalled, match=r"java \| java-runtime"):
        linking.closure(packages, ["maven"])


# Time limits: every call of the product that waits for somebody else has one.

PRODUCT = ("analysis", "barograph", "dags", "inventory", "playbooks", "scheduler_plugins", "topologies", ".ci")
# Of calls by their last name: the keyword that limits them, and how many positional arguments hold it as well.
LIMITED = {
    "run": ("timeout", None), "call": ("timeout", None), "check_call": ("timeout", None),
    "check_output": ("timeout", None), "communicate": ("timeout", 2), "urlopen": ("timeout", 3),
    "create_connection": ("timeout", 2), "HTTPConnection": ("timeout", None), "HTTPSConnection": ("timeout", None),
    "ServerProxy": ("transport", None), "Client": ("timeout", None), "Config": ("read_timeout", None),
}  # fmt: skip
# Of these only what has the name of their module, or none, before it.
OWNERS = {
    "run": ("subprocess",), "call": ("subprocess",), "check_call": ("subprocess",), "check_output": ("subprocess",),
    "Client": ("httpx",),
}  # fmt: skip
# None at all: for ever. Not `result`: what a pool executes is among the calls that are looked at here.
WITHOUT_ARGUMENTS = ("wait", "join", "acquire", "recv_exit_status")
NEVER = ("Popen", "FileLock", "flock", "lockf", "waitpid", "input")  # each one is looked at, and is below
ALLOWED = {
    "analysis/storage/maven.py: FileLock": "acquired with a limit",
    "barograph/child_processes.py: subprocess.Popen": "ChildProcess: whoever starts one waits by `wait`, and ends it",
    "barograph/code/store.py: FileLock": "acquired without waiting",
    "barograph/counterfactual/simulation.py: FileLock": "in a folder of its own, or without waiting",
    "barograph/machines/provision.py: FileLock": "acquired without waiting",
    "barograph/machines/provision.py: file.acquire": "without waiting, as the lock is made",
    "inventory/files.py: FileLock": "hold_lock: acquired with a limit",
    "inventory/existing/ownership_on_machine.py: fcntl.flock": "on a machine, where the command as a whole has a limit",
    "inventory/remote/ssh.py: reader.join": "reads a channel that `_limited` closes",
    "inventory/remote/ssh.py: channel.recv_exit_status": "of a channel that `_limited` closes",
    "playbooks/clock.py: subprocess.Popen": "killed by its timer",
    "playbooks/storm_home/files/training/train.py: subprocess.Popen": "daemons in a namespace that has a limit",
    "barograph/cli/ui.py: FileLock": "acquired without waiting",
    "barograph/cli/batch.py: fcntl.flock": "without waiting",
    "barograph/pool.py: os.waitpid": "of a process that has answered, or whose pipe has ended: it does nothing more",
    "barograph/run/code_service.py: subprocess.Popen": "each answer has a limit, and `close` kills it",
    "scheduler_plugins/policies/metis_process.py: subprocess.Popen": "each answer has a limit, and `__exit__` kills it",
    "scheduler_plugins/service/server.py: os.waitpid": "without waiting",
    "barograph/child_processes.py: os.waitpid": "as long as its programs run, which are servers; a signal ends it",
}


def calls(source: str) -> Iterator[tuple[str, ast.Call]]:
    """Each call as it is written, without its arguments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def is_unlimited(name: str, call: ast.Call) -> bool:
    owner, _, last = name.rpartition(".")
    given = {keyword.arg for keyword in call.keywords}
    if last in NEVER:
        return owner in ("", "subprocess", "fcntl", "os", "filelock")
    if last in WITHOUT_ARGUMENTS:
        return bool(owner) and not call.args and not given
    if last == "open" and owner.endswith(("opener", "build_opener(_NoRedirection)")):
        return "timeout" not in given
    if last not in LIMITED or (last in OWNERS and owner not in OWNERS[last]):
        return False
    keyword, position = LIMITED[last]
    return keyword not in given and (position is None or len(call.args) < position)


def unlimited(source: str) -> list[str]:
    return [name for name, call in calls(source) if is_unlimited(name, call)]


def product_files() -> list[Path]:
    return sorted(file for folder in PRODUCT for file in (ROOT / folder).rglob("*.py"))


def test_every_wait_of_the_product_has_a_time_limit() -> None:
    found = {f"{file.relative_to(ROOT)}: {name}" for file in product_files() for name in unlimited(file.read_text())}
    assert found - set(ALLOWED) == set(), "give each a time limit; see the limits that the file has already"
    assert set(ALLOWED) - found == set(), "this is gone: remove it from ALLOWED"


UNLIMITED = (
    "subprocess.run(['ls'])", "subprocess.check_output(['ls'], text=True)", "child.wait()", "child.communicate(b'x')",
    "urllib.request.urlopen(url)", "socket.create_connection(address)", "self._opener.open(request)",
    "httpx.Client(verify=False)", "thread.join()", "lock.acquire()", "FileLock(path)",
    "http.client.HTTPConnection(address)", "subprocess.Popen(['ls'])", "channel.recv_exit_status()",
    "Config(connect_timeout=5)",
)  # fmt: skip
WITH_A_LIMIT = (
    "subprocess.run(['ls'], timeout=3)", "child.wait(3)", "child.wait(each_time=refresh)", "', '.join(names)",
    "urllib.request.urlopen(url, None, 3)", "socket.create_connection(address, 3)", "runner.run(argv)",
    "self._opener.open(request, timeout=3)", "thread.join(3)", "path.open('a')",
)  # fmt: skip


def test_calls_without_a_limit_are_noticed_and_others_are_not() -> None:
    assert [source for source in UNLIMITED if not unlimited(source)] == []
    assert [source for source in WITH_A_LIMIT if unlimited(source)] == []
