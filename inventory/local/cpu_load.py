"""Use so many cores of this machine until this is killed: `cpu_load.py CORES`.

Runs on the machine, standard library only. The first process returns once the load is there. Its child's children
compute: each uses a core, the last one the rest of it, in turns of a twentieth of a second; they end with their parent.
"""

import os
import signal
import sys
import time

TURN_S = 0.05


def compute(share: float, parent: int) -> None:
    """Keep a child process busy for that share of each turn."""
    while os.getppid() == parent:
        begin = time.monotonic()
        while time.monotonic() - begin < share * TURN_S:
            pass
        time.sleep(max(0.0, begin + TURN_S - time.monotonic()))
    os._exit(0)


def main(cores: float) -> None:
    reader, ready = os.pipe()
    if os.fork():
        os.close(ready)
        if os.read(reader, 1) != b"1":
            sys.exit("the load ended as it began")
        return
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    parent, whole_cores = os.getpid(), int(cores)
    for share in [1.0] * whole_cores + ([cores - whole_cores] if cores > whole_cores else []):
        if not os.fork():
            compute(share, parent)
    os.write(ready, b"1")
    signal.pause()


if __name__ == "__main__":
    main(float(sys.argv[1]))
