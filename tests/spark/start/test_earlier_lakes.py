"""Lakes that other commits of ours have filled, in the formats between the first that is brought over and today's."""

import datetime as dt
import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ingest.model.errors import IngestError
from ingest.start.lake_format import FORMAT, noted, refuse_other
from tests.support.earlier_lake import COLUMNS, Lake, unpack

COMMITS = ("e625ee8", "9dec782")
"""Of format 3, the last one before the manifest's rows were parted, and of format 4."""

TOO_OLD = ("36f7f23", "47157db", "7e68c64")
"""The last ones before the manifest got what a job that takes over needs, what policies hold, and how long a batch's stages took."""


def held(lake, table):
    """A table's rows as MySQL's text."""
    rows = pa.table(DeltaTable(str(lake / "old" / table)).to_pyarrow_table(columns=_columns(table)))
    return sorted(([_text(name, row[name]) for name in row] for row in rows.to_pylist()), key=repr)


def _columns(table):
    return [name for name, _, _ in COLUMNS[table]] if table != "exact" else list(EXACT)


EXACT = ("id", "amount", "price", "name", "body", "at", "seen")


def _text(name, value):
    if isinstance(value, dt.datetime):
        return str(value.replace(tzinfo=None))
    if name == "single":
        value = value and float(f"{value:.6g}")  # so many digits MySQL says
    return value and str(value)


@pytest.mark.parametrize("commit", COMMITS)
def test_a_lake_of_an_earlier_commit_is_opened_and_holds_what_mysql_held(spark, tmp_path, commit):
    unpack(commit, tmp_path)
    lake = Lake(spark, tmp_path / "lake")
    lake.start()
    source = json.loads((tmp_path / "mysql.json").read_text(encoding="utf-8"))["rows"]
    sure = [name for name in COLUMNS if f"old.{name}" not in lake.gaps()]
    assert len(sure) >= 4
    for table in sure:
        assert held(lake.path, table) == sorted(source[table], key=repr), table
    assert noted(str(lake.path)) == FORMAT
    assert lake.start() == [], "it is said once"


@pytest.mark.parametrize("commit", TOO_OLD)
def test_a_lake_of_before_a_break_of_the_format_is_refused_in_a_sentence_and_untouched(
    tmp_path, commit
):
    lake = unpack(commit, tmp_path) / "lake"
    before = {path: path.is_file() and path.read_bytes() for path in lake.rglob("*")}
    with pytest.raises(IngestError) as refused:
        refuse_other(str(lake))
    assert refused.value.code == "E-LAKE-OLDER"
    assert {path: path.is_file() and path.read_bytes() for path in lake.rglob("*")} == before
