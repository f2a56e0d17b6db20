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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from arro3.core import RecordBatch, Table
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from ingest.deletion_vector import FEATURE, Descriptor, UnreadableError
from ingest.direct import COMPRESSION, DirectTable
from ingest.failpoints import reached
from ingest.layout import DataFile, Rewrite
from ingest.live_files import UnknownLogError
from ingest.names import quoted_for_delta_rs
from ingest.storage import local_folder
from ingest.table_log import Action, write

PLAIN_PATH = re.compile(r"[A-Za-z0-9_.=/-]+")
"""What a log writes as it is. Others it encodes, in more than one way."""


def files(direct: DirectTable, column: str | None) -> list[DataFile]:
    """The files of a table, with their range of this column; none where a file does not say how many rows it
    has, or its deletion vector is not one of ours.
    """
    found = pa.table(direct.known().get_add_actions(flatten=True)).to_pylist()
    try:
        vectors = _vectors(direct)
    except (UnknownLogError, UnreadableError):
        return []
    if any(one["num_records"] is None for one in found):
        return []
    deleted = {path: int(vector["cardinality"]) for path, vector in vectors.items()}
    return [
        DataFile(
            one["path"],
            one["size_bytes"],
            one["num_records"] - deleted.get(one["path"], 0),
            one.get(f"min.{column}"),
            one.get(f"max.{column}"),
            deleted=deleted.get(one["path"], 0),
        )
        for one in found
    ]


def _vectors(direct: DirectTable) -> dict[str, Descriptor]:
    """By path; most tables have none, and are not looked at for it."""
    if FEATURE not in direct.features():
        return {}
    found = {
        path: add["deletionVector"]
        for path, add in direct.live().files.items()
        if "deletionVector" in add
    }
    if any(vector["storageType"] != "i" for vector in found.values()):
        raise UnreadableError("in a file of its own")
    return found


def compact(direct: DirectTable, rewrite: Rewrite, key: Sequence[str], scratch: Path) -> bool:
    """Write these files anew; False when somebody else has committed to the table meanwhile, or it is not of
    a kind that this knows. ``scratch``: a folder on the same disk, whose content is deleted.
    """
    table, folder = direct.known(), local_folder(direct.path)
    paths = [one.path for one in rewrite.files]
    if table.metadata().partition_columns or not all(map(PLAIN_PATH.fullmatch, paths)):
        return False
    work = scratch / uuid.uuid4().hex
    try:
        vectors = _vectors(direct)
        gone = [_file(one, vectors) for one in rewrite.files]
        as_table(work / "from", table, gone)
        for path in paths:
            link(folder / path, work / "from" / path)
        as_table(work / "to", table, ())
        for part in _sorted(work / "from", rewrite, key):
            write_deltalake(work / "to", part, mode="append", writer_properties=COMPRESSION)
        added = [action["add"] for action in table_actions(work / "to") if "add" in action]
        held = sum(json.loads(add["stats"])["numRecords"] for add in added)
        if held != rewrite.rows:  # by the files' own statistics
            raise OSError(f"{rewrite.rows:,} rows became {held:,}; nothing was changed")
        for add in added:
            link(work / "to" / add["path"], folder / add["path"])
        reached("files_rewritten", 0, direct.path)
        done = _commit(folder, table.version() + 1, gone, added)
        if not done:
            for add in added:
                (folder / add["path"]).unlink()
        return done
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def link(file: Path, name: Path) -> None:
    """Give a file another name on the same disk."""
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


def as_table(folder: Path, like: DeltaTable, files: Sequence[Action]) -> None:
    """A table of the same kind, of these files."""
    protocol, facts = like.protocol(), like.metadata()
    asked: Action = {
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
    adds = [{"add": {**one, "modificationTime": 0, "dataChange": True}} for one in files]
    write(folder, 0, [{"protocol": asked}, {"metaData": metadata}, *adds])


def _file(one: DataFile, vectors: Mapping[str, Descriptor]) -> Action:
    marked = {"deletionVector": vectors[one.path]} if one.path in vectors else {}
    return {"path": one.path, "size": one.bytes, "partitionValues": {}, **marked}


def _commit(folder: Path, version: int, gone: Sequence[Action], added: Sequence[Action]) -> bool:
    now = time.time_ns() // 1_000_000
    info = {"timestamp": now, "operation": "OPTIMIZE", "operationParameters": {"predicate": "[]"}}
    removed = {"deletionTimestamp": now, "dataChange": False, "extendedFileMetadata": True}
    actions = [
        {"commitInfo": info},
        *({"remove": {**one, **removed}} for one in gone),
        *({"add": {**add, "dataChange": False}} for add in added),
    ]
    return write(folder, version, actions)


def table_actions(folder: Path) -> Iterator[Action]:
    """All actions of a small table's log, in order."""
    for file in sorted((folder / "_delta_log").glob("*.json")):
        yield from map(json.loads, file.read_text().splitlines())
