"""The Storm home in which Nimbus runs a variant's code; everything else of the cluster stays in the cluster's own."""

from __future__ import annotations

import shutil
from pathlib import Path

from dags.experiment import Code
from dags.sources.build import bridge_of, built, jar_of
from dags.sources.checkout import named
from dags.sources.errors import BuildFailed, BuildHung, Unfit
from dags.sources.process import run
from dags.sources.store import LOG, Tell
from playbooks.storm_home import assemble

CHECK = "barograph.bridge.ForeignCheck"
CHECK_LIMIT_S = 30.0


def home_of(code: Code, base: Path, tell: Tell, *, rebuild: bool = False) -> Path:
    """Like `base`, with the commit's bridge, or with a scheduler that is not ours; beside it. `base` if it is the same.

    Raises BuildFailed, BuildHung; Unfit where the class is none that the bridge can host.
    """
    built(code, tell)
    if not code.scheduler:
        return assemble.varied(base, bridge=bridge_of(code, tell, rebuild=rebuild))
    jar = jar_of(code)
    _require_scheduler(code, base, jar)
    return assemble.varied(base, foreign=jar)


def _require_scheduler(code: Code, base: Path, jar: Path) -> None:
    """Looked at as Nimbus will, once for each bridge and Storm."""
    mark, log = jar.with_name(f"fits-{base.name}"), jar.with_name(f"check-{LOG}")
    if mark.exists() or shutil.which("java") is None:
        return
    path = f"{base}/lib/*:{base}/extlib-daemon/*"
    log.unlink(missing_ok=True)
    try:
        run(["java", "-cp", path, CHECK, str(jar), code.scheduler], jar.parent, log, limit_s=CHECK_LIMIT_S)
    except (BuildFailed, BuildHung) as error:
        raise Unfit(f"{named(code)}: {log.read_text(errors='replace').strip().splitlines()[-1]}") from error
    mark.touch()
