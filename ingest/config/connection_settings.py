"""What a pipeline file says of servers: how a password is found, and which ones flows write to and read from. Pure."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ingest.config import pem
from ingest.config.table_settings import Settings
from ingest.model.errors import IngestError


def _beside(value: str, info: ValidationInfo) -> str:
    folder = (info.context or {}).get("folder")
    if not value or folder is None or re.match(r"[a-z][a-z0-9+.-]+:", value):
        return value
    return str(Path(folder) / Path(value).expanduser())


BesideFile = Annotated[str, AfterValidator(_beside)]
"""A path beside the pipeline file, unless it is a URI."""


class Password(Settings):
    """Where a password is: a file (preferred) or an environment variable, never the text."""

    file: Path | None = Field(None, description="File that holds the password and nothing else.")
    env: str | None = Field(None, description="Environment variable that holds the password.")

    @model_validator(mode="after")
    def _exactly_one(self) -> Password:
        if (self.file is None) == (self.env is None):
            raise ValueError("give exactly one of `file` and `env`")
        return self

    @property
    def reference(self) -> str:
        """As a Connect worker reads it, by its config providers ``dir`` and ``env``."""
        if self.file is None:
            return f"${{env:{self.env}}}"
        path = self.file.expanduser().absolute()
        return f"${{dir:{path.parent}:{path.name}}}"

    def read(self, of: str = "MySQL's password", setting: str = "source.password") -> SecretStr:
        """The password itself. ``of``, ``setting``: what it is and where the file names it, for the sentence. Raises
        :class:`IngestError` when it is not there.
        """
        if self.env is not None:
            if self.env not in os.environ:
                raise IngestError(
                    "E-CONFIG-PASSWORD",
                    f"The environment variable {self.env}, which holds {of}, is not set.",
                    remedy=f"set it, or say `{setting}: {{file: …}}` in the pipeline file.",
                )
            return SecretStr(os.environ[self.env])
        assert self.file is not None
        try:
            return SecretStr(self.file.expanduser().read_text(encoding="utf-8").rstrip("\n"))
        except (
            OSError,
            RuntimeError,
            ValueError,
        ) as failure:  # of a user that is not there, of bytes that are no text
            why = failure.strerror if isinstance(failure, OSError) else _said(failure)
            raise IngestError(
                "E-CONFIG-PASSWORD",
                f"The file {self.file}, which holds {of}, cannot be read: {why}.",
                remedy=f"correct `{setting}.file` in the pipeline file.",
            ) from None

    def refuse_other_to_worker(self, of: str, setting: str) -> None:
        """Raises :class:`IngestError` where :attr:`reference` gives a worker, which takes a file to its last byte, another password than
        ours. A file that is not there is said by who reads it.
        """
        file = self.file.expanduser() if self.file is not None else None
        if file is not None and file.is_file() and file.read_bytes().endswith((b"\n", b"\r")):
            raise IngestError(
                "E-CONFIG-PASSWORD",
                f"The password file {file} ends with a line feed, which the Connect worker would take for a part of {of}.",
                means="Nothing was started.",
                remedy=f"write it without: printf %s \"$(cat '{file}')\" > NEW, and name that by `{setting}.file`.",
            )


def _said(failure: Exception) -> str:
    """Without the bytes that it may name."""
    return (
        "it is no text in UTF-8" if isinstance(failure, UnicodeError) else str(failure).rstrip(".")
    )


Kind = Literal["mysql", "redis"]
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names of this machine, to which things may be sent in clear."""


class Connection(Settings):
    """A server that flows write to, or read a table of."""

    url: str = Field(
        description="`mysql://user@host:port/database`, or `redis://[user@]host:port/number` (`rediss://` by TLS), without a password."
    )
    password: Password | None = Field(None, description="Of that user.")
    ca: BesideFile | None = Field(
        None,
        description="File with the certificate of who has signed the server's: then TLS is demanded, and the server's name checked.",
    )

    @field_validator("url")
    @classmethod
    def _is_a_url(cls, value: str) -> str:
        parts = urlsplit(value)
        known = {"mysql": "mysql", "redis": "redis", "rediss": "redis"}
        if parts.scheme not in known or not parts.hostname:
            raise ValueError("expected mysql://user@host:port/database or redis://host:port/number")
        if parts.password:
            raise ValueError("leave the password out of the URL; use `password: {file: …}`")
        _ = parts.port  # raises ValueError for a port that is not a number
        place = parts.path.strip("/")
        if parts.scheme == "mysql" and not (parts.username and place):
            raise ValueError("expected a user and a database: mysql://user@host:port/database")
        if parts.scheme != "mysql" and not re.fullmatch(r"\d*", place):
            raise ValueError("expected the number of a database: redis://host:port/0")
        return value

    @model_validator(mode="after")
    def _hides_what_it_sends(self) -> Connection:
        away = urlsplit(self.url).hostname not in LOOPBACK
        if away and self.kind == "mysql" and self.ca is None:
            raise ValueError(
                "a server beyond this machine needs `ca`: what is sent there goes by TLS"
            )
        if away and self.kind == "redis" and urlsplit(self.url).scheme != "rediss":
            raise ValueError(
                "a server beyond this machine needs `rediss://`: what is sent there goes by TLS"
            )
        return self

    @property
    def kind(self) -> Kind:
        """Of the server."""
        return "mysql" if self.url.startswith("mysql:") else "redis"

    @property
    def place(self) -> tuple[str, int, str]:
        """Host, port and database, whoever goes there."""
        parts = urlsplit(self.url)
        port = parts.port or (3306 if self.kind == "mysql" else 6379)
        return parts.hostname or "", port, unquote(parts.path.strip("/"))

    def server(self, name: str) -> Server:
        """With its password, which is read now. ``name``: of the connection. Raises :class:`IngestError` where that is not there."""
        parts = urlsplit(self.url)
        said = f"connections.{name}.password"
        password = self.password.read(f"the password of `{name}`", said) if self.password else None
        host, port, database = self.place
        return Server(
            kind=self.kind,
            name=name,
            host=host,
            port=port,
            user=unquote(parts.username or ""),
            password=password,
            database=database,
            ca=self._certificates(name),
            tls=parts.scheme == "rediss" or self.ca is not None,
        )

    def _certificates(self, name: str) -> str | None:
        if self.ca is None:
            return None
        try:
            found = pem.certificates(Path(self.ca).read_text(encoding="utf-8", errors="replace"))
            why = "" if found else "it holds no certificate in PEM"
        except OSError as failure:
            found, why = "", failure.strerror or str(failure)
        if not why:
            return found
        raise IngestError(
            "E-CONFIG-CA",
            f"{self.ca}, by which the certificate of `{name}` is checked, cannot be used: {why}.",
            remedy=f"correct `connections.{name}.ca` in the pipeline file.",
        )


class Server(Settings):
    """A connection as a client needs it; goes to Spark's tasks, on whichever machine. The password does not show in its ``repr``.
    ``database``: of Redis its number; ``ca``: the certificates themselves.
    """

    kind: Kind
    name: str
    host: str
    port: int
    user: str
    password: SecretStr | None
    database: str
    ca: str | None
    tls: bool

    @property
    def secret(self) -> str:
        """The password, in clear; empty where there is none."""
        return self.password.get_secret_value() if self.password else ""

    @property
    def shown(self) -> str:
        """As sentences name it."""
        return f"{'MySQL' if self.kind == 'mysql' else 'Redis'} at {self.host}:{self.port}"
