"""Kill a run at random moments, then give the same command again: what is left, lost, repeated or stuck?

`python -m bench.campaign.kills --kills 160` uses the fake testbed, `--testbed simulated` the simulator,
`--testbed local` real Storm on this box (as root). A series is killed a few times and then allowed to end. Prints a
JSON line for each kill and each end, and a summary; exit code 1 where anything was left, lost or repeated, or a series
could not go on.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # it ships no types

from inventory.local.lan import LINKS, NETNS
from tests.support import fakes, warm_spark

# What a person, a scheduler or the kernel does to a command.
Blow = Callable[[psutil.Process, random.Random], None]


def _send(number: signal.Signals) -> Blow:
    return lambda command, _random: command.send_signal(number)


def _interrupt_twice(command: psutil.Process, chance: random.Random) -> None:
    command.send_signal(signal.SIGINT)
    time.sleep(chance.uniform(0.1, 3.0))
    command.send_signal(signal.SIGINT)


def _kill_child(command: psutil.Process, _random: random.Random) -> None:
    for child in command.children():
        child.kill()


def _kill_largest(command: psutil.Process, _random: random.Random) -> None:
    """As the kernel does when memory ends: the process of the tree that has the most."""
    tree = [command, *command.children(recursive=True)]
    max(tree, key=_memory_bytes).kill()


def _memory_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


BLOWS: dict[str, Blow] = {
    "kill parent": _send(signal.SIGKILL),
    "kill child": _kill_child,
    "out of memory": _kill_largest,
    "SIGTERM": _send(signal.SIGTERM),
    "SIGHUP": _send(signal.SIGHUP),
    "Ctrl-C": _send(signal.SIGINT),
    "Ctrl-C twice": _interrupt_twice,
}
SMALL = "small/star"  # it is as short as a demo
SURVIVED = {"kill child", "SIGTERM", "SIGHUP", "Ctrl-C", "Ctrl-C twice"}  # the parent is there to release
END_LIMIT_S = 300.0  # for a command to end after a blow
WHOLE_LIMIT_S = 1800.0


@dataclass(frozen=True)
class World:
    """State, results and home of the campaign, and the command that is killed."""

    folder: Path
    testbed: str
    pace: float
    experiment: str = "stela/star"
    bucket: str = ""  # s3://…: results go there, and lie in its spool
    options: tuple[str, ...] = ()  # more of the command's
    variables: Mapping[str, str] = field(default_factory=dict)  # of a command that is left alone

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "BAROGRAPH_HOME": str(self.folder / "home"),
            "BAROGRAPH_STATE": str(self.folder / "state"),
            "BAROGRAPH_RESULTS": self.bucket or str(self.folder / "results"),
            "BAROGRAPH_SPARK_MASTER": "local[1]",
            "BAROGRAPH_PACE": f"{self.pace}",
            "PYTHONPATH": fakes.modules_of_children(),
        }

    @property
    def results(self) -> Path:
        spool = self.folder / "state" / "spool"
        return spool / self.bucket.removeprefix("s3://") if self.bucket else self.folder / "results"

    def argv(self) -> list[str]:
        command = [sys.executable, "-m", "barograph", "run", self.experiment, "--testbed", self.testbed]
        demo = [] if self.experiment == SMALL else ["--demo"]
        return [*command, *demo, *self.options]

    def series(self) -> list[Path]:
        return sorted((self.results / self.experiment).glob("*/series.json"))

    def complete_runs(self) -> dict[str, int]:
        """By run, when its record was written (ns): one that is measured again has another time."""
        found = {}
        for file in self.results.glob(f"{self.experiment}/*/runs/*/run.json"):
            try:
                document = json.loads(file.read_text())
            except ValueError:
                continue
            if document.get("status") == "complete":
                found[f"{file.parents[2].name}/{file.parent.name}"] = int(document["started_s"] * 1e9)
        return found

    def processes(self) -> list[str]:
        """Of this world, whoever started them."""
        mark, mine = str(self.folder), os.getpid()
        return [_name(each) for each in psutil.process_iter() if each.pid != mine and mark in _environment(each)]

    def lease_ids(self) -> set[str]:
        """Of every machine that a series of this world ever held."""
        files = self.results.glob(f"{self.experiment}/*/holdings.jsonl")
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines() if line.endswith("}")]
        return {line["lease_id"] for line in lines if line.get("lease_id")}

    def left(self) -> dict[str, list[str]]:
        """What only a run that goes on may have."""
        state = self.folder / "state"
        found = {
            "leases": [path.stem for path in state.glob("leases/*.json")],
            "machines": [
                path.name for path in [*state.glob("fake/*/*"), *state.glob("simulated/*"), *state.glob("local/*")]
            ],
            "keys": [path.name for path in state.glob("keys/*")],
            "clusters": [path.name for path in self.folder.glob("home/clusters/*")],
            "mounts": _lines_with("/proc/self/mounts", f"{state}/"),
            "namespaces": [path.name for lease in self.lease_ids() for path in NETNS.glob(f"baro-{lease}-*")],
            "links": [path.parent.name for path in LINKS.glob("*/ifalias") if str(state) in _text(path)],
            "processes": self.processes(),
        }
        return {kind: names for kind, names in found.items() if names}


def _name(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:120]}"
    except psutil.Error:
        return f"{process.pid}"


def _environment(process: psutil.Process) -> str:
    try:
        return "\n".join(process.environ().values())
    except psutil.Error:
        return ""


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # a link that has just gone
        return ""


def _lines_with(file: str, text: str) -> list[str]:
    return [line for line in Path(file).read_text().splitlines() if text in line]


@dataclass
class Findings:
    """What must not be: by kind, one line each."""

    kills: int = 0
    ended: int = 0
    wrong: dict[str, list[str]] = field(default_factory=dict)

    def note(self, kind: str, what: object) -> None:
        self.wrong.setdefault(kind, []).append(str(what))


@dataclass(frozen=True)
class Kill:
    """`struck`: the command was there to be killed; it may have ended before."""

    blow: str
    after_s: float
    struck: bool
    exit_code: int | None
    last_line: str
    left: Mapping[str, Sequence[str]]
    complete: int


def strike(world: World, blow: str, after_s: float, chance: random.Random) -> Kill:
    """Start the command, strike after that time, and wait until everything that it started has ended."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(world.argv(), env=world.environment(), stdout=output, stderr=subprocess.STDOUT)
        code: int | None
        struck = False
        try:
            code = process.wait(after_s)
        except subprocess.TimeoutExpired:
            struck = True
            BLOWS[blow](psutil.Process(process.pid), chance)
            code = _await_end(process)
        await_quiet(world)
        output.seek(0)
        lines = [line for line in output.read().splitlines() if line.strip()]
    last, left = lines[-1] if lines else "", world.left()
    return Kill(blow, round(after_s, 2), struck, code, last, left, len(world.complete_runs()))


def _await_end(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(END_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(60)
        return None


def await_quiet(world: World, limit_s: float = 180.0) -> None:
    """A child whose parent was killed releases on its own."""
    deadline_s = time.monotonic() + limit_s
    while world.processes() and time.monotonic() < deadline_s:
        time.sleep(0.5)


def whole(world: World) -> subprocess.CompletedProcess[str]:
    """The same command, left alone."""
    environment = {**world.environment(), **world.variables}
    return subprocess.run(world.argv(), env=environment, capture_output=True, text=True, timeout=WHOLE_LIMIT_S)


def judge_kill(kill: Kill, before: Mapping[str, int], world: World, findings: Findings) -> None:
    findings.kills += kill.struck
    if not kill.struck and kill.exit_code != 0:
        findings.note("commands that failed by themselves", kill.last_line)
    now = world.complete_runs()
    for run, started in before.items():
        if now.get(run) != started:
            findings.note("finished runs lost or repeated", f"{kill.blow} after {kill.after_s} s: {run}")
    if kill.exit_code is None:
        findings.note("commands that did not end", f"{kill.blow} after {kill.after_s} s")
    if processes := kill.left.get("processes"):
        findings.note("processes left", f"{kill.blow} after {kill.after_s} s: {processes}")
    if kill.blow in SURVIVED and kill.left:
        findings.note("left though the parent lived", f"{kill.blow} after {kill.after_s} s: {dict(kill.left)}")
    if "Traceback" in kill.last_line:
        findings.note("tracebacks", f"{kill.blow} after {kill.after_s} s: {kill.last_line}")


def judge_end(
    done: subprocess.CompletedProcess[str], before: Mapping[str, int], world: World, findings: Findings
) -> None:
    findings.ended += 1
    now = world.complete_runs()
    for run, started in before.items():
        if now.get(run) != started:
            findings.note("finished runs lost or repeated", f"at the end: {run}")
    if done.returncode != 0:
        findings.note("series that could not go on", f"{done.returncode}: {(done.stdout + done.stderr)[-400:]}")
    if left := world.left():
        findings.note("left after a whole run", left)


def campaign(world: World, kills: int, seed: int, longest_s: float) -> Iterator[dict[str, Any]]:
    """Facts of each kill and each end, as they come; the last one is the summary."""
    chance, findings = random.Random(seed), Findings()
    names = list(BLOWS)
    while findings.kills < kills and "commands that failed by themselves" not in findings.wrong:
        for _ in range(min(chance.randint(2, 5), kills - findings.kills)):
            before = world.complete_runs()
            kill = strike(world, names[findings.kills % len(names)], chance.uniform(0.3, longest_s), chance)
            judge_kill(kill, before, world, findings)
            yield {"kills": findings.kills, **asdict(kill)}
        before = world.complete_runs()
        done = whole(world)
        judge_end(done, before, world, findings)
        yield {"end": findings.ended, "exit_code": done.returncode, "series": len(world.series())}
    yield {"kills": findings.kills, "ends": findings.ended, "wrong": findings.wrong}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--testbed", default="fake", choices=("fake", "simulated", "local"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest-s", type=float, default=40.0, help="the latest moment of a kill after the start")
    parser.add_argument("--pace", type=float, default=0.05, help="real seconds for a second of the fake testbed")
    parser.add_argument("--experiment", default="stela/star", choices=("stela/star", SMALL))
    options = parser.parse_args()
    # A background job under nohup ignores both, and so would what it starts.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="bkills-", dir="/tmp"))
    world, wrong = World(folder, options.testbed, options.pace, options.experiment), True
    try:
        # What is killed starts a JVM of its own; the command that then ends the series need not.
        with warm_spark.running() as variables:
            world = replace(world, variables=variables)
            for line in campaign(world, options.kills, options.seed, options.longest_s):
                print(json.dumps(line, ensure_ascii=False), flush=True)
                wrong = bool(line.get("wrong"))
    finally:
        subprocess.run([sys.executable, "-m", "barograph", "reap"], env=world.environment(), timeout=600)
        if not wrong:
            shutil.rmtree(folder)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
