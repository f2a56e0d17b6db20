"""Whether a table of MySQL can take a flow's result as it is. Facts first, then a pure judgement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ingest.config.connection_settings import Server
from ingest.config.flow_sinks import FlowSink
from ingest.flows.mysql_rows import Room
from ingest.flows.mysql_server import transaction
from ingest.model.names import quoted


@dataclass(frozen=True)
class ColumnFacts:
    """``kind``: MySQL's `data_type`; ``digits``: behind the point that it holds, of a number or of seconds; None where that says nothing; ``collation``: of
    a text; ``nullable``; ``given``: whether nobody has to bring it; ``generated``: nobody may; ``length``: of a text in characters, or of TEXT and BLOB in bytes;
    ``alone``: whether it is like no other row's, to a UNIQUE index, where nobody brings it: a number of its own, or NULL.
    """

    kind: str
    digits: int | None = None
    collation: str | None = None
    nullable: bool = True
    given: bool = True
    generated: bool = False
    length: int | None = None
    alone: bool = False


@dataclass(frozen=True)
class UniqueIndex:
    """``columns``: names in lower case, an empty one for an expression; ``whole``: whether it goes by all of each, and not by how some begin."""

    columns: frozenset[str]
    whole: bool = True


@dataclass(frozen=True)
class TableFacts:
    """``columns``: by name in lower case."""

    engine: str
    columns: Mapping[str, ColumnFacts]
    unique: Sequence[UniqueIndex] = field(default_factory=tuple)


def facts(server: Server, table: str) -> TableFacts | None:
    """None where it is not there. Raises :class:`IngestError` where the server is away."""
    of_table = "WHERE table_schema = DATABASE() AND table_name = %s"
    with transaction(server) as cursor:
        cursor.execute(f"SELECT engine FROM information_schema.tables {of_table}", (table,))
        found = cursor.fetchone()
        if found is None:
            return None
        asked = (
            "SELECT LOWER(column_name), LOWER(data_type), numeric_scale, datetime_precision, collation_name, "
            "is_nullable, column_default, LOWER(extra), character_maximum_length FROM information_schema.columns"
        )
        cursor.execute(f"{asked} {of_table}", (table,))
        columns = {row[0]: _column(*row[1:]) for row in cursor.fetchall()}
        asked = "SELECT index_name, LOWER(column_name), sub_part FROM information_schema.statistics"
        cursor.execute(f"{asked} {of_table} AND non_unique = 0", (table,))
        parts = defaultdict[str, list[tuple[str, int | None]]](list)
        for index, column, beginning in cursor.fetchall():
            parts[index].append((column or "", beginning))
    unique = [
        UniqueIndex(frozenset(name for name, _ in one), not any(part for _, part in one))
        for one in parts.values()
    ]
    return TableFacts(found[0] or "", columns, unique)


def _column(
    kind: str,
    scale: int | None,
    of_second: int | None,
    collation: str | None,
    nullable: str,
    default: str | None,
    extra: str,
    length: int | None,
) -> ColumnFacts:
    generated = "generated" in extra.replace("default_generated", "")
    given = nullable == "YES" or default is not None or "auto_increment" in extra or generated
    digits = None if kind in ("float", "double") else scale if scale is not None else of_second
    # A nullable one that nobody brings is NULL, unless MySQL itself puts something there.
    null = nullable == "YES" and default is None and not generated and "on update" not in extra
    alone = "auto_increment" in extra or null
    return ColumnFacts(kind, digits, collation, nullable == "YES", given, generated, length, alone)


_WHOLE = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal")
_TIMES = ("datetime", "timestamp")
_FITTING: tuple[tuple[tuple[type[DataType], ...], tuple[str, ...]], ...] = (
    ((StringType,), ("varchar",)),
    ((BinaryType,), ("varbinary",)),
    ((BooleanType, IntegralType), _WHOLE),
    ((DecimalType,), _WHOLE),
    ((TimestampType, TimestampNTZType), _TIMES),
    ((DateType,), ("date",)),
)
"""Of keys, which have to be found again: types of Spark's, and those of MySQL's that compare as they do. CHAR drops blanks at the end, BINARY fills up with
zeros, and TEXT and BLOB have no index of the whole.
"""

_EXACT = 15
"""Decimal digits that a DOUBLE gives back as they were."""

_AS_TEXT = 24
"""Characters of the longest DOUBLE; into fewer, MySQL writes fewer digits."""


def unfit(found: TableFacts, sink: FlowSink, result: StructType) -> str:
    """Why a table cannot take such a result; empty where it can. Pure."""
    names = {one.name.lower(): one for one in result}
    if lacking := [one.name for name, one in names.items() if name not in found.columns]:
        return f"it has no column {', '.join(lacking)}"
    if fixed := [one.name for name, one in names.items() if found.columns[name].generated]:
        return f"its column {', '.join(fixed)} is generated"
    if wanting := [
        name for name, one in found.columns.items() if not one.given and name not in names
    ]:
        return f"its column {', '.join(wanting)} is NOT NULL without a DEFAULT, and the result does not bring it"
    if found.engine.lower() != "innodb":
        return f"its engine is {found.engine}, which knows no transactions"
    for name, one in names.items():
        if held := _held(column := found.columns[name], one.dataType):
            return f"its column {one.name} is {column.kind.upper()}, which holds {held} of {one.dataType.simpleString()}"
    return _unfit_keys(found, sink, result) if sink.keys else ""


def _held(column: ColumnFacts, of: DataType) -> str:
    """All that is kept of a type of Spark's where MySQL drops the rest without a word; empty where it does not."""
    kind = column.kind
    if kind == "float" and not isinstance(of, FloatType):
        return "7 digits"
    long = isinstance(of, LongType) or (isinstance(of, DecimalType) and of.precision > _EXACT)
    if kind == "double" and long:
        return f"{_EXACT} digits"
    if kind in ("date", "time") and isinstance(of, (TimestampType, TimestampNTZType)):
        return f"the {kind} alone"
    number = isinstance(of, (DoubleType, FloatType))
    if kind in ("char", "varchar") and number and (column.length or 0) < _AS_TEXT:
        return f"{column.length} characters"
    return ""


def _unfit_keys(found: TableFacts, sink: FlowSink, result: StructType) -> str:
    kinds = {one.name: one.dataType for one in result}
    keys, listed = frozenset(key.lower() for key in sink.keys), ", ".join(sink.keys)
    if UniqueIndex(keys) not in found.unique:
        return f"it has no PRIMARY KEY and no UNIQUE index of exactly ({listed}), by which a row would be found again"
    for key in sink.keys:
        column = found.columns[key.lower()]
        if column.nullable:
            return f"its key {key} may be NULL, and NULL is never found again"
        fitting = next((held for of, held in _FITTING if isinstance(kinds[key], of)), ())
        if column.kind not in fitting:
            return f"its key {key} is {column.kind.upper()}, which does not compare as {kinds[key].simpleString()} does"
        if not exact(column.collation):
            return (
                f"its key {key} has the collation {column.collation}, to which texts are the same that are two to Spark; "
                "utf8mb4_0900_bin tells them apart"
            )
    brought = frozenset(one.lower() for one in kinds)
    for index in found.unique:
        if index != UniqueIndex(keys) and not _finds_none(found, index, brought):
            of = ", ".join(sorted(name or "an expression" for name in index.columns))
            return f"its UNIQUE index of ({of}) could find another row than ({listed}) does"
    return ""


def _finds_none(found: TableFacts, index: UniqueIndex, brought: frozenset[str]) -> bool:
    """Whether a row of the result is like none that is there, to an index: it brings nothing of it, and MySQL something of the row's own."""
    if "" in index.columns or index.columns & brought:
        return False
    return any(found.columns[name].alone for name in index.columns)


def exact(collation: str | None) -> bool:
    """Whether texts are the same to it only where their bytes are: others pass over case, accents, or spaces at the end."""
    return (
        collation is None
        or collation.endswith(("_0900_bin", "_nopad_bin"))
        or collation == "binary"
    )


def rooms(found: TableFacts, columns: Sequence[str]) -> tuple[Room, ...]:
    """By column, what it holds of a value, where MySQL would drop or add the rest without a word. Pure."""
    return tuple(_room(found.columns[name.lower()]) for name in columns)


def _room(column: ColumnFacts) -> Room:
    kind = column.kind
    if kind in (*_WHOLE, *_TIMES, "time"):
        return Room(digits=column.digits)
    if kind in ("char", "enum", "set"):
        return Room(blanks=0)
    if kind == "varchar":
        return Room(blanks=column.length)
    if kind.endswith("text"):
        return Room(blanks=column.length, by_bytes=True)
    return Room(filled=column.length) if kind == "binary" else Room()


_TYPES = {
    "string": "TEXT",
    "binary": "LONGBLOB",
    "boolean": "TINYINT",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INT",
    "bigint": "BIGINT",
    "date": "DATE",
    "timestamp": "DATETIME(6)",
    "timestamp_ntz": "DATETIME(6)",
}
_KEYS = {"string": "VARCHAR(255) COLLATE utf8mb4_0900_bin", "binary": "VARBINARY(255)"}


def suggested(table: str, columns: StructType, keys: Sequence[str]) -> str:
    """A CREATE TABLE that would fit. Pure."""
    lines = []
    for one in columns:
        kind = _type(one.dataType)
        if one.name in keys:
            kind = f"{_KEYS.get(one.dataType.simpleString(), kind)} NOT NULL"
        lines.append(f"{quoted(one.name)} {kind}")
    if keys:
        lines.append(f"PRIMARY KEY ({', '.join(map(quoted, keys))})")
    return f"CREATE TABLE {quoted(table)} ({', '.join(lines)})"


def _type(kind: DataType) -> str:
    if isinstance(kind, DecimalType):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if isinstance(kind, (DoubleType, FloatType)):
        return "DOUBLE"
    return _TYPES.get(kind.simpleString(), "JSON")
