"""The analysis between two blocks gives way to machines that are measured on this box, and to nothing else."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.compare import interim
from barograph.compare.comparison import Comparison
from barograph.series.series import Series


class Looked(Exception):
    """Far enough: the analysis itself is tested elsewhere."""


@pytest.mark.parametrize(("testbed", "gives_way_by"), [("local", [interim.NICENESS]), ("fake", []), ("ec2", [])])
def test_only_machines_of_this_box_are_given_way_to(
    testbed: str,
    gives_way_by: list[int],
    compared: Callable[..., Comparison],
    opened: Callable[..., Series],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    comparison = compared(3)
    experiment = replace(comparison.experiment, testbed=replace(comparison.experiment.testbed, name=testbed))
    series = opened(replace(comparison, experiment=experiment))
    asked = list[int]()

    def analysed(_series_dir: Path) -> Path:
        raise Looked

    monkeypatch.setattr(os, "nice", asked.append)
    monkeypatch.setattr(interim, "_analyse", analysed)
    with pytest.raises(Looked):
        interim.main([str(series.folder)])
    assert asked == gives_way_by
