"""The root filesystem that emulated machines start from: the host's own Debian or Ubuntu, small, with a JRE.

Built once with debootstrap from the mirror the host's apt is set to, kept under the cache folder by a hash of
its inputs. Machines put an overlay over it and never write to it.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from barograph.errors import CapacityError, ConfigurationError, InfrastructureError
from inventory.files import hold_lock, users_folder

DEFAULT_CACHE = Path("/var/cache/barograph")
ROOTFS_MB = 1500  # while it is being built; about 630 when trimmed
JRE = "openjdk-17-jre-headless"
PACKAGES = (
    JRE, "openssh-server", "supervisor", "python3", "python3-numpy", "iproute2", "iputils-ping", "procps", "sudo",
    "rsync", "ca-certificates", "nftables", "redis-server",
)  # fmt: skip
# Storm and the code that it runs; and the recorders, whose files that code must not write.
USERS = {"storm": (900, ()), "barograph": (901, ("storm",))}
# Seconds. A minute each with a near mirror: these are for a slow one.
DEBOOTSTRAP_LIMIT_S = 1200.0
INSTALL_LIMIT_S = 1200.0
UPDATE_LIMIT_S = 300.0
COMMAND_LIMIT_S = 60.0  # for commands without network
BUILD_LIMIT_S = DEBOOTSTRAP_LIMIT_S + UPDATE_LIMIT_S + INSTALL_LIMIT_S + 3 * COMMAND_LIMIT_S

START = """\
#!/bin/sh
# First process of an emulated machine. What makes it this machine is mounted read-only at /opt/barograph/machine
# and copied once, so that the files are ordinary ones on the machine's own disk and survive its restart.
set -e
given=/opt/barograph/machine
mkdir -p /run/sshd /run/lock
if [ ! -e /etc/barograph/machine-set-up ]; then
    install -D -m 644 $given/hosts /etc/hosts
    install -D -m 600 $given/ssh_host_ed25519_key /etc/ssh/ssh_host_ed25519_key
    install -d -m 700 /root/.ssh
    install -m 600 $given/authorized_keys /root/.ssh/authorized_keys
    install -D -m 644 /dev/null /etc/barograph/machine-set-up
fi
rm -f /var/run/supervisor.sock
exec /usr/bin/supervisord -n -c /etc/supervisor/supervisord.conf
"""
SSHD = """\
# Keys only, and no PAM: a login costs CPU that an emulated machine's quota feels.
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
HostKey /etc/ssh/ssh_host_ed25519_key
MaxSessions 100
MaxStartups 100
PrintLastLog no
"""
SSHD_PROGRAM = """\
[program:sshd]
command=/usr/sbin/sshd -D -e
priority=1
autorestart=true
stdout_logfile=/var/log/sshd.log
stdout_logfile_maxbytes=1MB
redirect_stderr=true
"""
NO_DOCS = """\
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
"""
# path -> (mode, text). No resolver and `hosts: files`: an emulated machine has no way to a name server, and Java
# looks up every address it meets.
FILES: dict[str, tuple[int, str]] = {
    "usr/local/sbin/barograph-machine": (0o755, START),
    "etc/ssh/sshd_config.d/barograph.conf": (0o644, SSHD),
    "etc/supervisor/conf.d/sshd.conf": (0o644, SSHD_PROGRAM),
    "etc/resolv.conf": (0o644, ""),
    "etc/hostname": (0o644, "machine\n"),
    "etc/default/locale": (0o644, "LANG=C.UTF-8\n"),
}
UNNEEDED_FILES = (
    "usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/i18n", "var/lib/apt/lists",
    "var/cache/apt", "var/cache/debconf", "usr/sbin/policy-rc.d",
)  # fmt: skip

# A killed build must not write on into the folder that the next one begins with.
KILL_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")

Log = Callable[[str], None]


def cache_dir() -> Path:
    """Return the folder of permanent builds: $BAROGRAPH_CACHE, /var/cache/barograph, or below a user's home."""
    return users_folder("BAROGRAPH_CACHE", DEFAULT_CACHE, "cache")


def build(cache: Path, log: Log) -> Path:
    """Return the root filesystem's folder, built if the cache has none for these inputs (about a minute).

    A configuration error if the host is neither Debian nor Ubuntu; infrastructure if the mirror fails or hangs, or
    another process hangs that builds it. Killed at any time it leaves only a `.partial` folder, which the next build
    removes.
    """
    release = platform.freedesktop_os_release()
    suite = release.get("VERSION_CODENAME")
    if release.get("ID") not in ("debian", "ubuntu") or not suite:
        raise ConfigurationError(
            f"the local testbed builds its machines from Debian or Ubuntu; this is {release.get('PRETTY_NAME')!r}"
        )
    inputs = [suite, os.uname().machine, PACKAGES, USERS, FILES, NO_DOCS, UNNEEDED_FILES]
    target = cache / f"rootfs-{hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:12]}"
    if target.is_dir():
        return target
    with hold_lock(cache / ".rootfs.lock", "building the machines' root filesystem", BUILD_LIMIT_S, log):
        if not target.is_dir():
            form = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(ORIGIN)"
            targets = _output_of(["apt-get", "indextargets", "--format", form, "Created-By: Packages"])
            _build(target, suite, distribution_sources(targets.splitlines()), log)
    return target


def _build(target: Path, suite: str, sources: Sequence[tuple[str, str, str]], log: Log) -> None:
    for remains in target.parent.glob("rootfs-*.partial"):
        shutil.rmtree(remains)
    free_mb = shutil.disk_usage(target.parent).free // 2**20
    if free_mb < ROOTFS_MB:
        raise CapacityError(
            f"{target.parent} has {free_mb} MB free, the machines' root filesystem needs {ROOTFS_MB}; "
            "free some or set BAROGRAPH_CACHE to a folder on a larger disk"
        )
    root, build_log = target.with_name(target.name + ".partial"), target.with_name(target.name + ".log")
    with build_log.open("w") as output:
        try:
            _debootstrap(root, suite, sources, log, output.fileno())
            _install(root, sources, log, output.fileno())
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise InfrastructureError(_failure_message(error, build_log)) from error
    for path, (mode, text) in FILES.items():
        _write(root / path, text, mode)
    switch = root / "etc/nsswitch.conf"
    switch.write_text(re.sub(r"(?m)^hosts:.*$", "hosts: files", switch.read_text()))
    for unneeded in (root / name for name in UNNEEDED_FILES):
        if unneeded.is_dir():
            shutil.rmtree(unneeded)
        unneeded.unlink(missing_ok=True)
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    root.rename(target)
    log(f"root filesystem ready: {target}")


def _debootstrap(root: Path, suite: str, sources: Sequence[tuple[str, str, str]], log: Log, output: int) -> None:
    mirror = next((uri for uri, release, _ in sources if release == suite), None)
    if mirror is None:
        raise ConfigurationError(
            f"apt has no source for {suite} itself; add it under /etc/apt and run `apt-get update`"
        )
    log(f"root filesystem: debootstrap {suite} from {mirror}")
    components = ",".join(sorted({component for _, release, component in sources if release == suite}))
    argv = ["debootstrap", "--variant=minbase", f"--components={components}", suite, str(root), mirror]
    _isolated(argv, output, None, DEBOOTSTRAP_LIMIT_S)


def _install(root: Path, sources: Sequence[tuple[str, str, str]], log: Log, output: int) -> None:
    log(f"root filesystem: installing {', '.join(PACKAGES)}")
    _write(root / "etc/dpkg/dpkg.cfg.d/no-docs", NO_DOCS, 0o644)
    _write(root / "usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", 0o755)  # no service starts while it is installed
    _write(root / "etc/apt/sources.list", "".join(f"deb {' '.join(source)}\n" for source in sources), 0o644)
    _isolated(["apt-get", "-q", "update"], output, root, UPDATE_LIMIT_S)
    _isolated(["apt-get", "-q", "-y", "--no-install-recommends", "install", *PACKAGES], output, root, INSTALL_LIMIT_S)
    for name, (uid, groups) in USERS.items():
        add = ["useradd", "--system", "--uid", str(uid), "--user-group", "--create-home", "--shell", "/bin/bash"]
        _isolated([*add, *(f"--groups={group}" for group in groups), name], output, root, COMMAND_LIMIT_S)


def _isolated(argv: Sequence[str], output: int, root: Path | None, limit_s: float) -> None:
    """Run in own mount and pid namespaces: if the build is killed, its processes and mounts end with it."""
    inside = ["--mount-proc", f"--root={root}"] if root else []
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", **_proxy()}
    subprocess.run(
        [*KILL_WITH_PARENT, "unshare", "--mount", "--pid", "--fork", "--kill-child", *inside, *argv],
        stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, check=True, timeout=limit_s,
    )  # fmt: skip


def _write(path: Path, text: str, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode)


def distribution_sources(targets: Iterable[str]) -> tuple[tuple[str, str, str], ...]:
    """Select the `uri|release|component|origin` lines that are Debian's or Ubuntu's main and universe, over http."""
    rows = (line.split("|") for line in targets)
    sources = dict.fromkeys(
        (row[0], row[1], row[2])
        for row in rows
        if row[3] in ("Debian", "Ubuntu") and row[2] in ("main", "universe") and row[0].startswith(("http:", "https:"))
    )
    if not sources:
        raise ConfigurationError(
            "apt knows no Debian or Ubuntu archive over http(s): run `apt-get update`, or mend /etc/apt"
        )
    return tuple(sources)


def _proxy() -> dict[str, str]:
    proxy = _output_of(["apt-config", "--format", "%f=%v%n", "dump", "Acquire::http::Proxy"]).strip().rpartition("=")[2]
    return {"http_proxy": proxy} if proxy and proxy != "DIRECT" else {}


def _output_of(argv: Sequence[str]) -> str:
    """Return the output of a program that reads apt's settings, whether it succeeds or not."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=COMMAND_LIMIT_S).stdout
    except subprocess.TimeoutExpired as error:
        raise InfrastructureError(f"`{' '.join(argv)}` did not end within {COMMAND_LIMIT_S:g} s") from error


def _failure_message(error: subprocess.CalledProcessError | subprocess.TimeoutExpired, build_log: Path) -> str:
    lines = build_log.read_text(errors="replace").splitlines()
    telling = [line for line in lines if line.startswith(("E:", "W: Failure"))][-2:] or lines[-2:]
    if isinstance(error, subprocess.TimeoutExpired):
        program = next((word for word in ("debootstrap", "apt-get", "useradd") if word in error.cmd), error.cmd[0])
        why = f"{program} did not end within {error.timeout:.0f} s"
    else:
        why = f"exit {error.returncode}"
    return (
        f"the machines' root filesystem could not be built ({why}): {' / '.join(telling)}; "
        f"whole log in {build_log}; check that the apt mirror is reachable"
    )
