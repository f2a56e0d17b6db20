"""Small files of a lake and beside a checkpoint, wherever they lie: on this machine's disk, in an object store, or where only Spark goes."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ingest.lake.files import durability
from ingest.lake.files.object_files import ObjectFiles
from ingest.model.errors import IngestError
from ingest.model.location import in_object_store, is_local, local_folder


class Files(Protocol):
    """Small text files below one root."""

    def read(self, name: str) -> str | None:
        """The text of a file, or None when there is none."""

    def write(self, name: str, text: str, *, lasting: bool = True) -> None:
        """Write a file whole, replacing what was there. ``lasting``: nobody asks for it after a power cut where it is not."""

    def create(self, name: str, text: str) -> bool:
        """Write a file that must not exist; False when it does."""

    def delete(self, name: str) -> None:
        """Remove a file or folder."""

    def names(self, folder: str) -> list[str]:
        """Names in a folder; empty when there is no such folder."""


PART = re.compile(r"(?P<of>.+)\.[0-9a-f]{12}\.part")
"""The name under which ``LocalFiles`` writes a file; one that stays is of a process that was killed meanwhile."""


@contextmanager
def _part_of(path: Path) -> Iterator[Path]:
    """Such a name, of which nothing is left whatever happens: on a full disk each try would leave an empty file."""
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}.part")
    try:
        yield part
    finally:
        with suppress(OSError):  # it has another name by now, or the disk does not even let go
            part.unlink()


class LocalFiles:
    """The same on this machine's disk, without Spark. What ``create`` and ``write`` have made outlasts a power cut."""

    def __init__(self, root: str) -> None:
        self._root = local_folder(root) or Path(root)

    def read(self, name: str) -> str | None:
        """The text of a file, or None when there is none."""
        try:
            return (self._root / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str, *, lasting: bool = True) -> None:
        """Write under another name, then rename over."""
        path = self._root / name
        durability.make_folder(path.parent)
        with _part_of(path) as part:
            part.write_text(text, encoding="utf-8")
            if lasting:
                durability.contents(part)
            part.replace(path)
        if lasting:
            durability.names(path.parent)

    def create(self, name: str, text: str) -> bool:
        """Make it under another name, then link: the name appears with its whole text or not."""
        path = self._root / name
        durability.make_folder(path.parent)
        with _part_of(path) as part:
            part.write_text(text, encoding="utf-8")
            durability.contents(part)
            try:
                os.link(part, path)
            except FileExistsError:
                return False
        durability.names(path.parent)
        return True

    def delete(self, name: str) -> None:
        """Remove a file."""
        path = self._root / name
        with suppress(FileNotFoundError):
            path.unlink()
            durability.names(path.parent)

    def names(self, folder: str) -> list[str]:
        """Names in a folder; empty when there is no such folder."""
        path = self._root / folder
        return sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []


def files_at(path: str) -> Files:
    """The files below a path: on this machine's disk and in an object store directly, elsewhere through the running Spark."""
    if is_local(path):
        return LocalFiles(path)
    if in_object_store(path):
        return ObjectFiles(path)
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise IngestError(
            "E-LAKE-REACH",
            f"{path} is reached through Spark alone, which this command does not start.",
            remedy="ask `ingest run` and `ingest audit`, which do; or put the lake on a local disk or in an object store.",
        )
    return Storage(spark, path)


class Storage:
    """Whole small text files below one root, through Hadoop's file systems."""

    def __init__(self, session: SparkSession, root: str) -> None:
        self._jvm: Any = session._jvm
        self._new_array: Any = session.sparkContext._gateway.new_array  # type: ignore[union-attr]
        self._hadoop: Any = session._jsparkSession.sessionState().newHadoopConf()
        self._root = root
        given = self._path("")
        self._fs: Any = given.getFileSystem(self._hadoop)
        # `hdfs:///lake` gets the name node of `fs.defaultFS`, which ``FileContext`` does not look up by itself.
        whole = given.makeQualified(self._fs.getUri(), self._fs.getWorkingDirectory())
        self._root = str(whole.toString()).rstrip("/")

    @cached_property
    def _names(self) -> Any:
        context = self._jvm.org.apache.hadoop.fs.FileContext
        return context.getFileContext(self._fs.getUri(), self._hadoop)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{name}" if name else self._root)

    def read(self, name: str) -> str | None:
        """The text of a file, or None when there is none."""
        for left in (2, 1, 0):
            try:
                return self._text(name)
            except Py4JJavaError as failure:
                if "FileNotFound" in str(failure.java_exception):
                    return None
                if not left:
                    raise
        return None

    def _text(self, name: str) -> str:
        """Fails, and is to be asked again, where the file is replaced between its opening and its reading, which frees what was opened."""
        stream = self._fs.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str, *, lasting: bool = True) -> None:
        """Write under another name, then rename over, in one step of the name node's: whoever dies, the former text or the new one is there."""
        del lasting  # it is as lasting as the file system's own close makes it
        with self._part_of(name, text) as part:
            self._rename(part, self._path(name), "OVERWRITE")

    def create(self, name: str, text: str) -> bool:
        """Make it under another name, then rename to one that must not exist: the name appears with its whole text or not. The name node
        looks and renames in one step. On a local disk and in an object store Hadoop's own is no such step (25 of 25 races on
        s3a had several winners); those have ``LocalFiles`` and ``ObjectFiles``.
        """
        with self._part_of(name, text) as part:
            try:
                self._rename(part, self._path(name), "NONE")
            except Py4JJavaError as failure:
                if "AlreadyExists" in str(failure.java_exception):
                    return False
                raise
        return True

    @contextmanager
    def _part_of(self, name: str, text: str) -> Iterator[Any]:
        """A file of that text under a name of its own, of which nothing is left."""
        part = self._path(f"{name}.{uuid.uuid4().hex[:12]}.part")
        try:
            stream = self._fs.create(part, True)  # with the folders above it
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
            yield part
        finally:
            with suppress(Py4JJavaError):  # the file system is away
                self._fs.delete(part, False)

    def _rename(self, of: Any, to: Any, how: str) -> None:
        """By ``FileContext``, whose rename says what it found there; that of ``FileSystem`` answers False for all."""
        kind = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        options = self._new_array(kind, 1)
        options[0] = kind.valueOf(how)
        self._names.rename(of, to, options)

    def delete(self, name: str) -> None:
        """Remove a file or a whole folder; nothing happens when it is not there."""
        self._fs.delete(self._path(name), True)

    def exists(self, name: str = "") -> bool:
        """True when the file or folder is there."""
        return bool(self._fs.exists(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """Names in a folder; empty when there is no such folder."""
        path = self._path(folder)
        if not self._fs.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in self._fs.listStatus(path))
