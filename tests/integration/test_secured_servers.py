"""MySQL, Kafka and Connect that let nobody in without TLS, a certificate and a password: the real servers, snapshot to audit."""

import json
import time
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
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
from tests.support.looking import Looking
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
    file, text = settings(cli, secured)
    with only_by_tls(mysql, secured.pki), Looking() as seen:
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
        done += [cli("status", str(file)), cli("audit", str(file))]
        done += with_wrong_passwords(cli, secured, text)
        answers = of_connect(mysql, secured, pipeline_file.load(file))
    assert [line for line in seen.lines if "SparkSubmit" in line]
    assert [line for line in seen.lines if f"run {file} --once" in line]
    stand_nowhere(cli, secured, seen, done, answers)
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


def with_wrong_passwords(cli, secured, text):
    """What the commands print that are refused for a password: by Kafka, Connect, MySQL, and MySQL that the worker asks."""
    done, file = [], cli.folder / "wrong.yaml"
    for section, name, value, code in (
        ("kafka", "security", {"file": str(secured.secret("wrong"))}, "E-KAFKA-DENIED"),
        ("connect", "password", {"file": str(secured.secret("wrong"))}, "E-CONNECT-DENIED"),
        ("source", "password", {"file": str(secured.secret("wrong"))}, "E-MYSQL-LOGIN"),
        ("connect", "password_reference", f"${{dir:{secured.home}/secrets:wrong}}", "E-CONNECTOR"),
    ):
        changed = json.loads(json.dumps(text))
        if name == "security":
            changed["kafka"]["security"]["password"] = value
        else:
            changed[section][name] = value
        file.write_text(yaml.safe_dump(changed))
        for words in (("connector", "apply", str(file)), ("run", str(file), "--once")):
            done.append(cli(*words))
            assert done[-1].returncode, words
            assert code in done[-1].stderr, done[-1].stderr
    return done


def of_connect(mysql, secured, pipeline):
    """What Connect says of the connector, also of one whose task has failed, and of settings that it refuses."""
    base, plugin = "/connectors/secure", "/connector-plugins/MySqlConnector/config/validate"
    with secured.rest() as rest:
        good = rest.get(f"{base}/config").json()
        wrong = {**good, "database.password": f"${{dir:{secured.home}/secrets:wrong}}"}
        answers = {f"validate {one}": rest.put(plugin, json=one).text for one in (good, wrong)}
        assert "Access denied" in answers[f"validate {wrong}"]
        mysql.sql("ALTER USER 'ingest'@'127.0.0.1' ACCOUNT LOCK")
        try:
            rest.post(f"{base}/restart?includeTasks=true&onlyFailed=false")
            until = time.monotonic() + 120
            while "FAILED" not in (status := rest.get(f"{base}/status").text):
                assert time.monotonic() < until, status
                time.sleep(0.5)
        finally:
            mysql.sql("ALTER USER 'ingest'@'127.0.0.1' ACCOUNT UNLOCK")
        assert "Access denied" in status
        paths = ("", "/config", "/status", "/tasks", "/tasks/0/status", "/offsets", "/topics")
        answers |= {f"{base}{path}": rest.get(f"{base}{path}").text for path in paths}
        answers |= {one: rest.get(one).text for one in ("/connectors?expand=info&expand=status",)}
    answers["topics"] = b"".join(in_topics(pipeline)).decode(errors="replace")
    return answers


def stand_nowhere(cli, secured, seen, done, answers):
    """In no log, argument, topic, answer of Connect's, checkpoint, commit, row or sentence."""
    names = ("kafka", "connect", "wrong")
    secrets = {name: secured.secret(name).read_text() for name in names}
    secrets["mysql"] = cli.stack.mysql().secret("ingest").read_text()
    places = {**answers, "the screen": "".join(one.stdout + one.stderr for one in done)}
    places["an argument"] = "\n".join(seen.lines)
    folders = (cli.folder, cli.stack.home / "logs", secured.home / "logs", secured.home / "kafka")
    rows = ""
    for path in (path for folder in folders for path in Path(folder).rglob("*")):
        own = path.name == "server.properties"  # the broker's own password alone
        if path.is_file() and not own:
            places[str(path)] = path.read_bytes().decode(errors="replace")
            if path.suffix == ".parquet":
                places[f"rows of {path}"] = decoded(path)
                rows += places[f"rows of {path}"]
    assert "second" in rows
    assert "secure.orders" in rows  # the manifest
    assert len(places) > 20
    found = [
        (name, place)
        for name, word in secrets.items()
        for place, text in places.items()
        if word in text
    ]
    assert found == []


def decoded(path):
    """All that a Parquet file says, of its rows and of itself."""
    with pq.ParquetFile(path) as file:
        return f"{file.read().to_pylist()} {file.metadata.metadata} {file.schema_arrow}"


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
