"""The same filters, asked of MySQL: for types whose comparison a lake shares (docs/types.md, Comparisons)."""

from __future__ import annotations

from tests.outside.predicates import Predicate
from tests.outside.values import KINDS

UNSHARED = {
    "DECIMAL(65,30)",
    "TIME(6)",
    "ENUM('','a','Z','é')",
    "SET('a','b,','Z')",
    "JSON",
}
"""Of the drawn types those that docs/types.md names as compared otherwise."""

SHARED = [one for one in KINDS if one not in UNSHARED]
_BINARY = "utf8mb4 COLLATE utf8mb4_0900_bin"


def declared(mysql: str) -> str:
    """As a column that may be NULL. Text has a binary collation."""
    if mysql.startswith("VARCHAR"):
        return f"{mysql} CHARACTER SET {_BINARY} NULL"
    return f"{mysql} NULL"


def literal(mysql: str, text: str | None) -> str:
    """A value of ``values`` in MySQL's SQL, to be compared with a column of that type or written to it."""
    if text is None:
        return "NULL"
    if mysql.startswith("VARCHAR"):
        return f"CONVERT(_utf8mb4 X'{text.encode().hex()}' USING utf8mb4) COLLATE utf8mb4_0900_bin"
    if mysql == "BIT(1)":
        return "1" if text == "true" else "0"
    if mysql.startswith("BIT"):
        return str(int(text, 16))
    if mysql.startswith("VARBINARY"):
        return f"X'{text}'"
    if mysql == "DATE":
        return f"DATE'{text}'"
    if mysql.startswith(("DATETIME", "TIMESTAMP")):
        return f"TIMESTAMP'{text}{'+00:00' if mysql.startswith('TIMESTAMP') else ''}'"
    if mysql in {"FLOAT", "DOUBLE"}:
        return f"CAST('{text}' AS {mysql})"
    return text


def where(one: Predicate) -> str:
    """After WHERE."""
    if one.op == "null":
        return f"{one.column.name} IS NULL"
    values = [literal(one.column.mysql, value) for value in one.values]
    if one.op == "in":
        return f"{one.column.name} IN ({', '.join(values)})"
    return f"{one.column.name} {one.op} {values[0]}"
