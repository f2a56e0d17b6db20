"""Whether a version of a Delta table can still be read: its log may name it, and VACUUM have taken its files."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession


def at(session: SparkSession, path: str, version: int | None) -> DataFrame:
    """The table as it was; without a version as it is whenever it is read."""
    reader = session.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(path)


def readable(session: SparkSession, path: str, version: int) -> bool:
    """On a local disk each of its files is looked for; elsewhere its log's word is taken."""
    try:
        files = at(session, path, version).inputFiles()
    except PySparkException:
        return False
    local = [urlsplit(one) for one in files]
    return all(Path(unquote(one.path)).exists() for one in local if one.scheme == "file")
