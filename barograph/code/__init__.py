"""Code of variants: git refs of this repository, and schedulers of others, built once per commit and kept.

All errors are raised before machines are touched.

SourceError (an ExperimentError: configuration)
├── NoSuchRef           the repository has no such branch, tag or commit
├── NoSuchRepository    it cannot be cloned or fetched
├── BuildFailed         its build command, or Maven on its bridge, failed; kept with its log
│   └── BuildHung       it took longer than the limit and was ended
├── SandboxUnavailable  this box cannot make the container that code of others runs in
└── Unfit               it was built and cannot be used: no such jar, class or policy, or another contract
"""

from __future__ import annotations

from barograph.errors import ExperimentError


class SourceError(ExperimentError):
    pass


class NoSuchRef(SourceError):
    pass


class NoSuchRepository(SourceError):
    pass


class BuildFailed(SourceError):
    pass


class BuildHung(BuildFailed):
    pass


class SandboxUnavailable(SourceError):
    pass


class Unfit(SourceError):
    pass
