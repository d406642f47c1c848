"""Runs of several codes on the same machines: what is switched, what goes on, what is said of what is broken."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.code.build import build_code, storm_home_of
from barograph.errors import RunBroken
from barograph.plan.experiment import Code, Variant
from barograph.run import storm_cluster
from playbooks import cluster
from tests.integration.cluster_site import Site, seen, service
from tests.support.repositories import Repository, resolve_ref, with_plugins
from topologies import catalogue

pytestmark = pytest.mark.integration

BRIDGE = "scheduler_plugins/nimbus_bridge/src/main/java/barograph/bridge"
THEIRS = """package theirs;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.Topologies;
public class Theirs extends EvenScheduler {
    public void schedule(Topologies topologies, Cluster cluster) { BODY super.schedule(topologies, cluster); }
}
"""


@pytest.fixture(scope="module", autouse=True)
def _harness_code(site: Site) -> Iterator[None]:
    """The cluster has the harness's own code before these tests, and again after them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("barograph.code.git.barograph_home", lambda: site.directory.parent)
        storm_cluster.note_deployment(site.directory, site.home)
        yield
        use(site, None)
    cluster.reset(site.inventory, site.directory, "r0")
    site.deploy()


def pids(site: Site) -> dict[str, int]:
    programs = {"master": ("zookeeper", "nimbus", "policy-service"), "m1": ("supervisor",)}
    return {program: site.pid(machine, program) for machine, names in programs.items() for program in names}


def use(site: Site, code: Code | None) -> float:
    """Seconds that the switch took."""
    begin_s = time.monotonic()
    storm_cluster.switch_code(site.inventory, site.directory, code)
    return time.monotonic() - begin_s


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    made = with_plugins(tmp_path_factory.mktemp("code") / "here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("barograph.code.git.ROOT", made.folder)
        yield made


def changed(here: Repository, name: str, old: str, new: str) -> Code:
    """A commit on top of `main` with this one change, built."""
    here.git("checkout", "-q", "--detach", "main")
    text = (here.folder / name).read_text()
    assert old in text
    code = resolve_ref(here.commit({name: text.replace(old, new, 1)}))
    build_code(code, print)
    return code


@pytest.fixture(scope="module")
def foreign(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Code]:
    """A scheduler of others whose `schedule` begins with these lines."""
    theirs = Repository.at(tmp_path_factory.mktemp("code") / "theirs")
    build = f"mkdir classes && javac -cp '{site.home}/lib/*' -d classes Theirs.java && jar cf theirs.jar -C classes ."

    def commit(body: str) -> Code:
        theirs.commit({"Theirs.java": THEIRS.replace("BODY", body), "build.sh": build})
        code = resolve_ref("main", str(theirs.folder))
        code = replace(code, build=("sh", "build.sh"), jar="theirs.jar", scheduler="theirs.Theirs")
        build_code(code, print)
        return code

    return commit


def run(site: Site, folder: Path, variant: Variant) -> None:
    """As far as the submission, in the order in which a run does it."""
    use(site, variant.code)
    cluster.reset(site.inventory, site.directory, "r1")
    service(site).configure("r1", variant.policy, variant.configured(), 1, 60.0)
    (folder / "topology.yaml").write_text(catalogue.render("star", {}, {"workers": 2}))
    cluster.submit(site.inventory, site.directory, "r1", folder / "topology.yaml")


def test_a_commit_that_changes_policies_restarts_the_service_alone(site: Site, here: Repository) -> None:
    code = changed(here, "scheduler_plugins/service/server.py", '"""The policy service', '"""Another policy service')
    assert storm_home_of(code, site.home, print) == site.home
    before = pids(site)
    took_s = use(site, code)
    after = pids(site)
    assert {name for name in before if before[name] != after[name]} == {"policy-service"}
    assert "Another policy service" in site.run("master", "cat", "/opt/barograph/scheduler_plugins/service/server.py")
    assert use(site, code) < 1 and pids(site) == after, "a second run of the same code touches nothing"
    print(f"switch of the policy service: {took_s:.1f} s")


def test_a_commit_with_another_bridge_restarts_nimbus_too(site: Site, here: Repository, tmp_path: Path) -> None:
    code = changed(here, f"{BRIDGE}/PolicyScheduler.java", "return Map.of();", 'return Map.of("other", Map.of());')
    home = storm_home_of(code, site.home, print)
    assert home != site.home
    before = pids(site)
    took_s = use(site, code)
    after = pids(site)
    assert {name for name in before if before[name] != after[name]} == {"policy-service", "nimbus"}
    assert site.run("master", "readlink", "/opt/barograph/storm").strip().endswith(home.name)
    assert site.run("m1", "readlink", "/opt/barograph/storm").strip().endswith(site.home.name)
    run(site, tmp_path, Variant("b", "even", {}, code))
    seen(site, lambda state: state.all_placed() and state.workers_reporting == 2, 120)
    back_s = use(site, None)
    print(f"switch of Nimbus and the policy service: {took_s:.1f} s, back {back_s:.1f} s")


# Shorter: test_code_of_runs.py, on a stand-in.
@pytest.mark.long
def test_a_commit_that_breaks_nimbus_is_told_and_the_next_run_is_well(
    site: Site, here: Repository, tmp_path: Path
) -> None:
    settings = "Settings settings = Settings.of(conf);"
    throws = 'if (!conf.isEmpty()) { throw new IllegalStateException("half merged"); }'
    code = changed(here, f"{BRIDGE}/PolicyScheduler.java", settings, f"{throws} {settings}")
    with pytest.raises(RunBroken, match=r"Nimbus does not start with the code of this run; it said: .*half merged"):
        use(site, code)
    run(site, tmp_path, Variant("own", "even"))
    seen(site, lambda state: state.all_placed() and state.workers_reporting == 2, 120)


# Shorter: ForeignSchedulerTest.java.
@pytest.mark.long
def test_a_scheduler_of_others_places_throws_and_hangs(
    site: Site, foreign: Callable[[str], Code], tmp_path: Path
) -> None:
    run(site, tmp_path, Variant("theirs", "foreign", {}, foreign("")))
    assert seen(site, lambda state: state.all_placed() and state.workers_reporting == 2, 120).policy_error is None
    run(site, tmp_path, Variant("theirs", "foreign", {}, foreign('if (true) throw new RuntimeException("boom");')))
    state = seen(site, lambda state: state.policy_error is not None, 120)
    assert state.policy_error is not None and state.tasks_placed == 0
    assert "theirs.Theirs threw java.lang.RuntimeException: boom at theirs.Theirs.schedule" in state.policy_error
    forever = "try { Thread.sleep(600000); } catch (InterruptedException e) { }"
    run(site, tmp_path, Variant("theirs", "foreign", {}, foreign(forever)))
    hung = seen(site, lambda state: state.policy_error is not None, 120)
    assert hung.policy_error is not None and "did not answer within 10.0 s" in hung.policy_error
    assert hung.tasks_placed == 0
    events = [json.loads(line) for line in site.run("master", "cat", "/var/log/barograph/bridge.jsonl").splitlines()]
    assert [event["kind"] for event in events] == ["scheduler_failed"]
    use(site, None)


def test_what_is_no_scheduler_is_told_before_machines_are_touched(site: Site, foreign: Callable[[str], Code]) -> None:
    from barograph.code import Unfit

    assert shutil.which("java") is not None
    private = foreign("} private Theirs() {} void unused(Topologies topologies, Cluster cluster) {")
    with pytest.raises(Unfit, match="has no public constructor without parameters"):
        storm_home_of(private, site.home, print)
