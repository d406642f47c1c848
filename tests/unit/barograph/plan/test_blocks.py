"""Properties of the order of runs, and of what a resumed series does next."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from barograph.plan.blocks import digest, next_run, plan_runs, series_id
from barograph.plan.experiment import Code, Experiment, Variant, load

STAR = load("stela/star")
words = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    names = draw(st.lists(words, min_size=1, max_size=5, unique=True))
    variants = tuple(Variant(name, "even") for name in names)
    repetitions, seed = draw(st.integers(1, 6)), draw(st.integers(0, 2**32))
    return replace(STAR, variants=variants, repetitions=repetitions, seed=seed)


@given(experiments())
def test_every_variant_is_once_in_every_block(experiment: Experiment) -> None:
    plan = plan_runs(experiment)
    names = sorted(variant.name for variant in experiment.variants)
    for block in range(1, experiment.repetitions + 1):
        assert sorted(run.variant.name for run in plan if run.block == block) == names
    assert [run.block for run in plan] == sorted(run.block for run in plan)


@given(experiments())
def test_runs_are_numbered_named_and_seeded(experiment: Experiment) -> None:
    plan = plan_runs(experiment)
    assert [run.order for run in plan] == list(range(1, len(plan) + 1))
    assert len({run.run_id for run in plan}) == len(plan)
    assert all(run.run_id == f"{run.variant.name}-r{run.repetition}" for run in plan)
    assert {(run.block, run.seed) for run in plan} == {
        (block, experiment.seed + block - 1) for block in range(1, experiment.repetitions + 1)
    }


@given(experiments())
def test_the_same_experiment_gives_the_same_plan(experiment: Experiment) -> None:
    assert plan_runs(experiment) == plan_runs(experiment)
    assert digest(experiment) == digest(experiment)


def test_seeds_shuffle_differently() -> None:
    many = replace(STAR, repetitions=8)
    orders = {tuple(run.run_id for run in plan_runs(replace(many, seed=seed))) for seed in range(6)}
    assert len(orders) > 1


def test_blocks_are_not_all_in_the_files_order() -> None:
    plan = plan_runs(replace(STAR, repetitions=10))
    firsts = {plan[place].variant.name for place in range(0, len(plan), 2)}
    assert firsts == {"even_rebalance", "stela"}


@given(experiments(), st.data())
def test_the_next_run_is_the_first_that_is_neither_complete_nor_tried(
    experiment: Experiment, data: st.DataObject
) -> None:
    plan = plan_runs(experiment)
    ids = [run.run_id for run in plan]
    complete = data.draw(st.sets(st.sampled_from(ids)))
    tried = data.draw(st.sets(st.sampled_from(ids)))
    found = next_run(plan, complete, tried)
    left = [run_id for run_id in ids if run_id not in complete | tried]
    assert (found.run_id if found else None) == (left[0] if left else None)


@given(experiments())
def test_doing_what_is_next_does_everything_in_order(experiment: Experiment) -> None:
    plan, done = plan_runs(experiment), []
    while (run := next_run(plan, done)) is not None:
        done.append(run.run_id)
    assert done == [run.run_id for run in plan]


def test_a_series_id_says_when_and_what() -> None:
    assert series_id(STAR, 1_763_712_301.0) == f"20251121-080501-{digest(STAR)}"
    assert digest(replace(STAR, repetitions=9)) != digest(STAR)


def test_a_commit_is_another_request_whatever_its_branch_is_called() -> None:
    plain = replace(STAR, variants=(Variant("even", "even"),))
    digests = {
        digest(replace(plain, variants=(Variant("even", "even", code=code),)))
        for code in (None, Code("main", "a" * 40), Code("main", "b" * 40), Code("fast", "b" * 40))
    }
    assert len(digests) == 3, "the name of a branch is no part of it"
