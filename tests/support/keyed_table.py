"""A table with a key, rows of any MySQL type, and one batch of them brought to it by delta-rs: merged, added or marked."""

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.engines.merge_on_read import mark
from ingest.model.names import Marker, quoted_for_delta_rs
from ingest.schema.mysql_types import Column, column_type
from ingest.targets import mirror, mirror_rows

APP = "ingest/p/c/d.t/mirror"


def column(name, type_name="INT", length=None, scale=None):
    return Column(name, type_name, length, scale, optional=True)


# Each with an expression over the number n of a row.
EVERY_TYPE = (
    (column("tiny", "TINYINT"), "n % 127"),
    (column("big unsigned", "BIGINT UNSIGNED"), "18446744073709551615 - n"),
    (column("exact", "DECIMAL", 38, 10), "-9999999999999999999999999999.9999999999 + n"),
    (column("text of 65", "DECIMAL", 65, 30), "n || '.0'"),
    (column("float", "FLOAT"), "n / 3"),
    (column("_op", "DOUBLE"), "IF(n % 3 = 0, -0.0D, n / 7)"),
    (column("a.b", "VARCHAR", 99), "IF(n % 4 = 0, NULL, repeat('\U0001f600 é ', n % 5))"),
    (column('sel"ect`', "VARCHAR", 99), "concat('x', n, '  ')"),
    (column("Ünïcode", "LONGTEXT"), "repeat('y', n * 9)"),
    (column("bytes", "VARBINARY", 9), "unhex('00FF00')"),
    (column("bit", "BIT", 1), "n % 2 = 0"),
    (column("bits", "BIT", 9), "unhex('01FF')"),
    (column("day", "DATE"), "date_add('0001-01-01', n * 99)"),
    (column("wall", "DATETIME", 6), "timestamp_ntz'0001-01-01 00:00:00.000001' + make_dt_interval(n)"),
    (column("instant", "TIMESTAMP", 6), "timestamp'1970-01-01 00:00:01.999999' + make_dt_interval(n)"),
    (column("place", "GEOMETRY"), "named_struct('srid', 4326, 'wkb', unhex('0101'))"),
    (column("json", "JSON"), "'{\"a\": 1.0}'"),
)  # fmt: skip

KEYS = (
    (column("id", "BIGINT"), "n * 1000"),
    (column("id", "VARCHAR", 200), "repeat('long ', 30) || chr(n) || ' '"),
    (column("id", "VARBINARY", 200), "concat(unhex(repeat('FF', 70)), unhex(hex(n)))"),
    (column("id", "DECIMAL", 20, 5), "n / 8"),
    (column("id", "DATE"), "date_add('0001-01-01', n)"),
    (column("id", "DATETIME", 6), "timestamp_ntz'2026-01-01' + make_dt_interval(0, 0, 0, n / 1e6)"),
    (column("id", "TIMESTAMP", 6), "timestamp'2026-01-01' + make_dt_interval(0, 0, 0, n / 1e6)"),
)


def direct_of(target):
    return DeltaRsTable(target, Path(target.path).with_name("scratch"))


def rows(spark, columns, where, position, op="'c'"):
    """Rows of these numbers as a MERGE's source has them, all of them at one byte position."""
    values = ", ".join(
        f"CAST({text} AS {column_type(one).delta}) AS `{one.name.replace('`', '``')}`"
        for one, text in columns
    )
    place = f"named_struct('epoch', 0, 'file', 1, 'pos', {position}, 'row', 0, 'part', 1)"
    ours = f"named_struct('position', {place}, 'op', {op}, 'committed_at', timestamp'2026-01-01')"
    sql = f"SELECT {values}, CAST({ours} AS {mirror.META_TYPE}) AS _ingest"
    return spark.sql(f"{sql} FROM (SELECT CAST(id AS INT) n FROM range(1, 60)) WHERE {where}")


def direct_merge(target, source, batch, *, term=1, prune=False, direct=None):
    direct = direct or direct_of(target)
    names = [name for name in source.columns if name != "_ingest"]
    plan = mirror.mirror_plan(names, ("id",), quoted_for_delta_rs)
    return Committer(term).once(
        direct,
        Identity(APP, batch, 0, "a note"),
        lambda: direct.merge(source.toArrow(), plan, prune=("id",) if prune else ()),
        may_do_nothing=True,
    )


def adding(direct, source, batch):
    """What a MERGE of these rows inserts, where none of their keys is there."""
    rows = mirror_rows.inserted(source.toArrow(), mirror.Mirror())
    direct.version()
    with direct.identified(APP, Marker(1, batch, 0).version, ""):
        return direct.add(rows)


def marking(direct, source, batch):
    """One batch's source rows, marked where they are; returns whether it was done."""
    rows = source.toArrow()
    return Committer(1).once(
        direct,
        Identity(APP, batch, 0, "a note"),
        lambda: mark(direct, mirror.Mirror(), rows, ("id",), always=True),
        may_do_nothing=True,
    )


def source_of(spark, where, position, op="'u'"):
    """Rows as the fixture ``small`` has them, with a new value."""
    return rows(
        spark, [(column("id"), "n"), (column("v", "VARCHAR", 9), "'new'")], where, position, op
    )


def by_delta_rs(table, sql):
    found = QueryBuilder().register("t", DeltaTable(table.path)).execute(sql).read_all()
    return pa.table(found).to_pylist()
