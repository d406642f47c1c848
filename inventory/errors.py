"""Failures of machines that are caught by their kind, beside those of `barograph.errors`."""

from barograph.errors import ConfigurationError, InfrastructureError


class SudoRefusedError(ConfigurationError):
    """The login on a machine may not `sudo` there without a password."""


class RemoteTimeoutError(InfrastructureError):
    """A command on a machine was still running at its time limit and was killed."""
