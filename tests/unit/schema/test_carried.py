"""Over which DDLs a batch's changes are carried, and what each makes of them."""

from dataclasses import replace
from datetime import date, datetime, time, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from ingest.arrow import carried_rows
from ingest.arrow.carried_rows import StepPart, of_parts
from ingest.arrow.column_values import delta_type
from ingest.arrow.record_decoder import POSITION
from ingest.model.position import Position
from ingest.model.topics import TableId
from ingest.schema import carried
from ingest.schema.carried import CarriedColumn
from ingest.schema.catalog import SchemaVersion
from ingest.schema.mysql_types import Column
from ingest.schema.steps import Step
from tests.support.declared_tables import ID, T, at

A, B = (Column(name, "INT", None, None, optional=True) for name in "ab")
TEXT = Column("v", "VARCHAR", 9, None, optional=True)
WAS = SchemaVersion(T, at(9), "CREATE", (ID, A), ("id",), "")


def ddl(text, *columns, **more):
    return replace(WAS, position=at(50), kind="ALTER", columns=(ID, *columns), ddl=text, **more)


def over(now, was=WAS, profile="standard", **of_step):
    steps = [Step(None, at(50), was), Step(at(50), None, now, previous=was, number=1)]
    (carry,) = carried.between([steps[0], replace(steps[1], **of_step)], profile)
    return carry


ID_SAME, A_SAME = CarriedColumn("id", "int", "id"), CarriedColumn("a", "int", "a")


@pytest.mark.parametrize(
    ("now", "columns"),
    [
        (ddl("ALTER TABLE t ADD b INT", A, B), (ID_SAME, A_SAME, CarriedColumn("b", "int"))),
        (
            ddl("ALTER TABLE t ADD b INT NOT NULL DEFAULT 7 FIRST", B, A),
            (ID_SAME, CarriedColumn("b", "int", None, "7"), A_SAME),
        ),
        (
            ddl("ALTER TABLE t ADD b INT NOT NULL", A, replace(B, optional=False)),
            (ID_SAME, A_SAME, CarriedColumn("b", "int", None, "0")),
        ),
        (ddl("ALTER TABLE t DROP a"), (ID_SAME,)),
        (ddl("ALTER TABLE t RENAME COLUMN a TO b", B), (ID_SAME, CarriedColumn("b", "int", "a"))),
        (
            ddl("ALTER TABLE t MODIFY a BIGINT", replace(A, type_name="BIGINT")),
            (ID_SAME, CarriedColumn("a", "bigint", "a")),
        ),
        (ddl("CREATE INDEX i ON t (a)", A), (ID_SAME, A_SAME)),
        (
            ddl("ALTER TABLE t DROP a, ADD a VARCHAR(9) DEFAULT 'x'", replace(TEXT, name="a")),
            (ID_SAME, CarriedColumn("a", "string", None, "x")),
        ),
    ],
)  # fmt: skip
def test_a_ddl_that_says_what_it_made_of_each_row_is_carried_over(now, columns):
    assert over(now) == columns


def test_a_longer_text_and_another_order_leave_each_value_as_it_is():
    was = replace(WAS, columns=(ID, A, TEXT))
    now = ddl("ALTER TABLE t MODIFY v VARCHAR(99) FIRST", replace(TEXT, length=99), A)
    assert over(now, was) == (ID_SAME, CarriedColumn("v", "string", "v"), A_SAME)


ADDS = ddl("ALTER TABLE t ADD b INT", A, B)


@pytest.mark.parametrize(
    "case",
    [
        {"now": ADDS, "wipe": at(50)},
        {"now": ADDS, "reset": at(50)},
        {"now": ADDS, "moved": TableId("d", "old")},
        {"now": ADDS, "void": True},
        {"now": ADDS, "previous": None},
        {"now": replace(ADDS, left_out=frozenset("b"))},
        {"now": ADDS, "was": replace(WAS, kept=("gone",))},
        {"now": replace(ADDS, key=("a",))},
        {"now": replace(ADDS, key=()), "was": replace(WAS, key=())},
        {"now": ddl("ALTER TABLE t MODIFY a SMALLINT", replace(A, type_name="SMALLINT"))},
        {"now": ddl("ALTER TABLE t MODIFY a BIGINT UNSIGNED", replace(A, type_name="BIGINT UNSIGNED"))},
        {"now": ddl("ALTER TABLE t MODIFY a VARCHAR(9)", replace(TEXT, name="a"))},
        {"now": ddl("ALTER TABLE t ADD b INT DEFAULT (RAND())", A, B)},
        {"now": ddl("ALTER TABLE t ADD b INT DEFAULT '1e1'", A, B)},
        {"now": ddl("ALTER TABLE t MODIFY a INT NOT NULL", replace(A, optional=False))},
        {"now": ddl("ALTER TABLE t DROP a"), "profile": "compat"},
        # The key's name goes to another column.
        {
            "now": replace(
                ddl("ALTER TABLE t RENAME COLUMN id TO old_id, RENAME COLUMN a TO id"),
                columns=(replace(ID, name="old_id"), replace(A, name="id", optional=False)),
            )
        },
        {
            "now": replace(
                ddl("ALTER TABLE t DROP COLUMN id, ADD COLUMN id INT NOT NULL FIRST, ADD PRIMARY KEY (id)"),
                columns=(ID, A),
            )
        },
    ],
    ids=str,
)  # fmt: skip
def test_changes_stay_a_step_of_their_own_where_rows_go_or_only_mysql_knows_what_became_of_them(
    case,
):
    assert over(**case) is None


def test_a_default_of_more_digits_than_python_counts_by_itself_is_no_failure():
    wide = Column("b", "DECIMAL", 38, 30, optional=True)
    carry = over(ddl("ALTER TABLE t ADD b DECIMAL(38,30) DEFAULT 1.5", A, wide))
    assert carry[-1] == CarriedColumn("b", "decimal(38,30)", None, "1.5")
    whole = "12345678901234567890123456789012345678"
    wide = Column("b", "DECIMAL", 38, 0, optional=True)
    carry = over(ddl(f"ALTER TABLE t ADD b DECIMAL(38,0) DEFAULT {whole}", A, wide))
    assert carry[-1].text == whole


def test_a_step_that_is_void_is_carried_nowhere():
    steps = [
        Step(None, at(50), WAS, void=True),
        Step(at(50), None, ADDS, previous=WAS, number=1),
    ]
    assert carried.between(steps, "standard") == [None]


def rows(**columns):
    count = len(next(iter(columns.values())))
    place = [Position(0, 1, 10 * (n + 1)).as_dict() for n in range(count)]
    meta = [
        {"position": one, "op": "c", "committed_at": datetime(2026, 1, 1, tzinfo=timezone.utc)}
        for one in place
    ]
    kind = pa.struct(
        [("position", POSITION), ("op", pa.string()), ("committed_at", pa.timestamp("us", "UTC"))]
    )
    typed = {
        name: held if isinstance(held, pa.Array) else pa.array(held, pa.int32())
        for name, held in columns.items()
    }
    return pa.table({**typed, "_ingest": pa.array(meta, kind)})


DEFAULTS = [
    ("tinyint", "-128", -128),
    ("bigint", "9223372036854775807", 2**63 - 1),
    ("decimal(20,0)", "18446744073709551615", Decimal(2**64 - 1)),
    ("decimal(10,2)", "1.5", Decimal("1.50")),
    ("double", "0.1", 0.1),
    ("float", "0", 0.0),
    ("string", "it's \\ \u2028", "it's \\ \u2028"),
    ("string", "", ""),
    ("date", None, None),
    ("timestamp_ntz", None, None),
    ("binary", None, None),
]


@pytest.mark.parametrize(("delta", "text", "value"), DEFAULTS)
def test_each_row_gets_the_default_in_the_type_of_its_column(delta, text, value):
    found = carried_rows.carried(rows(id=[1, 2]), (ID_SAME, CarriedColumn("b", delta, None, text)))
    assert found.column_names == ["id", "b", "_ingest"]
    assert found["b"].to_pylist() == [value, value]


@pytest.mark.parametrize(
    ("was", "delta", "values"),
    [
        (pa.int8(), "bigint", [-128, None, 127]),
        (pa.int32(), "decimal(20,3)", [-(2**31), None, 5]),
        (pa.decimal128(10, 2), "decimal(38,10)", [Decimal("-99999999.99"), None]),
        (pa.float32(), "double", [1.5, None, -0.0]),
        (pa.date32(), "timestamp_ntz", [date(1, 1, 1), None, date(9999, 12, 31)]),
    ],
    ids=str,
)
def test_a_wider_type_holds_the_same_value(was, delta, values):
    held = rows(id=[*range(len(values))], a=pa.array(values, was))
    found = carried_rows.carried(held, (ID_SAME, CarriedColumn("a", delta, "a")))["a"]
    assert found.type == delta_type(delta)
    wanted = [datetime.combine(one, time()) if isinstance(one, date) else one for one in values]
    assert found.to_pylist() == wanted


def test_steps_are_joined_as_far_as_they_are_carried_and_in_order():
    adds = (ID_SAME, CarriedColumn("b", "int", None, "7"))
    renames = (ID_SAME, CarriedColumn("c", "int", "b"))
    nothing = pa.table({})
    first, second = rows(id=[1, 2]), rows(id=[3], b=[8])
    found = carried_rows.joined([first, second, nothing, rows(id=[4])], [adds, renames, None])
    assert [one.num_rows for one in found] == [0, 0, 3, 1]
    assert found[2].drop(["_ingest"]).to_pylist() == [
        {"id": 1, "c": 7},
        {"id": 2, "c": 7},
        {"id": 3, "c": 8},
    ]
    assert carried_rows.joined([first, second], [None]) == [first, second]


def test_a_piece_has_for_a_step_what_stands_at_the_places_of_its_parts():
    adds = (ID_SAME, CarriedColumn("b", "int", None, "7"))
    parts = [
        StepPart(frozenset([0]), at(15, part=0), at(35, part=0), (adds,)),
        StepPart(frozenset([1]), at(35, part=0), None),
    ]
    (found,) = of_parts(parts, 0, rows(id=[1, 2, 3, 4]))
    assert found.drop(["_ingest"]).to_pylist() == [{"id": 2, "b": 7}, {"id": 3, "b": 7}]
    (found,) = of_parts(parts, 1, rows(id=[1, 2, 3, 4], b=[1, 2, 3, 4]))
    assert found["id"].to_pylist() == [4]
    assert not list(of_parts(parts, 2, rows(id=[1])))
