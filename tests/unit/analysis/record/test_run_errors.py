"""First errors of a run's logs."""

from pathlib import Path

from analysis.record import run_errors
from analysis.record.files import RunPaths

LOG = """\
2026-11-21T15:26:14.000Z o.a.s.u.Utils main [INFO] java -XX:+HeapDumpOnOutOfMemoryError no ERRORS here
2026-11-21T15:26:14.554Z o.a.s.m.n.Client client-worker-1 [ERROR] connection attempt 1 to m8/10.214.0.18:6700 failed
2026-11-21T15:26:15.554Z o.a.s.m.n.Client client-worker-1 [ERROR] connection attempt 2 to m8/10.214.0.18:6700 failed
java.lang.OutOfMemoryError: Java heap space
"""


def write(run: Path, name: str, text: str) -> None:
    path = run / "logs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_errors_that_differ_in_numbers_are_one_with_the_first_of_them(tmp_path: Path) -> None:
    write(tmp_path, "m1/worker.log", LOG)
    write(tmp_path, "m2/worker.log", LOG.replace("15:26:14", "15:26:10").replace("m8", "m7"))
    found = run_errors.errors_of_run(RunPaths(tmp_path))
    assert found.has_logs and found.cut == 0
    first, heap = found.groups
    assert (first.t_s, first.file, first.times, first.files) == (1795274770.554, "m2/worker.log", 4, 2)
    assert first.text.endswith("connection attempt 1 to m7/10.214.0.18:6700 failed")
    assert (heap.t_s, heap.times, heap.text) == (None, 2, "java.lang.OutOfMemoryError: Java heap space")


def test_a_large_log_is_read_from_its_beginning(tmp_path: Path) -> None:
    line = "2026-11-21 15:26:14,554 [ERROR] early\n"
    write(tmp_path, "m1/worker.log", line + "x" * run_errors.READ_BYTES + "\n[ERROR] late\n")
    found = run_errors.errors_of_run(RunPaths(tmp_path))
    assert [logged.text for logged in found.groups] == ["[ERROR] early"] and found.cut == 1
    assert found.groups[0].t_s == 1795274774.554


def test_logs_that_are_not_here_are_not_logs_without_errors(tmp_path: Path) -> None:
    assert not run_errors.errors_of_run(RunPaths(tmp_path)).has_logs
    write(tmp_path, "m1/supervisor.log", "all well\n")
    assert run_errors.errors_of_run(RunPaths(tmp_path)) == run_errors.RunErrors(True)
