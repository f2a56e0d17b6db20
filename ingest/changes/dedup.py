"""Re-sent changes recognised, and one winning change per key. DataFrame to DataFrame.

Debezium emits a topic partition's streamed changes in log order, so one at or below the highest
position already applied for that partition was sent before. Snapshot rows all share one position
and are exempt: Kafka's offset says whether one was applied, and the row's own position guards it
(see ``mirror``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ingest.changes.envelope import PLACE
from ingest.model.gtid import numbered
from ingest.model.manifest import HighWater, Place
from ingest.model.position import SQL_TYPE, Position
from ingest.model.topics import TableId
from ingest.schema.set_aside import Spans
from ingest.schema.steps import Attempt

HighWaters = Mapping[Place, HighWater]
"""Per topic partition, what is committed. See :class:`ingest.model.manifest.HighWater`."""

RESENT, OBSOLETE, PAUSED, UNREADABLE = "resent", "obsolete", "paused", "unreadable"
"""Why a change is passed over: it was applied before; the newest TRUNCATE, DROP or snapshot of its table
comes after it; it waits behind a DDL; or its table has a column then that has no place in the lake."""

MOVED_BACK = 64
"""Bytes by which an event of the log may move the place of a reading's rows back: a heartbeat's is its end less 23 and the file's name, a
commit's its end less 31. A TRUNCATE, which puts the floor beyond a reading as well, comes behind a GTID's event of 65 bytes and more.
"""

REMEMBERED = "remembered"
"""It was applied before, and Spark's state is who knows."""


def literal(position: Position) -> Column:
    """A position as a Spark literal of ``SQL_TYPE``."""
    return F.expr(position.sql())


def streamed() -> Column:
    """True for a change from the log, false for a snapshot row."""
    return F.col("op") != "r"


def is_last() -> Column:
    """True for what Debezium calls a table's last row in a snapshot."""
    return F.col("snapshot").isin("last", "last_in_data_collection")


def marked(
    changes: DataFrame,
    high_water: HighWaters,
    floors: Mapping[TableId, Position],
    restart: int = 0,
    readings: Mapping[TableId, str] = MappingProxyType({}),
) -> DataFrame:
    """Adds ``passed_over string`` (see :data:`RESENT`, :data:`OBSOLETE`, or null) and ``regressed
    boolean``: a streamed change that its position calls re-sent and its GTID calls new, so some log
    was replaced by another without our knowing; and ``torn boolean``: another server sends it, and it is of
    the very transaction that was applied last, perhaps in part, or of another tag of that server's, of
    which the mark says nothing; and ``stray boolean``: a row of the very reading that its table's state names (``readings``)
    stands just before the floor (:data:`MOVED_BACK`).

    Deterministic for a given batch: the high-water marks and floors are those of the manifest
    *before* it, so a replay sees the same. ``restart``: the newest epoch whose transaction numbers
    began anew, so that older marks say nothing of them, and every table was taken again, so that nothing older
    is missed.
    """
    mark = of_place(high_water)
    at = mark["position"]
    numbering, number = transaction()
    # How many transactions of one numbering a change comes after the mark; null for another one's.
    ahead = F.when(numbering == mark["numbering"], number - mark["number"])
    same_server = F.substring_index("gtid", ":", 1) == F.substring_index(mark["numbering"], ":", 1)
    older = streamed() & (F.col("position") <= at)
    other = streamed() & (F.col("position.epoch") > at["epoch"]) & (at["epoch"] >= restart)
    resent = _holds(F.col("offset") < mark["offset"]) | _holds(older) | _holds(other & (ahead <= 0))
    # What comes again has come, to this very partition, and so has all of its numbering before it: what has not is
    # new, and behind all that came. Of a server that never came, as one that took over, all is; another tag of the
    # mark's own may have come before tags were noted.
    came = F.when(ahead.isNotNull(), mark["number"]).otherwise(mark["others"][numbering])
    none = F.when(~same_server, F.lit(0))
    is_new = (F.col("offset") >= mark["offset"]) & (number > F.coalesce(came, none))
    regressed = _holds(older & is_new & (F.col("position.epoch") >= restart))
    floor, here = _of_table(floors), F.col("position")
    obsolete = _holds(here < floor)
    reason = F.when(resent, RESENT).when(obsolete, OBSOLETE)
    torn = _holds(streamed() & other & ((ahead == 0) | (same_server & ahead.isNull())))
    own = F.col("reading") == of_tables(readings, "string")
    one_file = (here["epoch"] == floor["epoch"]) & (here["file"] == floor["file"])
    just_before = obsolete & one_file & (floor["pos"] - here["pos"] < MOVED_BACK)
    stray = _holds(own & just_before) & ~resent
    said = {"passed_over": reason, "regressed": regressed, "torn": torn, "stray": stray}
    return changes.withColumns(said)


def transaction() -> tuple[Column, Column]:
    """Numbering and number of a change's GTID (``gtid.numbered``): all but the last, since a tag may stand behind the server."""
    own = F.substring_index("gtid", ":", -1)
    return F.left("gtid", F.length("gtid") - F.length(own) - 1), own.try_cast("bigint")


def _holds(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))


# Looked up in one literal each: a condition per table would have to be built, analysed and evaluated for
# every table of every batch.
_MARK = (
    f"struct<offset: bigint, position: {SQL_TYPE}, numbering: string, number: bigint, "
    "others: map<string, bigint>>"
)


def of_place(high_water: HighWaters) -> Column:
    """The mark of a change's topic partition; null without one."""
    marks = {
        f"{topic}/{partition}": {
            "offset": mark.offset,
            "position": mark.position.as_dict() if mark.position else None,
            "others": dict(mark.others),
            **_transaction(mark.gtid),
        }
        for (topic, partition), mark in high_water.items()
    }
    return lookup(marks, _MARK)[F.concat_ws("/", "topic", F.col("partition").cast("string"))]


def _of_table(floors: Mapping[TableId, Position]) -> Column:
    """The position of a change's table; null without one."""
    return of_tables({t: position.as_dict() for t, position in floors.items()}, SQL_TYPE)


def of_tables(said: Mapping[TableId, object], type_: str) -> Column:
    """What is said of a change's table; null where nothing is."""
    values = {f"{t.database}\x00{t.name}": one for t, one in said.items()}
    return lookup(values, type_)[F.concat_ws("\x00", "database", "table")]


def lookup(values: Mapping[str, object], type_: str) -> Column:
    """A map, in which a key that is not there has NULL."""
    return F.from_json(F.lit(json.dumps(values)), f"map<string, {type_}>")


def _transaction(gtid: str) -> dict[str, object]:
    """Numbering and number of a GTID: a server numbers its transactions in the order of its log, so the newest
    number says it all.
    """
    found = numbered(gtid)
    return {"numbering": found[0], "number": found[1]} if found else {}


def paused(marked_changes: DataFrame, barriers: Mapping[str, Position]) -> DataFrame:
    """Marks (``passed_over``) the changes at or behind the DDL that their table stands before."""
    if not barriers:
        return marked_changes
    at = _of_table({TableId.parse(name): position for name, position in barriers.items()})
    behind = _holds(F.col("position") >= at)
    reason = F.when(behind, PAUSED).otherwise(F.col("passed_over"))
    return marked_changes.withColumn("passed_over", reason)


def remembered(marked_changes: DataFrame, unseen: DataFrame) -> DataFrame:
    """Marks (``passed_over``) the changes that Spark's state has seen before; of these nothing else is said. ``unseen``: the places of
    all others (``envelope.PLACE``).
    """
    mine = unseen.select(*PLACE, F.lit(True).alias("_unseen"))
    is_new = F.col("_unseen").isNotNull()
    said = {
        "passed_over": F.when(is_new, F.col("passed_over")).otherwise(REMEMBERED),
        "regressed": is_new & F.col("regressed"),
        "torn": is_new & F.col("torn"),
    }
    return marked_changes.join(mine, [*PLACE], "left").withColumns(said).drop("_unseen")


def set_aside(marked_changes: DataFrame, spans: Spans) -> DataFrame:
    """Marks (``passed_over``) the changes that cannot be read and that no rule has passed over yet."""
    for table, those in spans.items():
        here = (F.col("database") == table.database) & (F.col("table") == table.name)
        within = F.lit(False)
        for span in those:
            since = F.col("position") >= literal(span.start)
            within |= since & (F.col("position") < literal(span.end)) if span.end else since
        reason = F.coalesce("passed_over", F.when(here & _holds(within), UNREADABLE))
        marked_changes = marked_changes.withColumn("passed_over", reason)
    return marked_changes


def within(position: Column, start: Position | None, end: Position | None) -> Column:
    """True for positions from ``start`` on and before ``end``; None: no bound."""
    found = F.lit(True)
    if start is not None:
        found &= position >= literal(start)
    if end is not None:
        found &= position < literal(end)
    return found


def fresh(marked_changes: DataFrame) -> DataFrame:
    """The changes that are to be applied."""
    return marked_changes.filter(F.col("passed_over").isNull())


def of_attempt(changes: DataFrame, attempt: Attempt) -> DataFrame:
    """Snapshot rows of this attempt alone, and streamed changes that it does not contain."""
    later = ~streamed() | (F.col("position") > literal(attempt.position))
    return without_other_attempts(changes, attempt).filter(later)


def without_other_attempts(changes: DataFrame, attempt: Attempt) -> DataFrame:
    """All streamed changes, and of snapshots' rows those of this attempt."""
    return changes.filter(streamed() | _holds(F.col("reading") == attempt.run))


def once(changes: DataFrame) -> DataFrame:
    """Drop repetitions of a streamed change inside a batch: the same position is the same change.

    Snapshot rows keep theirs: they share one position, and offsets tell them apart.
    """
    identity = _identity()
    told_apart = changes.withColumns(identity)
    return told_apart.dropDuplicates([*identity, "partition"]).drop(*identity)


def once_and_first(changes: DataFrame) -> DataFrame:
    """The same, and of a change that was sent again the copy with the least offset stays."""
    order = Window.partitionBy("partition", *_identity().values()).orderBy("offset")
    number = F.row_number().over(order)
    return changes.withColumn("_copy", number).filter(F.col("_copy") == 1).drop("_copy")


def _identity() -> dict[str, Column]:
    """What tells changes of a partition apart."""
    return {
        "_identity": F.when(streamed(), F.col("position")),
        "_offset": F.when(~streamed(), F.col("offset")),
    }


def winners(changes: DataFrame, key: Sequence[str]) -> DataFrame:
    """One change per key: the one with the highest position.

    In: columns of ``row_images.typed``. Out: ``op, position, committed_at, row`` of the winner. Ties
    do not exist between different changes; two copies of one change are equal.
    """
    keys = [F.col("row").getField(name) for name in key]
    picked = F.struct("op", "position", "committed_at", "row")
    return (
        changes.groupBy(*[k.alias(f"_key{i}") for i, k in enumerate(keys)])
        .agg(F.max_by(picked, F.col("position")).alias("winner"))
        .select("winner.*")
    )
