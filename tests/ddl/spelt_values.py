"""Every value of a type through every spelling of it, streamed and taken again: the lake ends equal.

    python -m tests.ddl.spelt_values

Each spelling of the corpus gets a table of its own by a statement that the connector streams, and all that
``ingest.sample.values`` knows of the type is written to it. A job runs meanwhile and repairs what it notices. Prints what
MySQL refused, and what the job said of each table. Exits with 1 where the audit names a table in the end.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pymysql
from pymysql.cursors import Cursor

from ingest.job import spark_session
from ingest.lake.quarantine.waiting_list import waiting_list
from ingest.local.stack import Stack
from ingest.observe.audit import Audit
from ingest.sample.values import values
from tests.ddl.corpus import TYPES
from tests.ddl.histories import SPELT
from tests.ddl.spellings import entries
from tests.kills.lab import Lab

DATABASE = "spelt"
LOOKS = 10
"""How often the audit is asked: a table may have to be taken again first."""
BETWEEN = 30.0
"""Seconds between two looks."""


def spellings() -> list[str]:
    """Each once."""
    of_types = [spelt for spelt, _ in entries(TYPES)]
    return list(dict.fromkeys([*of_types, *(one for every in SPELT.values() for one in every)]))


def fill(cursor: Cursor) -> Iterator[tuple[str, str]]:
    """Make and fill a table for each spelling; yields its name and the spelling. A value that MySQL refuses is left out."""
    for number, spelt in enumerate(spellings()):
        table = f"{DATABASE}.t{number}"
        try:
            cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY AUTO_INCREMENT, c {spelt})")
        except pymysql.MySQLError as error:
            print(f"MySQL refused {spelt}: {error.args[1]}")
            continue
        taken = sum(_inserted(cursor, table, one.sql) for one in values(spelt))
        if not taken:
            print(f"MySQL took no value of {spelt}")
        yield table, spelt


def _inserted(cursor: Cursor, table: str, literal: str) -> bool:
    try:
        cursor.execute(f"INSERT INTO {table} (c) VALUES ({literal})")
    except pymysql.MySQLError:
        return False
    return True


def verdict(lab: Lab, made: dict[str, str], folder: Path) -> bool:
    """What the audit says in the end; prints what it says on the way."""
    session = spark_session.create(
        "audit", master="local[2]", driver_memory="1g", conf={}, log=folder / "spark.log"
    )
    for _ in range(LOOKS):
        time.sleep(BETWEEN)
        said = Audit(lab.pipeline(), session, lambda _: None, wait=300).execute()
        differing = {one["name"]: one["differences"] for one in said.as_json()["tables"]}
        named = {made.get(name, name): count for name, count in differing.items() if count}
        print(f"{said.outcome}: {named}", flush=True)
        if said.equal:
            return True
    return False


def main() -> int:
    """Runs it on a stack of its own."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        stack = Stack.at(folder / "stack")
        stack.up({}, print)
        lab = Lab(stack, folder / "lab", name=DATABASE, tables=())
        lab.settings["source"] = {"epoch_dates": "keep"}
        lab.sql(
            f"CREATE DATABASE {DATABASE}",
            f"CREATE TABLE {DATABASE}.first (id INT PRIMARY KEY)",
            f"INSERT INTO {DATABASE}.first VALUES (1)",
        )
        lab.begin()
        try:
            lab.until(lambda: lab.entry() is not None, "the first batch", 300)
            with closing(stack.mysql().admin()) as connection, connection.cursor() as cursor:
                cursor.execute("SET time_zone = '+00:00'")
                made = dict(fill(cursor))
            print(f"{len(made)} tables")
            equal = verdict(lab, made, folder)
            log = (lab.folder / "job.log").read_text()
            for name, said in re.findall(rf"({DATABASE}\.t\d+): (its [^\n]*)", log):
                print(f"{made[name]}: {said}")
            print(*waiting_list(lab.pipeline().lake.path), sep="\n")
        finally:
            lab.close()
            stack.down()
    print(f"{len(made)} spellings: {'equal' if equal else 'DIFFERENT'}")
    return int(not equal)


if __name__ == "__main__":
    sys.exit(main())
