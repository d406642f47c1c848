"""Runs inside a machine's root filesystem, alone in its process and network namespace; stdlib only, any Python 3.

Starts a one-machine Storm with a small topology, has Java note the classes that each program loads, stops everything,
and dumps one class data archive a program. Reads /training/spec.json, writes /training/out/*.jsa.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

TRAINING = Path("/training")
LISTS = TRAINING / "lists"
OUT = TRAINING / "out"
START_LIMIT_S = 60
STOP_LIMIT_S = 5
DUMP_LIMIT_S = 120  # several at a time on few cores


def main() -> None:
    spec = json.loads((TRAINING / "spec.json").read_text())
    for folder in (LISTS, OUT):
        folder.mkdir(exist_ok=True)
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        run_storm(spec, daemons)
    finally:
        stop(daemons)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        dumps = [pool.submit(dump, spec["java"], *archive) for archive in spec["class_paths"].items()]
    for finished in dumps:
        finished.result()


def run_storm(spec: dict[str, Any], daemons: list[subprocess.Popen[bytes]]) -> None:
    for name in ("zookeeper", "nimbus", "supervisor"):
        daemons.append(start(name, spec["daemons"][name]))
        wait(f"{name} to listen", functools.partial(is_listening, spec["ports"][name]))
    tool("flux-submit", spec["submit"])
    wait("the workers to start", lambda: len(worker_logs()) == spec["workers"])
    wait("the workers to work", lambda: all("Finished loading" in log.read_text() for log in worker_logs()))
    time.sleep(spec["seconds"])
    tool("flux-kill", spec["kill"])
    wait("the workers to stop", lambda: not any(is_alive(log.with_name("worker.pid")) for log in worker_logs()))


def start(name: str, command: dict[str, Any]) -> subprocess.Popen[bytes]:
    noting = {"BAROGRAPH_CLASS_LIST": f"{LISTS}/{name}.list", "BAROGRAPH_WORKER_CLASS_LIST": f"{LISTS}/worker"}
    output = (TRAINING / f"{name}.out").open("w")
    environment = {**os.environ, **command["environment"], **noting}
    return subprocess.Popen(command["argv"], env=environment, stdout=output, stderr=subprocess.STDOUT)


def tool(name: str, argv: list[str]) -> None:
    environment = {**os.environ, "BAROGRAPH_CLASS_LIST": str(LISTS / f"{name}.list")}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=START_LIMIT_S, check=False)
    if done.returncode != 0:
        sys.exit(f"{name} failed: {(done.stdout + done.stderr)[-500:]}")


def worker_logs() -> list[Path]:
    return list(Path("/training/artifacts").glob("*/*/worker.log"))


def is_alive(pid_file: Path) -> bool:
    return pid_file.exists() and Path("/proc", pid_file.read_text().strip()).exists()


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait(what: str, is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + START_LIMIT_S
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"waited {START_LIMIT_S} s for {what}")
        time.sleep(0.1)


def stop(daemons: list[subprocess.Popen[bytes]]) -> None:
    for daemon in reversed(daemons):
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            daemon.kill()


def dump(java: str, archive: str, class_path: str) -> None:
    lines = dict.fromkeys(line for part in sorted(LISTS.glob(f"{archive}*")) for line in whole_lines(part.read_text()))
    merged = TRAINING / f"{archive}.classes"
    merged.write_text("".join(lines))
    flags = [f"-XX:SharedClassListFile={merged}", f"-XX:SharedArchiveFile={OUT}/{archive}.jsa"]
    done = subprocess.run(
        [java, "-Xshare:dump", *flags, "-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-cp", class_path],
        capture_output=True,
        text=True,
        check=False,
        timeout=DUMP_LIMIT_S,
    )
    if done.returncode != 0:
        sys.exit(f"{archive}.jsa: {(done.stdout + done.stderr)[-500:]}")


def whole_lines(text: str) -> list[str]:
    """Without the last line where its program was killed in the middle of it."""
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]


if __name__ == "__main__":
    main()
