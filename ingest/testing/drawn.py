"""Histories from a seed: a table, and statements that change it in every way. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ingest.sample.values import Value, drawn, null
from ingest.testing.source import Source, Table

Draw = Callable[[random.Random], Any]
"""One value of a column."""


def write(
    rng: random.Random, table: Table, statements: int, draws: Mapping[str, Draw] | None = None
) -> None:
    """So many random statements on a table: inserts, updates, changes of a key, deletes, seldom a TRUNCATE, some of
    them together in a transaction, some behind the end of a file of the log.

    ``draws``: by column name, how a value of it is drawn; a column without one takes any of its type, boundaries and
    poison among them (``ingest.sample.values``), and NULL where it can be. Few values of a key make many changes of a
    row: ``{"id": lambda rng: rng.randrange(5)}``. The same ``rng`` draws the same.
    """
    left = statements
    while left > 0:
        together = min(left, rng.choice((1, 1, 1, 2, 3)))
        if rng.random() < 0.05:
            table.source.rotate()
        with table.source.transaction():
            for _ in range(together):
                _statement(rng, table, draws or {})
        left -= together


def splits(rng: random.Random, records: int, most: int = 4) -> Sequence[int]:
    """Sizes of one to ``most`` batches that come to so many records, none of them empty."""
    cuts = sorted({rng.randint(1, records) for _ in range(rng.randint(0, most - 1))} - {records})
    return [end - start for start, end in zip([0, *cuts], [*cuts, records], strict=True)]


def table_with_history(
    rng: random.Random,
    columns: Mapping[str, str],
    key: Sequence[str],
    statements: int = 20,
    draws: Mapping[str, Draw] | None = None,
    name: str = "d.t",
) -> Table:
    """A table of a source of its own, with a history behind it (:func:`write`)."""
    table = Source().table(name, columns, key)
    write(rng, table, statements, draws)
    return table


def _statement(rng: random.Random, table: Table, draws: Mapping[str, Draw]) -> None:
    new = {name: _drawn(rng, table, name, draws) for name in table.columns}
    row = rng.choice(table.held) if table.held else None
    kind = rng.random()
    if kind < 0.02:
        table.truncate()
    elif row is None or kind < 0.4:
        _put(table, new)
    elif kind < 0.8:
        named = rng.sample(list(new), rng.randint(1, len(new)))
        changed = {name: new[name] for name in named}
        before, after = table.key_of(row), table.key_of({**row, **changed})
        if before == after or not table.key or not table.has(after):  # else MySQL would refuse it
            table.update(before, **changed)
    else:
        table.delete(table.key_of(row))


def _put(table: Table, row: Mapping[str, Value]) -> None:
    if table.key and table.has(table.key_of(row)):
        table.update(table.key_of(row), **row)
    else:
        table.insert(**row)


def _drawn(rng: random.Random, table: Table, name: str, draws: Mapping[str, Draw]) -> Value:
    if draw := draws.get(name):
        return table.value(name, draw(rng))
    if table.columns[name]["optional"] and rng.random() < 0.2:
        return null(table.kinds[name])
    return drawn(rng, table.kinds[name])
