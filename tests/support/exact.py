"""What a reader found, as values that are equal only to themselves (``values.exact``), and a topic's own bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import TopicPartition
from deltalake import DeltaTable, QueryBuilder

from ingest.config.pipeline_file import Pipeline
from ingest.kafka import broker
from ingest.model.names import RESERVED_COLUMN
from ingest.sample.values import exact


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """Each row by column name, without the reserved column."""
    names = [name for name in table.column_names if name != RESERVED_COLUMN]
    columns = [_exact(table[name]) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _exact(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_date32(kind):
        return pc.cast(column, pa.int32()).to_pylist()
    if pa.types.is_timestamp(kind):
        return pc.cast(column, pa.int64()).to_pylist()
    found = column.to_pylist()
    plain = pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_binary(kind)
    return found if plain else [exact(value) for value in found]


def by_delta_rs(path: Path | str, where: str = "true") -> pa.Table:
    """The rows of a table, as delta-rs reads it."""
    sql = f"SELECT * FROM t WHERE {where}"
    found = QueryBuilder().register("t", DeltaTable(path)).execute(sql)
    return pa.table(found.read_all())


def topic(pipeline: Pipeline, name: str) -> list[bytes]:
    """The values of all records of a topic's only partition."""
    ends = broker.end_offsets(pipeline, [name])
    consumer = broker.client(pipeline)
    place = TopicPartition(name, 0, 0)
    consumer.assign([place])
    found = []
    while consumer.position([place])[0].offset < ends[name, 0]:
        message = consumer.poll(1)
        if message is not None and not message.error() and message.value():
            found.append(message.value())
    consumer.close()
    return found
