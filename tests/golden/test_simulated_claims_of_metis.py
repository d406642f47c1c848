"""A small point of every sweep of METIS' family, in one pass of Spark: each claim about a sweep has what the model
gives, or says why such a point cannot tell. 10 machines, one seed, and of the sizes of tuples the largest.

What it has to be is counted by hand. In lines of seven bolts an even placement sends a tuple to another machine once,
and METIS never does. An acker has nine messages of each tuple, and nine of ten of them come from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from analysis.claims.ledger import evaluate_newest
from analysis.claims.rows import NO_VERDICT, NOT_RUN, LedgerRow
from analysis.claims.simulated_rows import SweepRuns, read_sweep, sweep_row
from analysis.claims.statements import SPREADS, load_claims
from analysis.record.files import SeriesPaths
from barograph.campaign.sweep import SweepFolder, link_runs, open_sweep
from barograph.plan import sweep
from barograph.yaml_files import read_yaml
from scheduler_plugins.simulator.work import Costs
from tests.golden import one_pass
from tests.support import simulated_cells
from topologies import work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = tuple(name for name in sweep.names() if name.startswith("metis/"))
MACHINES = 10
VARIANTS = ("even", "greedy", "metis")
EMITTED = "published_emitted_per_s"
SIZE = 28672  # bytes: the largest of figure 9
BITS = 1e9  # a second of a machine's network
POINTS = 1.5  # what restarts take of 180 s
CLAIMS = {claim.name: claim for claim in load_claims("metis") if claim.simulated}
pytestmark = pytest.mark.spark


def small(name: str) -> sweep.Sweep:
    """The sweep's file with its first point, or its largest tuples on as few machines; lines of ten seconds."""
    data: dict[str, Any] = read_yaml(sweep.SWEEPS / f"{name}.yaml")
    (field, steps), _seeds = data["sweep"].items()
    if name == "metis/payload_size":
        data["machines"] = {"before": MACHINES, "after": MACHINES}
        data["topology"]["parameters"]["parallelism"] = MACHINES
        data["topology"]["overrides"]["config"]["topology.acker.executors"] = MACHINES
        steps = [SIZE]
    else:
        steps = steps[:1]
    data["durations"] |= {"warm_up_floor_s": 30, "warm_up_ceiling_s": 30}
    data["testbed"]["options"]["simulated"]["sample_s"] = 10
    data["sweep"] = {field: steps, "seed": [1]}
    return sweep.sweep_of(name, data, {"variants": VARIANTS}, folder=sweep.SWEEPS)


@dataclass(frozen=True)
class Simulated:
    rows: Mapping[str, LedgerRow]
    sweeps: Mapping[str, SweepRuns]

    def number(self, claim: str) -> float:
        measured = self.rows[claim].measured
        assert measured is not None, self.rows[claim].reason
        return measured

    def here(self, claim: str) -> float:
        """What the claim asks of other points, of the one that is here."""
        mine = replace(CLAIMS[claim], points=())
        measured = sweep_row(mine, self.sweeps[mine.experiment]).measured
        assert measured is not None
        return measured

    def emitted(self, experiment: str, variant: str) -> float:
        """Tuples/s in the 180 s."""
        ((of,),) = (each.values() for each in self.sweeps[experiment].of(variant, EMITTED, "e1").values())
        return of.value


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Simulated:
    results = tmp_path_factory.mktemp("metis") / "results"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BAROGRAPH_RESULTS", str(results))
        folders = {each.name: open_sweep(each, each.points(), new=True) for each in map(small, NAMES)}
    simulate(list(folders.values()))
    roots = {name.replace("/", "-"): folder.root for name, folder in folders.items()}
    one_pass.analyse(spark, results.parent / "together", roots)
    metrics = {name for claim in CLAIMS.values() for name in (claim.metric, claim.best_by) if name}
    found = (read_sweep(SeriesPaths(folder.root), metrics) for folder in folders.values())
    rows = {row.claim.name: row for row in evaluate_newest(results, "metis") if row.claim.simulated}
    return Simulated(rows, {each.name: each for each in found})


def simulate(folders: list[SweepFolder]) -> None:
    cells = {folder.of(point): point.experiment for folder in folders for point in folder.points}
    assert not any(simulated_cells.failures(cells).values())
    assert [link_runs(folder) for folder in folders] == [len(VARIANTS) * len(folder.points) for folder in folders]


def test_every_claim_about_a_sweep_has_a_number_or_says_which_points_it_lacks(simulated: Simulated) -> None:
    assert simulated.rows.keys() == CLAIMS.keys() and set(NAMES) == {claim.experiment for claim in CLAIMS.values()}
    numbers = 0
    for name, row in simulated.rows.items():
        said = row.reason.partition(": ")[2]
        if row.claim.kind in SPREADS:
            assert (row.verdict, said) == (NOT_RUN, "too few seeds at before 10"), name
        elif row.claim.id == "M09":
            lacking = (
                "the sweep has no point with topology.parameters.size_bytes 10240, topology.parameters.size_bytes 20480"
            )
            assert (row.verdict, said) == (NOT_RUN, lacking), name
        elif row.claim.points:
            assert row.verdict == NOT_RUN and "no complete run of " in said and " at machines.before of " in said, name
        else:
            assert (row.verdict, row.runs) == (NO_VERDICT, 1) and row.measured is not None, f"{name}: {row.reason}"
            numbers += 1
    assert numbers == 15


def message(size: float) -> float:
    """Bytes of a message between workers."""
    return size + Costs().frame_bytes


def test_bytes_are_those_of_the_tuples_that_no_longer_cross(simulated: Simulated) -> None:
    """Of each emitted tuple what ackers are sent is left: its beginning, seven bolts, the answer; of ten all but one
    from another machine."""
    acks = message(work.INIT_BYTES) + 7 * message(work.ACK_BYTES) + message(work.COMPLETE_BYTES)
    acks *= 1 - 1 / MACHINES
    for topology, size in (("parallel", 16), ("payload", 3072)):
        tuple_bytes = message(work.keyed_bytes(size) + work.ANCHOR_BYTES)
        more = 1 + simulated.number(f"M04/{topology} to 80") / 100  # tuples are emitted
        left = acks / (acks + tuple_bytes) * more
        assert simulated.number(f"M02/{topology}") == pytest.approx(100 * (left - 1), abs=POINTS), topology


def test_where_a_placement_frees_cpu_more_is_emitted(simulated: Simulated) -> None:
    """MP V-A2: METIS has more than the default. Greedy finds the placement of METIS in lines."""
    for topology in ("parallel", "payload"):
        assert 0 < simulated.number(f"M04/{topology} to 80") < 6.0
        assert simulated.number(f"M05/{topology} to 80") == pytest.approx(0.0, abs=0.5)
        assert simulated.here(f"M14/{topology}") == 100.0


def test_greedy_that_finds_no_place_is_the_default(simulated: Simulated) -> None:
    assert simulated.here("M14/opengov") == 0.0
    assert simulated.number("M06/opengov to 80") == pytest.approx(0.0, abs=0.5)
    assert "0 of 1 runs" in simulated.rows["M06/opengov to 80"].reason
    # In the model looking for tuples takes CPU, which takes machines of `reference` over its trigger.
    assert simulated.here("M14/reference") == 100.0 and simulated.number("M03") < 0.0


def test_what_a_throttle_emits_is_the_same_under_every_policy(simulated: Simulated) -> None:
    for claim in ("M04", "M05"):
        assert simulated.number(f"{claim}/reference to 80") == pytest.approx(0.0, abs=0.5)
    for variant in VARIANTS:
        assert simulated.emitted("metis/reference_machines", variant) == pytest.approx(2000.0, rel=0.01)


def test_machines_that_have_no_cpu_left_are_as_busy_as_each_other(simulated: Simulated) -> None:
    for topology in ("parallel", "payload"):
        assert simulated.here(f"M08/{topology} 80") == pytest.approx(0.0, abs=2.0)
    for topology in ("opengov", "reference"):
        assert simulated.here(f"M08/{topology} 80") > -100.0


def test_large_tuples_gain_by_as_much_as_the_network_holds_them_back(simulated: Simulated) -> None:
    """Of three edges one crosses, so each tuple that is emitted leaves a machine once, until METIS places it."""
    even, metis = (simulated.emitted("metis/payload_size", variant) for variant in ("even", "metis"))
    tuple_bytes = message(work.keyed_bytes(SIZE) + work.ANCHOR_BYTES)
    assert even == pytest.approx(MACHINES * BITS / 8 / tuple_bytes, rel=0.05)
    assert simulated.here("M09/over default") == pytest.approx(100 * (metis / even - 1))
    assert metis > 1.5 * even
    assert simulated.here("M09/over greedy") == pytest.approx(0.0, abs=0.5)
