"""MySQL, Kafka and Connect that let nobody in without TLS, a certificate and a password: the real servers, snapshot to audit."""

import json
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import yaml
from confluent_kafka import TopicPartition

from ingest.config import pipeline_file
from ingest.config.connection_settings import Connection
from ingest.flows import mysql_server
from ingest.kafka import broker
from ingest.model.errors import IngestError
from ingest.source.connector import Connector
from ingest.start.preflight import refuse_unfit
from tests.support.secured import Pki, Secured


@pytest.fixture(scope="module")
def secured(stack, tmp_path_factory):
    running = Secured(tmp_path_factory.mktemp("secured"), stack.home / "secrets")
    try:
        running.start()
        yield running
    finally:
        running.stop()


@contextmanager
def only_by_tls(server, pki):
    """The stack's MySQL with certificates of ours, and closed to all who come without TLS."""
    names = ("ssl_ca", "ssl_cert", "ssl_key")
    before = {name: server.sql(f"SELECT @@{name}")[0][0] for name in names}
    ours = dict(zip(names, (pki.ca, pki.home / "server.pem", pki.home / "server.key"), strict=True))
    try:
        server.sql(
            *(f"SET GLOBAL {name} = '{path}'" for name, path in ours.items()),
            "ALTER INSTANCE RELOAD TLS",
            "SET GLOBAL require_secure_transport = ON",
            "ALTER USER 'ingest'@'127.0.0.1' REQUIRE X509",
        )
        yield
    finally:
        server.sql(
            "ALTER USER 'ingest'@'127.0.0.1' REQUIRE NONE",
            "SET GLOBAL require_secure_transport = OFF",
            *(f"SET GLOBAL {name} = '{path}'" for name, path in before.items()),
            "ALTER INSTANCE RELOAD TLS",
        )


def settings(cli, secured, **spark):
    """The pipeline file of `shop`, for these servers."""
    file, pki, mysql = cli.folder / "secure.yaml", secured.pki, cli.stack.mysql()
    text = {
        "name": "secure",
        "source": {
            "mysql": f"mysql://ingest@127.0.0.1:{mysql.port}",
            "password": {"file": str(mysql.secret("ingest"))},
            "tables": ["secure.*"],
            "tls": {
                "ca": str(pki.ca),
                "certificate": str(pki.home / "client.pem"),
                "key": str(pki.home / "client.key"),
            },
        },
        "kafka": {
            "bootstrap_servers": secured.bootstrap_servers,
            "security": {
                "user": "ingest",
                "password": {"file": str(secured.secret("kafka"))},
                "ca": str(pki.ca),
                "keystore": str(pki.home / "client-all.pem"),
            },
        },
        "connect": {
            "url": secured.url,
            "user": "ingest",
            "password": {"file": str(secured.secret("connect"))},
            "ca": str(pki.ca),
            "files": {"mysql_truststore": str(cli.folder / "mysql.p12")},
            "settings": {
                "database.ssl.keystore": str(pki.home / "client.p12"),
                "database.ssl.keystore.password": f"${{dir:{secured.home / 'secrets'}:keystore}}",
            },
        },
        "lake": {"path": str(cli.folder / "lake")},
        "spark": {"driver_memory": "1g", **spark},
    }
    file.write_text(yaml.safe_dump(text))
    return file, text


def test_they_let_in_who_has_it_right_and_what_they_refuse_is_said_in_a_sentence(
    cli, mysql, secured
):
    mysql.database("secure")
    mysql.sql("CREATE TABLE secure.orders (id INT PRIMARY KEY)")
    file, text = settings(cli, secured)
    with only_by_tls(mysql, secured.pki):
        made = cli("connector", "truststore", str(file), "-o", str(cli.folder / "mysql.p12"))
        assert made.returncode == 0, made.stderr
        applied(file)
        assert secured.rest().get("/connectors").json() == ["secure"]
        refused_in_a_sentence(cli, secured, text)
        secured.rest().delete("/connectors/secure")


@pytest.mark.long
def test_a_pipeline_over_secured_servers_comes_out_equal_and_its_passwords_stand_nowhere(
    cli, mysql, secured
):
    mysql.database("secure")
    mysql.sql(
        "CREATE TABLE secure.orders (id INT PRIMARY KEY, note VARCHAR(40))",
        "INSERT INTO secure.orders VALUES (1, 'one'), (2, 'two')",
    )
    file, _ = settings(cli, secured)
    with only_by_tls(mysql, secured.pki):
        made = cli("connector", "truststore", str(file), "-o", str(cli.folder / "mysql.p12"))
        assert made.returncode == 0, made.stderr
        done = [cli.once(file)]
        mysql.sql(
            "UPDATE secure.orders SET note = 'second' WHERE id = 2",
            "DELETE FROM secure.orders WHERE id = 1",
            "ALTER TABLE secure.orders ADD COLUMN more INT DEFAULT 7",
            "INSERT INTO secure.orders VALUES (3, 'three', 3)",
        )
        settings(cli, secured, lane="columns", merge_engine="spark")  # by Java's clients
        done.append(cli.once(file))
        assert [one.returncode for one in done] == [0, 0], [one.stderr for one in done]
        equal, said = cli.audit(file)
        assert equal, said
        connector = secured.rest().get("/connectors/secure/config").text
        stand_nowhere(cli, secured, done, connector, pipeline_file.load(file))
        secured.rest().delete("/connectors/secure")


def refused_in_a_sentence(cli, secured, text):
    wrong, other = cli.folder / "wrong", Pki(cli.folder / "other")
    wrong.write_text("canary-wrong")
    file = cli.folder / "wrong.yaml"
    for section, path, value, code in (
        ("kafka", ("security", "password"), {"file": str(wrong)}, "E-KAFKA-DENIED"),
        ("kafka", ("security", "ca"), str(other.ca), "E-KAFKA-DENIED"),
        ("kafka", ("properties",), {"sasl.no.such": "1"}, "E-CONFIG-SETTING"),
        ("kafka", ("properties",), {"no.such": "1"}, "E-KAFKA-PROPERTY"),
        ("connect", ("password",), {"file": str(wrong)}, "E-CONNECT-DENIED"),
        ("connect", ("ca",), str(other.ca), "E-CONNECT-AWAY"),
        ("connect", ("files",), {}, "E-CONNECT-TRUSTSTORE"),
        ("source", ("tls", "ca"), str(other.ca), "E-MYSQL-AWAY"),
        ("source", ("tls",), None, "E-MYSQL-LOGIN"),
    ):
        changed = json.loads(json.dumps(text))
        place = changed[section]
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value
        file.write_text(yaml.safe_dump(changed))
        with pytest.raises(IngestError) as refused:
            applied(file)
        assert refused.value.code == code, refused.value
        assert "canary" not in str(refused.value)


def applied(file):
    """What `ingest connector apply` does."""
    pipeline = pipeline_file.load(file)
    refuse_unfit(pipeline)
    Connector(pipeline).apply()


def stand_nowhere(cli, secured, done, connector, pipeline):
    """In no log, argument, topic, answer of Connect's, checkpoint, commit or sentence."""
    found = {name: secured.secret(name).read_bytes() for name in ("kafka", "connect")} | {
        "mysql": cli.stack.mysql().secret("ingest").read_bytes()
    }
    places = {
        "the screen": "".join(one.stdout + one.stderr for one in done).encode(),
        "Connect's answer": connector.encode(),
        "a topic": b"".join(in_topics(pipeline)),
        "an argument": json.dumps(
            [one.info["cmdline"] for one in psutil.process_iter(["cmdline"])]
        ).encode(),
    }
    folders = (cli.folder, cli.stack.home / "logs", secured.home / "logs", secured.home / "kafka")
    for folder in folders:
        for path in Path(folder).rglob("*"):
            own = path.name == "server.properties"  # the broker's own password alone
            if path.is_file() and not own:
                places[str(path)] = path.read_bytes()
    assert len(places) > 20
    seen = [
        (name, place)
        for name, word in found.items()
        for place, text in places.items()
        if word in text
    ]
    assert seen == []


def in_topics(pipeline):
    """All bytes of all topics."""
    consumer = broker.client(pipeline, {**broker.FOLLOWING, "isolation.level": "read_uncommitted"})
    try:
        topics = consumer.list_topics(timeout=10).topics
        for name, topic in topics.items():
            for partition in topic.partitions:
                place = TopicPartition(name, partition, 0)
                consumer.assign([place])
                for message in broker.unread(consumer, place):
                    if message.error() is None:
                        yield (message.key() or b"") + (message.value() or b"")
    finally:
        consumer.close()


@pytest.mark.long
def test_a_flow_s_mysql_is_checked_by_the_certificates_that_go_with_its_tasks(
    cli, mysql, secured, tmp_path
):
    server, other = cli.stack.mysql(), Pki(tmp_path)

    def connected(ca):
        said = {"file": server.secret("root")}
        url = f"mysql://root@127.0.0.1:{server.port}/mysql"
        return mysql_server.connect(Connection(url=url, password=said, ca=str(ca)).server("x"))

    with only_by_tls(mysql, secured.pki):
        with connected(secured.pki.ca).cursor() as cursor:
            cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
            assert cursor.fetchone()[1]
        with pytest.raises(IngestError, match="certificate verify failed"):
            connected(other.ca)
