"""Whether a table has the same columns in two of its versions, as its log has them. Pure.

A column is the same by its name, its type and, where both versions map columns, its name in the files: one that was dropped and came again under
its old name is another one. Neither order, comments and defaults nor what may stand in a column make it another one; nor does it when column
mapping is switched on, which leaves the names in the files as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_IN_FILES = "delta.columnMapping.physicalName"
_PARTS = ("elementType", "keyType", "valueType")
"""Of arrays and maps."""


def are_same(one: str, other: str) -> bool:
    """Of the ``schemaString`` of either."""
    return _is_same(json.loads(one), json.loads(other))


def _is_same(one: Any, other: Any) -> bool:
    """Of types, as Delta's JSON has them: a name, or an object for what has parts."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return bool(one == other)
    if one["type"] != other["type"]:
        return False
    fields, others = _fields(one), _fields(other)
    return (
        fields.keys() == others.keys()
        and all(_is_same_field(fields[name], others[name]) for name in fields)
        and all(_is_same(one.get(part), other.get(part)) for part in _PARTS)
    )


def _is_same_field(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    held, there = (field["metadata"].get(_IN_FILES) for field in (one, other))
    return (None in (held, there) or held == there) and _is_same(one["type"], other["type"])


def _fields(type_: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {field["name"]: field for field in type_.get("fields", ())}
