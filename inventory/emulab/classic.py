"""Classic Emulab: the commands of the project's ops host over ssh, with an NS file, and the output of `expinfo`.

Commands and flags are those of Emulab's own `script_wrapper` (startexp -i -w -N -E -a -l -p -e, modexp, endexp,
expinfo -n -m -l, node_avail -t -p); what they print is tbreport's: sections with a title, two header lines and columns.
`-a` swaps the experiment out after so many minutes whatever happens and cannot be changed later, so it is the backstop
(`longest_hours`); the lease's own end, which moves with every renewal, is kept by `guard.sh` on the ops host.
Each experiment's nodes are on record here, so that machines can be added and taken back.
"""

import json
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import yaml
from pydantic import TypeAdapter

from barograph.errors import CapacityError, ConfigurationError, InfrastructureError
from inventory.emulab.access import ClassicOptions, EmulabTiming, Node, OpsAccount, OpsHost, emulab_error
from inventory.files import replace_file
from inventory.leases import registry
from inventory.machines import MachineRequest, MachineType
from inventory.remote.ssh import RemoteTimeoutError, Result

HARDWARE_TABLE = Path(__file__).with_name("hardware.yaml")
LAN_NAME = "lan0"
SUBNET = "10.1.1"
FIRST_HOST = 2


@dataclass(frozen=True)
class NsNode:
    """One machine in the NS file. Its address is fixed, so that it stays when others come and go."""

    name: str
    hardware: str
    address: str
    bandwidth_mbit: int


def assign_ns_nodes(
    requests: Sequence[MachineRequest], hardware: Mapping[str, str], taken: Sequence[NsNode] = ()
) -> list[NsNode]:
    """Return a seat for each request, on addresses that no other seat has."""
    used_addresses = {seat.address for seat in taken}
    free = [each for host in range(FIRST_HOST, 255) if (each := f"{SUBNET}.{host}") not in used_addresses]
    if len(free) < len(requests):
        raise ConfigurationError(f"emulab: {len(requests) + len(taken)} machines; at most 253 have addresses on a LAN")
    return [
        NsNode(one.name, hardware_of(one.type, hardware), address, one.type.bandwidth_mbit)
        for one, address in zip(requests, free, strict=False)
    ]


def hardware_of(type: MachineType, hardware: Mapping[str, str]) -> str:
    """Return Emulab's name for a machine type: the experiment's, else the table's."""
    hardware_types = {**yaml.safe_load(HARDWARE_TABLE.read_text()), **hardware}
    if type.name not in hardware_types:
        raise ConfigurationError(
            f"emulab: machine type {type.name!r} has no hardware type; known are {', '.join(hardware_types)} "
            f"({HARDWARE_TABLE.name}); set testbed.options.emulab.hardware.{type.name}"
        )
    return str(hardware_types[type.name])


def ns_file_text(seats: Sequence[NsNode], image: str) -> str:
    """Return the NS file. Every word in it has passed a pattern (names, hardware, image), so no Tcl can get in."""
    lines = ["set ns [new Simulator]", "source tb_compat.tcl", ""]
    for seat in seats:
        lines += [
            f"set {seat.name} [$ns node]",
            f"tb-set-hardware ${seat.name} {seat.hardware}",
            f"tb-set-node-os ${seat.name} {image}",
        ]
    if len(seats) > 1:
        widest = max(seat.bandwidth_mbit for seat in seats)
        members = " ".join(f"${seat.name}" for seat in seats)
        slower = [seat for seat in seats if seat.bandwidth_mbit < widest]
        lines += [
            "",
            f'set {LAN_NAME} [$ns make-lan "{members}" {widest}Mb 0ms]',
            *(f"tb-set-ip ${seat.name} {seat.address}" for seat in seats),
            *(f"tb-set-node-lan-bandwidth ${seat.name} ${LAN_NAME} {seat.bandwidth_mbit}Mb" for seat in slower),
            "$ns rtproto Static",
        ]
    return "\n".join([*lines, "$ns run", ""])


@dataclass(frozen=True)
class ExperimentRecord:
    """A classic experiment: its start, the hours after which Emulab swaps it out, and its machines."""

    started_s: float
    longest_hours: int
    seats: tuple[NsNode, ...]

    def require_backstop(self, end_s: float) -> None:
        hours = (end_s - self.started_s) / 3600
        if hours > self.longest_hours:
            raise ConfigurationError(
                f"testbed.options.emulab.longest_hours is {self.longest_hours}, the lease lasts {hours:.1f} h from the "
                "experiment's start: Emulab would take the machines before; raise it, it holds for the next experiment"
            )


_RECORDS = TypeAdapter(ExperimentRecord)


def _record_path(experiment: str) -> Path:
    return registry.state_dir() / "emulab" / f"{experiment}.json"


def write_record(experiment: str, record: ExperimentRecord) -> None:
    replace_file(_record_path(experiment), json.dumps(asdict(record), indent=1))


def read_record(experiment: str) -> ExperimentRecord:
    try:
        return _RECORDS.validate_json(_record_path(experiment).read_text())
    except (OSError, ValueError) as error:
        raise InfrastructureError(
            f"{_record_path(experiment)}: what {experiment} has is not known ({error!r}); release it and start again"
        ) from error


NO_EXPERIMENT = re.compile(r"no (such )?experiment", re.IGNORECASE)


def experiment_state(output: str) -> str:
    """Return `active`, `swapped`, …; empty where the experiment is in transition and Emulab shows no state."""
    match = re.search(r"^State:\s*(\S+)", output, re.MULTILINE)
    return match[1] if match else ""


def qualified_names(output: str) -> dict[str, str]:
    """Map machine → its name on the control net (`-n`). A node's line is not indented, its details are."""
    rows = (line.split() for line in _section_lines(output, "Virtual Node Info:") if not line.startswith(" "))
    return {words[0]: words[-1] for words in rows if len(words) >= 3 and "." in words[-1]}


def lan_addresses(output: str) -> dict[str, str]:
    """Map machine → its address on the experiment's LAN (`-l`); a member's second line has the mask and is skipped."""
    # Older releases call the section `Lan/Link Info:`.
    rows = (line.split() for line in _section_lines(output, "Lan/Link Info:"))
    members = ((words[1], words[2]) for words in rows if len(words) >= 3 and ":" in words[1])
    return {member.partition(":")[0]: address for member, address in members if re.fullmatch(r"[\d.]+", address)}


def _section_lines(output: str, title: str) -> Iterator[str]:
    lines = iter(output.splitlines())
    for line in lines:
        if line.strip().endswith(title):
            break
    for line in lines:
        if not line.strip():
            return
        if not re.match(r"\s*(ID\s|-{5})", line):
            yield line


EMULAB_BIN = "/usr/testbed/bin"
OPS_FOLDER = ".barograph"  # in the user's home on the ops host: NS files, guards and their ends
FILE_SUFFIXES = {".ns", ".end"}
GUARD_SCRIPT = Path(__file__).with_name("guard.sh")
IDLE_MINUTES = 240  # Emulab's own idle swap, the site's usual value: a run is never idle that long


class Classic:
    """Access by ops host. `options`: the experiment's; without them (reaper, other process) it only looks and ends."""

    def __init__(
        self, account: OpsAccount, project: str, timing: EmulabTiming, options: ClassicOptions | None = None
    ) -> None:
        self._account, self._project, self._timing, self._options = account, project, timing, options

    def site(self) -> Mapping[str, str]:
        """Return what another process needs to reach the same site."""
        account = self._account
        return {
            "access": "classic", "project": self._project, "ops_host": account.host, "ops_port": str(account.port),
            "user": account.user, "ssh_key": str(account.ssh_key), "ops_known_hosts": str(account.known_hosts),
        }  # fmt: skip

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """Check the ops host, the project, the hardware types and how many of them are free."""
        hardware_types = [seat.hardware for seat in assign_ns_nodes(requests, self._needed().hardware)]
        with OpsHost(self._account) as ops:
            if ops.run(["ls", "-d", f"/proj/{self._project}"]).code:
                raise ConfigurationError(
                    f"testbed.options.emulab.project is {self._project!r}: {self._account.user} sees no "
                    f"/proj/{self._project} on {self._account.host}; check project and user"
                )
            for hardware in dict.fromkeys(hardware_types):
                answer = ops.run([f"{EMULAB_BIN}/node_avail", "-p", self._project, "-t", hardware])
                if answer.code:
                    raise ConfigurationError(
                        f"emulab: hardware type {hardware!r} is refused ({_both_outputs(answer).strip()[:200]}); "
                        "set testbed.options.emulab.hardware to types that the project may use"
                    )
                numbers = [int(word) for word in answer.stdout.replace(":", " ").split() if word.isdigit()]
                wanted = hardware_types.count(hardware)
                if numbers and numbers[-1] < wanted:
                    raise CapacityError(
                        f"emulab: {wanted} {hardware} are needed, {numbers[-1]} are free; ask for fewer, or try later"
                    )

    def start(self, experiment: str, requests: Sequence[MachineRequest], end_s: float) -> None:
        """Start the experiment and wait until it is up. The guard, which ends it at `end_s`, starts before it does."""
        options, seats = self._needed(), assign_ns_nodes(requests, self._needed().hardware)
        record = ExperimentRecord(time.time(), options.longest_hours, tuple(seats))
        record.require_backstop(end_s)
        write_record(experiment, record)
        with OpsHost(self._account) as ops:
            _require_success(ops.run(["mkdir", "-p", OPS_FOLDER]), f"no folder {OPS_FOLDER} on {self._account.host}")
            self._guard(ops, experiment, end_s)
            limits = ["-l", str(IDLE_MINUTES), "-a", str(options.longest_hours * 60)]
            argv = ["startexp", "-i", "-w", "-N", "-E", "Barograph", *limits, "-p", self._project, "-e", experiment]
            self._swap(ops, argv, experiment, seats, f"experiment {experiment} was not started")

    def modify(self, experiment: str, seats: Sequence[NsNode]) -> None:
        """Give the experiment these machines; the nodes of those that stay are kept."""
        with OpsHost(self._account) as ops:
            argv = ["modexp", "-w", "-N", "-e", self._qualified(experiment)]
            self._swap(ops, argv, experiment, seats, f"experiment {experiment} was not modified")
        write_record(experiment, replace(read_record(experiment), seats=tuple(seats)))

    def more_seats(self, experiment: str, requests: Sequence[MachineRequest]) -> list[NsNode]:
        """Return the experiment's seats and one for each request."""
        now = read_record(experiment).seats
        return [*now, *assign_ns_nodes(requests, self._needed().hardware, now)]

    def nodes(self, experiment: str, requests: Sequence[MachineRequest]) -> tuple[Node, ...]:
        """Return the machines' addresses, in the order of the requests."""
        with OpsHost(self._account) as ops:
            output = _require_success(self._expinfo(ops, experiment), f"experiment {experiment} tells nothing").stdout
            state, names, addresses = experiment_state(output), qualified_names(output), lan_addresses(output)
            machine_names = [request.name for request in requests]
            if state != "active":
                raise InfrastructureError(f"emulab: experiment {experiment} is {state or 'in transition'}; start again")
            if missing := [name for name in machine_names if name not in names or name not in addresses]:
                raise InfrastructureError(f"emulab: experiment {experiment} has no {', '.join(missing)}; start again")
            controls = {}
            for name in machine_names:
                # Inside: the name may not be known outside, and neighbours use the same address.
                answer = _require_success(ops.run(["getent", "hosts", names[name]]), f"{names[name]} has no address")
                if not answer.stdout.split():
                    raise InfrastructureError(f"emulab: {names[name]} has no address; start again")
                controls[name] = answer.stdout.split()[0]
        port = self._needed().node_port
        return tuple(Node(name, controls[name], port, controls[name], addresses[name]) for name in machine_names)

    def prolong(self, experiment: str, end_s: float) -> None:
        """Make it end itself at `end_s`. A guard that is gone (the ops host was restarted) is started again."""
        read_record(experiment).require_backstop(end_s)
        with OpsHost(self._account) as ops:
            self._guard(ops, experiment, end_s)

    def end(self, experiment: str) -> None:
        """End it, until it is gone. An experiment in transition cannot be ended, so the command is repeated."""
        deadline = time.monotonic() + self._timing.end_s
        with OpsHost(self._account) as ops:
            while not NO_EXPERIMENT.search(_both_outputs(self._expinfo(ops, experiment))):
                argv = [f"{EMULAB_BIN}/endexp", "-w", "-N", "-e", self._qualified(experiment)]
                try:
                    answer = ops.run(argv, self._timing.end_s)
                except RemoteTimeoutError as error:
                    answer = Result("", str(error), 124)
                if time.monotonic() > deadline:
                    raise InfrastructureError(
                        f"emulab: experiment {experiment} is still there {self._timing.end_s:g} s after it was ended "
                        f"({_both_outputs(answer).strip()[-300:]}); end it on its page, or later with `barograph reap`"
                    )
                if answer.code:
                    time.sleep(self._timing.poll_s)
            ops.run(["rm", "-f", *(_ops_path(experiment, end) for end in sorted(FILE_SUFFIXES))])
        _record_path(experiment).unlink(missing_ok=True)

    def experiments(self) -> tuple[str, ...]:
        """Return the names of all experiments, others' too, and our files of experiments that never started."""
        with OpsHost(self._account) as ops:
            listing = ops.run(["ls", f"/proj/{self._project}/exp"])
            if listing.code:
                raise ConfigurationError(
                    f"emulab: {self._account.host} has no /proj/{self._project}/exp ({listing.stderr.strip()[:200]}); "
                    "check testbed.options.emulab.project"
                )
            files = [Path(name) for name in ops.run(["ls", OPS_FOLDER]).stdout.split()]
        return tuple(sorted({*listing.stdout.split(), *(one.stem for one in files if one.suffix in FILE_SUFFIXES)}))

    def _guard(self, ops: OpsHost, experiment: str, end_s: float) -> None:
        end = _ops_path(experiment, ".end")
        is_running = not ops.run(["pgrep", "-f", f"[g]uard.sh {end} "]).code  # `[g]`: not this very command line
        ops.write(end, f"{math.ceil(end_s)}\n")
        if is_running:
            return
        ops.write(f"{OPS_FOLDER}/guard.sh", GUARD_SCRIPT.read_text())
        words = ["sh", f"{OPS_FOLDER}/guard.sh", end, self._project, experiment, EMULAB_BIN]
        # Every stream is redirected, or the ssh session would wait for the guard's end.
        launch = ["sh", "-c", 'nohup "$@" >/dev/null 2>&1 </dev/null &', "launch", *words]
        _require_success(ops.run(launch), f"the guard of {experiment} was not started")

    def _swap(self, ops: OpsHost, argv: Sequence[str], experiment: str, seats: Sequence[NsNode], what: str) -> None:
        """Run a command that gives or takes nodes by an NS file, which takes minutes."""
        ns_file, limit_s = _ops_path(experiment, ".ns"), self._needed().ready_minutes * 60
        ops.write(ns_file, ns_file_text(seats, self._needed().image))
        try:
            answer = ops.run([f"{EMULAB_BIN}/{argv[0]}", *argv[1:], ns_file], limit_s)
        except RemoteTimeoutError as error:
            raise InfrastructureError(
                f"emulab: {what} within {limit_s / 60:g} min; raise testbed.options.emulab.ready_minutes"
            ) from error
        _require_success(answer, what)

    def _expinfo(self, ops: OpsHost, experiment: str) -> Result:
        return ops.run([f"{EMULAB_BIN}/expinfo", "-n", "-m", "-l", "-e", self._qualified(experiment)])

    def _qualified(self, experiment: str) -> str:
        return f"{self._project},{experiment}"

    def _needed(self) -> ClassicOptions:
        if self._options is None:
            raise ConfigurationError("emulab: no options are given; set testbed.options.emulab (docs/testbeds.md)")
        return self._options


def _ops_path(experiment: str, end: str) -> str:
    return f"{OPS_FOLDER}/{experiment}{end}"


def _both_outputs(answer: Result) -> str:
    return f"{answer.stdout}\n{answer.stderr}"


def _require_success(answer: Result, what: str) -> Result:
    if answer.code:
        raise emulab_error(what, _both_outputs(answer))
    return answer
