"""Spellings of MySQL's grammar, as Debezium writes them in the stream: types, and the names in a key.

Names and results are those of ``tests.ddl.spellings`` on MySQL 8.0.33 and Debezium 3.6.1.
"""

import pyarrow as pa
import pytest

from ingest.arrow import column_values
from ingest.schema import catalog as catalog_module
from ingest.schema import mysql_types
from ingest.schema.catalog import Catalog
from ingest.schema.mysql_types import Column, Kind, column_type
from tests.support.declared_tables import column, record
from tests.support.mutants import Mutant

SPELLINGS = {
    "tinyint": "BOOL, BOOLEAN, INT1, TINYINT SIGNED",
    "smallint": "INT1 UNSIGNED, TINYINT UNSIGNED ZEROFILL, INT2, SMALLINT SIGNED",
    "int": "INT2 UNSIGNED, INT3, MIDDLEINT, MIDDLEINT UNSIGNED, INT4, INTEGER, MEDIUMINT UNSIGNED ZEROFILL",
    "bigint": "INT4 UNSIGNED ZEROFILL, INTEGER UNSIGNED, INT ZEROFILL, INT ZEROFILL UNSIGNED, INT8",
    "decimal(20,0)": "SERIAL, INT8 UNSIGNED, BIGINT UNSIGNED ZEROFILL",
    "decimal(10,0)": "DEC, FIXED, NUMERIC, NUMERIC UNSIGNED ZEROFILL, DECIMAL UNSIGNED",
    "float": "FLOAT4, FLOAT UNSIGNED",
    "double": "FLOAT8, REAL, REAL UNSIGNED, DOUBLE PRECISION, DOUBLE PRECISION UNSIGNED ZEROFILL",
    "string": "CHARACTER, CHAR BINARY, VARCHAR BINARY, VARCHARACTER, CHAR VARYING, CHARACTER VARYING, NCHAR, "
    "NVARCHAR, NATIONAL CHAR, NATIONAL CHARACTER, NATIONAL VARCHAR, NATIONAL VARCHARACTER, NATIONAL CHAR VARYING, "
    "NATIONAL CHARACTER VARYING, NCHAR VARYING, NCHAR VARCHAR, LONG, LONG VARCHAR, LONG CHAR VARYING, "
    "LONG CHARACTER VARYING, LONG VARCHARACTER",
    "binary": "LONG VARBINARY, CHAR BYTE",
    "struct<srid: int, wkb: binary>": "GEOMCOLLECTION, GEOMETRYCOLLECTION",
}


@pytest.mark.parametrize(
    ("name", "delta"),
    [(name, delta) for delta, names in SPELLINGS.items() for name in names.split(", ")],
)
def test_every_spelling_of_a_type_is_that_type(name, delta):
    assert column_type(Column("c", name, None, None, optional=True)).delta == delta


def test_a_streamed_boolean_is_read_as_what_comes_and_kept_as_mysql_keeps_it():
    kind = column_type(Column("c", "BOOLEAN", None, None, optional=True))
    assert (kind.kind, kind.json, kind.delta) == (Kind.TRUTH, "boolean", "tinyint")


def test_true_and_false_are_one_and_nought_in_the_driver():
    kind = column_type(Column("c", "BOOL", None, None, optional=True))
    raw = pa.array([True, False, None])
    found = column_values.value(raw, kind, pa.array([True] * 3))
    assert (found.type, found.to_pylist()) == (pa.int8(), [1, 0, None])


def test_a_key_is_spelt_as_its_columns_are_declared():
    catalog = Catalog()
    catalog.add(record(100, "CREATE", [column("Id"), column("part")], key=("PART", "iD")), 0)
    assert catalog.current()[0].key == ("part", "Id")


MUTANTS = [
    Mutant(
        "a streamed BOOLEAN is the number that a snapshot has",
        mysql_types,
        "normalised",
        lambda original: lambda name: original(name).replace("BOOLEAN", "TINYINT"),
        test_a_streamed_boolean_is_read_as_what_comes_and_kept_as_mysql_keeps_it,
    ),
    Mutant(
        "a key is spelt as the key's clause spells it",
        catalog_module,
        "_key",
        lambda _: lambda names, columns: tuple(names),
        test_a_key_is_spelt_as_its_columns_are_declared,
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_each_mutant_is_killed_by_the_test_that_names_it(mutant):
    mutant.killed_by()
    with mutant.in_place(), pytest.raises(AssertionError):
        mutant.killed_by()
