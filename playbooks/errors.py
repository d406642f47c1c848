"""Failures of plays and of the Storm home that are told apart, beside those of `barograph.errors`."""

from barograph.errors import BarographError


class MachineUnknown(BarographError):
    """A play is to run on a machine that the inventory has not, or on none."""


class PlayFailed(BarographError):
    """A play did not end well; the message names machine, task and the last lines of standard error."""


class MachineUnreachable(PlayFailed):
    """A machine did not answer ssh."""

    blame = "infrastructure"


class StormRefused(PlayFailed):
    """A task that depends on Storm alone failed."""

    blame = "system_under_test"


class TrainingFailed(BarographError):
    """No class data archive came out; Storm runs without, only slower to start."""

    blame = "infrastructure"
