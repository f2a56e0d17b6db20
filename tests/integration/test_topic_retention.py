"""Topics that are there already are kept for as long as the pipeline file says, once it says longer."""

import yaml
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from ingest.config import pipeline_file
from ingest.kafka import broker, topic_retention

HOUR = 3_600_000


def test_kafka_keeps_them_longer_and_never_shorter(cli, mysql):
    mysql.database("kept")
    mysql.sql("CREATE TABLE kept.t (id INT PRIMARY KEY)")
    file = cli.init("kept", "kept.*")
    said = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump(said | {"kafka": said["kafka"] | {"retention_hours": 200}}))
    pipeline = pipeline_file.load(file)
    admin, hours = AdminClient(broker.connection(pipeline)), pipeline.kafka.retention_hours
    kept = {"short": hours * HOUR - 1, "as_said": hours * HOUR, "longer": 9_999 * HOUR, "ever": -1}
    topics = {f"{pipeline.topic_prefix}kept.{name}": ms for name, ms in kept.items()}
    others = {"kept-by-somebody-else": HOUR}
    made = admin.create_topics(
        [NewTopic(one, 1, 1, config={"retention.ms": str(ms)}) for one, ms in (topics | others).items()]
    )  # fmt: skip
    for one in made.values():
        one.result(30)

    def now():
        asked = [ConfigResource(ResourceType.TOPIC, one) for one in topics | others]
        answers = admin.describe_configs(asked)
        return {
            one.name: int(found.result(30)["retention.ms"].value) for one, found in answers.items()
        }

    said = []
    nothing_said = pipeline.kafka.model_copy()
    nothing_said.model_fields_set.discard("retention_hours")
    topic_retention.lengthen(pipeline.model_copy(update={"kafka": nothing_said}), said.append)
    assert (now(), said) == (topics | others, []), "somebody may want them so"
    topic_retention.lengthen(pipeline, said.append)
    expected = dict(zip(topics, (hours * HOUR, hours * HOUR, 9_999 * HOUR, -1), strict=True))
    assert now() == expected | others
    (sentence,) = said
    assert sentence.startswith(f"Kafka keeps 1 topic for {hours} hours from now on")
    topic_retention.lengthen(pipeline, said.append)
    assert len(said) == 1


def test_where_kafka_does_not_let_us_that_is_said_and_the_run_goes_on(cli, mysql):
    mysql.database("unkept")
    mysql.sql("CREATE TABLE unkept.t (id INT PRIMARY KEY)")
    file = cli.init("unkept", "unkept.*")
    said = yaml.safe_load(file.read_text())
    said["kafka"]["retention_hours"] = 10**13  # more milliseconds than there are numbers
    file.write_text(yaml.safe_dump(said))
    pipeline = pipeline_file.load(file)
    admin = AdminClient(broker.connection(pipeline))
    for one in admin.create_topics([NewTopic(f"{pipeline.topic_prefix}unkept.t", 1, 1)]).values():
        one.result(30)
    heard = []
    topic_retention.lengthen(pipeline, heard.append)
    (sentence,) = heard
    assert sentence.startswith("Kafka does not let us keep topics for the 10,000,000,000,000 hours")
    assert "kafka-configs.sh --alter" in sentence
