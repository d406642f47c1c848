"""Failures of the analysis that are caught by type, in addition to those of `barograph.errors`."""

from barograph.errors import BarographError, ConfigurationError, InfrastructureError


class RecordError(BarographError):
    """A record cannot be read or written at all; damaged lines are counted."""


class StorageConfigurationError(ConfigurationError):
    """The bucket, its credentials or Spark's master cannot be used as configured."""


class StorageError(InfrastructureError):
    """The bucket does not answer; measurements are in the spool."""


class SeriesInUse(BarographError):
    """Another harness is writing this series."""

    blame = "capacity"


class NightFormError(BarographError):
    """A night's record has an unknown key, a missing one or a value of the wrong kind."""


class NightExists(BarographError):
    """A night of this id is already on record."""

    blame = "capacity"
