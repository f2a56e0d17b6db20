"""A table's definition as it was streamed, beside MySQL's own: another spelling is no difference, all else is named.

Names and results are those of ``tests.ddl.spellings`` on MySQL 8.0.33 and Debezium 3.6.1.
"""

from dataclasses import replace

import pytest

from ingest.schema import definition_differences, mysql_types
from ingest.schema.definition_differences import Told, differences
from tests.support.declared_tables import ID, of, version
from tests.support.mutants import Mutant


def theirs(*columns, key=("id",), unique=()):
    return Told(columns, key, unique)


V = of("VARCHAR", 9, charset="utf8mb4")


@pytest.mark.parametrize(
    ("ours", "other"),
    [
        (V, V),
        (of("INTEGER"), of("INT")),
        (of("NVARCHAR", 9, charset="utf8"), of("VARCHAR", 9, charset="utf8mb3")),
        (of("VARCHAR", 9, charset="LATIN1"), of("VARCHAR", 9, charset="latin1")),
        (of("TEXT", 70000, charset="utf8mb4"), of("MEDIUMTEXT", charset="utf8mb4")),
        (of("ENUM", 1, labels=('"a"', "'b''c'")), of("ENUM", labels=("'a'", "'b''c'"))),
        (of("VECTOR"), of("VECTOR")),
    ],
)  # fmt: skip
def test_two_spellings_of_one_column_are_alike(ours, other):
    assert differences(version(ID, ours), theirs(ID, other)) == []


@pytest.mark.parametrize(
    ("ours", "other"),
    [
        (of("BOOLEAN"), of("TINYINT", 1)),
        (of("REAL"), of("DOUBLE")),
        (of("REAL UNSIGNED"), of("DOUBLE UNSIGNED")),
        (of("VARCHAR", 9, charset="binary"), of("VARBINARY", 9)),
        (V, of("VARCHAR", 9, charset="latin1")),
        (V, of("VARBINARY", 9)),
        (of("REAL"), of("FLOAT")),
        (of("TIME"), of("TIME", 3)),
        (of("TIMESTAMP"), of("TIMESTAMP", optional=False)),
        (of("ENUM", 1, labels=("'a '",)), of("ENUM", labels=("'a'",))),
        (of("ENUM", 1, labels=("x'61'",)), of("ENUM", labels=("'a'",))),
        (V, replace(V, name="w")),
    ],
)
def test_a_column_that_is_another_to_mysql_is_named(ours, other):
    (why,) = differences(version(ID, ours), theirs(ID, other))
    assert "'v'" in why or "(id, v)" in why


def test_a_key_that_mysql_no_longer_has_is_named_and_a_unique_one_in_its_place_is_not():
    assert differences(version(ID), theirs(ID, key=()))
    assert differences(version(ID), theirs(ID, key=(), unique=(("id",),))) == []
    assert differences(version(ID, key=()), theirs(ID))
    assert differences(version(ID, key=()), theirs(ID, key=())) == []


MUTANTS = [
    Mutant(
        "a REAL is the DOUBLE that MySQL makes of it",
        mysql_types,
        "_REAL",
        lambda _: mysql_types._SIMPLE["DOUBLE"],
        lambda: test_a_column_that_is_another_to_mysql_is_named(of("REAL"), of("DOUBLE")),
    ),
    Mutant(
        "any character set will do",
        definition_differences,
        "_charset",
        lambda _: lambda column: "",
        lambda: test_a_column_that_is_another_to_mysql_is_named(
            V, of("VARCHAR", 9, charset="latin1")
        ),
    ),
    Mutant(
        "a BOOLEAN is like a TINYINT(1)",
        mysql_types,
        "_TRUTHS",
        lambda _: set(),
        lambda: test_a_column_that_is_another_to_mysql_is_named(of("BOOLEAN"), of("TINYINT", 1)),
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_each_mutant_is_killed_by_the_test_that_names_it(mutant):
    mutant.killed_by()
    with mutant.in_place(), pytest.raises(ValueError, match="not enough values"):  # names nothing
        mutant.killed_by()
