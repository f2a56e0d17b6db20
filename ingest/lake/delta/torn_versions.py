"""Versions of a table that a power cut may have left in part, found and taken back.

What is left of such a version cannot be judged by looking at it: a log entry of which the last lines are missing reads like a
smaller commit. Nor by whether its files are there: those of an old version are gone in time, and rightly. So what counts is
whose it is. What the manifest names, and all before it, is on the disk. After it, upkeep of ours is, too, and what
others did is theirs. Only what a batch has made that is not published goes, with all that came after it: it comes again from
Kafka. And what cannot be read at all goes, as no reader gets beyond it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from ingest.lake.delta import deletion_vector, delta_log
from ingest.lake.delta.delta_log import Action, TornCommitError, UnknownLogError
from ingest.lake.delta.delta_snapshot import TableState
from ingest.lake.delta.lasting_commits import POINTER, number
from ingest.lake.files import durability
from ingest.model.location import delta_rs_folder, local_folder
from ingest.model.names import APPLICATION, FLOW_PROPERTY, Marker, app_id_parts
from ingest.model.start_facts import Note


def first_torn(table: Path, known: int, batch: int) -> int | None:
    """The first version after ``known`` that cannot be read, or is of a batch of ours after ``batch``; None where there is
    none.
    """
    names = [file.name for file in (table / "_delta_log").iterdir()]
    oldest = min((number(one) for one in names if delta_log.is_commit(one)), default=0)
    newest = max(
        map(number, names), default=-1
    )  # what a version has left that never was counts, too
    for version in range(max(known + 1, oldest), newest + 1):
        actions = _read(table, version)
        # A version that is missing between others: a later effect without an earlier one.
        if actions is None or batch_of(actions) > batch:
            return version
        if version == 0 and not {"protocol", "metaData"} <= {
            kind for one in actions for kind in one
        }:
            return version
    return None


def first_rewritten(table: Path, after: int) -> int | None:
    """The first version after ``after`` that put files together; None for none."""
    for version in range(after + 1, delta_log.newest(table) + 1):
        for action in _read(table, version) or ():
            if action.get("commitInfo", {}).get("operation") == "OPTIMIZE":
                return version
    return None


def newest_published(table: Path, batch: int) -> int:
    """The newest version of a batch of ours up to ``batch``, of a table of which the manifest names no version; one before
    its oldest where there is none.
    """
    oldest = None
    for version in range(delta_log.newest(table), -1, -1):
        if not delta_log.is_there(table, version):
            continue
        oldest, actions = version, _read(table, version)
        if actions is not None and 1 <= batch_of(actions) <= batch:
            return version
    return -1 if oldest is None else oldest - 1


def newest_batch(table: Path) -> int:
    """The highest number of a batch of ours that any version of a table is of, as far as they can be read; 0 for none."""
    versions = range(delta_log.newest(table) + 1)
    return max((batch_of(_read(table, version) or ()) for version in versions), default=0)


def is_a_flow_s(table: Path) -> bool:
    """Whether a flow writes it, whose batches have numbers of their own."""
    for version in range(delta_log.newest(table), -1, -1):
        for action in _read(table, version) or ():
            if "metaData" in action:
                return FLOW_PROPERTY in action["metaData"].get("configuration", {})
    return False


def is_ours(table: Path) -> bool:
    """True for a table that a job of ours has made or committed to, and for one of which nothing can be read."""
    found = False
    for version in range(delta_log.newest(table), -1, -1):
        for action in _read(table, version) or ():
            found = True
            properties = (action.get("metaData") or {}).get("configuration") or {}
            if "txn" in action and action["txn"]["appId"].startswith(f"{APPLICATION}/"):
                return True
            if any(name.startswith(f"{APPLICATION}.") for name in properties):
                return True
    return not found


def is_whole_before(table: Path, version: int) -> bool:
    """True where the table can be brought back to the version before this one: it can be read, and all its files are there."""
    if version == 0:
        return True
    try:
        held = _files_of(table, version - 1)
    except (UnknownLogError, DeltaError):
        return False
    places = (local_folder(unquote(one)) for one in held)
    return all(place is None or (table / place).exists() for place in places)


def take_back(table: Path, first: int, refuse_lost: Callable[[], None] = lambda: None) -> list[int]:
    """Remove version ``first`` and all after it from the log, the newest first; returns their numbers. Checkpoints go before,
    by which a reader would still see them, and checksums with them. Data files stay for VACUUM.

    ``refuse_lost`` is asked before each file: a successor's versions have the numbers, and so the names, of those that are taken back.
    """
    log = table / "_delta_log"
    gone = sorted(file for file in log.iterdir() if number(file.name) >= first)
    if gone:
        refuse_lost()
        (log / POINTER).unlink(missing_ok=True)
        (log / f".{POINTER}.crc").unlink(missing_ok=True)
    commits = [file for file in gone if delta_log.is_commit(file.name)]
    for file in gone:
        if file not in commits:
            refuse_lost()
            file.unlink()
    durability.names(log)
    for file in reversed(commits):
        refuse_lost()
        file.unlink()
    durability.names(log)
    return [number(file.name) for file in commits]


def drop_torn_checkpoints(table: Path, refuse_lost: Callable[[], None] = lambda: None) -> None:
    """Those that cannot be read, and the name of the last one where it is none of those that are left: readers begin there,
    and find the way without. ``refuse_lost`` is asked before each.
    """
    log = table / "_delta_log"
    for file in log.glob("*.checkpoint*.parquet"):
        try:
            pq.read_table(file)
        except (OSError, pa.ArrowException):
            refuse_lost()
            file.unlink()
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    pointer = log / POINTER
    if pointer.exists():
        try:
            version = int(json.loads(pointer.read_text(encoding="utf-8"))["version"])
        except (ValueError, KeyError, TypeError):
            version = -1
        if not any(log.glob(f"{version:020d}.checkpoint*.parquet")):
            refuse_lost()
            pointer.unlink()
            (log / f".{POINTER}.crc").unlink(missing_ok=True)
    durability.names(log)


def batch_of(actions: Iterable[Action]) -> int:
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


def _files_of(table: Path, version: int) -> Iterable[str]:
    """Data files and deletion vectors of a version, encoded as a log has them: below the table, or with a place of their own. Not by
    delta-rs, which would look for a table whose name has a percent sign in another folder; but where the log is of a kind that
    it alone reads. Raises :class:`UnknownLogError` or ``DeltaError`` where it is not whole.
    """
    try:
        held = TableState.of_version(table, version).files.values()
    except TornCommitError:
        raise  # delta-rs takes an empty one for a version without actions
    except UnknownLogError:
        folder = delta_rs_folder(str(table))
        if folder is None:
            raise
        return DeltaTable(folder, version=version).file_uris()
    vectors = (deletion_vector.file_of(one.add.get("deletionVector")) for one in held)
    return [*(one.path for one in held), *filter(None, vectors)]


def _read(table: Path, version: int) -> list[Action] | None:
    """A version's actions; None where it is missing, or cannot be read."""
    try:
        return delta_log.read(table, version)
    except TornCommitError:
        return None
