"""Whether a commit's policies can do what an experiment asks: the checkout itself is asked, in a process apart."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dags.events import SCALING
from dags.experiment import Code, Experiment, Variant
from dags.service_state import read_state
from dags.sources.build import codes_of, service_of
from dags.sources.checkout import named
from dags.sources.errors import BuildFailed, BuildHung, Unfit
from dags.sources.process import run
from dags.sources.store import LOG
from scheduler_plugins.wire import VERSION

ASK_LIMIT_S = 60.0
SCRIPT = Path(__file__).with_name("inside_checkout.py")
CALLS = frozenset({"POST /configure", "POST /scale", "POST /samples", "POST /machine_samples", "GET /state"})


def require_fit(experiment: Experiment) -> None:
    """Raises Unfit with everything that the commits of this experiment's variants cannot do. They are built."""
    said = [each for code in codes_of(experiment.variants) for each in _complaints(experiment, code)]
    if said:
        raise Unfit(f"{experiment.name}: {'; '.join(said)}")


def _complaints(experiment: Experiment, code: Code) -> Iterator[str]:
    tree = service_of(code)
    if tree is None:
        return
    mine = [variant for variant in experiment.variants if variant.code == code]
    said = ask(tree, mine, code)
    yield from _contract(experiment, said, code)
    kinds = {event.kind for event in experiment.events} & SCALING
    for variant, about in zip(mine, said["variants"], strict=True):
        where = f"variants.{variant.name} at {named(code)}"
        if about["error"]:
            yield f"{where}: {about['error']}"
        elif unanswered := kinds - set(about["events"]):
            answered = ", ".join(about["events"]) or "none"
            wanted = ", ".join(sorted(unanswered))
            yield f"{where}: policy {variant.policy} does not answer {wanted}; it answers {answered}"


def _contract(experiment: Experiment, said: Mapping[str, Any], code: Code) -> Iterator[str]:
    if said["v"] != VERSION:
        yield (
            f"{named(code)} speaks version {said['v']} of the contract with its policy service, this harness {VERSION}:"
            " they cannot be compared from here; use the harness of a commit between them"
        )
        return
    rates = {"POST /input_rate"} if any(event.kind == "rate" for event in experiment.events) else set()
    if missing := (CALLS | rates) - set(said["calls"]):
        unknown = ", ".join(sorted(missing))
        yield f"the policy service of {named(code)} does not know {unknown}, which this experiment needs"
    try:
        read_state(said["state"])
    except (KeyError, TypeError, ValueError) as error:
        yield f"the policy service of {named(code)} describes its state without what this harness reads: {error!r}"


def ask(tree: Path, variants: Sequence[Variant], code: Code) -> dict[str, Any]:
    """The checkout's own answer. Raises Unfit where it gives none: its code throws, or hangs."""
    asked = {"variants": [{"policy": each.policy, "parameters": dict(each.parameters)} for each in variants]}
    with tempfile.TemporaryDirectory(prefix="barograph-ask-") as nowhere:
        question, answer, log = (Path(nowhere, name) for name in ("asked.json", "answer.json", LOG))
        question.write_text(json.dumps(asked))
        argv = [sys.executable, "-P", "-s", str(SCRIPT), str(question), str(answer)]
        try:
            run(argv, Path(nowhere), log, limit_s=ASK_LIMIT_S, environment=_environment(tree, nowhere))
        except BuildHung as error:
            raise Unfit(f"{named(code)}: its scheduler_plugins did not load within {ASK_LIMIT_S:g} s") from error
        except BuildFailed as error:
            last = log.read_text(errors="replace").strip().splitlines()[-1]
            raise Unfit(f"{named(code)}: its scheduler_plugins do not load: {last}") from error
        said: dict[str, Any] = json.loads(answer.read_text())
    if Path(said["folder"]).resolve() != tree.resolve():
        raise RuntimeError(f"asked {said['folder']} in the place of {tree}")
    return said


def _environment(tree: Path, home: str) -> dict[str, str]:
    """Policies need nothing of the user's."""
    given = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "HOME": home}
    return {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ} | given
