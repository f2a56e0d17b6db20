"""Tables registered in a real Hive metastore: what stands there, whom it belongs to, and that another Spark reads by it."""

import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake

from ingest.config.lake_settings import Catalog
from ingest.job.registering import AGAIN, LOOKS_EVERY, Registering
from ingest.lake import metastore
from ingest.lake.metastore import CatalogError
from ingest.model.catalog_names import CatalogEntry, CatalogName
from tests.support import hive


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    server = hive.start(tmp_path_factory.mktemp("hive"))
    yield server
    server.stop()


@pytest.fixture
def catalog(running):
    return Catalog(metastore=running.uri, database="mirror_{database}")


def state(path, log=None, hidden=None, known_as="id"):
    log = SimpleNamespace(path=str(log), id=f"{known_as} of the log") if log else None
    return SimpleNamespace(path=str(path), log=log, hidden=hidden, position=None, id=known_as)


def manifest(**tables):
    return SimpleNamespace(tables={name.replace("__", "."): one for name, one in tables.items()})


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def registering(spark, catalog):
    def make(**settings):
        lake = SimpleNamespace(
            catalog=catalog.model_copy(update=settings), change_log_suffix="__changes"
        )
        clock, said = Clock(), []
        made = Registering(spark, SimpleNamespace(lake=lake), said.append, clock)
        made.clock_, made.said = clock, said
        return made

    return make


def finished(registering, newest):
    registering.finish(newest, threading.Event())
    return registering.said


def test_each_table_and_its_log_get_an_entry_that_goes_where_the_table_goes(
    spark, catalog, registering, tmp_path
):
    newest = manifest(a__orders=state(tmp_path / "orders", log=tmp_path / "%5Forders__changes"))
    said = finished(registering(), newest)
    assert said[0].endswith(", as mirror_a.orders")
    with metastore.connected(spark, catalog) as held:
        entry = held.entry(CatalogName("mirror_a", "orders"))
        assert entry == CatalogEntry(f"file:{tmp_path}/orders", "delta", "id")
        log = held.entry(CatalogName("mirror_a", "orders__changes"))
        assert log == CatalogEntry(f"file:{tmp_path}/%5Forders__changes", "delta", "id of the log")
    assert finished(registering(), newest) == []
    moved = manifest(a__orders=state(tmp_path / "mo ved"))
    assert "leads to" in finished(registering(), moved)[0]
    with metastore.connected(spark, catalog) as held:
        assert held.entry(CatalogName("mirror_a", "orders")).location == f"file:{tmp_path}/mo ved"


def test_an_entry_follows_a_table_that_was_made_anew_at_its_place_and_moved_then(
    spark, catalog, registering, tmp_path
):
    finished(registering(), manifest(h__t=state(tmp_path / "t")))
    assert finished(registering(), manifest(h__t=state(tmp_path / "t", known_as="anew"))) == []
    moved = manifest(h__t=state(tmp_path / "moved", known_as="anew"))
    assert "leads to" in finished(registering(), moved)[0]
    with metastore.connected(spark, catalog) as held:
        entry = held.entry(CatalogName("mirror_h", "t"))
    assert entry == CatalogEntry(f"file:{tmp_path}/moved", "delta", "anew")


def test_an_entry_of_another_lake_stands_and_the_others_go_on(registering, tmp_path):
    finished(registering(), manifest(b__t=state(tmp_path / "one")))
    newest = manifest(
        b__t=state(tmp_path / "two", known_as="other"), b__u=state(tmp_path / "three")
    )
    refused, taken = finished(registering(), newest)
    assert f"not this lake's: delta at file:{tmp_path}/one" in refused
    assert taken.endswith("as mirror_b.u")


def test_a_table_that_is_refused_takes_its_place_once_it_is_free(
    spark, catalog, registering, tmp_path
):
    name = CatalogName("mirror_f", "t")
    with metastore.connected(spark, catalog) as held:
        held.create(name, CatalogEntry(f"file:{tmp_path}/x", "parquet", ""))
    newest, one = manifest(f__t=state(tmp_path / "t")), registering()
    for _ in range(3):
        look(one, newest)
    assert len(one.said) == 1
    with metastore.connected(spark, catalog) as held:
        held._client.dropTable(name.database, name.table)
    look(one, newest)
    assert one.said[1:] == [f"f.t is in {one._where} now, as {name}"]


def test_an_entry_that_somebody_has_dropped_is_there_again_while_the_run_goes_on(
    spark, catalog, registering, tmp_path
):
    newest, one = manifest(i__t=state(tmp_path / "t"), i__u=state(tmp_path / "u")), registering()
    look(one, newest)
    begun = one._thread
    with metastore.connected(spark, catalog) as held:
        held._client.dropTable("mirror_i", "t")
    look(one, newest)
    assert one._thread is begun  # nobody asks a catalogue that has all with each batch
    one.clock_.now += LOOKS_EVERY
    look(one, newest)
    assert one.said[2:] == [f"i.t is in {one._where} now, as mirror_i.t"]
    begun = one._thread
    look(one, newest)
    assert one._thread is begun
    with metastore.connected(spark, catalog) as held:
        assert held.entry(CatalogName("mirror_i", "t")).location == f"file:{tmp_path}/t"


def look(registering, newest):
    registering.look(newest)
    registering._wait(time.monotonic() + 60, threading.Event())
    registering.clock_.now += AGAIN + 1


def test_a_catalogue_that_is_away_is_said_once_and_asked_again_and_said_when_it_is_back(
    registering, catalog, tmp_path
):
    away = registering(metastore="thrift://127.0.0.1:1")
    newest = manifest(c__t=state(tmp_path / "t"))
    for _ in range(3):
        look(away, newest)
    assert len(away.said) == 1
    assert "cannot be used" in away.said[0]
    away.pipeline.lake.catalog = catalog
    look(away, newest)
    assert away.said[1].endswith("as mirror_c.t")
    assert away.said[2].endswith("is there again")


def test_what_a_catalogue_refuses_is_one_sentence(spark, catalog, tmp_path):
    name, entry = CatalogName("d", "t"), CatalogEntry(f"file:{tmp_path}", "delta", "id")
    with metastore.connected(spark, catalog) as held:
        held.create(name, entry)
        with pytest.raises(CatalogError, match="AlreadyExists") as refused:
            held.create(name, entry)
    assert not refused.value.away


def test_a_run_that_is_to_stop_does_not_wait_for_a_catalogue_that_hangs(registering, tmp_path):
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes a connection and says nothing
        one = registering(metastore=f"thrift://127.0.0.1:{silent.getsockname()[1]}")
        one.look(manifest(g__t=state(tmp_path / "t")))
        stop.set()
        one.finish(manifest(g__t=state(tmp_path / "t")), stop)
        assert one._thread.is_alive()
        assert one._thread.daemon
        one.close()


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
            (k, v) for k, v in dict(one.getParameters()).items() if k not in ("ingest.table-id", "transient_lastDdlTime")))])
"""


@pytest.mark.long
def test_another_spark_reads_by_name_and_an_entry_is_as_spark_s_own(registering, running, tmp_path):
    place = str(tmp_path / "orders")
    DeltaTable.create(place, Schema.from_arrow(pa.schema([("id", pa.int64())])))
    finished(registering(), manifest(e__orders=state(place)))
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
