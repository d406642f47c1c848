"""Wait until a program of this machine accepts connections; runs on the machine, standard library only.

    listening.py WHO PROGRAM ADDRESS:PORT SECONDS LOG …

If it does not, the last errors in its logs go into the message: they were emptied before it started. A program that
ends again and again is not waited for.
"""

import re
import socket
import sys
import time
from pathlib import Path

ERROR = re.compile(r"Exception|Error|Refused|Traceback")
FRAME = re.compile(r"^\s+at |^\s+File |^\s+\.\.\. \d+ more")
LINES, WIDTH = 4, 300
LOGS = Path("/var/log/barograph")
SUPERVISORD = Path("/var/log/supervisor/supervisord.log")
EXITS = 2  # one exit may be because something it needs was not ready yet


def listens(address: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(address, 2):
            return True
    except OSError:
        return False


def told() -> bytes:
    """Return supervisord's log; empty where it logs elsewhere."""
    try:
        return SUPERVISORD.read_bytes()
    except OSError:
        return b""


def exits(program: str, since: int) -> int:
    """Count how often supervisord saw the program end by itself, from that place of its log on."""
    return told()[since:].count(f" exited: {program} (".encode())


def last_words(logs: list[Path]) -> str:
    """Return the last lines that name an error, else the last lines."""
    lines = [line for log in logs if log.is_file() for line in log.read_text(errors="replace").splitlines()]
    texts = [line.strip()[:WIDTH] for line in lines if line.strip() and not FRAME.match(line)]
    errors = [line for line in texts if ERROR.search(line)]
    return " / ".join(dict.fromkeys((errors or texts)[-LINES:])) or "its logs are empty"


def main(who: str, program: str, place: str, seconds: str, *logs: str) -> None:
    host, _, port = place.rpartition(":")
    deadline, since = time.monotonic() + float(seconds), len(told())
    while not listens((host, int(port))):
        if time.monotonic() > deadline or exits(program, since) >= EXITS:
            message = last_words([LOGS / log for log in logs])
            sys.exit(f"{who} does not start with the code of this run; it said: {message}")
        time.sleep(0.25)


if __name__ == "__main__":
    main(*sys.argv[1:])
