"""DDLs that no change need follow: of a table that is dropped, made, or read anew from MySQL's own text."""

from dataclasses import replace

import pytest

from ingest.model.manifest import TableState
from ingest.model.position import Position
from ingest.schema.catalog import Catalog
from ingest.schema.pending_ddl import is_of_a_snapshot, pending, without_changes
from ingest.schema.steps import steps
from tests.support.declared_tables import T, column, record
from tests.support.declared_tables import catalog as declared
from tests.support.mutants import Mutant

DROP = record(100, "DROP", [], ddl="DROP TABLE IF EXISTS `d`.`t`")
CREATE = record(200, "CREATE", [column("id")], ddl="CREATE TABLE t …")


def at(pos):
    return Position(0, 1, pos)


def test_a_table_that_was_dropped_where_it_was_not_and_made_is_nothing_to_apply():
    catalog = Catalog()
    for one in (DROP, CREATE):
        catalog.add(one, 0)
    assert pending(catalog, {}, at(900), {}) == {}


def test_a_drop_of_a_table_that_never_was_is_nothing_to_apply():
    catalog = Catalog()
    catalog.add(DROP, 0)
    assert pending(catalog, {}, at(900), {}) == {}
    assert catalog.first(T) is None


def test_a_ddl_after_such_a_start_begins_at_the_create():
    catalog = Catalog()
    for one in (DROP, CREATE, record(300, "ALTER", [column("id"), column("v")])):
        catalog.add(one, 0)
    waiting = pending(catalog, {}, at(900), {})
    facts = without_changes({str(T): waiting[T]}, catalog, {})
    assert [len(step.version.columns) for step in steps(facts[T], catalog, None)] == [1, 2]


def test_a_drop_of_a_table_that_the_lake_holds_still_counts():
    catalog = Catalog()
    catalog.add(DROP, 0)
    assert pending(catalog, {str(T): TableState("p", 1, position=at(50))}, at(900), {}) == {
        T: at(100)
    }


def test_a_version_from_mysql_s_own_text_is_told_from_one_that_debezium_read():
    catalog = Catalog()
    catalog.add(CREATE, 0, 1)
    assert not catalog.was_read_anew(catalog.current()[0])
    again = record(300, "DROP", [])
    again["tableChanges"] += record(300, "CREATE", [column("id")])["tableChanges"]
    catalog.add(again, 0, 2)
    assert catalog.was_read_anew(catalog.current()[0])
    # Of the first table of several, Debezium 3.6.1 calls the DROP a snapshot's, and it is left out.
    catalog.add(record(400, "DROP", [], snapshot="true"), 0, 3)
    catalog.add(record(400, "CREATE", [column("id")]), 0, 4)
    assert catalog.was_read_anew(catalog.current()[0])
    # Without one it is a statement's: the table of before was renamed away, of which nothing is told.
    catalog.add(record(450, "CREATE", [column("id")], ddl="CREATE TABLE t (id INT)"), 0, 5)
    (made,) = catalog.current()
    assert not catalog.was_read_anew(made)
    assert (made.replaces, bool(made.unlogged)) == (True, True)
    # Or it was there, and nothing was made.
    catalog.add(
        record(460, "CREATE", [column("id")], ddl="CREATE TABLE IF NOT EXISTS t LIKE u"), 0, 6
    )
    assert not catalog.current()[0].replaces
    for pos, kind in ((500, "DROP"), (600, "CREATE")):
        catalog.add(record(pos, kind, [column("id")]), 0, pos)
    assert not catalog.was_read_anew(catalog.current()[0])


def test_rows_of_a_table_that_was_read_anew_are_read_by_its_new_definition():
    catalog = Catalog()
    catalog.add(CREATE, 0, 1)
    again = record(300, "DROP", [])
    again["tableChanges"] += record(300, "CREATE", [column("id", "BIGINT")], key=())["tableChanges"]
    catalog.add(again, 0, 2)
    facts = without_changes({str(T): at(900)}, catalog, {})
    before, after = steps(facts[T], catalog, at(250))
    assert (before.version.columns[0].type_name, after.version.columns[0].type_name) == (
        "INT",
        "BIGINT",
    )
    assert (after.wipe, after.version.key, after.previous) == (at(300), (), None)
    # Its rows came with it, and get the default of a column that is added later.
    catalog.add(record(400, "ALTER", [column("id", "BIGINT"), column("v")], key=()), 0, 3)
    *_, last = steps(replace(facts[T], high=at(900)), catalog, at(250))
    assert last.previous == after.version


def test_the_definition_that_a_blocking_snapshot_reads_of_a_table_without_a_key_goes_with_its_rows():
    """By itself it would empty the table, as Debezium writes a DROP before the CREATE; the rows come behind it."""
    made = record(10, "CREATE", [column("id")], key=())
    anew = [record(300, "DROP", []), record(300, "CREATE", [column("id")], key=())]
    keyed = [record(300, "DROP", []), record(300, "CREATE", [column("id")])]
    altered = record(300, "ALTER", [column("id"), column("v")], key=())
    assert is_of_a_snapshot(declared(made, *anew), T, at(300))
    assert not is_of_a_snapshot(declared(made, *keyed), T, at(300))
    assert not is_of_a_snapshot(declared(made, altered), T, at(300))


MUTANTS = [
    Mutant(
        "the first record of a table made it",
        Catalog,
        "first",
        lambda _: lambda self, table: self._ordered(table)[0],
        test_a_table_that_was_dropped_where_it_was_not_and_made_is_nothing_to_apply,
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_each_mutant_is_killed_by_the_test_that_names_it(mutant):
    mutant.killed_by()
    with mutant.in_place(), pytest.raises(AssertionError):
        mutant.killed_by()
