"""`ingest flow`: what scripts get where there is nothing to tell."""

import json
from contextlib import nullcontext

import pytest
from typer.testing import CliRunner

from ingest.cli.app import app
from ingest.flows import late_applied
from ingest.job import flow_job
from ingest.lake.delta.spark_table import SparkTable
from ingest.testing.lake import pipeline_at
from tests.unit.config.test_flow_settings import GOOD


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """`ingest flow` of a flow of which nothing is kept, without a Spark: exit code, and what it says."""
    monkeypatch.setattr(flow_job, "session", lambda *_: nullcontext())
    monkeypatch.setattr(late_applied, "late_rows", lambda *_: None)
    monkeypatch.setattr(SparkTable, "exists", lambda _: False)
    file = tmp_path / "p.yaml"
    given = pipeline_at(tmp_path / "lake", flows={"f": GOOD})
    file.write_text(given.model_dump_json(exclude_unset=True))

    def run(command, *words):
        done = CliRunner().invoke(app, ["flow", command, str(file), "f", *words])
        return done.exit_code, done.output

    return run


@pytest.mark.parametrize("command", ["late", "refused"])
def test_nothing_is_json_too_for_who_asks_for_json(asked, command):
    code, said = asked(command, "--json")
    assert (code, json.loads(said)) == (0, {command: 0, "newest": []})
    code, said = asked(command)
    assert (code, len(said.splitlines())) == (0, 1)


@pytest.mark.parametrize("command", ["late", "refused", "state", "audit"])
def test_a_limit_below_nothing_is_a_wrong_use_and_no_failure_of_spark(asked, command):
    code, said = asked(command, "--limit", "-1")
    assert code == 2
    assert "--limit" in said
    assert "E-UNEXPECTED" not in said
