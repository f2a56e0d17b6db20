"""Where and as whom an object store is reached, said once for all who go there: obstore, delta-rs, and Hadoop's s3a in Spark's JVM.

Endpoint and region are no secrets and stand in Spark's settings. Keys go by the environment of this process and of those that it
starts: a setting of Spark's would stand in the JVM's command line.
"""

from __future__ import annotations

import os

from ingest.config.connection_settings import Password
from ingest.config.lake_settings import Lake
from ingest.model.location import is_s3

_KEYS = {
    "AWS_ACCESS_KEY_ID": "access_key",
    "AWS_SECRET_ACCESS_KEY": "secret_key",
    "AWS_SESSION_TOKEN": "session_token",
}
_REGION, _ENDPOINT, _IN_CLEAR = "AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP"
_OTHERS = (
    "AWS_ENDPOINT",
    "AWS_ENDPOINT_URL_S3",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    "AWS_SKIP_SIGNATURE",
    "AWS_CONDITIONAL_PUT",
    "AWS_COPY_IF_NOT_EXISTS",
    "AWS_S3_LOCKING_PROVIDER",
    "AWS_S3_ALLOW_UNSAFE_RENAME",
    "AWS_BUCKET",
    "AWS_BUCKET_NAME",
    "AWS_S3_EXPRESS",
)
"""Names by which one of those who go there would find another store than the others, or leave conditions out: the pipeline file alone
says where the lake is.
"""


def lend(lake: Lake) -> None:
    """Have this process, and those that it starts from here on, reach the lake's store. Raises :class:`IngestError` where a key is not
    there. Before Spark is started: its JVM, and by that its executors, take the keys from there.
    """
    if not is_s3(lake.path):
        return
    storage = lake.storage
    for name in (*_OTHERS, _ENDPOINT, _IN_CLEAR):
        os.environ.pop(name, None)
    os.environ[_REGION] = region(lake)
    if storage.endpoint is not None:
        os.environ[_ENDPOINT] = storage.endpoint
        os.environ[_IN_CLEAR] = str(storage.in_clear).lower()
    for name, key in keys(lake).items():
        os.environ.pop(name, None)
        if key is not None:
            os.environ[name] = key


def keys(lake: Lake) -> dict[str, str | None]:
    """What the pipeline file's references hold now, by the names of an environment; None: no such key. Empty where it names none. Raises
    :class:`IngestError` where one is not there.
    """
    storage = lake.storage
    if storage.access_key is None:
        return {}
    found = dict[str, str | None]()
    for name, setting in _KEYS.items():
        key: Password | None = getattr(storage, setting)
        of = f"the {setting.replace('_', ' ')} of the object store"
        found[name] = key.read(of, f"lake.storage.{setting}").get_secret_value() if key else None
    return found


def are_of_the_start(lake: Lake) -> bool:
    """Whether keys are, or one is, of the environment of this process, which is that of its start."""
    storage = lake.storage
    said = [getattr(storage, setting) for setting in _KEYS.values()]
    named = [key for key in said if key is not None]
    return any(key.env for key in named) if named else next(iter(_KEYS)) in os.environ


def region(lake: Lake) -> str:
    """As the file says, else as the machine does."""
    said = lake.storage.region, os.environ.get(_REGION), os.environ.get("AWS_DEFAULT_REGION")
    return next(filter(None, said), "us-east-1")


def spark_settings(lake: Lake) -> dict[str, str]:
    """What Spark needs to know of such a lake, without its keys."""
    if not is_s3(lake.path):
        return {}
    storage, s3a = lake.storage, "spark.hadoop.fs.s3a"
    found = {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
        f"{s3a}.endpoint.region": region(lake),
    }
    if storage.endpoint is not None:
        found |= {
            f"{s3a}.endpoint": storage.endpoint,
            f"{s3a}.path.style.access": "true",
            f"{s3a}.connection.ssl.enabled": str(not storage.in_clear).lower(),
        }
    return found
