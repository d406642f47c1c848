"""A variant's code as files, made once per commit: of ours `tree/scheduler_plugins/`, of others the scheduler's jar.

`<home>/sources/<repository>/<commit>/`; where a build command or a jar is part of it, `<commit>-<digest of those>/`.
Bridges are kept by what they are made of, because most branches change only policies: `<home>/sources/bridges/<hash>/`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dags.experiment import Code, Variant
from dags.software import BRIDGE, ToolMissing, build_jar
from dags.sources import checkout
from dags.sources.errors import BuildFailed, Unfit
from dags.sources.mirror import home_of, sources_home
from dags.sources.process import clean_environment, run
from dags.sources.store import LOG, Tell, facts, once
from playbooks.storm_home.assemble import fingerprint

BUILD_LIMIT_S = 1800.0
TREE = "tree"
PLUGINS = "scheduler_plugins"
MAVEN = ("mvn", "-B", "-q", "-DskipTests", "package")


def codes_of(variants: Iterable[Variant]) -> tuple[Code, ...]:
    """Each code once, in the variants' order."""
    return tuple(dict.fromkeys(variant.code for variant in variants if variant.code is not None))


def place_of(code: Code) -> Path:
    """The folder that the code is built in; the same for every label of the same commit."""
    if not code.scheduler:
        return home_of(code.repository) / code.commit
    recipe = json.dumps([code.build, code.jar, code.scheduler])
    return home_of(code.repository) / f"{code.commit}-{hashlib.sha256(recipe.encode()).hexdigest()[:8]}"


def built(code: Code, tell: Tell, *, rebuild: bool = False, limit_s: float = BUILD_LIMIT_S) -> Path:
    """The folder of the code, built if it is not there. Raises NoSuchRef, BuildFailed, BuildHung, Unfit."""

    def make(folder: Path) -> Mapping[str, Any]:
        tell(f"{checkout.named(code)}: building, at most {limit_s / 60:g} min")
        return _foreign(code, folder, limit_s) if code.scheduler else _ours(code, folder)

    return once(place_of(code), make, tell, rebuild=rebuild)


def service_of(code: Code) -> Path | None:
    """The folder that has the commit's `scheduler_plugins`; None: the harness's own policy service hosts it."""
    return None if code.scheduler else place_of(code) / TREE


def jar_of(code: Code) -> Path:
    """The jar of a scheduler that is not ours."""
    return place_of(code) / str(facts(place_of(code))["jar"])


def bridge_of(code: Code, tell: Tell, *, rebuild: bool = False) -> Path:
    """The jar of the commit's bridge. Raises BuildFailed, BuildHung."""
    module = place_of(code) / TREE / PLUGINS / BRIDGE.name
    made_of = _made_of(module)

    def make(folder: Path) -> Mapping[str, Any]:
        if made_of == _made_of(BRIDGE):
            shutil.copy2(build_jar(BRIDGE, tell), folder)
            return {"jar": f"barograph-{BRIDGE.name.replace('_', '-')}.jar"}
        tell(f"{checkout.named(code)}: building its bridge")
        return {"jar": _maven(module, folder).name}

    thing = once(sources_home() / "bridges" / made_of, make, tell, rebuild=rebuild)
    return thing / str(facts(thing)["jar"])


def _ours(code: Code, folder: Path) -> Mapping[str, Any]:
    (folder / TREE).mkdir()
    checkout.part(code, PLUGINS, folder / TREE)
    for needed in ("service.py", f"{BRIDGE.name}/pom.xml"):
        if not (folder / TREE / PLUGINS / needed).is_file():
            raise Unfit(
                f"{checkout.named(code)} has no {PLUGINS}/{needed}: it is from before what this harness speaks to"
            )
    return {"commit": code.commit}


def _foreign(code: Code, folder: Path, limit_s: float) -> Mapping[str, Any]:
    tree, log = folder / TREE, folder / LOG
    checkout.whole(code, tree)
    if code.build:
        (folder / "tmp").mkdir()
        run(code.build, tree, log, limit_s=limit_s, environment=clean_environment({"TMPDIR": str(folder / "tmp")}))
    jar = _the_jar(code, tree)
    _require_class(code, jar)
    shutil.copy2(jar, folder / jar.name)
    shutil.rmtree(tree)
    shutil.rmtree(folder / "tmp", ignore_errors=True)
    return {"commit": code.commit, "jar": jar.name}


def _the_jar(code: Code, tree: Path) -> Path:
    jar = (tree / code.jar).resolve()
    if jar.is_file() and jar.is_relative_to(tree.resolve()):
        return jar
    there = [str(path.relative_to(tree)) for path in sorted(tree.rglob("*.jar"))]
    done = "the build left no" if code.build else "the commit has no"
    raise Unfit(f"{checkout.named(code)}: {done} {code.jar}; jars that are there: {', '.join(there[:10]) or 'none'}")


def _require_class(code: Code, jar: Path) -> None:
    try:
        with zipfile.ZipFile(jar) as opened:
            classes = [name.removesuffix(".class").replace("/", ".") for name in opened.namelist() if _is_class(name)]
    except zipfile.BadZipFile as error:
        raise Unfit(f"{checkout.named(code)}: {code.jar} is not a jar: {error}") from error
    if code.scheduler not in classes:
        simple = code.scheduler.rpartition(".")[2]
        close = [c for c in classes if c.rpartition(".")[2] == simple] or difflib.get_close_matches(
            code.scheduler, classes
        )
        hint = f"; did you mean {' or '.join(close[:3])}?" if close else f"; it has {len(classes)} classes"
        raise Unfit(f"{checkout.named(code)}: {code.jar} has no class {code.scheduler}{hint}")


def _is_class(name: str) -> bool:
    return name.endswith(".class") and not name.startswith("META-INF/")


def _maven(module: Path, folder: Path) -> Path:
    if shutil.which(MAVEN[0]) is None:
        raise ToolMissing("mvn is not installed; it builds the Java parts. Install it with: apt-get install maven")
    shutil.copytree(module, folder / "module")
    run(MAVEN, folder / "module", folder / LOG, limit_s=BUILD_LIMIT_S)
    jars = sorted((folder / "module" / "target").glob("*.jar"))
    if len(jars) != 1:
        raise BuildFailed(f"the bridge's build left {len(jars)} jars in target/; it must leave one")
    jar = Path(shutil.copy2(jars[0], folder))
    shutil.rmtree(folder / "module")
    return jar


def _made_of(module: Path) -> str:
    files = [module / "pom.xml", *sorted(path for path in (module / "src" / "main").rglob("*") if path.is_file())]
    return fingerprint(files, *(str(file.relative_to(module)) for file in files))
