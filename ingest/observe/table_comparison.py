"""Tables on both sides: hashes of their rows, summed per bucket of the key, and which keys differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pymysql.cursors import Cursor
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.model.names import RESERVED_COLUMN, quoted
from ingest.model.topics import TableId
from ingest.observe import fingerprint
from ingest.observe.verdict import (
    MOST_EXAMPLES,
    BucketSums,
    Difference,
    TableResult,
    compare_rows,
    differing_buckets,
)
from ingest.schema.mysql_types import Column, UnknownType, column_type

MOST_BUCKETS = 64
"""So many differing buckets of a table are fetched row by row, a quarter of it; then counting
stops."""

TOO_LARGE = (
    "not compared: MySQL's max_allowed_packet is too small to hash one of its rows; "
    "raise it (SET GLOBAL max_allowed_packet = 1073741824) and audit again"
)
"""MySQL makes NULL of a text beyond it, and only warns of that."""


@dataclass(frozen=True)
class ComparedTable:
    """A table of the source, and what it is compared with."""

    table: TableId
    columns: tuple[Column, ...]
    key: tuple[Column, ...]
    path: str
    version: int | None
    """Version of the lake's table that is compared; None when the lake has none."""
    live: str
    """The condition for rows of the lake's table that count."""
    outlives: bool
    """True where rows stay in the lake that the source no longer has."""
    note: str = ""
    """What a policy has to do with it."""

    @property
    def name(self) -> str:
        """As results have it."""
        return str(self.table)


@dataclass(frozen=True)
class Comparison:
    """Compares tables within MySQL's open snapshot, which is behind ``cursor``."""

    session: SparkSession
    cursor: Cursor

    def results(self, tables: Sequence[ComparedTable]) -> Iterable[TableResult]:
        """One of each table, in order."""
        lake = self._lake_sums([table for table in tables if not _unread(table)])
        for table in tables:
            why = _unread(table)
            source = None if why else _source_sums(self.cursor, table)
            if source is None:
                # Not looked at is not equal, however many rows there are.
                rows = _count(self.cursor, table)
                yield TableResult(
                    table.name, rows, 0, max(rows, 1), at_least=True, note=why or TOO_LARGE
                )
            else:
                yield self._result(table, source, lake.get(table.name, {}))

    def _result(self, table: ComparedTable, source: BucketSums, lake: BucketSums) -> TableResult:
        buckets = differing_buckets(source, lake)
        differences: list[Difference] = []
        kept: list[Difference] = []
        # Compared whole where rows outlive the source: wherever that was purged, buckets differ.
        most = len(buckets) if table.outlives else MOST_BUCKETS
        if buckets:
            fetched = buckets[:most]
            differences = compare_rows(
                _source_rows(self.cursor, table, fetched), self._lake_rows(table, fetched)
            )
        if table.outlives:
            kept = [one for one in differences if one.found == "only in the lake"]
            differences = [one for one in differences if one.found != "only in the lake"]
        return TableResult(
            name=table.name,
            source_rows=sum(rows for rows, _, _ in source.values()),
            lake_rows=sum(rows for rows, _, _ in lake.values()),
            differences=len(differences),
            examples=tuple(differences[:MOST_EXAMPLES]),
            at_least=len(buckets) > most,
            kept=len(kept),
            note=table.note,
        )

    def _lake_sums(self, tables: list[ComparedTable]) -> dict[str, BucketSums]:
        """Bucket sums of all lake tables, in one Spark job."""
        parts = [self._lake_part(table) for table in tables if table.version is not None]
        if not parts:
            return {}
        found: dict[str, dict[int, tuple[int, int, int]]] = {}
        for row in reduce(DataFrame.unionAll, parts).collect():
            found.setdefault(row.name, {})[row.bucket] = (row.rows, int(row.first), int(row.second))
        return dict(found)

    def _lake_part(self, table: ComparedTable) -> DataFrame:
        first, second = fingerprint.spark_halves(fingerprint.spark_row(table.columns))
        return (
            lake_frame(self.session, table)
            .select(
                fingerprint.spark_bucket(table.key).alias("bucket"),
                first.alias("first"),
                second.alias("second"),
            )
            .groupBy(F.lit(table.name).alias("name"), "bucket")
            .agg(
                F.count("*").alias("rows"),
                F.sum("first").alias("first"),
                F.sum("second").alias("second"),
            )
        )

    def _lake_rows(self, table: ComparedTable, buckets: list[int]) -> list[tuple[str, str]]:
        if table.version is None:
            return []
        key = [fingerprint.spark_text(column) for column in table.key]
        digest = fingerprint.spark_digest(fingerprint.spark_row(table.columns))
        rows = (
            lake_frame(self.session, table)
            .filter(fingerprint.spark_bucket(table.key).isin(buckets))
            .select(F.array(*key).alias("key"), digest.alias("digest"))
            .collect()
        )
        return [(_shown_key(table.key, row.key), row.digest) for row in rows]


def lake_frame(session: SparkSession, table: ComparedTable) -> DataFrame:
    """The rows that count of the table at its version; a column that the lake lacks reads as NULL."""
    frame = (
        session.read.format("delta").option("versionAsOf", table.version).load(table.path)
    ).filter(table.live)
    present = set(frame.columns) - {RESERVED_COLUMN}
    for column in table.columns:
        if column.name not in present:
            missing = F.lit(None).cast(column_type(column).delta)
            frame = frame.withColumn(column.name, missing)
    return frame


def _unread(table: ComparedTable) -> str:
    """Why a table cannot be compared, as it is set aside (``set_aside``); empty where it can."""
    for column in table.columns:
        try:
            column_type(column)
        except UnknownType as unknown:
            return f"set aside: {unknown}"
    return ""


def _count(cursor: Cursor, table: ComparedTable) -> int:
    cursor.execute(f"SELECT COUNT(*) FROM {_qualified(table.table)}")
    row = cursor.fetchone()
    return int(row[0]) if row else 0


def _source_sums(cursor: Cursor, table: ComparedTable) -> BucketSums | None:
    """None where MySQL could not hash a row: its text, or its key's, is NULL then."""
    first, second = fingerprint.mysql_halves("r")
    cursor.execute(
        f"SELECT b, COUNT(*), SUM({first}), SUM({second}), COUNT(r) FROM "
        f"(SELECT {fingerprint.mysql_bucket(table.key)} AS b, "
        f"{fingerprint.mysql_row(table.columns)} AS r FROM {_qualified(table.table)}) AS q "
        "GROUP BY b"
    )
    found = cursor.fetchall()
    if any(b is None or hashed < n for b, n, _, _, hashed in found):
        return None
    return {int(b): (int(n), int(one), int(two)) for b, n, one, two, _ in found}


def _source_rows(cursor: Cursor, table: ComparedTable, buckets: list[int]) -> list[tuple[str, str]]:
    key = ", ".join(fingerprint.mysql_shown(column) for column in table.key)
    listed = ", ".join(str(bucket) for bucket in buckets)
    cursor.execute(
        f"SELECT {fingerprint.mysql_digest(fingerprint.mysql_row(table.columns))}, {key} "
        f"FROM {_qualified(table.table)} WHERE {fingerprint.mysql_bucket(table.key)} IN ({listed})"
    )
    return [(_shown_key(table.key, row[1:]), str(row[0])) for row in cursor.fetchall()]


def _qualified(table: TableId) -> str:
    return f"{quoted(table.database)}.{quoted(table.name)}"


def _shown_key(key: tuple[Column, ...], values: Iterable[Any]) -> str:
    pairs = zip(key, values, strict=True)
    return ", ".join(f"{c.name}={'NULL' if v is None else v}" for c, v in pairs)
