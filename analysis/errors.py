"""What can go wrong in the analysis.

AnalysisError            blame: harness
├── RecordError          blame: harness         a record that cannot be read at all (damaged lines are counted)
├── SeriesError          blame: configuration   the path given is no series
└── ClaimFileError       blame: configuration   a claims file that does not follow its form
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
