"""What an application's users might do, drawn from a seed: transactions over all its tables."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pymysql

from ingest.model.names import quoted
from tests.applications.oracle import ApplicationLab
from tests.applications.rows import Column, Table, literal, tables


@dataclass
class Traffic:
    """Statements that MySQL refuses (a key that is there, a column that an upgrade has dropped) are counted.

    Foreign keys are not checked in its sessions: rows need no parents, and nothing cascades, which the binlog
    would not say.
    """

    lab: ApplicationLab
    seed: int
    rows: int = 0
    transactions: int = 0
    refused: Counter[int] = field(default_factory=Counter)
    left_alone: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def fill(self, rows: int, *, only: frozenset[str] | None = None) -> None:
        """So many rows for each table, a transaction per table."""
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            for table in self._tables(cursor):
                if only is None or table.name in only:
                    self._transaction(
                        connection, cursor, [_insert(self.rng, table) for _ in range(rows)]
                    )

    def exercise(self, transactions: int) -> None:
        """Transactions of one to six statements, of which one in twelve is rolled back."""
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            found = self._tables(cursor)
            for _ in range(transactions if found else 0):
                chosen = self.rng.choices(found, k=self.rng.randint(1, 6))
                if any(table.engine != "InnoDB" for table in chosen):
                    chosen = chosen[:1]  # with GTIDs, MySQL refuses them beside others
                self._transaction(
                    connection,
                    cursor,
                    [self.rng.choice(STATEMENTS)(self.rng, table) for table in chosen],
                    undo=self.rng.random() < 1 / 12,
                )

    def _connect(self) -> pymysql.connections.Connection[Any]:
        connection = self.lab.stack.mysql().admin()
        with connection.cursor() as cursor:
            cursor.execute(
                "SET foreign_key_checks = 0, sql_mode = 'STRICT_ALL_TABLES', lock_wait_timeout = 30"
            )
            cursor.execute(f"USE {quoted(self.lab.name)}")
        connection.autocommit(False)
        return connection

    def _tables(self, cursor: Any) -> list[Table]:
        return [t for t in tables(cursor, self.lab.name) if t.name not in self.left_alone]

    def _transaction(
        self, connection: Any, cursor: Any, statements: list[str], *, undo: bool = False
    ) -> None:
        changed = 0
        for statement in statements:
            try:
                changed += max(0, cursor.execute(statement))
            except pymysql.MySQLError as refused:
                self.refused[refused.args[0] if refused.args else 0] += 1
        (connection.rollback if undo else connection.commit)()
        if not undo:
            self.rows += changed
            self.transactions += 1


@dataclass
class Going:
    """Traffic in a thread of its own, until it is left; what goes wrong in it is raised then."""

    traffic: Traffic
    pause: float = 0.1
    failure: Exception | None = None

    def __enter__(self) -> Any:
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(120)
        if self.failure is not None:
            raise self.failure

    def _go(self) -> None:
        try:
            while not self._end.is_set():
                self.traffic.exercise(3)
                time.sleep(self.pause)
        except Exception as failure:  # noqa: BLE001  raised in the thread that waits
            self.failure = failure


def _names(columns: tuple[Column, ...]) -> str:
    return ", ".join(quoted(column.name) for column in columns)


def _insert(rng: random.Random, table: Table) -> str:
    columns = tuple(c for c in table.given if not (c.counted and rng.random() < 0.8))
    values = ", ".join(literal(rng, column) for column in columns)
    return f"INSERT INTO {quoted(table.name)} ({_names(columns)}) VALUES ({values})"


def _some(rng: random.Random, rows: int) -> str:
    return f"ORDER BY RAND({rng.randrange(10**6)}) LIMIT {rows}"


def _update(rng: random.Random, table: Table) -> str:
    others = [column for column in table.given if not column.in_key] or list(table.given)
    chosen = rng.sample(others, min(len(others), rng.randint(1, 3)))
    to = ", ".join(f"{quoted(column.name)} = {literal(rng, column)}" for column in chosen)
    return f"UPDATE {quoted(table.name)} SET {to} {_some(rng, rng.randint(1, 5))}"


def _key_update(rng: random.Random, table: Table) -> str:
    if not table.key:
        return _update(rng, table)
    column = rng.choice(table.key)
    to = f"{quoted(column.name)} = {literal(rng, column)}"
    return f"UPDATE {quoted(table.name)} SET {to} {_some(rng, 1)}"


def _delete(rng: random.Random, table: Table) -> str:
    return f"DELETE FROM {quoted(table.name)} {_some(rng, rng.randint(1, 2))}"


def _copied(rng: random.Random, table: Table) -> str:
    names = _names(table.given)
    chosen = f"SELECT * FROM (SELECT {names} FROM {quoted(table.name)} {_some(rng, 3)}) AS chosen"
    return f"INTO {quoted(table.name)} ({names}) {chosen}"


def _replace(rng: random.Random, table: Table) -> str:
    return f"REPLACE {_copied(rng, table)}"


def _upsert(rng: random.Random, table: Table) -> str:
    column = rng.choice(table.given)
    name = f"{quoted(table.name)}.{quoted(column.name)}"
    return f"INSERT {_copied(rng, table)} ON DUPLICATE KEY UPDATE {name} = {literal(rng, column)}"


STATEMENTS = (_insert, _insert, _insert, _update, _update, _key_update, _delete, _replace, _upsert)
