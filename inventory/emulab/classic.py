"""Classic Emulab: the commands of the project's ops host over ssh, and an NS file.

Commands and flags are those of Emulab's own `script_wrapper` (startexp -i -w -N -E -a -l -p -e, modexp, endexp,
expinfo -n -m -l, node_avail -t -p); what they print is tbreport's. `-a` swaps the experiment out after so many minutes
whatever happens and cannot be changed later, so it is the backstop (`longest_hours`); the lease's own end, which moves
with every renewal, is kept by `guard.sh` on the ops host.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from inventory.emulab import expinfo, ns_file, record
from inventory.emulab.access import Node, Patience, failure
from inventory.emulab.ns_file import Seat
from inventory.emulab.ops import Ops, OpsAccount
from inventory.emulab.options import ClassicOptions
from inventory.emulab.record import Record
from inventory.errors import CapacityError, ConfigurationError, InfrastructureError, RemoteTimeoutError
from inventory.machines import MachineRequest
from inventory.remote import Result

BIN = "/usr/testbed/bin"
FOLDER = ".barograph"  # in the user's home on the ops host: NS files, guards and their ends
ENDS = {".ns", ".end"}
GUARD = Path(__file__).with_name("guard.sh")
IDLE_MINUTES = 240  # Emulab's own idle swap, the site's usual value: a run is never idle that long


class Classic:
    """`options` are the experiment's; without them (another process, the reaper) it can only look and end."""

    def __init__(
        self,
        account: OpsAccount,
        project: str,
        options: ClassicOptions | None = None,
        patience: Patience = Patience(),  # noqa: B008  # frozen
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._account, self._project, self._options = account, project, options
        self._patience, self._sleep = patience, sleep

    def site(self) -> Mapping[str, str]:
        """See `Access.site`."""
        account = self._account
        return {
            "access": "classic", "project": self._project, "ops_host": account.host, "ops_port": str(account.port),
            "user": account.user, "ssh_key": str(account.ssh_key), "ops_known_hosts": str(account.known_hosts),
        }  # fmt: skip

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """See `Access.check`: the ops host, the project, the hardware types and how many of them are free."""
        wanted = [seat.hardware for seat in ns_file.seats(requests, self._needed().hardware)]
        with Ops(self._account) as ops:
            if ops.run(["ls", "-d", f"/proj/{self._project}"]).code:
                raise ConfigurationError(
                    f"testbed.options.emulab.project is {self._project!r}: {self._account.user} sees no "
                    f"/proj/{self._project} on {self._account.host}; check project and user"
                )
            for hardware in dict.fromkeys(wanted):
                self._check_hardware(ops, hardware, wanted.count(hardware))

    def start(self, experiment: str, requests: Sequence[MachineRequest], end_s: float) -> None:
        """See `Access.start`. The guard stands before the experiment does."""
        options, seats = self._needed(), ns_file.seats(requests, self._needed().hardware)
        started = Record(time.time(), options.longest_hours, tuple(seats))
        _require_backstop(started, end_s)
        record.write(experiment, started)
        with Ops(self._account) as ops:
            _succeed(ops.run(["mkdir", "-p", FOLDER]), f"no folder {FOLDER} on {self._account.host}")
            self._guard(ops, experiment, end_s)
            ops.write(_place(experiment, ".ns"), ns_file.text(seats, options.image))
            argv = [
                f"{BIN}/startexp", "-i", "-w", "-N", "-E", "Barograph", "-l", str(IDLE_MINUTES),
                "-a", str(options.longest_hours * 60), "-p", self._project, "-e", experiment, _place(experiment, ".ns"),
            ]  # fmt: skip
            self._swap(ops, argv, f"experiment {experiment} was not started")

    def modify(self, experiment: str, seats: Sequence[Seat]) -> None:
        """The experiment has these machines from now on; the nodes of those that stay are kept."""
        with Ops(self._account) as ops:
            ops.write(_place(experiment, ".ns"), ns_file.text(seats, self._needed().image))
            argv = [f"{BIN}/modexp", "-w", "-N", "-e", self._both(experiment), _place(experiment, ".ns")]
            self._swap(ops, argv, f"experiment {experiment} was not modified")
        record.write(experiment, replace(record.read(experiment), seats=tuple(seats)))

    def more_seats(self, experiment: str, requests: Sequence[MachineRequest]) -> list[Seat]:
        """The experiment's seats and one for each request."""
        now = record.read(experiment).seats
        return [*now, *ns_file.seats(requests, self._needed().hardware, now)]

    def nodes(self, experiment: str, requests: Sequence[MachineRequest]) -> tuple[Node, ...]:
        """See `Access.nodes`."""
        with Ops(self._account) as ops:
            output = _succeed(self._expinfo(ops, experiment), f"experiment {experiment} tells nothing").stdout
            state, names, addresses = expinfo.state(output), expinfo.qualified_names(output), expinfo.addresses(output)
            wanted = [request.name for request in requests]
            if state != "active":
                raise InfrastructureError(f"emulab: experiment {experiment} is {state or 'in transition'}; start again")
            if lost := [name for name in wanted if name not in names or name not in addresses]:
                raise InfrastructureError(f"emulab: experiment {experiment} has no {', '.join(lost)}; start again")
            controls = {name: self._control_address(ops, names[name]) for name in wanted}
        port = self._needed().node_port
        return tuple(Node(name, controls[name], port, controls[name], addresses[name]) for name in wanted)

    def prolong(self, experiment: str, end_s: float) -> None:
        """See `Access.prolong`. A guard that is gone (the ops host was restarted) is started again."""
        _require_backstop(record.read(experiment), end_s)
        with Ops(self._account) as ops:
            self._guard(ops, experiment, end_s)

    def end(self, experiment: str) -> None:
        """See `Access.end`. In transition it cannot be ended, so it is asked for again."""
        deadline = time.monotonic() + self._patience.end_s
        with Ops(self._account) as ops:
            while not expinfo.GONE.search(_both_outputs(self._expinfo(ops, experiment))):
                answer = self._tolerant(ops, [f"{BIN}/endexp", "-w", "-N", "-e", self._both(experiment)])
                if time.monotonic() > deadline:
                    raise InfrastructureError(
                        f"emulab: experiment {experiment} is still there {self._patience.end_s:g} s after it was ended "
                        f"({_both_outputs(answer).strip()[-300:]}); end it on its page, or later with `barograph reap`"
                    )
                if answer.code:
                    self._sleep(self._patience.poll_s)
            ops.run(["rm", "-f", *(_place(experiment, end) for end in sorted(ENDS))])
        record.forget(experiment)

    def experiments(self) -> tuple[str, ...]:
        """See `Access.experiments`: a folder of each experiment, and what we left for ones that never came to be."""
        with Ops(self._account) as ops:
            listing = ops.run(["ls", f"/proj/{self._project}/exp"])
            if listing.code:
                raise ConfigurationError(
                    f"emulab: {self._account.host} has no /proj/{self._project}/exp ({listing.stderr.strip()[:200]}); "
                    "check testbed.options.emulab.project"
                )
            left = [Path(name) for name in ops.run(["ls", FOLDER]).stdout.split()]
        return tuple(sorted({*listing.stdout.split(), *(one.stem for one in left if one.suffix in ENDS)}))

    def _guard(self, ops: Ops, experiment: str, end_s: float) -> None:
        end = _place(experiment, ".end")
        running = not ops.run(["pgrep", "-f", f"[g]uard.sh {end} "]).code  # `[g]`: not this very command line
        ops.write(end, f"{math.ceil(end_s)}\n")
        if running:
            return
        ops.write(f"{FOLDER}/guard.sh", GUARD.read_text())
        words = ["sh", f"{FOLDER}/guard.sh", end, self._project, experiment, BIN]
        # Every stream is its own, or the ssh session would wait for the guard's end.
        launch = ["sh", "-c", 'nohup "$@" >/dev/null 2>&1 </dev/null &', "launch", *words]
        _succeed(ops.run(launch), f"the guard of {experiment} was not started")

    def _swap(self, ops: Ops, argv: Sequence[str], what: str) -> None:
        """A command that gives or takes nodes, which takes minutes."""
        limit_s = self._needed().ready_minutes * 60
        try:
            answer = ops.run(argv, limit_s)
        except RemoteTimeoutError as error:
            raise InfrastructureError(
                f"emulab: {what} within {limit_s / 60:g} min; raise testbed.options.emulab.ready_minutes"
            ) from error
        _succeed(answer, what)

    def _tolerant(self, ops: Ops, argv: Sequence[str]) -> Result:
        try:
            return ops.run(argv, self._patience.end_s)
        except RemoteTimeoutError as error:
            return Result("", str(error), 124)

    def _expinfo(self, ops: Ops, experiment: str) -> Result:
        return ops.run([f"{BIN}/expinfo", "-n", "-m", "-l", "-e", self._both(experiment)])

    def _check_hardware(self, ops: Ops, hardware: str, wanted: int) -> None:
        answer = ops.run([f"{BIN}/node_avail", "-p", self._project, "-t", hardware])
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

    def _control_address(self, ops: Ops, name: str) -> str:
        """Looked up inside: the name may not be known outside, and neighbours use the same address."""
        words = _succeed(ops.run(["getent", "hosts", name]), f"{name} has no address").stdout.split()
        if not words:
            raise InfrastructureError(f"emulab: {name} has no address; start again")
        return words[0]

    def _both(self, experiment: str) -> str:
        return f"{self._project},{experiment}"

    def _needed(self) -> ClassicOptions:
        if self._options is None:
            raise ConfigurationError("emulab: no options are given; set testbed.options.emulab (docs/emulab.md)")
        return self._options


def _require_backstop(started: Record, end_s: float) -> None:
    hours = (end_s - started.started_s) / 3600
    if hours > started.longest_hours:
        raise ConfigurationError(
            f"testbed.options.emulab.longest_hours is {started.longest_hours}, the lease lasts {hours:.1f} h from the "
            "experiment's start: Emulab would take the machines before; raise it, it holds for the next experiment"
        )


def _place(experiment: str, end: str) -> str:
    return f"{FOLDER}/{experiment}{end}"


def _both_outputs(answer: Result) -> str:
    return f"{answer.stdout}\n{answer.stderr}"


def _succeed(answer: Result, what: str) -> Result:
    if answer.code:
        raise failure(what, _both_outputs(answer))
    return answer
