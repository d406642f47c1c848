"""Bring this machine to a described state; runs on the machine, standard library only.

Standard input: one JSON object.
    directories: [{"path", "owner", "mode"}], owner root and mode 0755 unless given
    files:       [{"path", "owner", "mode", "content"}], owner root and mode 0644 unless given
    archives:    [{"path", "to"}], a .tar.gz that is on the machine, unpacked when its content changed
    programs:    [{"name", "running"}], programs of supervisord, whose configuration is among the files
    wait:        whether to wait until the programs are as wanted, true unless given
Standard output: one JSON object, {"changed": [what was changed, in words]}. Exit code 1 and a line on standard error if it failed.
"""

import grp
import hashlib
import http.client
import json
import os
import pwd
import shutil
import socket
import sys
import tarfile
import tempfile
import time
import xmlrpc.client

SUPERVISOR_SOCKET = "/var/run/supervisor.sock"
STATE_WAIT_S = 30.0
STOPPED = ("STOPPED", "EXITED", "FATAL", "UNKNOWN")


class UnixConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(SUPERVISOR_SOCKET)


class UnixTransport(xmlrpc.client.Transport):
    def make_connection(self, host):
        return UnixConnection("localhost")


def own(path, owner, mode):
    """Owner and permissions; True if they were others."""
    uid, gid = pwd.getpwnam(owner).pw_uid, grp.getgrnam(owner).gr_gid
    now = os.stat(path)
    if (now.st_uid, now.st_gid, now.st_mode & 0o7777) == (uid, gid, int(mode, 8)):
        return False
    os.chown(path, uid, gid)
    os.chmod(path, int(mode, 8))
    return True


def directory(wanted):
    missing = not os.path.isdir(wanted["path"])
    os.makedirs(wanted["path"], exist_ok=True)
    return own(wanted["path"], wanted.get("owner", "root"), wanted.get("mode", "0755")) or missing


def file(wanted):
    """Replace the file in one step if its content differs."""
    content = wanted["content"].encode()
    try:
        with open(wanted["path"], "rb") as present:
            same = present.read() == content
    except FileNotFoundError:
        same = False
    if not same:
        handle, draft = tempfile.mkstemp(dir=os.path.dirname(wanted["path"]))
        with os.fdopen(handle, "wb") as new:
            new.write(content)
        own(draft, wanted.get("owner", "root"), wanted.get("mode", "0644"))
        os.replace(draft, wanted["path"])
        return True
    return own(wanted["path"], wanted.get("owner", "root"), wanted.get("mode", "0644"))


def archive(wanted):
    """Replace the archive's top folders by its content; the digest kept beside them says what was unpacked."""
    with open(wanted["path"], "rb") as packed:
        digest = hashlib.sha256(packed.read()).hexdigest()
    mark = os.path.join(wanted["to"], "." + os.path.basename(wanted["path"]) + ".sha256")
    if os.path.exists(mark) and open(mark).read() == digest:
        return False
    draft = tempfile.mkdtemp(dir=wanted["to"])
    try:
        with tarfile.open(wanted["path"]) as packed:
            packed.extractall(draft)
        for name in os.listdir(draft):
            shutil.rmtree(os.path.join(wanted["to"], name), ignore_errors=True)
            os.rename(os.path.join(draft, name), os.path.join(wanted["to"], name))
    finally:
        shutil.rmtree(draft)
    with open(mark, "w") as new:
        new.write(digest)
    return True


def reload_programs(supervisor):
    """Let supervisord read its configuration; new and changed programs are started if they are to start by themselves."""
    added, changed, removed = supervisor.reloadConfig()[0]
    for name in removed + changed:
        supervisor.stopProcessGroup(name)
        supervisor.removeProcessGroup(name)
    for name in added + changed:
        supervisor.addProcessGroup(name)
    return ["%s %s" % (word, name) for word, names in (("added", added), ("changed", changed), ("removed", removed)) for name in names]


def await_state(supervisor, name, running):
    deadline = time.monotonic() + STATE_WAIT_S
    while True:
        state = supervisor.getProcessInfo(name)
        if (state["statename"] == "RUNNING") if running else (state["statename"] in STOPPED):
            return
        if state["statename"] == "FATAL" or time.monotonic() > deadline:
            sys.exit("%s should be %s but is %s: %s" % (name, "running" if running else "stopped", state["statename"], state["description"]))
        time.sleep(0.2)


def program(supervisor, wanted):
    """Start or stop one program; True if it had to be."""
    stopped = supervisor.getProcessInfo(wanted["name"])["statename"] in STOPPED
    if stopped != wanted["running"]:
        return False
    (supervisor.startProcess if wanted["running"] else supervisor.stopProcess)(wanted["name"], False)
    return True


def main():
    plan = json.load(sys.stdin)
    changed = []
    for kind, step in (("directories", directory), ("files", file), ("archives", archive)):
        changed += ["%s %s" % (kind, wanted["path"]) for wanted in plan.get(kind, []) if step(wanted)]
    supervisor = xmlrpc.client.ServerProxy("http://localhost", transport=UnixTransport()).supervisor
    changed += reload_programs(supervisor)
    changed += [wanted["name"] for wanted in plan.get("programs", []) if program(supervisor, wanted)]
    for wanted in plan.get("programs", []) if plan.get("wait", True) else []:
        await_state(supervisor, wanted["name"], wanted["running"])
    print(json.dumps({"changed": changed}))


if __name__ == "__main__":
    main()
