"""Use so many cores of this machine until the process whose id is in the file ends: `cpu_load.py CORES PIDFILE`.

Runs on the machine, standard library only. The first process returns once the load is there. Its child's children
compute: each uses a core, the last one the rest of it, in turns of a twentieth of a second; they end with their parent.
A second load replaces nothing: while one is there, it does nothing.
"""

import os
import signal
import sys
import time
from pathlib import Path

TURN_S = 0.05


def compute(share: float, parent: int) -> None:
    """A child: busy for that share of each turn."""
    while os.getppid() == parent:
        begin = time.monotonic()
        while time.monotonic() - begin < share * TURN_S:
            pass
        time.sleep(max(0.0, begin + TURN_S - time.monotonic()))
    os._exit(0)


def is_there(pid_file: Path) -> bool:
    try:
        pid = int(pid_file.read_text())
        return str(Path(__file__)).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return False


def main(cores: float, pid_file: Path) -> None:
    if is_there(pid_file) or os.fork():
        return
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    pid_file.write_text(f"{os.getpid()}\n")
    whole = int(cores)
    for share in [1.0] * whole + ([cores - whole] if cores > whole else []):
        if not os.fork():
            compute(share, os.getppid())
    signal.pause()


if __name__ == "__main__":
    main(float(sys.argv[1]), Path(sys.argv[2]))
