"""The files of one Delta table, wherever they lie: below a folder of this machine's disk, or in an object store.

Who reads a table's log, works on its data files in a scratch and commits what was made of them asks for no more than this. In an
object store data files are fetched to this machine's disk when they are worked on, and stay there for the next time (``file_cache``):
none ever changes under its name.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from ingest.lake.files import durability, file_cache
from ingest.lake.files.file_cache import FileCache
from ingest.lake.files.object_files import ObjectFiles
from ingest.lake.files.storage import LocalFiles
from ingest.model.location import delta_rs_place, local_folder

LOG = "_delta_log"

_AT_ONCE = 500
"""Files that one request removes, of the thousand that Amazon takes: it has to be answered within seconds."""

_ABSENT = (FileNotFoundError, NotADirectoryError)
"""The latter where a file lies in the place of a table's folder."""


class TableFiles(Protocol):
    """``name``: below the table. ``paths``: of data files and deletion vectors, encoded as the log has them."""

    @property
    def place(self) -> str:
        """As delta-rs is told of it."""

    @property
    def folder(self) -> Path:
        """Below which data files lie that are :meth:`kept`."""

    @property
    def local(self) -> bool:
        """Whether the table itself lies in :attr:`folder`."""

    def text(self, name: str) -> bytes | None:
        """Of a file of the log; None where there is none."""

    def source(self, name: str) -> Path | io.BytesIO | None:
        """The same for who reads Parquet."""

    def seen(self, name: str) -> tuple[object, ...] | None:
        """What tells a file of the log from another one of the same name; None where there is none."""

    def written(self, name: str) -> float | None:
        """When a file of the log was, in seconds since 1970; None where there is none."""

    def log(self) -> list[str]:
        """Names of the log's files, sorted; empty where there is no log."""

    def create(self, name: str, text: str) -> bool:
        """Make a file of the log, which lasts; False where there is one."""

    def settle(self, names: Iterable[str]) -> None:
        """These files of the log last from here on."""

    def drop(self, names: Iterable[str], *, in_turn: bool = True) -> None:
        """Remove files; nothing happens where one is not there. ``in_turn``: one after the other, where a crash in between must leave the later ones."""

    def has(self, path: str) -> bool:
        """Whether there is such a data file."""

    def kept(self, paths: Iterable[str]) -> AbstractContextManager[None]:
        """These data files lie below :attr:`folder` meanwhile, and stay there. Raises ``OSError`` where they find no room."""

    def part(self, path: str, start: int, end: int) -> bytes:
        """Bytes of a data file, without the rest of it. Raises ``OSError``."""

    def bring(self, made: Path, paths: Sequence[str]) -> None:
        """New data files from a folder of this machine's; they last when this returns."""


def at(path: str) -> TableFiles | None:
    """A table's, by its path in the lake; None where delta-rs does not find it there (HDFS, odd names)."""
    place = delta_rs_place(path)
    if place is None:
        return None
    folder = local_folder(path)
    return (
        RemoteTable(place, file_cache.of_this_process()) if folder is None else LocalTable(folder)
    )


def of(table: Path | TableFiles) -> TableFiles:
    """A table's in a local folder, or what was asked for already."""
    return LocalTable(table) if isinstance(table, Path) else table


@dataclass(frozen=True)
class LocalTable:
    """Below a folder of this machine's disk."""

    folder: Path
    local: bool = field(default=True, init=False)

    @property
    def place(self) -> str:
        """See ``TableFiles``; so for the others."""
        return str(self.folder)

    def text(self, name: str) -> bytes | None:
        """As it is now."""
        try:
            return (self.folder / name).read_bytes()
        except _ABSENT:
            return None

    def source(self, name: str) -> Path | io.BytesIO | None:
        """The file itself."""
        file = self.folder / name
        return file if file.exists() else None

    def seen(self, name: str) -> tuple[object, ...] | None:
        """Its inode, and when it was written."""
        try:
            found = os.stat(f"{self.folder}/{name}")  # noqa: PTH116 - asked several times a commit, and twice as fast as Path's
        except _ABSENT:
            return None
        return found.st_ino, found.st_mtime_ns

    def written(self, name: str) -> float | None:
        """By the disk's clock."""
        try:
            return (self.folder / name).stat().st_mtime
        except _ABSENT:
            return None

    def log(self) -> list[str]:
        """Reads the whole folder."""
        folder = self.folder / LOG
        return sorted(file.name for file in folder.iterdir()) if folder.exists() else []

    def create(self, name: str, text: str) -> bool:
        """By a link."""
        return LocalFiles(str(self.folder)).create(name, text)

    def settle(self, names: Iterable[str]) -> None:
        """Synced."""
        durability.files([self.folder / name for name in names])

    def drop(self, names: Iterable[str], *, in_turn: bool = True) -> None:
        """Their names go."""
        del in_turn
        for name in names:
            (self.folder / name).unlink(missing_ok=True)

    def has(self, path: str) -> bool:
        """One look."""
        return (self.folder / unquote(path)).exists()

    def kept(self, paths: Iterable[str]) -> AbstractContextManager[None]:
        """They lie there always."""
        del paths
        return nullcontext()

    def part(self, path: str, start: int, end: int) -> bytes:
        """One read."""
        return _part(self.folder / unquote(path), start, end)

    def bring(self, made: Path, paths: Sequence[str]) -> None:
        """Moved, and synced with their names."""
        for path in paths:
            # Where columns are mapped, files lie in folders of two letters; a table may be on another disk.
            durability.make_folder((self.folder / path).parent)
            shutil.move(made / path, self.folder / path)
        durability.files([self.folder / path for path in paths])


@dataclass(frozen=True)
class RemoteTable:
    """In an object store, whose answers are lasting. Raises ``LakeAwayError`` and ``LakeDeniedError`` besides."""

    place: str
    cache: FileCache = field(compare=False, repr=False)
    local: bool = field(default=False, init=False)

    @cached_property
    def _files(self) -> ObjectFiles:
        return ObjectFiles(self.place)

    @property
    def folder(self) -> Path:
        """Of the cache."""
        return self.cache.folder_of(self.place)

    def text(self, name: str) -> bytes | None:
        """One request."""
        return self._files.content(name)

    def source(self, name: str) -> Path | io.BytesIO | None:
        """The same, in memory: a checkpoint is read once."""
        found = self._files.content(name)
        return None if found is None else io.BytesIO(found)

    def seen(self, name: str) -> tuple[object, ...] | None:
        """The server's tag of its content, and when it was written."""
        return self._files.seen(name)

    def written(self, name: str) -> float | None:
        """By the server's clock."""
        return self._files.written(name)

    def log(self) -> list[str]:
        """A request for each thousand."""
        return self._files.names(LOG)

    def create(self, name: str, text: str) -> bool:
        """By a conditional put."""
        return self._files.create(name, text)

    def settle(self, names: Iterable[str]) -> None:
        """They do."""

    def drop(self, names: Iterable[str], *, in_turn: bool = True) -> None:
        """A request for each, or for some hundreds."""
        names, most = list(names), 1 if in_turn else _AT_ONCE
        for some in (names[one : one + most] for one in range(0, len(names), most)):
            self._files.remove(*some)
            for name in some:
                self.cache.forget(self.place, name)

    def has(self, path: str) -> bool:
        """In the store, whatever the cache has."""
        return self._files.seen(unquote(path)) is not None

    def kept(self, paths: Iterable[str]) -> AbstractContextManager[None]:
        """Fetched, those that are not here."""
        return self.cache.kept(self.place, [unquote(path) for path in paths], self._files.fetch)

    def part(self, path: str, start: int, end: int) -> bytes:
        """From the cache, or by one request."""
        with suppress(*_ABSENT):
            return _part(self.folder / unquote(path), start, end)
        return self._files.part(unquote(path), start, end)

    def bring(self, made: Path, paths: Sequence[str]) -> None:
        """Put there, and kept in the cache, as the next commit works on them most likely."""
        for path in paths:
            self._files.put(made / path, path)
        for path in paths:
            with suppress(OSError):  # without room here they are fetched when they are wanted
                self.cache.take(self.place, path, made / path)


def _part(file: Path, start: int, end: int) -> bytes:
    with file.open("rb") as held:
        held.seek(start)
        return held.read(end - start)
