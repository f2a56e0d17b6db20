"""Every spelling of MySQL's grammar that changes a table: what Debezium writes for it, beside what MySQL says.

    python -m tests.ddl.spellings [--rows]

Each statement of the corpus is run while the connector streams, so that its schema record comes from Debezium's own
reading of it, and not from a snapshot. Our reading of the record is then held against the information schema, table by
table, by the very comparison that a run makes (``definition_differences``). Each default that we read off a statement is held against
what existing rows have got. Needs no Spark. Exits with 1 where a default is wrong, or where a table differs that is not
known to (``KNOWN``): a run reads these anew from MySQL.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pymysql

from ingest.config import pipeline_file
from ingest.kafka import broker
from ingest.local.stack import Stack
from ingest.model.names import quoted
from ingest.model.topics import TableId
from ingest.schema import evolution
from ingest.schema.catalog import SchemaVersion
from ingest.schema.ddl import column_changes
from ingest.schema.definition_differences import differences
from ingest.source import mysql
from ingest.source.connector import Connector, delivered
from tests.ddl.corpus import DEFAULTS, TABLES, TYPES
from tests.support.server import Cli, Server

DATABASE = "spell"
OTHERS = ("hidden", "spell_l", "spell_m", "spell_o", "spell_p")
KNOWN = re.compile(
    r"BOOL|REAL|FLOAT4|ASCII|UNICODE|BYTE|binary|COLLATE|CHARSET|CHARACTER SET|UNIQUE|"
    r"explicit_defaults|SERIAL|ENUM|SET\("
)
"""What Debezium's reading of a statement is known to differ about."""


@dataclass
class Case:
    """Some statements about one table, and why MySQL took none further."""

    name: str
    statements: list[str]
    refused: str = ""


def cases() -> Iterator[Case]:
    """All of the corpus: each type and default by a CREATE TABLE and by an ADD COLUMN, and the statements."""
    for kind, corpus in (("t", TYPES), ("d", DEFAULTS)):
        for n, (definition, value) in enumerate(entries(corpus)):
            row = f"(id, c) VALUES (2, {value})" if value else "(id) VALUES (2)"
            made, added = f"{DATABASE}.{kind}c{n}", f"{DATABASE}.{kind}a{n}"
            if not definition.endswith(("FIRST", "AFTER id")):
                create = f"CREATE TABLE {made} (id INT PRIMARY KEY, c {definition}"
                yield Case(f"{kind}c{n}", [f"{create})", f"INSERT INTO {made} {row}"])
            create = f"CREATE TABLE {added} (id INT PRIMARY KEY)"
            before, alter = (
                f"INSERT INTO {added} VALUES (1)",
                f"ALTER TABLE {added} ADD c {definition}",
            )
            yield Case(f"{kind}a{n}", [create, before, alter, f"INSERT INTO {added} {row}"])
    for n, statements in enumerate(TABLES):
        texts = [s.replace("{t}", f"{DATABASE}.x{n}").replace("{n}", f"x{n}") for s in statements]
        yield Case(f"x{n}", texts)


def entries(corpus: str) -> Iterator[tuple[str, str]]:
    text = ""
    for line in corpus.strip("\n").split("\n"):
        text += ("\n" if text else "") + line
        if "|" in line:
            definition, _, value = text.rpartition("|")
            yield definition, value
            text = ""


def run(server: Server) -> list[Case]:
    """The corpus, in one session; a case ends at a statement that MySQL refuses."""
    found = list(cases())
    with server.connect() as connection, connection.cursor() as cursor:
        for case in found:
            cursor.execute(
                "SET SESSION sql_mode = DEFAULT, explicit_defaults_for_timestamp = DEFAULT, "
                "sql_generate_invisible_primary_key = 0"
            )
            cursor.execute("SET NAMES utf8mb4")
            for statement in case.statements:
                several = (
                    statement.startswith(("SET", "CREATE TABLE")) and "COMMENT" not in statement
                )
                try:
                    for part in re.split(r"; (?=[A-Z])", statement) if several else [statement]:
                        cursor.execute(part)
                except pymysql.MySQLError as failure:
                    case.refused = f"{failure.args[-1]}: {statement}"
                    break
    return found


def streamed(stack: Stack, folder: Path, say: Any = print) -> tuple[list[Case], list[str]]:
    """Run the corpus while a connector streams; returns it, and what is wrong."""
    server = Server(stack)
    for name in (DATABASE, *OTHERS):
        server.sql(f"DROP DATABASE IF EXISTS {name}")
    server.database(DATABASE)
    server.database("hidden")
    server.sql(f"CREATE TABLE {DATABASE}.base (id INT PRIMARY KEY)")
    pipeline = pipeline_file.load(Cli(stack, folder).init(DATABASE, f"{DATABASE}*.*"))
    connector = Connector(pipeline)
    connector.apply()
    deadline = time.monotonic() + 600
    while not (connector.offset() and not connector.offset().get("snapshot")):
        _wait(connector, deadline)
    ran = run(server)
    with mysql.connected(pipeline.source) as cursor:
        target = mysql.reached(cursor)
        while not delivered(connector.offset(), target):
            _wait(connector, deadline)
        schemas = broker.SchemaTopic(pipeline)
        schemas.read_to_end()
        current = {version.table: version for version in schemas.catalog.current()}
        told = mysql.told(cursor, list(current))
        wrong = []
        for table, version in current.items():
            if table not in told:
                continue  # renamed away
            for why in differences(version, told[table]):
                known = KNOWN.search(_statements(ran, table, version))
                say(f"{'known' if known else 'NEW'}: {table}: {why} | {version.ddl[:120]}")
                wrong += [] if known else [f"{table}: {why}"]
            wrong += _wrong_defaults(cursor, version)
    schemas.close()
    connector.delete()
    return ran, wrong


def _statements(ran: list[Case], table: TableId, version: SchemaVersion) -> str:
    mine = [case for case in ran if table.name.startswith(case.name)]
    return " ".join([version.ddl, *(text for case in mine for text in case.statements)])


def _wrong_defaults(cursor: Any, version: SchemaVersion) -> list[str]:
    """Where the row that was there before an ADD COLUMN holds something else than we read off it."""
    if version.table.name[:2] not in ("ta", "da") or version.columns[-1].name != "c":
        return []
    value, unknown = evolution.default_of(version.columns[-1], column_changes(version.ddl))
    name = f"{quoted(version.table.database)}.{quoted(version.table.name)}"
    cursor.execute(f"SELECT c FROM {name} WHERE id = 1")
    (real,) = cursor.fetchone()
    same = value is None and real is None
    if value is not None and real is not None:
        number = isinstance(real, int | float | Decimal)
        same = float(value) == float(real) if number else value == real
    return [] if unknown or same else [f"{version.ddl}: {value!r}, and MySQL has {real!r}"]


def _wait(connector: Connector, deadline: float) -> None:
    status = connector.status()
    if status and status.task == "FAILED":
        raise AssertionError(status.cause)
    assert time.monotonic() < deadline
    time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ingest-spell-") as folder:
        stack = Stack.at(Path(folder) / "stack")
        stack.up({}, print)
        try:
            ran, wrong = streamed(stack, Path(folder))
        finally:
            stack.down()
    refused = [case.refused for case in ran if case.refused]
    print(
        json.dumps(
            {"cases": len(ran), "refused by MySQL": refused, "wrong": wrong},
            indent=1,
            ensure_ascii=False,
        )
    )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
