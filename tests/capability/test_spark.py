"""Facts about Spark that correctness leans on, pinned."""

from pyspark.sql import functions as F

from ingest.changes.dedup import literal
from ingest.model.position import Position


def test_structs_compare_field_by_field_as_numbers(spark):
    rows = [(9, 999_999, 4), (9, 1_000_000, 1), (10, 1, 1)]
    frame = spark.createDataFrame(
        [({"epoch": 0, "file": a, "pos": b, "row": c, "part": 0},) for a, b, c in rows],
        "p struct<epoch: int, file: bigint, pos: bigint, row: int, part: int>",
    )
    ordered = [tuple(row.p)[1:4] for row in frame.orderBy("p").collect()]
    assert ordered == sorted(rows)
    assert frame.filter(F.col("p") > literal(Position(0, 9, 999_999, 9, 9))).count() == 2
    assert tuple(frame.agg(F.max("p")).first()[0])[1] == 10


def test_a_nested_json_object_read_as_text_keeps_integers_and_strings_to_the_digit(spark):
    """Fractions pass through a double, which is why the connector sends decimals as text."""
    inner = '{"a":18446744073709551615,"b":4.9E-324,"c":"0.10","d":-9223372036854775808}'
    (row,) = (
        spark.createDataFrame([(f'{{"after":{inner}}}',)], "v string")
        .select(F.from_json("v", "after string").after.alias("after"))
        .collect()
    )
    assert row.after == inner


def test_a_value_of_the_wrong_type_fills_the_corrupt_record_column(spark):
    schema = "a int, bad string"
    (row,) = (
        spark.createDataFrame([('{"a": "x"}',)], "v string")
        .select(F.from_json("v", schema, {"columnNameOfCorruptRecord": "bad"}).alias("r"))
        .collect()
    )
    assert row.r.a is None
    assert row.r.bad is not None


def test_a_decimal_prints_plain_also_when_it_is_tiny(spark):
    (row,) = spark.sql("SELECT CAST(CAST('1E-30' AS DECIMAL(38,30)) AS STRING) AS t").collect()
    assert row.t == "0.000000000000000000000000000001"


def test_text_lengths_count_bytes_of_utf_8(spark):
    assert spark.sql("SELECT octet_length('漢🎁')").first()[0] == 7


def test_ancient_and_far_datetimes_keep_their_wall_clock(spark):
    (row,) = (
        spark.createDataFrame([(-62135596800000000, 253402300799999999)], "a bigint, b bigint")
        .select(
            *[
                F.timestamp_micros(name).cast("timestamp_ntz").cast("string").alias(name)
                for name in "ab"
            ]
        )
        .collect()
    )
    assert (row.a, row.b) == ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999")
