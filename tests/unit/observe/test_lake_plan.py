"""`lake_plan`: what a pending DDL will do and cost, statement by statement."""

from dataclasses import replace

import pytest

from ingest.model.manifest import LogState, TableState
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.observe.lake_plan import (
    HeldTable,
    effects,
    of_left,
    of_logs,
    of_patterns,
    of_policies,
)
from ingest.observe.only_in_lake import OnlyInLake
from ingest.schema.catalog import Catalog
from ingest.schema.ddl_policy import Rules, governed

HELD = HeldTable({"id": "int", "v": "int"}, False, 1000, 500_000_000)


def column(name, type_name="INT", **more):
    return {"name": name, "typeName": type_name, "optional": True} | more


ID, V = column("id", optional=False), column("v")


def record(pos, kind, columns, ddl="", table="t", key=("id",)):
    body = None if kind == "DROP" else {"columns": columns, "primaryKeyColumnNames": list(key)}
    return {
        "source": {
            "file": "binlog.000001",
            "pos": pos,
            "row": 0,
            "snapshot": str(pos == 5).lower(),
        },
        "databaseName": "d",
        "ddl": ddl or f"{kind} TABLE {table}",
        "tableChanges": [{"type": kind, "id": f'"d"."{table}"', "table": body}],
    }


def planned(*records, applied=10):
    return [(effect.costs, effect.bytes) for effect in found(*records, applied=applied)]


def found(*records, applied=10, profile="standard", held=HELD, key=("id",)):
    catalog = Catalog()
    for one in (record(5, "CREATE", [ID, V], key=key), *records):
        catalog.add(one, 0)
    state = TableState("/lake/d/t", 3, position=Position(0, 1, applied))
    return effects(catalog, {"d.t": state}, {"d.t": held}, profile)


def test_what_is_applied_is_not_pending():
    assert planned() == []
    assert planned(record(9, "ALTER", [ID], "ALTER TABLE t DROP v")) == []


def test_each_statement_has_its_cost_upon_what_the_ones_before_made():
    assert planned(
        record(20, "ALTER", [ID, V, column("w")], "ALTER TABLE t ADD w INT"),
        record(30, "ALTER", [ID, V], "ALTER TABLE t DROP w"),
        record(40, "ALTER", [ID, V], "ALTER TABLE t COMMENT 'x'"),
        record(50, "ALTER", [ID, column("v", "BIGINT")], "ALTER TABLE t MODIFY v BIGINT"),
        record(60, "DROP", [], "DROP TABLE t"),
    ) == [
        (("metadata",), 0),
        (("metadata",), 0),
        (("nothing",), 0),
        (("metadata",), 0),
        (("rows go",), 0),
    ]


def test_a_table_that_came_by_its_name_without_columns_is_read_again_and_not_emptied():
    swap = {**record(20, "ALTER", [], ddl="RENAME TABLE _t_new TO t"), "tableChanges": []}
    (one,) = found({**swap, "databaseName": "d"})
    assert (one.costs, one.sentence) == (
        ("resync",),
        "read from MySQL, with its columns: it came from d._t_new",
    )


LOG = HeldTable({"id": "int", "v": "int"}, True, 1000, 500_000_000, outlives=True)


def of_log(*records):
    return [(one.costs, one.sentence) for one in found(*records, held=LOG, key=())]


def test_a_log_that_is_purged_stays_as_it_is_and_no_statement_has_it_read_again():
    swap = {**record(20, "ALTER", [], ddl="RENAME TABLE _t_new TO t"), "tableChanges": []}
    assert of_log(
        record(20, "ALTER", [ID, V], "ALTER TABLE t DROP PARTITION p0", key=()),
        record(30, "DROP", [], "DROP TABLE t"),
    ) == [
        (("nothing",), "no change of the lake"),
        (("nothing",), "its rows stay (`append_only`)"),
    ]
    for statement in (
        record(20, "ALTER", [ID, V], "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", key=()),
        {**swap, "databaseName": "d"},
    ):
        ((costs, sentence),) = of_log(statement)
        assert (costs[-1], "resync" in costs) == ("gap", False)
        assert "stays open: it is not taken again by itself" in sentence


def test_with_the_profile_compat_a_rename_writes_the_table_anew():
    renamed = record(20, "ALTER", [ID, column("w")], "ALTER TABLE t RENAME COLUMN v TO w")
    (plain,) = found(renamed)
    assert plain.costs == ("metadata",)
    assert plain.sentence == (
        "renames 'v to w'; no data is written, with column mapping (docs/readers.md)"
    )
    (compat,) = found(renamed, profile="compat")
    assert (compat.costs, compat.bytes) == (("rewrite",), HELD.bytes)


def test_a_small_table_is_written_anew_and_gets_no_feature_and_one_without_rows_writes_nothing():
    renamed = record(20, "ALTER", [ID, column("w")], "ALTER TABLE t RENAME COLUMN v TO w")
    wider = record(30, "ALTER", [ID, column("w", "BIGINT")], "ALTER TABLE t MODIFY w BIGINT")
    small, empty = replace(HELD, bytes=9), replace(HELD, bytes=0, rows=0)
    assert [(one.costs, one.bytes, one.sentence) for one in found(renamed, wider, held=small)] == [
        (
            ("rewrite",),
            9,
            "renames 'v to w'; 1,000 rows are written anew; earlier versions stay readable",
        ),
        (
            ("rewrite",),
            9,
            "widens 'w'; 1,000 rows are written anew; earlier versions stay readable",
        ),
    ]
    assert [(one.costs, one.sentence) for one in found(renamed, wider, held=empty)] == [
        (("metadata",), "renames 'v to w'; no data is written"),
        (("metadata",), "widens 'w'; no data is written"),
    ]
    far = replace(small, reachable=False)
    assert [one.costs for one in found(renamed, wider, held=far)] == [("metadata",)] * 2


def test_a_default_fills_rows_and_what_only_mysql_knows_is_read_again():
    assert planned(
        record(
            20,
            "ALTER",
            [ID, V, column("w", defaultValueExpression="7")],
            "ALTER TABLE t ADD w INT DEFAULT 7",
        ),
        record(
            30,
            "ALTER",
            [ID, V, column("w"), column("u", "CHAR", length=36)],
            "ALTER TABLE t ADD u CHAR(36) DEFAULT (UUID())",
        ),
    ) == [(("metadata", "rewrite"), HELD.bytes), (("metadata", "resync"), 0)]


def test_a_type_without_a_place_in_the_lake_is_told_before_it_stops_the_run():
    (one,) = planned(
        record(20, "ALTER", [ID, V, column("w", "VECTOR")], "ALTER TABLE t ADD w VECTOR")
    )
    assert one == (("refused",), 0)


def test_a_table_that_comes_by_another_name_is_read_from_mysql():
    swapped = record(30, "ALTER", [ID, V], "rename table _t_gho to t")
    assert planned(swapped) == [(("resync",), 0)]


def test_changed_patterns_say_what_is_taken_and_what_stays():
    one, two = TableId("d", "t"), TableId("d", "new")
    left = [OnlyInLake("d.left", 3, "not taken"), OnlyInLake("d.dropped", 3, "not there")]
    found = [*of_patterns([one, two], [one]), *of_left(left, {"d.dropped"})]
    assert [(effect.table, effect.costs) for effect in found] == [
        ("d.new", ("metadata",)),
        ("d.left", ("nothing",)),
    ]
    assert found[1].sentence == "3 rows stay: not taken"
    assert of_patterns([one], []) == []


def test_what_a_policy_says_stands_in_the_plan():
    catalog = Catalog()
    for one in (
        record(5, "CREATE", [ID, V]),
        record(20, "ALTER", [ID, V, column("w")], "ALTER TABLE t ADD w INT"),
        record(30, "ALTER", [ID, column("w")], "ALTER TABLE t DROP v"),
        record(40, "ALTER", [ID], "ALTER TABLE t DROP w"),
    ):
        catalog.add(one, 0)
    states = {"d.t": TableState("/lake/d/t", 3, position=Position(0, 1, 10))}

    def rules(_):
        return Rules({"add_column": "ignore", "drop_column": "pause"})

    followed, barriers = governed(catalog, states, rules)
    found = effects(followed, states, {"d.t": HELD}, barriers=barriers)
    left_out, waits = found
    assert (left_out.costs, left_out.sentence) == (("nothing",), "leaves 'w' out")
    assert waits.costs == ("waits",)
    assert waits.sentence.startswith("drop_column 'v' pauses the table, the others go on")
    assert waits.sentence.endswith("`approved: 0/000001:30:0.0` lets it pass, 1 more behind it")
    paused = {
        "d.t": TableState(
            "/lake/d/t", 3, position=Position(0, 1, 25), paused=Position(0, 1, 30), left_out=("w",)
        )
    }
    assert of_policies(paused, barriers, rules) == []
    let_go = of_policies(paused, {}, lambda _: Rules())
    assert [one.costs for one in let_go] == [("metadata",), ("metadata", "resync")]


def test_a_change_log_that_begins_and_one_that_ends_are_said():
    log = LogState("/lake/d/u__changes", 4, "id")
    states = {"d.t": TableState("/lake/d/t", 3), "d.u": TableState("/lake/d/u", 3, log=log)}
    begins, ends = of_logs(
        states, lambda table: table.name == "t", lambda table: f"{table}__changes"
    )
    assert (begins.table, begins.costs) == ("d.t", ("metadata",))
    assert begins.sentence.startswith("each change from now on goes to d.t__changes, too")
    assert (ends.table, ends.costs) == ("d.u", ("nothing",))
    assert "asked for again, it lacks what comes meanwhile" in ends.sentence
    assert of_logs(states, lambda table: table.name == "u", str) == []


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        (0, "up to 1,234 changes that Kafka still has go to d.t, then each from now on"),
        (
            17,
            "17 of before are not in Kafka any more: `ingest resync` brings the rows that are there",
        ),
    ],
)
def test_a_change_log_that_begins_with_what_kafka_has_says_how_much_that_is(gone, said):
    states = {"d.t": TableState("/lake/d/t", 3)}
    (effect,) = of_logs(states, lambda _: True, str, lambda _: (1234, gone))
    assert said in effect.sentence
