"""Faults of Kafka: what is gone, sent again, hanging, too large."""

from __future__ import annotations

import time

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)

from ingest.kafka import broker
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.source import resync_signal
from ingest.source.connector import Connector, is_snapshotting
from tests.kills.faults.act import another, command, expect, fault, said, stop
from tests.kills.lab import Lab
from tests.support.cold import CONF


@fault
def retention_overtook(lab: Lab) -> str:
    """Kafka lost records before they were applied: a durable gap, and the table is taken again."""
    stop(lab)
    lab.change()
    time.sleep(5)  # until the connector has delivered them
    _overtake(lab, "keyed")
    lab.start()
    lab.until_equal(300)
    expect(lab.entry().gaps, "the gap was not recorded")
    lab.until(lambda: not any(gap.is_open for gap in lab.entry().gaps), "closing the gap")
    return f"equal; gap {lab.entry().gaps[0].start}..{lab.entry().gaps[0].end} recorded and closed"


def _overtake(lab: Lab, *tables: str) -> None:
    """What these tables' topics hold by now goes, as Kafka's retention does it."""
    pipeline = lab.pipeline()
    ends = broker.end_offsets(pipeline, [f"{lab.name}.{lab.name}.{table}" for table in tables])
    admin = AdminClient(broker.connection(pipeline))
    places = [TopicPartition(*place, end) for place, end in ends.items()]
    for future in admin.delete_records(places).values():
        future.result(10)


@fault
def retention_overtook_a_resync(lab: Lab) -> str:
    """A table was taken again while the job was down, and Kafka lost these rows, too. The request says that the table was
    read; that none of its rows is there must not pass for an empty table.
    """
    stop(lab)
    known = len(lab.entry().gaps)
    lab.change()
    command(lab, "resync", str(lab.file), f"{lab.name}.keyed")
    topic = (f"{lab.name}-notification", 0)
    before = broker.end_offsets(lab.pipeline(), [topic[0]]).get(topic, 0)
    lab.touch()
    lab.until(
        lambda: broker.end_offsets(lab.pipeline(), [topic[0]]).get(topic, 0) > before,
        "a word of the connector's",
    )
    time.sleep(10)  # it has read all of it
    _overtake(lab, "keyed")
    lab.touch()
    lab.start()
    lab.until(lambda: len(lab.entry().gaps) > known, "recording the gap")
    lab.until_equal(300)
    expect(lab.lake_rows("keyed"), "the table was emptied")
    gap = lab.entry().gaps[-1]
    expect(gap.position and not gap.is_open, f"{gap}")
    return "equal; the gap was closed by a request of its own"


@fault
def first_start_after_the_retention(lab: Lab) -> str:
    """The connector has read the tables long before the first job starts: of two of them Kafka has nothing any more."""
    stop(lab)
    late = Lab(lab.stack, lab.folder / "late", name="late")
    try:
        late.prepare()
        pipeline = late.pipeline()
        broker.ensure_topic(pipeline, resync_signal.signal_topic(pipeline))
        command(late, "connector", "apply", str(late.file))
        topics = [f"late.late.{table}" for table in ("keyed", "bag")]

        def is_read() -> bool:
            ends = broker.end_offsets(pipeline, topics).values()
            snapshotting = is_snapshotting(Connector(pipeline).offset())
            return len(ends) == 2 and all(ends) and not snapshotting

        late.until(is_read, "its snapshot", 180)
        _overtake(late, "keyed", "bag")
        late.change()
        late.start()
        late.until(lambda: late.entry() is not None, "a row of the manifest")
        late.until_equal(300)
        lost = {gap.table for gap in late.entry().gaps}
        expect({"late.keyed", "late.bag"} <= lost, f"gaps of {lost}: {said(late)[-1500:]}")
        expect("late.wide" not in lost, "nothing of it was lost")
        late.change()
        late.until_equal()
        return "equal; each of both has its gap, closed"
    finally:
        late.close()
        lab.start()


@fault
def new_table_after_the_retention(lab: Lab) -> str:
    """Made while the job was down for longer than Kafka keeps records, with the old checkpoint there."""
    stop(lab)
    name = lab.name
    lab.sql(
        f"CREATE TABLE {name}.fresh (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO {name}.fresh VALUES (1, 1), (2, 2)",
    )
    topic = (f"{name}.{name}.fresh", 0)
    lab.until(lambda: broker.end_offsets(lab.pipeline(), [topic[0]]).get(topic, 0) > 2, "its rows")
    _overtake(lab, "fresh")
    lab.sql(f"INSERT INTO {name}.fresh VALUES (3, 3)")
    tables, lab.tables = lab.tables, (*lab.tables, "fresh")
    try:
        lab.start()
        lab.until_equal(300)
        expect(any(gap.table == f"{name}.fresh" for gap in lab.entry().gaps), "no gap recorded")
    finally:
        lab.tables = tables
    return "equal; its rows were taken from MySQL"


@fault
def topic_made_again(lab: Lab) -> str:
    stop(lab)
    lab.change()
    pipeline = lab.pipeline()
    topic = f"{lab.name}.{lab.name}.wide"
    admin = AdminClient(broker.connection(pipeline))
    admin.delete_topics([topic])[topic].result(20)
    time.sleep(5)
    lab.change()
    time.sleep(5)
    lab.start()
    lab.until_equal(300)
    expect(any("topic was deleted" in gap.reason for gap in lab.entry().gaps), "no gap recorded")
    return "equal; gap recorded and closed"


@fault
def hanging_transaction(lab: Lab) -> str:
    """A producer began, wrote, and is gone; another one aborted: neither's records are ever read."""
    topic = f"{lab.name}.{lab.name}.keyed"
    rejected = _rejected(lab)
    connection = broker.connection(lab.pipeline())
    for name, seconds in (("aborts", 60), ("hangs", 10)):
        producer = Producer(
            {
                **connection,
                "transactional.id": f"{lab.name}-{name}",
                "transaction.timeout.ms": seconds * 1000,
            }
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, b"never committed", b"{}")
        producer.flush(10)
        if name == "aborts":
            producer.abort_transaction(30)
    started = time.monotonic()
    lab.change()
    lab.until_equal()
    expect(_rejected(lab) == rejected, "an uncommitted record was read")
    return f"equal {time.monotonic() - started:.0f} s after, when the broker had aborted it"


def _rejected(lab: Lab) -> int:
    return sum(entry.rejects for entry in Ledger(str(lab.lake)).entries(1_000_000))


@fault
def partitions_added(lab: Lab) -> str:
    """A running topic gets two more partitions: keys move between them, their order stays."""
    lab.change()
    lab.until_equal()
    topic = f"{lab.name}.{lab.name}.keyed"
    admin = AdminClient(broker.connection(lab.pipeline()))
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(20)
    lab.change()
    Connector(
        lab.pipeline()
    ).restart()  # producers learn of partitions after five minutes otherwise
    lab.change()
    lab.until_equal()
    lab.change()
    lab.until_equal()
    used = {place for place, end in lab.entry().ends.items() if place[0] == topic and end}
    expect(len(used) > 1, f"only {used} was written to")
    return f"equal over {len(used)} partitions"


@fault
def large_rows(lab: Lab) -> str:
    """A row near the limit passes; of one beyond it the table is left out by name, and the remedy works."""
    roomy = {"driver_memory": "3g", "trigger_seconds": 0.2, "conf": CONF}
    with another(lab, "large", spark=roomy) as other:
        wide = f"{other.name}.wide"
        other.sql(f"ALTER TABLE {wide} ADD COLUMN big LONGTEXT")
        other.sql(f"UPDATE {wide} SET big = REPEAT('x', 14000000) WHERE id = 1")
        other.sql(f"UPDATE {wide} SET big = REPEAT('y', 14000000) WHERE id = 1")
        other.until_equal()
        stop(other)
        other.sql(f"UPDATE {wide} SET big = REPEAT('z', 25000000) WHERE id = 1")
        done = command(other, "run", str(other.file), "--once", check=False)
        left_out = (
            done.returncode == 4 and "max.request.size" in done.stderr and wide in done.stderr
        )
        expect(left_out, done.stderr + done.stdout)
        topic = ConfigResource(ConfigResource.Type.TOPIC, f"{other.name}.{wide}")
        to = AlterConfigOpType.SET
        topic.add_incremental_config(
            ConfigEntry("max.message.bytes", "100000000", incremental_operation=to)
        )
        admin = AdminClient(broker.connection(other.pipeline()))
        for future in admin.incremental_alter_configs([topic]).values():
            future.result(20)
        other.settings["connect"] = {
            "settings": {
                "producer.override.max.request.size": "100000000",
                "producer.override.buffer.memory": "200000000",
            }
        }
        other.write_pipeline()
        other.start()
        other.until_equal()
        return "equal; the table of the largest left out by name, then taken whole with the limits raised"


@fault
def connect_topics_lost(lab: Lab) -> str:
    """Connect's own topics are gone: connector, offsets, status. It is made and filled again."""
    lab.kill("connect")
    lab.sql(f"DELETE FROM {lab.name}.keyed WHERE id = 14")
    admin = AdminClient(broker.connection(lab.pipeline()))
    topics = [f"ingest-connect-{what}" for what in ("configs", "offsets", "status")]
    for future in admin.delete_topics(topics).values():
        future.result(20)
    time.sleep(2)
    lab.restart("connect")
    lab.change()
    lab.until_equal(300)
    expect("has lost the connector" in said(lab), "nobody noticed")
    return "equal; the connector was made again"


@fault
def sent_again_with_state(lab: Lab) -> str:
    """Spark's own state store in front: what is sent again is thinned out, nothing is lost.

    Records are put into the topic once more, byte for byte, as a worker without transactions does.
    """
    with another(lab, "state", dedup={"by": "both"}) as other:
        other.change()
        other.until_equal()
        sent = send_again(other, "state.state.keyed", 15)
        other.change()
        other.until_equal()
        entry = other.entry()
        expect(sent and entry.state_rows, f"{sent} sent again, {entry.state_rows} remembered")
        expect(
            entry.resent == entry.remembered,
            f"{entry.resent} sent again, {entry.remembered} known to the state",
        )
        return f"equal; {sent} sent again, {entry.state_rows} rows of state"


def send_again(lab: Lab, topic: str, records: int) -> int:
    """Put the newest streamed records of a topic's first partition into it once more."""
    pipeline = lab.pipeline()
    consumer = broker.client(pipeline)
    end = broker.end_offsets(pipeline, [topic])[(topic, 0)]
    consumer.assign([TopicPartition(topic, 0, max(0, end - records))])
    producer = Producer(broker.connection(pipeline))
    sent = 0
    while consumer.position([TopicPartition(topic, 0)])[0].offset < end:
        message = consumer.poll(1)
        if message is not None and not message.error() and b'"op":"r"' not in message.value():
            headers = message.headers()
            producer.produce(topic, message.value(), message.key(), headers=headers)
            sent += 1
    producer.flush(10)
    consumer.close()
    return sent
