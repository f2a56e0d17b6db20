"""What a pipeline file says of the lake: where its tables are, as whom they are reached, and how long versions stay. Pure."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from ingest.config import secret_names
from ingest.config.connection_settings import LOOPBACK, Password
from ingest.config.table_settings import Settings
from ingest.model.location import in_object_store, is_s3
from ingest.schema.evolution import Profile

_OF_STORAGE = re.compile(
    r"impl|((endpoint|path\.style\.access|connection\.ssl\.enabled|accesspoint|s3\.client\.factory\.impl|access\.(key|grants)|secret\.key"
    r"|session\.token|aws\.credentials\.provider|assumed\.role|delegation\.token|security\.credential\.provider\.path"
    r"|create\.conditional\.enabled)(\..+)?)"
)
"""Of Hadoop's settings of its client for S3: where and as whom that goes, who it is, and whether a put's condition is sent."""


def is_said_by_storage(setting: str, path: str) -> bool:
    """Whether a setting of Spark's decides how it goes to the lake at this URI, as :class:`Storage` does for all who go there. Those of
    other buckets, which flows may read, do not.
    """
    if not is_s3(path) or not setting.startswith("spark.hadoop."):
        return False
    name = setting.removeprefix("spark.hadoop.")
    bucket = urlsplit(path).netloc.rpartition("@")[2]
    for of in (f"fs.s3a.bucket.{bucket}.", "fs.s3a.", "fs.s3."):
        if name.startswith(of):
            return _OF_STORAGE.fullmatch(name.removeprefix(of)) is not None
    return name == "hadoop.security.credential.provider.path"


class Storage(Settings):
    """An object store of S3's kind. Without keys each of those who go there finds its own way, as on a machine of Amazon's."""

    endpoint: str | None = Field(
        None, description="`https://host:port` of a server that is not Amazon's own."
    )
    region: str | None = Field(
        None, min_length=1, description="Of the bucket; else what AWS_REGION says, else us-east-1."
    )
    access_key: Password | None = Field(None, description="Where the id of the key is.")
    secret_key: Password | None = Field(None, description="Where the key itself is.")
    session_token: Password | None = Field(
        None, description="Where the token of a key that expires is."
    )

    @property
    def in_clear(self) -> bool:
        """Whether what is sent there is not encrypted, as on this machine alone."""
        return self.endpoint is not None and urlsplit(self.endpoint).scheme == "http"

    @field_validator("endpoint")
    @classmethod
    def _hides_what_it_sends(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
            raise ValueError("expected https://host:port")
        if parts.username or parts.password:
            raise ValueError("leave the keys out of the URL; use `access_key` and `secret_key`")
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise ValueError(
                "a server beyond this machine needs `https://`: what is sent there goes by TLS"
            )
        return value.rstrip("/")

    @model_validator(mode="after")
    def _has_both_or_none(self) -> Storage:
        if (self.access_key is None) != (self.secret_key is None):
            raise ValueError("give both `access_key` and `secret_key`, or none of them")
        if self.session_token is not None and self.access_key is None:
            raise ValueError("`session_token` belongs to `access_key` and `secret_key`")
        return self


class Catalog(Settings):
    """A Hive metastore in which each table of the lake gets an entry, so that others find it by its name. No rows go there."""

    metastore: str = Field(
        pattern=r"^thrift://[^,\s]+(,thrift://[^,\s]+)*$",
        description="`thrift://host:9083[,thrift://…]`",
    )
    database: str = Field(
        "{database}",
        pattern=r"^[A-Za-z0-9_]*\{database\}[A-Za-z0-9_]*$",
        description="What a database of MySQL's is called there, such as `mirror_{database}`.",
    )
    settings: dict[str, str] = Field(
        default_factory=dict,
        description="Further settings of Hive's client, such as `hive.metastore.use.SSL`.",
    )
    private_settings: dict[str, Password] = Field(
        default_factory=dict,
        description="Those that are secrets, such as `hive.metastore.truststore.password`, and where they are.",
    )

    @field_validator("settings")
    @classmethod
    def _keeps_its_secrets(cls, value: dict[str, str]) -> dict[str, str]:
        for name, said in value.items():
            if why := secret_names.in_plain(name, said, "lake.catalog.private_settings"):
                raise ValueError(why)
        return value


class Lake(Settings):
    """Where the Delta tables are."""

    path: str = Field(min_length=1, description="A local folder or a URI such as `s3a://…`.")
    storage: Storage = Field(
        default_factory=lambda: Storage.model_validate({}),
        description="Of a lake in an object store of S3's kind: which server, and who goes there.",
    )
    shared: bool = Field(
        False,
        description="Of a lake in a folder: all machines of Spark's cluster have it under the same path, as by NFS.",
    )
    catalog: Catalog | None = Field(
        None,
        description="Where tables are registered, so that `SELECT * FROM shop.orders` works for others.",
    )
    history_hours: int = Field(
        168,
        ge=1,
        description="How far back versions of tables stay readable; what is older is removed.",
    )
    history_versions: int = Field(
        10_000,
        ge=100,
        description="How many versions of a table stay readable at most. In a local folder each thousand makes a MERGE "
        "some 10 ms slower.",
    )
    sync: bool = Field(
        True,
        description="Whether a batch is on the disk before it is published, so that a power cut loses nothing of it. `false` "
        "is faster by some milliseconds a batch and table; after a power cut the tables may then lack what was published.",
    )
    change_log_suffix: str = Field(
        "__changes",
        pattern=r"^[A-Za-z0-9_-]{1,32}$",
        description="Behind a table's name, the folder of its change log: `shop/orders__changes`.",
    )
    profile: Profile = Field(
        "standard",
        description="`standard`: tables begin plain, and column mapping or type widening is switched on for "
        "a table when a DDL first needs it, so that RENAME, DROP and wider types write no data. `compat`: "
        "never, so that every reader of Delta stays able to read it; such DDLs write the table anew.",
    )

    @field_validator("path")
    @classmethod
    def _is_one_place_to_all(cls, value: str) -> str:
        if in_object_store(value):
            if {"%", "#", "?", "\\"} & set(value):
                raise ValueError(
                    "a URI with `%`, `#`, `?` or a backslash is not the same place to all who go there"
                )
            if ":" in urlsplit(value).netloc.partition("@")[0] and "@" in value:
                raise ValueError("leave the keys out of the URI; use `lake.storage`")
        return value

    @model_validator(mode="after")
    def _says_nothing_that_nobody_reads(self) -> Lake:
        if self.storage != Storage.model_validate({}) and not is_s3(self.path):
            raise ValueError(
                "`storage` is of a lake in an object store of S3's kind: `path: s3a://bucket/folder`"
            )
        return self
