"""What Spark's continuous and real-time triggers take from Python, and what they refuse: the table of docs/flows.md, asked of Spark."""

import re
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import functions as F

PAGE = Path(__file__).parents[2] / "docs" / "flows.md"
TRIGGERS = {"continuous": {"continuous": "1 second"}, "real time": {"realTime": "5 minutes"}}


@pytest.fixture
def broker(stack):
    return f"127.0.0.1:{stack.ports['kafka']}"


@pytest.fixture
def topic(broker):
    """One with ten messages, and its name with `-out`, empty."""
    name = "triggers"
    admin = AdminClient({"bootstrap.servers": broker})
    made = admin.create_topics([NewTopic(one, 1, 1) for one in (name, f"{name}-out")])
    for one in made.values():
        one.result(30)
    producer = Producer({"bootstrap.servers": broker})
    for number in range(10):
        producer.produce(name, value=f"word {number}")
    producer.flush(30)
    return name


def read(spark, broker, topic):
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker)
    found = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    return found.select(F.upper(F.col("value").cast("string")).alias("value"))


def nothing(*_):
    return None


def queries(spark, broker, topic, folder):
    """By name, of a line each: a stream and where it goes."""

    def to_kafka(rows):
        writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", broker)
        return writer.option("topic", f"{topic}-out")

    def words():
        return read(spark, broker, topic)

    rate = (
        spark.readStream.format("rate").load().select(F.col("value").cast("string").alias("value"))
    )
    counted = (
        words().groupBy("value").count().select(F.concat_ws(" ", "value", "count").alias("value"))
    )
    return {
        "Kafka → expressions → Kafka": to_kafka(words()),
        "Kafka → a Python UDF → Kafka": to_kafka(
            words().select(F.udf(str.lower)("value").alias("value"))
        ),
        "Kafka → `GROUP BY` → Kafka": to_kafka(counted),
        "Kafka → the console": words().writeStream.format("console"),
        "Kafka → `foreach`": words().writeStream.foreach(nothing),
        "Kafka → `foreachBatch`": words().writeStream.foreachBatch(nothing),
        "Kafka → Delta": words().writeStream.format("delta").option("path", str(folder / "out")),
        "`rate` → Kafka": to_kafka(rate),
    }


def runs(writer, trigger, checkpoint):
    """Whether it starts, and is still running after it has had its first batch."""
    mode = "update" if "realTime" in trigger else "append"
    try:
        query = (
            writer.outputMode(mode)
            .option("checkpointLocation", str(checkpoint))
            .trigger(**trigger)
            .start()
        )
    except Exception:  # noqa: BLE001 (Spark refuses by several kinds)
        return "no"
    try:
        for _ in range(30):
            if not query.isActive:
                break
            time.sleep(0.1)
        return "yes" if query.isActive and query.exception() is None else "no"
    finally:
        query.stop()


@pytest.mark.long
def test_what_each_trigger_takes_is_as_the_page_says(spark, broker, topic, tmp_path):
    found = []
    for n, (name, _) in enumerate(queries(spark, broker, topic, tmp_path).items()):
        cells = []
        for trigger, said in TRIGGERS.items():
            writer = queries(spark, broker, topic, tmp_path)[name]
            cells.append(runs(writer, said, tmp_path / f"{n}-{trigger}"))
        found.append(f"| {name} | {' | '.join(cells)} |")
    text = PAGE.read_text(encoding="utf-8").partition("### Which trigger takes what")[2]
    told = re.findall(
        r"^\| .+ \| (?:yes|no) \| (?:yes|no) \|$", text.partition("\n#")[0], re.MULTILINE
    )
    assert found == told, "\n".join(found)
