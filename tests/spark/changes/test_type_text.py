"""`delta_types`: a type is what Spark's own parser makes of it."""

from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.types import _parse_datatype_string

from ingest.changes import quarantine_rows
from ingest.model import manifest
from ingest.schema.delta_types import fields_json, type_json
from ingest.targets import mirror, multiset

NAMES = st.sampled_from(["id", "start", "end", "position", "op", "c_1"])
PLAIN = st.sampled_from(
    [
        "bigint",
        "int",
        "smallint",
        "tinyint",
        "string",
        "boolean",
        "binary",
        "float",
        "double",
        "date",
        "timestamp",
        "timestamp_ntz",
        "decimal(20,0)",
        "decimal(38,30)",
    ]
)
TYPES = st.recursive(
    PLAIN,
    lambda inner: (
        inner.map("array<{}>".format)
        | st.lists(
            st.tuples(NAMES, inner), min_size=1, max_size=3, unique_by=lambda one: one[0]
        ).map(lambda fields: f"struct<{', '.join(f'{name}: {type_}' for name, type_ in fields)}>")
    ),
    max_leaves=6,
)


@given(TYPES)
@example(mirror.META_TYPE)
@example(multiset.META_TYPE)
def test_a_type_is_what_spark_reads(spark, text):
    assert type_json(text) == _parse_datatype_string(text).jsonValue()


def test_our_own_tables_columns_are_what_spark_reads(spark):
    for text in (manifest.SCHEMA, quarantine_rows.SCHEMA):
        assert fields_json(text) == _parse_datatype_string(text).jsonValue()
