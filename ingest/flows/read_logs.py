"""Whether a flow's change logs are still those that it has read: a folder may be gone and made again, or an older copy of it be put in its place.

Spark goes on behind the version of a log that it has read last. A log that went back comes to versions up to there once more, with other
changes, and Spark reads none of them and says nothing. So it is noted with each batch of which of the mirrors' batches that version is, and the next batch, or start, compares.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import SparkSession

from ingest.config.flow_settings import Flow
from ingest.flows import inputs, log_ends, published_batch
from ingest.flows.flow_folder import FlowFolder
from ingest.flows.flow_record import FlowRecord
from ingest.lake.delta.delta_log import TornCommitError
from ingest.lake.delta.delta_rs_table import within_reach
from ingest.lake.delta.spark_table import SparkTable
from ingest.lake.delta.table_handle import TableHandle
from ingest.lake.manifest.manifest_reader import Ledger

Noted = dict[str, tuple[int, int]]
"""By id of a log: the newest version that was read and is of a batch, and of which; the one that was read last, and 0, where none is found."""

_BACK = 10
"""Versions that are looked back at for one: those between are upkeep's."""


@dataclass
class ReadLogs:
    """Of one flow, in one run."""

    session: SparkSession
    folder: FlowFolder
    flow: Flow

    def lost(self, record: FlowRecord) -> str:
        """Why the flow cannot go on with a change log; empty where it can. One that is not there yet is waited for elsewhere. Raises
        :class:`IngestError` where it can once the mirrors have brought what a power cut took back.
        """
        offsets = self.folder.offsets(record, self.folder.logged(record))
        noted = self._noted(record)
        for (name, place), line in zip(record.fingerprint.inputs, offsets, strict=False):
            given = self.flow.inputs.get(name)
            if given is None or given.place != place or not given.change_log:
                continue
            for id_, end in log_ends.of([line]).items():
                log = self._logs.get(id_)
                if log is None and name in self._there:
                    return f"the change log of {given.change_log} was made again"
                version, batch = noted.get(id_, (end, 0))
                if log is not None and version > log.version():
                    if batch > self._published():
                        raise published_batch.unpublished(self.folder.name)
                    return f"the change log of {given.change_log} is older than what was read of it"
        return self._gone_back(noted)

    def note(self, record: FlowRecord, number: int) -> str:
        """How far the batch in hand reads, before anything of it is written. Returns why it cannot be gone on with; then nothing is noted."""
        if not self._logs:
            return ""
        if why := self._gone_back(self._noted(record)):
            return why
        ends = log_ends.of(self.folder.offsets(record, number))
        logs = [(id_, log.path, ends[id_]) for id_, log in self._logs.items() if id_ in ends]
        said = {id_: _newest(path, end) for id_, path, end in logs}
        self.folder.note_logs(record, json.dumps(said))
        return ""

    def _gone_back(self, noted: Noted) -> str:
        for id_, (version, batch) in noted.items():
            log = self._logs.get(id_)
            if log is None or not batch:
                continue
            if published_batch.batch_of(log.path, version) not in (0, batch):
                return f"the change log {log.path} went back, and has other changes where it was read already"
        return ""

    def _published(self) -> int:
        """The newest batch that is. What is not, a power cut may take back, and the mirrors bring it again."""
        entry = Ledger(self.folder.pipeline.lake.path).last()
        return entry.batch_id if entry is not None else 0

    def _noted(self, record: FlowRecord) -> Noted:
        """Empty for a flow of before it was noted, until its next batch."""
        said = json.loads(self.folder.logs_noted(record) or "{}")
        return {id_: (version, batch) for id_, (version, batch) in said.items()}

    @cached_property
    def _logs(self) -> dict[str, TableHandle]:
        """By id, those that are there."""
        return {log.id(): log for log in self._there.values()}

    @cached_property
    def _there(self) -> dict[str, TableHandle]:
        return dict(self._each())

    def _each(self) -> Iterator[tuple[str, TableHandle]]:
        pipeline = self.folder.pipeline
        for name, given in self.flow.inputs.items():
            if given.change_log:
                table = SparkTable(self.session, inputs.log_path(pipeline, given))
                if table.exists():
                    direct = None
                    with suppress(TornCommitError):
                        direct = within_reach(table, pipeline.lake.path)
                    yield name, direct or table


def _newest(path: str, end: int) -> tuple[int, int]:
    for version in range(end, max(end - _BACK, -1), -1):
        if batch := published_batch.batch_of(path, version):
            return version, batch
    return end, 0
