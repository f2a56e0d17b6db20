"""`ingest.testing` without Spark: what statements leave, and what a column takes."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.model.position import PART_DELETE, PART_WRITE, Position, file_number
from ingest.model.specification import Change, mirror, row
from ingest.schema.mysql_types import Column
from ingest.testing.column_value import column_value
from ingest.testing.debezium import described
from ingest.testing.drawn import splits, table_with_history
from ingest.testing.source import Source
from ingest.testing.strategies import histories

COLUMNS = {"id": "INT", "v": "VARCHAR(9)"}


def written(table):
    """(operation, before, after, place) of each change."""
    said = [json.loads(one.value) for one in table.source.log if one.topic == table.topic]
    return [(s["op"], s["before"], s["after"], s["source"]["pos"]) for s in said]


def test_each_statement_leaves_what_debezium_writes_of_it():
    table = Source().table("d.t", COLUMNS, ["id"], rows=[{"id": 1, "v": "a"}])
    table.insert(id=2, v="b")
    table.update(2, v="c")
    table.update(2, v="c")
    table.delete(1)
    table.truncate()
    assert [one[:3] for one in written(table)] == [
        ("r", None, {"id": 1, "v": "a"}),
        ("c", None, {"id": 2, "v": "b"}),
        ("u", {"id": 2, "v": "b"}, {"id": 2, "v": "c"}),
        ("d", {"id": 1, "v": "a"}, None),
        ("t", None, None),
    ]
    places = [one[3] for one in written(table)]
    assert places == sorted(set(places))


def test_a_change_of_a_key_is_a_delete_and_an_insert_at_one_place():
    table = Source().table("d.t", COLUMNS, ["id"])
    table.insert(id=1, v="a")
    table.update(1, id=5)
    gone, come = written(table)[1:]
    assert (gone[0], gone[1], come[0], come[2]) == (
        "d",
        {"id": 1, "v": "a"},
        "c",
        {"id": 5, "v": "a"},
    )
    assert gone[3] == come[3]


def test_statements_of_a_transaction_share_their_gtid_and_others_do_not():
    source = Source()
    table = source.table("d.t", COLUMNS, ["id"])
    with source.transaction():
        table.insert(id=1)
        table.insert(id=2)
    table.insert(id=3)
    one, two, three = (json.loads(r.value)["source"]["gtid"] for r in source.log[1:])
    assert one == two != three


def test_one_statement_is_one_transaction_however_many_records_it_leaves():
    source = Source()
    table = source.table("d.t", COLUMNS, ["id"], rows=[{"id": 8}, {"id": 9}])
    table.insert(id=1)
    table.update(1, id=2)
    table.update(2, v="b")
    table.delete(2)
    table.truncate()
    said = [json.loads(one.value)["source"] for one in source.log if one.topic == table.topic]
    gtids = [one["gtid"] for one in said]
    insert, gone, come, *rest = gtids[2:]
    assert gtids[:2] == [None, None], "what a snapshot reads is of none"
    assert gone == come
    assert len({insert, gone, *rest}) == 2 + len(rest) == 5


def test_what_is_raised_in_a_transaction_rolls_it_back_up_to_a_ddl():
    source = Source()
    orders, notes = (source.table(f"d.{name}", COLUMNS, ["id"]) for name in ("orders", "notes"))
    orders.insert(id=1, v="a")
    before = list(source.log), orders.rows, notes.rows

    def fails(*statements):
        with source.transaction():
            for statement in statements:
                statement()
            notes.delete(7)

    with pytest.raises(KeyError):
        fails(lambda: orders.update(1, id=9), lambda: notes.insert(id=1))
    assert (source.log, orders.rows, notes.rows) == before
    assert not orders.has(9)
    with pytest.raises(KeyError):
        fails(
            lambda: orders.insert(id=2),
            lambda: orders.add_column("n", "INT"),
            lambda: orders.insert(id=3),
        )
    assert orders.rows == [{"id": 1, "v": "a", "n": None}, {"id": 2, "v": None, "n": None}]
    notes.insert(id=1)
    places = [json.loads(one.value)["source"]["pos"] for one in source.log]
    assert places == sorted(set(places))


def test_columns_may_be_called_as_a_statement_s_own_words_are():
    columns = {"key": "INT", "self": "VARCHAR(9)", "values": "INT"}
    table = Source().table("d.t", columns, ["key"])
    table.insert(key=1, self="a", values=2)
    table.update(1, key=3, self="b")
    assert table.rows == [{"key": 3, "self": "b", "values": 2}]
    table_with_history(random.Random(1), columns, ["key"], 40)


@pytest.mark.parametrize(
    ("name", "topic", "database", "table"),
    [
        ("shop.order items", "p.shop.order_items", "shop", "order items"),
        ("shop.`a.b`", "p.shop.a.b", "shop", "a.b"),
        ("`my.shop`.a", "p.my.shop.a", "my.shop", "a"),
        ("shop.订单", "p.shop.__", "shop", "订单"),
    ],
)
def test_a_table_of_any_name_has_debezium_s_topic_and_its_own_name_in_each_record(
    name, topic, database, table
):
    source = Source()
    made = source.table(name, COLUMNS, ["id"])
    made.insert(id=1)
    assert made.topic == source.log[-1].topic == topic
    said = json.loads(source.log[-1].value)["source"]
    assert (said["db"], said["table"]) == (database, table)


@pytest.mark.parametrize(
    ("kind", "value", "new", "lake"),
    [
        ("TIME", timedelta(hours=-838, seconds=-59), "TIME(3)", "-838:00:59.000"),
        ("TIME(3)", timedelta(milliseconds=1_500), "TIME(6)", "00:00:01.500000"),
        ("BIGINT UNSIGNED", 2**63 - 1, "BIGINT", 2**63 - 1),
        ("BIGINT UNSIGNED", 7, "DECIMAL(20,0)", Decimal(7)),
        ("BIT(8)", 200, "BIT(16)", b"\0\xc8"),
        ("DECIMAL(65,1)", 1, "DECIMAL(10,2)", Decimal("1.00")),
        ("JSON", {"a": [1]}, "JSON", '{"a": [1]}'),
        ("TIME", None, "TIME(3)", None),
    ],
)
def test_rows_have_their_values_in_a_column_s_new_type(kind, value, new, lake):
    table = Source().table("d.t", {"id": "INT", "c": kind}, ["id"], rows=[{"id": 1, "c": value}])
    table.modify_column("c", new)
    assert table.rows == [{"id": 1, "c": lake}]


def test_what_mysql_would_refuse_is_refused_and_changes_nothing():
    table = Source().table("d.t", {**COLUMNS, "n": "INT NOT NULL"}, ["id"])
    table.insert(id=1, n=1)
    table.insert(id=2, n=2)
    before = list(table.source.log), table.rows
    for statement, error in (
        (lambda: table.insert(id=1, n=1), ValueError),
        (lambda: table.insert(id=3), ValueError),
        (lambda: table.insert(n=3), ValueError),
        (lambda: table.insert(id=3, n=3, x=1), ValueError),
        (lambda: table.update(1, id=2), ValueError),
        (lambda: table.update(9, n=1), KeyError),
        (lambda: table.delete(9), KeyError),
        (lambda: table.drop_column("id"), ValueError),
        (lambda: table.add_column("m", "INT NOT NULL"), ValueError),
        (lambda: table.add_column("n", "INT", 7), ValueError),
        (lambda: table.rename_column("id", "key"), ValueError),
        (lambda: table.rename_column("x", "y"), ValueError),
        (lambda: table.modify_column("x", "INT"), ValueError),
        (lambda: table.modify_column("n", "VARCHAR(9)"), TypeError),
        (lambda: table.rename_column("v", "n"), ValueError),
    ):
        with pytest.raises(error):
            statement()
    assert (table.source.log, table.rows) == before


def test_a_column_that_comes_with_a_default_is_in_each_row_and_one_that_is_renamed_keeps_its_own():
    source = Source()
    table = source.table(
        "d.t", {"id": "INT", "v": "VARCHAR(9)"}, ["id"], rows=[{"id": 1, "v": "a"}]
    )
    table.add_column("why", "VARCHAR(20) NOT NULL", "it's \\ \u2028")
    table.add_column("n", "DECIMAL(5,2)", Decimal("1.50"))
    table.rename_column("v", "w")
    table.modify_column("n", "DECIMAL(9,4)")
    assert table.rows == [{"id": 1, "w": "a", "why": "it's \\ \u2028", "n": Decimal("1.5000")}]
    assert list(table.columns) == ["id", "w", "why", "n"]
    ddl = [json.loads(one.value)["ddl"] for one in source.log if one.topic == "p"][1:]
    assert ddl == [
        "ALTER TABLE `d`.`t` ADD `why` VARCHAR(20) NOT NULL DEFAULT 'it''s \\\\ \u2028'",
        "ALTER TABLE `d`.`t` ADD `n` DECIMAL(5,2) DEFAULT 1.50",
        "ALTER TABLE `d`.`t` RENAME COLUMN `v` TO `w`",
        "ALTER TABLE `d`.`t` MODIFY `n` DECIMAL(9,4)",
    ]


def test_a_table_without_a_key_holds_a_row_several_times():
    table = Source().table("d.t", COLUMNS)
    for _ in range(2):
        table.insert(id=1, v="a")
    table.update({"id": 1, "v": "a"}, v="b")
    assert table.rows == [{"id": 1, "v": "b"}, {"id": 1, "v": "a"}]
    assert all(one.key is None for one in table.source.log)


VALUES = [
    ("DECIMAL(10,2)", "4.5", "4.50", Decimal("4.50")),
    ("DECIMAL(65,1)", 1, "1.0", "1.0"),
    ("BIGINT UNSIGNED", 2**64 - 1, 2**64 - 1, Decimal(2**64 - 1)),
    ("DATE", date(1970, 1, 3), 2, date(1970, 1, 3)),
    (
        "DATETIME(6)",
        datetime.fromisoformat("1970-01-01T00:00:01"),
        1_000_000,
        datetime.fromisoformat("1970-01-01T00:00:01"),
    ),
    ("TIME(1)", timedelta(hours=-1), -3_600_000_000, "-01:00:00.0"),
    ("VARBINARY(3)", b"\0", "AA==", b"\0"),
    ("BINARY(2)", b"a", "YQA=", b"a\0"),
    ("BIT(1)", True, True, True),
    ("BIT(9)", 256, "AAE=", b"\1\0"),
    ("ENUM('a','x,y')", "x,y", "x\\,y", "x,y"),
    ("JSON", {"bb": 1, "a": [2.5]}, '{"a":[2.5],"bb":1}', '{"a": [2.5], "bb": 1}'),
]


@pytest.mark.parametrize(("kind", "given", "json_", "lake"), VALUES, ids=[v[0] for v in VALUES])
def test_a_value_is_written_as_debezium_writes_it(kind, given, json_, lake):
    found = column_value(Column.from_json(described("c", kind)), given)
    assert (found.json, found.lake) == (json_, lake)


def test_a_timestamp_is_written_in_utc_with_its_digits():
    cest = timezone(timedelta(hours=2))
    column = Column.from_json(described("c", "TIMESTAMP(3)"))
    found = column_value(column, datetime(2026, 1, 1, 1, 0, 0, 500_000, tzinfo=cest))
    assert (found.json, found.snapshot_json) == (
        "2025-12-31T23:00:00.500Z",
        "2025-12-31T23:00:00.5Z",
    )


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("INT", "1"),
        ("INT", True),
        ("VARCHAR(9)", 1),
        ("DATE", datetime.fromisoformat("2026-01-01")),
        ("DATETIME", datetime(2026, 1, 1, tzinfo=timezone.utc)),
        ("TIMESTAMP", datetime.fromisoformat("2026-01-01")),
        ("POINT", b""),
    ],
)
def test_a_value_of_another_type_is_refused(kind, given):
    with pytest.raises(TypeError, match="column 'c'"):
        column_value(Column.from_json(described("c", kind)), given)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("DECIMAL(10,2)", "0.001"),
        ("DATETIME", datetime.fromisoformat("2026-01-01T00:00:00.500")),
        ("TIMESTAMP(3)", datetime(2026, 1, 1, microsecond=1, tzinfo=timezone.utc)),
        ("TIME(1)", timedelta(milliseconds=10)),
    ],
)
def test_a_value_with_more_digits_than_its_column_is_refused(kind, given):
    with pytest.raises(ValueError, match="fraction digits"):
        column_value(Column.from_json(described("c", kind)), given)


def changes_of(table):
    """The log, as the executable specification takes it."""
    for one in table.source.log:
        said = json.loads(one.value)
        if one.topic != table.topic:
            continue
        source, kind = said["source"], said["op"]
        part = PART_DELETE if kind in "dr" else PART_WRITE
        file = file_number(source["file"])
        names = {"c": "insert", "u": "update", "d": "delete", "t": "truncate", "r": "read"}
        yield Change(
            names[kind],
            Position(0, file, source["pos"], source["row"], part),
            row(**json.loads(one.key)) if one.key else None,
            said["before"] and row(**said["before"]),
            said["after"] and row(**said["after"]),
            attempt=1 if kind == "r" else 0,
        )


@settings(max_examples=40)
@pytest.mark.parametrize("key", [["id"], []], ids=["a key", "no key"])
@given(data=st.data())
def test_the_log_of_a_drawn_history_means_what_its_table_holds(key, data):
    draws = {"id": lambda rng: rng.randrange(4), "v": lambda rng: rng.choice([None, "a", "b"])}
    drawn = data.draw(histories(COLUMNS, key, most=40, draws=draws))
    assert mirror(changes_of(drawn.table)) == Counter(row(**one) for one in drawn.table.rows)
    assert sum(drawn.batches) == len(drawn.table.source.log)


def test_a_seed_draws_the_same_history_each_time_and_every_kind_of_statement():
    first, again = (
        table_with_history(random.Random(7), COLUMNS, ["id"], 200, {"id": lambda r: r.randrange(9)})
        for _ in range(2)
    )
    assert first.source.log == again.source.log
    ops = Counter(one[0] for one in written(first))
    assert {"c", "u", "d", "t"} <= ops.keys()


def test_splits_come_to_all_records_and_none_is_empty():
    for seed in range(200):
        rng = random.Random(seed)
        records = rng.randint(1, 9)
        sizes = splits(rng, records)
        assert sum(sizes) == records
        assert min(sizes) > 0
        assert len(sizes) <= 4
