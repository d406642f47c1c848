"""Wait until Redis lets this machine in; runs on every machine, standard library only.

redis_answers.py HOST:PORT SECONDS
"""

import socket
import sys
import time
from pathlib import Path

SECRET = Path("/etc/barograph/redis")
OUTPUT = Path("/var/log/barograph/output/barograph-redis.out")  # on the master
DIRECTIVE = "requirepass "


def answer(address: tuple[str, int], password: str) -> str:
    """Return the last line that Redis answers to the password and a PING: `+PONG` where it works."""
    with socket.create_connection(address, 2) as connection, connection.makefile("rb") as lines:
        connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
        answers = [lines.readline().decode(errors="replace").strip() for _ in range(2)]
    return answers[1] if answers[0] == "+OK" else answers[0]


def main(place: str, seconds: str) -> None:
    host, _, port = place.rpartition(":")
    password = SECRET.read_text().strip().removeprefix(DIRECTIVE)
    deadline = time.monotonic() + float(seconds)
    while True:
        try:
            last = answer((host, int(port)), password)
            if last == "+PONG":
                return
        except OSError as error:
            last = str(error)
        if time.monotonic() > deadline:
            output = OUTPUT.read_text(errors="replace").strip().splitlines()[-1:] if OUTPUT.exists() else []
            sys.exit(f"Redis at {place} cannot be reached: {' / '.join([last or 'no answer', *output])}")
        time.sleep(0.25)


if __name__ == "__main__":
    main(*sys.argv[1:])
