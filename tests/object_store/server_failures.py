"""What Spark throws of an object store that does not answer as it should: which of it is taken for the store's, and which for a table's own.

    python -m tests.object_store.server_failures

A table is read and written by Spark, in a process with this project's settings, through a proxy that does to answers what servers and
networks do. Prints, as JSON, for each fault and each place where it comes: whether the failure is everybody's, and what it is called.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ingest.config.lake_settings import Lake
from ingest.job import spark_session
from ingest.job.stream_failure import is_everybodys
from ingest.lake.files import object_store
from ingest.lake.files.hadoop_files import failed
from tests.support import faulty_http, s3
from tests.support.cold import CONF
from tests.support.faulty_http import Fault, Faulty

ROOT = f"s3a://{s3.BUCKET}/failures"
AT_ONCE = {
    "spark.hadoop.fs.s3a.attempts.maximum": "1",
    "spark.hadoop.fs.s3a.retry.limit": "1",
    "spark.hadoop.fs.s3a.retry.interval": "10ms",
    "spark.hadoop.fs.s3a.retry.throttle.limit": "1",
    "spark.hadoop.fs.s3a.retry.throttle.interval": "10ms",
}
"""What Hadoop tries again for minutes fails at once."""
FAULTS: Sequence[Fault] = ("busy", "lost", "denied", "expired")
PLACES = {
    "look": ("HEAD", ""),
    "list": ("GET", "list-type"),
    "read": ("GET", ".parquet"),
    "commit": ("PUT", "_delta_log"),
}
"""By which requests: method, and a part of the path."""

Told = tuple[bool, str]


def by_faults(spark: SparkSession, faulty: Faulty) -> Iterator[tuple[str, Told]]:
    table = f"{ROOT}/t"
    spark.range(5).write.format("delta").save(table)
    acts: dict[str, Callable[[], Any]] = {
        "write": lambda: spark.range(1).write.format("delta").mode("append").save(table),
        "read": lambda: spark.read.format("delta").load(table).collect(),
    }
    for fault in FAULTS:
        for place, (method, part) in PLACES.items():
            if (fault, place) == ("lost", "commit"):
                continue  # the log store sees that it was made

            def struck(asked: str, path: str, at: Any = (method, part, fault)) -> Fault:
                return at[2] if asked == at[0] and at[1] in path else "none"

            faulty.fault = struck
            yield f"{fault} at {place}", told(acts["read" if place == "read" else "write"])
            faulty.fault = lambda method, path: "none"


def refused(spark: SparkSession, faulty: Faulty) -> Iterator[tuple[str, Told]]:
    """Reading a table that is denied alone, and one in a lake that is."""
    table = f"{ROOT}/archived"
    spark.range(5).write.format("delta").save(table)
    for whose, part in {"one table": "failures/archived", "all": ""}.items():
        faulty.fault = lambda method, path, part=part: "denied" if part in path else "none"
        yield (
            f"denied of {whose}",
            told(lambda: spark.read.format("delta").load(table).collect(), alone=True),
        )
        faulty.fault = lambda method, path: "none"


def others(spark: SparkSession, store: s3.S3) -> Iterator[tuple[str, Told]]:
    conf = spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    conf.set("fs.s3a.bucket.tls.endpoint", store.endpoint.replace("http:", "https:"))
    conf.set("fs.s3a.bucket.tls.connection.ssl.enabled", "true")
    for name in ("tls", "no-such-bucket"):
        of = f"s3a://{name}/t"
        yield name, told(lambda of=of: spark.read.format("delta").load(of).collect())


def of_the_table(spark: SparkSession, store: s3.S3) -> Iterator[tuple[str, Told]]:
    for name, spoil in {
        "gone": lambda file: file.unlink(),
        "cut off": lambda file: file.write_bytes(file.read_bytes()[:40]),
    }.items():
        table = f"{ROOT}/{name.replace(' ', '-')}"
        spark.range(0, 1000, 1, 1).write.format("delta").save(table)
        below = store.bucket / "failures" / table.rpartition("/")[2]
        for file in below.glob("*.parquet"):
            spoil(file)
        yield name, told(lambda of=table: spark.read.format("delta").load(of).collect())


def told(act: Callable[[], Any], *, alone: bool = False) -> Told:
    """Whether such a failure is everybody's, and the code that it gets. ``alone``: where the store is asked whether it lets us in, too."""
    try:
        act()
    except Exception as failure:  # noqa: BLE001 - whichever it is
        error = failed(ROOT, failure)
        return is_everybodys(failure, ROOT if alone else ""), error.code if error else ""
    raise AssertionError("nothing failed")


def found(folder: Path) -> dict[str, Told]:
    store = s3.start(folder / "s3")
    try:
        with faulty_http.before(store.port) as faulty:
            lake = Lake.model_validate({"path": ROOT, "storage": store.storage(faulty.endpoint)})
            object_store.lend(lake)
            spark = spark_session.create(
                "failures",
                master="local[2]",
                driver_memory="1g",
                conf={**CONF, **AT_ONCE, **object_store.spark_settings(lake)},
                log=folder / "spark.log",
                more=["s3"],
            )
            try:
                came = dict(by_faults(spark, faulty))
                came |= dict(refused(spark, faulty))
                came |= dict(others(spark, store))
                return came | dict(of_the_table(spark, store))
            finally:
                spark.stop()
    finally:
        store.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder
        print(json.dumps(found(Path(folder))))
