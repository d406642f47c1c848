"""The Flux file of a run's only topology, as far as the analysis reads it."""

from collections.abc import Mapping
from typing import Any

import yaml

from analysis.record.files import RunPaths

PARAMETERS_KEY = "barograph.parameters"


def flux_config(run: RunPaths) -> Mapping[str, Any]:
    """Return its `config`; empty if there is none."""
    path = run.root / "topology.yaml"
    if not path.is_file():
        return {}
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8")).get("config")
    except (yaml.YAMLError, AttributeError):
        return {}
    return config if isinstance(config, dict) else {}


def is_unthrottled(run: RunPaths) -> bool:
    """Return whether its spouts emitted as fast as Storm let them, without an offered rate."""
    return flux_config(run).get(PARAMETERS_KEY, {}).get("unthrottled") is True
