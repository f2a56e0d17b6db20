"""`footer_statistics`: over several row groups, and where a footer does not say what a log is to say."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.lake.delta import file_statistics, footer_statistics, parquet_footers

ADD = {"path": "f.parquet", "size": 1}
NUMBERS = pa.table({"v": pa.array([5, None, -7, None, None, 9], pa.int64())})


def schema_of(**kinds):
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in kinds.items()
    ]
    return {"type": "struct", "fields": fields}


def asked(**kinds):
    """Columns of a table, and of which of them Delta keeps bounds."""
    schema = schema_of(**kinds)
    bounded = schema_of(**{n: k for n, k in kinds.items() if k not in ("boolean", "binary")})
    counted = schema_of(**{n: k if "fields" in k else "long" for n, k in kinds.items()})
    of = schema_of(numRecords="long", minValues=bounded, maxValues=bounded, nullCount=counted)
    known = file_statistics.columns(json.dumps(schema))
    return footer_statistics.wanted(json.dumps(of), known), known


def told(table, kinds, **how):
    file = io.BytesIO()
    pq.write_table(table, file, **how)
    wanted, known = asked(**kinds)
    found = footer_statistics.told(ADD, pq.read_metadata(file), wanted, known)
    return None if found is None else json.loads(found["stats"])


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_bounds_hold_for_all_row_groups_and_those_without_a_value_have_none(size):
    assert told(NUMBERS, {"v": "long"}, row_group_size=size) == {
        "numRecords": 6,
        "nullCount": {"v": 3},
        "minValues": {"v": -7},
        "maxValues": {"v": 9},
    }


def test_nothing_is_told_where_a_footer_has_no_statistics():
    assert told(NUMBERS, {"v": "long"}, write_statistics=False) is None


def test_nothing_is_told_of_a_column_that_the_file_does_not_have():
    assert told(NUMBERS, {"v": "long", "w": "long"}) is None


@pytest.mark.parametrize("unit", ["ms", "ns"])
def test_nothing_is_told_of_moments_that_are_not_in_microseconds(unit):
    table = pa.table({"v": pa.array([0, 1000], pa.timestamp(unit, "UTC"))})
    assert told(table, {"v": "timestamp"}, version="2.6") is None
    assert told(table, {"v": "timestamp"}, coerce_timestamps="us") is not None


def test_nothing_is_told_of_a_list_though_it_has_as_many_values_as_there_are_rows():
    assert asked(v={"type": "array", "elementType": "long", "containsNull": True})[0] is None


@pytest.mark.parametrize("kind", ["string collate UTF8_LCASE", "variant", "void"])
def test_types_of_another_order_are_not_told_of(kind):
    assert asked(v=kind)[0] is None


def test_names_that_a_footer_does_not_tell_apart_are_not_told_of():
    assert asked(**{"a.b": "long", "a": schema_of(b="long")})[0] is None
    assert asked(**{"a.b": "long", "a": schema_of(c="long")})[0] is not None


class Chunk:
    """A column's part of a row group as Spark's writer leaves it: to it NaN is the greatest number. pyarrow leaves it out."""

    num_values = 2

    def __init__(self, low, high):
        self.statistics = self
        self.null_count, self.has_null_count, self.has_min_max = 0, True, True
        self.min_raw, self.max_raw = low, high


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_nothing_is_told_where_any_row_group_has_a_nan(kind, at):
    groups = [Chunk(1.0, 5.0), Chunk(2.0, 3.0)]
    assert footer_statistics._pair(kind, groups) == (1.0, 5.0)
    groups.insert(at, Chunk(2.0, float("nan")))
    assert footer_statistics._pair(kind, groups) is None


def test_nothing_is_told_of_a_file_whose_days_are_numbered_as_julian_ones():
    table = pa.table({"v": pa.array([-200_000], pa.date32())})
    assert told(table, {"v": "date"}) is not None
    shifted = table.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    assert told(shifted, {"v": "date"}) is None


@pytest.mark.parametrize("bad", [float("inf"), float("-inf")])
def test_nothing_is_told_of_numbers_that_json_does_not_have(bad):
    assert told(pa.table({"v": [1.0, bad]}), {"v": "double"}) is None
    assert told(pa.table({"v": [1.0, 2.0]}), {"v": "double"}) is not None


@pytest.mark.parametrize("columns", [1, 2_000])
def test_what_rows_take_is_read_of_a_file_s_end_however_long_its_footer_is(tmp_path, columns):
    file, asked = tmp_path / "f.parquet", []
    pq.write_table(pa.table({f"c{n}": list(range(500)) for n in range(columns)}), file)

    def part(start, end):
        asked.append(end - start)
        return file.read_bytes()[start:end]

    size, said = file.stat().st_size, pq.read_metadata(file)
    expected = sum(said.row_group(n).total_byte_size for n in range(said.num_row_groups))
    assert parquet_footers.unpacked("f", size, part) == expected
    assert len(asked) == (1 if columns == 1 else 2)
    assert sum(asked) < size / 2 or columns == 1


@pytest.mark.parametrize("text", [b"", b"PAR1", b"PAR1" * 9, b"\xff\xff\xff\xffPAR1", b"x" * 99])
def test_a_file_that_is_no_parquet_file_has_no_footer(text):
    with pytest.raises(OSError, match="f is no Parquet file"):
        parquet_footers.unpacked("f", len(text), lambda start, end: text[start:end])
