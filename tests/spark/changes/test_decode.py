"""`decode`: envelopes and row images to typed values, and rejects with a reason."""

import base64
from dataclasses import replace
from functools import reduce

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ingest.changes import envelope, row_images
from ingest.kafka.record_stream import SCHEMA
from ingest.model.epochs import Epoch, Moved
from ingest.schema.mysql_types import Column
from ingest.schema.type_table import ENTRIES
from tests.support.events import message, raw


def column(name, type_name, length=None, scale=None, charset=None):
    return Column(name, type_name, length, scale, optional=True, charset=charset)


def typed(spark, rows, *columns, with_before=False):
    changes = envelope.changes(spark.createDataFrame(rows, SCHEMA))
    return row_images.typed(changes, row_images.RowSchema.of(columns), with_before=with_before)


def test_an_envelope_becomes_a_change_with_its_position(spark):
    rows = [
        message("c", 77, after={"id": 1}, key={"id": 1}, row=3, offset=5),
        message("d", 99, before={"id": 1}, key={"id": 1}, offset=9),
    ]
    epochs = [Epoch(1, "", "", {("p.d.t", 0): 5}), Epoch(2, "", "", {("p.d.t", 0): 9})]
    found = envelope.changes(spark.createDataFrame(rows, SCHEMA), epochs).select(
        "database", "table", "op", "position.*", "before", "after", "reason"
    )
    expected = spark.createDataFrame(
        [
            ("d", "t", "c", 1, 1, 77, 3, 1, None, '{"id":1}', None),
            ("d", "t", "d", 2, 1, 99, 0, 0, '{"id":1}', None, None),
        ],
        "database string, table string, op string, epoch int, file bigint, pos bigint, row int, "
        "part int, before string, after string, reason string",
    )
    assert_df_equality(found, expected, ignore_nullable=True)


def test_one_that_waited_while_its_topic_was_made_again_is_of_the_log_it_was_read_from(spark):
    place = ("p.d.t", 0)
    second = Epoch(1, "", "", {place: 0}, moved=(Moved(place, 9, 4),))
    rows = spark.createDataFrame(
        [message("c", 77, after={"id": 1}, key={"id": 1}, offset=5)], SCHEMA
    )
    for waits_since, epoch in ((None, 1), (4, 0), (5, 1)):
        records = rows if waits_since is None else rows.withColumn("batch_id", F.lit(waits_since))
        found = envelope.changes(records, [Epoch(0, "", "", {}), second])
        assert [row.position.epoch for row in found.collect()] == [epoch]


NO_CHANGES = [
    (b"not json", "not a Debezium envelope"),
    (b'{"op": "c"', "not a Debezium envelope"),
    (b'{"op": "c", "after": {}}', "no source position"),
    (b"\xff\xfe{}", "not UTF-8"),
    (b'{"op":"m","source":{"db":"d","table":"t","file":"b.1","pos":1}}', "unknown operation"),
    (b'{"op":"c","source":{"db":"d","table":"t","file":"b.1","pos":1}}', "no after image"),
    (b'{"op":"c","source":{"db":"d","table":"t","file":"b","pos":1}}', "no source position"),
    (
        b'{"op":"c","source":{"db":"d","table":"t","file":"b.99999999999999999999","pos":1}}',
        "no source position",
    ),
]


def test_what_is_no_change_gets_a_reason_and_keeps_its_bytes(spark):
    rows = [raw(value, offset) for offset, (value, _) in enumerate(NO_CHANGES)]
    found = envelope.changes(spark.createDataFrame(rows, SCHEMA)).orderBy("offset").collect()
    for row, (value, reason) in zip(found, NO_CHANGES, strict=True):
        assert reason in row.reason
        assert bytes(row.value) == value


def test_a_null_record_is_left_out(spark):
    assert envelope.changes(spark.createDataFrame([raw(None)], SCHEMA)).count() == 0


VALUES = [
    (column("c", "TINYINT", 1), 127, "127"),
    (column("c", "INT UNSIGNED"), 4294967295, "4294967295"),
    (column("c", "BIGINT"), -9223372036854775808, "-9223372036854775808"),
    (column("c", "BIGINT UNSIGNED"), 18446744073709551615, "18446744073709551615"),
    (column("c", "DECIMAL", 12, 2), "-1.50", "-1.50"),
    (column("c", "DECIMAL", 38, 30), "12345678.000000000000000000000000000001", None),
    (column("c", "DECIMAL", 65, 30), "9" * 35 + "." + "9" * 30, None),
    (column("c", "DATE"), -719162, "0001-01-01"),
    (column("c", "DATE"), 2932896, "9999-12-31"),
    (column("c", "DATETIME", 3), 1704164645123000, "2024-01-02 03:04:05.123"),
    (column("c", "DATETIME", 6), -1, "1969-12-31 23:59:59.999999"),
    (column("c", "TIMESTAMP", 6), "2024-02-29T04:34:56.5Z", "2024-02-29 04:34:56.5"),
    (column("c", "TIME", 6), -3020399000000, "-838:59:59.000000"),
    (column("c", "TIME"), 3020399000000, "838:59:59"),
    (column("c", "TIME", 2), -1, "-00:00:00.00"),
    (column("c", "YEAR"), 2155, "2155"),
    (column("c", "BIT", 1), True, "true"),
    (column("c", "ENUM", 1), "", ""),
    (column("c", "VARCHAR", 9), "NUL \x00 and 漢字 and 🎁", None),
    (
        column("c", "JSON"),
        '{"a":[1,2.5,"x,y:\\"z\\\\"],"b":{}}',
        '{"a": [1, 2.5, "x,y:\\"z\\\\"], "b": {}}',
    ),
    (column("c", "DOUBLE"), 4.9e-324, "4.9E-324"),
]


def test_every_common_type_is_read_exactly_and_null_stays_null(spark):
    columns = [replace(col, name=f"c{i}") for i, (col, _, _) in enumerate(VALUES)]
    sent = {f"c{i}": value for i, (_, value, _) in enumerate(VALUES)}
    rows = [message("c", 1, after=sent), message("c", 2, after=dict.fromkeys(sent))]
    texts = [F.col(f"row.{name}").cast("string").alias(name) for name in sent]
    first, second = (
        typed(spark, rows, *columns).orderBy("position").select("reason", *texts).collect()
    )
    expected = {
        f"c{i}": value if text is None else text for i, (_, value, text) in enumerate(VALUES)
    }
    assert first.asDict() == {"reason": None, **expected}
    assert second.asDict() == dict.fromkeys(["reason", *sent])


def test_a_text_beyond_twenty_million_characters_is_read_and_its_row_checked(spark):
    long = "x" * 21_000_000
    columns = [column("t", "LONGTEXT"), column("u", "INT")]
    rows = [message("c", 1, after={"t": long, "u": 1}), message("c", 2, after={"t": long})]
    found = typed(spark, rows, *columns).orderBy("position")
    whole, short = found.select("reason", F.length("row.t").alias("size")).collect()
    assert (whole.reason, whole.size) == (None, len(long))
    assert "columns" in short.reason


def labels(type_name, *quoted):
    return Column("c", type_name, 1, None, optional=True, labels=quoted)


def test_what_the_stream_writes_otherwise_than_a_snapshot_becomes_the_value_itself(spark):
    cases = [
        (column("c", "YEAR"), 1900, 0),
        (labels("ENUM", "'a'", "'x,y'", r"'p\\q'"), "x\\,y", "x,y"),
        (labels("ENUM", "'a'", "'x,y'", r"'p\\q'"), r"p\\q", r"p\q"),
        (labels("ENUM", "'it''s'"), "it's", "it's"),
        (labels("SET", "'a'", r"'b\\c'"), r"a,b\\c", r"a,b\c"),
    ]
    for kind, streamed, value in cases:
        (row,) = typed(spark, [message("c", 1, after={"c": streamed})], kind).collect()
        assert (row.reason, row.row.c) == (None, value)
        (row,) = typed(spark, [message("r", 1, after={"c": value})], kind).collect()
        assert (row.reason, row.row.c) == (None, value)


@pytest.mark.parametrize(
    ("means", "rejected", "stored"),
    [("quarantine", True, None), ("null", False, None), ("keep", False, "1970-01-01")],
)
def test_1970_in_a_column_that_cannot_be_null_is_what_the_pipeline_file_says(
    spark, means, rejected, stored
):
    columns = [Column(name, "DATE", None, None, optional=name == "n") for name in "dn"]
    changes = envelope.changes(
        spark.createDataFrame([message("c", 1, after={"d": 0, "n": 0})], SCHEMA)
    )
    schema = row_images.RowSchema.of(columns, epoch_dates=means)
    (row,) = row_images.typed(changes, schema, with_before=False).collect()
    assert (row.reason is not None) is rejected
    assert str(row.row.n) == "1970-01-01"
    if not rejected:
        assert (row.row.d and str(row.row.d)) == stored


def test_a_row_whose_key_is_a_zero_date_is_rejected_and_never_stored_without_its_key(spark):
    columns = [Column("d", "DATE", None, None, optional=False)]
    changes = envelope.changes(spark.createDataFrame([message("c", 1, after={"d": 0})], SCHEMA))
    schema = row_images.RowSchema.of(columns, ("d",), "null")
    (row,) = row_images.typed(changes, schema, with_before=False).collect()
    assert "key column 'd'" in row.reason


def test_bytes_and_bits_are_read_exactly(spark):
    after = {"b": base64.b64encode(b"ab\x00\xff").decode(), "n": "AQI="}
    (row,) = typed(
        spark, [message("c", 1, after=after)], column("b", "BINARY", 4), column("n", "BIT", 10)
    ).collect()
    assert (bytes(row.row.b), bytes(row.row.n)) == (b"ab\x00\xff", b"\x02\x01")


UNFIT = [
    (column("c", "TINYINT"), 128),
    (column("c", "INT"), "x"),
    (column("c", "DECIMAL", 5, 2), "99999.99"),
    (column("c", "TIMESTAMP"), "yesterday"),
    (column("c", "BLOB"), "***"),
    (column("c", "BIGINT UNSIGNED"), 10**30),
    (column("c", "TIME"), -(2**63)),
    (column("c", "DATETIME"), 2**62),
    (column("c", "DATE"), 2**31 - 1),
]


def test_a_value_that_does_not_fit_is_rejected_and_never_nulled(spark):
    frames = [
        typed(spark, [message("c", index, after={"c": sent})], col).select("position.pos", "reason")
        for index, (col, sent) in enumerate(UNFIT, 1)
    ]
    found = reduce(DataFrame.unionAll, frames).collect()
    assert {row.pos for row in found if row.reason} == set(range(1, len(UNFIT) + 1))


@pytest.mark.parametrize("after", [{"id": 1, "new": 2}, {}, {"other": 1}])
def test_a_row_of_another_shape_is_rejected_and_never_nulled(spark, after):
    (row,) = typed(spark, [message("c", 1, after=after)], column("id", "INT")).collect()
    assert "columns" in row.reason


def test_an_update_brings_both_images_when_asked(spark):
    rows = [message("u", 1, before={"id": 1}, after={"id": 2})]
    (row,) = typed(spark, rows, column("id", "INT"), with_before=True).collect()
    assert (row.old.id, row.row.id) == (1, 2)


def test_column_names_with_dots_spaces_and_backquotes_are_only_names(spark):
    names = ["a.b", "x y", "`q`", "select", "中文", "_ing"]
    after = dict.fromkeys(names, 1)
    (row,) = typed(
        spark, [message("c", 1, after=after)], *[column(name, "INT") for name in names]
    ).collect()
    assert row.reason is None
    assert row.row.asDict() == after


def test_every_value_may_be_null_in_spark_s_eyes_whatever_its_type(spark):
    columns = [replace(entry.column, name=f"c{n}") for n, entry in enumerate(ENTRIES)]
    schema = row_images.RowSchema.of(columns)
    rows = row_images.typed(
        envelope.changes(spark.createDataFrame([], SCHEMA)), schema, with_before=False
    )

    def never(kind, name):
        if isinstance(kind, StructType):
            for field in kind.fields:
                yield from [] if field.nullable else [f"{name}.{field.name}"]
                yield from never(field.dataType, f"{name}.{field.name}")

    assert list(never(rows.schema["row"].dataType, "row")) == []
