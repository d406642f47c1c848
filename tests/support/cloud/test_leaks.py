"""The short version of the leak harness; `python -m tests.support.cloud.leaks --kills 50` is the long one."""

from pathlib import Path

import pytest

from tests.support.cloud import leaks
from tests.support.cloud.cloud import Cloud

KILLS = 5
SEED = 5


@pytest.mark.timeout(900)
def test_a_harness_that_is_killed_leaves_nothing_after_the_reaper(control_plane: Cloud, tmp_path: Path) -> None:
    cloud = control_plane.anew()
    with leaks.at(cloud, str(tmp_path)):
        killed = list(leaks.kill(cloud, KILLS, SEED))
    assert [(one.phase, one.left, one.state) for one in killed if one.left or one.state] == []
    assert any(one.before for one in killed), "every kill came before there was anything to leave"
