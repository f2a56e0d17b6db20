"""A table at whose change the connector's task fails: which one, that it alone is left out, and taken whole by the next run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.model.errors import IngestError
from ingest.model.topics import TableId, captured
from ingest.source import failing_table, mysql
from ingest.source.connector import Status
from ingest.source.later_tables import TakenBefore
from ingest.source.left_out import LeftOut, excluding
from ingest.source.named_table import known_table
from ingest.source.supervisor import Supervisor
from ingest.testing.lake import pipeline_at

SICK, WELL = TableId("d", "sick"), TableId("d", "well")
ROW = "Error processing row in sick, internal schema size 4, but row size 1 , restart connector"
FAILED = Status("RUNNING", "FAILED", f"Caused by: io.debezium.DebeziumException: {ROW}")
RUNNING = Status("RUNNING", "RUNNING", "")
LARGE = "The message is 3000817 bytes when serialized which is larger than 2000000, which is"
EVENTS = [
    ("b.1", 4, "Gtid", 1, 80, ""),
    ("b.1", 80, "Table_map", 1, 120, "table_id: 1 (d.well)"),
    ("b.1", 120, "Update_rows", 1, 900, "flags: STMT_END_F"),
    ("b.1", 900, "Table_map", 1, 950, "table_id: 2 (d.sick)"),
    ("b.1", 950, "Update_rows", 1, 3_000_950, "flags: STMT_END_F"),
]


class Server:
    """What MySQL says."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def execute(self, statement, given=()):
        assert "FROM 80 " in statement
        assert given == ("b.1",)

    def fetchall(self):
        return EVENTS


@pytest.fixture(autouse=True)
def _server(monkeypatch):
    there = [SICK, WELL, TableId("other", "sick")]
    monkeypatch.setattr(mysql, "connected", lambda source: Server())
    monkeypatch.setattr(mysql, "base_tables", lambda cursor: there)
    monkeypatch.setattr(mysql, "dump_threads", lambda source: 1)


@pytest.fixture
def pipeline(tmp_path):
    return taking(pipeline_at(tmp_path), "d.*")


def taking(pipeline, *patterns):
    source = pipeline.source.model_copy(update={"tables": patterns})
    return pipeline.model_copy(update={"source": source})


def test_the_table_is_the_captured_one_of_that_name_where_there_is_one_alone(pipeline):
    assert failing_table.whose(pipeline, ROW, None) == SICK
    assert failing_table.whose(taking(pipeline, "*.*"), ROW, None) is None, "nobody knows which"


def test_of_a_record_that_is_too_large_mysql_s_log_says_whose_row_it_is(pipeline):
    assert failing_table.whose(pipeline, LARGE, {"file": "b.1", "pos": 80}) == SICK
    assert failing_table.whose(pipeline, LARGE, None) is None


def test_what_is_no_table_s_is_nobody_s(pipeline):
    assert failing_table.whose(pipeline, "Access denied", {"file": "b.1", "pos": 80}) is None


names = st.text(  # MySQL's names have no other characters
    st.characters(min_codepoint=1, max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=1
)


@given(names, names, names)
def test_the_pattern_excludes_that_table_alone(database, name, other):
    table, beside = TableId(database, name), TableId(database, other)
    patterns = ("*.*", excluding(table))
    assert captured([table], patterns) == []
    assert captured([beside], patterns) == ([] if beside == table else [beside])


def test_the_next_run_finds_that_it_was_not_taken_all_the_time(pipeline):
    before = TakenBefore(pipeline)
    before.begin()
    before.leave_out(SICK, "why")
    assert before.joining([SICK, WELL]) == [SICK], "as status says it"
    before.published()
    assert captured([SICK, WELL], before.now) == [WELL], "while the run goes on it is not taken"
    before.begin()
    assert LeftOut(pipeline).tables() == {}
    assert before.joining([SICK, WELL]) == [SICK]
    before.published()
    assert before.joining([SICK, WELL]) == []


@pytest.mark.parametrize("crash", ["_add_now", "begin"])
def test_a_crash_at_any_moment_forgets_none(pipeline, monkeypatch, crash):
    before = TakenBefore(pipeline)
    before.begin()
    where = TakenBefore if crash == "_add_now" else LeftOut
    with monkeypatch.context() as patched:
        patched.setattr(where, crash, lambda self: (_ for _ in ()).throw(OSError(crash)))
        for act in (lambda: before.leave_out(SICK, "why"), before.begin):
            try:
                act()
            except OSError:
                break
    before.begin()
    assert before.joining([SICK, WELL]) == [SICK]


class Failing:
    """A connector whose task fails at a table until it leaves that out."""

    def __init__(self, pipeline):
        self.name, self.pipeline, self.passes_over, self.leaves_out = "p", pipeline, True, ()
        self.done, self.states = [], []

    def status(self):
        return self.states.pop(0) if self.states else RUNNING

    def offset(self):
        return {"file": "b.1", "pos": 80}

    def apply(self):
        self.done.append(f"apply {self.leaves_out}")

    def restart(self):
        self.done.append("restart")


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("ingest.source.supervisor.time.monotonic", lambda: now[0])
    return now


def watched(connector, clock, leave_out, *states):
    said = []
    supervisor = Supervisor(connector, said.append, leave_out=leave_out)
    connector.states = list(states)
    for _ in states:
        clock[0] += 15
        supervisor.look()
    return said


def test_a_task_that_ran_and_fails_at_a_table_goes_on_without_it_and_says_so(pipeline, clock):
    connector, left = Failing(pipeline), TakenBefore(pipeline)
    said = watched(connector, clock, left.leave_out, RUNNING, FAILED, RUNNING)
    assert connector.done == ["apply ('!`d`.`sick`',)", "restart"]
    assert "internal schema size 4" in LeftOut(pipeline).tables()["d.sick"]
    assert any("d.sick" in one and "binlog_row_image" in one for one in said)


def test_one_that_had_failed_before_is_tried_first(pipeline, clock):
    connector, left = Failing(pipeline), TakenBefore(pipeline)
    watched(connector, clock, left.leave_out, FAILED, RUNNING)
    assert connector.done == ["restart"], "its cause was mended"
    assert LeftOut(pipeline).tables() == {}


def test_where_leaving_it_out_does_not_help_the_run_stops(pipeline, clock):
    connector, left = Failing(pipeline), TakenBefore(pipeline)
    with pytest.raises(IngestError, match="internal schema size"):
        watched(connector, clock, left.leave_out, RUNNING, *[FAILED] * 9)


def test_where_the_pipeline_file_says_so_or_nothing_can_be_taken_whole_the_run_stops(
    pipeline, clock
):
    with pytest.raises(IngestError, match="internal schema size"):
        watched(Failing(pipeline), clock, None, RUNNING, *[FAILED] * 9)
    assert LeftOut(pipeline).tables() == {}


def test_a_connect_that_does_not_answer_is_asked_again_to_leave_it_out(pipeline, clock):
    connector, left = Failing(pipeline), TakenBefore(pipeline)
    apply, answers = connector.apply, [False, True]

    def away():
        if not answers.pop(0):
            raise IngestError("E-CONNECT-AWAY", "Away.", remedy="wait.", may_pass=True)
        apply()

    connector.apply = away
    watched(connector, clock, left.leave_out, RUNNING, FAILED, FAILED)
    assert connector.done == ["apply ('!`d`.`sick`',)", "restart"]
    assert connector.leaves_out == ("!`d`.`sick`",)


def test_who_asks_for_one_that_is_left_out_is_told_that_it_would_not_be_read(tmp_path, monkeypatch):
    pipeline = pipeline_at(tmp_path)
    monkeypatch.setattr(mysql, "server_facts", lambda _: None)
    monkeypatch.setattr(mysql, "refuse_unfit", lambda *_: [SICK, WELL])
    LeftOut(pipeline).add(SICK, "its row is too large")
    assert known_table(pipeline, "d.well") == WELL
    with pytest.raises(IngestError, match="leaves d.sick out .* its row is too large"):
        known_table(pipeline, "d.sick")
