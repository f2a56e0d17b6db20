"""Commits that Spark or delta-rs made by themselves, made to outlast a power cut; and taken back where one did not.

What goes through a ``workspace`` is on the disk before its log entry is. Others write data, log entry and checkpoints as
they like, so all that a commit of theirs has written is made lasting after it, and before the manifest's row names its version
(``Committer.once``). A power cut before that may leave anything of it. What is left cannot be judged by looking: a log
entry of which the last lines are missing reads like a smaller commit. But nothing of it is published, so it is taken
back, and made again from Kafka.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from ingest.lake.delta import deletion_vector, delta_log
from ingest.lake.delta.delta_log import Action, TornCommitError
from ingest.lake.files import durability
from ingest.lake.files.location import is_local
from ingest.model.names import Marker, app_id_parts
from ingest.model.start_facts import Note

_OF_VERSION = re.compile(r"\.?(\d{20})\.(?!.*\.(?:part|tmp)$).+")
"""A file of the log that belongs to a version, or the checksum that Hadoop keeps beside one; none that was still being made."""

_POINTER = "_last_checkpoint"
_PARQUET = b"PAR1"
"""How a Parquet file begins and ends."""


def make_lasting(table: Path, start: int) -> None:
    """All that versions from ``start`` on have written, the log's own files among it."""
    log = table / "_delta_log"
    of_log = [file for file in log.iterdir() if _number(file.name) >= start]
    pointers = [log / _POINTER, log / f".{_POINTER}.crc"]
    data = [file for file in _data(table, of_log) if file.exists()]
    durability.files([*data, *of_log, *(one for one in pointers if one.exists())])
    if start == 0:
        for folder in (table, table.parent, table.parent.parent):
            durability.names(folder)


def unpublished(table: Path, known: int, batch: int) -> int | None:
    """The first version after ``known`` that is not whole, or of a batch of ours after ``batch``; None where there is none.
    What others did there, and upkeep of ours, stays.
    """
    newest = delta_log.newest(table)
    for version in range(known + 1, newest + 1):
        try:
            actions = delta_log.read(table, version)
        except TornCommitError:
            return version
        if actions is None:
            if _covered(table / "_delta_log", version):
                continue
            return version  # a later effect without an earlier one
        if _batch(actions) > batch or not _is_whole(table, version, actions):
            return version
    return None


def take_back(table: Path, first: int | None) -> list[int]:
    """Remove version ``first`` (None: the one that would come next) and all after it from the log, the newest first; returns
    the numbers of those that were there. Checksums and checkpoints go without their version, too: the next one of that number
    would be held against them. Data files stay for VACUUM.
    """
    log = table / "_delta_log"
    first = delta_log.newest(table) + 1 if first is None else first
    gone = sorted(file for file in log.iterdir() if _number(file.name) >= first)
    for file in reversed(gone):
        file.unlink()
    durability.names(log)
    return [_number(file.name) for file in gone if _is_commit(file)]


def drop_torn_checkpoints(table: Path) -> None:
    """Those that are not whole, and the name of the last one where it is none of those that are left: readers begin there,
    and find the way without.
    """
    log = table / "_delta_log"
    for file in log.glob("*.checkpoint*.parquet"):
        if not _is_parquet(file):
            file.unlink()
    pointer = log / _POINTER
    if pointer.exists():
        try:
            version = int(json.loads(pointer.read_text(encoding="utf-8"))["version"])
        except (ValueError, KeyError, TypeError):
            version = -1
        if not any(log.glob(f"{version:020d}.checkpoint*.parquet")):
            pointer.unlink()
            (log / f".{_POINTER}.crc").unlink(missing_ok=True)
    durability.names(log)


def _batch(actions: Iterable[Action]) -> int:
    """The batch of ours that a commit is of, by its marker or by its note, the first of its lines; 0 for none."""
    found = 0
    for action in actions:
        txn, info = action.get("txn"), action.get("commitInfo")
        if txn and app_id_parts(txn["appId"]):
            found = max(found, Marker.parse(txn["version"]).batch)
        if info:
            with suppress(ValueError, KeyError, TypeError):
                found = max(found, Note.from_json(info.get("userMetadata") or "").batch_id)
    return found


def _is_whole(table: Path, version: int, actions: Sequence[Action]) -> bool:
    """False where lines or files are missing that a commit of its kind has."""
    kinds = {kind for action in actions for kind in action}
    if version == 0:
        return {"protocol", "metaData"} <= kinds
    added = [action["add"] for action in actions if "add" in action]
    for info in (action["commitInfo"] for action in actions if "commitInfo" in action):
        # Of an append Spark says how many files it has, a fence's none.
        count = (info.get("operationMetrics") or {}).get("numFiles")
        if info.get("operation") == "WRITE" and count is not None and int(count) != len(added):
            return False
    return all(_is_there(table, add) for add in added)


def _covered(log: Path, version: int) -> bool:
    """True where readers need no version of this number, since a checkpoint holds all up to a later one."""
    found = (file for file in log.glob("*.checkpoint*.parquet") if _number(file.name) >= version)
    return any(map(_is_parquet, found))


def _data(table: Path, of_log: Iterable[Path]) -> Iterator[Path]:
    """Data files and deletion vectors that these commits name, and Hadoop's checksums beside them."""
    for entry in of_log:
        if not _is_commit(entry):
            continue
        for action in delta_log.lines(entry.read_bytes(), str(entry)):
            add = action.get("add")
            if add is None or not is_local(add["path"]):  # of another table, in a clone
                continue
            names = [unquote(add["path"]), deletion_vector.file_of(add.get("deletionVector"))]
            for name in filter(None, names):
                file = table / name
                yield from (file, file.with_name(f".{file.name}.crc"))


def _is_there(table: Path, add: Action) -> bool:
    if not is_local(add["path"]):
        return True
    file = table / unquote(add["path"])
    return file.is_file() and file.stat().st_size == add["size"] and _is_parquet(file)


def _is_parquet(file: Path) -> bool:
    with file.open("rb") as content:
        begins = content.read(len(_PARQUET))
        if content.seek(0, 2) < 3 * len(_PARQUET):
            return False
        content.seek(-len(_PARQUET), 2)
        return begins == content.read() == _PARQUET


def _is_commit(file: Path) -> bool:
    return file.suffix == ".json" and not file.name.startswith(".")


def _number(name: str) -> int:
    """The version that a file of the log belongs to; -1 for none."""
    found = _OF_VERSION.fullmatch(name)
    return int(found[1]) if found else -1
