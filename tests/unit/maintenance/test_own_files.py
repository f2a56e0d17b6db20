"""What upkeep may remove below a table's folder, by its name."""

from ingest.lake.delta.data_files import own_files

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
