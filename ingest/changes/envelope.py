"""Debezium's envelope, the same for all tables: Kafka records to changes, whose row images stay JSON text.

No record is dropped but those without a value: what cannot be read carries a ``reason``, and its raw bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ingest.model import position, reasons
from ingest.model.epochs import Epoch
from ingest.schema import steps

ENVELOPE = (
    "before string, after string, op string, "
    "source struct<db: string, table: string, file: string, pos: bigint, row: int, "
    "snapshot: string, ts_us: bigint, gtid: string>, _corrupt string"
)
"""The part of Debezium's envelope that is read; row images as the JSON text they are."""

OPERATIONS = ("c", "r", "u", "d", "t")
"""create, read (a snapshot row), update, delete, truncate."""

ANY_LENGTH = {"maxStringLen": str(2**31 - 1)}
"""Spark's JSON reader refuses strings beyond 20 million characters by default; a LONGTEXT may have more."""

PLACE = ("topic", "partition", "offset")
"""Where a record lies in Kafka."""

_RAW = (*PLACE, "key", "value", "timestamp", "run")


def changes(records: DataFrame, epochs: Sequence[Epoch] = ()) -> DataFrame:
    """Kafka records to changes, one row each, null records left out.

    In: ``topic string, partition int, offset bigint, key binary, value binary, timestamp, run
    string`` (the connector run that wrote it, from the record's header); of records that wait in quarantine ``batch_id``, too.
    Out: the same, plus ``database, table, op, position, committed_at timestamp, gtid string,
    snapshot string, reading string, before string, after string, key_json string, reason string``. ``reason`` is
    null for a readable change; ``position`` is never null then. ``reading``: of a snapshot's row, which reading of the table
    it is of (``Attempt``); null for all others, those of incremental snapshots among them.
    """
    read = _envelope(records.sparkSession.sparkContext.applicationId)
    waits = "batch_id" in records.columns
    place = F.struct(_epoch(epochs, waits=waits).alias("epoch"), *read.place).alias("position")
    found = records.filter(F.col("value").isNotNull()).withColumn("envelope", read.parsed)
    return found.select(*_RAW, *read.subject, place, *read.rest)


@dataclass(frozen=True)
class _Envelope:
    """``parsed`` from a record's value; the others from it, where it stands as ``envelope``: ``database, table,
    op``, the position without its epoch, and what comes behind it.
    """

    parsed: Column
    subject: tuple[Column, ...]
    place: tuple[Column, ...]
    rest: tuple[Column, ...]


@lru_cache(maxsize=2)
def _envelope(_application: str) -> _Envelope:
    """Python takes longer to build the columns than Spark to read a small batch with them, so they are kept.
    They belong to one JVM, the application's.
    """
    text = F.col("value").cast("string")
    envelope = F.from_json(text, ENVELOPE, {**ANY_LENGTH, "columnNameOfCorruptRecord": "_corrupt"})
    source = F.col("envelope.source")
    operation = F.col("envelope.op")
    file_number = F.regexp_extract(source["file"], r"\.(\d+)$", 1).try_cast("bigint")
    reread = (operation == "r") & (source["snapshot"] == "incremental")
    part = (
        F.when(operation == "d", position.PART_DELETE)
        .when(reread, position.PART_REREAD)
        .otherwise(position.PART_WRITE)
    )
    return _Envelope(
        envelope,
        (source["db"].alias("database"), source["table"].alias("table"), operation.alias("op")),
        (
            file_number.alias("file"),
            source["pos"].alias("pos"),
            F.coalesce(source["row"], F.lit(0)).alias("row"),
            part.alias("part"),
        ),
        (
            F.timestamp_micros(source["ts_us"]).alias("committed_at"),
            source["gtid"].alias("gtid"),
            source["snapshot"].alias("snapshot"),
            F.when((operation == "r") & ~F.coalesce(reread, F.lit(False)), _reading(source)).alias(
                "reading"
            ),
            F.col("envelope.before").alias("before"),
            F.col("envelope.after").alias("after"),
            F.col("key").cast("string").alias("key_json"),
            _envelope_reason(source, operation, file_number).alias("reason"),
        ),
    )


def _reading(source: Column) -> Column:
    """As ``steps.reading`` has it."""
    run = F.coalesce("run", F.lit(""))
    named = F.concat(run, F.lit(steps.READ_AT), source["ts_us"].cast("string"))
    return F.coalesce(named, run)


def _epoch(epochs: Sequence[Epoch], *, waits: bool = False) -> Column:
    """The epoch of a record, from its place in Kafka: the newest that had begun there. Of one that ``waits``, as that was when it was set aside."""
    found = F.lit(0)
    for epoch in sorted(epochs, key=lambda each: each.number):
        start = F.lit(0).cast("bigint")
        for (topic, partition), offset in sorted(epoch.starts.items()):
            here = (F.col("topic") == topic) & (F.col("partition") == partition)
            start = F.when(here, F.lit(offset).cast("bigint")).otherwise(start)
        for was in reversed(epoch.moved) if waits else ():
            here = (F.col("topic") == was.place[0]) & (F.col("partition") == was.place[1])
            since = here & (F.col("batch_id") <= was.batch)
            start = F.when(since, F.lit(was.start).cast("bigint")).otherwise(start)
        found = F.when(F.col("offset") >= start, epoch.number).otherwise(found)
    return found.cast("int")


def _envelope_reason(source: Column, operation: Column, file_number: Column) -> Column:
    before, after = F.col("envelope.before"), F.col("envelope.after")
    return (
        F.when(~F.is_valid_utf8(F.col("value").cast("string")), reasons.NOT_UTF8.says)
        .when(
            F.col("envelope").isNull() | F.col("envelope._corrupt").isNotNull(),
            reasons.NOT_AN_ENVELOPE.says,
        )
        .when(
            source["db"].isNull()
            | source["table"].isNull()
            | source["pos"].isNull()
            | file_number.isNull(),
            reasons.NO_POSITION.says,
        )
        .when(
            operation.isNull() | ~operation.isin(*OPERATIONS),
            reasons.UNKNOWN_OPERATION.says,
        )
        .when(operation.isin("c", "r", "u") & after.isNull(), reasons.NO_AFTER.says)
        .when(operation.isin("u", "d") & before.isNull(), reasons.NO_BEFORE.says)
    )
