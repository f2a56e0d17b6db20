"""When a new epoch begins, and how the connector goes on then, whatever a start before has ended at."""

from types import SimpleNamespace

import pytest

from ingest.model.errors import IngestError
from ingest.source import epoch_registry
from ingest.source.connector import Plan, Status
from ingest.source.epoch_registry import EpochRegistry
from tests.unit.source.wire import pipeline_of_d

NOTHING = Plan("nothing", ())


class Standing:
    """A connector that is stopped and resumed as Connect does it: another configuration starts none that is stopped."""

    def __init__(self):
        self.state, self.done, self.refused = "RUNNING", [], 0

    def status(self):
        return Status(self.state, "RUNNING" if self.state == "RUNNING" else "UNASSIGNED", "")

    def apply(self, say=None):
        if self.refused:
            self.refused -= 1
            raise IngestError("E-CONNECTOR-CONFIG", "No.", remedy="wait.")
        self.done.append("apply")
        return NOTHING

    def stop(self):
        self.state = "STOPPED"
        self.done.append("stop")

    def resume(self):
        self.state = "RUNNING"
        self.done.append("resume")


@pytest.fixture
def source(monkeypatch):
    """Which MySQL answers; Kafka's topics end where they end."""
    found = SimpleNamespace(server="first")
    monkeypatch.setattr(epoch_registry.mysql, "server_uuid", lambda _: found.server)
    monkeypatch.setattr(
        epoch_registry.mysql, "server_facts", lambda _: SimpleNamespace(gtid_mode="ON")
    )
    monkeypatch.setattr(epoch_registry.broker, "data_topics", lambda _: ["p.d.a"])
    monkeypatch.setattr(
        epoch_registry.broker, "end_offsets", lambda _, topics: {(topic, 0): 7 for topic in topics}
    )
    monkeypatch.setattr(
        epoch_registry.broker, "topic_ids", lambda _, topics: dict.fromkeys(topics, "T")
    )
    return found


@pytest.fixture
def registry(tmp_path, source):
    found = EpochRegistry(pipeline_of_d(tmp_path))
    assert found.follow(Standing(), print) == NOTHING
    return found


def test_the_connector_stands_still_while_the_epoch_of_another_server_begins(registry, source):
    connector, source.server = Standing(), "second"
    registry.follow(connector, lambda _: None)
    assert connector.done == ["stop", "apply", "resume"]
    assert [(one.number, one.server) for one in registry.known()] == [(0, "first"), (1, "second")]


def test_a_start_that_ended_behind_the_new_epoch_leaves_a_connector_that_the_next_resumes(
    registry, source
):
    connector, source.server, said = Standing(), "second", []
    connector.refused = 1
    with pytest.raises(IngestError):
        registry.follow(connector, said.append)
    assert (connector.state, len(registry.known())) == ("STOPPED", 2)
    registry.follow(connector, said.append)
    assert (connector.state, connector.done) == ("RUNNING", ["stop", "apply", "resume"])
    assert "goes on" in said[-1]
    registry.follow(connector, said.append)
    assert (connector.done[-1], len(said)) == ("apply", 2), "once"
    assert len(registry.known()) == 2


def test_a_connector_that_a_person_has_paused_stays_so(registry, source):
    connector, source.server = Standing(), "second"
    registry.follow(connector, lambda _: None)
    connector.state = "PAUSED"
    registry.follow(connector, lambda _: None)
    assert connector.state == "PAUSED"


def test_one_that_was_stopped_to_take_all_tables_again_does_not_go_on_by_its_old_offset(
    registry, source
):
    """It may be of another log: where `ingest resync --all` was ended before it forgot the offset."""
    connector = Standing()
    connector.stop()
    registry.follow(connector, lambda _: None)
    assert connector.state == "STOPPED"
    registry.begin("first", "every table was taken again", continues=False)
    registry.follow(connector, lambda _: None)
    assert connector.state == "STOPPED"
