"""An experiment's steps on a cluster.

deploy, extend; switch; reset, submit, join, leave, revive, kill, collect; stop.

`inventory` is an Ansible inventory file with the groups `master`, `workers` and `joining` (a part of `workers`),
written by the testbed's side; `directory` belongs to one cluster and holds its secrets (0600), the delivery (policy
service and jars, for the master) and the artifacts. `run_id` begins every line of a play's events. Machines are given
by name; a machine keeps its last state, in the cluster or out of it, through a crash. Errors are those of
`playbooks.runner` and `barograph.errors`.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import logging
import secrets
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from boltons.fileutils import atomic_save

from barograph.errors import ConfigurationError, DiskFull
from playbooks import clock
from playbooks.runner import MachineUnknown, PlayFailed, PlayResult, play
from playbooks.storm_home import commands

ROOT = Path(__file__).parent.parent
SERVICE_PACKAGE = "scheduler_plugins"
EXCLUDED_FOLDERS = ("nimbus_bridge", "driver", "simulator", "__pycache__")  # never imported by the service on a master
TOPOLOGIES = ROOT / "topologies" / "target" / "barograph-topologies.jar"
DELIVERY_NAME = "delivery.tar.gz"
PARCEL_STORE = "deliveries"  # beside the folder of homes
JARS = "/opt/barograph/jars"
LIBRARIES = "libraries"  # for the policy service, below /opt/barograph
TOKEN_NAME, HARNESS_TOKEN_NAME = "token", "harness_token"  # for the machines and the harness; for the harness alone
CERTIFICATE_NAME, KEY_NAME = "service.crt", "service.key"  # for the policy service, where it speaks TLS
REDIS_NAME = "redis"
CERTIFICATE_LIFE = timedelta(days=400)


def pack_delivery(
    directory: Path, service: Path = ROOT, name: str = DELIVERY_NAME, libraries: Path | None = None
) -> Path:
    """Pack `<directory>/<name>`, the same bytes for the same parts, so that a second deploy changes nothing.

    The policy service is that of `service`, a folder with `scheduler_plugins/`; the jars are always ours. `libraries`:
    Python packages for it, in a folder; None: the master keeps its own.
    """
    if not TOPOLOGIES.is_file():
        raise ConfigurationError(f"{TOPOLOGIES} is not there; build it: mvn -f topologies/pom.xml package")
    target = directory / name
    with (
        target.open("wb") as output,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=output, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as tar,
    ):
        files = [
            (file, str(file.relative_to(service)))
            for file in sorted((service / SERVICE_PACKAGE).rglob("*.py"))
            if not set(file.relative_to(service).parts) & set(EXCLUDED_FOLDERS)
        ]
        files.append((TOPOLOGIES, f"jars/{TOPOLOGIES.name}"))
        if libraries is not None:
            paths = [path for path in sorted(libraries.rglob("*")) if path.is_file()]
            files += [(path, f"{LIBRARIES}/{path.relative_to(libraries)}") for path in paths]
        for file, place in files:
            tar.add(file, place, filter=_without_owner)
    return target


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime, member.uid, member.gid, member.uname, member.gname, member.mode = 0, 0, 0, "root", "root", 0o644
    return member


def _parcels_command(storm_home: Path) -> str:
    """Return the shell command that prints the home's archives (`storm_home.parcels`), for plays that need them."""
    home = storm_home.absolute()
    argv = [sys.executable, "-m", "playbooks.storm_home.parcels", str(home), str(home.parent.with_name(PARCEL_STORE))]
    return f"cd {shlex.quote(str(ROOT))} && {shlex.join(argv)}"


log = logging.getLogger(__name__)

SSH_LIMIT_S = 10.0
SWITCH_DELIVERY_NAME = "switched.tar.gz"
MISSING_PREFIX = "missing "  # pack.sh's prefix
MACHINE_BYTES = 32 * 2**30  # of one machine in a record: its program could fill this box's disk
NO_SAMPLES = "workers/*.avro"  # reported as missing where no worker left any
RECORD_PARTS = ("decisions.jsonl", "workers", "machines")  # in the record itself; the rest is a machine's logs


@dataclass(frozen=True)
class CollectResult:
    """Result of `collect`: missing files, and the play's."""

    missing: tuple[str, ...]
    result: PlayResult


def token(directory: Path, name: str = TOKEN_NAME) -> str:
    """Return the cluster's token, created by the first call. `HARNESS_TOKEN_NAME`: the one that stays here.

    Raises ConfigurationError.
    """
    file = directory / name
    if not file.exists():
        _write_secret(file, secrets.token_urlsafe(32).encode())
    text = file.read_text()
    if not text.strip():
        raise ConfigurationError(
            f"{file} is empty, and an empty token lets everybody in; remove the file and start again"
        )
    return text


def renew_redis_password(directory: Path) -> None:
    """Draw a password for Redis, as its own line of configuration; from the next deploy on the cluster has Redis."""
    _write_secret(directory / REDIS_NAME, f"requirepass {secrets.token_urlsafe(32)}\n".encode())


def _redis_file(directory: Path) -> str:
    """Return the path of the password; empty where the cluster has no Redis."""
    file = directory / REDIS_NAME
    return str(file.absolute()) if file.exists() else ""


def _write_secret(file: Path, content: bytes) -> None:
    """Write the file as a whole or not at all: a full disk must not leave an empty one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_save(file, part_file=f".{file.name}.partial", overwrite_part=True, file_perms=0o600) as new:
        new.write(content)


def certificate(inventory: Path, directory: Path) -> Path:
    """Return a certificate for the master's addresses; from the next deploy on the policy service speaks TLS with it.

    Created by the first call, and again where the master has other addresses. Clients of the service trust this one
    alone, so nobody has to sign it.
    """
    (master,) = _group(inventory, "master")
    host, file = _hosts(inventory)[master], directory / CERTIFICATE_NAME
    addresses = sorted({str(host["ansible_host"]), str(host["inside_address"])})
    if not file.exists() or _addresses_of(file) != addresses:
        key, pem = _self_signed(addresses)
        _write_secret(directory / KEY_NAME, key)
        file.write_bytes(pem)
    return file


def _addresses_of(file: Path) -> list[str]:
    from cryptography import x509

    names = x509.load_pem_x509_certificate(file.read_bytes()).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return sorted(str(address) for address in names.value.get_values_for_type(x509.IPAddress))


def _self_signed(addresses: Sequence[str]) -> tuple[bytes, bytes]:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Barograph's policy service")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + CERTIFICATE_LIFE)  # clocks differ
    names = [x509.IPAddress(ip_address(address)) for address in addresses]
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    pem = builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), pem


def deploy(inventory: Path, directory: Path, storm_home: Path, libraries: Path | None = None) -> PlayResult:
    """Start everything and register the workers' supervisors, except those in `joining`, with Nimbus; idempotent.

    `storm_home` is in the folder of homes that the machines mount, and may be another at the next deploy. Machines that
    mount none get it from the master, and the master from here (`storm_home.parcels`). `libraries`: see
    `pack_delivery`.
    """
    archive = pack_delivery(directory, libraries=libraries)
    return play("deploy", inventory, _role_variables(inventory, directory, storm_home, archive), directory)


def extend(inventory: Path, directory: Path, machines: Sequence[str], storm_home: Path) -> PlayResult:
    """Deploy new machines of the inventory as `deploy` does, and give all others their names.

    No running program is restarted. The supervisors of those in `joining` wait for `join`, as after `deploy`.
    """
    hosts = _check_machines(inventory, machines)
    for name in machines:
        forget_connection(hosts[name])  # the address may have belonged to another machine, which was given back
    variables = _role_variables(inventory, directory, storm_home, _delivery_archive(directory))
    return _play_on("extend", inventory, directory, machines, variables)


def switch(inventory: Path, directory: Path, storm_home: Path, service: Path | None = None) -> PlayResult:
    """Run Nimbus from `storm_home`, and the policy service from the folder `service`; returns when both answer.

    `service` None: the one that deploy delivered. Only the master is touched, and on it only what differs: ZooKeeper
    goes on if the libraries are the same. Between runs only. StormRefused: Nimbus or the service does not start.
    """
    archive = pack_delivery(directory, service, SWITCH_DELIVERY_NAME) if service else _delivery_archive(directory)
    return play("switch", inventory, _role_variables(inventory, directory, storm_home, archive), directory)


def _delivery_archive(directory: Path) -> Path:
    """Return deploy's delivery, also when files here were changed since."""
    archive = directory / DELIVERY_NAME
    return archive if archive.is_file() else pack_delivery(directory)


def _role_variables(inventory: Path, directory: Path, storm_home: Path, archive: Path) -> dict[str, Any]:
    """Return the variables of the roles."""
    certificate_file = directory / CERTIFICATE_NAME
    return {
        "commands": commands_by_machine(inventory),
        "declared": asdict(declared_resources(inventory)),
        "storm_home_name": storm_home.name,
        "storm_version": hashlib.sha256((storm_home / "VERSION").read_bytes()).hexdigest(),
        "storm_libraries": libraries(storm_home),
        "storm_pack": _parcels_command(storm_home),
        "token_file": str((directory / TOKEN_NAME).absolute()),
        "token_digest": hashlib.sha256(token(directory).encode()).hexdigest(),
        "harness_sha256": hashlib.sha256(token(directory, HARNESS_TOKEN_NAME).encode()).hexdigest(),
        "service_certificate": certificate_file.read_text() if certificate_file.exists() else "",
        "redis_file": _redis_file(directory),
        "service_key_file": str((directory / KEY_NAME).absolute()),
        "delivery": str(archive.absolute()),
        "delivery_digest": hashlib.sha256(archive.read_bytes()).hexdigest(),
    }


def reset(inventory: Path, directory: Path, run_id: str) -> PlayResult:
    """Prepare a run: no topology, no worker, the supervisors of `joining` stopped, all others registered with Nimbus.

    Sample files and logs are empty. The last run's changes are undone: machines that joined, left, or crashed and
    answer again. Redis, where the cluster has it, begins anew, with another password.
    """
    if _redis_file(directory):
        renew_redis_password(directory)
    return play("reset", inventory, {"run_id": run_id, "redis_file": _redis_file(directory)}, directory)


def submit(inventory: Path, directory: Path, run_id: str, flux_yaml: Path) -> PlayResult:
    """Submit a rendered Flux YAML on the jar that deploy delivered; returns when Nimbus has accepted it."""
    command = shlex.join(commands.flux_command(f"{JARS}/{TOPOLOGIES.name}", "topology.yaml"))
    variables = {"run_id": run_id, "submit_flux": str(flux_yaml.absolute()), "submit_command": command}
    return play("submit", inventory, variables, directory)


def join(inventory: Path, directory: Path, run_id: str, machines: Sequence[str] | None = None) -> PlayResult:
    """Start these machines' supervisors, None: all in `joining`; returns when they are registered with Nimbus."""
    names = _group(inventory, "joining") if machines is None else machines
    return _play_on("join", inventory, directory, names, {"run_id": run_id})


def leave(inventory: Path, directory: Path, machines: Sequence[str]) -> PlayResult:
    """Stop supervisors and workers of these machines, keep their records; returns when Nimbus has forgotten them."""
    return _play_on("leave", inventory, directory, machines, {})


def revive(inventory: Path, directory: Path, machine: str) -> PlayResult:
    """Start a machine's programs after its crash and restart; returns when Nimbus has its supervisor."""
    forget_connection(_check_machines(inventory, [machine])[machine])
    return _play_on("revive", inventory, directory, [machine], {})


def kill(inventory: Path, directory: Path, run_id: str, topology: str = "") -> PlayResult:
    """Kill the topology of that name in Storm, or every one; the daemons stay."""
    return play("kill", inventory, {"run_id": run_id, "nimbus_kill": topology}, directory)


def stop(inventory: Path, directory: Path) -> PlayResult:
    """Stop all daemons."""
    return play("stop", inventory, {}, directory)


def collect(
    inventory: Path, directory: Path, run_id: str, run_dir: Path, machines: Sequence[str] | None = None
) -> CollectResult:
    """Fetch a run's files into `run_dir`: decisions.jsonl, workers/, machines/, and logs/<machine>/ with all else.

    `machines`: only theirs, None: all machines'. It may be called again for others, and for the same: that replaces
    their files. Missing files are reported, not raised; `workers/*.avro` where the record has no samples of any machine
    yet. A full local disk raises DiskFull.
    """
    names = list(_hosts(inventory)) if machines is None else machines
    folder = run_dir / ".fetched"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        variables = {"run_id": run_id, "collect_to": str(folder.absolute())}
        result = _play_on("collect", inventory, directory, names, variables)
        large_files = [name for archive in sorted(folder.glob("*.tar.gz")) for name in _unpack(archive, run_dir)]
    except (OSError, EOFError, tarfile.TarError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"{run_dir}: the local disk is full; free some space and collect again") from error
        raise PlayFailed(f"{run_dir}: what was fetched cannot be unpacked: {error}; collect again") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    missing = (*_missing_files(result, run_dir), *large_files)
    for name in missing:
        log.warning("%s collect: %s is missing", run_id, name)
    return CollectResult(missing, result)


def clock_offsets_ms(inventory: Path, machines: Sequence[str], now: clock.Now) -> dict[str, clock.ClockOffset | None]:
    """Return each machine's clock minus `now`; None where it did not answer."""
    hosts = _check_machines(inventory, machines)
    return clock.offsets_ms({name: hosts[name] for name in machines}, now)


def libraries(storm_home: Path) -> str:
    """Return a digest of the files that every daemon runs; bridge and foreign schedulers concern Nimbus alone."""
    facts = []
    for file in sorted(storm_home.rglob("*")):
        name = file.relative_to(storm_home)
        if file.is_file() and name.parts[0] not in ("extlib-daemon", "foreign", "VERSION"):
            facts.append((str(name), file.stat().st_size, int(file.stat().st_mtime)))
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def commands_by_machine(inventory: Path) -> dict[str, dict[str, Any]]:
    """Return by machine: `command` and `environment` of each of its daemons, and `worker_childopts`."""
    result: dict[str, dict[str, Any]] = {}
    for name, host in _hosts(inventory).items():
        memory_mb, slots = host["machine_memory_mb"], host["machine_slots"]
        daemons: tuple[commands.Daemon, ...] = ("supervisor",) if slots else ("zookeeper", "nimbus")
        result[name] = {"worker_childopts": commands.worker_childopts(memory_mb, slots or 1)}
        for daemon in daemons:
            command = shlex.join(commands.daemon_command(daemon, memory_mb))
            result[name][daemon] = {"command": command, "environment": commands.environment(daemon)}
    return result


def declared_resources(inventory: Path) -> commands.ResourceDefaults:
    """Return the default resources of executors on these machines."""
    return commands.resource_defaults([host for host in _hosts(inventory).values() if host["machine_slots"]])


def forget_connection(host: Mapping[str, Any]) -> None:
    """End the connection that Ansible keeps open: it does not notice that the machine has booted since."""
    argv = clock.ssh_command(host)
    # Without such a connection ssh fails with a message: there is nothing to end.
    subprocess.run([argv[0], "-O", "exit", *argv[1:]], capture_output=True, timeout=SSH_LIMIT_S, check=False)


def _play_on(
    playbook: str, inventory: Path, directory: Path, machines: Sequence[str], variables: Mapping[str, Any]
) -> PlayResult:
    _check_machines(inventory, machines)
    return play(playbook, inventory, {**variables, "machines": list(machines)}, directory)


def _check_machines(inventory: Path, machines: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Check the names: Ansible runs a play on no machines silently, and reports success. Returns all hosts."""
    hosts = _hosts(inventory)
    if not machines or not set(machines) <= hosts.keys():
        raise MachineUnknown(f"{inventory}: machines are {list(machines)}, must be some of {', '.join(hosts)}")
    return hosts


def _hosts(inventory: Path) -> dict[str, dict[str, Any]]:
    """Return host variables by machine."""
    hosts: dict[str, dict[str, Any]] = yaml.safe_load(inventory.read_text())["all"]["hosts"]
    return hosts


def _group(inventory: Path, name: str) -> list[str]:
    return list(yaml.safe_load(inventory.read_text())["all"]["children"][name]["hosts"] or [])


def _unpack(archive: Path, run_dir: Path) -> list[str]:
    """Unpack one machine's files to their places in the record; only plain files, and none outside it. Return those
    that are left out, for they would make it larger than a machine's part may be."""
    machine, rest_bytes, large_files = archive.name.removesuffix(".tar.gz"), MACHINE_BYTES, []
    with tarfile.open(archive) as tar:
        for member in tar:
            content, path = tar.extractfile(member) if member.isfile() else None, PurePosixPath(member.name)
            if content is None or path.is_absolute() or ".." in path.parts:
                continue
            if member.size > rest_bytes:
                large_files.append(f"{path} of {machine} ({member.size} bytes)")
                continue
            rest_bytes -= member.size
            target = run_dir / (path if path.parts[0] in RECORD_PARTS else PurePosixPath("logs", machine, path))
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as new:
                shutil.copyfileobj(content, new)
    return large_files


def _missing_files(result: PlayResult, run_dir: Path) -> tuple[str, ...]:
    """Return the machines' missing files, and worker samples if the record has none of any machine yet."""
    lines = [line for task in result.tasks if task.outcome == "ok" for line in task.stderr.splitlines()]
    # ssh and sudo may write to standard error too.
    names = [line.removeprefix(MISSING_PREFIX) for line in lines if line.startswith(MISSING_PREFIX)]
    # On a full disk a worker leaves an empty file.
    none = [] if any(file.stat().st_size for file in run_dir.glob(NO_SAMPLES)) else [NO_SAMPLES]
    return tuple(sorted(names) + none)
