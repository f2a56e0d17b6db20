"""Which versions flows need, by what they have noted of a batch that is not done."""

import json
from dataclasses import replace

import pytest
import yaml

from ingest.config import pipeline_file
from ingest.flows.continuity import Fingerprint
from ingest.flows.cut import TableCut
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_record import FlowRecord
from ingest.flows.unread import first_unread
from tests.unit.config.test_pipeline_file import GOOD
from tests.unit.flows.test_cut import NOW

LOGGED = {"defaults": {"targets": ["mirror", "change_log"]}}
JOINS = {
    "sql": "SELECT 1",
    "inputs": {"orders": {"change_log": "shop.orders"}, "customers": {"table": "shop.customers"}},
    "sinks": [{"delta": "out"}],
}
SUMS = {
    "sql": "SELECT 1",
    "inputs": {"t": {"change_log": "shop.t"}},
    "totals": {"by": ["a"], "values": {"n": "count(*)"}},
    "sinks": [{"delta": "out"}],
}


def begun(tmp_path, flow):
    """A flow that has begun, and of which Spark has noted batch 3 as done."""
    text = yaml.safe_load(GOOD) | LOGGED | {"lake": {"path": str(tmp_path)}, "flows": {"f": flow}}
    pipeline = pipeline_file.parse(yaml.safe_dump(text))
    folder = FlowFolder(pipeline, "f")
    record = FlowRecord.first(Fingerprint((), "append", (), "p", "f"))
    folder.keep(record)
    done = tmp_path / folder.checkpoint(record) / "commits"
    done.mkdir(parents=True)
    (done / "3").write_text("")
    return pipeline, folder, record


@pytest.mark.parametrize("number", [3, 4])
def test_a_version_that_a_batch_is_joined_with_is_needed_until_the_batch_is_done(tmp_path, number):
    pipeline, folder, record = begun(tmp_path, JOINS)
    path = f"{tmp_path}/shop/customers"
    assert first_unread(pipeline, path, "any") is None
    folder.note(record, number, json.dumps({path: 17}))
    assert first_unread(pipeline, path, "any") == (17 if number == 4 else None)
    assert first_unread(pipeline, f"{tmp_path}/shop/others", "any") is None


@pytest.mark.parametrize("number", [3, 4])
def test_so_are_the_tables_of_a_cut_that_totals_are_worked_out_of(tmp_path, number):
    pipeline, folder, record = begun(tmp_path, SUMS)
    path = f"{tmp_path}/shop/t"
    cut = replace(NOW, tables={"t": TableCut(path, 5, "id", f"{path}__changes", 4, "log")})
    folder.note(record, number, cut.as_text())
    assert first_unread(pipeline, path, "id") == (5 if number == 4 else None)
