"""Faults in every phase of a run: is the right one blamed, and is nothing lost?

`python -m bench.campaign.faults` (as root) runs each fault in each phase and prints a JSON line for each cell and a
table at the end; exit code 1 where a cell is not as it must be. On the fake testbed: a full disk (a small tmpfs under
the results, the state folder or Airflow's home) and a bucket that refuses. With `--testbed local`, on real Storm: what
happens to machines and daemons, and this box's clock, which the machines share, set by half a minute: nothing else
may run then. One variant is enough there (`--variants stela`). Two campaigns at once need LANs of their own
(BAROGRAPH_CONTROL_LAN, BAROGRAPH_EXPERIMENT_LAN).
After each fault that ended the command the same one must complete the series.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.exceptions import ServiceUnavailable
from werkzeug.serving import make_server

from barograph.errors import EXIT_CODES, BarographError
from barograph.machines import series_lease
from bench.campaign.kills import END_LIMIT_S, SMALL, World, await_quiet, whole
from inventory.local import lan
from inventory.local.testbed import LocalTestbed
from inventory.machines import Machine
from inventory.remote.ssh import Remote, connect
from tests.support import warm_spark

# As they come in the progress of a series; `decision` is between the scale request and its rebalance: on Storm a
# third of a second goes to the decision, and a second from there to the rebalance.
PHASES = ("deploy", "submit", "warm_up", "decision", "after", "collect", "release")
PHASE_LIMIT_S = 600.0
PROCESS_LIMIT_S = 20.0
TMPFS_MB = 48
BUCKET_NAME = "barograph-faults"
BUCKET_USER = {
    "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """`inject` takes the world and the series; `heal` lets the next command work; `exits`: right codes."""

    name: str
    inject: Callable[[World, Path], None]
    heal: Callable[[World, Path], None]
    exits: frozenset[int]


def _codes(*blames: str) -> frozenset[int]:
    """A fault may also come too late to matter."""
    return frozenset({0, *(EXIT_CODES[blame] for blame in blames)})


# --- a full disk -----------------------------------------------------------------------------------------------------


def _fill(world: World, place: str) -> None:
    with suppress(OSError), (world.folder / place / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"0" * 65536)
    with suppress(OSError), (world.folder / place / "filler.2").open("wb", buffering=0) as file:
        while True:
            file.write(b"0")


def _empty(world: World, place: str) -> None:
    for name in ("filler", "filler.2"):
        (world.folder / place / name).unlink(missing_ok=True)


def full_disk(place: str) -> Fault:
    return Fault(
        f"disk full under {place}",
        lambda world, _series: _fill(world, place),
        lambda world, _series: _empty(world, place),
        _codes("capacity"),
    )


@contextmanager
def small_disks(world: World, places: Sequence[str]) -> Iterator[None]:
    with ExitStack() as stack:
        for place in places:
            folder = world.folder / place
            folder.mkdir(exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={TMPFS_MB}m", "tmpfs", str(folder)], check=True)
            stack.callback(subprocess.run, ["umount", str(folder)], check=True)
        yield


# --- a bucket --------------------------------------------------------------------------------------------------------


@dataclass
class Bucket:
    """moto's S3 on loopback; while it refuses, every request gets 503, as S3 says it."""

    refuses: bool = False

    @contextmanager
    def running(self) -> Iterator[Mapping[str, str]]:
        """The environment of somebody who uses it."""
        application = DomainDispatcherApplication(create_backend_app)

        def answer(environ: Any, start_response: Any) -> Any:
            return (ServiceUnavailable() if self.refuses else application)(environ, start_response)

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        server = make_server("127.0.0.1", 0, answer, threaded=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            variables = {**BUCKET_USER, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}"}
            with patch.dict(os.environ, variables):
                boto3.client("s3").create_bucket(Bucket=BUCKET_NAME)
            yield variables
        finally:
            server.shutdown()
            thread.join()

    def fault(self) -> Fault:
        return Fault(
            "bucket refuses",
            lambda _world, _series: setattr(self, "refuses", True),
            lambda _world, _series: setattr(self, "refuses", False),
            _codes("infrastructure"),
        )


# --- machines and daemons --------------------------------------------------------------------------------------------


def _machine(series: Path, name: str) -> Machine:
    return next(machine for machine in series_lease.current_machines(series) if machine.name == name)


def _lease_id(series: Path) -> str:
    lease = series_lease.saved_lease(series)
    assert lease is not None
    return lease.lease_id


def _endpoint(series: Path, name: str) -> lan.LanEndpoint:
    machine = _machine(series, name)
    number = lan.endpoint_number(machine.control_address)
    return lan.lan_endpoint(_lease_id(series), name, number, machine.type.bandwidth_mbit)


def _crash(_world: World, series: Path) -> None:
    LocalTestbed().crash(_machine(series, "m1"))


def _cut(_world: World, series: Path) -> None:
    lan.set_links(_lease_id(series), _endpoint(series, "m1"), up=False)


class NoSuchProcess(Exception):
    """There is no process that the fault could befall."""


def _kill_daemon(machine: str, daemon: str) -> Callable[[World, Path], None]:
    """`daemon`: as its machine's supervisord names it."""

    def kill(_world: World, series: Path) -> None:
        with connect(_machine(series, machine)) as remote:
            _kill(remote, ["supervisorctl", "pid", daemon])

    return kill


def _kill_worker(_world: World, series: Path) -> None:
    with connect(_machine(series, "m1")) as remote:
        _kill(
            remote, ["pgrep", "-o", "-f", "^[^ ]*java .*org.apache.storm.daemon.worker.Worker"]
        )  # no shell that names it


def _kill(remote: Remote, argv: Sequence[str]) -> None:
    """The process whose id this command prints. At the begin of a phase it may not be there yet."""
    deadline_s = time.monotonic() + PROCESS_LIMIT_S
    while time.monotonic() < deadline_s:
        pid = remote.run(argv).stdout.strip()
        if pid.isdigit() and int(pid) > 0:
            killed = remote.run(["kill", "-9", pid])
            if killed.code == 0:
                return
        time.sleep(0.2)
    raise NoSuchProcess(f"{' '.join(argv)} names no process")


def _set_clock(step_s: float) -> None:
    time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME) + step_s)


def stepped_clock(step_s: float) -> Fault:
    return Fault(
        f"clock stepped by {step_s:+g} s",
        lambda _world, _series: _set_clock(step_s),
        lambda _world, _series: _set_clock(-step_s),
        _codes("infrastructure"),
    )


def _nothing(_world: World, _series: Path) -> None:
    """The next command takes other machines."""


FAULTS: Mapping[str, Sequence[Fault]] = {
    "fake": [full_disk("results"), full_disk("state"), full_disk("home")],
    "local": [
        Fault("machine dead", _crash, _nothing, _codes("infrastructure")),
        Fault("network cut", _cut, _nothing, _codes("infrastructure")),
        Fault("Nimbus killed", _kill_daemon("master", "nimbus"), _nothing, _codes("system_under_test")),
        Fault("ZooKeeper killed", _kill_daemon("master", "zookeeper"), _nothing, _codes("system_under_test")),
        Fault("policy service killed", _kill_daemon("master", "policy-service"), _nothing, _codes("infrastructure")),
        Fault("worker killed", _kill_worker, _nothing, _codes("system_under_test")),
        stepped_clock(30.0),
        stepped_clock(-30.0),
    ],
}


# --- a cell ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """`struck`: the phase came, and the fault with it. `runs`: status and blame of each attempt that is on record.
    `again`: exit code of the same command afterwards; null where the first one completed the series."""

    fault: str
    phase: str
    struck: bool
    exit_code: int | None
    last_line: str
    runs: Mapping[str, str]
    left: Mapping[str, Sequence[str]]
    again: int | None
    wrong: Sequence[str]


def cell(world: World, fault: Fault, phase: str) -> Cell:
    """A new series, the fault in that phase, its healing, and the same command again."""
    known = set(world.series())
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [*world.argv(), "--new"], env=world.environment(), stdout=output, stderr=subprocess.STDOUT
        )
        series = _await_phase(world, known, phase, process)
        struck = series is not None and _inject(fault, world, series)
        code = _end(process)
        await_quiet(world)
        output.seek(0)
        lines = [line for line in output.read().splitlines() if line.strip()]
    if series is not None:
        fault.heal(world, series)
    left, before, runs = world.left(), world.complete_runs(), _attempts(series)
    completed = code == 0 and {status for name, status in runs.items() if ".attempt-" not in name} == {"complete"}
    done = None if completed else whole(world)
    wrong = _judge(fault, code, lines, left, done, before, world)
    again = None if done is None else done.returncode
    return Cell(fault.name, phase, struck, code, lines[-1] if lines else "", runs, left, again, wrong)


def _inject(fault: Fault, world: World, series: Path) -> bool:
    """False where there is nothing any more that it could befall: machines that are being released."""
    try:
        fault.inject(world, series)
    except (NoSuchProcess, BarographError, OSError, StopIteration) as error:  # gone, or going
        print(f"{fault.name}: {error}", file=sys.stderr)
        return False
    return True


def _await_phase(world: World, known: set[Path], phase: str, process: subprocess.Popen[bytes]) -> Path | None:
    deadline_s = time.monotonic() + PHASE_LIMIT_S
    while process.poll() is None and time.monotonic() < deadline_s:
        for file in set(world.series()) - known:
            if _is_in(file.parent, phase):
                return file.parent
        time.sleep(0.02)
    return None


def _is_in(series: Path, phase: str) -> bool:
    if phase == "decision":
        kinds = [line.get("kind") for file in series.glob("runs/*/events.jsonl") for line in _lines(file)]
        return kinds.count("scale_requested") > kinds.count("applied")
    return any(line.get("phase") == phase for line in _lines(series / "progress.jsonl"))


def _lines(file: Path) -> list[dict[str, Any]]:
    """The last one may be half written."""
    lines = []
    with suppress(OSError):
        for text in file.read_text(errors="replace").splitlines():
            with suppress(ValueError):
                lines.append(json.loads(text))
    return lines


def _end(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(END_LIMIT_S + PHASE_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(60)
        return None


def _attempts(series: Path | None) -> dict[str, str]:
    if series is None:
        return {}
    documents = {file.parent.name: _lines_of(file) for file in series.glob("*/*/run.json")}
    return {name: f"{each.get('status')} {each.get('failure_blame') or ''}".strip() for name, each in documents.items()}


def _lines_of(file: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError):
        return {"status": "damaged"}
    return document


def _judge(
    fault: Fault,
    code: int | None,
    lines: Sequence[str],
    left: Mapping[str, Sequence[str]],
    done: subprocess.CompletedProcess[str] | None,
    before: Mapping[str, int],
    world: World,
) -> list[str]:
    now = world.complete_runs()
    facts = {
        f"exit code {code}, allowed are {sorted(fault.exits)}": code not in fault.exits,
        "a traceback": any(line.startswith("Traceback") for line in lines),
        f"left: {dict(left)}": bool(left),
        _said_again(done): done is not None and done.returncode != 0,
        "a finished run was lost or repeated": any(now.get(run) != started for run, started in before.items()),
        f"left after the whole run: {world.left()}": bool(world.left()),
    }
    return [what for what, holds in facts.items() if holds]


def _said_again(done: subprocess.CompletedProcess[str] | None) -> str:
    return f"the same command again ended with {done.returncode}: {(done.stdout + done.stderr)[-300:]}" if done else ""


def table(cells: Sequence[Cell]) -> Iterator[str]:
    """Markdown: the exit code by fault and phase; `–` where the fault did not strike, `!` where something is wrong."""
    yield f"| fault | {' | '.join(PHASES)} |"
    yield "|---" * (len(PHASES) + 1) + "|"
    for fault in dict.fromkeys(each.fault for each in cells):
        row = {each.phase: each for each in cells if each.fault == fault}
        yield f"| {fault} | {' | '.join(_mark(row.get(phase)) for phase in PHASES)} |"


def _mark(found: Cell | None) -> str:
    if found is None:
        return ""
    return f"{found.exit_code if found.struck else '–'}{' !' if found.wrong else ''}"


def cells(world: World, faults: Sequence[Fault], phases: Sequence[str]) -> Iterator[Cell]:
    for fault in faults:
        for phase in phases:
            yield cell(world, fault, phase)


def campaign(world: World, names: str, phases: Sequence[str]) -> Iterator[Cell]:
    """Every fault of the testbed with this in its name, in every phase."""
    faults = [fault for fault in FAULTS[world.testbed] if names in fault.name]
    with ExitStack() as stack:
        # An analysis is in every cell, and none of them is about its start.
        variables = stack.enter_context(warm_spark.running())
        stack.enter_context(patch.dict(os.environ, {"BAROGRAPH_STATE": str(world.folder / "state")}))
        if world.testbed == "fake" and faults:
            stack.enter_context(small_disks(world, ("results", "state", "home")))
        stack.callback(_reap, world)
        with patch.dict(os.environ, variables):
            yield from cells(world, faults, phases)
        bucket = Bucket()
        if world.testbed == "fake" and names in bucket.fault().name:
            # Spark needs other jars for it than that JVM has.
            stack.enter_context(patch.dict(os.environ, stack.enter_context(bucket.running())))
            yield from cells(replace(world, bucket=f"s3://{BUCKET_NAME}/lab"), [bucket.fault()], phases)


def _reap(world: World) -> None:
    subprocess.run([sys.executable, "-m", "barograph", "reap"], env=world.environment(), timeout=600)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--testbed", default="fake", choices=sorted(FAULTS))
    parser.add_argument("--faults", default="", help="only those with this in their name")
    parser.add_argument("--phases", default=",".join(PHASES))
    parser.add_argument("--pace", type=float, default=0.02, help="real seconds for a second of the fake testbed")
    parser.add_argument("--experiment", default="stela/star", choices=("stela/star", SMALL))
    parser.add_argument("--variants", help="only these of the experiment's")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bfaults-", dir="/tmp"))
    only = ("--variants", options.variants) if options.variants else ()
    world, rows = World(folder, options.testbed, options.pace, options.experiment, options=only), []
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else the disks stay mounted
    for row in campaign(world, options.faults, options.phases.split(",")):
        rows.append(row)
        print(json.dumps(asdict(row), ensure_ascii=False), flush=True)
    print("\n".join(table(rows)))
    never = {each.fault for each in rows} - {each.fault for each in rows if each.struck}
    for fault in sorted(never):
        print(f"{fault}: struck in no phase")
    return int(bool(never) or any(each.wrong for each in rows))


if __name__ == "__main__":
    sys.exit(main())
