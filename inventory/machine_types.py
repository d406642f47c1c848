"""Machine types as data, and the one factor that scales them to a testbed."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inventory.errors import ConfigurationError
from inventory.machines import MachineType

SOURCE = Path(__file__).with_name("machine_types.yaml")


class _TypeFile(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    cores: Annotated[float, Field(gt=0)]
    memory_mb: Annotated[int, Field(gt=0)]
    bandwidth_mbit: Annotated[int, Field(gt=0)]
    slots: Annotated[int, Field(ge=0)]
    scaled: bool


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    memory_floor_mb: Annotated[int, Field(gt=0)]
    types: dict[str, _TypeFile]


@dataclass(frozen=True)
class MachineTypes:
    """The types of one file: as stated, which of them the factor applies to, and the memory floor in MB."""

    stated: dict[str, MachineType]
    scalable: frozenset[str]
    memory_floor_mb: int


def load(path: Path) -> MachineTypes:
    """Read a machine types file; a ConfigurationError names file, field, value and what is allowed."""
    try:
        file = _File.model_validate(yaml.safe_load(path.read_text()))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path}: cannot be read as YAML: {error}") from error
    except ValidationError as error:
        raise ConfigurationError(_first_problem(path, error)) from error
    stated = {
        name: MachineType(name, t.cores, t.memory_mb, t.bandwidth_mbit, t.slots) for name, t in file.types.items()
    }
    return MachineTypes(stated, frozenset(n for n, t in file.types.items() if t.scaled), file.memory_floor_mb)


_LOADED = load(SOURCE)
TYPES: dict[str, MachineType] = _LOADED.stated
MEMORY_FLOOR_MB = _LOADED.memory_floor_mb


def named(name: str) -> MachineType:
    """The stated type of that name; the error lists the known ones."""
    if name not in TYPES:
        raise ConfigurationError(f"machine type {name!r} is not known; known are {', '.join(TYPES)} ({SOURCE.name})")
    return TYPES[name]


def scaled(type: MachineType, factor: float) -> MachineType:
    """The type with cores and memory times `factor`, memory not under the floor; `master` stays as it is."""
    if not 0 < factor <= 1:
        raise ConfigurationError(
            f"scale factor is {factor}, must be above 0 and at most 1; 0.25 gives a quarter of a core"
        )
    if type.name not in _LOADED.scalable:
        return type
    memory_mb = max(round(type.memory_mb * factor), MEMORY_FLOOR_MB)
    return replace(type, cores=type.cores * factor, memory_mb=memory_mb)


def note(type: MachineType, factor: float) -> str:
    """One line for logs and reports: what the factor made of the type, and whether the memory floor was used."""
    result = scaled(type, factor)
    given = f"{result.cores:g} cores, {result.memory_mb} MB, {result.bandwidth_mbit} Mbit/s"
    if result is type:
        return f"{type.name}: {given} (not scaled)"
    wanted_mb = round(type.memory_mb * factor)
    floor = f" (floor; the factor alone gives {wanted_mb} MB)" if wanted_mb < MEMORY_FLOOR_MB else ""
    return f"{type.name} x {factor:g}: {given}{floor}"


def _first_problem(path: Path, error: ValidationError) -> str:
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"]) or "file"
    known = f"; known keys are {', '.join(_TypeFile.model_fields)}" if first["type"] == "extra_forbidden" else ""
    return f"{path}: {field} is {first['input']!r}: {first['msg']}{known}"
