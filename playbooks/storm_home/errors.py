"""Errors of the Storm home.

StormHomeError (harness)
├── ToolMissing (configuration)
├── DownloadFailed (infrastructure)
└── TrainingFailed (infrastructure)
"""

from __future__ import annotations


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
