"""A program of somebody else's: a clean environment, its own process group, a time limit, its output in a file."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from dags.sources.errors import BuildFailed, BuildHung
from dags.sources.store import last_words

# What a build needs to find its tools and the way out. Everything else may be a secret.
KEPT = (
    "PATH", "HOME", "LANG", "TZ", "JAVA_HOME", "MAVEN_ARGS", "MAVEN_OPTS", "GRADLE_USER_HOME",
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE",
)  # fmt: skip
LOOK_S = 0.1
TERM_S = 3.0


def clean_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of this process only what KEPT names."""
    return {name: os.environ[name] for name in KEPT if name in os.environ} | dict(more or {})


def run(
    argv: Sequence[str], folder: Path, log: Path, *, limit_s: float, environment: Mapping[str, str] | None = None
) -> None:
    """Run it in `folder`; its output is appended to `log`. Raises BuildFailed or BuildHung with the log's last words.

    Whatever it started and left in its process group ends with it. `environment` None: `clean_environment()`.
    """
    with log.open("ab") as output:
        output.write(f"$ {' '.join(argv)}\n".encode())
        output.flush()
        try:
            started = subprocess.Popen(
                list(argv),
                cwd=folder,
                env=dict(clean_environment() if environment is None else environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise BuildFailed(
                f"{argv[0]!r} cannot be started: {error.strerror}; is it installed, and on PATH?"
            ) from error
        try:
            in_time = _wait(started.pid, limit_s)
        finally:
            _end_group(started)
    if not in_time:
        raise BuildHung(f"{' '.join(argv)} took more than {limit_s:g} s and was ended; it said last: {last_words(log)}")
    if started.returncode:
        raise BuildFailed(f"{' '.join(argv)} ended with {started.returncode}; it said last: {last_words(log)}")


def _wait(pid: int, limit_s: float) -> bool:
    """Whether it ended in time. It is not reaped, so that its group's number stays its own."""
    deadline = time.monotonic() + limit_s
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_S)
    return True


def _end_group(started: subprocess.Popen[bytes]) -> None:
    """Politely, then not; the group's leader is not reaped before, so the number cannot be another group's."""
    group = started.pid
    with suppress(ProcessLookupError):
        if not _wait(group, 0):
            os.killpg(group, signal.SIGTERM)
            _wait(group, TERM_S)
        os.killpg(group, signal.SIGKILL)
    started.wait()
