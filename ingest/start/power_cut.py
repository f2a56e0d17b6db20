"""What a machine that went down has left in a lake on its disk, taken back before anybody looks at the lake.

All that the manifest names is on the disk (``lake/files/durability``). What came after may be there, or in part, or in
another order than it was made. None of it is published: it is removed from the tables' logs (``torn_versions``), and comes again
from Kafka. The same goes for the stream's checkpoint, which Spark does not bring to the disk: the manifest says where to go on.

A process that was killed leaves no such thing, as the kernel keeps what was written. So a lake notes under which boot of a
machine it was last looked through, and under the same one nothing is to be done. The note is made when all is done: whoever is
killed in the middle of it leaves it to the next.

A clean reboot looks the same from here, and so does an upgrade. So nothing is taken back but what a batch has made that is not
published, and what Spark's OPTIMIZE was at (``unfinished_rewrite``), and only where the table is whole before it; else it is left to the start,
which finishes the batch as after a kill.

All of this goes by names that a successor uses as well: the next versions, the files of a checkpoint. A job that is suspended in the middle,
and wakes up when another has the lake, must not go on. So the lease is asked for before each file that goes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta import torn_versions
from ingest.lake.delta.unfinished_rewrite import UnfinishedRewrite
from ingest.lake.files import durability
from ingest.lake.files.owner import boot_id
from ingest.lake.files.storage import LocalFiles
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.location import is_local, local_folder
from ingest.model.manifest import Entry
from ingest.model.names import (
    INTERNAL_FOLDER,
    checkpoint_path,
    lease_path,
    manifest_path,
    quarantine_path,
    scratch_path,
)
from ingest.model.topics import TableId

_BOOT = "boot"
"""Beside the lease: under which boot of a machine the lake was last looked through."""


def look_through(
    pipeline: Pipeline,
    captured: Iterable[TableId],
    say: Callable[[str], None],
    refuse_lost: Callable[[], None],
) -> None:
    """Bring a lake in a local folder to what its manifest names, if another boot than this one wrote to it. Under the
    lease, before anything else. ``captured``: the source's tables, of which the lake may have some that the manifest does
    not name yet. ``refuse_lost`` raises when a successor has taken the lease.
    """
    if not is_local(pipeline.lake.path):
        return
    note, boot = LocalFiles(lease_path(pipeline.lake.path)), boot_id()
    if note.read(_BOOT) == boot:
        return
    taken = take_back(pipeline, captured, refuse_lost)
    for path in (checkpoint_path(pipeline.lake.path), scratch_path(pipeline.lake.path)):
        _empty(_folder(path), refuse_lost)
    if taken:
        said = "; ".join(taken)
        say(
            f"the machine went down in the middle of a batch; taking back what was not published: {said}"
        )
    refuse_lost()
    note.write(_BOOT, boot)


def take_back(
    pipeline: Pipeline,
    captured: Iterable[TableId],
    refuse_lost: Callable[[], None] = lambda: None,
) -> list[str]:
    """Returns what was taken back of which table, for a person. Twice is as good as once."""
    lake = pipeline.lake.path
    ledger = _folder(manifest_path(lake))
    taken = {ledger: _taken_back(ledger, sys.maxsize, refuse_lost)}
    newest = Ledger(lake).last()
    found = dict(_tables(pipeline, captured, newest))
    quarantine = _folder(quarantine_path(lake))
    if newest is None and any(map(_is_beyond_the_first, [*found, quarantine])):
        return []  # the manifest is gone, and with it who knows what the tables hold: not for us to touch
    published = newest.batch_id if newest else 0
    unfinished = UnfinishedRewrite(lake)
    begun = unfinished.read()
    rewritten = {begun.table: begun.after} if begun else {}
    for folder, known in sorted(found.items()):
        at = rewritten.get(folder)
        taken[folder] = _taken_back(folder, published, refuse_lost, known, at)
    at = rewritten.get(quarantine)
    taken[quarantine] = _taken_back(quarantine, published, refuse_lost, rewritten=at)
    refuse_lost()
    unfinished.end()
    root = _folder(lake)
    return [
        f"{folder.relative_to(root)} {_named(versions)}"
        for folder, versions in taken.items()
        if versions
    ]


def _tables(
    pipeline: Pipeline, captured: Iterable[TableId], newest: Entry | None
) -> Iterator[tuple[Path, int]]:
    """Tables of ours on the disk, with the version that the manifest names, -1 where it names none. By name: the lake may have
    been moved since.
    """
    states = newest.tables if newest else {}
    known = {_folder(pipeline.path(table)): -1 for table in captured}
    for name, state in states.items():
        known[_folder(pipeline.path(TableId.parse(name)))] = state.version
    for name, state in states.items():  # behind them: a table may be called as another one's log is
        if state.log is not None:
            known[_folder(pipeline.change_log_path(TableId.parse(name)))] = state.log.version
    for log in _folder(pipeline.lake.path).glob("*/*/_delta_log"):
        table = log.parent
        if table.parent.name != INTERNAL_FOLDER and (
            table in known
            or (torn_versions.is_ours(table) and not torn_versions.is_a_flow_s(table))
        ):
            yield table, known.get(table, -1)


def _is_beyond_the_first(table: Path) -> bool:
    """True where a table surely holds more than the first batch: a version that cannot be read says nothing of that."""
    return (table / "_delta_log").is_dir() and torn_versions.newest_batch(table) > 1


def _taken_back(
    folder: Path,
    published: int,
    refuse_lost: Callable[[], None],
    known: int | None = None,
    rewritten: int | None = None,
) -> list[int]:
    """What was removed of one table. ``known``: the version that the manifest names; None where it names none. ``rewritten``: the one after
    which its files were being put together; None where they were not.
    """
    if not (folder / "_delta_log").is_dir():
        return []
    torn_versions.drop_torn_checkpoints(folder, refuse_lost)
    if known is None:
        known = torn_versions.newest_published(folder, published)
    first = torn_versions.first_torn(folder, known, published)
    if rewritten is not None:
        again = torn_versions.first_rewritten(folder, max(known, rewritten))
        first = min((one for one in (first, again) if one is not None), default=None)
    if first is None or not torn_versions.is_whole_before(folder, first):
        return []
    return torn_versions.take_back(folder, first, refuse_lost)


def _empty(folder: Path, refuse_lost: Callable[[], None]) -> None:
    """Remove what is in a folder, which may itself be a link to another disk. The lease is asked for before each file."""
    for at, folders, files in os.walk(folder, topdown=False):
        inside = Path(at)
        for name in (*files, *folders):
            refuse_lost()
            one = inside / name
            if one.is_dir() and not one.is_symlink():
                one.rmdir()
            else:
                one.unlink()
    if folder.is_dir():
        durability.names(folder)


def _folder(path: str) -> Path:
    folder = local_folder(path)
    assert folder is not None
    return folder


def _named(versions: Sequence[int]) -> str:
    first, last = min(versions), max(versions)
    return f"version {first}" if first == last else f"versions {first} to {last}"
