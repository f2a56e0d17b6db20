"""Create and fill the sample shop."""

from __future__ import annotations

from collections.abc import Iterator

from pymysql.cursors import Cursor

from ingest.config.resources import resource

DATABASE = "shop"
TABLES = (
    "categories",
    "products",
    "customers",
    "addresses",
    "orders",
    "order_items",
    "payments",
    "visits",
)


def create(cursor: Cursor) -> None:
    """Drop what is there, create the eight tables, and seed them (some 30,000 rows)."""
    cursor.execute("DROP DATABASE IF EXISTS shop")
    for name in ("shop.sql", "seed.sql"):
        for statement in statements(resource("sql", "source", name).read_text(encoding="utf-8")):
            cursor.execute(statement)


def statements(script: str) -> Iterator[str]:
    """The statements of a script whose statements end with a semicolon at a line's end."""
    lines = [line for line in script.splitlines() if not line.lstrip().startswith("--")]
    for part in "\n".join(lines).split(";\n"):
        if part.strip():
            yield part.strip().rstrip(";")


def rows(cursor: Cursor) -> int:
    """Rows of all tables together."""
    counts = " + ".join(f"(SELECT COUNT(*) FROM shop.{table})" for table in TABLES)
    cursor.execute(f"SELECT {counts}")
    row = cursor.fetchone()
    return int(row[0]) if row else 0
