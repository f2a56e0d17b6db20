"""What a pipeline file says of the MySQL to read from. Pure."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator, model_validator

from ingest.config.connection_settings import BesideFile, Password
from ingest.config.table_settings import Settings
from ingest.model.topics import parse_pattern


class Tls(Settings):
    """That what goes to MySQL and comes from there is encrypted, and who is believed to be that server."""

    ca: BesideFile = Field(
        min_length=1, description="File (PEM) with the certificate of who has signed the server's."
    )
    verify: Literal["identity", "ca"] = Field(
        "identity",
        description="`identity`: the certificate names the host that `mysql` names, too. `ca`: it does not, as those that "
        "MySQL makes by itself.",
    )
    certificate: BesideFile | None = Field(
        None, description="File (PEM) with our own certificate, where the server asks for one."
    )
    key: BesideFile | None = Field(None, description="File (PEM) with its private key.")

    @model_validator(mode="after")
    def _has_both_or_none(self) -> Tls:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("give both `certificate` and `key`, or none of them")
        return self

    def of_pymysql(self) -> dict[str, Any]:
        """As arguments of ``pymysql.connect``."""
        return {
            "ssl_ca": self.ca,
            "ssl_cert": self.certificate,
            "ssl_key": self.key,
            "ssl_verify_cert": True,
            "ssl_verify_identity": self.verify == "identity",
        }


class Source(Settings):
    """The MySQL to read from, and which of its tables."""

    mysql: str = Field(description="`mysql://user@host:port`, without a password.")
    password: Password = Field(description="Of that user.")
    tls: Tls | None = Field(
        None,
        description="Demands TLS. Without it TLS is taken where the server offers it, unverified.",
    )
    tables: tuple[str, ...] = Field(
        min_length=1,
        description="Patterns `database.table` with `*` and `?`; `!` in front excludes; "
        "backquotes around a name with a dot or a wildcard in it.",
    )
    topic_names: Literal["plain", "escaped"] = Field(
        "plain",
        description="`plain`: Debezium's usual names. `escaped`: every character that Kafka does "
        "not allow, and `_` itself, becomes `_u` and its code in hexadecimal digits, so that tables whose plain names are one "
        "keep apart; the pipeline's own name is escaped, too.",
    )
    epoch_dates: Literal["quarantine", "null", "keep"] = Field(
        "quarantine",
        description="What `1970-01-01` in a NOT NULL DATE or DATETIME is: Debezium writes it for the "
        "zero date, too. `quarantine`: nobody guesses, the row is set aside. `null`: the zero date. "
        "`keep`: that moment.",
    )
    first_rows: Literal["at_once", "in_chunks"] = Field(
        "at_once",
        description="How the rows come that are there before the first run. `at_once`: by Debezium's snapshot, all of one moment, "
        "before anything is streamed; one that is interrupted begins again. `in_chunks`: beside the stream, table by table, going on "
        "where it was interrupted; needs GTIDs.",
    )
    server_id: int | None = Field(
        None, ge=1, lt=2**32, description="Replica id of the connector; derived when absent."
    )

    @field_validator("mysql")
    @classmethod
    def _is_a_url(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme != "mysql" or not parts.hostname or not parts.username:
            raise ValueError("expected mysql://user@host:port")
        if parts.password:
            raise ValueError("leave the password out of the URL; use `password: {file: …}`")
        if parts.query:
            raise ValueError("nothing behind a `?` is read; TLS is `source.tls`")
        _ = parts.port  # raises ValueError for a port that is not a number
        return value

    @field_validator("tables")
    @classmethod
    def _are_patterns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in value:
            parse_pattern(pattern)
        if all(pattern.startswith("!") for pattern in value):
            raise ValueError("every pattern excludes; name at least one table to take")
        return value

    @property
    def host(self) -> str:
        """Host part of the URL."""
        return urlsplit(self.mysql).hostname or ""

    @property
    def port(self) -> int:
        """Port part of the URL, 3306 when absent."""
        return urlsplit(self.mysql).port or 3306

    @property
    def user(self) -> str:
        """User part of the URL."""
        return unquote(urlsplit(self.mysql).username or "")
