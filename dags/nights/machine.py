"""What must be equal for the numbers of two nights to be compared, and its fingerprint. Never the commit.

It is of what is asked for, not of what the runs found: a night without a run is of the same machines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dags.checks import machine_requests
from dags.experiment import Experiment


def facts_of_box(testbed: str) -> dict[str, Any]:
    """Storm, Java, and where machines are emulated the CPU that emulates them."""
    from dags.steps.box_facts import box_facts, versions
    from inventory.rootfs import JRE

    box = box_facts() if testbed == "local" else {}
    host = {key: box[key] for key in ("cpu_model", "cpus") if key in box}
    return {"testbed": testbed, "storm": versions()["storm"], "java": JRE, "host": host}


def facts_of(experiment: Experiment, box: Mapping[str, Any]) -> dict[str, Any]:
    """Machines, topology and plan of an experiment; its variants and how often they run are what is compared."""
    data = experiment.as_data()
    types = {request.name: asdict(request.type) for request in machine_requests(experiment)}
    distinct = {json.dumps(size, sort_keys=True): size for size in types.values()}
    plan = {key: data[key] for key in ("topology", "machines", "events", "durations")}
    testbed = {key: value for key, value in data["testbed"].items() if key != "options"}
    mine = data["testbed"].get("options", {}).get(experiment.testbed.name, {})
    testbed["options"] = {key: value for key, value in mine.items() if key != "budget_usd"}
    return {**box, "testbed": testbed, "types": list(distinct.values()), **plan}


def told(box: Mapping[str, Any], experiments: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The same for people: a line for the software, the box and each experiment's machines."""
    host = box["host"]
    emulated = {"emulated on": f"{host['cpus']} cores of {host['cpu_model']}"} if host else {}
    software = {key: str(box[key]) for key in ("testbed", "storm", "java")}
    return {**software, **emulated, **{name: _machines(facts) for name, facts in experiments.items()}}


def _machines(facts: Mapping[str, Any]) -> str:
    sizes = [
        f"{size['name']} ({size['cores']:g} cores, {size['memory_mb']} MB, {size['bandwidth_mbit']} Mbit/s)"
        for size in facts["types"]
    ]
    return f"{', '.join(sizes)}; with topology and plan {fingerprint(facts)}"


def fingerprint(facts: Mapping[str, Any]) -> str:
    """Twelve hexadecimal digits."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
