"""Revenue by region and minute, right under cancellations: orders joined with customers, as totals that each change of either table corrects."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from pymysql.cursors import Cursor

from ingest.job.run import Run
from ingest.lake.delta.spark_table import SparkTable
from ingest.recipes.stage import Stage, table
from ingest.testing.lake import pipeline_at

ROWS = """SELECT c.region, date_trunc('MINUTE', o.placed) AS minute, o.amount
FROM orders o JOIN customers c ON c.id = o.customer
WHERE o.status <> 'cancelled'"""
VALUES = {"orders": "count(*)", "revenue": "sum(amount)", "mean": "avg(amount)"}

FIRST = (
    "DROP DATABASE IF EXISTS recipe_shop",
    "CREATE DATABASE recipe_shop",
    "CREATE TABLE recipe_shop.customers (id INT PRIMARY KEY, region VARCHAR(20))",
    "CREATE TABLE recipe_shop.orders (id INT PRIMARY KEY, customer INT, placed DATETIME, status VARCHAR(20), amount DECIMAL(9,2))",
    "INSERT INTO recipe_shop.customers VALUES (1, 'north'), (2, 'north'), (3, 'south')",
    "INSERT INTO recipe_shop.orders VALUES (1, 1, '2026-01-01 12:00:05', 'paid', 10.00), (2, 2, '2026-01-01 12:00:40', 'new', 5.50)",
    "INSERT INTO recipe_shop.orders VALUES (3, 3, '2026-01-01 12:00:59', 'paid', 99.99), (4, 3, '2026-01-01 12:01:00', 'new', 0.01)",
)
THEN = (
    "UPDATE recipe_shop.orders SET status = 'cancelled' WHERE id = 3",
    "UPDATE recipe_shop.customers SET region = 'south' WHERE id = 2",
    "UPDATE recipe_shop.orders SET amount = 12.34 WHERE id = 1",
    "DELETE FROM recipe_shop.orders WHERE id = 4",
    "INSERT INTO recipe_shop.orders VALUES (5, 2, '2026-01-01 12:01:30', 'new', 20.00)",
)
SAME = """SELECT c.region, DATE_FORMAT(o.placed, '%Y-%m-%d %H:%i:00'), COUNT(*), SUM(o.amount), AVG(o.amount)
FROM recipe_shop.orders o JOIN recipe_shop.customers c ON c.id = o.customer
WHERE o.status <> 'cancelled' GROUP BY 1, 2 ORDER BY 1, 2"""

Totals = list[tuple[Any, ...]]


def show(stage: Stage) -> list[bool]:
    """Returns whether the totals were those of MySQL's own SELECT: first, and behind the changes."""
    mysql, found = stage.stack.mysql(), []
    (stage.folder / "revenue.sql").write_text(ROWS, encoding="utf-8")
    logs = {name: {"change_log": f"recipe_shop.{name}"} for name in ("orders", "customers")}
    pipeline = pipeline_at(
        stage.folder / "lake",
        "recipe",
        **stage.chain("recipe_shop.*"),
        defaults={"targets": ["mirror", "change_log"]},
        flows={
            "revenue": {
                "sql": str(stage.folder / "revenue.sql"),
                "inputs": logs,
                "totals": {"by": ["region", "minute"], "values": VALUES},
                "sinks": [{"delta": "marts/revenue"}],
            }
        },
    )
    with closing(mysql.admin()) as connection, connection.cursor() as cursor:
        for title, statements in (("at first", FIRST), ("behind the changes", THEN)):
            for statement in statements:
                cursor.execute(statement)
                if statements is THEN:
                    stage.say(f"  {statement}")
            Run(pipeline, stage.folder / "spark.log", lambda _: None, lambda _: None).execute(
                once=True
            )
            held = _held(stage)
            found.append(held == _of_mysql(cursor))
            shown = table("region", "minute", *VALUES, title=title)
            for row in held:
                shown.add_row(*map(str, row))
            stage.say(shown)
            stage.say(
                "MySQL's own SELECT says the same" if found[-1] else "MySQL's own SELECT DIFFERS"
            )
    return found


def _held(stage: Stage) -> Totals:
    frame = SparkTable(stage.spark, str(stage.folder / "lake" / "marts" / "revenue")).frame()
    minute = "date_format(minute, 'yyyy-MM-dd HH:mm:ss') minute"
    rows = frame.selectExpr("region", minute, *VALUES).orderBy("region", "minute").collect()
    stage.end_spark()
    return [tuple(row) for row in rows]


def _of_mysql(cursor: Cursor) -> Totals:
    cursor.execute(SAME)
    return list(cursor.fetchall())
