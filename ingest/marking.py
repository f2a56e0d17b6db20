"""A MERGE that rewrites no file: rows that change are marked as deleted where they are (``deletion_vector``), and
what they become is added in a file of its own, in one commit.

The rows and the guards are those of ``merge.mirror_plan``: a change applies only over an older row, an insert
only where there is no row of its key. What is read is the key's columns of the files that may hold one, and the
positions of rows that do.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from pyroaring import BitMap

from ingest import deletion_vector
from ingest.compaction import PLAIN_PATH, as_table, link, table_actions
from ingest.deletion_vector import FEATURE, PROPERTY
from ingest.direct import COMPRESSION, DirectTable
from ingest.engine import MAX_MARKS, marks_pay
from ingest.live_files import UnknownLogError
from ingest.names import RESERVED_COLUMN
from ingest.storage import local_folder
from ingest.table_log import Action

_CHANGE_FEED = "delta.enableChangeDataFeed"


@dataclass(frozen=True)
class _Held:
    """Rows of the table that have a key of the batch: their file, their row number there, their position, and the
    number of the change.
    """

    path: str
    row: int
    position: tuple[int, ...]
    change: int


def mark(
    direct: DirectTable, rows: pa.Table, key: Sequence[str], scratch: Path, *, always: bool
) -> str | None:
    """Make the MERGE of these source rows, one per key, as the table's next version; or none when no row of the
    table changes. Returns why it was made in this way, or None where it was not made: the table is of a kind that
    this does not know, or (but for ``always``) rewriting its files costs less. ``scratch``: a folder on the same
    disk. Raises as ``DirectTable.append`` does.
    """
    table, folder = direct.known(), local_folder(direct.path)
    try:
        live = direct.live()
        touched = [one for one in live.files.values() if _may_hold(one, rows, key)]
        size = sum(_stats(one).get("numRecords", 0) for one in touched)
        schema = pa.schema(table.schema().to_arrow())
        if set(schema.names) != set(rows.schema.names):
            return None  # a row keeps what it has in columns that the source no longer has
        if not _is_plain(table, live.protocol, list(live.files)):
            return None
        if not always and not marks_pay(size, rows.num_rows):
            return None
        gone = {one["path"]: deletion_vector.rows(one.get("deletionVector")) for one in touched}
    except (UnknownLogError, deletion_vector.UnreadableError):
        return None
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        look = partial(_held, folder, rows=rows, key=key)
        held = list(chain.from_iterable(pool.map(look, gone, gone.values())))
    marked, added = _decide(rows, held)
    after = {path: gone[path] | marks for path, marks in marked.items()}
    if any(len(marks) > MAX_MARKS for marks in after.values()) and not always:
        return None
    because = f"rows are marked as deleted where {size:,} would be written anew"
    if not after and not added:
        return because
    work = scratch / uuid.uuid4().hex
    try:
        adds = []
        if added:
            typed = _typed(rows.take(pa.array(added, pa.int64())), schema)
            adds = _written(table, folder, work, typed)
        now = time.time_ns() // 1_000_000
        actions = [
            *_enabled(live.protocol, live.metadata),
            *({"remove": _removed(live.files[path], now)} for path in after),
            *({"add": _marked(live.files[path], marks)} for path, marks in after.items()),
            *({"add": {**one, "dataChange": True}} for one in adds),
        ]
        direct.commit(actions, "MERGE", rows=len(added))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return because


def _is_plain(table: DeltaTable, protocol: Mapping[str, Any], paths: Sequence[str]) -> bool:
    facts = table.metadata()
    named = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    return (
        not facts.partition_columns
        and facts.configuration.get(_CHANGE_FEED) != "true"
        and "columnMapping" not in named
        and (protocol["minWriterVersion"] <= 2 or protocol["minWriterVersion"] == 7)
        and all(map(PLAIN_PATH.fullmatch, paths))
    )


def _may_hold(one: Action, rows: pa.Table, key: Sequence[str]) -> bool:
    """By the range of the key's first column, where that is a number: ranges of texts are cut short."""
    stats = _stats(one)
    low, high = (stats.get(name, {}).get(key[0]) for name in ("minValues", "maxValues"))
    if not isinstance(low, int) or not isinstance(high, int):
        return True
    wanted = rows[key[0]]
    within = pc.and_(
        pc.greater_equal(wanted, pa.scalar(low, wanted.type)),
        pc.less_equal(wanted, pa.scalar(high, wanted.type)),
    )
    return bool(pc.any(within).as_py())


def _held(folder: Path, path: str, gone: BitMap, rows: pa.Table, key: Sequence[str]) -> list[_Held]:
    """Rows of one file that have a key of these rows and are not deleted."""
    wanted = rows.select(list(key)).rename_columns(list(map(str, range(len(key)))))
    numbered = wanted.append_column("change", pa.array(range(rows.num_rows)))
    first, kept = 0, list[_Held]()
    with pq.ParquetFile(folder / path, memory_map=True) as parquet:
        for group in range(parquet.num_row_groups):
            keys = parquet.read_row_group(group, columns=list(key)).select(list(key))
            found = _alike(keys.rename_columns(wanted.schema.names).cast(wanted.schema), numbered)
            alive = [one for one in found if first + one[0] not in gone]
            if alive:
                meta = parquet.read_row_group(group, columns=[f"{RESERVED_COLUMN}.position"])
                held = pc.struct_field(meta[RESERVED_COLUMN], "position")
                positions = held.take(pa.array([row for row, _ in alive], pa.int64())).to_pylist()
                for (row, change), position in zip(alive, positions, strict=True):
                    kept.append(_Held(path, first + row, tuple(position.values()), change))
            first += keys.num_rows
    return kept


def _alike(keys: pa.Table, wanted: pa.Table) -> list[tuple[int, int]]:
    """Row numbers of keys that are wanted, each with its ``change``."""
    mine = None
    for name in keys.schema.names:
        one = pc.is_in(keys[name], value_set=pc.unique(wanted[name]))
        mine = one if mine is None else pc.and_(mine, one)
    places = pc.indices_nonzero(mine).cast(pa.int64())
    if not len(places):
        return []
    some = keys.take(places).append_column("row", places)
    both = some.join(wanted, keys=keys.schema.names, join_type="inner")
    return list(zip(both["row"].to_pylist(), both["change"].to_pylist(), strict=True))


def _decide(rows: pa.Table, held: Sequence[_Held]) -> tuple[dict[str, BitMap], list[int]]:
    """Rows to be marked, by path, and the numbers of the changes whose rows are to be added. Pure: the clauses of
    ``merge.mirror_plan``.
    """
    meta = rows[RESERVED_COLUMN]
    ops = pc.struct_field(meta, "op").to_pylist()
    positions = [tuple(one.values()) for one in pc.struct_field(meta, "position").to_pylist()]
    marked, unmatched = dict[str, BitMap](), set(range(rows.num_rows))
    added = list[int]()
    for one in held:
        unmatched.discard(one.change)
        if positions[one.change] > one.position:
            marked.setdefault(one.path, BitMap()).add(one.row)
            added.append(one.change)
    return marked, sorted(change for change in {*added, *unmatched} if ops[change] != "d")


def _typed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return pa.table([rows[one.name].cast(one.type) for one in schema], schema=schema)


def _written(table: DeltaTable, folder: Path, work: Path, rows: pa.Table) -> list[Action]:
    """The rows as files of the table that no version names yet."""
    as_table(work, table, ())
    write_deltalake(work, rows, mode="append", writer_properties=COMPRESSION)
    adds = [action["add"] for action in table_actions(work) if "add" in action]
    for add in adds:
        link(work / add["path"], folder / add["path"])
    return adds


def _enabled(protocol: Mapping[str, Any], metadata: Mapping[str, Any]) -> list[Action]:
    """What a table needs once, before its first deletion vector."""
    readers, writers = (list(protocol.get(n) or ()) for n in ("readerFeatures", "writerFeatures"))
    configuration = metadata.get("configuration") or {}
    if FEATURE in readers and configuration.get(PROPERTY) == "true":
        return []
    if protocol["minWriterVersion"] == 2:
        writers = ["appendOnly", "invariants"]
    asked = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": sorted({*readers, FEATURE}),
        "writerFeatures": sorted({*writers, FEATURE}),
    }
    enabled = {**metadata, "configuration": {**configuration, PROPERTY: "true"}}
    return [{"protocol": asked}, {"metaData": enabled}]


def _stats(add: Action) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(add.get("stats") or "{}")
    return found


def _removed(add: Action, now: int) -> Action:
    same: Action = {name: add[name] for name in ("path", "size", "deletionVector") if name in add}
    return {
        **same,
        "partitionValues": {},
        "extendedFileMetadata": True,
        "deletionTimestamp": now,
        "dataChange": True,
    }


def _marked(add: Action, gone: BitMap) -> Action:
    """The file again. Its statistics are those of all its rows, so they bound what is left."""
    stats = {**_stats(add), "tightBounds": False}
    return {
        **add,
        "partitionValues": {},
        "dataChange": True,
        "stats": json.dumps(stats),
        "deletionVector": deletion_vector.inline(gone),
    }
