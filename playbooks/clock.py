"""Offsets of the machines' clocks from the controller's."""

from __future__ import annotations

import logging
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

log = logging.getLogger(__name__)

ROUNDS = 20
GOOD_ENOUGH_S = 0.0005
LIMIT_S = 30.0  # for a login on a machine that has used up its CPU quota, and the rounds
# Answers each line with its time: the connection stays open, so a round is one packet each way and no login.
ANSWER = "import sys, time\nfor _ in sys.stdin: print(repr(time.time()), flush=True)"
Now = Callable[[], float]


class ClockOffset(NamedTuple):
    """A machine's clock minus ours, and the most by which that may be wrong: half of the round trip."""

    ms: float
    error_ms: float


def offsets_ms(
    hosts: Mapping[str, Mapping[str, Any]], now: Now = time.time, limit_s: float = LIMIT_S
) -> dict[str, ClockOffset | None]:
    """Return each machine's clock minus ours, from the host variables of an inventory; None where it did not answer.

    `now` is our clock (epoch seconds). Of several rounds the fastest counts (Cristian's algorithm); the error is at
    most half its round trip. A machine that does not answer within `limit_s` is not asked further.
    """
    with ThreadPoolExecutor(len(hosts) or 1) as pool:
        answers = pool.map(lambda host: _offset_ms(host, now, limit_s), hosts.values())
        return dict(zip(hosts, answers, strict=True))


def ssh_command(host: Mapping[str, Any]) -> list[str]:
    """Return the ssh client with the inventory's options; it shares the connection that Ansible keeps open."""
    options = shlex.split(host.get("ansible_ssh_common_args", ""))
    key = ["-i", host["ansible_ssh_private_key_file"]] if host.get("ansible_ssh_private_key_file") else []
    target = f"{host['ansible_user']}@{host['ansible_host']}"
    return ["ssh", "-o", "BatchMode=yes", *options, *key, "-p", str(host["ansible_port"]), target]


def _offset_ms(host: Mapping[str, Any], now: Now, limit_s: float) -> ClockOffset | None:
    command = [*ssh_command(host), shlex.join(["python3", "-c", ANSWER])]
    pipe = subprocess.PIPE
    try:
        # Leaving the block closes the pipe, which fails too if the other end is gone with a question unread.
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
            limit = threading.Timer(limit_s, process.kill)
            limit.start()
            try:
                best = _ask_once(process, now)
                for _ in range(ROUNDS - 1):
                    # A machine that has used up its CPU quota answers up to 80 ms late: ask until one answer was quick.
                    if best[0] <= GOOD_ENOUGH_S:
                        break
                    best = min(best, _ask_once(process, now))
                return ClockOffset(round(best[1] * 1000, 3), round(best[0] / 2 * 1000, 3))
            finally:
                limit.cancel()
                process.kill()
    except (OSError, ValueError) as error:
        log.warning("clock of %s could not be asked: %s", host["ansible_host"], error or f"no answer in {limit_s:g} s")
        return None


def _ask_once(asked: subprocess.Popen[str], now: Now) -> tuple[float, float]:
    """Return (round trip, offset) in seconds."""
    assert asked.stdin
    assert asked.stdout
    sent_s = now()
    asked.stdin.write("\n")
    asked.stdin.flush()
    machine_s = float(asked.stdout.readline())
    received_s = now()
    return received_s - sent_s, machine_s - (sent_s + received_s) / 2
