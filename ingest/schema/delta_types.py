"""Types as SQL writes them, read as Delta and Spark keep them: JSON. Pure.

Spark's own parser takes a second to warm up in each start of a job. These are the types that we write ourselves: of the
lake's columns, and of the tables that are ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_TOKEN = re.compile(r"\w+|[<>(),:]")

_OTHERWISE = {"bigint": "long", "int": "integer", "smallint": "short", "tinyint": "byte"}
"""Names that SQL has for what JSON calls otherwise."""


def type_json(text: str) -> Any:
    """One type: `bigint`, `decimal(10,2)`, `array<...>`, `struct<name: type, ...>`."""
    type_, left = _type(_TOKEN.findall(text))
    assert not left
    return type_


def fields_json(text: str) -> dict[str, Any]:
    """A table's columns: `name type, ...`."""
    fields, left = _fields(_TOKEN.findall(text))
    assert not left
    return struct_json(fields)


def struct_json(fields: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Nullable fields of these names and types, as JSON has them."""
    named = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in fields]
    return {"type": "struct", "fields": named}


def sql_type(said: Any) -> str:
    """The inverse of :func:`type_json`, as Spark writes it."""
    if not isinstance(said, dict):
        return next((text for text, name in _OTHERWISE.items() if name == said), str(said))
    if said["type"] == "array":
        return f"array<{sql_type(said['elementType'])}>"
    fields = ", ".join(f"`{one['name']}`: {sql_type(one['type'])}" for one in said["fields"])
    return f"struct<{fields}>"


def _type(tokens: list[str]) -> tuple[Any, list[str]]:
    name, left = tokens[0].lower(), tokens[1:]
    if name == "array":
        element, left = _type(left[1:])
        return {"type": "array", "elementType": element, "containsNull": True}, left[1:]
    if name == "struct":
        fields, left = _fields(left[1:])
        return struct_json(fields), left[1:]
    if left[:1] == ["("]:
        end = left.index(")") + 1
        return name + "".join(left[:end]), left[end:]
    return _OTHERWISE.get(name, name), left


def _fields(tokens: list[str]) -> tuple[list[tuple[str, Any]], list[str]]:
    found, left = [], [",", *tokens]
    while left[:1] == [","]:
        name, left = left[1], left[2:]
        type_, left = _type(left[left[0] == ":" :])
        found.append((name, type_))
    return found, left
