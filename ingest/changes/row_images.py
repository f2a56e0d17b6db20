"""One table's row images, from JSON text (``envelope``) to the lake's types, with one schema version.

DataFrame to DataFrame. No row is dropped: one that cannot be read carries a ``reason`` and goes to quarantine
with its raw bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ingest.changes.envelope import ANY_LENGTH
from ingest.changes.mysql_json import json_text
from ingest.model import reasons
from ingest.model.names import quoted
from ingest.schema import snapshot_select
from ingest.schema.delta_types import struct_json, type_json
from ingest.schema.mysql_types import RANGES, ColumnType, Kind, column_type
from ingest.schema.mysql_types import Column as SourceColumn

EpochDates = Literal["quarantine", "null", "keep"]
"""What 1970-01-01 in a NOT NULL DATE or DATETIME is taken for; Debezium writes it for zero dates, too."""


@dataclass(frozen=True)
class RowSchema:
    """How one schema version's row images are read. ``key``: columns that tell rows apart, so that
    a row without one of them cannot be applied.
    """

    columns: tuple[tuple[str, ColumnType], ...]
    key: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()
    """NOT NULL columns."""
    epoch_dates: EpochDates = "quarantine"

    @classmethod
    def of(
        cls,
        columns: Sequence[SourceColumn],
        key: Sequence[str] = (),
        epoch_dates: EpochDates = "quarantine",
    ) -> RowSchema:
        """From a schema version's columns. Raises ``UnknownType``."""
        return cls(
            tuple((column.name, column_type(column)) for column in columns),
            tuple(key),
            frozenset(column.name for column in columns if not column.optional),
            epoch_dates,
        )

    @property
    def json_type(self) -> StructType:
        """The Spark type that a row image's JSON is parsed with."""
        fields = [(name, type_json(kind.json)) for name, kind in self.columns]
        return StructType.fromJson(struct_json([*fields, (_CORRUPT, "string")]))

    @property
    def delta_types(self) -> Mapping[str, str]:
        """Column name to the lake's type."""
        return {name: kind.delta for name, kind in self.columns}


_CORRUPT = "\x00corrupt"
"""Holds a row image that does not parse; no MySQL column name may contain U+0000."""


def typed(
    rows: DataFrame, schema: RowSchema, *, with_before: bool, judged: bool = True
) -> DataFrame:
    """Read the row images of one table's changes with one schema version.

    In: columns of ``envelope.changes``. Out: the same, plus ``row struct<…>`` (the image after the
    change; for a delete the one before it) and, ``with_before``, ``old struct<…>`` (the image
    before an update), each with the lake's types in source order. A value that does not fit its
    type, a column too many or too few gives the row a ``reason``, never a silent NULL. ``judged``: also one in ``old``; where that is
    for a change log alone, it is NULL there, and the change is applied.
    """
    new = of_row(schema, "_raw", rows.sparkSession)
    parsed, values = {"_raw": new.parsed}, {"row": new.row, "reason": new.reason}
    if with_before:
        old = of_row(schema, "_raw_old", rows.sparkSession, before_update=True)
        parsed["_raw_old"], values["old"] = old.parsed, old.row
        if judged:
            values["reason"] = F.coalesce(new.reason, old.reason)
    return rows.withColumns(parsed).withColumns(values).drop(*parsed)


@dataclass(frozen=True)
class Reading:
    """How a row image is read: ``parsed`` from the columns of ``envelope.changes``; from the column that holds it,
    ``row struct<…>`` with the lake's types, and ``reason string``.
    """

    parsed: Column
    row: Column
    reason: Column


def of_row(
    schema: RowSchema, raw: str, session: SparkSession, *, before_update: bool = False
) -> Reading:
    """How one table's rows are read, for a frame that keeps what is parsed in the column ``raw``."""
    return _reading(schema, raw, before_update, session.sparkContext.applicationId)


@lru_cache(maxsize=512)  # each holds objects of the JVM
def _reading(schema: RowSchema, raw: str, before_update: bool, _application: str) -> Reading:
    """Building the columns takes longer than the batch of a small table. They belong to one JVM, the
    application's.
    """
    image = F.when(F.col("op") == "d", F.col("before")).otherwise(F.col("after"))
    if before_update:
        image = F.when(F.col("op") == "u", F.col("before"))
    held = F.col(quoted(raw))
    reason = F.coalesce(F.col("reason"), _row_reason(image, held, schema))
    return Reading(_parsed(image, schema), _values(held, schema), reason)


def _parsed(image: Column, schema: RowSchema) -> Column:
    options = {**ANY_LENGTH, "columnNameOfCorruptRecord": _CORRUPT}
    return F.from_json(image, schema.json_type, options)


def _values(raw: Column, schema: RowSchema) -> Column:
    fields = []
    for name, kind in schema.columns:
        field = raw.getField(name)
        found = value(field, kind, streamed=_streamed())
        null = _null_date(field, name, kind, schema)
        if null is not None:
            found = F.when(~null, found)
        fields.append(found.alias(name))
    return F.struct(*fields)


def _streamed() -> Column:
    """Written by the stream; what a snapshot reads takes another way through Debezium."""
    return F.col("op") != "r"


def _zero(raw: Column, name: str, kind: ColumnType, schema: RowSchema) -> Column | None:
    """True for what Debezium writes for a zero date in a NOT NULL column: 1970-01-01 00:00:00.

    A TIMESTAMP begins a second later, so there it means nothing else. In columns that may be NULL, zero
    dates arrive as NULL.
    """
    if name not in schema.required:
        return None
    if kind.kind is Kind.TIMESTAMP:
        return raw.try_cast("timestamp") == F.timestamp_micros(F.lit(0))
    return raw == 0 if kind.kind in _DATES else None


_DATES = (Kind.DATE, Kind.DATETIME)


def _null_date(raw: Column, name: str, kind: ColumnType, schema: RowSchema) -> Column | None:
    """True where the zero date is meant, which is NULL in the lake; None where it cannot be."""
    if kind.kind is Kind.TIMESTAMP or schema.epoch_dates == "null":
        return _zero(raw, name, kind, schema)
    return None


def _row_reason(image: Column, raw: Column, schema: RowSchema) -> Column:
    names = F.array(*[F.lit(name) for name, _ in schema.columns])
    # json_object_keys has no such option: it says NULL to an image with a longer string.
    every = F.map_keys(F.from_json(image, "map<string,string>", ANY_LENGTH))
    keys = F.coalesce(F.json_object_keys(image), every)
    reason = (
        F.when(image.isNull(), F.lit(None).cast("string"))
        .when(raw.getField(_CORRUPT).isNotNull(), reasons.NOT_ITS_TYPE.says)
        .when(
            (F.size(keys) != len(schema.columns)) | (F.size(F.array_except(keys, names)) > 0),
            reasons.OTHER_COLUMNS.says,
        )
    )
    for name, kind in schema.columns:
        field = raw.getField(name)
        if kind.kind is Kind.LOST:
            reason = reason.when(F.lit(True), F.lit(reasons.NOT_SENT.of(column=repr(name))))
        if kind.marked:
            reason = reason.when(_unread(field), F.lit(reasons.UNREAD_LABEL.of(column=repr(name))))
        if kind.kind in _CAN_FAIL:
            reason = reason.when(
                field.isNotNull() & value(field, kind, streamed=_streamed()).isNull(),
                F.lit(reasons.DOES_NOT_FIT.of(column=repr(name), type=kind.delta)),
            )
        zero = _zero(field, name, kind, schema)
        doubtful = kind.kind in _DATES and schema.epoch_dates == "quarantine"
        if zero is not None and doubtful:
            reason = reason.when(
                zero,
                F.lit(reasons.EPOCH_DATE.of(column=repr(name))),
            )
        if name in schema.key:
            null = _null_date(field, name, kind, schema)
            reason = reason.when(
                field.isNull() if null is None else field.isNull() | null,
                F.lit(reasons.ZERO_DATE_KEY.of(column=repr(name))),
            )
    return reason


_CAN_FAIL = {
    Kind.GARBLED,
    Kind.INTEGER,
    Kind.DECIMAL,
    Kind.TIMESTAMP,
    Kind.BINARY,
    Kind.BITS,
    *RANGES,
}


def value(raw: Column, column: ColumnType, *, streamed: Column) -> Column:
    """One value: from the type its JSON was parsed with to the lake's type. NULL stays NULL.
    ``streamed``: true where the stream wrote it, false where a snapshot did.
    """
    if column.kind in RANGES:
        raw = F.when(raw.between(*RANGES[column.kind]), raw)
    if column.kind is Kind.YEAR:
        # 1900 is no YEAR; the stream adds 1900 to the 0 that stands for 0000.
        return F.when(streamed & (raw == 1900), 0).otherwise(raw).cast(column.delta)
    if column.labels or column.marked:
        return F.when(streamed, _labels(raw, column)).otherwise(_as_read(raw, column))
    if column.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.TIMESTAMP):
        return raw.try_cast(column.delta)
    if column.kind is Kind.BINARY:
        found = F.try_to_binary(raw, F.lit("base64"))
        return _filled_up(found, column.padded) if column.padded else found
    if column.kind in (Kind.GARBLED, Kind.LOST):
        return F.lit(None).cast(column.delta)
    if column.kind is Kind.TRUTH:
        return raw.cast(column.delta)
    if column.kind is Kind.BITS:
        return _big_endian(F.try_to_binary(raw, F.lit("base64")))
    if column.kind is Kind.DATE:
        return F.date_from_unix_date(raw)
    if column.kind is Kind.DATETIME:
        return F.timestamp_micros(raw).cast("timestamp_ntz")
    if column.kind is Kind.TIME:
        return _time_text(raw, column.digits)
    if column.kind is Kind.JSON:
        return json_text(raw)
    if column.kind is Kind.GEOMETRY:
        wkb = F.try_to_binary(raw.getField("wkb"), F.lit("base64"))
        # Nullable like every field: Arrow refuses one that is not, in a struct that may be null itself.
        srid = F.when(raw.isNotNull(), F.coalesce(raw.getField("srid"), F.lit(0)))
        return F.when(raw.isNotNull(), F.struct(srid.alias("srid"), wkb.alias("wkb")))
    return raw


def _as_read(raw: Column, column: ColumnType) -> Column:
    """An ENUM's or SET's labels from what a snapshot brings."""
    if not column.marked:
        return raw
    return F.when(raw != snapshot_select.NULL, F.substring(raw, 2, _WHOLE))


_WHOLE = 2**31 - 1


def _unread(raw: Column) -> Column:
    """True for a label that a snapshot has not marked, and so not read at all."""
    marked = raw.startswith(snapshot_select.LABEL) | (raw == snapshot_select.NULL)
    return ~_streamed() & ~F.coalesce(marked, F.lit(False))


def _labels(raw: Column, column: ColumnType) -> Column:
    """An ENUM's or SET's labels from how the stream writes them."""
    if not column.labels:
        return raw
    known = F.create_map(*[F.lit(text) for pair in column.labels for text in pair])
    if column.kind is Kind.ENUM:
        return F.coalesce(F.element_at(known, raw), raw)
    each = F.transform(F.split(raw, ","), lambda one: F.coalesce(F.element_at(known, one), one))
    return F.array_join(each, ",")


def _filled_up(value: Column, size: int) -> Column:
    """With zero bytes at its end, as MySQL keeps a BINARY."""
    filled = F.rpad(value, size, F.unhex(F.lit("00")))
    return F.when(F.length(value) < size, filled).otherwise(value)


def _big_endian(value: Column) -> Column:
    pairs = F.regexp_extract_all(F.hex(value), F.lit("(..)"))
    return F.unhex(F.array_join(F.reverse(pairs), ""))


def _time_text(micros: Column, digits: int) -> Column:
    """MySQL's own text of a TIME: ``-838:59:59.000000`` with the declared fraction digits."""
    size = F.abs(micros)
    seconds = F.floor(size / 1_000_000).cast("bigint")
    text = F.concat(
        F.when(micros < 0, "-").otherwise(""),
        F.format_string(
            "%02d:%02d:%02d",
            F.floor(seconds / 3600).cast("bigint"),
            F.floor(seconds / 60).cast("bigint") % 60,
            seconds % 60,
        ),
    )
    if digits:
        fraction = F.lpad((size % 1_000_000).cast("string"), 6, "0")
        text = F.concat(text, F.lit("."), F.substring(fraction, 1, digits))
    return F.when(micros.isNotNull(), text)
