"""Start the sandbox in an empty network of its own: create its loopback, pass a listening socket to the harness, and
become the sandbox. Standard library only.

    sandbox_launcher.py SOCKET PORT PROGRAM ARGUMENT…
"""

import os
import socket
import subprocess
import sys


def main(path: str, port: str, *argv: str) -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True, timeout=30)
    with (
        socket.create_server(("127.0.0.1", int(port)), backlog=64) as listening,
        socket.socket(socket.AF_UNIX) as harness,
    ):
        harness.connect(path)
        socket.send_fds(harness, [b"1"], [listening.fileno()])
        harness.recv(1)
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main(*sys.argv[1:])
