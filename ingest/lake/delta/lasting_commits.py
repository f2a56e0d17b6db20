"""Commits that Spark or delta-rs made by themselves, made to outlast a power cut.

What goes through a ``workspace`` is on the disk before its log entry is. Others write data, log entry and checkpoints as
they like, so all that a commit of theirs has written is made lasting after it, and before the manifest's row names its version
(``Committer``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

from ingest.lake.delta import deletion_vector, delta_log
from ingest.lake.files import durability
from ingest.model.location import is_local

POINTER = "_last_checkpoint"

_OF_VERSION = re.compile(r"\.?(\d{20})\.(?!.*\.(?:part|tmp)$).+")
"""A file of the log that belongs to a version, or the checksum that Hadoop keeps beside one; none that was still being made."""


def make_lasting(table: Path, start: int) -> None:
    """All that versions from ``start`` on have written, the log's own files among it, and the folders up to the table."""
    log = table / "_delta_log"
    of_log = [file for file in log.iterdir() if number(file.name) >= start]
    pointers = [log / POINTER, log / f".{POINTER}.crc"]
    data = [file for file in _data(table, of_log) if file.exists()]
    durability.files([*data, *of_log, *(one for one in pointers if one.exists())])
    folders = {parent for file in data for parent in file.relative_to(table).parents}
    above = (table, table.parent, table.parent.parent) if start == 0 else ()
    for folder in {*(table / one for one in folders), *above}:
        durability.names(folder)


def number(name: str) -> int:
    """The version that a file of the log belongs to; -1 for none."""
    found = _OF_VERSION.fullmatch(name)
    return int(found[1]) if found else -1


def _data(table: Path, of_log: Iterable[Path]) -> Iterator[Path]:
    """Data files and deletion vectors that these commits name, and Hadoop's checksums beside them."""
    for entry in (file for file in of_log if delta_log.is_commit(file.name)):
        for action in delta_log.lines(entry.read_bytes(), str(entry)):
            add = action.get("add")
            if add is None or not is_local(add["path"]):  # of another table, in a clone
                continue
            names = [unquote(add["path"]), deletion_vector.file_of(add.get("deletionVector"))]
            for name in filter(None, names):
                file = table / name
                yield from (file, file.with_name(f".{file.name}.crc"))
