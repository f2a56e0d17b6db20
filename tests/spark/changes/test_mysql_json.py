"""`json_text`: one text of a JSON document, from a snapshot and from the stream."""

import json
from decimal import Decimal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from ingest.changes.mysql_json import json_text

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.lists(json_values, min_size=1, max_size=20))
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_json_from_snapshot_and_stream_becomes_one_text(spark, documents):
    pairs = [
        (
            json.dumps(document, separators=(",", ":"), ensure_ascii=False),
            json.dumps(document, separators=(", ", ": "), ensure_ascii=False),
        )
        for document in documents
    ]
    frame = spark.createDataFrame(pairs, "compact string, spaced string").select(
        json_text(F.col("compact")).alias("a"),
        json_text(F.col("spaced")).alias("b"),
        F.col("spaced").alias("c"),
    )
    for row in frame.collect():
        assert row.a == row.b == row.c


def test_a_long_json_text_does_not_exhaust_the_stack(spark):
    document = json.dumps({"t": '\\"' * 200_000 + ",:" * 50_000, "l": list(range(20_000))})
    (row,) = (
        spark.createDataFrame([(document,)], "j string")
        .select(json_text(F.col("j")).alias("j"))
        .collect()
    )
    assert json.loads(row.j) == json.loads(document)


def printed(value):
    """MySQL's text of a double: the shortest digits, with an exponent beyond its limits."""
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).strip("0")
    point = len(digits) + exponent - (len(digits) - len("".join(map(str, digits)).lstrip("0")))
    minus = "-" if sign else ""
    if point <= -15 or point > (16 if len(text) > 16 else 15):
        return f"{minus}{text[0]}{'.' + text[1:] if text[1:] else ''}e{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"


def written_out(value):
    """The stream's text of the same."""
    return format(Decimal(value), "f")


doubles = st.one_of(
    st.floats(1e-300, 1e300), st.floats(1e-20, 1e20), st.decimals(-(10**8), 10**8, places=2)
).map(float)


@given(st.lists(doubles, min_size=20, max_size=200))
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_double_that_is_written_out_becomes_what_mysql_prints(spark, values):
    # Below 2^64 a double without a fraction looks like an integer; that one is in docs/types.md.
    told = [v for v in values if not (v.is_integer() and abs(v) < 2**64)]
    pairs = [(f'{{"{written_out(v)}":[{written_out(v)}]}}', v) for v in told]
    frame = spark.createDataFrame(pairs or [("[]", 0.0)], "j string, v double")
    for row in frame.select(json_text(F.col("j")).alias("text"), "v").collect():
        if told:
            assert row.text == f'{{"{written_out(row.v)}": [{printed(row.v)}]}}'


KEPT = [
    "18446744073709551615",
    "-9223372036854775808",
    "1.50",
    "1234567890123456789.5",
    "12345678.123456789012345678901235",
    "4194304.099999999627470970153809",
    f"{'9' * 35}.{'9' * 29}5",
]


def test_integers_and_decimals_keep_every_digit(spark):
    frame = spark.createDataFrame([(f"[{text}]",) for text in KEPT], "j string")
    found = [row.text for row in frame.select(json_text(F.col("j")).alias("text")).collect()]
    assert found == [f"[{text}]" for text in KEPT]
