"""From a lake table's columns and a new schema version to a plan, or a refusal. Pure.

Today's reach: columns are added (existing rows get NULL, or the constant default that MySQL gave
them); a change that keeps every column's Delta type needs nothing. What would lose or silently
NULL data is refused with its statement, and the table's changes stay in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ingest.catalog import SchemaVersion
from ingest.mysql_types import Column, Kind, column_type

_CONSTANT_KINDS = {Kind.INTEGER, Kind.UNSIGNED_BIGINT, Kind.DECIMAL, Kind.TEXT, Kind.DOUBLE}


@dataclass(frozen=True)
class AddColumns:
    """Columns to append; ``defaults`` holds what existing rows get, as text, for some of them."""

    columns: tuple[Column, ...]
    defaults: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Nothing:
    """The lake's columns already fit."""


@dataclass(frozen=True)
class Refusal:
    """Why this change cannot be applied without losing something."""

    reason: str


def plan(lake: Mapping[str, str], version: SchemaVersion) -> AddColumns | Nothing | Refusal:
    """Compare the lake's columns (name to Delta type, without ours) with a schema version."""
    wanted = {column.name: column_type(column).delta for column in version.columns}
    gone = [name for name in lake if name not in wanted]
    if gone:
        return Refusal(f"the column {gone[0]!r} was dropped or renamed")
    for name, delta in wanted.items():
        if name in lake and _plain(lake[name]) != _plain(delta):
            return Refusal(f"the column {name!r} changed from {lake[name]} to {delta}")
    added = tuple(column for column in version.columns if column.name not in lake)
    if not added:
        return Nothing()
    defaults = []
    for column in added:
        if column.default is not None:
            if column_type(column).kind not in _CONSTANT_KINDS:
                return Refusal(
                    f"only MySQL knows what existing rows hold in the new column {column.name!r}"
                )
            defaults.append((column.name, column.default))
        elif not column.optional:
            return Refusal(
                f"the new column {column.name!r} is NOT NULL without a default, so existing rows "
                "got MySQL's implicit value"
            )
    return AddColumns(added, tuple(defaults))


def _plain(delta: str) -> str:
    return delta.replace(" ", "").lower()
