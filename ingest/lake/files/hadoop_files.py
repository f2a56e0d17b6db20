"""Small files where only Spark goes, through Hadoop's file systems: HDFS before all."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ingest.lake.files.disk_failure import of_disk
from ingest.lake.files.object_files import LakeAwayError, LakeDeniedError
from ingest.lake.files.server_failure import answer_of, is_away, is_denial
from ingest.model.location import is_local


class HadoopFiles:
    """``storage.Files`` below one root. Raises :class:`LakeAwayError` and :class:`LakeDeniedError`, but on this machine's disk, whose
    failures have names of their own (``disk_failure``).
    """

    def __init__(self, session: SparkSession, root: str) -> None:
        self._jvm: Any = session._jvm
        self._new_array: Any = session.sparkContext._gateway.new_array  # type: ignore[union-attr]
        self._hadoop: Any = session._jsparkSession.sessionState().newHadoopConf()
        self._root = root
        given = self._path("")
        with self._answers():
            self._fs: Any = given.getFileSystem(self._hadoop)
        # `hdfs:///lake` gets the name node of `fs.defaultFS`, which ``FileContext`` does not look up by itself.
        whole = given.makeQualified(self._fs.getUri(), self._fs.getWorkingDirectory())
        self._root = str(whole.toString()).rstrip("/")

    @property
    def root(self) -> str:
        """With its file system's scheme and server, as Spark names files below it."""
        return self._root

    @contextmanager
    def _answers(self) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as failure:
            if error := failed(self._root, failure):
                raise error from failure
            raise

    @cached_property
    def _names(self) -> Any:
        context = self._jvm.org.apache.hadoop.fs.FileContext
        return context.getFileContext(self._fs.getUri(), self._hadoop)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{name}" if name else self._root)

    def read(self, name: str) -> str | None:
        """The text of a file, or None when there is none."""
        with self._answers():
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

    def tail(self, name: str, start: int) -> bytes:
        """The bytes of a file from this one on."""
        with self._answers():
            stream = self._fs.open(self._path(name))
            try:
                stream.seek(start)
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def write(self, name: str, text: str, *, lasting: bool = True) -> None:
        """Write under another name, then rename over, in one step of the name node's: whoever dies, the former text or the new one is there."""
        del lasting  # it is as lasting as the file system's own close makes it
        with self._answers(), self._part_of(name, text) as part:
            self._rename(part, self._path(name), "OVERWRITE")

    def create(self, name: str, text: str) -> bool:
        """Make it under another name, then rename to one that must not exist: the name appears with its whole text or not. The name node
        looks and renames in one step. On a local disk and in an object store Hadoop's own is no such step (25 of 25 races on
        s3a had several winners); those have ``LocalFiles`` and ``ObjectFiles``.
        """
        with self._answers(), self._part_of(name, text) as part:
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
        with self._answers():
            self._fs.delete(self._path(name), True)

    def exists(self, name: str = "") -> bool:
        """True when the file or folder is there."""
        with self._answers():
            return bool(self._fs.exists(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """Names in a folder; empty when there is no such folder."""
        path = self._path(folder)
        with self._answers():
            if not self._fs.exists(path):
                return []
            return sorted(str(status.getPath().getName()) for status in self._fs.listStatus(path))


def failed(root: str, failure: BaseException) -> LakeAwayError | LakeDeniedError | None:
    """What a file system's failure is to a lake below ``root``: None on this machine's disk, and where a server has answered about a file. Such
    an answer (one whose blocks are gone, one that another user of HDFS keeps to himself) may be one table's own.
    """
    java = None if is_local(root) else answer_of(failure)
    if java is None:
        return None
    said = " ".join(str(java.getMessage() or "").split())[:200]
    name = str(java.getClass().getSimpleName())
    kind = LakeDeniedError if is_denial(failure) else LakeAwayError
    return kind(root, f"{name}: {said}" if said else name)


def raise_if_passing(root: str, failure: Exception) -> None:
    """Raises a failure at a table that is that of a disk or a server: the table itself may be as it should be."""
    if of_disk(failure) is not None or is_away(failure):
        raise failed(root, failure) or failure
