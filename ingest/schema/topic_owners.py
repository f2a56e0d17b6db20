"""Which topic each table's changes belong to. Pure.

Debezium writes each table's changes to a topic of its own. A record of another table that stands there was written by somebody else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ingest.model.topics import TableId

Owners = Mapping[TableId, str]
"""By table, the topic whose changes are its own."""


def owners(
    known: Collection[TableId], topics: Collection[str] | None, topic: Callable[[TableId], str]
) -> Owners:
    """Of these topics (None: of all); where one of them belongs to no table that is known, of all tables, as each may stand in it. ``topic``: a table's.

    Two tables may own one topic, as one by a RENAME comes after the other.
    """
    every = {table: topic(table) for table in known}
    if topics is None:
        return every
    found = {table: name for table, name in every.items() if name in topics}
    return found if set(topics) <= set(found.values()) else every
