"""Tables of hostile values, each file of another range, made by each of the ways in which the pipeline commits."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from delta.tables import DeltaTable as Builder
from deltalake import DeltaTable
from pyspark.sql import Column as Spark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.engines.spark_engine import spark_merge
from ingest.maintenance import compaction
from ingest.maintenance.file_layout import Rewrite
from ingest.targets import mirror
from tests.outside.predicates import Column, Predicate
from tests.outside.values import KINDS, hostile
from tests.support.direct_lake import DirectLake

FILES, ROWS = 5, 6
_ARROW = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
APP = "ingest/p/c/d.t/mirror"


def columns(chance: random.Random) -> list[Column]:
    """One of each MySQL type. Row by row in order, so that each file has a range of its own; among them a NULL a file,
    and NULL alone in the last.
    """
    found = []
    for at, (mysql, kind) in enumerate(KINDS.items()):
        slots = (FILES - 1) * (ROWS - 1)
        drawn = hostile(mysql, chance, slots)
        values = iter([drawn[slot * len(drawn) // slots] for slot in range(slots)])
        rows = [
            None if file == FILES - 1 or row == 2 else next(values)
            for file in range(FILES)
            for row in range(ROWS)
        ]
        found.append(Column(f"c{at:02}", mysql, kind, rows))
    return found


def arrow_type(kind: str) -> pa.DataType:
    """Of a type of Delta's."""
    if found := re.fullmatch(r"decimal\((\d+),(\d+)\)", kind):
        return pa.decimal128(int(found[1]), int(found[2]))
    return _ARROW[kind]


def arrow_array(kind: str, texts: list[str | None]) -> pa.Array:
    """Values of a type of Delta's from their texts."""
    to: Callable[[str], Any] = str
    if kind == "binary":
        to = bytes.fromhex
    elif kind == "boolean":
        to = "true".__eq__
    elif kind.startswith("decimal"):
        to = Decimal
    elif kind in {"float", "double"}:
        to = float
    elif kind in {"byte", "short", "integer", "long"}:
        to = int
    elif kind != "string":
        held = pa.array(texts, pa.string())
        stamped = held.cast(pa.timestamp("us")) if kind != "date" else held
        return stamped.cast(_ARROW[kind]) if kind != "timestamp" else stamped.view(_ARROW[kind])
    return pa.array([None if one is None else to(one) for one in texts], arrow_type(kind))


@dataclass
class Made:
    """A table of these columns and ``id``, the row's number. ``names``: of columns that have other ones now."""

    path: Path
    columns: list[Column]
    names: dict[str, str] = field(default_factory=dict)

    def checkpoint(self) -> None:
        """As the pipeline makes it."""
        DeltaTable(self.path).create_checkpoint()


def direct(root: Path, held: list[Column], *, marks: bool) -> tuple[Made, DirectLake]:
    """By delta-rs: an append, keys that no file holds, MERGEs; or rows marked as deleted. Then files are as parted."""
    lake = DirectLake(root, {"id": pa.int64(), **{one.name: arrow_type(one.kind) for one in held}})
    ways = [
        lake.append,
        lake.add,
        lake.mark if marks else lake.merge,
        lake.mark if marks else lake.merge,
        lake.append,
    ]
    for file, way in enumerate(ways):
        rows = values(held, file)
        if way in (lake.merge, lake.mark):
            lake.append({**{name: [None] * ROWS for name in rows}, "id": rows["id"]})
        way(rows)
    return Made(lake.path, held), lake


def values(held: list[Column], file: int) -> dict[str, Any]:
    """Of the rows of one file, by column."""
    part = slice(file * ROWS, (file + 1) * ROWS)
    return {
        "id": [*range(part.start, part.stop)],
        **{one.name: arrow_array(one.kind, [*one.values[part]]) for one in held},
    }


def compacted(lake: DirectLake) -> None:
    """Files put in order by key: three of them."""
    files = compaction.files(lake.table, "id")
    rewrite = Rewrite(tuple(files), ROWS + 4, orders=True)
    assert compaction.compact(lake.table, rewrite, ["id"])
    lake.table.version()


class SparkLake:
    """A table that Spark writes as the pipeline does, each step a commit."""

    def __init__(self, spark: SparkSession, root: Path, held: list[Column]) -> None:
        self.spark, self._steps, self.held = spark, 0, held
        self.committer = Committer(1)
        kinds = {"id": pa.int64(), **{one.name: arrow_type(one.kind) for one in held}}
        self._like = DirectLake(root / "like", kinds)
        self.table = SparkTable(spark, str(root / "t"))
        schema = StructType.fromJson(json.loads(DeltaTable(self._like.path).schema().to_json()))
        made = Builder.createIfNotExists(spark).location(self.table.path)
        made.addColumns(schema).execute()

    def once(self, act: Callable[[], object]) -> None:
        """A commit with an identity of its own."""
        self._steps += 1
        assert self.committer.once(self.table, Identity(APP, self._steps, 1, ""), act)

    def again(self) -> None:
        """The last commit once more: it is there."""
        assert not self.committer.once(self.table, Identity(APP, self._steps, 1, ""), lambda: None)

    def frame(self, rows: dict[str, Any], op: str = "u") -> DataFrame:
        """Later changes than all before, in one file."""
        made = self.spark.createDataFrame(self._like.rows(rows, op)).coalesce(1)
        return made.to(self.table.frame().schema)

    def append(self, rows: dict[str, Any]) -> None:
        """A file more."""
        frame = self.frame(rows, "c")
        self.once(lambda: frame.write.format("delta").mode("append").save(self.table.path))

    def merge(self, rows: dict[str, Any]) -> None:
        """Spark's MERGE."""
        plan = mirror.mirror_plan(["id", *(one.name for one in self.held)], ["id"])
        self.once(lambda: spark_merge(self.table, self.frame(rows), plan))


def by_spark(spark: SparkSession, root: Path, held: list[Column]) -> tuple[Made, SparkLake]:
    """By Spark: appends and MERGEs. Then files are as parted."""
    lake = SparkLake(spark, root, held)
    for file in range(FILES):
        (lake.append if file % 2 else lake.merge)(values(held, file))
    return Made(Path(lake.table.path), held), lake


def by_name(frame: DataFrame, one: Predicate) -> Spark:
    """A predicate as Spark has it. Times by their text: Python takes none of the year 1 for Spark."""
    column, kind = F.col(one.column.name), frame.schema[one.column.name].dataType

    def literal(text: str) -> Spark:
        if one.column.kind == "string":
            return F.lit(text)
        if one.column.kind == "binary":
            return F.lit(bytearray(bytes.fromhex(text)))
        zone = "+00:00" if one.column.kind == "timestamp" else ""
        return F.lit(text + zone).cast(kind)

    values = [literal(text) for text in one.values]
    if one.op == "null":
        return column.isNull()
    if one.op == "in":
        return column.isin(*values)
    return {"=": column == values[0], "<": column < values[0], ">=": column >= values[0]}[one.op]
