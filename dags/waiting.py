"""Wait in a task for something that another run uses: the testbed, or the night of a suite.

It tries again when the file of that use is gone, and holds no slot of a worker until then: Airflow's triggerer watches
the file. docs/decisions/airflow_and_nights.md says why it is this and no pool.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import Context
from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, task_decorator_factory
from airflow.triggers.base import BaseTrigger, TriggerEvent

from analysis.errors import SeriesInUse
from barograph.errors import InUse, blame_of, message_of

LOOK_S = 5.0
# Then it tries all the same: the holder may be dead, or the night's deadline may have come.
LONGEST_LOOK_S = 600.0
NAMELESS_LOOK_S = 30.0  # where no file says that it is in use
LONGEST_WAIT = timedelta(days=7)
log = logging.getLogger(__name__)


class FileGone(BaseTrigger):
    """A trigger that fires when the file is gone, and after `limit_s` in any case; `path` "" names none."""

    def __init__(self, path: str, limit_s: float = LONGEST_LOOK_S) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # Airflow's has no types
        self.path, self.limit_s = path, limit_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "dags.waiting.FileGone", {"path": self.path, "limit_s": self.limit_s}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        end_s = time.monotonic() + self.limit_s
        while (not self.path or Path(self.path).exists()) and time.monotonic() < end_s:
            await asyncio.sleep(min(LOOK_S, self.limit_s))
        yield TriggerEvent({})  # type: ignore[no-untyped-call]


class WaitingOperator(DecoratedOperator, PythonOperator):
    """A Python task that is deferred where something is in use, and then starts again from its beginning."""

    template_fields: Sequence[str] = PythonOperator.template_fields
    template_fields_renderers: ClassVar[dict[str, str]] = dict(PythonOperator.template_fields_renderers)
    custom_operator_name = "@waiting_task"

    def __init__(
        self, *, python_callable: Callable[..., Any], op_args: Sequence[Any], op_kwargs: Mapping[str, Any], **more: Any
    ) -> None:
        arguments: dict[str, Any] = {"python_callable": python_callable, "op_args": op_args, "op_kwargs": op_kwargs}
        super().__init__(kwargs_to_upstream=arguments, **arguments, **more)

    def execute(self, context: Context) -> Any:
        return self._attempt(context, time.time())

    def execute_again(self, context: Context, event: object, since_s: float) -> Any:  # noqa: ARG002 - Airflow gives it
        return self._attempt(context, since_s)

    def _attempt(self, context: Context, since_s: float) -> Any:
        try:
            return super().execute(context)
        except (InUse, SeriesInUse) as taken:
            if time.time() - since_s > LONGEST_WAIT.total_seconds():
                self._tell("step_failed", blame=blame_of(taken), message=message_of(taken))
                raise
            self._tell("message", text=f"waiting: {message_of(taken)}")
            file = getattr(taken, "file", None)
            trigger = FileGone("", NAMELESS_LOOK_S) if file is None else FileGone(str(file))
            self.defer(trigger=trigger, method_name="execute_again", kwargs={"since_s": since_s})

    def _tell(self, kind: str, **facts: str) -> None:
        """Report to the log, and to the series' progress if it is opened by now."""
        from barograph.series.progress import ProgressFile

        log.info("%s", facts)
        if series := self.op_kwargs.get("series"):
            ProgressFile(Path(series)).tell(kind, **facts)


def waiting_task(python_callable: Callable[..., Any] | None = None, **options: Any) -> TaskDecorator:
    """Decorate like Airflow's `@task`, for a function that may raise InUse."""
    return task_decorator_factory(python_callable, decorated_operator_class=WaitingOperator, **options)
