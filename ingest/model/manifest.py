"""The manifest: the ledger of batches, a Delta table written once per batch, last.

It says which Kafka offsets a batch took, how far in the source's log it reached, and which version
of which table holds the result. A batch is published when its row is here; a table version newer
than the newest row belongs to a batch that is still being applied.

Batches are numbered here, one after the other for the life of the lake, and not by Spark: Spark's
own numbers begin again at 0 with each checkpoint, and a lost checkpoint must not renumber history. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Literal

from ingest.model import numberings
from ingest.model.gap import Gap
from ingest.model.position import SQL_TYPE, Position

Place = tuple[str, int]
"""A Kafka topic and partition."""

Kind = Literal["batch", "cleanup", "rewind", "replay", "drop", "fill"]
"""``batch``: a range of Kafka. ``cleanup``: rows that a completed snapshot did not contain were
removed. ``rewind``: where some topics go on was set back (a restored table, ``--from-beginning``)
or forward (a gap). ``replay``: what waited in quarantine was taken in. ``drop``: some of it was given up.
``fill``: a change log was filled with what Kafka had of its table's changes."""

FIRST_SCHEMA = (
    "batch_id bigint, kind string, checkpoint_id string, term bigint, "
    "offsets array<struct<topic: string, partition: int, start: bigint, end: bigint>>, "
    "high_water array<struct<topic: string, partition: int, topic_id: string, offset: bigint, "
    f"position: {SQL_TYPE}, gtid: string>>, "
    "tables array<struct<name: string, path: string, version: bigint, changes: bigint, "
    f"position: {SQL_TYPE}, floor: {SQL_TYPE}, run: string, snapshot: {SQL_TYPE}, "
    f"reread: {SQL_TYPE}, id: string, paused: {SQL_TYPE}, paused_by: string, "
    "left_out: array<string>, kept: array<string>, engine: string>>, "
    "gaps array<struct<table: string, topic: string, partition: int, start: bigint, end: bigint, "
    f"reason: string, since: bigint, resync: {SQL_TYPE}, position: {SQL_TYPE}>>, "
    "changes bigint, rejects bigint, resent bigint, late bigint, "
    f"position {SQL_TYPE}, source_time timestamp, schema_offset bigint, "
    "state_rows bigint, state_bytes bigint, "
    "started_at timestamp, seconds double, stages array<struct<stage: string, seconds: double>>, "
    "code_version string"
)
"""What every manifest has, from the first format on that is gone on with.

One row per batch. ``offsets`` are half-open ranges of every partition so far, empty for those
that did not move, so one whole row alone says where each goes on; ``high_water``, ``tables`` and ``gaps``
are cumulative too. Of all four a part row has what differs from the row before (``part_rows``)."""

SCHEMA = (
    f"{FIRST_SCHEMA}, base bigint, follows bigint, gaps_gone array<int>, gaps_at array<int>, "
    "total_changes bigint, stopped array<struct<table: string, reason: string>>, "
    f"hidden array<struct<table: string, position: {SQL_TYPE}>>, spark_batch bigint, part int, "
    "lanes array<struct<lane: string, changes: bigint>>, remembered bigint, "
    "logs array<struct<table: string, path: string, version: bigint, id: string, "
    "ends: array<struct<partition: int, offset: bigint>>>>, "
    f"numbers {numberings.SQL_TYPE}"
)
"""``base``: the whole row that a part row rests upon; NULL in a whole one, as in all rows of before there were others.
``follows``: the row before. ``gaps_gone``: where in that row's gaps those stood that are gone or changed; ``gaps_at``: where
in this one's each of ``gaps`` stands. ``total_changes``: of all batches up to this one. ``stopped``: which of ``tables`` stand still, and
why. ``hidden``: of which a snapshot waits in Kafka, and the place at which that was taken. ``spark_batch``: of Spark's batches
under this checkpoint the newest of which anything is published; ``part``: and the newest of its parts. ``logs``: change logs of
``tables``, as :class:`LogState` has them. ``numbers``: ``others`` of the marks."""


@dataclass(frozen=True)
class HighWater:
    """What of one topic partition is applied: everything below ``offset``, and every streamed
    change up to ``position`` (its transaction: ``gtid``), wherever in the topic it comes again.

    Unlike ``offsets`` it never goes back when topics are read again from their beginning.
    """

    offset: int = 0
    position: Position | None = None
    gtid: str = ""
    topic_id: str = ""
    others: numberings.Others = ()
    """The newest transactions of other numberings than that one's; none in a manifest of before it noted them."""


@dataclass(frozen=True)
class LogState:
    """A table's change log as a batch left it. ``ends``: by partition of the table's topic, below which it holds all that was applied."""

    path: str
    version: int
    id: str
    ends: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class TableState:
    """A mirror as a batch left it."""

    path: str
    version: int
    changes: int = 0
    """Changes of this batch; 0 for a table that it did not touch."""
    position: Position | None = None
    """The newest position applied so far, snapshot rows included."""
    floor: Position | None = None
    """Changes before it mean nothing any more: the newest TRUNCATE or DROP, or the newest snapshot's."""
    run: str = ""
    """The connector run that wrote the newest snapshot rows: two attempts at one position differ
    by it."""
    snapshot: Position | None = None
    """The newest snapshot that is known to be complete and whose absent rows are gone."""
    reread: Position | None = None
    """The lowest place of the rows of an incremental snapshot that is under way."""
    id: str = ""
    """Delta's own id of the table: a table that was dropped and made again has another."""
    paused: Position | None = None
    """The DDL before which the table stands still, as a policy says; its changes from there on wait in
    Kafka, from the offsets of its high-water marks on."""
    paused_by: str = ""
    """That statement."""
    left_out: tuple[str, ...] = ()
    """Columns of the source that a policy leaves out of the lake."""
    kept: tuple[str, ...] = ()
    """Columns of the lake that the source no longer has."""
    engine: str = ""
    """What made its last MERGE, and why, in words."""
    stopped: str = ""
    """Why it stands still, in words: a part of a batch could not be applied to it. What came from there on waits in
    Kafka, from the offsets of its high-water marks on, as behind ``paused``."""
    hidden: Position | None = None
    """Of a table without a key that is taken again: the place of a snapshot that is not known to be whole. It waits in Kafka,
    with what came from there on, as behind ``stopped``; readers see what the table held before."""
    log: LogState | None = None
    """Its change log; None where the newest batch of the table was not written to one."""

    @property
    def was_never_made(self) -> bool:
        """True of a table that stood still before there was anything of it in the lake."""
        return not (self.version or self.id)

    @property
    def waits(self) -> bool:
        """True when changes are read and left in Kafka."""
        return bool(self.paused or self.stopped or self.hidden)


@dataclass(frozen=True)
class Entry:
    """One batch of the ledger."""

    batch_id: int
    checkpoint_id: str
    offsets: Mapping[Place, tuple[int, int]]
    high_water: Mapping[Place, HighWater]
    tables: Mapping[str, TableState]
    changes: int
    rejects: int
    position: Position | None
    source_time: datetime | None
    schema_offset: int
    started_at: datetime
    seconds: float
    kind: Kind = "batch"
    term: int = 0
    gaps: tuple[Gap, ...] = ()
    resent: int = 0
    """Changes that had been applied before and were recognised."""
    remembered: int = 0
    """Of these: how many Spark's state had seen; all others are known by their position."""
    late: int = 0
    """Changes that Spark's watermark would have dropped, and that were read again and applied."""
    state_rows: int = 0
    state_bytes: int = 0
    stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each stage, in order; what follows the manifest is not in it."""
    code_version: str = field(default="")
    spark_batch: int | None = None
    """The newest of Spark's batches, by its number under this checkpoint, of which anything is published; None where the row
    does not say."""
    part: int | None = None
    """The newest of its parts, from 0."""
    lanes: Mapping[str, int] = field(default_factory=dict)
    """Changes by where they were read: by Arrow in the ``driver`` or in Spark's ``tasks``, or by Spark's ``columns``. Empty for
    batches of before it was noted."""

    @property
    def ends(self) -> dict[Place, int]:
        """Where each partition goes on."""
        return {place: end for place, (_, end) in self.offsets.items()}

    @property
    def versions(self) -> dict[str, int]:
        """By path of a table: the version that holds what is published."""
        logs = {one.log.path: one.log.version for one in self.tables.values() if one.log}
        return {state.path: state.version for state in self.tables.values()} | logs

    def without_changes(self, kind: Kind, batch_id: int, term: int) -> Entry:
        """A row after this one that takes nothing from Kafka: all counts 0, all ranges empty."""
        return replace(
            self,
            kind=kind,
            batch_id=batch_id,
            term=term,
            offsets={place: (end, end) for place, end in self.ends.items()},
            tables={name: replace(state, changes=0) for name, state in self.tables.items()},
            changes=0,
            rejects=0,
            resent=0,
            remembered=0,
            late=0,
            started_at=datetime.now(timezone.utc),
            seconds=0.0,
            stages={},
            lanes={},
        )

    def as_row(self) -> dict[str, Any]:
        """For Spark, in the shape of :data:`SCHEMA`."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "spark_batch": self.spark_batch,
            "part": self.part,
            "remembered": self.remembered,
            "lanes": [{"lane": name, "changes": many} for name, many in self.lanes.items()],
            "position": _dict(self.position),
            "offsets": [
                {"topic": t, "partition": p, "start": start, "end": end}
                for (t, p), (start, end) in sorted(self.offsets.items())
            ],
            "high_water": [
                {"topic": t, "partition": p, "position": _dict(mark.position)}
                | {name: getattr(mark, name) for name in ("offset", "gtid", "topic_id")}
                for (t, p), mark in sorted(self.high_water.items())
            ],
            "numbers": numberings.listed({at: m.others for at, m in self.high_water.items()}),
            "tables": [
                {
                    "name": name,
                    **{k: value for k, value in vars(state).items() if k not in _LISTED},
                    **{k: _dict(getattr(state, k)) for k in _POSITIONS},
                    **{k: list(getattr(state, k)) for k in _NAMES},
                }
                for name, state in sorted(self.tables.items())
            ],
            "stopped": [
                {"table": name, "reason": state.stopped}
                for name, state in sorted(self.tables.items())
                if state.stopped
            ],
            "hidden": [
                {"table": name, "position": _dict(state.hidden)}
                for name, state in sorted(self.tables.items())
                if state.hidden
            ],
            "logs": [
                {"table": name, **vars(state.log), "ends": _ends(state.log)}
                for name, state in sorted(self.tables.items())
                if state.log
            ],
            "stages": [{"stage": name, "seconds": took} for name, took in self.stages.items()],
            "gaps": [
                {**vars(gap), "resync": _dict(gap.resync), "position": _dict(gap.position)}
                for gap in self.gaps
            ],
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Entry:
        """From a row as Spark (``asDict(recursive=True)``) or Arrow gives it."""
        plain: dict[str, Any] = {name: row[name] for name in _PLAIN}
        stopped = {one["table"]: one["reason"] for one in row.get("stopped") or ()}
        hidden = {one["table"]: one["position"] for one in row.get("hidden") or ()}
        logs = {one["table"]: _log_state(one) for one in row.get("logs") or ()}
        others = numberings.by_place(row.get("numbers"))
        return cls(
            **plain,
            spark_batch=row.get("spark_batch"),
            part=row.get("part"),
            remembered=row.get("remembered") or 0,
            lanes={one["lane"]: one["changes"] for one in row.get("lanes") or ()},
            position=_position(row["position"]),
            offsets={place: (o["start"], o["end"]) for place, o in _by_place(row["offsets"])},
            high_water={at: _mark(h, others.get(at, ())) for at, h in _by_place(row["high_water"])},
            tables={t["name"]: _table_state(t, stopped, hidden, logs) for t in row["tables"] or ()},
            stages={one["stage"]: one["seconds"] for one in row["stages"] or ()},
            gaps=tuple(
                Gap(**{**gap, **{k: _position(gap[k]) for k in ("resync", "position")}})
                for gap in row["gaps"] or ()
            ),
        )


_POSITIONS = ("position", "floor", "snapshot", "reread", "paused")
_NAMES = ("left_out", "kept")
_LISTED = ("stopped", "hidden", "log")  # by lists of their own, which older manifests lack
_PLAIN = (
    "batch_id",
    "kind",
    "checkpoint_id",
    "term",
    "changes",
    "rejects",
    "resent",
    "late",
    "source_time",
    "schema_offset",
    "state_rows",
    "state_bytes",
    "started_at",
    "seconds",
    "code_version",
)


def _dict(position: Position | None) -> dict[str, int] | None:
    return position.as_dict() if position else None


def _position(value: Any) -> Position | None:
    return Position.from_mapping(value) if value else None


def _by_place(rows: Any) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    return (((row["topic"], row["partition"]), row) for row in rows or ())


def _mark(row: Mapping[str, Any], others: numberings.Others) -> HighWater:
    at = _position(row["position"])
    return HighWater(row["offset"], at, row["gtid"], row["topic_id"], others)


def _ends(log: LogState) -> list[dict[str, int]]:
    return [{"partition": partition, "offset": end} for partition, end in log.ends]


def _log_state(row: Mapping[str, Any]) -> LogState:
    ends = tuple((one["partition"], one["offset"]) for one in row["ends"] or ())
    return LogState(row["path"], row["version"], row["id"], ends)


def _table_state(
    row: Mapping[str, Any],
    stopped: Mapping[str, str],
    hidden: Mapping[str, Any],
    logs: Mapping[str, LogState],
) -> TableState:
    rest = {key: value for key, value in row.items() if key != "name"}
    names = {key: tuple(row[key] or ()) for key in _NAMES}
    places = {key: _position(row[key]) for key in _POSITIONS}
    listed = {
        "stopped": stopped.get(row["name"], ""),
        "hidden": _position(hidden.get(row["name"])),
        "log": logs.get(row["name"]),
    }
    return TableState(**{**rest, **places, **names, **listed})
