from dataclasses import replace

import pytest

from ingest.model.errors import IngestError
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.catalog import parse_record
from ingest.schema.steps import TableFacts, steps
from tests.support.declared_tables import CREATE, T, at, catalog, column, facts, record

ADD = record(500, "ALTER", [column("id"), column("v")])


def test_a_change_is_read_by_the_schema_in_force_at_its_position_not_by_the_newest():
    known = catalog(CREATE, ADD)
    assert len(known.at(T, at(499)).columns) == 1
    assert len(known.at(T, at(501)).columns) == 2
    assert known.at(T, at(99)) is None


def test_a_snapshot_s_rows_share_the_position_of_their_schema_record():
    assert catalog(CREATE).at(T, at(100)) is not None


def test_the_snapshot_s_own_drops_are_not_facts_about_the_source():
    known = catalog(record(100, "DROP", [], snapshot="true"), CREATE)
    assert [version.table for version in known.current()] == [T]


def test_a_quoted_table_id_may_hold_quotes_and_dots():
    known = catalog(record(100, "CREATE", [column("id")], table='"we""ird"."a.b"'))
    assert known.current()[0].table == TableId('we"ird', "a.b")


def test_without_a_barrier_a_batch_is_one_step():
    assert len(steps(facts(at(100), at(400)), catalog(CREATE, ADD), None)) == 1


def test_a_ddl_inside_a_batch_cuts_it_and_each_side_has_its_own_schema():
    before, after = steps(facts(at(100), at(900)), catalog(CREATE, ADD), None)
    assert (len(before.version.columns), len(after.version.columns)) == (1, 2)
    assert before.end == after.start == Position(0, 1, 500)
    assert after.previous == before.version


def test_a_truncate_wipes_what_is_older_and_keeps_the_schema():
    before, after = steps(facts(at(100), at(900), [at(300)]), catalog(CREATE), None)
    assert before.wipe is None
    assert after.wipe == at(300)
    assert after.version == before.version


def test_a_table_dropped_and_created_again_starts_empty():
    again = [CREATE, record(300, "DROP", []), record(310, "CREATE", [column("id")])]
    first, *_, last = steps(facts(at(150), at(900)), catalog(*again), at(140))
    assert first.wipe is None
    assert Position(0, 1, 300) in {
        step.wipe for step in steps(facts(at(150), at(900)), catalog(*again), at(140))
    }
    assert last.version.position == Position(0, 1, 310)


def test_a_drop_between_two_batches_is_not_forgotten():
    again = [CREATE, record(300, "DROP", []), record(310, "CREATE", [column("id")])]
    found = steps(facts(at(400), at(900)), catalog(*again), at(200))
    assert [step.wipe for step in found] == [None, Position(0, 1, 300), None]
    assert found[-1].previous is None, "rows of the dropped table get no defaults of the new one"


@pytest.mark.parametrize("high", [450, 900])
def test_changes_of_before_a_column_that_the_table_has_by_another_partition_are_late(high):
    found = steps(facts(at(400), at(high)), catalog(CREATE, ADD), at(700))
    assert [one.late for one in found] == ([True] if high == 450 else [True, False])
    assert not any(
        one.late for one in steps(facts(at(600), at(900)), catalog(CREATE, ADD), at(700))
    )
    assert not any(
        one.late for one in steps(facts(at(400), at(900)), catalog(CREATE, ADD), at(450))
    )
    index = record(500, "ALTER", [column("id")])
    assert not any(
        one.late for one in steps(facts(at(400), at(900)), catalog(CREATE, index), at(700))
    )


def test_a_column_added_between_two_batches_still_fills_the_rows_that_were_there():
    found = steps(facts(at(600), at(900)), catalog(CREATE, ADD), at(100))
    assert [len(step.version.columns) for step in found] == [1, 2]
    assert found[-1].previous == found[0].version


EXCHANGED = {
    **record(500, "ALTER", [column("id")], ddl="ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u"),
    "databaseName": "d",
}
U = TableId("d", "u")


def test_an_exchanged_partition_is_a_ddl_of_both_tables():
    made = record(300, "CREATE", [column("id"), column("v")], table='"d"."u"')
    known = catalog(CREATE, made, EXCHANGED)
    assert [known.newest_of(one).unlogged for one in (T, U)] == ["EXCHANGE PARTITION"] * 2
    assert known.newest_of(U).position == Position(0, 1, 500)
    assert [one.name for one in known.newest_of(U).columns] == ["id", "v"], "each has its own"
    assert known.at(U, at(400)).unlogged == ""
    assert set(catalog(CREATE, EXCHANGED).versions) == {T}, "who is not followed stays unknown"
    gone = record(400, "DROP", [], table='"d"."u"')
    assert catalog(CREATE, made, gone, EXCHANGED).newest_of(U) is None


def test_a_table_named_alone_beside_a_qualified_one_is_of_whatever_database_has_it():
    """Of the session's, which is not told."""
    said = "ALTER TABLE d.t EXCHANGE PARTITION p WITH TABLE u"
    other = record(300, "CREATE", [column("id")], table='"e"."u"')
    assert catalog(CREATE, other, {**EXCHANGED, "ddl": said}).newest_of(TableId("e", "u")).unlogged


def test_rows_that_a_new_table_got_for_a_partition_are_not_forgotten_before_its_first_change():
    made = record(300, "CREATE", [column("id")], table='"d"."u"')
    found = steps(replace(facts(at(900), at(900)), table=U), catalog(made, EXCHANGED), None)
    assert [one.version.unlogged for one in found] == ["", "EXCHANGE PARTITION"]
    assert found[-1].previous == found[0].version
    again = (
        record(600, "DROP", [], table='"d"."u"'),
        record(610, "CREATE", [column("id")], table='"d"."u"'),
    )
    later = catalog(made, EXCHANGED, *again)
    found = steps(replace(facts(at(900), at(900)), table=U), later, None)
    assert [one.version.position for one in found] == [Position(0, 1, 610)]


def test_what_generated_columns_are_computed_of_is_known_through_later_statements():
    made = "CREATE TABLE t (id INT, a INT, g INT AS (a + 1), h INT AS (a * a) STORED)"
    names = ["id", "a", "g", "h"]
    known = catalog(record(100, "CREATE", [*map(column, names)], snapshot="true", ddl=made))
    for pos, names, ddl, computes in [
        (200, ["id", "a", "G2", "h"], "ALTER TABLE t RENAME COLUMN g TO G2", {"g2a", "g21", "ha"}),
        (300, ["id", "a", "h", "i"], "ALTER TABLE t DROP g2, ADD i INT AS (h)", {"ha", "ih"}),
        (400, ["id", "a", "h", "i"], "ALTER TABLE t MODIFY h INT, MODIFY i INT AS (a)", {"ia"}),
        (500, ["id", "a", "h", "i"], "ALTER TABLE t COMMENT 'x'", {"ia"}),
    ]:
        known.add(record(pos, "ALTER", [*map(column, names)], ddl=ddl), 0)
        assert {one + word for one, word in known.newest_of(T).computes} == computes
    moved = record(600, "ALTER", [*map(column, names)], ddl="RENAME TABLE t TO u", table='"d"."u"')
    known.add(moved | {"databaseName": "d"}, 0)
    assert known.newest_of(U).computes == {("i", "a")}


def test_each_of_several_ddls_between_two_batches_is_a_step_of_its_own():
    more = record(
        550, "ALTER", [column("id"), column("v"), column("w", defaultValueExpression="1")]
    )
    found = steps(facts(at(600), at(900)), catalog(CREATE, ADD, more), at(100))
    assert [len(step.version.columns) for step in found] == [1, 2, 3]


def test_changes_without_a_known_schema_stop_the_batch():
    with pytest.raises(IngestError, match=r"No schema of d\.t"):
        steps(facts(at(50), at(60)), catalog(CREATE), None)


def test_one_topic_with_two_tables_stops_the_batch():
    rows = [
        dict(
            database="d",
            table=name,
            topic="p.d.x",
            partition=0,
            changes=1,
            low=at(1).as_dict(),
            high=at(1).as_dict(),
            high_water=None,
            attempt=None,
            source_time_us=None,
            truncates=[],
            keys=[],
        )
        for name in ("a_b", "a$b")
    ]
    with pytest.raises(IngestError, match="two tables"):
        TableFacts.combine(rows)


def test_what_is_not_a_schema_record_is_refused():
    with pytest.raises(ValueError):
        parse_record(b"[]")


@pytest.mark.parametrize("later", [[], [600], [600, 700]])
def test_rows_that_came_with_another_name_are_unknown_whatever_ddl_follows_the_rename(later):
    """Before the first change under the new name: nothing else mentions those rows."""
    old = record(100, "CREATE", [column("id")], snapshot="true", table='"d"."old"')
    renamed = {
        **record(500, "ALTER", [column("id")], ddl="RENAME TABLE old TO t"),
        "databaseName": "d",
    }
    known = catalog(old, renamed, *(record(pos, "ALTER", [column("id")]) for pos in later))
    assert steps(facts(at(900), at(900)), known, None)[0].moved == TableId("d", "old")
    made = record(650, "CREATE", [column("id")])
    assert steps(facts(at(900), at(900)), catalog(old, renamed, made), None)[0].moved is None
