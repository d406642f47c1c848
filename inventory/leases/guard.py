"""The guard: a script on a machine that ends it (or our programs there) when its lease ends, even without the harness.

It reads the lease's end from `/var/lib/barograph-guard/expires` every few seconds. Beside the end stands the longest
time from now, which the machine counts by its uptime. It runs under systemd if there is one, else in a session of its
own.
"""

import base64
import math
import shlex
import time
from pathlib import Path

from barograph.errors import InfrastructureError
from inventory.remote.ssh import Remote

PROGRAM = "/usr/local/sbin/barograph-guard"
FOLDER = "/var/lib/barograph-guard"
PID = "/run/barograph-guard.pid"
UNIT = "/etc/systemd/system/barograph-guard.service"
SCRIPT = Path(__file__).with_name("guard.sh")
# By the machine's own clock it may last this much longer: two clocks, and the network delay.
SLACK_S = 60

UNIT_TEXT = f"""\
[Unit]
Description=Ends this machine when its Barograph lease ends
StartLimitIntervalSec=0
[Service]
ExecStart={PROGRAM}
Restart=on-failure
RestartSec=1
[Install]
WantedBy=multi-user.target
"""


def installation(expires_s: float, end: str = "") -> str:
    """Shell text that installs and starts the guard, or gives a guard that runs already a new end; for root.

    `end` is shell text to run instead of powering off; it is repeated until it ends with 0, then the guard ends too.
    The text ends with a code other than 0 if the guard does not run afterwards.
    """
    return "\n".join(
        [
            f"mkdir -p {FOLDER} /usr/local/sbin",
            f"chmod 700 {FOLDER}",
            _file(f"{FOLDER}/end", end, "600") if end else f"rm -f {FOLDER}/end",
            _expiry(expires_s),
            _file(PROGRAM, SCRIPT.read_text(), "755"),
            _START,
        ]
    )


def start(remote: Remote, expires_s: float, end: str = "") -> None:
    """Install and start the guard on a machine; see `installation`."""
    _as_root(remote, installation(expires_s, end), "starting the guard")


def prolong(remote: Remote, expires_s: float) -> None:
    """Set the machine's end to `expires_s`; the file is replaced as a whole."""
    _as_root(remote, f"test -d {FOLDER} && {_expiry(expires_s)}", "telling the guard the lease's new end")


def stop(remote: Remote) -> None:
    """End the guard and what it began at its end; the expiry file stays. Harmless where there is none."""
    _as_root(remote, _HALT, "stopping the guard of before")


def remove(remote: Remote) -> None:
    """Remove the guard without its having done anything; harmless where there is none."""
    _as_root(remote, _STOP, "removing the guard")


_START = f"""\
if [ -d /run/systemd/system ]; then
    {{ cat >{UNIT} <<'UNIT'
{UNIT_TEXT}UNIT
    }} && systemctl daemon-reload && systemctl enable --now --no-block barograph-guard.service
elif ! grep -qs {PROGRAM} "/proc/$(cat {PID} 2>/dev/null)/cmdline"; then
    setsid {PROGRAM} </dev/null >/dev/null 2>&1 &
    echo $! >{PID}
    sleep 0.2
    grep -qs {PROGRAM} "/proc/$(cat {PID})/cmdline"
fi"""

# A session of its own is a process group that includes the guard's children.
_HALT = f"""\
if [ -d /run/systemd/system ] && [ -e {UNIT} ]; then
    systemctl stop barograph-guard.service || exit 1
fi
guard=$(cat {PID} 2>/dev/null)
if grep -qs {PROGRAM} "/proc/$guard/cmdline"; then
    kill -s KILL -- "-$guard"
    for _ in $(seq 100); do
        cat /proc/[0-9]*/stat 2>/dev/null | grep -q ") [^ZX] [0-9]* $guard " || break
        sleep 0.1
    done
fi"""

_STOP = f"""\
if [ -d /run/systemd/system ] && [ -e {UNIT} ]; then
    systemctl disable --now barograph-guard.service || exit 1
    rm -f {UNIT}
    systemctl daemon-reload
fi
if grep -qs {PROGRAM} "/proc/$(cat {PID} 2>/dev/null)/cmdline"; then
    kill "$(cat {PID})"
fi
rm -rf {FOLDER} {PROGRAM} {PID}"""


def _expiry(expires_s: float) -> str:
    """Return shell text that replaces the file with the lease's end, in one step."""
    longest_s = max(0, math.ceil(expires_s - time.time())) + SLACK_S
    line = f"{math.ceil(expires_s)} {longest_s}"
    partial = f"{FOLDER}/expires.partial"
    return f"echo '{line}' >{partial} && {{ sync -f {partial} 2>/dev/null || :; }} && mv {partial} {FOLDER}/expires"


def _file(path: str, text: str, mode: str) -> str:
    # Replaced, not overwritten: a shell reads its script while it runs it.
    encoded = base64.b64encode(text.encode()).decode()
    new = shlex.quote(f"{path}.new")
    return f"echo {encoded} | base64 -d >{new} && chmod {mode} {new} && mv {new} {shlex.quote(path)}"


def _as_root(remote: Remote, text: str, doing: str) -> None:
    result = remote.run(["sh", "-c", text])
    if result.code != 0:
        raise InfrastructureError(
            f"{doing} failed with code {result.code}: {result.stderr.strip() or 'no message'}; the machine may end "
            "itself at the end that it knows of"
        )
