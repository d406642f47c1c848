"""Commands that start daemons from the Storm home, and default resources of executors: variables of the roles.

A command is `<home>/bin/run <archive> <class path after the libraries> <flags by memory> <properties> <main class>
<arguments>`. `bin/run` spells out the libraries and adds the class data archive if there is one; its java is
`BAROGRAPH_JAVA`, else `/usr/bin/java`.

Storm's resource-aware scheduler places by declared numbers alone, and Storm's defaults (a tenth of a core and 128 MB an
executor) do not fit machines of a fifth of a core. A machine declares its real resources; an executor without numbers
in its topology declares an equal share of a slot of the smallest machine. The scheduler fills one machine before it
takes the next, so the fewer executors are to share a slot (EXECUTORS_PER_SLOT), the further they
are spread. No other scheduler reads this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Daemon = Literal["zookeeper", "nimbus", "supervisor"]

HOME = "/opt/barograph/storm"
HOMES = "/opt/barograph/homes"  # where machines mount this box's homes: HOME then is a link to one of them
CONF = "/etc/barograph/storm"
STATE = "/var/lib/barograph/storm"
LOGS = "/var/log/barograph"

MAIN_CLASS: dict[Daemon, str] = {
    "zookeeper": "org.apache.zookeeper.server.quorum.QuorumPeerMain",
    "nimbus": "org.apache.storm.daemon.nimbus.Nimbus",
    "supervisor": "org.apache.storm.daemon.supervisor.Supervisor",
}
HEAP_MB: dict[str, tuple[int, int, int]] = {  # share of the machine as a divisor, least, most
    "zookeeper": (32, 32, 512),
    "nimbus": (8, 96, 1024),
    "supervisor": (16, 48, 256),
}
WORKER_HEAP_MB = (32, 2048)  # least, most
LEAN_BELOW_MB = 4096  # smaller machines get the flags that start fast and stay small; larger ones the JVM's defaults
LEAN = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss256k", "-XX:ReservedCodeCacheSize=32m")
TOOL_FLAGS = ("-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def jvm_flags(daemon: Daemon, memory_mb: int) -> list[str]:
    """Return heap and, on a small machine, lean flags. `memory_mb` is the machine's memory limit."""
    divisor, least, most = HEAP_MB[daemon]
    return [f"-Xmx{min(max(memory_mb // divisor, least), most)}m", *_lean(memory_mb)]


def worker_childopts(memory_mb: int, slots: int) -> str:
    """Return `worker.childopts` for storm.yaml."""
    return " ".join([f"-Xmx{worker_heap_mb(memory_mb, slots)}m", *_lean(memory_mb)])


def worker_heap_mb(memory_mb: int, slots: int) -> int:
    """Return the heap: a quarter of the memory, shared by the slots; small JVMs need as much again beside it."""
    least, most = WORKER_HEAP_MB
    return min(max(memory_mb // (4 * slots), least), most)


def daemon_command(daemon: Daemon, memory_mb: int, *, conf: str = CONF, logs: str = LOGS) -> list[str]:
    """Return the argument vector that starts `daemon` in the foreground; ZooKeeper reads `<conf>/zoo.cfg`."""
    properties = {
        "daemon.name": daemon,
        "storm.home": HOME,
        "storm.log.dir": logs,
        "logfile.name": f"{daemon}.log",
        "log4j.configurationFile": f"{HOME}/log4j2/cluster.xml",
        "Log4jContextSelector": "org.apache.logging.log4j.core.selector.BasicContextSelector",
        "java.library.path": "/usr/lib",
    }
    defines = [f"-D{key}={value}" for key, value in properties.items()]
    arguments = [f"{conf}/zoo.cfg"] if daemon == "zookeeper" else []
    return [f"{HOME}/bin/run", daemon, conf, *jvm_flags(daemon, memory_mb), *defines, MAIN_CLASS[daemon], *arguments]


def environment(daemon: Daemon, *, conf: str = CONF) -> dict[str, str]:
    """Return a daemon's environment. The supervisor's JAVA_HOME has a wrapper that starts workers without LogWriter."""
    shared = {"STORM_CONF_DIR": conf, "MALLOC_ARENA_MAX": "1"}
    return {**shared, "JAVA_HOME": f"{HOME}/supervisor-java"} if daemon == "supervisor" else shared


def flux_command(jar: str, yaml: str, *, conf: str = CONF) -> list[str]:
    """Submit the Flux topology in `yaml`, made of the classes in `jar`."""
    run = [f"{HOME}/bin/run", "flux", f"{jar}:{conf}", *TOOL_FLAGS, f"-Dstorm.home={HOME}", f"-Dstorm.jar={jar}"]
    return [*run, "org.apache.storm.flux.Flux", "--remote", yaml]


def _lean(memory_mb: int) -> list[str]:
    return list(LEAN) if memory_mb < LEAN_BELOW_MB else []


# SP table I, scale-in of page load: 7 components of 15 executors end on 4 machines of 4 slots, which is 7 a slot.
EXECUTORS_PER_SLOT = 8


@dataclass(frozen=True)
class ResourceDefaults:
    """The default demand of an executor, and the heap that executors of one worker share. 100 % is one core."""

    executor_cpu_percent: float
    executor_heap_mb: float
    worker_heap_mb: int


def resource_defaults(workers: Sequence[Mapping[str, float]]) -> ResourceDefaults:
    """Return the defaults. `workers` are the host variables of the machines that have slots, at least one."""
    heap_mb = min(worker_heap_mb(int(w["machine_memory_mb"]), int(w["machine_slots"])) for w in workers)
    cpu_percent = min(100 * w["machine_cores"] / w["machine_slots"] for w in workers)
    # Rounded down to two decimals: a full machine must not be over its capacity by a rounding error.
    cpu, heap = (math.floor(100 * each / EXECUTORS_PER_SLOT + 1e-9) / 100 for each in (cpu_percent, heap_mb))
    return ResourceDefaults(cpu, heap, heap_mb)
