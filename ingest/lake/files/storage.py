"""Small files of a lake and beside a checkpoint, wherever they lie: on this machine's disk, in an object store, or where only Spark goes."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession

from ingest.lake.files import durability
from ingest.lake.files.hadoop_files import HadoopFiles
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
            return (self._root / name).read_bytes().decode("utf-8")  # text would make \n of \r
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
        """Make it under another name, then link: the name appears with its whole text or not.

        Over NFS the name may be taken by this very link: the server has made it, its answer was lost, and it was asked again. Who takes one's
        own file for another's removes the data of a commit that is there. So the file that has the name is looked at.
        """
        path = self._root / name
        durability.make_folder(path.parent)
        with _part_of(path) as part:
            part.write_text(text, encoding="utf-8")
            durability.contents(part)
            try:
                os.link(part, path)
            except FileExistsError:
                if not _is_one(part, path):
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


def _is_one(part: Path, path: Path) -> bool:
    """Whether both names are of one file. One that is gone again was another's, as a lease's that a later holder has swept."""
    try:
        return part.samefile(path)
    except FileNotFoundError:
        return False


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
    return HadoopFiles(spark, path)
