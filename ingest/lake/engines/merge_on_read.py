"""A MERGE that rewrites no file: rows that change are marked as deleted where they are (``deletion_vector``), and
what they become is added in a file of its own, in one commit.

The rows and the guards are those of a target's ``plan``: a change applies only over an older row, an insert
only where there is no row of its key. What is read is the key's columns of the files that may hold one, and the
positions of rows that do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap

from ingest.lake.delta import deletion_vector, delta_log, file_statistics, parquet_footers
from ingest.lake.delta.deletion_vector import FEATURE, PROPERTY
from ingest.lake.delta.delta_log import Action
from ingest.lake.delta.delta_rs_table import DeltaRsTable, typed, write_new
from ingest.lake.delta.delta_snapshot import TableState
from ingest.lake.delta.table_features import with_feature
from ingest.lake.engines.delta_rs_limits import MAX_MARKS, marks_pay
from ingest.model import reasons
from ingest.model.names import RESERVED_COLUMN
from ingest.targets.target import Target


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
    direct: DeltaRsTable, target: Target, rows: pa.Table, key: Sequence[str], *, always: bool
) -> str | None:
    """Make the MERGE of these source rows, one per key, as the table's next version; or none when no row of the
    table changes. Returns why it was made in this way, or None where it was not made: the table is of a kind that
    this does not know, or (but for ``always``) rewriting its files costs less. Raises as ``DeltaRsTable.append`` does.
    """
    state = direct.state
    touched = state.reached_by(rows, key)
    size = sum(one.rows or 0 for one in touched)
    # Mapped columns have other names in the files that are looked into here.
    if "columnMapping" in state.features or not (always or marks_pay(size, rows.num_rows)):
        return None
    # The protocol asks for the number of rows beside a vector; a checkpoint without statistics as JSON does not say it.
    if any(one.rows is None for one in touched):
        return None
    try:
        gone = {one.path: deletion_vector.rows(one.add.get("deletionVector")) for one in touched}
    except deletion_vector.UnreadableError:
        return None
    with state.at.kept(gone), direct.scratch(()) as work:
        schema = pa.schema(work.table.schema().to_arrow())
        if set(schema.names) != set(rows.schema.names):
            return None  # a row keeps what it has in columns that the source no longer has
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            look = partial(_held, state.folder, rows=rows, key=key)
            held = list(chain.from_iterable(pool.map(look, gone, gone.values())))
        marked, added = _decide(rows, held, target.removing)
        after = {path: gone[path] | marks for path, marks in marked.items()}
        if any(len(marks) > MAX_MARKS for marks in after.values()) and not always:
            return None
        because = reasons.MARKED.of(rows=f"{size:,}")
        if not after and not added:
            return because
        if added:
            write_new(work, typed(rows.take(pa.array(added, pa.int64())), schema))
        now = delta_log.now_ms()
        info = {"timestamp": now, "operation": "MERGE", "operationParameters": {}}
        _, written = work.done(now)
        actions = [
            *_enabled(state),
            *(state.files[path].removed(now) for path in after),
            *(_marked(state, path, marks) for path, marks in after.items()),
            *written,
        ]
        direct.commit(work, info, actions, rows=len(added))
    return because


def _held(folder: Path, path: str, gone: BitMap, rows: pa.Table, key: Sequence[str]) -> list[_Held]:
    """Rows of one file that have a key of these rows and are not deleted."""
    wanted = rows.select(list(key)).rename_columns(list(map(str, range(len(key)))))
    numbered = wanted.append_column("change", pa.array(range(rows.num_rows)))
    first, kept = 0, list[_Held]()
    with pq.ParquetFile(folder / unquote(path), memory_map=True) as parquet:
        if not set(key) <= set(parquet.schema_arrow.names):
            return []  # from before a column of the key: its rows hold NULL there, which is nobody's key
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


def _decide(
    rows: pa.Table, held: Sequence[_Held], removing: frozenset[str]
) -> tuple[dict[str, BitMap], list[int]]:
    """Rows to be marked, by path, and the numbers of the changes whose rows are to be added. Pure: the clauses of a
    target's ``plan``. ``removing``: the operations that leave no row.
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
    return marked, sorted(change for change in {*added, *unmatched} if ops[change] not in removing)


def _enabled(state: TableState) -> list[Action]:
    """What a table needs once, before its first deletion vector."""
    asked = with_feature(state.protocol, FEATURE)
    if asked is state.protocol and state.configuration.get(PROPERTY) == "true":
        return []
    enabled = {**state.metadata, "configuration": {**state.configuration, PROPERTY: "true"}}
    return [{"protocol": asked}, {"metaData": enabled}]


def _marked(state: TableState, path: str, gone: BitMap) -> Action:
    """The file again. Its statistics are those of all its rows, so they bound what is left."""
    known = state.columns
    exact = parquet_footers.decimals(state.folder / unquote(path), file_statistics.wide(known))
    add = file_statistics.corrected(state.files[path].add, known, exact)
    return {
        "add": {
            **add,
            "partitionValues": {},
            "dataChange": True,
            "stats": file_statistics.written(
                {**file_statistics.read(add.get("stats")), "tightBounds": False}
            ),
            "deletionVector": deletion_vector.inline(gone),
        }
    }
