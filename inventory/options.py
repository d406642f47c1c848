"""A testbed's options: the experiment's `testbed.options.<testbed>` validated into a model of the testbed's own."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from inventory.errors import ConfigurationError


class Options(BaseModel):
    """What a testbed's own options model inherits from: strict, frozen, nothing unknown."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


Chosen = TypeVar("Chosen", bound=Options)


def read_options(model: type[Chosen], testbed: str, options: Mapping[str, object]) -> Chosen:
    """The options as `model`; a ConfigurationError names every field that is wrong, its value and what is allowed."""
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        wrong = "; ".join(_complaint(model, testbed, detail) for detail in error.errors())
        raise ConfigurationError(wrong) from error


def refuse_options(testbed: str, options: Mapping[str, object] | None) -> None:
    """For a testbed that has none."""
    if options:
        raise ConfigurationError(
            f"testbed.options.{testbed} has {', '.join(options)}; {testbed} has no options; remove"
        )


def _complaint(model: type[Options], testbed: str, detail: Mapping[str, object]) -> str:
    place = detail["loc"]
    assert isinstance(place, tuple)
    field = ".".join(str(part) for part in ("testbed.options", testbed, *place))
    known = ", ".join(model.model_fields)
    if detail["type"] == "extra_forbidden":
        return f"{field} is not known; known are {known}"
    if detail["type"] == "missing":
        about = model.model_fields[str(place[0])].description if len(place) == 1 else None
        return f"{field} is missing" + (f": {about}" if about else "")
    return f"{field} is {detail['input']!r}: {detail['msg']}"
