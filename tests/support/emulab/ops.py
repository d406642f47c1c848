"""A project's ops host: Emulab's commands on a small state machine, behind a real ssh server."""

import getopt
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch

from inventory.remote.ssh import Result
from tests.support.emulab import ns
from tests.support.emulab.nodes import Nodes
from tests.support.emulab.ssh_server import SshServer

IMAGES = ("UBUNTU22-64-STD", "UBUNTU24-64-STD")
DOMAIN = "emulab.net"


@dataclass
class Experiment:
    parsed: ns.Parsed
    swap_minutes: int
    state: str = "active"
    addresses: dict[str, str] = field(default_factory=dict)


class FakeOps:
    """`hook(n, what)` hears of the n-th command or transfer before it is done, `after(n)` once it is."""

    def __init__(self, nodes: Nodes, user: str, key: str, project: str = "storm") -> None:
        self.nodes, self.project = nodes, project
        self.experiments: dict[str, Experiment] = {}
        self.guards: list[list[str]] = []
        self.files: dict[str, tuple[bytes, int]] = {}
        self.busy = 0  # how often endexp finds the experiment in transition
        self.slow_s = 0.0  # how long startexp takes
        self.silent_keys = 0  # how often ssh-keyscan hears nothing
        self.seen: list[list[str]] = []
        self.count = 0
        self.hook: Callable[[int, str], None] = lambda _n, _what: None
        self.after: Callable[[int], None] = lambda _n: None
        self.server = SshServer("127.0.0.1", 0, {user: key}, self._run, self.files, self._hear)

    def _hear(self, what: str) -> None:
        self.count += 1
        self.hook(self.count, what)

    def _run(self, argv: Sequence[str], limit_s: float) -> Result:
        self.seen.append(list(argv))
        number = self.count
        result = self._command(argv, limit_s)
        self.after(number)
        return result

    def close(self) -> None:
        self.server.close()

    def ends_at(self, experiment: str) -> float:
        return float(self.files[f".barograph/{experiment}.end"][0])

    def tick(self, now: float) -> None:
        """What the guards and Emulab's own auto-swap do when it is `now`."""
        for _script, end, project, experiment, _bin in list(self.guards):
            if end not in self.files:
                self.guards = [one for one in self.guards if one[1] != end]
            elif now >= float(self.files[end][0]):
                self._endexp(["-w", "-N", "-e", f"{project},{experiment}"])
                del self.files[end]

    def _command(self, argv: Sequence[str], limit_s: float) -> Result:
        name, rest = argv[0].rpartition("/")[2], list(argv[1:])
        if name in ("startexp", "modexp", "endexp", "expinfo", "node_avail"):
            assert argv[0].startswith("/usr/testbed/bin/"), argv
        if name == "startexp" and self.slow_s > limit_s:
            self._startexp(rest)  # Emulab goes on, whatever becomes of the command
            time.sleep(limit_s)
            return Result("", "", 124)
        try:
            known: Callable[[list[str]], Result] = getattr(self, f"_{name.replace('-', '_')}")
        except AttributeError:
            return Result("", f"{name}: command not found\n", 127)
        return known(rest)

    def _startexp(self, argv: list[str]) -> Result:
        options, (path,) = _options(argv, "iwfqNS:L:a:l:E:g:p:e:")
        name = options["-e"]
        if not re.fullmatch(r"[a-zA-Z0-9][-a-zA-Z0-9]+", name) or not 2 <= len(name) <= 19:
            return Result("", f"*** Invalid experiment name {name}\n", 1)
        if options["-p"] != self.project:
            return Result("", f"*** No such project {options['-p']}\n", 1)
        if name in self.experiments:
            return Result("", f"*** experiment {name} already exists\n", 1)
        try:
            parsed = self._parsed(path)
        except ns.ParseError as error:
            return Result(str(error), "", 1)
        made = self.experiments[name] = Experiment(parsed, int(options["-a"]))
        return self._swap_in(made, parsed)

    def _modexp(self, argv: list[str]) -> Result:
        options, (path,) = _options(argv, "rswNe:")
        made = self._named(options)
        if made is None:
            return _gone(options)
        return self._swap_in(made, self._parsed(path))

    def _swap_in(self, made: Experiment, parsed: ns.Parsed) -> Result:
        """All that the file names, or as it was."""
        new = [name for name in parsed.hardware if name not in made.addresses]
        for hardware in set(parsed.hardware.values()):
            wanted = sum(parsed.hardware[name] == hardware for name in new)
            free = self.nodes.free.get(hardware, 0)
            if wanted > free:
                made.state = "active" if made.addresses else "swapped"
                text = f"*** Resource reservation violation: {wanted} nodes of type {hardware} requested, but only {free} available\n"  # noqa: E501
                return Result(text, "", 1)
        for name in [name for name in made.addresses if name not in parsed.hardware]:
            self.nodes.take_back(made.addresses.pop(name))
        for name in new:
            made.addresses[name] = self.nodes.boot(name, parsed.hardware[name])
        made.parsed, made.state = parsed, "active"
        return Result("Experiment swapped in\n", "", 0)

    def _endexp(self, argv: list[str]) -> Result:
        options, _ = _options(argv, "wNe:")
        made = self._named(options)
        if made is None:
            return _gone(options)
        if self.busy:
            self.busy -= 1
            return Result("", "*** Experiment is in transition, please try again later\n", 1)
        for address in made.addresses.values():
            self.nodes.take_back(address)
        del self.experiments[options["-e"].partition(",")[2]]
        return Result("", "", 0)

    def _expinfo(self, argv: list[str]) -> Result:
        options, _ = _options(argv, "nmldae:")
        made, name = self._named(options), options["-e"].partition(",")[2]
        if made is None:
            return _gone(options)
        return Result(report(self.project, name, made, set(options)), "", 0)

    def _node_avail(self, argv: list[str]) -> Result:
        options, _ = _options(argv, "hp:t:c:")
        if options["-t"] not in self.nodes.free:
            return Result("", f"Invalid node type {options['-t']}\n", 1)
        return Result(f"{self.nodes.free[options['-t']]}\n", "", 0)

    def _getent(self, argv: list[str]) -> Result:
        machine, name, *_ = argv[1].split(".")
        made = self.experiments.get(name)
        if made is None or machine not in made.addresses:
            return Result("", "", 2)
        return Result(f"{made.addresses[machine]}      {argv[1]}\n", "", 0)

    def _ssh_keyscan(self, argv: list[str]) -> Result:
        if self.silent_keys:
            self.silent_keys -= 1
            return Result("", "", 1)
        return Result(f"# {argv[-1]} SSH-2.0\n{self.nodes.host_key(argv[-1])}", "", 0)

    def _ls(self, argv: list[str]) -> Result:
        path = argv[-1]
        if path == f"/proj/{self.project}/exp":
            return Result("".join(f"{name}\n" for name in self.experiments), "", 0)
        if path == ".barograph":
            return Result("".join(f"{name[11:]}\n" for name in self.files if fnmatch(name, ".barograph/*")), "", 0)
        found = path == f"/proj/{self.project}"
        return Result(
            path if found else "", "" if found else f"ls: {path}: No such file or directory\n", int(not found)
        )

    def _mkdir(self, argv: list[str]) -> Result:
        assert argv == ["-p", ".barograph"]
        return Result("", "", 0)

    def _rm(self, argv: list[str]) -> Result:
        for path in argv[1:]:
            self.files.pop(path, None)
        return Result("", "", 0)

    def _pgrep(self, argv: list[str]) -> Result:
        running = [" ".join(["sh", *words, ""]) for words in self.guards]
        return Result("", "", 0 if any(re.search(argv[-1], line) for line in running) else 1)

    def _sh(self, argv: list[str]) -> Result:
        script, *words = argv[4:]
        assert argv[:2] == ["-c", 'nohup "$@" >/dev/null 2>&1 </dev/null &'] and script in self.files, argv
        self.guards.append([script, *words])
        return Result("", "", 0)

    def _parsed(self, path: str) -> ns.Parsed:
        parsed = ns.parse(self.files[path][0].decode())
        if bad := [image for image in parsed.image.values() if image not in IMAGES]:
            raise ns.ParseError(f"*** invalid OS {bad[0]}")
        return parsed

    def _named(self, options: dict[str, str]) -> Experiment | None:
        project, _, name = options["-e"].partition(",")
        return self.experiments.get(name) if project == self.project else None


def report(project: str, name: str, made: Experiment, show: set[str]) -> str:
    """As Emulab's tbreport prints it."""
    lines = [f"Experiment: {project}/{name}", f"State: {made.state}", ""]
    if "-n" in show:
        lines += ["Virtual Node Info:", f"{'ID':15} {'Type':12} {'OS':15} Qualified Name", f"{'-' * 15} {'-' * 12}"]
        for node, kind in made.parsed.hardware.items():
            lines.append(f"{node:15} {kind:12} {made.parsed.image[node]:15} {node}.{name}.{project}.{DOMAIN}")
            lines.append(f"   {'Startup Command:':17} /bin/true")
        lines.append("")
    if "-m" in show and made.addresses:
        lines += ["Physical Node Mapping:", f"{'ID':15} {'Type':12} {'OS':15} Physical", f"{'-' * 15} {'-' * 12}"]
        lines += [f"{node:15} {made.parsed.hardware[node]:12} {'X':15} pc{n}" for n, node in enumerate(made.addresses)]
        lines.append("")
    if "-l" in show and made.parsed.members:
        lines += [
            "Virtual Lan/Link Info:",
            f"{'ID':15} {'Member/Proto':15} IP/Mask",
            f"{'-' * 15} {'-' * 15} {'-' * 15}",
        ]
        for node in made.parsed.members:
            lines.append(f"{'lan0':15} {node + ':0':15} {made.parsed.address[node]:15} 0.00      100000    0.00000000")
            lines.append(f"{'':15} {'ethernet':15} {'255.255.255.0':15} 0.00      100000    0.00000000")
        lines.append("")
    return "\n".join(lines) + "\n"


def _options(argv: list[str], known: str) -> tuple[dict[str, str], list[str]]:
    options, rest = getopt.getopt(argv, known)
    return dict(options), rest


def _gone(options: dict[str, str]) -> Result:
    project, _, name = options["-e"].partition(",")
    return Result("", f"There is no experiment {name} in project {project}\n", 2)
