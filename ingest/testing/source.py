"""A MySQL in memory: statements change its tables, and leave the log that Debezium would write. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from ingest.model.position import PART_WRITE, Position
from ingest.model.topics import TableId, topic_of
from ingest.sample.values import Value, null
from ingest.schema.mysql_types import Column
from ingest.testing.column_value import column_value, python_value
from ingest.testing.debezium import (
    NEW_YEAR,
    Operation,
    Record,
    change_record,
    compact,
    described,
    schema_record,
)

Values = dict[str, Value]
"""A row, by column name; never changed in place."""


class Source:
    """Tables and one log for all of them. ``name``: the pipeline's, which begins each topic."""

    def __init__(self, name: str = "p") -> None:
        self.name = name
        self.log: list[Record] = []
        """Everything so far, in order: of tables' topics, and of the schema-change topic."""
        self.now = NEW_YEAR
        """When MySQL commits the statements that follow; set it, with its zone, to have them at another time."""
        self._tables: list[Table] = []
        self._at = Position(0, 1, 4)
        self._transaction = 0
        self._readings = 0
        self._kept: _Kept | None = None
        """Of the transaction that is open; None while none is."""

    def table(
        self,
        name: str,
        columns: Mapping[str, str],
        key: Sequence[str] = (),
        rows: Sequence[Mapping[str, Any]] = (),
    ) -> Table:
        """A table, from a snapshot on, which reads ``rows``.

        ``name``: ``database.table``. ``columns``: name to type, as a CREATE TABLE declares it: ``DECIMAL(10,2) NOT
        NULL``. ``key``: the primary key's columns, none of which is ever NULL; without one, rows may be there several
        times. Raises ``ValueError`` for what is no name, no type, or a key without its column.
        """
        return Table(self, TableId.parse(name), columns, key, rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Statements inside are one transaction of MySQL. Without it, each is one of its own. What is raised inside rolls
        it back, and is raised on; as in MySQL, a DDL commits what was there before it.
        """
        self._begin()
        self._kept = self._now()
        try:
            yield
        except BaseException:
            self._roll_back(self._kept)
            raise
        finally:
            self._kept = None

    def rotate(self) -> None:
        """What follows stands in the next file of MySQL's log."""
        self._at = Position(0, self._at.file + 1, 4)

    def _begin(self) -> None:
        """A statement begins: its records are of one transaction."""
        if self._kept is None:
            self._transaction += 1

    def _now(self) -> _Kept:
        return _Kept(len(self.log), self._at, [(one, list(one._rows)) for one in self._tables])

    def _committed(self) -> None:
        """A transaction that is open goes back no further than to here."""
        if self._kept is not None:
            self._kept = self._now()

    def _roll_back(self, kept: _Kept) -> None:
        del self.log[kept.log :]
        self._at = kept.at
        for table, rows in kept.rows:
            table._rows = rows

    def _next(self) -> Position:
        self._at = replace(self._at, pos=self._at.pos + 100, part=PART_WRITE)
        return self._at

    @property
    def _gtid(self) -> str:
        return f"uuid:{self._transaction}"


@dataclass(frozen=True)
class _Kept:
    """What a source was: how long its log, where in MySQL's, and the rows of its tables."""

    log: int
    at: Position
    rows: list[tuple[Table, list[Values]]]


class Table:
    """One table of a :class:`Source`, made by its ``table``."""

    def __init__(
        self,
        source: Source,
        name: TableId,
        columns: Mapping[str, str],
        key: Sequence[str],
        rows: Sequence[Mapping[str, Any]],
    ) -> None:
        self.source, self.name, self.key = source, name, tuple(key)
        if missing := set(key) - set(columns):
            raise ValueError(
                f"{name}: the key's columns {sorted(missing)} are not among its columns"
            )
        self.kinds = {
            one: f"{kind} NOT NULL" if one in key else kind for one, kind in columns.items()
        }
        """Name to type, as it was declared; of the key, never NULL."""
        self.columns = {one: described(one, kind) for one, kind in self.kinds.items()}
        """Name to what the schema-change topic says of it."""
        self._defaults: Values = {}
        self._rows: list[Values] = []
        for row in rows:
            self._add(self._row(row))
        source._tables.append(self)
        self.snapshot()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What the table holds now, in Python's types as the lake has them. The truth: kept by the statements, never
        read from their log.
        """
        return [{name: value.lake for name, value in row.items()} for row in self._rows]

    @property
    def held(self) -> list[Values]:
        """The same as values of ``ingest.sample.values``, which statements take, too."""
        return list(self._rows)

    def has(self, key: Any) -> bool:
        """True where a row has it. ``key``: as in :meth:`update`."""
        return bool(self._places(key))

    def key_of(self, row: Mapping[str, Any]) -> Any:
        """What names this row in :meth:`update` and :meth:`delete`."""
        return tuple(row[one] for one in self.key) if self.key else row

    def value(self, name: str, given: Any) -> Value:
        """What a column makes of a value (:func:`ingest.testing.column_value.column_value`)."""
        if name not in self.columns:
            raise ValueError(f"{self.name} has no column {name!r}, but {', '.join(self.columns)}")
        return column_value(Column.from_json(self.columns[name]), given)

    # --- statements ------------------------------------------------------------------------------

    def insert(self, /, **values: Any) -> None:
        """A new row. ``values``: by column name (:func:`ingest.testing.column_value.column_value`); a column that is
        not named has its default, or NULL. Raises ``ValueError`` for a key that is there.
        """
        row = self._row(values)
        self._add(row)
        self.source._begin()
        self._write("c", self.source._next(), after=row)

    def update(self, key: Any, /, **values: Any) -> None:
        """Columns of one row become others; NULL only where they are said to be. ``key``: its key's value, or a tuple
        of them; of a table without a key the whole row as a mapping. A change of the key is what Debezium makes of it:
        a delete and an insert at one place. What changes nothing leaves nothing, as in MySQL. Raises ``KeyError`` where
        there is no such row.
        """
        place = self._find(key)
        before = self._rows[place]
        given = {name: self.value(name, one) for name, one in values.items()}
        after = {**before, **given}
        if after == before:
            return
        if self._key_values(after) == self._key_values(before):
            self._rows[place] = after
            self.source._begin()
            self._write("u", self.source._next(), before=before, after=after)
            return
        del self._rows[place]
        try:
            self._add(after)
        except ValueError:
            self._rows.insert(place, before)
            raise
        self.source._begin()
        at = self.source._next()
        self._write("d", at, before=before)
        self._write("c", at, after=after)

    def delete(self, key: Any) -> None:
        """One row goes. ``key``: as in :meth:`update`. Raises ``KeyError`` where there is no such row."""
        before = self._rows.pop(self._find(key))
        self.source._begin()
        self._write("d", self.source._next(), before=before)

    def truncate(self) -> None:
        """All rows go, in one record."""
        self._rows.clear()
        self.source._begin()
        self._write("t", self.source._next())

    def add_column(self, name: str, kind: str, default: Any = None) -> None:
        """ALTER TABLE … ADD. ``kind``: as :meth:`Source.table` takes it. ``default``: a number or a text that the statement names, which
        each row has from here on; None: there is none, and each row has NULL. Raises ``ValueError`` for a column that is there, or
        that is NOT NULL and has no default.
        """
        column = described(name, kind)
        if name in self.columns or (default is None and not column["optional"]):
            raise ValueError(
                f"{self.name}: {name} {kind} cannot be added without a default, or is there"
            )
        said = "" if default is None else f" DEFAULT {_literal(default)}"
        self.columns[name], self.kinds[name] = column, kind
        held = null(kind) if default is None else self.value(name, default)
        self._defaults[name] = held
        self._rows = [{**row, name: held} for row in self._rows]
        self._define(f"ALTER TABLE {self._quoted} ADD `{name}` {kind}{said}")

    def rename_column(self, name: str, new: str) -> None:
        """ALTER TABLE … RENAME COLUMN. Raises ``ValueError`` for a column of the key, for none, and for a name that is there."""
        if name in self.key or name not in self.columns or new in self.columns:
            raise ValueError(f"{self.name}: {name} is of the key or not there, or {new} is there")
        names = {one: new if one == name else one for one in self.columns}
        self.columns = {
            names[one]: held | {"name": names[one]} for one, held in self.columns.items()
        }
        self.kinds = {names[one]: kind for one, kind in self.kinds.items()}
        self._defaults = {names[one]: held for one, held in self._defaults.items()}
        self._rows = [{names[one]: value for one, value in row.items()} for row in self._rows]
        self._define(f"ALTER TABLE {self._quoted} RENAME COLUMN `{name}` TO `{new}`")

    def modify_column(self, name: str, kind: str) -> None:
        """ALTER TABLE … MODIFY. Each row has the same value of Python's in the new type. Raises ``ValueError`` for a column that is not
        there, and as :meth:`insert` does for a value that the type cannot hold.
        """
        if name not in self.columns:
            raise ValueError(f"{self.name}: {name} is not there")
        before, column = Column.from_json(self.columns[name]), described(name, kind)
        made = Column.from_json(column)

        def again(row: Values) -> Values:
            return {**row, name: column_value(made, python_value(before, row[name]))}

        rows, defaults = [again(row) for row in self._rows], self._defaults
        self._defaults = again(defaults) if name in defaults else defaults
        self._rows = rows
        self.columns[name], self.kinds[name] = column, kind
        self._define(f"ALTER TABLE {self._quoted} MODIFY `{name}` {kind}")

    def drop_column(self, name: str) -> None:
        """ALTER TABLE … DROP. Raises ``ValueError`` for a column of the key, or none."""
        if name in self.key or name not in self.columns:
            raise ValueError(f"{self.name}: {name} is of the key, or is not there")
        del self.columns[name], self.kinds[name]
        self._defaults.pop(name, None)
        self._rows = [{one: row[one] for one in self.columns} for row in self._rows]
        self._define(f"ALTER TABLE {self._quoted} DROP `{name}`")

    def snapshot(self) -> None:
        """Every row is read, as when a table is taken again."""
        at = replace(self.source._next(), part=0)
        columns = list(self.columns.values())
        said = schema_record(self.name, at, columns, self.key)
        self.source.log.append(Record(self.source.name, compact(said)))
        self.source._readings += 1
        for row in self._rows:
            self._write("r", at, after=row)
        self.source._committed()

    # --- what they leave -------------------------------------------------------------------------

    @property
    def topic(self) -> str:
        """The Kafka topic of its changes."""
        return topic_of(self.source.name, self.name, "plain")

    @property
    def _quoted(self) -> str:
        return f"`{self.name.database}`.`{self.name.name}`"

    def _define(self, ddl: str) -> None:
        at, columns = self.source._next(), list(self.columns.values())
        said = schema_record(
            *(self.name, at, columns, self.key),
            ddl=ddl,
            kind="ALTER",
            snapshot=False,
            committed_at=self.source.now,
        )
        self.source.log.append(Record(self.source.name, compact(said)))
        self.source._committed()

    def _write(
        self,
        op: Operation,
        at: Position,
        before: Values | None = None,
        after: Values | None = None,
    ) -> None:
        read, row = op == "r", after or before
        self.source.log.append(
            change_record(
                self.topic,
                op,
                at,
                table=self.name,
                key=_json({one: row[one] for one in self.key}, read) if row and self.key else None,
                before=_json(before, read),
                after=_json(after, read),
                gtid=None if read else self.source._gtid,
                # Readings are told apart by their run, or by their second, which is the same where nobody sets ``now``.
                run=f"run-{self.source._readings}" if read else "run",
                committed_at=self.source.now,
            )
        )

    def _row(self, given: Mapping[str, Any]) -> Values:
        values = {name: self.value(name, one) for name, one in given.items()}
        unnamed = self._defaults
        return {n: values.get(n) or unnamed.get(n) or self.value(n, None) for n in self.columns}

    def _key_values(self, row: Values) -> tuple[Value, ...]:
        return tuple(row[one] for one in self.key)

    def _add(self, row: Values) -> None:
        if self.key and any(
            self._key_values(row) == self._key_values(other) for other in self._rows
        ):
            raise ValueError(f"{self.name} has a row with the key {self._key_values(row)}")
        self._rows.append(row)

    def _find(self, key: Any) -> int:
        found = self._places(key)
        if not found:
            raise KeyError(f"{self.name} has no row {key!r}")
        return found[0]

    def _places(self, key: Any) -> list[int]:
        if not self.key:
            sought = self._row(key)
            return [at for at, row in enumerate(self._rows) if row == sought]
        parts = key if isinstance(key, tuple) else (key,)
        wanted = tuple(self.value(name, one) for name, one in zip(self.key, parts, strict=True))
        return [at for at, row in enumerate(self._rows) if self._key_values(row) == wanted]


def _literal(value: float | Decimal | str) -> str:
    """A constant of a statement."""
    if not isinstance(value, str):
        return f"{value}"
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _json(row: Values | None, read: bool) -> dict[str, Any] | None:
    if row is None:
        return None
    return {name: one.snapshot_json if read else one.json for name, one in row.items()}
