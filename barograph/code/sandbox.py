"""Sandbox for programs of others: a container without root, without the user's files and variables, and with a network
only to the registries of builds.

Bubblewrap builds it from the box's own programs, read-only. Root's sandboxes run as a user who owns nothing else; those
of another user need user namespaces.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from barograph.child_processes import descendants
from barograph.code.errors import BuildFailed, SandboxUnavailable
from barograph.code.registries import PORT
from barograph.settings import process_environment

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
        network = _proxy_variables() if self.registries else {}
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
    bwrap += ["--clearenv", *_set_variables(sandbox.environment()), *_mounts(sandbox, files)]
    if os.geteuid() != 0:
        bwrap += ["--unshare-user", "--uid", str(UID), "--gid", str(UID)]
    way = [] if launcher else ["--unshare-net"]
    inside = [*bwrap, *way, "--chdir", sandbox.folder, "--", *_limits(sandbox), *_without_rights(), *argv]
    if launcher is None:
        return inside
    own_network = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    return [*own_network, "--", sys.executable, "-I", str(LAUNCHER), str(launcher), str(PORT), *inside]


def _limits(sandbox: Sandbox) -> list[str]:
    """Return the prefix for low priority: measurements go first, and a full memory ends these programs first."""
    most = sandbox.resources
    limits = [f"--fsize={most.disk_mb * 1024**2}", "--core=0"]
    # Without root the number would count all processes of the user.
    limits += [f"--nproc={most.processes}"] if os.geteuid() == 0 else []
    return ["nice", "-n", "10", "choom", "-n", "1000", "--", "prlimit", *limits, "--"]


class Watch:
    """Measure what the processes below `pid`, their writable folders, and the log use. Raises BuildFailed."""

    def __init__(self, pid: int, sandbox: Sandbox, log: Path) -> None:
        self._pid, self._sandbox, self._log = pid, sandbox, log
        self._look_s, self._disk_look_s = 0.0, 0.0

    def __call__(self) -> None:
        now_s, most = time.monotonic(), self._sandbox.resources
        if now_s >= self._look_s:
            self._look_s = now_s + LOOK_S
            _require("memory", sum(map(_resident_bytes, descendants(self._pid))), most.memory_mb)
        if now_s >= self._disk_look_s:
            self._disk_look_s = now_s + DISK_LOOK_S
            named_bytes = _disk_bytes([*self._sandbox.writable, self._log])
            _require("disk", named_bytes + _nameless_bytes(descendants(self._pid)), most.disk_mb)


def _require(what: str, taken: int, most_mb: int) -> None:
    if taken > most_mb * 1024**2:
        raise BuildFailed(f"it takes {taken // 1024**2} MB of {what}, allowed are {most_mb}; it was ended")


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):  # it has ended
        return 0


def _disk_bytes(paths: Sequence[Path]) -> int:
    """Return the size of everything below the paths, however deep; empty files count, too."""
    return max(_total(paths, "--block-size=1"), _total(paths, "--inodes") * NAME_BYTES)


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


def _without_rights() -> list[str]:
    """Return the prefix that changes the user for good: no file's capability or owner gives rights back."""
    if os.geteuid() != 0:
        return []
    user = [f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
    return ["setpriv", *user, "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]


def _set_variables(variables: Mapping[str, str]) -> list[str]:
    return [word for name, value in variables.items() for word in ("--setenv", name, value)]


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


def _proxy_variables() -> dict[str, str]:
    """Return the proxy as variables for curl and every JVM."""
    url = f"http://127.0.0.1:{PORT}"
    flags = [f"-D{scheme}.proxy{part}" for scheme in ("http", "https") for part in ("Host=127.0.0.1", f"Port={PORT}")]
    java = " ".join([*flags, "-Daether.connector.http.useSystemProperties=true"])
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    return {**dict.fromkeys(names, url), "JAVA_TOOL_OPTIONS": java}
