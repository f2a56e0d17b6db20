"""What waits in a lake's quarantine, for people: how many changes per table and reason, and each of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from deltalake.exceptions import TableNotFoundError

from ingest.lake.delta.delta_sql import queried
from ingest.lake.files.object_files import opened
from ingest.model.names import quarantine_path, quoted_for_delta_rs
from ingest.model.topics import TableId


@dataclass(frozen=True)
class Waiting:
    """Changes of one table that wait for one reason; ``table`` is a topic's name where the record could
    not be read.
    """

    table: str
    reason: str
    changes: int

    def as_json(self) -> dict[str, object]:
        """For ``--json``."""
        return asdict(self)


def waiting_list(lake: str) -> list[Waiting]:
    """All of it, in order of table and reason; empty where nothing waits."""
    try:
        table = opened(quarantine_path(lake))
    except TableNotFoundError:
        return []
    groups = queried(
        table,
        'SELECT database, "table", topic, reason, count(*) AS changes FROM rows WHERE settled IS NULL '
        'GROUP BY database, "table", topic, reason',
    )
    found = [Waiting(_named(group), group["reason"], group["changes"]) for group in groups]
    return sorted(found, key=lambda one: (one.table, one.reason))


def count(lake: str) -> int:
    """How many changes wait."""
    try:
        table = opened(quarantine_path(lake))
    except TableNotFoundError:
        return 0
    (found,) = queried(table, "SELECT count(*) AS changes FROM rows WHERE settled IS NULL")
    return int(found["changes"])


@dataclass(frozen=True)
class Record:
    """One change, as Kafka brought it at ``at``. ``table``: see :class:`Waiting`; ``batch_id``: that set it aside;
    ``settled``: see ``quarantine_rows.SCHEMA``; ``key``, ``value``: None where there is none, or none was asked for.
    """

    table: str
    topic: str
    partition: int
    offset: int
    reason: str
    batch_id: int
    settled: int | None
    at: datetime | None
    key: bytes | None = None
    value: bytes | None = None


def records(lake: str, *, dropped: bool = False) -> list[Record]:
    """All that wait, or all that a person gave up, in Kafka's order; without keys and values."""
    try:
        table = opened(quarantine_path(lake))
    except TableNotFoundError:
        return []
    listed = ", ".join(map(quoted_for_delta_rs, _PLACED))
    which = "settled < 0" if dropped else "settled IS NULL"
    rows = queried(table, f"SELECT {listed} FROM rows WHERE {which}")
    found = [Record(_named(row), *(row[name] for name in _PLACED[2:])) for row in rows]
    return sorted(found, key=lambda one: (one.table, one.topic, one.partition, one.offset))


def with_bytes(lake: str, found: Sequence[Record]) -> list[Record]:
    """The same records with their keys and values, which may be large: for few."""
    if not found:
        return []
    offsets = ", ".join(str(one.offset) for one in found)
    rows = queried(
        opened(quarantine_path(lake)),
        'SELECT topic, "partition", "offset", batch_id, "key", "value" FROM rows '
        f'WHERE "offset" IN ({offsets})',
    )
    # A topic that is made again gives offsets anew, so records of several batches may have one place.
    placed = ("topic", "partition", "offset", "batch_id")
    held = {tuple(row[name] for name in placed): row for row in rows}
    return [
        replace(one, key=row["key"], value=row["value"])
        for one in found
        for row in [held[one.topic, one.partition, one.offset, one.batch_id]]
    ]


_PLACED = (
    *("database", "table", "topic", "partition", "offset", "reason", "batch_id", "settled"),
    "timestamp",
)


@dataclass(frozen=True)
class Group:
    """Changes of one table, partition and reason. ``first``, ``last``: their offsets; ``since``: the batch that set the first
    of them aside, and ``at`` when Kafka took that.
    """

    table: str
    partition: int
    reason: str
    changes: int
    first: int
    last: int
    since: int
    at: datetime | None

    def as_json(self) -> dict[str, object]:
        """For ``--json``."""
        return asdict(self)


def grouped(found: Iterable[Record]) -> list[Group]:
    """In order of table, partition and reason."""
    groups: dict[tuple[str, int, str], list[Record]] = {}
    for one in found:
        groups.setdefault((one.table, one.partition, one.reason), []).append(one)
    return [
        Group(
            *of,
            len(ones),
            min(one.offset for one in ones),
            max(one.offset for one in ones),
            min(one.batch_id for one in ones),
            min((one.at for one in ones if one.at), default=None),
        )
        for of, ones in sorted(groups.items())
    ]


def _named(row: dict[str, Any]) -> str:
    return str(TableId(row["database"], row["table"])) if row["table"] else str(row["topic"])
