"""Tables as they are declared: what the schema-change topic says of one, and the columns and facts that come of it."""

from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.catalog import Catalog, SchemaVersion
from ingest.schema.mysql_types import Column
from ingest.schema.steps import TableFacts

T = TableId("d", "t")
ID = Column("id", "INT", None, None, optional=False)


def of(type_name, length=None, scale=None, optional=True, **more):
    """A column ``v`` of a type."""
    return Column("v", type_name, length, scale, optional, **more)


def version(*columns, key=("id",)):
    """The table as a CREATE makes it of these columns."""
    return SchemaVersion(T, Position(0, 1, 9), "CREATE", columns, key, "CREATE TABLE t …")


def column(name, type_name="INT", **more):
    return {
        "name": name,
        "typeName": type_name,
        "length": None,
        "scale": None,
        "optional": True,
    } | more


def record(pos, kind, columns, *, snapshot="false", table='"d"."t"', ddl="…", key=("id",)):
    body = None if kind == "DROP" else {"columns": columns, "primaryKeyColumnNames": list(key)}
    return {
        "source": {"file": "binlog.000001", "pos": pos, "row": 0, "snapshot": snapshot},
        "ddl": ddl,
        "tableChanges": [{"type": kind, "id": table, "table": body}],
    }


def at(pos, row=0, part=1):
    return Position(0, 1, pos, row, part)


def catalog(*records):
    filled = Catalog()
    for one in records:
        filled.add(one, 0)
    return filled


def facts(low, high, truncates=(), keys=(("id",),)):
    return TableFacts(
        table=T,
        changes=1,
        low=low,
        high=high,
        high_water={},
        source_time=None,
        truncates=tuple(truncates),
        keys=frozenset(keys),
    )


CREATE = record(100, "CREATE", [column("id")], snapshot="true")
