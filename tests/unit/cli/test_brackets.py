"""Brackets in users' data are data: Rich's markup would swallow `[vip]`, and end a command at `[/x]`."""

from datetime import datetime, timezone

import pytest
from pyspark.sql import Row
from rich.console import Console

from ingest.cli import connector
from ingest.cli.flow_tables import flow_table, late_table, refused_table
from ingest.cli.status_table import status_table
from ingest.observe.pipeline_status import ConnectorHealth, ProgressReport, TableProgress
from ingest.observe.verdict import TableResult, Verdict
from ingest.observe.verdict_table import verdict_table
from ingest.source.connector import Plan
from ingest.testing.lake import pipeline_at
from tests.unit.config.test_flow_settings import GOOD

HOSTILE = "[/x] [vip] a[bold]b"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


def late():
    return late_table([Row(batch_id=1, event_time=AT, window=None, watermark=AT, event=HOSTILE)], 1)


def refused():
    return refused_table([Row(batch_id=1, sink=HOSTILE, reason=HOSTILE, row=HOSTILE)], 1)


def status():
    well = ConnectorHealth(True, "the connector is streaming the binlog", "RUNNING")
    tables = (TableProgress(HOSTILE, 1, 2, HOSTILE),)
    return status_table(ProgressReport("p", None, tables, 0, well, 0))


def verdict():
    table = TableResult(HOSTILE, 1, 1, 0, kept=1, keeps=HOSTILE, note=HOSTILE)
    return verdict_table(Verdict("equal", (table,)))


@pytest.mark.parametrize("made", [late, refused, status, verdict], ids=lambda one: one.__name__)
def test_what_data_says_in_brackets_is_shown_as_it_is(made):
    console = Console(width=400)
    with console.capture() as said:
        console.print(made())
    assert HOSTILE in said.get()


def test_places_of_flows_are_shown_as_they_are(tmp_path):
    given = {"o": {"files": f"/in/{HOSTILE}", "format": "text"}}
    flows = pipeline_at(tmp_path, flows={"f": {**GOOD, "inputs": given}}).flows
    console = Console(width=400)
    with console.capture() as said:
        console.print(flow_table(flows, {"f": None}))
    assert HOSTILE in said.get()


def test_settings_of_the_connector_are_shown_as_they_are(monkeypatch):
    console = Console(width=400)
    monkeypatch.setattr(connector, "out", console)
    with console.capture() as said:
        connector._print_plan(Plan("change", (("transforms", "[a-z]", HOSTILE),)))
    assert f"[a-z]  {HOSTILE}" in " ".join(said.get().split(" "))
