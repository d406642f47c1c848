"""Serve a folder's files to the other machines for a while; runs on the master, standard library only.

    serve.py start FOLDER ADDRESS SECONDS   in the background, as the daemons' user, at a path that nobody can guess;
                                            prints {"url"}
    serve.py stop FOLDER                    its server ends within a second

A machine compares what it fetches with the digest that the harness gave it.
"""

import http.server
import json
import os
import pwd
import secrets
import shutil
import socketserver
import sys
import threading
import time
from pathlib import Path

MARK = ".serving"
LOOK_S = 0.5
USER = "storm"


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """A server with a thread for each request: many come at the same moment."""

    daemon_threads = True
    request_queue_size = 128


def handler(folder: Path, secret: str) -> type[http.server.BaseHTTPRequestHandler]:
    """Return a handler of `/<secret>/<file of the folder>` and of nothing else."""

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 60

        def do_GET(self) -> None:
            _, token, *rest = (*self.path.split("/"), "")
            file = folder / rest[0] if rest else folder
            if token != secret or len(rest) != 2 or rest[0].startswith(".") or not file.is_file():
                self.send_error(404)
                return
            with file.open("rb") as content:
                self.send_response(200)
                self.send_header("Content-Length", str(os.fstat(content.fileno()).st_size))
                self.end_headers()
                shutil.copyfileobj(content, self.wfile, 1 << 18)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Handler


def serve(server: Server, mark: Path, secret: str, seconds: float) -> None:
    """Serve until the time is over, or the mark is gone or another's."""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and mark.is_file() and mark.read_text() == secret:
        time.sleep(LOOK_S)


def detach() -> bool:
    """Detach; True in a process without terminal, waiting parent, or any of our open files."""
    if os.fork():
        return False
    os.setsid()
    if os.fork():
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    return True


def start(folder: Path, address: str, seconds: float) -> None:
    secret, mark = secrets.token_urlsafe(24), folder / MARK
    server = Server((address, 0), handler(folder, secret))
    mark.write_text(secret)
    user = pwd.getpwnam(USER)
    shutil.chown(mark, USER, USER)
    print(json.dumps({"url": f"http://{address}:{server.server_address[1]}/{secret}"}), flush=True)
    if detach():
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
        serve(server, mark, secret, seconds)
        os._exit(0)


def main(what: str, folder: str, *rest: str) -> None:
    if what == "stop":
        (Path(folder) / MARK).unlink(missing_ok=True)
        return
    start(Path(folder), rest[0], float(rest[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
