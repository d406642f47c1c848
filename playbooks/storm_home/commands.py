"""How each daemon is started from the Storm home: the template variables of the Ansible roles.

A command is `<home>/bin/run <archive> <class path after the libraries> <flags by memory> <properties> <main class>
<arguments>`. `bin/run` spells out the libraries and adds the class data archive if there is one; its java is
`BAROGRAPH_JAVA`, else `/usr/bin/java`.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """Heap and, on a small machine, lean flags. `memory_mb` is the machine's memory limit."""
    divisor, least, most = HEAP_MB[daemon]
    return [_heap(memory_mb // divisor, least, most), *_lean(memory_mb)]


def worker_childopts(memory_mb: int, slots: int) -> str:
    """`worker.childopts` for storm.yaml."""
    return " ".join([f"-Xmx{worker_heap_mb(memory_mb, slots)}m", *_lean(memory_mb)])


def worker_heap_mb(memory_mb: int, slots: int) -> int:
    """A quarter of the machine's memory is heap, shared by its slots: small JVMs need as much again beside it."""
    least, most = WORKER_HEAP_MB
    return min(max(memory_mb // (4 * slots), least), most)


def daemon_command(
    daemon: Daemon, memory_mb: int, *, home: str = HOME, conf: str = CONF, logs: str = LOGS
) -> list[str]:
    """The argument vector that starts `daemon` in the foreground; ZooKeeper reads `<conf>/zoo.cfg`."""
    properties = {
        "daemon.name": daemon,
        "storm.home": home,
        "storm.log.dir": logs,
        "logfile.name": f"{daemon}.log",
        "log4j.configurationFile": f"{home}/log4j2/cluster.xml",
        "Log4jContextSelector": "org.apache.logging.log4j.core.selector.BasicContextSelector",
        "java.library.path": "/usr/lib",
    }
    defines = [f"-D{key}={value}" for key, value in properties.items()]
    arguments = [f"{conf}/zoo.cfg"] if daemon == "zookeeper" else []
    return [f"{home}/bin/run", daemon, conf, *jvm_flags(daemon, memory_mb), *defines, MAIN_CLASS[daemon], *arguments]


def environment(daemon: Daemon, *, home: str = HOME, conf: str = CONF) -> dict[str, str]:
    """Environment of a daemon. The supervisor's JAVA_HOME holds the wrapper that starts workers without a LogWriter."""
    shared = {"STORM_CONF_DIR": conf, "MALLOC_ARENA_MAX": "1"}
    return {**shared, "JAVA_HOME": f"{home}/supervisor-java"} if daemon == "supervisor" else shared


def flux_command(
    jar: str, yaml: str, *, home: str = HOME, conf: str = CONF, arguments: Sequence[str] = ()
) -> list[str]:
    """Submit the Flux topology in `yaml`, made of the classes in `jar`; `arguments` are further ones of Flux."""
    run = [f"{home}/bin/run", "flux", f"{jar}:{conf}", *TOOL_FLAGS, f"-Dstorm.home={home}", f"-Dstorm.jar={jar}"]
    return [*run, "org.apache.storm.flux.Flux", "--remote", *arguments, yaml]


def tool_command(tool: str, arguments: Sequence[str], *, home: str = HOME, conf: str = CONF) -> list[str]:
    """Run one of `org.apache.storm.command.*`, such as KillTopology with `["star", "-w", "0"]`."""
    run = [f"{home}/bin/run", "flux", conf, *TOOL_FLAGS, f"-Dstorm.home={home}"]
    return [*run, f"org.apache.storm.command.{tool}", *arguments]


def _heap(wanted_mb: int, least: int, most: int) -> str:
    return f"-Xmx{min(max(wanted_mb, least), most)}m"


def _lean(memory_mb: int) -> list[str]:
    return list(LEAN) if memory_mb < LEAN_BELOW_MB else []
