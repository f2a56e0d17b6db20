"""The schema-change topic is deleted and made again: what Debezium has said there before is gone."""

import pytest
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable

from ingest.config import pipeline_file
from ingest.kafka import broker
from ingest.model.errors import IngestError
from ingest.model.topics import TableId


def test_nothing_is_read_by_schemas_that_the_topic_no_longer_has(cli, mysql):
    mysql.database("sg")
    mysql.sql("CREATE TABLE sg.t (id INT PRIMARY KEY, v INT)", "INSERT INTO sg.t VALUES (1, 1)")
    mysql.sql("CREATE TABLE sg.u (id INT PRIMARY KEY)", "INSERT INTO sg.u VALUES (1)")
    file = cli.init("sg", "sg.*")
    assert (done := cli.once(file)).returncode == 0, done.stderr
    pipeline = pipeline_file.load(file)
    topic = broker.SchemaTopic(pipeline)
    topic.read_to_end()
    admin = AdminClient(broker.connection(pipeline))
    (deleted,) = admin.delete_topics([pipeline.name]).values()
    deleted.result(30)
    broker.ensure_topic(pipeline, pipeline.name)
    mysql.sql("ALTER TABLE sg.t MODIFY v BIGINT UNSIGNED", "UPDATE sg.t SET v = 2")
    again = cli.once(file)
    said = again.stdout + again.stderr
    assert again.returncode == 4, said
    assert "E-TABLE-STOPPED" in said
    assert "sg.t stands still, the others go on" in said
    assert "No schema of sg.t is known" in said
    with pytest.raises(IngestError) as made_again:
        topic.read_to_end()
    assert made_again.value.code == "E-KAFKA-SCHEMA-TOPIC"
    assert "made again" in made_again.value.what
    topic.close()
    held = (
        DeltaTable(pipeline.path(TableId("sg", "t")))
        .to_pyarrow_table(columns=["id", "v"])
        .to_pylist()
    )
    assert held == [{"id": 1, "v": 1}]
