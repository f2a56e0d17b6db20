"""What the conformance suite runs on: the model, and the real thing (Spark and Delta).

Both take a history batch by batch and show their content; only the second can crash. Its change log
is in memory, since no Kafka can be told to repeat and interleave at will; everything behind it is
the job's own: `Batches`, `progress`, the committer, the tables, the manifest.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from ingest.batch import micro_batch, table_applier
from ingest.batch.batch_report import BatchReport
from ingest.batch.micro_batch import Batches
from ingest.config import pipeline_file
from ingest.kafka.record_stream import SCHEMA
from ingest.lake.delta import workspace
from ingest.lake.delta.commit import Committer
from ingest.lake.delta.delta_sql import queried
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.maintenance import compaction, file_layout, schedule
from ingest.model.manifest import Place
from ingest.model.position import Position
from ingest.model.specification import Row, mirror, row
from ingest.model.start_facts import KafkaFacts
from ingest.schema.catalog import Catalog
from ingest.source.resync import Requests
from ingest.start import gather_facts
from ingest.start.repair import mended
from tests.conformance.histories import History, Record
from tests.conformance.shapes import found, written
from tests.support import exact
from tests.support.binlog import PlainLog
from tests.support.events import compact, enveloped

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
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
    """The specification itself, fed batch by batch."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._ends = [0] * history.partitions

    def take(self, ends: list[int], crash: str | None = None) -> None:
        self._ends = ends

    def settle(self) -> None:
        """All is delivered."""

    def content(self) -> Counter[Row]:
        pairs = zip(self._history.records, self._ends, strict=True)
        changes = (r.change for records, end in pairs for r in records[:end])
        return mirror(changes, self._history.snapshots[-1])


class MemoryLog:
    """`pipeline.Log` and `pipeline.Schemas` over drawn histories, a table each."""

    def __init__(self, session: SparkSession, histories: Sequence[History]) -> None:
        self.session = session
        self.histories = histories
        self.batches: list[dict[Place, tuple[int, int]]] = []
        self.late: set[int] = set()
        self.catalog = Catalog()
        self.offset = 0
        for index, history in enumerate(histories):
            for position in sorted(set(history.snapshots)):
                record = created(f"t{index}", position, history)
                self.catalog.add(record, 0, self.offset)
                self.offset += 1

    def read_to_end(self) -> None:
        """It is all there."""

    def taken(self, spark_batch: int) -> tuple[Mapping[Place, tuple[int, int]], bool]:
        return self.batches[spark_batch], spark_batch in self.late

    def read(self, ranges: Mapping[Place, tuple[int, int]]) -> DataFrame:
        rows = [
            message(self._records((topic, p))[offset], topic, p, offset)
            for (topic, p), (start, end) in ranges.items()
            for offset in range(start, end)
        ]
        return self.session.createDataFrame(rows, SCHEMA)

    def bring(self, ranges: Mapping[Place, tuple[int, int]]) -> Iterator[dict[Place, pa.Table]]:
        for place, (start, end) in ranges.items():
            yield {place: in_arrow(self._records(place), place, start, end)}

    def ends(self, topics: Sequence[str] | None = None) -> Mapping[Place, int]:
        return {
            (f"h.d.t{index}", p): len(records)
            for index, history in enumerate(self.histories)
            for p, records in enumerate(history.records)
            if topics is None or f"h.d.t{index}" in topics
        }

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        return dict.fromkeys(topics, "id")

    def _records(self, place: Place) -> list[Record]:
        return self.histories[int(place[0].removeprefix("h.d.t"))].records[place[1]]

    def publish(self, ends: Mapping[Place, int]) -> None:
        """Nobody watches."""


class SparkTarget:
    """The job on real Delta tables, in a lake of its own: one table per history."""

    def __init__(
        self, session: SparkSession, folder: Path, *histories: History, **more: Any
    ) -> None:
        self.session = session
        self.path = folder / uuid.uuid4().hex[:12]
        self.log = MemoryLog(session, histories)
        self.binlog = PlainLog()
        self.term = 0
        self.pipeline = pipeline_file.parse(
            json.dumps(
                {
                    "name": "h",
                    "source": {"mysql": "mysql://u@h", "password": {"env": "X"}, "tables": ["d.*"]},
                    "kafka": {"bootstrap_servers": "none:1"},
                    "connect": {"url": "http://none"},
                    "lake": {"path": str(self.path)},
                    **more,
                    "spark": {
                        "parallel_tables": 1,
                        "merge_engine": ENGINE,
                        **more.get("spark", {}),
                    },
                }
            )
        )
        self.batches: Batches | None = None
        self.seen: list[BatchReport] = []
        self.start()

    def start(self, *, from_beginning: bool = False) -> None:
        """As a new process does: from what is in the lake, and nothing else."""
        self.close()
        self.term += 1
        self.batches = Batches(
            self.session,
            self.pipeline,
            log=self.log,
            schemas=self.log,
            committer=Committer(self.term),
            newest=Ledger(str(self.path)).last(),
            report=self.seen.append,
            requests=Requests(self.pipeline),
            binlog=self.binlog,
        )
        self.batches.ensure_tables()
        kafka = {place: KafkaFacts(0, end, "id") for place, end in self.log.ends().items()}
        mended(
            self.session,
            self.batches,
            lambda: gather_facts.gather(
                self.session, self.pipeline, kafka, from_beginning=from_beginning
            ),
            lambda _: None,
        )
        self.batches.checkpoint_id = uuid.uuid4().hex[:16]

    def take(self, ends: Mapping[int, list[int]], crash: str | None = None) -> None:
        """One batch: up to these ends of each partition, by index of the history."""
        assert self.batches is not None
        if crash:
            try:
                with (
                    patch.object(micro_batch, "reached", dying(crash)),
                    patch.object(table_applier, "reached", dying(crash)),
                    patch.object(compaction, "reached", dying(crash)),
                    patch.object(workspace, "reached", dying(crash)),
                ):
                    self._apply(ends)
            except Crash:
                pass
            self.start()
        self._apply(ends)

    def _apply(self, ends: Mapping[int, list[int]]) -> None:
        assert self.batches is not None
        held = self.batches.newest.ends if self.batches.newest else {}
        places = {
            (f"h.d.t{index}", p): end for index, part in ends.items() for p, end in enumerate(part)
        }
        ranges = {
            place: (held.get(place, 0), max(end, held.get(place, 0)))
            for place, end in places.items()
            if end or place in held  # a partition that was added later is not there before
        }
        self.log.batches.append(ranges)
        with eager_upkeep():
            self.batches.apply(self.log.read(ranges), len(self.log.batches) - 1)

    def settle(self) -> None:
        """All is delivered, and the connector is known to stream."""
        assert self.batches is not None
        self.batches.clean_up(Position(0, 1_000_000, 0))

    def content(self, index: int = 0) -> Counter[Row]:
        table = self.path / "d" / f"t{index}"
        if not (table / "_delta_log").exists():
            return Counter()
        if self.log.histories[index].shape:
            return Counter(map(found, exact.rows(exact.by_delta_rs(table))))
        rows = queried(DeltaTable(table), "SELECT id, v FROM rows")
        return Counter(row(id=r["id"], v=r["v"]) for r in rows)

    def content_by_spark(self, index: int = 0) -> Counter[Row]:
        """The same, of a drawn history, as the other reader finds it."""
        table = self.path / "d" / f"t{index}"
        if not (table / "_delta_log").exists():
            return Counter()
        frame = self.session.read.format("delta").load(str(table))
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

    def close(self) -> None:
        if self.batches:
            self.batches.close()

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
        {"name": "id", "typeName": "INT", "optional": not history.keyed},
        {"name": "v", "typeName": "VARCHAR", "length": 9, "optional": True},
    ]
    key = ["id"] if history.keyed else []
    columns = history.shape.described() if history.shape else plain
    names = list(history.shape.key) if history.shape else key
    body = {"columns": columns, "primaryKeyColumnNames": names}
    return {
        "source": {
            "file": f"binlog.{position.file:06d}",
            "pos": position.pos,
            "row": 0,
            "snapshot": "true",
        },
        "ddl": "CREATE TABLE …",
        "tableChanges": [{"type": "CREATE", "id": f'"d"."{table}"', "table": body}],
    }


def in_arrow(records: Sequence[Record], place: Place, start: int, end: int) -> pa.Table:
    """Some records of a partition, as ``Log.bring`` brings them."""
    rows = [message(records[offset], *place, offset) for offset in range(start, end)]
    return pa.table(
        {
            "offset": pa.array(range(start, end), pa.int64()),
            "value": pa.array([bytes(row[5]) for row in rows], pa.binary()),
            "run": pa.array([row[6] for row in rows], pa.string()),
        }
    )


def message(record: Record, topic: str, partition: int, offset: int) -> tuple[Any, ...]:
    """A record of Kafka, with ``record_stream.SCHEMA``."""
    change = record.change
    read = change.operation == "read"
    source = {
        "table": topic.rpartition(".")[2],
        "file": f"binlog.{change.position.file:06d}",
        "pos": change.position.pos,
        "row": change.position.row,
        "snapshot": "true" if read else None,
        "gtid": None if read else f"uuid:{record.transaction}",
        "thread": None if read else 7,
    }
    before, after = (written(row, read=read) for row in (change.before, change.after))
    value = enveloped(_OPERATIONS[change.operation], before, after, source)
    key = None if change.key is None else bytearray(compact(written(change.key, read=read)))
    run = f"run-{change.attempt}" if read else "run"
    return (topic, partition, offset, NOW, key, bytearray(compact(value)), run)
