"""Of which table Spark is putting files together, in a lake on this machine's disk: noted before, and until all of it is on the disk.

Spark's OPTIMIZE commits by itself, and what it has written outlasts a power cut only once it was synced. No batch has made it, so the
manifest does not say where it begins: this note does. After a power cut it is taken back (``start/power_cut``), which changes no row, as
the files that were put together are still there. After a kill all of it is there, and is made lasting.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ingest.lake.delta import lasting_commits
from ingest.lake.files.storage import LocalFiles
from ingest.model.location import local_folder
from ingest.model.names import maintenance_path

_FILE = "rewriting.json"


@dataclass(frozen=True)
class Rewrite:
    """``table``: its folder; ``after``: its version before."""

    table: Path
    after: int


class UnfinishedRewrite:
    """Of one lake, in which one table at a time is put in order. The note is by the table's place in the lake, which may be moved. Elsewhere than on
    this machine's disk a commit is lasting at once, and nothing is noted.
    """

    def __init__(self, lake: str) -> None:
        self._lake = local_folder(lake)
        self._files = LocalFiles(maintenance_path(lake))

    def begin(self, path: str, after: int) -> None:
        """Spark is about to put a table's files together. Noted on the disk when this returns."""
        table = local_folder(path)
        if self._lake is not None and table is not None:
            said = {"table": str(table.relative_to(self._lake)), "after": after}
            self._files.write(_FILE, json.dumps(said))

    def end(self) -> None:
        """All of it is on the disk, or was taken back."""
        if self._lake is not None:
            self._files.delete(_FILE)

    def read(self) -> Rewrite | None:
        """What was begun and did not end."""
        if self._lake is None or (text := self._files.read(_FILE)) is None:
            return None
        said = json.loads(text)
        return Rewrite(self._lake / str(said["table"]), int(said["after"]))

    def settle(self) -> None:
        """Whoever began was killed, or failed, under this boot: what is there was written whole."""
        begun = self.read()
        if begun is None:
            return
        if (begun.table / "_delta_log").is_dir():
            lasting_commits.make_lasting(begun.table, begun.after + 1)
        self.end()
