"""Wait until a program of this machine can be connected to; runs on the machine, standard library only.

    listening.py WHO ADDRESS:PORT SECONDS LOG …

Where it cannot be, what its logs say last of an error goes into the message: they were emptied before it started.
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


def listens(address: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(address, 2):
            return True
    except OSError:
        return False


def last_words(logs: list[Path]) -> str:
    """The last lines that name an error, else the last lines."""
    lines = [line for log in logs if log.is_file() for line in log.read_text(errors="replace").splitlines()]
    said = [line.strip()[:WIDTH] for line in lines if line.strip() and not FRAME.match(line)]
    errors = [line for line in said if ERROR.search(line)]
    return " / ".join(dict.fromkeys((errors or said)[-LINES:])) or "its logs are empty"


def main(who: str, place: str, seconds: str, *logs: str) -> None:
    host, _, port = place.rpartition(":")
    deadline = time.monotonic() + float(seconds)
    while not listens((host, int(port))):
        if time.monotonic() > deadline:
            said = last_words([LOGS / log for log in logs])
            sys.exit(f"{who} does not start with the code of this run; it said: {said}")
        time.sleep(0.25)


if __name__ == "__main__":
    main(*sys.argv[1:])
