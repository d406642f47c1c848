"""The short version of the leak harness; `python -m tests.support.cloud.leaks --kills 50` is the long one."""

from pathlib import Path

import pytest

from tests.support.cloud import leaks
from tests.support.cloud.cloud import Cloud, Left

KILLS = 5
SEED = 5


@pytest.mark.timeout(900)
def test_a_harness_that_is_killed_leaves_nothing_after_the_reaper(control_plane: Cloud, tmp_path: Path) -> None:
    cloud = control_plane.anew()
    with leaks.at(cloud, str(tmp_path)):
        killed = list(leaks.kill(cloud, KILLS, SEED))
    assert [(one.phase, one.left, one.state) for one in killed if one.left or one.state] == []
    assert any(one.before for one in killed), "every kill came before there was anything to leave"


def test_the_table_counts_what_is_left_by_phase() -> None:
    nothing = Left((), (), (), (), (), ())
    some = Left(("i-1",), ("vol-1",), (), ("sg-1",), (), ())
    text = leaks.table(
        [leaks.Killed("acquire", 1.5, some, 1, nothing, ()), leaks.Killed("grow", 2.0, some, 2, some, ("k",))]
    )
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()}
    assert rows["acquire"] == ["1", "1.50–1.50", "0–3", "0", "0", "1"]
    assert rows["grow"] == ["1", "2.00–2.00", "0–3", "3", "1", "2"]
    assert text.splitlines()[-1].startswith("left in all: instances 1, volumes 1, key_pairs 0, security_groups 1")
