"""The latest of each row in Redis, for readers who cannot wait: from MySQL's binlog in well under a second, and never back, though it is written at least once.

A flow reads the very topic that Debezium writes, a batch as soon as there is something, and its rows carry where they stand in the binlog: that is their version. The copy in the
lake is exactly once and some tenths of a second later. Beside it is what Spark's real-time mode makes of the same: `foreach`, row by row. Its rows wait on their way to Python until
there are a hundred, or the batch ends, which is after five seconds at the earliest: so for a function of Python it is the slower one.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from statistics import median, quantiles
from typing import Any

import redis as redis_py
from pymysql.cursors import Cursor
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ingest.config.pipeline_file import Pipeline
from ingest.flows.flow_runs import FlowRun
from ingest.job.run import Run
from ingest.local import redis as local_redis
from ingest.local.redis import Redis
from ingest.recipes.stage import Stage, table
from ingest.testing.lake import pipeline_at

CHANGES, EVERY, FEW = 60, 0.1, 6
"""So many changes are timed, one each so many seconds; so few in real-time mode, of which each takes seconds."""

LATEST = """SELECT coalesce(get_json_object(value, '$.after.id'), get_json_object(value, '$.before.id')) AS id,
  CAST(get_json_object(value, '$.after.n') AS INT) AS n, get_json_object(value, '$.op') AS op,
  struct(CAST(regexp_extract(get_json_object(value, '$.source.file'), '([0-9]+)$', 1) AS BIGINT) AS file,
    CAST(get_json_object(value, '$.source.pos') AS BIGINT) AS pos, CAST(get_json_object(value, '$.source.row') AS INT) AS row) AS position
FROM changes"""


def show(stage: Stage) -> dict[str, Any]:
    """Returns how many seconds the middle change took by each way, and whether Redis holds what MySQL does."""
    redis = local_redis.start(stage.folder / "redis")
    try:
        database = stage.stack.mysql()
        with closing(database.admin()) as connection, connection.cursor() as cursor:
            cursor.execute("DROP DATABASE IF EXISTS recipe_redis")
            cursor.execute("CREATE DATABASE recipe_redis")
            cursor.execute("CREATE TABLE recipe_redis.stock (id INT PRIMARY KEY, n INT NOT NULL)")
            cursor.execute("INSERT INTO recipe_redis.stock VALUES (1, 0), (2, 0), (3, 0)")
            pipeline = _pipeline(stage, redis)
            stage.say("the connector begins, and a first copy is made …")
            Run(pipeline, stage.folder / "spark.log", lambda _: None, lambda _: None).execute(
                once=True
            )
            with _flow(stage, pipeline):
                by_batch = _timed(cursor, redis, "stock", 1, CHANGES)
                cursor.execute("DELETE FROM recipe_redis.stock WHERE id = 3")
                same = _same(cursor, redis)
            stage.say("and once more, row by row, in Spark's real-time mode …")
            with _real_time(stage, pipeline, redis):
                by_row = _timed(cursor, redis, "direct", 2, FEW)
    finally:
        redis.stop()
    shown = table("way", "middle", "one in ten", "promise")
    for name, took, promise in (
        ("micro-batch, to Redis by version", by_batch, "at least once, and never back"),
        ("real-time `foreach`", by_row, "at least once; an older row may win after a failure"),
    ):
        slow = quantiles(took, n=10)[-1]
        shown.add_row(name, f"{median(took) * 1000:,.0f} ms", f"{slow * 1000:,.0f} ms", promise)
    stage.say(shown)
    stage.say("`foreach` in continuous mode: Spark 4.2 refuses it")
    stage.say(
        f"Redis {'holds what MySQL does; the deleted key is gone, and keeps its version' if same else 'DIFFERS'}"
    )
    return {"batch": median(by_batch), "row": median(by_row), "same": same}


def _pipeline(stage: Stage, redis: Redis) -> Pipeline:
    topic = "recipe.recipe_redis.stock"
    (stage.folder / "latest.sql").write_text(LATEST, encoding="utf-8")
    sink = {
        "redis": "stock",
        "connection": "cache",
        "keys": ["id"],
        "version": "position",
        "deleted": "op = 'd'",
    }
    flow = {
        "sql": str(stage.folder / "latest.sql"),
        "inputs": {"changes": {"kafka": topic}},
        "sinks": [sink],
        "trigger": "0 seconds",
    }
    return pipeline_at(
        stage.folder / "lake",
        "recipe",
        **stage.chain("recipe_redis.stock"),
        connections={"cache": {"url": redis.url, "password": {"file": str(redis.secret)}}},
        flows={"latest": flow},
    )


@contextmanager
def _flow(stage: Stage, pipeline: Pipeline) -> Iterator[None]:
    stop = threading.Event()
    run = FlowRun(stage.spark, pipeline, "latest", stage.say, stop)
    thread = threading.Thread(target=run.until_stopped)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def _real_time(stage: Stage, pipeline: Pipeline, redis: Redis) -> Iterator[StreamingQuery]:
    """Each row to Redis as it comes, by a function of one's own."""
    flow = pipeline.flows["latest"].inputs["changes"]
    reader = stage.spark.readStream.format("kafka").option("subscribe", flow.kafka or "")
    rows = (
        reader.option("kafka.bootstrap.servers", stage.broker)
        .option("startingOffsets", "latest")
        .load()
    )
    value = F.col("value").cast("string")
    wanted = [F.get_json_object(value, f"$.after.{name}").alias(name) for name in ("id", "n")]
    port, password = redis.port, redis.secret.read_text(encoding="utf-8")

    def put(row: Row) -> None:
        client = redis_py.Redis(port=port, password=password)
        client.hset(f"direct:{row.id}", "row", json.dumps({"id": row.id, "n": int(row.n)}))

    writer = rows.select(*wanted).where("id IS NOT NULL").writeStream.foreach(put)
    real_time: Any = {"realTime": "5 seconds"}  # PySpark's own types do not know it yet
    writer = writer.outputMode("update").trigger(**real_time)
    query = writer.option("checkpointLocation", str(stage.folder / "direct")).start()
    try:
        time.sleep(5)  # its first tasks begin
        yield query
    except RuntimeError:
        raise RuntimeError(f"{query.status}: {query.exception()}") from None
    finally:
        query.stop()


def _timed(cursor: Cursor, redis: Redis, prefix: str, id_: int, many: int) -> list[float]:
    """Seconds from MySQL's answer to Redis' having it, of each change behind the first two."""
    found = []
    with closing(redis.client()) as client:
        for number in range(1, many + 3):
            cursor.execute(f"UPDATE recipe_redis.stock SET n = {number + 1000} WHERE id = {id_}")
            done = time.monotonic()
            _until(lambda number=number: (_n(client, f"{prefix}:{id_}") or 0) == number + 1000)  # type: ignore[misc]
            if number > 2:
                found.append(time.monotonic() - done)
            time.sleep(EVERY)
    return found


def _until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        if time.monotonic() > until:
            raise RuntimeError("a change did not come to Redis within a minute")
        time.sleep(0.002)


def _n(client: redis_py.Redis, key: str) -> int | None:
    row = client.hget(key, "row")
    return json.loads(str(row))["n"] if row else None


def _same(cursor: Cursor, redis: Redis) -> bool:
    """Whether Redis comes to hold what MySQL does."""
    cursor.execute("SELECT id, n FROM recipe_redis.stock")
    wanted = {f"stock:{id_}": n for id_, n in cursor.fetchall()}
    with closing(redis.client()) as client:

        def equal() -> bool:
            keys = [str(key) for key in client.keys("stock:*")]
            return {key: n for key in keys if (n := _n(client, key)) is not None} == wanted

        _until(equal)
        return client.hget("stock:3", "gone") == "1"
