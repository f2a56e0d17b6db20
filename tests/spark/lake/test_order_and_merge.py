"""`dedup`, `dispatch` and `multiset_rows`: order, winners, and what a MERGE makes of them."""

from itertools import count

import pytest
from chispa import assert_df_equality
from delta.tables import DeltaTable
from pyspark.sql import functions as F

from ingest.changes import dedup, envelope, row_images
from ingest.kafka.record_stream import SCHEMA
from ingest.lake.delta.commit import Committer, Identity
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.engines.dispatch import Merging
from ingest.lake.engines.engine import EngineJob, Merge, MergeSource
from ingest.model.manifest import HighWater
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.catalog import SchemaVersion
from ingest.schema.mysql_types import Column
from ingest.targets.mirror import Mirror
from ingest.targets.multiset import Multiset
from tests.support.events import message

APP = "ingest/p/c/d.t/mirror"
V = "_op"  # as an engineer might name a column, too
COLUMNS = (
    Column("id", "INT", None, None, optional=False),
    Column(V, "VARCHAR", 20, None, optional=True),
)
VERSION = SchemaVersion(TableId("d", "t"), Position(0, 1, 1), "CREATE", COLUMNS, ("id",), "")


def changes(spark, rows, *, with_before=False):
    decoded = envelope.changes(spark.createDataFrame(rows, SCHEMA))
    return row_images.typed(decoded, row_images.RowSchema.of(COLUMNS), with_before=with_before)


def put(op, pos, id_, v=None, **more):
    image = {"id": id_, V: v}
    return message(
        op, pos, key={"id": id_}, **({"before": image} if op == "d" else {"after": image}), **more
    )


def test_the_highest_position_wins_whatever_the_arrival_order(spark):
    rows = [put("c", 30, 1, "new"), put("c", 10, 1, "old"), put("c", 20, 2, "only")]
    found = dedup.winners(changes(spark, rows), ["id"]).select("row.*")
    expected = spark.createDataFrame([(1, "new"), (2, "only")], f"id int, {V} string")
    assert_df_equality(found, expected, ignore_row_order=True, ignore_nullable=True)


def test_of_a_key_change_that_returns_to_its_key_the_create_half_wins(spark):
    rows = [put("d", 10, 1), put("c", 10, 1, "back")]
    (row,) = dedup.winners(changes(spark, rows), ["id"]).collect()
    assert (row.op, row.row[V]) == ("c", "back")


def test_streamed_changes_at_or_below_the_high_water_position_are_re_sent_ones(spark):
    rows = [put("c", 10, 1), put("c", 20, 2), put("c", 30, 3), put("r", 5, 4, snapshot="true")]
    mark = HighWater(0, Position(0, 1, 20, 0, 1), "uuid:2")
    marked = dedup.marked(changes(spark, rows), {("p.d.t", 0): mark}, {})
    assert {row.row.id for row in dedup.fresh(marked).collect()} == {3, 4}


def test_what_stands_before_the_applied_offset_was_applied_snapshot_rows_included(spark):
    rows = [put("r", 5, 1, snapshot="true", offset=3), put("r", 5, 2, snapshot="true", offset=4)]
    marked = dedup.marked(changes(spark, rows), {("p.d.t", 0): HighWater(4)}, {})
    assert {row.row.id for row in dedup.fresh(marked).collect()} == {2}


def test_what_comes_before_a_table_s_floor_is_obsolete(spark):
    rows = [put("c", 10, 1), put("r", 30, 2, snapshot="true"), put("c", 40, 3)]
    marked = dedup.marked(changes(spark, rows), {}, {TableId("d", "t"): Position(0, 1, 30)})
    assert {row.row.id for row in dedup.fresh(marked).collect()} == {2, 3}


def test_an_old_position_with_a_new_transaction_is_a_regression_and_not_a_repetition(spark):
    rows = [put("c", 10, 1, gtid="uuid:1"), put("c", 15, 2, gtid="uuid:9"), put("c", 30, 3)]
    mark = HighWater(0, Position(0, 1, 20, 0, 1), "uuid:2")
    marked = dedup.marked(changes(spark, rows), {("p.d.t", 0): mark}, {})
    assert [row.regressed for row in marked.orderBy("position").collect()] == [False, True, False]


def test_an_old_position_with_a_transaction_of_a_server_that_was_never_read_is_one_too(spark):
    rows = [put("c", 10, 1, gtid="uuid:1"), put("c", 15, 2, gtid="other:9"), put("c", 18, 3)]
    mark = HighWater(0, Position(0, 1, 20, 0, 1), "uuid:2")
    marked = dedup.marked(changes(spark, rows), {("p.d.t", 0): mark}, {})
    assert [row.regressed for row in marked.orderBy("position").collect()] == [False, True, False]


def test_of_several_servers_in_one_log_each_is_known_by_its_own_newest_transaction(spark):
    gtids = ["uuid:9", "other:4", "other:5", "other:tag:4", None]
    rows = [put("c", 10 + n, n, gtid=gtid) for n, gtid in enumerate(gtids)]
    mark = HighWater(0, Position(0, 1, 20, 0, 1), "uuid:9", others=(("other", 4),))
    marked = dedup.marked(changes(spark, rows), {("p.d.t", 0): mark}, {})
    found = [row.regressed for row in marked.orderBy("position").collect()]
    assert found == [False, False, True, True, False]
    after_all_were_taken_again = dedup.marked(changes(spark, rows), {("p.d.t", 0): mark}, {}, 1)
    assert not after_all_were_taken_again.filter("regressed OR passed_over IS NULL").count()


def test_in_a_new_epoch_a_transaction_of_the_old_one_is_recognised_by_its_number(spark):
    rows = [put("c", 10, 1, gtid="uuid:2"), put("c", 20, 2, gtid="uuid:3")]
    moved = changes(spark, rows).withColumn(
        "position", F.col("position").withField("epoch", F.lit(1))
    )
    mark = HighWater(0, Position(0, 7, 99), "uuid:2")
    marked = dedup.marked(moved, {("p.d.t", 0): mark}, {})
    assert {row.row.id for row in dedup.fresh(marked).collect()} == {2}
    reset = dedup.marked(moved, {("p.d.t", 0): mark}, {}, restart=1)
    assert reset.filter("passed_over is null").count() == 2, "after a reset low numbers are new"


def test_the_high_water_position_of_another_partition_says_nothing(spark):
    mark = HighWater(99, Position(9, 9, 9), "uuid:99")
    marked = dedup.marked(changes(spark, [put("c", 10, 1)]), {("p.d.t", 1): mark}, {})
    assert dedup.fresh(marked).count() == 1


def test_a_repeated_change_counts_once_and_equal_snapshot_rows_each(spark):
    rows = [
        put("c", 10, 1, offset=1),
        put("c", 10, 1, offset=2),
        put("r", 5, 2, snapshot="true", offset=3),
        put("r", 5, 2, snapshot="true", offset=4),
    ]
    assert dedup.once(changes(spark, rows)).count() == 3


ENGINES = ["spark", "delta-rs"]


@pytest.fixture(params=ENGINES)
def mirror(spark, tmp_path, request):
    table = SparkTable(spark, str(tmp_path / "t"))
    table.create(VERSION, ("id",))
    merging = Merging(EngineJob(spark, Committer(1), str(tmp_path), request.param, "standard"))
    batches = count(1)

    def apply(*rows):
        made = changes(spark, list(rows))
        source = MergeSource(lambda: made, None, 100)
        identity = Identity(APP, next(batches))
        merging.merge(Merge(table, Mirror(), source, ["id", V], {"id": "int"}, identity))
        assert merging.choices[table.path].engine == request.param
        return {row.id: row[V] for row in table.frame().collect()}

    return apply


def test_a_mirror_follows_inserts_updates_and_deletes(mirror):
    assert mirror(put("c", 1, 1, "a"), put("c", 2, 2, "b")) == {1: "a", 2: "b"}
    assert mirror(put("c", 3, 1, "A"), put("d", 4, 2)) == {1: "A"}


def test_an_older_change_never_overwrites_and_an_older_delete_never_removes(mirror):
    mirror(put("c", 10, 1, "new"))
    assert mirror(put("c", 5, 1, "old")) == {1: "new"}
    assert mirror(put("d", 6, 1)) == {1: "new"}


def test_a_delete_of_what_was_never_there_inserts_nothing(mirror):
    assert mirror(put("d", 10, 1)) == {}


def test_delete_and_insert_of_a_key_inside_one_batch_leave_the_insert(mirror):
    mirror(put("c", 1, 1, "a"))
    assert mirror(put("d", 2, 1), put("c", 3, 1, "again")) == {1: "again"}


def test_the_same_changes_again_change_nothing(mirror):
    rows = [put("c", 1, 1, "a"), put("c", 2, 2, "b")]
    assert mirror(*rows) == mirror(*rows)


@pytest.fixture(params=ENGINES)
def bag(spark, tmp_path, request):
    table = SparkTable(spark, str(tmp_path / "m"))
    table.create(VERSION, ())
    merging = Merging(EngineJob(spark, Committer(1), str(tmp_path), request.param, "standard"))
    batches = count(1)
    waiting = str(tmp_path / "_ingest" / "quarantine")

    def apply(*rows):
        batch = next(batches)
        made = changes(spark, list(rows), with_before=True)
        source = MergeSource(lambda: made, None, 100)
        merging.merge(Merge(table, Multiset(), source, ["id", V], {}, Identity(APP, batch)))
        missing = 0
        if DeltaTable.isDeltaTable(spark, waiting):
            held = spark.read.format("delta").load(waiting)
            missing = held.filter(F.col("batch_id") == batch).count()
        engine = "spark" if missing else request.param
        assert merging.choices[table.path].engine == engine
        found = sorted((row.id, row[V]) for row in table.frame().collect())
        ordinals = (
            table.frame()
            .groupBy("_ingest.content")
            .agg(F.count("*").alias("n"), F.max("_ingest.ordinal").alias("top"))
        )
        assert all(row.n == row.top for row in ordinals.collect()), "ordinals have gaps"
        return found, missing

    return apply


def test_identical_rows_are_kept_apart_and_counted(bag):
    assert bag(put("c", 1, 1, "x"), put("c", 2, 1, "x")) == ([(1, "x")] * 2, 0)
    assert bag(put("d", 3, 1, "x"), put("c", 4, 2, None)) == ([(1, "x"), (2, None)], 0)


def test_an_update_takes_one_copy_of_the_old_row(bag):
    bag(put("c", 1, 1, "x"), put("c", 2, 1, "x"))
    update = message("u", 3, before={"id": 1, V: "x"}, after={"id": 1, V: "y"})
    assert bag(update) == ([(1, "x"), (1, "y")], 0)


def test_removing_a_row_that_is_not_there_is_reported_and_not_guessed(bag):
    bag(put("c", 1, 1, "x"))
    assert bag(put("d", 2, 9, "z")) == ([(1, "x")], 1)


def test_a_table_is_created_with_plain_features_and_mapped_names_only_when_needed(spark, tmp_path):
    plain = SparkTable(spark, str(tmp_path / "plain"))
    plain.create(VERSION, ("id",))
    odd = SchemaVersion(
        VERSION.table,
        VERSION.position,
        "CREATE",
        (*COLUMNS, Column("x y", "INT", None, None, optional=True)),
        ("id",),
        "",
    )
    mapped = SparkTable(spark, str(tmp_path / "mapped"))
    mapped.create(odd, ("id",))

    def features(path):
        return set(DeltaTable.forPath(spark, str(path)).detail().first().tableFeatures)

    assert features(tmp_path / "plain") <= {"appendOnly", "invariants"}
    assert "columnMapping" in features(tmp_path / "mapped")
    described = mapped.describe()
    assert described is not None
    assert dict(described.columns) == {"id": "int", V: "string", "x y": "int"}
    assert described.key == ("id",)
