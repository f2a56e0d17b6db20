"""A batch of a flow that has to come again is joined with its tables as they were, whatever has become of them."""

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import pytest

from ingest.flows import flow_query, table_versions
from ingest.flows.unread import first_unread
from ingest.lake.delta import delta_rs_table
from ingest.lake.delta.commit import Committer
from ingest.lake.delta.delta_rs_table import within_reach
from ingest.lake.delta.spark_table import SparkTable
from ingest.maintenance.schedule import Maintenance
from ingest.model.errors import IngestError
from ingest.testing.source import Source
from tests.support.flows import OneFlow
from tests.support.totals_shop import CUSTOMERS, ORDERS

CHANGES_WITH_REGION = """SELECT after.id, c.region FROM orders o JOIN customers c ON c.id = o.after.customer
WHERE operation IN ('read', 'insert')"""


@contextmanager
def dies_once(then):
    """A flow that dies behind its first sink, once; ``then`` happens meanwhile. Gives where."""
    died = []

    def reached(name, batch, detail=""):
        if name == "flow_written" and not died:
            died.append(detail)
            then()
            raise OSError("it dies")

    with patch.object(flow_query, "reached", reached):
        yield died


def with_region(spark, folder, lake, **said):
    """A flow of orders, each with its customer's region."""
    given = {"orders": {"change_log": "d.orders"}, "customers": {"table": "d.customers"}}
    text = CHANGES_WITH_REGION.replace("o.after", "after")
    flow = OneFlow(spark, folder, text, inputs=given, **said)
    flow.pipeline = lake.pipeline.model_copy(update={"flows": flow.pipeline.flows})
    return flow


def test_a_batch_that_comes_again_is_joined_with_the_table_as_it_was(spark, tmp_path, logged):
    source, lake = Source(), logged()
    orders = source.table("d.orders", ORDERS, ["id"], rows=[])
    customers = source.table("d.customers", CUSTOMERS, ["id"], rows=[{"id": 1, "region": "north"}])
    orders.insert(id=1, customer=1, status="new", amount=1)
    lake.follow(source)
    flow = with_region(spark, tmp_path, lake, sinks=[{"delta": "out"}, {"delta": "more"}])
    flow.run()
    orders.insert(id=2, customer=1, status="new", amount=1)
    lake.follow(source)

    def moved_on():
        customers.update(1, region="south")
        orders.insert(id=3, customer=1, status="new", amount=1)
        lake.follow(source)

    with dies_once(moved_on) as died:
        flow.run()
    assert died == ["f/delta:out"]
    for name in ("out", "more"):
        assert sorted((row["id"], row["region"]) for row in flow.rows(name)) == [
            (1, "north"),
            (2, "north"),
            (3, "south"),
        ]


def test_upkeep_keeps_the_version_that_a_batch_which_comes_again_is_joined_with(
    spark, tmp_path, logged, monkeypatch
):
    monkeypatch.setattr(delta_rs_table, "CHECKPOINT_EVERY", 2)
    source, lake = Source(), logged()
    orders = source.table("d.orders", ORDERS, ["id"], rows=[])
    customers = source.table("d.customers", CUSTOMERS, ["id"], rows=[{"id": 1, "region": "north"}])
    orders.insert(id=1, customer=1, status="new", amount=1)
    lake.follow(source)
    flow = with_region(spark, tmp_path, lake)
    path = lake.pipeline.path(customers.name)
    table, unread = SparkTable(spark, path), partial(first_unread, flow.pipeline)
    joined, cut = table.version(), []

    def moved_on():
        for region in ("a", "b", "c", "d", "e", "f"):
            customers.update(1, region=region)
            lake.follow(source)
        direct = within_reach(table, str(lake.path), lake.term)
        assert unread(path, direct.id()) == joined
        upkeep = Maintenance.of(flow.pipeline, Committer(lake.term), unread=unread)
        assert upkeep._kept(direct) == (168, 10_000)
        few = replace(upkeep, versions=1)
        few._cut(direct)
        assert table_versions.readable(spark, path, joined)
        few.unread = lambda *_: None
        few._tables.clear()
        cut.append(partial(few._cut, direct))

    with dies_once(moved_on) as died:
        flow.run()
    assert died == ["f/delta:out"]
    assert [(row["id"], row["region"]) for row in flow.rows()] == [(1, "north")]
    assert unread(path, table.id()) is None, "it is done"
    assert cut[0](), "and nothing else kept it"
    assert not table_versions.readable(spark, path, joined)


AS_IT_WAS = """SELECT after.id, c.region FROM orders o JOIN customers c ON c.id = after.customer AND c.valid_to IS NULL
WHERE operation IN ('read', 'insert')"""


@pytest.mark.parametrize("as_", ["history", pytest.param("table", marks=pytest.mark.long)])
def test_a_batch_that_comes_again_is_joined_as_it_was_where_a_column_came_since(
    spark, tmp_path, logged, as_
):
    source, lake = Source(), logged()
    orders = source.table("d.orders", ORDERS, ["id"], rows=[])
    customers = source.table("d.customers", CUSTOMERS, ["id"], rows=[{"id": 1, "region": "north"}])
    orders.insert(id=1, customer=1, status="new", amount=1)
    lake.follow(source)
    given = {"orders": {"change_log": "d.orders"}, "customers": {as_: "d.customers"}}
    text = AS_IT_WAS if as_ == "history" else AS_IT_WAS.replace("AND c.valid_to IS NULL", "")
    flow = OneFlow(spark, tmp_path, text, inputs=given)
    flow.pipeline = lake.pipeline.model_copy(update={"flows": flow.pipeline.flows})
    flow.run()
    orders.insert(id=2, customer=1, status="new", amount=1)
    lake.follow(source)

    def moved_on():
        customers.add_column("x", "INT")
        customers.update(1, region="south", x=5)
        orders.insert(id=3, customer=1, status="new", amount=1)
        lake.follow(source)

    with dies_once(moved_on):
        flow.run()
    found = sorted((row["id"], row["region"]) for row in flow.rows())
    assert found == [(1, "north"), (2, "north"), (3, "south")]


def test_one_whose_function_cannot_read_the_tables_as_they_were_is_refused_or_begins_again(
    spark, tmp_path, logged
):
    source, lake = Source(), logged()
    orders = source.table("d.orders", ORDERS, ["id"], rows=[])
    customers = source.table("d.customers", CUSTOMERS, ["id"], rows=[{"id": 1, "region": "north"}])
    lake.follow(source)
    given = {"orders": {"change_log": "d.orders"}, "customers": {"table": "d.customers"}}
    text = AS_IT_WAS.replace(" AND c.valid_to IS NULL", "")
    flow = OneFlow(spark, tmp_path, text, inputs=given)

    def change(text, **more):
        flow.change(text, inputs=given, **more)
        flow.pipeline = lake.pipeline.model_copy(update={"flows": flow.pipeline.flows})

    change(text)
    orders.insert(id=1, customer=1, status="new", amount=1)
    lake.follow(source)

    def renamed():
        customers.rename_column("region", "area")
        customers.update(1, area="south")
        lake.follow(source)

    with dies_once(renamed), pytest.raises(IngestError, match="cannot be resolved"):
        flow.run()
    mended = text.replace("c.region", "c.area AS region")
    change(mended)
    with pytest.raises(IngestError, match="a batch has to come again, joined with tables as they"):
        flow.run()
    change(mended, on_change="restart")
    flow.run()
    assert [(row["id"], row["region"]) for row in flow.rows()] == [(1, "south")]


def shop(logged):
    """A source of an order and its customer, in a lake; and both tables."""
    source, lake = Source(), logged()
    orders = source.table("d.orders", ORDERS, ["id"], rows=[{"id": 0}])
    customers = source.table("d.customers", CUSTOMERS, ["id"], rows=[{"id": 1, "region": "north"}])
    lake.follow(source)
    return source, lake, orders, customers


ALONE = "SELECT after.id, 'nowhere' region FROM orders WHERE operation IN ('read', 'insert')"


@pytest.mark.parametrize("edit", ["joins less", "joins more"])
def test_a_function_that_is_edited_while_a_batch_has_to_come_again_reads_what_it_reads_now(
    spark, tmp_path, logged, edit
):
    """It would be begun anew without end: joined with other tables than were noted."""
    source, lake, orders, customers = shop(logged)
    flow = with_region(spark, tmp_path, lake)
    joined, alone = (tmp_path / "f.sql").read_text(), ALONE
    first, then = (joined, alone) if edit == "joins less" else (alone, joined)
    (tmp_path / "f.sql").write_text(first)
    flow.run()
    orders.insert(id=1, customer=1, status="new", amount=1)
    lake.follow(source)

    def moved_on():
        customers.update(1, region="south")
        lake.follow(source)
        (tmp_path / "f.sql").write_text(then)

    with dies_once(moved_on):
        flow.run()
    found = {(row["id"], row["region"]) for row in flow.rows() if row["id"]}
    # The table had the batch already: what it holds of it is by the first function.
    assert found == {(1, "north" if edit == "joins less" else "nowhere")}
    orders.insert(id=2, customer=1, status="new", amount=1)
    lake.follow(source)
    flow.run()
    found = {(row["id"], row["region"]) for row in flow.rows() if row["id"]} - found
    assert found == {(2, "nowhere" if edit == "joins less" else "south")}


IN_A_SUBQUERY = """SELECT after.id, (SELECT max(region) FROM customers) region FROM orders
WHERE operation IN ('read', 'insert')"""


def test_a_table_in_a_subquery_is_one_that_a_batch_is_joined_with(spark, tmp_path, logged):
    source, lake, orders, customers = shop(logged)
    flow = with_region(spark, tmp_path, lake, sinks=[{"delta": "out"}, {"delta": "more"}])
    (tmp_path / "f.sql").write_text(IN_A_SUBQUERY)
    flow.run()
    orders.insert(id=1, customer=1, status="new", amount=1)
    lake.follow(source)

    def moved_on():
        customers.update(1, region="south")
        lake.follow(source)

    with dies_once(moved_on):
        flow.run()
    for name in ("out", "more"):
        assert {row["region"] for row in flow.rows(name)} == {"north"}
