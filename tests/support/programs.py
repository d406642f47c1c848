"""Which programs tests find: those of the packages that set-up declares, so that tests pass on a new machine too."""

import os
import shutil
import sys
from pathlib import Path

import pytest

STATE = Path(__file__).resolve().parents[2] / ".barograph"
LINKS = STATE / "path"  # made by .ci/bootstrap
CALLED = (
    "debootstrap", "git", "ip", "iperf3", "java", "make", "mvn", "podman", "ps", "python3", "runc", "setpriv", "sh",
    "sha256sum", "ssh", "ssh-keygen", "tc", "unshare",
)  # fmt: skip


def path(links: Path = LINKS, called: tuple[str, ...] = CALLED) -> str:
    """The PATH of tests: the virtual environment's programs, then those that set-up declares."""
    if not links.is_dir():
        raise pytest.UsageError(f"{links}, the programs that tests may call, is missing: run .ci/bootstrap")
    if missing := [name for name in called if shutil.which(name, path=str(links)) is None]:
        raise pytest.UsageError(
            f"tests call {', '.join(missing)}, which no declared package has: "
            "add the package to PRODUCT or TESTS in .ci/bootstrap and run it"
        )
    return os.pathsep.join([str(Path(sys.executable).parent), str(links)])


def chromium() -> Path:
    """The system's Chromium. Skips the test only where set-up found that the system offers none."""
    if (STATE / "no-chromium").exists():
        pytest.skip("this system offers no Chromium as a package")
    program = LINKS / "chromium"
    assert program.exists(), f"{program} is missing: run .ci/bootstrap"
    return program
