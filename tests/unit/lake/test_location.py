"""Where a lake's path lies, and whether delta-rs finds it."""

from pathlib import Path

import pytest

from ingest.lake.delta.delta_rs_table import DeltaRsTable, within_reach
from ingest.lake.delta.spark_table import SparkTable
from ingest.model.location import delta_rs_folder, is_local, local_folder

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    "path", ["/l/a b", "relative/l", "file:/l", "file:///l", "/l/%5F", "/a\\b"]
)
def test_a_path_of_this_machine_has_a_folder(path):
    assert local_folder(path) == Path("/l" if path.startswith("file:") else path)
    assert is_local(path)


@pytest.mark.parametrize("path", ["s3://b/l", "hdfs://host/l", "abfss://c@a/l"])
def test_a_path_beyond_this_machine_has_none(path):
    assert local_folder(path) is None
    assert delta_rs_folder(path) is None
    assert not is_local(path)


@pytest.mark.parametrize(("path", "found"), [("/l/%5F", False), ("/a\\b", False), ("/l/ä b'#?", True)])  # fmt: skip
def test_delta_rs_finds_no_folder_whose_name_it_reads_as_another_s(path, found):
    assert delta_rs_folder(path) == (Path(path) if found else None)


def test_nobody_else_looks_at_how_a_path_is_written():
    asks = ('"://"', '"file:')
    named = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "ingest").rglob("*.py")
        if any(one in path.read_text(encoding="utf-8") for one in asks)
    }
    assert named == {"ingest/model/location.py"}


def test_a_table_that_delta_rs_would_take_for_another_has_no_handle_of_its():
    slow = SparkTable(None, "/l/%5F/t")
    assert slow.folder is None
    assert within_reach(slow, "/l/%5F") is None
    with pytest.raises(ValueError, match="%5F"):
        DeltaRsTable(slow, Path("/l/scratch"))
