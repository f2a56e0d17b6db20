"""`deletes: soft` through the job's own batches: statements, DDL, another setting, another key."""

import pytest
from chispa import DataFramesNotEqualError
from deltalake import DeltaTable

from ingest.batch import row_fates
from ingest.lake.delta.spark_table import SparkTable
from ingest.model.errors import IngestError
from ingest.observe.table_comparison import ComparedTable, Comparison
from ingest.schema.mysql_types import Column
from ingest.targets.target import live_rows
from ingest.testing.frames import assert_rows
from ingest.testing.source import Source

COLUMNS = {"id": "INT", "code": "VARCHAR(9)", "v": "VARCHAR(9)"}
ENGINES = ["delta-rs", "deletion-vectors", "spark"]


@pytest.fixture
def opened(reopened):
    """Makes a lake in the test's folder, as a run with such a pipeline file does."""

    def open_lake(deletes="soft", engine="delta-rs", **more):
        settings = {"spark": {"merge_engine": engine}, "tables": {"d.*": {"deletes": deletes}}}
        return reopened(**{**settings, **more})

    return open_lake


def orders_of(source):
    rows = [{"id": n, "code": f"c{n}", "v": "a"} for n in (1, 2, 3)]
    return source.table("d.orders", COLUMNS, ["id"], rows=rows)


def dead(lake, table="d.orders"):
    rows = lake.table(table).filter("_ingest.op = 'd'").collect()
    return sorted((row.id, row._ingest.committed_at is not None) for row in rows)


@pytest.mark.parametrize("engine", [pytest.param(ENGINES[0], marks=pytest.mark.long), *ENGINES[1:]])
def test_deleted_rows_stay_through_ddl_and_a_truncate_and_live_rows_are_the_source_s(
    opened, engine
):
    lake, source = opened(engine=engine), Source()
    orders = orders_of(source)
    orders.delete(1)
    lake.follow(source, batches=2)
    assert_rows(lake.live(orders), orders.rows)
    assert dead(lake) == [(1, True)]
    orders.add_column("n", "INT")
    orders.update(2, n=7)
    orders.delete(3)
    orders.drop_column("code")
    orders.insert(id=3, v="again")
    lake.follow(source, batches=3)
    assert_rows(lake.live(orders), orders.rows)
    assert dead(lake) == [(1, True)]
    orders.truncate()
    orders.insert(id=2, v="new")
    lake.follow(source)
    assert_rows(lake.live(orders), orders.rows)
    assert dead(lake) == [(1, True), (3, False)]
    lake.start()
    lake.replay([one for one in source.log if one.topic == orders.topic])
    assert_rows(lake.live(orders), orders.rows)
    assert dead(lake) == [(1, True), (3, False)]


def test_a_row_that_a_ddl_has_left_without_its_key_is_not_taken_for_a_deleted_one(opened):
    lake, source = opened(), Source()
    orders = orders_of(source)
    orders.delete(1)
    lake.follow(source)
    held = SparkTable(lake.session, str(lake.path / "d" / "orders"))
    with held.identified("ingest/p/c/d.orders/test", 1, ""):
        held.delta().update("id = 3", {"id": "CAST(NULL AS INT)"})
    orders.delete(2)
    orders.snapshot()
    lake.follow(source)
    lake.settle()
    assert_rows(lake.live(orders), orders.rows)
    assert dead(lake) == [(1, True), (2, True)]


def test_from_hard_to_soft_what_is_deleted_from_then_on_stays(opened):
    lake, source = opened("hard"), Source()
    orders = orders_of(source)
    orders.delete(1)
    lake.follow(source)
    assert_rows(lake.table(orders), orders.rows)
    lake = opened("soft")
    orders.delete(2)
    lake.follow(source)
    assert_rows(lake.live(orders), orders.rows)
    assert dead(lake) == [(2, True)]


def test_from_soft_to_hard_deleted_rows_go_with_the_next_change(opened):
    lake, source = opened("soft"), Source()
    orders = orders_of(source)
    orders.delete(1)
    lake.follow(source)
    lake = opened("hard")
    assert dead(lake) == [(1, True)]
    assert_rows(lake.live(orders), orders.rows)
    orders.delete(2)
    lake.follow(source)
    assert_rows(lake.table(orders), orders.rows)
    lake = opened("soft")
    orders.delete(3)
    lake.follow(source)
    assert dead(lake) == [(3, True)]


def rekeyed(orders, key):
    """ALTER TABLE … DROP PRIMARY KEY, ADD PRIMARY KEY: no row event, as in MySQL."""
    orders.key = key
    orders._define(f"ALTER TABLE {orders._quoted} DROP PRIMARY KEY, ADD PRIMARY KEY (`{key[0]}`)")


def with_another_key(lake):
    source = Source()
    orders = orders_of(source)
    orders.delete(1)
    orders.insert(id=4, code="c1", v="live")
    lake.follow(source)
    assert dead(lake) == [(1, True)]
    rekeyed(orders, ("code",))
    orders.update("c1", v="changed")
    orders.delete("c2")
    lake.follow(source)
    assert_rows(lake.live(orders), orders.rows)
    return lake


@pytest.mark.parametrize("engine", [pytest.param(ENGINES[0], marks=pytest.mark.long), *ENGINES[1:]])
def test_under_another_key_a_deleted_row_does_not_come_back_with_a_live_one_that_has_it(
    opened, engine
):
    assert dead(with_another_key(opened(engine=engine))) == [(2, True)]


def test_a_key_that_leaves_deleted_rows_where_they_are_would_be_seen(opened, monkeypatch):
    """The mutant of the one above: the deleted row comes back beside the live one."""
    monkeypatch.setattr(row_fates, "dead_rows", lambda target: None)
    with pytest.raises(DataFramesNotEqualError):
        with_another_key(opened())


def with_a_key_at_last(opened):
    lake, source = opened("hard"), Source()
    bag = source.table("d.orders", {"id": "INT", "code": "VARCHAR(9)"}, [])
    for row in ({"id": 1, "code": "a"}, {"id": 1, "code": "a"}, {"id": 2, "code": "b"}):
        bag.insert(**row)
    bag.delete({"id": 1, "code": "a"})
    lake.follow(source)
    assert {row._ingest.op for row in lake.table(bag).collect()} == {"c", "d"}
    lake = opened("soft")
    bag.key = ("id",)
    bag._define(f"ALTER TABLE {bag._quoted} ADD PRIMARY KEY (`id`)")
    bag.insert(id=3, code="c")
    lake.follow(source)
    assert_rows(lake.live(bag), bag.rows)
    assert dead(lake) == []


def test_rows_of_a_table_that_gets_a_key_are_live_whatever_came_last_of_their_content(opened):
    with_a_key_at_last(opened)


def test_a_row_that_keeps_the_delete_of_its_copy_would_be_seen(opened, monkeypatch):
    """The mutant of the one above."""
    monkeypatch.setattr(row_fates, "_LIVE", {"_ingest.op": "'d'"})
    with pytest.raises(DataFramesNotEqualError):
        with_a_key_at_last(opened)


def test_a_table_without_a_key_is_refused_with_what_to_do_and_nothing_is_lost(opened):
    lake, source = opened("soft"), Source()
    source.table("d.bag", {"v": "INT"}, rows=[{"v": 1}])
    with pytest.raises(IngestError, match="deletes: hard") as raised:
        lake.follow(source)
    assert "d.bag cannot be kept as the pipeline file says" in str(raised.value)
    assert not (lake.path / "d" / "bag").exists()


def test_the_audit_compares_live_rows(opened):
    lake, source = opened(), Source()
    orders = orders_of(source)
    orders.delete(1)
    lake.follow(source)
    path = str(lake.path / "d" / "orders")
    held = SparkTable(lake.session, path).describe()
    columns = tuple(map(Column.from_json, orders.columns.values()))
    comparison = Comparison(lake.session, None)

    def counted(live):
        given = ComparedTable(
            orders.name, columns, columns[:1], path, held.version, live, outlives=False
        )
        buckets = comparison._lake_sums([given])["d.orders"]
        return sum(rows for rows, _, _ in buckets.values()), len(
            comparison._lake_rows(given, [*buckets])
        )

    assert counted(live_rows(held.target)) == (2, 2)
    assert counted("true") == (3, 3)


def test_a_table_says_that_not_all_of_its_rows_count(opened):
    lake, source = opened("soft"), Source()
    orders_of(source)
    lake.follow(source)
    path = lake.path / "d" / "orders"
    assert DeltaTable(path).metadata().configuration["ingest.target"] == "soft_deletes"
    assert SparkTable(lake.session, str(path)).describe().target.name == "soft_deletes"
