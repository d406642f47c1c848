import time

import pytest

from dags.steps import box_facts


def test_speed_is_of_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock of CPU time that runs ten times as fast is a core at a tenth of its speed."""
    begin_s = time.thread_time()
    speed = box_facts.box_facts()["cpu_speed"]
    took_s = time.thread_time() - begin_s
    assert took_s < 2.0, "it comes before every run"
    assert 0 < speed * 1e6 * took_s < 3 * box_facts.LAPS * box_facts.STEPS, "no more was done in that time"
    real = time.thread_time
    monkeypatch.setattr(box_facts.time, "thread_time", lambda: 10 * real())
    assert 0 < box_facts.cpu_speed() < speed / 2
