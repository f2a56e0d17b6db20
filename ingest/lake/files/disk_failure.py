"""A disk that is full, read-only, broken or not ours to write to: found in whatever its failure is wrapped in, and said as an
error of ours.

Python has a number for it. Java, delta-rs and Arrow have the operating system's words for that number, somewhere in a text.
Only they are read: a failure of another kind may hold the same words as a row's value.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ingest.model.errors import Exit, IngestError
from ingest.model.location import local_folder

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of a disk on which no room is left, and of a quota that is used up."""
_REFUSED = (errno.EROFS, errno.EACCES, errno.EIO, errno.EFBIG)
_NUMBERS = {os.strerror(number): number for number in (*FULL, *_REFUSED)}
_KNOWN = frozenset(_NUMBERS.values())

_WRAPPING = (OSError, Py4JError, PySparkException, DeltaError, pa.ArrowException)
_WORDS = "|".join(map(re.escape, _NUMBERS))
_IN_RUST = re.compile(r"\(os error (\d+)\)|\bOs \{ code: (\d+),")
_IN_ARROW = re.compile(r"\[errno (\d+)\]", re.IGNORECASE)
_IN_JAVA = re.compile(
    r"\b(?:java\.(?:io|nio\.file)|org\.(?:apache\.hadoop|rocksdb)[\w.]*)\.?\w*(?:Exception|Error): "
    rf"(?:[^\n/]{{0,80}}(?P<path>/[^\n]*?)(?:: | \())?(?P<words>{_WORDS})\)?\s*$",
    re.MULTILINE,
)
_DENIED = re.compile(r"\bjava\.nio\.file\.AccessDeniedException: (?P<path>/\S*)")


@dataclass(frozen=True)
class DiskFailure:
    """What the system refused (its ``errno``), and at which path; empty where the failure does not say."""

    number: int
    path: str = ""

    @property
    def full(self) -> bool:
        """No room is left, on the disk or of a quota."""
        return self.number in FULL

    @property
    def words(self) -> str:
        """The system's own."""
        return os.strerror(self.number)


def found(failure: BaseException) -> DiskFailure | None:
    """What a failure, or one that has led to it, says of a disk; None where it is none of a disk's."""
    for one in chain(failure):
        if isinstance(one, OSError) and (number := one.errno or 0) in _KNOWN:
            return DiskFailure(number, "" if one.filename is None else str(one.filename))
        if isinstance(one, _WRAPPING) and (disk := told_by(_text(one))):
            return disk
    return None


def told_by(text: str) -> DiskFailure | None:
    """The same of a failure's text."""
    for form in (_IN_RUST, _IN_ARROW):
        numbers = (int(match[match.lastindex or 0]) for match in form.finditer(text))
        if number := next((one for one in numbers if one in _KNOWN), 0):
            return DiskFailure(number)
    if match := _IN_JAVA.search(text):
        return DiskFailure(_NUMBERS[match["words"]], match["path"] or "")
    if match := _DENIED.search(text):
        return DiskFailure(errno.EACCES, match["path"])
    return None


def of_disk(failure: BaseException, lake: str = "") -> IngestError | None:
    """The error of ours that a failure of a disk is; None for another failure. ``lake``: its path, where one is known."""
    disk = found(failure)
    return None if disk is None else as_error(disk, lake)


def as_error(disk: DiskFailure, lake: str, exit_code: Exit = Exit.FAILED) -> IngestError:
    """What happened, where, what it means for the data, and what to do."""
    folder = local_folder(lake) if lake else None
    path = disk.path or (str(_fullest(folder)) if disk.full and lake else str(folder or ""))
    inside = folder is not None and Path(path).is_relative_to(folder)
    if disk.full:
        where = f"The disk of {path} is full" if path else "A disk is full"
        where = f"The lake's disk is full ({lake})" if inside else where
        return IngestError(
            "E-DISK-FULL",
            f"{where}: {disk.words}.",
            means=_MEANS,
            remedy="make room on it, then run again, which goes on where this ended; a job that runs tries again by "
            "itself for a minute and a half. How long old versions of tables take room is `lake.history_hours`.",
            exit_code=exit_code,
            may_pass=True,
        )
    where = (
        f"The lake's disk cannot be used ({path})"
        if inside
        else f"{path or 'A disk'} cannot be used"
    )
    return IngestError(
        "E-DISK-REFUSED",
        f"{where}: {disk.words}.",
        means=_MEANS,
        remedy="see how that disk is mounted, who may write there and what the system's log says of it, then run "
        "again, which goes on where this ended; a job that runs tries again by itself for a minute and a half.",
        exit_code=exit_code,
        may_pass=True,
    )


_MEANS = "Published batches stay as they are; what is not published stays in Kafka."


def _fullest(lake: Path | None) -> Path:
    """Of the lake and Spark's temporary files, which lies on the disk with the least room; the lake where they share it."""
    temporary = Path(tempfile.gettempdir())
    if lake is None:
        return temporary
    (disk, room), (other, left) = _disk(lake), _disk(temporary)
    return lake if disk == other or room <= left else temporary


def _disk(folder: Path) -> tuple[int, int]:
    """Which disk a folder is on, and the bytes that are free there; none where it cannot be asked."""
    with suppress(OSError):
        return folder.stat().st_dev, shutil.disk_usage(folder).free
    return -1, 0


def chain(failure: BaseException) -> Iterator[BaseException]:
    """A failure and those that have led to it, newest first."""
    one: BaseException | None = failure
    while one is not None:
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _text(failure: BaseException) -> str:
    """Its words, and Java's stack where it holds one. Some ask Spark for them, which may be gone."""
    stack = str(getattr(failure, "_stackTrace", ""))
    with suppress(Exception):
        return f"{failure}\n{stack}"
    return stack
