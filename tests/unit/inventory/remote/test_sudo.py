"""Who may not become root is told so; what a command itself says is its result."""

import pytest

from inventory.remote.ssh import sudo_refusal


@pytest.mark.parametrize(
    ("code", "stderr"),
    [
        (1, "sudo: a password is required\n"),
        (1, "sudo: unable to resolve host m1: Name or service not known\nsudo: a password is required\n"),
        (1, "joe is not in the sudoers file.\nThis incident has been reported to the administrator.\n"),
        (1, "Sorry, user joe is not allowed to execute '/usr/bin/timeout' as root on m1.\n"),
        (127, "sh: 1: sudo: not found\n"),
        (127, "bash: line 1: sudo: command not found\n"),
    ],
)
def test_a_refusal(code: int, stderr: str) -> None:
    assert sudo_refusal(code, stderr) in stderr.splitlines()


@pytest.mark.parametrize(
    ("code", "stderr"),
    [
        (0, ""),
        (1, "sudo: unable to resolve host m1: Name or service not known\n"),
        (1, "cat: /nowhere: No such file or directory\n"),
        (127, "timeout: failed to run command 'sudo-something': No such file or directory\n"),
    ],
)
def test_a_result(code: int, stderr: str) -> None:
    assert sudo_refusal(code, stderr) is None
