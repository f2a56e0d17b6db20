"""A filter finds in the lake what it finds in MySQL: rows that came by a snapshot and by the stream, file by file."""

import random

import pytest

from tests.kills.lab import Lab
from tests.outside import by_mysql
from tests.outside.filters import READERS, differences, passed_over
from tests.outside.log import Log
from tests.outside.predicates import drawn
from tests.outside.tables import FILES, ROWS, Made, columns
from tests.support import lake

SEED = 20_261


@pytest.fixture
def lab(stack, tmp_path):
    made = Lab(stack, tmp_path, name="filtered")
    yield made
    made.close()


@pytest.mark.long  # each reader by itself, in every type: tests/capability/test_filters.py
def test_mysql_and_each_reader_find_the_same_rows_by_a_filter(lab, tmp_path):
    chance = random.Random(SEED)
    held = [one for one in columns(chance) if one.mysql in by_mysql.SHARED]
    asked = drawn(held, chance, values=3)
    declared = ", ".join(f"{one.name} {by_mysql.declared(one.mysql)}" for one in held)
    lab.sql(
        "DROP DATABASE IF EXISTS filtered",
        "CREATE DATABASE filtered",
        f"CREATE TABLE filtered.t (id INT PRIMARY KEY, {declared})",
    )

    def write(file: int) -> None:
        rows = range(file * ROWS, (file + 1) * ROWS)
        values = ", ".join(
            f"({', '.join([str(row), *(by_mysql.literal(one.mysql, one.values[row]) for one in held)])})"
            for row in rows
        )
        lab.sql("SET time_zone = '+00:00'", f"INSERT INTO filtered.t VALUES {values}")

    path = lab.lake / "filtered" / "t"

    def arrived(rows: int) -> bool:
        return (path / "_delta_log").exists() and lake.read(path).num_rows == rows

    write(0)
    lab.begin("filtered.*")
    lab.until(lambda: arrived(ROWS), "the snapshot", 180)
    for file in range(1, FILES):
        write(file)
        lab.until(lambda count=(file + 1) * ROWS: arrived(count), f"file {file}")
    lab.close()

    made = Made(path, held)
    assert len(Log.read(path).files) >= 3
    for one in asked:
        sql = f"SELECT id FROM filtered.t WHERE {by_mysql.where(one)} ORDER BY id"
        found = [row[0] for row in lab.sql("SET time_zone = '+00:00'", sql)]
        assert found == one.right(), f"{one}: MySQL finds {found}, not {one.right()}"
    assert differences(made, asked, READERS) == []
    assert all(passed_over(made, asked, READERS, tmp_path).values())
