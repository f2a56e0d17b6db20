"""Predicates as readers' SQL has them.

A predicate is ``(column, type, operator, values)``: Delta's name of the type; operators ``= < >= in null``; values as
texts (``values``).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

Predicate = tuple[str, str, str, list[str]]

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_DUCKDB = {
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
}
_ARROW = {
    "byte": "Int8",
    "short": "Int16",
    "integer": "Int32",
    "long": "Int64",
    "float": "Float32",
    "double": "Float64",
    "boolean": "Boolean",
    "date": "Date32",
    "timestamp": 'Timestamp(Microsecond, Some("UTC"))',
    "timestamp_ntz": "Timestamp(Microsecond, None)",
}


def duckdb(predicate: Predicate) -> str:
    """After WHERE, in DuckDB."""
    return _sql(predicate, _duckdb_literal)


def datafusion(predicate: Predicate) -> str:
    """After WHERE, in DataFusion."""
    return _sql(predicate, _datafusion_literal)


def _sql(predicate: Predicate, literal: Callable[[str, str], str]) -> str:
    column, kind, op, values = predicate
    name = '"' + column.replace('"', '""') + '"'
    if op == "null":
        return f"{name} IS NULL"
    texts = [literal(kind, one) for one in values]
    return f"{name} IN ({', '.join(texts)})" if op == "in" else f"{name} {op} {texts[0]}"


def _duckdb_literal(kind: str, value: str) -> str:
    if kind == "string":  # a NUL cannot stand in a statement
        return f"decode(from_base64('{base64.b64encode(value.encode()).decode()}'))"
    if kind == "binary":
        return f"unhex('{value}')"
    if kind == "timestamp":
        return f"CAST('{value}+00' AS TIMESTAMPTZ)"
    return f"CAST('{value}' AS {_DUCKDB.get(kind, kind)})"


def _datafusion_literal(kind: str, value: str) -> str:
    if kind == "string":
        return "'" + value.replace("'", "''") + "'"
    if kind == "binary":
        return f"X'{value}'"
    if found := _DECIMAL.fullmatch(kind):
        return f"arrow_cast('{value}', 'Decimal128({found[1]}, {found[2]})')"
    text = f"{value}Z" if kind == "timestamp" else value
    return f"arrow_cast('{text}', '{_ARROW[kind]}')"
