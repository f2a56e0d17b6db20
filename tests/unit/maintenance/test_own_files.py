"""What upkeep may remove below a table's folder: by its name, and by what a version needs."""

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from ingest.lake.delta import delta_log
from ingest.lake.delta.data_files import names_at, own_files
from tests.support.direct_lake import DirectLake

NAMES = [
    "part-0.parquet",
    ".part-0.parquet.crc",
    "deletion_vector_1.bin",
    "ab/part-1.parquet",
    "hr/_delta_log/00000000000000000000.json",
    "orders/part-2.parquet",
    "notes.txt",
]
MAPPED = ("part-0.parquet", ".part-0.parquet.crc", "deletion_vector_1.bin", "ab/part-1.parquet")


def test_of_a_plain_table_nothing_that_lies_deeper_is_its_own():
    assert own_files(NAMES, {}) == NAMES[:3]
    assert own_files(NAMES, {"delta.columnMapping.mode": "none"}) == NAMES[:3]


def test_where_columns_are_mapped_files_lie_in_folders_of_two_letters():
    assert own_files(NAMES, {"delta.columnMapping.mode": "name"}) == [*MAPPED]
    assert own_files(NAMES, {"delta.randomizeFilePrefixes": "true"}) == [*MAPPED]


def test_a_version_whose_log_is_not_whole_any_more_needs_no_file_and_what_cannot_be_read_is_an_error(
    tmp_path,
):
    table = DirectLake(tmp_path, {"id": pa.int32()})
    for number in range(6):
        table.append({"id": [number]})
    place = str(table.path)
    assert len(names_at(place, 3)) == 3
    DeltaTable(table.path).create_checkpoint()
    assert delta_log.cut(table.path, table.table.version()) > 0
    assert names_at(place, 3) == set()
    assert len(names_at(place, 6)) == 6
    newest = table.path / "_delta_log" / f"{6:020}.checkpoint.parquet"
    newest.write_bytes(b"torn")
    with pytest.raises(DeltaError):
        names_at(place, 6)
