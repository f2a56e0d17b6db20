"""Every MySQL type at its boundaries: MySQL, lake from a snapshot, lake from the stream, by bytes.

One row of a table holds the n-th value of each column. The same rows are there when the snapshot is
taken and are written again while the stream runs. What differs is listed below, value by value; anything
else, and anything in the list that does not differ, fails.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ingest import config, fingerprint, mysql
from ingest.mysql_types import column_type
from ingest.topics import TableId
from ingest.type_table import ENTRIES
from tests.support.server import Cli, Server

TABLE = TableId("types", "every")
STREAMED = 1000
"""Added to the id of a row that the stream brings."""

_TEXTS = ["''", "'a '", "'é漢🎁'", "'NUL \\0 \\\\ \\' \\n'", "' '"]
_GEOMETRIES = {
    "point": ["POINT(1.5, -2)", "ST_GeomFromText('POINT(10 20)', 4326)"],
    "linestring": ["ST_GeomFromText('LINESTRING(0 0, 1 1, 2 3)')"],
    "polygon": ["ST_GeomFromText('POLYGON((0 0, 4 0, 4 4, 0 0), (1 1, 2 1, 2 2, 1 1))')"],
    "multipoint": ["ST_GeomFromText('MULTIPOINT((1 1), (2 2))')"],
    "multilinestring": ["ST_GeomFromText('MULTILINESTRING((0 0, 1 1), (2 2, 3 3))')"],
    "multipolygon": ["ST_GeomFromText('MULTIPOLYGON(((0 0, 4 0, 4 4, 0 0)))', 3857)"],
    "geometrycollection": [
        "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1), LINESTRING(0 0, 1 1))')"
    ],
}
COLUMNS: dict[str, tuple[str, list[str]]] = {
    "ti": ("TINYINT", ["-128", "127", "0"]),
    "ti1": ("TINYINT(1)", ["-128", "127", "2"]),
    "bo": ("BOOLEAN", ["TRUE", "FALSE"]),
    "tiu": ("TINYINT UNSIGNED", ["0", "255"]),
    "si": ("SMALLINT", ["-32768", "32767"]),
    "siu": ("SMALLINT UNSIGNED", ["0", "65535"]),
    "mi": ("MEDIUMINT", ["-8388608", "8388607"]),
    "miu": ("MEDIUMINT UNSIGNED", ["0", "16777215"]),
    "i": ("INT", ["-2147483648", "2147483647"]),
    "iz": ("INT(7) ZEROFILL", ["42", "4294967295"]),
    "iu": ("INT UNSIGNED", ["0", "4294967295"]),
    "bi": ("BIGINT", ["-9223372036854775808", "9223372036854775807"]),
    "biu": ("BIGINT UNSIGNED", ["0", "9223372036854775808", "18446744073709551615"]),
    "de": ("DECIMAL(10,2)", ["-99999999.99", "99999999.99", "0.10", "0"]),
    "d38": ("DECIMAL(38,30)", ["-99999999.999999999999999999999999999999", "1e-30"]),
    "d65": ("DECIMAL(65,30)", [f"-{'9' * 35}.{'9' * 30}", "1e-30", "0"]),
    "d650": ("DECIMAL(65,0)", ["9" * 65]),
    "deu": ("DECIMAL(20,4) UNSIGNED", ["9999999999999999.9999"]),
    "fl": ("FLOAT", ["16777216", "3.4028235e38", "-1.17549435e-38", "0.1", "1.5", "-0.0"]),
    "fl2": ("FLOAT(7,2)", ["99999.99", "0.1"]),
    "db": ("DOUBLE", ["1.7976931348623157e308", "5e-324", "1e23", "0.1", "-1.5"]),
    "f53": ("FLOAT(53)", ["0.1", "1e300"]),
    "b1": ("BIT(1)", ["b'0'", "b'1'"]),
    "b10": ("BIT(10)", ["b'1000000001'", "b'0'"]),
    "b64": ("BIT(64)", ["0x0102030405060708", "0xFFFFFFFFFFFFFFFF"]),
    "ch": ("CHAR(20)", _TEXTS),
    "vc": ("VARCHAR(20)", _TEXTS),
    "la": ("VARCHAR(20) CHARACTER SET latin1", ["'é€ÿ'", "''", "'a '"]),
    "gb": ("VARCHAR(20) CHARACTER SET gbk", ["'汉字漢字'", "'a'"]),
    "gb8": ("VARCHAR(20) CHARACTER SET gb18030", ["'汉字🎁'"]),
    "u16": ("VARCHAR(20) CHARACTER SET utf16", ["'é漢🎁'"]),
    "ub": ("VARCHAR(20) COLLATE utf8mb4_bin", ["'É'", "'é'"]),
    "ucb": ("VARCHAR(20) CHARACTER SET binary", ["0x00FF10", "'a '"]),
    "tt": ("TINYTEXT", _TEXTS),
    "tx": ("TEXT", [*_TEXTS, "REPEAT('é', 20000)"]),
    "mt": ("MEDIUMTEXT", ["REPEAT('漢', 100000)"]),
    "lt": ("LONGTEXT", _TEXTS),
    "nc": ("NCHAR(5)", ["'é漢'"]),
    "bn": ("BINARY(5)", ["'ab'", "0x6100", "0x0000000000"]),
    "vb": ("VARBINARY(9)", ["''", "0x6100", "0xFF00FE"]),
    "tb": ("TINYBLOB", ["0x00", "''"]),
    "bl": ("BLOB", ["REPEAT(0xFF00, 30000)", "0x0A0D"]),
    "mb": ("MEDIUMBLOB", ["REPEAT(0x00, 200000)"]),
    "lb": ("LONGBLOB", ["0x80"]),
    "da": (
        "DATE",
        [
            "'0001-01-01'",
            "'9999-12-31'",
            "'1582-10-10'",
            "'1000-02-28'",
            "'1970-01-01'",
            "'0000-00-00'",
            "'2024-05-00'",
            "'0000-05-01'",
        ],
    ),
    "dt": (
        "DATETIME",
        [
            "'0001-01-01'",
            "'9999-12-31 23:59:59'",
            "'1582-10-10 12:00:00'",
            "'1582-10-04 23:59:59'",
            "'1970-01-01'",
            "'0000-00-00'",
            "'2024-05-00'",
            "'0000-05-01'",
            "'2024-03-31 02:30:00'",
        ],
    ),
    "dt3": ("DATETIME(3)", ["'1969-12-31 23:59:59.999'", "'2024-02-29 01:02:03.5'"]),
    "dt6": ("DATETIME(6)", ["'9999-12-31 23:59:59.999999'", "'0099-01-01 00:00:00.000001'"]),
    "ts": ("TIMESTAMP NULL", ["'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'0000-00-00'"]),
    "ts3": ("TIMESTAMP(3) NULL", ["'2024-02-29 01:02:03.5'", "'2024-02-29 01:02:03'"]),
    "ts6": ("TIMESTAMP(6) NULL", ["'2038-01-19 03:14:07.999999'", "'2024-02-29 01:02:03.5'"]),
    "tm": ("TIME", ["'-838:59:59'", "'838:59:59'", "'00:00:00'", "'25:00:00'"]),
    "tm2": ("TIME(2)", ["'-00:00:00.01'", "'23:59:59.99'"]),
    "tm6": ("TIME(6)", ["'-838:59:58.999999'", "'00:00:00.000001'", "'-00:00:00.000001'"]),
    "ye": ("YEAR", ["1901", "2155", "2000", "0"]),
    "en": (
        "ENUM('a','x,y','p\\\\q','r\\\\,s','it''s','é')",
        ["'a'", "'x,y'", "'p\\\\q'", "'r\\\\,s'", "'it''s'", "'é'", "''"],
    ),
    "se": ("SET('p','q','b\\\\c')", ["'p'", "'p,q,b\\\\c'", "''"]),
    "js": (
        "JSON",
        [
            '\'{"b": [1, 2.5, "x,y: \\\\"z\\\\""], "a": {}, "": null}\'',
            "'[0.000561, 1e300, 0.1, 12345678.9, 1.5e-20, -2.2250738585072014e-308]'",
            "'[18446744073709551615, -9223372036854775808, 1e20, 123456789012345680000]'",
            "'null'",
            "'[10000000.0, 1e15]'",
            "JSON_ARRAY(CAST('2024-02-29 01:02:03.5' AS DATETIME(6)))",
            "JSON_ARRAY(CAST('-25:00:00.5' AS TIME(6)))",
            "JSON_ARRAY(CAST(1.50 AS DECIMAL(5,2)), CAST(0.123456789012345678 AS DECIMAL(30,20)))",
        ],
    ),
    "ge": ("GEOMETRY", [values[0] for values in _GEOMETRIES.values()]),
    **{name: (name.upper(), values) for name, values in _GEOMETRIES.items()},
    "gv": ("BIGINT GENERATED ALWAYS AS (i * 2) VIRTUAL", []),
    "gs": ("VARCHAR(30) GENERATED ALWAYS AS (CONCAT('<', vc, '>')) STORED", []),
    "iv": ("INT DEFAULT 7 INVISIBLE", ["9"]),
    "df": ("INT DEFAULT 7", ["9"]),  # NULLs in it must not become 7
    "dfd": ("DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3)", ["'2024-01-01'"]),
}
ROWS = max(len(values) for _, values in COLUMNS.values()) + 1
"""One more than the longest list: the last row is NULL throughout."""

SNAPSHOT, STREAM = "snapshot", "stream"
_FIRST_DAY_10 = "1582-10-20 12:00:00.000000"
DIFFERS: dict[tuple[str, str, str], str | None] = {
    # FLOAT: MySQL's text protocol has six digits.
    ("fl", "16777216", SNAPSHOT): "1.67772E7",
    ("fl", "3.4028235e38", SNAPSHOT): "3.40282E38",
    ("fl", "-1.17549435e-38", SNAPSHOT): "-1.17549E-38",
    # Dates that Debezium cannot hold.
    ("da", "'0000-05-01'", STREAM): None,
    ("dt", "'0000-05-01'", STREAM): None,
    ("dt", "'0000-05-01'", SNAPSHOT): "0001-05-01 00:00:00.000000",
    ("dt", "'1582-10-10 12:00:00'", SNAPSHOT): _FIRST_DAY_10,
    ("ye", "0", SNAPSHOT): "2000",
    # JSON values whose kind is gone from the stream's text.
    ("js", "'[10000000.0, 1e15]'", STREAM): "[10000000, 1000000000000000]",
    (
        "js",
        "JSON_ARRAY(CAST('2024-02-29 01:02:03.5' AS DATETIME(6)))",
        STREAM,
    ): '["2024-02-29 01:02:03.5"]',
    ("js", "JSON_ARRAY(CAST('-25:00:00.5' AS TIME(6)))", STREAM): '["26:0-1:0-1.00000-5"]',
}


def literal(name: str, row: int) -> str:
    values = COLUMNS[name][1]
    return values[row] if row < len(values) else "NULL"


def insert(row: int, first: int) -> str:
    names = [name for name, (_, values) in COLUMNS.items() if values]
    values = ", ".join([str(first + row), *(literal(name, row) for name in names)])
    return f"INSERT INTO types.every (id, {', '.join(names)}) VALUES ({values})"


REQUIRED = (
    "CREATE TABLE types.required (id INT PRIMARY KEY, da DATE NOT NULL, dd DATE NOT NULL DEFAULT "
    "'2020-01-02', ts TIMESTAMP NOT NULL, dt DATETIME NOT NULL)"
)
MOMENT = "'2024-02-29 01:02:03'"


def write(server: Server, first: int) -> None:
    """All values once more, with other ids: zero dates, too, in columns and in a key."""
    server.sql("SET sql_mode = ''", *[insert(row, first) for row in range(ROWS)])
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
    """``cells``: (column, id) to (text in MySQL, text in the lake, the FLOAT as Spark prints it)."""

    cells: dict[tuple[str, int], tuple[str | None, str | None, str | None]]
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
    columns = ", ".join(f"{name} {declared}" for name, (declared, _) in COLUMNS.items())
    server.sql(
        f"CREATE TABLE types.every (id INT PRIMARY KEY, {columns})",
        REQUIRED,
        "CREATE TABLE types.days (d DATE NOT NULL PRIMARY KEY, v INT)",
        "INSERT INTO types.days VALUES ('1970-01-01', 3)",
    )
    write(server, 0)
    file = cli.init("types", "types.*")
    assert (done := cli.once(file)).returncode == 0, done.stderr
    server.sql("SET sql_mode = ''", "DELETE FROM types.days WHERE v = 2")
    write(server, STREAMED)
    assert (done := cli.once(file)).returncode == 0, done.stderr
    pipeline = config.load(file)
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
    frame = read("types/every").selectExpr("id AS _id", "CAST(fl AS STRING) AS _fl", "*")
    found = {row["_id"]: row for row in frame.select("_id", "_fl", *lake).collect()}
    assert set(found) == set(source)
    cells = {
        (column.name, number): (
            source[number][index],
            found[number][column.name],
            found[number]._fl,
        )
        for index, column in enumerate(described)
        for number in source
    }
    return Both(cells, cli.audit(file)[1], lambda folder: read(folder).collect())


def test_every_value_is_the_same_in_mysql_in_a_snapshot_and_in_the_stream(both):
    differing = {}
    for (name, number), (source, lake, single) in both.cells.items():
        if source != lake and name != "id":
            way = STREAM if number >= STREAMED else SNAPSHOT
            shown = single if name == "fl" else lake
            differing[(name, literal(name, number % STREAMED), way)] = shown
    assert differing == DIFFERS


def test_no_difference_passes_in_silence(both):
    rows = {
        next(row for row in range(ROWS) if literal(name, row) == value)
        + (STREAMED if way == STREAM else 0)
        for name, value, way in DIFFERS
    }
    assert both.differences("every") == len(rows)


def test_every_row_of_the_type_table_is_among_the_tested_columns(both, server):
    rows = server.sql(
        "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'types'"
    )
    assert {name for name, _ in rows} >= set(COLUMNS)
    tested = {column_type(column).kind for column in _described(server)}
    assert {column_type(entry.column).kind for entry in ENTRIES} <= tested


def _described(server):
    with server.connect() as connection, connection.cursor() as cursor:
        return mysql.columns(cursor, TABLE)


def test_null_stays_null_whatever_the_default(both):
    for first in (0, STREAMED):
        last = {
            name: texts[:2]
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
