"""A change log folded, and held against its table: what the newest change of each key says the row is. DataFrame to DataFrame.

What a DDL makes of rows that stand there (the default of a new column, a value in another type) is in no change. So a value is compared only where
it was written in the very field that its column has today.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ingest.changes import dedup, log_view
from ingest.model.names import quoted
from ingest.model.position import SQL_TYPE, Position
from ingest.schema.change_log import LogColumns

ROWS = ("insert", "update", "delete", "read")
"""Operations that are changes of rows."""

WIPES = ("truncate", "void")
"""Those behind whose position nothing is left of what came before."""

MISSING_IN_TABLE, MISSING_IN_LOG = "missing in the table", "missing in the log"

RESULT = "key string, found string, partly boolean"
"""A row of :func:`keyed` or :func:`counted`. ``found``: ``missing in the table``, ``missing in the log``, ``differs``, or NULL where log and table
are the same; ``partly``: a value of it could not be compared, as a DDL came behind its change.
"""


@dataclass(frozen=True)
class Wiped:
    """What of a log holds nothing any more. ``before``: the newest TRUNCATE's or snapshot's position; ``restart``: the newest ``restart``, as
    the batch and the position at which it stands.
    """

    before: Position | None = None
    restart: tuple[int, Position] | None = None

    @property
    def stands(self) -> Column:
        """Whether a row of the log is not wiped."""
        here, found = F.col("position"), F.lit(True)
        if self.before:
            found &= here >= dedup.literal(self.before)
        if self.restart:
            batch, at = self.restart[0], dedup.literal(self.restart[1])
            behind = F.struct("batch_id", "position") >= F.struct(F.lit(batch).cast("bigint"), at)
            found &= (here > at) | behind
        return found


def wiped(log: DataFrame) -> Wiped:
    """In: a log. One job."""
    place = F.struct("batch_id", "position")
    row = log.agg(
        F.max(F.when(F.col("operation").isin(*WIPES), F.col("position"))).alias("before"),
        F.max(F.when(F.col("operation") == "restart", place)).alias("restart"),
    ).collect()[0]
    restart = row.restart and (
        row.restart.batch_id,
        Position.from_mapping(row.restart.position.asDict()),
    )
    return Wiped(row.before and Position.from_mapping(row.before.asDict()), restart or None)


def keyed(
    log: DataFrame, columns: LogColumns, wiped: Wiped, table: DataFrame, key: Sequence[str]
) -> DataFrame:
    """In: a log, as Delta reads it, and the rows that count of its table, which has a key. Out: :data:`RESULT`, a row for each key of either."""
    names = _compared(columns, table)
    newest = (
        _changes(log, columns, wiped)
        .groupBy(_fields("image", key).alias("_key"))
        .agg(F.max_by(F.struct("*"), F.struct("position", "batch_id")).alias("_change"))
        .filter("_change.operation <> 'delete'")
    )
    own = [_written(columns, one, "_change.schema_version").alias(one) for one in names]
    ours = newest.select(
        "_key", _fields("_change.image", names).alias("_log"), F.struct(*own).alias("_own")
    )
    theirs = table.select(
        F.struct(*map(quoted, key)).alias("_key"), F.struct(*map(quoted, names)).alias("_table")
    )
    mine, other = F.col("l._key"), F.col("t._key")
    both = ours.alias("l").join(theirs.alias("t"), mine.eqNullSafe(other), "full_outer")
    differs, partly = F.lit(False), F.lit(False)
    for one in names:
        is_own, same = F.col("_own")[one], F.col("_log")[one].eqNullSafe(F.col("_table")[one])
        differs, partly = differs | (is_own & ~same), partly | ~is_own
    found = F.when(other.isNull(), MISSING_IN_TABLE).when(mine.isNull(), MISSING_IN_LOG)
    named = _text(F.coalesce(mine, other), key)
    return both.select(
        named.alias("key"),
        found.when(differs, "differs").alias("found"),
        (mine.isNotNull() & other.isNotNull() & partly).alias("partly"),
    )


def counted(log: DataFrame, columns: LogColumns, wiped: Wiped, table: DataFrame) -> DataFrame:
    """The same of a table without a key: a row for each content that either has."""
    names = _compared(columns, table)
    changes = log_view.today(log, columns).filter(wiped.stands)
    partly = F.lit(False)
    for one in names:
        partly |= ~_written(columns, one, "schema_version")
    none, one_more = F.lit(0), F.lit(1)
    parts = [
        changes.filter(F.col(image).isNotNull()).select(
            _fields(image, names).alias("_row"),
            many.alias("_log"),
            none.alias("_table"),
            partly.alias("_partly"),
        )
        for image, many in (("before", F.lit(-1)), ("after", one_more))
    ]
    row = F.struct(*map(quoted, names)).alias("_row")
    parts.append(
        table.select(
            row, none.alias("_log"), one_more.alias("_table"), F.lit(False).alias("_partly")
        )
    )
    sums = (
        reduce(DataFrame.unionByName, parts)
        .groupBy("_row")
        .agg(
            *[F.sum(one).alias(one) for one in ("_log", "_table")], F.max("_partly").alias("partly")
        )
        .filter("_log <> 0 OR _table <> 0 OR partly")
    )
    more, less = F.col("_log") > F.col("_table"), F.col("_log") < F.col("_table")
    found = F.when(more, MISSING_IN_TABLE).when(less, MISSING_IN_LOG)
    return sums.select(_text(F.col("_row"), names).alias("key"), found.alias("found"), "partly")


def _changes(log: DataFrame, columns: LogColumns, wiped: Wiped) -> DataFrame:
    """Changes of rows that are not wiped, with the row that each is of as ``image``, by the table's columns today."""
    here = log_view.today(log, columns).filter(F.col("operation").isin(*ROWS) & wiped.stands)
    image = F.when(F.col("operation") == "delete", F.col("before")).otherwise(F.col("after"))
    return here.select("operation", "position", "batch_id", "schema_version", image.alias("image"))


def _fields(struct: str, names: Sequence[str]) -> Column:
    """These fields of a struct, and no others."""
    return F.struct(*[F.col(struct)[one].alias(one) for one in names])


def _text(row: Column, names: Sequence[str]) -> Column:
    """For a person: ``id=7, at=NULL``."""
    held = [F.coalesce(row[one].cast("string"), F.lit("NULL")) for one in names]
    each = [F.concat(F.lit(f"{one}="), text) for one, text in zip(names, held, strict=True)]
    return F.concat_ws(", ", *each)


def _compared(columns: LogColumns, table: DataFrame) -> list[str]:
    """Columns that both have."""
    there = {name.lower(): name for name in table.columns}
    return [there[name.lower()] for name in columns.today if name.lower() in there]


def _written(columns: LogColumns, column: str, version: str) -> Column:
    """Whether a change was written when its column had the field that it has today. ``version``: names the column with the definition's position."""
    today: Mapping[str, str] = {name.lower(): field for name, field in columns.today.items()}
    since = next(one.since for one in columns.fields if one.name == today[column.lower()])
    parts = F.split(F.col(version), "[/:.]")
    names = ("epoch", "file", "pos", "row", "part")
    at = F.struct(*[parts[number].cast("bigint").alias(name) for number, name in enumerate(names)])
    return F.coalesce(at.cast(SQL_TYPE) >= dedup.literal(since), F.lit(False))
