"""`in_driver` and what it is made of: changes read by Arrow are those that Spark reads."""

import json
import re
from dataclasses import replace
from decimal import Decimal
from functools import reduce

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest.arrow import json_columns, json_document, record_decoder
from ingest.arrow.change_facts import facts as facts_of_notes
from ingest.arrow.change_facts import joined, refuse_unnamed
from ingest.arrow.column_values import UnfitError
from ingest.arrow.json_columns import Layout
from ingest.changes import batch_facts, dedup, envelope, row_images
from ingest.changes.mysql_json import json_text
from ingest.kafka.record_stream import SCHEMA
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.catalog import SchemaVersion
from ingest.schema.mysql_types import Column
from ingest.schema.steps import TableFacts
from ingest.targets.mirror_rows import mirror_source
from ingest.testing.debezium import compact, enveloped
from tests.support.events import message, raw


def column(name, type_name, length=None, scale=None, charset=None, labels=(), optional=True):
    return Column(name, type_name, length, scale, optional, charset=charset, labels=labels)


ID = column("id", "BIGINT", optional=False)


def layout(*columns, epoch_dates="quarantine"):
    every = (ID, *columns)
    version = SchemaVersion(TableId("d", "t"), Position(0, 1, 1), "CREATE", every, ("id",), "")
    return Layout(version, row_images.RowSchema.of(every, ("id",), epoch_dates))


def by_arrow(spark, messages, how):
    records = spark.createDataFrame(messages, SCHEMA).toArrow()
    return record_decoder.decode(records, how, 0)


def by_spark(spark, messages, how):
    """Source rows as a MERGE gets them, facts, and reasons, as Spark's columns make them."""
    changes = envelope.changes(spark.createDataFrame(messages, SCHEMA))
    marked = dedup.marked(changes, {}, {})
    found, _ = batch_facts.gather(marked)
    typed = row_images.typed(changes.filter("op <> 't'"), how.schema, with_before=False)
    reasons = [row.reason for row in typed.select("reason").collect() if row.reason]
    rows = mirror_source(typed).toArrow()
    return rows, found, reasons


def columns_of(table):
    """By name and type; rows in the order of their ids."""
    ordered = table.sort_by("id")
    return {(f.name, f.type): ordered[f.name].combine_chunks() for f in table.schema}


def assert_same(spark, messages, how):
    mine = by_arrow(spark, messages, how)
    rows, found, reasons = by_spark(spark, messages, how)
    assert not reasons
    assert columns_of(mine.rows) == columns_of(rows)
    (theirs,) = found.values()
    for size in (len(mine.notes), 1, 7):  # as a whole, and joined of parts
        parts = [mine.notes.slice(at, size) for at in range(0, len(mine.notes), size)]
        rows = [facts_of_notes(part, ("p.d.t", 0), how) for part in parts]
        (ours,) = TableFacts.combine([reduce(joined, rows)]).values()
        assert ours == replace(theirs, keys=ours.keys)  # a table with a key does not ask for them


def test_the_last_row_of_a_snapshot_is_read_with_its_run_or_not_here(spark):
    how, named = (
        layout(),
        [message("r", 9, after={"id": n}, snapshot="true", offset=n) for n in (1, 2)],
    )
    notes = by_arrow(spark, named, how).notes
    column = notes.schema.get_field_index("run")
    first = notes.set_column(column, "run", pa.array(["run", None], pa.string()))
    last = notes.set_column(column, "run", pa.array([None, "run"], pa.string()))
    refuse_unnamed(last)
    assert facts_of_notes(last, ("p.d.t", 0), how) == facts_of_notes(notes, ("p.d.t", 0), how)
    with pytest.raises(UnfitError, match="run"):
        refuse_unnamed(first)
    refuse_unnamed(first.slice(2))  # none of them


VALUES = [
    (column("c", "TINYINT", 1), [127, -128, 0]),
    (column("c", "TINYINT UNSIGNED"), [255, 0]),
    (column("c", "SMALLINT"), [-32768, 32767]),
    (column("c", "MEDIUMINT UNSIGNED"), [16777215]),
    (column("c", "INT UNSIGNED"), [4294967295, 0]),
    (column("c", "BIGINT"), [-(2**63), 2**63 - 1]),
    (column("c", "BIGINT UNSIGNED"), [2**64 - 1, 0, 2**63]),
    (column("c", "DECIMAL", 12, 2), ["-1.50", "0.00", "-0.01", "9999999999.99"]),
    (column("c", "DECIMAL", 38, 30), ["12345678.000000000000000000000000000001"]),
    (column("c", "DECIMAL", 65, 30), ["9" * 35 + "." + "9" * 30]),
    (column("c", "DATE"), [-719162, 2932896, 0, -719528]),
    (column("c", "DATE", optional=False), [-719162, 2932896]),
    (column("c", "DATETIME", 6), [-1, 1704164645123000, 0, -62167219200000000]),
    (column("c", "TIMESTAMP", 6), ["2024-02-29T04:34:56.5Z", "1970-01-01T00:00:01Z"]),
    (column("c", "TIMESTAMP", optional=False), ["1970-01-01T00:00:00Z", "2038-01-19T03:14:07Z"]),
    (column("c", "TIME", 6), [-3020399000000, -1, 0, 3020399999999]),
    (column("c", "TIME", 2), [-1, 12345678901]),
    (column("c", "TIME"), [3020399000000, 59_999_999]),
    (column("c", "YEAR"), [2155, 1900, 1901, 0]),
    (column("c", "BIT", 1), [True, False]),
    (column("c", "BIT", 10), ["/wM=", "AAA="]),
    (column("c", "VARBINARY", 10), ["", "AAEC/w==", "Zm9v"]),
    (column("c", "ENUM", 1, labels=("'a'", "'x,y'", r"'p\\q'")), ["a", "x\\,y", r"p\\q", ""]),
    (column("c", "SET", 1, labels=("'a'", r"'b\\c'")), ["", "a", r"a,b\\c"]),
    (column("c", "VARCHAR", 9), ["NUL \x00 and 漢字 and 🎁", "", '"c":null', "\u2028\n\t\\"]),
    (column("c", "FLOAT"), [0.1, -3.4028235e38, 1e-45, 0.0, 16777216]),
    (column("c", "DOUBLE"), [4.9e-324, 1.7976931348623157e308, -0.0, 0.1, 12345678]),
    (column("c", "JSON"), ['{"a":[1,2.5,"x,y:\\"z\\\\"],"b":{}}', "[0.10000000000000001,1e300]"]),
]


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "with backslashes"])
def test_every_type_is_read_as_spark_reads_it(spark, plain):
    columns = [replace(kind, name=f"c{n}") for n, (kind, _) in enumerate(VALUES)]
    choices = [
        [
            one
            for one in [*values, *([None] if kind.optional else [])]
            if not plain or _is_plain(one)
        ]
        for kind, values in VALUES
    ]
    messages = []
    for turn in range(max(map(len, choices))):
        image = {
            kind.name: every[turn % len(every)]
            for kind, every in zip(columns, choices, strict=True)
        }
        for op in ("c", "u", "r", "d"):
            n = len(messages)
            both = {"id": n, **image}
            messages.append(message(op, n, after=both, before=both, offset=n))
    assert_same(spark, messages, layout(*columns))


def _is_plain(value):
    return b"\\" not in compact(value)


OPERATIONS = st.tuples(
    st.sampled_from(["c", "u", "d", "r", "t", "incremental"]),
    st.integers(1, 3),
    st.integers(1, 9),
    st.integers(0, 2),
    st.one_of(st.none(), st.text(max_size=5)),
    st.sampled_from([None, "0-0:1", "0-0:2", "1-1:7"]),
)


@settings(max_examples=15)
@given(drawn=st.lists(OPERATIONS, min_size=1, max_size=30))
@example(drawn=[("t", 1, 1, 0, None, None)] * 2)  # sent twice, it is one
def test_operations_positions_and_facts_are_read_as_spark_reads_them(spark, drawn):
    messages = []
    for offset, (op, file, pos, row, text, gtid) in enumerate(drawn):
        image = {"id": offset, "c": text}
        messages.append(
            message(
                "r" if op == "incremental" else op,
                pos,
                after=None if op in "dt" else image,
                before=image if op in "du" else None,
                row=row,
                offset=offset,
                file=f"binlog.{file:06d}",
                snapshot="incremental" if op == "incremental" else None,
                gtid=gtid,
            )
        )
    assert_same(spark, messages, layout(column("c", "VARCHAR", 9)))


def change(after, **more):
    return message("c", 1, after=after, **more)


ODD = {
    "no JSON": raw(b"not json"),
    "not UTF-8": raw(b'{"op":"\xff"}'),
    "two objects in one value": raw(bytes(change({"id": 1, "c": 1})[5]) * 2),
    "no object": raw(b"5"),
    "another operation": message("m", 1, after={"id": 1, "c": 1}),
    "no image": message("c", 1),
    "no image before a delete": message("d", 1, after={"id": 1, "c": 1}),
    "another table": message("c", 1, after={"id": 1, "c": 1}, table="u"),
    "no number in the file's name": change({"id": 1, "c": 1}, file="binlog"),
    "a column too few": change({"id": 1}),
    "a column too many": change({"id": 1, "c": 1, "d": None}),
    "a column too few where another is null": change({"c": None}),
    "a text for a number": change({"id": 1, "c": "1"}),
    "a fraction": change({"id": 1, "c": 1.0}),
    "beyond the type": change({"id": 1, "c": 2**31}),
    "a key without a value": change({"id": None, "c": 1}),
}


@pytest.mark.parametrize("gtid", [None, '"'], ids=["", "where Arrow is asked for every field"])
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
def test_what_is_not_just_as_debezium_writes_it_is_left_to_spark(spark, odd, gtid):
    good = change({"id": 7, "c": None}, offset=1, gtid=gtid)
    with pytest.raises(UnfitError):
        by_arrow(spark, [good, odd], layout(column("c", "INT")))


NAMES = ["c", "name", "connector", "version", "sequence", "thread", "ts_ns", "op", "transaction"]
"""Most of them Debezium's own, too."""
IMAGES = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(1, 3),
        **dict.fromkeys(NAMES, st.none() | st.sampled_from(["", "x", ":", 'a"b', '"c":null'])),
        "more": st.none() | st.integers(0, 1) | st.just("more"),
    },
)
WRITTEN = st.fixed_dictionaries(
    {"thread": st.none() | st.just(7), "query": st.none() | st.just("SELECT 1")}
)


def read_or_refused(values, how):
    try:
        columns = json_columns.parsed(values, how)
    except (UnfitError, ValueError) as refused:
        return type(refused).__name__
    source = columns["source"]
    asked = [source.field(field.name) for field in how.parsed.field("source").type]
    return [columns[name] for name in ("before", "after", "op")] + asked


@settings(max_examples=400)
@given(
    columns=st.sets(st.sampled_from(NAMES), max_size=4),
    whole=st.booleans(),
    drawn=st.lists(st.tuples(IMAGES, IMAGES, WRITTEN), min_size=1, max_size=4),
)
@example(  # as many names as there are to be
    columns={"c"}, whole=False, drawn=[({"id": 1}, {"id": 1, "c": None, "more": None}, {})]
)
@example(columns={"c"}, whole=False, drawn=[(None, {"id": 1, "c": None, "more": 1}, {})])
def test_fields_that_nobody_asks_for_are_passed_over_only_where_no_other_is(columns, whole, drawn):
    how = layout(*(column(name, "VARCHAR", 9) for name in sorted(columns)))
    source = {"table": "t", "file": "binlog.000001", "pos": 1}
    records = []
    for before, after, written in drawn:
        images = [before, after]
        if whole:  # as the layout has it, but for what was drawn
            full = {"id": 1, **dict.fromkeys(columns)}
            images = [{name: (one or {}).get(name, full[name]) for name in full} for one in images]
        records.append(compact(enveloped("u", *images, {**source, **written})))
    values = pa.array([record.decode() for record in records])
    found = read_or_refused(values, how)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_columns, "_plain", lambda *_: None)
        assert found == read_or_refused(values, how)


@pytest.mark.parametrize(
    ("values", "passed"),
    [
        (["a", "b:", "c\n\\d", None], True),
        (["a", 'b"'], False),
    ],
)
def test_plain_records_are_parsed_without_what_nobody_asks_for(monkeypatch, values, passed):
    asked = []
    strict = json_columns._strict
    monkeypatch.setattr(json_columns, "_strict", lambda *a: asked.append(a) or strict(*a))
    bodies = [bytes(change({"id": n, "c": value})[5]).decode() for n, value in enumerate(values)]
    json_columns.parsed(pa.array(bodies), layout(column("c", "VARCHAR", 9)))
    assert passed == (not asked)


def test_names_that_another_version_does_not_write_make_up_for_no_column_that_is_not_known(spark):
    other = json.loads(bytes(change({"id": 2, "c": 5, "d": 6, "e": 7})[5]))
    other["source"]["version"] = "3.5.0.Final"
    del other["ts_ns"], other["source"]["ts_ns"]
    with pytest.raises(UnfitError):
        by_arrow(
            spark, [change({"id": 1, "c": 1}), raw(compact(other))], layout(column("c", "INT"))
        )


@pytest.mark.parametrize("version", ["3.5.0.Final", "4.0.0.Final"])
def test_records_of_another_version_of_debezium_are_read_the_same(spark, version):
    """The one wrote a field less, the other (let us say) one more; both in one topic, too."""
    other = json.loads(bytes(change({"id": 2, "c": 5})[5]))
    other["source"]["version"] = version
    if version[0] == "3":
        del other["ts_ns"], other["source"]["ts_ns"]
    else:
        other["source"]["more"] = 1
    ours, theirs = change({"id": 1, "c": None}), raw(compact(other), offset=1)
    for messages in ([theirs], [ours, theirs], [theirs, ours]):
        assert_same(spark, messages, layout(column("c", "INT")))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (column("c", "DATE", optional=False), 0),
        (column("c", "DATETIME", optional=False), 0),
        (column("c", "DATE"), 2932897),
        (column("c", "TIME"), 3020400000000),
        (column("c", "YEAR"), 2156),
        (column("c", "DECIMAL", 3, 1), "12.34"),
        (column("c", "DECIMAL", 3, 1), "x"),
        (column("c", "VARBINARY", 3), "a"),
        (column("c", "TIMESTAMP"), "2024-02-30T00:00:00Z"),
        (column("c", "JSON"), "{"),
        (column("c", "VARCHAR", 3), 5),
    ],
)
def test_a_value_that_does_not_fit_is_left_to_spark(spark, kind, value):
    with pytest.raises(UnfitError):
        by_arrow(spark, [change({"id": 1, "c": value})], layout(kind))


@pytest.mark.parametrize("choice", ["null", "keep"])
def test_a_date_that_may_be_a_zero_date_is_taken_as_the_pipeline_file_says(spark, choice):
    how = layout(column("c", "DATE", optional=False), epoch_dates=choice)
    assert_same(spark, [change({"id": 1, "c": 0})], how)


DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: abs(x) > 1e-290 or x == 0)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


def as_streamed(document):
    """As Debezium writes a document: compact, each double to its last binary digit."""
    if isinstance(document, float):
        return f"{Decimal(document):f}" if abs(document) < 1e40 else repr(document)
    if isinstance(document, list):
        return "[" + ",".join(map(as_streamed, document)) + "]"
    if isinstance(document, dict):
        pairs = (f"{json.dumps(k)}:{as_streamed(v)}" for k, v in document.items())
        return "{" + ",".join(pairs) + "}"
    return _upper(json.dumps(document, ensure_ascii=False))


def _upper(text):
    return re.sub(
        r"\\(u00..|.)",
        lambda found: found[0].replace(found[1], found[1][0] + found[1][1:].upper()),
        text,
    )


@settings(max_examples=12)
@given(documents=st.lists(DOCUMENTS, min_size=1, max_size=30))
def test_documents_are_read_as_spark_reads_them(spark, documents):
    texts = [as_streamed(one) for one in documents]
    frame = spark.createDataFrame([(n, text) for n, text in enumerate(texts)], "n int, t string")
    found = frame.select("n", json_text(frame.t).alias("t")).orderBy("n").collect()
    assert [json_document.text(text) for text in texts] == [row.t for row in found]


ESCAPED = {
    r'["a\u001Fb\u000B"]': r'["a\u001fb\u000b"]',
    r'{"\u000E":"\n\u001A"}': r'{"\u000e": "\n\u001a"}',
    r'["\\u001F"]': r'["\\u001F"]',  # a backslash, and letters
    r'["\\\u001F\u001F"]': r'["\\\u001f\u001f"]',
    r'["\\\\u001F"]': r'["\\\\u001F"]',
}


def test_digits_of_a_control_character_s_escape_are_mysql_s(spark):
    """The stream writes them in upper case, what looks like an escape after a backslash is left alone."""
    frame = spark.createDataFrame([(text,) for text in ESCAPED], "t string")
    found = [row.t for row in frame.select(json_text(frame.t).alias("t")).collect()]
    assert found == list(ESCAPED.values())
    assert [json_document.text(text) for text in ESCAPED] == list(ESCAPED.values())


def test_a_reader_that_leaves_a_document_s_escapes_as_they_are_is_noticed(monkeypatch):
    monkeypatch.setattr(json_document, "_ESCAPE", re.compile("(?!)"))
    assert [json_document.text(text) for text in ESCAPED] != list(ESCAPED.values())
