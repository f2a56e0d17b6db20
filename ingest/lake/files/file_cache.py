"""Data files of tables in an object store, on this machine's disk while they are worked on, and as long as there is room.

A data file never changes under its name, so what is here is right. What is in use stays; of the rest those go first that were used
longest ago. The folder is the process's own and goes with it; one that was killed leaves its own to the next.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import shutil
import tempfile
import threading
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

MOST = 4 * 2**30
"""Bytes of files that are not in use."""
_AT_ONCE = 8
"""Requests."""
_PREFIX = "ingest-lake-"
_LOCK = "lock"


@dataclass
class FileCache:
    """``root``: a folder of its own. Asked by many threads."""

    root: Path
    most: int = MOST
    _sizes: OrderedDict[Path, int] = field(default_factory=OrderedDict)
    """Of the files here, those used longest ago first."""
    _used: Counter[Path] = field(default_factory=Counter)
    """How many use a file now; of those that nobody uses it has none, since each commit brings new names."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def folder_of(self, place: str) -> Path:
        """Where a table's files lie."""
        folder = self.root / "tables" / hashlib.sha256(place.encode()).hexdigest()[:24]
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextmanager
    def kept(
        self, place: str, names: Sequence[str], fetch: Callable[[str, Path], None]
    ) -> Iterator[None]:
        """These files of a table are here meanwhile. ``fetch``: a name to a path. Raises what ``fetch`` does, ``OSError`` without room."""
        files = {self.folder_of(place) / name: name for name in names}
        with self._lock:
            self._used.update(files.keys())
            # Not by memory alone: cleaners of temporary folders remove what was not read for days.
            absent = [file for file in files if file not in self._sizes or not file.exists()]
        try:
            if absent:
                pool = ThreadPoolExecutor(_AT_ONCE)
                try:
                    list(pool.map(lambda file: self._fetched(file, files[file], fetch), absent))
                finally:
                    pool.shutdown(cancel_futures=True)
            with self._lock:
                for file in files:
                    self._sizes.move_to_end(file)
            yield
        finally:
            with self._lock:
                self._used -= Counter(files.keys())
                self._make_room()

    def _fetched(self, file: Path, name: str, fetch: Callable[[str, Path], None]) -> None:
        part = self.root / f"{uuid.uuid4().hex}.part"
        try:
            try:
                fetch(name, part)
            except OSError as failure:
                if failure.errno not in (errno.ENOSPC, errno.EDQUOT) or not self._give_all():
                    raise
                fetch(name, part)
            self._put(part, file)
        finally:
            part.unlink(missing_ok=True)

    def _give_all(self) -> bool:
        """Remove all that is not in use, for a disk that is full; False where there is nothing."""
        with self._lock:
            free = [file for file in self._sizes if not self._used[file]]
            for file in free:
                self._remove(file)
        return bool(free)

    def take(self, place: str, name: str, file: Path) -> None:
        """A file that was put there just now; it is moved. Raises ``OSError`` without room."""
        self._put(file, self.folder_of(place) / name)

    def forget(self, place: str, name: str) -> None:
        """A file that is no longer there."""
        with self._lock:
            self._remove(self.folder_of(place) / name)

    def _put(self, file: Path, to: Path) -> None:
        size = file.stat().st_size
        to.parent.mkdir(parents=True, exist_ok=True)
        with self._lock:
            shutil.move(file, to)
            self._sizes[to] = size

    def _make_room(self) -> None:
        held = sum(self._sizes.values())
        # Others need room on that disk, too, Spark among them.
        most = min(self.most, (held + shutil.disk_usage(self.root).free) // 2)
        left = held - most
        for file in list(self._sizes):
            if left <= 0:
                return
            if not self._used[file]:
                left -= self._sizes[file]
                self._remove(file)

    def _remove(self, file: Path) -> None:
        self._sizes.pop(file, None)
        with suppress(OSError):
            file.unlink()


@cache
def of_this_process() -> FileCache:
    """Made when it is first asked for; what processes have left that are gone is removed: nobody holds its lock any more. Not by their
    ids, which in a container are the same each time.
    """
    base = Path(tempfile.gettempdir())
    for left in base.glob(f"{_PREFIX}*"):
        with suppress(OSError), (left / _LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
    made = tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
    lock = (Path(made.name) / _LOCK).open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    _LIVES.extend((made, lock))
    return FileCache(Path(made.name))


_LIVES = list[object]()
"""The folder, which is removed as the process ends, and its lock."""
