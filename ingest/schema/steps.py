"""What a batch means for one table: facts gathered in one scan, and the steps they lead to. Pure.

A step is a run of changes between two barriers (a DDL or a TRUNCATE). Each step is decoded by the
schema version in force at its place and is committed under an identity of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

from ingest.model.errors import Exit, IngestError
from ingest.model.manifest import LogState
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.catalog import Catalog, SchemaVersion

READ_BY_SPARK = "; read by Spark: "
"""Stands between who merged a table, with why, and why Spark's columns had to read its changes."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


READ_AT = "@"
"""In the name of a reading, between the connector's run and when it began."""


def reading(run: str, read_at_us: int | None) -> str:
    """The name of one reading of a table. ``run``: the connector's; ``read_at_us``: what MySQL's clock said when it began to
    read the table, which Debezium writes into each row of it (``source.ts_us``, whole seconds).

    Neither the run nor the place does: one run reads a table as often as it is asked to, on a quiet server at one place; and of one
    reading rows carry two places where an event of the log, as its heartbeat, comes meanwhile (tests/integration/test_one_reading.py).
    """
    return run if read_at_us is None else f"{run}{READ_AT}{read_at_us}"


@dataclass(frozen=True)
class Attempt:
    """One attempt at a snapshot: the reading that made it (:func:`reading`), and the lowest place of its rows.

    What is streamed behind that place is not known to be in them. No change lies between their places: what moved it is
    one event, and its changes come behind the rows.
    """

    run: str
    position: Position
    highest: Position | None = None
    """The highest place of its rows, where they have several."""
    twice: bool = False
    """Two readings have this name: a run began to read the table twice within a second."""

    def with_more(self, other: Attempt) -> Attempt:
        """Of two parts of one reading."""
        places = [one.position for one in (self, other)]
        highest = max(one.highest or one.position for one in (self, other))
        lowest = min(places)
        twice = self.twice or other.twice
        return Attempt(self.run, lowest, None if highest == lowest else highest, twice)

    def is_of(self, run: str, floor: Position) -> bool:
        """Whether it is a part of the one that a table's state names. Earlier versions noted the connector's run alone, which
        had one place.
        """
        if READ_AT in run:
            return self.run == run
        return self.run.partition(READ_AT)[0] == run and self.position == floor


@dataclass(frozen=True)
class TableFacts:
    """One table in one batch: its fresh changes, what was passed over left out.

    ``high_water``: newest streamed position and its GTID per (topic, partition).
    """

    table: TableId
    changes: int
    low: Position
    high: Position
    high_water: Mapping[tuple[str, int], tuple[Position, str]]
    source_time: datetime | None
    truncates: tuple[Position, ...]
    keys: frozenset[tuple[str, ...]]
    """Key columns of the messages, in key order; empty for a table without a key."""
    attempt: Attempt | None = None
    """The newest snapshot attempt that has rows in this batch."""
    reread: Position | None = None
    """The first row of an incremental snapshot in this batch."""
    wiped: bool = True
    """False where a policy ignores TRUNCATE."""
    bytes: int = 0
    """Of its messages."""
    topics: frozenset[str] = frozenset()
    """In which they stand."""
    truncated_at: Mapping[Position, datetime] = field(default_factory=dict)
    """When each of ``truncates`` was committed, as far as it is known."""
    numbers: Mapping[tuple[str, int], Mapping[str, int]] = field(default_factory=dict)
    """The newest transaction of each numbering (``numberings``) among its streamed changes, by topic partition."""

    @classmethod
    def nothing(cls, table: TableId, low: Position, high: Position) -> TableFacts:
        """No change at all: DDLs after ``low`` and up to ``high`` are to be applied."""
        return cls(table, 0, low, high, {}, None, (), frozenset())

    @staticmethod
    def combine(rows: Iterable[Mapping[str, Any]]) -> dict[TableId, TableFacts]:
        """From rows per (database, table, topic, partition). Refuses a topic with two tables."""
        found: dict[TableId, list[Mapping[str, Any]]] = {}
        owner: dict[str, TableId] = {}
        for row in rows:
            table = TableId(row["database"], row["table"])
            other = owner.setdefault(row["topic"], table)
            if other != table:
                raise IngestError(
                    "E-TOPIC-SHARED",
                    f"The topic {row['topic']} carries two tables, {other} and {table}.",
                    means="Their rows could be confused; the batch was not applied and stays in "
                    "Kafka.",
                    remedy="start over in a pipeline of another name with `topic_names: escaped` "
                    "below `source`.",
                    exit_code=Exit.FAILED,
                )
            found.setdefault(table, []).append(row)
        return {table: _combined(table, parts) for table, parts in sorted(found.items())}


def _moment(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def _combined(table: TableId, parts: list[Mapping[str, Any]]) -> TableFacts:
    return TableFacts(
        table=table,
        changes=sum(part["changes"] for part in parts),
        bytes=sum(part.get("bytes") or 0 for part in parts),
        topics=frozenset(part["topic"] for part in parts),
        low=min(Position.from_mapping(part["low"]) for part in parts),
        high=max(Position.from_mapping(part["high"]) for part in parts),
        high_water={
            (part["topic"], part["partition"]): (
                Position.from_mapping(part["high_water"]["position"]),
                part["high_water"]["gtid"] or "",
            )
            for part in parts
            if part["high_water"]
        },
        source_time=max(
            (_moment(p["source_time_us"]) for p in parts if p["source_time_us"] is not None),
            default=None,
        ),
        truncates=tuple(
            sorted(Position.from_mapping(t) for part in parts for t in part["truncates"] or ())
        ),
        truncated_at={
            Position.from_mapping(t): _moment(t["ts_us"])
            for part in parts
            for t in part["truncates"] or ()
            if t["ts_us"] is not None
        },
        keys=frozenset(tuple(key) for part in parts for key in part["keys"] or () if key),
        attempt=_newest_attempt(part["attempt"] for part in parts if part["attempt"]),
        reread=min(
            (Position.from_mapping(part["reread"]) for part in parts if part.get("reread")),
            default=None,
        ),
        numbers={
            (part["topic"], part["partition"]): part["numbers"]
            for part in parts
            if part.get("numbers")
        },
    )


def _newest_attempt(parts: Iterable[Mapping[str, Any]]) -> Attempt | None:
    """Of all partitions of a topic. Parts: ``run``; the places that its rows have, ``pos`` the lowest, ``high`` the highest; ``ends``: how many
    rows call themselves the last.
    """
    found = dict[str, Attempt]()
    for part in parts:
        pos, high = (Position.from_mapping(part[name]) for name in ("pos", "high"))
        twice = part.get("ends", 0) > 1
        one = Attempt(part["run"] or "", pos, high if high != pos else None, twice)
        found[one.run] = found[one.run].with_more(one) if one.run in found else one
    return max(found.values(), key=lambda one: one.highest or one.position, default=None)


@dataclass(frozen=True)
class Applied:
    """A table as a batch left it. ``unknown``: what only MySQL knows of the DDLs in it, in words.
    ``engine``: what made its last MERGE, and why; empty while this job has made none.
    """

    table: TableId
    path: str
    version: int
    changes: int
    id: str = ""
    unknown: tuple[str, ...] = ()
    engine: str = ""
    log: LogState | None = None
    """Its change log."""
    wiped: Position | None = None
    """The newest TRUNCATE or DROP that took the rows before it; None for none, as where a policy or the target keeps them."""

    def read_by_spark(self, because: str | None) -> Applied:
        """The same, said of a table whose changes were not plain enough for Arrow."""
        if not (because and self.engine):
            return self
        return replace(self, engine=f"{self.engine}{READ_BY_SPARK}{because}")


@dataclass(frozen=True)
class Step:
    """Changes at ``start`` (None: from the beginning) or later, and before ``end`` (None: no end).

    ``wipe``: rows older than this position are removed first, as a TRUNCATE or DROP did.
    ``previous``: the schema version before, when this step begins with a DDL.
    ``reset``: rows up to this position are removed: an attempt at a snapshot began again, and in a table without a key
    its rows cannot be told from those of the attempt before, whose place they take in one commit.
    ``moved``: the table came by this name from another one, so only MySQL knows its rows.
    ``number``: its place among the batch's steps, by which its commits are told apart.
    ``void``: a later step removes whatever this one would leave, so of this one nothing is applied but ``reset``.
    ``late``: the table had other columns already, by changes from another partition: they go for this step, and come back without their values.
    """

    start: Position | None
    end: Position | None
    version: SchemaVersion
    wipe: Position | None = None
    previous: SchemaVersion | None = None
    reset: Position | None = None
    moved: TableId | None = None
    number: int = 0
    void: bool = False
    late: bool = False


def steps(facts: TableFacts, catalog: Catalog, applied: Position | None) -> list[Step]:
    """Cut a table's changes at its barriers.

    ``applied``: the newest position of this table, snapshot included, that earlier batches have
    applied, or None. Barriers between there and the first change count, too: an added column has
    filled rows that no change will mention again, and a DROP has removed them. Raises
    :class:`IngestError` when no schema is known.
    """
    if applied is None:
        begin = _before_unlogged(catalog, facts.table, facts.low)
    else:
        begin = min(applied, facts.low)
    version = _in_force(catalog, facts, begin)
    found: list[Step] = []
    start: Position | None = None
    wipe: Position | None = None
    previous: SchemaVersion | None = None
    emptied = False
    # A table that is seen for the first time may have come with rows that nothing will mention.
    moved = _moved_from(catalog, facts.table, begin) if applied is None else None
    ddl = catalog.between(facts.table, begin, facts.high)
    for cut in sorted({v.position for v in ddl} | set(facts.truncates)):
        found.append(Step(start, cut, version, wipe, previous, moved=moved))
        at_cut = [v for v in ddl if v.position == cut]
        moved = at_cut[-1].moved_from if at_cut else None
        # Another table took the place of this one: what stands here is readable until the other's
        # rows are read.
        dropped = moved is None and any(v.kind == "DROP" for v in at_cut)
        wiped = cut in facts.truncates and facts.wiped
        wipe = cut if dropped or wiped else None
        previous = version if at_cut and not dropped and not emptied else None
        # Read anew from MySQL, a table is dropped and made at one place, and may be another one since.
        if at_cut and at_cut[-1].columns:
            version = at_cut[-1]
        emptied = dropped and not at_cut[-1].columns
        start = cut
    found.append(Step(start, None, version, wipe, previous, moved=moved))
    held = catalog.at(facts.table, applied) if applied is not None and facts.low < applied else None
    return [
        replace(one, number=number, late=_is_late(one, held, facts.high))
        for number, one in enumerate(found)
    ]


def _is_late(step: Step, held: SchemaVersion | None, high: Position) -> bool:
    """``held``: the version that the table is at, where changes of before that come; else None. ``high``: the newest change."""
    if held is None or not held.columns or (step.end or high) > held.position:
        return False
    return not step.version.is_like(held)


def _moved_from(catalog: Catalog, table: TableId, until: Position) -> TableId | None:
    """The name under which a table's rows came to be; other DDLs may have followed its RENAME."""
    for version in reversed(catalog.between(table, None, until)):
        if version.moved_from or version.kind != "ALTER":
            return version.moved_from
    return None


def _before_unlogged(catalog: Catalog, table: TableId, until: Position) -> Position:
    """Where a table stood that got rows without an event of them since it was made (``SchemaVersion.unlogged``); ``until`` for
    one that did not.
    """
    known = catalog.between(table, None, until)
    for before, version in reversed([*pairwise(known)]):
        if version.kind != "ALTER":
            break
        until = before.position if version.unlogged else until
    return until


def without_void(found: list[Step]) -> list[Step]:
    """The same steps, those before the last wipe void, and of these one for all in a row that are read alike.

    All that they would leave is older than that wipe, which comes before anything else of its step. So a table
    that is truncated each minute has two steps, however long nobody looked. Numbers stay: a batch that an earlier
    run has begun goes on behind the commits that it has made.
    """
    last = max((index for index, one in enumerate(found) if one.wipe), default=0)
    kept = list[Step]()
    for index, one in enumerate(found):
        if index >= last:
            kept.append(one)
        elif kept and kept[-1].version is one.version:
            kept[-1] = replace(kept[-1], end=one.end)
        else:
            kept.append(replace(one, void=True))
    return kept


def _in_force(catalog: Catalog, facts: TableFacts, position: Position) -> SchemaVersion:
    known = [v for v in catalog.between(facts.table, None, position) if v.kind != "DROP"]
    if not known and facts.attempt and facts.attempt.highest:
        # Rows of a reading that stand before its own definition (``restarted_snapshots.is_uncertain``): the table is taken again.
        own = catalog.between(facts.table, position, facts.attempt.highest)
        known = [v for v in own if v.columns][:1]
    if not known:
        raise IngestError(
            "E-SCHEMA-UNKNOWN",
            f"No schema of {facts.table} is known at position {position}.",
            means="Its changes cannot be read with certainty; the batch was not applied and stays "
            "in Kafka.",
            remedy="see that the schema-change topic is kept from its beginning "
            "(retention.ms=-1); a pipeline of another name takes a new snapshot with its schemas.",
            exit_code=Exit.FAILED,
        )
    return known[-1]
