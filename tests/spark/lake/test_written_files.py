"""`written_files`: what footers say of new files is what Delta says of their rows, or wider, and never narrower."""

import json
from contextlib import contextmanager
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from ingest.changes.arrow_frames import frame_of
from ingest.lake.delta import file_statistics, written_files
from ingest.lake.delta.commit import sibling
from ingest.lake.delta.delta_snapshot import TableState
from ingest.lake.delta.spark_transaction import SparkTransaction

D = Decimal
LAST = "\U0010ffff"
COLLECT = "spark.databricks.delta.stats.collect"

VALUES = {
    "tiny": ("TINYINT", pa.int8(), [-128, 127]),
    "small": ("SMALLINT", pa.int16(), [-(2**15), 2**15 - 1]),
    "number": ("INT", pa.int32(), [-(2**31), 2**31 - 1]),
    "big": ("BIGINT", pa.int64(), [-(2**63), 2**63 - 1]),
    "of_9": ("DECIMAL(9,2)", pa.decimal128(9, 2), [D("-9999999.99"), D("0.07")]),
    "of_18": ("DECIMAL(18,2)", pa.decimal128(18, 2), [D("9999999999999999.99"), D("-9999999999999999.99")]),
    "of_20": ("DECIMAL(20,0)", pa.decimal128(20, 0), [D(2**53 + 1), D(2**64 - 1)]),
    "of_38": ("DECIMAL(38,0)", pa.decimal128(38, 0), [D("9" * 38), D("-" + "9" * 38)]),
    "exact": ("DECIMAL(38,10)", pa.decimal128(38, 10), [D("9999999999999999999999999999.9999999999"), D("-0.0000000001")]),
    "real": ("FLOAT", pa.float32(), [pa.scalar(0.1, pa.float32()).as_py(), -3.4028234663852886e38]),
    "double": ("DOUBLE", pa.float64(), [5e-324, -1.7976931348623157e308]),
    "zero": ("DOUBLE", pa.float64(), [0.0]),
    "minus_zero": ("DOUBLE", pa.float64(), [-0.0, None, 0.0]),
    "flag": ("BOOLEAN", pa.bool_(), [True, False, None]),
    "bytes": ("BINARY", pa.binary(), [b"\xff" * 90, b"", b"\x00"]),
    "day": ("DATE", pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    "wall": ("TIMESTAMP_NTZ", pa.timestamp("us"), [datetime(1, 1, 1, 0, 0, 0, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)]),  # noqa: DTZ001
    "instant": ("TIMESTAMP", pa.timestamp("us", "UTC"), [datetime(1969, 12, 31, 23, 59, 59, 999999, timezone.utc), datetime(2026, 1, 1, 0, 0, 0, 123456, timezone.utc)]),
    "empty": ("STRING", pa.string(), [""]),
    "none": ("STRING", pa.string(), []),
    "no_number": ("INT", pa.int32(), []),
    "text": ("STRING", pa.string(), ["", "b", "a\x00", "\x7f" * 40]),
    "above": ("STRING", pa.string(), ["\uffff", LAST, "\ue000", "\U00010000"]),
    "basic": ("STRING", pa.string(), ["\ud7ff" * 32 + "x", "é" * 33, "茶" * 40]),
    "smiles": ("STRING", pa.string(), ["😀" * 40, "😀" * 16 + "a"]),
    "tied": ("STRING", pa.string(), ["x" * 32 + LAST * 9, "x" * 32]),
    "lasting": ("STRING", pa.string(), [LAST * 40, LAST * 33 + "z"]),
    "long": ("STRING", pa.string(), ["y" * 2000 + LAST, "y" * 2000]),
}  # fmt: skip
"""Of which a footer says bounds. Together less than 4 KB, least and greatest."""

UNTOLD = {
    "a text of 5,000 bytes": ("STRING", "repeat('z', n * 1000)"),
    "a text of 5,000 bytes in a file that has no other": ("STRING", f"repeat('{LAST}', 1250)"),
    "bytes": ("BINARY", "repeat(X'FF', n * 1000)"),
    "no number": ("DOUBLE", "IF(n = 2, double('NaN'), n)"),
    "no number at first": ("DOUBLE", "IF(n = 1, double('NaN'), -n)"),
    "no number in the end": ("FLOAT", "IF(n = 5, float('NaN'), -n)"),
    "no number but those": ("FLOAT", "float('NaN')"),
    "infinite": ("DOUBLE", "IF(n = 2, double('-Infinity'), n)"),
    "a year before the first": ("DATE", "date_add('0001-01-01', -n * 400)"),
    "a year of five digits": ("TIMESTAMP_NTZ", "timestamp_ntz'9999-12-31' + make_dt_interval(n)"),
    "a list": ("ARRAY<INT>", "IF(n = 2, NULL, array(n, NULL))"),
}


@pytest.fixture(scope="module")
def session(spark):
    return sibling(spark)


def table_of(session, path, columns, more=""):
    kinds = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    nested = "nested STRUCT<inner: STRUCT<n: INT, s: STRING>>"
    session.sql(f"CREATE TABLE delta.`{path}` (id INT, {kinds}, {nested}) USING delta {more}")
    return str(path)


NESTED = "named_struct('inner', IF(id = 1, NULL, named_struct('n', id, 's', 'of ' || id)))"


def both(session, path, rows):
    """Entries of the same rows' file: by Delta's own look at them, and ours; and what ours was made by."""
    rows = rows.selectExpr("*", f"IF(id = 2, NULL, {NESTED}) AS nested").coalesce(1)
    held = TableState.read(Path(path))
    begun = SparkTransaction(session, path)
    (deltas,) = written_files._written(begun, rows)
    (ours,) = written_files.write(session, path, begun, rows, held, 1)
    return json.loads(deltas["add"]["stats"]), ours["add"], held


def order(kind, value):
    if kind.startswith("timestamp"):
        return f"{value.removesuffix('Z').replace(' ', 'T'):0<26}"
    return float(value) if kind in {"float", "double"} else value


def held_by(kind, value):
    """A value as the log has it."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds")
    return value.isoformat() if isinstance(value, date) else value


@pytest.mark.parametrize("mapped", [False, True])
def test_bounds_of_footers_are_those_of_the_rows_or_wider(session, tmp_path, mapped):
    more = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')" if mapped else ""
    kinds = {name: kind for name, (kind, _, _) in VALUES.items()}
    path = table_of(session, tmp_path / "t", kinds, more)
    columns = {"id": pa.array(range(5), pa.int32())}
    for name, (_, kind, values) in VALUES.items():
        columns[name] = pa.array((values + [None] * 5)[:5], kind)
    deltas, add, held = both(session, path, frame_of(pa.table(columns), session))
    assert not held.looks_at_rows
    ours = file_statistics.read(add["stats"])
    assert ours["numRecords"] == deltas["numRecords"] == 5
    assert ours["nullCount"] == deltas["nullCount"]
    assert not file_statistics.misread(add, held.columns)
    for name, (_, _, values) in VALUES.items():
        physical = held.physical(name)
        kind, given = held.columns[physical], [one for one in values if one is not None]
        low, high = (ours[which].get(physical) for which in ("minValues", "maxValues"))
        if not given or kind == "binary":
            assert (low, high) == (None, None), name
            continue
        true = [order(kind, held_by(kind, one)) for one in given]
        assert order(kind, low) <= min(true), name
        assert order(kind, high) >= max(true), name
        if kind not in {"string", "boolean"} and not kind.startswith("timestamp"):
            assert (order(kind, low), order(kind, high)) == (min(true), max(true)), name
        elif kind == "string":
            assert low == min(given)[:32]
            assert len(high) <= 32 or high == LAST * len(high), name
            if len(max(given)) <= 32:
                assert high == max(given)


def test_a_struct_s_columns_have_bounds_and_are_without_value_where_it_is(session, tmp_path):
    path = table_of(session, tmp_path / "t", {"v": "INT"})
    deltas, add, _ = both(session, path, session.sql("SELECT int(id), 7 AS v FROM range(5)"))
    ours = json.loads(add["stats"])
    assert ours == deltas
    assert ours["nullCount"]["nested"] == {"inner": {"n": 2, "s": 2}}


@pytest.mark.parametrize("what", UNTOLD)
def test_where_a_footer_does_not_say_all_delta_looks_at_the_rows(session, tmp_path, what):
    kind, value = UNTOLD[what]
    path = table_of(session, tmp_path / "t", {"v": kind})
    typed = f"CAST({value} AS {kind}) AS v"
    rows = session.sql(f"SELECT n AS id, {typed} FROM (SELECT int(id) n FROM range(1, 6))")
    deltas, add, held = both(session, path, rows)
    said = written_files.readable({"add": {"stats": json.dumps(deltas)}}, held.columns)
    assert json.loads(add["stats"]) == json.loads(said["add"]["stats"])
    assert held.looks_at_rows or what == "a list"
    files = []
    real = written_files._written
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            written_files, "_written", lambda *given: files.extend(found := real(*given)) or found
        )
        begun = SparkTransaction(session, path)
        again = rows.selectExpr("*", f"{NESTED} AS nested").coalesce(1)
        written_files.write(session, path, begun, again, held, 1)
    assert all("stats" in one["add"] for one in files), "from then on at once"


def test_only_columns_that_a_log_is_to_speak_of_are_in_it(session, tmp_path):
    more = "TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '2')"
    path = table_of(session, tmp_path / "t", {"v": "STRING", "w": "STRING"}, more)
    sql = "SELECT int(id), 'v' AS v, repeat('w', 5000) AS w FROM range(5)"
    deltas, add, held = both(session, path, session.sql(sql))
    assert json.loads(add["stats"]) == deltas
    assert not held.looks_at_rows, "of a column that is not spoken of it need not say anything"


@pytest.mark.parametrize("length", [0, 64])
def test_a_table_that_wants_its_texts_cut_elsewhere_has_them_so(session, tmp_path, length):
    more = f"TBLPROPERTIES ('delta.dataSkippingStringPrefixLength' = '{length}')"
    path = table_of(session, tmp_path / "t", {"v": "STRING"}, more)
    sql = "SELECT int(id), repeat('v', 50) AS v FROM range(5)"
    _, add, _ = both(session, path, session.sql(sql))
    assert json.loads(add["stats"])["minValues"].get("v") == ("v" * 50 if length else None)


def test_days_of_before_1582_have_true_bounds_though_the_file_numbers_them_as_julian(
    session, tmp_path
):
    mode = "spark.sql.parquet.datetimeRebaseModeInWrite"
    path = table_of(session, tmp_path / "t", {"v": "DATE"})
    sql = "SELECT int(id), date_add('1500-01-01', int(id)) AS v FROM range(5)"
    session.conf.set(mode, "LEGACY")
    try:
        _, add, _ = both(session, path, session.sql(sql))
    finally:
        session.conf.unset(mode)
    assert json.loads(add["stats"])["minValues"]["v"] == "1500-01-01"


def test_a_table_with_deletion_vectors_is_told_that_bounds_are_tight(session, tmp_path):
    more = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    path = table_of(session, tmp_path / "t", {"v": "INT"}, more)
    deltas, add, _ = both(session, path, session.sql("SELECT int(id), 7 AS v FROM range(5)"))
    assert json.loads(add["stats"]) == deltas
    assert deltas["tightBounds"] is True


def test_columns_whose_names_a_footer_does_not_tell_apart_are_looked_at(session, tmp_path):
    path = table_of(session, tmp_path / "t", {"`nested.inner.n`": "INT"})
    rows = session.sql("SELECT int(id), 99 AS `nested.inner.n` FROM range(5)")
    deltas, add, _ = both(session, path, rows)
    assert json.loads(add["stats"]) == deltas


def test_a_file_without_rows_is_none_of_the_table_s(session, tmp_path):
    path = table_of(session, tmp_path / "t", {"v": "INT"})
    held, begun = TableState.read(Path(path)), SparkTransaction(session, path)
    none = session.sql(f"SELECT int(id), 7 AS v, {NESTED} AS nested FROM range(5) WHERE rand() > 2")
    assert written_files.write(session, path, begun, none.coalesce(1), held, 1) == []


@contextmanager
def collecting(session, value):
    session.conf.set(COLLECT, value)
    yield
    session.conf.unset(COLLECT)


def test_delta_looks_at_rows_again_once_files_are_written_or_failed_to_be(session, tmp_path):
    path = table_of(session, tmp_path / "t", {"v": "INT"})
    held = TableState.read(Path(path))
    before = session.conf.get(COLLECT)
    stamps = session.conf.get("spark.sql.parquet.outputTimestampType")
    sql = f"SELECT int(id), int(1 / (id - 3)) AS v, {NESTED} AS nested FROM range(5)"
    begun = SparkTransaction(session, path)
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        written_files.write(session, path, begun, session.sql(sql).coalesce(1), held, 1)
    assert session.conf.get(COLLECT) == before == "true"
    assert session.conf.get("spark.sql.parquet.outputTimestampType") == stamps
    with collecting(session, "true"), written_files._set(session, {COLLECT: "false"}):
        assert session.conf.get(COLLECT) == "false"
    assert session.conf.get(COLLECT) == "true"
