"""What a machine that went down has left in a lake on its disk, taken back before anybody looks at the lake.

All that the manifest names is on the disk (``lake/files/durability``). What came after may be there, or in part, or in
another order than it was made. None of it is published: it is removed from the tables' logs, and comes again from Kafka. The same
goes for the stream's checkpoint, which Spark does not bring to the disk: the manifest says where to go on.

A process that was killed leaves no such thing, as the kernel keeps what was written. So a lake notes under which boot of a
machine it was last looked through, and under the same one nothing is to be done. The note is made when all is done: whoever is
killed in the middle of it leaves it to the next.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ingest.config.pipeline_file import Pipeline
from ingest.lake.delta import delta_log, lasting_commits
from ingest.lake.files import durability
from ingest.lake.files.location import is_local, local_folder
from ingest.lake.files.owner import boot_id
from ingest.lake.files.storage import LocalFiles
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.names import (
    checkpoint_path,
    lease_path,
    manifest_path,
    quarantine_path,
    scratch_path,
)
from ingest.model.topics import TableId

_BOOT = "boot"
"""Beside the lease: under which boot of a machine the lake was last looked through."""

_NEWEST = 8
"""Versions of the manifest and of the quarantine that are looked at: a batch adds one, a take-over another, upkeep four."""


def look_through(
    pipeline: Pipeline, captured: Iterable[TableId], say: Callable[[str], None], *, clean: bool
) -> None:
    """Bring a lake in a local folder to what its manifest names, if another boot than this one wrote to it. Under the
    lease, before anything else. ``captured``: the source's tables, of which the lake may have some that the manifest does
    not name yet; ``clean``: the job before has ended by itself, after its checkpoint was whole.
    """
    if not is_local(pipeline.lake.path):
        return
    note, boot = LocalFiles(lease_path(pipeline.lake.path)), boot_id()
    if note.read(_BOOT) == boot:
        return
    taken = take_back(pipeline, captured)
    if not clean:
        _remove(checkpoint_path(pipeline.lake.path))
    if taken:
        say(
            f"the machine went down in the middle of a batch; taking back what was not published: {'; '.join(taken)}"
        )
    note.write(_BOOT, boot)


def take_back(pipeline: Pipeline, captured: Iterable[TableId]) -> list[str]:
    """Returns what was taken back of which table, for a person. Twice is as good as once."""
    lake = pipeline.lake.path
    taken = {manifest_path(lake): _taken_back(manifest_path(lake), sys.maxsize)}
    newest = Ledger(lake).last()
    published = newest.batch_id if newest else 0
    known = dict.fromkeys(map(pipeline.path, captured), -1)
    known |= newest.versions if newest else {}
    for path, version in sorted(known.items()):
        taken[path] = _taken_back(path, published, version)
    taken[quarantine_path(lake)] = _taken_back(quarantine_path(lake), published)
    _remove(scratch_path(lake))
    root = f"{lake.rstrip('/')}/"
    return [
        f"{path.removeprefix(root)} {_named(versions)}"
        for path, versions in taken.items()
        if versions
    ]


def _remove(path: str) -> None:
    folder = _folder(path)
    if folder.exists():
        shutil.rmtree(folder)
        durability.names(folder.parent)


def _taken_back(path: str, published: int, known: int | None = None) -> list[int]:
    """What was removed of one table. ``known``: the version that the manifest names; None where it names none, so that the
    newest ones are looked at.
    """
    folder = _folder(path)
    if not (folder / "_delta_log").is_dir():
        return []
    if known is None:
        known = max(-1, delta_log.newest(folder) - _NEWEST)
    first = lasting_commits.unpublished(folder, known, published)
    gone = lasting_commits.take_back(folder, first) if first is not None else []
    lasting_commits.drop_torn_checkpoints(folder)
    return gone


def _folder(path: str) -> Path:
    folder = local_folder(path)
    assert folder is not None
    return folder


def _named(versions: Sequence[int]) -> str:
    first, last = min(versions), max(versions)
    return f"version {first}" if first == last else f"versions {first} to {last}"
