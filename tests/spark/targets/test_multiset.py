"""`multiset_rows.content`: two rows have one content exactly when MySQL holds them for one."""

from collections import defaultdict
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from struct import pack
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ingest.schema.delta_types import struct_json, type_json
from ingest.targets import multiset_rows

INSTANT = datetime(2026, 1, 1, tzinfo=timezone.utc)
NOBODY = [None]
TIMES = [
    at + timedelta(microseconds=micros)
    for at in (INSTANT, datetime(1969, 12, 31, 23, 59, 59, tzinfo=timezone.utc))
    for micros in (0, 1, 999, 1000, 1001, 123456, 123789, 999000, 999001, 999999)
]
ENDS = [
    datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=timezone.utc),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc),
]
WALLS = [one.replace(tzinfo=None) for one in (*TIMES, *ENDS)]
TEXTS = [
    "",
    "null",
    "NULL",
    "a",
    "a ",
    "A",
    "\0",
    "a\0",
    "\n",
    "\u2028",
    "\u0085",
    "\\u2028",
    '"',
    '\\"',
    "{}",
]
TEXTS += [
    '","two":"',
    'x","two":"y',
    "\n0,1",
    "e\u0301",
    "\u00e9",
    "\U00020bb7",
    "\U0010ffff",
    "0,1",
    "1",
]
FLOATS = [0.0, -0.0, 0.5, 2.0**-149, -(2.0**-149), 16777216.0, 3.4028234663852886e38]
DOUBLES = [
    *FLOATS,
    2e23,
    2.0000000000000003e23,
    2e-3,
    5e-324,
    1.7976931348623157e308,
    0.1,
    9007199254740993.0,
]
DECIMALS = [
    Decimal(0),
    Decimal("0.0000000001"),
    Decimal("-0.0000000001"),
    Decimal("1.5"),
    Decimal(15),
]
DECIMALS += [
    Decimal("1234567890123456789012345678.0123456789"),
    Decimal("1234567890123456789012345678.012345679"),
]
BYTES = [b"", b"\0", b"\0\0", b"null", b"\xff\xfe"]
PLACES = [{"srid": srid, "wkb": wkb} for srid in (None, 0, 4326) for wkb in (None, b"", b"\1")]
COLUMNS = {
    "instant": ("timestamp", TIMES),
    "wall": ("timestamp_ntz", WALLS),
    "other wall": ("timestamp_ntz", WALLS),
    "single": ("float", FLOATS),
    "ratio": ("double", DOUBLES),
    "amount": ("decimal(38,10)", DECIMALS),
    "id": ("decimal(20,0)", [Decimal(2**64 - 1), Decimal(2**64 - 2), Decimal(2**53), Decimal(2**53 + 1)]),
    "one": ("string", TEXTS),
    "two": ("string", TEXTS),
    "a.b`": ("binary", BYTES),
    "place": ("struct<srid: int, wkb: binary>", PLACES),
    "day": ("date", [date(1, 1, 1), date(2026, 1, 1), date(9999, 12, 31)]),
    "bit": ("boolean", [True, False]),
    "n": ("bigint", [0, 1, -1, 2**63 - 1]),
}  # fmt: skip


def fields_of(**types):
    found = struct_json([(name, type_json(type_)) for name, type_ in types.items()])
    return StructType.fromJson(found)


FIELDS = fields_of(**{name: type_ for name, (type_, _) in COLUMNS.items()})
PLAIN = tuple(values[0] for _, values in COLUMNS.values())


def contents(spark, rows, fields=FIELDS):
    frame = spark.createDataFrame([(row,) for row in rows], StructType().add("row", fields))
    made = frame.select(multiset_rows.content(F.col("row"), fields).alias("content"))
    return [one.content for one in made.collect()]


def held(value):
    """A value as MySQL tells it apart from others; -0.0 by its bits, which it keeps."""
    return pack("d", value) if isinstance(value, float) else value


def refuse_confused(rows, found):
    of_row, of_content = defaultdict(set), defaultdict(set)
    for row, content in zip(rows, found, strict=True):
        alike = repr([held(value) for value in row])
        of_row[alike].add(content)
        of_content[content].add(alike)
    assert all(len(made) == 1 for made in of_row.values()), "one row has two contents"
    confused = [rows for rows in of_content.values() if len(rows) > 1]
    assert not confused, "two rows have one content"


VALUE = {name: st.sampled_from([*values, None]) for name, (_, values) in COLUMNS.items()}
ROW = st.one_of(
    # Beside each other: a row that all others are like, but for a column or two.
    st.dictionaries(st.sampled_from(list(COLUMNS)), st.none(), max_size=2).flatmap(
        lambda names: st.tuples(
            *(VALUE[n] if n in names else st.just(p) for n, p in zip(COLUMNS, PLAIN, strict=True))
        )
    ),
    st.tuples(*VALUE.values()),
)
FEW = settings(max_examples=5, database=None, print_blob=True, suppress_health_check=list(HealthCheck))  # fmt: skip


@FEW
@given(rows=st.lists(ROW, min_size=150, max_size=150))
def test_rows_have_one_content_exactly_when_they_are_one(spark, rows):
    refuse_confused(rows, contents(spark, [*rows, *rows[::-1]])[: len(rows)])
    refuse_confused([*rows, *rows[::-1]], contents(spark, [*rows, *rows[::-1]]))


def neighbours():
    """The plain row, and for each column all that differ from it there alone."""
    for at, (_, values) in enumerate(COLUMNS.values()):
        for value in [*values, None]:
            yield (*PLAIN[:at], value, *PLAIN[at + 1 :])


def test_neighbours_in_one_column_are_told_apart(spark):
    rows = list(neighbours())
    refuse_confused(rows, contents(spark, rows))


def test_columns_of_like_values_are_not_exchanged(spark):
    pairs = [(one, two) for one in TEXTS for two in TEXTS] + [("a", None), (None, "a")]
    fields = fields_of(one="string", two="string")
    refuse_confused(pairs, contents(spark, pairs, fields))
    walls = [(one, two) for one in WALLS for two in (*WALLS, None)]
    fields = fields_of(one="timestamp_ntz", two="timestamp_ntz")
    refuse_confused(walls, contents(spark, walls, fields))


@pytest.mark.parametrize(
    ("name", "value"),
    [("_TIMES", ()), ("_FORM", {**multiset_rows._FORM, "dateFormat": "MM-dd"})],
)
def test_what_is_left_out_of_the_content_is_noticed(spark, name, value):
    rows = [*neighbours(), tuple(None for _ in COLUMNS)]
    rows += [(*(None,) * 10, {"srid": None, "wkb": None}, None, None, None)]
    with (
        patch.object(multiset_rows, name, value),
        pytest.raises(AssertionError, match="one content"),
    ):
        refuse_confused(rows, contents(spark, rows))


def test_contents_of_rows_that_were_always_right_are_those_of_earlier_versions(spark):
    rows = [row for row in neighbours() if all(not one.microsecond % 1000 for one in row if isinstance(one, datetime))]  # fmt: skip
    fields = StructType([one for one in FIELDS if one.name not in ("single", "ratio")])
    kept = [i for i, one in enumerate(FIELDS) if one in fields.fields]
    rows = [tuple(row[i] for i in kept) for row in rows]
    frame = spark.createDataFrame([(row,) for row in rows], StructType().add("row", fields))
    before = F.sha2(F.to_json("row", {"ignoreNullFields": "false"}), 256)
    assert [one[0] for one in frame.select(before).collect()] == contents(spark, rows, fields)
