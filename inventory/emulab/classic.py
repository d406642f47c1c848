"""Classic Emulab: the commands of the project's ops host over ssh, with an NS file, and the output of `expinfo`.

Commands and flags are those of Emulab's own `script_wrapper` (startexp -i -w -N -E -a -l -p -e, modexp, endexp,
expinfo -n -m -l, node_avail -t -p); what they print is tbreport's: sections with a title, two header lines and columns.
`-a` swaps the experiment out after so many minutes whatever happens and cannot be changed later, so it is the backstop
(`longest_hours`); the lease's own end, which moves with every renewal, is kept by `guard.sh` on the ops host.
"""

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from barograph.errors import CapacityError, ConfigurationError, InfrastructureError
from inventory.emulab import experiments
from inventory.emulab.access import EmulabTiming, Node, emulab_error
from inventory.emulab.experiments import ExperimentRecord, NsNode
from inventory.emulab.options import ClassicOptions
from inventory.emulab.ssh import OpsAccount, OpsHost
from inventory.errors import RemoteTimeoutError
from inventory.machines import MachineRequest
from inventory.remote.ssh import Result

NO_EXPERIMENT = re.compile(r"no (such )?experiment", re.IGNORECASE)


def experiment_state(output: str) -> str:
    """Return `active`, `swapped`, …; empty where the experiment is in transition and Emulab shows no state."""
    match = re.search(r"^State:\s*(\S+)", output, re.MULTILINE)
    return match[1] if match else ""


def qualified_names(output: str) -> dict[str, str]:
    """Map machine → its name on the control net (`-n`). A node's line is not indented, its details are."""
    rows = (line.split() for line in _section_lines(output, "Virtual Node Info:") if not line.startswith(" "))
    return {words[0]: words[-1] for words in rows if len(words) >= 3 and "." in words[-1]}


def physical_nodes(output: str) -> dict[str, str]:
    """Map machine → physical node (`-m`)."""
    rows = (line.split() for line in _section_lines(output, "Physical Node Mapping:"))
    return {words[0]: words[3] for words in rows if len(words) >= 4}


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
        self,
        account: OpsAccount,
        project: str,
        options: ClassicOptions | None = None,
        timing: EmulabTiming = EmulabTiming(),  # noqa: B008  # frozen
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._account, self._project, self._options = account, project, options
        self._timing, self._sleep = timing, sleep

    def site(self) -> Mapping[str, str]:
        """See `Access.site`."""
        account = self._account
        return {
            "access": "classic", "project": self._project, "ops_host": account.host, "ops_port": str(account.port),
            "user": account.user, "ssh_key": str(account.ssh_key), "ops_known_hosts": str(account.known_hosts),
        }  # fmt: skip

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """See `Access.check`: the ops host, the project, the hardware types and how many of them are free."""
        hardware_types = [seat.hardware for seat in experiments.assign_ns_nodes(requests, self._needed().hardware)]
        with OpsHost(self._account) as ops:
            if ops.run(["ls", "-d", f"/proj/{self._project}"]).code:
                raise ConfigurationError(
                    f"testbed.options.emulab.project is {self._project!r}: {self._account.user} sees no "
                    f"/proj/{self._project} on {self._account.host}; check project and user"
                )
            for hardware in dict.fromkeys(hardware_types):
                self._check_hardware(ops, hardware, hardware_types.count(hardware))

    def start(self, experiment: str, requests: Sequence[MachineRequest], end_s: float) -> None:
        """See `Access.start`. The guard starts before the experiment does."""
        options, seats = self._needed(), experiments.assign_ns_nodes(requests, self._needed().hardware)
        started = ExperimentRecord(time.time(), options.longest_hours, tuple(seats))
        _require_backstop(started, end_s)
        experiments.write_record(experiment, started)
        with OpsHost(self._account) as ops:
            _require_success(ops.run(["mkdir", "-p", OPS_FOLDER]), f"no folder {OPS_FOLDER} on {self._account.host}")
            self._guard(ops, experiment, end_s)
            ops.write(_ops_path(experiment, ".ns"), experiments.ns_file_text(seats, options.image))
            argv = [
                f"{EMULAB_BIN}/startexp",
                "-i",
                "-w",
                "-N",
                "-E",
                "Barograph",
                "-l",
                str(IDLE_MINUTES),
                "-a",
                str(options.longest_hours * 60),
                "-p",
                self._project,
                "-e",
                experiment,
                _ops_path(experiment, ".ns"),
            ]
            self._swap(ops, argv, f"experiment {experiment} was not started")

    def modify(self, experiment: str, seats: Sequence[NsNode]) -> None:
        """Give the experiment these machines; the nodes of those that stay are kept."""
        with OpsHost(self._account) as ops:
            ops.write(_ops_path(experiment, ".ns"), experiments.ns_file_text(seats, self._needed().image))
            argv = [f"{EMULAB_BIN}/modexp", "-w", "-N", "-e", self._both(experiment), _ops_path(experiment, ".ns")]
            self._swap(ops, argv, f"experiment {experiment} was not modified")
        experiments.write_record(experiment, replace(experiments.read_record(experiment), seats=tuple(seats)))

    def more_seats(self, experiment: str, requests: Sequence[MachineRequest]) -> list[NsNode]:
        """Return the experiment's seats and one for each request."""
        now = experiments.read_record(experiment).seats
        return [*now, *experiments.assign_ns_nodes(requests, self._needed().hardware, now)]

    def nodes(self, experiment: str, requests: Sequence[MachineRequest]) -> tuple[Node, ...]:
        """See `Access.nodes`."""
        with OpsHost(self._account) as ops:
            output = _require_success(self._expinfo(ops, experiment), f"experiment {experiment} tells nothing").stdout
            state, names, addresses = experiment_state(output), qualified_names(output), lan_addresses(output)
            machine_names = [request.name for request in requests]
            if state != "active":
                raise InfrastructureError(f"emulab: experiment {experiment} is {state or 'in transition'}; start again")
            if missing := [name for name in machine_names if name not in names or name not in addresses]:
                raise InfrastructureError(f"emulab: experiment {experiment} has no {', '.join(missing)}; start again")
            controls = {name: self._control_address(ops, names[name]) for name in machine_names}
        port = self._needed().node_port
        return tuple(Node(name, controls[name], port, controls[name], addresses[name]) for name in machine_names)

    def prolong(self, experiment: str, end_s: float) -> None:
        """See `Access.prolong`. A guard that is gone (the ops host was restarted) is started again."""
        _require_backstop(experiments.read_record(experiment), end_s)
        with OpsHost(self._account) as ops:
            self._guard(ops, experiment, end_s)

    def end(self, experiment: str) -> None:
        """See `Access.end`. An experiment in transition cannot be ended, so the command is repeated."""
        deadline = time.monotonic() + self._timing.end_s
        with OpsHost(self._account) as ops:
            while not NO_EXPERIMENT.search(_both_outputs(self._expinfo(ops, experiment))):
                answer = self._tolerant(ops, [f"{EMULAB_BIN}/endexp", "-w", "-N", "-e", self._both(experiment)])
                if time.monotonic() > deadline:
                    raise InfrastructureError(
                        f"emulab: experiment {experiment} is still there {self._timing.end_s:g} s after it was ended "
                        f"({_both_outputs(answer).strip()[-300:]}); end it on its page, or later with `barograph reap`"
                    )
                if answer.code:
                    self._sleep(self._timing.poll_s)
            ops.run(["rm", "-f", *(_ops_path(experiment, end) for end in sorted(FILE_SUFFIXES))])
        experiments.remove_record(experiment)

    def experiments(self) -> tuple[str, ...]:
        """See `Access.experiments`: each experiment's folder, and our files of experiments that never started."""
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

    def _swap(self, ops: OpsHost, argv: Sequence[str], what: str) -> None:
        """Run a command that gives or takes nodes, which takes minutes."""
        limit_s = self._needed().ready_minutes * 60
        try:
            answer = ops.run(argv, limit_s)
        except RemoteTimeoutError as error:
            raise InfrastructureError(
                f"emulab: {what} within {limit_s / 60:g} min; raise testbed.options.emulab.ready_minutes"
            ) from error
        _require_success(answer, what)

    def _tolerant(self, ops: OpsHost, argv: Sequence[str]) -> Result:
        try:
            return ops.run(argv, self._timing.end_s)
        except RemoteTimeoutError as error:
            return Result("", str(error), 124)

    def _expinfo(self, ops: OpsHost, experiment: str) -> Result:
        return ops.run([f"{EMULAB_BIN}/expinfo", "-n", "-m", "-l", "-e", self._both(experiment)])

    def _check_hardware(self, ops: OpsHost, hardware: str, wanted: int) -> None:
        answer = ops.run([f"{EMULAB_BIN}/node_avail", "-p", self._project, "-t", hardware])
        if answer.code:
            raise ConfigurationError(
                f"emulab: hardware type {hardware!r} is refused ({_both_outputs(answer).strip()[:200]}); "
                "set testbed.options.emulab.hardware to types that the project may use"
            )
        numbers = [int(word) for word in answer.stdout.replace(":", " ").split() if word.isdigit()]
        if numbers and numbers[-1] < wanted:
            raise CapacityError(
                f"emulab: {wanted} {hardware} are needed, {numbers[-1]} are free; ask for fewer, or try later"
            )

    def _control_address(self, ops: OpsHost, name: str) -> str:
        """Look the address up inside: the name may not be known outside, and neighbours use the same address."""
        words = _require_success(ops.run(["getent", "hosts", name]), f"{name} has no address").stdout.split()
        if not words:
            raise InfrastructureError(f"emulab: {name} has no address; start again")
        return words[0]

    def _both(self, experiment: str) -> str:
        return f"{self._project},{experiment}"

    def _needed(self) -> ClassicOptions:
        if self._options is None:
            raise ConfigurationError("emulab: no options are given; set testbed.options.emulab (docs/testbeds.md)")
        return self._options


def _require_backstop(started: ExperimentRecord, end_s: float) -> None:
    hours = (end_s - started.started_s) / 3600
    if hours > started.longest_hours:
        raise ConfigurationError(
            f"testbed.options.emulab.longest_hours is {started.longest_hours}, the lease lasts {hours:.1f} h from the "
            "experiment's start: Emulab would take the machines before; raise it, it holds for the next experiment"
        )


def _ops_path(experiment: str, end: str) -> str:
    return f"{OPS_FOLDER}/{experiment}{end}"


def _both_outputs(answer: Result) -> str:
    return f"{answer.stdout}\n{answer.stderr}"


def _require_success(answer: Result, what: str) -> Result:
    if answer.code:
        raise emulab_error(what, _both_outputs(answer))
    return answer
