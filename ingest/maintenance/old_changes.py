"""Changes in a change log that are older than so many days, removed: batch by batch, from the first on.

A log is read in the order of its batches, so what goes is its beginning: all batches up to the last one that has a change of before, as
long as no change of the days that stay comes before that. So a TRUNCATE or a DDL, of which the log has no time, goes only where
an older change comes behind it. A file that holds both is cut in two first, which changes no row; then files go as a whole. A
stream that reads the log meets a commit that only removes files, which `ignoreDeletes` passes over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone

from arro3.core import RecordBatchReader
from deltalake import DeltaTable, QueryBuilder

from ingest.lake.delta.delta_rs_table import DeltaRsTable
from ingest.lake.delta.delta_snapshot import LiveFile
from ingest.lake.delta.delta_sql import queried
from ingest.maintenance.compaction import written_anew
from ingest.maintenance.old_rows import Unneeded
from ingest.schema.change_log import BEGINS_PROPERTY

_TIME, _BATCH = "committed_at", "batch_id"


@dataclass(frozen=True)
class Old:
    """What of a log can go. ``gone``: in files of its own; ``mixed``: files with some of it, to be cut in two first."""

    gone: Unneeded
    mixed: tuple[LiveFile, ...]


def first_kept(today: date, days: int) -> date:
    """The first day of which all changes stay, where so many whole days do. Pure."""
    return today - timedelta(days=days)


def old(direct: DeltaRsTable, first: date) -> Old | None:
    """What came before a day (UTC); None where nothing did. Looks into files that may hold such."""
    direct.version()
    start = datetime.combine(first, time(), timezone.utc)
    live = list(direct.state.files.values())
    doubtful, young = list[LiveFile](), list[int]()
    for one in live:
        if _is_young(one, start):
            young.append(one.range(_BATCH)[0])
        else:
            doubtful.append(one)
    if not doubtful:
        return None
    with direct.scratch(doubtful) as work:
        at = f"to_timestamp('{start.isoformat()}')"
        first_young = _number(work.table, f"min({_BATCH})", f"{_TIME} >= {at}")
        stays = min([*young, *([] if first_young is None else [first_young])], default=None)
        before = f"{_TIME} < {at}" + ("" if stays is None else f" AND {_BATCH} < {stays}")
        last = _number(work.table, f"max({_BATCH})", before)
    if last is None:
        return None
    gone, mixed = cut(live, last + 1)
    return Old(Unneeded(tuple(gone), last + 1), tuple(mixed)) if gone or mixed else None


def cut(files: Iterable[LiveFile], below: int) -> tuple[list[LiveFile], list[LiveFile]]:
    """Files with rows of batches before this one alone, and those that have such and others. Pure."""
    gone, mixed = list[LiveFile](), list[LiveFile]()
    for one in files:
        low, high = one.range(_BATCH)
        if low is None or low < below:
            (gone if high is not None and high < below else mixed).append(one)
    return gone, mixed


def split(direct: DeltaRsTable, old: Old) -> bool:
    """Cut files that hold both in two, in one commit that changes no row. False when somebody else has committed meanwhile. Raises as
    ``compaction.written_anew`` does.
    """

    def parts(table: DeltaTable) -> Iterator[RecordBatchReader]:
        for which in (f"{_BATCH} < {old.gone.below}", f"{_BATCH} >= {old.gone.below}"):
            yield (
                QueryBuilder().register("rows", table).execute(f"SELECT * FROM rows WHERE {which}")
            )

    rows = sum(one.rows or 0 for one in old.mixed)
    return written_anew(direct, old.mixed, parts, rows, f'["{_BATCH} < {old.gone.below}"]')


def begins(old: Old, first: date) -> dict[str, str]:
    """What a log says of where it begins. Pure."""
    return {BEGINS_PROPERTY: json.dumps({"batch": old.gone.below, "day": first.isoformat()})}


def _is_young(file: LiveFile, start: datetime) -> bool:
    """Whether none of its changes came before, for sure. Bounds are cut to milliseconds, as ``start`` is."""
    low = file.range(_TIME)[0]
    return (
        low is not None
        and file.range(_BATCH)[0] is not None
        and datetime.fromisoformat(low.replace("Z", "+00:00")) >= start
    )


def _number(table: DeltaTable, what: str, where: str) -> int | None:
    (row,) = queried(table, f"SELECT {what} AS n FROM rows WHERE {where}")
    return None if row["n"] is None else int(row["n"])
