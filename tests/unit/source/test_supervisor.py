"""Pure decisions: what a sick connector needs, what an audit concludes."""

from types import SimpleNamespace

import pytest

from ingest.model.errors import IngestError
from ingest.model.gtid import GtidSet
from ingest.model.offset_log import offsets_from_log
from ingest.model.offset_ranges import ranges
from ingest.model.topics import TableId
from ingest.observe.verdict import Difference, compare_rows, differing_buckets
from ingest.source import mysql, supervisor
from ingest.source.connector import Status, delivered, plan_from
from ingest.source.diagnosis import SILENT_AFTER, UNKNOWN_AFTER, Action, Facts, diagnose
from ingest.source.mysql import Reached
from ingest.source.supervisor import Supervisor


def test_ranges_start_where_the_batch_before_ended_and_new_partitions_at_their_first_offset():
    before = offsets_from_log('v1\n{}\n{"a":{"0":5}}')
    after = offsets_from_log('v1\n{}\n{"a":{"0":9},"b":{"0":2}}')
    assert ranges(before, after) == {("a", 0): (5, 9), ("b", 0): (0, 2)}


def test_a_torn_offset_log_is_an_error_not_an_empty_batch():
    with pytest.raises(ValueError, match="torn"):
        offsets_from_log("v1\n{")


RUNNING = Status("RUNNING", "RUNNING", "")


def test_a_running_task_with_a_stream_is_left_alone():
    assert diagnose(Facts(RUNNING, False, 1, 0)).action is Action.NONE


def test_a_running_task_without_a_stream_is_restarted_after_a_while():
    assert diagnose(Facts(RUNNING, False, 0, SILENT_AFTER - 1)).action is Action.WAIT
    found = diagnose(Facts(RUNNING, False, 0, SILENT_AFTER))
    assert found.action is Action.RESTART
    assert "RUNNING" in found.sentence


@pytest.mark.parametrize(
    ("state", "task"), [("PAUSED", "PAUSED"), ("PAUSED", "RUNNING"), ("STOPPED", "UNASSIGNED")]
)
@pytest.mark.parametrize("snapshotting", [True, False])
def test_a_connector_that_stands_still_is_left_so_but_not_in_silence(state, task, snapshotting):
    found = diagnose(Facts(Status(state, task, ""), snapshotting, 0, 0))
    assert found.action is Action.NONE
    assert state.lower() in found.sentence
    assert "ingest connector resume" in found.sentence


def test_a_snapshot_needs_no_binlog_stream():
    assert diagnose(Facts(RUNNING, True, 0, 999)).action is Action.NONE


def test_a_connector_that_connect_has_lost_is_made_again_but_not_while_a_worker_starts():
    assert diagnose(Facts(None, True, None, 0, UNKNOWN_AFTER - 1)).action is Action.WAIT
    assert diagnose(Facts(None, True, None, 0, UNKNOWN_AFTER)).action is Action.CREATE


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("Caused by: java.lang.NegativeArraySizeException: -1", "NegativeArraySizeException: -1"),
        ("Caused by: io.debezium.DebeziumException: Größe", "Größe"),
        (
            "org.apache.kafka.common.KafkaException$Inner: x",
            "org.apache.kafka.common.KafkaException$Inner: x",
        ),
        ("java.lang.NullPointerException", "java.lang.NullPointerException"),
        ("", ""),
    ],
)
def test_a_cause_without_words_of_its_own_is_told_with_its_class(line, cause):
    assert Status("RUNNING", "FAILED", line).cause == cause


def test_of_a_statement_that_nobody_parses_the_statement_is_told_which_names_its_table():
    trace = (
        "Caused by: io.debezium.text.ParsingException: DDL statement couldn't be parsed. Please open a GitHub issue at "
        "https://github.com/debezium/dbz/issues with the statement 'ALTER TABLE d.sick\n ADD COLUMN 'not parsed' INT'\n"
        "mismatched input ''not parsed'' expecting {'('}\n\tat io.debezium.antlr\n"
        "Caused by: org.antlr.v4.runtime.InputMismatchException\n\tat org.antlr"
    )
    failed = Status("RUNNING", "FAILED", trace)
    assert failed.cause == (
        "DDL statement couldn't be parsed: ALTER TABLE d.sick ADD COLUMN 'not parsed' INT"
    )
    assert diagnose(Facts(failed, False, 1, 0)).action is Action.STOP


def test_a_task_that_lost_its_server_is_restarted_and_its_last_cause_is_told():
    trace = (
        "org.apache.kafka.connect.errors.ConnectException: An exception occurred\n"
        "\tat x\nCaused by: io.debezium.DebeziumException: Failed to read next byte\n\tat y\n"
    )
    found = diagnose(Facts(Status("RUNNING", "FAILED", trace), False, 0, 0))
    assert found.action is Action.RESTART
    assert found.sentence.endswith("Failed to read next byte")


@pytest.mark.parametrize(
    "cause",
    [
        "Access denied; you need (at least one of) the SUPER privilege(s)",
        "DDL statement couldn't be parsed. Please open a GitHub issue",
        (
            "A replica with the same server_uuid/server_id as this replica has connected to the source; "
            "the first event 'binlog.000002' at 4, Error code: 1236; SQLSTATE: HY000."
        ),
        "but this is no longer available on the server.",
        "Error processing row in a, internal schema size 3, but row size 2 , restart",
        "Invalid Java object for schema with type FLOAT64: class java.lang.Float for value",
        'Invalid value: null used for required field: "n", schema type: STRING',
        "java.util.concurrent.ExecutionException: java.lang.NegativeArraySizeException: -1",
    ],
)
def test_a_cause_that_cannot_pass_stops_with_a_remedy(cause):
    trace = f"x\nCaused by: io.debezium.DebeziumException: {cause}"
    found = diagnose(Facts(Status("RUNNING", "FAILED", trace), False, 0, 0))
    assert found.action is Action.STOP
    assert found.remedy
    assert ("server id" in found.remedy) is ("server_id" in cause)


def test_a_plan_names_each_setting_that_differs_and_ignores_the_connector_s_name():
    plan = plan_from({"name": "p", "a": "1", "old": "x"}, {"a": "2", "new": "y"})
    assert plan.action == "change"
    assert plan.changes == (("a", "1", "2"), ("new", None, "y"), ("old", "x", None))
    assert plan_from({"name": "p", "a": "1"}, {"a": "1"}).action == "nothing"
    assert plan_from(None, {"a": "1"}).action == "create"


def test_equal_sums_hide_nothing_and_a_missing_bucket_counts():
    assert differing_buckets({1: (2, 10, 20)}, {1: (2, 10, 20)}) == []
    assert differing_buckets({1: (2, 10, 20)}, {1: (2, 10, 21), 7: (1, 1, 1)}) == [1, 7]


def test_rows_are_compared_as_multisets():
    source = [("id=1", "a"), ("id=2", "b"), ("x", "h"), ("x", "h")]
    lake = [("id=1", "A"), ("id=3", "c"), ("x", "h")]
    assert compare_rows(source, lake) == [
        Difference("id=1", "differs"),
        Difference("id=2", "missing in the lake"),
        Difference("id=3", "only in the lake"),
        Difference("x", "missing in the lake"),
    ]


UUID = "320ee8b1-e592-11f1-acbf-02fc00000001"


@pytest.mark.parametrize(
    ("offset", "gtids", "expected"),
    [
        (None, f"{UUID}:1-5", False),
        ({"snapshot": "INITIAL", "gtids": f"{UUID}:1-9"}, f"{UUID}:1-5", False),
        ({"gtids": f"{UUID}:1-4", "file": "b.000009", "pos": 9}, f"{UUID}:1-5", False),
        ({"gtids": f"{UUID}:1-5", "file": "b.000001", "pos": 1}, f"{UUID}:1-5", True),
        ({"gtids": f"{UUID}:1-4", "file": "b.000002", "pos": 100}, f"{UUID}:1-5", True),
        ({"gtids": f"{UUID}:1-4", "file": "b.000002", "pos": 99}, f"{UUID}:1-5", False),
        ({"gtids": f"{UUID}:1-3", "file": "b.000002", "pos": 100}, f"{UUID}:1-5", False),
        ({"file": "b.000002", "pos": 99}, "", False),
        ({"file": "b.000002", "pos": 100}, "", True),
        ({"file": "b.000010", "pos": 4}, "", True),
    ],
)
def test_everything_is_delivered_only_when_the_stored_offset_covers_it(offset, gtids, expected):
    assert delivered(offset, Reached(2, 100, GtidSet.parse(gtids))) is expected


def test_a_cause_that_needs_a_human_is_tried_once_more_since_the_human_may_have_been_there(
    monkeypatch,
):
    clock, restarts = iter(range(0, 1000, 5)), []
    failed = Status("RUNNING", "FAILED", "A replica with the same server_uuid/server_id as this")
    connector = SimpleNamespace(name="shop", restart=lambda: restarts.append(1))
    monkeypatch.setattr("ingest.source.supervisor.time.monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(Supervisor, "_facts", lambda *_: Facts(failed, False, 0, 0))
    supervisor = Supervisor(connector, lambda _: None)
    supervisor.look()
    supervisor.look()  # 5 s later: it may still be starting
    assert restarts == [1]
    with pytest.raises(IngestError, match=r"server_id") as stopped:
        supervisor.look()
    assert "source.server_id" in stopped.value.remedy


UNKNOWN = Status(
    "RUNNING",
    "FAILED",
    "Caused by: io.debezium.DebeziumException: Encountered change event for table shop.later whose schema isn't "
    "known to this connector",
)


def test_a_table_that_the_connector_does_not_know_is_passed_over_until_it_is_taken_whole():
    found = diagnose(Facts(UNKNOWN, False, 1, 0, passes_over=False))
    assert found.action is Action.JOIN
    assert "shop.later" in found.sentence


def test_it_ends_the_run_where_nobody_could_take_it_whole_or_it_is_passed_over_already():
    assert diagnose(Facts(UNKNOWN, False, 1, 0)).action is Action.STOP


class Joining:
    """A connector that counts what is done with it."""

    def __init__(self):
        self.name, self.passes_over, self.done = "shop", False, []
        self.pipeline = SimpleNamespace(source=None)

    def status(self):
        return RUNNING if self.passes_over else UNKNOWN

    def offset(self):
        return {"file": "b.000001", "pos": 4}

    def apply(self):
        self.done.append(f"apply {self.passes_over}")

    def restart(self):
        self.done.append("restart")


def test_the_connector_is_to_fail_again_once_no_table_joins(monkeypatch):
    connector = Joining()
    monkeypatch.setattr(mysql, "dump_threads", lambda source: 1)
    noted = []
    watched = Supervisor(connector, lambda _: None, unknown=noted.extend)
    watched.none_joins()
    assert connector.done == []
    watched.look()
    assert connector.done == ["apply True", "restart"]
    assert noted == [TableId("shop", "later")]
    watched.none_joins()
    watched.none_joins()
    assert connector.done == ["apply True", "restart", "apply False"]


def test_without_gtids_the_connector_goes_on_failing(monkeypatch):
    connector = Joining()
    monkeypatch.setattr(mysql, "dump_threads", lambda source: 1)
    Supervisor(connector, lambda _: None).look()
    assert connector.done == ["restart"], "once, as its cause may be mended by now"


def test_a_connect_that_does_not_answer_has_it_tried_again(monkeypatch):
    connector, now = Joining(), [100.0]
    apply = connector.apply

    def away():
        raise IngestError("E-CONNECT-AWAY", "Connect is away.", remedy="wait.", may_pass=True)

    monkeypatch.setattr(mysql, "dump_threads", lambda source: 1)
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: now[0])
    watched = Supervisor(connector, lambda _: None, unknown=lambda _: None)
    connector.apply = away
    watched.look()
    assert (connector.passes_over, connector.done) == (False, [])
    connector.apply, now[0] = apply, 104.0
    watched.look()
    assert connector.done == ["apply True", "restart"]


NO_PLACE = Status(
    "RUNNING", "FAILED", "DebeziumException: Source offset 'file' parameter is missing"
)


@pytest.mark.parametrize(
    ("offset", "action"),
    [
        ({}, Action.BEGIN_AGAIN),
        ({"file": "binlog.000003", "pos": 4}, Action.RESTART),
        (None, Action.RESTART),
    ],
)
def test_a_task_that_ended_before_it_had_a_place_begins_again_and_no_other_does(offset, action):
    assert diagnose(Facts(NO_PLACE, True, 0, 0, offset=offset)).action is action


def test_beginning_again_forgets_the_offset_of_a_stopped_connector():
    done = []
    connector = SimpleNamespace(
        name="c",
        passes_over=False,
        pipeline=None,
        begin_again=lambda: done.append("begin again"),
    )
    found = Supervisor(connector, done.append)
    facts = Facts(NO_PLACE, True, 0, 0, offset={})
    found._act(diagnose(facts), 0.0, facts)
    assert done == [diagnose(facts).sentence, "begin again"]


def test_beginning_again_that_ended_half_way_is_gone_on_with():
    stopped = Status("STOPPED", "UNASSIGNED", "")
    assert diagnose(Facts(stopped, True, 0, 0, offset={})).action is Action.BEGIN_AGAIN
    assert diagnose(Facts(stopped, True, 0, 0, offset=None)).action is Action.NONE
