"""Tables of one shape and seeded changes to them, as Debezium writes them; and what they come to."""

from __future__ import annotations

import random
import shutil
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ingest.lake.delta.delta_log import commit_name
from ingest.lake.delta.spark_table import SparkTable
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.catalog import SchemaVersion
from ingest.schema.mysql_types import Column
from ingest.targets import mirror
from ingest.testing.debezium import Operation, change_record, described, schema_record

At = Path | str
"""A folder of a lake: on this machine's disk, or a URI in an object store."""
COLUMNS = ("id", "customer", "amount", "status", "note", "changed")
SPARK_ROW = "struct<id: bigint, customer: int, amount: double, status: string, note: string, changed: bigint>"
DELTA_TABLE = "id bigint, customer int, amount double, status string, note string, changed bigint"
MYSQL_TABLE = "id BIGINT PRIMARY KEY, customer INT, amount DOUBLE, status VARCHAR(20), note VARCHAR(80), changed BIGINT"
_MYSQL = ("BIGINT NOT NULL", "INT", "DOUBLE", "VARCHAR(20)", "VARCHAR(80)", "BIGINT")
_NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
_START = 1000  # byte position of the state that the tables begin with


def arrow_schema(*, op: bool = False) -> pa.Schema:
    """The columns of a row; with ``op`` that of the change."""
    kinds = [pa.int64(), pa.int32(), pa.float64(), pa.string(), pa.string(), pa.int64()]
    fields = list(zip(COLUMNS, kinds, strict=True))
    return pa.schema([*fields, *([("op", pa.string())] if op else [])])


Keys = Literal["uniform", "zipf", "recent"]
RECENT = 20_000


@cache
def _zipf(rows: int) -> tuple[list[float], list[int]]:
    """How often the first n keys come together, for each n; and the keys in the order of how often."""
    order = list(range(rows))
    random.Random(rows).shuffle(order)
    return list(accumulate((n + 1) ** -0.99 for n in range(rows))), order


@dataclass
class Workload:
    """``tables`` tables of ``rows`` rows, and batches of ``changes`` changes to each: 20 inserts (``inserts``),
    60 updates and 20 deletes in a hundred. ``keys`` of the latter two: any alike (uniform); the n-th of a shuffled order as
    often as 1 / n^0.99 (zipf, as YCSB has it); one of the newest :data:`RECENT` (recent).
    """

    tables: int
    rows: int
    changes: int
    seed: int = 20261122
    keys: Keys = "uniform"
    inserts: float = 0.2
    prefix: str = "t"
    _state: list[dict[int, dict[str, Any] | None]] = field(default_factory=list)
    """What batches made of the keys that they touched."""
    _position: int = _START
    _offset: int = 0

    @property
    def names(self) -> list[str]:
        """The tables."""
        return [f"{self.prefix}{index:03d}" for index in range(self.tables)]

    def schema_records(self) -> list[dict[str, Any]]:
        """What the schema-change topic holds."""
        return [
            schema_record(TableId("d", name), Position(0, 1, _START), _columns(), ["id"])
            for name in self.names
        ]

    def fill(self, session: SparkSession, folder: At, *, ours: bool) -> None:
        """Write the tables as they are at the beginning, in key order, a file per half million rows.

        Spark writes the first one; the others are copies of its files and commits (ours but for the first
        commit, which says whose table it is): three hundred tables in seconds. In an object store there is one table alone.
        """
        rows = session.range(self.rows).select(*_first_row())
        rows = rows.repartitionByRange(max(1, self.rows // 500_000), "id").sortWithinPartitions(
            "id"
        )
        if ours:
            place = f"named_struct('epoch', 0, 'file', 1, 'pos', {_START}, 'row', 0, 'part', 1)"
            meta = f"named_struct('position', {place}, 'op', 'r', 'committed_at', timestamp'2026-01-01')"
            rows = rows.withColumn("_ingest", F.expr(f"CAST({meta} AS {mirror.META_TYPE})"))
        first, *others = (f"{folder}/d/{name}" for name in self.names)
        if ours:
            place = f"named_struct('epoch', 0, 'file', 1, 'pos', {_START}, 'row', 0, 'part', 1)"
            meta = f"named_struct('position', {place}, 'op', 'r', 'committed_at', timestamp'2026-01-01')"
            rows = rows.withColumn("_ingest", F.expr(f"CAST({meta} AS {mirror.META_TYPE})"))
            SparkTable(session, first).create(version(self.names[0]), ("id",))
        rows.write.format("delta").mode("append").save(first)
        own = shutil.ignore_patterns(Path(commit_name(0)).name, "*.crc") if ours else None
        for name, other in zip(self.names[1:], others, strict=True):
            if ours:
                SparkTable(session, other).create(version(name), ("id",))
            shutil.copytree(first, other, ignore=own, dirs_exist_ok=True)

    def batch(self, file: Path) -> Path:
        """The next batch's messages, as a Parquet file."""
        rng = random.Random(f"{self.seed} {self._offset}")
        if not self._state:
            self._state = [{} for _ in range(self.tables)]
        messages = []
        for index, name in enumerate(self.names):
            for n in range(self.changes):
                self._position += 100
                messages.append(self._change(rng, index, name, self._offset + n))
        self._offset += self.changes
        names = ("topic", "partition", "offset", "timestamp", "key", "value", "run")
        kinds = [pa.string(), pa.int32(), pa.int64(), pa.timestamp("us", "UTC"), pa.binary()]
        schema = pa.schema(list(zip(names, [*kinds, pa.binary(), pa.string()], strict=True)))
        pq.write_table(pa.Table.from_pylist(messages, schema=schema), file)
        return file

    def _change(self, rng: random.Random, index: int, name: str, offset: int) -> dict[str, Any]:
        state, kind = self._state[index], rng.random()
        key = self.rows + offset if kind < self.inserts else self._drawn(rng, offset)
        before = state[key] if key in state else (_plain(key) if key < self.rows else None)
        after: dict[str, Any] | None = {
            **_plain(key),
            "amount": rng.random(),
            "note": f"n{rng.random()}",
            "changed": offset,
        }
        op: Operation = "c" if before is None else "u"
        if kind >= max(0.8, self.inserts) and before is not None:
            op, after = "d", None
        state[key] = after
        record = change_record(
            f"b.d.{name}",
            op,
            Position(0, 1, self._position),
            key={"id": key},
            before=before,
            after=after,
            gtid=f"uuid:{self._position}",
        )
        return {**vars(record), "offset": offset, "timestamp": _NOW}

    def _drawn(self, rng: random.Random, offset: int) -> int:
        if self.keys == "uniform":
            return rng.randrange(self.rows)
        if self.keys == "recent":
            newest = self.rows + offset
            return rng.randrange(max(0, newest - RECENT), newest)
        often, order = _zipf(self.rows)
        return order[min(bisect(often, rng.random() * often[-1]), self.rows - 1)]

    def expected(self, index: int) -> tuple[int, dict[int, dict[str, Any]]]:
        """(rows, the touched ones that are there) of a table after all batches."""
        touched = self._state[index] if self._state else {}
        gone = sum(1 for key, row in touched.items() if row is None and key < self.rows)
        new = sum(1 for key, row in touched.items() if row is not None and key >= self.rows)
        return self.rows - gone + new, {k: row for k, row in touched.items() if row is not None}


def rows_in_order(table: At, names: Sequence[str] = COLUMNS) -> pa.Table:
    """These columns of a table, by key."""
    sql = f"SELECT {', '.join(names)} FROM rows ORDER BY id"
    found = pa.table(QueryBuilder().register("rows", DeltaTable(table)).execute(sql).read_all())
    known = {field.name: field for field in arrow_schema()}
    fields = [known.get(name, found.schema.field(name)) for name in names]
    return found.cast(pa.schema(fields))  # from views of texts, which Arrow cannot filter


def _plain(key: int) -> dict[str, Any]:
    values = (key, key % 1000, key / 8, "new", f"note of {key}", 0)
    return dict(zip(COLUMNS, values, strict=True))


def _first_row() -> list[Any]:
    texts = (
        "id",
        "CAST(id % 1000 AS INT) AS customer",
        "id / 8 AS amount",
        "'new' AS status",
        "concat('note of ', id) AS note",
        "CAST(0 AS BIGINT) AS changed",
    )
    return [F.expr(text) for text in texts]


def _columns() -> list[dict[str, Any]]:
    """As the schema-change topic has them."""
    return [described(name, kind) for name, kind in zip(COLUMNS, _MYSQL, strict=True)]


def version(name: str) -> SchemaVersion:
    """What the schema-change topic says of a table."""
    columns = tuple(map(Column.from_json, _columns()))
    return SchemaVersion(TableId("d", name), Position(0, 1, _START), "CREATE", columns, ("id",), "")
