"""A real SIGTERM in each kind of event: what was measured is kept, everything is released."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.plan.events.faults import Crash
from barograph.plan.events.kind import PlannedEvent
from barograph.plan.events.order import machines_at_end
from barograph.plan.events.rates import RateChange
from barograph.plan.events.scaling import ScaleIn, ScaleOut
from barograph.plan.experiment import Durations, MachineCount, load, with_changes
from barograph.series.series import open_series
from barograph.settings import ROOT
from tests.support import worker_lines

SHORT = Durations(warm_up_floor_s=45, warm_up_ceiling_s=60, after_floor_s=50, horizon_s=90)
EVENTS = [
    ("scale", ScaleOut("steady", 1)),
    pytest.param("leave", ScaleIn("steady", 1), marks=pytest.mark.long),
    pytest.param("rate", RateChange("steady", 2.0), marks=pytest.mark.long),
    ("crash", Crash("steady", "m2", restart_after_s=30.0)),
    pytest.param("recover", Crash("steady", "m2"), marks=pytest.mark.long),
]


@pytest.mark.parametrize(("phase", "event"), EVENTS)
def test_what_was_measured_is_kept_and_everything_is_released(
    phase: str, event: PlannedEvent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STATE", "RESULTS", "HOME"):
        monkeypatch.setenv(f"BAROGRAPH_{name}", str(tmp_path / name.lower()))
    monkeypatch.setenv("BAROGRAPH_PACE", "0.05")
    star = with_changes(load("stela/star"), {"testbed": "fake", "repetitions": 1, "variants": ["stela"]})
    machines = MachineCount(4, machines_at_end(4, [event]))
    series = open_series(replace(star, events=(event,), machines=machines, durations=SHORT)).folder
    argv = [sys.executable, "-m", "barograph.campaign.execution", str(series), str(os.getpid())]
    process = subprocess.Popen(argv, cwd=ROOT)
    try:
        await_phase(series, phase, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=240) == 130
    finally:
        process.kill()
        process.wait()
    assert list(tmp_path.glob("state/leases/*.json")) == []
    run = series / "runs" / "stela-r1"
    assert json.loads((run / "run.json").read_text())["status"] == "incomplete"
    assert worker_lines.of_run(run)


def await_phase(series: Path, phase: str, process: subprocess.Popen[bytes]) -> None:
    deadline, told = time.monotonic() + 240, series / "progress.jsonl"  # a busy box is slow
    while time.monotonic() < deadline:
        if told.exists() and f'"phase": "{phase}"' in told.read_text():
            return
        assert process.poll() is None, f"ended with {process.returncode} before phase {phase}"
        time.sleep(0.05)
    raise AssertionError(f"phase {phase} did not come")
