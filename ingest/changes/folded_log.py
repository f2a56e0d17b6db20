"""A change log folded, and held against its table: what the newest change of each key says the row is. DataFrame to DataFrame.

What a DDL makes of rows that stand there (the default of a new column, a value in another type) is in no change. So a value is compared only where
it was written in the very field that its column has today, and a row only where its newest change came behind the last DDL that may have changed
the key.
"""

from __future__ import annotations

from collections.abc import Sequence
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

OF_KEYS = r"(?i)\b(key|index|unique|auto_increment|serial)\b"
"""In statements that may give a table another key. Rather too many than too few: rows of before are not compared."""

MISSING_IN_TABLE, MISSING_IN_LOG = "missing in the table", "missing in the log"
GONE = "deleted in the log"

RESULT = "key string, found string, partly boolean, passed boolean"
"""A row of :func:`keyed` or :func:`counted`. ``found``: ``missing in the table``, ``missing in the log`` (which says nothing of it), ``deleted in the
log``, ``differs``, or NULL where log and table are the same; ``partly``: a value of it could not be compared, as a DDL came behind its change;
``passed``: nothing of it could be.
"""

_Place = tuple[int, Position]
"""In a log: the batch, and the position."""


@dataclass(frozen=True)
class Told:
    """What a log says beside changes of rows. ``before``: the newest TRUNCATE's or snapshot's position, before which nothing is left; ``restart``: the
    newest ``restart``; ``begin``: the newest ``begin``; ``key``: the newest statement that may have changed the key.
    """

    before: Position | None = None
    restart: _Place | None = None
    begin: _Place | None = None
    key: _Place | None = None

    @property
    def stands(self) -> Column:
        """Whether what a row of the log says was not wiped."""
        here, found = F.col("position"), F.lit(True)
        if self.before:
            found &= here >= dedup.literal(self.before)
        if self.restart:
            found &= (here > dedup.literal(self.restart[1])) | _behind(self.restart)
        return found

    @property
    def is_certain(self) -> Column:
        """Whether all that came of its row behind a row of the log is in the log, by the key that it has."""
        found = F.lit(True)
        for place in (self.begin, self.key):
            if place:
                found &= _behind(place)
        return found


def told(log: DataFrame) -> Told:
    """In: a log. One job."""
    operation, place = F.col("operation"), F.struct("batch_id", "position")
    of_keys = (operation == "schema") & F.col("statement").rlike(OF_KEYS)
    row = log.agg(
        F.max(F.when(operation.isin(*WIPES), F.col("position"))).alias("before"),
        F.max(F.when(operation == "restart", place)).alias("restart"),
        F.max(F.when(operation == "begin", place)).alias("begin"),
        F.max(F.when(of_keys, place)).alias("key"),
    ).collect()[0]
    places = [
        (row[name].batch_id, Position.from_mapping(row[name].position.asDict()))
        if row[name]
        else None
        for name in ("restart", "begin", "key")
    ]
    return Told(row.before and Position.from_mapping(row.before.asDict()), *places)


def keyed(
    log: DataFrame, columns: LogColumns, said: Told, table: DataFrame, key: Sequence[str]
) -> DataFrame:
    """In: a log, as Delta reads it, and the rows that count of its table, which has a key. Out: :data:`RESULT`, a row for each key of either."""
    names = compared(columns, table)
    newest = (
        _changes(log, columns, said)
        .groupBy(_fields("image", key).alias("_key"))
        .agg(F.max_by(F.struct("*"), F.struct("position", "batch_id")).alias("_change"))
    )
    written = F.col("_change.defined")
    keys = [_written(columns, one, written) for one in key]
    ours = newest.select(
        "_key",
        _fields("_change.image", names).alias("_log"),
        F.struct(*[_written(columns, one, written).alias(one) for one in names]).alias("_own"),
        F.col("_change.gone").alias("_gone"),
        reduce(Column.__and__, keys, F.col("_change.certain")).alias("_certain"),
    )
    theirs = table.select(
        F.struct(*map(quoted, key)).alias("_key"), F.struct(*map(quoted, names)).alias("_table")
    )
    mine, other = F.col("l._key"), F.col("t._key")
    both = ours.alias("l").join(theirs.alias("t"), mine.eqNullSafe(other), "full_outer")
    both = both.filter(other.isNotNull() | ~F.col("_gone"))
    own = [F.col("_own")[one] for one in names]
    same = [F.col("_log")[one].eqNullSafe(F.col("_table")[one]) for one in names]
    differs = _any([is_own & ~equal for is_own, equal in zip(own, same, strict=True)])
    found = (
        F.when(mine.isNull(), MISSING_IN_LOG)
        .when(other.isNull(), MISSING_IN_TABLE)
        .when(F.col("_gone"), GONE)
        .when(differs, "differs")
    )
    passed = F.coalesce(~F.col("_certain"), F.lit(False))
    there = mine.isNotNull() & other.isNotNull() & ~F.col("_gone") & ~passed
    return both.select(
        _text(F.coalesce(mine, other), key).alias("key"),
        F.when(~passed, found).alias("found"),
        F.coalesce(there & _any([~one for one in own]), F.lit(False)).alias("partly"),
        passed.alias("passed"),
    )


def counted(log: DataFrame, columns: LogColumns, said: Told, table: DataFrame) -> DataFrame:
    """The same of a table without a key: a row for each content that either has."""
    names = compared(columns, table)
    changes = _defined(log_view.today(log, columns)).filter(said.stands)
    partly = _any([~_written(columns, one, F.col("defined")) for one in names])
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
    row, never = F.struct(*map(quoted, names)).alias("_row"), F.lit(False).alias("_partly")
    parts.append(table.select(row, none.alias("_log"), one_more.alias("_table"), never))
    sums = (
        reduce(DataFrame.unionByName, parts)
        .groupBy("_row")
        .agg(
            *[F.sum(one).alias(one) for one in ("_log", "_table")],
            F.max("_partly").alias("partly"),
        )
        .filter("_log <> 0 OR _table <> 0 OR partly")
    )
    more, less = F.col("_log") > F.col("_table"), F.col("_log") < F.col("_table")
    found = F.when(more, MISSING_IN_TABLE).when(less, MISSING_IN_LOG)
    text = _text(F.col("_row"), names).alias("key")
    return sums.select(text, found.alias("found"), "partly", F.lit(False).alias("passed"))


def compared(columns: LogColumns, table: DataFrame) -> list[str]:
    """Columns that both have."""
    there = {name.lower(): name for name in table.columns}
    return [there[name.lower()] for name in columns.today if name.lower() in there]


def _changes(log: DataFrame, columns: LogColumns, said: Told) -> DataFrame:
    """Changes of rows, with the row that each is of as ``image``, by the table's columns today: ``gone`` where it is deleted or wiped; ``certain``:
    as ``Told.is_certain`` has it; ``defined``: under which definition it was written.
    """
    here = _defined(log_view.today(log, columns)).filter(F.col("operation").isin(*ROWS))
    deleted = F.col("operation") == "delete"
    image = F.when(deleted, F.col("before")).otherwise(F.col("after"))
    return here.select(
        *("position", "batch_id", "defined"),
        image.alias("image"),
        (deleted | ~said.stands).alias("gone"),
        said.is_certain.alias("certain"),
    )


def _defined(log: DataFrame) -> DataFrame:
    """With ``defined``: the position of a row's definition."""
    parts = F.split(F.col("schema_version"), "[/:.]")
    names = ("epoch", "file", "pos", "row", "part")
    at = F.struct(*[parts[number].cast("bigint").alias(name) for number, name in enumerate(names)])
    return log.withColumn("defined", at.cast(SQL_TYPE))


def _behind(place: _Place) -> Column:
    batch, at = place
    stands = F.struct(F.lit(batch).cast("bigint").alias("batch_id"), dedup.literal(at))
    return F.struct("batch_id", "position") >= stands


def _any(conditions: Sequence[Column]) -> Column:
    """Whether one of them holds. In an array: a chain of hundreds is more than Spark's plans bear."""
    return F.array_contains(F.array(*conditions), F.lit(True)) if conditions else F.lit(False)


def _fields(struct: str, names: Sequence[str]) -> Column:
    """These fields of a struct, and no others."""
    return F.struct(*[F.col(struct)[one].alias(one) for one in names])


def _text(row: Column, names: Sequence[str]) -> Column:
    """For a person: ``id=7, at=NULL``."""
    held = [F.coalesce(row[one].cast("string"), F.lit("NULL")) for one in names]
    each = [F.concat(F.lit(f"{one}="), text) for one, text in zip(names, held, strict=True)]
    return F.concat_ws(", ", *each)


def _written(columns: LogColumns, column: str, defined: Column) -> Column:
    """Whether a change was written when its column had the field that it has today. ``defined``: the definition's position."""
    today = {name.lower(): field for name, field in columns.today.items()}
    since = next(one.since for one in columns.fields if one.name == today[column.lower()])
    return F.coalesce(defined >= dedup.literal(since), F.lit(False))
