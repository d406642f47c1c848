"""Failures of the playbooks and of the Storm home, by whose they are.

PlaybookError              blame = harness             ours, unless a subclass says otherwise
├── SettingUnknown         blame = configuration       a setting that no role has
├── MachineUnknown         blame = harness             a machine that the inventory has not
├── DiskFull               blame = capacity            this box has no room for the record
├── DeliveryIncomplete     blame = configuration       a part of the delivery was not built (playbooks.cluster)
├── TokenEmpty             blame = configuration       a token of before is an empty file (playbooks.cluster)
└── PlayFailed             blame = harness             a task failed: a bug of a role, a variable that is missing
    ├── MachineUnreachable blame = infrastructure      ssh to a machine failed or broke
    ├── MachineHung        blame = infrastructure      a machine was still at a task at the play's time limit
    ├── PlayHung           blame = harness             Ansible was, or a task that runs on this box
    ├── MachineExposed     blame = configuration       a machine cannot keep others from Storm's ports, or did not
    ├── MachineOccupied    blame = configuration       a machine has an account or programs that ours would take over
    └── StormRefused       blame = system_under_test   Nimbus or Flux did not do what a run needs

StormHomeError             blame = harness
├── ToolMissing            blame = configuration       something that has to be installed is not
├── DownloadFailed         blame = infrastructure      Maven Central did not give what the home is made of
└── TrainingFailed         blame = infrastructure      no class data archive came out
"""

from __future__ import annotations


class PlaybookError(Exception):
    """Anything the playbooks raise on purpose."""

    blame = "harness"


class SettingUnknown(PlaybookError):
    """A setting that is not among `playbooks.cluster.SETTINGS`."""

    blame = "configuration"


class MachineUnknown(PlaybookError):
    """A play is to run on a machine that the inventory has not, or on none."""


class DiskFull(PlaybookError):
    """The local disk has no room for what was fetched."""

    blame = "capacity"


class PlayFailed(PlaybookError):
    """A play did not end well; the message names machine, task and the last lines of standard error."""


class MachineUnreachable(PlayFailed):
    """A machine did not answer ssh."""

    blame = "infrastructure"


class MachineHung(PlayFailed):
    """A machine did not end a task within the play's time limit."""

    blame = "infrastructure"


class PlayHung(PlayFailed):
    """What this box does in a play did not end within its time limit."""


class MachineExposed(PlayFailed):
    """A machine has not the rules that keep others from Storm's ports."""

    blame = "configuration"


class MachineOccupied(PlayFailed):
    """A machine has an account that is called as ours, or programs that would start with ours."""

    blame = "configuration"


class StormRefused(PlayFailed):
    """A task that depends on Storm alone failed."""

    blame = "system_under_test"


class StormHomeError(Exception):
    blame = "harness"


class ToolMissing(StormHomeError):
    """Something that has to be installed is not."""

    blame = "configuration"


class DownloadFailed(StormHomeError):
    """Maven Central did not give what the home is made of."""

    blame = "infrastructure"


class TrainingFailed(StormHomeError):
    """No class data archive came out; Storm runs without, only slower to start."""

    blame = "infrastructure"
