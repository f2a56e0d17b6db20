"""Writing a batch to a table of MySQL: in one transaction with its place, or row by row by key from Spark's tasks.

Nothing is bent to fit: a row that MySQL refuses, or would have to cut, is handed back with the reason.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

import pymysql
from pymysql.cursors import Cursor
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from ingest.config.connection_settings import Server
from ingest.flows.batch_place import Place, act, is_act
from ingest.flows.refused_rows import Refused, as_json, refuse_too_many
from ingest.model.errors import IngestError
from ingest.model.names import quoted

CHUNK = 1000
"""Rows of one statement."""

PLACES = "ingest_flow_places"
"""The table, beside the flows' own, that says how far each is."""

_PLACES_DDL = f"""CREATE TABLE IF NOT EXISTS {PLACES} (
  pipeline VARCHAR(64) NOT NULL, flow VARCHAR(64) NOT NULL, sink VARCHAR(255) NOT NULL,
  checkpoint VARCHAR(32) NOT NULL, generation INT NOT NULL, batch BIGINT NOT NULL, ends LONGTEXT NOT NULL,
  PRIMARY KEY (pipeline, flow, sink)
) ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"""

_OF_THE_ROW = frozenset(
    (
        1048,
        1062,
        1264,
        1265,
        1292,
        1366,
        1406,
        1411,
        1416,
        1426,
        1451,
        1452,
        1644,
        1690,
        3140,
        3141,
        3156,
        3819,
        3903,
        4025,
    )
)
"""MySQL's numbers of what is wrong with a row and not with all of them: NULL, a key that is there, out of range, cut, no such number, date, or JSON; a foreign
key, a trigger's own words, a CHECK.
"""

_PASSING = frozenset((1053, 1205, 1213, 2003, 2006, 2013, 2055))
"""The server is away or was lost; another transaction was in the way."""


@dataclass(frozen=True)
class Into:
    """A table as rows go into it; goes to Spark's tasks. ``columns``: of each row, behind which it says whether its key is gone; ``keys``: some
    of them, empty where rows are only added; ``digits``: behind the point that each column holds; None where it is not known to round.
    """

    server: Server
    table: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    digits: tuple[int | None, ...]

    @property
    def put(self) -> str:
        """The statement for a row that is."""
        names = ", ".join(map(_name, self.columns))
        marks = ", ".join(["%s"] * len(self.columns))
        said = f"INSERT INTO {_name(self.table)} ({names}) VALUES ({marks})"
        if not self.keys:
            return said
        others = [name for name in self.columns if name not in self.keys] or self.keys[:1]
        # PyMySQL makes one statement of many rows, and takes what stands behind VALUES as it is.
        changed = ", ".join(f"{quoted(name)} = VALUES({quoted(name)})" for name in others)
        return f"{said} ON DUPLICATE KEY UPDATE {changed}"

    @property
    def remove(self) -> str:
        """The statement for one that is no more, by its keys."""
        same = " AND ".join(f"{_name(key)} <=> %s" for key in self.keys)
        return f"DELETE FROM {_name(self.table)} WHERE {same}"

    def of_keys(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """A row's."""
        return tuple(row[self.columns.index(key)] for key in self.keys)


def _name(identifier: str) -> str:
    """As PyMySQL has it in a statement, whose own marks begin with `%`."""
    return quoted(identifier).replace("%", "%%")


def connect(server: Server) -> pymysql.Connection[Cursor]:
    """A connection that cuts and rounds off nothing, in UTC. Raises :class:`IngestError` where there is none to be had."""
    tls: dict[str, Any] = {}
    if server.tls:
        tls = {"ssl_ca": server.ca, "ssl_verify_cert": True, "ssl_verify_identity": True}
    try:
        connection: pymysql.Connection[Cursor] = pymysql.connect(
            host=server.host,
            port=server.port,
            user=server.user,
            password=server.secret,
            database=server.database,
            connect_timeout=5,
            charset="utf8mb4",
            autocommit=False,
            init_command="SET time_zone = '+00:00', sql_mode = 'TRADITIONAL'",
            **tls,
        )
    except (pymysql.MySQLError, OSError) as failure:
        reason = str(failure.args[-1]) if failure.args else str(failure)
        raise away(server, reason) from None
    return connection


def away(server: Server, reason: str) -> IngestError:
    """A server that a flow needs does not answer."""
    return IngestError(
        "E-FLOW-SERVER",
        f"{server.shown} (`connections.{server.name}`) cannot be reached: {reason.removesuffix('.')}.",
        means="The flow waits for it; its batch comes again.",
        remedy="start it, or correct `connections` in the pipeline file.",
        may_pass=True,
    )


_open: dict[tuple[int, Server], pymysql.Connection[Cursor]] = {}
"""Of this process, by its id, as Spark's workers are forked: one each, in use by one thread at a time."""


@contextmanager
def transaction(server: Server) -> Iterator[Cursor]:
    """On a connection that is kept for the next one. Committed at the end, else taken back."""
    place = os.getpid(), server
    connection = _open.pop(place, None)
    if connection is not None:
        try:
            connection.ping(reconnect=False)
        except (pymysql.MySQLError, OSError):
            connection = None
    connection = connection or connect(server)
    try:
        connection.begin()
        with connection.cursor() as cursor:
            yield cursor
        connection.commit()
    except BaseException:
        with suppress(pymysql.MySQLError, OSError):
            connection.close()  # takes it back
        raise
    _open[place] = connection


def passes(failure: BaseException) -> bool:
    """Whether it may go better a moment later."""
    if isinstance(failure, IngestError):
        return failure.may_pass
    number = failure.args[0] if isinstance(failure, pymysql.MySQLError) and failure.args else None
    return number in _PASSING


def _again() -> Retrying:
    return Retrying(
        retry=retry_if_exception(passes),
        stop=stop_after_attempt(5),
        wait=wait_random_exponential(0.1, max=3),
        reraise=True,
    )


def write(cursor: Cursor, into: Into, rows: Iterable[Sequence[Any]]) -> list[Refused]:
    """Within a transaction. Returns what MySQL refuses, or would change. Raises :class:`IngestError` for too much of it."""
    left, refused = iter(rows), list[Refused]()
    cursor.execute("SELECT @@max_allowed_packet")
    (most,) = cursor.fetchone() or (0,)
    while chunk := list(islice(left, CHUNK)):
        fitting = []
        for row in chunk:
            if misfit := unfit(into, row, most):
                refused.append(Refused(as_json(into.columns, row), misfit))
            else:
                fitting.append(row)
        if _sent(cursor, into, fitting) is not None:
            for row in fitting:
                why = _sent(cursor, into, [row])
                if why is not None:
                    refused.append(Refused(as_json(into.columns, row), why))
        refuse_too_many(into.table, refused)
    return refused


_FRACTION = re.compile(r"\.(\d*[1-9])0*$")


def unfit(into: Into, row: Sequence[Any], most: int) -> str:
    """Why a row cannot be written as it is, as far as MySQL would not say so: it would round, or takes it for lost. ``most``: bytes of a statement. Pure."""
    if row[-1]:
        return ""
    sizes = (len(value) for value in row if isinstance(value, (str, bytes, bytearray)))
    if sum(sizes) * 2 > most:
        return f"it is too large for max_allowed_packet ({most:,} bytes)"
    for name, value, digits in zip(into.columns, row, into.digits, strict=False):
        if digits is not None and (many := _behind_point(value)) > digits:
            return f"{name} has {many} digits behind the point, and its column {digits}"
    return ""


def _behind_point(value: Any) -> int:
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Decimal):
        exponent = value.normalize().as_tuple().exponent
        return max(0, -exponent) if isinstance(exponent, int) else 0
    found = _FRACTION.search(value) if isinstance(value, str) else None
    return len(found[1]) if found else 0


def _sent(cursor: Cursor, into: Into, rows: Sequence[Sequence[Any]]) -> str | None:
    """All of them, or none and why."""
    cursor.execute("SAVEPOINT rows_before")
    try:
        if gone := [into.of_keys(row) for row in rows if row[-1]]:
            cursor.executemany(into.remove, gone)
        if put := [tuple(row[:-1]) for row in rows if not row[-1]]:
            cursor.executemany(into.put, put)
    except (pymysql.MySQLError, TypeError, UnicodeError) as failure:
        why = _of_the_row(failure)
        if why is None:
            raise
        cursor.execute("ROLLBACK TO SAVEPOINT rows_before")
        return why
    return None


def _of_the_row(failure: Exception) -> str | None:
    """Why, where it is a row's own fault."""
    number = failure.args[0] if failure.args else None
    if not isinstance(number, int):
        return str(failure)  # PyMySQL itself cannot write the value down, as a NaN
    return f"{number}: {failure.args[-1]}" if number in _OF_THE_ROW else None


def by_key(into: Into, rows: Iterator[Sequence[Any]]) -> Iterator[tuple[str, str]]:
    """In a task: each chunk in a transaction of its own. Yields what is refused: row and reason."""
    all_ = list[Refused]()
    while chunk := list(islice(rows, CHUNK)):
        for attempt in _again():
            with attempt, transaction(into.server) as cursor:
                refused = write(cursor, into, chunk)
        all_ += refused
        refuse_too_many(into.table, all_)
        yield from ((one.row, one.reason) for one in refused)


@dataclass(frozen=True)
class Whose:
    """Of which flow's sink a place is."""

    pipeline: str
    flow: str
    sink: str

    @property
    def key(self) -> tuple[str, str, str]:
        """In the table of places."""
        return (self.pipeline, self.flow, self.sink)


def place(cursor: Cursor, whose: Whose, *, to_change: bool = False) -> Place | None:
    """How far a sink is."""
    cursor.execute(
        f"SELECT checkpoint, generation, batch, ends FROM {PLACES} WHERE pipeline = %s AND flow = %s AND sink = %s"
        + (" FOR UPDATE" if to_change else ""),
        whose.key,
    )
    found = cursor.fetchone()
    return Place(*found) if found else None


def begin(server: Server, whose: Whose, at: Place) -> None:
    """Note where a sink that is new begins. One that is noted already stays as it is, unless nothing was ever written of it: a first start failed, or was killed,
    before the flow knew of it.
    """
    values = (*whose.key, at.checkpoint, at.generation, at.batch, at.ends)
    for attempt in _again():
        with attempt, transaction(server) as cursor:
            try:
                cursor.execute(_PLACES_DDL)
                cursor.execute(
                    f"INSERT INTO {PLACES} VALUES (%s, %s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE "
                    "checkpoint = IF(batch = -1, VALUES(checkpoint), checkpoint), "
                    "generation = IF(batch = -1, VALUES(generation), generation)",
                    values,
                )
            except pymysql.OperationalError as failure:
                if failure.args[0] in (1044, 1142):
                    raise _no_places(server) from None
                raise


def held(server: Server, whose: Whose) -> Place | None:
    """How far a sink is; None where nothing is noted."""
    for attempt in _again():
        with attempt, transaction(server) as cursor:
            try:
                return place(cursor, whose)
            except pymysql.ProgrammingError as failure:
                if failure.args[0] != 1146:  # no such table
                    raise
    return None


def at_once(
    into: Into,
    whose: Whose,
    first: Place,
    end: Place,
    rows: Callable[[], Iterable[Sequence[Any]]],
    refused: Callable[[Sequence[Refused]], object],
    *,
    replaces: bool,
) -> bool:
    """A batch from ``first`` to ``end``, and that it is there, in one transaction. ``refused``: keeps what MySQL refuses, before the rest is
    committed; ``replaces``: the rows are the whole table. Returns whether it was done now. Raises :class:`IngestError` where the batch is not the
    table's next.
    """
    for attempt in _again():
        with attempt, transaction(into.server) as cursor:
            found = act(place(cursor, whose, to_change=True), first, end)
            if not is_act(found):
                raise _elsewhere(into, whose, found)
            if found == "skip":
                return False
            if found == "anew" or replaces:
                cursor.execute(f"DELETE FROM {quoted(into.table)}")
            refused(write(cursor, into, rows()))
            cursor.execute(
                f"UPDATE {PLACES} SET checkpoint = %s, generation = %s, batch = %s, ends = %s "
                "WHERE pipeline = %s AND flow = %s AND sink = %s",
                (end.checkpoint, end.generation, end.batch, end.ends, *whose.key),
            )
    return True


def replace(into: Into, rows: Callable[[], Iterable[Sequence[Any]]]) -> list[Refused]:
    """A table's rows by these, in one transaction. Returns what MySQL refuses."""
    for attempt in _again():
        with attempt, transaction(into.server) as cursor:
            cursor.execute(f"DELETE FROM {quoted(into.table)}")
            return write(cursor, into, rows())
    raise AssertionError


def _elsewhere(into: Into, whose: Whose, found: str) -> IngestError:
    return IngestError(
        "E-FLOW-PLACE",
        f"The flow {whose.flow!r} cannot go on in the table {into.table} of {into.server.shown}: {found}.",
        means="Nothing of the batch was written there: it would be lost, or there twice.",
        remedy="bring back the table, or the checkpoint, that belongs to the other; or say `on_change: restart` of the flow, and start it "
        "again: then it writes the table anew from the beginning of its inputs.",
    )


def _no_places(server: Server) -> IngestError:
    return IngestError(
        "E-FLOW-SERVER",
        f"The user {server.user!r} of {server.shown} may not make the table {PLACES}, in which a flow notes how far it is.",
        remedy=f"have somebody who may run this once in `{server.database}`, and grant SELECT, INSERT and UPDATE on it: {' '.join(_PLACES_DDL.split())}",
    )
