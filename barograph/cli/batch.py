"""`barograph batch`: movie recommendation as a batch over growing days of ratings (DT 5.2), its times, and what it
costs a day to run it anew."""

from __future__ import annotations

import argparse
import fcntl
import gc
import json
import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console

from analysis import java, session
from analysis.numerals import signed_percent
from analysis.recommendation import (
    DAY_S,
    ROUNDS,
    Recommendation,
    daily_cost_usd,
    fans,
    lists,
    needed_bytes,
    out_of_range,
    pairs,
    ratings,
    ratings_in,
)
from analysis.record.files import write_json_atomic
from analysis.report.table import Heading, ResultTable, columns
from barograph.cli.arguments import comma_separated, given_file, key_value, yaml_value
from barograph.cli.terminal import line_printer, signals_as_interrupt, stdout_console
from barograph.errors import CapacityError, ExperimentError, InUse
from barograph.plan.blocks import stamp
from barograph.settings import results_root, spark_master
from inventory.ec2.options import load_prices

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Number = TypeVar("Number", int, float)
RESULT = "batch.json"
SESSION_BYTES = session.SHORT_BYTES  # one setting of Spark for batches of every size: that for large ones
OWN_NAMES = re.compile(r"\.work-.*|lists-.*\.parquet")  # what a batch that was ended may leave beside it
MOST = 1e6  # of --days and --every
MOST_SCALE = 100.0
WORDS: dict[Any, str] = {int: "whole numbers", float: "numbers"}
TIMES = (*(f"{name}_s" for name in ROUNDS), "elapsed_s")
STATED_MIN = {1: 56.0, 3: 177.0, 6: 407.0}  # DT table 2, on ten m1.small


@dataclass(frozen=True)
class BatchRun:
    """One batch. `days`: of ratings, None: a whole file; `pairs`: mutual fans, `distinct_pairs`: of so many pairs of
    movies. Times: of its rounds and of all."""

    repetition: int
    order: int
    days: int | None
    records: int
    pairs: int
    distinct_pairs: int
    fans_s: float
    pairs_s: float
    lists_s: float
    elapsed_s: float


def add_batch_arguments(batch: argparse.ArgumentParser) -> None:
    add = batch.add_argument
    add("--days", type=comma_separated, default="1,3,6", metavar="N,N", help="days of ratings (default 1,3,6)")
    add("--scale", type=float, default=0.01, help="of DT's users and 17.28 million ratings a day (default 0.01)")
    add("--repetitions", type=int, default=3, metavar="N", help="of each batch, in shuffled order (default 3)")
    add("--parameter", type=key_value, action="append", default=[], metavar="KEY=VALUE",
        help="of the topology recommend: users, movies, history_size, seed … (docs/policies.md)")  # fmt: skip
    add("--ratings", type=given_file, metavar="FILE.csv",
        help="ratings of your own, all of them in each batch: user,movie,rating,YYYY-MM-DD a line")  # fmt: skip
    add("--every", type=comma_separated, default="24,3,1", metavar="H,H",
        help="hours from one batch to the next (default 24,3,1)")  # fmt: skip
    add("--machines", type=int, default=1, metavar="N",
        help="that are paid for, at the time of those that are timed (default 1; DT has 11)")  # fmt: skip
    add("--instance", default="c7a.medium", metavar="TYPE", help="whose price counts (default c7a.medium)")
    add("--region", default="us-east-1", help="of the price table (default us-east-1)")
    add("--into", type=Path, metavar="FOLDER", help="for times and lists; without it a new one below results/batch")


def execute_batch(options: argparse.Namespace) -> int:
    for name in ("repetitions", "machines"):
        if getattr(options, name) < 1:
            raise ExperimentError(f"--{name} is {getattr(options, name)}; allowed: 1 or more")
    if not 0 < options.scale <= MOST_SCALE:
        raise ExperimentError(f"--scale is {options.scale:g}; allowed: above 0, up to {MOST_SCALE:g}")
    days, every_h = numbers("--days", options.days, int), numbers("--every", options.every, float)
    parameters = {key: yaml_value(value) for key, value in options.parameter}
    recommendation = Recommendation.of(parameters, options.scale)
    usd_per_hour = load_prices().of(options.region, options.instance)
    if options.ratings is not None and not (options.ratings.is_file() and os.access(options.ratings, os.R_OK)):
        raise ExperimentError(f"--ratings is {options.ratings}, which is no file that can be read")
    into = (options.into or results_root() / "batch" / stamp(datetime.now(UTC).timestamp())).absolute()
    master = spark_master()
    timed: dict[str, Any] = {
        "recommendation": asdict(recommendation), "scale": options.scale if options.ratings is None else None,
        "days": sorted(set(days)) if options.ratings is None else None,
        "ratings": options.ratings and str(options.ratings.absolute()),
        "ratings_bytes": options.ratings and options.ratings.stat().st_size,
        "spark_master": master, "cores": os.cpu_count(), "spark_settings": session.options_of(master, SESSION_BYTES),
        "before": "one batch of the smallest size, which does not count; ratings are in the page cache",
    }  # fmt: skip
    recorded(into, timed)  # refuses what is there of others
    need = (
        needed_bytes(recommendation, max(days))
        if options.ratings is None
        else needed_bytes(recommendation, 1, ratings=options.ratings.stat().st_size // 16)  # a short line
    )
    free = shutil.disk_usage(next(each for each in (into, *into.parents) if each.exists())).free
    if need > free:
        raise CapacityError(
            f"this batch needs up to {need:,} bytes of disk below {into}, and {free:,} are free; give a lower --scale,"
            " fewer --days, a lower --parameter history_size, or --into with a folder on a larger disk"
        )
    java.require()
    console = stdout_console()
    say = line_printer(console)
    paid = {"instance": options.instance, "usd_per_hour": usd_per_hour, "machines": options.machines}
    with signals_as_interrupt(), locked(into):
        runs = recorded(into, timed)
        done = {(run.repetition, run.days) for run in runs}
        try:
            with (
                tempfile.TemporaryDirectory(prefix=".work-", dir=into) as work,
                closing(batch_runs(recommendation, options, days, Path(work), done, say)) as more,
            ):
                for run in more:
                    runs.append(run)
                    for result in Path(work).glob("lists-*"):  # of a run, or before the first of the smallest size
                        shutil.rmtree(into / result.name, ignore_errors=True)
                        result.rename(into / result.name)
                    write_json_atomic(into / RESULT, {"v": 1, **timed, **paid, "runs": [asdict(run) for run in runs]})
        except BaseException:
            if runs:
                say(f"{len(runs)} runs are kept; the same command with --into {shlex.quote(str(into))} goes on")
            raise
    cost = partial(daily_cost_usd, machines=options.machines, usd_per_hour=usd_per_hour)
    by_size = show(runs, cost, every_h, console)
    where = f"this machine, of {os.cpu_count()} cores" if session.is_local(master) else f"the cluster of {master}"
    if options.ratings is None:
        say(
            f"scale {options.scale:g}: {recommendation.law.ratings_per_day:,} ratings a day; times are those of {where}"
        )
    else:
        say(f"ratings of {options.ratings}; times are those of {where}")
    short = [days_words(size) for size, same in by_size.items() if median(run.elapsed_s for run in same) <= 3600]
    first_hour = f"; under one billed hour, which alone decides: {', '.join(short)}" if short else ""
    say(f"USD a day: {options.machines} {options.instance} at {usd_per_hour:g} USD an hour, taken to need the time of"
        f" {where}{first_hour}")  # fmt: skip
    say(f"times and lists: {into}")
    return 0


def recorded(into: Path, timed: Mapping[str, Any]) -> list[BatchRun]:
    """Return the runs in a folder. Raises ExperimentError if it is not one of batches, or of others than `timed`."""
    file = into / RESULT
    if not file.exists():
        if into.exists() and not (into.is_dir() and all(OWN_NAMES.fullmatch(each.name) for each in into.iterdir())):
            raise ExperimentError(f"--into is {into}, which is there and not empty; give a folder that is new or empty")
        return []
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        runs = [BatchRun(**run) for run in content["runs"]]
        others = [name for name, value in timed.items() if content[name] != value]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ExperimentError(f"{file} is not of this version ({error!r}); give another --into") from error
    if others:
        raise ExperimentError(
            f"--into is {into}, whose batches have another {', '.join(others)} ({RESULT}); give the options that they"
            " had, to go on with them, or another --into"
        )
    return runs


@contextmanager
def locked(into: Path) -> Iterator[None]:
    """Hold a folder, made if missing and removed if it stays empty, without what a killed batch left. Raises InUse."""
    into.mkdir(parents=True, exist_ok=True)
    handle = os.open(into, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(f"--into is {into}, which another batch writes; wait for it, or give another") from None
        for left in into.glob(".work-*"):
            shutil.rmtree(left)
        try:
            yield
        finally:
            with suppress(OSError):
                into.rmdir()
    finally:
        os.close(handle)


def numbers(name: str, words: Sequence[str], kind: Callable[[str], Number]) -> list[Number]:
    """Return the numbers of an option. Raises ExperimentError for what is none, or out of range."""
    try:
        values = [kind(word) for word in words]
    except ValueError:
        values = []
    if not values or not all(0 < value <= MOST for value in values):
        raise ExperimentError(
            f"{name} is {','.join(words)!r}; allowed: {WORDS[kind]} above 0, up to {MOST:,.0f}, as 1,3,6"
        )
    return values


def batch_runs(
    recommendation: Recommendation, options: argparse.Namespace, days: Sequence[int], work: Path,
    done: Set[tuple[int, int | None]], say: Callable[[str], None],
) -> Generator[BatchRun]:  # fmt: skip
    """Write the ratings, run each batch that is not done as often as asked, in shuffled blocks after one that does not
    count, and keep the lists. Raises ExperimentError for ratings out of range."""
    sizes: Sequence[int | None] = sorted(set(days)) if options.ratings is None else [None]
    random = Random(recommendation.law.seed)
    plan = [(repetition, size) for repetition in range(1, options.repetitions + 1)
            for size in random.sample(sizes, len(sizes))]  # fmt: skip
    if done >= set(plan):
        return
    master = spark_master()
    local = {"spark.local.dir": str(work / "spark")} if session.is_local(master) else {}
    with session.shared_session(master, SESSION_BYTES, local) as spark:
        if not session.is_local(master):
            session.require_shared_folder(spark, work)
        if options.ratings is None:
            law = recommendation.law
            source = ratings(spark.range(max(days) * law.ratings_per_day), law)
        else:
            source = ratings_in(spark, session.literal_uri(options.ratings))
        source.write.parquet(f"file://{work}/ratings")
        source = spark.read.parquet(session.literal_uri(work / "ratings"))
        if source.isEmpty():
            raise ExperimentError(f"--ratings is {options.ratings}, which has no lines; names in _ or . are not read")
        wrong, one = out_of_range(source)
        if wrong:
            raise ExperimentError(
                f"{wrong} ratings are out of range, such as {one}; allowed: users and movies from 1 on, ratings from 1"
                " to 5, a date; mend or remove those lines"
            )
        batch(recommendation, source, sizes[0], work)  # compiles Spark's code
        for order, (repetition, size) in enumerate(plan, 1):
            if (repetition, size) in done:
                continue
            run = BatchRun(repetition, order, size, **batch(recommendation, source, size, work))
            say(f"{order} of {len(plan)}: {days_words(size)}, {run.records:,} ratings, {run.elapsed_s:.1f} s")
            yield run


def batch(recommendation: Recommendation, source: DataFrame, days: int | None, work: Path) -> dict[str, Any]:
    """Run the three rounds, each from and to disk as DT's jobs, and return numbers and times of a BatchRun."""
    from pyspark.sql import functions as f

    spark, times = source.sparkSession, dict[str, float]()
    gc.collect()
    assert spark.sparkContext._jvm is not None
    spark.sparkContext._jvm.System.gc()  # ends what earlier batches exchanged, which lies on disk
    folders = {"fans": work / "fans", "pairs": work / "pairs", "lists": work / f"lists-{days or 'all'}.parquet"}
    begin_s = time.perf_counter()
    rows = chosen = source if days is None else source.where(f.col("t_s") < days * DAY_S)
    rounds: tuple[Callable[[DataFrame], DataFrame], ...] = (
        fans,
        partial(pairs, history_size=recommendation.history_size),
        partial(lists, list_size=recommendation.list_size),
    )
    for name, transform in zip(ROUNDS, rounds, strict=True):
        round_s = time.perf_counter()
        transform(rows).write.mode("overwrite").parquet(f"file://{folders[name]}")
        rows = spark.read.parquet(session.literal_uri(folders[name]))
        times[f"{name}_s"] = time.perf_counter() - round_s
    elapsed_s = time.perf_counter() - begin_s
    records = chosen.count()
    counts = (
        spark.read.parquet(session.literal_uri(folders["pairs"]))
        .agg(f.coalesce(f.sum("fans"), f.lit(0)), f.count("*"))
        .first()
    )
    assert counts is not None
    return {"records": records, "pairs": counts[0], "distinct_pairs": counts[1], **times, "elapsed_s": elapsed_s}


def days_words(days: int | None) -> str:
    return "the file" if days is None else "1 day" if days == 1 else f"{days} days"


def show(
    runs: Sequence[BatchRun], cost: Callable[[float, float], float | None], every_h: Sequence[float], console: Console
) -> Mapping[int | None, Sequence[BatchRun]]:
    """Print a row a size, medians of its runs, and how times grow beside DT's; return runs by size."""
    from analysis.stats import effect

    ordered = sorted(runs, key=lambda run: (run.days or 0, run.repetition))
    by_size = {days: list(same) for days, same in groupby(ordered, key=lambda run: run.days)}
    rows = []
    for days, same in by_size.items():
        middle = {name: median(getattr(run, name) for run in same) for name in TIMES}
        costs = {f"USD a day, every {every:g} h": cost(middle["elapsed_s"], every) for every in every_h}
        rows.append({"days": days_words(days), "records": f"{same[0].records:,}", "pairs": f"{same[0].pairs:,}",
                     "distinct": f"{same[0].distinct_pairs:,}", **middle, **costs})  # fmt: skip
    headings = [
        *columns("ratings of = days; ratings = records /n; mutual fans = pairs /n; pairs of movies = distinct /n"),
        *(Heading(f"round {place}", f"{name}_s", "s", 1, "n") for place, name in enumerate(ROUNDS, 1)),
        Heading("all", "elapsed_s", "s", 1, "n"),
        *(Heading(name, name, digits=2, css="n", blank="NA") for name in rows[0] if name.startswith("USD")),
    ]
    say = line_printer(console)
    for line in ResultTable(headings, rows).lines():
        say(line)
    first, *others = (days or 0 for days in by_size)
    for days in others:
        more, fewer = ([run.elapsed_s for run in by_size[each]] for each in (days, first))
        estimate, grown = effect.paired_ratio(more, fewer), effect.geometric_ratio(more, fewer)
        ends = "" if estimate is None else " [{}, {}]".format(*map(signed_percent, estimate.interval()))
        of_dt = [f"{STATED_MIN[each]:g}" for each in (first, days) if each in STATED_MIN]
        stated = f"; DT: {' to '.join(of_dt)} min" if len(of_dt) > 1 else ""
        say(f"{days_words(days)} over {days_words(first)}: {signed_percent(grown)} %{ends} of time,"
            f" {signed_percent(100 * (days / first - 1))} % of ratings{stated}")  # fmt: skip
    return by_size
