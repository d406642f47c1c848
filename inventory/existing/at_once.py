"""The same done on many machines at once, so that ten silent ones take as long as one."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from inventory.errors import InfrastructureError, InventoryError

One = TypeVar("One")
Answer = TypeVar("Answer")


def each(many: Sequence[One], do: Callable[[One], Answer]) -> list[Answer | InventoryError]:
    """The answers in their places; so are failures."""

    def one(thing: One) -> Answer | InventoryError:
        try:
            return do(thing)
        except InventoryError as error:
            return error

    with ThreadPoolExecutor(len(many) or 1) as pool:
        return list(pool.map(one, many))


def every(many: Sequence[One], do: Callable[[One], Answer], what: str) -> list[Answer]:
    """The answers, if none failed; an InfrastructureError that names all failures begins with `what`."""
    answers = each(many, do)
    if failed := [str(answer) for answer in answers if isinstance(answer, InventoryError)]:
        raise InfrastructureError(f"existing: {what}: {'; '.join(failed)}")
    return [answer for answer in answers if not isinstance(answer, InventoryError)]
