"""A change that stands in another table's topic, and a table whose part cannot be cut: neither stops the other tables."""

from dataclasses import replace

import pytest

from ingest.batch.side_by_side import Failures
from ingest.model import reasons
from ingest.model.errors import IngestError
from ingest.testing.frames import assert_rows
from ingest.testing.lake import Lake
from ingest.testing.source import Source

COLUMNS = {"id": "INT", "v": "VARCHAR(20)"}


def holds(lake, *tables):
    for table in tables:
        assert_rows(lake.live(table).drop("_ingest"), table.rows)


def another_process(lake):
    """Which tries again what stands still."""
    lake.failures = Failures()
    lake.start()


def waiting(lake):
    found = lake.quarantined().filter("settled IS NULL").orderBy("offset")
    return [(one.topic, one.table, one.reason) for one in found.collect()]


def strange(record, table):
    """The same record, as somebody wrote it into the topic of this table."""
    return replace(record, topic=table.topic)


@pytest.mark.parametrize("key", [("id",), ()], ids=["with a key", "without one"])
def test_what_somebody_else_writes_into_a_topic_waits_and_nothing_waits_behind_it(
    spark, tmp_path, key
):
    source = Source()
    mine = source.table("d.mine", COLUMNS, key, [{"id": 1, "v": "a"}])
    other = source.table("d.other", COLUMNS, ["id"], [{"id": 1, "v": "o"}])
    lake = Lake(spark, tmp_path)
    lake.follow(source)
    other.update(1, v="p")
    copied = strange(source.log[-1], mine)
    nobody = Source()
    nobody.table("d.nobody", COLUMNS, ["id"])
    nobody._tables[0].insert(id=1, v="n")
    unknown = strange(nobody.log[-1], mine)
    mine.update(mine.key_of(mine.held[0]) if not key else 1, v="b")
    source.log[-1:] = [copied, unknown, source.log[-1]]
    lake.follow(source, quarantine=True)
    says = reasons.OF_ANOTHER_TABLE
    strangers = [
        (mine.topic, None, says.of(table="d.other")),
        (mine.topic, None, says.of(table="d.nobody")),
    ]
    assert waiting(lake) == strangers
    holds(lake, mine, other)
    assert lake.batches.replay() == 0
    mine.update(mine.key_of(mine.held[0]) if not key else 1, v="c")
    lake.start()
    lake.follow(source)
    assert waiting(lake) == strangers, "until a person gives them up"
    holds(lake, mine, other)


def test_two_tables_whose_names_come_to_one_topic_end_the_batch(spark, tmp_path):
    source = Source()
    first = source.table("d.a$b", COLUMNS, ["id"], [{"id": 1, "v": "a"}])
    lake = Lake(spark, tmp_path)
    lake.follow(source)
    second = source.table("d.a_b", COLUMNS, ["id"])
    assert second.topic == first.topic
    second.insert(id=1, v="not a row of the first")
    first.update(1, v="b")
    with pytest.raises(IngestError) as shared:
        lake.follow(source)
    assert shared.value.code == "E-TOPIC-SHARED"
    assert lake.live(first).count() == 1, "as it was before"


def test_a_table_whose_schemas_of_before_are_gone_stands_still_alone(spark, tmp_path):
    source = Source()
    gone = source.table("d.gone", COLUMNS, ["id"], [{"id": 1, "v": "a"}])
    well = source.table("d.well", COLUMNS, ["id"], [{"id": 1, "v": "w"}])
    lake = Lake(spark, tmp_path)
    lake.follow(source)
    kept = lake.log.catalog.versions.pop(gone.name)
    gone.add_column("more", "INT")
    gone.update(1, v="b", more=7)
    well.update(1, v="x")
    lake.follow(source)
    assert "No schema of d.gone is known" in lake.batches.newest.tables["d.gone"].stopped
    assert lake.live(gone).count() == 1, "as it was before"
    holds(lake, well)
    lake.log.catalog.versions[gone.name][:0] = kept
    another_process(lake)
    lake.apply(lake.log.ends())
    holds(lake, gone, well)


def test_a_table_of_which_no_schema_is_known_stands_still_until_one_is(spark, tmp_path):
    source = Source()
    unknown = source.table("d.unknown", COLUMNS, ["id"])
    well = source.table("d.well", COLUMNS, ["id"], [{"id": 1, "v": "w"}])
    schemas = [one for one in source.log if one.topic == source.name]
    lake = Lake(spark, tmp_path)
    lake.replay([one for one in source.log if one is not schemas[0]])
    source.log.clear()
    for number in (1, 2):
        unknown.insert(id=number, v="u")
        well.update(1, v=f"w{number}")
        lake.replay(source.log)
        source.log.clear()
        holds(lake, well)
        state = lake.batches.newest.tables["d.unknown"]
        assert "No schema of d.unknown is known" in state.stopped
    another_process(lake)
    assert not any("gone from the lake" in said for said in lake.said)
    assert lake.batches.newest.tables["d.unknown"].position is None
    lake.replay(schemas[:1])
    another_process(lake)
    lake.apply(lake.log.ends())
    assert not lake.batches.newest.tables["d.unknown"].stopped
    holds(lake, unknown, well)


def test_a_table_that_can_no_longer_be_kept_as_the_file_says_stands_still_alone(spark, tmp_path):
    source = Source()
    soft = source.table("d.soft", COLUMNS, ["id"], [{"id": 1, "v": "a"}])
    well = source.table("d.well", COLUMNS, ["id"], [{"id": 1, "v": "w"}])
    lake = Lake(spark, tmp_path, tables={"d.soft": {"deletes": "soft"}})
    lake.follow(source)
    soft.key = ()
    soft._define("ALTER TABLE `d`.`soft` DROP PRIMARY KEY")
    soft.insert(id=1, v="a")
    well.update(1, v="x")
    lake.follow(source)
    assert (
        "cannot be kept as the pipeline file says" in lake.batches.newest.tables["d.soft"].stopped
    )
    assert lake.live(soft).count() == 1, "as it was before"
    holds(lake, well)
