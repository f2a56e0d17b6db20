"""A Hive metastore, as far as a lake's tables need it: databases, and entries that say where a Delta table is.

An entry is what Spark's own ``CREATE TABLE … USING DELTA LOCATION`` makes (Spark 4.2 with Delta 4.4, held by ``test_catalog``): columns are
not in it. Readers take them from the table's log, so a DDL needs nothing done here.
Asked by Hive's own client in Spark's JVM, which opens a connection for each look: none is left to go stale.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from ingest.config.connection_settings import Password
from ingest.config.lake_settings import Catalog
from ingest.model.catalog_names import CatalogEntry, CatalogName
from ingest.model.errors import IngestError

_PROVIDER, _ID, DELTA = "spark.sql.sources.provider", "ingest.table-id", "delta"
_LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_INPUT = "org.apache.hadoop.mapred.SequenceFileInputFormat"
_OUTPUT = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"
_PATIENCE = {
    "hive.metastore.client.socket.timeout": "20s",
    "hive.metastore.connect.retries": "1",
    "hive.metastore.failure.retries": "0",
}
"""A catalogue that is away is asked again at the next look."""


class CatalogError(Exception):
    """The catalogue refuses, in its words; ``away``: or does not answer."""

    def __init__(self, words: str, *, away: bool) -> None:
        super().__init__(words)
        self.away = away


@contextmanager
def _told() -> Iterator[None]:
    """What Java raises, as the first sentence of it."""
    try:
        yield
    except Py4JJavaError as failure:
        lines = str(failure.java_exception.toString()).splitlines() or ["no reason given"]
        away = any(word in lines[0] for word in ("TTransportException", "Could not connect"))
        raise CatalogError(lines[0][:300], away=away) from None


@dataclass(frozen=True)
class Metastore:
    """One connection."""

    _jvm: Any
    _client: Any

    @_told()
    def entry(self, name: CatalogName) -> CatalogEntry | None:
        """What stands under a name; None where nothing does. Raises :class:`CatalogError`, as all of these do."""
        if not self._client.tableExists(name.database, name.table):
            return None
        table = self._client.getTable(name.database, name.table)
        place, held = table.getSd(), table.getParameters()
        provider = str(held.get(_PROVIDER) or table.getTableType())
        serde = place.getSerdeInfo() if place else None
        path = serde.getParameters().get("path") if serde and serde.getParameters() else None
        location = path or (place.getLocation() if place else None)
        return CatalogEntry(str(location or ""), provider, str(held.get(_ID) or ""))

    @_told()
    def create(self, name: CatalogName, entry: CatalogEntry) -> None:
        """An entry, and its database where there is none."""
        package = self._jvm.org.apache.hadoop.hive.metastore.api
        if not self._client.getAllDatabases().contains(name.database):
            self._client.createDatabase(package.Database(name.database, "", None, self._map({})))
        place = package.StorageDescriptor()
        columns = self._jvm.java.util.ArrayList()
        columns.add(package.FieldSchema("col", "array<string>", "from deserializer"))
        place.setCols(columns)
        home = str(self._client.getDatabase(name.database).getLocationUri()).rstrip("/")
        # Hive wants a folder of its own of each; Spark looks at `path` alone, and leaves this one alone.
        place.setLocation(f"{home}/{name.table}-__PLACEHOLDER__")
        place.setInputFormat(_INPUT)
        place.setOutputFormat(_OUTPUT)
        parameters = self._map({"serialization.format": "1", "path": entry.location})
        place.setSerdeInfo(package.SerDeInfo(None, _LAZY, parameters))
        place.setNumBuckets(-1)
        place.setBucketCols(self._jvm.java.util.ArrayList())
        place.setSortCols(self._jvm.java.util.ArrayList())
        place.setParameters(self._map({}))
        table = package.Table()
        table.setDbName(name.database)
        table.setTableName(name.table)
        table.setSd(place)
        table.setPartitionKeys(self._jvm.java.util.ArrayList())
        table.setTableType("EXTERNAL_TABLE")
        said = {
            "EXTERNAL": "TRUE",
            _PROVIDER: entry.provider,
            "spark.sql.sources.schema": '{"type":"struct","fields":[]}',
            "spark.sql.partitionProvider": "catalog",
            "spark.sql.create.version": pyspark.__version__,
            _ID: entry.id,
        }
        table.setParameters(self._map(said))
        self._client.createTable(table)

    @_told()
    def move(self, name: CatalogName, location: str) -> None:
        """Have an entry say another place."""
        table = self._client.getTable(name.database, name.table)
        table.getSd().getSerdeInfo().putToParameters("path", location)
        self._client.alter_table(name.database, name.table, table)

    @_told()
    def identify(self, name: CatalogName, table_id: str) -> None:
        """Have an entry say which table is at its place: one that was made anew has an id of its own."""
        table = self._client.getTable(name.database, name.table)
        table.putToParameters(_ID, table_id)
        self._client.alter_table(name.database, name.table, table)

    def _map(self, said: dict[str, str]) -> Any:
        found = self._jvm.java.util.HashMap()
        for key, value in said.items():
            found.put(key, value)
        return found


def _said(catalog: Catalog) -> dict[str, str]:
    """The file's settings of Hive's client. Raises :class:`CatalogError` where a secret is not there."""
    return {
        **catalog.settings,
        **{name: _read(name, where) for name, where in catalog.private_settings.items()},
    }


def _read(name: str, where: Password) -> str:
    setting = f"lake.catalog.private_settings.{name}"
    try:
        return where.read(f"Hive's setting {name}", setting).get_secret_value()
    except IngestError as failure:
        raise CatalogError(f"{failure.what.rstrip('.')} (`{setting}`)", away=True) from None


@contextmanager
def connected(session: SparkSession, catalog: Catalog) -> Iterator[Metastore]:
    """For one look. Raises :class:`CatalogError` where there is no connection."""
    jvm: Any = session._jvm
    hive = jvm.org.apache.hadoop.hive
    with _told():
        conf = hive.conf.HiveConf()
        for key, value in {**_PATIENCE, **_said(catalog)}.items():
            conf.set(key, value)
        conf.set("hive.metastore.uris", catalog.metastore)
        client = hive.metastore.HiveMetaStoreClient(conf)
    try:
        yield Metastore(jvm, client)
    finally:
        with suppress(Py4JError):  # how it ends hides nothing
            client.close()
