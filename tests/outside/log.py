"""A Delta log as the protocol has it, read by nothing of this program: what is in a table, and whether what its log says is true.

python -m tests.outside.log LAKE    # every table below this folder; prints what is false, ends with 1 if anything is

Read: commits (JSON Lines), the checkpoint of one file that ``_last_checkpoint`` names, deletion vectors that stand in the
log. Held against the files themselves: that they are there, are as long as said, have as many rows, as many NULLs a
column, and no value beyond a bound; that a vector marks rows which its file has, as many as it says.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.outside.vectors import rows_of

Action = dict[str, Any]


@dataclass
class Log:
    """A table as of its newest version. ``files``: entries by path and id of their vector, as the protocol has it."""

    folder: Path
    version: int = -1
    files: dict[tuple[str, str | None], Action] = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)
    protocol: Action = field(default_factory=dict)
    markers: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> Log:
        found, log = cls(folder), folder / "_delta_log"
        pointer = log / "_last_checkpoint"
        if pointer.exists():
            found.version = json.loads(pointer.read_bytes())["version"]
            for row in pq.read_table(log / f"{found.version:020d}.checkpoint.parquet").to_pylist():
                found._take([{kind: held for kind, held in row.items() if held is not None}])
        while (commit := log / f"{found.version + 1:020d}.json").exists():
            found.version += 1
            actions = [json.loads(line) for line in commit.read_bytes().split(b"\n") if line]
            if any(len(action) != 1 for action in actions) or not actions:
                found.wrong.append(f"version {found.version} has lines that are no single actions")
            paths = [
                (kind, *_name(action[kind]))
                for action in actions
                for kind in ("add", "remove")
                if kind in action
            ]
            if len(paths) != len(set(paths)):
                found.wrong.append(f"version {found.version} names a file twice")
            found._take(actions)
        return found

    def _take(self, actions: list[Action]) -> None:
        for action in actions:
            for kind, held in action.items():
                if kind == "remove":
                    self.files.pop(_name(held), None)
        for action in actions:
            for kind, held in action.items():
                if kind == "add":
                    self.files[_name(held)] = held
                elif kind == "txn":
                    self.markers[held["appId"]] = held["version"]
                elif kind == "metaData":
                    self.metadata = held
                elif kind == "protocol":
                    self.protocol = held

    @property
    def columns(self) -> dict[tuple[str, ...], str]:
        """Types of simple columns by their names in files, of structs' fields too."""
        return dict(_leaves(json.loads(self.metadata["schemaString"])["fields"]))

    @property
    def features(self) -> set[str]:
        named = (self.protocol.get(name) for name in ("readerFeatures", "writerFeatures"))
        return {feature for some in named for feature in some or ()}

    def live_rows(self) -> int:
        """By the files, less those that vectors mark."""
        return sum(
            pq.ParquetFile(self.folder / unquote(path)).metadata.num_rows
            - len(rows_of(add.get("deletionVector"), self.folder))
            for (path, _), add in self.files.items()
        )

    def falsehoods(self) -> list[str]:
        """What the log says and files do not."""
        found = list(self.wrong)
        if self.protocol.get("minReaderVersion") == 3 and not self.protocol.get("readerFeatures"):
            found.append("the protocol asks readers for features and names none")
        if len({path for path, _ in self.files}) != len(self.files):
            found.append("a file is there with two vectors")
        for (path, _), add in self.files.items():
            found += [f"{path}: {one}" for one in self._of_file(self.folder / unquote(path), add)]
        return found

    def _of_file(self, file: Path, add: Action) -> Iterator[str]:
        if not file.exists():
            yield "is not there"
            return
        if file.stat().st_size != add["size"]:
            yield f"has {file.stat().st_size} bytes, not {add['size']}"
        table = pq.read_table(file)
        marked = rows_of(add.get("deletionVector"), self.folder)
        if vector := add.get("deletionVector"):
            if "deletionVectors" not in self.features:
                yield "has a vector, and the protocol asks nobody to know it"
            if len(marked) != vector["cardinality"]:
                yield f"has {len(marked)} rows marked, not {vector['cardinality']}"
            if marked and max(marked) >= table.num_rows:
                yield f"row {max(marked)} of {table.num_rows} is marked"
        if not add.get("stats"):
            return
        said = json.loads(add["stats"], parse_float=Decimal)
        if said.get("numRecords", table.num_rows) != table.num_rows:
            yield f"has {table.num_rows} rows, not {said['numRecords']}"
        for path, kind in self.columns.items():
            yield from (f"{'.'.join(path)}: {one}" for one in _of_column(table, path, kind, said))


def _of_column(table: pa.Table, path: tuple[str, ...], kind: str, said: Action) -> Iterator[str]:
    low, high, nulls = (
        _at(path, said.get(name)) for name in ("minValues", "maxValues", "nullCount")
    )
    if (low is None) != (high is None):
        yield "has one bound"
        low = high = None
    if not _is_in(table.schema, path):
        if low is not None or nulls not in (None, table.num_rows):
            yield "is not in the file and has statistics"
        return
    column = table[path[0]].combine_chunks()
    for name in path[1:]:
        column = pc.struct_field(column, name)
    if nulls is not None and nulls != column.null_count:
        yield f"has {column.null_count} NULLs, not {nulls}"
    values = [] if low is None else [one for one in column.to_pylist() if one is not None]
    for value in values:
        if not _value(kind, low) <= _value(kind, value) <= _last(kind, high):
            yield f"{value!r} is not from {low!r} to {high!r}"
    if kind == "string" and len(str(high)) > 256:
        yield f"a text of {len(high)} characters stands in the log"


def _is_in(schema: pa.Schema, path: tuple[str, ...]) -> bool:
    """A file of before a column, or a field of one, has none."""
    names, kind = schema.names, None
    for name in path:
        if name not in names:
            return False
        kind = schema.field(name).type if kind is None else kind.field(name).type
        names = [one.name for one in kind] if pa.types.is_struct(kind) else []
    return True


def _value(kind: str, value: Any) -> Any:
    if kind == "string":
        return value.encode()
    if kind == "date":
        return value if isinstance(value, str) else value.isoformat()
    if kind in {"timestamp", "timestamp_ntz"}:
        if isinstance(value, str):
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        return (
            value.astimezone(timezone.utc) if value.tzinfo else value.replace(tzinfo=timezone.utc)
        )
    if kind == "float":
        return (
            float(value)
            if math.isinf(float(value))
            else pa.scalar(float(value), pa.float32()).as_py()
        )
    return float(value) if kind == "double" else value


def _last(kind: str, value: Any) -> Any:
    """Bounds of instants may be cut to milliseconds, which readers widen (protocol: Per-file Statistics)."""
    found = _value(kind, value)
    if kind in {"timestamp", "timestamp_ntz"} and found.microsecond % 1000 == 0:
        return found.replace(microsecond=found.microsecond + 999)
    return found


def _at(path: tuple[str, ...], said: Any) -> Any:
    for name in path:
        said = said.get(name) if isinstance(said, dict) else None
    return said


def _leaves(
    fields: list[Action], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str]]:
    for one in fields:
        path = (*above, one["metadata"].get("delta.columnMapping.physicalName", one["name"]))
        if isinstance(one["type"], str):
            yield path, one["type"]
        elif one["type"]["type"] == "struct":
            yield from _leaves(one["type"]["fields"], path)


def _name(held: Action) -> tuple[str, str | None]:
    vector = held.get("deletionVector")
    if not vector:
        return held["path"], None
    return held["path"], f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}"


def tables(lake: Path) -> list[Path]:
    """Folders of tables below a folder, or itself."""
    return sorted(one.parent for one in lake.rglob("_delta_log") if one.is_dir())


def main(lake: str) -> int:
    """Prints each table and what is false of it."""
    wrong = 0
    for folder in tables(Path(lake)):
        log = Log.read(folder)
        found = log.falsehoods()
        wrong += len(found)
        print(
            f"{folder.relative_to(lake)}: version {log.version}, {len(log.files)} files, {len(found)} falsehoods"
        )
        print(*(f"  {one}" for one in found), sep="\n", end="\n" if found else "")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
