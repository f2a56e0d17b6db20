"""`ingest status`: what it says of tables that only the lake has, and while a server is away."""

from dataclasses import replace

import pytest
from rich.console import Console

from ingest.cli.status_table import status_table
from ingest.flows.flow_record import FlowStatus
from ingest.lake.files.lease_holder import Holder
from ingest.model import reasons
from ingest.model.gap import Gap
from ingest.model.manifest import HighWater, TableState
from ingest.model.position import Position
from ingest.observe import pipeline_status
from ingest.observe.only_in_lake import OnlyInLake
from ingest.observe.pipeline_status import (
    ConnectorHealth,
    ProgressReport,
    TableProgress,
    _of_servers,
    pending,
)
from ingest.testing.lake import pipeline_at
from tests.support.sound_start import entry

WELL = ConnectorHealth(True, "the connector is streaming the binlog", "RUNNING")
SHOP = {
    "mysql": "mysql://u@h",
    "password": {"env": "X"},
    "tables": ["shop.*"],
    "topic_names": "escaped",
}
LEFT = OnlyInLake("shop.old", 3, reasons.NOT_TAKEN.says, reasons.NOT_TAKEN.remedy)
KEPT = OnlyInLake(
    "shop.kept", 5, "`drop_table: ignore` keeps its rows", keeps="`drop_table: ignore`"
)


def shown(report):
    console = Console(width=400)
    with console.capture() as said:
        console.print(status_table(report))
    return said.get()


def test_tables_that_only_the_lake_has_are_named_with_what_to_do():
    report = ProgressReport("p", None, (), 0, WELL, 0, only_in_lake=(LEFT, KEPT))
    said = shown(report)
    assert f"left       shop.old: 3 rows that only the lake has: {LEFT.reason}" in said
    assert f"what to do: {LEFT.remedy}" in said
    assert "shop.kept: 5 rows" in said
    assert said.count("what to do") == 1
    assert report.as_json()["only_in_lake"] == [LEFT.as_json(), KEPT.as_json()]


def test_a_mark_of_dropped_changes_says_what_closes_it_and_fails_a_watch_of_gaps():
    reason = reasons.DROPPED.of(on="2026-01-31", changes=3)
    gap = Gap("d.t", "p.d.t", 0, 3, 6, reason, 8, position=Position(0, 3, 70))
    report = ProgressReport("p", entry(gaps=(gap,)), (), 0, WELL, 0)
    said = shown(report)
    assert (
        f"gap        d.t: {reason}, offsets 3 to 6, open until `ingest resync` of the table" in said
    )
    assert report.open_gaps == 1
    mended = ProgressReport(
        "p", entry(gaps=(replace(gap, resync=Position(0, 4, 4)),)), (), 0, WELL, 0
    )
    assert "mended: the table was taken again" in shown(mended)
    assert mended.open_gaps == 0


def test_a_gap_that_only_a_person_closes_says_so_and_what_that_does():
    gap = Gap("d.t", "p.d.t", 0, 3, 6, reasons.RETENTION.says, 8, position=Position(0, 3, 70))
    row = entry(gaps=(gap, replace(gap, table="d.o")))
    report = ProgressReport("p", row, (), 0, WELL, 0, by_hand=frozenset({"d.t"}))
    said = shown(report)
    (of_it,) = [line for line in said.splitlines() if "d.t: " in line]
    assert f"open until `ingest resync` of the table: {reasons.BY_A_PERSON}" in of_it
    assert f"what to do: {reasons.REPLACES}" in said
    assert "not mended yet" in next(line for line in said.splitlines() if "d.o: " in line)
    assert [one["by_hand"] for one in report.as_json()["gaps"]] == [True, False]
    assert report.open_gaps == 2, "who watches for gaps has to hear of it"
    assert reasons.PASSED_OVER not in said
    joined = entry(gaps=(replace(gap, reason=reasons.JOINED.says),))
    assert reasons.PASSED_OVER in shown(replace(report, newest=joined))


def test_a_table_that_is_set_aside_or_left_out_is_named_with_the_way_on():
    reason = reasons.RESERVED.of(column="'_ingest'")
    gap = Gap("d.t", "p.d.t", 0, 3, 3, reason, 8, position=Position(0, 3, 70))
    report = ProgressReport("p", entry(gaps=(gap,)), (), 0, WELL, 0, left_out={"d.o": "row size 1"})
    said = shown(report)
    assert f"what to do: {reasons.RESERVED.remedy}" in said
    assert "left out   d.o: " in said
    assert "row size 1" in said
    assert f"what to do: {reasons.LEFT_BY_CONNECTOR.remedy}" in said
    assert report.as_json()["left_out"] == [{"table": "d.o", "reason": "row size 1"}]


@pytest.mark.parametrize(
    ("job", "runs"),
    [
        (Holder("runs", 3), True),
        (Holder("none", 3), False),
        (Holder("gone", 3), False),
        (Holder("silent", 3), False),
    ],
)
def test_whether_a_job_runs_is_said_first_of_the_lake_and_by_no_word_where_nobody_has_looked(
    job, runs
):
    report = ProgressReport("p", None, (), 0, WELL, 0, job=job)
    assert report.runs is runs
    assert f"job        {job.sentence}\n" in shown(report)
    assert report.as_json()["job"] == {"state": job.state, "term": 3}
    unknown = replace(report, job=None)
    assert unknown.runs
    assert "job  " not in shown(unknown)


def test_a_flow_that_has_died_and_rows_that_were_refused_are_said():
    flows = {"f": FlowStatus("died", 3, rows=12, refused=4, error="its process has ended")}
    said = shown(ProgressReport("p", None, (), 0, WELL, 0, flows=flows))
    assert "flow       f died: batch 3, 12 rows, 4 were refused\n" in said
    assert "its process has ended" in said


def away(folder, **password):
    return pipeline_at(
        folder,
        source={"mysql": "mysql://u@127.0.0.1:1", "password": password, "tables": ["*.*"]},
        connect={"url": "http://127.0.0.1:1"},
    )


def test_while_a_server_is_away_the_rest_is_said_all_the_same(tmp_path):
    (tmp_path / "secret").write_text("x")
    health, missing = _of_servers(away(tmp_path, file=str(tmp_path / "secret")))
    assert (health.good, health.task, missing) == (False, "UNKNOWN", None)
    assert "does not answer" in health.sentence
    assert shown(ProgressReport("p", None, (), missing, health, 0)).count(health.sentence) == 1


def of_kafka(monkeypatch, ends):
    broker = pipeline_status.broker
    monkeypatch.setattr(broker, "data_topics", lambda _: sorted({topic for topic, _ in ends}))
    monkeypatch.setattr(broker, "end_offsets", lambda _, topics: ends)


def test_what_waits_of_a_table_is_said_of_it_and_not_of_its_topic(tmp_path, monkeypatch):
    topic = "my_u005fpipe.shop.order_u005fitems"
    newest = entry(
        offsets={(topic, 0): (0, 10)},
        high_water={(topic, 0): HighWater(10)},
        tables={"shop.order_items": TableState("/l/shop/order_items", 4, engine="delta-rs")},
    )
    of_kafka(monkeypatch, {(topic, 0): 1000, ("my_u005fpipe.shop.new", 0): 3})
    assert pending(pipeline_at(tmp_path, "my_pipe", source=SHOP), newest) == (
        TableProgress("shop.new", 3, -1),
        TableProgress("shop.order_items", 990, 4, "delta-rs"),
    )


def test_a_topic_that_was_made_again_waits_from_its_beginning(tmp_path, monkeypatch):
    of_kafka(monkeypatch, {("p.d.t", 0): 4, ("p.d.o", 0): 4})
    newest = entry()
    assert newest.ends["p.d.t", 0] > 4
    assert pending(pipeline_at(tmp_path), newest)[1] == TableProgress("d.t", 4, 7)
