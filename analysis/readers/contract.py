"""What a reader is: a pattern, an example of a line for messages, its options, and lines -> samples."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict
from pyspark.sql import DataFrame


class Options(BaseModel):
    """What a log does not say about itself; every reader adds its own fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class Source:
    """One file to read and what is known of it."""

    file: Path
    options: Options


@dataclass(frozen=True)
class RunFacts:
    """What becomes of one run's `run.json` and `events.jsonl`. `sinks` None: found in the samples."""

    run: str
    variant: str
    repetition: int
    topology: str | None
    scaled_at_s: float | None
    scale_event: str
    sinks: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Reader:
    """`pattern` is valid in Python and in Java; its groups become the string columns `groups`, in order.

    `samples`: parsed lines (the groups as strings, `file`) -> frame of `samples.COLUMNS`.
    `runs`: parsed lines -> the facts of every run; may raise ForeignLogError. `run_of_file`: file -> its first run.
    """

    pattern: str
    groups: tuple[str, ...]
    example: str
    options: type[Options]
    samples: Callable[[DataFrame, Sequence[Source]], DataFrame]
    runs: Callable[[DataFrame, Sequence[Source]], Mapping[str, RunFacts]]
    run_of_file: Callable[[DataFrame, Sequence[Source]], Mapping[str, str]]
