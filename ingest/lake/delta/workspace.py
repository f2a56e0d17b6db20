"""A folder where delta-rs works on some of a table's files, and what it did there as a commit of the real table.

In it lie a log of one version, which names the files and says of what kind the table is, and a link to the real
table's folder. So delta-rs meets no more of a table than it needs, and no log of thousands of versions
(``delta_snapshot``). All reading and writing of rows is delta-rs's; the commit is Delta's own, made by one
name that only one writer can create.
"""

from __future__ import annotations

import errno
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

from deltalake import DeltaTable

from ingest.lake.delta import deletion_vector, delta_log, file_statistics, parquet_footers
from ingest.lake.delta.delta_log import Action
from ingest.lake.delta.delta_snapshot import LiveFile, TableState
from ingest.lake.files.disk_failure import FULL
from ingest.lake.files.table_files import TableFiles
from ingest.model.errors import Exit, IngestError
from ingest.model.failpoints import reached

_LINK = "table"
_NO_ROOM = (*FULL, errno.EFBIG)
"""Answers by which nothing was made."""


class ScratchGoneError(IngestError):
    """What was being written is no longer there. Nothing was committed, so it can be done again."""

    def __init__(self, folder: Path, what: str, table: str) -> None:
        super().__init__(
            "E-SCRATCH-GONE",
            f"{what}, written for {table}, is gone from {folder} before it was committed.",
            means="Nothing of it was committed; the batch in hand comes again.",
            remedy="run again. If it says so again, see what removes files from `_ingest/scratch` of the lake while the "
            "pipeline runs (a cleaner of old files, say), and keep it away.",
            exit_code=Exit.FAILED,
            may_pass=True,
        )


@contextmanager
def scratch(root: Path, like: TableState, files: Iterable[LiveFile]) -> Iterator[Scratch]:
    """One of these files of a table. ``root``: best on the same disk as the table; what a crash leaves there is of no use."""
    folder, worked_on = root / uuid.uuid4().hex, list(files)
    vectors = (deletion_vector.file_of(one.add.get("deletionVector")) for one in worked_on)
    wanted = [*(one.path for one in worked_on), *filter(None, vectors)]
    with like.at.kept(wanted):
        try:
            _prepare(folder, like, worked_on)
            yield Scratch(folder, like)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _prepare(folder: Path, like: TableState, files: Iterable[LiveFile]) -> None:
    folder.mkdir(parents=True)
    (folder / _LINK).symlink_to(like.folder.absolute(), target_is_directory=True)
    rest: Action = {"partitionValues": {}, "modificationTime": 0, "dataChange": True}
    actions = list[Action]([{"protocol": like.protocol}, {"metaData": like.metadata}])
    for one in files:
        add = one.corrected(like.columns)
        actions.append({"add": {**rest, **add, "path": f"{_LINK}/{one.path}"}})
        if vector := deletion_vector.file_of(one.add.get("deletionVector")):
            # Sought below the table's folder, which is this one here; one holds the vectors of several files.
            (folder / vector).parent.mkdir(exist_ok=True)
            if not (folder / vector).is_symlink():
                (folder / vector).symlink_to(like.folder.absolute() / vector)
    delta_log.write_unsynced(folder, 0, actions)


class Scratch:
    """Made by :func:`scratch`."""

    def __init__(self, folder: Path, like: TableState) -> None:
        self._folder = folder
        self._like = like
        self._version = like.version

    @cached_property
    def table(self) -> DeltaTable:
        """What delta-rs works on."""
        return DeltaTable(self._folder)

    def as_it_was(self) -> DeltaTable:
        """The files that it was made of."""
        return DeltaTable(self._folder, version=0)

    def done(self, now_ms: int) -> tuple[Action, list[Action]]:
        """What was done here, in terms of the real table: what the last commit says of itself, and the actions of all.

        Raises :class:`ScratchGoneError`. delta-rs knows how many commits it made, so that a scratch which somebody has
        swept meanwhile is not taken for one in which nothing was to be done.
        """
        info, found = Action(), list[Action]()
        for version in range(1, self.table.version() + 1):
            actions = delta_log.read(self._folder, version)
            if actions is None:
                raise ScratchGoneError(self._folder, f"Commit {version}", self._like.at.place)
            for action in actions:
                if "commitInfo" in action:
                    info = action["commitInfo"]
                elif "remove" in action:
                    path = action["remove"]["path"].removeprefix(f"{_LINK}/")
                    found.append(self._like.files[path].removed(now_ms))
                elif "add" in action:
                    found.append({"add": self._true(action["add"])})
                else:
                    found.append(action)
        return info, found

    def _true(self, add: Action) -> Action:
        """A new file's entry, its bounds taken from the file where delta-rs's are not exact."""
        known = self._like.columns
        file = self._folder / unquote(add["path"])
        exact = parquet_footers.decimals(file, file_statistics.wide(known))
        return file_statistics.true(add, known, exact)

    def commit(self, actions: Sequence[Action]) -> bool:
        """Make these actions the version after the one that the scratch was made from, its new files among them;
        False when somebody else has made that.

        The files come first: a crash between leaves some that no version names, for VACUUM. They are on the disk, names
        included, before the log names them. They go where that version, once it was read, names none of them: names are drawn by lot, so one
        that it names was made here, whatever the answer to that was. Raises :class:`ScratchGoneError` before any of this where a file is neither
        here nor one that the table had: no version may name a file that nobody has.
        """
        table = self._like.at
        paths = [action["add"]["path"] for action in actions if "add" in action]
        new = [path for path in paths if (self._folder / path).exists()]
        if gone := sorted({*paths} - {*new} - self._like.files.keys()):
            raise ScratchGoneError(self._folder, gone[0], table.place)
        version = self._version + 1
        try:
            table.bring(self._folder, new)
            reached("files_written", 0, table.place)
            done = delta_log.write(table, version, actions)
        except OSError as failure:
            # On a full disk they would take the next try's room. Who has heard nothing does not know what a server still does.
            if failure.errno in _NO_ROOM and not delta_log.is_there(table, version):
                _remove(table, new)
            raise
        if done:
            return True
        standing = delta_log.read(table, version)
        named = {action["add"]["path"] for action in standing or () if "add" in action}
        if named.intersection(new):
            return True
        if standing is not None:
            _remove(table, new)
        return False


def _remove(table: TableFiles, files: Iterable[str]) -> None:
    """Files that no version names."""
    for path in files:
        with suppress(OSError, IngestError):
            table.drop([path])
