"""Tables that only the lake has are named, and no audit calls a lake equal that holds one nobody decided to keep."""

from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ingest.model import reasons
from ingest.model.manifest import TableState
from ingest.model.position import Position
from ingest.model.topics import TableId, captured
from ingest.observe import held_tables
from ingest.observe.left_tables import left, not_dropped
from ingest.observe.only_in_lake import judged, not_applied, not_captured
from ingest.observe.verdict import TableResult, compared
from ingest.observe.verdict_table import verdict_table
from ingest.schema.catalog import Catalog
from ingest.schema.ddl_policy import Rules, governed
from ingest.testing.lake import pipeline_at
from tests.unit.observe.test_lake_plan import ID, V, record

STATE = TableState("/lake/shop/old", 3, position=Position(0, 1, 10))
EQUAL = TableResult("shop.orders", 2, 2, 0)
NOBODY = Rules()
KEEPS = Rules({"drop_table": "ignore"})
PATTERNS = ["shop.*", "!shop.excluded"]
THERE = [TableId("shop", "orders"), TableId("shop", "excluded"), TableId("archive", "old")]


def one(why=reasons.NO_SUCH_TABLE, rows=3, state=STATE, rules=NOBODY, *, outlives=False):
    return judged("shop.old", why, rows, state, rules, outlives=outlives)


def shown(verdict):
    console = Console(width=300)
    with console.capture() as said:
        console.print(verdict_table(verdict))
    return said.get()


def test_a_table_that_is_renamed_dropped_or_excluded_is_not_captured_and_every_other_is():
    known = ["shop.orders", "shop.old", "shop.excluded", "archive.old"]
    assert not_captured(known, PATTERNS, THERE) == {
        "archive.old": reasons.NOT_TAKEN,
        "shop.excluded": reasons.NOT_TAKEN,
        "shop.old": reasons.NO_SUCH_TABLE,
    }
    assert not_captured(["shop.orders"], PATTERNS, THERE) == {}


names = st.builds(TableId, st.sampled_from(["shop", "a.b"]), st.sampled_from(["t", "u", "v`w"]))


@given(st.sets(names), st.sets(names), st.sampled_from([["shop.*"], ["*.*", "!*.t"]]))
def test_every_table_of_the_manifest_is_either_compared_or_named(known, there, patterns):
    """Whatever is renamed, dropped and excluded: none falls between the two."""
    compared_ones = {str(table) for table in captured(there, patterns)}
    named = set(not_captured(map(str, known), patterns, there))
    assert named == {str(table) for table in known} - compared_ones


@pytest.mark.parametrize("why", [reasons.NOT_TAKEN, reasons.NO_SUCH_TABLE])
def test_a_lake_with_a_table_that_nobody_decided_to_keep_is_not_equal(why):
    verdict = compared((EQUAL, one(why).result), "at")
    assert (verdict.outcome, verdict.equal) == ("different", False)
    said = shown(verdict)
    assert f"only in the lake: {why.says}" in said
    assert f"shop.old  what to do: {why.remedy}" in said
    listed = verdict.as_json()["tables"][1]
    assert (listed["source_rows"], listed["lake_rows"], listed["differences"]) == (0, 3, 3)
    assert listed["remedy"] == why.remedy


@pytest.mark.parametrize(
    ("kept", "by"),
    [(one(rules=KEEPS), "`drop_table: ignore`"), (one(outlives=True), "`append_only`")],
)
def test_what_the_pipeline_file_has_stay_is_named_counted_apart_and_no_difference(kept, by):
    verdict = compared((EQUAL, kept.result), "at")
    assert (verdict.equal, kept.result.kept, kept.keeps) == (True, 3, by)
    said = shown(verdict)
    assert f"3 only in the lake by {by}" in said
    assert f"{by} keeps its rows" in said
    assert "what to do" not in said


def test_an_empty_table_that_a_drop_has_left_is_no_difference():
    assert one(rows=0) is None


def test_a_table_that_waits_before_its_drop_says_how_to_let_it_pass():
    at = Position(0, 1, 20)
    held = one(state=replace(STATE, paused=at, paused_by="DROP TABLE old"))
    assert "a policy holds it before 'DROP TABLE old'" in held.reason
    assert held.remedy == f"let it pass with `approved: {at}`"
    assert compared((held.result,), "at").outcome == "different"


def waiting(rules=NOBODY, applied=10):
    catalog = Catalog()
    for said in (
        record(5, "CREATE", [ID, V], table="old"),
        record(20, "DROP", [], "DROP TABLE old", table="old"),
    ):
        catalog.add(said, 0)
    states = {"d.old": replace(STATE, position=Position(0, 1, applied))}
    followed, barriers = governed(catalog, states, lambda _: rules)
    return not_applied(catalog, followed, states, barriers)


def test_rows_that_a_drop_is_still_to_take_are_behind_and_not_a_difference():
    assert waiting() == {"d.old": "DROP TABLE old"}
    assert waiting(applied=20) == {}
    assert waiting(Rules({"drop_table": "pause"})) == {}
    assert waiting(KEEPS) == {}


def test_while_mysql_is_away_the_connector_s_last_word_says_which_tables_there_are():
    catalog = Catalog()
    for said in (record(5, "CREATE", [ID]), record(20, "DROP", [], "DROP TABLE t")):
        catalog.add(said, 0)
    states = {"d.t": STATE, "d.never_told": STATE}
    assert not_dropped(catalog, states) == [TableId("d", "never_told")]
    swap = {**record(30, "ALTER", [], "RENAME TABLE _t_new TO t"), "tableChanges": []}
    catalog.add({**swap, "databaseName": "d"}, 0)
    assert not_dropped(catalog, states) == [TableId("d", "t"), TableId("d", "never_told")]


def made(path, rows=(), target=""):
    """A table of a lake, by delta-rs: of each row its last operation."""
    meta = pa.struct([("op", pa.string())])
    held = pa.table(
        {
            "id": pa.array(range(len(rows)), pa.int64()),
            "_ingest": pa.array([{"op": op} for op in rows], meta),
        }
    )
    said = {"ingest.target": target} if target else {}
    schema = Schema.from_arrow(held.schema)
    DeltaTable.create(path, schema, configuration=said, raise_if_key_not_exists=False)
    if rows:
        write_deltalake(path, held, mode="append")
    return TableState(str(path), 1)


def test_status_and_plan_count_the_rows_that_count_without_spark(tmp_path):
    states = {
        "shop.old": made(tmp_path / "old", "cd"),
        "shop.soft": made(tmp_path / "soft", "cdd", "soft_deletes"),
        "shop.all_dead": made(tmp_path / "all_dead", "d", "soft_deletes"),
        "shop.empty": made(tmp_path / "empty"),
        "shop.gone": TableState(str(tmp_path / "gone"), 1),
        "shop.orders": made(tmp_path / "orders", "c"),
    }
    source = {"mysql": "mysql://u@h", "password": {"env": "X"}, "tables": ["shop.*"]}
    pipeline = pipeline_at(tmp_path, source=source)
    found = {each.name: each.rows for each in left(pipeline, states, [TableId("shop", "orders")])}
    assert found == {"shop.old": 2, "shop.soft": 1}


def test_where_delta_rs_cannot_read_the_rows_the_log_s_own_count_stands(tmp_path):
    state = made(tmp_path / "t", "cd", "soft_deletes")
    held = held_tables.held(state.path)
    assert held_tables.live(state.path, held) == 1
    for each in tmp_path.rglob("*.parquet"):
        each.unlink()
    assert held_tables.live(state.path, held) == 2
