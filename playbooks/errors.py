"""Failures of plays and of the Storm home that callers distinguish, beside those of `barograph.errors`."""

from barograph.errors import BarographError


class MachineUnknown(BarographError):
    """A play names a machine that the inventory does not have, or none."""


class PlayFailed(BarographError):
    """A play did not end well; the message names machine, task and the last lines of standard error."""


class MachineUnreachable(PlayFailed):
    """A machine did not answer ssh."""

    blame = "infrastructure"


class StormRefused(PlayFailed):
    """A task failed that depends on Storm alone."""

    blame = "system_under_test"


class TrainingFailed(BarographError):
    """No class data archive was produced; Storm runs without, only slower to start."""

    blame = "infrastructure"
