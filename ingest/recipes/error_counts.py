"""Errors counted by the minute into MySQL: lines of a log from Kafka, four ways to write a batch, the same kill between MySQL's commit and Spark's, four counts.

Two of the ways are flows: `transactional` writes a batch's counts and its place in Kafka in one transaction; `idempotent` writes the counts by their minute, so that the
same again changes nothing. Two are what one writes by hand: adding to what is there, with nothing noted (at least once), or noted before it is added (at most once). A third flow
takes each error line by itself: it is map-only, without a shuffle and without state, beside the others, which group.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pymysql.cursors import Cursor
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.config.pipeline_file import Pipeline
from ingest.flows import mysql_server
from ingest.flows.flow_runs import FlowRun
from ingest.job import spark_session
from ingest.lake.delta.commit import sibling
from ingest.lake.delta.spark_table import SparkTable
from ingest.local.mysql import write_secret
from ingest.recipes.killed_job import run_until_killed
from ingest.recipes.stage import Stage, empty_topic, table
from ingest.testing.lake import pipeline_at

LINES, AT_ONCE, KILLED_IN = 6_000, 1_000, 3
"""So many lines, so many in a batch; the batch in the middle of which the kill comes, from 0."""

BEGIN = datetime(2017, 7, 30, 14, 9, 8, tzinfo=timezone.utc)
LEVELS = ("INFO", "ERROR", "WARN", "INFO")

TABLES = {
    "transactional": "error_log",
    "idempotent": "error_log_by_key",
    "at least once": "error_log_added",
    "at most once": "error_log_noted",
}
"""By way, its table: `log_time`, `log_count`."""

COUNTS = """SELECT window.start AS log_time, count(*) AS log_count FROM lines
WHERE split(value, ' ')[2] = 'ERROR' GROUP BY window(event_time, '1 minute')"""
EACH = """SELECT event_time AS log_time, substring(value, 27) AS message FROM lines WHERE split(value, ' ')[2] = 'ERROR'"""


def line(number: int) -> tuple[datetime, str]:
    """One of the log: its minute, and its text. Some ten a second, of which each fourth is an error."""
    moment = BEGIN + timedelta(seconds=number // 10)
    text = f"{moment:%Y-%m-%d %H:%M:%S} {LEVELS[number % 4]} some message {number}"
    return moment.replace(second=0), text


def wanted(lines: int) -> dict[datetime, int]:
    """By minute: errors, plainly counted."""
    found = dict[datetime, int]()
    for number in range(lines):
        minute, text = line(number)
        if text.split(" ")[2] == "ERROR":
            found[minute] = found.get(minute, 0) + 1
    return found


def send(broker: str, topic: str, lines: int) -> None:
    """All lines, to a topic of one partition, so that they stay in order."""
    empty_topic(broker, topic)
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 50})
    for number in range(lines):
        producer.produce(topic, value=line(number)[1])
        if number % 10_000 == 0:
            producer.poll(0.1)
    producer.flush(60)


def tables(stage: Stage, database: str) -> dict[str, Any]:
    """Empty ones, in a database of the recipe's own, and a user for it. Returns the connection, as a pipeline file has it."""
    mysql, secret = stage.stack.mysql(), stage.folder / "mysql_password"
    write_secret(secret, secrets.token_urlsafe(24))
    user = f"'{database}'@'127.0.0.1'"
    with closing(mysql.admin()) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {database}")
        cursor.execute(f"CREATE DATABASE {database}")
        cursor.execute(f"DROP USER IF EXISTS {user}")
        cursor.execute(
            f"CREATE USER {user} IDENTIFIED BY %s", (secret.read_text(encoding="utf-8"),)
        )
        cursor.execute(f"GRANT ALL ON {database}.* TO {user}")
        for name in TABLES.values():
            cursor.execute(
                f"CREATE TABLE {database}.{name} (log_time DATETIME(6) PRIMARY KEY, log_count BIGINT NOT NULL)"
            )
    url = f"mysql://{database}@127.0.0.1:{mysql.port}/{database}"
    return {"url": url, "password": {"file": str(secret)}}


def counting(folder: Path, topic: str, at_once: int) -> dict[str, Any]:
    """A flow that counts errors by the minute, but for its sinks. ``at_once``: lines of a batch."""
    lines = {
        "kafka": topic,
        "event_time": "to_timestamp(substring(value, 1, 19))",
        "watermark": "10 minutes",
        "at_once": at_once,
    }
    return {"sql": str(folder / "counts.sql"), "inputs": {"lines": lines}, "mode": "update"}


def pipeline(
    folder: Path, broker: str, topic: str, results: Mapping[str, Any], at_once: int, **more: Any
) -> Pipeline:
    """With the flows. ``more``: sections of the pipeline file, of flows and connections beside these."""
    for name, text in (("counts", COUNTS), ("each", EACH)):
        (folder / f"{name}.sql").write_text(text, encoding="utf-8")
    counts = counting(folder, topic, at_once)
    sink = {"connection": "results", "keys": ["log_time"]}
    flows: dict[str, Any] = {
        way: {**counts, "sinks": [{**sink, "mysql": TABLES[way], "writes": way}]}
        for way in ("transactional", "idempotent")
    }
    each = {
        "sql": str(folder / "each.sql"),
        "inputs": counts["inputs"],
        "sinks": [{"delta": "errors"}],
    }
    return pipeline_at(
        folder / "lake",
        "recipe",
        kafka={"bootstrap_servers": broker},
        connections={"results": results, **more.get("connections", {})},
        flows={**flows, "each": each, **more.get("flows", {})},
        spark={"conf": {"spark.sql.shuffle.partitions": "1"}},
    )


# What one writes by hand. Both add to what is there.


class ByHand:
    """Two queries of `foreachBatch`. ``half_way``: called between the two halves of a batch with its number."""

    def __init__(self, folder: Path, given: Pipeline, half_way: Callable[[str, int], None]) -> None:
        self.folder, self.pipeline, self.half_way = folder, given, half_way

    def start(self, session: SparkSession, at_once: int) -> list[Any]:
        """Both, up to the topic's end."""
        flow = self.pipeline.flows["idempotent"].inputs["lines"]
        servers = self.pipeline.kafka.bootstrap_servers
        reader = session.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
        reader = reader.option("subscribe", flow.kafka or "").option("startingOffsets", "earliest")
        rows = reader.option("maxOffsetsPerTrigger", at_once).load()
        lines = rows.select(F.col("value").cast("string").alias("value")).where(
            "split(value, ' ')[2] = 'ERROR'"
        )
        minutes = lines.select(
            F.date_trunc("minute", F.expr("to_timestamp(substring(value, 1, 19))")).alias("at")
        )
        queries = []
        for way, write in (
            ("at least once", self.at_least_once),
            ("at most once", self.at_most_once),
        ):
            place = str(self.folder / way.replace(" ", "-"))
            writer = minutes.writeStream.foreachBatch(write).trigger(availableNow=True)
            queries.append(writer.option("checkpointLocation", place).start())
        return queries

    def at_least_once(self, rows: DataFrame, number: int) -> None:
        """Add, and note nothing."""
        self._add(rows, TABLES["at least once"])
        self.half_way("at least once", number)

    def at_most_once(self, rows: DataFrame, number: int) -> None:
        """Note it, then add."""
        noted = self.folder / f"noted-{number}"
        if noted.exists():
            return
        noted.touch()
        self.half_way("at most once", number)
        self._add(rows, TABLES["at most once"])

    def _add(self, rows: DataFrame, name: str) -> None:
        counted = [
            (row["at"].isoformat(), row["count"]) for row in rows.groupBy("at").count().collect()
        ]
        with connected(self.pipeline) as cursor:
            cursor.executemany(
                f"INSERT INTO {name} VALUES (%s, %s) ON DUPLICATE KEY UPDATE log_count = log_count + VALUES(log_count)",
                counted,
            )


def connected(given: Pipeline) -> AbstractContextManager[Cursor]:
    """A transaction on the results."""
    return mysql_server.transaction(given.connections["results"].server("results"))


def counts(given: Pipeline) -> dict[str, dict[datetime, int]]:
    """By way, what its table holds."""
    found = {}
    with connected(given) as cursor:
        for way, name in TABLES.items():
            cursor.execute(f"SELECT log_time, log_count FROM {name}")
            found[way] = {at.replace(tzinfo=timezone.utc): many for at, many in cursor.fetchall()}
    return found


def job(
    session: SparkSession,
    folder: Path,
    given: Pipeline,
    at_once: int,
    half_way: Callable[[str, int], None],
) -> None:
    """All of it, up to the end of the topic. Raises the first failure as it comes: the others may wait for what does not come any more."""
    say: Callable[[str], None] = lambda _: None  # noqa: E731 (nothing is to be said)
    runs = [FlowRun(session, given, name, say, threading.Event()) for name in given.flows]
    failures: list[BaseException] = []

    def once(run: FlowRun) -> None:
        try:
            run.once()
        except Exception as failure:  # noqa: BLE001 (raised again below, by the thread that waits)
            failures.append(failure)

    threads = [threading.Thread(target=once, args=(run,), daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    queries = ByHand(folder, given, half_way).start(sibling(session), at_once)
    while any(query.isActive for query in queries) or any(one.is_alive() for one in threads):
        time.sleep(0.2)
        if failures or any(query.exception() for query in queries):
            break
    failures += [ended for query in queries if (ended := query.exception())]
    if failures:
        raise failures[0]


def show(stage: Stage) -> dict[str, int]:
    """Returns by way how many errors it has counted in the end."""
    topic = "recipe-error-lines"
    results = tables(stage, "recipe_errors")
    send(stage.broker, topic, LINES)
    facts = {"broker": stage.broker, "topic": topic, "results": results}
    (stage.folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    plain = wanted(LINES)
    stage.say(
        f"{LINES:,} lines in Kafka, {sum(plain.values()):,} of them errors, in {len(plain)} minutes; {AT_ONCE:,} lines are a batch"
    )
    run_until_killed(stage, "ingest.recipes.error_counts")
    stage.say(
        f"killed in batch {KILLED_IN}, behind MySQL's commits and before Spark's; another process goes on from the same checkpoints"
    )
    given = _given(stage.folder)
    job(stage.spark, stage.folder, given, AT_ONCE, lambda *_: None)
    shown, found = table("way", "errors", "so"), dict[str, int]()
    for way, held in counts(given).items():
        found[way] = sum(held.values())
        missing = sum(plain.values()) - found[way]
        so = (
            f"{missing:,} lost"
            if missing > 0
            else f"{-missing:,} twice"
            if missing
            else "each once"
        )
        shown.add_row(way, f"{found[way]:,}", so if missing or held == plain else "not by minute")
    each = SparkTable(stage.spark, str(stage.folder / "lake" / "errors")).frame().count()
    shown.add_row(
        "each line, map-only",
        f"{each:,}",
        "each once" if each == sum(plain.values()) else "not right",
    )
    stage.say(shown)
    with connected(given) as cursor:
        cursor.execute("SELECT batch, ends FROM ingest_flow_places")
        for batch, ends in cursor.fetchall():
            stage.say(f"the transaction's own offsets: behind batch {batch}, at {ends}")
    return {**found, "each": each}


def _given(folder: Path) -> Pipeline:
    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    return pipeline(folder, facts["broker"], facts["topic"], facts["results"], AT_ONCE)


def _killed(folder: Path) -> None:
    """The first process: each way stands still in the middle of the same batch, and then it is killed."""
    given, reached = _given(folder), threading.Semaphore(0)
    first, _ = line(KILLED_IN * AT_ONCE + AT_ONCE - 1)

    def half_way(_: str, number: int) -> None:
        if number >= KILLED_IN:
            reached.release()
            threading.Event().wait()

    def watched() -> None:
        for _ in range(2):
            reached.acquire()
        # The flows stand still behind MySQL's commit (INGEST_FAILPOINT), where that is seen.
        while True:
            held = counts(given)
            if all(first in held[way] for way in ("transactional", "idempotent")):
                signal.raise_signal(signal.SIGKILL)
            time.sleep(0.1)

    threading.Thread(target=watched, daemon=True).start()
    session = spark_session.for_pipeline(given, folder / "job.log")
    job(session, folder, given, AT_ONCE, half_way)


if __name__ == "__main__":
    os.environ["INGEST_FAILPOINT"] = f"flow_written@{KILLED_IN}:hold"
    _killed(Path(sys.argv[1]))
