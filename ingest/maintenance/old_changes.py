"""Changes in a change log that are older than so many days, removed: batch by batch, from the first on.

A log is read in the order of its batches, so what goes is its beginning: all batches up to the last one that has a change of before, as
long as no change of the days that stay comes before that. So a TRUNCATE or a DDL, of which the log has no time, goes only where
an older change comes behind it. A file that holds both is cut in two first, which changes no row; then files go as a whole. A
stream that reads the log meets a commit that only removes files, which `ignoreDeletes` passes over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
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

MOST = 128 * 2**20
"""Bytes of files that are looked into, or cut in two, at once: in an object store they are fetched."""

_TIME, _BATCH = "committed_at", "batch_id"


@dataclass(frozen=True)
class Old:
    """What of a log can go. ``gone``: in files of its own; ``mixed``: files with some of it, to be cut in two first."""

    gone: Unneeded
    mixed: tuple[LiveFile, ...]


def first_kept(today: date, days: int) -> date:
    """The first day of which all changes stay, where so many whole days do. Pure."""
    return today - timedelta(days=days)


def newest(direct: DeltaRsTable) -> date | None:
    """The day of a log's newest change, by what its files say as of the last look at its version; None where none says it."""
    ends = (_moment(one.range(_TIME)[1]) for one in direct.state.files.values())
    known = [one.date() for one in ends if one is not None]
    return max(known, default=None)


def old(direct: DeltaRsTable, first: date) -> Old | None:
    """What came before a day (UTC); None where nothing did, or where too much is not known of it to be told at once. Reads what files
    do not say of themselves.
    """
    start = datetime.combine(first, time(), timezone.utc)
    live = list(direct.state.files.values())
    known = told(live, start)
    at, stays = f"to_timestamp('{start.isoformat()}')", known.stays
    if known.asked:
        with direct.scratch(known.asked) as work:
            stays = _least(stays, _number(work.table, f"min({_BATCH})", f"{_TIME} >= {at}"))
    ends, crossing = list[int](), list[LiveFile]()
    for one in known.whole:
        low, high = one.range(_BATCH)
        if stays is None or high < stays:
            ends.append(high)
        elif low < stays:
            crossing.append(one)
    if looked := [*known.asked, *_at_once(crossing)]:
        before = f"{_TIME} < {at}" + ("" if stays is None else f" AND {_BATCH} < {stays}")
        with direct.scratch(looked) as work:
            found = _number(work.table, f"max({_BATCH})", before)
            ends += [] if found is None else [found]
    if not ends:
        return None
    below = max(ends) + 1
    gone, mixed = cut(live, below)
    return Old(Unneeded(tuple(gone), below), tuple(mixed)) if gone or mixed else None


@dataclass(frozen=True)
class Told:
    """What a log's files say of themselves. ``stays``: a batch with a change of the days that stay, or one of which nothing is known; ``whole``: files in
    which all is old; ``asked``: files that are to be looked into.
    """

    stays: int | None
    whole: tuple[LiveFile, ...]
    asked: tuple[LiveFile, ...]


def told(files: Iterable[LiveFile], start: datetime, most: int = MOST) -> Told:
    """Of the files of a log. ``most``: so many bytes are looked into at once, of the oldest batches. Pure."""
    stays, whole, doubtful = None, list[LiveFile](), list[LiveFile]()
    for one in files:
        (low, high), (begins, ends) = one.range(_BATCH), map(_moment, one.range(_TIME))
        nulls = one.stats.get("nullCount", {}).get(_TIME)
        if low is None or high is None:
            doubtful.append(one)
        elif begins is not None and begins >= start:
            stays = _least(stays, low)
        elif ends is not None and ends < start and nulls == 0:
            whole.append(one)
        else:
            doubtful.append(one)
    doubtful.sort(key=_first_batch)
    asked = _at_once(doubtful, most)
    for one in doubtful[len(asked) :]:
        stays = _least(stays, _first_batch(one))
    return Told(stays, tuple(whole), tuple(asked))


def _at_once(files: Sequence[LiveFile], most: int = MOST) -> list[LiveFile]:
    """The first of them, as many as have so many bytes together; one at the least."""
    taken, size = list[LiveFile](), 0
    for one in files:
        size += int(one.add["size"])
        if taken and size > most:
            break
        taken.append(one)
    return taken


def _first_batch(file: LiveFile) -> int:
    """0 where it does not say."""
    return file.range(_BATCH)[0] or 0


def _least(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _moment(text: str | None) -> datetime | None:
    """A bound of a time. They are cut to milliseconds, as a day's beginning is."""
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))


def cut(files: Iterable[LiveFile], below: int) -> tuple[list[LiveFile], list[LiveFile]]:
    """Files with rows of batches before this one alone, and those that have such and others. Pure."""
    gone, mixed = list[LiveFile](), list[LiveFile]()
    for one in files:
        low, high = one.range(_BATCH)
        if low is None or low < below:
            (gone if high is not None and high < below else mixed).append(one)
    return gone, mixed


def split(direct: DeltaRsTable, old: Old) -> bool:
    """Cut files that hold both in two, some of them where they are large, in one commit that changes no row. False when somebody else has committed meanwhile. Raises as
    ``compaction.written_anew`` does.
    """
    some = _at_once(old.mixed)

    def parts(table: DeltaTable) -> Iterator[RecordBatchReader]:
        for which in (f"{_BATCH} < {old.gone.below}", f"{_BATCH} >= {old.gone.below}"):
            yield (
                QueryBuilder().register("rows", table).execute(f"SELECT * FROM rows WHERE {which}")
            )

    rows = sum(one.rows or 0 for one in some)
    return written_anew(direct, some, parts, rows, f'["{_BATCH} < {old.gone.below}"]')


def begins(old: Old, first: date) -> dict[str, str]:
    """What a log says of where it begins. Pure."""
    return {BEGINS_PROPERTY: json.dumps({"batch": old.gone.below, "day": first.isoformat()})}


def _number(table: DeltaTable, what: str, where: str) -> int | None:
    (row,) = queried(table, f"SELECT {what} AS n FROM rows WHERE {where}")
    return None if row["n"] is None else int(row["n"])
