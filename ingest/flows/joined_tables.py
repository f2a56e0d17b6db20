"""Which versions of the lake's tables a batch is joined with: noted before anything of it is written, so that it joins the same when it comes again.

Spark reads a table that a stream is joined with as it is when it plans the batch, which is behind the moment at which it has noted how far the stream goes. So an event meets
what came to the table with it, if that was there by then; where it was not, the batch is planned once more. A version that is not published yet might still be taken back
(by a power cut), so a batch waits for the manifest to name it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ingest.config.flow_settings import Flow
from ingest.flows import log_ends, spark_plans
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_record import FlowRecord
from ingest.lake.files.location import local_folder
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.errors import IngestError
from ingest.model.manifest import Entry
from ingest.model.topics import TableId

WAITS = 60.0
"""Seconds within which the mirrors are to publish what a flow has read already."""
_BACK = 100
"""Published batches that are looked back at."""


class OlderThanItsEventsError(Exception):
    """A table was read as it was before the events that it is joined with: the batch is planned again, with a newer version."""


@dataclass
class JoinedTables:
    """Of one flow."""

    folder: FlowFolder
    flow: Flow

    def __post_init__(self) -> None:
        self._ledger = Ledger(self.folder.pipeline.lake.path)

    @property
    def paths(self) -> dict[str, str]:
        """Of the lake's tables that the flow joins with: by path, the table. A history is its change log."""
        pipeline = self.folder.pipeline
        found = {}
        for one in self.flow.inputs.values():
            if one.table:
                found[pipeline.path(TableId.parse(one.table))] = one.table
            if one.history:
                found[pipeline.change_log_path(TableId.parse(one.history))] = one.history
        return found

    def noted(self, record: FlowRecord, number: int) -> dict[str, int] | None:
        """By path, what a batch was joined with; None where nothing was noted."""
        text = self.folder.cut(record, number)
        return json.loads(text) if text else None

    def note(self, record: FlowRecord, number: int, execution: Any) -> None:
        """What the batch in hand is joined with, unless that was noted before. Raises :class:`OlderThanItsEventsError`, and :class:`IngestError`."""
        read = {_plainly(path): v for path, v in spark_plans.versions_read(execution).items()}
        used = {path: read[_plainly(path)] for path in self.paths if _plainly(path) in read}
        before = self.noted(record, number)
        if before is None:
            self._wait(record, number, used)
            self.folder.keep_cut(record, number, json.dumps(used))
        elif before != used:
            raise OlderThanItsEventsError(
                f"batch {number} was joined with {before}, and is with {used}"
            )

    def _wait(self, record: FlowRecord, number: int, used: Mapping[str, int]) -> None:
        ends = log_ends.of(self.folder.offsets(record, number))
        until = time.monotonic() + WAITS
        while (entry := self._ledger.last()) is None or not _holds(entry, used, ends):
            if time.monotonic() > until:
                raise log_ends.unpublished(self.folder.name)
            time.sleep(0.1)
        first = entry
        for older in self._ledger.entries(_BACK, below=entry.batch_id):
            if not _holds(older, {}, ends):
                break
            first = older
        published = first.versions
        if any(version < published.get(path, 0) for path, version in used.items()):
            raise OlderThanItsEventsError(f"batch {number} has events that are newer than {used}")


def _plainly(path: str) -> str:
    """Spark writes a local one as a URI."""
    return str(local_folder(path) or path)


def _holds(entry: Entry, used: Mapping[str, int], ends: Mapping[str, int]) -> bool:
    """Whether a batch of the manifest, or one before it, has published these versions, and change logs (by id) up to these."""
    logs = {one.log.id: one.log.version for one in entry.tables.values() if one.log}
    versions = entry.versions
    return all(logs.get(id_, end) >= end for id_, end in ends.items()) and all(
        versions.get(path, version) >= version for path, version in used.items()
    )


def gone(name: str, number: int, path: str, version: int) -> IngestError:
    """A batch cannot be joined as it was."""
    return IngestError(
        "E-FLOW-JOINED",
        f"Batch {number} of the flow {name!r} was joined with version {version} of {path}, which is gone.",
        means="The batch cannot come again as it was, and nothing else was written.",
        remedy="say `on_change: restart` of the flow, and start it again; and run it more often than `lake.history_hours`.",
    )
