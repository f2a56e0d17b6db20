"""Which versions of the lake's tables a batch is joined with: noted before anything of it is written, so that it joins the same when it comes again.

Spark reads a table that a stream is joined with as it is when it plans the batch, which is behind the moment at which it has noted how far the stream goes. So an event meets
what came to the table with it, if that was there by then; where it was not, the batch is planned once more. A version that is not published yet might still be taken back
(by a power cut), so a batch waits for the manifest to name it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from ingest.config.flow_settings import Flow
from ingest.flows import log_ends, published_batch, spark_plans, table_versions
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_record import FlowRecord
from ingest.lake.manifest.manifest_reader import Ledger
from ingest.model.location import local_folder
from ingest.model.manifest import Entry
from ingest.model.topics import TableId

_BACK = 100
"""Published batches that are looked back at."""


class OlderThanItsEventsError(Exception):
    """A table was read as it was before the events that it is joined with: the batch is planned again, with a newer version."""


@dataclass
class JoinedTables:
    """Of one flow."""

    folder: FlowFolder
    flow: Flow

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
        text = self.folder.noted(record, number)
        return json.loads(text) if text else None

    @cached_property
    def _ledger(self) -> Ledger:
        return Ledger(self.folder.pipeline.lake.path)

    def gone(self, session: SparkSession, record: FlowRecord, number: int) -> str:
        """Why a batch cannot be joined again as it was; empty where it can, or nothing was noted."""
        for path, version in (self.noted(record, number) or {}).items() if self.paths else ():
            if not table_versions.readable(session, path, version):
                return f"version {version} of {path}, which batch {number} was joined with, is gone"
        return ""

    def note(self, record: FlowRecord, number: int, execution: Any) -> None:
        """What the batch in hand is joined with, unless that was noted before. Raises :class:`OlderThanItsEventsError`, and :class:`IngestError`."""
        read = {_plainly(path): v for path, v in spark_plans.versions_read(execution).items()}
        used = {path: read[_plainly(path)] for path in self.paths if _plainly(path) in read}
        before = self.noted(record, number)
        known = before or {}
        if any(used[path] != version for path, version in known.items() if path in used):
            raise OlderThanItsEventsError(
                f"batch {number} was joined with {known}, and is with {used}"
            )
        # A function that was edited since may read other tables than it did.
        new = {path: version for path, version in used.items() if path not in known}
        if before is None or new:
            self._wait(record, number, new)
        if before is None or known.keys() != used.keys():
            self.folder.note(record, number, json.dumps(used))

    def _wait(self, record: FlowRecord, number: int, used: Mapping[str, int]) -> None:
        ends = log_ends.of(self.folder.offsets(record, number))
        entry = published_batch.newest(
            self._ledger, self.folder.name, lambda one: _holds(one, used, ends)
        )
        # The first published batch that holds all of the events: tables are to be as new as it has them.
        first, ids = entry, _ids(entry)
        for older in self._ledger.entries(_BACK, below=entry.batch_id) if ends else ():
            if not _holds(older, {}, ends):
                break
            first = older
        same = {path for path, id_ in _ids(first).items() if ids.get(path) == id_}
        published = {path: version for path, version in first.versions.items() if path in same}
        if ends and any(version < published.get(path, 0) for path, version in used.items()):
            raise OlderThanItsEventsError(f"batch {number} has events that are newer than {used}")


def _ids(entry: Entry) -> dict[str, str]:
    """By path: which table it was."""
    logs = {one.log.path: one.log.id for one in entry.tables.values() if one.log}
    return {one.path: one.id for one in entry.tables.values()} | logs


def _plainly(path: str) -> str:
    """Spark writes a local one as a URI."""
    return str(local_folder(path) or path)


def _holds(entry: Entry, used: Mapping[str, int], ends: Mapping[str, int]) -> bool:
    """Whether a batch of the manifest, or one before it, has published these versions, and change logs (by id) up to these."""
    logs = {one.log.id: one.log for one in entry.tables.values() if one.log}
    read = [(logs[id_].path, logs[id_].version, end) for id_, end in ends.items() if id_ in logs]
    joined = [(path, entry.versions.get(path), version) for path, version in used.items()]
    return all(published_batch.is_published(*one) for one in (*read, *joined))
