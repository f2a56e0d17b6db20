"""A table as its log has it: which version, of which files, with whose markers.

delta-rs (1.6.6) lists the whole folder of a log to find its newest commit, and does so twice in each commit of its own:
4 ms for each thousand files, 2 µs a file, so that a table is slower to commit to from hour to hour. The next
commit has a name, so it is asked for by that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError, TableNotFoundError

from ingest.lake.delta import delta_log, file_statistics
from ingest.lake.delta.delta_log import Action, Seen, Table, TornCommitError, UnknownLogError
from ingest.lake.files.object_files import asked, opened
from ingest.lake.files.table_files import LOG, TableFiles, of

_OF_FILE = ("path", "size", "modificationTime", "stats", "deletionVector")
_OF_VECTOR = ("storageType", "pathOrInlineDv", "sizeInBytes", "cardinality")
_IN_CHECKPOINT = ("add", "metaData", "protocol", "txn")

_SIDECAR = "sidecar"
"""Of a checkpoint that has its files beside it."""

_PLAIN_WRITER = 2
"""Invariants and append-only, which need nothing of a MERGE."""

_NAMES_FEATURES = 7


@dataclass(frozen=True)
class LiveFile:
    """A file of a table. ``add``: its entry, without what a table of no partitions does not need."""

    add: Action

    @property
    def path(self) -> str:
        """Below the table's folder, encoded as the log has it."""
        return str(self.add["path"])

    @property
    def size(self) -> int:
        """In bytes."""
        return int(self.add["size"])

    @cached_property
    def stats(self) -> Mapping[str, Any]:
        """What its entry says of its rows, those that are deleted included; columns by their physical names."""
        found: dict[str, Any] = json.loads(self.add.get("stats") or "{}")
        return found

    def corrected(self, columns: file_statistics.Columns) -> Action:
        """Its entry without what is not to be trusted in it, for a table of these columns."""
        if not self._corrected or self._corrected[0][0] is not columns:
            self._corrected[:] = [(columns, file_statistics.corrected(self.add, columns))]
        return self._corrected[0][1]

    @cached_property
    def _corrected(self) -> list[tuple[file_statistics.Columns, Action]]:
        """What was last made, once for many commits."""
        return []

    @property
    def rows(self) -> int | None:
        """How many it has, deleted ones included; None where its entry does not say."""
        found: int | None = self.stats.get("numRecords")
        return found

    def range(self, column: str) -> tuple[Any, Any]:
        """Least and greatest value of a column, as JSON has them; texts may be cut short. None where not known."""
        low, high = (self.stats.get(name, {}).get(column) for name in ("minValues", "maxValues"))
        return low, high

    def removed(self, at_ms: int, *, data_change: bool = True) -> Action:
        """The action that takes it out of the table."""
        same = {
            name: self.add[name] for name in ("path", "size", "deletionVector") if name in self.add
        }
        return {
            "remove": {
                **same,
                "partitionValues": {},
                "extendedFileMetadata": True,
                "deletionTimestamp": at_ms,
                "dataChange": data_change,
            }
        }


@dataclass
class TableState:
    """Of one table without partitions. ``files``: by path; ``metadata`` and ``protocol``: the actions that hold;
    ``markers``: app id to the highest ``txnVersion``; ``looks_at_rows``: a footer did not say all that a log says (``written_files``).
    """

    at: TableFiles
    version: int = -1
    files: dict[str, LiveFile] = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)
    protocol: Action = field(default_factory=dict)
    markers: dict[str, int] = field(default_factory=dict)
    looks_at_rows: bool = False
    _seen: Seen | None = None

    @property
    def folder(self) -> Path:
        """Below which data files lie that are kept (``TableFiles``)."""
        return self.at.folder

    @classmethod
    def read(cls, table: Table) -> TableState:
        """As the log has it now. Raises :class:`UnknownLogError`, and delta-rs's ``TableNotFoundError``."""
        at = of(table)
        try:
            return cls._read(at)
        except TornCommitError:
            raise  # delta-rs takes an empty one for a version without actions
        except UnknownLogError:
            # delta-rs reads logs of more kinds, and writes its checkpoints in the one that is read here.
            try:
                by_delta_rs = opened(at.place)
                with asked(at.place):
                    by_delta_rs.create_checkpoint()
            except TableNotFoundError:
                raise
            except DeltaError as failure:
                raise UnknownLogError(str(failure)) from failure
            return cls._read(at)

    @classmethod
    def of_version(cls, table: Table, version: int) -> TableState:
        """As it was then. Raises :class:`UnknownLogError`, also where the log does not hold all of that any more."""
        found = cls(of(table))
        base = delta_log.last_checkpoint(found.at, version)
        if base is not None:
            found._begin_at(base)
        for number in range(found.version + 1, version + 1):
            if not found._take_version(number):
                raise UnknownLogError(f"version {number} is no longer there")
        return found

    @classmethod
    def _read(cls, at: TableFiles) -> TableState:
        found = cls(at)
        found._begin()
        # Once, and not by name alone: where a log has a hole, what comes after it must not be taken for not there.
        for number in range(found.version + 1, delta_log.newest(at) + 1):
            if not found._take_version(number):
                raise UnknownLogError(f"version {number} is no longer there")
        if found.version < 0:
            raise UnknownLogError("there is none")
        found._seen = Seen.at(at, found.version)
        return found

    def follow(self) -> bool:
        """Take in what was committed since. False when this has to be read anew: the table is another one, or its
        log no longer holds the version that was seen.
        """
        if self._seen is None or Seen.at(self.at, self.version) != self._seen:
            return False
        before = self.version
        while self._take_version(self.version + 1):
            pass
        if self.version != before:
            self._seen = Seen.at(self.at, self.version)
        return True

    def reached_by(self, rows: pa.Table, key: Sequence[str]) -> list[LiveFile]:
        """The files that may hold one of these rows' keys, by the range of the key's first column, where that is a
        whole number; all of them for an empty key.
        """
        if not key or not rows.num_rows:
            return list(self.files.values())
        wanted = rows[key[0]]
        numbers = wanted.cast(pa.int64()) if pa.types.is_integer(wanted.type) else None
        column = self.physical(key[0])
        return [one for one in self.files.values() if _may_hold(one, numbers, column)]

    def between(self, column: str, keys: tuple[int, int] | None) -> list[LiveFile]:
        """The files that may have a row whose value in a column lies between two whole numbers; None: all of them."""
        held, physical = self.files.values(), self.physical(column)
        return [one for one in held if keys is None or _may_meet(one, physical, keys)]

    def physical(self, column: str) -> str:
        """A column's name in the files, which columns keep when they are renamed."""
        return file_statistics.physical_names(self.metadata["schemaString"]).get(column, column)

    @property
    def columns(self) -> file_statistics.Columns:
        """Types by physical names."""
        return file_statistics.columns(self.metadata["schemaString"])

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table's properties."""
        found: Mapping[str, str] = self.metadata.get("configuration") or {}
        return found

    @property
    def features(self) -> frozenset[str]:
        """Names of the features that it asks readers and writers for."""
        named = (self.protocol.get(name) for name in ("readerFeatures", "writerFeatures"))
        return frozenset(feature for some in named for feature in some or ())

    def _take_version(self, number: int) -> bool:
        actions = delta_log.read(self.at, number)
        if actions is not None:
            self._take(actions)
            self.version = number
        return actions is not None

    def _take(self, actions: Iterable[Mapping[str, Any]]) -> None:
        """One commit's: of a file that it takes out and puts in with other rows deleted, the latter holds."""
        added = dict[str, LiveFile]()
        for action in actions:
            if "remove" in action:
                self.files.pop(action["remove"]["path"], None)
            elif "add" in action:
                add = action["add"]
                added[add["path"]] = LiveFile(_entry(add))
            elif "txn" in action:
                self.markers[action["txn"]["appId"]] = action["txn"]["version"]
            elif "metaData" in action:
                self.metadata = _known(action["metaData"])
            elif "protocol" in action:
                self.protocol = _known(action["protocol"])
        self.files |= added

    def _begin(self) -> None:
        pointer = self.at.text(delta_log.POINTER)
        if pointer is None:
            return
        try:
            said = json.loads(pointer.decode())
        except ValueError as failure:
            raise UnknownLogError("it does not say which its last checkpoint is") from failure
        if said.get("parts"):
            raise UnknownLogError("its checkpoint has parts")
        self._begin_at(int(said["version"]))

    def _begin_at(self, checkpoint: int) -> None:
        file = self.at.source(f"{LOG}/{checkpoint:020d}.checkpoint.parquet")
        if file is None:
            raise UnknownLogError("its checkpoint has parts")
        there = set(pq.read_schema(file).names)
        columns = [name for name in (*_IN_CHECKPOINT, _SIDECAR) if name in there]
        held = pq.read_table(file, columns=columns).to_pylist()
        beside = any(row.get(_SIDECAR) for row in held)
        if beside or not any(row.get("metaData") for row in held):
            raise UnknownLogError("its checkpoint has parts")
        self._take(map(_plain, held))
        self.version = checkpoint


def _may_hold(one: LiveFile, numbers: pa.ChunkedArray | None, column: str) -> bool:
    known = _whole_numbers(one, column)
    if numbers is None or known is None:
        return True
    low, high = known
    return bool(
        pc.any(pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))).as_py()
    )


def _may_meet(one: LiveFile, column: str, keys: tuple[int, int]) -> bool:
    known = _whole_numbers(one, column)
    return known is None or (known[0] <= keys[1] and known[1] >= keys[0])


def _whole_numbers(one: LiveFile, column: str) -> tuple[int, int] | None:
    low, high = one.range(column)
    return (low, high) if isinstance(low, int) and isinstance(high, int) else None


def _plain(row: Mapping[str, Any]) -> Action:
    """A checkpoint's row as the action that it stands for."""
    for kind, found in row.items():
        if found is not None:
            action = _known(found)
            if kind == "metaData":
                action["configuration"] = dict(action.get("configuration") or ())
                action["format"] = {"provider": "parquet", "options": {}}
            return {kind: action}
    return {}


def _known(found: Mapping[str, Any]) -> Action:
    return {name: value for name, value in found.items() if value is not None}


def _entry(add: Mapping[str, Any]) -> Action:
    found = {name: add[name] for name in _OF_FILE if add.get(name) is not None}
    if vector := found.get("deletionVector"):
        found["deletionVector"] = {
            name: vector[name] for name in (*_OF_VECTOR, "offset") if vector.get(name) is not None
        }
    return found


def asked_of_writers(writer: int, *named: Iterable[str] | None) -> frozenset[str]:
    """What a table's protocol asks of a writer. Older ones name nothing; those that ask for more than plain
    tables do have a name of their own here. ``writer``: the version it asks for; ``named``: its features,
    readers' and writers'.
    """
    plain = writer <= _PLAIN_WRITER or writer == _NAMES_FEATURES
    return frozenset(chain(*(some or () for some in named), [] if plain else [f"writer {writer}"]))
