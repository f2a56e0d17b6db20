"""The source server, read directly: connections, facts, and what stands in a pipeline's way."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pymysql
from pymysql.cursors import Cursor

from ingest.config.source_settings import Source
from ingest.model.errors import THE_EMBEDDED_ONE, IngestError
from ingest.model.gtid import GtidSet
from ingest.model.position import file_number
from ingest.model.topics import TableId, captured
from ingest.schema.definition_differences import Told
from ingest.schema.mysql_types import Column
from ingest.schema.snapshot_select import OwnSelect
from ingest.source import mysql_certificates, mysql_grants, mysql_settings
from ingest.source.mysql_connection import Connection

_SYSTEM = ("mysql", "information_schema", "performance_schema", "sys")


@dataclass(frozen=True)
class Reached:
    """Where a server's log ended at one moment: binlog file number, byte position, GTID set."""

    file: int
    pos: int
    gtids: GtidSet


ANSWERS_WITHIN = 60.0
"""Seconds after which a server that says nothing is away: one that is suspended takes connections still. What we ask takes
milliseconds; but where its log ends is told behind the commit in hand, which may be of gigabytes."""


@contextmanager
def connected(source: Source, *, read_timeout: float | None = ANSWERS_WITHIN) -> Iterator[Cursor]:
    """A cursor in UTC with autocommit. Raises :class:`IngestError` with the server's reason. ``read_timeout``: None for what may take long."""
    if source.tls is not None:
        mysql_certificates.refuse_unreadable(source.tls)
    try:
        connection = Connection(
            host=source.host,
            port=source.port,
            user=source.user,
            password=source.password.read().get_secret_value().encode(),
            connect_timeout=5,
            read_timeout=read_timeout,
            charset="utf8mb4",
            autocommit=True,
            init_command="SET time_zone = '+00:00', sql_mode = ''",
            **(source.tls.of_pymysql() if source.tls else {}),
        )
    except (pymysql.MySQLError, OSError) as failure:
        raise _refusal(source, failure) from None
    try:
        with connection.cursor() as cursor:
            yield cursor
    except pymysql.OperationalError as failure:
        if failure.args and failure.args[0] in LOST:
            raise _refusal(source, failure) from None
        raise
    finally:
        connection.close()


LOST = (1053, 2006, 2013, 2055)
"""The server shuts down, has gone away, was lost in the middle of a query."""


def _refusal(source: Source, failure: Exception) -> IngestError:
    number = failure.args[0] if failure.args else 0
    where = f"MySQL at {source.host}:{source.port}"
    if number == 1045:
        return IngestError(
            "E-MYSQL-LOGIN",
            f"{where} does not accept the password of user {source.user!r}.",
            remedy="check `source.mysql` and `source.password` in the pipeline file.",
        )
    reason = str(failure.args[-1]) if failure.args else str(failure)
    return IngestError(
        "E-MYSQL-AWAY",
        f"{where} cannot be reached: {reason.removesuffix('.')}.",
        remedy=f"start the server ({THE_EMBEDDED_ONE}) or correct `source.mysql`.",
        may_pass=True,
    )


@dataclass(frozen=True)
class ServerFacts:
    """What a pipeline has to know of a server before it starts. Of a server that is refused by its ``version``
    alone, nothing else is read.
    """

    version: str
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of those in ``mysql_settings.NAMES`` the ones that it has, by name."""
    grants: frozenset[str] = frozenset()
    """Of the whole server (``mysql_grants``)."""
    tables: tuple[TableId, ...] = ()

    @property
    def gtid_mode(self) -> str:
        """ON, OFF, or between the two; OFF where a server does not say."""
        return self.variables.get("gtid_mode", "OFF")


def server_facts(source: Source) -> ServerFacts:
    """Read them, with the pipeline's own user. A variable that a server lacks is no failure."""
    with connected(source) as cursor:
        cursor.execute("SELECT VERSION()")
        row = cursor.fetchone()
        assert row is not None
        version = str(row[0])
        if why_unknown(version):
            return ServerFacts(version)
        names = ", ".join(map(repr, mysql_settings.NAMES))
        cursor.execute(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
        variables = {str(name): str(value) for name, value in cursor.fetchall()}
        cursor.execute("SHOW GRANTS")
        grants = mysql_grants.on_the_server(str(grant[0]) for grant in cursor.fetchall())
        return ServerFacts(
            version,
            variables,
            grants=grants,
            tables=tuple(base_tables(cursor)),
        )


def why_unknown(version: str) -> str:
    """Why a server that calls itself so is none of which this pipeline knows what its binlog means; empty for MySQL
    8.0 and later.
    """
    for other in ("MariaDB", "TiDB"):
        if other.lower() in version.lower():
            return f"is {other} ({version})"
    major = re.match(r"\d+", version)
    if major is None or int(major.group()) < 8:
        return f"is of version {version}"
    return ""


def base_tables(cursor: Cursor) -> list[TableId]:
    """Every base table that the user may see, system schemas aside, in order of name."""
    cursor.execute(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES "
        "WHERE TABLE_TYPE = 'BASE TABLE'"
    )
    found = (TableId(str(row[0]), str(row[1])) for row in cursor.fetchall())
    return sorted(table for table in found if table.database not in _SYSTEM)


def refuse_unfit(source: Source, facts: ServerFacts) -> list[TableId]:
    """The captured tables, or the first thing that stands in the way, as :class:`IngestError`.

    Debezium would find most of these later, in a task that fails after its PUT was accepted, and
    the missing SELECT not at all: its snapshot "succeeds" with no tables.
    """
    unknown = why_unknown(facts.version)
    if unknown:
        raise IngestError(
            "E-MYSQL-VERSION",
            f"The server at {source.host}:{source.port} {unknown}.",
            means="What its binlog, its types and its DDL mean is known of MySQL 8.0 and later alone; nothing was "
            "started.",
            remedy="point `source.mysql` at a MySQL of version 8.0 or later.",
        )
    server = f"MySQL at {source.host}:{source.port}"
    mysql_settings.refuse_unfit(server, facts.variables)
    mysql_grants.refuse_lacking(source.user, server, facts.grants)
    tables = captured(facts.tables, source.tables)
    if not tables:
        raise IngestError(
            "E-MYSQL-TABLES",
            f"The user {source.user!r} of {server} sees no table that "
            f"{', '.join(source.tables)} takes.",
            means="A snapshot would be empty; nothing was started.",
            remedy="correct `source.tables`, or GRANT SELECT on those tables to that user: "
            "without it MySQL hides them.",
        )
    return tables


def refuse_unreadable(source: Source, tables: list[TableId]) -> None:
    """Raise when SELECT is missing on a captured table that other grants let the user see."""
    from ingest.model.names import quoted

    with connected(source) as cursor:
        for table in tables:
            try:
                cursor.execute(
                    f"SELECT 1 FROM {quoted(table.database)}.{quoted(table.name)} LIMIT 0"
                )
            except pymysql.MySQLError as failure:
                if failure.args and failure.args[0] in LOST:
                    raise  # it is away, which says nothing of grants
                raise IngestError(
                    "E-MYSQL-GRANT",
                    f"The user {source.user!r} cannot SELECT from {table}: {failure.args[-1]}.",
                    means="Debezium's snapshot would leave that table out and say nothing; nothing was started.",
                    remedy=f"GRANT SELECT ON {quoted(table.database)}.* TO that user.",
                ) from None


def reached(cursor: Cursor) -> Reached:
    """Where the server's log ends now."""
    try:
        try:
            cursor.execute("SHOW MASTER STATUS")
        except pymysql.err.ProgrammingError:  # renamed in MySQL 8.2, removed in 8.4
            cursor.execute("SHOW BINARY LOG STATUS")
    except pymysql.OperationalError as failure:
        if failure.args[0] == mysql_grants.DENIED:
            raise mysql_grants.denied(failure.args[-1]) from None
        raise
    row = cursor.fetchone()
    if row is None:
        raise IngestError(
            "E-MYSQL-BINLOG",
            "MySQL reports no binlog position.",
            remedy="start mysqld with `log_bin=binlog`.",
        )
    gtids = str(row[4]) if len(row) > 4 else ""  # a server that is no MySQL may lack that column
    return Reached(file_number(row[0]), int(row[1]), GtidSet.parse(gtids))


def rotate_log(cursor: Cursor) -> None:
    """Begin a new binlog file, so that what is read from now on has positions of its own: the rows of a
    blocking snapshot carry the connector's position, and on a quiet server that is not beyond the table's
    snapshot before, so they were passed over as older ones. Needs RELOAD, as the connector does; replicas
    are not told.
    """
    cursor.execute("FLUSH LOCAL BINARY LOGS")


def server_uuid(source: Source) -> str:
    """Which server this is, whatever its address."""
    with connected(source) as cursor:
        cursor.execute("SELECT @@server_uuid")
        row = cursor.fetchone()
        assert row is not None
        return str(row[0])


def dump_threads(source: Source) -> int:
    """How many binlog streams this user has open on the server; needs no extra grant."""
    with connected(source) as cursor:
        cursor.execute(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST "
            "WHERE COMMAND LIKE 'Binlog Dump%' AND USER = SUBSTRING_INDEX(CURRENT_USER(), '@', 1)"
        )
        row = cursor.fetchone()
        return int(row[0]) if row else 0


def columns(cursor: Cursor, table: TableId) -> tuple[Column, ...]:
    """A table's columns from the information schema, in order."""
    cursor.execute(
        "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, CHARACTER_SET_NAME "
        "FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s "
        "ORDER BY ORDINAL_POSITION",
        (table.database, table.name),
    )
    return tuple(_column(*row) for row in cursor.fetchall())


def _column(name: str, base: str, full: str, nullable: str, charset: str | None) -> Column:
    numbers = re.match(r"\w+\((\d+)(?:,(\d+))?\)", full)
    labels = base.lower() in ("enum", "set")  # of which one may be called so
    return Column(
        name=name,
        type_name=base.upper() + (" UNSIGNED" if "unsigned" in full and not labels else ""),
        length=int(numbers.group(1)) if numbers else None,
        scale=int(numbers.group(2)) if numbers and numbers.group(2) else None,
        optional=nullable == "YES",
        charset=charset,
    )


def told(cursor: Cursor, tables: Collection[TableId]) -> dict[TableId, Told]:
    """What the information schema says of these tables; one that is not there has no entry."""
    keys: dict[TableId, dict[str, list[str]]] = {}
    names = sorted({table.database for table in tables})
    cursor.execute(
        "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COLUMN_NAME, NULLABLE FROM "
        "information_schema.STATISTICS WHERE NON_UNIQUE = 0 AND TABLE_SCHEMA IN %s ORDER BY SEQ_IN_INDEX",
        (names,),
    )
    for database, name, index, column, nullable in cursor.fetchall():
        of = keys.setdefault(TableId(str(database), str(name)), {}).setdefault(str(index), [])
        of.append("" if nullable == "YES" or column is None else str(column))
    found = {}
    for table in tables:
        cursor.execute(
            "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, CHARACTER_SET_NAME "
            "FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s "
            "ORDER BY ORDINAL_POSITION",
            (table.database, table.name),
        )
        rows = cursor.fetchall()
        indexes = keys.get(table, {})
        key = tuple(indexes.pop("PRIMARY", ()))
        unique = tuple(tuple(names) for names in indexes.values() if "" not in names)
        listed = tuple(replace(_column(*row), labels=_labels(str(row[2]))) for row in rows)
        if listed:
            found[table] = Told(listed, key, unique)
    return found


def _labels(full: str) -> tuple[str, ...]:
    """Of an ENUM or SET, as MySQL quotes them."""
    if not full.startswith(("enum(", "set(")):
        return ()
    return tuple(re.findall(r"(?s)'(?:[^'\\]|\\.|'')*'", full))


def primary_key(cursor: Cursor, table: TableId) -> tuple[str, ...]:
    """Names of the primary key's columns in key order; empty when there is none."""
    cursor.execute(
        "SELECT COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s "
        "AND TABLE_NAME = %s AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX",
        (table.database, table.name),
    )
    return tuple(str(row[0]) for row in cursor.fetchall())


def keyed(cursor: Cursor) -> set[TableId]:
    """Every table that has a primary key."""
    cursor.execute(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.STATISTICS "
        "WHERE INDEX_NAME = 'PRIMARY' AND SEQ_IN_INDEX = 1"
    )
    return {TableId(str(row[0]), str(row[1])) for row in cursor.fetchall()}


def own_selects(cursor: Cursor) -> dict[TableId, OwnSelect]:
    """Every table that a snapshot is to read by a statement of ours. For the binary character set the information schema
    names none.
    """
    cursor.execute(
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE IN ('enum', 'set') AND CHARACTER_SET_NAME IS NULL, "
        "EXTRA LIKE '%INVISIBLE%' FROM information_schema.COLUMNS WHERE DATA_TYPE IN ('enum', 'set') OR EXTRA LIKE '%INVISIBLE%' "
        "ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION"
    )
    labels: dict[TableId, list[str]] = {}
    invisible: dict[TableId, list[str]] = {}
    for database, name, column, is_label, is_invisible in cursor.fetchall():
        table = TableId(str(database), str(name))
        for found, holds in ((labels, is_label), (invisible, is_invisible)):
            if holds:
                found.setdefault(table, []).append(str(column))
    return {
        table: OwnSelect(tuple(columns), tuple(invisible.get(table, ())))
        for table, columns in labels.items()
    }
