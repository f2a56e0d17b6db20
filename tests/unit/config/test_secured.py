"""What a pipeline file says of secured servers and of object stores, and what it is refused for."""

import pytest
import yaml

from ingest.config import pipeline_file
from ingest.kafka import client_settings
from ingest.model.errors import IngestError
from ingest.source import connector
from tests.unit.config.test_pipeline_file import GOOD, refusal

SECURITY = {"user": 'in"gest', "password": {"env": "KAFKA_PASSWORD"}, "ca": "/pki/ca.pem"}


def with_(section, **said):
    text = yaml.safe_load(GOOD)
    text[section] = {**text[section], **said}
    return yaml.safe_dump(text)


@pytest.fixture
def secured(monkeypatch):
    monkeypatch.setenv("KAFKA_PASSWORD", 'p"a\\ss')
    return pipeline_file.parse(with_("kafka", security=SECURITY))


def test_each_client_gets_kafka_s_security_in_its_own_words(secured):
    assert client_settings.of_librdkafka(secured.kafka) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": 'in"gest',
        "sasl.password": 'p"a\\ss',
        "ssl.ca.location": "/pki/ca.pem",
    }
    of_java = client_settings.of_java(secured.kafka)
    assert of_java.pop("sasl.jaas.config") == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="in\\"gest" password="p\\"a\\\\ss";'
    )
    assert of_java == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/pki/ca.pem",
    }


def test_a_connector_is_told_where_its_worker_finds_the_password_not_what_it_is(secured):
    said = connector.desired(secured)
    logins = [value for name, value in said.items() if name.endswith("sasl.jaas.config")]
    assert len(logins) == 3
    assert all('password="${env:KAFKA_PASSWORD}"' in one for one in logins)
    assert 'p"a' not in str(said)


@pytest.mark.parametrize(
    ("section", "said", "expected"),
    [
        ("kafka", {"security": {"protocol": "SASL_SSL"}}, "`SASL_SSL` needs `user` and `password`"),
        ("kafka", {"security": {"protocol": "SSL", "user": "x"}}, "`SSL` knows no `user`"),
        (
            "kafka",
            {"security": {**SECURITY, "protocol": "SASL_PLAINTEXT", "ca": None}},
            "sends all in clear",
        ),
        ("kafka", {"properties": {"isolation.level": "read_uncommitted"}}, "not to be changed"),
        ("kafka", {"properties": {"sasl.password": "hunter2"}}, "secret in clear"),
        ("kafka", {"security": SECURITY, "properties": {"ssl.ca.location": "/x"}}, "says again"),
        ("connect", {"user": "x"}, "both `user` and `password`"),
        ("connect", {"user": "x", "password": {"env": "X"}}, "needs `https://`"),
        ("connect", {"settings": {"time.precision.mode": "connect"}}, "not to be changed"),
        ("connect", {"settings": {"transforms": "drop"}}, "not to be changed"),
        (
            "connect",
            {"settings": {"database.ssl.keystore.password": "hunter2"}},
            "how the worker reads it",
        ),
        ("source", {"tls": {"ca": "/x", "key": "/y"}}, "both `certificate` and `key`"),
        ("lake", {"storage": {"region": "eu-west-1"}}, "of a lake in an object store"),
        ("lake", {"path": "s3a://b/l", "storage": {"endpoint": "http://s3:9000"}}, "goes by TLS"),
        (
            "lake",
            {"path": "s3a://b/l", "storage": {"access_key": {"env": "X"}}},
            "both `access_key`",
        ),
    ],
)
def test_what_would_send_in_clear_or_change_what_is_read_is_refused(section, said, expected):
    refused = refusal(with_(section, **said))
    assert expected in refused
    assert "hunter2" not in refused


def test_settings_that_change_neither_meaning_nor_order_are_the_user_s_own():
    settings = {"max.batch.size": "20", "producer.override.max.request.size": "2000000"}
    said = connector.desired(pipeline_file.parse(with_("connect", settings=settings)))
    assert settings.items() <= said.items()


def test_debezium_is_not_left_to_believe_whoever_answers():
    tls = {"ca": "/pki/ca.pem", "verify": "ca"}
    with pytest.raises(IngestError) as refused:
        connector.desired(pipeline_file.parse(with_("source", tls=tls)))
    assert refused.value.code == "E-CONNECT-TRUSTSTORE"
    text = yaml.safe_load(with_("source", tls=tls))
    text["connect"]["files"] = {"mysql_truststore": "/pki/mysql.p12"}
    said = connector.desired(pipeline_file.parse(yaml.safe_dump(text)))
    assert said["database.ssl.mode"] == "verify_ca"
    assert said["database.ssl.truststore"] == "/pki/mysql.p12"
