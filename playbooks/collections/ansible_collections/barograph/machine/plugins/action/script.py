"""Ansible action `barograph.machine.script`: run a role's script on the machine in one round trip.

An ordinary module costs a quarter of a CPU second on the machine (unpacking and importing Ansible's part of it), which
is more than a second of wall time on a machine with a fifth of a core; `sh -c` and `python3 -c` cost next to nothing.

Arguments: `script`, a file in the role's `files/` (.py or .sh); `arguments`, a list; `stdin`, a text; `save_to`, a
local file that gets the script's base64 output decoded, which then is not part of the result. Result: rc, stdout,
stdout_lines, stderr; failed unless rc is 0. Define a change with `changed_when`.
"""

from __future__ import annotations

import base64
import shlex
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase  # type: ignore[import-untyped]  # ansible-core ships no types


class ActionModule(ActionBase):  # type: ignore[misc]  # its base class has no types
    """See the module."""

    _supports_check_mode = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the script and return its output."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            {
                "script": {"type": "str", "required": True},
                "arguments": {"type": "list", "elements": "str", "default": []},
                "stdin": {"type": "str", "default": ""},
                "save_to": {"type": "str"},
            }
        )
        command = script_command(Path(self._find_needle("files", arguments["script"])), arguments["arguments"])
        # Without input the ssh plugin would allocate a terminal, which mixes standard error into standard output.
        result.update(self._low_level_execute_command(command, in_data=(arguments["stdin"] or "\n").encode()))
        result["failed"] = result["rc"] != 0
        if result["failed"]:
            result["msg"] = f"{arguments['script']} ended with {result['rc']}"
        elif arguments["save_to"]:
            Path(arguments["save_to"]).write_bytes(base64.b64decode(result.pop("stdout")))
            result["stdout_lines"] = []
        return result


def script_command(script: Path, arguments: list[str]) -> str:
    """Return the shell command that runs the script's text with these arguments."""
    interpreter = ["python3", "-c"] if script.suffix == ".py" else ["sh", "-c"]
    name = [] if script.suffix == ".py" else [script.name]  # sh takes the first word after the text as $0
    return shlex.join([*interpreter, script.read_text(), *name, *arguments])
