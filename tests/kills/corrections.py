"""Totals and joins beside the same SQL on MySQL, over an order-entry workload with kills.

    python -m tests.kills.corrections --changes 200000 --kills 12

Four tables, changed row by row in transactions while `ingest run` mirrors them and keeps five totals: prices by quantity, revenue of a join of three tables, MIN and MAX of a join, DISTINCT
buyers, and a filtered sum. The run is killed (SIGKILL) again and again. After a last `run --once` each total has to be what MySQL's own SELECT says, and what `ingest flow audit` says.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import yaml
from deltalake import DeltaTable

from ingest.local.stack import Stack

DDL = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.customers (id INT PRIMARY KEY, region VARCHAR(20), credit DECIMAL(12,2))",
    "CREATE TABLE shop.items (id INT PRIMARY KEY, category VARCHAR(20) NOT NULL, price DECIMAL(9,2))",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY, customer INT, status VARCHAR(12) NOT NULL, carrier INT)",
    "CREATE TABLE shop.order_lines (id INT PRIMARY KEY, ordered INT NOT NULL, item INT NOT NULL, many INT, amount DECIMAL(12,2))",
)
TOTALS = {
    "pricing": (
        ["order_lines"],
        "SELECT many, amount FROM order_lines",
        ["many"],
        {"quantity": "sum(many)", "total": "sum(amount)", "mean": "avg(amount)", "told": "count(amount)", "n": "count(*)"},
        "SELECT many, SUM(many), SUM(amount), AVG(amount), COUNT(amount), COUNT(*) FROM shop.order_lines GROUP BY many",
    ),
    "revenue": (
        ["order_lines", "orders", "customers"],
        ("SELECT c.region, o.status, l.amount FROM order_lines l JOIN orders o ON o.id = l.ordered JOIN customers c ON c.id = o.customer "
        "WHERE o.status <> 'cancelled'"),
        ["region", "status"],
        {"revenue": "sum(amount)", "n": "count(*)"},
        ("SELECT c.region, o.status, SUM(l.amount), COUNT(*) FROM shop.order_lines l JOIN shop.orders o ON o.id = l.ordered "
        "JOIN shop.customers c ON c.id = o.customer WHERE o.status <> 'cancelled' GROUP BY 1, 2"),
    ),
    "extremes": (
        ["order_lines", "items"],
        "SELECT i.category, l.amount, l.many FROM order_lines l JOIN items i ON i.id = l.item",
        ["category"],
        {"least": "min(amount)", "most": "max(amount)", "quantity": "sum(many)"},
        "SELECT i.category, MIN(l.amount), MAX(l.amount), SUM(l.many) FROM shop.order_lines l JOIN shop.items i ON i.id = l.item GROUP BY 1",
    ),
    "buyers": (
        ["orders", "customers"],
        "SELECT o.carrier, c.region, o.customer FROM orders o JOIN customers c ON c.id = o.customer",
        ["carrier", "region"],
        {"buyers": "count(DISTINCT customer)"},
        "SELECT o.carrier, c.region, COUNT(DISTINCT o.customer) FROM shop.orders o JOIN shop.customers c ON c.id = o.customer GROUP BY 1, 2",
    ),
    "small": (
        ["order_lines"],
        "SELECT item % 20 AS bucket, amount FROM order_lines WHERE many BETWEEN 2 AND 5 AND amount > 10",
        ["bucket"],
        {"revenue": "sum(amount)"},
        "SELECT item % 20, SUM(amount) FROM shop.order_lines WHERE many BETWEEN 2 AND 5 AND amount > 10 GROUP BY 1",
    ),
}  # fmt: skip
"""By name: tables, rows, groups, values, and MySQL's own SELECT."""


def pipeline_file(stack: Stack, folder: Path) -> Path:
    """Of all of it."""
    mysql, flows = stack.mysql(), {}
    for name, (tables, rows, by, values, _) in TOTALS.items():
        (folder / f"{name}.sql").write_text(rows)
        flows[name] = {
            "sql": f"{name}.sql",
            "inputs": {table: {"change_log": f"shop.{table}"} for table in tables},
            "totals": {"by": by, "values": values},
            "sinks": [{"delta": f"marts/{name}"}],
            "trigger": "3 seconds",
        }
    said = {
        "name": "corrections",
        "source": {
            "mysql": f"mysql://ingest@127.0.0.1:{mysql.port}",
            "password": {"file": str(mysql.secret("ingest"))},
            "tables": ["shop.*"],
        },
        "kafka": {"bootstrap_servers": stack.kafka().bootstrap_servers},
        "connect": {"url": stack.connect().url},
        "lake": {"path": str(folder / "lake")},
        "defaults": {"targets": ["mirror", "change_log"]},
        "flows": flows,
    }
    file = folder / "corrections.yaml"
    file.write_text(yaml.safe_dump(said))
    return file


class Writer:
    """Changes of rows, some at once in a transaction."""

    def __init__(self, stack: Stack, rng: random.Random, changes: int) -> None:
        self.stack, self.rng, self.changes, self.done = stack, rng, changes, 0
        self.ids = {name: list[int]() for name in ("customers", "items", "orders", "order_lines")}
        self.next = 1

    def fill(self) -> None:
        with closing(self.stack.mysql().admin()) as connection, connection.cursor() as cursor:
            for statement in DDL:
                cursor.execute(statement)
            for name, many in (
                ("customers", 2000),
                ("items", 500),
                ("orders", 8000),
                ("order_lines", 30_000),
            ):
                rows = [self._row(name) for _ in range(many)]
                marks = ", ".join(["%s"] * len(rows[0]))
                cursor.executemany(f"INSERT INTO shop.{name} VALUES ({marks})", rows)

    def run(self, pause: float) -> None:
        with closing(self.stack.mysql().admin()) as connection, connection.cursor() as cursor:
            while self.done < self.changes:
                cursor.execute("BEGIN")
                for _ in range(self.rng.randrange(20, 200)):
                    self._change(cursor)
                cursor.execute("COMMIT")
                time.sleep(pause)

    def _amount(self) -> Decimal | None:
        return (
            None if self.rng.random() < 0.05 else Decimal(self.rng.randrange(-5_000, 100_000)) / 100
        )

    def _row(self, name: str) -> list[object]:
        rng, id_ = self.rng, self.next
        self.next += 1
        self.ids[name].append(id_)
        return [id_, *self._values(name, rng)]

    def _values(self, name: str, rng: random.Random) -> list[object]:
        if name == "customers":
            return [rng.choice(["north", "Süd", "east", None]), self._amount()]
        if name == "items":
            return [rng.choice(["a", "b", "ß"]), self._amount()]
        if name == "orders":
            customer = rng.choice(self.ids["customers"]) if rng.random() < 0.97 else None
            return [
                customer,
                rng.choice(["new", "paid", "sent", "cancelled"]),
                rng.choice([1, 2, 3, None]),
            ]
        many = rng.choice([None, *range(1, 9)])
        return [rng.choice(self.ids["orders"]), rng.choice(self.ids["items"]), many, self._amount()]

    def _change(self, cursor) -> None:
        rng = self.rng
        name = rng.choices(list(self.ids), [1, 1, 4, 10])[0]
        what = rng.choices(["insert", "update", "delete"], [3, 5, 2])[0]
        columns = {
            "customers": ["region", "credit"],
            "items": ["category", "price"],
            "orders": ["customer", "status", "carrier"],
            "order_lines": ["ordered", "item", "many", "amount"],
        }[name]
        if what == "insert" or len(self.ids[name]) < 100:
            row = self._row(name)
            cursor.execute(f"INSERT INTO shop.{name} VALUES ({', '.join(['%s'] * len(row))})", row)
        else:
            at = rng.randrange(len(self.ids[name]))
            id_ = self.ids[name][at]
            if what == "delete":
                self.ids[name][at] = self.ids[name][-1]
                self.ids[name].pop()
                cursor.execute(f"DELETE FROM shop.{name} WHERE id = %s", (id_,))
            else:
                said = ", ".join(f"{column} = %s" for column in columns)
                cursor.execute(
                    f"UPDATE shop.{name} SET {said} WHERE id = %s", [*self._values(name, rng), id_]
                )
        self.done += 1


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--changes", type=int, default=200_000)
    options.add_argument("--kills", type=int, default=12)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--lives", type=float, default=30, help="Seconds of a process on average.")
    asked = options.parse_args()
    rng, begun = random.Random(asked.seed), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stack = Stack.at(folder / "home")
        try:
            stack.up({})
            bad = lived(stack, folder, rng, asked.changes, asked.kills, asked.lives)
        finally:
            stack.down()
    print(f"{time.monotonic() - begun:.0f} s; {'DIFFERENT: ' + ', '.join(bad) if bad else 'EQUAL'}")
    sys.exit(bool(bad))


def lived(
    stack: Stack, folder: Path, rng: random.Random, changes: int, kills: int, lives: float
) -> list[str]:
    file = pipeline_file(stack, folder)
    env = {**os.environ, "INGEST_HOME": str(stack.home)}
    writer = Writer(stack, random.Random(rng.random()), changes)
    writer.fill()
    ingest = [sys.executable, "-m", "ingest"]
    subprocess.run(
        [*ingest, "run", str(file), "--once"], env=env, cwd=folder, check=True, capture_output=True
    )
    writing = threading.Thread(target=writer.run, args=(0.02,))
    writing.start()
    for number in range(kills):
        with (folder / f"run-{number}.err").open("w") as errors:
            process = subprocess.Popen(
                [*ingest, "run", str(file)], env=env, cwd=folder, stdout=errors, stderr=errors
            )
            time.sleep(rng.uniform(0.5, 1.5) * lives)
            if process.poll() is not None:
                raise RuntimeError((folder / f"run-{number}.err").read_text()[-3000:])
            process.kill()
            process.wait()
        said = json.loads(
            subprocess.run(
                [*ingest, "flow", "list", str(file), "--json"],
                env=env,
                cwd=folder,
                check=True,
                capture_output=True,
            ).stdout
        )
        batches = {name: one["batch"] for name, one in said.items() if one}
        print(f"{number + 1}: killed; {writer.done:,} changes; batches {batches}", flush=True)
    writing.join()
    done = subprocess.run(
        [*ingest, "run", str(file), "--once"], env=env, cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])
    computed = [
        line
        for path in folder.glob("run-*.err")
        for line in path.read_text().splitlines()
        if "computed from the tables" in line
    ]
    print(f"computed whole behind the first batch: {len(computed)} {computed[:2]}")
    return compared(stack, folder, file, env)


def compared(stack: Stack, folder: Path, file: Path, env: dict[str, str]) -> list[str]:
    bad = []
    with closing(stack.mysql().admin()) as connection, connection.cursor() as cursor:
        for name, (_, _, by, values, asked) in TOTALS.items():
            cursor.execute(asked)
            wanted = sorted(map(plain, cursor.fetchall()))
            rows = DeltaTable(folder / "lake" / "marts" / name).to_pyarrow_table().to_pylist()
            found = sorted(plain([row[column] for column in (*by, *values)]) for row in rows)
            audited = subprocess.run(
                [sys.executable, "-m", "ingest", "flow", "audit", str(file), name],
                env=env,
                cwd=folder,
                capture_output=True,
                text=True,
            )
            print(
                f"{name}: {len(found)} groups, {'equal' if found == wanted else 'NOT EQUAL'}; audit: {audited.stdout.strip()[-200:]}",
                flush=True,
            )
            if found != wanted or audited.returncode:
                bad.append(name)
    return bad


def plain(row) -> tuple[str, ...]:
    """For a comparison: numbers as they are, whatever their type is."""
    return tuple(
        "" if one is None else str(one) if isinstance(one, str) else f"{Decimal(one).normalize():f}"
        for one in row
    )


if __name__ == "__main__":
    main()
