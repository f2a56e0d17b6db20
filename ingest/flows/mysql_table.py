"""Whether a table of MySQL can take a flow's result. Facts first, then a pure judgement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.types import DataType, DecimalType, StructType

from ingest.config.connection_settings import Server
from ingest.config.flow_sinks import FlowSink
from ingest.flows import mysql_sink
from ingest.model.names import quoted


@dataclass(frozen=True)
class TableFacts:
    """``columns``: in lower case, whether each may be NULL; ``unique``: columns of each unique index, in lower case; ``generated``: columns that
    nobody writes.
    """

    engine: str
    columns: Mapping[str, bool]
    unique: Sequence[frozenset[str]]
    generated: frozenset[str] = frozenset()


def facts(server: Server, table: str) -> TableFacts | None:
    """None where it is not there. Raises :class:`IngestError` where the server is away."""
    of_table = "WHERE table_schema = DATABASE() AND table_name = %s"
    with mysql_sink.transaction(server) as cursor:
        cursor.execute(f"SELECT engine FROM information_schema.tables {of_table}", (table,))
        found = cursor.fetchone()
        if found is None:
            return None
        asked = "SELECT LOWER(column_name), is_nullable, extra FROM information_schema.columns"
        cursor.execute(f"{asked} {of_table}", (table,))
        columns = list(cursor.fetchall())
        asked = "SELECT index_name, LOWER(column_name) FROM information_schema.statistics"
        cursor.execute(f"{asked} {of_table} AND non_unique = 0", (table,))
        indexes = dict[str, set[str]]()
        for index, column in cursor.fetchall():
            indexes.setdefault(index, set()).add(column or "")  # of an expression it has no name
    generated = {
        name for name, _, extra in columns if "GENERATED" in extra.replace("DEFAULT_GENERATED", "")
    }
    nullable = {name: said == "YES" for name, said, _ in columns}
    unique = [frozenset(names) for names in indexes.values()]
    return TableFacts(found[0] or "", nullable, unique, frozenset(generated))


def unfit(found: TableFacts, sink: FlowSink, columns: Sequence[str]) -> str:
    """Why a table cannot take a result of these columns; empty where it can. Pure."""
    names = {name.lower(): name for name in columns}
    if lacking := [names[name] for name in names if name not in found.columns]:
        return f"it has no column {', '.join(lacking)}"
    if fixed := [names[name] for name in names if name in found.generated]:
        return f"its column {', '.join(fixed)} is generated"
    if found.engine.lower() != "innodb":
        return f"its engine is {found.engine}, which knows no transactions"
    keys = frozenset(key.lower() for key in sink.keys)
    if not keys:
        return ""
    listed = ", ".join(sink.keys)
    if keys not in found.unique:
        return f"it has no PRIMARY KEY and no UNIQUE index of exactly ({listed}), by which a row would be found again"
    if nullable := [key for key in sink.keys if found.columns[key.lower()]]:
        return f"its key {', '.join(nullable)} may be NULL, and NULL is never found again"
    for index in found.unique:
        if index != keys and index & names.keys():
            return f"its UNIQUE index of ({', '.join(sorted(index))}) could find another row than ({listed}) does"
    return ""


_TYPES = {
    "string": "TEXT",
    "binary": "LONGBLOB",
    "boolean": "TINYINT",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INT",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "DATETIME(6)",
    "timestamp_ntz": "DATETIME(6)",
}


def suggested(table: str, columns: StructType, keys: Sequence[str]) -> str:
    """A CREATE TABLE that would fit. Pure."""
    lines = []
    for one in columns:
        kind = _type(one.dataType)
        if one.name in keys and kind == "TEXT":
            kind = "VARCHAR(255)"
        lines.append(f"{quoted(one.name)} {kind}" + (" NOT NULL" if one.name in keys else ""))
    if keys:
        lines.append(f"PRIMARY KEY ({', '.join(map(quoted, keys))})")
    return f"CREATE TABLE {quoted(table)} ({', '.join(lines)})"


def _type(kind: DataType) -> str:
    if isinstance(kind, DecimalType):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return _TYPES.get(kind.simpleString(), "JSON")
