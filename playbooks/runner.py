"""Run one playbook through ansible-runner and report each task's result."""

from __future__ import annotations

import json
import logging
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from barograph.errors import BarographError, DiskFull
from barograph.plan.events.kind import PLAYS_S

log = logging.getLogger(__name__)

HERE = Path(__file__).parent
KEPT_ARTIFACTS = 50
STDERR_LINES = 8
# Where these tasks fail, machine and harness did their part: Nimbus or Flux refused. Each ends by itself on the machine
# before its play's limit; where one is still open then, ssh or the machine hangs and not Storm.
STORM_TASKS = frozenset({
    "Submit the topology with Flux", "Kill topologies", "Wait until Nimbus has the supervisors",
    "Wait until the policy service answers", "Wait until Nimbus answers",
})  # fmt: skip
# Where these fail, or hang, a machine or the network between two does not do its part.
NETWORK_TASKS = frozenset({"Wait until Redis answers"})
LOCAL_TASKS = frozenset({"Pack the Storm home"})  # done on this box, whichever machine they are listed under
# In the environment of everything that a play starts: the folder of its cluster, and the lease, as
# `inventory.leases.processes` reads it.
MARK, LEASE_MARK = "BAROGRAPH_PLAY", "BAROGRAPH_STARTED_FOR_LEASE"
END_LIMIT_S = 10.0

# Messages of apply.py and prepare.sh, and what they mean for who runs the experiment.
ADVICE = {
    "cannot load the firewall": (
        "Storm was not started: whoever reaches {machine} could run code there through Nimbus (6627), and reach"
        " ZooKeeper (2181), supervisors (6628) and workers (6700-6763). Give the machine a kernel with nf_tables, the"
        " package nftables, and a root with CAP_NET_ADMIN, or use another machine"
    ),
    "the firewall was gone": (
        "Whoever reached {machine} could meanwhile run code there through Nimbus (6627): the run does not count. The"
        " rules are loaded again. Find what removed the table `inet barograph` (`nft flush ruleset`, the restart of"
        " another firewall), and run it again"
    ),
    "the machine is somebody's": "Rename or remove it on {machine}, or use another machine",
}

Event = Mapping[str, Any]


class MachineUnknown(BarographError):
    """A play names a machine that the inventory does not have, or none."""


class PlayFailed(BarographError):
    """A play did not end well; the message names machine, task and the last lines of standard error."""


class MachineUnreachable(PlayFailed):
    """A machine did not answer ssh."""

    blame = "infrastructure"


class StormRefused(PlayFailed):
    """A task failed that depends on Storm alone."""

    blame = "system_under_test"


@dataclass(frozen=True)
class TaskResult:
    """One task on one machine; `stdout` is empty where a module has none."""

    host: str
    task: str
    outcome: str  # ok, failed, skipped, unreachable
    changed: bool
    seconds: float
    stdout: str = ""
    stderr: str = ""
    problem: str = ""


@dataclass(frozen=True)
class PlayResult:
    """Result of a play. `ok`, `changed`, `failed` count tasks over all machines; `tasks` are in order of their end."""

    playbook: str
    ok: int
    changed: int
    failed: int
    seconds: float
    tasks: tuple[TaskResult, ...] = field(repr=False, default=())


@dataclass
class OpenTasks:
    """The running tasks by machine, and the time limit of the play."""

    limit_s: float
    begin_s: float = field(default_factory=time.monotonic)
    begun_s: dict[tuple[str, str], float] = field(default_factory=dict)  # by machine and task
    late: bool = False

    def hear(self, event: Event) -> None:
        data = event.get("event_data") or {}
        task = (str(data.get("host")), str(data.get("task")))
        if event.get("event") == "runner_on_start":
            self.begun_s[task] = time.monotonic()
        elif str(event.get("event")).startswith("runner_on_"):
            self.begun_s.pop(task, None)

    def is_late(self) -> bool:
        self.late = self.late or time.monotonic() - self.begin_s >= self.limit_s
        return self.late


def play(playbook: str, inventory: Path, variables: Mapping[str, Any], directory: Path) -> PlayResult:
    """Run `playbooks/<playbook>.yml` on an inventory file; artifacts go below `directory`.

    `variables` hold no secrets: they are written to the artifacts. Each task on each machine is logged, in a line that
    begins with `variables["run_id"]` if there is one. Raises PlayFailed or a subclass of it, also where it is not over
    within its limit (`PLAYS_S`). `directory` is named after the lease; all processes that the play started end with it.
    One play at a time.
    """
    started, run_id = time.monotonic(), str(variables.get("run_id", "-"))
    results: list[TaskResult] = []
    totals: dict[str, int] = {}
    open_tasks = OpenTasks(PLAYS_S[playbook])
    _end_plays(directory, but_connections=True)  # of a killed harness: they would go on beside this one

    def hear(event: Event) -> bool:
        open_tasks.hear(event)
        if event.get("event") == "playbook_on_stats":  # a censored task (`no_log`) hides its own change
            totals.update(event["event_data"].get("changed", {}))
        result = task_result(event)
        if result is not None:
            results.append(result)
            log.info("%s", f"{run_id} {playbook}: {describe(result)}")
        return True  # ansible-runner keeps the event's file

    status, complaint = _run_ansible(playbook, inventory.absolute(), variables, directory, hear, open_tasks.is_late)
    ok, failed = (sum(one.outcome in kinds for one in results) for kinds in (("ok",), ("failed", "unreachable")))
    changed, seconds = sum(totals.values()), time.monotonic() - started
    log.info("%s %s: %d ok, %d changed, %d failed in %.1f s", run_id, playbook, ok, changed, failed, seconds)
    if open_tasks.late and status != "successful":
        raise lateness(playbook, open_tasks.limit_s, open_tasks.begun_s, time.monotonic())
    if status != "successful":
        raise failure(playbook, results, complaint or f"ansible ended as {status!r}")
    return PlayResult(playbook, ok, changed, failed, seconds, tuple(results))


def task_result(event: Event) -> TaskResult | None:
    """Return the result that an event of ansible-runner reports; None for every other kind of event."""
    kind, data = str(event.get("event")), event.get("event_data") or {}
    outcome = kind.removeprefix("runner_on_")
    if outcome == kind or outcome not in ("ok", "failed", "skipped", "unreachable") or data.get("ignore_errors"):
        return None
    answer = data.get("res") or {}
    parts = [str(answer.get(key) or "").strip() for key in ("msg", "stderr", "module_stderr", "censored")]
    return TaskResult(
        host=data.get("host", "?"), task=data.get("task", "?"), outcome=outcome,
        changed=bool(answer.get("changed")), seconds=float(data.get("duration") or 0.0),
        stdout=str(answer.get("stdout") or ""), stderr=str(answer.get("stderr") or ""),
        problem=_last_lines("\n".join(dict.fromkeys(filter(None, parts)))),
    )  # fmt: skip


def describe(result: TaskResult) -> str:
    """Return one line: machine, task, outcome, seconds, and the problem if there was one."""
    word = "changed" if result.outcome == "ok" and result.changed else result.outcome
    problem = f": {' / '.join(result.problem.splitlines())}" if result.outcome in ("failed", "unreachable") else ""
    return f"{result.host} {result.task}: {word} ({result.seconds:.1f} s){problem}"


def failure(playbook: str, results: Sequence[TaskResult], complaint: str) -> PlayFailed | DiskFull:
    """Return an error with the right blame. An unreachable machine comes first: other failures may follow from it."""
    failures = [result for result in results if result.outcome in ("unreachable", "failed")]
    failures.sort(key=lambda result: result.outcome != "unreachable")
    if not failures:
        return PlayFailed(f"{playbook}: no machine reported a failure, but ansible did: {_last_lines(complaint)}")
    worst = failures[0]
    more = f" ({len(failures) - 1} more failed)" if len(failures) > 1 else ""
    message = f"{playbook}: {worst.host}: task {worst.task!r} {worst.outcome}{more}: {worst.problem}"
    if worst.outcome == "unreachable":
        return MachineUnreachable(message)
    for words, advice in ADVICE.items():
        if words in worst.problem:
            return PlayFailed(f"{message}. {advice.format(machine=worst.host)}", "configuration")
    if "is undefined" in worst.problem:
        return PlayFailed(f"{message}; a variable is missing: give it in cluster.py or the role's defaults")
    if worst.task.startswith("Fetch ") and "No space left on device" in worst.problem:
        return DiskFull(f"{message}; the local disk is full: free some space and collect again")
    task = worst.task.rpartition(" : ")[2]
    if task in NETWORK_TASKS:
        return PlayFailed(f"{message}; see its log, and whether {worst.host} reaches the master", "infrastructure")
    return StormRefused(message) if task in STORM_TASKS else PlayFailed(message)


def lateness(playbook: str, limit_s: float, begun_s: Mapping[tuple[str, str], float], now_s: float) -> PlayFailed:
    """Return an error with the blame for a play beyond its limit: that of the task which has run for the longest."""
    message = f"{playbook}: not over after {limit_s:g} s, its limit, and ended"
    if not begun_s:
        return PlayFailed(f"{message}: no task ran, ansible-playbook itself hung")
    (host, task), since_s = min(begun_s.items(), key=lambda entry: entry[1])
    others = sorted({name for name, _ in begun_s} - {host})
    more = f"; so are {', '.join(others)}" if others else ""
    message = f"{message}: {host}: task {task!r} has been running for {now_s - since_s:.0f} s{more}"
    name = task.rpartition(" : ")[2]
    if name in LOCAL_TASKS:
        return PlayFailed(f"{message}; it runs on this box")
    return PlayFailed(f"{message}; see whether {host} is alive and ssh to it works", "infrastructure")


def _last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-STDERR_LINES:])


def _run_ansible(
    playbook: str, inventory: Path, variables: Mapping[str, Any], directory: Path, hear: Callable[[Event], bool],
    is_late: Callable[[], bool],
) -> tuple[str, str]:  # fmt: skip
    """Return (status, Ansible's last output). Ctrl-C and SIGTERM reach the caller as they would without Ansible."""
    import ansible_runner

    directory.mkdir(parents=True, exist_ok=True)
    ident = f"{playbook}-{uuid4().hex[:8]}"
    artifacts = directory / "artifacts" / ident
    variables_file = directory / "variables.json"  # a file, because a command line has a maximum length
    variables_file.write_text(json.dumps(dict(variables)))

    def cancelled() -> bool:
        if not asked_to_stop and not is_late():
            return False
        _end_plays(directory)
        return True

    def drop_environment(status: Mapping[str, Any], **_: object) -> None:
        """Keep only the command: ansible-runner writes the whole environment, credentials too, beside it."""
        if status.get("status") == "running" and (file := artifacts / "command").exists():
            file.write_text(json.dumps({"command": json.loads(file.read_text())["command"]}))

    with _collect_signals() as asked_to_stop:
        runner = ansible_runner.run(
            private_data_dir=str(directory),
            project_dir=str(HERE),
            playbook=f"{playbook}.yml",
            inventory=str(inventory),
            cmdline=shlex.join(["--extra-vars", f"@{variables_file.absolute()}"]),
            envvars={
                # ansible-playbook is beside this interpreter.
                "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
                "ANSIBLE_CONFIG": str(HERE / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1",
                MARK: str(directory.absolute()), LEASE_MARK: directory.absolute().name,
            },
            ident=ident,
            rotate_artifacts=KEPT_ARTIFACTS,
            quiet=True,
            suppress_env_files=True,
            event_handler=hear,
            cancel_callback=cancelled,
            status_handler=drop_environment,
        )  # fmt: skip
    if asked_to_stop:
        signal.raise_signal(asked_to_stop[0])
    outputs = [path for path in (artifacts / "stdout", artifacts / "stderr") if path.exists()]
    return str(runner.status), "".join(path.read_text(errors="replace") for path in outputs)


def _end_plays(directory: Path, *, but_connections: bool = False) -> None:
    """Kill all that plays of this cluster started; ansible-runner misses Ansible's workers, which have own sessions.

    `but_connections`: ssh connections that outlive their play, for the next one, are kept.
    """
    mark, deadline_s = f"{MARK}={directory.absolute()}".encode(), time.monotonic() + END_LIMIT_S
    clean = 0  # looks that found none; one is not enough, for a new process has no environment for a moment
    while clean < 2:
        clean = 0 if _kill_marked(mark, but_connections) else clean + 1
        if time.monotonic() > deadline_s:
            log.warning("what plays of %s started does not end, whatever signal it gets", directory)
            return
        time.sleep(0.01)


def _kill_marked(mark: bytes, but_connections: bool) -> int:
    """Kill the processes with the mark and return their number."""
    number = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile, or is somebody else's
            handle = os.pidfd_open(int(process.name))  # first: its pid may be reused
            try:
                connection = but_connections and (process / "cmdline").read_bytes().startswith(b"ssh: ")
                if mark in (process / "environ").read_bytes().split(b"\0") and not connection:
                    number += 1
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)
    return number


@contextmanager
def _collect_signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM meanwhile, so that Ansible ends first; only the main thread can."""
    signals: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    numbers = signal.SIGINT, signal.SIGTERM
    handlers = [signal.signal(number, lambda n, _: signals.append(n)) for number in numbers]
    try:
        yield signals
    finally:
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)
