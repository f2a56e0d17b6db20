"""Small files beside a checkpoint, through Hadoop's file systems: local paths and URIs alike."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


class Storage:
    """Read and write whole small text files below one root."""

    def __init__(self, session: SparkSession, root: str) -> None:
        self._root = root.rstrip("/")
        self._jvm: Any = session._jvm
        hadoop = session._jsparkSession.sessionState().newHadoopConf()
        self._fs: Any = self._path("").getFileSystem(hadoop)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{name}" if name else self._root)

    def read(self, name: str) -> str | None:
        """The text of a file, or None when there is none."""
        path = self._path(name)
        if not self._fs.exists(path):
            return None
        stream = self._fs.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a file whole: under another name first, then renamed."""
        path, part = self._path(name), self._path(f"{name}.part")
        self._fs.mkdirs(path.getParent())
        stream = self._fs.create(part, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self._fs.delete(path, False)
        self._fs.rename(part, path)

    def exists(self, name: str = "") -> bool:
        """True when the file or folder is there."""
        return bool(self._fs.exists(self._path(name)))

    def names(self, folder: str) -> list[str]:
        """Names in a folder; empty when there is no such folder."""
        path = self._path(folder)
        if not self._fs.exists(path):
            return []
        return [str(status.getPath().getName()) for status in self._fs.listStatus(path)]
