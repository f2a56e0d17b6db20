"""Realistic mixed transactions on the sample shop: seeded, rate-limited, in one connection."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pymysql
from pymysql.cursors import Cursor

from ingest.sample import values

_IN_EACH_OTHER_S_WAY = (1205, 1213)
"""A lock that was not had in time, a deadlock: MySQL gives up one of two transactions, and the other goes on."""


@dataclass
class Traffic:
    """Runs transactions until told to stop. The same seed draws the same transactions."""

    connect: Callable[[], pymysql.connections.Connection[Cursor]]
    seed: int = 7
    per_second: float = 100.0
    done: Counter[str] = field(default_factory=Counter)

    def run(self, stop: threading.Event, limit: int | None = None) -> None:
        """Until ``stop`` is set, or ``limit`` transactions are done."""
        rng = random.Random(self.seed)
        kinds, weights = zip(*_KINDS.items(), strict=True)
        connection = self.connect()
        started = time.monotonic()
        count = 0
        try:
            with connection.cursor() as cursor:
                while not stop.is_set() and (limit is None or count < limit):
                    kind = rng.choices(kinds, weights)[0]
                    connection.begin()
                    try:
                        kept = kind(cursor, rng)
                    except pymysql.err.OperationalError as failure:
                        if failure.args[0] not in _IN_EACH_OTHER_S_WAY:
                            raise
                        connection.rollback()
                        continue
                    connection.commit() if kept else connection.rollback()
                    self.done[kind.__name__] += 1
                    count += 1
                    ahead = started + count / self.per_second - time.monotonic()
                    if ahead > 0:
                        stop.wait(ahead)
        finally:
            connection.close()

    @property
    def transactions(self) -> int:
        """How many have been done so far."""
        return sum(self.done.values())


def place_order(cursor: Cursor, rng: random.Random) -> bool:
    """An order with items and payment; stock goes down."""
    items = rng.sample(range(1, 801), rng.randint(1, 4))
    cursor.execute(
        "INSERT INTO shop.orders (customer_id, total, note, placed_at) VALUES (%s, %s, %s, %s)",
        (
            _customer(rng),
            _money(rng),
            _note(rng),
            _moment(rng),
        ),
    )
    order = cursor.lastrowid
    for line, product in enumerate(items, 1):
        cursor.execute(
            "INSERT INTO shop.order_items VALUES (%s, %s, %s, %s, %s)",
            (order, line, product, rng.randint(1, 9), _money(rng)),
        )
    cursor.execute(
        f"UPDATE shop.products SET stock = stock - 1 WHERE id IN ({', '.join(map(str, items))})"
    )
    if rng.random() < 0.7:
        cursor.execute(
            "INSERT INTO shop.payments VALUES (%s, 'card', %s, JSON_OBJECT('t', %s, 'memo', %s), %s)",
            (order, _money(rng), rng.randint(1, 10**9), _note(rng), _moment(rng)),
        )
        cursor.execute("UPDATE shop.orders SET status = 'paid' WHERE id = %s", (order,))
    return True


def ship_orders(cursor: Cursor, rng: random.Random) -> bool:
    """A statement that changes several rows."""
    cursor.execute(
        "UPDATE shop.orders SET status = 'shipped', shipped_at = '2026-01-01 10:00:00' "
        "WHERE status = 'paid' ORDER BY id DESC LIMIT %s",
        (rng.randint(1, 5),),
    )
    return True


def cancel_order(cursor: Cursor, rng: random.Random) -> bool:
    """Deletes in three tables."""
    cursor.execute("SELECT id FROM shop.orders ORDER BY id DESC LIMIT %s, 1", (rng.randint(0, 50),))
    row = cursor.fetchone()
    if row:
        for table, column in (
            ("payments", "order_id"),
            ("order_items", "order_id"),
            ("orders", "id"),
        ):
            cursor.execute(f"DELETE FROM shop.{table} WHERE {column} = %s", (row[0],))
    return True


def edit_customer(cursor: Cursor, rng: random.Random) -> bool:
    """Updates of one row, NULLs and enums included."""
    cursor.execute(
        "UPDATE shop.customers SET full_name = %s, born = %s, tier = %s, credit = %s, newsletter = %s, "
        "active = %s WHERE id = %s",
        (
            rng.choice(_NAMES),
            rng.choice([None, "1982-02-28", values.drawn(rng, "DATE").lake]),
            rng.choice(["basic", "plus", "gold"]),
            rng.choice([None, _money(rng)]),
            rng.choice([0, 1, 2, 127]),
            rng.randint(0, 1),
            _customer(rng),
        ),
    )
    return True


def move_house(cursor: Cursor, rng: random.Random) -> bool:
    """INSERT … ON DUPLICATE KEY UPDATE, or REPLACE, on a composite key."""
    values = (
        _customer(rng),
        rng.choice(["billing", "shipping"]),
        f"{rng.randint(1, 99)} Quay",
        rng.choice(_CITIES),
    )
    if rng.random() < 0.5:
        cursor.execute("REPLACE INTO shop.addresses VALUES (%s, %s, %s, %s)", values)
    else:
        cursor.execute(
            "INSERT INTO shop.addresses VALUES (%s, %s, %s, %s) "
            "ON DUPLICATE KEY UPDATE street = VALUES(street), city = VALUES(city)",
            values,
        )
    return True


def renumber_items(cursor: Cursor, rng: random.Random) -> bool:
    """A primary-key change: a chain of them when an order has several lines."""
    cursor.execute("SELECT MAX(id) FROM shop.orders")
    row = cursor.fetchone()
    order = rng.randint(1, int(row[0])) if row else 1
    cursor.execute(
        "UPDATE shop.order_items SET line = line + 1 WHERE order_id = %s ORDER BY line DESC",
        (order,),
    )
    return True


def visit(cursor: Cursor, rng: random.Random) -> bool:
    """Identical rows into a table without a key, and one of several copies out of it."""
    row = (f"/p/{rng.randint(0, 9)}", None, rng.randint(0, 2))
    cursor.executemany("INSERT INTO shop.visits VALUES (%s, %s, %s)", [row] * rng.randint(1, 3))
    if rng.random() < 0.5:
        cursor.execute("DELETE FROM shop.visits WHERE page = %s LIMIT 1", (row[0],))
    if rng.random() < 0.2:
        cursor.execute(
            "UPDATE shop.visits SET seconds = seconds + 1 WHERE page = %s LIMIT 2", (row[0],)
        )
    return True


def delete_and_return(cursor: Cursor, rng: random.Random) -> bool:
    """The same key deleted and inserted again within one transaction."""
    customer = _customer(rng)
    cursor.execute("DELETE FROM shop.addresses WHERE customer_id = %s", (customer,))
    cursor.execute(
        "INSERT INTO shop.addresses VALUES (%s, 'billing', 'back again', 'Linz')", (customer,)
    )
    return True


def change_mind(cursor: Cursor, rng: random.Random) -> bool:
    """Rolled back: must leave no trace."""
    cursor.execute("UPDATE shop.products SET price = 0 WHERE id = %s", (rng.randint(1, 800),))
    return False


_KINDS: dict[Callable[[Cursor, random.Random], bool], float] = {
    place_order: 30,
    ship_orders: 10,
    cancel_order: 6,
    edit_customer: 20,
    move_house: 10,
    renumber_items: 5,
    visit: 12,
    delete_and_return: 4,
    change_mind: 3,
}


_NAMES = (
    "Ada Lovelace",
    "Zoë 🌻",
    "𠮷田 花子",
    "Nguyễn Thị Hương",
    "Nguye\u0302\u0303n",  # combining marks: the same to the eye, and no other's bytes
    "O'Neil \\ Søn",
    "👩‍🚀 Sally",
    "\u202bמרים\u202c",
)
_CITIES = ("Graz", "𠮷野町", "São Paulo", "Kraków", "Las Vegas ✨")
_NOTES = (
    None,
    "gift 🎁",
    'say "hi", please',
    "leave at the door\u2028ring twice",
    "first line\nsecond line\r\nthird",
    "100% fragile \\o/",
    "𠮷野家 next door",
    "null",
)


def _note(rng: random.Random) -> str | None:
    """What people write; now and then what only a program would."""
    if rng.random() < 0.1:
        odd: str = values.drawn(rng, "TEXT").lake
        return odd
    return rng.choice(_NOTES)


def _customer(rng: random.Random) -> int:
    return rng.randint(1, 4000)


def _money(rng: random.Random) -> str:
    return f"{rng.randint(1, 99999) / 100:.2f}"


def _moment(rng: random.Random) -> str:
    return (
        f"2026-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d} 12:00:00.{rng.randint(0, 999):03d}"
    )
