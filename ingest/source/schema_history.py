"""Debezium's own memory of tables' columns: its schema-history topic, of which we write two things.

*That it is to forget a table.* A DDL of a table that is excluded is not kept there. So of one that is taken again Debezium
would know the columns of before: where their number has changed, the first change of it ends the task; where a type has, values
come out wrong (both seen). What it does not know it passes over (``Connector.passes_over``) until the table's definition is read.

*A definition that it has read, once more.* It writes what a blocking snapshot reads at a place one event behind the one where it
goes on, and takes in only what stands at or before the place where it begins. So a task that is restarted before the next
transaction of the source does not know the table any more (seen). The same words at the stored offset last.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition

from ingest.kafka import broker
from ingest.model.manifest import Place
from ingest.model.names import quoted
from ingest.model.topics import TableId
from ingest.source.connect_rest import Say
from ingest.source.connector import Connector, desired, is_snapshotting


def forget(connector: Connector, tables: Iterable[TableId], say: Say) -> None:
    """Has a connector forget these tables when its task starts the next time; nothing where it is to read all tables anyhow.
    What was forgotten already may be forgotten again. ``say``: as of :meth:`Connector.offset`.
    """
    offset = connector.offset(say)
    # A topic that is not there is not to be made: Debezium then says that it is missing.
    if offset is None or is_snapshotting(offset) or not _ends(connector):
        return
    _write(connector, [_dropped(connector.name, table, offset) for table in tables])


def keep(connector: Connector, tables: Iterable[TableId]) -> bool:
    """Has what the connector has read of these tables' definitions last; False while it is in a snapshot. It may be written
    any number of times.
    """
    offset = connector.offset()
    if offset is None or is_snapshotting(offset):
        return False
    wanted, found = {_id(table) for table in tables}, dict[str, dict[str, Any]]()
    for record in _records(connector) if _ends(connector) else ():
        for change in record.get("tableChanges") or ():
            if change["id"] in wanted:
                found[change["id"]] = {**record, "position": offset, "tableChanges": [change]}
    _write(connector, found.values())
    return True


def _topic(connector: Connector) -> str:
    return desired(connector.pipeline)["schema.history.internal.kafka.topic"]


def _ends(connector: Connector) -> Mapping[Place, int]:
    return broker.end_offsets(connector.pipeline, [_topic(connector)])


def _records(connector: Connector) -> Iterator[dict[str, Any]]:
    place = TopicPartition(_topic(connector), 0, 0)
    with closing(broker.client(connector.pipeline, broker.FOLLOWING)) as consumer:
        consumer.assign([place])
        try:
            for message in broker.unread(consumer, place):
                value = None if message.error() else message.value()
                if value:
                    yield json.loads(value)
        except KafkaException as failure:
            raise broker.away(connector.pipeline, failure) from None


def _write(connector: Connector, records: Iterable[Mapping[str, Any]]) -> None:
    producer = Producer(broker.connection(connector.pipeline), logger=broker.Silent())
    for record in records:
        value = json.dumps({**record, "ts_ms": int(time.time() * 1000)})
        producer.produce(_topic(connector), partition=0, value=value)
    producer.flush(10)


def _dropped(server: str, table: TableId, offset: Mapping[str, Any]) -> dict[str, Any]:
    """As Debezium writes a DROP. It takes in what stands at or before the place where it goes on, which is the stored offset or
    behind that.
    """
    return {
        "source": {"server": server},
        "position": offset,
        "databaseName": table.database,
        "ddl": f"DROP TABLE IF EXISTS {quoted(table.database)}.{quoted(table.name)}",
        "tableChanges": [{"type": "DROP", "id": _id(table), "table": None}],
    }


def _id(table: TableId) -> str:
    """A table as Debezium names it there."""
    return ".".join('"{}"'.format(n.replace('"', '""')) for n in (table.database, table.name))
