"""A backlog in Kafka, written by real MySQL through real Debezium, drained into an empty lake.

    .venv/bin/python -m bench.drains [--tables 4] [--rows 50000] [--transactions 100000] [--each 1]
                                     [--limit 40000] [--rounds 5] [--only ingest ingest_tasks ingest_logs stock lean]
                                     [--once stock-limited] [--ddl]

``--rows`` of each table come by the snapshot, then so many single-row changes (20 inserts, 60 updates, 20
deletes in a hundred) of all tables together, ``--each`` in a transaction. With ``--ddl`` each table gets a column in the middle of them, which
the hand-written job does not know. Contestants are processes of their
own, interleaved; each drains into an empty lake (with ``--in-store`` on an S3 server of this machine), with Spark's start-up and everything cold, in one batch and,
where a name ends in ``-limited``, in batches of ``--limit`` messages. CPU is that of the contestant's
processes; MySQL, Kafka and Connect stand by. Every lake is compared with MySQL, value by value.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from deltalake import DeltaTable

from bench import result_file
from bench.spent import Spent, by_command, medians
from bench.stacks import ROOT_IN_STORE, fresh_stack, lent_store
from bench.workload import COLUMNS, MYSQL_TABLE, At, rows_in_order
from ingest.job.first_pipeline_file import First, write
from ingest.local.mysql import PIPELINE
from ingest.local.stack import Stack
from tests.support.s3 import S3

HERE = Path(__file__).parents[1]
WRITERS = 4
WHOLE = 1_000_000_000
"""Changes, and megabytes, of one batch that takes all there is."""
WAYS: dict[str, dict[str, Any]] = {
    "ingest": {},
    "ingest_driver": {"lane": "driver"},
    "ingest_tasks": {"lane": "spark"},
    "ingest_spark": {"lane": "spark", "merge_engine": "spark"},
}
"""Of ours, and what the pipeline file says below ``spark`` for each."""
LOGGED = "_logs"
"""Ends the name of one of ours whose tables have change logs."""
WAYS |= {f"{name}{LOGGED}": way for name, way in WAYS.items()}
CONTESTANTS = tuple(
    f"{one}{limited}" for one in (*WAYS, "stock", "lean") for limited in ("", "-limited")
)
USUAL = [one for one in CONTESTANTS if "_" not in one]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument(
        "--transactions", type=int, default=100_000, help="changes after the snapshot"
    )
    parser.add_argument("--each", type=int, default=1, help="changes in a transaction")
    parser.add_argument("--limit", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=USUAL, choices=CONTESTANTS)
    parser.add_argument(
        "--once", nargs="*", default=[], choices=CONTESTANTS, help="these in the first round alone"
    )
    parser.add_argument(
        "--ddl", action="store_true", help="a column for each table in the middle of the changes"
    )
    parser.add_argument(
        "--in-store", action="store_true", help="the lakes are on an S3 server of this machine"
    )
    result_file.asks_for_json(parser)
    given = parser.parse_args()
    if given.in_store and {name for name in given.only if "lean" in name or LOGGED in name}:
        parser.error("--in-store has lakes of mirrors alone, and nobody of those without guards")
    with fresh_stack("drains") as (stack, folder), ExitStack() as more:
        store = more.enter_context(lent_store()) if given.in_store else None
        measure(stack, folder, given, store)


def measure(stack: Stack, folder: Path, given: argparse.Namespace, store: S3 | None = None) -> None:
    """Fill, drain, compare, print. ``store``: where the lakes are, if not in the folder."""
    tables = [f"t{index:03d}" for index in range(given.tables)]
    fill(stack, tables, given.rows)
    first = folder / "first"
    print("filling Kafka: the snapshot …", flush=True)
    drain(stack, first, "ingest", tables, 0)
    print("filling Kafka: the changes …", flush=True)
    columns: tuple[str, ...] = COLUMNS
    if given.ddl:
        half = given.transactions // 2
        change(stack, tables, given.rows, half, given.each)
        add_column(stack, tables)
        columns = (*COLUMNS, ADDED)
        change(stack, tables, given.rows, half, given.each, after=half)
    else:
        change(stack, tables, given.rows, given.transactions, given.each)
    drain(stack, first, "ingest", tables, 0)
    wanted = {table: source_rows(stack, table, columns) for table in tables}
    refuse_different(first, wanted, columns)
    shutil.rmtree(first)
    messages = given.rows * given.tables + given.transactions
    found: dict[str, list[Spent]] = {who: [] for who in given.only}
    for number in range(given.rounds):
        turn = number % len(given.only)
        for who in given.only[turn:] + given.only[:turn]:
            if number and who in given.once:
                continue
            at = folder / who
            lake: At = f"{ROOT_IN_STORE}/{who}{number}" if store else at
            limit = given.limit if "-" in who else 0
            spent = drain(stack, at, who, tables, limit, lake=lake, store=store)
            refuse_different(lake, wanted, columns)
            if LOGGED in who:
                refuse_other_count(at, tables, messages)
            shutil.rmtree(at)
            found[who].append(spent)
            print(f"round {number}: {_line(who, spent, messages)}", flush=True)
    typical = dict[str, Spent]()
    for who, several in found.items():
        wall, cpu, memory = medians(map(_fields, several))
        typical[who] = Spent(wall, cpu, int(memory))
    print(
        f"\nabout {messages:,} changes of {given.tables} tables, every lake equal; medians of "
        f"{given.rounds}" + "".join(f", {who} once" for who in given.once)
    )
    for who, spent in typical.items():
        base = typical.get("stock-limited" if "-" in who else "stock", spent)
        ratios = f"{spent.wall / base.wall:.3f} x stock in time, {spent.cpu / base.cpu:.3f} in CPU"
        print(f"{_line(who, spent, messages)}  {ratios}")
    took = {who: [_fields(one) for one in spent] for who, spent in found.items()}
    result_file.write(given, "drains", took=took)


def refuse_other_count(lake: Path, tables: list[str], messages: int) -> None:
    """Raise where the change logs of a lake do not have as many changes as Kafka has."""
    logs = [DeltaTable(lake / "d" / f"{table}__changes") for table in tables]
    rows = sum(int(one.count()) for one in logs)
    if rows != messages:
        raise AssertionError(f"{rows:,} rows in the change logs, and {messages:,} changes")


def _fields(spent: Spent) -> tuple[Any, ...]:
    return spent.wall, spent.cpu, spent.memory


def _line(who: str, spent: Spent, messages: int) -> str:
    per_million = spent.cpu / messages * 1e6
    return (
        f"{who:<15} {spent.wall:7.1f} s  cpu {spent.cpu:7.1f} s = {per_million:6.0f} s per million  "
        f"{spent.memory / 1e6:6.0f} MB"
    )


def drain(
    stack: Stack,
    at: Path,
    who: str,
    tables: list[str],
    limit: int,
    code: Path | None = None,
    *,
    sync: bool = True,
    lake: At | None = None,
    store: S3 | None = None,
) -> Spent:
    """One contestant's process from its start to its end. ``code``: another checkout, to run its code; ``sync``: ours
    makes each batch outlast a power cut; ``lake``: not in the folder ``at``, but there, in a ``store``.
    """
    lake = lake or at
    at.mkdir(parents=True, exist_ok=True)
    environment = {"INGEST_HOME": str(stack.home)}
    if who.startswith("ingest"):
        file = at / "b.yaml"
        way = WAYS[who.removesuffix("-limited")]
        logs = who.removesuffix("-limited").endswith(LOGGED)
        pipeline(
            stack, file, lake, limit or WHOLE, code=code, sync=sync, logs=logs, store=store, **way
        )
        command = ["-m", "ingest", "run", str(file), "--once", "--log", str(at / "spark.log")]
    else:
        contestant = who.removesuffix("-limited")
        servers = stack.kafka().bootstrap_servers
        command = [
            "-m",
            "bench.streams",
            contestant,
            servers,
            str(lake),
            str(at / "spark.log"),
            str(limit),
            *tables,
        ]
    return by_command([sys.executable, *command], at, environment, code)


def pipeline(
    stack: Stack,
    file: Path,
    lake: At,
    limit: int | None,
    *,
    code: Path | None = None,
    sync: bool = True,
    logs: bool = False,
    store: S3 | None = None,
    **spark: Any,
) -> None:
    """What a user's file says, but for the size of a batch, what outlasts a power cut, ``logs`` (each table has a change log), and more of
    ``spark``. ``code``: a checkout that may be older than some settings; ``store``: the lake is there.
    """
    mysql, kafka, connect = stack.mysql(), stack.kafka(), stack.connect()
    source = f"mysql://{PIPELINE}@127.0.0.1:{mysql.port}"
    secret = mysql.secret(PIPELINE)
    servers = kafka.bootstrap_servers
    first = First(source, secret, ("d.*",), "b", servers, connect.url, str(lake))
    write(first, file, stack.home, force=True)
    content = yaml.safe_load(file.read_text())
    content["spark"] = {**({"max_changes_per_batch": limit} if limit else {}), **spark}
    settings = ((code or HERE) / "ingest" / "config").glob("*.py")
    knows = "".join(one.read_text() for one in settings)
    if limit == WHOLE and "max_megabytes_per_batch" in knows:
        content["spark"]["max_megabytes_per_batch"] = WHOLE
    if logs:
        content["defaults"] = {"targets": ["mirror", "change_log"]}
    if store:
        content["lake"]["storage"] = store.storage()
    if not sync and "sync: bool" in knows:
        content["lake"]["sync"] = False
    file.write_text(yaml.safe_dump(content))


def fill(stack: Stack, tables: list[str], rows: int) -> None:
    """The tables as the snapshot finds them."""
    with closing(stack.mysql().admin()) as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL sync_binlog = 0")
        cursor.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
        cursor.execute("CREATE DATABASE d")
        cursor.execute(f"SET SESSION cte_max_recursion_depth = {rows + 1}")
        for table in tables:
            cursor.execute(f"CREATE TABLE d.{table} ({MYSQL_TABLE})")
            cursor.execute(
                f"INSERT INTO d.{table} WITH RECURSIVE n(i) AS "
                f"(SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {rows - 1}) "
                "SELECT i, i % 1000, i / 8, 'new', CONCAT('note of ', i), 0 FROM n"
            )
            connection.commit()


ADDED = "more"


def add_column(stack: Stack, tables: list[str]) -> None:
    """:data:`ADDED` to each table."""
    with closing(stack.mysql().admin()) as connection, connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"ALTER TABLE d.{table} ADD COLUMN {ADDED} INT NOT NULL DEFAULT 7")


def change(
    stack: Stack, tables: list[str], rows: int, count: int, each: int, *, after: int = 0
) -> None:
    """``count`` changes of all tables together, by several connections; ``after`` so many of before."""

    def write_(writer: int) -> None:
        mine = tables[writer::WRITERS]
        if not mine:
            return
        statements = _statements(mine, rows, count * len(mine) // len(tables), writer, after)
        with closing(stack.mysql().admin()) as connection, connection.cursor() as cursor:
            while together := list(islice(statements, each)):
                if each > 1:
                    connection.begin()
                for statement in together:
                    cursor.execute(statement)
                connection.commit()

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write_, range(WRITERS)))


def change_ranges(stack: Stack, tables: list[str], rows: int, count: int, each: int) -> None:
    """``count`` updates of all tables together, by statements and transactions of ``each`` neighbours: tens of times as many a
    second as :func:`change` writes.
    """
    with closing(stack.mysql().admin()) as connection, connection.cursor() as cursor:
        for done in range(0, count, each):
            number = done // each
            table, first = tables[number % len(tables)], number // len(tables) * each % rows
            cursor.execute(
                f"UPDATE d.{table} SET amount = RAND(), note = CONCAT('n', RAND()), changed = {number + 1} "
                f"WHERE id >= {first} AND id < {first + each}"
            )
            connection.commit()


def _statements(tables: list[str], rows: int, count: int, writer: int, after: int) -> Iterator[str]:
    rng, born = random.Random(f"drains {writer} {after}"), rows + after
    names = ", ".join(COLUMNS)
    for number in range(count):
        table, kind, key = rng.choice(tables), rng.random(), rng.randrange(rows)
        if kind < 0.2:
            born += 1
            yield (
                f"INSERT INTO d.{table} ({names}) VALUES ({born}, {key % 1000}, {rng.random()!r}, 'new', "
                f"'note {rng.random()}', {number})"
            )
        elif kind < 0.8:
            yield (
                f"UPDATE d.{table} SET amount = {rng.random()!r}, note = 'n{rng.random()}', "
                f"changed = {number + 1} WHERE id = {key}"
            )
        else:
            yield f"DELETE FROM d.{table} WHERE id = {key}"
            if rng.random() < 0.1:
                back = f"{key}, 0, 0.5, 'back', NULL, {number}"
                yield f"INSERT INTO d.{table} ({names}) VALUES ({back})"


def source_rows(
    stack: Stack, table: str, names: tuple[str, ...] = COLUMNS
) -> list[tuple[Any, ...]]:
    """MySQL's rows in key order."""
    with closing(stack.mysql().admin()) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(names)} FROM d.{table} ORDER BY id")
        return list(cursor.fetchall())


def refuse_different(
    lake: At, wanted: dict[str, list[tuple[Any, ...]]], names: tuple[str, ...] = COLUMNS
) -> None:
    """End when a lake does not hold what MySQL does."""
    for table, rows in wanted.items():
        columns = rows_in_order(f"{lake}/d/{table}", names).to_pydict()
        if list(zip(*(columns[name] for name in names), strict=True)) != rows:
            sys.exit(f"{lake}: {table} is not what MySQL says")


if __name__ == "__main__":
    main()
