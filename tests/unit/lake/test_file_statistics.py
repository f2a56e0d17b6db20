"""What stands in a log is true and small: bounds contain every value, and commits are read as they were written."""

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from ingest.lake.delta import delta_log, file_statistics
from ingest.lake.delta.delta_snapshot import TableState
from ingest.lake.files.table_files import of
from tests.support.direct_lake import DirectLake
from tests.support.mutants import Mutant

SEPARATORS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
TEXT = st.text(
    st.one_of(
        st.sampled_from("ab\x00'\\\"\ud7ff\ue000\uffff\U00010000\U0001f600\U00020bb7\U0010ffff"),
        st.sampled_from(SEPARATORS),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=80,
)


def schema(kind):
    field = {"name": "v", "type": kind, "nullable": True, "metadata": {}}
    return file_statistics.columns(json.dumps({"type": "struct", "fields": [field]}))


def entry(low, high):
    said = {"numRecords": 2, "minValues": {"v": low}, "maxValues": {"v": high}}
    return {"path": "f", "stats": json.dumps({**said, "nullCount": {"v": 0}}, ensure_ascii=False)}


def bounds(add):
    said = json.loads(add["stats"], parse_float=Decimal)
    return said.get("minValues", {}).get("v"), said.get("maxValues", {}).get("v")


@pytest.mark.parametrize("make", [file_statistics.true, file_statistics.corrected])
@given(st.lists(TEXT, min_size=1))
def test_bounds_of_texts_contain_each_of_them_and_are_short(make, texts):
    low, high = bounds(make(entry(min(texts), max(texts)), schema("string"), {}))
    if low is None:
        assert high is None
        return
    for text in texts:
        assert low.encode() <= text.encode() <= high.encode()
    assert len(low) <= file_statistics.TEXT
    assert len(high) <= file_statistics.TEXT or set(high) == {LAST}


@given(st.lists(TEXT, min_size=1))
def test_bounds_that_were_wrongly_decoded_contain_each_text_when_they_are_corrected(texts):
    wrong = "".join(map(_as_delta_rs_decodes, max(texts)))
    least = "".join(map(_as_delta_rs_decodes, min(texts)))
    low, high = bounds(file_statistics.corrected(entry(least, wrong), schema("string")))
    if high is not None:
        assert low.encode() <= min(texts).encode()
        assert max(texts).encode() <= high.encode()


def _as_delta_rs_decodes(char):
    """Of an escaped pair of surrogates: it adds the halves by OR."""
    return chr(0x10000 | ord(char) - 0x10000) if char > "\uffff" else char


LAST = "\U0010ffff"


@pytest.mark.parametrize("text", [LAST * 32, LAST * 33, LAST * 32 + "z", LAST * 40 + "z" * 99])
def test_a_maximum_that_cannot_be_raised_is_longer(text):
    low, high = bounds(file_statistics.true(entry("a", text), schema("string"), {}))
    assert low == "a"
    assert high.encode() >= text.encode()
    assert len(high) <= len(text)


def test_a_maximum_above_which_no_short_text_is_is_left_out_with_its_minimum():
    endless = entry("a", LAST * 1000 + "z")
    assert bounds(file_statistics.true(endless, schema("string"), {})) == (None, None)


def test_where_a_value_is_not_known_the_bounds_are_those_of_its_type():
    """A reader passes a file over that has none."""
    found = bounds(file_statistics.corrected(entry(0.1, 0.2), schema("decimal(20,3)")))
    assert found == (-Decimal("99999999999999999.999"), Decimal("99999999999999999.999"))
    add = {"path": "f", "stats": json.dumps({"numRecords": 2, "nullCount": {"v": 1}})}
    assert bounds(file_statistics.true(add, schema("boolean"), {})) == (False, True)
    add = {"path": "f", "stats": json.dumps({"numRecords": 2, "nullCount": {"v": 2}})}
    assert bounds(file_statistics.true(add, schema("boolean"), {})) == (None, None)


@pytest.mark.parametrize(
    ("kind", "low", "high", "right"),
    [
        ("decimal(38,10)", Decimal("-1E-10"), Decimal(1), ("-1E-10", "1")),
        ("double", Decimal("0.0"), Decimal("1.5"), ("-0.0", "1.5")),
        ("double", Decimal("-0.5"), Decimal("-0.0"), ("-0.5", "0.0")),
        ("string", "b", None, ("None", "None")),
    ],
)
def test_what_a_reader_would_misread_of_spark_s_is_told_and_written_so_that_none_does(
    kind, low, high, right
):
    said = {"numRecords": 2, "minValues": {"v": low}, "nullCount": {"v": 0}}
    said |= {"maxValues": {"v": high}} if high is not None else {}
    spark_s = {"path": "f", "stats": _by_jackson(said)}
    assert file_statistics.misread(spark_s, schema(kind))
    made = file_statistics.reread(spark_s, schema(kind))
    assert not file_statistics.misread(made, schema(kind))
    assert tuple(map(str, bounds(made))) == right
    assert "E-" not in made["stats"]


def _by_jackson(said):
    """A decimal with an exponent, as Java has it."""
    return json.dumps(said, default=lambda one: f"<{one}>").replace('"<', "").replace('>"', "")


def test_a_maximum_is_raised_beyond_surrogates():
    assert file_statistics.raised("a\ud7ff") == "a\ue000"
    assert file_statistics.raised("a\uffff") == "a\U00010000"
    assert file_statistics.raised("a\U0010ffff") == "b"


@given(st.data(), st.integers(1, 38))
def test_bounds_of_decimals_are_exact_or_left_out(data, digits):
    scale = data.draw(st.integers(0, digits))
    most = 10**digits - 1
    drawn = data.draw(st.lists(st.integers(-most, most), min_size=1))
    with_scale = sorted(Decimal(f"{one}E-{scale}") for one in drawn)
    add = entry(float(with_scale[0]), float(with_scale[-1]))
    known = schema(f"decimal({digits},{scale})")
    found = bounds(file_statistics.corrected(add, known))
    widest = Decimal(f"-{most}E-{scale}"), Decimal(f"{most}E-{scale}")
    assert found == (widest if digits > 15 else (with_scale[0], with_scale[-1]))
    exact = {("v",): (with_scale[0], with_scale[-1])}
    if file_statistics.wide(known):
        assert bounds(file_statistics.true(add, known, exact)) == (with_scale[0], with_scale[-1])


@given(st.lists(st.datetimes(), min_size=1), st.sampled_from(["T", " "]))
def test_no_instant_is_later_than_the_maximum(instants, between):
    cut = [one.isoformat(between, "milliseconds") for one in (min(instants), max(instants))]
    low, high = bounds(file_statistics.true(entry(*cut), schema("timestamp_ntz"), {}))
    for one in instants:
        assert low <= one.isoformat(between, "microseconds") <= high


def test_a_zero_is_within_its_bounds_whatever_its_sign():
    low, high = bounds(file_statistics.true(entry(0.0, -0.0), schema("double"), {}))
    assert (str(low), str(high)) == ("-0.0", "0.0")


@pytest.mark.parametrize("kind", ["binary", "interval"])
def test_what_is_not_known_to_bound_a_type_is_left_out(kind):
    assert bounds(file_statistics.true(entry("a", "b"), schema(kind), {})) == (None, None)


@given(st.sampled_from([file_statistics.true, file_statistics.corrected]), TEXT, st.integers(-9, 9))
def test_putting_statistics_right_again_changes_nothing(make, text, number):
    for kind, value in (("string", text), ("long", number), ("decimal(9,2)", number)):
        once = make(entry(value, value), schema(kind), {})
        again = file_statistics.corrected(once, schema(kind))
        assert file_statistics.corrected(again, schema(kind)) == again


KINDS = ("append", "add", "merge", "mark", "compact")


@pytest.mark.parametrize("kind", KINDS)
def test_texts_with_line_separators_pass_through_every_kind_of_commit(tmp_path, kind):
    lake = _filled(tmp_path, [f"a{char}b" for char in SEPARATORS], kind)
    assert lake.values("v") == {f"a{char}b" for char in SEPARATORS}
    assert TableState.read(lake.path).version == lake.table.version()


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["吉野家", "😀 smile", "𠮷野家", "𩸽", "\U0003ffff", "\U0010ffff"])
def test_a_character_of_any_plane_is_found_by_a_filter(tmp_path, text, kind, checkpoint):
    lake = _filled(tmp_path, [text], kind)
    if checkpoint:
        DeltaTable(lake.path).create_checkpoint()
    assert lake.count(f"v = '{text}'") == 1


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.decimal128(20, 0), ["9007199254740993", "18446744073709551615", "0"]),
        (pa.decimal128(18, 2), ["9999999999999999.99", "-9999999999999999.99"]),
        (pa.decimal128(38, 0), ["9" * 38, "-" + "9" * 38]),
        (pa.decimal128(38, 30), ["0.100000000000000000000000000001", "12345678.9"]),
        (pa.decimal128(10, 2), ["0.10", "33.33", "-0.07"]),
    ],
)
def test_decimals_are_found_by_a_filter(tmp_path, type_, values, kind, checkpoint):
    exact = [Decimal(one) for one in values]
    lake = _filled(tmp_path, exact, kind, type_)
    if checkpoint:
        DeltaTable(lake.path).create_checkpoint()
    for one in exact:
        sought = f"arrow_cast('{one}', 'Decimal128({type_.precision}, {type_.scale})')"
        assert lake.count(f"v = {sought}") == 1
        assert lake.count(f"v >= {sought}") == sum(other >= one for other in exact)


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_text_never_stands_in_the_log(tmp_path, kind):
    lake = _filled(tmp_path, ["x" * 8_000_000, "\U0010ffff" * 99], kind)
    assert len(lake.log()) < 20_000
    assert b"x" * (file_statistics.TEXT + 1) not in lake.log()


def test_new_bounds_are_exact_and_marks_keep_them(tmp_path):
    lake = _filled(tmp_path, [Decimal(2**64 - 1)], "add", pa.decimal128(20, 0))
    assert (2**64 - 1, 2**64 - 1) in lake.bounds("v")
    lake.mark({"id": [0], "v": [Decimal(1)]})
    assert (2**64 - 1, 2**64 - 1) in lake.bounds("v")


@pytest.mark.parametrize("torn", [b"", b"\n", b'{"add": {"path"', b'{"txn": {}}\n{"add"'])
def test_a_torn_commit_is_not_a_version_without_actions(tmp_path, torn):
    lake = _filled(tmp_path, ["a"], "append")
    (lake.path / delta_log.commit_name(lake.table.version() + 1)).write_bytes(torn)
    with pytest.raises(delta_log.TornCommitError):
        lake.table.version()
    with pytest.raises(delta_log.TornCommitError):
        TableState.read(lake.path)


def test_a_key_whose_name_is_another_column_s_name_in_the_files_is_found(tmp_path):
    """As after id → legacy and legacy → id: names are swapped, files keep theirs."""
    lake = DirectLake(tmp_path, {"id": pa.int64(), "legacy": pa.int64()})
    lake.append({"id": [1, 2], "legacy": [1001, 1002]})
    state = lake.table.state
    held = json.loads(state.metadata["schemaString"])
    swap = {"id": "legacy", "legacy": "id"}
    for field in held["fields"]:
        field["metadata"] = {"delta.columnMapping.physicalName": field["name"]}
        field["name"] = swap.get(field["name"], field["name"])
    metadata = {**state.metadata, "schemaString": json.dumps(held)}
    assert delta_log.write(lake.path, lake.table.version() + 1, [{"metaData": metadata}])
    lake.table.version()
    update = lake.rows({"id": [1002], "legacy": [77]}, "u")
    assert len(lake.table.state.reached_by(update, ["id"])) == 1
    other = lake.rows({"id": [2], "legacy": [77]}, "u")
    assert lake.table.state.reached_by(other, ["id"]) == []


def _ascii(table, version, actions):
    text = "".join(json.dumps(action) + "\n" for action in actions)
    return of(table).create(delta_log.commit_name(version), text)


def _untouched(add, *_):
    return add


MUTANTS = [
    Mutant(
        "lines end where Unicode has them end",
        delta_log,
        "lines",
        lambda _: lambda text, _: list(map(json.loads, text.decode().splitlines())),
        lambda path: test_texts_with_line_separators_pass_through_every_kind_of_commit(path, "add"),
    ),
    Mutant(
        "an empty commit is one without actions",
        delta_log,
        "lines",
        lambda _: lambda text, _: [json.loads(one) for one in text.splitlines()],
        lambda path: test_a_torn_commit_is_not_a_version_without_actions(path, b""),
    ),
    Mutant(
        "commits are written in ASCII",
        delta_log,
        "write",
        lambda _: _ascii,
        lambda path: test_a_character_of_any_plane_is_found_by_a_filter(
            path, "𠮷野家", "add", True
        ),
    ),
    Mutant(
        "decimals stay as delta-rs writes them",
        file_statistics,
        "true",
        lambda _: _untouched,
        lambda path: test_decimals_are_found_by_a_filter(
            path, pa.decimal128(20, 0), [str(2**64 - 1)], "add", False
        ),
    ),
    Mutant(
        "texts stay whole",
        file_statistics,
        "true",
        lambda _: _untouched,
        lambda path: test_a_long_text_never_stands_in_the_log(path, "add"),
    ),
    Mutant(
        "files are passed over by the column's name",
        TableState,
        "physical",
        lambda _: lambda self, column: column,
        test_a_key_whose_name_is_another_column_s_name_in_the_files_is_found,
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_each_mutant_is_killed_by_the_test_that_names_it(tmp_path, mutant):
    mutant.killed_by(tmp_path / "as it is")
    with mutant.in_place(), pytest.raises((AssertionError, ValueError, pytest.fail.Exception)):
        mutant.killed_by(tmp_path / "mutant")


def _filled(root, values, kind, type_=None):
    """Two files of other values and one of these, the last commit of this kind; ``id``: their places."""
    lake = DirectLake(root, {"id": pa.int64(), "v": type_ or pa.string()})
    rows = {"id": [*range(len(values))], "v": values}
    empty = {"id": rows["id"], "v": [None] * len(values)}
    if kind in {"append", "add", "compact"}:
        (lake.append if kind == "append" else lake.add)(rows)
    if kind == "compact":
        lake.append({"id": [-1], "v": [None]})
        lake.compact()
    if kind in {"merge", "mark"}:
        lake.append(empty)
        getattr(lake, kind)(rows)
    return lake
