"""Every MySQL type at its boundaries: MySQL, lake from a snapshot, lake from the stream, by bytes.

One row of a table holds the n-th value of each column, all that ``ingest.sample.values`` knows of its type. The same
rows are there when the snapshot is taken and are written again while the stream runs. Three oracles: MySQL's own text of
each value; what the value is in plain Python; and for what docs/types.md names as not exact, what it says.
"""

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ingest.config import pipeline_file
from ingest.model.topics import TableId
from ingest.observe import fingerprint
from ingest.sample.values import Inexact, drawn, exact, inexact, long_text, null, values
from ingest.schema.mysql_types import column_type
from ingest.schema.type_table import ENTRIES
from ingest.source import mysql
from ingest.testing.debezium import compact
from tests.support import exact as found_exactly
from tests.support.server import Cli, Server

TABLE = TableId("types", "every")
STREAMED = 10_000
"""Added to the id of a row that the stream brings."""
LOOSE = 5_000
"""Added to the id of a row whose values docs/types.md names as not exact, or that only a session without a strict mode
writes.
"""

DECLARED = {
    "ti": "TINYINT",
    "ti1": "TINYINT(1)",
    "bo": "BOOLEAN",
    "tiu": "TINYINT UNSIGNED",
    "si": "SMALLINT",
    "siu": "SMALLINT UNSIGNED",
    "mi": "MEDIUMINT",
    "miu": "MEDIUMINT UNSIGNED",
    "i": "INT",
    "iz": "INT(7) ZEROFILL",
    "iu": "INT UNSIGNED",
    "biz": "BIGINT UNSIGNED ZEROFILL",
    "bn1": "BINARY",
    "bi": "BIGINT",
    "biu": "BIGINT UNSIGNED",
    "de": "DECIMAL(10,2)",
    "d38": "DECIMAL(38,30)",
    "d380": "DECIMAL(38,0)",
    "d65": "DECIMAL(65,30)",
    "d650": "DECIMAL(65,0)",
    "deu": "DECIMAL(20,4) UNSIGNED",
    "d0z": "DECIMAL(12) ZEROFILL",
    "fl": "FLOAT",
    "fl2": "FLOAT(7,2)",
    "db": "DOUBLE",
    "f53": "FLOAT(53)",
    "b1": "BIT(1)",
    "b10": "BIT(10)",
    "b64": "BIT(64)",
    "ch": "CHAR(40)",
    "vc": "VARCHAR(40)",
    "la": "VARCHAR(40) CHARACTER SET latin1",
    "gb": "VARCHAR(40) CHARACTER SET gbk",
    "gb8": "VARCHAR(40) CHARACTER SET gb18030",
    "u16": "VARCHAR(40) CHARACTER SET utf16",
    "ub": "VARCHAR(40) COLLATE utf8mb4_bin",
    "ucb": "VARCHAR(20) CHARACTER SET binary",
    "tt": "TINYTEXT",
    "tx": "TEXT",
    "mt": "MEDIUMTEXT",
    "lt": "LONGTEXT",
    "nc": "NCHAR(20)",
    "bn": "BINARY(5)",
    "vb": "VARBINARY(300)",
    "tb": "TINYBLOB",
    "bl": "BLOB",
    "mb": "MEDIUMBLOB",
    "lb": "LONGBLOB",
    "da": "DATE",
    "dt": "DATETIME",
    "dt3": "DATETIME(3)",
    "dt6": "DATETIME(6)",
    "ts": "TIMESTAMP NULL",
    "ts3": "TIMESTAMP(3) NULL",
    "ts6": "TIMESTAMP(6) NULL",
    "tm": "TIME",
    "tm2": "TIME(2)",
    "tm6": "TIME(6)",
    "ye": "YEAR",
    "en": "ENUM('a','x,y','p\\\\q','r\\\\,s','it''s','é','🎁','\"','%s','`')",
    "se": "SET('p','q','🎁','b\\\\c','é','it''s','\"')",
    "enb": "ENUM('3D','a','x,y','it''s','=','-','p\\\\q','é','') CHARACTER SET binary",
    "seb": "SET('3','q','b\\\\c','é','-') CHARACTER SET binary",
    "js": "JSON",
    "ge": "GEOMETRY",
    "point": "POINT",
    "linestring": "LINESTRING",
    "polygon": "POLYGON",
    "multipoint": "MULTIPOINT",
    "multilinestring": "MULTILINESTRING",
    "multipolygon": "MULTIPOLYGON",
    "geometrycollection": "GEOMETRYCOLLECTION",
    "iv": "INT DEFAULT 7 INVISIBLE",
    "df": "INT DEFAULT 7",  # NULLs in it must not become 7
    "dfd": "DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3)",
}
GENERATED = {
    "gv": "BIGINT GENERATED ALWAYS AS (i * 2) VIRTUAL",
    "gs": "VARCHAR(60) GENERATED ALWAYS AS (CONCAT('<', vc, '>')) STORED",
}
SEED = 25
DRAWN = 40
"""Rows of values that are made up."""


def _cases(declared: str) -> list[Any]:
    rng = random.Random(f"{SEED} {declared}")
    return [*values(declared), *(drawn(rng, declared) for _ in range(DRAWN))]


EXACT = {name: _cases(declared) for name, declared in DECLARED.items()}
ROWS = max(map(len, EXACT.values())) + 1
"""One more than the longest list: the last row is NULL throughout."""

_COUNTED = {
    "js": (
        "JSON_ARRAY(CAST(1.50 AS DECIMAL(5,2)), CAST(0.123456789012345678 AS DECIMAL(30,20)))",
        "[1.50, 0.12345678901234567800]",
    ),
    "en": ("''", ""),
    "tx": ("REPEAT('é', 20000)", "é" * 20_000),
    "mt": ("REPEAT('漢', 100000)", "漢" * 100_000),
    "bl": ("REPEAT(0xFF00, 30000)", b"\xff\0" * 30_000),
    "mb": ("REPEAT(0x00, 200000)", b"\0" * 200_000),
}
"""Exact, too: values that another mode or an expression makes."""
INEXACT = {
    name: [
        *inexact(declared),
        *(Inexact(sql, lake, lake) for at, (sql, lake) in _COUNTED.items() if at == name),
    ]
    for name, declared in DECLARED.items()
}
LOOSE_ROWS = max(map(len, INEXACT.values()))

SNAPSHOT, STREAM = "snapshot", "stream"


def insert(number: int, literals: dict[str, str]) -> str:
    return (
        f"INSERT INTO types.every (id, {', '.join(literals)}) "
        f"VALUES ({', '.join([str(number), *literals.values()])})"
    )


def literal(name: str, row: int) -> str:
    """Of a column in a row, by the row's number without STREAMED."""
    every = INEXACT[name] if row >= LOOSE else EXACT[name]
    place = row - LOOSE if row >= LOOSE else row
    return every[place].sql if place < len(every) else "NULL"


def wanted(name: str, row: int, way: str) -> Any:
    """What the lake must hold, as ``values.exact`` has it."""
    if row >= LOOSE:
        every, place = INEXACT[name], row - LOOSE
        return getattr(every[place], way) if place < len(every) else None
    return EXACT[name][row].exact if row < len(EXACT[name]) else None


REQUIRED = (
    "CREATE TABLE types.required (id INT PRIMARY KEY, da DATE NOT NULL, dd DATE NOT NULL DEFAULT "
    "'2020-01-02', ts TIMESTAMP NOT NULL, dt DATETIME NOT NULL)"
)
MOMENT = "'2024-02-29 01:02:03'"
LONG = [long_text(random.Random(SEED + n), 1_100_000) for n in range(3)]


def write(server: Server, first: int) -> None:
    """All values once more, with other ids: zero dates, too, in columns and in a key."""
    strict, loose = range(ROWS), range(LOOSE, LOOSE + LOOSE_ROWS)
    server.sql(*[insert(first + n, {name: literal(name, n) for name in EXACT}) for n in strict])
    server.sql(
        "SET sql_mode = ''",
        *[insert(first + n, {name: literal(name, n) for name in EXACT}) for n in loose],
    )
    server.sql(
        *[f"INSERT INTO types.long_texts VALUES ({first + n}, {v.sql})" for n, v in enumerate(LONG)]
    )
    day = 1 + first // STREAMED
    server.sql(
        "SET sql_mode = ''",
        f"INSERT INTO types.required VALUES ({first}, 0, 0, 0, {MOMENT}), "
        f"({first + 1}, '1970-01-01', '1970-01-01', '1970-01-01 00:00:01', {MOMENT}), "
        f"({first + 2}, '2024-05-02', '2020-01-02', {MOMENT}, 0), "
        f"({first + 3}, '2024-05-01', '2020-01-02', {MOMENT}, '1970-01-01'), "
        f"({first + 4}, '2024-05-01', '2020-01-02', 0, {MOMENT})",
        f"INSERT INTO types.days VALUES ('2020-01-0{day}', 1), ('20{day}0-00-10', 2)",
    )


@dataclass
class Both:
    """``cells``: (column, id) to (text in MySQL, text in the lake). ``exact``: id to the row as delta-rs finds it."""

    cells: dict[tuple[str, int], tuple[str | None, str | None]]
    exact: dict[int, dict[str, Any]]
    messages: dict[int, tuple[str, dict[str, Any], bytes]]
    """Id to operation, row image and the bytes that Debezium wrote."""
    verdict: dict[str, Any]
    read: Callable[[str], list[Any]]
    """Rows of a folder of the lake."""

    def differences(self, table: str) -> int:
        """What the audit counts for a table."""
        tables = self.verdict["tables"]
        return next(one["differences"] for one in tables if one["name"] == f"types.{table}")


@pytest.fixture(scope="module")
def both(stack, server, spark, tmp_path_factory) -> Both:
    cli = Cli(stack, tmp_path_factory.mktemp("types"), spark)
    server.database("types")
    every = {**DECLARED, **GENERATED}
    server.sql(
        "CREATE TABLE types.every (id INT PRIMARY KEY, "
        f"{', '.join(f'{name} {declared}' for name, declared in every.items())})",
        REQUIRED,
        "CREATE TABLE types.days (d DATE NOT NULL PRIMARY KEY, v INT)",
        "INSERT INTO types.days VALUES ('1970-01-01', 3)",
        "CREATE TABLE types.long_texts (id INT PRIMARY KEY, t LONGTEXT)",
    )
    write(server, 0)
    file = cli.init("types", "types.*")
    assert (done := cli.once(file)).returncode == 0, done.stderr
    server.sql("SET sql_mode = ''", "DELETE FROM types.days WHERE v = 2")
    write(server, STREAMED)
    assert (done := cli.once(file)).returncode == 0, done.stderr
    pipeline = pipeline_file.load(file)
    with mysql.connected(pipeline.source) as cursor:
        described = mysql.columns(cursor, TABLE)
        texts = ", ".join(
            f"IF({fingerprint.mysql_absent(c)}, NULL, {fingerprint.mysql_text(c)})"
            for c in described
        )
        cursor.execute(f"SELECT id, {texts} FROM types.every")
        source = {row[0]: row[1:] for row in cursor.fetchall()}

    def read(folder: str) -> Any:
        return spark.read.format("delta").load(f"{pipeline.lake.path}/{folder}")

    lake = [fingerprint.spark_text(c).alias(c.name) for c in described]
    found = {
        row["_id"]: row
        for row in read("types/every").selectExpr("id AS _id", "*").select("_id", *lake).collect()
    }
    assert set(found) == set(source)
    cells = {
        (column.name, number): (source[number][index], found[number][column.name])
        for index, column in enumerate(described)
        for number in source
    }
    exactly = found_exactly.rows(found_exactly.by_delta_rs(f"{pipeline.lake.path}/types/every"))
    written = [(json.loads(raw), raw) for raw in found_exactly.topic(pipeline, "types.types.every")]
    return Both(
        cells,
        {row["id"]: row for row in exactly},
        {one["after"]["id"]: (one["op"], one["after"], raw) for one, raw in written},
        cli.audit(file)[1],
        lambda folder: read(folder).collect(),
    )


def _way(number: int) -> str:
    return STREAM if number >= STREAMED else SNAPSHOT


def test_every_value_is_the_same_in_mysql_in_a_snapshot_and_in_the_stream(both):
    differing = {
        (name, literal(name, number % STREAMED), _way(number))
        for (name, number), (source, lake) in both.cells.items()
        if source != lake and name not in {"id", *GENERATED}
    }
    named = {
        (name, one.sql, way)
        for name, every in INEXACT.items()
        for one in every
        for way in one.named
    }
    assert differing == named
    assert all(
        source == lake for (name, _), (source, lake) in both.cells.items() if name in GENERATED
    )


def test_every_value_is_the_one_that_was_meant_by_another_reader(both):
    """Whatever MySQL and the lake agree on."""
    differing = {
        (name, literal(name, number % STREAMED), _way(number)): (row[name], meant)
        for number, row in both.exact.items()
        for name in DECLARED
        if row[name] != (meant := wanted(name, number % STREAMED, _way(number)))
    }
    assert not differing


def test_messages_are_those_that_the_suites_in_the_process_are_fed_with(both):
    differing = {}
    for number, (op, image, _) in both.messages.items():
        row = number % STREAMED
        if row >= LOOSE:
            continue
        for name, every in EXACT.items():
            one = every[row] if row < len(every) else null(DECLARED[name])
            meant = one.snapshot_json if op == "r" else one.json
            if exact(image[name]) != exact(meant):
                differing[name, literal(name, row), op] = (image[name], meant)
    assert not differing


def test_messages_are_escaped_as_the_suites_in_the_process_escape_them(both):
    wanted = ("ch", "vc", "js", "en")
    others = [
        (number, name, raw)
        for number, (_, image, raw) in both.messages.items()
        for name in wanted
        if compact({name: image[name]})[1:-1] not in raw
    ]
    assert not others[:1]


def test_texts_above_a_megabyte_arrive_whole(both):
    rows = {row.id: row.t for row in both.read("types/long_texts")}
    assert rows == {first + n: v.lake for first in (0, STREAMED) for n, v in enumerate(LONG)}


def test_no_difference_passes_in_silence(both):
    rows = {
        row + (STREAMED if way == STREAM else 0)
        for every in INEXACT.values()
        for row, one in enumerate(every)
        for way in one.named
    }
    assert both.differences("every") == len(rows)


def test_every_row_of_the_type_table_is_among_the_tested_columns(both, server):
    rows = server.sql(
        "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'types'"
    )
    assert {name for name, _ in rows} >= {*DECLARED, *GENERATED}
    tested = {column_type(column).kind for column in _described(server)}
    assert {column_type(entry.column).kind for entry in ENTRIES} <= tested


def _described(server):
    with server.connect() as connection, connection.cursor() as cursor:
        return mysql.columns(cursor, TABLE)


def test_null_stays_null_whatever_the_default(both):
    for first in (0, STREAMED):
        last = {
            name: texts
            for (name, number), texts in both.cells.items()
            if number == first + ROWS - 1 and name != "id"
        }
        assert set(last.values()) == {(None, None)}


def test_a_zero_date_that_cannot_be_null_is_null_or_set_aside_and_never_1970(both):
    rows = {
        row.id: (str(row.da), str(row.dd), str(row.ts), str(row.dt))
        for row in both.read("types/required")
    }
    whole = ("2024-05-01", "2020-01-02", "None", MOMENT.strip("'"))
    assert rows == {4: whole, STREAMED + 4: whole}
    reasons = [row.reason for row in both.read("_ingest/quarantine")]
    doubtful = Counter(reason.split("'")[1] for reason in reasons if "epoch_dates" in reason)
    # Of the key: 1970-01-01, and a date without a month inserted, deleted, and another inserted.
    assert doubtful == {"da": 4, "dt": 4, "d": 4}
    assert len(reasons) == doubtful.total()
    assert {str(row.d) for row in both.read("types/days")} == {"2020-01-01", "2020-01-02"}
    assert both.differences("required") == 8
    assert both.differences("days") == 2
