"""Spark's JVM for several processes of tests, one after the other: each would start one, and it compiles all anew.

A process that finds PySpark's own variables in its environment uses the JVM that they name, with a session of its own.
It interprets expressions: of queries that are small and each asked once, compiling them is a quarter of the work.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MARK = "gateway"
JVM = f"""
import sys
from analysis import session
from tests.support.avro_jar import jars
from tests.support.session_of_tests import INTERPRETED
spark = session.spark("local[1]", settings=session.jar_settings(jars()) | INTERPRETED)
named = spark.sparkContext._gateway.java_parameters
spark.stop()
print("{MARK}", named.port, named.auth_token, flush=True)
sys.stdin.read()
"""


@contextmanager
def running() -> Iterator[dict[str, str]]:
    """The variables. The JVM ends with the block, and with this process however it ends."""
    with subprocess.Popen(
        [sys.executable, "-c", JVM], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            said = next((line.split() for line in process.stdout if line.startswith(MARK)), None)
            assert said is not None, "Spark did not start; its own words are above"
            yield {"PYSPARK_GATEWAY_PORT": said[1], "PYSPARK_GATEWAY_SECRET": said[2]}
        finally:
            process.stdin.close()
