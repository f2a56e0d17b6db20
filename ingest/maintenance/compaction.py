"""Some of a table's files written anew, their rows sorted by key: no row changes, so no reader notices.

delta-rs can compact a table, but neither some files of it nor in order. So it sorts them in a scratch, and one commit
of the real table takes the ones out and the others in: the very next version, which only one writer can make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from arro3.core import RecordBatch, Table
from arro3.core.types import ArrowStreamExportable
from deltalake import DeltaTable, QueryBuilder

from ingest.lake.delta import delta_log, parquet_footers
from ingest.lake.delta.delta_log import Action
from ingest.lake.delta.delta_rs_table import DeltaRsTable, write_new
from ingest.lake.delta.delta_snapshot import LiveFile
from ingest.maintenance.file_layout import DataFile, Rewrite
from ingest.model.failpoints import reached
from ingest.model.names import quoted_for_delta_rs

_AT_ONCE = 8
"""Requests."""


def files(direct: DeltaRsTable, column: str | None) -> list[DataFile]:
    """The files of a table, with their range of this column; none where a file does not say how many rows it has."""
    state = direct.state
    live = list(state.files.values())
    if any(one.rows is None for one in live):
        return []
    physical = state.physical(column) if column else ""
    return [_known(one, physical) for one in live]


def unpacked(direct: DeltaRsTable, those: Sequence[DataFile]) -> dict[str, int]:
    """Bytes of the rows of these files before they were compressed, by path. Raises ``OSError`` for one that is gone."""

    def size(one: DataFile) -> int:
        return parquet_footers.unpacked(one.path, one.bytes, partial(direct.at.part, one.path))

    paths = [one.path for one in those]
    if direct.at.local:
        return dict(zip(paths, map(size, those), strict=True))
    # Of most of them no more is wanted than this: the others are fetched whole when they are worked on.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(paths, pool.map(size, those), strict=True))


def _known(file: LiveFile, column: str) -> DataFile:
    low, high = file.range(column)
    vector = file.add.get("deletionVector")
    deleted = int(vector["cardinality"]) if vector else 0
    rows = (file.rows or 0) - deleted
    return DataFile(file.path, int(file.add["size"]), rows, low, high, deleted=deleted)


def compact(direct: DeltaRsTable, rewrite: Rewrite, key: Sequence[str]) -> bool:
    """Write these files anew; False when somebody else has committed to the table meanwhile."""
    live = [direct.state.files.get(one.path) for one in rewrite.files]
    gone = [one for one in live if one is not None]
    if len(gone) < len(live):
        return False
    return written_anew(
        direct, gone, lambda table: _sorted(table, rewrite, key), rewrite.rows, "[]"
    )


def written_anew(
    direct: DeltaRsTable,
    gone: Sequence[LiveFile],
    parts: Callable[[DeltaTable], Iterable[ArrowStreamExportable]],
    rows: int,
    predicate: str,
) -> bool:
    """Files of a table as others, one for each part of their rows, which are so many in all. ``predicate``: what the commit says of which rows
    those were. False when somebody else has committed meanwhile; raises ``OSError`` where a row would be lost.
    """
    with direct.scratch(gone) as work:
        for part in parts(work.as_it_was()):
            write_new(work, part)
        now = delta_log.now_ms()
        added = [action["add"] for action in work.done(now)[1] if "add" in action]
        held = sum(LiveFile(add).rows or 0 for add in added)
        if held != rows:  # by the files' own statistics
            raise OSError(f"{rows:,} rows became {held:,}; nothing was changed")
        reached("files_rewritten", 0, direct.path)
        return work.commit(_swap(gone, added, now, predicate))


def _swap(
    gone: Sequence[LiveFile], added: Sequence[Action], now_ms: int, predicate: str
) -> list[Action]:
    """The commit. Pure."""
    info: Action = {"timestamp": now_ms, "operation": "OPTIMIZE"}
    return [
        {"commitInfo": {**info, "operationParameters": {"predicate": predicate}}},
        *(one.removed(now_ms, data_change=False) for one in gone),
        *({"add": {**add, "dataChange": False}} for add in added),
    ]


def _sorted(table: DeltaTable, rewrite: Rewrite, key: Sequence[str]) -> Iterator[Table]:
    """Their rows by key, a file's at a time. Not as pyarrow's tables: delta-rs (1.6.6) panics at a slice of one
    whose structs have a validity of their own.
    """
    order = ", ".join(quoted_for_delta_rs(column) for column in key)
    sql = f"SELECT * FROM rows ORDER BY {order}" if order else "SELECT * FROM rows"
    size = max(1, -(-rewrite.rows // rewrite.pieces))
    held, count = list[RecordBatch](), 0
    for batch in QueryBuilder().register("rows", table).execute(sql):
        left = batch
        while count + left.num_rows >= size:
            part = left.slice(0, size - count)
            yield Table.from_batches([*held, part])
            left, held, count = left.slice(size - count), [], 0
        if left.num_rows:
            held.append(left)
            count += left.num_rows
    if held:
        yield Table.from_batches(held)
