"""Contestants of `bench/drains.py` that are processes of their own: from Kafka's topics into an empty lake.

python -m bench.streams stock|lean SERVERS LAKE LOG LIMIT TABLE…     (LIMIT 0: one batch; LAKE: a folder, or for ``stock`` a URI in
the object store that the environment leads to)
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame

from bench.contestants import STOCK, HandWritten, Lean
from bench.workload import DELTA_TABLE, arrow_schema
from ingest.config.lake_settings import Lake
from ingest.job import spark_session
from ingest.lake.files import object_store
from ingest.model.location import is_s3

LEAN_BATCH = 100_000
_DELTAS_OWN = {"spark.delta.logStore.s3a.impl": "io.delta.storage.S3SingleDriverLogStore"}


def main() -> None:
    contestant, servers, lake, log, limit, *tables = sys.argv[1:]
    if contestant == "lean":
        lean(servers, Path(lake), int(limit), tables)
    else:
        stock(servers, lake, Path(log), int(limit), tables)


def stock(servers: str, lake: str, log: Path, limit: int, tables: list[str]) -> None:
    """The hand-written streaming job, with Spark's and Delta's own settings."""
    conf, more = {**STOCK, spark_session.LOG_STORE: "io.delta.storage.HDFSLogStore"}, list[str]()
    if is_s3(lake):
        settings = {"path": lake, "storage": {"endpoint": os.environ["AWS_ENDPOINT_URL"]}}
        conf |= object_store.spark_settings(Lake.model_validate(settings)) | _DELTAS_OWN
        more = ["s3"]
    spark = spark_session.create(
        "stock", master="local[2]", driver_memory="2g", conf=conf, log=log, more=more
    )
    for table in tables:
        spark.sql(f"CREATE TABLE delta.`{lake}/d/{table}` ({DELTA_TABLE}) USING delta")
    job = HandWritten(spark, lake, {}, 1)
    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": ",".join(f"b.d.{table}" for table in tables),
        "startingOffsets": "earliest",
        **({"maxOffsetsPerTrigger": str(limit)} if limit else {}),
    }

    def apply(batch: DataFrame, _: int) -> None:
        batch.persist()
        for table in tables:
            job.merge(batch.sparkSession, batch, table)
        batch.unpersist()

    query = (
        spark.readStream.format("kafka")
        .options(**options)
        .load()
        .writeStream.foreachBatch(apply)
        .option("checkpointLocation", f"{lake}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


def lean(servers: str, lake: Path, limit: int, tables: list[str]) -> None:
    """Bare delta-rs behind confluent-kafka, batches of 100,000 (or ``limit``) messages."""
    for table in tables:
        empty = pa.Table.from_pylist([], schema=arrow_schema())
        write_deltalake(str(lake / "d" / table), empty)
        assert DeltaTable(str(lake / "d" / table)).version() == 0
    job, consumer = Lean(lake), _consumer(servers)
    topics = [f"b.d.{table}" for table in tables]
    consumer.subscribe(topics)
    ended: set[tuple[str, int]] = set()
    values: dict[str, list[bytes]] = {}
    while len(ended) < len(topics):
        for message in consumer.consume(10_000, timeout=1):
            _take(message, values, ended)
        if sum(map(len, values.values())) >= (limit or LEAN_BATCH):
            job.merge(values)
            values = {}
    job.merge(values)
    consumer.close()


def _take(message: Message, values: dict[str, list[bytes]], ended: set[tuple[str, int]]) -> None:
    failure = message.error()
    topic, partition, value = message.topic(), message.partition(), message.value()
    assert topic is not None
    assert partition is not None
    if failure is not None:
        if failure.code() != KafkaError._PARTITION_EOF:
            raise RuntimeError(failure.str())
        ended.add((topic, partition))
    elif value is not None:
        values.setdefault(topic.rpartition(".")[2], []).append(value)


def _consumer(servers: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "lean",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )


if __name__ == "__main__":
    main()
