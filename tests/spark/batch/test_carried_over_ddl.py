"""Changes carried over a DDL: the table is the source's on every lane, and rows come in one commit."""

import random
from decimal import Decimal

import pytest
from deltalake import DeltaTable

from ingest.arrow import folded_pieces
from ingest.batch.side_by_side import Failures
from ingest.lake.delta import column_commits
from ingest.lake.engines.dispatch import Merging
from ingest.testing.frames import assert_rows
from ingest.testing.lake import Lake, pipeline_at
from ingest.testing.source import Source
from tests.support.lanes import LANES, each

DEFAULTS = {
    "tiny": ("TINYINT NOT NULL", -128),
    "unsigned": ("INT UNSIGNED NOT NULL", 4294967295),
    "huge": ("BIGINT UNSIGNED", 2**64 - 1),
    "exact": ("DECIMAL(10,2) NOT NULL", Decimal("-1.50")),
    "rough": ("DOUBLE NOT NULL", 0.1),
    "text": ("VARCHAR(40) NOT NULL", 'it\'s "so" {x} %s ; --'),
    "empty": ("VARCHAR(9) NOT NULL", ""),
    "label": ("ENUM('a','b''c')", "b'c"),
}


CARRYING = ["driver", "tasks, rows kept in Spark", "tasks, rows that Spark folds"]
"""One in which rows come to the driver, and both in which they stay in Spark."""


@pytest.fixture
def opened(spark, tmp_path, monkeypatch):
    """Opens a lake whose batches are read and merged in one way."""
    lakes = []

    def made(name):
        if name == "tasks, rows that Spark folds":
            monkeypatch.setattr(folded_pieces, "FEW", 0)
        lakes.append(Lake(spark, tmp_path / "lake", spark=LANES[name][0]))
        return lakes[-1]

    yield made
    for lake in lakes:
        lake.close()


@pytest.fixture(params=each(["driver", "tasks, rows kept in Spark", "columns"], long=["columns"]))
def lane(opened, request):
    return opened(request.param)


@pytest.fixture(params=each(CARRYING, long=["tasks, rows that Spark folds"]))
def carrying(opened, request):
    return opened(request.param)


def commits(lake, table):
    """Operations of its commits, in order, the first of all left out."""
    held = DeltaTable(lake._held(table).folder)
    return [one["operation"] for one in reversed(held.history())][1:]


@pytest.mark.parametrize("stands", [False, True], ids=["an empty table", "rows that stand there"])
def test_rows_of_before_and_changes_of_the_batch_get_each_kind_of_default(lane, stands):
    source = Source()
    table = source.table("d.t", {"id": "INT", "v": "INT"}, ["id"], rows=[{"id": 9}, {"id": 8}])
    if stands:
        lane.follow(source)
    for number, (name, (kind, default)) in enumerate(DEFAULTS.items()):
        table.insert(id=number, v=number)
        table.add_column(name, kind, default)
    table.insert(id=100, **{name: default for name, (_, default) in DEFAULTS.items()})
    table.delete(2)
    table.update(3, v=None)
    lane.follow(source)
    assert_rows(lane.table(table), table.rows)


WIDENED = {"INT": "BIGINT", "TINYINT NOT NULL": "INT NOT NULL", "VARCHAR(5)": "VARCHAR(50)"}
"""By type, one that holds all of its values."""

WIDER = {
    "n": ("INT", "BIGINT", 5),
    "exact": ("DECIMAL(5,2)", "DECIMAL(9,4)", Decimal("1.25")),
    "day": ("DATE", "DATETIME", None),
}


@pytest.mark.parametrize("stands", [False, True], ids=["an empty table", "rows that stand there"])
def test_a_wider_type_leaves_a_small_table_plain_and_its_values_as_they_are(carrying, stands):
    lake, source = carrying, Source()
    kinds = {"id": "INT", **{name: was for name, (was, _, _) in WIDER.items()}}
    table = source.table("d.t", kinds, ["id"])
    for number in range(3):
        table.insert(id=number, **{name: value for name, (_, _, value) in WIDER.items()})
    if stands:
        lake.follow(source)
    table.insert(id=10, n=-(2**31))
    for name, (_, now, _) in WIDER.items():
        table.modify_column(name, now)
        table.update(1, n=WIDER["n"][2] + len(name))
    table.insert(id=11, n=2**62, exact=Decimal("12345.6789"))
    table.delete(2)
    lake.follow(source)
    assert_rows(lake.table(table), table.rows)
    features = DeltaTable(lake._held(table).folder).protocol().writer_features or []
    assert "typeWidening" not in features


def test_a_table_without_a_row_gets_any_columns_by_commits_without_data(spark, tmp_path):
    lake, source = Lake(spark, tmp_path / "lake", spark={"lane": "driver"}), Source()
    table = source.table("d.t", {"id": "INT", "gone": "INT", "n": "INT"}, ["id"])
    table.insert(id=1, gone=1, n=2)
    table.drop_column("gone")
    table.rename_column("n", "m")
    table.modify_column("m", "BIGINT")
    table.insert(id=2, m=2**40)
    lake.follow(source)
    assert_rows(lake.table(table), table.rows)
    assert commits(lake, table) == ["CHANGE COLUMNS"] * 3 + ["WRITE"]
    protocol = DeltaTable(lake._held(table).folder).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    lake.close()


def test_of_a_backlog_with_many_ddls_the_rows_come_in_one_commit(spark, tmp_path):
    lake, source = Lake(spark, tmp_path / "lake", spark={"lane": "driver"}), Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 0}])
    lake.follow(source)
    begun = len(commits(lake, table))
    for number in range(1, 9):
        table.insert(id=number)
        table.add_column(f"c{number}", "INT")
        table.update(number - 1, **{f"c{number}": number})
    lake.follow(source)
    assert_rows(lake.table(table), table.rows)
    assert commits(lake, table)[begun:] == ["CHANGE COLUMNS"] * 8 + ["MERGE"]
    lake.close()


def test_any_statements_in_any_batches_leave_the_rows_of_the_source(carrying, request):
    lane = carrying
    drawn, source = random.Random(request.node.name), Source()
    kinds = {"id": "INT", "v": "VARCHAR(9)"}
    rows = [{"id": number} for number in range(3)]
    tables = [source.table(f"d.t{n}", kinds, ["id"], rows=rows) for n in range(2)]
    for turn in range(60):
        table = drawn.choice(tables)
        extra = [one for one in table.columns if one not in ("id", "v")]
        key = drawn.randrange(12)
        some = 3 if extra else 0
        weights = [50, 15, 1, 5, 5, some, some, some]
        kinds_of_act = ["write", "delete", "truncate", "add", "default", "drop", "rename", "widen"]
        act = drawn.choices(kinds_of_act, weights)[0]
        name = drawn.choice([f"c{turn}", "c"])
        if act == "truncate":
            table.truncate()
        elif act in ("add", "default") and name in table.columns:
            table.drop_column(name)
        elif act == "add":
            table.add_column(name, drawn.choice(["INT", "DATE", "VARCHAR(5)"]))
        elif act == "default":
            table.add_column(name, *drawn.choice([*DEFAULTS.values()]))
        elif act == "drop":
            table.drop_column(drawn.choice(extra))
        elif act == "widen":
            for name in extra:
                if table.kinds[name] in WIDENED:
                    table.modify_column(name, WIDENED[table.kinds[name]])
        elif act == "rename":
            table.rename_column(drawn.choice(extra), f"r{turn}")
        elif act == "delete" and table.has(key):
            table.delete(key)
        elif table.has(key):
            table.update(key, v=f"{turn}")
        else:
            table.insert(id=key, v=drawn.choice(["a", "\u2028", 'x"y\\', None]))
    for table in tables:
        table.insert(id=100)  # a DDL that nothing follows waits for its turn
    lane.follow(source, batches=drawn.choice([1, 2, 5]))
    for table in tables:
        assert_rows(lane.table(table), table.rows)


class PowerError(BaseException):
    """The process is gone."""


def die(*_):
    raise PowerError


def merge_and_die(*args, act=Merging.merge):
    act(*args)
    raise PowerError


DEATHS = {"before the rows": die, "behind the rows": merge_and_die}


@pytest.mark.parametrize("at", DEATHS)
def test_a_batch_that_dies_between_its_commits_is_finished_as_it_was_begun(
    carrying, monkeypatch, at
):
    lane = carrying
    source = Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": n} for n in range(4)])
    lane.follow(source)
    table.insert(id=10)
    table.add_column("a", "INT NOT NULL", 7)
    table.update(1, a=8)
    table.add_column("b", "VARCHAR(9) NOT NULL", "x")
    table.delete(2)

    with monkeypatch.context() as patch:
        patch.setattr(Merging, "merge", DEATHS[at])
        with pytest.raises(PowerError):
            lane.follow(source)
    lane.start()
    lane.apply(lane.log.ends())
    assert_rows(lane.table(table), table.rows)


def write_over_two_ddls(table):
    table.insert(id=10)
    table.add_column("a", "INT NOT NULL", 7)
    table.update(10, a=8)
    table.delete(1)
    table.add_column("b", "INT NOT NULL", 9)
    table.insert(id=11, a=1, b=2)


def test_what_an_earlier_version_has_committed_of_a_batch_is_neither_lost_nor_doubled(
    spark, tmp_path, monkeypatch
):
    """It made a commit of rows before each DDL, under the numbers that the steps have today."""
    lake, source = Lake(spark, tmp_path / "lake"), Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": n} for n in range(4)])
    write_over_two_ddls(table)
    merged = []

    def die_at_the_second(self, merge, act=Merging.merge):
        if merged:
            raise PowerError
        merged.append(merge)
        act(self, merge)

    with monkeypatch.context() as patch:
        patch.setattr("ingest.schema.carried.between", lambda steps, _: [None] * (len(steps) - 1))
        patch.setattr(Merging, "merge", die_at_the_second)
        with pytest.raises(PowerError):
            lake.follow(source)
    assert len(merged) == 1
    lake.start()
    lake.apply(lake.log.ends())
    assert_rows(lake.table(table), table.rows)
    lake.close()


def test_deleted_rows_that_are_kept_are_carried_too(spark, tmp_path):
    lake = Lake(spark, tmp_path / "lake", tables={"d.t": {"deletes": "soft"}})
    source = Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}, {"id": 2}])
    table.delete(1)
    table.add_column("a", "INT NOT NULL", 7)
    table.insert(id=3, a=1)
    lake.follow(source)
    found = lake.table(table).selectExpr("id", "a", "_ingest.op").collect()
    assert sorted(map(tuple, found)) == [(1, 7, "d"), (2, 7, "r"), (3, 1, "c")]
    lake.close()


def test_where_delta_rs_cannot_fill_in_a_default_spark_does(spark, tmp_path, monkeypatch):
    lake, source = Lake(spark, tmp_path / "lake"), Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake.follow(source)
    table.add_column("a", "INT NOT NULL", 7)
    table.insert(id=2, a=8)

    def unknown(*_):
        raise ValueError("no such function")

    monkeypatch.setattr(column_commits, "fill", unknown)
    lake.follow(source)
    assert_rows(lake.table(table), table.rows)
    assert "UPDATE" in commits(lake, table)
    lake.close()


@pytest.mark.parametrize("settings", [{"lane": "columns"}, {"lane": "driver"}], ids=str)
def test_who_finishes_a_batch_and_carries_nothing_takes_its_table_back_and_begins_anew(
    spark, tmp_path, monkeypatch, settings
):
    """The DDLs' commits stand, and stand for the rows before them, which nobody has brought."""
    lake, source = Lake(spark, tmp_path / "lake", spark={"lane": "driver"}), Source()
    table = source.table("d.t", {"id": "INT"}, ["id"], rows=[{"id": n} for n in range(3)])
    other = source.table("d.other", {"id": "INT"}, ["id"], rows=[{"id": 1}])
    lake.follow(source)
    write_over_two_ddls(table)
    other.insert(id=2)
    with monkeypatch.context() as patch:
        patch.setattr(Merging, "merge", die)
        with pytest.raises(PowerError):
            lake.follow(source)
    lake.pipeline = pipeline_at(tmp_path / "lake", spark=settings)
    with monkeypatch.context() as patch:
        if settings["lane"] == "driver":
            patch.setattr(
                "ingest.schema.carried.between", lambda steps, _: [None] * (len(steps) - 1)
            )
        lake.start()  # what fails for the second time stands still
        assert "by carrying changes over DDLs" in lake.batches.newest.tables["d.t"].stopped
        assert_rows(lake.table(other), other.rows)
        assert lake.table(table).count() == 3, "as it was before"
    lake.failures = Failures()  # as a new process
    lake.start()
    lake.apply(lake.log.ends())
    assert_rows(lake.table(table), table.rows)
    lake.close()


def test_where_delta_rs_cannot_write_a_table_anew_spark_changes_it_in_place(
    spark, tmp_path, monkeypatch
):
    lake, source = Lake(spark, tmp_path / "lake"), Source()
    table = source.table("d.t", {"id": "INT", "a": "INT"}, ["id"], rows=[{"id": 1, "a": 5}])
    lake.follow(source)
    table.drop_column("a")
    table.insert(id=2)

    def unknown(*_):
        raise KeyError("struct<srid: int, wkb: binary>")

    monkeypatch.setattr(column_commits, "write_anew", unknown)
    lake.follow(source)
    assert_rows(lake.table(table), table.rows)
    lake.close()
