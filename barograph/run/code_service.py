"""The policy service of a commit for simulated runs: its own `scheduler_plugins` in a sandbox, called over pipes, with
simulated time. It replaces the work tree's own, which runs in process.

On machines a commit brings its bridge too; here bridge, Nimbus and all else are the simulator's, of the work tree.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from barograph.code import BuildFailed
from barograph.code.build import service_of
from barograph.code.git import code_label
from barograph.code.sandbox import (
    LOOK_S,
    PATH,
    Watch,
    checkout_sandbox,
    give_to_sandbox,
    sandbox_command,
    write_accounts,
)
from barograph.errors import RunBroken
from barograph.plan.experiment import Code
from barograph.policy_service import ServiceRefused
from barograph.settings import ROOT, process_environment
from scheduler_plugins.driver.rounds import ServiceFailed
from scheduler_plugins.json_data import from_json
from scheduler_plugins.service.emission_records import InputRates
from scheduler_plugins.service.messages import Answer, Request, request_json
from scheduler_plugins.service.state import PostedLine

SCRIPT = ROOT / "barograph" / "code" / "checkout.py"
PLACE = "/build/service"  # of its folder, in the sandbox
ANSWER_S = 60.0  # the service has a limit of its own for policies; an older one may hang
END_S = 30.0  # for a killed process
CHUNK = 65_536
LARGEST_ANSWER = 128 * 1024 * 1024  # a million placed tasks take a fifth


class CodeService:
    """A commit's service. `clock` is simulated. `folder` gets the commit's decision log and the service's output.
    `sample_s`: how often workers write, in seconds."""

    def __init__(self, code: Code, folder: Path, clock: Callable[[], float], sample_s: int = 1) -> None:
        self._label, self._clock = code_label(code), clock
        self.log_path = folder / "service" / "decisions.jsonl"
        self._printed = folder / "service.log"
        self._rates = InputRates(clock())  # due rates are known to the world, and no call asks for them
        self._left = b""
        self._process = self._start(code, folder, sample_s)

    def _start(self, code: Code, folder: Path, sample_s: int) -> subprocess.Popen[bytes]:
        tree = service_of(code)
        assert tree is not None, "schedulers that are not ours are refused before"
        service_folder, files = folder / "service", folder / "sandbox"
        for each in (service_folder, files):
            each.mkdir(parents=True, exist_ok=True)
        give_to_sandbox(service_folder)
        write_accounts(files)
        argv = [sys.executable, "-P", "-s", str(SCRIPT), "serve", PLACE, str(sample_s)]
        sandbox = checkout_sandbox(tree, PLACE, {service_folder: PLACE}, (SCRIPT,))
        command = sandbox_command(argv, sandbox, files)
        environment = {"PATH": process_environment().get("PATH", PATH)}
        with self._printed.open("ab") as output:  # the sandbox ends with this process
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, env=environment,
                start_new_session=True,
            )  # fmt: skip
        assert process.stdin is not None, "it has a pipe"
        os.set_blocking(process.stdin.fileno(), False)  # a service that does not read must not block us
        self._watch = Watch(process.pid, sandbox, self._printed)
        return process

    def close(self) -> None:
        self._process.kill()
        self._process.wait(timeout=END_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    # As the bridge asks

    def schedule(self, request: Request) -> Answer:
        answer = self._ask_as_bridge("/schedule", request_json(request))
        try:
            return from_json(Answer, answer)
        except ValueError as error:
            raise ServiceFailed(f"schedule: {error}") from error

    def applied(self, report: Mapping[str, Any]) -> object:
        return self._ask_as_bridge("/applied", report)

    def _ask_as_bridge(self, path: str, body: Mapping[str, Any]) -> Any:
        try:
            answer = self._ask("POST", path, json.dumps(body))
        except RunBroken as error:
            raise ServiceFailed(f"{path.removeprefix('/')}: {error}") from error
        if "answer" not in answer:
            text = json.dumps({"error": answer["error"]})[:200]
            raise ServiceFailed(f"{path.removeprefix('/')}: HTTP {answer['status']}: {text}")
        return answer["answer"]

    # As the harness asks

    def call(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Call the service. Raises ServiceRefused, and RunBroken where the service does not answer any more."""
        answer = self._ask("GET" if body is None else "POST", path, json.dumps(body))
        if "answer" not in answer:
            raise ServiceRefused(
                f"{path} of the policy service answered {answer['status']}: {json.dumps({'error': answer['error']})}"
            )
        if path == "/configure":
            self._rates = InputRates(self._clock())
        elif path == "/input_rate" and body is not None:
            self._rates.take(body, self._clock())
        return answer["answer"]

    # As the world asks

    def due_seconds(self, topology: str, source: str, from_s: float, until_s: float) -> float:
        return self._rates.due_seconds((topology, source), from_s, until_s)

    def take_samples(self, lines: Iterable[PostedLine]) -> object:
        return self._post("/samples", lines)

    def take_machine_samples(self, lines: Iterable[PostedLine]) -> object:
        return self._post("/machine_samples", lines)

    def _post(self, path: str, lines: Iterable[PostedLine]) -> object:
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        return self._ask("POST", path, text) if text else None

    def _ask(self, method: str, path: str, body: str) -> Any:
        call = {"t": self._clock(), "method": method, "path": path, "body": body, "headers": {}}
        end_s = time.monotonic() + ANSWER_S
        self._send(json.dumps(call).encode() + b"\n", path, end_s)
        line = self._line(path, end_s)
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or not answer.keys() & {"answer", "error"}:
            raise RunBroken(f"the policy service of {self._label} answered {path} with no answer: {line[:80]!r}")
        return answer

    def _send(self, line: bytes, path: str, end_s: float) -> None:
        assert self._process.stdin is not None, "it has a pipe"
        file, rest = self._process.stdin.fileno(), memoryview(line)
        looks = self._looks(path, end_s, [], [file])
        while rest:
            if next(looks):
                try:
                    rest = rest[os.write(file, rest) :]
                except BrokenPipeError as error:
                    raise self._gone() from error

    def _line(self, path: str, end_s: float) -> bytes:
        assert self._process.stdout is not None, "it has a pipe"
        file, parts, size = self._process.stdout.fileno(), [self._left], len(self._left)
        looks = self._looks(path, end_s, [file], [])
        while b"\n" not in parts[-1]:
            if not next(looks):
                continue
            parts.append(os.read(file, CHUNK))
            size += len(parts[-1])
            if not parts[-1]:
                raise self._gone()
            if size > LARGEST_ANSWER:
                raise self._end(f"answered {path} with more than {LARGEST_ANSWER} bytes")
        line, _, self._left = b"".join(parts).partition(b"\n")
        return line

    def _looks(self, path: str, end_s: float, reads: Sequence[int], writes: Sequence[int]) -> Iterator[bool]:
        """Yield whether one of them is ready, each within LOOK_S. Raises RunBroken where the service uses too much,
        also time. One look is after the end: this process may have been stopped, and the answer waits."""
        left_s = ANSWER_S
        while left_s > 0:
            try:
                self._watch()
            except BuildFailed as error:
                raise self._end(f"takes too much: {error}") from error
            left_s = end_s - time.monotonic()
            ready = select.select(reads, writes, [], min(max(0.0, left_s), LOOK_S))
            yield bool(ready[0] or ready[1])
        # Its late answer would be taken for the next call's.
        raise self._end(f"has not answered {path} within {ANSWER_S:g} s")

    def _end(self, why: str) -> RunBroken:
        self._process.kill()
        return RunBroken(f"the policy service of {self._label} {why}")

    def _gone(self) -> RunBroken:
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return self._end("closed its pipes")
        with self._printed.open("rb") as printed:
            printed.seek(max(0, self._printed.stat().st_size - CHUNK))
            last = printed.read(CHUNK).decode(errors="replace").strip().splitlines()[-1:]
        return RunBroken(f"the policy service of {self._label} ended with {code}; it said last: {''.join(last) or '–'}")
