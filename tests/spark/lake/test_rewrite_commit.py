"""`rewrite_commit`: what Spark writes anew by itself is what Delta's own MERGE makes of the same rows."""

import json
from contextlib import contextmanager

import pytest
from chispa import assert_df_equality
from delta.exceptions import ConcurrentTransactionException
from deltalake import DeltaTable
from pyspark.sql import functions as F

from ingest.changes import rewritten_rows
from ingest.changes.kept_frames import free
from ingest.lake.delta import file_statistics, rewrite_commit, written_files
from ingest.lake.delta.commit import Committer, sibling
from ingest.lake.delta.delta_snapshot import LiveFile
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.engines.spark_engine import spark_append, spark_merge
from ingest.model.names import Marker, quoted
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema.catalog import SchemaVersion
from ingest.schema.evolution import Field, InPlace
from ingest.targets.mirror import Mirror
from ingest.targets.soft_deletes import SoftDeletes
from tests.support.keyed_table import APP, EVERY_TYPE, KEYS, by_delta_rs, column, direct_of, rows

HOSTILE = tuple(
    (column(name, "VARCHAR", 9), f"'{name} ' || n")
    for name in ("s", "t", "m", "number", "file", "file_path", "_metadata", "op", "true")
)
"""Columns that bear the names which the statement itself uses."""

PLAIN = ((column("id"), "n"), (column("v", "VARCHAR", 9), "'v' || n"), *HOSTILE)
ODD = ((column("a.b `c`"), "n"), *EVERY_TYPE, (column("number  x"), "n"))


def version_of(columns, key):
    kinds = tuple(one for one, _ in columns)
    return SchemaVersion(TableId("d", "t"), Position(0, 1, 9), "CREATE", kinds, (key,), "")


def filled(spark, path, columns, target):
    """A table of the numbers 1 to 39 in four files by number."""
    table = SparkTable(spark, str(path))
    key = columns[0][0].name
    table.create(version_of(columns, key), (key,), target)
    for start in range(0, 40, 10):
        of_file = rows(spark, columns, f"n >= {start} AND n < {start + 10}", 50, "'c'")
        table.append(of_file.coalesce(1))
    return table


def source_of(spark, columns):
    """Changes to rows, deletes, new rows, rows that are not there to be deleted, and what is older than its row."""
    changed = [(one, text.replace("'v'", "'w'")) for one, text in columns]
    return (
        rows(spark, changed, "n IN (2, 3, 4, 35)", 60, "'u'")
        .union(rows(spark, columns, "n IN (5, 36)", 61, "'d'"))
        .union(rows(spark, changed, "n IN (41, 42)", 62, "'c'"))
        .union(rows(spark, columns, "n = 50", 63, "'d'"))
        .union(rows(spark, changed, "n IN (6, 15)", 40, "'u'"))
        .union(rows(spark, columns, "n = 16", 41, "'d'"))
    )


@contextmanager
def identified(table, batch=1):
    with table.identified(APP, Marker(1, batch, 0).version, "a note"):
        yield


def rewritten(table, source, target, columns, direct=None):
    """The MERGE, of a table that is known by its log; whether it was made."""
    direct = direct or direct_of(table)
    direct.version()
    files = list(direct.state.files.values())
    assert rewrite_commit.fits(direct, files)
    names = [one.name for one, _ in columns]
    plan = target.plan(names, (names[0],), quoted)
    with identified(table):
        return rewrite_commit.merge(table, source, plan, names[:1], direct.state, files)


def in_session(spark):
    """Own: the identity of a commit stands in a session's configuration."""
    return sibling(spark)


TABLES = {
    "mirror": (Mirror(), PLAIN),
    "soft deletes": (SoftDeletes(), PLAIN),
    "every type": (Mirror(), ODD),
    **{f"by {one[0].type_name}": (Mirror(), (one, PLAIN[1])) for one in KEYS},
    "by DOUBLE": (Mirror(), ((column("id", "DOUBLE"), "IF(n = 2, -0.0D, n / 8)"), PLAIN[1])),
}


@pytest.mark.parametrize(
    ("target", "columns"),
    [
        pytest.param(
            *of, id=name, marks=[pytest.mark.long] * (name not in ("mirror", "every type"))
        )
        for name, of in TABLES.items()
    ],
)
def test_a_table_holds_what_deltas_own_merge_makes_of_it(spark, tmp_path, target, columns):
    session = in_session(spark)
    ours = filled(session, tmp_path / "ours", columns, target)
    deltas = filled(session, tmp_path / "deltas", columns, target)
    source = source_of(session, columns)
    assert rewritten(ours, source, target, columns)
    names = [one.name for one, _ in columns]
    spark_merge(deltas, source, target.plan(names, (names[0],), quoted))
    found, expected = (one.frame().toDF(*map(str, range(len(names) + 1))) for one in (ours, deltas))
    assert_df_equality(found, expected, ignore_row_order=True, ignore_nullable=True)
    assert ours.describe().columns == deltas.describe().columns


@pytest.fixture
def plain(spark, tmp_path):
    """A table of four files by number, in a session of its own."""
    return filled(in_session(spark), tmp_path / "t", PLAIN, Mirror())


def made_by(table):
    """The newest commit's operation, and its numbers of rows and files."""
    newest = DeltaTable(table.path).history(1)[0]
    numbers = {name: int(count) for name, count in newest["operationMetrics"].items()}
    return newest["operation"], numbers


def ranges(table):
    """Of each file: least and greatest number."""
    return sorted(file.range("id") for file in direct_of(table).state.files.values())


def test_files_of_other_keys_stay_and_those_that_change_keep_their_rows_and_their_order(plain):
    before = {one.path for one in direct_of(plain).state.files.values()}
    assert rewritten(plain, source_of(plain.session, PLAIN), Mirror(), PLAIN)
    after = direct_of(plain).state.files
    assert len(before & set(after)) == 2, "one has no key of the source, one only newer rows"
    frame, held = plain.frame(), dict[str, list[int]]()
    file = frame.metadataColumn("_metadata")["file_path"]
    for row in frame.select(file.alias("of"), "id").collect():
        held.setdefault(row.of, []).append(row.id)
    assert sorted(map(tuple, held.values())) == [
        (1, 2, 3, 4, 6, 7, 8, 9),
        tuple(range(10, 20)),
        tuple(range(20, 30)),
        (*(n for n in range(30, 40) if n != 36), 41, 42),
    ]


def test_a_file_that_loses_all_its_rows_has_no_successor(plain):
    gone = rows(plain.session, PLAIN, "n >= 10 AND n < 20", 60, "'d'")
    assert rewritten(plain, gone, Mirror(), PLAIN)
    assert ranges(plain) == [(1, 9), (20, 29), (30, 39)]
    numbers = made_by(plain)[1]
    assert (numbers["numTargetFilesRemoved"], numbers["numTargetFilesAdded"]) == (1, 0)
    assert numbers["numTargetRowsDeleted"] == numbers["numSourceRows"] == 10


def test_delta_looks_at_no_row_for_what_a_log_says_of_new_files(plain, monkeypatch):
    given, real = [], written_files._written
    monkeypatch.setattr(
        written_files, "_written", lambda *of: given.extend(found := real(*of)) or found
    )
    direct = direct_of(plain)
    assert rewritten(plain, source_of(plain.session, PLAIN), Mirror(), PLAIN, direct)
    assert not any("stats" in one["add"] for one in given)
    assert not direct.state.looks_at_rows
    assert ranges(plain) == [(1, 9), (10, 19), (20, 29), (30, 42)]


def test_history_says_how_many_rows_and_files_it_was(plain):
    assert rewritten(plain, source_of(plain.session, PLAIN), Mirror(), PLAIN)
    operation, numbers = made_by(plain)
    assert operation == "MERGE"
    expected = {
        "numSourceRows": 12,
        "numTargetRowsInserted": 2,
        "numTargetRowsUpdated": 4,
        "numTargetRowsDeleted": 2,
        "numTargetRowsCopied": 13,
        "numTargetFilesAdded": 2,
        "numTargetFilesRemoved": 2,
    }
    assert {name: numbers[name] for name in expected} == expected


def test_a_commit_that_changes_nothing_leaves_its_marker(plain):
    older = rows(plain.session, PLAIN, "n = 7", 40, "'u'")
    files = set(direct_of(plain).state.files)
    assert rewritten(plain, older, Mirror(), PLAIN)
    assert set(direct_of(plain).state.files) == files
    assert plain.committed(APP) == Marker(1, 1, 0).version


def test_a_source_row_has_its_number_in_whatever_order_a_task_has_its_rows(spark):
    rows = [(key, other) for key in range(20) for other in "ab"]

    def numbers(of):
        source = spark.createDataFrame(of, "k int, other string").coalesce(1)
        numbered = rewritten_rows.numbered(source, ["k", "other"])
        try:
            return {tuple(row)[:2]: tuple(row)[2] for row in numbered.collect()}
        finally:
            free(numbered)

    assert numbers(rows) == numbers(rows[::-1])
    assert len({*numbers(rows).values()}) == len(rows)


def test_spark_keeps_nothing_of_a_merge_that_is_over(plain):
    kept = plain.session.sparkContext._jsc.getPersistentRDDs
    before = len(kept())
    names = [one.name for one, _ in PLAIN]
    plan = Mirror().plan(names, ("id",), quoted)
    with identified(plain):
        spark_merge(plain, rows(plain.session, PLAIN, "n = 7", 60, "'u'"), plan)
    assert len(kept()) == before


def test_rows_that_are_marked_as_deleted_stay_away(spark, tmp_path):
    columns = PLAIN[:2]  # Delta's own DELETE takes no column called _metadata
    table = filled(in_session(spark), tmp_path / "t", columns, Mirror())
    table.session.conf.set("spark.databricks.delta.delete.deletionVectors.persistent", "true")
    properties = "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    table.session.sql(f"ALTER TABLE delta.`{table.path}` {properties}")
    table.delta().delete("id IN (1, 8, 25)")
    direct = direct_of(table)
    direct.version()
    assert sum("deletionVector" in one.add for one in direct.state.files.values()) == 2
    again = rows(table.session, columns, "n IN (8, 9)", 60, "'c'")
    assert rewritten(table, again, Mirror(), columns, direct)
    assert made_by(table)[1]["numTargetRowsCopied"] == 6
    held = {row.id for row in table.frame().collect()}
    assert held == {*range(2, 40)} - {25}
    assert {row["id"] for row in by_delta_rs(table, "SELECT id FROM t")} == held


def test_a_column_that_was_widened_is_written_in_its_new_type(plain):
    held = plain.describe()
    wider = [Field(n, "bigint" if n == "id" else t, n, n) for n, t in held.columns.items()]
    with identified(plain):
        plain.change_columns(InPlace(tuple(wider), mapped=False, widened=True), held)
    columns = ((column("id", "BIGINT"), "n"), *PLAIN[1:])
    assert "typeWidening" in str(direct_of(plain).features())
    more = rows(plain.session, columns, "n IN (2, 41)", 60, "'u'")
    direct = direct_of(plain)
    files = list(direct.state.files.values())
    plan = Mirror().plan([one.name for one, _ in columns], ("id",), quoted)
    with identified(plain, 2):
        assert rewrite_commit.merge(plain, more, plan, ["id"], direct.state, files)
    assert plain.frame().filter("_ingest.position.pos = 60").count() == 2
    assert {row.id for row in plain.frame().collect()} == {*range(1, 40), 41}


def test_bounds_that_a_reader_would_take_wrongly_are_right_in_the_same_commit(spark, tmp_path):
    columns = ((column("id"), "n"), (column("v", "DOUBLE"), "IF(n = 1, 0.0D, n / 8)"))
    table = filled(in_session(spark), tmp_path / "t", columns, Mirror())
    version = direct_of(table).version()
    assert rewritten(table, rows(table.session, columns, "n IN (1, 2)", 60), Mirror(), columns)
    direct = direct_of(table)
    assert direct.version() == version + 1
    known = direct.state.columns
    (changed,) = [f for f in direct.state.files.values() if f.range("id") == (1, 9)]
    assert not file_statistics.misread(changed.add, known)
    assert str(changed.range("v")[0]) == "-0.0"


def test_a_successor_s_fence_that_comes_meanwhile_is_a_conflict(plain, monkeypatch):
    session = plain.session
    fencing = SparkTable(in_session(session), plain.path)
    real = rewrite_commit.rewritten_rows.added

    def fence_first(*given):
        Committer(2).fence(fencing, APP)
        return real(*given)

    with identified(plain):
        plain.append(rows(session, PLAIN, "n = 50", 60))  # so that there is an older term's marker
    monkeypatch.setattr(rewrite_commit.rewritten_rows, "added", fence_first)
    direct = direct_of(plain)
    files = list(direct.state.files.values())
    plan = Mirror().plan([one.name for one, _ in PLAIN], ("id",), quoted)
    with identified(plain, 2), pytest.raises(ConcurrentTransactionException):
        rewrite_commit.merge(plain, source_of(session, PLAIN), plan, ["id"], direct.state, files)
    assert plain.committed(APP) == Marker(2, 1, 0).version
    assert plain.frame().filter("_ingest.position.pos > 60").isEmpty()


def test_a_commit_that_is_there_is_not_made_again(plain):
    assert rewritten(plain, source_of(plain.session, PLAIN), Mirror(), PLAIN)
    version = plain.version()
    assert rewritten(plain, source_of(plain.session, PLAIN), Mirror(), PLAIN)
    assert plain.version() == version


@pytest.mark.parametrize("what", ["append", "optimize"])
def test_what_others_do_meanwhile_is_left_to_deltas_own_merge(plain, monkeypatch, what):
    other, real = SparkTable(in_session(plain.session), plain.path), rewrite_commit._tell

    def others_first(*given):
        if what == "append":
            other.append(rows(other.session, PLAIN, "n = 50", 60))
        else:
            DeltaTable(plain.path).optimize.compact()
        real(*given)

    monkeypatch.setattr(rewrite_commit, "_tell", others_first)
    version = plain.version()
    assert not rewritten(plain, source_of(plain.session, PLAIN), Mirror(), PLAIN)
    assert plain.version() == version + 1, "the other's"
    assert plain.committed(APP) is None


def test_a_file_that_spark_calls_otherwise_than_the_log_is_left_to_deltas_own_merge(
    plain, monkeypatch
):
    real = rewrite_commit.rewritten_rows.matches
    renamed = F.concat(F.col("file"), F.lit("?"))
    monkeypatch.setattr(
        rewrite_commit.rewritten_rows,
        "matches",
        lambda *given: real(*given).withColumn("file", renamed),
    )
    version = plain.version()
    assert not rewritten(plain, source_of(plain.session, PLAIN), Mirror(), PLAIN)
    assert plain.version() == version


def test_a_column_of_somebody_else_s_gets_its_own_default_in_rows_that_are_added(plain):
    feature = "'delta.feature.allowColumnDefaults' = 'supported'"
    for more in (f"SET TBLPROPERTIES ({feature})", "ADD COLUMN extra INT"):
        plain.session.sql(f"ALTER TABLE delta.`{plain.path}` {more}")
    plain.session.sql(f"ALTER TABLE delta.`{plain.path}` ALTER COLUMN extra SET DEFAULT 7")
    plan = Mirror().plan([one.name for one, _ in PLAIN], ("id",), quoted)
    with identified(plain):
        new = rows(plain.session, PLAIN, "n = 50", 60)
        spark_append(plain, new, plan, plain.frame().schema)
    assert [row.extra for row in plain.frame().filter("id = 50").collect()] == [7]


def test_a_table_that_has_moved_on_is_left_to_deltas_own_merge(plain):
    direct = direct_of(plain)
    files = list(direct.state.files.values())
    plain.append(rows(plain.session, PLAIN, "n = 50", 60))
    plan = Mirror().plan([one.name for one, _ in PLAIN], ("id",), quoted)
    version = plain.version()
    with identified(plain):
        given = source_of(plain.session, PLAIN)
        assert not rewrite_commit.merge(plain, given, plan, ["id"], direct.state, files)
    assert plain.version() == version


@pytest.mark.parametrize(
    "more",
    [
        "SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        pytest.param(
            "SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')", marks=pytest.mark.long
        ),
        "ADD CONSTRAINT positive CHECK (id > 0)",
    ],
)
def test_what_deltas_merge_does_more_for_a_table_is_left_to_it(plain, more):
    plain.session.sql(f"ALTER TABLE delta.`{plain.path}` {more}")
    direct = direct_of(plain)
    direct.version()
    assert not rewrite_commit.fits(direct, list(direct.state.files.values()))


def file_of(name, size, top):
    stats = {"minValues": {"id": 0}, "maxValues": {"id": top}} if top is not None else {}
    return LiveFile({"path": name, "size": size, "stats": json.dumps(stats)})


@pytest.mark.parametrize(
    ("files", "taken"),
    [
        ([], None),
        ([("a", 9, 1), ("b", 9, 7), ("c", 9, 3)], "b"),
        ([("a", 9, "x"), ("b", 5, "y"), ("c", 9, "z")], "b"),
        ([("a", 9, 1), ("b", 9, None), ("c", 5, 7)], "c"),
        ([("a", rewrite_commit.FILE, 7), ("b", 9, 1)], "b"),
        ([("a", rewrite_commit.FILE, 7)], None),
    ],
)
def test_new_rows_go_to_the_file_of_the_greatest_keys_or_else_to_the_smallest(files, taken):
    found = rewrite_commit.takes_new([file_of(*one) for one in files], "id")
    assert (found.path if found else None) == taken
