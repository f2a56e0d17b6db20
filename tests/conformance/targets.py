"""What the conformance suite runs on: the model, and the real thing (Spark and Delta).

Both take a history batch by batch and show their content; only the second can crash. Its change log is in memory
(`ingest.testing.lake`), since no Kafka can be told to repeat and interleave at will; everything behind it is the job's
own: `Batches`, the committer, the tables, the manifest.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from ingest.batch import change_logs, micro_batch, side_by_side, table_applier
from ingest.lake.delta import workspace
from ingest.lake.delta.delta_sql import queried
from ingest.maintenance import compaction, file_layout, schedule
from ingest.model.manifest import Place
from ingest.model.position import Position
from ingest.model.specification import Row, row
from ingest.model.topics import TableId
from ingest.schema.change_log import IMAGES, LogColumns
from ingest.targets import registry
from ingest.targets.target import Target, dead_rows, live_rows
from ingest.testing import debezium
from ingest.testing.debezium import NEW_YEAR, change_record, described, schema_record
from ingest.testing.lake import Lake, RecordLog
from tests.conformance.histories import History, Record
from tests.conformance.shapes import found, written
from tests.support import exact
from tests.support.binlog import PlainLog

ENGINE = os.environ.get("INGEST_MERGE_ENGINE", "auto")
_OPERATIONS = {"insert": "c", "update": "u", "delete": "d", "truncate": "t", "read": "r"}


@contextmanager
def eager_upkeep() -> Iterator[None]:
    """Tables are put in order after nearly every batch, which else takes many."""
    with (
        patch.object(schedule, "LOOK_EVERY", 1),
        patch.multiple(file_layout, MANY_SMALL=2, WORTH=0),
    ):
        yield


class Crash(BaseException):
    """The job dies here."""


class ModelTarget:
    """A target's specification, fed batch by batch. ``target``: one of the registry; None: the default."""

    def __init__(self, history: History, target: Target | None = None) -> None:
        self._history = history
        self._target = target or registry.noted({}, keyed=history.keyed)
        self._ends = [0] * history.partitions

    def take(self, ends: list[int], crash: str | None = None) -> None:
        self._ends = ends

    def settle(self) -> None:
        """All is delivered."""

    def content(self) -> Counter[Row]:
        pairs = zip(self._history.records, self._ends, strict=True)
        changes = (r.change for records, end in pairs for r in records[:end])
        return self._target.holds(changes, self._history.snapshots[-1]).live


class MemoryLog(RecordLog):
    """Drawn histories, a table each."""

    def __init__(self, session: SparkSession, histories: Sequence[History]) -> None:
        super().__init__(session)
        self.histories = histories
        for index, history in enumerate(histories):
            for position in sorted(set(history.snapshots)):
                self.define(created(f"t{index}", position, history))

    def between(self, place: Place, start: int, end: int) -> Sequence[debezium.Record]:
        topic, partition = place
        history = self.histories[int(topic.removeprefix("h.d.t"))]
        return [written_to(topic, one) for one in history.records[partition][start:end]]

    def ends(self, topics: Sequence[str] | None = None) -> Mapping[Place, int]:
        return {
            (f"h.d.t{index}", p): len(records)
            for index, history in enumerate(self.histories)
            for p, records in enumerate(history.records)
            if topics is None or f"h.d.t{index}" in topics
        }


class SparkTarget(Lake):
    """The job on real Delta tables, in a lake of its own: one table per history."""

    log: MemoryLog

    def __init__(
        self, session: SparkSession, folder: Path, *histories: History, **more: Any
    ) -> None:
        engine = {"parallel_tables": 1, "merge_engine": ENGINE, **more.pop("spark", {})}
        # Beside the other engines, which Arrow reads for, Spark's is the one that has all rules in its own columns.
        engine.setdefault("lane", "columns" if engine["merge_engine"] == "spark" else "driver")
        super().__init__(
            session,
            folder / uuid.uuid4().hex[:12],
            name="h",
            log=MemoryLog(session, histories),
            binlog=PlainLog(),
            spark=engine,
            **more,
        )
        self._ends: Mapping[int, list[int]] = {}

    def take(self, ends: Mapping[int, list[int]], crash: str | None = None) -> None:
        """One batch: up to these ends of each partition, by index of the history. All others up to where they were: after a start a topic may be
        read again from before that.
        """
        ends = self._ends = {**self._ends, **ends}
        if crash:
            try:
                with (
                    patch.object(micro_batch, "reached", dying(crash)),
                    patch.object(side_by_side, "reached", dying(crash)),
                    patch.object(table_applier, "reached", dying(crash)),
                    patch.object(change_logs, "reached", dying(crash)),
                    patch.object(compaction, "reached", dying(crash)),
                    patch.object(workspace, "reached", dying(crash)),
                ):
                    self._apply(ends)
            except Crash:
                pass
            self.start()
        self._apply(ends)

    def _apply(self, ends: Mapping[int, list[int]]) -> None:
        with eager_upkeep():
            self.apply(
                {
                    (f"h.d.t{index}", p): end
                    for index, part in ends.items()
                    for p, end in enumerate(part)
                }
            )

    def content(self, index: int = 0) -> Counter[Row]:
        table = self.path / "d" / f"t{index}"
        if not (table / "_delta_log").exists():
            return Counter()
        count = live_rows(self._kept_as(index))
        if self.log.histories[index].shape:
            return Counter(map(found, exact.rows(exact.by_delta_rs(table, count))))
        rows = queried(DeltaTable(table), f"SELECT id, v FROM rows WHERE {count}")
        return Counter(row(id=r["id"], v=r["v"]) for r in rows)

    def hides(self, index: int = 0) -> bool:
        """Whether readers see a table as it was, until its snapshot is whole."""
        newest = self.batches.newest
        state = newest.tables.get(f"d.t{index}") if newest else None
        return state is not None and state.hidden is not None

    def dead(self, index: int = 0) -> Counter[tuple[Row, Position]]:
        """Rows that stand in the table and do not count, each with its position."""
        table, where = self.path / "d" / f"t{index}", dead_rows(self._kept_as(index))
        if not where:
            return Counter()
        rows = exact.by_delta_rs(table, where)
        places = [Position.from_mapping(one["position"]) for one in rows["_ingest"].to_pylist()]
        if self.log.histories[index].shape:
            images = [found(one) for one in exact.rows(rows)]
        else:
            images = [row(id=r["id"], v=r["v"]) for r in rows.to_pylist()]
        return Counter(zip(images, places, strict=True))

    def log_of(self, index: int = 0) -> list[dict[str, Any]]:
        """The rows of a table's change log, its images by the source's columns with exact values."""
        path = self.pipeline.change_log_path(TableId("d", f"t{index}"))
        if not (Path(path) / "_delta_log").exists():
            return []
        said = DeltaTable(path)
        columns = LogColumns.of(said.schema().to_json(), said.metadata().configuration)
        names = {one.name: one.column for one in columns.fields}
        rows = exact.by_delta_rs(path)
        plain = rows.drop_columns(list(IMAGES)).to_pylist()
        for name in IMAGES:
            held = rows[name].combine_chunks()
            values = exact.rows(pa.Table.from_struct_array(held))
            there = held.is_valid().to_pylist()
            for one, image, is_there in zip(plain, values, there, strict=True):
                by_column = {names[field]: value for field, value in image.items()}
                one[name] = by_column if is_there else None
        return plain

    def _kept_as(self, index: int) -> Target:
        """What the table says it was last written as."""
        said = DeltaTable(self.path / "d" / f"t{index}").metadata().configuration
        return registry.noted(said, keyed=self.log.histories[index].keyed)

    def content_by_spark(self, index: int = 0) -> Counter[Row]:
        """The same, of a drawn history, as the other reader finds it."""
        table = self.path / "d" / f"t{index}"
        if not (table / "_delta_log").exists():
            return Counter()
        frame = self.live(f"d.t{index}")
        return Counter(map(found, exact.rows(frame.toArrow())))

    def versions(self, index: int = 0) -> list[dict[int, Position]]:
        """Each version of the table: key to the position of its row."""
        table = str(self.path / "d" / f"t{index}")
        log = Path(table) / "_delta_log"
        found = []
        for version in range(len(list(log.glob("*.json")))):
            rows = queried(DeltaTable(table, version=version), "SELECT * FROM rows")
            found.append({r["id"]: Position.from_mapping(r["_ingest"]["position"]) for r in rows})
        return found

    def remove(self) -> None:
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)


def dying(name: str):
    def reached(place: str, batch_id: int, detail: str = "") -> None:
        if place == name:
            raise Crash

    return reached


class OneTable:
    """One table of a `SparkTarget`, as the suite wants it: the others stand still."""

    def __init__(self, target: SparkTarget, index: int = 0) -> None:
        self._target = target
        self._index = index

    def take(self, ends: list[int], crash: str | None = None) -> None:
        self._target.take({self._index: ends}, crash)

    def settle(self) -> None:
        self._target.settle()

    def content(self) -> Counter[Row]:
        return self._target.content(self._index)


def created(table: str, position: Position, history: History) -> dict[str, Any]:
    """The record of the schema-change topic that a snapshot writes of a table."""
    plain = [
        described("id", f"INT{' NOT NULL' if history.keyed else ''}"),
        described("v", "VARCHAR(9)"),
    ]
    columns = history.shape.described() if history.shape else plain
    key = history.shape.key if history.shape else ("id",) * history.keyed
    return schema_record(TableId("d", table), position, columns, key)


def written_to(topic: str, record: Record) -> debezium.Record:
    """What Debezium writes of a change."""
    change = record.change
    read = change.operation == "read"
    key, before, after = (
        written(row, read=read) for row in (change.key, change.before, change.after)
    )
    return change_record(
        topic,
        _OPERATIONS[change.operation],
        change.position,
        key=key,
        before=before,
        after=after,
        gtid=None if read else f"uuid:{record.transaction}",
        run=f"run-{change.attempt}" if read else "run",
        # No run of a connector's begins within the second of another one's reading; the driver's lane tells them apart by that.
        committed_at=NEW_YEAR + timedelta(seconds=change.attempt if read else 0),
    )
