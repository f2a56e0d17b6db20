"""What a record reader is: it reads of a batch what it can, and says what it leaves to the next one and why.

There is one for plain records (``plain_reader``) and one by Spark (``spark_reader``), which reads everything. ``readers`` asks
them in turn; another one is a class of this form in a file of its own, and a line there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from ingest.arrow.kept_rows import KeptRows
from ingest.arrow.source_rows import SourceRows
from ingest.batch.stage_times import Stopwatch
from ingest.changes import dedup
from ingest.changes.batch_facts import Counts
from ingest.config.pipeline_file import Pipeline
from ingest.kafka.ports import Log, Ranges
from ingest.lake.quarantine.held_back import HeldBack
from ingest.model.epochs import Epoch
from ingest.model.manifest import Entry, Place
from ingest.model.offset_ranges import filled
from ingest.model.position import Position
from ingest.model.position_ties import Tie
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.schema.catalog import Catalog
from ingest.schema.set_aside import Spans
from ingest.schema.steps import TableFacts


@dataclass(frozen=True)
class SparkRecords:
    """How Spark gets records. ``read``: exactly those of some ranges, with ``record_stream.SCHEMA``; ``unseen``: where Spark has state, the
    places (``envelope.PLACE``) of those that it has not seen before, computed already; None where nobody asked it.
    """

    read: Callable[[Ranges], DataFrame]
    unseen: DataFrame | None = None


@dataclass(frozen=True)
class ReaderJob:
    """What a reader is begun with, once in a run. ``session``: of the run; ``pool``: threads that tables are read in; ``epochs``: of the source's
    log; ``held``: what waits in quarantine; ``collects``: whether changes are wanted in the driver at all.
    """

    session: SparkSession
    pipeline: Pipeline
    log: Log
    pool: Executor
    epochs: Sequence[Epoch]
    held: HeldBack
    collects: bool


@dataclass(frozen=True)
class ReadRequest:
    """What is to be read of a batch, and by what.

    ``note``: its number, and its ranges: (topic, partition) to half-open offsets. ``catalog``: the schemas in force, by
    table and position; ``aside``: by table, positions whose changes cannot be read. ``spark``: how Spark gets what
    is asked of these ranges; a reader may fetch the records from the log instead.
    ``previous``: the manifest's newest row. ``waiting``: tables of which changes waited that are taken in now. ``late``:
    all of it was late to Spark. ``most``: bytes of rows at which a reader that has them in memory may stop before the ranges'
    ends (``Reading.cut``); None where all is to be read. ``expected``: bytes of its rows, as far as those before tell; 0 where
    none does.
    """

    note: Note
    catalog: Catalog
    aside: Spans
    spark: SparkRecords
    previous: Entry | None
    waiting: Sequence[TableId] = ()
    late: bool = False
    most: int | None = None
    expected: int = 0

    @property
    def touched(self) -> list[Place]:
        """Topic partitions that have records in it."""
        return list(filled(self.note.ranges))

    @property
    def topics(self) -> set[str]:
        """Their topics."""
        return {topic for topic, _ in self.touched}

    def up_to(self, cut: Mapping[Place, int]) -> ReadRequest:
        """The same of a batch that ends before these offsets."""
        return replace(self, note=self.note.up_to(cut)) if cut else self

    def of(self, topics: Collection[str]) -> ReadRequest:
        """The same of these topics alone."""
        ranges = {place: r for place, r in self.note.ranges.items() if place[0] in topics}
        return replace(self, note=replace(self.note, ranges=ranges))


@dataclass(frozen=True)
class Reading:
    """What was read.

    ``facts``: what there is to do, by table. ``counts``: over all changes. ``rows``: a MERGE's source rows of the tables
    that were read by Arrow, in the driver or kept in Spark. ``changes``: all
    other tables' (``dedup.marked``), unreadable ones with their reason among them; None where there are none. ``ties``:
    changes that were sent again, or are others at the same place. ``left``: topics that no reader but the last has read,
    each with why. ``hidden``: tables of which a snapshot begins that waits in Kafka until it is whole, with its place;
    nothing of theirs is in all the rest. ``cut``: partitions of which reading ended before the range does, and where: the rest
    is another batch's. ``size``: bytes of these rows, and of the messages of all other tables.
    ``lane``: where Arrow has read the tables of ``rows``, ``driver`` or ``tasks``.
    """

    facts: Mapping[TableId, TableFacts] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    rows: Mapping[TableId, SourceRows | KeptRows] = field(default_factory=dict)
    changes: DataFrame | None = None
    ties: Sequence[Tie] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    hidden: Mapping[TableId, Position] = field(default_factory=dict)
    cut: Mapping[Place, int] = field(default_factory=dict)
    size: int = 0
    lane: str = ""

    @property
    def readers(self) -> dict[str, str]:
        """By table's name, where its changes were read (``Entry.lanes``)."""
        return {str(one): self.lane if one in self.rows else "columns" for one in self.facts}

    @property
    def lanes(self) -> dict[str, int]:
        """Changes by where they were read."""
        found, readers = Counter[str](), self.readers
        for table, facts in self.facts.items():
            found[readers[str(table)]] += facts.changes
        return dict(+found)

    @property
    def fresh(self) -> DataFrame | None:
        """The changes that are to be applied."""
        return None if self.changes is None else dedup.fresh(self.changes)

    def of(self, tables: Collection[TableId]) -> Reading:
        """Of a reading by Arrow, what it has of these tables."""
        facts = {table: found for table, found in self.facts.items() if table in tables}
        rows = {table: rows for table, rows in self.rows.items() if table in tables}
        return replace(Reading.by_arrow(facts, rows, self.lane), cut=self.cut)

    @classmethod
    def by_arrow(
        cls,
        facts: Mapping[TableId, TableFacts],
        rows: Mapping[TableId, SourceRows | KeptRows],
        lane: str,
    ) -> Reading:
        """Of changes that were read by Arrow: none of them is passed over."""
        found = facts.values()
        changes, messages = sum(one.changes for one in found), sum(one.bytes for one in found)
        size = sum(one.nbytes for one in rows.values())
        return cls(facts, Counts(changes, bytes=messages), rows, size=size, lane=lane)

    def joined(self, other: Reading) -> Reading:
        """Both. Only one of them, the last reader's, has ``changes``."""
        assert self.changes is None
        return Reading(
            dict(sorted({**other.facts, **self.facts}.items())),
            self.counts.joined(other.counts),
            {**self.rows, **other.rows},
            other.changes,
            (*self.ties, *other.ties),
            hidden=other.hidden,
            cut=self.cut,
            size=self.size + other.size,
            lane=self.lane,
        )


class RecordReader(Protocol):
    """One way to read records, begun once in a run."""

    def read(
        self, request: ReadRequest, watch: Stopwatch
    ) -> tuple[Reading | None, Mapping[str, str]]:
        """What it has read, None where it has not tried to; and the topics that it leaves to the next reader, whole, each
        with why. The last reader leaves none. Tells the watch of its stage where it has read.
        """

    def release(self) -> None:
        """Free what it keeps for a batch."""
