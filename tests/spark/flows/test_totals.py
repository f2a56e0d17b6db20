"""Totals stay right while rows change, come and go, in all tables of a join, whatever dies."""

from datetime import timedelta
from decimal import Decimal
from unittest.mock import patch

import pytest
from pyspark.sql import functions as F

from ingest.flows import flow_query
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_function import load
from ingest.flows.flow_query import FlowQuery
from ingest.lake.delta.commit import Committer, sibling
from ingest.model.errors import IngestError
from ingest.testing.debezium import NEW_YEAR
from tests.support.flows import dying
from tests.support.totals_shop import JOINED, ODD, SUMS, Shop


@pytest.mark.parametrize(
    "totals", [pytest.param(SUMS, marks=pytest.mark.long), ODD], ids=["sums", "odd"]
)
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 12))]
)
def test_totals_of_a_join_are_those_of_the_tables_after_each_batch(
    spark, tmp_path, logged, totals, seed
):
    shop = Shop(spark, tmp_path, logged, JOINED, totals, seed)
    shop.flow.run()
    assert shop.audit() == 0
    for place in ("flow_started", "flow_written", "nowhere"):
        shop.step()
        with patch.object(flow_query, "reached", dying(place)):
            status = shop.flow.run()
        assert shop.audit() == 0
        assert status.rows > 0
    held = shop.flow.rows()
    assert held, "the seed leaves some groups"
    assert not [said for said in shop.flow.said[1:] if "computed from the tables" in said], (
        shop.flow.said
    )


@pytest.mark.long
def test_days_that_go_from_a_log_stop_no_totals_and_what_was_missed_is_computed_from_the_tables(
    spark, tmp_path, logged
):
    keeps = {"targets": ["mirror", "change_log"], "change_log_days": 2}
    text = "SELECT status region, amount FROM orders"
    shop = Shop(spark, tmp_path, lambda: logged(defaults=keeps), text, SUMS, inputs=["orders"])

    def a_later_day(day, batches):
        shop.lake.start()  # a job looks once a day, by a clock that does not go on here
        shop.source.now = NEW_YEAR + timedelta(days=day)
        for _ in range(batches):
            shop.step(12)

    def gone():
        done = [one for report in shop.lake.seen for one in report.upkeep]
        return [one for one in done if one.what == "forgotten" and "orders__" in one.path]

    shop.flow.run()
    a_later_day(10, 5)
    shop.flow.run()
    assert shop.audit() == 0
    assert len(gone()) == 1
    a_later_day(20, 1)
    a_later_day(30, 5)
    assert len(gone()) > 1
    shop.flow.run()
    assert shop.audit() == 0
    missed = [said for said in shop.flow.said if "are gone that were not taken in" in said]
    assert len(missed) == 1


def test_a_group_without_rows_is_no_group_and_what_is_not_told_is_null(spark, tmp_path, logged):
    shop = Shop(
        spark, tmp_path, logged, "SELECT status region, amount FROM orders", SUMS, inputs=["orders"]
    )
    shop.flow.run()
    for id_ in sorted(shop.ids["orders"]):
        shop.orders.delete(id_)
    shop.orders.insert(id=900, customer=1, status="one", amount=None)
    shop.lake.follow(shop.source)
    shop.flow.run()
    (row,) = shop.flow.rows()
    assert {name: row[name] for name in ("region", *SUMS)} == {
        "region": "one", "orders": 1, "told": 0, "revenue": None, "mean": None
    }  # fmt: skip


@pytest.mark.long
def test_what_the_log_cannot_tell_as_changes_is_computed_from_the_tables(spark, tmp_path, logged):
    shop = Shop(spark, tmp_path, logged, JOINED, SUMS)
    shop.flow.run()
    shop.orders.truncate()
    shop.ids["orders"].clear()
    shop.step()
    shop.flow.run()
    assert "it is the first batch" in shop.flow.said[0]
    assert any("orders has seen: truncate" in said for said in shop.flow.said)
    assert shop.audit() == 0


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (JOINED.replace("JOIN", "LEFT JOIN"), "it has a join of the kind LeftOuter"),
        pytest.param(
            "SELECT DISTINCT status region, amount FROM orders",
            "it has a step of the kind Distinct",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "SELECT a.status region, b.amount FROM orders a JOIN orders b ON a.customer = b.customer",
            "it reads something more than once",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "SELECT status region, amount FROM orders WHERE customer IN (SELECT id FROM customers)",
            "it has a subquery",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_query_whose_changes_cannot_be_told_apart_is_computed_whole_and_is_right(
    spark, tmp_path, logged, function, why
):
    shop = Shop(spark, tmp_path, logged, function, SUMS)
    shop.flow.run()
    shop.step()
    with patch.object(flow_query, "reached", dying("flow_written")):
        shop.flow.run()
    assert shop.audit() == 0
    query = FlowQuery(
        sibling(spark),
        FlowFolder(shop.flow.pipeline, "f"),
        shop.flow.pipeline.flows["f"],
        Committer(1),
        print,
    )
    assert query.totals_of(load("f", shop.flow.pipeline.flows["f"])).why_whole.startswith(why)


@pytest.mark.long
def test_a_changed_query_is_computed_anew_and_nothing_is_refused(spark, tmp_path, logged):
    shop = Shop(spark, tmp_path, logged, JOINED, SUMS)
    shop.flow.run()
    shop.again(JOINED.replace("'cancelled'", "'paid'"))
    shop.step()
    shop.flow.run()
    assert shop.audit() == 0
    shop.again(JOINED, totals={"by": ["region", "status"], "values": ODD})
    shop.step()
    shop.flow.run()
    assert shop.audit() == 0


def test_another_table_and_a_sink_that_comes_later_get_all_of_the_totals(spark, tmp_path, logged):
    shop = Shop(spark, tmp_path, logged, JOINED, SUMS)
    shop.flow.run()
    shop.again(JOINED, sinks=[{"delta": "out"}, {"delta": "later"}])
    shop.step(3)
    shop.flow.run()
    wanted = shop.shown("out")
    assert shop.shown("later") == wanted
    shop.again(JOINED, sinks=[{"delta": "other"}])
    shop.step(3)
    shop.flow.run()
    assert any("its table is another one" in said for said in shop.flow.said)
    assert shop.audit() == 0


def test_a_function_that_was_mended_behind_a_failed_batch_is_not_added_to_what_another_made(
    spark, tmp_path, logged
):
    shop = Shop(spark, tmp_path, logged, JOINED, SUMS)
    shop.flow.run()
    fails = JOINED.replace(
        "o.amount,", "CASE WHEN o.id > 0 THEN raise_error('no') ELSE o.amount END amount,"
    )
    shop.again(fails, totals={"by": ["region"], "values": SUMS})
    shop.step()
    with pytest.raises(IngestError, match="E-FLOW-FAILED|no"):
        shop.flow.run()
    shop.again(
        JOINED.replace("'cancelled'", "'new'"),
        totals={"by": ["region"], "values": {**ODD, "n": "count(*)"}},
    )
    shop.flow.run()
    assert shop.audit() == 0


@pytest.mark.parametrize("dies", [pytest.param(False, marks=pytest.mark.long), True])
def test_other_sinks_are_told_of_groups_that_are_gone_though_all_was_computed_anew(
    spark, tmp_path, logged, dies
):
    flag = "SELECT status = 'paid' AS region, amount FROM orders"
    shop = Shop(
        spark,
        tmp_path,
        logged,
        flag,
        SUMS,
        inputs=["orders"],
        sinks=[{"delta": "out"}, {"delta": "more"}],
    )
    shop.flow.run()
    assert len(shop.shown("more")) == 2
    for id_ in sorted(shop.ids["orders"]):
        shop.orders.update(id_, status="paid")
    shop.lake.follow(shop.source)
    shop.again(
        flag.replace("amount FROM", "amount + 0 amount FROM"),
        sinks=[{"delta": "out"}, {"delta": "more"}],
    )
    with patch.object(flow_query, "reached", dying("flow_written" if dies else "nowhere")):
        shop.flow.run()
    assert shop.shown("out") == shop.shown("more")
    assert len(shop.shown("out")) == 1


@pytest.mark.long
def test_nothing_stays_in_spark_s_memory_behind_a_batch(spark, tmp_path, logged):
    shop = Shop(spark, tmp_path, logged, JOINED, SUMS)
    shop.flow.run()
    before = _kept(spark)
    for _ in range(2):
        shop.step()
        shop.flow.run()
    assert _kept(spark) <= before


def _kept(spark):
    """How many DataFrames Spark keeps, but Delta's own states of tables."""
    every = spark.sparkContext._jsc.getPersistentRDDs().values()
    return len([one for one in every if "Delta Table State" not in str(one.name())])


def test_an_average_that_would_lose_digits_is_no_sum(spark):
    from ingest.config.flow_totals import Totals
    from ingest.flows import totals_query

    for kind, sums in (
        ("decimal(9,2)", True),
        ("decimal(30,10)", False),
        ("bigint", True),
        ("double", False),
    ):
        rows = spark.createDataFrame([], f"g int, x {kind}")
        made = totals_query.shape(rows, Totals(by=("g",), values={"mean": "avg(x)"}))
        assert (made.parts is not None) == sums, kind


def test_a_date_of_today_is_found_in_a_wide_query_too(spark):
    from ingest.flows import totals_plan

    rows = spark.createDataFrame([], ", ".join(f"c{n} int" for n in range(40)))
    before = spark.conf.get("spark.sql.debug.maxToStringFields")
    assert totals_plan.why_whole(rows.select("*", F.current_date()), {"a": rows}).startswith(
        "it asks for current_date"
    )
    assert totals_plan.why_whole(rows.select("*"), {"a": rows}) == ""
    assert spark.conf.get("spark.sql.debug.maxToStringFields") == before


def test_an_audit_finds_a_total_that_somebody_has_changed(spark, tmp_path, logged):
    shop = Shop(spark, tmp_path, logged, JOINED, SUMS)
    shop.flow.run()
    path = str(shop.lake.path / "out")
    spark.sql(f"UPDATE delta.`{path}` SET orders = orders + 1")
    assert shop.audit() == 2 * len(shop.flow.rows()) > 0


def test_totals_want_what_they_can_go_by():
    for change, said in (
        ({"mode": "update"}, "`totals` have no `mode`"),
        ({"sinks": [{"console": True}]}, "`totals` are kept in a Delta table"),
        ({"inputs": {"a": {"kafka": "t"}}}, "`totals` go by change logs alone"),
    ):
        with pytest.raises((IngestError, ValueError), match=said):
            _parsed(change)


def _parsed(change):
    from ingest.config.flow_settings import Flow

    given = {"sql": "f.sql", "inputs": {"a": {"change_log": "d.t"}}, "sinks": [{"delta": "out"}]}
    return Flow.model_validate(
        {**given, "totals": {"by": ["x"], "values": {"n": "count(*)"}}, **change}
    )


def silently(table, key, **values):
    """As a cascade changes a row: MySQL has it, and its log has not."""
    at = table._find(key)
    table._rows[at] |= {name: table.value(name, one) for name, one in values.items()}


def test_a_row_whose_before_the_table_never_held_counts_as_the_table_has_it(
    spark, tmp_path, logged
):
    text = "SELECT status region, amount FROM orders"
    shop = Shop(spark, tmp_path, logged, text, SUMS, inputs=["orders"])
    shop.flow.run()
    stale = sorted(shop.ids["orders"])[:2]
    for id_ in stale:
        silently(shop.orders, id_, status="unheard", amount=Decimal("500.00"))
        shop.orders.update(id_, status="paid", amount=Decimal("1.00"))
    shop.lake.follow(shop.source)
    shop.flow.run()
    assert shop.audit() == 0


def test_rows_that_a_policy_has_kept_and_that_come_again_are_counted_once(spark, tmp_path, logged):
    text = "SELECT status region, amount FROM orders"
    keeps = {"d.orders": {"ddl": {"truncate": "ignore"}}}
    shop = Shop(spark, tmp_path, lambda: logged(tables=keeps), text, SUMS, inputs=["orders"])
    shop.flow.run()
    kept = sorted(shop.ids["orders"])
    shop.orders.truncate()
    shop.orders.insert(id=900, customer=1, status="one", amount=1)
    shop.lake.follow(shop.source)
    shop.flow.run()
    assert shop.audit() == 0
    for id_ in kept[:3]:
        shop.orders.insert(id=id_, customer=1, status="one", amount=2)
    shop.lake.follow(shop.source)
    shop.flow.run()
    assert shop.audit() == 0
