"""Tables registered in a real Hive metastore: what stands there, whom it belongs to, and that another Spark reads by it."""

import subprocess
import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake

from ingest.config.lake_settings import Catalog
from ingest.job.registering import AGAIN, Registering
from ingest.lake import metastore
from ingest.lake.metastore import CatalogError
from ingest.model.catalog_names import CatalogName, Entry
from tests.support import hive


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    server = hive.start(tmp_path_factory.mktemp("hive"))
    yield server
    server.stop()


@pytest.fixture
def catalog(running):
    return Catalog(metastore=running.uri, database="mirror_{database}")


def state(path, log=None, hidden=None):
    log = SimpleNamespace(path=str(log)) if log else None
    return SimpleNamespace(path=str(path), version=1, log=log, hidden=hidden, position=None)


def manifest(**tables):
    return SimpleNamespace(tables={name.replace("__", "."): one for name, one in tables.items()})


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def registering(spark, catalog):
    said = []

    def make(name="p", **settings):
        lake = SimpleNamespace(catalog=catalog.model_copy(update=settings))
        clock = Clock()
        made = Registering(spark, SimpleNamespace(name=name, lake=lake), said.append, clock)
        made.clock_, made.said = clock, said
        return made

    return make


def test_each_table_and_its_log_get_an_entry_that_goes_where_the_table_goes(
    spark, catalog, registering, tmp_path
):
    newest = manifest(a__orders=state(tmp_path / "orders", log=tmp_path / "orders__changes"))
    first = registering()
    first.finish(newest)
    with metastore.connected(spark, catalog) as held:
        for name in ("orders", "orders__changes"):
            entry = held.entry(CatalogName("mirror_a", name))
            assert entry == Entry(f"file:{tmp_path / name}", "p")
    assert first.said[0].endswith(", as mirror_a.orders")
    registering().finish(newest)
    assert len(first.said) == 2
    registering().finish(manifest(a__orders=state(tmp_path / "moved")))
    with metastore.connected(spark, catalog) as held:
        assert held.entry(CatalogName("mirror_a", "orders")).location == f"file:{tmp_path}/moved"


def test_an_entry_of_another_pipeline_stands_and_is_said_once(registering, tmp_path):
    registering("p").finish(manifest(b__t=state(tmp_path / "one")))
    other = registering("q")
    newest = manifest(b__t=state(tmp_path / "two"), b__u=state(tmp_path / "three"))
    other.finish(newest)
    refused = [one for one in other.said if "is not of this pipeline" in one]
    assert len(refused) == 1
    assert f"leads to file:{tmp_path}/one" in refused[0]
    assert other.said[-1].endswith("as mirror_b.u")


def test_a_catalogue_that_is_away_is_said_once_and_asked_again_after_a_while(
    registering, catalog, tmp_path
):
    away = registering(metastore="thrift://127.0.0.1:1")
    newest = manifest(c__t=state(tmp_path / "t"))
    for _ in range(3):
        away.look(newest)
        away._wait()
        away.clock_.now += AGAIN + 1
    assert len(away.said) == 1
    assert "cannot be used" in away.said[0]
    away.pipeline.lake.catalog = catalog
    away.look(newest)
    away._wait()
    assert away.said[-1].endswith("as mirror_c.t")


def test_what_a_catalogue_refuses_is_one_sentence(spark, catalog, tmp_path):
    name = CatalogName("d", "t")
    with metastore.connected(spark, catalog) as held:
        held.create(name, f"file:{tmp_path}", "p")
    refused = pytest.raises(CatalogError, match="AlreadyExists")
    with refused, metastore.connected(spark, catalog) as held:
        held.create(name, f"file:{tmp_path}", "p")


OTHER = """
import sys
from pathlib import Path
from ingest.job import spark_session
uri, folder = sys.argv[1:]
conf = {"spark.sql.catalogImplementation": "hive", "spark.hadoop.hive.metastore.uris": uri, "spark.sql.warehouse.dir": folder}
session = spark_session.create("other", master="local[1]", driver_memory="1g", conf=conf, log=Path(folder, "spark.log"))
print(session.sql("SELECT sum(id), count(more) FROM mirror_e.orders").collect())
session.sql(f"CREATE DATABASE own LOCATION '{folder}/own'")
session.sql(f"CREATE TABLE own.orders USING DELTA LOCATION '{folder}/orders'")
hive = session._jvm.org.apache.hadoop.hive
conf = hive.conf.HiveConf()
conf.set("hive.metastore.uris", uri)
client = hive.metastore.HiveMetaStoreClient(conf)
for database in ("mirror_e", "own"):
    one = client.getTable(database, "orders")
    place = one.getSd()
    print([str(part) for part in (one.getTableType(), place.getInputFormat(), place.getOutputFormat(), place.getCols().toString(),
        place.getSerdeInfo().toString(), place.getLocation().rpartition("/")[2], one.getPartitionKeys().toString(), sorted(
            (k, v) for k, v in dict(one.getParameters()).items() if k not in ("ingest.pipeline", "transient_lastDdlTime")))])
"""


@pytest.mark.long
def test_another_spark_reads_by_name_and_an_entry_is_as_spark_s_own(registering, running, tmp_path):
    place = str(tmp_path / "orders")
    DeltaTable.create(place, Schema.from_arrow(pa.schema([("id", pa.int64())])))
    registering().finish(manifest(e__orders=state(place)))
    # As a DDL does: nothing is done in the catalogue.
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "more": pa.array([None, "x"])})
    write_deltalake(place, rows, mode="append", schema_mode="merge")
    done = subprocess.run(
        [sys.executable, "-c", OTHER, running.uri, str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    counts, ours, theirs = done.stdout.strip().splitlines()
    assert counts == "[Row(sum(id)=3, count(more)=1)]"
    assert ours == theirs
