"""Bring this machine to a described state; runs on the machine, standard library only.

Standard input: one JSON object.
    directories: [{"path", "owner", "group", "mode"}], owner root, group as the owner, mode 0755 unless given
    files:       [{"path", "owner", "mode", "content"}], owner root and mode 0644 unless given; with "keep" in the place
                 of content: empty where it is not there, else as it is
    archives:    [{"path", "to"}], a .tar.gz that is on the machine, unpacked when its content changed
    names:       {name: address} that /etc/hosts is to have
    firewall:    rules of nft that are to be loaded, now and by supervisord at each boot
    firewall_kept: true where the earlier rules must be loaded still; else they are loaded, and this fails. So it is
                 without it, too, on a machine that has loaded rules before
    programs:    [{"name", "running"}], programs of supervisord, whose configuration is among the files; supervisord
                 gets it too, so that it holds after a crash of the machine
Standard output: one JSON object, {"changed": [what was changed, in words]}. Exit code 1 and a line on standard error
if it failed.
"""

import grp
import hashlib
import http.client
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import xmlrpc.client
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

SUPERVISOR_SOCKET = "/var/run/supervisor.sock"
SUPERVISOR_LIMIT_S = 60.0  # to stop a program it waits up to 10 s, and starts others meanwhile
HOSTS = Path("/etc/hosts")
BEGIN, END = "# BEGIN Barograph\n", "# END Barograph\n"
FIREWALL, TABLE = Path("/etc/barograph/firewall.nft"), "barograph"
NFT = "/usr/sbin/nft"
CLOSED = Path("/run/barograph-firewall")  # the rules are loaded since the boot: without it no daemon starts
BOOT_S = 3.0  # supervisord loads them beside other programs
OURS = frozenset(
    {"barograph-firewall", "zookeeper", "barograph-redis", "nimbus", "policy-service", "supervisor", "probe"}
)  # of supervisord
PROCESSES, WORKER = "/opt/barograph/processes", "org.apache.storm.daemon.worker.Worker"
PROGRAMS = Path("/etc/supervisor/conf.d/barograph.conf")
STOPPED = ("STOPPED", "EXITED", "FATAL", "UNKNOWN")

Wanted = Mapping[str, Any]


class UnixConnection(http.client.HTTPConnection):
    """HTTP over supervisord's socket."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(SUPERVISOR_LIMIT_S)
        self.sock.connect(SUPERVISOR_SOCKET)


class UnixTransport(xmlrpc.client.Transport):
    """XML-RPC over supervisord's socket; the host of the address is not used."""

    def make_connection(self, host: Any) -> http.client.HTTPConnection:  # noqa: ARG002  # the base class names it
        return UnixConnection("localhost")


def own(path: Path, owner: str, mode: str, group: str = "") -> bool:
    """Set owner, group (else that of the same name), and permissions; True if they were others.

    OSError for a link: a program of storm's may have put it there, and root must not give away its target.
    """
    target = pwd.getpwnam(owner).pw_uid, grp.getgrnam(group or owner).gr_gid, int(mode, 8)
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        now = os.fstat(handle)
        if (now.st_uid, now.st_gid, now.st_mode & 0o7777) == target:
            return False
        os.fchown(handle, *target[:2])
        os.fchmod(handle, target[2])
    finally:
        os.close(handle)
    return True


def directory(wanted: Wanted) -> bool:
    """Make the folder if it is missing; True if anything changed."""
    path = Path(wanted["path"])
    missing = not path.is_dir()
    path.mkdir(parents=True, exist_ok=True)
    return own(path, wanted.get("owner", "root"), wanted.get("mode", "0755"), wanted.get("group", "")) or missing


def file(wanted: Wanted) -> bool:
    """Replace the file in one step if its content differs; True if anything changed."""
    path, content = Path(wanted["path"]), wanted.get("content", "").encode()
    is_same = path.is_file() and ("keep" in wanted or path.read_bytes() == content)
    if not is_same:
        handle, draft = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as new:
            new.write(content)
        Path(draft).replace(path)
    return own(path, wanted.get("owner", "root"), wanted.get("mode", "0644")) or not is_same


def archive(wanted: Wanted) -> bool:
    """Replace the archive's top folders by its content; the digest beside them records what was unpacked."""
    archive_path, to = Path(wanted["path"]), Path(wanted["to"])
    mark = to / f".{archive_path.name}.sha256"
    digest = hashlib.sha256(archive_path.read_bytes()).hexdigest()
    if mark.is_file() and mark.read_text() == digest:
        return False
    draft = Path(tempfile.mkdtemp(dir=to))
    try:
        with tarfile.open(archive_path) as tar:
            tar.extractall(draft, members=(member for member in tar if member.isfile()))  # no links
        for folder in draft.iterdir():
            shutil.rmtree(to / folder.name, ignore_errors=True)
            folder.rename(to / folder.name)
    finally:
        shutil.rmtree(draft)
    mark.write_text(digest)
    return True


def names(wanted: Mapping[str, str], hosts: Path = HOSTS) -> bool:
    """Let the machine know these names; True if it did not.

    Where its own lines say the same (an emulated machine is created with them) nothing is added. Otherwise a block of
    ours comes before them, because the first line with a name counts, and a machine's own is often 127.0.1.1.
    """
    text = hosts.read_text()
    head, begin, rest = text.partition(BEGIN)
    other_lines = head + rest.partition(END)[2] if begin else text
    block = BEGIN + "".join(f"{address} {name}\n" for name, address in wanted.items()) + END
    content = other_lines if wanted.items() <= addresses(other_lines).items() else block + other_lines
    mode = f"{hosts.stat().st_mode & 0o7777:o}"
    return file({"path": str(hosts), "content": content, "owner": hosts.owner(), "mode": mode})


def addresses(text: str) -> dict[str, str]:
    """Return name → address in the lines of a hosts file: the first counts."""
    result: dict[str, str] = {}
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        for name in names:
            result.setdefault(name, address)
    return result


def firewall(rules: str, path: Path = FIREWALL, nft: str = NFT) -> bool:
    """Load the rules in one step; True if they were others, or were not loaded.

    Without them Storm must not start: anybody who reaches Nimbus could run code here.
    """
    is_changed = file({"path": str(path), "content": rules, "owner": path.parent.owner()})
    if not is_changed and is_loaded(path, nft):
        return False
    load(path, nft)
    return True


def load(path: Path, nft: str) -> None:
    """Load the rules of the file, and save nft's listing of them for later comparison."""
    result = run(nft, "-f", str(path))
    if result.returncode:
        path.unlink(missing_ok=True)
        lines = result.stderr.strip().splitlines()[:1] or [f"code {result.returncode}"]
        sys.exit(f"cannot load the firewall: {lines[0]}")
    file({"path": str(path.with_suffix(".loaded")), "content": listed(nft), "owner": path.parent.owner()})
    if path == FIREWALL:
        CLOSED.touch()


def listed(nft: str) -> str:
    """Return the table as it is now; empty where there is none."""
    return run(nft, "list", "table", "inet", TABLE).stdout


def is_loaded(path: Path, nft: str) -> bool:
    listing = path.with_suffix(".loaded")
    return listing.is_file() and bool(now := listed(nft)) and listing.read_text() == now


def require_firewall(stop: Callable[[], None], path: Path = FIREWALL, nft: str = NFT, boot_s: float = BOOT_S) -> None:
    """End with a message where the rules differ from the loaded ones, or are gone: Storm was open to all.

    They are loaded at once; if that fails `stop` is called.
    """
    until_s = time.monotonic() + boot_s
    while not (intact := is_loaded(path, nft)) and time.monotonic() < until_s:
        time.sleep(0.1)
    if intact:
        return
    try:
        load(path, nft)
    except SystemExit:
        stop()
        raise
    sys.exit(f"the firewall was gone, or other than it was loaded (table inet {TABLE})")


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30, check=False)


def at_boot(wanted: Wanted, configuration: Path = PROGRAMS) -> bool:
    """Let supervisord start the program by itself, or not, whenever it starts; True if that was otherwise."""
    text = configuration.read_text()
    head, section, rest = text.partition(f"[program:{wanted['name']}]\n")
    start = "true" if wanted["running"] else "false"
    content = head + section + re.sub(r"(?m)^autostart=.*$", f"autostart={start}", rest, count=1)
    return file({"path": str(configuration), "content": content, "owner": configuration.owner()})


def reload_programs(supervisor: Any) -> list[str]:
    """Let supervisord read its configuration; new and changed programs start if they are to start by themselves.

    Only ours: others' files may have changed too, and only their owner decides when those take effect.
    """
    added, changed, removed = ([name for name in names if name in OURS] for names in supervisor.reloadConfig()[0])
    for name in removed + changed:
        supervisor.stopProcessGroup(name)
        supervisor.removeProcessGroup(name)
    for name in added + changed:
        supervisor.addProcessGroup(name)
    return [f"program {name}" for name in added + changed + removed]


def stop_storm() -> None:
    """End our programs and workers, as far as they run."""
    for name in sorted(OURS):
        with suppress(OSError, xmlrpc.client.Error):
            supervisord().stopProcess(name)
    for worker in run(PROCESSES, "list", WORKER).stdout.split() if Path(PROCESSES).exists() else ():
        with suppress(ProcessLookupError):
            os.kill(int(worker), signal.SIGKILL)


def supervisord() -> Any:
    return xmlrpc.client.ServerProxy("http://localhost", transport=UnixTransport()).supervisor


def program(supervisor: Any, wanted: Wanted) -> bool:
    """Start or stop one program; True if it had to be. Its clients check whether it serves."""
    stopped = supervisor.getProcessInfo(wanted["name"])["statename"] in STOPPED
    if stopped != wanted["running"]:
        return False
    if wanted["running"]:
        supervisor.startProcess(wanted["name"], False)
    else:
        supervisor.stopProcess(wanted["name"])
    return True


def main() -> None:
    """Read the plan and carry it out."""
    plan = json.load(sys.stdin)
    if plan.get("firewall_kept") or FIREWALL.with_suffix(".loaded").exists():
        require_firewall(stop_storm)
    changes = [f"directory {entry['path']}" for entry in plan.get("directories", []) if directory(entry)]
    changes += [f"file {entry['path']}" for entry in plan.get("files", []) if file(entry)]
    changes += [f"archive {entry['path']}" for entry in plan.get("archives", []) if archive(entry)]
    changes += ["names"] if "names" in plan and names(plan["names"]) else []
    changes += ["firewall"] if "firewall" in plan and firewall(plan["firewall"]) else []
    changes += [f"{entry['name']} at boot" for entry in plan.get("programs", []) if at_boot(entry)]
    # A machine that only gets names and rules has no program to start.
    if plan.keys() <= {"names", "firewall", "firewall_kept"}:
        print(json.dumps({"changed": changes}))
        return
    supervisor = supervisord()
    changes += reload_programs(supervisor)
    changes += [f"program {entry['name']}" for entry in plan.get("programs", []) if program(supervisor, entry)]
    print(json.dumps({"changed": changes}))


if __name__ == "__main__":
    main()
