"""Simulated runs in which the policies of another commit decide: the commit's own policy service, in its sandbox."""

from __future__ import annotations

import os
import select
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barograph.campaign.steps import attempt_next_run
from barograph.child_processes import descendants
from barograph.code.build import build_code
from barograph.code.sandbox import Resources, Sandbox, checkout_sandbox
from barograph.errors import RunBroken
from barograph.plan.experiment import Code, Durations, Experiment, load
from barograph.run import code_service, simulated_cluster
from barograph.run.code_service import CodeService
from barograph.run.context import SeriesContext
from barograph.run.monitor import steady_test
from barograph.run.simulated_cluster import SimulatedCluster
from barograph.run.simulation import SimulatedClock
from barograph.series.series import open_series
from inventory.simulated import SimulatedTestbed
from tests.support.repositories import Repository, resolve_ref, with_plugins

POLICIES = "scheduler_plugins/policies/__init__.py"
SERVICE = "scheduler_plugins/service/server.py"
# Whatever Stela's parameters say, nothing moves at the scale-out.
STILL = """
POLICIES = {**POLICIES, "stela": PolicyEntry(
    lambda observation, memory, parameters: even.decide(observation, memory), stela.StelaParameters,
    frozenset({"scale_out", "scale_in"}),
)}
"""
BROKEN = """
def broken(observation, memory, parameters):
    if observation.event is None:
        return even.decide(observation, memory)
    raise RuntimeError("from the branch")


POLICIES = {**POLICIES, "stela": PolicyEntry(broken, stela.StelaParameters, frozenset({"scale_out", "scale_in"}))}
"""
ENDING = "\nimport sys\n\nprint('not today', file=sys.stderr)\nsys.exit(3)\n"
pytestmark = pytest.mark.usefixtures("own_folders")
Run = Callable[[Code | None], Path]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = with_plugins(tmp_path / "here")
    monkeypatch.setattr("barograph.code.git.ROOT", made.folder)
    return made


@pytest.fixture
def commit(here: Repository) -> Callable[..., Code]:
    """A commit on `main` that has these lines at the end of a file, built."""

    def make(lines: str = "", name: str = POLICIES) -> Code:
        here.commit({name: (here.folder / name).read_text() + lines})
        code = resolve_ref("main")
        build_code(code, print)
        return code

    return make


@pytest.fixture
def stela() -> Experiment:
    """Stela on star, simulated for long enough to see whether it scales out."""
    star = load("stela/star")
    short = Durations(warm_up_floor_s=40, warm_up_ceiling_s=60, after_floor_s=50, horizon_s=60)
    testbed = replace(star.testbed, name="simulated")
    variants = tuple(variant for variant in star.variants if variant.name == "stela")
    return replace(star, testbed=testbed, durations=short, variants=variants, repetitions=1, claims=())


@pytest.fixture
def run(stela: Experiment, tmp_path: Path, heard: Any) -> Run:
    def go(code: Code | None) -> Path:
        experiment = replace(stela, variants=(replace(stela.variants[0], code=code),))
        series, clock = open_series(experiment, new=True), SimulatedClock()
        cluster = SimulatedCluster(experiment, SimulatedTestbed({}), clock, series.folder / ".cluster")
        try:
            run_id = attempt_next_run(series, SeriesContext(experiment, cluster, cluster, clock, heard, steady_test))
        finally:
            cluster.simulation.close()
        assert run_id is not None
        return series.run_folder(run_id)

    return go


Serve = Callable[..., CodeService]


@pytest.fixture
def serve(commit: Callable[..., Code], tmp_path: Path) -> Iterator[Serve]:
    """The service of a commit with these lines in its server."""
    services: list[CodeService] = []

    def begin(lines: str = "", **more: Any) -> CodeService:
        services.append(CodeService(commit(f"{lines}\n# its end\n", SERVICE), tmp_path / "run", lambda: 0.0, **more))
        return services[-1]

    yield begin
    for service in services:
        service.close()


SLEEPING = "\nimport time\n\ntime.sleep(600)\n"


def contents(folder: Path) -> dict[str, bytes]:
    """What does not name the code."""
    files = [*folder.glob("workers/*"), folder / "decisions.jsonl", folder / "events.jsonl"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_the_same_code_gives_the_same_record_to_the_byte_from_its_own_process(
    run: Run, commit: Callable[..., Code]
) -> None:
    own, theirs = contents(run(None)), contents(run(commit()))
    assert len(own) > 5 and own.keys() == theirs.keys()
    assert [name for name in own if own[name] != theirs[name]] == []


def test_the_policies_of_the_commit_decide(run: Run, commit: Callable[..., Code]) -> None:
    assert b"settled" in (folder := run(commit())).joinpath("decisions.jsonl").read_bytes()
    still = run(commit(STILL))
    reason = b"storm left alone: nothing moves without a rebalance"
    assert reason in (still / "decisions.jsonl").read_bytes()
    assert reason not in (folder / "decisions.jsonl").read_bytes()


def test_a_policy_of_the_commit_that_throws_fails_its_run_with_its_words(run: Run, commit: Callable[..., Code]) -> None:
    before = set(descendants(os.getpid()))
    with pytest.raises(RunBroken, match="the policy stela failed: RuntimeError: from the branch"):
        run(commit(BROKEN))
    assert set(descendants(os.getpid())) <= before, "its process has ended"


def test_a_service_that_does_not_begin_says_its_last_words(run: Run, commit: Callable[..., Code]) -> None:
    with pytest.raises(RunBroken, match=r"the policy service of main .* ended with 3; it said last: not today"):
        run(commit(ENDING, SERVICE))


def test_the_service_of_a_commit_is_told_how_long_lines_are(serve: Serve) -> None:
    assert serve(sample_s=10).call("/state")["sample_s"] == 10


def test_a_service_that_hangs_or_does_not_read_breaks_its_run(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_service, "ANSWER_S", 1.0)
    with pytest.raises(RunBroken, match=r"the policy service of main .* has not answered /state within 1 s"):
        serve(SLEEPING).call("/state")
    with pytest.raises(RunBroken, match="has not answered /samples within 1 s"):
        serve(SLEEPING).take_samples(["x" * 1_000_000])


@pytest.mark.parametrize(
    ("leave", "words"),
    [
        (lambda log: log.symlink_to("/etc/hostname"), "has put a link in the place"),
        (lambda log: log.mkdir(), "something else than a file"),
        (os.mkfifo, "something else than a file"),
    ],
)
def test_what_a_service_puts_in_the_place_of_its_log_is_not_read(
    tmp_path: Path, leave: Callable[[Path], None], words: str
) -> None:
    """With our rights it would be any file of this box, and a pipe would be waited for."""
    log = tmp_path / "decisions.jsonl"
    leave(log)
    with pytest.raises(RunBroken, match=words):
        simulated_cluster.copy_regular(log, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_an_answer_that_comes_too_late_is_nobodys(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not be taken for that of the next call."""
    slow = "\nimport time\n\n_state = CALLS['GET', '/state']\n"
    service = serve(slow + "CALLS['GET', '/state'] = lambda *given: (time.sleep(3), _state(*given))[1]\n")
    monkeypatch.setattr(code_service, "ANSWER_S", 1.0)
    with pytest.raises(RunBroken, match="has not answered /state within 1 s"):
        service.call("/state")
    monkeypatch.setattr(code_service, "ANSWER_S", 30.0)
    with pytest.raises(RunBroken, match="ended with -9"):
        service.call("/state")


def test_an_answer_that_waits_is_read_though_this_process_was_stopped_meanwhile(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by Ctrl-Z, which does not reach the sandbox."""
    service = serve()
    send = service._send

    def send_and_stop(*given: Any) -> None:
        send(*given)
        assert select.select([service._process.stdout], [], [], 30.0)[0]
        time.sleep(1.0)

    service.call("/state")
    monkeypatch.setattr(service, "_send", send_and_stop)
    monkeypatch.setattr(code_service, "ANSWER_S", 1.0)
    assert service.call("/state")["run_id"] == ""


@pytest.mark.parametrize(
    ("limit", "number", "words"),
    [
        ("ANSWER_S", 0.5, "has not answered /state within 0.5 s"),
        ("LARGEST_ANSWER", 1_000_000, "answered /state with more than 1000000 bytes"),
    ],
)
def test_an_answer_without_an_end_breaks_its_run(
    limit: str, number: float, words: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is always more of it, so that no look finds the service silent."""
    service = serve()
    theirs = service._process.stdout
    monkeypatch.setattr(code_service, "CHUNK", 16)
    monkeypatch.setattr(code_service, limit, number)
    with Path("/dev/zero").open("rb") as endless:
        service._process.stdout = endless
        try:
            with pytest.raises(RunBroken, match=words):
                service.call("/state")
        finally:
            service._process.stdout = theirs


LARGE = """


def large(*_):
    kept = bytearray(b"x") * (400 * 1024**2)
    time.sleep(600)


CALLS["GET", "/state"] = large
"""


def test_a_service_that_takes_more_memory_than_allowed_breaks_its_run(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(*given: Any) -> Sandbox:
        return replace(checkout_sandbox(*given), resources=Resources(memory_mb=200))

    monkeypatch.setattr(code_service, "checkout_sandbox", small)
    with pytest.raises(RunBroken, match=r"takes too much: it takes \d+ MB of memory, allowed are 200"):
        serve(LARGE).call("/state")


def test_of_what_a_service_prints_only_the_end_is_read(serve: Serve) -> None:
    """It may be as much as the sandbox's disk holds."""
    printing = (
        "\nimport sys\n\nfor text in ('x' * 10_000_000, 'not today'):\n    print(text, file=sys.stderr)\nsys.exit(3)\n"
    )
    service = serve(printing)
    tracemalloc.start()
    try:
        with pytest.raises(RunBroken, match="ended with 3; it said last: not today"):
            service.call("/state")
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
