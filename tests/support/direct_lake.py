"""A table that delta-rs writes as the pipeline does, without Spark, a step a commit."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, Schema

from ingest.arrow.record_decoder import POSITION
from ingest.lake.delta.delta_log import commit_name
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.engines import merge_on_read
from ingest.maintenance import compaction
from ingest.maintenance.file_layout import Rewrite
from ingest.model.names import RESERVED_COLUMN, Marker, quoted_for_delta_rs
from ingest.targets import mirror

META = pa.struct(
    [("position", POSITION), ("op", pa.string()), ("committed_at", pa.timestamp("us", "UTC"))]
)
"""The reserved column of a table with a key, in Arrow."""


class DirectLake:
    """One table with these columns and the reserved one. ``key``: its first column."""

    def __init__(self, root: Path, columns: dict[str, pa.DataType], name: str = "t") -> None:
        self.path = root / name
        self.path.mkdir(parents=True)
        self.columns, self._steps, self._pos = columns, 0, 0
        schema = self.rows({name: [] for name in columns}).schema
        DeltaTable.create(self.path, Schema.from_arrow(schema))
        slow = cast("SparkTable", SimpleNamespace(path=str(self.path), folder=self.path))
        self.table = DeltaRsTable(slow, root / "scratch")

    def rows(self, values: dict[str, list[Any]], op: str = "c") -> pa.Table:
        """Later changes than all before."""
        count, meta = len(next(iter(values.values()))), list[dict[str, Any]]()
        for _ in range(count):
            self._pos += 1
            place = {"epoch": 0, "file": 1, "pos": self._pos, "row": 0, "part": int(op != "d")}
            meta.append({"position": place, "op": op, "committed_at": datetime.now(timezone.utc)})
        arrays = {name: pa.array(values[name], kind) for name, kind in self.columns.items()}
        return pa.table({**arrays, RESERVED_COLUMN: pa.array(meta, META)})

    @classmethod
    def of_batches(cls, root: Path, count: int) -> DirectLake:
        """A table of so many batches after its creation, each a version with a row: ids from 1 on."""
        made = cls(root, {"id": pa.int32(), "v": pa.string()})
        for number in range(1, count + 1):
            made.append({"id": [number], "v": ["x"]})
        return made

    def step(self, act: Callable[[], Any]) -> Any:
        """What is committed inside has an identity of its own."""
        self._steps += 1
        self.table.version()
        with self.table.identified("ingest/p/c/d.t/mirror", Marker(1, self._steps, 3).version, ""):
            return act()

    def append(self, values: dict[str, list[Any]]) -> None:
        """A file more."""
        self.step(lambda: self.table.append(self.rows(values)))

    def add(self, values: dict[str, list[Any]]) -> None:
        """A file more, as of keys that no file holds."""
        assert self.step(lambda: self.table.add(self.rows(values)))

    def merge(self, values: dict[str, list[Any]], op: str = "u") -> None:
        """Files that the keys reach are written anew."""
        key = [next(iter(self.columns))]
        plan = mirror.mirror_plan([*self.columns], key, quoted_for_delta_rs)
        prune = key if pa.types.is_integer(self.columns[key[0]]) else []
        self.step(lambda: self.table.merge(self.rows(values, op), plan, prune=prune))

    def mark(self, values: dict[str, list[Any]]) -> None:
        """Rows are marked as deleted and written anew."""
        rows, key = self.rows(values, "u"), [next(iter(self.columns))]
        assert self.step(
            lambda: merge_on_read.mark(self.table, mirror.Mirror(), rows, key, always=True)
        )

    def compact(self) -> None:
        """All files become one."""
        files = compaction.files(self.table, None)
        rewrite = Rewrite(tuple(files), sum(one.rows for one in files), orders=False)
        assert compaction.compact(self.table, rewrite, [next(iter(self.columns))])
        self.table.version()

    def bounds(self, column: str) -> list[tuple[Any, Any]]:
        """Of each live file, as its log entry has them."""
        said = (json.loads(one.add["stats"]) for one in self.table.state.files.values())
        return [
            (one.get("minValues", {}).get(column), one.get("maxValues", {}).get(column))
            for one in said
        ]

    def count(self, where: str) -> int:
        """Rows that a reader finds which passes files over: delta-rs."""
        found = QueryBuilder().register("t", DeltaTable(self.path))
        sql = f"SELECT count(*) AS n FROM t WHERE {where}"
        return int(pa.table(found.execute(sql).read_all())["n"][0].as_py())

    def values(self, column: str) -> set[Any]:
        """All that is there, without NULL."""
        found = QueryBuilder().register("t", DeltaTable(self.path))
        got = pa.table(found.execute(f"SELECT {column} FROM t").read_all())
        return {*got[column].to_pylist()} - {None}

    def entry(self, version: int) -> Path:
        """Of the log."""
        return self.path / commit_name(version)

    def files_of(self, version: int) -> list[Path]:
        """Those that this version has added."""
        lines = map(json.loads, self.entry(version).read_text().splitlines())
        return [self.path / line["add"]["path"] for line in lines if "add" in line]

    def log(self) -> bytes:
        """All commits."""
        return b"".join(one.read_bytes() for one in sorted(self.path.glob("_delta_log/*.json")))
