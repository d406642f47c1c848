"""The scripts that run on machines, loaded as modules: they are files of roles, not of a package."""

import importlib.util
from pathlib import Path
from types import ModuleType

import playbooks

ROLES = Path(playbooks.__file__).parent / "roles"


def load(role: str, script: str) -> ModuleType:
    """`roles/<role>/files/<script>.py` as a module."""
    spec = importlib.util.spec_from_file_location(script, ROLES / role / "files" / f"{script}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
