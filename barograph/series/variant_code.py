"""Prepare the code of an experiment's variants before its series is opened: build it, check it, pack it.

The checkout itself answers, in a separate process, whether a commit's policies can do what an experiment needs.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from barograph.code import BuildFailed, BuildHung, SourceError, Unfit
from barograph.code.build import build_code, build_folder, codes_of, run_program, service_of, storm_home_of
from barograph.code.git import code_label, sources_home
from barograph.code.sandbox import checkout_sandbox, give_to_sandbox
from barograph.code.store import LOG, prune
from barograph.errors import Say
from barograph.plan.experiment import Code, Experiment, Variant
from barograph.series.series import read_series
from barograph.settings import ROOT, results_root
from barograph.software import storm_home
from barograph.testbeds.checks import place_of, unanswered_events
from inventory.leases import registry
from scheduler_plugins.json_data import from_json
from scheduler_plugins.service.messages import VERSION
from scheduler_plugins.service.run_snapshot import RunSnapshot

DESCRIBE_LIMIT_S = 60.0
ANSWERS = "/build/answers"  # in the sandbox
DESCRIBE_SCRIPT = ROOT / "barograph" / "code" / "checkout.py"


def require_fit(experiment: Experiment) -> None:
    """Raise Unfit with everything that the built commits of this experiment's variants cannot do."""
    complaints = []
    for code in codes_of(experiment.variants):
        if (tree := service_of(code)) is None:
            continue
        label, variants = code_label(code), [variant for variant in experiment.variants if variant.code == code]
        reply = describe_tree(tree, variants, code)
        if reply["v"] != VERSION:
            complaints.append(
                f"{label} speaks version {reply['v']} of the contract with its policy service, this harness {VERSION}:"
                " they cannot be compared from here; use the harness of a commit between them"
            )
        else:
            try:
                from_json(RunSnapshot, reply["state"])
            except ValueError as error:
                what = "describes its state without what this harness reads"
                complaints.append(f"the policy service of {label} {what}: {error}")
        for variant, about in zip(variants, reply["variants"], strict=True):
            if why := about["error"] or unanswered_events(experiment, variant.policy, about["events"]):
                complaints.append(f"variants.{variant.name} at {label}: {why}")
    if complaints:
        raise Unfit(f"{experiment.name}: {'; '.join(complaints)}")


def describe_tree(tree: Path, variants: Sequence[Variant], code: Code) -> dict[str, Any]:
    """Return the checkout's answer. Raises Unfit without one: its code throws, or hangs."""
    content = {"variants": [{"policy": each.policy, "parameters": dict(each.parameters)} for each in variants]}
    with tempfile.TemporaryDirectory(prefix="barograph-ask-") as folder:
        question, answer, log = Path(folder, "asked.json"), Path(folder, "answers", "answer.json"), Path(folder, LOG)
        question.write_text(json.dumps(content))
        answer.parent.mkdir()
        give_to_sandbox(answer.parent)
        argv = [sys.executable, "-P", "-s", str(DESCRIBE_SCRIPT), "describe", str(question), f"{ANSWERS}/{answer.name}"]
        try:
            sandbox = checkout_sandbox(tree, ANSWERS, {answer.parent: ANSWERS}, (DESCRIBE_SCRIPT, question))
            run_program(argv, sandbox, log, limit_s=DESCRIBE_LIMIT_S)
        except BuildHung as error:
            raise Unfit(
                f"{code_label(code)}: its scheduler_plugins did not load within {DESCRIBE_LIMIT_S:g} s"
            ) from error
        except BuildFailed as error:
            last_line = log.read_text(errors="replace").strip().splitlines()[-1]
            raise Unfit(f"{code_label(code)}: its scheduler_plugins do not load: {last_line}") from error
        try:  # a link would be read with our rights
            if answer.is_symlink() or not answer.is_file():
                raise ValueError("there is no such file")
            reply: dict[str, Any] = json.loads(answer.read_text())
        except ValueError as error:
            raise Unfit(f"{code_label(code)}: its scheduler_plugins load, but give no answer: {error}") from error
    if Path(reply["folder"]).resolve() != tree.resolve():
        raise RuntimeError(f"asked {reply['folder']} in the place of {tree}")
    return reply


KEPT_BUILDS = 24  # builds, of all repositories


def prepare_code(experiment: Experiment, say: Say, *, rebuild: bool = False, pack: bool = True) -> None:
    """Build, check, and pack if `pack`; existing builds are only checked. `experiment` is resolved. Raises SourceError
    naming the variants; with `rebuild` failed and existing builds are built again."""
    codes = codes_of(experiment.variants)
    if not codes:
        return
    for code in codes:
        with _naming_variants(experiment, code):
            build_code(code, say, rebuild=rebuild)
    require_fit(experiment)
    if pack and place_of(experiment.testbed) != "memory":
        base = storm_home(say)
        for code in codes:
            with _naming_variants(experiment, code):
                storm_home_of(code, base, say, rebuild=rebuild)
    now = time.time()
    series = [lease.series_id for lease in registry.read_all() if registry.is_live(lease, now)]
    folders = [path for name in series for path in results_root().glob(f"*/*/{name}")]
    doing = [experiment, *[read_series(folder).experiment for folder in folders if (folder / "series.json").is_file()]]
    builds = {build_folder(code) for each in doing for code in codes_of(each.variants)}
    prune(sources_home(), "*/*", builds, KEPT_BUILDS)


@contextmanager
def _naming_variants(experiment: Experiment, code: Code) -> Iterator[None]:
    try:
        yield
    except SourceError as error:
        names = ", ".join(variant.name for variant in experiment.variants if variant.code == code)
        raise type(error)(f"code of {names}: {error}") from error
