"""`policy`: what the pipeline file says of DDL, upon the schema versions of a table."""

import pytest

from ingest.config import pipeline_file
from ingest.model.errors import IngestError
from ingest.model.manifest import TableState
from ingest.model.position import Position
from ingest.model.start_facts import Note
from ingest.model.topics import TableId
from ingest.schema import ddl_policy, evolution
from ingest.schema.catalog import Catalog, SchemaVersion
from ingest.schema.ddl import REPLACED
from ingest.schema.ddl_policy import Barrier, Change, Rules
from ingest.schema.mysql_types import Column
from ingest.schema.pending_ddl import pending

T = TableId("d", "t")


def at(pos):
    return Position(0, 1, pos)


def col(name, type_name="INT", length=None):
    return Column(name, type_name, length, None, optional=True)


def version(pos, *columns, ddl="", key=("id",), kind="ALTER", **more):
    return SchemaVersion(T, at(pos), kind, columns, key if columns else (), ddl, **more)


ID, A, B = col("id"), col("a"), col("b")
FIRST = version(5, ID, A, kind="CREATE", from_snapshot=True)
STATE = TableState("/l/d/t", 1, position=at(10))


def governed(*versions, state=STATE, **acts):
    states = {"d.t": state} if state else {}
    rules = Rules(acts.pop("acts", acts), acts.pop("approved", None))
    return ddl_policy.governed(Catalog({T: [FIRST, *versions]}), states, lambda _: rules)


@pytest.mark.parametrize(
    ("columns", "ddl", "found"),
    [
        ((ID, A, B), "ALTER TABLE t ADD b INT", [Change("add_column", ("b",))]),
        ((ID,), "ALTER TABLE t DROP a", [Change("drop_column", ("a",))]),
        ((ID, B), "ALTER TABLE t RENAME COLUMN a TO b", [Change("rename_column", ("a",))]),
        (
            (ID, col("a", "BIGINT")),
            "ALTER TABLE t MODIFY a BIGINT",
            [Change("change_type", ("a",))],
        ),
        (
            (ID, A),
            "ALTER TABLE t DROP a, ADD a INT",
            [Change("add_column", ("a",)), Change("drop_column", ("a",))],
        ),
        ((ID, A), "ALTER TABLE t COMMENT 'x'", []),
        ((A, ID), "ALTER TABLE t MODIFY a INT FIRST", []),
        ((), "DROP TABLE t", [Change("drop_table")]),
    ],
)
def test_a_ddl_is_what_it_changes_of_the_lake(columns, ddl, found):
    assert ddl_policy.changes(FIRST, version(20, *columns, ddl=ddl)) == found


def test_another_key_is_a_change_and_a_renamed_column_in_it_is_none():
    assert ddl_policy.changes(FIRST, version(20, ID, A, key=("id", "a"))) == [Change("change_key")]
    renamed = version(20, B, A, ddl="ALTER TABLE t RENAME COLUMN id TO b", key=("b",))
    assert ddl_policy.changes(FIRST, renamed) == [Change("rename_column", ("id",))]


def test_without_a_policy_the_catalog_is_what_it_was():
    dropped = version(20, ID, ddl="ALTER TABLE t DROP a")
    catalog, barriers = governed(dropped)
    assert catalog.versions == {T: [FIRST, dropped]}
    assert barriers == {}


def test_a_table_stands_before_the_first_ddl_that_pauses_it():
    added = version(20, ID, A, B, ddl="ALTER TABLE t ADD b INT")
    dropped = version(30, ID, B, ddl="ALTER TABLE t DROP a")
    later = version(40, ID, ddl="ALTER TABLE t DROP b")
    catalog, barriers = governed(added, dropped, later, drop_column="pause")
    assert barriers == {T: Barrier(at(30), "pause", "ALTER TABLE t DROP a", "drop_column 'a'")}
    # DDLs before it are applied, whether or not a change follows them.
    states = {"d.t": STATE}
    assert pending(catalog, states, at(99), barriers) == {T: at(20)}
    _, approved = governed(added, dropped, later, acts={"drop_column": "pause"}, approved=at(30))
    assert approved[T].position == at(40)


def test_a_ddl_that_is_applied_holds_nothing_and_an_empty_lake_has_nothing_to_protect():
    early = version(8, ID, ddl="ALTER TABLE t DROP a")
    assert governed(early, drop_column="pause")[1] == {}
    late = version(20, ID, ddl="ALTER TABLE t DROP a")
    assert governed(late, drop_column="pause", state=None)[1] == {}


def test_an_ignored_column_is_left_out_under_whatever_name_it_gets():
    added = version(20, ID, A, B, ddl="ALTER TABLE t ADD b INT")
    renamed = version(30, ID, A, col("c"), ddl="ALTER TABLE t RENAME COLUMN b TO c")
    catalog, _ = governed(added, renamed, add_column="ignore")
    assert [sorted(v.left_out) for v in catalog.versions[T]] == [[], ["b"], ["c"]]
    assert [column.name for column in catalog.versions[T][-1].followed] == ["id", "a"]
    gone = version(40, ID, A, ddl="ALTER TABLE t DROP c")
    catalog, _ = governed(added, renamed, gone, add_column="ignore", drop_column="ignore")
    assert (catalog.versions[T][-1].left_out, catalog.versions[T][-1].kept) == (frozenset(), ())


def test_a_column_that_is_kept_stays_in_the_lake_with_its_values():
    dropped = version(20, ID, ddl="ALTER TABLE t DROP a")
    catalog, _ = governed(dropped, drop_column="ignore")
    held = evolution.Held({"id": "int", "a": "int"})
    newest = catalog.versions[T][-1]
    assert newest.kept == ("a",)
    assert evolution.plan(held, newest, FIRST.columns) == evolution.Nothing()
    # What was done stays done, whatever the file says of the DDLs to come.
    kept = TableState("/l/d/t", 1, position=at(20), kept=("a",))
    assert governed(dropped, state=kept)[0].versions[T][-1].kept == ("a",)
    # Another column under that name cannot be told from the one that was kept.
    again = version(30, ID, A, ddl="ALTER TABLE t ADD a INT")
    assert governed(dropped, again, state=kept, drop_column="ignore")[1][T].position == at(30)
    added = version(25, ID, B, ddl="ALTER TABLE t ADD b INT")
    for name in ("a", "A"):
        renamed = version(30, ID, col(name), ddl=f"ALTER TABLE t RENAME COLUMN b TO {name}")
        _, barriers = governed(dropped, added, renamed, state=kept, drop_column="ignore")
        assert (barriers[T].position, barriers[T].why) == (at(30), "rename_column 'b'")


def test_columns_of_a_table_without_a_key_are_not_left_out():
    added = version(20, ID, A, B, ddl="ALTER TABLE t ADD b INT", key=())
    first = version(5, ID, A, key=(), from_snapshot=True)
    _, barriers = ddl_policy.governed(
        Catalog({T: [first, added]}), {"d.t": STATE}, lambda _: Rules({"add_column": "ignore"})
    )
    assert barriers[T].act == "pause"


def test_a_table_that_is_made_under_the_name_of_one_that_went_without_a_word_is_one_that_is_dropped():
    made = version(30, ID, A, kind="CREATE", replaces=True, unlogged=REPLACED)
    for act in ("pause", "fail"):
        _, barriers = governed(made, drop_table=act)
        assert (barriers[T].act, barriers[T].why) == (act, "drop_table")
    kept = governed(made, drop_table="ignore")[0].versions[T][-1]
    assert (kept.unlogged, kept.replaces, kept.columns) == ("", True, made.columns)
    assert governed(made, truncate="ignore")[0].versions[T][-1].unlogged


def test_an_ignored_drop_leaves_the_rows_and_a_swap_of_tables_is_no_drop():
    gone = version(20, kind="DROP", ddl="DROP TABLE t")
    assert governed(gone, drop_table="ignore")[0].versions[T] == [FIRST]
    assert governed(gone, drop_table="pause")[1][T].why == "drop_table"
    swapped = version(20, ID, A, ddl="RENAME TABLE t TO x, y TO t", moved_from=TableId("d", "y"))
    assert governed(gone, swapped, drop_table="pause")[1] == {}


def test_an_ignored_truncate_leaves_the_rows_of_a_partition_too():
    dropped = version(20, ID, A, ddl="ALTER TABLE t DROP PARTITION p", unlogged="DROP PARTITION")
    swapped = version(30, ID, A, ddl="…", unlogged="EXCHANGE PARTITION")
    kept, _ = governed(dropped, swapped, truncate="ignore")
    assert [one.unlogged for one in kept.versions[T]] == ["", "", "EXCHANGE PARTITION"]
    for act in ("evolve", "pause", "fail"):
        followed, barriers = governed(dropped, truncate=act)
        assert followed.versions[T][-1].unlogged == "DROP PARTITION"
        assert barriers == {}


def test_fail_ends_the_run_and_a_torn_batch_is_cut_as_it_was():
    catalog = Catalog({T: [FIRST, version(20, ID, ddl="ALTER TABLE t DROP a", offset=3)]})
    states = {"d.t": STATE}
    with pytest.raises(IngestError, match="DROP a") as refused:
        ddl_policy.in_force(
            Note(4, "c"), catalog, 9, states, lambda _: Rules({"drop_column": "fail"})
        )
    assert "0/000001:20:0.0" in refused.value.remedy

    def pause(_):
        return Rules({"drop_column": "pause"})

    _, note = ddl_policy.in_force(Note(4, "c"), catalog, 9, states, pause)
    assert (note.schema_offset, note.paused) == (9, {"d.t": at(20)})
    assert Note.from_json(note.as_json()) == note
    assert ddl_policy.in_force(note, catalog, 9, states, lambda _: Rules())[1].paused == note.paused


def rules(text, name="t"):
    base = """
name: p
source: {mysql: 'mysql://u@h:1', password: {env: X}, tables: ['d.*']}
kafka: {bootstrap_servers: 'h:1'}
connect: {url: 'http://h'}
lake: {path: /l}
tables:
"""
    return pipeline_file.parse(base + text).rules(TableId("d", name))


def test_one_word_stands_for_all_kinds_and_the_last_pattern_counts():
    assert rules("  d.x: {ddl: pause}") == Rules()
    add_only = rules("  d.*: {ddl: add_only}").acts
    assert add_only["drop_column"] == "ignore"
    assert add_only["change_type"] == "pause"
    assert "add_column" not in add_only
    assert rules("  d.*: {ddl: ignore}").ignores == {
        "add_column",
        "drop_column",
        "drop_table",
        "truncate",
    }
    both = "  d.*: {ddl: fail}\n  d.t: {ddl: {drop_table: ignore}, approved: 0/000003:7:0.0}"
    assert rules(both) == Rules({"drop_table": "ignore"}, Position(0, 3, 7))
    assert set(rules(both, "other").acts.values()) == {"fail"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("  d.t: {ddl: igonre}", "expected one of evolve, add_only, ignore, pause, fail"),
        ("  d.t: {ddl: {rename_column: ignore}}", "tables.d.t.ddl.rename_column"),
        ("  d.t: {ddl: {drop_colum: ignore}}", "perhaps `drop_column` is meant"),
        ("  d.t: {approved: yesterday}", "is not a position such as 0/000003:4711:0.0"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_with_the_right_word(text, told):
    with pytest.raises(IngestError) as refused:
        rules(text)
    assert told in refused.value.what
