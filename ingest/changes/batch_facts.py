"""What a marked batch holds, gathered before anything is decided."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ingest.changes import dedup, envelope, strangers
from ingest.model import numberings
from ingest.model.epochs import Epoch, newest_restart
from ingest.model.errors import Exit, IngestError
from ingest.model.manifest import Entry, HighWater, Place
from ingest.model.position import Position
from ingest.model.position_ties import Tie
from ingest.model.topics import TableId
from ingest.schema.steps import READ_AT, TableFacts
from ingest.schema.topic_owners import Owners


@dataclass(frozen=True)
class Counts:
    """Over all tables: readable changes, how many were passed over, and how many regressed."""

    changes: int = 0
    passed_over: int = 0
    regressed: int = 0
    waiting: Mapping[Place, int] = field(default_factory=dict)
    """Where the changes begin that wait behind a DDL, as a policy says."""
    torn: Mapping[TableId, Position] = field(default_factory=dict)
    """The newest place of changes of which it is not known whether another server sends them again
    (``dedup.marked``), by table.
    """
    unreadable: Mapping[TableId, Position] = field(default_factory=dict)
    """The newest place of changes that were set aside, as nothing in the lake could hold them, by table."""
    strays: Mapping[TableId, Position] = field(default_factory=dict)
    """The newest place of rows that stand before the floor that their own reading has set, by table."""
    remembered: int = 0
    """Of those that were passed over: how many Spark's state knew."""
    bytes: int = 0
    """Of the messages of all changes, those that were passed over among them."""

    def joined(self, other: Counts) -> Counts:
        """Of both, which are of different topics."""
        return Counts(
            self.changes + other.changes,
            self.passed_over + other.passed_over,
            self.regressed + other.regressed,
            {**self.waiting, **other.waiting},
            {**self.torn, **other.torn},
            {**self.unreadable, **other.unreadable},
            {**self.strays, **other.strays},
            self.remembered + other.remembered,
            self.bytes + other.bytes,
        )


def marked(
    records: DataFrame,
    epochs: Sequence[Epoch],
    previous: Entry | None,
    touched: Sequence[Place],
    by: str,
    owners: Owners,
) -> DataFrame:
    """``envelope.changes`` of Kafka's records, marked (``dedup.marked``) by what the manifest held before the
    batch. ``touched``: its topic partitions; ``by``: the pipeline file's `dedup.by`; ``owners``: as ``strangers.named`` has them.
    """
    changes = strangers.named(envelope.changes(records, epochs), owners)
    marks = previous.high_water if previous else {}
    here = {place: marks[place] for place in touched if place in marks}
    if by == "watermark":
        # Spark's state recognises repetitions of what has a key; Kafka's offset stays.
        here = {place: HighWater(offset=mark.offset) for place, mark in here.items()}
    tables = previous.tables if previous else {}
    states = {TableId.parse(name): state for name, state in tables.items()}
    floors = {table: state.floor for table, state in states.items() if state.floor}
    readings = {table: state.run for table, state in states.items() if READ_AT in state.run}
    return dedup.marked(changes, here, floors, newest_restart(epochs), readings)


def gather(changes: DataFrame) -> tuple[dict[TableId, TableFacts], Counts]:
    """One scan over the marked batch: what there is to do, per table and partition."""
    rows = (
        changes.filter(F.col("reason").isNull())
        .groupBy("database", "table", "topic", "partition")
        .agg(*_aggregates(changes.sparkSession.sparkContext.applicationId))
        .collect()
    )
    found = [row.asDict(recursive=True) for row in rows]
    numbered = ({**row, "attempt": _attempt(row)} for row in _numbered(changes, found))
    counts = Counts(
        changes=sum(row["changes"] for row in found),
        passed_over=sum(row["passed_over"] for row in found),
        regressed=sum(row["regressed"] for row in found),
        remembered=sum(row["remembered"] for row in found),
        waiting={
            (row["topic"], row["partition"]): row["waiting"]
            for row in found
            if row["waiting"] is not None
        },
        torn=_newest(found, "torn"),
        unreadable=_newest(found, "unreadable"),
        strays=_newest(found, "stray"),
        bytes=sum(row["held"] or 0 for row in found),
    )
    return TableFacts.combine(row for row in numbered if row["changes"]), counts


def _numbered(
    changes: DataFrame, found: Sequence[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """The same rows, with the newest transaction of each numbering. Most logs have one; only where a partition has several
    are they looked for.
    """
    of_one = {_place(row): numberings.is_one(row["first"], row["last"]) for row in found}
    several = _of_several(changes) if not all(of_one.values()) else {}
    for row in found:
        one, newest = of_one[_place(row)], row["newest"] and row["newest"]["gtid"]
        yield {**row, "numbers": numberings.of(newest) if one else several[_place(row)]}


def _attempt(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Of the newest reading that has rows of a partition: which, and the lowest and the highest place that they have."""
    run = row["newest_reading"]
    places = [one["pos"] for one in row["readings"] if one["run"] == run]
    places.sort(key=Position.from_mapping)
    ends = sum(one["reading"] == run for one in row["ends"])
    return {"run": run, "pos": places[0], "high": places[-1], "ends": ends} if places else None


def _place(row: Mapping[str, Any]) -> Place:
    return row["topic"], row["partition"]


def _of_several(changes: DataFrame) -> dict[Place, dict[str, int]]:
    fresh = F.col("reason").isNull() & F.col("passed_over").isNull() & dedup.streamed()
    numbering, number = dedup.transaction()
    rows = (
        changes.filter(fresh)
        .groupBy("topic", "partition", numbering.alias("numbering"))
        .agg(F.max(number).alias("number"))
        .filter("number IS NOT NULL AND numbering <> ''")
        .collect()
    )
    found = defaultdict[Place, dict[str, int]](dict)
    for row in rows:
        found[row["topic"], row["partition"]][row["numbering"]] = row["number"]
    return found


def lowest(changes: DataFrame) -> dict[Place, Position]:
    """By partition, the place of its oldest change, from columns of ``envelope.changes``."""
    here = changes.filter(F.col("position").isNotNull()).groupBy("topic", "partition")
    rows = here.agg(F.min("position").alias("at")).collect()
    return {(row["topic"], row["partition"]): Position.from_mapping(row["at"]) for row in rows}


def ties(changes: DataFrame, marks: dedup.HighWaters) -> list[Tie]:
    """Where streamed changes do not stand behind those before them, from columns of ``envelope.changes``.
    ``marks``: of what was applied before the batch.
    """
    mark, place = dedup.of_place(marks), F.col("position")
    here = changes.filter(F.col("reason").isNull() & dedup.streamed())
    here = here.filter(F.col("offset") >= F.coalesce(mark["offset"], F.lit(0)))
    in_order = Window.partitionBy("topic", "partition").orderBy("offset")
    before, applied = F.col("before"), F.col("applied")
    same = _same_byte(place, before) | _same_byte(place, applied)
    at = F.struct(
        "position.epoch", "position.file", F.when(same, F.col("position.pos")).alias("pos")
    )
    rows = (
        here.select("database", "table", "topic", "partition", "offset", "position")
        .withColumn("before", F.lag("position").over(in_order))
        .withColumn("applied", mark["position"])
        .filter((place <= before) | (place <= applied))
        .groupBy("database", "table", at.alias("at"))
        .agg(F.max("position").alias("position"), F.bool_or(same).alias("same"))
        .collect()
    )
    return [_tie(row.asDict(recursive=True)) for row in rows]


def _same_byte(one: Column, other: Column) -> Column:
    """True for two positions at one byte of one log, of which the first is no later one."""
    fields = ("epoch", "file", "pos")
    alike = [one[field] == other[field] for field in fields]
    return F.coalesce(alike[0] & alike[1] & alike[2] & (one <= other), F.lit(False))


def _tie(row: Mapping[str, Any]) -> Tie:
    table = TableId(row["database"], row["table"])
    return Tie(table, Position.from_mapping(row["position"]), row["same"])


def _newest(found: Sequence[Mapping[str, Any]], which: str) -> dict[TableId, Position]:
    newest: dict[TableId, Position] = {}
    for row in found:
        if row[which]:
            table, at = TableId(row["database"], row["table"]), Position.from_mapping(row[which])
            newest[table] = max(at, newest.get(table, at))
    return newest


@lru_cache(maxsize=2)
def _aggregates(_application: str) -> tuple[Column, ...]:
    """Built once for the JVM that they belong to: an application's."""
    fresh = F.col("passed_over").isNull()
    paused = F.coalesce(F.col("passed_over") == dedup.PAUSED, F.lit(False))
    unreadable = F.coalesce(F.col("passed_over") == dedup.UNREADABLE, F.lit(False))
    position = F.when(fresh, F.col("position"))
    streamed = F.when(fresh & dedup.streamed(), F.col("position"))
    transaction = F.when(streamed.isNotNull(), F.col("gtid"))
    snapshot_row = (
        fresh & (F.col("op") == "r") & (F.coalesce("snapshot", F.lit("")) != "incremental")
    )
    attempt = F.when(
        snapshot_row, F.struct(F.col("reading").alias("run"), F.col("position").alias("pos"))
    )
    truncate = F.struct("position.*", F.unix_micros("committed_at").alias("ts_us"))
    reread = fresh & (F.col("op") == "r") & (F.col("snapshot") == "incremental")
    return (
        F.count_if(fresh).alias("changes"),
        F.sum(F.when(fresh, F.octet_length("value"))).alias("bytes"),
        F.sum(F.octet_length("value")).alias("held"),
        F.count_if(~fresh & ~paused & ~unreadable).alias("passed_over"),
        F.count_if(F.col("passed_over") == dedup.REMEMBERED).alias("remembered"),
        F.max(F.when(unreadable, F.col("position"))).alias("unreadable"),
        F.min(F.when(paused, F.col("offset"))).alias("waiting"),
        F.count_if("regressed").alias("regressed"),
        F.max(F.when(F.col("torn"), F.col("position"))).alias("torn"),
        F.min(position).alias("low"),
        F.max(position).alias("high"),
        F.max(F.when(streamed.isNotNull(), F.struct("position", "gtid"))).alias("high_water"),
        F.min(transaction).alias("first"),
        F.max(transaction).alias("last"),
        # Of one numbering the longest are the newest, and of these the last.
        F.max(F.struct(F.length(transaction), transaction.alias("gtid"))).alias("newest"),
        F.max(F.when(fresh, F.unix_micros("committed_at"))).alias("source_time_us"),
        F.collect_set(F.when(fresh & (F.col("op") == "t"), truncate)).alias("truncates"),
        F.collect_set(F.when(fresh, F.json_object_keys("key_json"))).alias("keys"),
        F.max_by("reading", F.when(snapshot_row, F.col("offset"))).alias("newest_reading"),
        # A place or two of each reading, and its last row.
        F.collect_set(attempt).alias("readings"),
        F.collect_set(F.when(snapshot_row & dedup.is_last(), F.struct("reading", "offset"))).alias(
            "ends"
        ),
        F.max(F.when(F.col("stray"), F.col("position"))).alias("stray"),
        F.min(F.when(reread, F.col("position"))).alias("reread"),
    )


def regression(count: int, previous: Entry | None) -> IngestError:
    """What to tell when a log was replaced by another without our knowing."""
    at = f" (the newest applied position is {previous.position})" if previous else ""
    return IngestError(
        "E-SOURCE-REGRESSION",
        f"{count} changes have new transaction numbers but positions below what was applied{at}: "
        "MySQL's log was reset, or another server took over, without ingest knowing.",
        means="By position they would look like old ones and be lost; the batch was not applied "
        "and stays in Kafka.",
        remedy="`ingest resync FILE --all` takes every table again, as a new epoch of the log.",
        exit_code=Exit.FAILED,
    )
