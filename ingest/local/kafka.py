"""The embedded Kafka: one KRaft broker on loopback."""

from __future__ import annotations

import subprocess
import uuid
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ingest.config.java_properties import as_property
from ingest.config.resources import resource
from ingest.kafka.broker import Silent
from ingest.local import artefacts, class_archive, process
from ingest.local.java import java_binary
from ingest.model.errors import Exit, IngestError

_CONFIG = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=BROKER://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=BROKER://127.0.0.1:{port}
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
log.dirs={data}
# A topic that nobody planned is a typo, not a table.
auto.create.topics.enable=false
num.partitions=1
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
# Rows of up to 32 MB; Connect's producer and the job's consumer allow the same.
message.max.bytes=33554432
replica.fetch.max.bytes=33554432
log.retention.hours=168
"""


def java_command(part: str, home: Path, groups: tuple[str, ...], heap: str) -> list[str]:
    """A ``java`` command line for Kafka or Connect: verified jars, small heap, own log file."""
    classpath = {path.name: path for name in (*groups, "logging") for path in artefacts.jars(name)}
    return [
        java_binary(),
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=4",
        "-Djava.awt.headless=true",
        "-Dfile.encoding=UTF-8",
        f"-Dlog4j2.configurationFile={resource('connect', 'log4j2.properties')}",
        f"-Dingest.log.file={home}/logs/{part}.log",
        *class_archive.java_options(part, classpath.values()),
        "-cp",
        ":".join(str(path) for path in classpath.values()),
    ]


@dataclass(frozen=True)
class Kafka:
    """One embedded broker, in ``<home>/kafka``."""

    home: Path
    port: int
    controller_port: int

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for clients."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> process.Child:
        """Format the storage on first use, then start."""
        config, data = self.home / "kafka" / "server.properties", self.home / "kafka" / "data"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(
            _CONFIG.format(
                data=as_property(str(data)), port=self.port, controller_port=self.controller_port
            ),
            encoding="utf-8",
        )
        if not (data / "meta.properties").exists():
            # One id in 64 begins with a dash, which the tool would take for an option of its own.
            cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            tool = [
                "kafka.tools.StorageTool",
                "format",
                f"--cluster-id={cluster}",
                "-c",
                str(config),
            ]
            java = java_command("kafka-format", self.home, ("kafka",), "512m")
            done = subprocess.run([*java, *tool], capture_output=True, text=True)
            if done.returncode != 0:
                raise IngestError(
                    "E-LOCAL-KAFKA",
                    f"Kafka could not format its storage: {done.stderr.strip()[-300:]}",
                    remedy="run `ingest local reset` and start again.",
                    exit_code=Exit.FAILED,
                )
        java = java_command("kafka", self.home, ("kafka",), "512m")
        return process.start("kafka", [*java, "kafka.Kafka", str(config)], home=self.home, env={})

    def healthy(self) -> str | None:
        """None when the broker answers a metadata request, else why not."""
        settings: dict[str, Any] = {"bootstrap.servers": self.bootstrap_servers, "logger": Silent()}
        try:
            AdminClient(settings).list_topics(timeout=3)
        except KafkaException as failure:
            return str(failure.args[0].str())
        return None
