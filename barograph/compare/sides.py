"""The two sides of a comparison as the user names them: a git ref of this repository, or a YAML file of a scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from barograph.errors import ExperimentError
from barograph.plan.experiment import Code
from barograph.yaml_files import Strict, read_yaml, validated

Letter = Literal["a", "b"]
LETTERS: tuple[Letter, Letter] = ("a", "b")
ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True)
class Side:
    """Code that decides; `parameters` only for a foreign scheduler, which replaces every variant."""

    code: Code
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def foreign(self) -> bool:
        return bool(self.code.scheduler)


Text = Annotated[str, StringConstraints(min_length=1, max_length=1000, strip_whitespace=True)]


class _Foreign(Strict):
    label: Annotated[str, StringConstraints(min_length=1, max_length=60, strip_whitespace=True)]
    repository: Text | None = None
    ref: Text | None = None
    build: list[Text] = Field(default_factory=list)
    jar: Text
    scheduler: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*$")]
    conf: Annotated[dict[str, Any], Field(default_factory=dict)]
    rebalance: bool = False


def read_side(said: str) -> Side:
    """Return the side, not yet resolved: `code.commit` is still the ref. Raises ExperimentError."""
    if said.endswith(ENDINGS):
        return _foreign(Path(said))
    if not said.strip():
        raise ExperimentError("a side of the comparison is empty; give a git ref such as main, or a YAML file")
    return Side(Code(said.strip(), said.strip()))


def labels(a: Side, b: Side) -> dict[Letter, str]:
    """Return names that tell the sides apart, also where somebody compares something with itself."""
    label_a, label_b = a.code.label, b.code.label
    if label_a != label_b:
        return {"a": label_a, "b": label_b}
    return {"a": f"{label_a} (A)", "b": f"{label_b} (B)"}


def _foreign(path: Path) -> Side:
    if not path.is_file():
        raise ExperimentError(
            f"{path}: no such file; a side is a git ref, or a YAML file of a scheduler (docs/comparing.md)"
        )
    model = validated(_Foreign, read_yaml(path), source=str(path))
    if model.repository is None or model.ref is None:
        if model.repository or model.ref or model.build:
            raise ExperimentError(
                f"{path}: repository and ref belong together; a jar without git has neither, and no build"
            )
        jar = Code(model.label, jar=str(path.parent / Path(model.jar).expanduser()), scheduler=model.scheduler)
        return Side(jar, {"conf": model.conf, "rebalance": model.rebalance})
    code = Code(
        label=model.label,
        commit=model.ref,
        repository=_repository(model.repository, path),
        build=tuple(model.build),
        jar=model.jar,
        scheduler=model.scheduler,
    )
    return Side(code, {"conf": model.conf, "rebalance": model.rebalance})


def _repository(said: str, path: Path) -> str:
    """Return the repository: a path relative to the file that names it, or else a URL for git."""
    folder = path.parent / Path(said).expanduser()
    return str(folder.resolve()) if said.startswith((".", "/", "~")) or folder.is_dir() else said
