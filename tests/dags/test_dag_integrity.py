"""The DAG files only wire: they import fast and light, and a failure can neither leak machines nor hide."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from barograph.airflow_environment import pools, settings
from barograph.errors import ExperimentError
from barograph.nights import suite as suites
from barograph.plan.durations import longest_run_s, step_limit
from barograph.plan.experiment import load, names
from barograph.settings import ROOT
from inventory.ec2.options import Ec2Options
from inventory.emulab.access import ClassicOptions, PortalOptions
from inventory.existing.hosts import ExistingOptions
from inventory.testbed import FILE_ONLY_OPTIONS

HEAVY = ("pyspark", "ansible_runner", "paramiko", "boto3", "matplotlib", "scipy")
PROBE = """
import json, sys, time
import airflow.sdk
begin = time.process_time()
import dags.experiments as experiments, dags.housekeeping as housekeeping, dags.compare_branches as compare_branches
import dags.nightly as nightly
took = time.process_time() - begin
import os, pathlib, runpy
for file in sorted(pathlib.Path(os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"]).rglob("*.py")):
    plugin = runpy.run_path(str(file))["BarographPlugin"]
def task(t):
    return {"up": sorted(t.upstream_task_ids), "down": sorted(t.downstream_task_ids), "rule": t.trigger_rule.value,
            "setup": t.is_setup, "teardown": t.is_teardown, "pool": t.pool, "mapped": t.is_mapped,
            "retries": t.retries, "limit_s": t.execution_timeout and t.execution_timeout.total_seconds(),
            "named": t.map_index_template, "weight": [t.priority_weight, str(t.weight_rule)]}
def dag(d):
    return {"params": {k: d.params.get_param(k).schema for k in d.params}, "max_active_runs": d.max_active_runs,
            "catchup": d.catchup, "schedule": d.schedule if isinstance(d.schedule, str) else None,
            "limit": d.dagrun_timeout and d.dagrun_timeout.total_seconds(),
            "tasks": {t.task_id: task(t) for t in d.tasks}}
print(json.dumps({
    "took_s": took,
    "modules": sorted(sys.modules),
    "dags": {d.dag_id: dag(d) for d in experiments.build_all().values()},
    "globals": sorted(k for k, v in vars(experiments).items() if isinstance(v, experiments.DAG)),
    "compare": dag(compare_branches.compare_branches),
    "others": {d.dag_id: dag(d) for d in [housekeeping.reaper(), housekeeping.clean_databases(),
                                          *nightly.build_all().values()]},
    "one_at_a_time": compare_branches.compare_branches.get_task("run").max_active_tis_per_dagrun,
    "plugin": [plugin.name, "barograph.web.site" in sys.modules,
     sorted(v["destination"] for v in plugin.external_views)],
}))
"""


ALONE = """
import sys
from airflow.sdk.definitions._internal.dag_parsing_context import _airflow_parsing_context_manager
for asked in sys.argv[1:]:
    with _airflow_parsing_context_manager(dag_id=asked):
        from dags import experiments, nightly
        print(asked, "->", *experiments.build_all(), *nightly.build_all())
"""


@pytest.fixture(scope="session")
def wired(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a fresh process sees of the DAG files; no database is needed for it."""
    environment = {**os.environ, **settings(tmp_path_factory.mktemp("airflow"))}
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_every_experiment_has_a_dag(wired: dict[str, Any]) -> None:
    assert sorted(wired["dags"]) == sorted(name.replace("/", ".") for name in names())
    assert sorted(wired["others"]) == [
        "clean_databases",
        *(f"nightly.{name}" for name in suites.suite_names()),
        "reaper",
    ]
    assert wired["globals"] == sorted(name.replace("/", "_") for name in names())


def test_whatever_one_file_breaks_the_others_have_dags() -> None:
    from dags.wiring import dags_of

    def build(name: str) -> Any:
        if name == "broken":
            raise OverflowError("int too large")
        return SimpleNamespace(dag_id=name)

    assert list(dags_of(["broken", "star"], build)) == ["star"]
    with pytest.raises(ExperimentError, match="OverflowError: int too large"):
        dags_of(["broken"], build)


def test_who_asks_for_one_dag_gets_that_alone(tmp_path: Path) -> None:
    """As each process of Airflow that does a task."""
    asked = ["stela.star", "nightly.quick", "compare_branches"]
    argv, environment = [sys.executable, "-c", ALONE, *asked], {**os.environ, **settings(tmp_path)}
    done = subprocess.run(argv, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    said = [line for line in done.stdout.splitlines() if "->" in line]
    assert said == ["stela.star -> stela.star", "nightly.quick -> nightly.quick", "compare_branches ->"]


def test_nothing_heavy_at_the_top(wired: dict[str, Any]) -> None:
    assert [module for module in HEAVY if module in wired["modules"]] == []
    assert wired["took_s"] < 3.0


@pytest.mark.parametrize("name", names())
def test_machines_are_a_setup_with_its_teardown(name: str, wired: dict[str, Any]) -> None:
    tasks = wired["dags"][name.replace("/", ".")]["tasks"]
    assert tasks["provision"]["setup"] and not tasks["provision"]["teardown"]
    assert tasks["release"]["teardown"] and tasks["release"]["rule"] == "all_done_setup_success"
    assert tasks["deploy"]["setup"], "who clears a run gets machines with Storm on them"
    assert {"provision", "deploy", "run"} <= set(tasks["release"]["up"])
    for begin in ("provision", "deploy"):
        children = [tasks[child] for child in tasks[begin]["down"]]
        assert all(child["rule"] == "all_success" or child["teardown"] for child in children)


@pytest.mark.parametrize("name", names())
def test_order_of_the_steps(name: str, wired: dict[str, Any]) -> None:
    tasks = wired["dags"][name.replace("/", ".")]["tasks"]
    assert tasks["open_series"]["up"] == []
    assert tasks["provision"]["up"] == ["open_series"]
    assert "provision" in tasks["deploy"]["up"]
    assert "deploy" in tasks["plan_runs"]["up"]
    assert tasks["run"]["mapped"] and "name" in tasks["run"]["named"] and "plan_runs" in tasks["run"]["up"]
    assert "release" in tasks["analyse"]["up"], "Spark must not compete with machines that are still up"
    assert "analyse" in tasks["report"]["up"]


@pytest.mark.parametrize("name", names())
def test_a_failure_is_seen(name: str, wired: dict[str, Any]) -> None:
    """An all_done leaf would hide it: the watcher hangs on every task but the setups, whose children fail with them."""
    tasks = wired["dags"][name.replace("/", ".")]["tasks"]
    assert tasks["watcher"]["rule"] == "one_failed"
    assert set(tasks["watcher"]["up"]) == set(tasks) - {"watcher", "provision", "deploy"}


def every_dag(wired: dict[str, Any]) -> dict[str, Any]:
    return {**wired["dags"], **wired["others"], "compare_branches": wired["compare"]}


def test_every_task_of_every_dag_is_tried_again_and_has_a_limit(wired: dict[str, Any]) -> None:
    found = {(dag, name): task for dag, facts in every_dag(wired).items() for name, task in facts["tasks"].items()}
    assert {dag for dag, _ in found} > {"stela.star", "compare_branches", "reaper", "clean_databases", "nightly.quick"}
    assert [where for where, task in found.items() if not task["retries"] or not task["limit_s"]] == []


@pytest.mark.parametrize("name", names())
def test_a_run_may_take_as_long_as_its_plan_allows(name: str, wired: dict[str, Any]) -> None:
    limit_s = wired["dags"][name.replace("/", ".")]["tasks"]["run"]["limit_s"]
    assert limit_s == step_limit("run", load(name)).seconds > 2 * longest_run_s(load(name))


def test_no_dag_run_is_ended_as_a_whole(wired: dict[str, Any]) -> None:
    """Airflow skips what is left at that end, the release too."""
    assert {facts["limit"] for facts in every_dag(wired).values()} == {None}
    assert {facts["max_active_runs"] for facts in every_dag(wired).values()} == {1}


def test_what_gives_machines_back_never_waits_for_what_takes_them(wired: dict[str, Any]) -> None:
    """Its pool has slots of its own, and Airflow a process for each slot."""
    tasks = [(name, task) for facts in every_dag(wired).values() for name, task in facts["tasks"].items()]
    assert {task["pool"] for _, task in tasks} == set(pools())
    releasing = {name.rpartition(".")[2] for name, task in tasks if task["pool"] == "barograph_release"}
    assert releasing == {"release", "release_unprovisioned", "release_testbed"}
    elsewhere = {task["pool"] for name, task in tasks if name.rpartition(".")[2] in releasing}
    assert elsewhere == {"barograph_release"}
    # Three releases that hang must not keep away what ends machines without them.
    assert [name for name, task in tasks if task["pool"] == "barograph_reaper"] == ["reap"]
    assert int(settings(Path("x"))["AIRFLOW__CORE__PARALLELISM"]) == sum(pools().values())


def test_a_series_that_holds_machines_goes_before_one_that_has_none(wired: dict[str, Any]) -> None:
    weights: dict[str, set[int]] = {}  # of tasks by their names
    for facts in every_dag(wired).values():
        for name, task in facts["tasks"].items():
            if task["pool"] == "barograph":
                weight, rule = task["weight"]
                assert rule.lower().endswith("absolute"), "else what is after a task counts too"
                weights.setdefault(name.rpartition(".")[2], set()).add(weight)
    holding = {"deploy", "plan_runs", "run"}
    least = min(min(weights[name]) for name in holding)
    assert all(max(each) < least for name, each in weights.items() if name not in holding)


@pytest.mark.parametrize("name", names())
def test_machines_of_a_provision_that_died_are_given_back(name: str, wired: dict[str, Any]) -> None:
    """Its teardown is left out then."""
    task = wired["dags"][name.replace("/", ".")]["tasks"]["release_unprovisioned"]
    assert (task["rule"], task["up"], task["teardown"]) == ("one_failed", ["open_series", "plan_runs"], False)


def test_the_largest_plan_can_be_mapped(tmp_path: Path) -> None:
    assert int(settings(tmp_path)["AIRFLOW__CORE__MAX_MAP_LENGTH"]) >= 1000 * 20


@pytest.mark.parametrize("name", names())
def test_the_trigger_form(name: str, wired: dict[str, Any]) -> None:
    form = wired["dags"][name.replace("/", ".")]["params"]
    assert form["variants"]["items"]["enum"] == [variant.name for variant in load(name).variants]
    assert form["repetitions"]["minimum"] == 1
    assert form["seed"]["minimum"] == 0
    assert {"local", "simulated"} <= set(form["testbed"]["enum"])
    assert form["series"]["enum"] == ["resume", "new"]
    assert {"warm_up_floor_s", "warm_up_ceiling_s", "after_floor_s", "horizon_s"} <= set(form)


def test_no_form_names_a_file_or_a_host_to_trust_or_lifts_a_limit(wired: dict[str, Any]) -> None:
    """Whoever may trigger a DAG could have a program of this box started as an inventory, be sent a token, or spend."""
    for dag in (*wired["dags"].values(), wired["compare"]):
        form = Draft202012Validator(dag["params"]["options"])
        assert form.is_valid({"market": "spot"})
        files = ("inventory", "ssh_key", "known_hosts", "ops_known_hosts", "ops_host", "endpoint")
        limits = ("budget_usd", "price_limit_usd", "ingress_from", "image", "vpc", "subnet", "region")
        for name in (*files, *limits):
            assert not form.is_valid({name: "/tmp/mine"}), name
    models = (ExistingOptions, PortalOptions, ClassicOptions, Ec2Options)
    named = {
        name
        for model in models
        for name in model.model_fields
        if re.search("key|known|host|file|inventory|point", name)
    }
    assert named - {"profile", "profile_project"} <= FILE_ONLY_OPTIONS


def test_a_comparison_has_the_tasks_of_every_experiment(wired: dict[str, Any]) -> None:
    """But the first: nothing that holds machines is wired twice."""
    mine = wired["compare"]["tasks"]
    others = wired["dags"]["stela.star"]["tasks"]
    renamed = {task.replace("open_series", "open_comparison"): facts for task, facts in others.items()}
    assert set(mine) == set(renamed)
    for name, facts in renamed.items():
        up = sorted(task.replace("open_series", "open_comparison") for task in facts["up"])
        assert mine[name]["up"] == up and mine[name]["rule"] == facts["rule"]
        assert (mine[name]["setup"], mine[name]["teardown"]) == (facts["setup"], facts["teardown"])
    assert wired["one_at_a_time"] == 1 and wired["compare"]["max_active_runs"] == 1


def test_the_form_of_a_comparison(wired: dict[str, Any]) -> None:
    form = wired["compare"]["params"]
    assert form["experiment"]["enum"] == list(names())
    assert form["a"]["type"] == form["b"]["type"] == "string"
    assert form["blocks"]["minimum"] == 3 and form["goal_percent"]["exclusiveMinimum"] == 0
    asked = {"variants", "until_certain", "budget", "testbed", "options", "series", "rebuild"}
    assert asked <= set(form) and {None, "local", "simulated"} <= set(form["testbed"]["enum"])


def test_the_plugin_is_found_and_costs_other_processes_nothing(wired: dict[str, Any]) -> None:
    assert wired["plugin"] == ["barograph", False, ["dag_run", "nav"]]


@pytest.mark.parametrize("name", suites.suite_names())
def test_one_night_at_a_time_by_the_suites_own_cron(name: str, wired: dict[str, Any]) -> None:
    dag, suite = wired["others"][f"nightly.{name}"], suites.load_suite(name)
    assert (dag["max_active_runs"], dag["catchup"], dag["schedule"]) == (1, False, suite.schedule)
    assert dag["params"]["experiments"]["items"]["enum"] == [choice.experiment for choice in suite.experiments]
    assert dag["params"]["deadline_hours"]["maximum"] == 24


@pytest.mark.parametrize("name", suites.suite_names())
def test_machines_of_a_night_are_a_setup_with_its_teardown(name: str, wired: dict[str, Any]) -> None:
    tasks, suite = wired["others"][f"nightly.{name}"]["tasks"], suites.load_suite(name)
    for choice in suite.experiments:
        group = choice.experiment.replace("/", "_")
        assert tasks[f"{group}.provision"]["setup"] and tasks[f"{group}.release"]["teardown"]


@pytest.mark.parametrize("name", suites.suite_names())
def test_one_after_the_other_whatever_became_of_the_one_before(name: str, wired: dict[str, Any]) -> None:
    tasks = wired["others"][f"nightly.{name}"]["tasks"]
    before = "open_night"
    for choice in suites.load_suite(name).experiments:
        group = choice.experiment.replace("/", "_")
        assert tasks[f"{group}.begin"]["rule"] == "all_done" and before in tasks[f"{group}.begin"]["up"]
        assert tasks[f"{group}.conclude"]["rule"] == "all_done"
        assert f"{group}.report" in tasks[f"{group}.conclude"]["up"], "the watcher does not wait for what it watches"
        before = f"{group}.conclude"
    assert tasks["close_night"]["rule"] == "all_done" and before in tasks["close_night"]["up"]


@pytest.mark.parametrize("name", suites.suite_names())
def test_what_is_found_is_seen_after_it_was_told(name: str, wired: dict[str, Any]) -> None:
    tasks = wired["others"][f"nightly.{name}"]["tasks"]
    assert tasks["fail_on_regression"]["up"] == ["post_findings"] and tasks["post_findings"]["up"] == ["close_night"]
    assert {"open_night", "close_night", "post_findings", "fail_on_regression"} <= set(tasks["watcher"]["up"])
    assert tasks["watcher"]["rule"] == "one_failed"
    assert tasks["release_testbed"]["teardown"], "also where somebody ends the DAG run"
