"""A Delta lake that records are replayed into, in any batches, by the job's own ``Batches``: no Kafka, no MySQL."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from threading import Event as Sign
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ingest.batch.batch_report import BatchReport
from ingest.batch.micro_batch import Batches
from ingest.batch.side_by_side import Failures
from ingest.changes import log_view
from ingest.config import pipeline_file
from ingest.config.pipeline_file import Pipeline
from ingest.kafka.ports import Binlog, Ranges, RecordSource
from ingest.kafka.record_stream import SCHEMA
from ingest.lake.delta import change_log_table
from ingest.lake.delta.commit import Committer
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.epochs import Epoch
from ingest.model.manifest import Place
from ingest.model.names import quarantine_path, table_folder
from ingest.model.position import Position
from ingest.model.position_ties import Event
from ingest.model.start_facts import KafkaFacts
from ingest.model.topics import TableId
from ingest.schema.catalog import Catalog
from ingest.source.resync import Requests
from ingest.start import gather_facts
from ingest.start.repair import mended
from ingest.targets.target import live_rows
from ingest.testing.debezium import Record
from ingest.testing.source import Source, Table

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
"""When Kafka took every record."""


class RecordLog:
    """The outside of a job, in memory: Kafka's topics (``ports.Log``), the schema-change topic (``ports.Schemas``),
    and a MySQL that compresses no transaction (``ports.Binlog``).
    """

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.catalog = Catalog()
        self.offset = 0
        """Where the schema-change topic ends."""
        self.batches: list[Ranges] = []
        """What each of Spark's batches is made of."""
        self.late: set[int] = set()
        """Batches that Spark's watermark is to call late."""
        self.lost: dict[Place, int] = {}
        """By partition, how many of its first records Kafka no longer has."""
        self._records: dict[Place, list[Record]] = {}

    def add(self, record: Record) -> None:
        """One more record of a table's topic."""
        self._records.setdefault((record.topic, record.partition), []).append(record)

    def define(self, said: Mapping[str, Any]) -> None:
        """One more record of the schema-change topic, as JSON."""
        self.catalog.add(said, 0, self.offset)
        self.offset += 1

    def between(self, place: Place, start: int, end: int) -> Sequence[Record]:
        """Records of a partition from one offset up to another."""
        return self._records[place][start:end]

    def ends(self, topics: Sequence[str] | None = None) -> Mapping[Place, int]:
        """Where partitions end: of these topics, or of all."""
        return {
            place: len(records)
            for place, records in self._records.items()
            if topics is None or place[0] in topics
        }

    def begins(self, topics: Sequence[str]) -> Mapping[Place, int]:
        """Where partitions of these topics begin."""
        return {place: self.lost.get(place, 0) for place in self._records if place[0] in topics}

    def read_to_end(self) -> None:
        """It is all there."""

    def taken(self, spark_batch: int) -> tuple[Ranges, bool]:
        """As it was asked for."""
        return self.batches[spark_batch], spark_batch in self.late

    def read(self, ranges: Ranges) -> DataFrame:
        """As Spark's Kafka source brings records."""
        rows = [
            (*place, offset, NOW, _bytes(one.key), _bytes(one.value), one.run)
            for place, (start, end) in ranges.items()
            for offset, one in enumerate(self.between(place, start, end), start)
        ]
        return self.session.createDataFrame(rows, SCHEMA)

    def bring(
        self, ranges: Ranges, enough: Sign, keyed: Collection[str] = ()
    ) -> Iterator[Mapping[Place, pa.Table]]:
        """As the driver fetches them, a partition at a time."""
        return self.source(ranges, keyed)(ranges, enough)

    def source(self, ranges: Ranges, keyed: Collection[str] = ()) -> RecordSource:
        """The records themselves, to go with Spark's tasks."""
        return _Sent(
            {
                place: (
                    start,
                    in_arrow(self.between(place, start, end), start, keyed=place[0] in keyed),
                )
                for place, (start, end) in ranges.items()
            }
        )

    def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
        """No topic is ever made again."""
        return dict.fromkeys(topics, "id")

    def publish(self, ends: Mapping[Place, int]) -> None:
        """Nobody watches."""

    def events(self, places: Collection[Position]) -> Mapping[Position, Event]:
        """No transaction is compressed."""
        return dict.fromkeys(places, Event("Update_rows", 1000))


@dataclass(frozen=True)
class _Sent:
    """``held``: by partition, records that follow each other from an offset on."""

    held: Mapping[Place, tuple[int, pa.Table]]

    def __call__(self, ranges: Ranges, enough: Sign) -> Iterator[Mapping[Place, pa.Table]]:
        for place, (start, end) in ranges.items():
            if enough.is_set():
                return
            first, records = self.held[place]
            yield {place: records.slice(start - first, end - start)}


def in_arrow(records: Sequence[Record], start: int, *, keyed: bool = False) -> pa.Table:
    """``offset bigint, value binary, run string`` of records that follow each other from an offset on, and ``key binary`` where it
    is wanted.
    """
    columns = {
        "offset": pa.array(range(start, start + len(records)), pa.int64()),
        "value": pa.array([one.value for one in records], pa.binary()),
        "run": pa.array([one.run for one in records], pa.string()),
    }
    if keyed:
        columns["key"] = pa.array([one.key for one in records], pa.binary())
    return pa.table(columns)


def _bytes(value: bytes | None) -> bytearray | None:
    return None if value is None else bytearray(value)


def pipeline_at(folder: Path | str, name: str = "p", **settings: Any) -> Pipeline:
    """A pipeline with a lake there, and nothing around it. ``settings``: sections of the pipeline file."""
    sections: dict[str, Any] = {
        "name": name,
        "source": {"mysql": "mysql://u@h", "password": {"env": "X"}, "tables": ["*.*"]},
        "kafka": {"bootstrap_servers": "none:1"},
        "connect": {"url": "http://none"},
        "lake": {"path": str(folder)},
    }
    return pipeline_file.parse(json.dumps({**sections, **settings}))


class Lake:
    """The lake of one pipeline. ``folder``: a new or an empty one, or a lake that another ``Lake`` of the same name has
    filled, of which it then takes the ``log``: records are known to a lake by their offsets there, and without them it would
    find its topics gone. ``ValueError`` where it is given none. ``settings``: sections of the pipeline file, such as ``spark={"merge_engine": "spark"}``.
    """

    def __init__(
        self,
        session: SparkSession,
        folder: Path,
        *,
        name: str = "p",
        log: RecordLog | None = None,
        binlog: Binlog | None = None,
        **settings: Any,
    ) -> None:
        self.session, self.path, self.name = session, folder, name
        newest = Ledger(str(folder)).last()
        if log is None and newest is not None and newest.ends:
            raise ValueError(f"{folder} was filled by another Lake: give this one its `log`")
        self.log = log or RecordLog(session)
        self.binlog = binlog or self.log
        self.pipeline = pipeline_at(folder, name, **settings)
        self.term = 0
        self.epochs: Sequence[Epoch] = ()
        """Of the source's log, from the next start on: another server took over where an epoch begins."""
        self.failures = Failures()
        """Of one process: how often tables could not be applied. One that fails twice stands still until the next."""
        self.said: list[str] = []
        """What starts have said."""
        self.seen: list[BatchReport] = []
        """What was said of each batch, the newest last."""
        self._batches: Batches | None = None
        self._followed: dict[Source, int] = {}
        """By source, how many of its records."""
        self.start()

    @property
    def batches(self) -> Batches:
        """The job's own, since the newest start."""
        assert self._batches is not None
        return self._batches

    def start(self, *, from_beginning: bool = False) -> None:
        """As a new process does: from what is in the lake, and nothing else."""
        self.close()
        self.term += 1
        newest, committer = Ledger(str(self.path)).last(), Committer(self.term)
        self._batches = Batches(
            self.session,
            self.pipeline,
            log=self.log,
            schemas=self.log,
            committer=committer,
            newest=newest,
            report=self.seen.append,
            requests=Requests(self.pipeline, self.said.append),
            failures=self.failures,
            binlog=self.binlog,
            epochs=self.epochs,
        )
        committer.begin_anew(lasting=newest.versions if newest else {})
        self.batches.ensure_tables()
        lost, ends = self.log.lost, self.log.ends()
        kafka = {place: KafkaFacts(lost.get(place, 0), end, "id") for place, end in ends.items()}
        mended(
            self.session,
            self.batches,
            lambda: gather_facts.gather(
                self.session,
                self.pipeline,
                kafka,
                from_beginning=from_beginning,
                catalog=self.batches.definitions.streamed(),
                failed=self.failures.tables,
            ),
            self.said.append,
            committer.refuse_lost,
        )
        self.batches.checkpoint_id = uuid.uuid4().hex[:16]
        self.batches.filling.look()

    def follow(
        self, source: Source, batches: int | Sequence[int] = 1, *, quarantine: bool = False
    ) -> list[BatchReport]:
        """Replay what a source has written since it was last followed. All else as :meth:`replay` has it."""
        followed = self._followed.get(source, 0)
        new = source.log[followed:]
        self._followed[source] = followed + len(new)
        return self.replay(new, batches, quarantine=quarantine)

    def replay(
        self,
        records: Iterable[Record],
        batches: int | Sequence[int] = 1,
        *,
        quarantine: bool = False,
    ) -> list[BatchReport]:
        """Apply records, built or recorded, in this order; returns what was said of each batch.

        ``batches``: how many, of nearly the same size, or the size of each, which come to all of the records, else
        ``ValueError``. Records of the schema-change topic count, and are known before the first batch, as in Kafka. To
        have something delivered again, give it again. Raises ``AssertionError`` when a change goes to quarantine, unless
        ``quarantine`` says that it is meant to.
        """
        given = list(records)
        for record in given:
            if record.topic == self.name:
                self.log.define(json.loads(record.value or b"{}"))
        said = len(self.seen)
        self.batches.ensure_tables()
        start = 0
        for size in _sizes(len(given), batches):
            changes = [one for one in given[start : start + size] if one.topic != self.name]
            start += size
            for record in changes:
                self.log.add(record)
            if changes:
                self.apply(self.log.ends())
        reports = self.seen[said:]
        rejects = sum(one.entry.rejects for one in reports)
        if rejects and not quarantine:
            reasons = self.quarantined().select("table", "reason").distinct().collect()
            raise AssertionError(
                f"{rejects} changes went to quarantine: {[tuple(one) for one in reasons]}"
            )
        return reports

    def apply(self, ends: Mapping[Place, int]) -> None:
        """One batch: all that was not applied, up to these ends of partitions."""
        held = self.batches.newest.ends if self.batches.newest else {}
        self.log.batches.append(
            {
                place: (held.get(place, 0), max(end, held.get(place, 0)))
                for place, end in ends.items()
                if end or place in held  # a partition that was added later is not there before
            }
        )
        self.batches.apply(self.log.read(self.log.batches[-1]), len(self.log.batches) - 1)

    def settle(self) -> None:
        """All is delivered and the connector streams: rows go that a newer snapshot no longer found."""
        self.batches.clean_up(Position(0, 1_000_000, 0))

    def table(self, table: Table | str) -> DataFrame:
        """A table as its readers find it, with the column ``_ingest``. ``table``: of a source, or
        ``database.table``.
        """
        return self._held(table).frame()

    def changes(self, table: Table | str, *, today: bool = False) -> DataFrame:
        """A table's change log, where `targets` asks for one (``schema.change_log`` says what its columns are). ``today``: its images are
        of the table's columns as they are called now.
        """
        named = table.name if isinstance(table, Table) else TableId.parse(table)
        path = self.pipeline.change_log_path(named)
        log = self.session.read.format("delta").load(path)
        if not today:
            return log
        columns = change_log_table.columns_of(SparkTable(self.session, path), None)
        return log_view.today(log, columns)

    def live(self, table: Table | str) -> DataFrame:
        """The same without rows that are kept and do not count: what the source holds."""
        held = self._held(table)
        description = held.describe()
        assert description is not None, f"the lake has no table {table}"
        return held.frame().filter(live_rows(description.target))

    def _held(self, table: Table | str) -> SparkTable:
        named = table.name if isinstance(table, Table) else TableId.parse(table)
        folder = self.path / table_folder(named.database, named.name)
        return SparkTable(self.session, str(folder))

    def quarantined(self) -> DataFrame:
        """What could not be applied, each with its reason. Fails as Spark does where nothing ever was."""
        return self.session.read.format("delta").load(quarantine_path(str(self.path)))

    def close(self) -> None:
        """End the job's threads; the lake stays."""
        if self._batches:
            self._batches.close()


def _sizes(records: int, batches: int | Sequence[int]) -> Sequence[int]:
    if isinstance(batches, int):
        return [
            records * (n + 1) // batches - records * n // batches for n in range(max(1, batches))
        ]
    if sum(batches) != records or min(batches, default=0) < 0:
        raise ValueError(f"batches of {list(batches)} records do not come to {records}")
    return batches
