"""A table's files as its log in a local folder has them, each with its whole entry.

delta-rs tells of a file what a reader needs; who marks rows of it as deleted has to write its entry anew, and so
to know all of it. Plain tables only: one checkpoint file, no partitions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ingest import table_log
from ingest.table_log import Action

_OF_FILE = ("path", "size", "modificationTime", "stats", "deletionVector")
_OF_VECTOR = ("storageType", "pathOrInlineDv", "sizeInBytes", "cardinality")


class UnknownLogError(Exception):
    """The log is of a kind that this does not read, or has not all of it any more."""


@dataclass
class LiveFiles:
    """Of one table, followed from look to look. ``files``: by path, the ``add`` that holds; ``metadata`` and
    ``protocol``: the actions that hold.
    """

    folder: Path
    version: int = -1
    files: dict[str, Action] = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)
    protocol: Action = field(default_factory=dict)

    def read_to(self, version: int) -> None:
        """Take in the log up to this version. Raises :class:`UnknownLogError`; it is then to be begun anew."""
        if self.version < 0:
            self._begin()
        if self.version > version:
            raise UnknownLogError(f"its checkpoint is newer than version {version}")
        for number in range(self.version + 1, version + 1):
            actions = table_log.read(self.folder, number)
            if actions is None:
                raise UnknownLogError(f"version {number} is no longer there")
            self._take(actions)
            self.version = number

    def _take(self, actions: Iterable[Mapping[str, Any]]) -> None:
        """One commit's: of a file that it takes out and puts in with other rows deleted, the latter holds."""
        added = dict[str, Action]()
        for action in actions:
            if "remove" in action:
                self.files.pop(action["remove"]["path"], None)
            elif "add" in action:
                add = action["add"]
                if add.get("partitionValues"):
                    raise UnknownLogError("it has partitions")
                added[add["path"]] = _file(add)
            elif "metaData" in action:
                self.metadata = dict(action["metaData"])
            elif "protocol" in action:
                self.protocol = dict(action["protocol"])
        self.files |= added

    def _begin(self) -> None:
        log = self.folder / "_delta_log"
        pointer = log / "_last_checkpoint"
        if not pointer.exists():
            return
        said = json.loads(pointer.read_text())
        file = log / f"{said['version']:020d}.checkpoint.parquet"
        if said.get("parts") or not file.exists():
            raise UnknownLogError("its checkpoint has parts")
        held = pq.read_table(file, columns=["add", "metaData", "protocol"]).to_pylist()
        if not any(row["metaData"] for row in held):
            raise UnknownLogError("its checkpoint has parts")
        for row in held:
            metadata, protocol, add = row["metaData"], row["protocol"], row["add"]
            if metadata:
                row["metaData"] = {
                    **metadata,
                    "configuration": dict(metadata["configuration"] or ()),
                    "format": {"provider": "parquet", "options": {}},
                }
            self._take(
                [
                    {"metaData": row["metaData"]} if metadata else {},
                    {"protocol": {k: v for k, v in protocol.items() if v is not None}}
                    if protocol
                    else {},
                    {"add": add} if add else {},
                ]
            )
        self.version = int(said["version"])


def _file(add: Mapping[str, Any]) -> Action:
    found = {name: add[name] for name in _OF_FILE if add.get(name) is not None}
    if vector := found.get("deletionVector"):
        found["deletionVector"] = {
            name: vector[name] for name in (*_OF_VECTOR, "offset") if vector.get(name) is not None
        }
    return found
