"""What outlasts a power cut.

A write that has returned is in the machine's memory. The kernel brings it to the disk within half a minute, in any order:
a power cut before that leaves names without content, contents without a name, later effects without earlier ones. So
each step of a batch makes lasting what it rests upon before the next one names it: data files, their names, the log
entry, its name, and the manifest's row last.

One setting for the whole process, as a process keeps one lake (``lake.sync`` of the pipeline file). Beyond this machine's
disk there is nothing to do: an object store answers when it holds the object.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_on = True


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


def files(written: Iterable[Path]) -> None:
    """Contents and names of these files."""
    folders = dict[Path, None]()
    for file in written:
        contents(file)
        folders[file.parent] = None
    for folder in folders:
        names(folder)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are not there yet, with lasting names."""
    new = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in new:
        names(one.parent)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
