"""Spark finds by a filter what is there, in files whose statistics passed through ``statistics``."""

# ruff: noqa: DTZ001  # a DATETIME has no zone
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import reduce

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.support.direct_lake import DirectLake

D = Decimal
VALUES = {
    "text": (pa.string(), ["", "a\u2028b", "a\u0085", "a\x00b", "吉野家", "𠮷野家", "𩸽", "😀", "x" * 40, "x" * 32 + "\U0010ffff" * 9]),
    "unsigned": (pa.decimal128(20, 0), [D(0), D(2**53 + 1), D(2**64 - 1)]),
    "wide": (pa.decimal128(38, 10), [D("1234567890123456789012345678.0123456789"), D("-0.0000000001")]),
    "of_18": (pa.decimal128(18, 2), [D("9999999999999999.99"), D("-9999999999999999.99")]),
    "of_10": (pa.decimal128(10, 2), [D("0.07"), D("33.33")]),
    "wall": (pa.timestamp("us"), [datetime(1, 1, 1, 0, 0, 0, 1), datetime(2026, 1, 1, 0, 0, 0, 123456), datetime(9999, 12, 31, 23, 59, 59, 999999)]),
    "instant": (pa.timestamp("us", "UTC"), [datetime(1970, 1, 1, 0, 0, 1, 1, timezone.utc), datetime(2026, 1, 1, 0, 0, 0, 123456, timezone.utc)]),
    "day": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    "float": (pa.float32(), [pa.scalar(0.1, pa.float32()).as_py(), 3.4028234663852886e38]),
    "double": (pa.float64(), [-0.0, 5e-324, -1.7976931348623157e308]),
    "long": (pa.int64(), [2**63 - 1, -(2**63)]),
    "bool": (pa.bool_(), [True, False]),
    "bytes": (pa.binary(), [b"\xff" * 40, b""]),
}  # fmt: skip
TYPES = {"id": pa.int64(), **{name: kind for name, (kind, _) in VALUES.items()}}
DEPTH = max(len(values) for _, values in VALUES.values())


def rows(number):
    """Of one row; the n-th value of each column, or NULL."""
    found = {"id": [number]}
    for name, (_, values) in VALUES.items():
        found[name] = [values[number]] if number < len(values) else [None]
    return found


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A file per row, made by adding, by a MERGE and by marking in turns."""
    made = DirectLake(tmp_path_factory.mktemp("lake"), TYPES)
    empty = {column: [None] for column in TYPES}
    for number in range(DEPTH):
        if number % 3 == 0:
            made.add(rows(number))
        else:
            made.add({**empty, "id": [number]})
            (made.merge if number % 3 == 1 else made.mark)(rows(number))
    return made


@pytest.mark.parametrize("state", ["files", "compacted"])
@pytest.mark.parametrize("name", VALUES)
def test_spark_finds_every_value_by_a_filter(spark, lake, name, state):
    if state == "compacted" and len(lake.table.state.files) > 1:
        lake.compact()
        DeltaTable(lake.path).create_checkpoint()
    kind, values = VALUES[name]
    frame = spark.read.format("delta").load(str(lake.path))
    typed, asked, right = frame.schema[name].dataType, [], []
    for value in values:
        # By its text: Spark's Python takes no date of the year 1.
        by_text = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
        literal = F.lit(value.isoformat() if by_text else value).cast(typed)
        column = F.col(name)
        asked += [column == literal, column >= literal, column <= literal]
        right.append([sum(one == value for one in values)])
        right.append([sum(one >= value for one in values)])
        right.append([sum(one <= value for one in values)])
    # One job, in which each count passes files over by its own filter.
    counts = [
        frame.filter(one).agg(F.lit(at).alias("at"), F.count("*").alias("n"))
        for at, one in enumerate(asked)
    ]
    found = reduce(DataFrame.union, counts).orderBy("at").collect()
    assert [[row.n] for row in found] == right


def test_spark_passes_files_over_by_exact_bounds(spark, tmp_path):
    made = DirectLake(tmp_path, {"id": pa.int64(), "v": pa.decimal128(20, 0)})
    for number in range(3):
        made.append({"id": [number], "v": [D(2**64 - 1 - number)]})
    frame = spark.read.format("delta").load(str(made.path))
    plan = frame.filter(F.col("v") == F.lit(D(2**64 - 2)).cast("decimal(20,0)"))
    assert len(plan.inputFiles()) == 1
