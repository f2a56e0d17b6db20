"""What the connector says of its snapshots is kept by Kafka for as long as changes are; a job that lives longer goes on."""

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from ingest.config import pipeline_file
from ingest.kafka import broker
from ingest.source.resync import Requests
from ingest.source.resync_signal import notification_topic


def forget(pipeline, but=0):
    """Kafka lets go of what it holds of them, as its retention does, but for so many offsets at the end."""
    topic = notification_topic(pipeline)
    end = broker.end_offsets(pipeline, [topic])[topic, 0]
    admin = AdminClient(broker.connection(pipeline))
    for future in admin.delete_records([TopicPartition(topic, 0, end - but)]).values():
        future.result(10)


def test_a_table_is_taken_again_where_kafka_has_let_go_of_what_was_said_of_snapshots_before(
    cli, mysql
):
    mysql.database("fn")
    mysql.sql("CREATE TABLE fn.t (id INT PRIMARY KEY)", "INSERT INTO fn.t VALUES (1), (2)")
    file = cli.init("fn", "fn.*")
    assert (done := cli.once(file)).returncode == 0, done.stderr
    pipeline, said = pipeline_file.load(file), []
    # One that was at it before, as of a job that runs for weeks.
    requests = Requests(pipeline)
    requests._read()
    forget(pipeline)
    requests._read()
    assert (done := cli("resync", str(file), "fn.t")).returncode == 0, done.stderr
    cli.until_mended(file)
    requests._said.take = lambda one, offset, now: said.append((offset, one["type"]))
    requests._read()
    assert "TABLE_SCAN_COMPLETED" in {kind for _, kind in said}, "the older reader goes on, too"
    seen = [offset for offset, _ in said]
    assert seen == sorted(set(seen))
    equal, verdict = cli.audit(file)
    assert equal, verdict
    # Only the marker is left of the newest transaction: there is nothing to be read, and nobody waits for it.
    forget(pipeline, but=1)
    late = Requests(pipeline)
    late._said.take = lambda *_: pytest.fail("nothing was there")
    late._read()
    assert late._consumer is not None, "it stood still and was given up"
    for one in (requests, late):
        one.close()
