"""Tables that a snapshot reads by a statement of ours: those with an ENUM or SET in the binary character set. Pure.

MySQL sends their labels as bytes, and Debezium 3.6.1 takes bytes for no label: NULL where the column may be NULL, and
else its task ends (``BinlogValueConverters.convertEnumToString``; the stream has numbers there, which it reads
rightly). Our statement marks what it reads. What comes from a snapshot without a mark was read by another statement,
and is no value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ingest.model.names import quoted
from ingest.model.topics import TableId

LABEL = "="
"""Before each label."""
NULL = "-"
"""For none."""

SETTING = "snapshot.select.statement.overrides"
"""Debezium's setting for other statements: the tables, and below it one for each."""


@dataclass(frozen=True)
class OwnSelect:
    """Of a table: columns of such ``labels``, and ``invisible`` columns, which MySQL leaves out of ``*``."""

    labels: tuple[str, ...]
    invisible: tuple[str, ...] = ()


def statement(table: TableId, of: OwnSelect) -> str:
    """What a snapshot is to read of a table. All of the row, whatever was added meanwhile, and then the columns of labels
    once more: of two columns of a name Debezium takes the last. One that was given another character set meanwhile
    comes without a mark, as it should.
    """
    marked = [_marked(quoted(column)) for column in of.labels]
    listed = ", ".join(["*", *map(quoted, of.invisible), *marked])
    return f"SELECT {listed} FROM {quoted(table.database)}.{quoted(table.name)}"


def none(table: TableId) -> str:
    """A statement by which a snapshot reads a table's definition and no row."""
    return f"SELECT * FROM {quoted(table.database)}.{quoted(table.name)} WHERE FALSE"


def _marked(name: str) -> str:
    # Bytes that are no UTF-8 become NULL, and so come without a mark.
    label = f"CONCAT('{LABEL}', CONVERT({name} USING utf8mb4))"
    either = f"IF(CHARSET({name}) = 'binary', IF({name} IS NULL, '{NULL}', {label}), {name})"
    return f"CONVERT({either} USING utf8mb4) AS {name}"


def settings(tables: Mapping[TableId, OwnSelect]) -> dict[str, str]:
    """The connector's settings that have a snapshot of its own read these tables so."""
    made = {name: statement(t, tables[t]) for t in sorted(tables) if (name := listed(t))}
    # Connect would take that for one of its references and put a secret there: a column may be called anything.
    plain = {name: text for name, text in made.items() if "${" not in text}
    if not plain:
        return {}
    each = {f"{SETTING}.{name}": text for name, text in plain.items()}
    return {SETTING: ",".join(plain), **each}


def of_settings(config: Mapping[str, str]) -> dict[str, str]:
    """Those among a connector's settings."""
    return {key: text for key, text in config.items() if f"{key}.".startswith(f"{SETTING}.")}


def listed(table: TableId) -> str | None:
    """A table as Debezium's settings and signals take its name; None where they cannot."""
    names = (table.database, table.name)
    return '"{}"."{}"'.format(*names) if all(map(_TAKEN.fullmatch, names)) else None


_TAKEN = re.compile(r"[^,\"'`\\\[\](){}*+?]+")
"""Debezium cuts its list of tables at commas, doubles of quotes are not told from quotes in all places, and a signal's
name has to be a regular expression, though it is none.
"""
