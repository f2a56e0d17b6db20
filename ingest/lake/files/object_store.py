"""Where and as whom an object store is reached, said once for all who go there: obstore, delta-rs, and Hadoop's s3a in Spark's JVM.

Endpoint and region are no secrets and stand in Spark's settings. Keys go by the environment of this process and of those that it
starts: a setting of Spark's would stand in the JVM's command line.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from ingest.config.lake_settings import Lake
from ingest.model.location import is_s3

_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def lend(lake: Lake) -> None:
    """Have this process, and those that it starts from here on, reach the lake's store. Raises :class:`IngestError` where a key is not
    there. Before Spark is started: its JVM, and by that its executors, take the keys from there.
    """
    if not is_s3(lake.path):
        return
    storage = lake.storage
    os.environ["AWS_REGION"] = storage.region
    if storage.endpoint is not None:
        os.environ["AWS_ENDPOINT_URL"] = storage.endpoint
        os.environ["AWS_ALLOW_HTTP"] = str(storage.endpoint.startswith("http:")).lower()
    if storage.access_key is None:
        return
    said = (storage.access_key, storage.secret_key, storage.session_token)
    settings = ("access_key", "secret_key", "session_token")
    for name, setting, key in zip(_KEYS, settings, said, strict=True):
        os.environ.pop(name, None)
        if key is not None:
            of = f"the {setting.replace('_', ' ')} of the object store"
            os.environ[name] = key.read(of, f"lake.storage.{setting}").get_secret_value()


def spark_settings(lake: Lake) -> dict[str, str]:
    """What Spark needs to know of such a lake, without its keys."""
    if not is_s3(lake.path):
        return {}
    storage, s3a = lake.storage, "spark.hadoop.fs.s3a"
    found = {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
        f"{s3a}.endpoint.region": storage.region,
    }
    if storage.endpoint is not None:
        found |= {
            f"{s3a}.endpoint": storage.endpoint,
            f"{s3a}.path.style.access": "true",
            f"{s3a}.connection.ssl.enabled": str(
                urlsplit(storage.endpoint).scheme == "https"
            ).lower(),
        }
    return found
