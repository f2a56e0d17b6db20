"""Which tables have joined later, by what MySQL has, what the connector has told, and what the last run took."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.lake.manifest import next_entry
from ingest.model import reasons
from ingest.model.errors import IngestError
from ingest.model.gap import Gap
from ingest.model.position import Position
from ingest.model.topics import TableId, captured
from ingest.schema.catalog import Catalog
from ingest.source import mysql
from ingest.source.later_tables import LaterTables, Looked, TakenBefore, incomplete_in
from ingest.testing.lake import pipeline_at
from tests.support.declared_tables import catalog, column, record
from tests.unit.source.wire import pipeline_of_d

END = Position(0, 3, 400)
NAMES = ("a", "b", "ta", "tb")
TABLES = [TableId("d", name) for name in NAMES]
A, B, TA, TB = TABLES


def looked(there=TABLES, patterns=("d.*",), before=(("d.*",),), told=TABLES, named=()):
    return Looked(there, END, patterns, before, told, named)


def gap(table=A, reason=reasons.JOINED.says, resync=None):
    return Gap(str(table), f"p.d.{table.name}", 0, 4, 4, reason, 1, resync, END)


def of(*gaps):
    return replace(next_entry.before_the_first(), batch_id=7, gaps=gaps)


def test_a_table_that_the_pattern_of_before_did_not_take_has_joined_though_the_connector_knows_it():
    assert looked(before=[("d.t*",)]).joined == [A, B]
    assert looked(before=[("d.*", "!d.b")]).joined == [B]
    assert looked(before=[("d.*",), ("d.*", "!d.b"), ("d.*",)]).joined == [B], "for a while"


def test_a_table_of_which_the_connector_has_told_nothing_has_joined():
    assert looked(told=[A, B, TA]).joined == [TB]
    assert looked(told=[A, B, TA], before=()).joined == [TB], "nobody has looked before"


def test_a_table_that_is_not_taken_joins_nothing_whoever_knows_it():
    assert looked(patterns=("d.t*",), told=[]).joined == [TA, TB]


def test_a_pattern_that_is_written_otherwise_and_takes_the_same_has_nothing_join():
    assert looked(before=[("d.a", "d.b", "d.t?")]).joined == []


some = st.sets(st.sampled_from(TABLES))
patterns = st.lists(
    st.sampled_from(["d.*", "d.t*", "d.?", "!d.a", "!d.tb"]), unique=True, max_size=4
).map(tuple)


@given(some, patterns, st.lists(patterns, max_size=3), some, some)
def test_just_what_is_taken_there_and_neither_taken_before_nor_told_joins_and_is_named_once(
    there, now, before, told, named
):
    found = looked(sorted(there), now, before, told, named)
    taken = set(captured(there, now))
    never_out = {t for t in taken if all(captured([t], one) for one in before)}
    assert set(found.joined) == taken - named - (never_out & told)
    gaps = found.gaps(of(), 8, lambda table: f"p.{table}")
    again = replace(found, named={*named, *(one.of for one in gaps)})
    assert again.joined == []


def test_the_gap_stands_where_mysql_s_log_ended_and_begins_where_the_topic_was_read_up_to():
    before = replace(of(), offsets={("t.d.a", 0): (3, 9)})
    (one,) = looked(before=[("d.b", "d.t*")]).gaps(before, 8, lambda table: f"t.{table}")
    assert (one.table, one.topic, one.start, one.end) == ("d.a", "t.d.a", 9, 9)
    assert (one.since, one.position, one.is_incomplete) == (8, END, True)


def test_nothing_is_missing_of_a_table_that_the_source_has_no_more():
    other = gap(A, reasons.RETENTION.says)
    found = looked(there=[B, TA, TB], told=[B, TA, TB], named=[A, B])
    closed, open_, kept = found.gaps(of(gap(A), gap(B), other), 8, str)
    assert (closed.resync, open_.resync, kept) == (END, None, other)


def test_nor_of_one_that_is_excluded_before_it_was_taken_whole():
    found = looked(patterns=("d.*", "!d.a"), named=[A, B])
    assert found.gone == [A]


@pytest.fixture
def pipeline(tmp_path):
    return pipeline_of_d(tmp_path)


def narrower(pipeline, *tables):
    return pipeline.model_copy(
        update={"source": pipeline.source.model_copy(update={"tables": tables})}
    )


def test_what_was_taken_is_remembered_by_the_lake(pipeline):
    assert TakenBefore(pipeline).joining(TABLES) == [], "no run has begun"
    TakenBefore(narrower(pipeline, "d.t*")).begin()
    assert TakenBefore(pipeline).joining(TABLES) == [A, B]


def test_a_table_that_was_excluded_in_a_run_however_short_joins_when_it_comes_back(pipeline):
    TakenBefore(pipeline).begin()
    TakenBefore(narrower(pipeline, "d.*", "!d.b")).begin()
    assert TakenBefore(pipeline).joining(TABLES) == [B]
    for _ in range(2):  # the run that takes it in ends before it has looked
        TakenBefore(pipeline).begin()
        assert TakenBefore(pipeline).joining(TABLES) == [B]
    TakenBefore(pipeline).published()
    assert TakenBefore(pipeline).joining(TABLES) == []


def test_a_table_is_incomplete_while_its_gap_is_open():
    whole = of(gap(resync=END), gap(B, reasons.RETENTION.says))
    assert incomplete_in(None) == incomplete_in(whole) == set()
    assert incomplete_in(of(gap())) == {A}


class World(LaterTables):
    """A MySQL with these tables whose log ends there."""

    there, end, asked = tuple(TABLES), END, 0

    def _asked(self, epoch):
        self.asked += 1
        return list(self.there), self.end


def test_tables_are_judged_once_the_connector_has_streamed_beyond_the_look_and_not_before(pipeline):
    world = World(pipeline)
    told = catalog(record(100, "CREATE", [column("id")], table='"d"."a"'))
    assert world.look(told, replace(END, pos=399), None) is None
    assert world.look(told, replace(END, pos=399), None) is None
    assert world.asked == 1
    found = world.look(told, END, None)
    assert found is not None
    assert found.joined == [B, TA, TB]
    assert world.look(told, END, None) is None, "MySQL is not asked all the time"
    assert world.asked == 1


def test_patterns_are_remembered_only_once_the_gaps_are_published(pipeline):
    TakenBefore(narrower(pipeline, "d.t*")).begin()
    none_left = []
    world = World(pipeline, lambda: none_left.append(1))
    found = world.look(catalog(record(100, "CREATE", [column("id")], table='"d"."a"')), END, None)
    assert TakenBefore(pipeline).patterns() == (("d.t*",),), (
        "a crash here has the next run look again"
    )
    world.published(found, of(gap()))
    assert TakenBefore(pipeline).patterns() == (("d.*",),)
    assert none_left == [], "a table is incomplete"
    world.published(found, of(gap(resync=END)))
    assert none_left == [1]


def test_a_table_that_the_task_failed_at_joins_whatever_the_connector_has_told_of_it(pipeline):
    before = TakenBefore(pipeline)
    before.note_unknown([B])
    world = World(pipeline)
    told = catalog(*[record(100, "CREATE", [column("id")], table=f'"d"."{n}"') for n in NAMES])
    found = world.look(told, END, of(gap(A)))
    assert (found.joined, found.void) == ([B], {"d.b"})
    world.published(found, of(gap(A), gap(B)))
    assert before.unknown() == set(), "kept until then, whoever is killed"
    before.note_unknown([A])
    found = world.look(told, END, of(gap(A), gap(B)))  # at once
    assert (found.joined, found.void) == ([], {"d.a"}), (
        "named already: its definition is read again"
    )


def test_where_mysql_cannot_be_asked_a_running_job_goes_on_and_asks_later(monkeypatch, tmp_path):
    """Its password was changed, say: that is said by who watches the connector, and would end the job here."""
    asked = []

    def refused(*_):
        asked.append(1)
        raise IngestError("E-MYSQL-LOGIN", "no", remedy="the password")

    monkeypatch.setattr(mysql, "connected", refused)
    later = LaterTables(pipeline_at(tmp_path))
    for _ in range(3):
        assert later.look(Catalog(), END, None) is None
    assert asked == [1]
