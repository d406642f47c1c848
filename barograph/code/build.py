"""Build a variant's code once per commit: of ours `tree/scheduler_plugins/`, of others the scheduler's jar.

`<home>/sources/<repository>/<commit>/`; where a build command or a jar is part of it, `<commit>-<digest of those>/`.
Bridges are kept by a digest of their content, because most branches change only policies:
`<home>/sources/bridges/<hash>/`. Nimbus runs the code in a Storm home of its own; everything else of the cluster stays
in the cluster's. Programs of others run in a sandbox, with a time limit and a log file.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import shutil
import signal
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from analysis.storage import maven
from barograph.child_processes import ChildProcess
from barograph.code import BuildFailed, BuildHung, Unfit
from barograph.code.git import clone_commit, code_label, export_folder, repository_home, sources_home
from barograph.code.sandbox import (
    HOME,
    PATH,
    REGISTRIES,
    TMP,
    Sandbox,
    Watch,
    give_to_sandbox,
    registry_access,
    require_sandbox,
    sandbox_command,
    write_accounts,
)  # fmt: skip
from barograph.code.store import LOG, built_facts, last_lines, log_end, make_once
from barograph.errors import Say
from barograph.plan.experiment import Code, Variant
from barograph.settings import build_registries, package_indexes, process_environment
from barograph.software import BRIDGE, HOMES, build_jar, module_files, require_maven
from inventory.local.rootfs import cache_dir
from playbooks.storm_home import assemble
from playbooks.storm_home.assemble import fingerprint

ENDING = ((signal.SIGTERM, 3.0), (signal.SIGKILL, 10.0))


def run_program(argv: Sequence[str], sandbox: Sandbox, log: Path, *, limit_s: float) -> None:
    """Run it in the sandbox; its output is appended to `log`. Processes that it started end with it.

    Raises BuildFailed or BuildHung with the log's last lines; SandboxUnavailable.
    """
    require_sandbox()
    if "/" not in argv[0] and shutil.which(argv[0], path=PATH) is None:
        raise BuildFailed(f"{argv[0]!r} cannot be started: there is no such program in {PATH}; is it installed?")
    with ExitStack() as stack:
        files = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="barograph-sandbox-")))
        write_accounts(files)
        registries = registry_access(files, sandbox.registries, log) if sandbox.registries else nullcontext()
        command = sandbox_command(argv, sandbox, files, stack.enter_context(registries))
        output = stack.enter_context(log.open("ab"))
        output.write(f"$ {' '.join(argv)}\n".encode())
        output.flush()
        # Inside, process 1 is bubblewrap itself: a program of the same user can read its environment.
        environment = {"PATH": process_environment().get("PATH", PATH)}
        program = ChildProcess(command, folder=files, output=output, environment=environment, ending=ENDING)
        code = stack.enter_context(program).wait(limit_s, Watch(program.pid, sandbox, log))
    if code is None:
        raise BuildHung(f"{' '.join(argv)} took more than {limit_s:g} s and was ended; it said last: {log_end(log)}")
    if code:
        raise BuildFailed(f"{' '.join(argv)} ended with {code}; it said last: {log_end(log)}")


BUILD_LIMIT_S = 1800.0
SEARCH_LIMIT_S = 60.0
FILES, FILES_BYTES = "files", 64 * 10**6
TREE = "tree"
TREE_PLACE = "/build/tree"  # in the sandbox
PLUGINS = "scheduler_plugins"
MAVEN = ("mvn", "-B", "-q", "-DskipTests", "package")


def codes_of(variants: Iterable[Variant]) -> tuple[Code, ...]:
    """Return each code once, in the variants' order."""
    return tuple(dict.fromkeys(variant.code for variant in variants if variant.code is not None))


def build_folder(code: Code) -> Path:
    """Return the folder that the code is built in; the same for every label of the same commit."""
    if not code.scheduler:
        return repository_home(code.repository) / code.commit
    recipe = json.dumps([code.build, code.jar, code.scheduler, code.files, code.files_sha256])
    return repository_home(code.repository) / f"{code.commit}-{hashlib.sha256(recipe.encode()).hexdigest()[:8]}"


def build_code(code: Code, say: Say, *, rebuild: bool = False, limit_s: float = BUILD_LIMIT_S) -> Path:
    """Return the code's folder, built if it is missing. Raises NoSuchRef, BuildFailed, BuildHung, Unfit."""

    def make(folder: Path) -> Mapping[str, Any]:
        say(f"{code_label(code)}: building, at most {limit_s / 60:g} min")
        if code.scheduler:
            return _build_foreign(code, folder, limit_s)
        (folder / TREE).mkdir()
        export_folder(code, PLUGINS, folder / TREE)
        for needed in ("service/server.py", f"{BRIDGE.name}/pom.xml"):
            if not (folder / TREE / PLUGINS / needed).is_file():
                lack = f"{code_label(code)} has no {PLUGINS}/{needed}"
                raise Unfit(f"{lack}: it is from before what this harness speaks to")
        return {"commit": code.commit}

    return make_once(build_folder(code), make, say, rebuild=rebuild)


def service_of(code: Code) -> Path | None:
    """Return the folder with the commit's `scheduler_plugins`; None: the harness's own policy service hosts it."""
    return None if code.scheduler else build_folder(code) / TREE


def jar_of(code: Code) -> Path:
    """Return the jar of a scheduler that is not ours."""
    return build_folder(code) / str(built_facts(build_folder(code))["jar"])


def bridge_of(code: Code, say: Say, *, rebuild: bool = False) -> Path:
    """Return the jar of the commit's bridge. Raises BuildFailed, BuildHung."""
    module = build_folder(code) / TREE / PLUGINS / BRIDGE.name
    made_of = _content_digest(module)

    def make(folder: Path) -> Mapping[str, Any]:
        if made_of == _content_digest(BRIDGE):
            return {"jar": Path(shutil.copy2(build_jar(BRIDGE, say), folder)).name}
        say(f"{code_label(code)}: building its bridge")
        require_maven()
        copy = Path(shutil.copytree(module, folder / "module"))
        with _build_sandbox(copy) as sandbox:
            run_program(MAVEN, sandbox, folder / LOG, limit_s=BUILD_LIMIT_S)
        target = (copy / "target").absolute()
        # The build may have replaced jars by links to other people's files.
        jars = [path for path in sorted(target.glob("*.jar")) if path.resolve().parent == target]
        if len(jars) != 1:
            raise BuildFailed(f"the bridge's build left {len(jars)} jars in target/; it must leave one")
        jar = Path(shutil.copy2(jars[0], folder))
        assemble.remove_tree(copy)
        return {"jar": jar.name}

    thing = make_once(sources_home() / "bridges" / made_of, make, say, rebuild=rebuild)
    return thing / str(built_facts(thing)["jar"])


@contextmanager
def _build_sandbox(tree: Path) -> Iterator[Sandbox]:
    """Yield a sandbox for a build in `tree`, with its own downloads: commits must not share dependencies."""
    home, tmp = tree.with_name("home"), tree.with_name("tmp")
    for folder in (home, tmp):
        folder.mkdir()
    give_to_sandbox(tmp)
    give_to_sandbox(tree)
    places = {tree: TREE_PLACE, home: HOME, tmp: TMP}
    homes = cache_dir() / HOMES  # Storm's jars, for builds that compile against them without Maven
    readable = (homes,) if homes.is_dir() else ()
    mirrors, indexes = maven.mirrors(), package_indexes()
    (home / ".m2").mkdir()
    (home / ".m2" / "settings.xml").write_text(_maven_settings(mirrors))
    give_to_sandbox(home)
    addresses = [*mirrors, *(word for text in indexes.values() for word in text.split())]
    hosts = [host for address in addresses if (host := urlsplit(address).hostname)]
    yield Sandbox(TREE_PLACE, places, readable, (*REGISTRIES, *hosts, *build_registries()), indexes)
    for folder in (home, tmp):
        assemble.remove_tree(folder)


def _maven_settings(mirrors: Mapping[str, str]) -> str:
    """Return settings for Maven in the sandbox: the user's mirrors, without the user's passwords."""
    lines = [
        f"<mirror><id>m{number}</id><url>{escape(address)}</url><mirrorOf>{escape(of)}</mirrorOf></mirror>"
        for number, (address, of) in enumerate(mirrors.items())
    ]
    return f"<settings><mirrors>{''.join(lines)}</mirrors></settings>\n"


def _build_foreign(code: Code, folder: Path, limit_s: float) -> Mapping[str, Any]:
    tree, log = folder / TREE, folder / LOG
    clone_commit(code, tree)
    with _build_sandbox(tree) as sandbox:
        if not code.is_jar_file:  # the files may be many, and the commit names filters that a checkout starts
            checkout = ("git", "checkout", "--quiet", "--detach", code.commit)
            run_program(checkout, replace(sandbox, registries=()), log, limit_s=limit_s)
        if code.build:
            run_program(code.build, sandbox, log, limit_s=limit_s)
    jar = _find_file(code, tree, code.jar)
    _require_class(code, jar)
    shutil.copy2(jar, folder / jar.name)
    files = [_find_file(code, tree, Path(each).name if code.is_jar_file else each) for each in code.files]
    if (taken := sum(file.stat().st_size for file in files)) > FILES_BYTES:
        raise Unfit(
            f"{code_label(code)}: code.files has {taken / 10**6:.1f} MB together; allowed: {FILES_BYTES / 10**6:g}, for"
            " they go to the master with each change of the code"
        )
    (folder / FILES).mkdir()
    for file in files:
        shutil.copy2(file, folder / FILES)
    assemble.remove_tree(tree)
    return {"commit": code.commit, "jar": jar.name}


def _find_file(code: Code, tree: Path, name: str) -> Path:
    """Return a file of the tree after the build, the jar or one of `files`. Raises Unfit naming those of its kind."""
    path, kind = (tree / name).resolve(), Path(name).suffix
    if path.is_file() and path.is_relative_to(tree.resolve()):
        return path
    argv = ["find", str(tree), "-name", ".git", "-prune", "-o", "-type", "f", "-name", f"*{kind}", "-printf"]
    find = subprocess.run([*argv, "%P\\n"], capture_output=True, timeout=SEARCH_LIMIT_S, check=False)  # however deep
    names = sorted(find.stdout.decode(errors="replace").splitlines())
    reason = "the build left no" if code.build else "the commit has no"
    what = f"{kind[1:]}s" if kind == ".jar" else f"files *{kind}"
    raise Unfit(f"{code_label(code)}: {reason} {name}; {what} that are there: {', '.join(names[:10]) or 'none'}")


def _require_class(code: Code, jar: Path) -> None:
    try:
        with zipfile.ZipFile(jar) as archive:
            files = [name for name in archive.namelist() if not name.startswith("META-INF/")]
    except zipfile.BadZipFile as error:
        raise Unfit(f"{code_label(code)}: {code.jar} is not a jar: {error}") from error
    classes = [name.removesuffix(".class").replace("/", ".") for name in files if name.endswith(".class")]
    if code.scheduler not in classes:
        simple = code.scheduler.rpartition(".")[2]
        close = [c for c in classes if c.rpartition(".")[2] == simple]
        close = close or difflib.get_close_matches(code.scheduler, classes)
        hint = f"; did you mean {' or '.join(close[:3])}?" if close else f"; it has {len(classes)} classes"
        raise Unfit(f"{code_label(code)}: {code.jar} has no class {code.scheduler}{hint}")


def _content_digest(module: Path) -> str:
    files = module_files(module)
    return fingerprint(files, *(str(file.relative_to(module)) for file in files))


CHECK_CLASS = "barograph.bridge.ForeignCheck"
CHECK_LIMIT_S = 30.0


def storm_home_of(code: Code, base: Path, say: Say, *, rebuild: bool = False) -> Path:
    """Return a home like `base`, with the commit's bridge or a scheduler that is not ours; beside it. `base` if it is
    the same.

    Raises BuildFailed, BuildHung; Unfit where the bridge cannot host the class.
    """
    build_code(code, say)
    if not code.scheduler:
        return assemble.derive_home(base, bridge=bridge_of(code, say, rebuild=rebuild))
    jar = jar_of(code)
    mark, log = jar.with_name(f"fits-{base.name}"), jar.with_name(f"check-{LOG}")
    if not mark.exists() and shutil.which("java") is not None:  # as Nimbus will, once for each bridge and Storm
        log.unlink(missing_ok=True)
        check = ["java", "-cp", f"{base}/lib/*:{base}/extlib-daemon/*", CHECK_CLASS, str(jar), code.scheduler]
        try:
            run_program(check, Sandbox("/", readable=(base, jar)), log, limit_s=CHECK_LIMIT_S)
        except (BuildFailed, BuildHung) as error:
            raise Unfit(f"{code_label(code)}: {[*filter(str.strip, last_lines(log))][-1]}") from error
        mark.touch()
    return assemble.derive_home(base, foreign=jar, files=sorted((jar.parent / FILES).iterdir()))
