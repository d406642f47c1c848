"""Class data archives (AppCDS), with which Java starts a worker in half the CPU time.

An archive fits one build of Java, one class path and exactly these jars (size and time of change). So it is made inside
the machines' root filesystem, with the home where machines have it. Java ignores one that does not fit.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import zipfile
from pathlib import Path

from barograph.errors import BarographError, ConfigurationError
from playbooks.storm_home import commands
from playbooks.storm_home.assemble import FILES, Log, atomic_folder, fingerprint

ARCHIVES = ("zookeeper", "nimbus", "supervisor", "worker", "flux")
TRAINING = FILES / "training"
PLACE = "/training"  # inside the root filesystem
MEMORY_MB = 1024
SECONDS = 4  # of work before the topology is killed
TIMEOUT_S = 300
PORTS = {"zookeeper": 2181, "nimbus": 6627, "supervisor": 6628}
WORKERS = 3


class TrainingFailed(BarographError):
    """No class data archive was produced; Storm runs without, only slower to start."""

    blame = "infrastructure"


def train_archives(home: Path, rootfs: Path, cache: Path, log: Log) -> Path:
    """Return `<cache>/cds-<hash of home and Java>` with an archive per daemon, worker and Flux; first time about 60 s.

    Needs root and `unshare`. The Storm it runs is isolated: own processes, own network (loopback only), a temporary
    overlay over `rootfs`; all of it ends with the namespace. Raises TrainingFailed, which callers may treat as "without
    archives".
    """
    archives = cache / f"cds-{fingerprint(sorted(TRAINING.iterdir()), home.name, java_build(rootfs))}"
    if archives.is_dir():
        return archives
    log("Storm home: training class data archives")
    began = time.monotonic()
    with atomic_folder(archives) as draft, tempfile.TemporaryDirectory(prefix="barograph-cds-", dir=cache) as scratch:
        _prepare_scratch(Path(scratch), home)
        _run_inside(rootfs, home, Path(scratch))
        for name in ARCHIVES:
            shutil.copy2(Path(scratch, "training", "out", f"{name}.jsa"), draft)
    log(f"Storm home: archives trained in {time.monotonic() - began:.0f} s")
    return archives


def java_build(rootfs: Path) -> str:
    """Return an identifier of the Java in `rootfs`: its library and its modules' stamp. Raises ConfigurationError."""
    libraries = sorted(p for p in rootfs.glob("usr/lib/jvm/*/lib/server/libjvm.so") if not p.parents[2].is_symlink())
    if not libraries:
        raise ConfigurationError(f"{rootfs} has no Java under usr/lib/jvm; build the machines' root filesystem first")
    modules = libraries[0].parents[1] / "modules"
    stamp = f"{modules.stat().st_size} {int(modules.stat().st_mtime)}"
    return hashlib.sha256(libraries[0].read_bytes()).hexdigest() + stamp


def _prepare_scratch(scratch: Path, home: Path) -> None:
    for folder in ("root", "upper", "work", "training/conf", "training/logs", "training/lists", "training/out"):
        (scratch / folder).mkdir(parents=True)
    training, conf = scratch / "training", f"{PLACE}/conf"
    for file in TRAINING.iterdir():
        shutil.copy2(file, training)
    with zipfile.ZipFile(training / "empty.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n\n")
    storm_yaml = {
        "storm.zookeeper.servers": ["localhost"],
        "nimbus.seeds": ["localhost"],
        "storm.local.dir": f"{PLACE}/state",
        "storm.local.hostname": "localhost",
        "storm.workers.artifacts.dir": f"{PLACE}/artifacts",
        "storm.metricstore.class": "org.apache.storm.metricstore.NoOpMetricStore",
        "storm.daemon.metrics.reporter.plugins": [],
        "topology.disable.loadaware.messaging": True,
        "topology.kryo.register": ["java.util.Collections$EmptyMap"],
        "nimbus.monitor.freq.secs": 1,
        "supervisor.monitor.frequency.secs": 1,
        "supervisor.slots.ports": [6700 + i for i in range(WORKERS)],
        "supervisor.worker.shutdown.sleep.secs": 10,  # a worker writes its list of classes when it ends by itself
        "worker.childopts": commands.worker_childopts(MEMORY_MB, WORKERS),
    }
    (training / "conf" / "storm.yaml").write_text(json.dumps(storm_yaml))
    zookeeper = f"dataDir={PLACE}/zookeeper\nclientPort={PORTS['zookeeper']}\nadmin.enableServer=false\n"
    (training / "conf" / "zoo.cfg").write_text(zookeeper)
    names: tuple[commands.Daemon, ...] = ("zookeeper", "nimbus", "supervisor")
    daemons = {
        name: {
            "argv": commands.daemon_command(name, MEMORY_MB, conf=conf, logs=f"{PLACE}/logs"),
            "environment": commands.environment(name, conf=conf),
        }
        for name in names
    }
    spec = {
        "java": "/usr/bin/java",
        "daemons": daemons,
        "ports": PORTS,
        "workers": WORKERS,
        "seconds": SECONDS,
        "submit": commands.flux_command(f"{PLACE}/empty.jar", f"{PLACE}/words.yaml", conf=conf),
        "kill": [
            f"{commands.HOME}/bin/run", "flux", conf, *commands.TOOL_FLAGS, f"-Dstorm.home={commands.HOME}",
            "org.apache.storm.command.KillTopology", "training", "-w", "0",
        ],
        "class_paths": {name: class_path(home, name) for name in ARCHIVES},
    }  # fmt: skip
    (training / "spec.json").write_text(json.dumps(spec))


def class_path(home: Path, archive: str) -> str:
    """Return the libraries as in `bin/run` and the supervisor's java, with the paths on machines."""
    folders = {"worker": ("lib-worker",), "flux": ("lib", "lib-flux")}.get(archive, ("lib",))
    return ":".join(
        f"{commands.HOME}/{folder}/{jar.name}" for folder in folders for jar in sorted((home / folder).glob("*.jar"))
    )


def _run_inside(rootfs: Path, home: Path, scratch: Path) -> None:
    """Run it in namespaces of its own, so that no process can outlive it or be reached."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        raise ConfigurationError("training class data archives needs root and unshare (package util-linux)")
    root = scratch / "root"
    script = [
        "ip link set lo up",
        "echo localhost > /proc/sys/kernel/hostname",  # Nimbus looks its own name up
        f"mount -t overlay overlay -o lowerdir={rootfs},upperdir={scratch}/upper,workdir={scratch}/work {root}",
        f"mkdir -p {root}{commands.HOME} {root}{PLACE}",
        f"mount --bind {home} {root}{commands.HOME}",
        f"mount --bind {scratch}/training {root}{PLACE}",
        f"mount -t proc proc {root}/proc",
        f"mount --rbind /dev {root}/dev",
        f"echo '127.0.0.1 localhost' > {root}/etc/hosts",
        f"exec chroot {root} /usr/bin/python3 {PLACE}/train.py",
    ]
    flags = ["--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--propagation=private"]
    environment, what = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}, "training class data archives"
    try:
        process = subprocess.run(
            ["unshare", *flags, "sh", "-ec", "\n".join(script)], env=environment, capture_output=True, text=True,
            timeout=TIMEOUT_S, check=False, cwd="/",
        )  # fmt: skip
    except subprocess.TimeoutExpired as expired:
        raise TrainingFailed(f"{what} took more than {TIMEOUT_S} s") from expired
    if process.returncode != 0:
        # The driver's last line, and the last line of each daemon with output.
        lines = (process.stderr or process.stdout).strip().splitlines()[-1:]
        for output in sorted((scratch / "training").glob("*.out")):
            lines += [f"{output.stem}: {line}" for line in output.read_text(errors="replace").splitlines()[-1:]]
        raise TrainingFailed(f"{what} failed: {'; '.join(lines) or f'exit code {process.returncode}'}")
