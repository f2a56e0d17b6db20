"""A history of any length by its seed: what a shop's tables go through, batch by batch, and what they hold then. Pure.

Two of the same seed are equal, so a process that is started again draws it anew up to where the manifest is, and nobody keeps
what was sent. ``orders`` grows, its newest rows change. ``stock`` changes anywhere and gets DDLs that write no data. ``carts`` come
and go and are truncated now and then. ``visits`` has no key, ``prices`` has types that are widened: Spark computes or merges their
changes, so they change in some of the batches only.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from ingest.model.position import PART_WRITE, Position
from ingest.model.topics import TableId
from ingest.testing.debezium import (
    Operation,
    Record,
    change_record,
    compact,
    described,
    schema_record,
)

Row = dict[str, Any]
TABLES = ("orders", "stock", "carts", "visits", "prices")
GROWING = "orders"
STOCK, CARTS, VISITS, PRICES = 500, 200, 50, 100
"""Rows of the others, about."""
VISITED, PRICED, TRUNCATED, ROTATED = 50, 100, 700, 1_000
"""In one batch of so many: changes without a key, changes of prices, a TRUNCATE, another file of MySQL's log."""
NEWEST = 200
"""Orders that still change."""
WIDER = ("TINYINT", "SMALLINT", "INT", "BIGINT")


@dataclass(frozen=True)
class Change:
    """One record to come. ``op``: as Debezium has it, or ``ddl``, of which ``text`` is the statement."""

    table: str
    op: Operation | str
    at: Position
    before: Row | None = None
    after: Row | None = None
    text: str = ""
    columns: Mapping[str, str] | None = None


class History:
    """What happens, and what the tables hold by now. ``ddl_every``: batches from a DDL to the next."""

    def __init__(self, seed: int, ddl_every: int = 150, name: str = "p") -> None:
        self.name, self.number = name, 0
        """``number``: of the batch that was drawn last; the first is the snapshot."""
        self._seed, self._ddl_every = seed, ddl_every
        self._at = Position(0, 1, 4)
        self.columns: dict[str, dict[str, str]] = {
            "orders": {"id": "BIGINT NOT NULL", "amount": "BIGINT", "note": "VARCHAR(60)"},
            "stock": {"id": "BIGINT NOT NULL", "left": "INT", "place": "VARCHAR(20)"},
            "carts": {"id": "BIGINT NOT NULL", "items": "INT"},
            "visits": {"page": "VARCHAR(20)", "seconds": "INT"},
            "prices": {"id": "BIGINT NOT NULL", "price": "INT"},
        }
        self._orders = array("l")
        """By id: the batch that wrote it last. A row follows from the two."""
        self._rows: dict[str, dict[int, Row]] = {one: {} for one in TABLES if one != GROWING}
        self._carts = 0
        self._shapes = 0
        """DDLs so far."""

    def topic(self, table: str) -> str:
        """Of Kafka."""
        return f"{self.name}.d.{table}"

    def next(self) -> list[Change]:
        """The next batch: some changes of most tables, and a DDL or a TRUNCATE where it is its turn."""
        self.number += 1
        # Of its own, by seed and number: what is drawn depends on nothing but the rows that are there.
        rng = Random(self._seed * 1_000_003 + self.number)
        if self.number == 1:
            return list(self._snapshot())
        if self.number % ROTATED == 0:
            self._at = Position(0, self._at.file + 1, 4)
        return list(self._changes(rng))

    def rows(self, table: str) -> Iterator[Row]:
        """What it holds now."""
        if table == GROWING:
            return (_order(key, number) for key, number in enumerate(self._orders))
        return iter(self._rows[table].values())

    def key(self, table: str) -> tuple[str, ...]:
        """Its columns."""
        return () if table == "visits" else ("id",)

    def record(self, change: Change) -> Record:
        """As Kafka has it; of a DDL in the topic of schema changes."""
        key = self.key(change.table)
        if change.op == "ddl":
            told = [described(*one) for one in (change.columns or {}).items()]
            created = not change.text
            ddl: dict[str, Any] = {} if created else {"ddl": change.text, "kind": "ALTER"}
            named = TableId("d", change.table)
            said = schema_record(named, change.at, told, key, snapshot=created, **ddl)
            return Record(self.name, compact(said))
        row = change.after or change.before
        return change_record(
            self.topic(change.table),
            change.op,  # type: ignore[arg-type]
            change.at,
            key={one: row[one] for one in key} if row and key else None,
            before=change.before,
            after=change.after,
            gtid=None if change.op == "r" else f"uuid:{self.number}",
        )

    def _next(self) -> Position:
        self._at = replace(self._at, pos=self._at.pos + 100, part=PART_WRITE)
        return self._at

    def _snapshot(self) -> Iterator[Change]:
        self._orders.extend([1] * NEWEST)
        self._carts = CARTS
        self._rows["stock"] = {n: {"id": n, "left": n, "place": f"shelf {n}"} for n in range(STOCK)}
        self._rows["carts"] = {n: {"id": n, "items": 1} for n in range(CARTS)}
        self._rows["visits"] = {n: {"page": f"page {n % 7}", "seconds": n} for n in range(VISITS)}
        self._rows["prices"] = {n: {"id": n, "price": n} for n in range(PRICES)}
        for table in TABLES:
            at = replace(self._next(), part=0)
            yield Change(table, "ddl", at, columns=dict(self.columns[table]))
            for row in self.rows(table):
                yield Change(table, "r", at, after=row)

    def _changes(self, rng: Random) -> Iterator[Change]:
        if self.number % self._ddl_every == 0:
            yield self._ddl("stock" if self._shapes % 2 else "prices")
        for _ in range(2):
            self._orders.append(self.number)
            yield Change(
                "orders", "c", self._next(), after=_order(len(self._orders) - 1, self.number)
            )
        for key in rng.sample(range(len(self._orders) - NEWEST, len(self._orders) - 2), 4):
            before = _order(key, self._orders[key])
            self._orders[key] = self.number
            yield Change("orders", "u", self._next(), before, _order(key, self.number))
        for key in rng.sample(range(STOCK), 5):
            yield self._update("stock", key, rng)
        yield from self._of_carts(rng)
        if self.number % VISITED == 0:
            yield from self._of_visits(rng)
        if self.number % PRICED == 0:
            for key in rng.sample(range(PRICES), 3):
                yield self._update("prices", key, rng)

    def _update(self, table: str, key: int, rng: Random) -> Change:
        before = self._rows[table][key]
        after = {one: before[one] for one in self.columns[table]}
        for one, kind in self.columns[table].items():
            if one != "id":
                small = 100 if kind == "TINYINT" else 10_000
                drawn = rng.randrange(small)
                after[one] = f"{one} {drawn}" if kind.startswith("VARCHAR") else drawn
        self._rows[table][key] = after
        return Change(table, "u", self._next(), before, after)

    def _of_carts(self, rng: Random) -> Iterator[Change]:
        carts = self._rows["carts"]
        if self.number % TRUNCATED == 0:
            carts.clear()
            yield Change("carts", "t", self._next())
        if len(carts) > 3:
            keys = rng.sample(sorted(carts), 3)
            yield self._update("carts", keys[0], rng)
            for key in keys[1 : 3 if len(carts) > CARTS else 2]:
                yield Change("carts", "d", self._next(), carts.pop(key))
        for _ in range(2 if len(carts) < CARTS else 1):
            row = {"id": self._carts, "items": rng.randrange(9)}
            carts[self._carts] = row
            self._carts += 1
            yield Change("carts", "c", self._next(), after=row)

    def _of_visits(self, rng: Random) -> Iterator[Change]:
        yield self._update("visits", rng.choice(sorted(self._rows["visits"])), rng)
        gone = rng.choice(sorted(self._rows["visits"]))
        yield Change("visits", "d", self._next(), self._rows["visits"].pop(gone))
        # Twice the same row, as a table without a key may have it.
        row = {"page": f"page {rng.randrange(7)}", "seconds": self.number}
        for _ in range(1 if len(self._rows["visits"]) >= VISITS else 2):
            self._rows["visits"][max(self._rows["visits"]) + 1] = row
            yield Change("visits", "c", self._next(), after=row)

    def _ddl(self, table: str) -> Change:
        """One after the other: ADD, MODIFY to something wider, RENAME, DROP."""
        turn, number = divmod(self._shapes // 2, 6)[::-1]
        self._shapes += 1
        columns, rows = self.columns[table], self._rows[table]
        name, later = f"c{number}", f"r{number}"
        wide = WIDER if table == "prices" else tuple(f"VARCHAR({n})" for n in (20, 40, 80, 160))
        if turn == 0:
            columns[name] = wide[0]
            self._rows[table] = {key: {**row, name: None} for key, row in rows.items()}
            text = f"ADD `{name}` {wide[0]}"
        elif turn < 4:
            columns[name] = wide[turn]
            text = f"MODIFY `{name}` {wide[turn]}"
        elif turn == 4:
            self.columns[table] = {later if o == name else o: kind for o, kind in columns.items()}
            self._rows[table] = {
                key: {later if o == name else o: value for o, value in row.items()}
                for key, row in rows.items()
            }
            text = f"RENAME COLUMN `{name}` TO `{later}`"
        else:
            del columns[later]
            self._rows[table] = {
                key: {o: value for o, value in row.items() if o != later}
                for key, row in rows.items()
            }
            text = f"DROP COLUMN `{later}`"
        told = dict(self.columns[table])
        return Change(
            table, "ddl", self._next(), text=f"ALTER TABLE `d`.`{table}` {text}", columns=told
        )


def _order(key: int, number: int) -> Row:
    mixed = (key * 2_654_435_761 + number * 40_503) % 1_000_000_007
    return {"id": key, "amount": mixed, "note": f"order {key}, written by batch {number} ({mixed})"}
