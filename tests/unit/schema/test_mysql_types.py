import pytest

from ingest.schema.mysql_types import Column, Kind, UnknownType, column_type


def of(type_name, length=None, scale=None, charset=None):
    return column_type(Column("c", type_name, length, scale, optional=True, charset=charset))


@pytest.mark.parametrize(
    ("type_name", "length", "scale", "delta"),
    [
        ("TINYINT", 1, None, "tinyint"),
        ("BOOLEAN", None, None, "tinyint"),
        ("TINYINT UNSIGNED", None, None, "smallint"),
        ("SMALLINT UNSIGNED", None, None, "int"),
        ("MEDIUMINT UNSIGNED", None, None, "int"),
        ("INT UNSIGNED ZEROFILL", None, None, "bigint"),
        ("BIGINT", None, None, "bigint"),
        ("BIGINT UNSIGNED", None, None, "decimal(20,0)"),
        ("SERIAL", None, None, "decimal(20,0)"),
        ("DECIMAL", 38, 30, "decimal(38,30)"),
        ("NUMERIC UNSIGNED", 20, 4, "decimal(20,4)"),
        ("DECIMAL", None, None, "decimal(10,0)"),
        ("DECIMAL", 65, 30, "string"),
        ("FLOAT", None, None, "float"),
        ("FLOAT", 53, None, "double"),
        ("DOUBLE PRECISION", None, None, "double"),
        ("BIT", 1, None, "boolean"),
        ("BIT", 9, None, "binary"),
        ("DATE", None, None, "date"),
        ("DATETIME", 6, None, "timestamp_ntz"),
        ("TIMESTAMP", 6, None, "timestamp"),
        ("TIME", 2, None, "string"),
        ("YEAR", None, None, "int"),
        ("ENUM", 1, None, "string"),
        ("SET", 3, None, "string"),
        ("JSON", None, None, "string"),
        ("LONGBLOB", None, None, "binary"),
        ("NATIONAL VARCHAR", 3, None, "string"),
    ],
)
def test_every_mysql_type_has_its_delta_type(type_name, length, scale, delta):
    assert of(type_name, length, scale).delta == delta


def test_tinyint_1_stays_a_number_and_only_bit_1_is_boolean():
    assert of("TINYINT", 1).kind is Kind.INTEGER
    assert of("BIT", 1).kind is Kind.BOOLEAN
    assert of("BIT").kind is Kind.BOOLEAN


def test_bytes_that_the_stream_took_for_text_are_bytes_in_the_lake_and_never_read():
    assert of("VARCHAR", 10, charset="binary").kind is Kind.GARBLED
    assert of("VARCHAR", 10, charset="binary").delta == "binary"


def test_an_unknown_type_is_refused_by_name():
    with pytest.raises(UnknownType, match="VECTOR"):
        of("VECTOR")
