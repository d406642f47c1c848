"""What `make test` says at its end of where the time went."""

import subprocess
import sys
from pathlib import Path

PART = """<testsuites><testsuite time="{wall}">
<testcase classname="tests.a" name="test_quick" time="0.5"/>
<testcase classname="tests.a" name="test_slow" time="{slow}"/>
</testsuite></testsuites>"""


def test_parts_and_the_slowest_tests_are_listed_longest_first(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "unit.xml").write_text(PART.format(wall=12, slow=7))
    (tmp_path / "machines.xml").write_text(PART.format(wall=90, slow=80))
    argv = [sys.executable, str(repository / ".ci" / "timings.py"), str(tmp_path)]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split() for line in lines[1:3]] == [["machines", "2", "90", "80"], ["unit", "2", "12", "8"]]
    assert [line.split()[0] for line in lines[5:]] == ["80.0", "7.0", "0.5", "0.5"]
