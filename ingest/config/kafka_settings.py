"""What a pipeline file says of Kafka and of Kafka Connect: where they are, and as whom they are asked. Pure."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from ingest.config.connection_settings import LOOPBACK, BesideFile, Password
from ingest.config.table_settings import Settings

OURS = {
    *(
        "bootstrap.servers",
        "group.id",
        "enable.auto.commit",
        "isolation.level",
        "auto.offset.reset",
    ),
    *("allow.auto.create.topics", "enable.idempotence", "transactional.id"),
    *("key.deserializer", "value.deserializer", "key.serializer", "value.serializer"),
}
"""Settings of clients that what is read, and how often, depends on."""

SECRET = {
    *(
        "sasl.password",
        "sasl.jaas.config",
        "sasl.oauthbearer.client.secret",
        "ssl.key.password",
        "ssl.key.pem",
    ),
    *("ssl.keystore.password", "ssl.keystore.key", "ssl.truststore.password"),
}
"""Settings that hold a secret in clear."""


OF_MEANING = re.compile(
    r"connector\.class|tasks\.max|topic\.prefix|topic\.naming\.strategy|topic\.delimiter|read\.only|"
    r"(key|value)\.converter.*|header\.converter.*|transforms.*|predicates.*|.*\.handling\.mode|time\.precision\.mode|"
    r"enable\.time\.adjuster|skipped\.operations|tombstones\.on\.delete|snapshot\.mode|include\.schema\.changes|"
    r"(database|table|column)\.(include|exclude)\.list|column\.(mask|truncate|propagate).*|message\.key\.columns|"
    r"gtid\.source\..*|schema\.history\.internal\.(kafka\.topic|store\..*|skip\..*)|signal\.(enabled\.channels|kafka\.topic)|"
    r"notification\..*|topic\.creation\.(enable|groups|schema\..*)|topic\.creation\.default\.(partitions|cleanup\.policy)|"
    r"driver\.(connectionCollation|characterSetResults)|converters|provide\.transaction\.metadata"
)
"""Settings of the connector on which depends what a change means, which changes come, and in which order."""


class Security(Settings):
    """How Kafka is reached safely, said once for all clients: ours (librdkafka), Spark's and Debezium's (Java)."""

    protocol: Literal["SSL", "SASL_SSL", "SASL_PLAINTEXT"] = Field(
        "SASL_SSL", description="As the listener of the broker has it."
    )
    mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"] = Field(
        "SCRAM-SHA-512", description="Of SASL."
    )
    user: str | None = Field(None, description="Of SASL.")
    password: Password | None = Field(None, description="Of that user.")
    ca: BesideFile | None = Field(
        None,
        description="File (PEM) with the certificate of who has signed the brokers'; without it those that the machine trusts.",
    )
    keystore: BesideFile | None = Field(
        None,
        description="File (PEM) with a private key (PKCS#8, not encrypted) and our own certificate, where brokers ask for one.",
    )

    @model_validator(mode="after")
    def _has_what_its_protocol_needs(self) -> Security:
        named = self.user is not None and self.password is not None
        if self.by_sasl and not named:
            raise ValueError(f"`{self.protocol}` needs `user` and `password`")
        if not self.by_sasl and (self.user is not None or self.password is not None):
            raise ValueError("`SSL` knows no `user` and no `password`; `SASL_SSL` does")
        if not self.by_tls and (self.ca or self.keystore):
            raise ValueError("`SASL_PLAINTEXT` knows no `ca` and no `keystore`; `SASL_SSL` does")
        return self

    @property
    def by_sasl(self) -> bool:
        """Whether a user and a password are asked for."""
        return self.protocol.startswith("SASL")

    @property
    def by_tls(self) -> bool:
        """Whether what is sent is encrypted."""
        return self.protocol.endswith("SSL")


class Kafka(Settings):
    """The broker that carries the changes."""

    bootstrap_servers: str = Field(description="`host:port[,host:port…]`")
    security: Security | None = Field(None, description="TLS and SASL.")
    properties: dict[str, str] = Field(
        default_factory=dict,
        description="Further properties of all clients, by names that librdkafka and Java both know.",
    )
    replication_factor: int = Field(1, ge=1, description="Of the topics that Connect creates.")
    retention_hours: int = Field(168, ge=1, description="How long data topics keep changes.")

    @field_validator("properties")
    @classmethod
    def _leaves_ours_alone(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if name in OURS:
                raise ValueError(
                    f"`{name}` is what the order and the number of changes depend on, and not to be changed"
                )
            if name in SECRET:
                raise ValueError(
                    f"`{name}` is a secret in clear; use `kafka.security`, which names a file or a variable"
                )
        return value

    @model_validator(mode="after")
    def _is_said_once(self) -> Kafka:
        if self.security is None:
            return self
        twice = sorted(
            name for name in self.properties if name.startswith(("sasl.", "ssl.", "security."))
        )
        if twice:
            raise ValueError(f"`security` says what `properties` says again: {', '.join(twice)}")
        hosts = [
            one.strip().rpartition(":")[0].strip("[]") for one in self.bootstrap_servers.split(",")
        ]
        if not self.security.by_tls and any(host not in LOOPBACK for host in hosts):
            raise ValueError(
                "a broker beyond this machine needs SASL_SSL: SASL_PLAINTEXT sends all in clear"
            )
        return self


class WorkersFiles(Settings):
    """Paths on the worker's machine; those of the pipeline file where they are left out."""

    kafka_ca: str | None = Field(None, description="Of `kafka.security.ca`.")
    kafka_keystore: str | None = Field(None, description="Of `kafka.security.keystore`.")
    mysql_truststore: str | None = Field(
        None,
        description="The certificate of `source.tls.ca` as a truststore of Java's (PKCS12, password `changeit`); "
        "`ingest connector truststore` makes one. Needed for Debezium to verify who MySQL is.",
    )


class Connect(Settings):
    """The Kafka Connect cluster that runs Debezium."""

    url: str = Field(description="Base URL of the REST interface.")
    user: str | None = Field(None, description="Where its REST interface asks for one.")
    password: Password | None = Field(None, description="Of that user.")
    ca: BesideFile | None = Field(
        None,
        description="File (PEM) with the certificate of who has signed that of `https://…`; without it those that Python trusts.",
    )
    password_reference: str | None = Field(
        None,
        description="How the *worker* reads MySQL's password, for example "
        "`${dir:/secrets:mysql}`. Derived from `source.password` when absent.",
    )
    kafka_password_reference: str | None = Field(
        None,
        description="How the *worker* reads Kafka's password, for the connector's own clients. Derived from "
        "`kafka.security.password` when absent.",
    )
    files: WorkersFiles = Field(
        default_factory=lambda: WorkersFiles.model_validate({}),
        description="Where the *worker* has what `kafka.security` and `source.tls` name, when it runs on another machine.",
    )
    settings: dict[str, str] = Field(
        default_factory=dict,
        description="Further settings of the connector, such as `max.batch.size`. Those that what a "
        "change means depends on cannot be changed here.",
    )

    at_failing_table: Literal["leave_out", "stop"] = Field(
        "leave_out",
        description="When the connector's task fails at a change of one table: leave that table out until the next run, "
        "which takes it whole, or stop. Without GTIDs the run stops.",
    )

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        if urlsplit(value).scheme not in ("http", "https"):
            raise ValueError("expected http://host:port or https://host:port")
        return value.rstrip("/")

    @field_validator("settings")
    @classmethod
    def _leaves_ours_alone(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if OF_MEANING.fullmatch(name):
                raise ValueError(
                    f"`{name}` is what the meaning or the order of changes depends on, and not to be changed"
                )
            if (
                name.endswith((".password", "jaas.config"))
                and "${" not in text
                and text != "changeit"
            ):
                raise ValueError(
                    f"`{name}` would stand in Connect's answers; say how the worker reads it, such as `${{dir:/folder:file}}`"
                )
        return value

    @model_validator(mode="after")
    def _hides_what_it_sends(self) -> Connect:
        if (self.user is None) != (self.password is None):
            raise ValueError("give both `user` and `password`, or none of them")
        parts = urlsplit(self.url)
        if self.user and parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise ValueError("a password for a worker beyond this machine needs `https://`")
        if self.ca and parts.scheme == "http":
            raise ValueError("`ca` is of `https://`, and `url` says `http://`")
        return self
