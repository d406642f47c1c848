"""Sandbox for programs of others: a container without root, without the user's files and variables, and with a network
only to the registries of builds.

Bubblewrap builds it from the box's own programs, read-only. Root's sandboxes run as a user who owns nothing else; those
of another user need user namespaces. A proxy connects to the registries over TLS, and to nothing else: it listens in
the sandbox's network, which has only a loopback, and connects from here.
"""

from __future__ import annotations

import base64
import os
import resource
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from barograph.child_processes import descendants
from barograph.code import BuildFailed, SandboxUnavailable
from barograph.settings import process_environment

PORT = 3128  # inside: the network is the sandbox's own, so the port is free
TLS_PORT = 443
CONNECT_LIMIT_S = 30.0
IDLE_LIMIT_S = 300.0
END_LIMIT_S = 10.0  # for the proxy, once nobody uses it
LONGEST_LINE, MOST_LINES = 8192, 100
PIECE = 1 << 16
# Default hosts of Maven and Gradle.
REGISTRIES = (
    "repo.maven.apache.org", "repo1.maven.org", "repository.apache.org", "plugins.gradle.org",
    "plugins-artifacts.gradle.org", "services.gradle.org", "downloads.gradle.org",
)  # fmt: skip


class RegistryProxy(socketserver.ThreadingTCPServer):
    """Answer `CONNECT host:443` for these hosts; refusals are written to the build's log."""

    daemon_threads = True
    timeout = 0.1  # seconds to wait for a connection

    def __init__(self, listening: socket.socket, hosts: Collection[str], log: Path) -> None:
        super().__init__(("", 0), _ProxyHandler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.hosts, self.log = listening, frozenset(hosts), log

    def note(self, line: str) -> None:
        with self.log.open("a") as file:
            file.write(f"{line}\n")


class _ProxyHandler(socketserver.StreamRequestHandler):
    server: RegistryProxy
    timeout = IDLE_LIMIT_S

    def handle(self) -> None:
        request = self.rfile.readline(LONGEST_LINE).decode("latin-1").split()
        for _ in range(MOST_LINES):
            if self.rfile.readline(LONGEST_LINE).strip() == b"":
                break
        target = request[1] if len(request) == 3 else ""
        host, _, port = target.rpartition(":")
        if request[:1] != ["CONNECT"] or host.lower() not in self.server.hosts or port != str(TLS_PORT):
            line = " ".join(request[:2])[:200]
            self.server.note(f"network: {line!r} is refused; set BAROGRAPH_BUILD_REGISTRIES to hosts that builds need")
            self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        try:
            out = connect(host.lower())
        except (OSError, HTTPException) as error:
            self.server.note(f"network: {host} cannot be reached: {error}")
            self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        with out:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            relay(self.connection, out)


def connect(host: str) -> socket.socket:
    """Return a connection to the host, through this process's own proxy where it has one."""
    proxy = urllib.request.getproxies().get("https")
    if not proxy or urllib.request.proxy_bypass(host):
        return socket.create_connection((host, TLS_PORT), CONNECT_LIMIT_S)
    parts = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    way = HTTPConnection(parts.hostname or "", parts.port or 80, timeout=CONNECT_LIMIT_S)
    login = {}
    if parts.username is not None:
        text = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        login = {"Proxy-Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}
    way.set_tunnel(host, TLS_PORT, login)
    way.connect()
    return way.sock


def relay(one: socket.socket, other: socket.socket) -> None:
    """Copy bytes both ways, until both have ended."""
    other.settimeout(IDLE_LIMIT_S)
    back = threading.Thread(target=_pump, args=(other, one), daemon=True)
    back.start()
    _pump(one, other)
    back.join(IDLE_LIMIT_S)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(PIECE):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def registry_access(folder: Path, hosts: Collection[str], log: Path) -> Iterator[Path]:
    """Yield the Unix socket in `folder` that takes a sandbox's listening socket; the proxy ends with the block."""
    path = folder / "launcher.sock"
    with socket.socket(socket.AF_UNIX) as launcher:
        launcher.bind(str(path))
        launcher.listen(1)
        stop = threading.Event()
        thread = threading.Thread(target=_serve, args=(launcher, hosts, log, stop), daemon=True)
        thread.start()
        try:
            yield path
        finally:
            stop.set()
            with suppress(OSError):
                launcher.shutdown(socket.SHUT_RDWR)  # ends the wait for a launcher that never came
            thread.join(END_LIMIT_S)


def _serve(launcher: socket.socket, hosts: Collection[str], log: Path, ended: threading.Event) -> None:
    try:
        connection, _ = launcher.accept()
    except OSError:
        return
    with connection:
        connection.settimeout(CONNECT_LIMIT_S)
        _, numbers, _, _ = socket.recv_fds(connection, 1, 1)
        if not numbers:  # it was ended
            return
        (number,) = numbers
        with RegistryProxy(socket.socket(fileno=number), hosts, log) as server:
            try:
                connection.sendall(b"1")
            except OSError:  # it was ended
                return
            while not ended.is_set():
                server.handle_request()


UID = 64900  # no package uses it: Debian gives system users 100–999 and people 1000–59999
HOME, TMP = "/build/home", "/tmp"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
KEPT_VARIABLES = ("LANG", "TZ", "JAVA_HOME")
PROGRAMS = ("/usr", "/opt")
LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")  # into /usr on a merged system
# Settings that the JDK, Maven and TLS read. Not /etc as a whole: keys of services are there.
SETTINGS = (
    "alternatives", "ca-certificates", "default/locale", "java-*", "ld.so.cache", "localtime", "maven", "mavenrc",
    "nsswitch.conf", "pki", "ssl/certs", "ssl/openssl.cnf", "timezone",
)  # fmt: skip
PASSWD = f"root:x:0:0::/nonexistent:/usr/sbin/nologin\nbuild:x:{UID}:{UID}::{HOME}:/bin/sh\n"
GROUP = f"root:x:0:\nbuild:x:{UID}:\n"
HOSTS = "127.0.0.1 localhost\n"
LAUNCHER = Path(__file__).with_name("sandbox_launcher.py")
CHECK_LIMIT_S = 30.0
GIVE_LIMIT_S = 300.0
COUNT_LIMIT_S = 30.0  # more names than the limit are counted in less
NAME_BYTES = 4096
LOOK_S, DISK_LOOK_S = 1.0, 5.0  # how often use of memory and of disk is measured; many files take long


@dataclass(frozen=True)
class Resources:
    """Limits of a sandbox's programs together; a single file may be as large as the whole disk limit."""

    memory_mb: int = 6144
    disk_mb: int = 6144
    processes: int = 2048  # threads too, in all sandboxes of this box, if root makes them
    memory_files_mb: int = 512  # of /tmp where it is not a folder of the box, and of /dev/shm


RESOURCES = Resources()


@dataclass(frozen=True)
class Sandbox:
    """A sandbox's contents beside the system's own.

    `folder` is where it starts; `writable` maps folders of the box to places inside; `readable` have the same paths as
    on the box. `registries`: hosts that it may reach over TLS.
    """

    folder: str
    writable: Mapping[Path, str] = field(default_factory=dict)
    readable: Sequence[Path] = ()
    registries: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    resources: Resources = RESOURCES

    def environment(self) -> dict[str, str]:
        """Return all variables of the program."""
        variables = {name: value for name, value in process_environment().items() if name in KEPT_VARIABLES}
        network: dict[str, str] = {}
        if self.registries:  # the proxy for curl and every JVM
            places = [f"-D{name}.proxyHost=127.0.0.1 -D{name}.proxyPort={PORT}" for name in ("http", "https")]
            java = " ".join([*places, "-Daether.connector.http.useSystemProperties=true"])
            names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
            network = {**dict.fromkeys(names, f"http://127.0.0.1:{PORT}"), "JAVA_TOOL_OPTIONS": java}
        return {**variables, "PATH": PATH, "HOME": HOME, "TMPDIR": TMP, **network, **self.variables}


def require_sandbox() -> None:
    """Raise SandboxUnavailable where this box cannot create one."""
    if shutil.which("bwrap") is None:
        raise SandboxUnavailable(
            "bubblewrap is not installed; code of others runs only in its sandbox. Install it with: apt-get install"
            " bubblewrap"
        )
    argv = sandbox_command(["true"], Sandbox("/"), Path("/nonexistent"))
    test = subprocess.run(argv, capture_output=True, text=True, timeout=CHECK_LIMIT_S, stdin=subprocess.DEVNULL)
    if test.returncode:
        raise SandboxUnavailable(
            f"code of others runs only in a sandbox, and this box cannot make one: {test.stderr.strip()[-300:]}; run as"
            " root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)"
        )


def checkout_sandbox(tree: Path, folder: str, writable: Mapping[Path, str], readable: Sequence[Path] = ()) -> Sandbox:
    """Return a sandbox for a commit's policies: Python and its packages, no network, no user files."""
    pythons = dict.fromkeys(Path(prefix) for prefix in (sys.prefix, sys.base_prefix))
    return Sandbox(
        folder,
        writable,
        (*(path for path in pythons if not path.is_relative_to("/usr")), tree, *readable),
        variables={"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
    )


def give_to_sandbox(folder: Path) -> None:
    """Let the sandbox's user own a folder and its content; links are not followed."""
    if os.geteuid() != 0:
        return
    argv = ["chown", "--recursive", "--no-dereference", f"{UID}:{UID}", "--", str(folder)]
    subprocess.run(argv, capture_output=True, timeout=GIVE_LIMIT_S, check=True)


def write_accounts(files: Path) -> None:
    """Write the users that exist inside; Java takes its home from them and not from HOME."""
    for name, text in (("passwd", PASSWD), ("group", GROUP), ("hosts", HOSTS)):
        (files / name).write_text(text)
        (files / name).chmod(0o644)


def sandbox_command(argv: Sequence[str], sandbox: Sandbox, files: Path, launcher: Path | None = None) -> list[str]:
    """Return the command that runs `argv` in the sandbox. `files`: `write_accounts`'; `launcher`:
    `registry_access`'.
    """
    bwrap = ["bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--new-session"]
    bwrap.append("--clearenv")
    for name, value in sandbox.environment().items():
        bwrap += ["--setenv", name, value]
    bwrap += _mounts(sandbox, files)
    # Low priority: measurements go first, and a full memory ends these programs first.
    inside = ["nice", "-n", "10", "choom", "-n", "1000", "--", "prlimit", "--core=0"]
    inside.append(f"--fsize={sandbox.resources.disk_mb * 1024**2}")
    own_network = ["unshare", "--net"]
    if os.geteuid() == 0:  # the user changes for good: no file's capability or owner gives rights back
        inside += [f"--nproc={sandbox.resources.processes}", "--", "setpriv", f"--reuid={UID}", f"--regid={UID}"]
        inside += ["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
    else:  # the number of processes would count all of the user's
        inside.append("--")
        bwrap += ["--unshare-user", "--uid", str(UID), "--gid", str(UID)]
        own_network.append("--map-root-user")
    if launcher is None:
        return [*bwrap, "--unshare-net", "--chdir", sandbox.folder, "--", *inside, *argv]
    start = [*own_network, "--", sys.executable, "-I", str(LAUNCHER), str(launcher), str(PORT)]
    return [*start, *bwrap, "--chdir", sandbox.folder, "--", *inside, *argv]


class Watch:
    """Measure what the processes below `pid`, their writable folders, and the log use. Raises BuildFailed."""

    def __init__(self, pid: int, sandbox: Sandbox, log: Path) -> None:
        self._pid, self._sandbox, self._log = pid, sandbox, log
        self._look_s, self._disk_look_s = 0.0, 0.0

    def __call__(self) -> None:
        now_s, most = time.monotonic(), self._sandbox.resources
        if now_s >= self._look_s:
            self._look_s = now_s + LOOK_S
            memory_bytes = 0
            for pid in descendants(self._pid):
                with suppress(OSError, IndexError):  # it has ended
                    memory_bytes += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
            _require("memory", memory_bytes, most.memory_mb)
        if now_s >= self._disk_look_s:
            self._disk_look_s = now_s + DISK_LOOK_S
            paths = [*self._sandbox.writable, self._log]
            # Everything below the paths, however deep; empty files count, too.
            named_bytes = max(_total(paths, "--block-size=1"), _total(paths, "--inodes") * NAME_BYTES)
            _require("disk", named_bytes + _nameless_bytes(descendants(self._pid)), most.disk_mb)


def _require(what: str, taken: int, most_mb: int) -> None:
    if taken > most_mb * 1024**2:
        raise BuildFailed(f"it takes {taken // 1024**2} MB of {what}, allowed are {most_mb}; it was ended")


def _total(paths: Sequence[Path], unit: str) -> int:
    argv = ["du", "--summarize", "--total", "--one-file-system", unit, "--", *map(str, paths)]
    try:
        process = subprocess.run(argv, capture_output=True, timeout=COUNT_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise BuildFailed(f"its files cannot be counted within {COUNT_LIMIT_S:g} s; it was ended") from error
    return int((process.stdout.split() or [b"0"])[-2:][0])  # fails where a file vanishes meanwhile


def _nameless_bytes(pids: Sequence[int]) -> int:
    """Return the size of files that are open and have been removed."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        with suppress(OSError):  # it has ended
            for file in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    if str(file.readlink()).endswith(" (deleted)"):
                        facts = file.stat()
                        sizes[facts.st_dev, facts.st_ino] = facts.st_blocks * 512
    return sum(sizes.values())


def _mounts(sandbox: Sandbox, files: Path) -> list[str]:
    words = ["--proc", "/proc", "--dev", "/dev", *_memory_folder("/dev/shm", sandbox), *_open_folders([HOME])]
    for place in PROGRAMS:
        words += ["--ro-bind-try", place, place]
    for place in LINKS:
        if Path(place).is_symlink():
            words += ["--symlink", str(Path(place).readlink()), place]
        else:
            words += ["--ro-bind-try", place, place]
    if TMP not in sandbox.writable.values():
        words += _memory_folder(TMP, sandbox)
    words += _open_folders(["/etc/default", "/etc/ssl"])
    for path in (path for name in SETTINGS for path in sorted(Path("/etc").glob(name))):
        words += ["--ro-bind", str(path), str(path)]
    for name in ("passwd", "group", "hosts"):
        words += ["--ro-bind-try", str(files / name), f"/etc/{name}"]
    for path in sandbox.readable:
        words += [*_open_folders([str(path.parent)]), "--ro-bind", str(path), str(path)]
    for path, place in sandbox.writable.items():
        words += [*_open_folders([str(Path(place).parent)]), "--bind", str(path), place]
    return words


def _memory_folder(place: str, sandbox: Sandbox) -> list[str]:
    return ["--perms", "1777", "--size", f"{sandbox.resources.memory_files_mb * 1024**2}", "--tmpfs", place]


def _open_folders(places: Sequence[str]) -> list[str]:
    """Return flags for folders that others than root may enter, with their parents."""
    above = [folder for place in places for folder in reversed([Path(place), *Path(place).parents][:-1])]
    return [word for folder in dict.fromkeys(above) for word in ("--perms", "0755", "--dir", str(folder))]
