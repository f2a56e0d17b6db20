"""What outlasts a power cut.

A write that has returned is in the machine's memory. The kernel brings it to the disk within half a minute, in any order:
a power cut before that leaves names without content, contents without a name, later effects without earlier ones. So
each step of a batch makes lasting what it rests upon before the next one names it: data files, their names, the log
entry, its name, and the manifest's row last.

One setting for the whole process, as a process keeps one lake (``lake.sync`` of the pipeline file). Beyond this machine's
disk there is nothing to do: an object store answers when it holds the object.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

_on = True

_MANY = 64
"""Files, from which on one call for all that is written on a disk takes less time than one for each: 500 took 1.4 s one by
one, and 0.03 all together."""

_NOT_OF_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)


def switch(*, on: bool) -> None:
    """Whether anything is made lasting from now on."""
    global _on  # noqa: PLW0603  one lake a process, see above
    _on = on


def contents(file: Path) -> None:
    """What a file holds, whoever wrote it, is on the disk when this returns; its name may not be."""
    if _on:
        _sync(file, os.O_RDONLY)


def names(folder: Path) -> None:
    """Which names a folder holds, removed ones included, is on the disk when this returns."""
    if _on:
        _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


_libc = ctypes.CDLL(None, use_errno=True)


def everything(folders: Iterable[Path]) -> None:
    """All that anybody has written to the disks that these folders are on is there when this returns. Raises ``OSError`` where some of it could not be
    written: `sync` would not say so, and `syncfs` does (Linux 5.8 and later).
    """
    if _on and not all(map(_sync_disk, _one_of_each_disk(folders))):
        os.sync()


def _one_of_each_disk(folders: Iterable[Path]) -> list[Path]:
    return [*{folder.stat().st_dev: folder for folder in folders}.values()]


def _sync_disk(folder: Path) -> bool:
    """False where that cannot be asked for, as on macOS."""
    if not hasattr(_libc, "syncfs"):
        return False
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if _libc.syncfs(descriptor):
            number = ctypes.get_errno()
            if number in (*_NOT_OF_FOLDERS, errno.EPERM):
                return False
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(descriptor)
    return True


def files(written: Sequence[Path]) -> None:
    """Contents and names of these files."""
    if len(written) > _MANY:
        above = {file.parent for file in written}
        if not _on or all(map(_sync_disk, _one_of_each_disk(above))):
            return
    folders = dict[Path, None]()
    for file in written:
        contents(file)
        folders[file.parent] = None
    for folder in folders:
        names(folder)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are not there yet, with lasting names."""
    if folder.is_dir():  # as nearly always, and asked at each commit
        return
    new = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in new:
        names(one.parent)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: its fsync leaves it in the drive's own memory
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fsync(descriptor)
    except OSError as failure:
        # Some network disks know no such thing for a folder: its names are theirs to keep.
        if not (flags & os.O_DIRECTORY and failure.errno in _NOT_OF_FOLDERS):
            raise
    finally:
        os.close(descriptor)
