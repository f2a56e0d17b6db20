"""Whether a table is to us what it is to MySQL. Pure.

Of a statement in the stream we have Debezium's own reading, by a grammar of its own. Where that is another table than
MySQL's, rows come in another form than they should (a text by the wrong character set, a number as true or false),
and nothing in a row shows it. MySQL's information schema does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ingest.schema.catalog import SchemaVersion
from ingest.schema.mysql_types import Column, Kind, UnknownType, column_type, unquoted


@dataclass(frozen=True)
class Told:
    """A table as the information schema tells it. ``unique``: the columns of its other unique keys that no NULL can
    be in, of which Debezium takes one where there is no primary key.
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...]
    unique: tuple[tuple[str, ...], ...] = ()


_WORDS = {
    Kind.TRUTH: "comes as true or false, and MySQL's is a number",
    Kind.ROUGH: "comes cut to single precision",
    Kind.LOST: "comes as NULL",
    Kind.GARBLED: "comes as text, and MySQL's is bytes",
}


def differences(version: SchemaVersion, told: Told) -> list[str]:
    """What of our reading is not MySQL's, in words; empty where they are alike."""
    ours = {column.name: column for column in version.columns}
    theirs = {column.name: column for column in told.columns}
    if list(ours) != list(theirs):
        return [f"its columns are {_names(ours)} to us and {_names(theirs)} to MySQL"]
    pairs = ((ours[name], theirs[name]) for name in ours)
    found = [
        f"its column {one.name!r} {why}" for one, other in pairs if (why := _unlike(one, other))
    ]
    keys = {told.key} if told.key else {(), *told.unique}
    if version.key not in keys:
        found.append(f"its key is {_names(version.key)} to us and {_names(told.key)} to MySQL")
    return found


def _names(names: Sequence[str] | dict[str, Column]) -> str:
    return f"({', '.join(names)})"


def _unlike(ours: Column, theirs: Column) -> str:
    try:
        one, other = column_type(ours), column_type(theirs)
    except UnknownType:
        return ""  # what has no place in the lake is refused elsewhere
    if one.kind in _WORDS:
        return _WORDS[one.kind]
    if (one.kind, one.delta, one.digits) != (other.kind, other.delta, other.digits):
        return f"is {ours.type_name} to us and {theirs.type_name} to MySQL"
    if one.kind in (Kind.TEXT, Kind.ENUM, Kind.SET) and _charset(ours) != _charset(theirs):
        return f"has the character set {_charset(ours)} to us and {_charset(theirs)} to MySQL"
    if one.kind in (Kind.ENUM, Kind.SET) and _labels(ours) != _labels(theirs):
        return "has other labels to us than to MySQL"
    if ours.optional != theirs.optional:
        return "may be NULL to one of us and not to MySQL" if ours.optional else "is NOT NULL to us"
    return ""


def _charset(column: Column) -> str:
    name = (column.charset or "binary").lower()
    return "utf8mb3" if name == "utf8" else name


def _labels(column: Column) -> list[str]:
    return [unquoted(text) if text[:1] in ("'", '"') else text for text in column.labels]
