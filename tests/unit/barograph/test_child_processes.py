"""One child process: its exit code, its limit, the end of its group, and its own end with its parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from barograph.child_processes import AT_ONCE, ChildProcess, group_members
from barograph.settings import ROOT

GRANDCHILD = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True)"
STUBBORN = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
)
ORPHAN = """
import signal, sys, time
from barograph.child_processes import die_with_parent
die_with_parent(int(sys.argv[1]), signal.SIGTERM)
print("up", flush=True)
time.sleep(60)
"""


def start(folder: Path, *argv: str) -> ChildProcess:
    with (folder / "output").open("wb") as output:
        return ChildProcess([sys.executable, "-c", *argv], folder=folder, output=output)


def output_of(child: ChildProcess, folder: Path) -> str:
    """What it has written, once there is something."""
    while not (text := (folder / "output").read_text()):
        assert child.wait(0.05) is None, "it ended without a word"
    return text.strip()


@pytest.mark.parametrize(
    ("program", "code"),
    [("pass", 0), ("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 15)", -signal.SIGTERM)],
)
def test_its_exit_code_is_that_of_subprocess(tmp_path: Path, program: str, code: int) -> None:
    with start(tmp_path, program) as child:
        assert child.wait(30) == code
        assert child.wait(30) == code, "asking again"
    assert child.exit_code() == code, "also after it was collected"


IGNORED = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
from barograph.child_processes import ChildProcess
argv = ["sh", "-c", "kill -9 $$"]
with open(sys.argv[1], "wb") as output, ChildProcess(argv, folder=Path("."), output=output) as child:
    print(child.wait(30))
"""


def test_a_parent_that_ignores_the_end_of_its_children_hides_no_code(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", IGNORED, str(tmp_path / "output")]
    assert subprocess.run(argv, cwd=ROOT, capture_output=True, text=True).stdout == f"{-signal.SIGKILL}\n"


def test_after_the_limit_it_still_runs_until_the_block_ends(tmp_path: Path) -> None:
    rounds: list[int] = []
    with start(tmp_path, "import time; time.sleep(60)") as child:
        assert child.wait(0.25, lambda: rounds.append(1)) is None
        assert rounds and child.exit_code() is None
    assert child.exit_code() == -signal.SIGKILL


def test_what_it_left_in_its_group_ends_with_it(tmp_path: Path) -> None:
    with start(tmp_path, GRANDCHILD) as child:
        assert child.wait(30) == 0
        grandchild = int((tmp_path / "output").read_text())
        assert group_members(child.pid) == [grandchild]
    assert group_members(child.pid) == []
    assert child.exit_code() == 0, "its own end was another"


def test_a_child_that_ignores_a_signal_gets_the_next(tmp_path: Path) -> None:
    child = start(tmp_path, STUBBORN)
    assert output_of(child, tmp_path) == "up"
    child.end_group(((signal.SIGTERM, 0.3), *AT_ONCE))
    assert child.exit_code() == -signal.SIGKILL


def test_a_second_ctrl_c_while_it_ends_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = start(tmp_path, STUBBORN)
    assert output_of(child, tmp_path) == "up"
    waits = iter([KeyboardInterrupt()])

    def interrupted(seconds: float) -> None:
        for error in waits:
            raise error
        sleep(seconds)

    sleep = time.sleep
    monkeypatch.setattr("barograph.child_processes.time.sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        child.end_group(((signal.SIGTERM, 30.0), *AT_ONCE))
    assert group_members(child.pid) == [] and child.exit_code() == -signal.SIGKILL


def test_ctrl_c_of_the_terminal_does_not_reach_it(tmp_path: Path) -> None:
    with start(tmp_path, "import time; time.sleep(60)") as child:
        assert os.getpgid(child.pid) == child.pid != os.getpgid(0)


def test_a_program_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with (tmp_path / "output").open("wb") as output, pytest.raises(FileNotFoundError):
        ChildProcess(["no-such-program"], folder=tmp_path, output=output)


PARENT = """
import sys, time
from pathlib import Path
from barograph.child_processes import ChildProcess
folder = Path(sys.argv[1])
with (folder / "output").open("wb") as output:
    child = ChildProcess(["sleep", "60"], folder=folder, output=output)
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_parent_that_is_killed_takes_its_child_along(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert group_members(child) == [child]
        parent.kill()
    while group_members(child):  # pytest's timeout ends a wait in vain
        time.sleep(0.05)


def test_a_child_whose_parent_was_gone_before_ends_at_once(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with (tmp_path / "output").open("wb") as output:
        child = ChildProcess(
            [sys.executable, "-c", ORPHAN, "1"], folder=tmp_path, output=output, environment=environment
        )
    with child:
        assert child.wait(30) == -signal.SIGTERM
    assert (tmp_path / "output").read_text() == ""


SLOW_TO_END = 'trap "sleep 1; touch ended; exit" TERM; touch ready; while :; do sleep 0.05; done'


def test_where_who_ends_the_others_is_gone_they_have_its_time(tmp_path: Path) -> None:
    steps = ((signal.SIGTERM, 30.0), (signal.SIGTERM, 0.1), (signal.SIGKILL, 10.0))
    argv = ["sh", "-c", f"sh -c '{SLOW_TO_END}' & while [ ! -e ready ]; do sleep 0.05; done"]
    with (
        (tmp_path / "log").open("wb") as log,
        ChildProcess(argv, folder=tmp_path, output=log, ending=steps, ends_its_own=True) as child,
    ):
        assert child.wait(60.0) == 0
    assert (tmp_path / "ended").exists()
