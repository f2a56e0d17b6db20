"""A log in the lake: which tables are one, what they say of themselves, and what a change of the setting does."""

from dataclasses import replace
from unittest.mock import patch

import pytest
from deltalake import DeltaTable

from ingest.model.errors import IngestError
from ingest.observe import held_tables
from ingest.observe.lake_plan import of_targets
from ingest.observe.pipeline_plan import _was
from ingest.targets import registry
from ingest.testing.source import Source
from tests.support.flows import OneFlow

PATTERNS = {"d.log_*": {"append_only": True}, "d.log_users": {"append_only": False}}


def said(lake, name):
    """What the table notes, and what `ingest plan` says the pipeline file makes of it."""
    path = lake.path / "d" / name
    held, named = held_tables.held(str(path)), f"d.{name}"
    tables = {named: replace(held, target=_was(lake.pipeline, named, held))}
    plan = of_targets(tables, lambda one: lake.pipeline.target(one, keyed=False), lambda _: None)
    noted = DeltaTable(path).metadata().configuration.get("ingest.target")
    return noted, [one.sentence for one in plan]


def numbers(lake, table):
    return sorted(row.n for row in lake.table(table).collect())


def test_a_narrower_pattern_behind_a_wider_one_takes_a_table_out_of_the_logs(reopened):
    lake, source = reopened(tables=PATTERNS), Source()
    users, others = (
        source.table(f"d.log_{name}", {"n": "INT"}, rows=[{"n": 1}]) for name in ("users", "others")
    )
    lake.follow(source)
    for table in (users, others):
        table.insert(n=2)
        table.delete({"n": 1})
    lake.follow(source)
    assert (numbers(lake, users), numbers(lake, others)) == ([2], [1, 2])
    assert said(lake, "log_users") == ("multiset", []), "as an earlier version would have it a log"
    assert said(lake, "log_others") == ("append_only", [])


def test_of_a_lake_whose_tables_note_nothing_of_logs_the_plan_says_which_is_one_no_more(reopened):
    """Filled by a version to which any pattern made a table a log."""
    any_pattern = {"d.log_*": {"append_only": True}}
    source = Source()
    users, others = (
        source.table(f"d.log_{name}", {"n": "INT"}, rows=[{"n": 1}]) for name in ("users", "others")
    )
    with patch.object(registry, "note", lambda _: {}):
        reopened(tables=any_pattern).follow(source)
    lake = reopened(tables=PATTERNS)
    noted, (sentence,) = said(lake, "log_users")
    assert noted is None
    assert "stay until `ingest resync`" in sentence
    assert said(lake, "log_others") == (None, [])
    users.insert(n=2)
    others.insert(n=2)
    lake.follow(source)
    assert said(lake, "log_users") == ("multiset", [])
    assert said(lake, "log_others") == ("append_only", [])
    lake = reopened(tables={})
    _, (sentence,) = said(lake, "log_others")
    assert "holds what the source holds, and no more" in sentence
    assert said(lake, "log_users") == ("multiset", [])


def test_totals_of_a_log_are_refused_as_its_rows_are_not_the_source_s(spark, tmp_path, logged):
    lake, source = logged(tables={"d.log": {"append_only": True}}), Source()
    source.table("d.log", {"n": "INT"}, rows=[{"n": 1}])
    lake.follow(source)
    flow = OneFlow(
        *(spark, tmp_path, "SELECT n FROM log"),
        inputs={"log": {"change_log": "d.log"}},
        totals={"by": ["n"], "values": {"many": "count(*)"}},
    )
    flow.pipeline = lake.pipeline.model_copy(update={"flows": flow.pipeline.flows})
    with pytest.raises(IngestError, match="E-FLOW-TOTALS"):
        flow.run()
