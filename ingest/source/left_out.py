"""Tables that the connector leaves out for the rest of a run, since its task fails at a change of theirs.

It is as if `source.tables` excluded them: the connector passes over their changes, all others go on. The next run finds that an
exclusion is gone, and takes each whole (``later_tables``). Kept in the lake, with why, from before the first change that is passed
over, so that whatever ends a run nothing is lost.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ingest.config.pipeline_file import Pipeline
from ingest.lake.files.storage import Files, files_at
from ingest.model.names import quoted, taken_path
from ingest.model.topics import TableId

_FILE = "left_out.json"


@dataclass(frozen=True)
class LeftOut:
    """Of one pipeline."""

    pipeline: Pipeline

    def tables(self) -> dict[str, str]:
        """Each with why."""
        text = self._files().read(_FILE)
        found: dict[str, str] = json.loads(text) if text else {}
        return found

    def patterns(self) -> tuple[str, ...]:
        """As `source.tables` would exclude them."""
        return tuple(map(excluding, map(TableId.parse, self.tables())))

    def add(self, table: TableId, why: str) -> None:
        """Leave this one out, too."""
        self._files().write(_FILE, json.dumps({**self.tables(), str(table): why}))

    def begin(self) -> None:
        """A run begins: they are taken in again."""
        if self.tables():
            self._files().write(_FILE, "{}")

    def _files(self) -> Files:
        return files_at(taken_path(self.pipeline.lake.path))


def excluding(table: TableId) -> str:
    """The pattern that excludes this table alone."""
    return f"!{quoted(table.database)}.{quoted(table.name)}"
