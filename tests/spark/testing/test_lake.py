"""`ingest.testing` on Spark and Delta, as its users have it."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from chispa import DataFramesNotEqualError

from ingest.testing.debezium import Record
from ingest.testing.drawn import table_with_history
from ingest.testing.frames import assert_rows
from ingest.testing.lake import Lake
from ingest.testing.source import Source

ROOT = Path(__file__).parents[3]

KINDS = {
    "i": ("INT", -1),
    "u": ("BIGINT UNSIGNED", 2**64 - 1),
    "d": ("DECIMAL(10,2)", "4.5"),
    "w": ("DECIMAL(65,1)", 1),
    "f": ("FLOAT", 0.5),
    "g": ("DOUBLE", 0.1),
    "b": ("BIT(1)", True),
    "bb": ("BIT(9)", 256),
    "s": ("VARCHAR(9)", "茶😀"),
    "e": ("ENUM('a','x,y')", "x,y"),
    "st": ("SET('a','b\\\\c')", "a,b\\c"),
    "r": ("BINARY(3)", b"a"),
    "day": ("DATE", date(2026, 2, 3)),
    "dt": ("DATETIME(3)", datetime.fromisoformat("2026-02-03T04:05:06.007")),
    "ts": ("TIMESTAMP(3)", datetime(2026, 2, 3, 4, 5, 6, 70_000, tzinfo=timezone.utc)),
    "t": ("TIME(1)", timedelta(hours=-1, milliseconds=-100)),
    "y": ("YEAR", 2026),
    "j": ("JSON", {"bb": [1, 2.5, "ä"], "a": None}),
}


@pytest.fixture
def lake(spark, tmp_path):
    made = Lake(spark, tmp_path / "lake")
    yield made
    made.close()


def test_every_type_of_value_arrives_by_a_snapshot_and_by_the_stream(lake):
    source = Source()
    columns = {"id": "INT", **{name: kind for name, (kind, _) in KINDS.items()}}
    values = {name: value for name, (_, value) in KINDS.items()}
    table = source.table("d.t", columns, ["id"], rows=[{"id": 1, **values}, {"id": 2}])
    table.insert(id=3, **values)
    table.insert(id=4)
    lake.follow(source)
    assert_rows(lake.table(table), table.rows)


def test_a_lake_follows_statements_ddl_repetition_and_restarts(lake):
    source = Source()
    orders = source.table("shop.orders", {"id": "INT", "v": "VARCHAR(9)"}, ["id"])
    bag = source.table("shop.bag", {"v": "INT"}, rows=[{"v": 1}, {"v": 1}])
    orders.insert(id=1, v="a")
    orders.update(1, id=2)
    bag.delete({"v": 1})
    assert len(lake.follow(source, batches=2)) == 2
    assert_rows(lake.table(orders), orders.rows)
    lake.start()
    orders.add_column("n", "DECIMAL(10,2)")
    orders.insert(id=3, n=Decimal("1.5"))
    orders.drop_column("v")
    orders.delete(2)
    lake.follow(source, [2, 2])
    lake.replay([one for one in source.log if one.topic == orders.topic][1:])
    assert_rows(lake.table(orders), orders.rows)
    assert_rows(lake.table("shop.bag"), [{"v": 1}])
    with pytest.raises(DataFramesNotEqualError):
        assert_rows(lake.table("shop.bag"), [{"v": 1}, {"v": 1}])
    with pytest.raises(DataFramesNotEqualError):
        assert_rows(lake.table("shop.bag"), [{"v": 2}])
    with pytest.raises(ValueError, match="do not come to"):
        lake.replay([], [1])


def test_a_lake_follows_several_sources_and_another_one_over_its_folder_goes_on_with_its_log(
    lake, spark, tmp_path
):
    sources = [Source(), Source()]
    one, two = (
        source.table(f"d.t{number}", {"id": "INT"}, ["id"], rows=[{"id": number}])
        for number, source in enumerate(sources)
    )
    one.insert(id=7)
    for source in sources:
        lake.follow(source)
    two.insert(id=8)
    lake.follow(sources[1])
    assert_rows(lake.table(one), one.rows)
    assert_rows(lake.table(two), two.rows)
    lake.close()
    with pytest.raises(ValueError, match="filled by another Lake"):
        Lake(spark, tmp_path / "lake")
    second = Lake(spark, tmp_path / "lake", log=lake.log)
    one.insert(id=9)
    second.replay(sources[0].log[-1:])
    assert_rows(second.table(one), one.rows)
    second.close()


def test_a_change_that_goes_to_quarantine_fails_the_test_unless_it_is_meant_to(lake):
    source = Source()
    table = source.table("d.t", {"id": "INT", "n": "TINYINT"}, ["id"])
    table.insert(id=1, n=1)
    table.insert(id=2, n=1000)
    with pytest.raises(AssertionError, match="1 changes went to quarantine"):
        lake.follow(source)
    lake.replay([Record(table.topic, b"no JSON")], quarantine=True)
    assert lake.quarantined().count() == 2
    assert_rows(lake.table(table), [{"id": 1, "n": 1}])


def test_hostile_values_of_a_drawn_history_arrive(lake):
    columns = {"k": "VARCHAR(40)", "a": "DATETIME(6)", "b": "DECIMAL(38,10)", "c": "VARBINARY(30)"}
    table = table_with_history(random.Random(3), columns, ["k"], 40)
    lake.follow(table.source, batches=2)
    assert_rows(lake.table(table), table.rows)


def test_the_page_on_testing_runs_as_its_readers_would_run_it(tmp_path):
    page = (ROOT / "docs" / "testing.md").read_text()
    conftest, worked, law, flow, again, drawn = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len([line for line in worked.splitlines() if line]) <= 20
    more = "".join(f"    {line}\n" for line in [*law.splitlines(), *again.splitlines(), law])
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_revenue.py").write_text(worked + more)
    (tmp_path / "test_flow.py").write_text(flow)
    (tmp_path / "test_drawn.py").write_text(drawn)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "--rootdir", tmp_path]
    done = subprocess.run(
        [*command, tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
