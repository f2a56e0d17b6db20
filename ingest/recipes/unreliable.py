"""A source that cannot be asked again beside one that can: the same words through a socket and through Kafka, and a query that fails with a batch in hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from ingest.lake.delta.spark_table import SparkTable
from ingest.recipes.sources_and_sinks import speaker
from ingest.recipes.stage import Stage, empty_topic, table

WORDS = 50
"""Said before the failure, and again so many behind it."""
TOPIC = "recipe-words"


def show(stage: Stage) -> dict[str, int]:
    """Returns by source how many of the words there are in the end."""
    broker = stage.broker
    first = [f"word {n}" for n in range(WORDS)]
    then = [f"word {n}" for n in range(WORDS, 2 * WORDS)]
    stage.say(f"{WORDS} words, a failure before they are written, a new start, {WORDS} words more")
    found = {
        "socket": _by_socket(stage, first, then),
        "Kafka": _by_kafka(stage, broker, first, then),
    }
    shown = table("source", "words", "lost")
    for name, words in found.items():
        shown.add_row(name, str(words), str(2 * WORDS - words))
    stage.say(shown)
    return found


# A socket's checkpoint is of no use to a new start: its offsets count what this connection has brought, so the next one's first words would be taken
# for those that were read. Each start has one of its own.
def _by_socket(stage: Stage, first: list[str], then: list[str]) -> int:
    def lines(said: list[str], *, fails: bool) -> None:
        with speaker(list(said)) as port:
            reader = stage.spark.readStream.format("socket").option("host", "127.0.0.1")
            _run(stage, reader.option("port", port).load(), "socket", fails=fails, all_of=said[-1])

    lines(first, fails=True)
    lines(then, fails=False)
    return _words(stage, "socket")


def _by_kafka(stage: Stage, broker: str, first: list[str], then: list[str]) -> int:
    empty_topic(broker, TOPIC)
    reader = stage.spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker)
    words = reader.option("subscribe", TOPIC).option("startingOffsets", "earliest").load()
    text = words.selectExpr("CAST(value AS STRING) value")
    for said, fails in ((first, True), (then, False)):
        producer = Producer({"bootstrap.servers": broker})
        for word in said:
            producer.produce(TOPIC, value=word)
        producer.flush(30)
        _run(stage, text, "kafka", fails=fails, all_of=said[-1])
    return _words(stage, "kafka")


def _run(stage: Stage, rows: DataFrame, name: str, *, fails: bool, all_of: str) -> None:
    """A query over them, until its table has the last word, or until it has failed with a batch in hand."""
    place = stage.folder / name
    checkpoint = place / ("checkpoint-1" if fails or name == "kafka" else "checkpoint-2")
    writer = rows.writeStream.foreachBatch(_write(place / "table", fails=fails))
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        for _ in range(60):
            if query.awaitTermination(1) or _has(stage, place / "table", all_of):
                return
        raise RuntimeError(f"{name}: the last word did not come")
    except StreamingQueryException:
        if not fails:
            raise
        stage.say(f"{name}: the query failed with a batch in hand")
    finally:
        query.stop()


def _write(path: Path, *, fails: bool) -> Callable[[DataFrame, int], None]:
    def write(rows: DataFrame, number: int) -> None:
        if not rows.isEmpty():
            if fails:
                raise RuntimeError("it fails here")
            identity = {"txnAppId": "recipe", "txnVersion": str(number)}
            rows.write.format("delta").mode("append").options(**identity).save(str(path))

    return write


def _has(stage: Stage, path: Path, word: str) -> bool:
    if not SparkTable(stage.spark, str(path)).exists():
        return False
    held = stage.spark.read.format("delta").load(str(path))
    return not held.filter(held.value == word).isEmpty()


def _words(stage: Stage, name: str) -> int:
    held = stage.spark.read.format("delta").load(str(stage.folder / name / "table"))
    return held.select("value").distinct().count()
