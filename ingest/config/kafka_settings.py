"""What a pipeline file says of Kafka and of Kafka Connect: where they are, and as whom they are asked. Pure."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from ingest.config import connector_settings
from ingest.config.connection_settings import LOOPBACK, BesideFile, Password
from ingest.config.table_settings import Settings

_OURS = re.compile(
    r"bootstrap\.servers|metadata\.broker\.list|group\..*|enable\.auto\..*|isolation\.level|auto\.offset\.reset|allow\.auto\.create\.topics"
    r"|enable\.idempotence|transactional\.id|(key|value)\.(de)?serializer|(request\.required\.)?acks|(message\.send\.max\.)?retries"
    r"|max\.in\.flight.*|topic\.blacklist|enable\.partition\.eof|test\..*|plugin\..*|enable\.ssl\..*|.*interceptor.*"
)
"""Properties of clients that what is read, how often, and from whom, depends on."""

_SECRET = re.compile(r"(?i).*(password|passphrase|secret|jaas\.config|keystore\.key|key\.pem)$")
"""Properties that hold a secret in clear."""


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
        min_length=1,
        description="File (PEM) with the certificate of who has signed the brokers'; without it those that the machine trusts.",
    )
    keystore: BesideFile | None = Field(
        None,
        min_length=1,
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
        description="Further properties of our clients and Spark's, by names that librdkafka and Java both know.",
    )
    replication_factor: int = Field(1, ge=1, description="Of the topics that Connect creates.")
    retention_hours: int = Field(
        168,
        ge=1,
        description="How long data topics keep changes. Where the file says it, topics that are there already are kept for no less.",
    )

    @field_validator("properties")
    @classmethod
    def _leaves_ours_alone(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if _OURS.fullmatch(name):
                raise ValueError(
                    f"`{name}` is what the order and the number of changes depend on, or from whom they come, and not to be changed"
                )
            if _SECRET.fullmatch(name):
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
        hosts = [urlsplit(f"//{one.strip()}").hostname for one in self.bootstrap_servers.split(",")]
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

    @field_validator("*")
    @classmethod
    def _are_the_worker_s(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith("/"):
            raise ValueError(
                "expected a path from the root, as the worker's own folder is not known here"
            )
        return value


class Connect(Settings):
    """The Kafka Connect cluster that runs Debezium."""

    url: str = Field(description="Base URL of the REST interface.")
    user: str | None = Field(None, description="Where its REST interface asks for one.")
    password: Password | None = Field(None, description="Of that user.")
    ca: BesideFile | None = Field(
        None,
        min_length=1,
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
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("expected http://host:port or https://host:port")
        if parts.username or parts.password:
            raise ValueError(
                "leave user and password out of the URL; use `connect.user` and `connect.password`"
            )
        _ = parts.port  # raises ValueError for a port that is not a number
        return value.rstrip("/")

    @field_validator("settings")
    @classmethod
    def _leaves_ours_alone(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if why := connector_settings.refusal(name, text):
                raise ValueError(why)
        return value

    @field_validator("password_reference", "kafka_password_reference")
    @classmethod
    def _is_a_reference(cls, value: str | None) -> str | None:
        if value is not None and not connector_settings.REFERENCE.fullmatch(value):
            raise ValueError(
                "expected how the worker reads it, such as `${dir:/folder:file}`, never the password itself"
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
