"""A standalone Spark cluster on loopback: a master and two workers of one core, as processes of Spark's own."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from analysis.session import SHORT_OPTIONS
from tests.support.ports import free_port

SPARK = Path(pyspark.__file__).parent


@dataclass(frozen=True)
class Standalone:
    """A Spark cluster with its workers' folders `w1`, `w2`."""

    master: str
    folder: Path

    def executors(self) -> list[Path]:
        """What every executor that there was has left."""
        return list(self.folder.glob("w*/app-*/*"))


@contextmanager
def standalone(folder: Path) -> Iterator[Standalone]:
    """Its logs and its workers' folders are in `folder`. It ends with the block, and with this process."""
    port, log = free_port(), folder / "master.log"
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = ["org.apache.spark.deploy.worker.Worker", f"spark://127.0.0.1:{port}", "--host", "127.0.0.1"]
    with ExitStack() as stack:
        leader = stack.enter_context(daemon(log, *master))
        for number in (1, 2):
            place = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(folder / f"w{number}")]
            stack.enter_context(daemon(folder / f"worker-{number}.log", *worker, *place))
        await_line(log, "Registering worker", 2, leader)
        yield Standalone(f"spark://127.0.0.1:{port}", folder)


@contextmanager
def daemon(log: Path, *argv: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Spark's that ends with us, whatever happens; its executors end with it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m", "JDK_JAVA_OPTIONS": SHORT_OPTIONS}
    command = ["setpriv", "--pdeathsig", "TERM", str(SPARK / "bin" / "spark-class"), *argv]
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_line(log: Path, words: str, times: int, process: subprocess.Popen[bytes]) -> None:
    while log.read_text(errors="replace").count(words) < times:
        assert process.poll() is None, log.read_text(errors="replace")
        time.sleep(0.2)
