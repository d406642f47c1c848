"""A request for the end is one interruption, however often and by whatever signal it comes."""

import signal
import time

import pytest

from barograph.errors import Interrupted
from barograph.series import interruption
from barograph.series.interruption import interruptible


def test_a_request_that_comes_by_several_ways_interrupts_once() -> None:
    with interruptible():
        with pytest.raises(Interrupted, match="SIGINT received"), interruptible():
            signal.raise_signal(signal.SIGINT)
        with interruptible():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
    with pytest.raises(Interrupted, match="SIGTERM received"), interruptible():
        signal.raise_signal(signal.SIGTERM)


def test_who_asks_again_later_is_in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruption, "ONE_REQUEST_S", 0.2)
    with interruptible():
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGINT)
        time.sleep(0.3)
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGINT)


def test_where_only_one_signals_each_signal_counts() -> None:
    """The second Ctrl-C of who follows a run in a terminal, a moment after the first."""
    with interruptible(one_request_s=0.0):
        with pytest.raises(Interrupted, match="SIGINT received"), interruptible():
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(Interrupted, match="SIGTERM received"), interruptible():
            signal.raise_signal(signal.SIGTERM)
