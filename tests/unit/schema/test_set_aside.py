"""Which schema versions cannot be read, and from where to where they are in force."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.model.gap import Gap
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.catalog import UNKNOWN, Catalog, SchemaVersion
from ingest.schema.mysql_types import Column
from ingest.schema.set_aside import Admission

T = TableId("d", "t")
GOOD = (Column("id", "INT", None, None, optional=False),)
BAD = (*GOOD, Column("e", "VECTOR", 3, None, optional=True))


def version(pos, *, good, offset=0):
    return SchemaVersion(
        T, Position(0, 1, pos), "ALTER", GOOD if good else BAD, ("id",), "", offset
    )


@given(st.lists(st.tuples(st.integers(1, 30), st.booleans()), min_size=1, max_size=8), st.data())
def test_a_place_is_read_by_the_version_in_force_or_set_aside(drawn, data):
    versions = [version(pos, good=good, offset=n) for n, (pos, good) in enumerate(drawn)]
    admission = Admission("standard")
    seen = data.draw(st.integers(0, len(versions)))
    admission.of(Catalog({T: versions[:seen]}))  # it is given more and more of a topic
    catalog, spans = admission.of(Catalog({T: versions}))
    for pos in range(1, 32):
        at = Position(0, 1, pos)
        known = Catalog({T: versions}).at(T, at)
        aside = [s for s in spans.get(T, ()) if s.start <= at and (s.end is None or at < s.end)]
        assert bool(aside) == (known is not None and known.columns == BAD)
        if known is not None and known.columns == GOOD:
            assert catalog.at(T, at) == known
    assert all(each.columns == GOOD for each in catalog.versions.get(T, ()))
    last = Catalog({T: versions}).current()[0]
    assert any(span.lasts for span in spans.get(T, ())) == (last.columns == BAD)


def test_a_catalog_that_can_be_read_is_left_as_it_is():
    catalog = Catalog({T: [version(1, good=True)]})
    assert Admission("standard").of(catalog) == (catalog, {})
    assert Admission("standard").of(catalog)[0] is catalog


def test_a_batch_that_is_finished_after_a_crash_sees_what_it_saw():
    admission = Admission("standard")
    catalog = Catalog({T: [version(1, good=False, offset=3), version(9, good=True, offset=4)]})
    assert [span.end for span in admission.of(catalog)[1][T]] == [Position(0, 1, 9)]
    assert [span.end for span in admission.of(catalog, 4)[1][T]] == [None]
    assert admission.of(catalog, 3) == (Catalog({}), {})


def test_other_names_that_the_lake_has_no_place_for_are_set_aside_too():
    reserved = replace(version(1, good=True), columns=(*GOOD, replace(GOOD[0], name="_INGEST")))
    _, spans = Admission("standard").of(Catalog({T: [reserved]}))
    assert "_INGEST" in spans[T][0].why
    odd = replace(version(1, good=True), columns=(*GOOD, replace(GOOD[0], name="a b")))
    assert not Admission("standard").of(Catalog({T: [odd]}))[1]
    assert "column mapping" in Admission("compat").of(Catalog({T: [odd]}))[1][T][0].why


SWAP = {
    "source": {"file": "binlog.000001", "pos": 500, "row": 0, "snapshot": None, "ts_ms": 0},
    "databaseName": "d",
    "ddl": "RENAME TABLE d._t_new TO d.t",
    "tableChanges": [],
}
"""As Debezium 3.6.1 tells it once its task began anew since the new table was made: it leaves that out, so it has forgotten it."""


def test_a_table_by_the_name_of_one_whose_columns_nobody_told_is_aside_until_they_are():
    known = Catalog({T: [version(100, good=True)]})
    (swap,) = known.add(SWAP, 0, 7)
    assert (swap.kind, swap.moved_from, swap.key) == (UNKNOWN, TableId("d", "_t_new"), ("id",))
    readable, spans = Admission("standard").of(known)
    (span,) = spans[T]
    assert (span.start, span.end, span.lasts) == (Position(0, 1, 500), None, False)
    gap = Gap("d.t", "p.d.t", 0, 9, 9, span.why, 3)
    assert gap.is_untold, "so its definition is read before its rows"
    assert gap.makes_void("d.t", asked_after=2), (
        "rows that were read before the swap are of another table"
    )
    assert readable.versions[T] == [version(100, good=True)]
    assert known.newest_of(T) is None, "it is sought as one that joins, where no change of it comes"
    told = replace(version(900, good=True), kind="CREATE")
    known.versions[T].append(told)
    assert known.was_read_anew(told)
    (span,) = Admission("standard").of(known)[1][T]
    assert span.end == Position(0, 1, 900)


def test_the_table_that_gave_its_name_away_in_that_statement_keeps_its_rows_at_hand():
    """Of the swap's first half Debezium tells, where the pipeline takes the other name, too."""
    known = Catalog({T: [version(100, good=True)]})
    first = {**SWAP, "ddl": "RENAME TABLE d.t TO d.t_old"}
    known.add(first, 0, 7)
    known.add(SWAP, 0, 8)
    assert [one.kind for one in known.versions[T]][1:] == ["DROP", UNKNOWN]
    readable, spans = Admission("standard").of(known)
    assert readable.versions[T] == [version(100, good=True)]
    assert spans[T][-1].start == Position(0, 1, 500)
    assert spans[T][-1].end is None
    dropped = Catalog({T: [version(100, good=True)]})
    dropped.add(first, 0, 7)
    assert [one.kind for one in Admission("standard").of(dropped)[0].versions[T]][1:] == ["DROP"]


@pytest.mark.parametrize("statement", [None, ""])
@pytest.mark.parametrize("snapshot", [None, "incremental"])
def test_columns_that_the_connector_has_from_the_driver_are_none_and_no_snapshot(
    statement, snapshot
):
    """It writes them where it is to read chunks of a table that it does not know (its `retrieveAndRefreshSchema`)."""
    text = {"name": "id", "typeName": "ENUM", "position": 1, "optional": False}
    change = {
        "id": '"d"."t"',
        "type": "CREATE",
        "table": {"columns": [text], "primaryKeyColumnNames": ["id"]},
    }
    source = {**SWAP["source"], "snapshot": snapshot}
    known = Catalog({T: [version(100, good=True)]})
    known.add({**SWAP, "source": source, "ddl": statement, "tableChanges": [change]}, 0, 7)
    assert [(one.kind, one.columns) for one in known.versions[T]][1:] == [(UNKNOWN, ())]
    assert known.snapshots(T) == []
    (span,) = Admission("standard").of(known)[1][T]
    gap = Gap("d.t", "p.d.t", 0, 9, 9, span.why, 3)
    assert (gap.is_untold, gap.makes_void("d.t", asked_after=2), span.mends) == (True, True, True)


@pytest.mark.parametrize("guessed", [True, False])
def test_what_is_altered_of_columns_that_are_not_the_table_s_is_not_its_either(guessed):
    """Until the connector has read the definition."""
    change = {"id": '"d"."t"', "type": "CREATE", "table": {"columns": []}}
    known = Catalog({T: [version(100, good=True)]})
    known.add({**SWAP, "ddl": None, "tableChanges": [change]} if guessed else SWAP, 0, 7)
    source = {**SWAP["source"], "pos": 600}
    altered = {"id": '"d"."t"', "type": "ALTER", "table": {"columns": []}}
    statement = "ALTER TABLE d.t ADD x INT"
    known.add({**SWAP, "source": source, "ddl": statement, "tableChanges": [altered]}, 0, 8)
    assert [one.kind for one in known.versions[T]][1:] == [UNKNOWN, UNKNOWN]
    assert Admission("standard").of(known)[1][T][-1].end is None
    told = {**altered, "type": "CREATE"}
    source = {**source, "pos": 700}
    known.add({**SWAP, "source": source, "ddl": "CREATE …", "tableChanges": [told]}, 0, 9)
    assert Admission("standard").of(known)[1][T][-1].end == Position(0, 1, 700)


def test_a_name_that_nobody_follows_or_that_is_told_with_its_columns_is_none_of_these():
    other = {**SWAP, "ddl": "RENAME TABLE d._t_new TO d.other"}
    known = Catalog({T: [version(100, good=True)]})
    assert known.add(other, 0) == []
    told = {"id": '"d"."t"', "type": "ALTER", "table": {"columns": [], "primaryKeyColumnNames": []}}
    assert [one.kind for one in known.add({**SWAP, "tableChanges": [told]}, 0)] == ["ALTER"]
