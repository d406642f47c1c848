"""The place of results: a folder, or a bucket with a spool on this box, by the one setting BAROGRAPH_RESULTS.

Everything reads and writes `root`. With a folder that is all. With a bucket `root` is the spool: it is updated before
series are looked up, and new files are sent when a run is over; files that could not be sent stay, and are sent at the
next opportunity.
"""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import session
from analysis.errors import SeriesInUse, StorageConfigurationError, StorageError
from analysis.record.files import SeriesPaths, is_complete, read_json, write_json_atomic
from analysis.record.simulated import date_s
from analysis.sql import SeriesTables, tables_on_disk
from analysis.storage import hold as bucket_hold
from analysis.storage import layout, maven, spark_s3, transfer
from analysis.storage.bucket import Bucket
from analysis.storage.hold import BucketHolder, holder_of, read_hold
from analysis.storage.spark_s3 import current_tables, open_shared
from analysis.storage.transfer import UNSENT, fetch_series, mirror
from barograph.errors import ConfigurationError, Say, blame_of, message_of
from barograph.series import hold
from barograph.settings import holder, location, results_root, spark_master
from inventory.files import lasting_id
from inventory.leases.holder import process_start
from inventory.local.rootfs import cache_dir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOLD_S = 6 * 3600.0  # without renewal: the longest wait for another machine whose harness died


@dataclass(frozen=True)
class Results:
    """A folder of this box. Methods about a series take its folder below `root`. A folder has nothing to send: there
    these methods only hold the series."""

    root: Path

    def require(self) -> None:
        """Raise the error that would prevent results from being stored, before anything is started."""
        folder = next(path for path in (self.root, *self.root.parents) if path.exists())
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            why = "may not be written to" if folder.is_dir() else "is no folder"
            raise StorageConfigurationError(
                f"results go to {self.root}, but {folder} {why}; set BAROGRAPH_RESULTS to a folder of yours, or to"
                " s3://bucket/prefix"
            )

    def refresh(self, scope: str = "", *, digest: bool = False) -> None:
        """Make results below `scope` (`family/name`) readable here; `digest`: also the files that reports need."""

    def begin(self, series_dir: Path) -> None:
        """Let this execution write the series from now on. Raises SeriesInUse (capacity) where another one does."""
        hold.take(series_dir)

    def send(self, series_dir: Path, under_way: Collection[str] = ()) -> None:
        """Store what was written since, except for runs that are `under_way`. Raises StorageError (infrastructure): it
        stays and is sent later; SeriesInUse where another execution writes the series by now."""

    def end(self, series_dir: Path) -> None:
        """Send, and let other executions write the series."""
        hold.drop(series_dir)

    def kept(self, series_dir: Path) -> AbstractContextManager[None]:
        """Prolong the right to write the series during the block, however long nothing is sent."""
        del series_dir
        return nullcontext()

    def waiting(self) -> tuple[Path, ...]:
        """Return the unsent series of executions that have ended."""
        return ()

    def keep(self, file: Path) -> None:
        """Store a file that belongs to no series."""

    def fetch(self, scope: str, ending: str) -> None:
        """Make files below `scope` that belong to no series readable here; existing ones stay as they are."""

    def analyse(self, series_dir: Path, master: str, say: Say) -> Path:
        """Return the report's path; every record has been sent."""
        from analysis.pipeline import analyse

        return analyse(series_dir, master, jars=avro_jars(SeriesPaths(series_dir), say))

    def tables(self, series_dir: Path) -> SeriesTables | None:
        """Return the tables of a series for Spark; None where it was not analysed."""
        return tables_on_disk(series_dir)

    def spark_settings(self, say: Say) -> Mapping[str, str] | None:
        """Return the settings that Spark needs to read them."""
        del say
        return None

    def whole(self, series_dir: Path) -> AbstractContextManager[Path]:
        """Yield a folder with everything stored of the series, raw lines too, for the length of the block."""
        return nullcontext(series_dir)


@dataclass(frozen=True)
class Spool(Results):
    """A bucket behind a folder of this box."""

    bucket: Bucket

    def require(self) -> None:
        self.bucket.check()

    def refresh(self, scope: str = "", *, digest: bool = False) -> None:
        mirror(self.bucket, self.root, scope, digest=digest)

    def begin(self, series_dir: Path) -> None:
        hold.take(series_dir)
        try:
            self._take_bucket_hold(series_dir)
        except BaseException:
            hold.drop(series_dir)
            raise

    def _take_bucket_hold(self, series_dir: Path) -> None:
        now, name = time.time(), self._name(series_dir)
        lives = self._holder_lives(name)
        bucket_hold.take(self.bucket, name, series_dir, self._me, now_s=now, until_s=now + HOLD_S, alive=lives)
        (series_dir / UNSENT).touch()

    def send(self, series_dir: Path, under_way: Collection[str] = ()) -> None:
        hold.refuse_others(series_dir)
        (series_dir / transfer.UNSENT).touch()  # also if the bucket does not answer: new files stay marked
        if (series_dir / layout.HOLD).exists():
            bucket_hold.prolong(self.bucket, self._name(series_dir), series_dir, time.time() + HOLD_S)
        else:  # `end` has sent before, or another execution took this one for dead and ended it
            self._take_bucket_hold(series_dir)
        transfer.send_series(self.bucket, self._name(series_dir), series_dir, under_way=under_way, keep_raw=False)

    def end(self, series_dir: Path) -> None:
        try:
            self.send(series_dir)
            (series_dir / UNSENT).unlink(missing_ok=True)
            bucket_hold.drop(self.bucket, self._name(series_dir), series_dir)
        finally:
            hold.drop(series_dir)

    def kept(self, series_dir: Path) -> AbstractContextManager[None]:
        def prolong() -> None:
            if (series_dir / layout.HOLD).exists():
                bucket_hold.prolong(self.bucket, self._name(series_dir), series_dir, time.time() + HOLD_S)

        return hold.heartbeat(prolong, "hold of the bucket", HOLD_S / 12)

    def keep(self, file: Path) -> None:
        self.bucket.send(file, self._name(file))

    def fetch(self, scope: str, ending: str) -> None:
        for name in self.bucket.objects(f"{scope}/"):
            file = self.root / name
            if name.endswith(ending) and ".." not in name.split("/") and not file.exists():
                self.bucket.fetch(name, file)

    def analyse(self, series_dir: Path, master: str, say: Say) -> Path:
        from analysis.pipeline import analyse

        shared = open_shared(self.bucket, self._name(series_dir), time.time())
        jars = (*spark_s3.jars(cache_dir(), say), *avro_jars(SeriesPaths(series_dir, shared), say))
        return analyse(series_dir, master, shared=shared, jars=jars)

    def waiting(self) -> tuple[Path, ...]:
        return tuple(mark.parent for mark in sorted(self.root.glob(f"*/*/*/{UNSENT}")))

    def tables(self, series_dir: Path) -> SeriesTables | None:
        return current_tables(self.bucket, self._name(series_dir), series_dir)

    def spark_settings(self, say: Say) -> Mapping[str, str] | None:
        return spark_s3.s3a_settings(spark_s3.jars(cache_dir(), say))

    @contextmanager
    def whole(self, series_dir: Path) -> Iterator[Path]:
        if (series_dir / UNSENT).exists():
            raise ConfigurationError(
                f"{series_dir.name} is not all in the bucket yet; barograph report {series_dir} sends it"
            )
        with tempfile.TemporaryDirectory(prefix=".whole-", dir=self.root) as scratch:
            # As deep as in a folder of results: the path names the experiment.
            yield fetch_series(self.bucket, self._name(series_dir), Path(scratch) / self._name(series_dir))

    def _name(self, series_dir: Path) -> str:
        return series_dir.absolute().relative_to(self.root).as_posix()

    def _holder_lives(self, name: str) -> bool:
        """Return whether another execution of this box still has the series; other boxes are unknown. The spool's hold
        was checked before. A DAG that waits between its tasks has its lease."""
        from inventory.leases import registry

        record = read_hold(self.bucket, name)
        if record is None:
            return False
        other = holder_of(record[0])
        if (other.pid, other.born, other.run) == (self._me.pid, self._me.born, self._me.run) or (
            other.pid and process_start(other.pid) != other.born
        ):
            return False
        series_id, now = name.rpartition("/")[2], time.time()
        return any(
            each.series_id == series_id and registry.is_live(each, now)
            for each in registry.read_all()
            if (each.holder_pid, each.holder_start, each.holder_run) == (other.pid, other.born, other.run)
        )

    @cached_property
    def _me(self) -> BucketHolder:
        me = holder()
        return BucketHolder(lasting_id(self.root / ".harness-id"), socket.gethostname(), me.pid, me.born, me.run)


def avro_jars(series: SeriesPaths, say: Say) -> tuple[Path, ...]:
    """Return the jars, beside its own, with which Spark reads the files of the series' workers."""
    return (maven.avro_jar(cache_dir(), say),) if series.has_avro() else ()


def results() -> Results:
    """Return the place that BAROGRAPH_RESULTS names. Raises StorageConfigurationError for any other value."""
    place = location()
    if place is None:
        return Results(results_root())
    return Spool(results_root(), Bucket(place))


def results_of(series_dir: Path) -> Results:
    """Return the place of one series: a folder elsewhere on this box is a folder whatever the setting is."""
    place = results()
    return place if series_dir.absolute().is_relative_to(place.root) else Results(series_dir.parent)


def send_waiting(say: Say) -> None:
    """Send files that could not be sent earlier; an execution elsewhere on this box sends its own."""
    place = results()
    for series_dir in place.waiting():
        try:
            place.begin(series_dir)
            place.end(series_dir)
            say(f"sent {series_dir.name}, which had been waiting here")
        except SeriesInUse:
            continue
        except StorageError as error:
            say(f"{series_dir.name} is still waiting in {series_dir}: {message_of(error)}")


@contextmanager
def send_afterwards(series_dir: Path, say: Say) -> Iterator[None]:
    """Send the block's output, even after an error; a failing bucket loses nothing and raises nothing."""
    try:
        yield
    finally:
        send_now(series_dir, say)


def send_now(series_dir: Path, say: Say, under_way: Collection[str] = ()) -> None:
    """Send the present files; a failing bucket loses nothing and raises nothing."""
    _try_to_send(lambda: results_of(series_dir).send(series_dir, under_way), series_dir, say)


def complete_runs(series_dir: Path) -> dict[str, float | None]:
    """Return for each complete run the start time in its record, which tells a repeated run from the earlier one."""
    runs = [run for run in SeriesPaths(series_dir).all_runs() if is_complete(run.root)]
    return {run.run_id: date_s(read_json(run.run_json)) for run in runs}


def analyse_results(series_dir: Path, say: Say) -> Path:
    """Analyse a series that this execution writes, where its records are, and return the report's path."""
    place = results_of(series_dir)
    place.send(series_dir)
    # Runs measured on other boxes: the report lists their events too.
    place.refresh(series_dir.absolute().relative_to(place.root).as_posix(), digest=True)
    complete = complete_runs(series_dir)
    path = place.analyse(series_dir, spark_master(), say)
    file = SeriesPaths(series_dir).series_json
    write_json_atomic(file, {**read_json(file), "reported": complete})
    return path


def analyse_again(series_dir: Path, say: Say) -> Path:
    """Analyse a series that nobody writes, holding it meanwhile. Raises SeriesInUse."""
    results_of(series_dir).begin(series_dir)
    try:
        with hold.beating(series_dir):
            return analyse_results(series_dir, say)
    finally:
        finish(series_dir, say)


@contextmanager
def one_session(series_dirs: Sequence[Path], say: Say, *, simulates: bool = False) -> Iterator[SparkSession]:
    """Yield one Spark session for the analyses of these series in the block, warm after the first; `simulates`: also of
    simulated ones."""
    spark_settings = [results_of(each).spark_settings(say) for each in series_dirs]
    settings = next((each for each in spark_settings if each), {})  # for series in the bucket
    # Raw lines in a bucket are not counted here: with those a session for long series does no harm.
    series = [SeriesPaths(each) for each in series_dirs if SeriesPaths(each).runs.is_dir()]
    raw_bytes = 0 if simulates else session.SHORT_BYTES if settings else sum(each.raw_bytes() for each in series)
    if simulates or settings or any(each.has_avro() for each in series):
        settings = session.with_jar(settings, maven.avro_jar(cache_dir(), say))
    with session.shared_session(spark_master(), raw_bytes, settings) as spark:
        yield spark


def finish(series_dir: Path, say: Say) -> bool:
    """End an execution: send everything, list it in the index of all results, and return whether it was sent."""
    is_sent = store(series_dir, say)
    if is_sent:
        list_in_index(series_dir, say)
    return is_sent


def list_in_index(series_dir: Path, say: Say) -> None:
    """Write the index where the series is one of our results; print an error and go on."""
    if series_dir.absolute().is_relative_to(results_root()):
        try:
            write_index()
        except Exception as error:  # noqa: BLE001 - the measurements are safe; only the page that lists them is missing
            say(f"no index: {blame_of(error).replace('_', ' ')}: {message_of(error)}")


def store(series_dir: Path, say: Say) -> bool:
    """Send everything, let others write the series, and return whether that worked. Harmless if done before."""
    return _try_to_send(lambda: results_of(series_dir).end(series_dir), series_dir, say)


def write_index() -> Path:
    """Write `index.html` of all results, here and in the bucket; only small files of series elsewhere are read."""
    from analysis.report import index_page

    place = results()
    place.refresh()
    page = index_page.write(place.root, time.time())
    place.keep(page)
    return page


def _try_to_send(do: Callable[[], Any], series_dir: Path, say: Say) -> bool:
    try:
        do()
    except (StorageError, StorageConfigurationError) as error:
        say(f"not sent, kept in {series_dir} for the next chance: {blame_of(error)}: {message_of(error)}")
        return False
    return True
