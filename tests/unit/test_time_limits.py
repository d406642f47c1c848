"""Every call of the product that waits for somebody else has a time limit."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
    "barograph/cli/ui.py: airflow.wait": "a server: until somebody ends it",
    "barograph/cli/ui.py: FileLock": "acquired without waiting",
    "barograph/pool.py: os.waitpid": "of a process that has answered, or whose pipe has ended: it does nothing more",
    "barograph/run/code_service.py: subprocess.Popen": "each answer has a limit, and `close` kills it",
    "scheduler_plugins/policies/metis_process.py: subprocess.Popen": "each answer has a limit, and `__exit__` kills it",
    "scheduler_plugins/service.py: os.waitpid": "without waiting",
    "barograph/supervisor.py: os.waitpid": "as long as its programs run, which are servers; a signal ends it",
    "barograph/supervisor.py: subprocess.Popen": "ended by `_end_all`, which has limits",
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


@pytest.mark.parametrize("source", [
    "subprocess.run(['ls'])", "subprocess.check_output(['ls'], text=True)", "child.wait()", "child.communicate(b'x')",
    "urllib.request.urlopen(url)", "socket.create_connection(address)", "self._opener.open(request)",
    "httpx.Client(verify=False)", "thread.join()", "lock.acquire()", "FileLock(path)",
    "http.client.HTTPConnection(address)", "subprocess.Popen(['ls'])", "channel.recv_exit_status()",
    "Config(connect_timeout=5)",
])  # fmt: skip
def test_a_call_without_a_limit_is_noticed(source: str) -> None:
    assert unlimited(source)


@pytest.mark.parametrize("source", [
    "subprocess.run(['ls'], timeout=3)", "child.wait(3)", "child.wait(each_time=refresh)", "', '.join(names)",
    "urllib.request.urlopen(url, None, 3)", "socket.create_connection(address, 3)", "runner.run(argv)",
    "self._opener.open(request, timeout=3)", "thread.join(3)", "path.open('a')",
])  # fmt: skip
def test_a_call_with_a_limit_is_not(source: str) -> None:
    assert not unlimited(source)
