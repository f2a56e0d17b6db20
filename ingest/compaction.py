"""Some of a table's files written anew, their rows sorted by key: no row changes, so no reader notices.

delta-rs can compact a table, but neither some files of it nor in order. So these files are a table of their own
for a moment (links to them, and a log that names them), which delta-rs sorts into another; what that holds then
is linked back, and one commit of the real table takes the ones out and the others in. All reading and writing of
rows is delta-rs's, the commit is Delta's own: the very next version, which only one writer can make. A crash
before it leaves files that no version names, for VACUUM.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from arro3.core import RecordBatch, Table
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from ingest.direct import COMPRESSION, DirectTable
from ingest.failpoints import reached
from ingest.layout import DataFile, Rewrite
from ingest.names import quoted_for_delta_rs
from ingest.storage import LocalFiles, local_folder
from ingest.table_log import commit_name

_PLAIN_PATH = re.compile(r"[A-Za-z0-9_.=/-]+")
"""What a log writes as it is. Others it encodes, in more than one way."""

_Action = dict[str, Any]


def files(
    table: DeltaTable, column: str | None, known: Container[str] | None = None
) -> list[DataFile]:
    """The files of a table, with their range of this column; none where a file does not say how many rows it
    has. ``known``: those that are not hot.
    """
    found = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    if any(one["num_records"] is None for one in found):
        return []
    return [
        DataFile(
            one["path"],
            one["size_bytes"],
            one["num_records"],
            one.get(f"min.{column}"),
            one.get(f"max.{column}"),
            known is not None and one["path"] not in known,
        )
        for one in found
    ]


def compact(direct: DirectTable, rewrite: Rewrite, key: Sequence[str], scratch: Path) -> bool:
    """Write these files anew; False when somebody else has committed to the table meanwhile, or it is not of
    a kind that this knows. ``scratch``: a folder on the same disk, whose content is deleted.
    """
    table, folder = direct.known(), local_folder(direct.path)
    paths = [one.path for one in rewrite.files]
    if table.metadata().partition_columns or not all(map(_PLAIN_PATH.fullmatch, paths)):
        return False
    work = scratch / uuid.uuid4().hex
    try:
        _as_table(work / "from", table, rewrite.files)
        for path in paths:
            _link(folder / path, work / "from" / path)
        _as_table(work / "to", table, ())
        for part in _sorted(work / "from", rewrite, key):
            write_deltalake(work / "to", part, mode="append", writer_properties=COMPRESSION)
        added = [action["add"] for action in _actions(work / "to") if "add" in action]
        held = sum(json.loads(add["stats"])["numRecords"] for add in added)
        if held != rewrite.rows:  # by the files' own statistics
            raise OSError(f"{rewrite.rows:,} rows became {held:,}; nothing was changed")
        for add in added:
            _link(work / "to" / add["path"], folder / add["path"])
        reached("files_rewritten", 0, direct.path)
        done = _commit(folder, table.version() + 1, rewrite.files, added)
        if not done:
            for add in added:
                (folder / add["path"]).unlink()
        return done
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _link(file: Path, name: Path) -> None:
    name.parent.mkdir(parents=True, exist_ok=True)  # a table may spread its files over folders
    os.link(file, name)


def _sorted(folder: Path, rewrite: Rewrite, key: Sequence[str]) -> Iterator[Table]:
    """Their rows by key, a file's at a time. Not as pyarrow's tables: delta-rs (1.6.6) panics at a slice of one
    whose structs have a validity of their own.
    """
    order = ", ".join(quoted_for_delta_rs(column) for column in key)
    sql = f"SELECT * FROM rows ORDER BY {order}" if order else "SELECT * FROM rows"
    size = max(1, -(-rewrite.rows // rewrite.pieces))
    held, count = list[RecordBatch](), 0
    for batch in QueryBuilder().register("rows", DeltaTable(folder)).execute(sql):
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


def _as_table(folder: Path, like: DeltaTable, files: Sequence[DataFile]) -> None:
    """A table of the same kind, of these files."""
    protocol, facts = like.protocol(), like.metadata()
    asked: _Action = {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
    }
    if protocol.reader_features is not None:
        asked["readerFeatures"] = protocol.reader_features
    if protocol.writer_features is not None:
        asked["writerFeatures"] = protocol.writer_features
    metadata = {
        "id": facts.id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": like.schema().to_json(),
        "partitionColumns": [],
        "configuration": facts.configuration,
        "createdTime": facts.created_time,
    }
    adds = [{"add": {**_file(one), "modificationTime": 0, "dataChange": True}} for one in files]
    _write(folder, 0, [{"protocol": asked}, {"metaData": metadata}, *adds])


def _file(one: DataFile) -> _Action:
    return {"path": one.path, "size": one.bytes, "partitionValues": {}}


def _commit(folder: Path, version: int, gone: Sequence[DataFile], added: Sequence[_Action]) -> bool:
    now = time.time_ns() // 1_000_000
    info = {"timestamp": now, "operation": "OPTIMIZE", "operationParameters": {"predicate": "[]"}}
    removed = {"deletionTimestamp": now, "dataChange": False, "extendedFileMetadata": True}
    actions = [
        {"commitInfo": info},
        *({"remove": {**_file(one), **removed}} for one in gone),
        *({"add": {**add, "dataChange": False}} for add in added),
    ]
    return _write(folder, version, actions)


def _write(folder: Path, version: int, actions: Sequence[_Action]) -> bool:
    text = "".join(json.dumps(action) + "\n" for action in actions)
    return LocalFiles(str(folder)).create(commit_name(version), text)


def _actions(folder: Path) -> Iterator[_Action]:
    for file in sorted((folder / "_delta_log").glob("*.json")):
        yield from map(json.loads, file.read_text().splitlines())
