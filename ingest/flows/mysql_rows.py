"""Rows into a table of MySQL, by key or not; from Spark's tasks, or in somebody's transaction.

Nothing is bent to fit: a row that MySQL refuses, or would have to cut or round off, is handed back with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from ingest.config.connection_settings import Server
from ingest.flows.mysql_server import again, transaction
from ingest.flows.refused_rows import Refused, as_json, refuse_too_many
from ingest.model.names import quoted

CHUNK = 1000
"""Rows of one statement."""

_STATEMENT = 1_000_000
"""Bytes of one, where it is of several rows: MySQL's own default of `max_allowed_packet` was little more once."""

_ESCAPED = "\0\n\r\x1a\"'\\"
"""Characters that are two in a statement."""

_OF_A_VALUE = 64
"""Bytes of a number at most, and of what stands around a text."""

_OF_THE_ROW = frozenset((
    1048, 1062, 1264, 1265, 1292, 1365, 1366, 1406, 1411, 1416, 1426, 1451, 1452,
    1525, 1526, 1644, 1690, 3140, 3141, 3156, 3157, 3819, 3903, 4025,
))  # fmt: skip
"""MySQL's numbers of what is wrong with a row and not with all of them: NULL, a key that is there, out of range, cut, a division by zero, no such number, date,
partition, or JSON; a foreign key, a trigger's own words, a CHECK.
"""


@dataclass(frozen=True)
class Room:
    """What a column holds of a value, where MySQL drops or adds the rest without a word. ``digits``: behind the point; ``blanks``: how long a text is that
    keeps those at its end, ``by_bytes`` or by characters; ``filled``: how many bytes it has, whatever it is given. None where that bends nothing.
    """

    digits: int | None = None
    blanks: int | None = None
    by_bytes: bool = False
    filled: int | None = None


@dataclass(frozen=True)
class Into:
    """A table as rows go into it; goes to Spark's tasks. ``columns``: of each row, behind which it says whether its key is gone; ``keys``: some
    of them, empty where rows are only added; ``rooms``: of each column.
    """

    server: Server
    table: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    rooms: tuple[Room, ...]

    @property
    def put(self) -> tuple[str, str]:
        """What stands before and behind the rows in a statement that writes them."""
        before = (
            f"INSERT INTO {quoted(self.table)} ({', '.join(map(quoted, self.columns))}) VALUES "
        )
        if not self.keys:
            return before, ""
        others = [name for name in self.columns if name not in self.keys] or self.keys[:1]
        changed = ", ".join(f"{quoted(name)} = VALUES({quoted(name)})" for name in others)
        return before, f" ON DUPLICATE KEY UPDATE {changed}"

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


def write(cursor: Cursor, into: Into, rows: Iterable[Sequence[Any]]) -> list[Refused]:
    """Within a transaction. Returns what MySQL refuses, or would change. Raises :class:`IngestError` for too much of it."""
    left, refused = iter(rows), list[Refused]()
    cursor.execute("SELECT @@max_allowed_packet")
    (most,) = cursor.fetchone() or (0,)
    while chunk := list(islice(left, CHUNK)):
        fitting = []
        for row in chunk:
            if why := misfit(into, row, most):
                refused.append(Refused(as_json(into.columns, row), why))
            else:
                fitting.append(row)
        if _sent(cursor, into, fitting, most) is not None:
            for row in fitting:
                its_own = _sent(cursor, into, [row], most)
                if its_own is not None:
                    refused.append(Refused(as_json(into.columns, row), its_own))
        refuse_too_many(into.table, refused)
    return refused


_FRACTION = re.compile(r"\.(\d*[1-9])0*$")


def misfit(into: Into, row: Sequence[Any], most: int) -> str:
    """Why a row cannot be written as it is, as far as MySQL would not say so: it would round, cut or fill up, or takes it for lost. ``most``: bytes of a statement. Pure."""
    if _is_too_large(into, row, most):
        return f"it is too large for max_allowed_packet ({most:,} bytes)"
    if row[-1]:
        return ""
    for name, value, room in zip(into.columns, row, into.rooms, strict=False):
        if why := _bent(value, room):
            return f"{name} {why}"
    return ""


def _is_too_large(into: Into, row: Sequence[Any], most: int) -> bool:
    values = into.of_keys(row) if row[-1] else row[:-1]
    large = [value for value in values if isinstance(value, (str, bytes, bytearray))]
    # A character has four bytes at most, of which each may be escaped: so hardly a row is counted.
    if sum(map(len, large)) * 8 < most // 2:
        return False
    beside = sum(map(_size, into.put)) + _OF_A_VALUE * len(values)
    return sum(map(_sent_size, large)) + beside > most


def _sent_size(value: str | bytes | bytearray) -> int:
    """In a statement, where bytes are written as two each, or escaped as texts are."""
    if isinstance(value, str):
        return _size(value) + sum(map(value.count, _ESCAPED))
    return 2 * len(value)


def _bent(value: Any, room: Room) -> str:
    if room.digits is not None and (many := _behind_point(value)) > room.digits:
        return f"has {many} digits behind the point, and its column {room.digits}"
    if room.blanks is not None and isinstance(value, str) and value.endswith(" "):
        if room.blanks == 0:
            return "ends with a blank, and its column drops those"
        if (_size(value) if room.by_bytes else len(value)) > room.blanks:
            return f"ends with blanks beyond the {room.blanks} that its column holds"
    if room.filled is not None and 0 <= (size := _size(value)) < room.filled:
        return f"has {size} bytes, and its column fills them up to {room.filled}"
    return ""


def _size(value: Any) -> int:
    """Bytes of a text, or of bytes; -1 of anything else."""
    if isinstance(value, str):
        return len(value.encode(errors="surrogatepass"))
    return len(value) if isinstance(value, (bytes, bytearray)) else -1


def _behind_point(value: Any) -> int:
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Decimal):
        exponent = value.normalize().as_tuple().exponent
        return max(0, -exponent) if isinstance(exponent, int) else 0
    found = _FRACTION.search(value) if isinstance(value, str) else None
    return len(found[1]) if found else 0


def _sent(cursor: Cursor, into: Into, rows: Sequence[Sequence[Any]], most: int) -> str | None:
    """All of them, or none and why."""
    cursor.execute("SAVEPOINT rows_before")
    try:
        if gone := [into.of_keys(row) for row in rows if row[-1]]:
            cursor.executemany(into.remove, gone)
        for statement in _statements(cursor, into, [row[:-1] for row in rows if not row[-1]], most):
            cursor.execute(statement)
    except (pymysql.MySQLError, TypeError, UnicodeError) as failure:
        why = _of_the_row(failure)
        if why is None:
            raise
        cursor.execute("ROLLBACK TO SAVEPOINT rows_before")
        return why
    return None


def _statements(
    cursor: Cursor, into: Into, rows: Sequence[Sequence[Any]], most: int
) -> Iterator[str]:
    """That write these rows, each of as many as are not too large together. The client puts values alone in: its marks begin with `%`, and so may a name."""
    before, behind = into.put
    marks = f"({', '.join(['%s'] * len(into.columns))})"
    room = min(most, _STATEMENT) - _size(before) - _size(behind)
    said, left = list[str](), room
    for row in rows:
        values = cursor.mogrify(marks, tuple(row))
        size = _size(values) + 1
        if said and size > left:
            yield before + ",".join(said) + behind
            said, left = [], room
        said.append(values)
        left -= size
    if said:
        yield before + ",".join(said) + behind


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
        for attempt in again():
            with attempt, transaction(into.server) as cursor:
                refused = write(cursor, into, chunk)
        all_ += refused
        refuse_too_many(into.table, all_)
        yield from ((one.row, one.reason) for one in refused)


def replace(into: Into, rows: Callable[[], Iterable[Sequence[Any]]]) -> list[Refused]:
    """A table's rows by these, in one transaction. Returns what MySQL refuses."""
    for attempt in again():
        with attempt, transaction(into.server) as cursor:
            cursor.execute(f"DELETE FROM {quoted(into.table)}")
            return write(cursor, into, rows())
    raise AssertionError
