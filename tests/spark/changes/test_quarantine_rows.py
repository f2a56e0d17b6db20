"""Which record is which, of those that wait."""

from ingest.changes import quarantine_rows


def test_a_record_without_a_value_is_told_from_one_with_a_value_at_its_place(spark):
    kind = "topic string, partition int, offset bigint, value binary"
    empty, full, other = ("t", 0, 1, None), ("t", 0, 1, bytearray(b"{}")), ("t", 0, 2, None)
    every = spark.createDataFrame([empty, full, other], kind)
    for one, left in ((empty, [full, other]), (full, [empty, other])):
        gone = spark.createDataFrame([one], kind)
        found = quarantine_rows.without(every, gone, quarantine_rows.RECORD)
        assert sorted(map(tuple, found.collect()), key=str) == sorted(left, key=str)
