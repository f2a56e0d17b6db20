"""Rows of before the first run that come in chunks: which run is the first, and what the connector is made with."""

from types import SimpleNamespace

import pytest

from ingest.model import reasons
from ingest.model.errors import IngestError
from ingest.source import first_rows, resync
from ingest.source.connector import Connector
from ingest.source.later_tables import NOTHING, TakenBefore
from tests.unit.source.test_later_tables import A, B, looked
from tests.unit.source.wire import pipeline_of_d

PLACE = {"file": "binlog.000003", "pos": 4}


class Known(Connector):
    """A connector that Connect knows or not, with an offset."""

    def __init__(self, pipeline, *, mode=None, offset=None):
        super().__init__(pipeline)
        self.mode, self.stored = mode, offset

    def current(self):
        return {"snapshot.mode": self.mode} if self.mode else None

    def offset(self, say=None):
        return self.stored


@pytest.fixture
def pipeline(tmp_path, monkeypatch):
    monkeypatch.setattr(resync, "is_possible", lambda _: True)
    found = pipeline_of_d(tmp_path)
    return found.model_copy(
        update={"source": found.source.model_copy(update={"first_rows": "in_chunks"})}
    )


def begun(pipeline, **known):
    connector = Known(pipeline, **known)
    first_rows.begin(pipeline, connector)
    return connector


def test_at_the_first_run_all_tables_join_and_the_snapshot_reads_definitions_alone(pipeline):
    assert begun(pipeline).leaves_rows
    before = TakenBefore(pipeline)
    before.begin()
    assert before.patterns() == (NOTHING, pipeline.source.tables)
    assert begun(pipeline, mode="no_data").leaves_rows, "the run before has died behind its making"
    assert before.joining([A, B]) == [], "the connector knows their columns"
    found = looked(before=before.patterns())
    assert A in found.joined
    assert found.why(A) == reasons.FIRST_ROWS.says
    before.published()
    assert not begun(pipeline, mode="no_data").leaves_rows
    assert not begun(pipeline).leaves_rows, "somebody has deleted the connector: all rows once more"


def test_a_connector_that_is_there_goes_on_as_it_began_and_rows_come_all_the_same(pipeline):
    """It may have begun for a lake that is gone, and then nobody knows which rows were asked for."""
    assert not begun(pipeline, mode="initial").leaves_rows
    before = TakenBefore(pipeline)
    before.begin()
    assert A in looked(before=before.patterns()).joined


def test_a_plan_foresees_it_and_writes_nothing(pipeline):
    connector = Known(pipeline)
    first_rows.foresee(pipeline, connector)
    assert connector.leaves_rows
    assert TakenBefore(pipeline).patterns() == ()


def test_without_gtids_it_is_refused_and_nothing_is_noted(pipeline, monkeypatch):
    monkeypatch.setattr(resync, "is_possible", lambda _: False)
    with pytest.raises(IngestError, match="E-FIRST-ROWS-GTID"):
        begun(pipeline)
    assert TakenBefore(pipeline).patterns() == ()


def test_without_gtids_a_later_run_does_not_forget_what_is_still_to_come(pipeline, monkeypatch):
    begun(pipeline)
    TakenBefore(pipeline).begin()
    monkeypatch.setattr(resync, "is_possible", lambda _: False)
    with pytest.raises(IngestError, match="E-FIRST-ROWS-GTID"):
        begun(pipeline, mode="no_data")


def test_at_once_is_as_it_was(pipeline):
    source = pipeline.source.model_copy(update={"first_rows": "at_once"})
    assert not begun(pipeline.model_copy(update={"source": source})).leaves_rows


def test_a_table_of_which_the_connector_has_told_nothing_is_read_with_its_definition():
    found = looked(before=[NOTHING, ("d.*",)], told=[A])
    assert [found.why(one) == reasons.JOINED.says for one in (A, B)] == [False, True]


@pytest.mark.parametrize(
    ("leaves", "offset", "mode"),
    [
        (True, None, "no_data"),
        (True, {}, "no_data"),  # made, and without a place yet
        (True, {**PLACE, "snapshot": "INITIAL"}, "no_data"),
        (True, PLACE, "initial"),  # were this lost, all rows have to come again
        (False, None, "initial"),
    ],
)
def test_definitions_alone_are_read_only_until_it_streams(
    pipeline, monkeypatch, leaves, offset, mode
):
    monkeypatch.setattr("ingest.source.mysql.own_selects", lambda _: {})
    monkeypatch.setattr("ingest.source.mysql.connected", lambda _: _Nobody())
    connector = Known(pipeline, offset=offset)
    connector.leaves_rows = leaves
    assert connector._wanted({})["snapshot.mode"] == mode


class _Nobody:
    def __enter__(self):
        return None

    def __exit__(self, *_):
        return None


def test_it_waits_until_the_connector_streams_and_has_it_read_rows_from_there_on(pipeline):
    offsets, applied = [None, {}, {**PLACE, "snapshot": "INITIAL"}, PLACE], []
    connector = Known(pipeline)
    connector.leaves_rows = True
    connector.offset = lambda say=None: offsets.pop(0)
    connector.apply = lambda say=None: applied.append(connector.leaves_rows)
    waits = SimpleNamespace(is_set=lambda: False, wait=lambda _: None)
    first_rows.follow(connector, SimpleNamespace(look=lambda: None), lambda _: None, waits)
    assert (offsets, applied) == ([], [False])
    first_rows.follow(connector, None, None, waits)  # nothing to wait for
