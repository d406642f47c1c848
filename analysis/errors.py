"""Errors of the analysis.

AnalysisError            blame: harness
├── RecordError          blame: harness         a record that cannot be read at all (damaged lines are counted)
├── SeriesError          blame: configuration   the path given is no series
├── ClaimFileError       blame: configuration   a claims file that does not follow its form
├── ForeignLogError      blame: configuration   somebody else's log that is not what it was said to be
├── GraphFileError       blame: configuration   a file that is not as METIS has it
├── StorageConfigurationError  blame: configuration   the bucket, the credentials or Spark's master as they were given
├── JavaMissing          blame: configuration   there is no Java that will do for Spark
├── QueryError           blame: configuration   a query that cannot be answered, as it was given
├── BundleError          blame: configuration   a series that cannot be bundled as it is
├── NightFormError       blame: harness         a night that does not follow its form (on record: counted and reported)
├── NightExists          blame: capacity        a night of this id is on record
├── StorageError         blame: infrastructure  the bucket does not answer; what was measured is in the spool
└── SeriesInUse          blame: capacity        another harness is writing this series
"""


class AnalysisError(Exception):
    """Any failure of the analysis that has a message for the user."""

    blame = "harness"


class RecordError(AnalysisError):
    """A record cannot be read or written."""

    blame = "harness"


class SeriesError(AnalysisError):
    """The folder given holds no series."""

    blame = "configuration"


class ClaimFileError(AnalysisError):
    """A claims file has an unknown key, a missing one or a value out of range."""

    blame = "configuration"


class ForeignLogError(AnalysisError):
    """A log given to a reader, or what stands beside it, is empty, of another format or contradicts itself."""

    blame = "configuration"


class GraphFileError(AnalysisError):
    """A graph or a partition that does not follow METIS' form, or not its own header."""

    blame = "configuration"


class StorageConfigurationError(AnalysisError):
    """The place for results, or the credentials for it, cannot be used as they were given."""

    blame = "configuration"


class StorageError(AnalysisError):
    """The place for results fails; nothing that was measured is lost by it."""

    blame = "infrastructure"


class SparkEnded(AnalysisError):
    """Spark's process, the JVM, ended while it worked."""

    blame = "infrastructure"


class JavaMissing(AnalysisError):
    """There is no Java that will do for Spark."""

    blame = "configuration"


class QueryError(AnalysisError):
    """A query that Spark refuses, or that would change something."""

    blame = "configuration"


class BundleError(AnalysisError):
    """A series that cannot be bundled as it is."""

    blame = "configuration"


class SeriesInUse(AnalysisError):
    """Another harness is writing this series."""

    blame = "capacity"


class NightFormError(AnalysisError):
    """A night's record has an unknown key, a missing one or a value of the wrong kind."""

    blame = "harness"


class NightExists(AnalysisError):
    """A night of this id is on record already."""

    blame = "capacity"
