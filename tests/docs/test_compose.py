"""docker-compose.yml offers the same parts as the embedded stack: held against lock and settings.

Public images cannot be pulled on the machines this project is built on; what can be known without
a Docker engine is known here.
"""

import re

import yaml

from ingest.config.resources import resource
from ingest.local import artefacts
from ingest.local import kafka as embedded_kafka
from ingest.local import mysql as embedded_mysql

ROOT = resource("docker-compose.yml").parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]


def settings(text: str) -> dict[str, str]:
    pairs = (line.split("=", 1) for line in text.splitlines() if re.match(r"[\w.-]+=", line))
    return {key.strip(): value.strip() for key, value in pairs}


def test_images_have_the_locked_versions():
    versions = {
        entry.artifact: entry.version for group in artefacts.locked().values() for entry in group
    }
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{versions['kafka_2.13']}"
    debezium = versions["debezium-connector-mysql"]
    assert SERVICES["connect"]["image"] == f"quay.io/debezium/connect:{debezium}"
    assert SERVICES["mysql"]["image"] == "mysql:8.4"


def test_mysql_has_the_embedded_server_s_binlog_settings():
    words = [word.removeprefix("--") for word in SERVICES["mysql"]["command"]]
    assert "skip-name-resolve" in words
    assert "skip-name-resolve" in embedded_mysql._CONFIG.splitlines()
    given = settings("\n".join(words))
    embedded = {k.replace("_", "-"): v for k, v in settings(embedded_mysql._CONFIG).items()}
    assert given == {key: embedded[key] for key in given}
    assert {"binlog-row-image", "binlog-row-metadata", "gtid-mode", "log-bin"} <= set(given)


def test_kafka_has_the_embedded_broker_s_settings():
    embedded = settings(embedded_kafka._CONFIG)
    local = {
        "listeners",
        "advertised.listeners",
        "listener.security.protocol.map",
        "log.dirs",
        "controller.quorum.voters",
        "inter.broker.listener.name",
    }
    for key, value in SERVICES["kafka"]["environment"].items():
        name = key.removeprefix("KAFKA_").lower().replace("_", ".")
        if name not in local:
            assert embedded[name] == value, name


def test_connect_has_the_embedded_worker_s_settings():
    text = resource("connect", "worker.properties").read_text()
    embedded = settings(text.replace("@EXACTLY_ONCE@", "enabled"))
    names = {"BOOTSTRAP_SERVERS", "CONNECT_CONFIG_PROVIDERS_DIR_PARAM_ALLOWED_PATHS"}
    for key, value in SERVICES["connect"]["environment"].items():
        name = key.removeprefix("CONNECT_").lower().replace("_", ".")
        if key not in names:
            assert embedded[name] == value, name


def test_every_port_is_on_loopback_and_every_part_has_a_health_check_and_starts_again():
    for name, service in SERVICES.items():
        assert service["restart"] == "unless-stopped", name
        assert "healthcheck" in service, name
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), name


def test_no_password_stands_in_the_file_or_in_a_command_line():
    text = (ROOT / "docker-compose.yml").read_text()
    assert not re.search(r"PASSWORD:", text)
    for service in SERVICES.values():
        assert "/run/secrets/mysql" not in str([service.get("command"), service["healthcheck"]])
    assert set(COMPOSE["secrets"]) == {"mysql_root", "mysql_ingest"}


def test_data_lives_in_named_volumes():
    used = {
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", ())
        if not volume.startswith(".")
    }
    assert used == set(COMPOSE["volumes"])
