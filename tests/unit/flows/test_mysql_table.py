"""Which table of MySQL can take a flow's result: none that would bend a value, or find another row than the keys do."""

from dataclasses import replace

import pytest
from pyspark.sql.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ingest.config.flow_sinks import FlowSink
from ingest.flows.mysql_table import ColumnFacts, TableFacts, UniqueIndex, _column, unfit

EXACT = "utf8mb4_0900_bin"
SINK = FlowSink(mysql="t", connection="results", keys=("k",))
OF_KEYS = UniqueIndex(frozenset({"k"}))
KEY = ColumnFacts("int", nullable=False, given=False)


def result(key, value=None):
    return StructType([StructField("k", key), StructField("v", value or IntegerType())])


def table(key=KEY, value=None, *unique, **more):
    columns = {"k": key, "v": value or ColumnFacts("int"), **more}
    return TableFacts("InnoDB", columns, [OF_KEYS, *unique])


@pytest.mark.parametrize(
    ("kind", "of", "fits"),
    [
        ("varchar", StringType(), True),
        ("char", StringType(), False),
        ("text", StringType(), False),
        ("varbinary", BinaryType(), True),
        ("binary", BinaryType(), False),
        ("blob", BinaryType(), False),
    ],
)
def test_a_key_is_of_a_kind_that_keeps_it_as_it_is(kind, of, fits):
    key = replace(KEY, kind=kind, collation=EXACT if isinstance(of, StringType) else None)
    why = unfit(table(key), SINK, result(of))
    assert bool(why) != fits, why


def test_an_index_of_how_a_key_begins_is_none_of_the_key():
    beginning = UniqueIndex(frozenset({"k"}), whole=False)
    found = replace(table(), unique=[beginning])
    assert "no UNIQUE index of exactly (k)" in unfit(found, SINK, result(IntegerType()))
    beside = table(KEY, None, beginning)
    assert "its UNIQUE index of (k) could find" in unfit(beside, SINK, result(IntegerType()))


OWN = {"one": ColumnFacts("int", alone=True), "same": ColumnFacts("int")}


@pytest.mark.parametrize(
    ("of", "fits"),
    [
        ({"one"}, True),
        ({"one", "same"}, True),
        ({"same"}, False),
        ({"one", "v"}, False),
        ({""}, False),
        ({"one", ""}, False),
    ],
)
def test_another_index_is_of_nothing_that_the_result_brings_and_of_something_that_is_each_row_s_own(
    of, fits
):
    why = unfit(table(KEY, None, UniqueIndex(frozenset(of)), **OWN), SINK, result(IntegerType()))
    assert bool(why) != fits, why
    assert not why or "could find another row than (k) does" in why


@pytest.mark.parametrize(
    ("extra", "default", "nullable", "alone"),
    [
        ("auto_increment", None, "NO", True),
        ("", None, "YES", True),
        ("", "1", "YES", False),
        ("virtual generated", None, "YES", False),
        ("on update current_timestamp", None, "YES", False),
        ("default_generated", "uuid()", "NO", False),
    ],
)
def test_a_column_is_each_row_s_own_where_it_is_counted_or_null(extra, default, nullable, alone):
    column = _column("int", 0, None, None, nullable, default, extra, None)
    assert column.alone == alone


@pytest.mark.parametrize(
    ("kind", "of", "held"),
    [
        ("float", IntegerType(), "7 digits of int"),
        ("float", FloatType(), ""),
        ("double", IntegerType(), ""),
        ("double", LongType(), "15 digits of bigint"),
        ("double", DecimalType(15, 2), ""),
        ("double", DecimalType(16, 2), "15 digits of decimal(16,2)"),
        ("date", DateType(), ""),
        ("date", TimestampType(), "the date alone of timestamp"),
        ("time", TimestampNTZType(), "the time alone of timestamp_ntz"),
        ("varchar", DoubleType(), "23 characters of double"),
    ],
)
def test_a_column_holds_all_that_a_type_has(kind, of, held):
    why = unfit(table(KEY, ColumnFacts(kind, length=23)), SINK, result(IntegerType(), of))
    assert why == (f"its column v is {kind.upper()}, which holds {held}" if held else "")
