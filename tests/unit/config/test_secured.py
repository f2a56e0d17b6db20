"""What a pipeline file says of secured servers and of object stores, and what it is refused for."""

import os

import pytest
import yaml

from ingest.config import connector_settings, pipeline_file
from ingest.config.connection_settings import Password
from ingest.kafka import client_settings
from ingest.lake.files import object_store
from ingest.model.errors import IngestError
from ingest.source import connector
from tests.unit.config.test_pipeline_file import GOOD, refusal

SECURITY = {"user": 'in"gest', "password": {"env": "KAFKA_PASSWORD"}, "ca": "/pki/ca.pem"}
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIC\n-----END PRIVATE KEY-----\n"


def with_(section, **said):
    text = yaml.safe_load(GOOD)
    text[section] = {**text.get(section, {}), **said}
    return yaml.safe_dump(text)


@pytest.fixture
def secured(monkeypatch, tmp_path):
    monkeypatch.setenv("KAFKA_PASSWORD", 'p"a\\ss')
    (tmp_path / "ca.pem").write_text(f"# ours\n{CERTIFICATE}{CERTIFICATE}")
    (tmp_path / "client.pem").write_text(f"{CERTIFICATE}{KEY}")
    files = {"ca": str(tmp_path / "ca.pem"), "keystore": str(tmp_path / "client.pem")}
    return pipeline_file.parse(with_("kafka", security={**SECURITY, **files}))


def test_each_client_gets_kafka_s_security_in_its_own_words_and_certificates_as_they_are(secured):
    assert client_settings.of_librdkafka(secured.kafka) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": 'in"gest',
        "sasl.password": 'p"a\\ss',
        "ssl.ca.pem": CERTIFICATE * 2,
        "ssl.certificate.pem": CERTIFICATE,
        "ssl.key.pem": KEY,
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
        "ssl.truststore.certificates": CERTIFICATE * 2,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": KEY,
        "ssl.keystore.certificate.chain": CERTIFICATE,
    }


@pytest.mark.parametrize("content", [None, b"", b"\xff", KEY.encode()])
def test_a_certificate_that_cannot_be_read_is_said_with_its_file(secured, tmp_path, content):
    (tmp_path / "ca.pem").unlink()
    if content is not None:
        (tmp_path / "ca.pem").write_bytes(content)
    for client in (client_settings.of_librdkafka, client_settings.of_java):
        with pytest.raises(IngestError, match="ca.pem, which `kafka.security.ca` names") as found:
            client(secured.kafka)
        assert found.value.code == "E-KAFKA-CERTIFICATE"


def test_a_connector_is_told_where_its_worker_finds_the_password_not_what_it_is(
    secured, monkeypatch
):
    with pytest.raises(IngestError) as refused:  # between quotes in the worker, as it stands
        connector.desired(secured)
    assert refused.value.code == "E-CONFIG-PASSWORD"
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    said = connector.desired(secured)
    logins = [value for name, value in said.items() if name.endswith("sasl.jaas.config")]
    assert len(logins) == 3
    assert all('password="${env:KAFKA_PASSWORD}"' in one for one in logins)
    assert "hunter2" not in str(said)


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
        ("kafka", {"properties": {"metadata.broker.list": "other:9"}}, "not to be changed"),
        (
            "kafka",
            {"properties": {"enable.ssl.certificate.verification": "false"}},
            "from whom they come",
        ),
        ("kafka", {"properties": {"sasl.oauthbearer.client.secret": "hunter2"}}, "secret in clear"),
        ("kafka", {"security": {**SECURITY, "ca": ""}}, "is empty"),
        ("connect", {"url": "http://ingest:hunter2@connect:8083"}, "out of the URL"),
        ("connect", {"url": "http://connect:port"}, "port"),
        ("connect", {"password_reference": "hunter2"}, "never the password itself"),
        ("connect", {"files": {"kafka_ca": "ca.pem"}}, "a path from the root"),
        ("connect", {"settings": {"errors.tolerance": "all"}}, "not to be changed"),
        ("connect", {"settings": {"driver.tinyInt1isBit": "true"}}, "not to be changed"),
        ("connect", {"settings": {"schema.history.internal": "x.Memory"}}, "not to be changed"),
        (
            "connect",
            {"settings": {"producer.override.security.protocol": "PLAINTEXT"}},
            "not to be changed",
        ),
        (
            "connect",
            {
                "settings": {
                    "signal.consumer.sasl.jaas.config": 'x username="${env:U}" password="hunter2";'
                }
            },
            "how the worker reads it",
        ),
        ("spark", {"master": "spark://host:7077"}, "needs `secret`"),
        ("spark", {"master": "spark://127.0.0.1:7077,host:7077"}, "needs `secret`"),
        ("spark", {"master": "mesos://host:5050"}, "spark://host:port"),
        ("spark", {"master": "local[2]", "secret": {"env": "X"}}, "of a standalone cluster"),
        ("spark", {"conf": {"spark.authenticate.secret": "hunter2"}}, "use `spark.secret`"),
        (
            "spark",
            {"master": "spark://h:1", "conf": {"spark.authenticate": "true"}},
            "needs `secret`",
        ),
        (
            "spark",
            {
                "master": "spark://h:1",
                "secret": {"env": "X"},
                "conf": {"spark.authenticate": "false"},
            },
            "say two things",
        ),
        ("spark", {"master": "spark://h:1", "secret": {"env": "X"}}, "would write to theirs"),
        ("spark", {"master": "yarn"}, "would write to theirs"),
        ("source", {"mysql": "mysql://u@h:1/?sslMode=VERIFY_CA"}, "behind a `?`"),
        ("lake", {"path": "s3a://AKIA:hunter2@b/l"}, "out of the URI"),
        ("lake", {"path": "s3a://b/l#1"}, "not the same place"),
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
    settings = {
        "max.batch.size": "20",
        "producer.override.max.request.size": "2000000",
        "snapshot.fetch.size": "100",
        "topic.creation.default.replication.factor": "3",
        "snapshot.mode": "initial",  # as it is anyhow
    }
    said = connector.desired(pipeline_file.parse(with_("connect", settings=settings)))
    assert settings.items() <= said.items()


def test_what_may_be_named_since_it_is_ours_is_as_the_connector_has_it():
    assert connector_settings.OURS.items() <= connector.desired(pipeline_file.parse(GOOD)).items()


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


def test_what_the_file_says_of_tls_cannot_be_switched_off_below_it():
    text = yaml.safe_load(with_("source", tls={"ca": "/pki/ca.pem"}))
    text["connect"]["files"] = {"mysql_truststore": "/pki/mysql.p12"}
    text["connect"]["settings"] = {"database.ssl.mode": "disabled"}
    said = connector.desired(pipeline_file.parse(yaml.safe_dump(text)))
    assert said["database.ssl.mode"] == "verify_identity"


def test_a_password_that_a_worker_would_read_otherwise_is_refused(tmp_path):
    file = tmp_path / "mysql"
    file.write_text("hunter2\n")
    text = yaml.safe_load(GOOD)
    text["source"]["password"] = {"file": str(file)}
    with pytest.raises(IngestError) as refused:
        connector.desired(pipeline_file.parse(yaml.safe_dump(text)))
    assert "ends with a line feed" in str(refused.value)
    file.write_text("hunter2")
    assert connector.desired(pipeline_file.parse(yaml.safe_dump(text)))


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_a_password_that_cannot_be_read_is_said_without_its_bytes(tmp_path, content):
    file = tmp_path / "secret" if content else "~no-such-user/secret"
    if content:
        file.write_bytes(content)
    with pytest.raises(IngestError) as refused:
        Password.model_validate({"file": str(file)}).read()
    assert refused.value.code == "E-CONFIG-PASSWORD"
    assert "xff" not in str(refused.value)


def test_one_place_says_where_a_store_is_whatever_the_machine_says(monkeypatch):
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_CONDITIONAL_PUT"):
        monkeypatch.setenv(name, "http://elsewhere")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    lake = pipeline_file.parse(with_("lake", path="s3a://b/l")).lake
    object_store.lend(lake)
    left = [name for name in os.environ if "elsewhere" in os.environ[name]]
    assert (left, os.environ["AWS_REGION"]) == ([], "eu-central-1")
    assert (
        object_store.spark_settings(lake)["spark.hadoop.fs.s3a.endpoint.region"] == "eu-central-1"
    )


def test_what_spark_commits_by_and_where_stays_as_the_lake_says():
    for conf in ("spark.delta.logStore.s3a.impl", "spark.hadoop.fs.s3a.secret.key"):
        said = refusal(with_("lake", path="s3a://b/l") + f"spark: {{conf: {{{conf}: hunter2}}}}\n")
        assert conf in said
        assert "hunter2" not in said


S3A = "spark.hadoop.fs.s3a"


@pytest.mark.parametrize(
    "conf",
    [
        f"{S3A}.endpoint",
        f"{S3A}.endpoint.region",
        f"{S3A}.connection.ssl.enabled",
        f"{S3A}.path.style.access",
        f"{S3A}.aws.credentials.provider",
        f"{S3A}.assumed.role.arn",
        f"{S3A}.impl",
        f"{S3A}.create.conditional.enabled",
        f"{S3A}.security.credential.provider.path",
        f"{S3A}.bucket.a.b.endpoint",
        f"{S3A}.bucket.a.b.connection.ssl.enabled",
        f"{S3A}.bucket.a.b.aws.credentials.provider",
        f"{S3A}.bucket.a.b.access.key",
        f"{S3A}.bucket.a.b.secret.key",
        f"{S3A}.bucket.a.b.session.token",
        f"{S3A}.bucket.a.b.accesspoint.arn",
        "spark.hadoop.fs.s3.impl",
        "spark.hadoop.hadoop.security.credential.provider.path",
    ],
)
def test_spark_goes_where_and_as_whom_the_lease_goes(conf):
    """The lease would keep one server's lake, and Spark commit to another's."""
    for scheme in ("s3", "s3a"):
        said = refusal(
            with_("lake", path=f"{scheme}://a.b/l") + f"spark: {{conf: {{{conf}: hunter2}}}}\n"
        )
        assert conf in said
        assert "lake.storage" in said
        assert "hunter2" not in said


@pytest.mark.parametrize(
    "conf",
    [
        f"{S3A}.bucket.a.endpoint",  # another's bucket, which a flow may read
        f"{S3A}.bucket.a.b.c.endpoint",
        f"{S3A}.bucket.other.aws.credentials.provider",
        f"{S3A}.bucket.a.b.readahead.range",
        f"{S3A}.impl.disable.cache",
        f"{S3A}.connection.maximum",
        f"{S3A}.encryption.algorithm",
        f"{S3A}.delegation.tokens.x",
        "spark.kubernetes.authenticate.submission.oauthTokenFile",
    ],
)
def test_what_says_nothing_of_where_the_lake_is_stays_free(conf):
    pipeline_file.parse(with_("lake", path="s3a://a.b/l") + f"spark: {{conf: {{{conf}: x}}}}\n")
    at_home = with_("lake", path="/lake") + f"spark: {{conf: {{{S3A}.endpoint: x}}}}\n"
    assert pipeline_file.parse(at_home).spark.conf == {f"{S3A}.endpoint": "x"}


@pytest.mark.parametrize("threads", ["0", "2", "4"])
def test_a_snapshot_by_several_threads_is_refused_with_what_it_does_to_rows(threads):
    said = refusal(with_("connect", settings={"snapshot.max.threads": threads}))
    assert "several moments" in said
    assert "first_rows" in said
    assert connector_settings.refusal("snapshot.max.threads", "1") is None
    assert connector_settings.refusal("legacy.snapshot.max.threads", "true")
