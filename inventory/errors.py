"""Failures of the inventory, by whose they are.

InventoryError
├── ConfigurationError   blame = configuration   the user's to mend; nothing was started
│   └── SudoRefusedError                         a machine's user may not become root without a password
├── CapacityError        blame = capacity        no machines, disk or memory: elsewhere or later
└── InfrastructureError  blame = infrastructure  a machine, a network or ssh failed
    └── RemoteTimeoutError                       a command on a machine did not end in time
"""


class InventoryError(Exception):
    """Anything the inventory raises on purpose."""

    blame = "harness"


class ConfigurationError(InventoryError):
    """What was asked for cannot work on any day."""

    blame = "configuration"


class SudoRefusedError(ConfigurationError):
    """The user who may log in on a machine may not `sudo` there without a password."""


class CapacityError(InventoryError):
    """What was asked for is not there now."""

    blame = "capacity"


class InfrastructureError(InventoryError):
    """A machine, a network or ssh died that nobody asked to die."""

    blame = "infrastructure"


class RemoteTimeoutError(InfrastructureError):
    """A command on a machine was still running at its time limit and was killed."""
